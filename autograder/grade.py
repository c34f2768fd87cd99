"""A Submission and a Lab in, a Record out: runs the checks one by one and keeps a whole record after each."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from autograder import __version__
from autograder.check import Check
from autograder.judge import Finding, Judge, said
from autograder.language import N_, say
from autograder.outputs import outline
from autograder.panels import panel
from autograder.result import HandIn, Record, Result, SectionTotal, Status, Where, points
from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.proxy import Files, Program
from autograder.source import Source
from autograder.submission import Submission

PRINTED_CAP = 2_000
TEXT_CAP = 4_000
MOST_NOTES = 40  # a record is written after every check, and thousands of notes help nobody
Sink = Callable[[Record], None]


def nowhere(record: Record) -> None:
    """A sink that keeps nothing."""


@dataclass(frozen=True)
class HandInSources:
    """The text side of a hand-in: what the grader reads, and what the guest runs."""

    sources: dict[str, Source]
    program: Program


def read_sources(submission: Submission, contract: dict[str, list[str]]) -> HandInSources:
    """The files of a hand-in as sources: repaired where a definition does not parse, with definitions only as fallback."""
    sources = {
        name.removesuffix(".py"): Source.read(data, name, submission.origins.get(name))
        for name, data in submission.files.items()
    }
    helpers = {name.removesuffix(".py"): Source.read(data, name) for name, data in submission.helpers.items()}
    sources = {module: replace(source, helpers=frozenset(helpers)) for module, source in sources.items()}
    files = {module: (source.name, source.text) for module, source in sources.items()}
    # An empty file in the place of a missing one: what imports from it still has its other parts.
    absent = {name.removesuffix(".py"): (name, "") for name in submission.missing}

    def definitions() -> Files:  # made only where it is needed: it costs more than all the rest
        return {module: (source.name, source.definitions_only()) for module, source in sources.items()} | absent

    beside = {module: (source.name, source.text) for module, source in helpers.items()}
    return HandInSources(sources, Program(files | absent, beside, definitions, contract))


class Grading:
    """One hand-in on its way through the checks of a lab."""

    def __init__(self, submission: Submission, judge: Judge, unsandboxed: Sequence[str] = ()) -> None:
        self.submission = submission
        self.unsandboxed = unsandboxed
        self.judge = judge
        self.lab = judge.lab
        self.student = judge.student
        self.statuses: dict[str, Status] = {}

    def run(self, sink: Sink = nowhere) -> Record:
        """Run every check in order. `sink` gets a whole, valid record before the first check and after each one."""
        started = time.monotonic()
        self.student.run_ends = started + self.lab.file.limits.seconds_per_run
        results: list[Result] = []
        self.keep(sink, results, started)
        for check in self.lab.checks:
            begun = time.monotonic()
            results.append(self.result(check, self.finding(check), begun))
            self.keep(sink, results, started)
        try:
            self.student.close()  # before the record is whole: nothing of the hand-in runs on beside its results
        except LaunchError as error:
            self.judge.faults.append(str(error))
        record = self.record(results, started).model_copy(update={"complete": True})
        sink(record)
        return record

    def keep(self, sink: Sink, results: list[Result], started: float) -> None:
        """Hand over what is known so far; what cannot be written now is in the next record, too."""
        if sink is not nowhere:  # to put a record together takes a millisecond
            with suppress(OSError):
                sink(self.record(results, started))

    def finding(self, check: Check) -> Finding:
        """What one check comes to, whatever happens."""
        blocker = next((gate for gate in check.after if self.statuses[gate] is not Status.PASSED), None)
        if self.out_of_time():
            return Finding(Status.NOT_RUN, say("The time of the whole run was used up before this check."))
        if blocker:
            gate = next(other for other in self.lab.checks if other.name == blocker)
            if self.statuses[blocker] is Status.ERROR:  # a constant may well pass what comes behind its gate
                gap = say(
                    "It builds on {number}, in which the grading machine failed. "
                    "Its points are not lost: ask your instructor to have the hand-in graded again.",
                    number=gate.number,
                )
                return Finding(Status.ERROR, gap, review=f"waits for {gate.number}")
            return Finding(Status.BLOCKED, blocked_by=gate.number)
        return self.judge.find(check)

    def out_of_time(self) -> bool:
        """Whether the run's budget is used up."""
        return self.student.run_ends is not None and time.monotonic() >= self.student.run_ends

    def result(self, check: Check, finding: Finding, begun: float) -> Result:
        """A finding as a result; remembers the status for the checks that come after."""
        # A fault of the check costs nothing, and what comes after it is judged as if it had passed.
        earned = finding.status is Status.PASSED or finding.stands
        self.statuses[check.name] = Status.PASSED if earned else finding.status
        where = finding.where if finding.status is Status.FAILED else None
        return Result(
            check=check.name,
            number=check.number,
            title=say(check.title),
            section=check.section,
            status=finding.status,
            score=check.points if earned else 0.0,
            max_score=check.points,
            extra_credit=self.lab.section(check).extra_credit,
            hidden=check.hidden,
            shown=check.shown,
            tags=check.tags,
            gap=writable(finding.gap),
            cause=finding.cause,
            mistakes=finding.mistakes,
            where=Where(place=writable(where.place), text=writable(where.text)) if where else None,
            read=f"{self.lab.handout}{check.read}" if check.read and finding.status is Status.FAILED else "",
            blocked_by=finding.blocked_by,
            printed=self.student.take_printed(PRINTED_CAP),
            panels=tuple(filter(None, map(panel, finding.seen))),
            review=writable(finding.review),
            output=outline(finding.tape) if finding.tape and not finding.mistakes else None,
            seconds=round(time.monotonic() - begun, 4),
        )

    def record(self, results: list[Result], started: float) -> Record:
        """All that is known so far, whole and valid."""
        done = {result.number for result in results}
        waiting = [self.result_not_run(check) for check in self.lab.checks if check.number not in done]
        everything = (*results, *waiting)
        sections = tuple(
            SectionTotal(
                number=section.number,
                title=say(section.title),
                score=points(result.score for result in everything if result.section == section.number),
                max_score=section.points,
                extra_credit=section.extra_credit,
            )
            for section in self.lab.file.sections
            if any(check.section == section.number for check in self.lab.checks)
        )
        return Record(
            lab=self.lab.name,
            title=say(self.lab.file.title),
            language=self.lab.language,
            hand_in=HandIn(
                name=writable(self.submission.name),
                digest=self.submission.digest,
                files=tuple(self.submission.files),
                missing=self.submission.missing,
            ),
            notes=self.notes(),
            faults=tuple(map(writable, self.judge.faults)),
            sandbox=self.student.layers | {"tried": "; ".join(self.unsandboxed) or "on"} if self.student.plan else {},
            versions=versions(self.student.zygote.torch_version),
            seed=self.lab.seed_digest() if self.lab.file.secret else "",
            sections=sections,
            results=everything,
            score=points(result.score for result in everything),
            max_score=points(check.points for check in self.lab.checks if not self.lab.section(check).extra_credit),
            extra_credit=points(result.score for result in everything if result.extra_credit),
            seconds=round(time.monotonic() - started, 3),
        )

    def result_not_run(self, check: Check) -> Result:
        """The result of a check before its turn has come."""
        return Result(
            check=check.name,
            number=check.number,
            title=say(check.title),
            section=check.section,
            status=Status.NOT_RUN,
            score=0.0,
            max_score=check.points,
            extra_credit=self.lab.section(check).extra_credit,
            hidden=check.hidden,
            shown=check.shown,
            tags=check.tags,
            gap=say("The grading ended before this check."),
        )

    def notes(self) -> tuple[str, ...]:
        """What is to be said about the hand-in as a whole."""
        notes = [note.text for note in self.submission.notes]
        for source in self.judge.sources.values():
            notes += [note.text for note in source.notes]
        absent = dict.fromkeys(name.partition(".")[0] for name in self.student.loaded["absent"])
        if absent:
            names = say(", ").join(absent)
            notes.append(say("Not installed in the grader: {names}. What does not use it is graded.", names=names))
        for module, error in self.student.loaded["errors"].items():
            own = self.judge.sources.get(module)
            name = own.name if own else f"{module}.py"
            line = error["line"]
            known = {"file": name, "error": said(error), "place": own.where(line) if own else f"{name}:{line}"}
            stopped_at = N_("The import of {file} stopped at {place} with {error}; what it had defined is graded.")
            stopped = N_("The import of {file} stopped with {error}; what it had defined is graded.")
            notes.append(say(stopped_at if line else stopped, **known))
        notes += self.student.notes
        told = tuple(dict.fromkeys(map(writable, notes)))
        more = len(told) - MOST_NOTES
        return (
            (*told[:MOST_NOTES], say("… and {number} more notes like these.", number=f"{more:,}")) if more > 0 else told
        )


def writable(text: str) -> str:
    """A text that every report can hold: without lone surrogates, which no file can, and not endless."""
    return text[:TEXT_CAP].encode("utf-8", "backslashreplace").decode()


def versions(torch_version: str) -> dict[str, str]:
    """What the result may depend on."""
    system = re.sub(r"\s+", " ", f"{platform.system()} {platform.machine()}")
    return {
        "autograder": __version__,
        "python": platform.python_version(),
        "torch": torch_version,
        "numpy": np.__version__,
        "system": system,
    }
