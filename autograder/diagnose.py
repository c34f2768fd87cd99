"""Naming a mistake: a catalogued wrong version that gives exactly what the student's code gave, on two probes.

A Mistake is a small change of the reference's text, so the catalogue holds no second copy of a solution, two mistakes can be
put together, and a hand-in that has the mistake can be made for the audit. Nothing is guessed: what no mistake reproduces gets
no cause.

    mistake(
        name="area_of_the_triangle",
        of="area",
        change={"width * height": "width * height / 2"},
        caught_by="area_values",
        look=("height",),
        says="the area is halved, as if the figure were a triangle. It is a rectangle.",
    )
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, Literal

import numpy as np

from autograder.check import AuthoringError
from autograder.sandbox.frames import Array, Foreign, Handle
from autograder.sandbox.proxy import Interpreter, NoAnswer, Program, Questions
from autograder.tensors import agree

TOLD = ("cause", "gap")
LONGEST = 160  # words of a sentence that a student reads
PAIRS_AT_MOST = 400


@dataclass(frozen=True)
class Mistake:
    """A wrong version of one symbol of the reference, and what its author is told."""

    name: str
    of: str
    change: Mapping[str, str]
    caught_by: str
    says: str
    look: tuple[str, ...] = ()
    module: str = ""  # the file it changes, where that is not the lab's main one
    told: str = "cause"
    method: str = ""  # of a class, the one that it changes: in a student's copy, where there is no `change` to tell


@dataclass(frozen=True)
class Definition:
    """The source of one top-level function or class of a reference file."""

    module: str
    symbol: str
    text: str


Patches = dict[tuple[str, str], str]  # (module, symbol) → its changed source


def mistake(
    *,
    name: str,
    of: str,
    change: Mapping[str, str],
    caught_by: str,
    says: str,
    look: str | Sequence[str] = (),
    module: str = "",
    told: Literal["cause", "gap"] = "cause",
) -> Mistake:
    """Declare a mistake.

    Args:
        name: what staff and reports call it.
        of: the symbol that is wrong; only checks of this target ask for it.
        change: pieces of the symbol's source in the reference, each standing there exactly once, and what stands in
            their place.
        caught_by: name of the check that is meant for it.
        says: what the student reads: what it is, why it is wrong, where to look. 160 words at most.
        look: names of functions, methods, attributes or variables, `("softmax", "exp")`: the report points at the first
            line of the student's definition that uses one of them, or where none does, at the definition. In a class, only
            the method counts in which the change lies. An operator or a number cannot be looked for.
        module: the file (without `.py`) that is changed, where it is not the lab's main one.
        told: "gap" where the check's own finding already says what is wrong (a rule, an exception, a shape, a changed input):
            no cause is added. "cause" wherever wrong values alone would leave its author in the dark.
    """
    sought = (look,) if isinstance(look, str) else tuple(look)
    return Mistake(name, of, dict(change), caught_by, " ".join(says.split()), sought, module, told)


def definitions(program: Program) -> dict[tuple[str, str], Definition]:
    """Every top-level function and class of the reference, by module and name."""
    everything = (item for module, (_, text) in program.files.items() for item in _defined(module, text))
    return {(item.module, item.symbol): item for item in everything}


@lru_cache(maxsize=16)
def _defined(module: str, text: str) -> tuple[Definition, ...]:
    # Kept: hundreds of mistakes and pairs are tried where none explains what came, and parsing was most of the work.
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            lines = text.splitlines()[first - 1 : node.end_lineno]
            found.append(Definition(module, node.name, "\n".join(lines) + "\n"))
    return tuple(found)


def patches(mistakes: Iterable[Mistake], program: Program, main_module: str) -> Patches:
    """The changed definitions of one or more mistakes. Raises AuthoringError where a change does not fit the reference."""
    known = definitions(program)
    changed: Patches = {}
    for item in mistakes:
        key = (item.module or main_module, item.of)
        if key not in known:
            raise AuthoringError(f"mistake {item.name}: the reference has no {item.of} in {key[0]}.py")
        text = changed.get(key, known[key].text)
        for piece, instead in item.change.items():
            if text.count(piece) != 1:
                there = text.count(piece)
                raise AuthoringError(f"mistake {item.name}: {piece!r} stands {there} times in {item.of}, not once")
            text = text.replace(piece, instead)
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise AuthoringError(f"mistake {item.name}: the changed {item.of} is not Python: {error}") from error
        changed[key] = text
    return changed


def method_of(mistake: Mistake, program: Program, main_module: str) -> str:
    """The method of a class in which a mistake lies; empty for a function, or where it lies in several."""
    known = definitions(program).get((mistake.module or main_module, mistake.of))
    if not mistake.change or known is None:
        return mistake.method
    (node,) = ast.parse(known.text).body
    methods = [item for item in getattr(node, "body", []) if isinstance(item, ast.FunctionDef)]
    changed = {known.text[: known.text.index(piece)].count("\n") + 1 for piece in mistake.change if piece in known.text}
    inside = {
        next((item.name for item in methods if item.lineno <= line <= (item.end_lineno or 0)), "") for line in changed
    }
    return inside.pop() if isinstance(node, ast.ClassDef) and len(inside) == 1 else ""


def patched(program: Program, changed: Patches) -> dict[str, str]:
    """The reference's files with definitions exchanged: module → text."""
    original = definitions(program)
    texts = {module: text for module, (_, text) in program.files.items()}
    for (module, symbol), source in changed.items():
        texts[module] = texts[module].replace(original[module, symbol].text, source)
    return texts


