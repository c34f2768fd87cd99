"""Diagnosis names the mistake that was made, both of a pair, and nothing at all for what is in no catalogue."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Grade

from autograder import course, naming
from autograder import lab as labs
from autograder.check import AuthoringError
from autograder.diagnose import Mistake, Tape, definitions, explain, mistake, patches
from autograder.lab import Lab
from autograder.naming import Bench
from autograder.result import Status
from autograder.sandbox.frames import Foreign, Handle
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import NoAnswer, Program
from autograder.session import Session
from autograder.specimens import handed_in, with_mistake

EVERY = 4  # of a catalogue one in so many is judged here; `make audit` grades all
SPOILED = 40  # hand-ins with random output, for each kind of symbol
PAIRS = 4  # of mistakes, for each symbol that stands for its kind
CHOSEN = 10  # mistakes of such a symbol that are tried, alone and in pairs


def catalogued() -> dict[str, Lab]:
    """The labs that have a catalogue; one that is being written, and does not load, has none yet."""
    found = {}
    for name in course.labs(ROOT):
        try:
            lab = labs.load(name, ROOT)
        except AuthoringError:
            continue
        if lab.mistakes:
            found[name] = lab
    return found


LABS = catalogued()


@pytest.fixture(scope="module")
def bench(zygote: Zygote) -> Callable[[str], Bench]:
    """The bench of a lab, by its name."""
    made: dict[str, Bench] = {}

    def of(name: str) -> Bench:
        if name not in made:
            made[name] = Bench(LABS[name], zygote)
        return made[name]

    return of


# What is in the catalogue is named ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "item"),
    [(name, item) for name, lab in LABS.items() for item in lab.mistakes[::EVERY]],
    ids=lambda value: value.name if isinstance(value, Mistake) else value,
)
def test_a_mistake_is_called_by_its_name_and_by_no_other(
    bench: Callable[[str], Bench], name: str, item: Mistake
) -> None:
    lab = LABS[name]
    found = bench(name).findings(patches([item], lab.reference, lab.main_module), item.of)
    assert found[item.caught_by].status is Status.FAILED
    named = {finding.mistakes for finding in found.values() if finding.mistakes}
    assert named == ({(item.name,)} if item.told == "cause" else set())


@pytest.mark.parametrize("name", LABS)
def test_a_cause_is_told_once_and_then_referred_to(session: Callable[[str], Session], name: str) -> None:
    lab = LABS[name]
    item = next(item for item in lab.mistakes if item.told == "cause")
    record = session(name).grade(handed_in(item.name, with_mistake(lab, item), lab))
    told = [result for result in record.results if result.mistakes and not result.hidden]
    assert {result.mistakes for result in told} == {(item.name,)}
    assert told[0].cause == item.says
    assert {result.cause for result in told[1:]} <= {f"The same as in {told[0].number}."}
    assert not record.faults


def test_a_cause_that_repeats_says_where_it_was_told(bench: Callable[[str], Bench]) -> None:
    lab = LABS["attention"]
    item = next(item for item in lab.mistakes if item.name == "read_averages")
    found = bench("attention").findings(patches([item], lab.reference, lab.main_module), item.of)
    assert [finding.cause for finding in found.values() if finding.cause] == [item.says, "The same as in 1.1.1."]


def test_a_mistake_whose_own_check_has_passed_is_not_named(bench: Callable[[str], Bench]) -> None:
    lab = LABS["attention"]
    item = next(item for item in lab.mistakes if item.name == "read_averages")
    changed = patches([item], lab.reference, lab.main_module)
    found = bench("attention").findings(changed, item.of, passed={item.caught_by})
    assert {finding.status for finding in found.values()} >= {Status.FAILED}
    assert not [finding.mistakes for finding in found.values() if finding.mistakes]


def test_chance_in_a_fixed_example_names_nothing_else(bench: Callable[[str], Bench]) -> None:
    """An example has no second draw: the first half of what is wrong here gives there what a third mistake gives."""
    lab = LABS["multihead"]
    two = [item for item in lab.mistakes if item.name in ("output_not_reordered", "gap_relative_to_the_reordered")]
    found = bench("multihead").findings(patches(two, lab.reference, lab.main_module), two[0].of)
    assert {finding.mistakes for finding in found.values()} == {tuple(item.name for item in two)}


# What is in no catalogue is not ---------------------------------------------------------------------------------------


def kind_of(text: str) -> str:
    """What the source of a symbol makes: a layer, a number, or tensors."""
    return "layer" if text.startswith("class") else "number" if "-> float:" in text else "tensors"


def largest_catalogues() -> dict[str, list[tuple[str, str, str]]]:
    """Kind of symbol → lab, module and symbol with the most mistakes: where a false name is nearest at hand."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name, lab in LABS.items():
        known = definitions(lab.reference)
        counted = Counter((item.module or lab.main_module, item.of) for item in lab.mistakes if item.told == "cause")
        largest = {kind_of(known[place].text): place for place, _ in reversed(counted.most_common())}
        for kind, (module, symbol) in largest.items():
            found.setdefault(kind, []).append((name, module, symbol))
    return found


