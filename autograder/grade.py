"""A Submission and a Lab in, a Record out: runs the checks one by one and turns what happens into Results.

Everything that can go wrong in a check has one place here, `Grading.judge`: the student's code raised, hung or died; a value
is not what is expected; a rule is broken; the reference failed, which is the grader's fault and costs nothing.
"""

from __future__ import annotations

import ast
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder import __version__
from autograder.check import Check, Mismatch, NeedsReview, RuleBroken
from autograder.lab import Lab
from autograder.probes import Probes
from autograder.result import HandIn, Record, Result, SectionTotal, Status, Where, points
from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.proxy import Interpreter, Live, NoAnswer, Oracle, OutOfTime, Program, Remote
from autograder.source import Source
from autograder.submission import Submission

PRINTED_CAP = 2_000
Sink = Callable[[Record], None]


@dataclass(frozen=True)
class Finding:
    """What one run of a check function came to."""

    status: Status
    gap: str = ""
    where: Where | None = None
    review: str = ""
    blocked_by: str = ""


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
    files = {module: (source.name, source.text) for module, source in sources.items()}
    fallback = {module: (source.name, source.definitions_only()) for module, source in sources.items()}
    for name in submission.missing:  # an empty file in its place: what imports from it still has its other parts
        files[name.removesuffix(".py")] = fallback[name.removesuffix(".py")] = (name, "")
    beside = {module: (source.name, source.text) for module, source in helpers.items()}
    return HandInSources(sources, Program(files, beside, fallback, contract))


