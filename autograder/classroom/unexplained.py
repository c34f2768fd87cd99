"""Equal wrong outputs that no mistake of the catalogue explains: what several students share is its next entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autograder.classroom.rows import CheckRow, Row
from autograder.outputs import same


@dataclass
class Cluster:
    """Hand-ins that gave the same wrong values in the same checks."""

    checks: list[str]
    rows: list[Row]

    @property
    def example(self) -> CheckRow:
        """What one of them gave, and where."""
        return self.rows[0].checks[self.checks[0]]


def clusters(rows: Sequence[Row], at_least: int = 2) -> list[Cluster]:
    """The clusters of a class, largest first. One that shows in several checks is told once, with the first of them."""
    found: dict[tuple[str, ...], Cluster] = {}
    numbers = dict.fromkeys(number for row in rows for number in row.checks)
    for number in numbers:
        for group in _in_check(rows, number):
            if len(group) >= at_least:
                labels = tuple(row.label for row in group)
                found.setdefault(labels, Cluster([], group)).checks.append(number)
    return sorted(found.values(), key=lambda cluster: -len(cluster.rows))


def _in_check(rows: Sequence[Row], number: str) -> list[list[Row]]:
    groups: list[list[Row]] = []
    for row in rows:
        check = row.checks.get(number)
        if check is None or check.output is None or check.mistakes:
            continue
        for group in groups:
            first = group[0].checks[number].output
            if first is not None and same(first, check.output):
                group.append(row)
                break
        else:
            groups.append([row])
    return groups
