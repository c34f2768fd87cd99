"""Properties that need no reference. Each hands its finding to `expect`; each is used by more than one lab.

They hold for a constant output too, so every check that uses one stands `after` a check on values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from autograder.check import Mismatch, expect
from autograder.language import N_, say
from autograder.sandbox.frames import Array
from autograder.tensors import agree

Function = Callable[..., Any]


def rows_sum_to_one(weights: Any, axes: str = "sequence reader") -> None:
    """Each reader's weights sum to 1 and none is negative: `weights` (…, Kq, K)."""
    expect(weights, N_("the weights")).is_tensor().is_finite()
    expect(weights.sum(-1), N_("the sum of the weights"), axes).equals(1)
    if (weights < 0).any():
        raise Mismatch(
            say(
                "{wrong} of {size} weights are negative; softmax gives none.",
                wrong=int((weights < 0).sum()),
                size=weights.size,
            )
        )


def permutation_equivariant(
    function: Function, x: Array, order: Array, name: str = N_("the output"), axis: int = 1
) -> None:
    """`F(PX) = P F(X)`: reordering the positions of `x` (N, K, M) reorders the output, and does nothing else."""
    straight = expect(function(x), name).is_tensor().is_finite().value
    if straight.ndim <= axis or straight.shape[axis] != len(order):
        raise Mismatch(
            say(
                "{name} has shape {shape}: there is no axis {axis} of {length} positions in it.",
                name=say(name),
                shape=straight.shape,
                axis=axis,
                length=len(order),
            )
        )
    reordered = function(np.take(x, order, axis=axis))
    expect(reordered, say("{name} of the reordered input", name=say(name)), "sequence position feature").equals(
        np.take(straight, order, axis=axis)
    )


def sources_reorder(function: Function, key: Array, value: Array, order: Array) -> None:
    """A set of sources has no order: `function(key, value)` → output is the same for keys and values moved alike."""
    straight = expect(function(key, value)).is_tensor().is_finite().value
    moved = function(key[:, order], value[:, order])
    expect(moved, N_("the output with its sources reordered"), "sequence reader feature").equals(straight)


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
        after,
        say("the output after source {source}, which the mask hides, was changed", source=source),
        "sequence reader feature",
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
    before = expect(function(scores), N_("the weights")).is_tensor().is_finite().value
    after = function((scores + shift).astype(scores.dtype))
    expect(after, N_("the weights after a constant was added to the scores"), "sequence reader source").equals(before)


def inputs_stay(names: str, given: Sequence[Array], afterwards: Sequence[Any]) -> None:
    """No input is changed: each of `names` is after the call what was given, bit by bit."""
    for name, before, after in zip(names.split(), given, afterwards):
        expect(after, say("{name} after the call", name=name)).equals(before, tolerance=0.0)


def gradients_reach(found: Mapping[int | str, Array | None], names: Mapping[int | str, str]) -> None:
    """Something flows back to each of `names` (what was asked for → its name in words): no gradient is missing or all 0."""
    for key, name in names.items():
        gradient = found[key]
        if not reached(gradient):
            no_gradient(
                name, "missing" if gradient is None else "zero" if np.isfinite(gradient).all() else "not finite"
            )


def no_gradient(name: str, what: str) -> NoReturn:
    """Raise Mismatch: the gradient of something is missing, zero or not finite."""
    raise Mismatch(
        {
            "missing": say("The gradient of {name} is missing: it could not learn.", name=name),
            "zero": say("The gradient of {name} is zero: it could not learn.", name=name),
            "not finite": say("The gradient of {name} is not finite: it could not learn.", name=name),
        }[what]
    )


def gradients_agree(
    found: Mapping[int | str, Array | None], expected: Mapping[int | str, Array | None], names: Mapping[int | str, str]
) -> None:
    """Each gradient of `names` (what was asked for → its name in words) is the expected one."""
    for key, name in names.items():
        expect(found[key], say("the gradient of {name}", name=name)).equals(expected[key])


def reads_other_positions(function: Function, x: Array, position: int, by: float | Array) -> None:
    """The output elsewhere moves when one position of `x` (N, K, M) changes by `by`, a number or (M,)."""
    moved = x.copy()
    moved[:, position] += by
    before = expect(function(x)).is_tensor().is_finite().value
    after = expect(function(moved)).has_shape(*before.shape).value
    if agree(np.delete(after, position, axis=1), np.delete(before, position, axis=1)):
        raise Mismatch(
            say(
                "No other position's output changes when position {position} changes: nothing is read.",
                position=position,
            )
        )


def reached(gradient: Array | None) -> bool:
    """Whether a gradient arrived: it is there, finite, and not 0 everywhere."""
    return gradient is not None and bool(np.isfinite(gradient).all() and np.any(gradient != 0))
