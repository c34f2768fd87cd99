"""`check("no_loop")` in a cell of the worksheet: the sentences and the tables of the feedback page, below the cell.

What is judged is what the notebook would use: the definitions in its cells where there are any of that name, else the file
beside it. Cells are taken as they were run, so the number in `cell 7 line 3` is the one that stands beside the cell: [7].
"""

from __future__ import annotations

import atexit
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rich.console import Console

from autograder.lab import Lab
from autograder.local.choose import select
from autograder.local.desk import Damaged, Desk, found
from autograder.reports import console, feedback, words
from autograder.result import Record
from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.spawner import Launcher, launcher_for_this_system
from autograder.submission import Submission

DEFINED = re.compile(r"^(?:async +)?(?:def|class) +(\w+)|^(\w+)[^=\n]*=(?!=)", re.MULTILINE)
CELLS, BOOK = "this notebook", "worksheet.ipynb"


@dataclass(frozen=True)
class Answer:
    """What a check came to; a notebook shows it as HTML, everything else as text."""

    record: Record
    remark: str = ""

    def _repr_html_(self) -> str:
        return feedback.cell(self.record, self.remark)

    def __repr__(self) -> str:
        text = io.StringIO()
        # Left to itself, rich would show it in the notebook at once.
        out = Console(file=text, width=100, highlight=False, color_system=None, force_jupyter=False)
        console.render(self.record, out)
        return f"{text.getvalue()}{self.remark}".rstrip()


class Saying(str):
    """A sentence in place of an Answer; shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def check(folder: Path, what: str, cells: Sequence[str]) -> Answer | Saying:
    """Grade a part of the lab: `what` as in `python check.py WHAT`, everything where it is empty.

    Args:
        folder: the student's.
        cells: what was run in the notebook so far, as it was written; the first is empty, as in IPython's `In`.
    """
    try:
        desk = Desk(folder)
        lab = select(desk.lab, what) if what else desk.lab
        if isinstance(lab, str):
            return Saying(lab)
        handed_in, remark = in_cells(found(folder, lab), lab, cells)
        return Answer(desk.grade(launcher(), lab, handed_in=handed_in), remark)
    except Damaged as error:
        return Saying(error)
    except LaunchError as error:
        return Saying(words.cannot_run(error))


def in_cells(beside: Submission, lab: Lab, cells: Sequence[str]) -> tuple[Submission, str]:
    """The hand-in to judge, and what is to be said of it: the notebook's cells where they define what is to be checked."""
    defined = [{name for pair in DEFINED.findall(cell) for name in pair if name} for cell in cells]
    wanted = {found.target for found in lab.checks}
    if not wanted.intersection(*[set().union(*defined)]):
        return beside, ""
    newest, later = list(cells), set[str]()
    for at in reversed(range(len(cells))):  # a cell that was run again stands there twice
        if defined[at] and defined[at] <= later:
            newest[at] = ""
        later |= defined[at]
    book = {"cells": [{"cell_type": "code", "source": cell} for cell in newest[1:]], "nbformat": 4, "nbformat_minor": 5}
    main = lab.file.main
    own = replace(
        beside,
        name=CELLS,
        files={**beside.files, main: json.dumps(book).encode()},
        origins={**beside.origins, main: BOOK},
        missing=tuple(name for name in beside.missing if name != main),
    )
    return own, words.judged_in_cells(sorted(wanted & later), main)


@cache
def launcher() -> Launcher:
    """One process with torch in it, for as long as the notebook runs."""
    started = launcher_for_this_system()
    atexit.register(started.close)
    return started
