"""The class report: one HTML file that needs nothing else, for whoever decides what to teach again on Monday."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from autograder.classroom.gradebook import status
from autograder.classroom.regrade import Change
from autograder.classroom.rows import CheckRow, GradedClass, Row
from autograder.classroom.unexplained import clusters
from autograder.lab import Lab
from autograder.reports.feedback import environment
from autograder.reports.words import SYMBOLS, number
from autograder.result import Status

BINS = 10
SLOWEST = 5
CLASSES = {
    Status.PASSED: "p",
    Status.FAILED: "f",
    Status.BLOCKED: "b",
    Status.ERROR: "e",
    Status.NOT_RUN: "n",
}


@dataclass(frozen=True)
class Bin:
    """One bar of the distribution of points."""

    label: str
    count: int
    height: float  # percent of the tallest


@dataclass(frozen=True)
class Made:
    """One mistake of the catalogue and who made it."""

    name: str
    check: str
    says: str
    rows: list[Row]
    example: CheckRow | None


@dataclass(frozen=True)
class Told:
    """What checks told by themselves, without a name from the catalogue, and whom."""

    says: str
    checks: list[str]
    rows: list[Row]
    example: CheckRow


@dataclass(frozen=True)
class CheckTotal:
    """One check over the whole class, in counts of hand-ins."""

    number: str
    title: str
    points: float
    hidden: bool
    passed: int
    failed: int
    blocked: int
    remark: str


def page(graded: GradedClass, changed: Sequence[Change]) -> str:
    """The report as HTML."""
    rows = [row for row in graded.rows if row.graded]
    scores = [row.score for row in rows]
    return environment(Path(__file__).parent).get_template("class.html").render(
        lab=graded.lab,
        kind=graded.export.kind,
        rows=graded.rows,
        students=sum(len(row.handed.students) for row in graded.rows),
        coded=graded.coded,
        mean=mean(scores) if scores else 0.0,
        median=median(scores) if scores else 0.0,
        extra=sum(section.points for section in graded.lab.file.sections if section.extra_credit),
        full=sum(row.score - row.extra_credit >= row.max_score for row in rows),
        bins=distribution(scores, graded.lab.max_score),
        sections=section_totals(rows, graded.lab),
        mistakes=mistakes(rows, graded.lab),
        told=told(rows),
        unexplained=clusters(rows),
        checks=check_totals(rows, graded.lab),
        titles={check.number: check.title for check in graded.lab.checks},
        similar=graded.prints.groups(),
        changed=changed,
        slowest=sorted(rows, key=lambda row: -row.seconds)[:SLOWEST],
        seconds=graded.seconds,
        look=to_look_at(graded),
        symbols=SYMBOLS,
        classes=CLASSES,
        status=status,
        all_statuses=sorted({status(row) for row in graded.rows}),
        statuses=list(Status),
    )


def to_look_at(graded: GradedClass) -> list[tuple[str, list[str]]]:
    """What a person must decide, under headings."""
    rows = graded.rows
    return [
        ("Not graded", [f"{row.label}: {row.trouble}" for row in rows if not row.graded]),
        ("Faults of the grader", [f"{row.label}: {fault}" for row in rows for fault in row.faults]),
        ("For a review", [f"{row.label}: {review}" for row in rows for review in row.review]),
        (
            "Nothing found in the hand-in",
            [f"{row.label}: {' '.join(row.notes)}" for row in rows if row.graded and row.empty],
        ),
        ("Not understood in the export", [f"{item.what} {item.why}" for item in graded.export.not_understood]),
        ("Not fully sandboxed", sorted({row.unsandboxed for row in rows} - {""})),
    ]


def distribution(scores: Sequence[float], most: float) -> list[Bin]:
    """How many hand-ins lie in each tenth of the points; the last holds full marks and more."""
    width = most / BINS if most else 1.0
    counts = [0] * BINS
    for score in scores:
        counts[min(BINS - 1, int(score / width))] += 1
    tallest = max([*counts, 1])
    ends = [*((at + 1) * width for at in range(BINS - 1)), max([most, *scores])]  # with extra credit, the last is wider
    return [
        Bin(f"{number(at * width)}–{number(ends[at])}", count, 100 * count / tallest) for at, count in enumerate(counts)
    ]


def section_totals(rows: Sequence[Row], lab: Lab) -> list[tuple[str, float, int]]:
    """Each section's title, the mean share of its points, and how many got none of them."""
    totals = []
    for section in lab.file.sections:
        got = [row.sections.get(section.number, 0.0) for row in rows]
        share = mean(got) / section.points if got and section.points else 0.0
        extra = " (extra credit)" if section.extra_credit else ""
        totals.append((f"{section.number} {section.title}{extra}", share, sum(not points for points in got)))
    return totals


def mistakes(rows: Sequence[Row], lab: Lab) -> list[Made]:
    """Every mistake that was named in the class, most frequent first."""
    made = []
    for item in lab.mistakes:
        holders = [row for row in rows if item.name in row.mistakes]
        if holders:
            check = holders[0].mistakes[item.name]
            lines = [row.checks[row.mistakes[item.name]] for row in holders]
            example = next((line for line in lines if line.where and line.where.text), None)
            made.append(Made(item.name, check, item.says, holders, example))
    return sorted(made, key=lambda item: -len(item.rows))


def told(rows: Sequence[Row]) -> list[Told]:
    """Every sentence that says by itself what is wrong: a rule that was broken, an exception, a part that is not written.

    Most frequent first. Values that differ are not among them: they have a mistake's name, or are unexplained.
    """
    found: dict[str, Told] = {}
    for row in rows:
        for at, check in row.checks.items():
            if check.status is not Status.FAILED or check.mistakes or check.output or not check.gap:
                continue
            one = found.setdefault(check.gap, Told(check.gap, [], [], check))
            if at not in one.checks:
                one.checks.append(at)
            if not one.rows or one.rows[-1] is not row:
                one.rows.append(row)
    return sorted(found.values(), key=lambda item: -len(item.rows))


def check_totals(rows: Sequence[Row], lab: Lab) -> list[CheckTotal]:
    """Each check of the lab over the class."""
    totals = []
    for check in lab.checks:
        found = [row.checks[check.number].status for row in rows if check.number in row.checks]
        passed = found.count(Status.PASSED)
        remark = ""
        if found and passed == len(found):
            remark = "everybody passes: it tells nothing here"
        elif found and not passed:
            remark = "nobody passes: look at the check, and at the handout"
        blocked = found.count(Status.BLOCKED)
        failed = found.count(Status.FAILED)
        totals.append(
            CheckTotal(check.number, check.title, check.points, check.hidden, passed, failed, blocked, remark)
        )
    return totals
