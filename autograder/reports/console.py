"""The record in a terminal: a line for each check, and under each lost point why it was lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autograder.language import TOKEN, in_its_language, is_cjk, say
from autograder.reports.words import (
    CAUSE,
    PRINTED,
    READ,
    SYMBOLS,
    WHERE,
    Line,
    check_title,
    explain,
    plain,
    sandbox_warning,
    score_words,
    section_title,
    section_words,
    total_words,
    unjudged_words,
)
from autograder.result import Record, Result, Status

SHORTEST = 6  # cells
REMARK = re.compile("（[^）]*$")  # one that is still open
CLOSING, OPENING = "，。、：；！？”’）》」】…", "“‘（《「【"
STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "red",
    Status.BLOCKED: "dim",
    Status.ERROR: "magenta",
    Status.NOT_RUN: "yellow",
}


@in_its_language
def render(record: Record, console: Console, staff: bool = False) -> None:
    """Print a record. `staff` adds faults of the grader, the state of the sandbox and what needs review."""
    console.print(paragraph(record.title, "bold"))
    console.print(Text(say("hand-in {name}", name=plain(record.hand_in.name)), style="dim"))
    for note in record.notes:
        console.print(paragraph(f"· {plain(note)}", "yellow"))
    for section in record.sections:
        console.print()
        console.print(_row(section_title(section), section_words(section), "bold"))
        for result in record.results:
            if result.section == section.number:
                result_lines(result, console, staff)
    console.print()
    console.print(_row(say("Total"), total_words(record), "bold"))
    if waiting := unjudged_words(record):
        console.print(paragraph(waiting, "magenta"))
    if staff:
        for line in [*record.faults, sandbox_warning(record)]:
            if line:
                console.print(Text(f"staff: {plain(line)}", style="magenta"))


def result_lines(result: Result, console: Console, staff: bool = False) -> None:
    """Print one result: its line in the table, and why points were lost."""
    style = STYLES[result.status]
    console.print(_row(f"{SYMBOLS[result.status]} {check_title(result)}", score_words(result), style))
    lines = explain(result)
    if lines:
        console.print(Padding(_lines(lines), (0, 0, 0, 4)))
    if staff and result.review:
        console.print(Padding(Text(f"needs review: {plain(result.review)}", style="magenta"), (0, 0, 0, 4)))


def paragraph(text: str, style: str = "") -> RenderableType:
    """A text that is wrapped to the width it gets: between words, and between Chinese characters."""
    return _Chinese(text, style) if any(map(is_cjk, text)) else Text(text, style=style)


class _Chinese:
    """rich breaks lines at spaces alone: a sentence without any would leave half of the line before it empty."""

    def __init__(self, text: str, style: str) -> None:
        self.text = text
        self.style = style

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(2, cell_len(self.text)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in wrapped(self.text, options.max_width):
            yield Text(line, style=self.style)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells; none begins with a mark that closes something, none ends with one that opens."""
    lines: list[list[str]] = [[]]
    for unit in _units(text):
        if lines[-1] and cell_len("".join([*lines[-1], unit])) > width:
            lines.append([])
            unit = unit.lstrip(" ")
        while cell_len(unit) > width:  # a word that is longer than a line
            head = set_cell_size(unit, width).rstrip(" ") or unit[0]
            unit = unit[len(head) :]
            lines[-1:] = [[head], []]
        lines[-1].append(unit)
    if len(lines) > 1:
        while len(lines[-2]) > SHORTEST and cell_len("".join(lines[-1])) < SHORTEST:  # one character alone is no line
            lines[-1].insert(0, lines[-2].pop())
    return ["".join(line).strip(" ") if at else "".join(line) for at, line in enumerate(lines)]


def _units(text: str) -> Iterator[str]:
    """What a line is not broken within: a character or word, with the marks that belong to it, and a short remark in brackets."""
    unit, end = "", 0
    for found in TOKEN.finditer(text):
        between, word = text[end : found.start()], found[0]
        end = found.end()
        remark = REMARK.search(unit) and len(unit) - unit.rfind("（") <= SHORTEST
        if unit and (between or not (word[0] in CLOSING or unit[-1] in OPENING or remark)):
            yield unit
            unit = ""
        unit += between + word
    yield unit


def _lines(lines: list[Line]) -> Group:
    parts: list[RenderableType] = []
    width = max(cell_len(say(label)) for label in (WHERE, READ, CAUSE, PRINTED))
    for line in lines:
        if not line.label:
            parts.append(paragraph(line.text))
            continue
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="bold", width=width)
        grid.add_column(ratio=1)
        grid.add_row(line.label, paragraph(line.text))
        parts.append(grid)
    return Group(*parts)


def _row(left: str, right: str, style: str) -> Table:
    row = Table.grid(expand=True, padding=(0, 1))
    row.add_column(ratio=1)
    row.add_column(justify="right", no_wrap=True)
    row.add_row(paragraph(left, style), Text(right, style=style))
    return row
