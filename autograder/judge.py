"""One check of one hand-in: what happened, in words that its author can use.

Everything that can go wrong in a check has one place here, `Judge.attempt`: the student's code raised, hung or died; a value
is not what is expected; a rule is broken; the reference failed, which is the grader's fault and costs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder import diagnose
from autograder.check import Check, Difference, Mismatch, NeedsReview, RuleBroken
from autograder.diagnose import Mistake, Tape
from autograder.lab import Lab
from autograder.language import is_cjk, say
from autograder.probes import Probes
from autograder.result import Status, Where
from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.proxy import (
    LOST,
    GraderFault,
    Interpreter,
    Live,
    NoAnswer,
    NotRecorded,
    Oracle,
    OutOfTime,
    ReferenceLost,
    Remote,
)
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
    stands: bool = False  # its points are given though it was not passed: the fault is in the check, for everybody
    seen: tuple[Difference, ...] = ()  # the arrays that differ, where they may be shown
    tape: Tape | None = None  # of values that differ: what a diagnosis starts from
    second: Tape | None = None  # the same on the second draw, where it was asked for
    root: tuple[str, str, int, str] | None = None  # of a call that gave no value: what stopped it


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
        self.started_again = False  # the process that holds torch, for this hand-in
        self.roots: dict[tuple[str, str, int, str], str] = {}  # what stopped a call, and which check said so first
        self.knows_secrets = 0  # number of the guest that has seen inputs that are not told
        self.passed: set[str] = set()
        self.causes: dict[tuple[str, ...], str] = {}  # which mistakes were named, and in which check

    def find(self, check: Check) -> Finding:
        """What a check comes to, whatever happens."""
        finding = self.run(check)
        if finding.status is Status.PASSED:
            self.passed.add(check.name)
        return finding

    def run(self, check: Check) -> Finding:
        """Judge a check; once more where the process that holds torch was lost on the way, the first time in a hand-in."""
        try:
            return self.judged(check)
        except LaunchError as error:
            lost = error
        if self.started_again:
            return self.unjudged(check, str(lost))
        self.started_again = True
        try:
            self.student.zygote.restart()
            self.student.take_printed(0)
            finding = self.judged(check)
        except LaunchError as error:
            return self.unjudged(check, str(error))
        self.faults.append(f"{check.number} {check.name}: {lost}; it was started again, and the check judged anew")
        return finding

    def judged(self, check: Check) -> Finding:
        """Run a check, and name the cause of what it found."""
        try:
            finding = self.once(check, self.missing(check) or self.on_its_draws(check))
            return self.diagnosed(check, finding) if finding.tape else finding
        except OutOfTime:
            return Finding(Status.NOT_RUN, say("The time of the whole run was used up during this check."))

    def on_its_draws(self, check: Check) -> Finding:
        """The finding on inputs that are not told, and where it is not that all is right, on those of check.py.

        Who is right on the former is right; of the latter it can be told what is wrong, and a pasted answer fits only them.
        """
        if check.hidden or "probes" not in check.needs or not self.lab.file.secret:
            return self.on_first_draw(check)
        untold = None
        if not self.looks_unwritten(check):  # only to save time: to be told of, it would take another guest
            untold = self.on_second_draw(check)
            if untold.status in (Status.PASSED, Status.ERROR):
                return untold
            self.forget()
        finding = self.on_first_draw(check)
        if finding.status is not Status.PASSED:
            return replace(finding, second=untold.tape if untold else None)
        # Perhaps it failed by what an earlier check had left in that guest.
        untold = self.on_second_draw(check)
        if untold.status in (Status.PASSED, Status.ERROR):
            return replace(untold, review=untold.review or finding.review)
        gap = say("Right on the inputs of check.py, wrong on others of the same shape: something in it fits only those.")
        # Not `untold.where`: which line it is can be made to tell the inputs.
        review = f"On the second draw: {untold.gap} {untold.review}".strip()
        return Finding(Status.FAILED, gap, self.target(check), review=review)

    def on_second_draw(self, check: Check) -> Finding:
        """The finding on inputs that are not told, of which nothing may be told but its status."""
        with self.unheard():
            return self.attempt(check, self.lab.draws(check)[1])

    def on_first_draw(self, check: Check) -> Finding:
        """The finding on the inputs that may be told; for a hidden check none are."""
        first, _ = self.lab.draws(check)
        knowing = self.knowing
        finding = self.attempt(check, first)
        told = finding.status is not Status.PASSED or self.student.printed
        if check.hidden or not told or not knowing:
            return finding
        self.forget()
        self.student.take_printed(0)
        return self.attempt(check, first)

    def looks_unwritten(self, check: Check) -> bool:
        """Whether the starter's exception still stands in the judged definition."""
        source = self.sources[check.module]
        span = source.find(check.target)
        lines = range(span.line, span.last + 1) if span else ()
        return any("NotImplementedError" in source.line(line) for line in lines)

    def forget(self) -> None:
        """End a guest that has seen inputs that are not told.

        Code can keep them, and tell them on others by what it prints, raises or returns, or by how it ends its process. A
        guest that has seen none has none to tell.
        """
        if self.knowing:
            self.student.close()
            self.knows_secrets = 0

    @property
    def knowing(self) -> bool:
        """Whether the guest at work has seen inputs that are not told."""
        return 0 < self.knows_secrets == self.student.forks

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What is printed meanwhile is not told: its inputs are not, either."""
        before = self.student.printed, self.student.cut
        try:
            yield
        finally:
            self.student.printed, self.student.cut = before

    def once(self, check: Check, finding: Finding) -> Finding:
        """One root cause once: what an earlier check has told stops this one, too."""
        if finding.root in self.roots:
            return Finding(Status.BLOCKED, blocked_by=self.roots[finding.root])
        if finding.root and not check.hidden:  # students do not see what a hidden check tells
            self.roots[finding.root] = check.number
        return finding

    def missing(self, check: Check) -> Finding | None:
        """Why the target cannot be judged at all: its file is not there, or never came to define it."""
        if check.module not in self.sources:
            return Finding(Status.FAILED, say("{file} was not handed in.", file=f"{check.module}.py"))
        try:
            self.student.wake()
        except NoAnswer as error:
            return self.no_answer(error, check)
        if check.target in self.student.loaded["names"].get(check.module, ()):
            return None
        source = self.sources[check.module]
        stopped = self.student.loaded["errors"].get(check.module)
        if not stopped:
            gap = say("`{name}` is not defined in {file}.", name=check.target, file=source.name)
            return Finding(Status.FAILED, gap)
        line = int(stopped["line"]) if stopped["file"] == source.name else 0
        where = place(source, line) if line else None
        gap = say(
            "`{name}` does not exist: the import of {file} stopped before it, with {error}",
            name=check.target,
            file=source.name,
            error=said(stopped),
        )
        return Finding(Status.FAILED, gap, where)

    def attempt(self, check: Check, draw: str) -> Finding:
        """One run of a check function on the probes of one draw."""
        tape = Tape(self.student)
        try:
            self.ask(check, draw, tape)
            return Finding(Status.PASSED)
        except NeedsReview as review:
            return Finding(Status.PASSED, review=str(review))
        except RuleBroken as broken:
            line = broken.line
            where = place(self.sources[check.module], line) if line else self.target(check)
            return Finding(Status.FAILED, broken.gap, where)
        except Mismatch as mismatch:
            seen = () if check.hidden else mismatch.seen
            return Finding(Status.FAILED, mismatch.gap, self.target(check), seen=seen, tape=tape)
        except NoAnswer as error:
            return self.no_answer(error, check)
        except (OutOfTime, LaunchError):
            raise
        except Exception as error:  # of the check itself, or of the reference on what the check handed it
            return self.fault(check, draw, error)

    def ask(self, check: Check, draw: str, tape: Tape) -> None:
        """Call a check function on the probes of one draw; once more where the reference's process was lost on the way."""
        try:
            self.ask_once(check, draw, tape)
        except ReferenceLost as error:
            self.faults.append(f"{check.number} {check.name}: {error}; it was asked again")
            tape.asked.clear()
            self.ask_once(check, draw, tape)

    def ask_once(self, check: Check, draw: str, tape: Tape) -> None:
        """Call a check function on the probes of one draw, both guests set to a known state. Raises what it raises."""
        probes = Probes(draw)
        try:
            self.student.ask("begin", seed=probes.seed)
            self.oracle.ask("begin", seed=probes.seed)
            self.call(check, probes, Remote(tape, self.lab.main_module), self.sources.get(check.module))
        finally:  # not at the beginning: the guest may have been replaced on the way
            if self.lab.file.secret and (check.hidden or draw != self.lab.draws(check)[0]):
                self.knows_secrets = self.student.forks

    def call(self, check: Check, probes: Probes, student: Remote, source: Source | None) -> None:
        """Call a check function with what it asks for."""
        resources: dict[str, Any] = {
            "student": student,
            "reference": Remote(self.oracle, self.lab.main_module, lift=True),
            "probes": probes,
            "source": source,
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
        first, _ = self.lab.draws(check)
        other = self.drawing(check)
        _, second = self.lab.draws(other)
        try:
            with self.unheard():
                again = finding.second or self.taped(other, second)
                tapes = [(finding.tape, Probes(first).seed), (again, Probes(second).seed)]
            named = diagnose.explain(candidates, tapes, self.mistaken)
        except (OutOfTime, LaunchError):
            return finding  # what was found stands without its cause
        except Exception as error:  # of a mistake that dies, or on an answer that nobody thought of
            self.faults.append(f"{check.number} {check.name}, naming its cause: {type(error).__name__}: {error}")
            return finding
        if not named:
            return finding
        names = tuple(item.name for item in named)
        where = self.look(check, named) or finding.where
        if names in self.causes:
            same = say("The same as in {number}.", number=self.causes[names])
            return replace(finding, mistakes=names, cause=same, where=where)
        if not check.hidden:  # students do not see what a hidden check tells
            self.causes[names] = check.number
        cause = say(" And: ").join(say(item.says) for item in named)
        return replace(finding, mistakes=names, cause=cause, where=where)

    def drawing(self, check: Check) -> Check:
        """The check whose second draw confirms a cause: a fixed example has none, and chance may give what it asks for."""
        if "probes" in check.needs:
            return check
        beside = (item for item in self.lab.checks if item.target == check.target and "probes" in item.needs)
        return next((item for item in beside if not item.hidden), check)

    def taped(self, check: Check, draw: str) -> Tape:
        """What a check asks the student on another draw, and what comes back; its verdict does not matter here."""
        tape = Tape(self.student)
        try:
            self.ask(check, draw, tape)
        except (OutOfTime, LaunchError):
            raise
        except Exception:  # every other end of the check leaves a tape up to there, which is what is wanted
            return tape
        return tape

    def look(self, check: Check, named: Iterable[Mistake]) -> Where | None:
        """The first line of the judged definition, or of the method that is wrong, that uses what a mistake points at.

        Not of what it calls: another part may use the same name rightly, and would be blamed.
        """
        source = self.sources[check.module]
        for item in named:
            method = diagnose.method_of(item, self.lab.reference, self.lab.main_module)
            part = source.find(f"{check.target}.{method}") if method else None
            span = part or source.find(check.target)
            lines = source.lines_calling(check.target, item.look) if item.look and span else []
            inside = [line for line in lines if span and span.line < line <= span.last]
            if inside:
                return place(source, inside[0])
            if part:
                return place(source, part.line)
        return None

    def fault(self, check: Check, draw: str, error: Exception) -> Finding:
        """Whose fault is an unexpected exception? The reference, put in the student's place, tells."""
        probes = Probes(draw)
        first = f"{type(error).__name__}: {error}"
        if is_lost(error):  # the reference twice, see `ask`
            return self.unjudged(check, first)
        oracle = self.oracle.interpreter  # itself: a check that waits for an exception shall meet it
        try:
            oracle.ask("begin", seed=probes.seed)
            self.call(check, probes, Remote(oracle, self.lab.main_module), self.reference_source(check))
        except (OutOfTime, LaunchError):
            raise
        except Exception as second:
            if is_lost(second):
                return self.unjudged(check, f"{first}; {second}")
            # A recording cannot take the student's place; then it is the student's value, unless the recording failed.
            undecided = isinstance(second, NotRecorded) and not isinstance(error, GraderFault)
            if not undecided and not isinstance(second, NeedsReview):
                again = f"with the reference in the student's place: {type(second).__name__}: {second}"
                return self.excused(check, f"{first}; {again}", review=first)
        gap = say("A value that came back cannot be judged: it is not of the form that the handout asks for.")
        return Finding(Status.FAILED, gap, self.target(check), review=first)

    def excused(self, check: Check, fault: str, review: str = "") -> Finding:
        """The finding of a check that fails by itself, whatever was handed in: its points stand."""
        self.faults.append(f"{check.number} {check.name}: {fault}")
        gap = say("The grader failed in this check. It costs you no points; the staff can see why.")
        return Finding(Status.ERROR, gap, review=review or fault, stands=True)

    def unjudged(self, check: Check, fault: str) -> Finding:
        """The finding of a check that a process of ours did not live to judge.

        Without points: were they given, load on the machine would pay, and so would code that ends what judges it.
        """
        self.faults.append(f"{check.number} {check.name}: {fault}")
        gap = say(
            "The grading machine failed in this check. "
            "Its points are not lost: ask your instructor to have the hand-in graded again."
        )
        return Finding(Status.ERROR, gap, review=fault)

    def reference_source(self, check: Check) -> Source | None:
        """The reference's text, where there is one."""
        if check.module not in self.lab.reference.files:
            return self.sources.get(check.module)
        name, text = self.lab.reference.files[check.module]
        return Source.read(text.encode(), name)

    def no_answer(self, error: NoAnswer, check: Check) -> Finding:
        """A call that gave no value, in one sentence with the student's line."""
        source = next((found for found in self.sources.values() if found.name == error.file), None)
        line = error.line
        if source and error.kind == "time":
            line = loop_around(source, line)  # wherever in it the kill came: the same hand-in gives the same result
        where = place(source, line) if source and line else self.target(check)
        if error.kind == "missing":
            return Finding(Status.BLOCKED, sentence(error.said))
        gap = say("The call gave no result: {why}.", why=error.said)
        if error.kind == "unfinished":
            gap = say("Not written yet. {todo}", todo=error.said)
        elif error.kind == "raised":
            gap = sentence(error.said) if error.form else say("Your code raised {error}", error=error.message)
        root = (error.kind, error.file, line, error.message) if line else None  # without a line it may be another one
        return Finding(Status.FAILED, gap, where, root=root)

    def target(self, check: Check) -> Where | None:
        """The line at which the judged symbol is defined."""
        source = self.sources.get(check.module)
        span = source.find(check.target) if source else None
        return place(source, span.line) if source and span else None


def is_lost(error: Exception) -> bool:
    """Whether a process of ours, or the machine, gave way: that says nothing about a check or a hand-in."""
    gone = isinstance(error, NoAnswer) and error.kind in LOST
    return gone or isinstance(error, (ReferenceLost, MemoryError, OSError))


def place(source: Source, line: int) -> Where:
    """A line of the hand-in."""
    return Where(place=source.where(line), text=source.line(line).strip()[:200])


def sentence(words: str) -> str:
    """A capital at the beginning, a full stop at the end."""
    if any(map(is_cjk, words)):  # which has no capitals, and may begin with the name of a file
        return f"{words}。"
    return f"{words[:1].upper()}{words[1:]}."


def said(error: dict[str, Any]) -> str:
    """An exception that stopped an import, in Python's words."""
    return f"{error['type']}: {error['message']}" if error["message"] else str(error["type"])


def loop_around(source: Source, line: int) -> int:
    """The line of the outermost loop that a line stands in, or the line itself."""
    loops = [node for node in source.nodes if isinstance(node, (ast.For, ast.While, ast.AsyncFor))]
    around = [node.lineno for node in loops if node.lineno <= line <= (node.end_lineno or 0)]
    return min(around, default=line)
