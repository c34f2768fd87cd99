"""One page for each student. The page itself is made in one place, `page`; everything else only names and writes it."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Collection
from pathlib import Path

from rich.console import Console

from autograder.course import Settings
from autograder.reports import console, words
from autograder.result import Record, save

SUFFIX = ".txt"
WIDTH = 100


def page(record: Record, settings: Settings) -> str:
    """What a student reads: the table of points, as in the terminal."""
    text = io.StringIO()
    console.render(words.for_student(record, settings.feedback), Console(file=text, width=WIDTH, highlight=False))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def file_name(label: str, taken: Collection[str]) -> str:
    """A name for a page that every file system takes, and that no other page has (however it spells it)."""
    safe = re.sub(r"[^\w.-]+", "_", label).strip("._")[:80] or "hand-in"
    if safe != label or f"{safe}{SUFFIX}".casefold() in taken:
        safe = f"{safe}-{hashlib.sha256(label.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"
    return f"{safe}{SUFFIX}"


class Pages:
    """The folder of pages. After a run it holds the pages of that run alone."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.written: set[str] = set()

    def write(self, record: Record, label: str) -> str:
        """Write the page of a hand-in; returns the name of its file."""
        name = file_name(label, self.written)
        self.written.add(name.casefold())
        save(page(record, self.settings), self.folder / name)
        return name

    def sweep(self) -> None:
        """Remove pages of earlier runs: of who is no more in the class, or who now has a code."""
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            if path.suffix in (".txt", ".html") and path.name.casefold() not in self.written:
                path.unlink()
