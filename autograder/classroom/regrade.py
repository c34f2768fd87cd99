"""What a new grading changes: for whom, by how much, and by which check."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.classroom.gradebook import safe
from autograder.classroom.rows import Row
from autograder.reports.words import number


@dataclass(frozen=True)
class Change:
    """One hand-in whose points are others than the export says. `checks`: number → points before and now."""

    row: Row
    before: float
    now: float
    checks: dict[str, tuple[float, float]]
    told: bool  # whether the export holds points of single checks

    @property
    def reason(self) -> str:
        """The checks that make the difference, in one line."""
        if not self.told:
            return "the export holds no single checks"
        said = [f"{check} {number(before)} → {number(now)}" for check, (before, now) in self.checks.items()]
        return ", ".join(said) or "not by the points of checks: a change by hand, or a penalty"


def changes(rows: Iterable[Row]) -> list[Change]:
    """Every hand-in whose total or checks differ from what the export holds, largest difference first."""
    found = []
    for row in rows:
        earlier = row.handed.earlier
        if earlier is None or not row.graded:
            continue
        scores = {number: check.score for number, check in row.checks.items()}
        both = {
            key: (earlier.checks.get(key, 0.0), scores.get(key, 0.0))
            for key in dict.fromkeys([*scores, *earlier.checks])
            if earlier.checks and abs(earlier.checks.get(key, 0.0) - scores.get(key, 0.0)) > 1e-9
        }
        if both or abs(earlier.score - row.score) > 1e-9:
            found.append(Change(row, earlier.score, row.score, both, bool(earlier.checks)))
    return sorted(found, key=lambda change: (-abs(change.now - change.before), change.row.label))


def as_csv(found: Iterable[Change]) -> str:
    """`regrade.csv`: a row for each student."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["student", "sid", "hand-in", "before", "now", "difference", "by which check"])
    for change in found:
        points = [number(value) for value in (change.before, change.now, change.now - change.before)]
        for student in change.row.handed.students:
            who = [student.name, student.sid, change.row.label]
            writer.writerow([*map(safe, who), *points, safe(change.reason)])
    return "\ufeff" + text.getvalue()
