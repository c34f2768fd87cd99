"""Mutants: the reference with one small fault each, made by rule, beyond the catalogue of mistakes. All must lose points.

What survives is either a check that the lab lacks, or no fault at all; the latter stands in
`reference/<lab>/equivalent_mutants.toml`, the mutant's id and the reason:

    "weighted_read: operator: return a * b → return b * a" = "a product does not ask for the order"
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import course
from autograder.check import AuthoringError
from autograder.lab import Lab
from autograder.result import Record, Result, Status
from autograder.rewriting import Piece
from autograder.session import Session
from autograder.submission import Submission

SECONDS_PER_CALL = 2.0  # an honest call takes milliseconds; a mutant may loop for ever
KILLED, SURVIVED, EQUIVALENT = "killed", "survived", "equivalent"


@dataclass(frozen=True)
class Mutant:
    """A reference file with one fault: the operator that made it, the line before and after, the whole source."""

    id: str
    operator: str
    symbol: str  # `SelfAttention.forward`
    name: str  # the file
    line: int
    before: str
    after: str
    source: str

    @property
    def target(self) -> str:
        """The top-level function or class that is changed."""
        return self.symbol.partition(".")[0]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the check that it lost points on, or what staff would read."""

    mutant: Mutant
    status: str
    by: str = ""
    note: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What became of all mutants of a lab. `stale`: what is wrong with the file of equivalent ones, in sentences."""

    lab: str
    verdicts: tuple[Verdict, ...]
    stale: tuple[str, ...]

    def of(self, status: str) -> list[Verdict]:
        """The verdicts of one kind."""
        return [verdict for verdict in self.verdicts if verdict.status == status]

    def lines(self) -> list[str]:
        """The report: one line of numbers, then each survivor with its diff, then what is stale."""
        seconds = sum(verdict.seconds for verdict in self.verdicts)
        count = len(self.verdicts)
        counts = ", ".join(f"{len(self.of(kind))} {kind}" for kind in (KILLED, EQUIVALENT, SURVIVED))
        found = [f"{self.lab}: {count} mutants: {counts} ({seconds:.0f} s, {seconds / max(count, 1):.2f} s each)"]
        for verdict in self.of(SURVIVED):
            mutant = verdict.mutant
            found += [f"  survived  {mutant.name}:{mutant.line} {mutant.symbol}: {mutant.operator}"]
            found += [f"    - {mutant.before}", f"    + {mutant.after}"]
            found += [f"    {verdict.note}"] if verdict.note else []
        return [*found, *self.stale]


# Making them ---------------------------------------------------------------------------------------------------------


def mutants(text: str, name: str) -> list[Mutant]:
    """All mutants of an annotated reference file, from top to bottom; only what solution regions inside functions hold.

    An id says symbol, operator and the line before and after, so that it stays when other lines change. Mutants with the
    same program are one.
    """
    rows = solution_rows(text)
    lines = [f"{line}\n" for line in text.split("\n")]
    found: list[Mutant] = []
    for top in ast.parse(text).body:
        last = top.end_lineno or top.lineno
        if not isinstance(top, (ast.FunctionDef, ast.ClassDef)) or not rows & set(range(top.lineno, last + 1)):
            continue
        first = min([top.lineno, *(item.lineno for item in top.decorator_list)])
        piece = Piece("".join(lines[first - 1 : last]), {row - first + 1 for row in rows})
        around = "".join(lines[: first - 1]), "".join(lines[last:]).removesuffix("\n")
        for line, symbol, operator, before, after, source in piece.changed():
            made = f"{symbol}: {operator}: {before} → {after}"
            whole = around[0] + source + around[1]
            found.append(Mutant(made, operator, symbol, name, line + first - 1, before, after, whole))
    return _numbered(found)


def solution_rows(text: str) -> set[int]:
    """The rows (from 1) inside solution regions."""
    inside, rows = False, set()
    for row, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*# (BEGIN|END) SOLUTION\b", line):
            inside = "BEGIN" in line
        elif inside:
            rows.add(row)
    return rows


def plain(id: str) -> str:
    """An id as it is compared: without spaces and brackets, of which Pythons do not write the same ones."""
    return re.sub(r"[()\s]", "", id)


def _numbered(found: list[Mutant]) -> list[Mutant]:
    """Equal ids (the same statement twice in one function) are told apart by a number."""
    seen: dict[str, int] = {}
    unique = []
    for mutant in found:
        times = seen[plain(mutant.id)] = seen.get(plain(mutant.id), 0) + 1
        unique.append(replace(mutant, id=f"{mutant.id} #{times}") if times > 1 else mutant)
    return unique


# Grading them --------------------------------------------------------------------------------------------------------


def survivors(
    lab: Lab,
    session: Session,
    chosen: Sequence[Mutant] | None = None,
    progress: Callable[[Verdict], None] | None = None,
) -> Outcome:
    """Grade the mutants of a lab's main file, each as a hand-in beside the reference's other files.

    A mutant is killed by the first check that it loses points on; nothing is run after that one. Checks run without
    their gates and those of the changed symbol first: what a gate would have blocked is lost, too.

    Args:
        session: a warm grader of this lab; its zygote and its reference are used.
        chosen: some of `mutants(…)`; by default all.
        progress: is told each verdict as it comes.
    """
    place, text = lab.reference.files[lab.main_module]
    every = mutants(text, place)
    excused = equivalents(lab)
    reasons = {plain(key): reason for key, reason in excused.items()}
    grader = _Grader(lab, session)
    right = grader.grade("", text)
    if isinstance(right, Result):
        raise AuthoringError(f"{place} itself loses points on {right.number}, so every mutant would: {right.gap}")
    verdicts = []
    for mutant in every if chosen is None else chosen:
        verdict = grader.verdict(mutant, set(right))
        if verdict.status == SURVIVED and plain(mutant.id) in reasons:
            verdict = replace(verdict, status=EQUIVALENT, note=reasons[plain(mutant.id)])
        verdicts.append(verdict)
        if progress:
            progress(verdict)
    return Outcome(lab.name, tuple(verdicts), tuple(_stale(lab, every, verdicts, excused)))


def equivalents(lab: Lab) -> dict[str, str]:
    """The mutants that are no faults, id → reason. Raises AuthoringError where one has no reason."""
    path = _equivalents_file(lab)
    if not path.exists():
        return {}
    found = course.parse_toml(path)
    for key, reason in found.items():
        if not isinstance(reason, str) or not reason.strip():
            raise AuthoringError(f"{path}: {key}: say in words why it is no fault")
    return found


def _equivalents_file(lab: Lab) -> Path:
    return lab.root / "reference" / lab.name / "equivalent_mutants.toml"


def _stale(lab: Lab, every: list[Mutant], verdicts: Iterable[Verdict], excused: Iterable[str]) -> Iterator[str]:
    there = {plain(mutant.id) for mutant in every}
    killed = {plain(verdict.mutant.id): verdict.by for verdict in verdicts if verdict.status == KILLED}
    file = _equivalents_file(lab).relative_to(lab.root).as_posix()
    for key in excused:
        if plain(key) not in there:
            yield f"{file}: there is no such mutant: {key}"
        elif plain(key) in killed:
            yield f"{file}: it is not equivalent, {killed[plain(key)]} kills it: {key}"


class _Lost(Exception):
    """A mutant has lost points: enough is known."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.number)
        self.result = result


