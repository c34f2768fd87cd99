"""Laws hold for honest functions, and say what is wrong with the others."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from autograder import laws
from autograder.check import Mismatch
from autograder.probes import Probes
from autograder.sandbox.frames import Array

PROBES = Probes("laws")
X = PROBES.normal(2, 6, 4)
QUERY, KEY, VALUE = PROBES.attention()
ORDER = PROBES.permutation(6)
SOURCES = PROBES.permutation(7)


def softmax(scores: Array, axis: int = -1) -> Array:
    e = np.exp(scores - scores.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def attention(query: Array, key: Array, value: Array, mask: Array | None = None, axis: int = -1) -> Array:
    scores = query @ key.swapaxes(1, 2)
    return softmax(scores if mask is None else np.where(mask, -1e9, scores), axis) @ value


def itself(x: Array) -> Array:
    return attention(x, x, x)


def causal(x: Array) -> Array:
    return attention(x, x, x, np.triu(np.ones((x.shape[1], x.shape[1]), bool), 1)[None])


def mlp(x: Array) -> Array:
    return np.tanh(x) * 2


def nothing(x: Array) -> None:
    return None


def broken(x: Array) -> Array:
    return np.full_like(x, np.nan)


def refuted(law: Callable[[], None], says: str) -> None:
    with pytest.raises(Mismatch, match=re.escape(says)):
        law()


def test_rows_sum_to_one() -> None:
    laws.rows_sum_to_one(softmax(QUERY @ KEY.swapaxes(1, 2)))
    refuted(lambda: laws.rows_sum_to_one(softmax(QUERY @ KEY.swapaxes(1, 2), -2)), "the sum of the weights at sequence")
    refuted(lambda: laws.rows_sum_to_one(np.array([[1.5, -0.5]])), "1 of 2 weights are negative; softmax gives none.")
    refuted(lambda: laws.rows_sum_to_one(np.array([[np.nan, 1]])), "the weights at [0, 0] is nan: 1 of 2")
    refuted(lambda: laws.rows_sum_to_one(np.zeros((0, 3))), "the sum of the weights is empty")
    refuted(lambda: laws.rows_sum_to_one([[0.5, 0.5]]), "the weights is a list of 1, expected a tensor.")
    refuted(lambda: laws.rows_sum_to_one(None), "the weights is None (is there a `return`?), expected a tensor.")


def test_permutation_equivariance() -> None:
    laws.permutation_equivariant(itself, X, ORDER)
    laws.permutation_equivariant(mlp, X, ORDER)
    refuted(lambda: laws.permutation_equivariant(causal, X, ORDER), "the output of the reordered input at sequence")
    refuted(lambda: laws.permutation_equivariant(lambda x: x.cumsum(1), X, ORDER), "the output of the reordered input")
    refuted(lambda: laws.permutation_equivariant(broken, X, ORDER), "is nan: 48 of 48 values are not finite")
    refuted(lambda: laws.permutation_equivariant(nothing, X, ORDER), "is None")


def test_sources_reorder() -> None:
    laws.sources_reorder(lambda k, v: attention(QUERY, k, v), KEY, VALUE, SOURCES)
    refuted(
        lambda: laws.sources_reorder(lambda k, v: attention(QUERY, k, VALUE), KEY, VALUE, SOURCES),
        "the output with its sources reordered at sequence",
    )


def test_a_masked_source_has_no_influence() -> None:
    mask = PROBES.mask()
    mask[:, :, 3], mask[:, :, 0] = True, False
    laws.masked_source_has_no_influence(lambda k, v: attention(QUERY, k, v, mask), (KEY, VALUE), 3, 50.0)
    refuted(
        lambda: laws.masked_source_has_no_influence(lambda k, v: attention(QUERY, k, v, ~mask), (KEY, VALUE), 3, 50.0),
        "the output after source 3, which the mask hides, was changed",
    )


def test_the_inputs_of_a_law_are_left_as_they_are() -> None:
    before = KEY.copy(), VALUE.copy(), X.copy()
    laws.masked_source_has_no_influence(lambda k, v: np.ones(3), (KEY, VALUE), 3, 50.0)
    laws.influence(itself, X[:1])
    laws.reads_other_positions(itself, X, 2, 1.0)
    assert all(np.array_equal(*pair) for pair in zip(before, (KEY, VALUE, X)))


def test_influence_shows_who_reads_whom() -> None:
    assert np.array_equal(laws.influence(mlp, X[:1]), np.eye(6, dtype=bool))
    assert np.array_equal(laws.influence(causal, X[:1]), np.tril(np.ones((6, 6), bool)))
    assert laws.influence(itself, X[:1]).all()
    refuted(lambda: laws.influence(nothing, X[:1]), "is None")


def test_the_commutation_gap_is_zero_for_what_commutes_only() -> None:
    assert laws.commutation_gap(itself, itself, X, ORDER) < 1e-5
    assert laws.commutation_gap(causal, causal, X, ORDER) > 0.01
    assert np.isnan(laws.commutation_gap(mlp, broken, X, ORDER))


def test_softmax_feels_no_constant() -> None:
    scores, shift = PROBES.normal(2, 5, 7), PROBES.normal(2, 5, 1)
    laws.shift_invariant(softmax, scores, shift)
    refuted(lambda: laws.shift_invariant(lambda z: softmax(z, -2), scores, shift), "after a constant was added")
    refuted(lambda: laws.shift_invariant(np.tanh, scores, 3.0), "after a constant was added")


@pytest.mark.parametrize(
    ("gradient", "what"),
    [
        (None, "missing"),
        (np.zeros((2, 3)), "zero"),
        (np.array([np.nan, 1.0]), "not finite"),
        (np.array([np.inf]), "not finite"),
        (np.zeros(0), "zero"),
    ],
)
def test_a_gradient_that_does_not_arrive(gradient: Array | None, what: str) -> None:
    assert not laws.reached(gradient)
    refuted(lambda: laws.gradients_reach({0: gradient}, {0: "q"}), f"The gradient of q is {what}: it could not learn.")


def test_a_gradient_that_arrives() -> None:
    given = {0: np.array([0, -1e-9]), "w": np.ones((2, 2))}
    laws.gradients_reach(given, {0: "query", "w": "w"})
    laws.gradients_agree(given, given, {"w": "w"})
    refuted(lambda: laws.gradients_agree(given, {"w": np.zeros((2, 2))}, {"w": "w"}), "the gradient of w at [0, 0]")
    refuted(lambda: laws.gradients_agree({0: None}, {0: np.ones(2)}, {0: "key"}), "the gradient of key is None")


def test_reading_other_positions() -> None:
    laws.reads_other_positions(itself, X, 2, 1.0)
    refuted(lambda: laws.reads_other_positions(mlp, X, 2, 1.0), "No other position's output changes when position 2")
