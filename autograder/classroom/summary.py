"""What is said in the terminal when a class is graded."""

from __future__ import annotations

from statistics import median

from rich.console import Console
from rich.text import Text

from autograder.classroom.exports import NotUnderstood
from autograder.classroom.gradebook import Filled
from autograder.classroom.regrade import Change
from autograder.classroom.rows import GradedClass, Row
from autograder.reports.words import number, plain

MOST = 12


def render(graded: GradedClass, changed: list[Change], filled: Filled | None) -> None:
    """Counts, then everything that a person must look at, then the files."""
    console = Console(highlight=False)
    for line in lines(graded, changed, filled):
        console.print(Text(line))


def lines(graded: GradedClass, changed: list[Change], filled: Filled | None) -> list[str]:
    """The summary, line by line."""
    rows = graded.rows
    done = [row for row in rows if row.graded]
    fresh = [row for row in done if row.fresh]
    said = [f"{graded.lab.file.title}: {len(rows)} hand-ins ({graded.export.kind}) of {_students(rows)} students"]
    pace = f", {graded.seconds / len(fresh):.2f} s each" if fresh and len(fresh) == len(done) else ""
    said.append(
        f"{len(fresh)} graded now with {graded.workers} worker{'s' * (graded.workers != 1)} in {graded.seconds:.0f} s"
        f"{pace}; {len(done) - len(fresh)} had a result already; {len(rows) - len(done)} not graded"
    )
    if done:
        scores = [row.score for row in done]
        said.append(f"points: median {number(median(scores))}, from {number(min(scores))} to {number(max(scores))}")
    said += _some("not graded", [f"{row.label}: {row.trouble}" for row in rows if not row.graded])
    said += _some("faults of the grader", [f"{row.label}: {row.faults[0]}" for row in rows if row.faults])
    said += _some("to review", [f"{row.label}: {row.review[0]}" for row in rows if row.review])
    said += _some("not fully sandboxed", sorted({row.unsandboxed for row in rows} - {""}))
    said += _some("not understood", [_not_understood(item) for item in graded.export.not_understood])
    if changed:
        who = [f"{c.row.label}: {number(c.before)} → {number(c.now)} ({c.reason})" for c in changed]
        said += _some("other points than in the export", who)
    if filled:
        said.append(f"Canvas: {filled.placed} points put into {filled.column!r}")
        said += filled.remarks
        said += _some("Canvas held other points", filled.overwritten)
        said += _some("in Canvas, without points", filled.without_points)
        said += _some("handed in, and not found in Canvas", filled.not_in_canvas)
    said.append("written: " + ", ".join(map(str, graded.written)))
    return [plain(line) for line in said]


def _students(rows: list[Row]) -> int:
    return sum(len(row.handed.students) for row in rows)


def _not_understood(item: NotUnderstood) -> str:
    return f"{item.what} {item.why}"


def _some(title: str, found: list[str]) -> list[str]:
    """A heading with its count, and the first lines; the rest stands in class.html."""
    more = [f"  and {len(found) - MOST} more, see class.html"] if len(found) > MOST else []
    return [f"{title}: {len(found)}", *(f"  {line}" for line in found[:MOST]), *more] if found else []
