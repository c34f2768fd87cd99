"""One check of one hand-in: what happened, in words that its author can use.

Everything that can go wrong in a check has one place here, `Judge.attempt`: the student's code raised, hung or died; a value
is not what is expected; a rule is broken; the reference failed, which is the grader's fault and costs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder import diagnose
from autograder.check import Check, Mismatch, NeedsReview, RuleBroken
from autograder.diagnose import Mistake, Tape
from autograder.lab import Lab
from autograder.probes import Probes
from autograder.result import Status, Where
from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.proxy import Interpreter, Live, NoAnswer, Oracle, OutOfTime, Remote
from autograder.source import Source


@dataclass(frozen=True)
class Finding:
    """What a check came to."""

    status: Status
    gap: str = ""
    where: Where | None = None
    cause: str = ""
    mistakes: tuple[str, ...] = ()
    review: str = ""
    blocked_by: str = ""
    tape: Tape | None = None  # of values that differ: what a diagnosis starts from


class Judge:
    """Runs check functions against a student's guest and a reference."""

    def __init__(
        self,
        lab: Lab,
        sources: dict[str, Source],
        student: Live,
        reference: Interpreter,
        mistaken: diagnose.Answers | None = None,
    ) -> None:
        self.lab = lab
        self.sources = sources
        self.student = student
        self.oracle = Oracle(reference)
        self.mistaken = mistaken
        self.faults: list[str] = []
        self.roots: dict[tuple[str, str, int, str], str] = {}  # what stopped a call, and which check said so first
        self.passed: set[str] = set()
        self.causes: dict[tuple[str, ...], str] = {}  # which mistakes were named, and in which check

    def find(self, check: Check) -> Finding:
        """What a check comes to, whatever happens."""
        finding = self.run(check)
        if finding.status is Status.PASSED:
            self.passed.add(check.name)
        return finding

    def run(self, check: Check) -> Finding:
        """Run a check on its first draw; where it passes, on a second: a pasted answer fits only the first."""
        try:
            missing = self.missing(check)
            if missing:
                return missing
            first, second = self.lab.draws(check)
            finding = self.attempt(check, first)
            if (
                finding.status is Status.PASSED
                and self.lab.file.secret
                and "probes" in check.needs
                and not check.hidden
            ):
                again = self.attempt(check, second)
                if again.status is Status.FAILED:
                    gap = f"Right on the inputs of check.py, wrong on others of the same shape: {again.gap}"
                    return replace(again, gap=gap, tape=None)
                return again
            return self.diagnosed(check, finding) if finding.tape else finding
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
        where = place(source, line) if line else None
        why = f"the import of {source.name} stopped before it, with {said(stopped)}"
        return Finding(Status.FAILED, f"`{check.target}` does not exist: {why}", where)

    def attempt(self, check: Check, draw: str) -> Finding:
        """One run of a check function on the probes of one draw."""
        probes = Probes(draw)
        tape = Tape(self.student)
        try:
            self.student.ask("begin", seed=probes.seed)
            self.oracle.ask("begin", seed=probes.seed)
            self.call(check, probes, Remote(tape, self.lab.main_module))
            return Finding(Status.PASSED)
        except NeedsReview as review:
            return Finding(Status.PASSED, review=str(review))
        except RuleBroken as broken:
            line = broken.line
            where = place(self.sources[check.module], line) if line else self.target(check)
            return Finding(Status.FAILED, broken.gap, where)
        except Mismatch as mismatch:
            return Finding(Status.FAILED, mismatch.gap, self.target(check), tape=tape)
        except NoAnswer as error:
            return self.no_answer(error, check)
        except (OutOfTime, LaunchError):
            raise
        except Exception as error:  # of the check itself, or of the reference on what the check handed it
            return self.fault(check, draw, error)

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

    def diagnosed(self, check: Check, finding: Finding) -> Finding:
        """A finding of wrong values with its cause, where a mistake gives the same values on both draws."""
        # A mistake whose own check has passed was not made, whatever it may give here.
        candidates = [
            item
            for item in self.lab.mistakes
            if item.of == check.target and item.told == "cause" and item.caught_by not in self.passed
        ]
        if not candidates or self.mistaken is None or finding.tape is None or "question" in check.tags:
            return finding
        first, second = self.lab.draws(check)
        tapes = [(finding.tape, Probes(first).seed), (self.taped(check, second), Probes(second).seed)]
        named = diagnose.explain(candidates, tapes, self.mistaken)
        if not named:
            return finding
        names = tuple(item.name for item in named)
        if names in self.causes:
            return replace(finding, mistakes=names, cause=f"The same as in {self.causes[names]}.")
        self.causes[names] = check.number
        cause = " And: ".join(item.says for item in named)
        return replace(finding, mistakes=names, cause=cause, where=self.look(check, named) or finding.where)

    def taped(self, check: Check, draw: str) -> Tape:
        """What a check asks the student on another draw, and what comes back; its verdict does not matter here."""
        probes = Probes(draw)
        tape = Tape(self.student)
        try:
            self.student.ask("begin", seed=probes.seed)
            self.oracle.ask("begin", seed=probes.seed)
            self.call(check, probes, Remote(tape, self.lab.main_module))
        except (OutOfTime, LaunchError):
            raise
        except Exception:  # every other end of the check leaves a tape up to there, which is what is wanted
            return tape
        return tape

    def look(self, check: Check, named: Iterable[Mistake]) -> Where | None:
        """The student's first line that uses one of the names that a mistake points at."""
        source = self.sources[check.module]
        for item in named:
            lines = source.lines_calling(check.target, item.look) if item.look else []
            if lines:
                return place(source, lines[0])
        return None

    def fault(self, check: Check, draw: str, error: Exception) -> Finding:
        """Whose fault is an unexpected exception? The reference, put in the student's place, tells."""
        probes = Probes(draw)
        first = f"{type(error).__name__}: {error}"
        try:
            self.oracle.ask("begin", seed=probes.seed)
            self.call(check, probes, Remote(self.oracle, self.lab.main_module))
        except Exception as second:
            again = f"with the reference in the student's place: {type(second).__name__}: {second}"
            self.faults.append(f"{check.number} {check.name}: {first}; {again}")
            gap = "The grader failed in this check. It costs you no points; the staff can see why."
            return Finding(Status.ERROR, gap, review=first)
        gap = "A value that came back cannot be judged: it is not of the form that the handout asks for."
        return Finding(Status.FAILED, gap, self.target(check), review=first)

    def no_answer(self, error: NoAnswer, check: Check) -> Finding:
        """A call that gave no value, in one sentence with the student's line."""
        source = next((found for found in self.sources.values() if found.name == error.file), None)
        line = error.line
        if source and error.kind == "time":
            line = loop_around(source, line)  # wherever in it the kill came: the same hand-in gives the same result
        where = place(source, line) if source and line else self.target(check)
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
        return place(source, span.line) if source and span else None


def place(source: Source, line: int) -> Where:
    """A line of the hand-in."""
    return Where(place=source.where(line), text=source.line(line).strip()[:200])


def said(error: dict[str, Any]) -> str:
    """An exception that stopped an import, in Python's words."""
    return f"{error['type']}: {error['message']}" if error["message"] else str(error["type"])


def loop_around(source: Source, line: int) -> int:
    """The line of the outermost loop that a line stands in, or the line itself."""
    loops = [node for node in ast.walk(source.tree) if isinstance(node, (ast.For, ast.While, ast.AsyncFor))]
    around = [node.lineno for node in loops if node.lineno <= line <= (node.end_lineno or 0)]
    return min(around, default=line)