KINDS = largest_catalogues()


@pytest.mark.parametrize("kind", KINDS)
def test_random_wrong_output_has_no_cause(bench: Callable[[str], Bench], kind: str) -> None:
    symbols = KINDS[kind]
    lost = 0
    for seed in range(SPOILED):
        name, module, symbol = symbols[seed % len(symbols)]
        changed = naming.spoiled(LABS[name], module, symbol, seed)
        found = bench(name).findings(changed, symbol, chosen(LABS[name], symbol))
        named = {check: finding.mistakes for check, finding in found.items() if finding.mistakes}
        assert not named, f"{symbol} spoiled with seed {seed}"
        lost += any(finding.status is Status.FAILED for finding in found.values())
    assert lost > SPOILED / 2, "hardly anything was wrong: this test shows nothing"


def test_of_two_mistakes_none_is_called_by_a_third_name(bench: Callable[[str], Bench]) -> None:
    told: Counter[str] = Counter()
    for name, _, symbol in [place for symbols in KINDS.values() for place in symbols]:
        lab, catalogue = LABS[name], chosen(LABS[name], symbol)
        pairs = naming.together(lab, catalogue)
        for two in random.Random(symbol).sample(pairs, min(PAIRS, len(pairs))):
            how, false = bench(name).named(two, catalogue)
            assert not false
            told[how] += 1
    assert told[naming.IN_FULL] > told.total() / 4, told


def chosen(lab: Lab, symbol: str) -> list[Mistake]:
    """Some mistakes of a symbol: hundreds of pairs are tried where no mistake alone explains what came."""
    known = [item for item in lab.mistakes if item.of == symbol and item.told == "cause"]
    return random.Random(symbol).sample(known, min(CHOSEN, len(known)))


# The parts, on their own ----------------------------------------------------------------------------------------------

TINY = Program({"tiny": ("tiny.py", "def f(x):\n    y = x + 1\n    return y * 2\n\n\ndef g(x):\n    return x\n")}, {})


def wrong(name: str, change: Mapping[str, str], of: str = "f") -> Mistake:
    return mistake(name=name, of=of, change=change, caught_by="values", says=f"it is {name}.")


def test_two_changes_are_made_in_one_definition() -> None:
    two = [wrong("minus", {"x + 1": "x - 1"}), wrong("thrice", {"* 2": "* 3"})]
    assert patches(two, TINY, "tiny") == {("tiny", "f"): "def f(x):\n    y = x - 1\n    return y * 3\n"}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([wrong("a", {"x - 1": "x"})], "mistake a: 'x - 1' stands 0 times in f, not once"),
        ([wrong("a", {"x": "z"})], "mistake a: 'x' stands 2 times in f, not once"),
        ([wrong("a", {"x + 1": "x +"})], "mistake a: the changed f is not Python"),
        ([wrong("a", {"x": "z"}, of="h")], "mistake a: the reference has no h in tiny.py"),
        ([wrong("a", {"x + 1": "x"}), wrong("b", {"+ 1": "- 1"})], "mistake b: '+ 1' stands 0 times in f, not once"),
    ],
)
def test_a_change_that_does_not_fit_is_an_error_with_its_name(items: list[Mistake], said: str) -> None:
    with pytest.raises(AuthoringError, match=f"^{re.escape(said)}"):
        patches(items, TINY, "tiny")


