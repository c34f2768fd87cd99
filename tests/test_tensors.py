"""Comparing arrays: what never agrees, where the tolerance ends, and what a difference is called."""

from __future__ import annotations

import numpy as np
import pytest

from autograder.tensors import (
    ABSOLUTE,
    RELATIVE,
    agree,
    difference_words,
    disagreement,
    figure,
    index_words,
    shape_words,
    tolerance,
    two_figures,
)

ODD = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("expected", [*ODD, 0.0, 1.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_not_finite_never_agrees(odd: float, expected: float, dtype: str) -> None:
    got, target = np.array([odd, 1], dtype), np.array([expected, 1])
    assert list(disagreement(got, target)) == [True, False]
    assert list(disagreement(target.astype(dtype), np.array([odd, 1.0]))) == [True, False]
    assert not agree(got, target)
    assert disagreement(got, target, allowed=np.inf)[0]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (4, 1), (4, 3, 1)])
def test_a_shape_that_broadcasts_does_not_agree(shape: tuple[int, ...]) -> None:
    assert not agree(np.ones(shape, np.float32), np.ones((4, 3)))
    assert not agree(np.ones((4, 3), np.float32), np.ones(shape))


@pytest.mark.parametrize("dtype", RELATIVE)
@pytest.mark.parametrize("largest", [1e-3, 1.0, 700.0])
def test_the_tolerance_has_an_edge(dtype: str, largest: float) -> None:
    expected = np.array([largest, -largest / 2, 0])
    got = np.array(expected, dtype)
    allowed = tolerance(got, expected)
    assert allowed == pytest.approx(RELATIVE[dtype] * largest + ABSOLUTE[dtype])
    wide = expected.astype(np.float64)
    assert agree(wide + 0.99 * allowed, expected, allowed)
    assert not agree(wide + np.array([0, 0, 1.01 * allowed]), expected, allowed)
    assert not agree(wide - np.array([0, 1.01 * allowed, 0]), expected, allowed)


def test_where_everything_expected_is_zero_a_little_is_allowed() -> None:
    assert agree(np.array([9e-7], np.float32), np.zeros(1))
    assert not agree(np.array([2e-6], np.float32), np.zeros(1))


def test_a_float64_solution_is_held_to_float64() -> None:
    third = np.array([1 / 3])
    assert agree(third.astype(np.float32), third)
    assert not agree(third.astype(np.float32).astype(np.float64), third)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_bools_and_integers_are_equal_or_not(dtype: str) -> None:
    ones = np.ones((2, 2), dtype)
    zero = ones.copy()
    zero[1, 0] = 0
    assert agree(ones, ones.copy())
    assert disagreement(zero, ones).tolist() == [[False, False], [True, False]]
    assert not agree(ones, np.full((2, 2), 1 + 1e-7))  # nothing is rounded away for them


def test_an_unsigned_difference_does_not_wrap_around() -> None:
    assert difference_words("y", np.array([0], np.uint8), np.array([255], np.uint8), np.array([True]), ["source"]) == (
        "y at source 0 is 0, expected 255."
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.float32(0.1), "0.1"),
        (2.84217, "2.842"),
        (1e-9, "1e-09"),
        (np.nan, "nan"),
        (True, "True"),
        (np.bool_(False), "False"),
        (np.int64(7), "7"),
        (3, "3"),
    ],
)
def test_a_figure_is_short(value: object, words: str) -> None:
    assert figure(value) == words


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (0.5, 0.25, ("0.5", "0.25")),
        (0.33334, 0.33332, ("0.33334", "0.33332")),
        (1.0, 1.0 + 1e-12, ("1", "1.000000000001")),
        (np.nan, np.nan, ("nan", "nan")),
    ],
)
def test_two_different_numbers_never_look_the_same(got: float, expected: float, words: tuple[str, str]) -> None:
    assert two_figures(got, expected) == words


def test_the_worst_place_is_named_in_the_words_of_the_handout() -> None:
    expected = np.zeros((2, 3))
    got = expected.astype(np.float32)
    got[0, 1], got[1, 2] = 0.5, -2
    wrong = disagreement(got, expected)
    assert difference_words("y", got, expected, wrong, ("sequence", "reader")) == (
        "y at sequence 1, reader 2 is -2, expected 0. 2 of 6 values differ."
    )
    got[0, 0] = np.nan  # worse than any number
    assert difference_words("y", got, expected, disagreement(got, expected), ()).startswith("y at [0, 0] is nan,")


def test_a_single_value_has_no_place() -> None:
    assert difference_words("y", np.array(2.0), np.array(3.0), np.array(True), ("x",)) == "y is 2, expected 3."


def test_shapes_and_indices_in_words() -> None:
    assert shape_words((2, 5), ("N", "K")) == "(2, 5) = (N, K)"
    assert shape_words((2, 5), ("N",)) == "(2, 5)"
    assert shape_words((4,)) == "(4,)"
    assert shape_words(()) == "()"
    assert index_words((0, 3), ("sequence", "reader")) == "sequence 0, reader 3"
    assert index_words((0, 3), ("sequence",)) == "[0, 3]"
