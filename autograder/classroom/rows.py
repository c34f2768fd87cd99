"""What the grade book and the class report need of one hand-in: small enough to hold a class of thousands in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from autograder.classroom.exports import Export, HandedIn
from autograder.classroom.fingerprints import Prints
from autograder.lab import Lab
from autograder.result import Output, Record, Status, Where


@dataclass(frozen=True)
class CheckRow:
    """One check of one hand-in."""

    status: Status
    score: float
    mistakes: tuple[str, ...] = ()
    output: Output | None = None
    gap: str = ""
    where: Where | None = None


@dataclass(frozen=True)
class Row:
    """One hand-in. `trouble`: why it could not be graded, which is another thing than 0 points."""

    handed: HandedIn
    trouble: str = ""
    score: float = 0.0
    max_score: float = 0.0
    extra_credit: float = 0.0
    sections: dict[str, float] = field(default_factory=dict)
    checks: dict[str, CheckRow] = field(default_factory=dict)  # by number, in the order of the lab
    empty: bool = False  # nothing of it could be read as a file of the lab
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    review: tuple[str, ...] = ()
    unsandboxed: str = ""
    seconds: float = 0.0
    fresh: bool = True  # graded in this run, not kept from an earlier one
    page: str = ""  # the file with the student's feedback

    @property
    def graded(self) -> bool:
        """Whether it has points at all."""
        return not self.trouble

    @property
    def label(self) -> str:
        """Unique in its class."""
        return self.handed.label

    @property
    def mistakes(self) -> dict[str, str]:
        """Each mistake that was named, with the number of the first check that did."""
        found: dict[str, str] = {}
        for number, check in self.checks.items():
            for name in check.mistakes:
                found.setdefault(name, number)
        return found

    def failed(self) -> list[str]:
        """The numbers of the checks that failed."""
        return [number for number, check in self.checks.items() if check.status is Status.FAILED]


def row(handed: HandedIn, record: Record, fresh: bool, page: str, unsandboxed: str = "") -> Row:
    """The row of a record."""
    return Row(
        handed=handed,
        score=record.score,
        max_score=record.max_score,
        extra_credit=record.extra_credit,
        sections={section.number: section.score for section in record.sections},
        checks={
            result.number: CheckRow(
                status=result.status,
                score=result.score,
                mistakes=result.mistakes,
                output=result.output,
                gap=result.gap if result.status is Status.FAILED else "",
                where=result.where,
            )
            for result in record.results
        },
        empty=not record.hand_in.files,
        notes=record.notes,
        faults=record.faults,
        review=tuple(f"{result.number}: {result.review}" for result in record.results if result.review),
        unsandboxed=unsandboxed,
        seconds=record.seconds,
        fresh=fresh,
        page=page,
    )


@dataclass
class GradedClass:
    """A class after its grading."""

    lab: Lab
    export: Export
    rows: list[Row]
    prints: Prints
    seconds: float
    workers: int
    coded: bool = False
    written: list[Path] = field(default_factory=list)