class Tape:
    """Passes a check's questions on to the student, and keeps each with its answer, so that they can be asked again."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.asked: list[tuple[str, dict[str, Any], Any]] = []

    def ask(self, verb: str, **body: Any) -> Any:
        """Ask, and keep question and answer; an exception of the student's is kept as what it said."""
        try:
            answer = self.interpreter.ask(verb, **body)
        except NoAnswer as error:
            self.asked.append((verb, body, raised(error)))
            raise
        self.asked.append((verb, body, answer))
        return answer


def raised(error: NoAnswer) -> Foreign:
    """An exception as an answer that can be compared and recorded: by its type, or by how the call ended."""
    return Foreign("raised", error.message.split(":")[0] if error.kind == "raised" else error.kind)


class MistakenReference:
    """Answers a tape's questions as a mistaken student would: a live oracle whose definitions are changed for a moment."""

    def __init__(self, interpreter: Interpreter, program: Program, main_module: str) -> None:
        self.interpreter = interpreter
        self.program = program
        self.main_module = main_module
        self._patches: dict[tuple[str, ...], Patches | AuthoringError] = {}  # by the names of the mistakes

    def patches(self, mistakes: Sequence[Mistake]) -> Patches:
        """As the function of that name; made once, for every output that no mistake explains asks for hundreds of them."""
        names = tuple(item.name for item in mistakes)
        if names not in self._patches:
            try:
                self._patches[names] = patches(mistakes, self.program, self.main_module)
            except AuthoringError as error:
                self._patches[names] = error
        found = self._patches[names]
        if isinstance(found, AuthoringError):
            raise AuthoringError(str(found))
        return found

    def answers(self, mistakes: Sequence[Mistake], tape: Tape, seed: int) -> Generator[Any, None, None]:
        """What the mistaken reference answers, question by question; the reference is whole again afterwards."""
        changed = self.patches(mistakes)
        try:
            for (module, symbol), text in changed.items():
                self.interpreter.ask("define", module=module, symbol=symbol, source=text)
            self.interpreter.ask("begin", seed=seed)
            for verb, body, _ in tape.asked:
                yield self._answer(verb, body)
        finally:
            self.interpreter.ask("restore")

    def _answer(self, verb: str, body: dict[str, Any]) -> Any:
        try:
            return self.interpreter.ask(verb, **body)
        except NoAnswer as error:
            return raised(error)


