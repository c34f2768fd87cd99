"""One page for each hand-in, under a name that every file system takes. What stands on it: reports/feedback.py."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from autograder.course import Settings
from autograder.reports import feedback
from autograder.result import Record, save

SUFFIX = ".html"


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
        save(feedback.page(record, self.settings), self.folder / name, private=True)
        return name

    def sweep(self) -> None:
        """Remove pages of earlier runs: of who is no more in the class, or who now has a code."""
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            if path.suffix == SUFFIX and path.name.casefold() not in self.written:
                path.unlink()
