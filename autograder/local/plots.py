"""The pictures of the worksheet, and a note in place of a traceback where something is not written yet.

    heat_map(weights, ["The", "animal", "slept"])     readers down, sources across
    heat_maps({"left": a, "right": b}, tokens)        beside each other, in the same colours
    grid(edges, tokens)                               who reads whom
    lines(x, {"float32": y}, "positions", "error")    curves over the same x

Use them in your own cells as well. They take tensors, arrays and lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]
CELL, READABLE, SMALL = 0.62, 0.36, 0.3  # inches: four figures, small ones, none
WIDE = 12.0  # inches: wider pictures are shrunk to the page, and their letters with them
READER, SOURCE = "reader ↓", "source →"


@contextmanager
def to_do() -> Iterator[None]:
    """`with to_do():` around what needs a part of yours: where that part is open, it says so and the notebook goes on."""
    try:
        yield
    except NotImplementedError as error:
        if not str(error).startswith("TODO"):
            raise
        print(f"☐ {error}. Write it, save the file, and run this cell again.")


def heat_map(
    weights: Any,
    readers: Sequence[str],
    sources: Sequence[str] | None = None,
    title: str = "",
    axes: tuple[str, str] = (READER, SOURCE),
) -> None:
    """One table `(rows, columns)` as a picture. `sources`: names of the columns, where they differ from the rows'."""
    heat_maps({title: weights}, readers, sources, axes)


def heat_maps(
    tables: Mapping[str, Any],
    readers: Sequence[str],
    sources: Sequence[str] | None = None,
    axes: tuple[str, str] = (READER, SOURCE),
) -> None:
    """Tables `(rows, columns)` by their titles, beside each other: a colour means the same number in each of them."""
    found = {title: numbers(table) for title, table in tables.items()}
    across = list(readers if sources is None else sources)
    largest = max(float(np.abs(table).max()) for table in found.values()) or 1.0
    signed = any(table.min() < 0 for table in found.values())
    figure, places, cell = _figure(len(found), len(readers), across)
    for axis, (title, table) in zip(places, found.items()):
        axis.imshow(table, cmap="RdBu_r" if signed else "Blues", vmin=-largest if signed else 0, vmax=largest)
        for (row, column), value in np.ndenumerate(table if cell >= READABLE else table[:0]):
            dark = abs(value) > (0.65 if signed else 0.55) * largest
            axis.text(
                column,
                row,
                _short(value),
                ha="center",
                va="center",
                fontsize=9 if cell > 0.5 else 7,
                color="w" if dark else "k",
            )
        _named(axis, readers, across, title, axes, cell)
    _show(figure)


def grid(edges: Any, readers: Sequence[str], sources: Sequence[str] | None = None, title: str = "") -> None:
    """A table of bools: ● where the row reads the column."""
    grids({title: edges}, readers, sources)


def grids(tables: Mapping[str, Any], readers: Sequence[str], sources: Sequence[str] | None = None) -> None:
    """Several of them beside each other, by their titles."""
    across = list(readers if sources is None else sources)
    figure, places, cell = _figure(len(tables), len(readers), across)
    for axis, (title, table) in zip(places, tables.items()):
        found = numbers(table).astype(bool)
        axis.imshow(found, cmap="Blues", vmin=0, vmax=2)
        for (row, column), edge in np.ndenumerate(found):
            axis.text(column, row, "●" if edge else "○", ha="center", va="center", color="k" if edge else "0.6")
        _named(axis, readers, across, title, ("output ↓", "input →"), cell)
    _show(figure)


def lines(
    x: Sequence[float],
    curves: Mapping[str, Any],
    x_name: str,
    y_name: str,
    levels: Mapping[str, float] | None = None,
    logarithmic: bool = False,
) -> None:
    """Curves over the same x, by their names; `levels`: heights to compare with, as dashed lines."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for marker, (name, curve) in zip("os^Dv" * len(curves), curves.items()):
        axis.plot(x, numbers(curve), marker=marker if len(x) < 30 else "", markersize=4, label=name)
    for name, height in (levels or {}).items():
        axis.axhline(height, color="0.45", linestyle="--", linewidth=1, label=name)
    if logarithmic:
        axis.set_yscale("log")
    axis.set(xlabel=x_name, ylabel=y_name)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    _show(figure)


def numbers(table: Any) -> Array:
    """A tensor, also one with gradients, an array or a list as an array."""
    return np.asarray(table.detach().cpu() if hasattr(table, "detach") else table)


def _figure(count: int, rows: int, columns: Sequence[str]) -> tuple[Any, Sequence[Axes], float]:
    """A row of `count` tables that fits the page, and the size of a cell in it, in inches."""
    cell = max(SMALL, min(CELL, (WIDE - 1.2) / (count * len(columns))))
    size = (count * cell * len(columns) + 1.2, cell * rows + (0.9 if _fits(columns, cell) else 1.5))
    figure, places = _pyplot().subplots(1, count, figsize=size, squeeze=False, layout="constrained")
    return figure, places[0], cell


def _fits(names: Sequence[str], cell: float) -> bool:
    """Whether the names stand beside each other, words below each other."""
    return max(len(word) for name in names for word in name.split(" ")) * 0.085 <= cell


def _named(
    axis: Axes, rows: Sequence[str], columns: Sequence[str], title: str, axes: tuple[str, str], cell: float
) -> None:
    names = [name.replace(" ", "\n") for name in columns]
    axis.set_xticks(range(len(columns)), names, rotation=0 if _fits(columns, cell) else 90)
    first = axis is axis.figure.axes[0]  # the rows are the same in all of them
    axis.set_yticks(range(len(rows)), rows if first else [""] * len(rows))
    axis.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axis.xaxis.set_label_position("top")
    axis.set(ylabel=axes[0] if first else "", xlabel=axes[1])
    axis.spines[:].set_visible(False)
    if title:  # below: above stand the names of the columns
        axis.annotate(title, (0.5, 0), (0, -6), "axes fraction", textcoords="offset points", ha="center", va="top")


def _short(value: float) -> str:
    """`.80` as the handout writes it; `0` only for what is exactly 0."""
    if value == 0:
        return "0"
    text = f"{value:.2f}".replace("-", "−")
    return text.replace("0.", ".", 1) if text.lstrip("−").startswith("0.") else text


def _show(figure: Any) -> None:
    _pyplot().show()
    _pyplot().close(figure)


def _pyplot() -> Any:
    # Not above: whoever copies a cell into the .py file does not make the grader need matplotlib.
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("for pictures: python -m pip install -r requirements-worksheet.txt") from error
    return plt
