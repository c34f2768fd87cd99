"""Comparing arrays, and saying in words where they differ. numpy only, in float64.

Tolerances follow from measured rounding, not from habit: docs/design.md, Tolerances. 1e-4 of the largest expected value is four
times the worst float32 error of right work that was seen on any CPU. A float64 solution has no excuse beyond 1e-9.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autograder.language import N_, say
from autograder.sandbox.frames import Array

RELATIVE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-9}
ABSOLUTE = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-11}  # where everything expected is 0
# What the labs call their axes; a lab may have others, in its own catalogue.
AXES = (
    N_("sequence"),
    N_("position"),
    N_("reader"),
    N_("source"),
    N_("feature"),
    N_("head"),
    N_("output"),
    N_("input"),
)


def tolerance(got: Array, expected: Array) -> float:
    """How far an honest value may lie from the expected one: by the coarser dtype, relative to the largest value."""
    dtype = got.dtype.name
    if dtype not in RELATIVE:
        return 0.0  # bools and integers are equal or not
    finite = np.abs(expected[np.isfinite(expected)]) if expected.dtype.kind == "f" else np.abs(expected)
    largest = float(finite.max()) if finite.size else 0.0
    return RELATIVE[dtype] * largest + ABSOLUTE[dtype]


def disagreement(got: Array, expected: Array, allowed: float | None = None) -> Array:
    """A bool array of the common shape, true where `got` is wrong. NaN and Inf never agree with anything."""
    allowed = tolerance(got, expected) if allowed is None else allowed
    if got.dtype.kind != "f" and expected.dtype.kind != "f":
        return np.asarray(got != expected)
    wide, target = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        # Written so that NaN is wrong: `not (err <= tol)` holds for it, `err > tol` does not.
        near = np.abs(wide - target) <= allowed
        return np.asarray(~(near & np.isfinite(wide) & np.isfinite(target)))


def agree(got: Array, expected: Array, allowed: float | None = None) -> bool:
    """Whether shapes are equal and every value agrees."""
    return got.shape == expected.shape and not disagreement(got, expected, allowed).any()


def figure(value: object) -> str:
    """A number as a reader wants it: four significant digits, integers and bools plain."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.4g}"
    return str(value)


def two_figures(got: object, expected: object) -> tuple[str, str]:
    """Two different numbers with as many digits as it takes to tell them apart, four at least."""
    one, other = figure(got), figure(expected)
    if one == other and isinstance(got, (float, np.floating)) and isinstance(expected, (float, np.floating)):
        for digits in range(5, 18):
            one, other = f"{float(got):.{digits}g}", f"{float(expected):.{digits}g}"
            if one != other:
                break
    return one, other


def index_words(index: Sequence[int], axes: Sequence[str]) -> str:
    """An index in the words of the handout: `sequence 0, reader 3`; `[0, 3]` where the axes have no names of their own."""
    if len(axes) != len(index):
        return str(list(index))
    return say(", ").join(f"{say(name)} {position}" for name, position in zip(axes, index))


def shape_words(shape: Sequence[int], axes: Sequence[str] = ()) -> str:
    """A shape with the meaning of its axes: `(2, 5, 7)`."""
    text = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    return f"{text} = ({', '.join(map(say, axes))})" if axes and len(axes) == len(shape) else text


def difference_words(name: str, got: Array, expected: Array, wrong: Array, axes: Sequence[str]) -> str:
    """The worst place of what is called `name`, and how much of the whole differs."""
    index = worst(got, expected, wrong) if got.ndim else ()
    one, other = two_figures(got[index], expected[index])
    known = {"name": name, "place": index_words(index, axes), "got": one, "wanted": other}
    if not index:
        return say("{name} is {got}, expected {wanted}.", **known)
    if wrong.size == 1:
        return say("{name} at {place} is {got}, expected {wanted}.", **known)
    return say(
        "{name} at {place} is {got}, expected {wanted}. {wrong} of {size} values differ.",
        **known,
        wrong=int(wrong.sum()),
        size=wrong.size,
    )


def worst(got: Array, expected: Array, wrong: Array) -> tuple[int, ...]:
    """The index at which two arrays are farthest apart; the first wrong one where they hold no numbers."""
    if got.dtype.kind != "f":
        return tuple(int(i) for i in np.argwhere(wrong)[0])
    error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    error = np.where(wrong, np.where(np.isfinite(error), error, np.inf), -1.0)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
