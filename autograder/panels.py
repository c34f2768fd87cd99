"""A difference of two arrays as a Panel: one table of each, small enough to look at, around the worst place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autograder.check import Difference
from autograder.language import say
from autograder.result import Panel
from autograder.sandbox.frames import Array
from autograder.tensors import figure, index_words, two_figures, worst

MOST = 8  # rows, and columns: what fits beside each other on a screen
FEATURES = "feature"  # the one axis whose places are no positions
SUMMED = "source"  # the weights of one reader sum to 1; a sum over features means nothing


def panel(seen: Difference) -> Panel | None:
    """The table of a difference; None for a single number, of which the sentence says everything."""
    if not seen.got.ndim:
        return None
    with np.errstate(all="ignore"):  # a student's NaN is shown, not warned of
        return _panel(seen)


def _panel(seen: Difference) -> Panel:
    axes = seen.axes if len(seen.axes) == seen.got.ndim else ("",) * seen.got.ndim
    at = worst(seen.got, seen.expected, seen.wrong)
    got, expected, wrong = (_plane(array, at) for array in (seen.got, seen.expected, seen.wrong))
    rows, columns = (_window(size, place) for size, place in zip(got.shape, (at[-2] if len(at) > 1 else 0, at[-1])))
    inner = np.ix_(rows, columns)
    before = at[:-2]
    summed = axes[-1] == SUMMED and got.dtype.kind == "f"
    return Panel(
        name=seen.name,
        place=index_words(before, axes[:-2]) if any(axes) else str([*before])[1:-1],
        row_axis=say(axes[-2]) if len(axes) > 1 else "",
        column_axis=say(axes[-1]),
        rows=_labels(rows, axes[-2], seen.tokens) if len(at) > 1 else ("",),
        columns=_labels(columns, axes[-1], seen.tokens),
        **_cells(got[inner], expected[inner], wrong[inner]),
        got_sums=_figures(got[rows].sum(-1)) if summed else (),
        expected_sums=_figures(expected[rows].sum(-1)) if summed else (),
        cut=_cut(got.shape, rows, columns),
    )


def _plane(array: Array, at: Sequence[int]) -> Array:
    """The last two axes of an array, at the worst place of those before; one row where it has one axis."""
    return array[None] if array.ndim == 1 else np.asarray(array[tuple(at[:-2])])


def _window(size: int, place: int) -> range:
    first = max(0, min(place - MOST // 2, size - MOST))
    return range(first, min(size, first + MOST))


def _labels(positions: Sequence[int], axis: str, tokens: Sequence[str]) -> tuple[str, ...]:
    known = axis != FEATURES and len(tokens) > max(positions, default=0)
    return tuple(f"{i} {tokens[i]}" if known else str(i) for i in positions)


def _cells(got: Array, expected: Array, wrong: Array) -> dict[str, tuple[tuple[str, ...], ...]]:
    texts: dict[str, list[tuple[str, ...]]] = {"got": [], "expected": [], "difference": []}
    decimals = _decimals(got, expected)
    for row in range(got.shape[0]):
        cells = [_cell(*items, decimals) for items in zip(got[row], expected[row], wrong[row])]
        for name, column in zip(texts, zip(*cells)):
            texts[name].append(column)
    return {name: tuple(rows) for name, rows in texts.items()}


def _cell(got: object, expected: object, wrong: bool, decimals: int | None) -> tuple[str, str, str]:
    """One place: what came out, what was expected, and by how much they differ."""
    one, other = _text(got, decimals), _text(expected, decimals)
    if not wrong:
        return one, other, ""
    if one == other:  # as many digits as it takes to tell them apart
        one, other = two_figures(got, expected)
    if isinstance(got, np.bool_) or isinstance(expected, np.bool_):
        return one, other, "≠"
    gap = np.float64(got) - np.float64(expected)  # type: ignore[arg-type]
    text = _text(gap, decimals)
    text = text if float(text) else figure(gap)
    return one, other, text if text.startswith("-") else f"+{text}"


def _decimals(*arrays: Array) -> int | None:
    """How many digits stand behind every point of a table; None where no number of them suits all."""
    finite = [np.abs(array[np.isfinite(array)].astype(np.float64)) for array in arrays if array.dtype.kind == "f"]
    largest = max((float(array.max()) for array in finite if array.size), default=0.0)
    if not 1e-3 <= largest < 1e5:
        return None
    exponent = int(np.floor(np.log10(largest)))
    return max(1, 3 - exponent if exponent > 0 else 2 - min(exponent, -1))


def _text(value: object, decimals: int | None) -> str:
    if decimals is None or not isinstance(value, (float, np.floating)) or not np.isfinite(value):
        return figure(value)
    return f"{value:.{decimals}f}"


def _figures(values: Array) -> tuple[str, ...]:
    return tuple(_text(value, 3 if abs(value) < 1e5 else None) for value in values)


def _cut(shape: Sequence[int], rows: range, columns: range) -> str:
    """Which part of a table is shown: `rows 0–7 of 40, columns 2–9 of 12`; empty where it is whole."""
    parts = []
    for at, shown, size in zip((0, 1), (rows, columns), shape):
        if len(shown) < size:
            known = {"first": shown[0], "last": shown[-1], "size": size}
            some = (
                say("columns {first}–{last} of {size}", **known)
                if at
                else say("rows {first}–{last} of {size}", **known)
            )
            parts.append(some)
    return say(", ").join(parts)
