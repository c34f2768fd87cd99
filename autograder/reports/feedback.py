"""The record as one page that needs nothing beside it: what a student reads in a browser, on a phone and on paper.

Sentences come from `words`, as in every report. Everything is escaped by the template engine, and the page allows no script.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.course import Settings
from autograder.language import ENGLISH, in_its_language, say, tag
from autograder.reports import words
from autograder.result import Panel, Record, Result, Row, SectionTotal, Status

TINTS = 5  # shades of a colour: fewer than the eye tells apart, so that a shade can be found again in the next table


@dataclass(frozen=True)
class Cell:
    """One place of a table: its text, its shade (`p3`, `n1`, or none), and whether it is wrong."""

    text: str
    tint: str
    wrong: bool = False


@dataclass(frozen=True)
class Table:
    """A Panel as a page shows it: cells in place of texts."""

    name: str
    place: str
    cut: str
    row_axis: str
    column_axis: str
    rows: Row
    columns: Row
    expected: list[list[Cell]]
    yours: list[list[Cell]]
    difference: list[list[Cell]]
    expected_sums: Row
    got_sums: Row
    edges: bool  # of bools: a grid of who reads whom, or of what a mask hides


@dataclass(frozen=True)
class Part:
    """A section of the lab with its results."""

    section: SectionTotal
    points: str
    results: list[Result]


@in_its_language
def page(record: Record, settings: Settings, failed_before: Collection[str] = ()) -> str:
    """The feedback page of a hand-in: HTML in one file. `failed_before`: numbers of checks, of earlier attempts."""
    shown = words.for_student(record, settings.feedback, failed_before)
    counted = Counter(result.status for result in shown.results)
    parts = [
        Part(section, words.section_words(section), [found for found in shown.results if found.section == section.number])
        for section in shown.sections
    ]
    share = 100 * (shown.score - shown.extra_credit) / shown.max_score if shown.max_score else 0
    template = _templates().get_template("feedback.html")
    return template.render(
        record=shown,
        total=words.total_words(shown),
        share=round(min(share, 100), 1),
        counts=[(status, counted[status]) for status in Status if counted[status]],
        remarks=words.remarks(shown),
        first=next((found for found in shown.results if found.status is Status.FAILED), None),
        parts=parts,
        versions=" · ".join(f"{name} {version}" for name, version in shown.versions.items()),
    )


@in_its_language
def cell(record: Record, remark: str = "") -> str:
    """A record as a piece of HTML below the cell of a notebook. `remark`: what is to be said of the grading as a whole."""
    opened = next((found for found in record.results if words.explain(found)), None)
    template = _templates().get_template("cell.html")
    return template.render(record=record, remark=remark, total=words.total_words(record), first=opened)


@lru_cache(maxsize=1024)  # a record is written after every check, with all that were there before
def fragment(found: Result, language: str = ENGLISH) -> str:
    """Why one check lost its points, as a piece of HTML that needs no style: for Gradescope. Empty where all is well.

    `language`: the one that is spoken; what is said differs with it.
    """
    lines = words.explain(found)
    if found.status is not Status.PASSED and found.status is not Status.FAILED:
        lines.insert(0, words.Line("", words.score_words(found)))
    return _templates().get_template("gradescope.html").render(lines=lines, panels=found.panels).strip()


def panels(found: Sequence[Panel], bare: bool = False) -> Markup:
    """The tables of one result, as a piece of HTML: expected, yours, difference. `bare`: where no style is let through."""
    tables = [table(panel) for panel in found]
    return Markup(_templates().get_template("panels.html").render(panels=tables, bare=bare))


def table(panel: Panel) -> Table:
    """A panel with shades: the same number has the same shade in `expected` and in `yours`."""
    everything = [text for grid in (panel.expected, panel.got) for row in grid for text in row]
    edges = set(everything) <= {"True", "False"}
    wrong = [[bool(text) for text in row] for row in panel.difference]
    scale, gap = _largest(everything), _largest(text for row in panel.difference for text in row)

    def cells(grid: Sequence[Row], largest: float, marked: bool) -> list[list[Cell]]:
        return [
            [_cell(text, largest, marked and wrong[i][j], edges) for j, text in enumerate(row)]
            for i, row in enumerate(grid)
        ]

    known: dict[str, Any] = panel.model_dump(include=set(Table.__dataclass_fields__) - {"expected", "difference"})
    return Table(
        **known,
        expected=cells(panel.expected, scale, False),
        yours=cells(panel.got, scale, True),
        difference=cells(panel.difference, gap, False),
        edges=edges,
    )


def ticked(text: str) -> Markup:
    """A sentence in which `names` stand in backticks, with them as code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))


def _cell(text: str, largest: float, wrong: bool, edges: bool) -> Cell:
    if not text:
        return Cell(words.AGREES, "edge" if edges else "")
    if edges:
        symbol = {"True": words.YES, "False": words.NO}.get(text, text)
        return Cell(symbol, "edge p4" if text == "True" else "edge", wrong)
    value = _number(text)
    level = math.ceil(TINTS * min(1.0, abs(value) / largest)) if largest and math.isfinite(value) else 0
    return Cell(text.replace("-", "−"), f"{'n' if value < 0 else 'p'}{level}" if level else "", wrong)


def _largest(texts: Any) -> float:
    return max((abs(value) for value in map(_number, texts) if math.isfinite(value)), default=0.0)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # of a bool, or nothing
        return math.nan


def environment(folder: Path) -> Environment:
    """The templates of a folder: what comes from outside is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"plain": words.plain, "number": words.number}
    return made


@cache
def _templates() -> Environment:
    made = environment(Path(__file__).parent / "templates")
    made.globals |= {"words": words, "say": say, "tag": tag}
    made.filters |= {"score": words.score_words, "explain": words.explain}
    made.filters |= {"panels": panels, "ticked": ticked}
    return made
