"""The record in a terminal, one thing at a time: how far the lab is, and the first item that is open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from autograder.check import Check
from autograder.language import in_its_language, say
from autograder.reports import console as table
from autograder.reports import words
from autograder.result import Record, Result, Status, points

BAR = 40  # cells


def first_open(results: Iterable[Result]) -> Result | None:
    """The first result that is not as it should be and waits for no other."""
    return next((found for found in results if found.status is not Status.PASSED and not found.blocked_by), None)


@in_its_language
def render(record: Record, checks: Sequence[Check], results: Sequence[Result | None], out: Console) -> None:
    """Print the bar, the map of sections, notes and the first open item. `results`: by check, None where not known yet."""
    known = [found for found in results if found]
    out.print(table.paragraph(record.title, "bold"))
    out.print(_bar(checks, known))
    out.print(_map(checks, results))
    out.print()
    for note in record.notes:
        out.print(table.paragraph(f"· {words.plain(note)}", "yellow"))
    opened = first_open(known)
    if opened:
        table.result_lines(opened, out)
    elif len(known) == len(results):
        out.print(Text(say(words.ALL_DONE), style="green"))
        out.print(table.paragraph(say(words.ONLY_VISIBLE)))


def footer(main: str, seconds: float | None, out: Console) -> None:
    """Print what to do, and how long after the save the answer stood there; None where there was no save."""
    # A file that is taken away, or put back, has a time of long ago: nobody waited since then.
    took = f"{words.answered(seconds)} · " if seconds is not None and 0 <= seconds < 60 else ""
    out.print()
    out.print(Text(f"{took}{words.save_again(main)}", style="dim"))


def _bar(checks: Sequence[Check], known: Sequence[Result]) -> Text:
    passed = [found for found in known if found.status is Status.PASSED]
    full = BAR * len(passed) // max(1, len(checks))
    earned, of = points(found.score for found in passed), points(check.points for check in checks)
    said = words.progress(len(passed), len(checks), earned, of)
    return Text.assemble(("█" * full, "green"), ("░" * (BAR - full), "dim"), f"  {said}")


def _map(checks: Sequence[Check], results: Sequence[Result | None]) -> Text:
    """Each section with a symbol for each of its checks: `1.1 ✓✓  1.2 ✗––`."""
    line = Text()
    section = ""
    for check, found in zip(checks, results):
        if check.section != section:
            line.append(f"{'  ' if section else ''}{check.section} ", style="dim")
            section = check.section
        line.append(words.SYMBOLS[found.status] if found else " ", style=table.STYLES[found.status] if found else "")
    return line