class _Grader:
    """Grades texts of the lab's main file on a warm session, without diagnosis and gates and with a short limit."""

    def __init__(self, lab: Lab, session: Session) -> None:
        limits = lab.file.limits
        short = limits.model_copy(update={"seconds_per_call": min(limits.seconds_per_call, SECONDS_PER_CALL)})
        checks = tuple(replace(check, after=()) for check in lab.checks)
        self.lab = replace(lab, checks=checks, mistakes=(), file=lab.file.model_copy(update={"limits": short}))
        self.warm = session
        self.sessions: dict[str, Session] = {}

    def verdict(self, mutant: Mutant, usual: set[str]) -> Verdict:
        begun = time.monotonic()
        found = self.grade(mutant.target, mutant.source)
        seconds = time.monotonic() - begun
        if isinstance(found, Result):
            return Verdict(mutant, KILLED, found.number, found.gap, seconds)
        return Verdict(mutant, SURVIVED, "", "; ".join(note for note in found if note not in usual), seconds)

    def grade(self, target: str, text: str) -> Result | list[str]:
        """The first result that loses points; where there is none, what staff would read. Checks of `target` go first."""
        try:
            record = self._session(target).grade(self._handed_in(text), _stop_at_loss)
        except _Lost as lost:
            return lost.result
        reviews = [f"{result.number} asks for a review: {result.review}" for result in record.results if result.review]
        return [*(f"fault of the grader: {fault}" for fault in record.faults), *reviews]

    def _session(self, target: str) -> Session:
        if target not in self.sessions:
            checks = tuple(sorted(self.lab.checks, key=lambda check: check.target != target))
            lab, confined = replace(self.lab, checks=checks), self.warm.plan is not None
            self.sessions[target] = Session(lab, self.warm.zygote, self.warm.reference, confined=confined)
        return self.sessions[target]

    def _handed_in(self, text: str) -> Submission:
        texts = {f"{module}.py": source for module, (_, source) in self.lab.reference.files.items()}
        files = {name: (texts | {self.lab.file.main: text})[name].encode() for name in self.lab.wanted}
        return Submission("mutant", files, {}, (), (), {name: name for name in files})


def _stop_at_loss(record: Record) -> None:
    for result in record.results:
        if result.status in (Status.FAILED, Status.BLOCKED) and result.score < result.max_score:
            raise _Lost(result)