class Grading:
    """One hand-in on its way through the checks of a lab."""

    def __init__(
        self, lab: Lab, submission: Submission, sources: dict[str, Source], student: Live, reference: Interpreter
    ) -> None:
        self.lab = lab
        self.submission = submission
        self.student = student
        self.oracle = Oracle(reference)
        self.sources = sources
        self.statuses: dict[str, Status] = {}
        self.faults: list[str] = []
        self.roots: dict[tuple[str, str, int, str], str] = {}  # what stopped a call, and which check said so first

    def run(self, sink: Sink = lambda record: None) -> Record:
        """Run every check in order. `sink` gets a whole, valid record before the first check and after each one."""
        started = time.monotonic()
        self.student.run_ends = started + self.lab.file.limits.seconds_per_run
        results: list[Result] = []
        sink(self.record(results, started))
        for check in self.lab.checks:
            results.append(self.judge(check))
            sink(self.record(results, started))
        record = self.record(results, started).model_copy(update={"complete": True})
        sink(record)
        return record

    def judge(self, check: Check) -> Result:
        """The result of one check, whatever happens."""
        begun = time.monotonic()
        blocker = next((gate for gate in check.after if self.statuses[gate] is not Status.PASSED), None)
        if self.out_of_time():
            finding = Finding(Status.NOT_RUN, "The time of the whole run was used up before this check.")
        elif blocker:
            gate = next(other for other in self.lab.checks if other.name == blocker)
            finding = Finding(Status.BLOCKED, blocked_by=gate.number)
        else:
            finding = self.find(check)
        return self.result(check, finding, begun)

    def find(self, check: Check) -> Finding:
        """Run a check on its public probe and, where it passes, on a secret one: a pasted answer fits the first only."""
        try:
            missing = self.missing(check)
            if missing:
                return missing
            finding = self.attempt(check, secret=check.hidden)
            pasted = finding.status is Status.PASSED and self.lab.file.secret and "probes" in check.needs
            if pasted and not check.hidden:
                second = self.attempt(check, secret=True)
                if second.status is Status.FAILED:
                    gap = f"Right on the inputs of check.py, wrong on others of the same shape: {second.gap}"
                    return Finding(Status.FAILED, gap, second.where)
                return second
            return finding
        except OutOfTime:
            return Finding(Status.NOT_RUN, "The time of the whole run was used up during this check.")
        except LaunchError as error:
            self.faults.append(f"{check.number}: {error}")
            gap = "The grader could not start your code. This is a fault of the grader."
            return Finding(Status.ERROR, gap, review=str(error))

    def missing(self, check: Check) -> Finding | None:
        """Why the target cannot be judged at all: its file is not there, or never came to define it."""
        if check.module not in self.sources:
            return Finding(Status.FAILED, f"{check.module}.py was not handed in.")
        try:
            self.student.ask("begin", seed=0)
        except NoAnswer as error:
            return self.no_answer(error, check)
        if check.target in self.student.loaded["names"].get(check.module, ()):
            return None
        source = self.sources[check.module]
        stopped = self.student.loaded["errors"].get(check.module)
        if not stopped:
            return Finding(Status.FAILED, f"`{check.target}` is not defined in {source.name}.")
        line = int(stopped["line"]) if stopped["file"] == source.name else 0
        where = self.place(source, line) if line else None
        why = f"the import of {source.name} stopped before it, with {_said(stopped)}"
        return Finding(Status.FAILED, f"`{check.target}` does not exist: {why}", where)

    def attempt(self, check: Check, secret: bool) -> Finding:
        """One run of a check function."""
        probes = Probes(self.lab.probe_seed(check, secret))
        try:
            self.student.ask("begin", seed=probes.seed)
            self.oracle.ask("begin", seed=probes.seed)
            self.call(check, probes, Remote(self.student, self.lab.main_module))
            return Finding(Status.PASSED)
        except NeedsReview as review:
            return Finding(Status.PASSED, review=str(review))
        except RuleBroken as broken:
            line = broken.line
            where = self.place(self.sources[check.module], line) if line else self.target(check)
            return Finding(Status.FAILED, broken.gap, where)
        except Mismatch as mismatch:
            return Finding(Status.FAILED, mismatch.gap, self.target(check))
        except NoAnswer as error:
            return self.no_answer(error, check)
        except (OutOfTime, LaunchError):
            raise
        except Exception as error:  # of the check itself, or of the reference on what the check handed it
            return self.fault(check, secret, error)

    def call(self, check: Check, probes: Probes, student: Remote) -> None:
        """Call a check function with what it asks for."""
        resources: dict[str, Any] = {
            "student": student,
            "reference": Remote(self.oracle, self.lab.main_module, lift=True),
            "probes": probes,
            "source": self.sources.get(check.module),
            "questions": self.lab.questions,
        }
        with np.errstate(all="ignore"):  # a student's NaN is a finding, not a warning of ours
            check.function(**{need: resources[need] for need in check.needs})

    def fault(self, check: Check, secret: bool, error: Exception) -> Finding:
        """Whose fault is an unexpected exception? The reference, put in the student's place, tells."""
        probes = Probes(self.lab.probe_seed(check, secret))
        said = f"{type(error).__name__}: {error}"
        try:
            self.oracle.ask("begin", seed=probes.seed)
            self.call(check, probes, Remote(self.oracle, self.lab.main_module))
        except Exception as second:
            again = f"with the reference in the student's place: {type(second).__name__}: {second}"
            self.faults.append(f"{check.number} {check.name}: {said}; {again}")
            gap = "The grader failed in this check. It costs you no points; the staff can see why."
            return Finding(Status.ERROR, gap, review=said)
        gap = "A value that came back cannot be judged: it is not of the form that the handout asks for."
        return Finding(Status.FAILED, gap, self.target(check), review=said)

    def no_answer(self, error: NoAnswer, check: Check) -> Finding:
        """A call that gave no value, in one sentence with the student's line."""
        source = next((found for found in self.sources.values() if found.name == error.file), None)
        line = error.line
        if source and error.kind == "time":
            line = loop_around(source, line)  # wherever in it the kill came: the same hand-in gives the same result
        where = self.place(source, line) if source and line else self.target(check)
        if error.kind == "missing":
            return Finding(Status.BLOCKED, f"{error.message[0].upper()}{error.message[1:]}.")
        root = (error.kind, error.file, line, error.message)
        if line and root in self.roots:  # one root cause once: the line has been shown
            return Finding(Status.BLOCKED, blocked_by=self.roots[root])
        self.roots[root] = check.number
        if error.kind == "unfinished":
            return Finding(Status.FAILED, f"Not written yet. {error.message}", where)
        if error.kind == "raised":
            return Finding(Status.FAILED, f"Your code raised {error.message}", where)
        return Finding(Status.FAILED, f"The call gave no result: {error.message}.", where)

    def target(self, check: Check) -> Where | None:
        """The line at which the judged symbol is defined."""
        source = self.sources.get(check.module)
        span = source.find(check.target) if source else None
        return self.place(source, span.line) if source and span else None

    def place(self, source: Source, line: int) -> Where:
        """A line of the hand-in."""
        return Where(place=source.where(line), text=source.line(line).strip()[:200])

    def out_of_time(self) -> bool:
        """Whether the run's budget is used up."""
        return self.student.run_ends is not None and time.monotonic() >= self.student.run_ends

    def result(self, check: Check, finding: Finding, begun: float) -> Result:
        """A finding as a result; remembers the status for the checks that come after."""
        # A fault of the grader costs nothing, and what comes after it is judged as if it had passed.
        earned = finding.status in (Status.PASSED, Status.ERROR)
        self.statuses[check.name] = Status.PASSED if earned else finding.status
        printed, self.student.printed = self.student.printed[:PRINTED_CAP], ""
        return Result(
            check=check.name,
            number=check.number,
            title=check.title,
            section=check.section,
            status=finding.status,
            score=check.points if earned else 0.0,
            max_score=check.points,
            extra_credit=self.lab.section(check).extra_credit,
            hidden=check.hidden,
            shown=check.shown,
            tags=check.tags,
            gap=finding.gap,
            where=finding.where if finding.status is Status.FAILED else None,
            read=f"README.md{check.read}" if check.read and finding.status is Status.FAILED else "",
            blocked_by=finding.blocked_by,
            printed=printed,
            review=finding.review,
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
                title=section.title,
                score=points(result.score for result in everything if result.section == section.number),
                max_score=section.points,
                extra_credit=section.extra_credit,
            )
            for section in self.lab.file.sections
            if any(check.section == section.number for check in self.lab.checks)
        )
        return Record(
            lab=self.lab.name,
            title=self.lab.file.title,
            hand_in=HandIn(
                name=self.submission.name,
                digest=self.submission.digest,
                files=tuple(self.submission.files),
                missing=self.submission.missing,
            ),
            notes=self.notes(),
            faults=tuple(self.faults),
            sandbox=dict(self.student.layers),
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
            title=check.title,
            section=check.section,
            status=Status.NOT_RUN,
            score=0.0,
            max_score=check.points,
            extra_credit=self.lab.section(check).extra_credit,
            hidden=check.hidden,
            shown=check.shown,
            tags=check.tags,
            gap="The grading ended before this check.",
        )

    def notes(self) -> tuple[str, ...]:
        """What is to be said about the hand-in as a whole."""
        said = [note.text for note in self.submission.notes]
        for source in self.sources.values():
            said += [note.text for note in source.notes]
        for module, error in self.student.loaded["errors"].items():
            if module in self.sources:
                place = self.sources[module]
                at = f" at {place.where(error['line'])}" if error["line"] else ""
                said.append(
                    f"The import of {place.name} stopped{at} with {_said(error)}; what it had defined is graded."
                )
        said += self.student.notes
        return tuple(dict.fromkeys(said))


def loop_around(source: Source, line: int) -> int:
    """The line of the outermost loop that a line stands in, or the line itself."""
    loops = [node for node in ast.walk(source.tree) if isinstance(node, (ast.For, ast.While, ast.AsyncFor))]
    around = [node.lineno for node in loops if node.lineno <= line <= (node.end_lineno or 0)]
    return min(around, default=line)


def _said(error: dict[str, Any]) -> str:
    return f"{error['type']}: {error['message']}" if error["message"] else str(error["type"])


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