class RecordedMistakes:
    """Answers of the mistaken reference as they were recorded when the student's zip was built."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self.recorded = answers

    def answers(self, mistakes: Sequence[Mistake], tape: Tape, seed: int) -> Generator[Any, None, None]:
        """The recorded answers; an Ellipsis, which equals nothing, where a question was not recorded."""
        known = self.recorded.get("+".join(item.name for item in mistakes), {})
        questions = Questions(seed)
        return (questions.recorded(known, verb, body) for verb, body, _ in tape.asked)


Answers = MistakenReference | RecordedMistakes


def explain(mistakes: Sequence[Mistake], tapes: Sequence[tuple[Tape, int]], oracle: Answers) -> tuple[Mistake, ...]:
    """The one mistake, or the two together, that reproduce every answer of every tape; nothing where none does.

    Where two different mistakes reproduce them, they cannot be told apart here, and nothing is named. `tapes` are runs of
    one check on independent probes, each with its seed. A mistake that answers as the reference does explains nothing,
    whatever the student's answers are.
    """
    asked = any(_tells(answer) for tape, _ in tapes for _, _, answer in tape.asked)
    if not asked or all(_reproduces((), tape, seed, oracle) for tape, seed in tapes):
        return ()
    pairs = (two for two in combinations(mistakes, 2) if _compatible(two))
    for tried in ([(item,) for item in mistakes], list(pairs)[:PAIRS_AT_MOST]):
        found = [some for some in tried if all(_reproduces(some, tape, seed, oracle) for tape, seed in tapes)]
        if found:
            return found[0] if len(found) == 1 else ()
    return ()


def _compatible(two: tuple[Mistake, Mistake]) -> bool:
    """Whether both changes can be made at once: neither touches the text that the other one looks for."""
    first, second = two
    if (first.of, first.module) != (second.of, second.module):
        return True
    return not any(a in b or b in a for a in first.change for b in second.change)


def _reproduces(mistakes: tuple[Mistake, ...], tape: Tape, seed: int, oracle: Answers) -> bool:
    try:
        with closing(
            oracle.answers(mistakes, tape, seed)
        ) as given:  # the reference is whole again before anything else
            return all(_same(answer, mistaken) for (_, _, answer), mistaken in zip(tape.asked, given))
    except AuthoringError:  # the second change of a pair no longer finds its text
        return False


def _tells(answer: Any) -> bool:
    """Whether an answer holds a value at all: a handle or None would be reproduced by anything."""
    if isinstance(answer, dict):
        return any(_tells(item) for item in answer.values())
    if isinstance(answer, (list, tuple)):
        return any(_tells(item) for item in answer)
    return isinstance(answer, (np.ndarray, float, int, bool, Foreign))


def _same(answer: Any, mistaken: Any) -> bool:
    if isinstance(answer, np.ndarray) and isinstance(mistaken, np.ndarray):
        return answer.dtype == mistaken.dtype and _agree(answer, mistaken)
    if isinstance(answer, (list, tuple)) and isinstance(mistaken, (list, tuple)):
        return len(answer) == len(mistaken) and all(_same(a, b) for a, b in zip(answer, mistaken))
    if isinstance(answer, dict) and isinstance(mistaken, dict):
        return answer.keys() == mistaken.keys() and all(_same(answer[key], mistaken[key]) for key in answer)
    if isinstance(answer, Handle):
        return isinstance(mistaken, Handle)
    if isinstance(answer, float) and isinstance(mistaken, float):
        return _agree(np.array(answer, np.float32), np.array(mistaken, np.float32))
    return type(answer) is type(mistaken) and bool(answer == mistaken)


def _agree(got: Array, expected: Array) -> bool:
    """Equal up to rounding; here NaN equals NaN: a mistake that gives NaN is reproduced by NaN in the same places."""
    if got.dtype.kind != "f" or got.shape != expected.shape:
        return agree(got, expected)
    odd = ~np.isfinite(expected)
    same = np.array_equal(got[odd], expected[odd], equal_nan=True)
    return same and agree(np.where(odd, 0, got), np.where(odd, 0, expected))
