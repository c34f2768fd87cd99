"""A worksheet: what its author writes as a Python file with `# %%` between the cells, and students open as a notebook."""

from __future__ import annotations

import re
from pathlib import Path

from autograder import course

NAME = "worksheet.ipynb"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
ASKED = re.compile(r"""^check\(["']([^"'\n]*)["']\)""", re.MULTILINE)


def source(lab: str, root: Path) -> str:
    """The source of a lab's worksheet; empty where it has none, which is allowed."""
    path = root / "assignments" / lab / "worksheet.py"
    return course.read_text(path) if path.exists() else ""


def notebook(text: str) -> bytes:
    """A worksheet's source, in the percent format, as a notebook without outputs. The same bytes for the same text."""
    # Not above: nothing that grades needs it, and the image has no jupytext.
    import jupytext
    import nbformat

    book = jupytext.reads(text, fmt="py:percent")
    book.update(metadata=METADATA, nbformat=4, nbformat_minor=5)
    for number, cell in enumerate(book.cells, start=1):
        cell.update(id=f"cell-{number}", metadata={})  # jupytext draws ids at random
    nbformat.validate(book)
    written: str = jupytext.writes(book, fmt="ipynb")
    return f"{written.rstrip()}\n".encode()


def asked(text: str) -> list[str]:
    """What a worksheet's cells check: each `check("…")` that stands at the beginning of a line."""
    return ASKED.findall(text)
