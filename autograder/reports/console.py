"""The record in a terminal: a line for each check, and under each lost point why it was lost."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autograder.reports.words import (
    SYMBOLS,
    Line,
    explain,
    plain,
    sandbox_warning,
    score_words,
    section_words,
    total_words,
    unjudged_words,
)
from autograder.result import Record, Result, Status

STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "red",
    Status.BLOCKED: "dim",
    Status.ERROR: "magenta",
    Status.NOT_RUN: "yellow",
}


def render(record: Record, console: Console, staff: bool = False) -> None:
    """Print a record. `staff` adds faults of the grader, the state of the sandbox and what needs review."""
    console.print(Text(f"{record.title}", style="bold"))
    console.print(Text(f"hand-in {plain(record.hand_in.name)}", style="dim"))
    for note in record.notes:
        console.print(Text(f"· {plain(note)}", style="yellow"))
    for section in record.sections:
        console.print()
        title = f"{section.number} {section.title}" + (" (extra credit)" if section.extra_credit else "")
        console.print(_row(title, section_words(section), "bold"))
        for result in record.results:
            if result.section == section.number:
                result_lines(result, console, staff)
    console.print()
    console.print(_row("Total", total_words(record), "bold"))
    if waiting := unjudged_words(record):
        console.print(Text(waiting, style="magenta"))
    if staff:
        for line in [*record.faults, sandbox_warning(record)]:
            if line:
                console.print(Text(f"staff: {plain(line)}", style="magenta"))


def result_lines(result: Result, console: Console, staff: bool = False) -> None:
    """Print one result: its line in the table, and why points were lost."""
    style = STYLES[result.status]
    hidden = " (hidden)" if result.hidden and "question" not in result.tags else ""
    console.print(_row(f"{SYMBOLS[result.status]} {result.number} {result.title}{hidden}", score_words(result), style))
    lines = explain(result)
    if lines:
        console.print(Padding(_lines(lines), (0, 0, 0, 4)))
    if staff and result.review:
        console.print(Padding(Text(f"needs review: {plain(result.review)}", style="magenta"), (0, 0, 0, 4)))


def _lines(lines: list[Line]) -> Group:
    parts: list[RenderableType] = []
    for line in lines:
        if not line.label:
            parts.append(Text(line.text))
            continue
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, style="bold", width=7)
        grid.add_column(ratio=1)
        grid.add_row(line.label, Text(line.text))
        parts.append(grid)
    return Group(*parts)


def _row(left: str, right: str, style: str) -> Table:
    row = Table.grid(expand=True, padding=(0, 1))
    row.add_column(ratio=1)
    row.add_column(justify="right", no_wrap=True)
    row.add_row(Text(left, style=style), Text(right, style=style))
    return row
