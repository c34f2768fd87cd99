"""A worksheet: what its author writes as a Python file with `# %%` between the cells, and students open as a notebook."""

from __future__ import annotations

import re
from pathlib import Path

from autograder import course

NAME = "worksheet.ipynb"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
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
    book.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    book.nbformat, book.nbformat_minor = 4, 5
    for number, cell in enumerate(book.cells, start=1):
        cell["id"] = f"cell-{number}"  # jupytext draws one at random
        cell.metadata = nbformat.from_dict({})
    nbformat.validate(book)
    return f"{nbformat.writes(book).rstrip()}\n".encode()


def asked(text: str) -> list[str]:
    """What a worksheet's cells check: each `check("…")` that stands at the beginning of a line."""
    return ASKED.findall(text)
