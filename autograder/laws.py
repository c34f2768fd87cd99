"""Properties that need no reference. Each hands its finding to `expect`; each is used by more than one lab.

They hold for a constant output too, so every check that uses one stands `after` a check on values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autograder.check import Mismatch, expect
from autograder.sandbox.frames import Array
from autograder.tensors import agree

Function = Callable[..., Any]


def rows_sum_to_one(weights: Any, axes: str = "sequence reader") -> None:
    """Each reader's weights sum to 1 and none is negative: `weights` (…, Kq, K)."""
    expect(weights, "the weights").is_tensor().is_finite()
    expect(weights.sum(-1), "the sum of the weights", axes).equals(1)
    if (weights < 0).any():
        raise Mismatch(f"{int((weights < 0).sum())} of {weights.size} weights are negative; softmax gives none.")


def permutation_equivariant(
    function: Function, x: Array, order: Array, name: str = "the output", axis: int = 1
) -> None:
    """`F(PX) = P F(X)`: reordering the positions of `x` (N, K, M) reorders the output, and does nothing else."""
    straight = expect(function(x), name).is_tensor().is_finite().value
    if straight.ndim <= axis or straight.shape[axis] != len(order):
        raise Mismatch(f"{name} has shape {straight.shape}: there is no axis {axis} of {len(order)} positions in it.")
    reordered = function(np.take(x, order, axis=axis))
    expect(reordered, f"{name} of the reordered input", "sequence position feature").equals(
        np.take(straight, order, axis=axis)
    )


def sources_reorder(function: Function, key: Array, value: Array, order: Array) -> None:
    """A set of sources has no order: `function(key, value)` → output is the same for keys and values moved alike."""
    straight = expect(function(key, value)).is_tensor().is_finite().value
    moved = function(key[:, order], value[:, order])
    expect(moved, "the output with its sources reordered", "sequence reader feature").equals(straight)


def masked_source_has_no_influence(
    function: Function, sources: Sequence[Array], source: int, by: float | Array
) -> None:
    """Changing a masked source changes nothing: `function(*sources)` → output, `source` a position that no reader reads."""
    before = expect(function(*sources)).is_tensor().is_finite().value
    changed = [array.copy() for array in sources]
    for array in changed:
        array[:, source] += by
    after = function(*changed)
    expect(
        after, f"the output after source {source}, which the mask hides, was changed", "sequence reader feature"
    ).equals(before)


def influence(function: Function, x: Array, by: float = 0.5) -> Array:
    """Which output positions move when an input position moves: bool (K, K), `[i, j]` true where output i reads input j.

    `x` is (1, K, M). A diagonal for a position-wise function, a triangle for a causal one.
    """
    before = expect(function(x)).is_tensor().is_finite().value
    rows = []
    for position in range(x.shape[1]):
        moved = x.copy()
        moved[:, position] += np.float32(by)
        after = expect(function(moved)).has_shape(*before.shape).value
        rows.append([not agree(after[:, i], before[:, i]) for i in range(before.shape[1])])
    return np.array(rows).T


def commutation_gap(function: Function, reordered: Function, x: Array, order: Array) -> float:
    """`max |G(Px) - P F(x)|`, where F is `function` and G is `reordered`, often the same; `x` is (N, K, M)."""
    straight = expect(function(x)).is_tensor().is_finite().value
    moved = expect(reordered(x[:, order])).has_shape(*straight.shape).value
    return float(np.abs(moved - straight[:, order]).max())


def shift_invariant(function: Function, scores: Array, shift: Array | float) -> None:
    """`softmax(z + c·1) = softmax(z)`: a constant of its own for each reader changes no weight."""
    before = expect(function(scores), "the weights").is_tensor().is_finite().value
    after = function((scores + shift).astype(scores.dtype))
    expect(after, "the weights after a constant was added to the scores", "sequence reader source").equals(before)


def inputs_stay(names: str, given: Sequence[Array], afterwards: Sequence[Any]) -> None:
    """No input is changed: each of `names` is after the call what was given, bit by bit."""
    for name, before, after in zip(names.split(), given, afterwards):
        expect(after, f"{name} after the call").equals(before, tolerance=0.0)


def gradients_reach(found: Mapping[int | str, Array | None], names: Mapping[int | str, str]) -> None:
    """Something flows back to each of `names` (what was asked for → its name in words): no gradient is missing or all 0."""
    for key, name in names.items():
        gradient = found[key]
        if not reached(gradient):
            finite = gradient is None or np.isfinite(gradient).all()
            what = "missing" if gradient is None else "zero" if finite else "not finite"
            raise Mismatch(f"The gradient of {name} is {what}: it could not learn.")


def gradients_agree(
    found: Mapping[int | str, Array | None], expected: Mapping[int | str, Array | None], names: Mapping[int | str, str]
) -> None:
    """Each gradient of `names` (what was asked for → its name in words) is the expected one."""
    for key, name in names.items():
        expect(found[key], f"the gradient of {name}").equals(expected[key])


def reads_other_positions(function: Function, x: Array, position: int, by: float | Array) -> None:
    """The output elsewhere moves when one position of `x` (N, K, M) changes by `by`, a number or (M,)."""
    moved = x.copy()
    moved[:, position] += by
    before = expect(function(x)).is_tensor().is_finite().value
    after = expect(function(moved)).has_shape(*before.shape).value
    if agree(np.delete(after, position, axis=1), np.delete(before, position, axis=1)):
        raise Mismatch(f"No other position's output changes when position {position} changes: nothing is read.")


def reached(gradient: Array | None) -> bool:
    """Whether a gradient arrived: it is there, finite, and not 0 everywhere."""
    return gradient is not None and bool(np.isfinite(gradient).all() and np.any(gradient != 0))
