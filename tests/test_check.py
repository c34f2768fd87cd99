"""What an author writes: decorators that are read strictly, and expectations that say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight

from autograder.check import (
    AuthoringError,
    Check,
    Expectation,
    Mismatch,
    build,
    check,
    expect,
    expect_error,
    kind,
    pair,
)
from autograder.sandbox.frames import Foreign, Handle
from autograder.sandbox.proxy import GraderFault, NoAnswer, RemoteValue

Author = Callable[..., None]


def written(
    *,
    doc: str = "what it is about",
    marks: tuple[Callable[[Author], Author], ...] = (number("1.4.2"), weight(2)),
    **given: Any,
) -> Check:
    """A check as an author would write it, read by `build`."""

    def some_check(student: Any, probes: Any) -> None:
        student.f(probes)

    some_check.__doc__ = doc
    function: Author = check(**{"target": "f", **given})(some_check)
    for mark in marks:
        function = mark(function)
    return build(function, "attention")


def test_a_check_is_read_from_its_decorators() -> None:
    found = written(
        doc="each reader's\n    weights sum to 1\n",
        marks=(number("1.4.10"), weight(1.5), tags("question")),
        after="values",
        read="#no-loop",
    )
    assert (found.name, found.number, found.section, found.points) == ("some_check", "1.4.10", "1.4", 1.5)
    assert found.title == "each reader's weights sum to 1"
    assert (found.after, found.read, found.module, found.tags) == (("values",), "#no-loop", "attention", ("question",))
    assert (found.hidden, found.shown, found.local) == (False, "visible", True)
    assert found.needs == ("student", "probes")
    assert re.search(r"test_check\.py:\d+$", found.origin)


def test_a_hidden_check_is_never_handed_out() -> None:
    hidden = written(marks=(number("1.1.1"), weight(0), visibility("hidden")), local=True, after=("a", "b"))
    assert (hidden.hidden, hidden.local, hidden.points, hidden.after) == (True, False, 0.0, ("a", "b"))
    later = written(marks=(number("1.1.1"), weight(1), visibility("after_due_date")))
    assert (later.hidden, later.shown, later.local) == (False, "after_due_date", True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"marks": (weight(1),)}, "check some_check has no @number(…)"),
        ({"marks": (number("1.1.1"),)}, "check some_check has no @weight(…)"),
        ({"doc": "  "}, "check some_check has no docstring; its docstring is its title"),
        ({"marks": (number("1.4"), weight(1))}, "has number '1.4'; write it as \"1.4.2\""),
        ({"marks": (number(1.4), weight(1))}, "has number '1.4'; write it"),
        ({"marks": (number("1.04.2"), weight(1))}, "has number '1.04.2'"),
        ({"marks": (number("1.4.2"), weight("2"))}, "has weight '2'; a number of points is needed"),
        ({"marks": (number("1.4.2"), weight(True))}, "has weight True"),
        ({"marks": (number("1.4.2"), weight(-1))}, "has weight -1"),
        ({"marks": (number("1.4.2"), weight(float("nan")))}, "has weight nan"),
        ({"marks": (number("1.4.2"), weight(float("inf")))}, "has weight inf"),
        ({"marks": (number("1.4.2"), weight(1), visibility("sometimes"))}, "unknown visibility 'sometimes'"),
        ({"read": "no-loop"}, "has read='no-loop'; write an anchor"),
    ],
)
def test_what_an_author_forgot_is_said_with_its_place(given: dict[str, Any], says: str) -> None:
    with pytest.raises(AuthoringError, match=re.escape(says)) as told:
        written(**given)
    assert re.match(r".*test_check\.py:\d+: ", str(told.value))


def test_a_check_can_only_ask_for_what_there_is() -> None:
    def asks(student: Any, answer: Any) -> None:
        """title"""

    with pytest.raises(AuthoringError, match=r"asks for 'answer'; there is student, reference, probes, source"):
        build(number("1.1.1")(weight(1)(check(target="f")(asks))), "attention")


ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("met", "says"),
    [
        (lambda e: e.is_tensor(), None),
        (lambda e: e.has_shape(2, 3).has_dtype("float32").is_finite().equals(ARRAY), None),
        (lambda e: e.has_shape(3, 2), "y has shape (2, 3), expected (3, 2) = (reader, source)."),
        (lambda e: e.has_shape(2, 3, 1), "y has shape (2, 3), expected (2, 3, 1)."),
        (lambda e: e.has_dtype("float64"), "y has dtype float32, expected float64."),
        (lambda e: e.equals(ARRAY[None]), "y has shape (2, 3), expected (1, 2, 3)."),
        (lambda e: e.equals(ARRAY[:1]), "y has shape (2, 3), expected (1, 3) = (reader, source)."),
        (lambda e: e.equals(ARRAY + 1), "y at reader 0, source 0 is 0, expected 1. 6 of 6 values differ."),
        (lambda e: e.equals(ARRAY + 1, tolerance=1), None),
        (lambda e: e.equals(0), "y at reader 1, source 2 is 5, expected 0. 5 of 6 values differ."),
        (lambda e: e.is_number(), "y is a tensor of shape (2, 3), expected a number."),
    ],
)
def test_an_expectation_on_an_array(met: Callable[[Expectation], Expectation], says: str | None) -> None:
    expectation = expect(ARRAY, "y", "reader source")
    if says is None:
        assert met(expectation) is expectation
        return
    with pytest.raises(Mismatch) as told:
        met(expectation)
    assert told.value.gap == says


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_not_finite(dtype: str) -> None:
    odd = np.array([[1, np.inf], [np.nan, 1]], dtype)
    with pytest.raises(Mismatch, match=r"^y at reader 0, source 1 is inf: 2 of 4 values are not finite\.$"):
        expect(odd, "y", "reader source").is_finite()
    with pytest.raises(Mismatch, match=r"^y is nan: 1 of 1 values are not finite\.$"):
        expect(np.array(np.nan, dtype), "y").is_finite()
    with pytest.raises(Mismatch, match=r"is inf, expected 1"):
        expect(odd, "y").equals(np.ones((2, 2)))


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_reference_that_is_not_finite_is_the_graders_fault(odd: float) -> None:
    with pytest.raises(GraderFault, match="what y is compared with is not finite"):
        expect(np.ones(2), "y").equals(np.array([odd, 1]))
    with pytest.raises(GraderFault):
        expect(np.ones(2), "y").equals(odd)


def test_nothing_agrees_with_a_number_by_being_empty() -> None:
    with pytest.raises(Mismatch, match=r"y is empty: it has shape \(0, 3\)"):
        expect(np.ones((0, 3)), "y").equals(1)


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (0.5, True),
        (3, True),
        (np.array(0.5, np.float32), True),
        (np.array([[2]]), True),
        (True, False),
        (np.array(True), False),
        (np.ones(2), False),
        ("0.5", False),
        (None, False),
    ],
)
def test_a_number_is_a_number(value: Any, accepted: bool) -> None:
    if accepted:
        assert isinstance(expect(value).is_number().value, float)
    else:
        with pytest.raises(Mismatch, match="expected a number"):
            expect(value).is_number()


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_no_bound_is_met_by_nan_and_none_from_the_wrong_side(odd: float) -> None:
    with pytest.raises(Mismatch):
        expect(odd, "gap").is_near(0, 1)
    if not odd > 0:
        with pytest.raises(Mismatch, match=r"gap is .*, expected at least 0"):
            expect(odd, "gap").at_least(0)
    if not odd < 0:
        with pytest.raises(Mismatch, match=r"gap is .*, expected at most 0"):
            expect(odd, "gap").at_most(0)


def test_a_bound_that_is_missed_by_little_shows_by_how_much() -> None:
    expect(1.0).at_most(1.0).at_least(1.0).is_near(1.1, 0.11)
    with pytest.raises(Mismatch, match=r"^gap is 0\.100001, expected at most 0\.1\.$"):
        expect(0.100001, "gap").at_most(0.1)


class Nobody:
    """An interpreter that gives no answer."""

    def ask(self, verb: str, **body: Any) -> Any:
        raise NoAnswer("died", "gone")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None (is there a `return`?)"),
        (np.ones((2, 1)), "a tensor of shape (2, 1)"),
        (Foreign("numpy array", "shape (2,)"), "a numpy array (shape (2,))"),
        (Foreign("generator"), "a generator"),
        (RemoteValue(Nobody(), Handle(0), False), "an object"),
        ((1, 2), "a tuple of 2"),
        ([], "a list of 0"),
        (3, "an int"),
        ("x", "a str"),
        ({}, "a dict"),
    ],
)
def test_values_in_words(value: Any, words: str) -> None:
    assert kind(value) == words


@pytest.mark.parametrize("value", [None, [1, 2], (1,), (1, 2, 3), np.ones((2, 3))])
def test_two_values_are_a_tuple_of_two(value: Any) -> None:
    with pytest.raises(Mismatch, match=r"expected two values: \(y, weights\)\.$"):
        pair(value, ("y", "weights"))
    assert pair((1, 2), ("y", "weights")) == (1, 2)


def test_an_expected_error() -> None:
    def raises(message: str, how: str = "raised") -> Callable[[], None]:
        def call() -> None:
            raise NoAnswer(how, message)

        return call

    expect_error("ValueError", raises("ValueError: 10 is not a multiple of 4"), "where M is not a multiple of H")
    expect_error("ValueError", raises("ValueError"), "where")
    with pytest.raises(NoAnswer, match="TypeError"):
        expect_error("ValueError", raises("TypeError: ValueError: no"), "where")
    with pytest.raises(NoAnswer):
        expect_error("ValueError", raises("ValueError: late", "time"), "where")
    with pytest.raises(Mismatch, match=r"nothing was raised, expected ValueError where M is not a multiple of H"):
        expect_error("ValueError", lambda: None, "where M is not a multiple of H")
