"""What a student's code gave, in a few numbers: so that staff see which students are wrong in the same way.

A digest would not do: wherever values are rounded, float noise lands on both sides of some border. So each array is told by
its shape, its size and two fixed projections, and two outlines are the same where these agree within a tolerance that lies
far above float noise and far below what any mistake changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from autograder.diagnose import Tape
from autograder.result import Output
from autograder.sandbox.frames import Array, Foreign
from autograder.tensors import shape_words

LOOKED_AT = 100_000  # values of one array
MOST_ARRAYS = 12
TOLERANCE = 1e-3  # of the array's root mean square; float32 noise is below 1e-5, mistakes are above 1e-2
PER_ARRAY = 4


def outline(tape: Tape) -> Output | None:
    """What came back on a tape, or None where no array and no number did."""
    forms: list[str] = []
    numbers: list[float] = []
    for value in [leaf for _, _, answer in tape.asked for leaf in _leaves(answer)][:MOST_ARRAYS]:
        if isinstance(value, Foreign):
            forms.append(f"{value.type} {value.text}"[:80])
            continue
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            forms.append(shape_words(array.shape))
            numbers += _numbers(array)
    return Output(form=", ".join(forms), numbers=tuple(numbers)) if forms else None


def same(one: Output, other: Output) -> bool:
    """Whether two outlines are of the same values, up to float noise."""
    if one.form != other.form or len(one.numbers) != len(other.numbers):
        return False
    first, second = (np.array(item.numbers).reshape(-1, PER_ARRAY) for item in (one, other))
    scale = np.maximum(np.maximum(first[:, :1], second[:, :1]), 1e-9)
    return bool((np.abs(first - second) <= TOLERANCE * scale).all())


def _leaves(answer: Any) -> Iterator[Any]:
    if isinstance(answer, dict):
        for key in sorted(answer, key=str):
            yield from _leaves(answer[key])
    elif isinstance(answer, (list, tuple)):
        for item in answer:
            yield from _leaves(item)
    elif isinstance(answer, (np.ndarray, float, int, bool, Foreign)):
        yield answer


def _numbers(array: Array) -> list[float]:
    """Root mean square, two projections, and how much is NaN or infinite."""
    values = array.astype(np.float64).ravel()[:LOOKED_AT]
    if not values.size:
        return [0.0] * PER_ARRAY
    odd = ~np.isfinite(values)
    values = np.clip(np.where(odd, 0.0, values), -1e150, 1e150)  # whose squares are still numbers
    directions = np.random.default_rng(values.size).standard_normal((2, values.size))
    size = float(np.sqrt(np.mean(values**2)))
    projections = directions @ values / np.sqrt(values.size)
    # The share of odd values is told in the array's own scale, as `same` compares all four in it.
    numbers = [size, *projections, float(odd.mean()) * max(size, 1e-9)]
    return [float(f"{number:.7g}") for number in numbers]