class Says:
    """Answers each question from a table, and raises what stands there as an exception."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table

    def ask(self, verb: str, **body: Any) -> Any:
        answer = self.table[verb]
        if isinstance(answer, NoAnswer):
            raise answer
        return answer


def test_a_tape_keeps_questions_answers_and_what_was_raised() -> None:
    tape = Tape(
        Says({"one": 1.5, "two": NoAnswer("raised", "ValueError: no 4 in 7"), "three": NoAnswer("time", "late")})
    )
    assert tape.ask("one", x=1) == 1.5
    for verb in ("two", "three"):
        with pytest.raises(NoAnswer):
            tape.ask(verb)
    assert tape.asked == [
        ("one", {"x": 1}, 1.5),
        ("two", {}, Foreign("raised", "ValueError")),  # the words may differ between two who make the same mistake
        ("three", {}, Foreign("raised", "time")),
    ]


A, B, C = wrong("a", {"x + 1": "x"}), wrong("b", {"* 2": ""}), wrong("c", {"y * 2": "y"})
ONES = np.ones(3, np.float32)


class Tables:
    """What each mistake, and each pair, answers; the reference where nothing stands."""

    def __init__(self, answers: Mapping[str, Sequence[Any]], right: Sequence[Any] = (ONES, 0)) -> None:
        self.table = answers
        self.right = right

    def answers(self, mistakes: Sequence[Mistake], tape: Tape, seed: int) -> Generator[Any, None, None]:
        yield from self.table.get("+".join(item.name for item in mistakes), self.right)


def taped(*answers: Any) -> Tape:
    tape = Tape(Says({}))
    tape.asked = [("call", {"number": number}, answer) for number, answer in enumerate(answers)]
    return tape


def named(tables: Mapping[str, Sequence[Any]], *tapes: Tape, right: Sequence[Any] = (ONES, 0)) -> str:
    given = [(tape, seed) for seed, tape in enumerate(tapes)]
    return "+".join(item.name for item in explain([A, B, C], given, Tables(tables, right)))  # type: ignore[arg-type]


def test_the_one_mistake_that_gives_the_same_is_named() -> None:
    assert named({"a": (ONES * 2, 0), "b": (ONES * 3, 0)}, taped(ONES * 3, 0)) == "b"
    assert named({"a": (ONES * 2, 0), "b": (ONES * 3, 0)}, taped(ONES * 4, 0)) == ""


def test_where_two_give_the_same_none_is_named() -> None:
    assert named({"a": (ONES * 2, 0), "b": (ONES * 2, 0)}, taped(ONES * 2, 0)) == ""
    assert named({"a+b": (ONES * 2, 0), "a+c": (ONES * 2, 0)}, taped(ONES * 2, 0)) == ""


def test_a_pair_is_named_where_none_of_the_two_gives_the_same_alone() -> None:
    both = {"a": (ONES * 2, 0), "a+b": (ONES * 5, 0)}
    assert named(both, taped(ONES * 5, 0)) == "a+b"
    assert named({**both, "c": (ONES * 5, 0)}, taped(ONES * 5, 0)) == "c"


def test_a_pair_that_changes_the_same_text_is_not_tried() -> None:
    assert named({"b+c": (ONES * 5, 0)}, taped(ONES * 5, 0)) == ""


def test_every_answer_of_every_tape_counts() -> None:
    assert named({"a": (ONES * 2, 7)}, taped(ONES * 2, 8)) == ""
    assert named({"a": (ONES * 2, 0)}, taped(ONES * 2, 0), taped(ONES * 3, 0)) == ""


def test_what_the_reference_answers_too_explains_nothing() -> None:
    assert named({"a": (ONES, 0)}, taped(ONES, 0)) == ""


def test_answers_without_a_value_explain_nothing() -> None:
    handle = Handle(0, "Layer")
    assert named({"a": (handle, None)}, taped(handle, None), right=(handle, ONES)) == ""
    assert named({"a": (handle, {"out": [ONES * 2]})}, taped(handle, {"out": [ONES * 2]})) == "a"


@pytest.mark.parametrize(
    ("answer", "mistaken", "same"),
    [
        (ONES * 2, ONES * np.float32(2.00001), True),
        (ONES * 2, ONES * np.float32(2.01), False),
        (ONES * 2, (ONES * 2).astype(np.float64), False),
        (ONES * 2, (ONES * 2)[None], False),
        (np.array([2, np.nan], np.float32), np.array([2, np.nan], np.float32), True),
        (np.array([2, np.nan], np.float32), np.array([np.nan, 2], np.float32), False),
        (np.array([2, np.inf], np.float32), np.array([2, -np.inf], np.float32), False),
        (np.array([True, False]), np.array([True, True]), False),
        (0.25, 0.25000001, True),
        (0.25, 0.26, False),
        (2.0, 2, False),
        (True, 1, False),
        ((ONES * 2, 1.5), (ONES * 2, 1.5), True),
        ((ONES * 2, 1.5), [ONES * 2, 1.5], True),
        ((ONES * 2,), (ONES * 2, 1.5), False),
        ({"w": ONES * 2}, {"v": ONES * 2}, False),
        ({"w": ONES * 2, "v": None}, {"w": ONES * 2, "v": None}, True),
        (Foreign("raised", "ValueError"), Foreign("raised", "ValueError"), True),
        (Foreign("raised", "ValueError"), Foreign("raised", "IndexError"), False),
    ],
)
def test_what_counts_as_the_same_answer(answer: Any, mistaken: Any, same: bool) -> None:
    assert (named({"a": (mistaken, 0)}, taped(answer, 0)) == "a") is same


POINTED_AT = {
    ("multihead", "mask_dropped"): "for head in self.heads:",
    ("block", "mask_not_passed_on"): "attn_out = self.attention(x, x, x)",
    ("block", "pre_norm"): "h = self.norm1(x)",
    ("block", "first_residual_missing"): "u = self.norm1(self.dropout(attn_out))",
    ("block", "same_norm_twice"): "u = self.norm1(x + self.dropout(attn_out))",
    ("block", "dropout_after_norm"): "u = self.dropout(self.norm1(x + attn_out))",
    ("block", "relu_missing"): "out = self.linear2(out)",
    ("scorers", "tanh_missing"): "hidden = q[:, :, None, :]",
}


@pytest.mark.parametrize("lab, example", POINTED_AT)
def test_the_line_is_one_of_the_method_that_is_wrong(grade: Grade, lab: str, example: str) -> None:
    record = grade(lab, ROOT / "reference" / lab / "examples" / example)
    pointed = [result.where.text for result in record.results if result.mistakes and result.where]
    assert pointed and {text.startswith(POINTED_AT[lab, example]) for text in pointed} == {True}
