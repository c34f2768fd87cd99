"""`make demo`: grade the example hand-ins that come with each lab, on one warm grader."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autograder import lab as labs
from autograder.language import say
from autograder.reports.words import number
from autograder.result import Record, Status
from autograder.sandbox.launcher import Zygote
from autograder.session import Session
from autograder.submission import collect


def examples(name: str, root: Path) -> dict[str, Path]:
    """The example hand-ins of a lab, the untouched starter among them."""
    folder = root / "reference" / name / "examples"
    found = {path.name: path for path in sorted(folder.iterdir()) if path.is_dir()} if folder.is_dir() else {}
    starter = root / "starter_code" / name
    return {**found, "untouched": starter} if starter.is_dir() else found


def run(root: Path, names: list[str], zygote: Zygote, lang: str = "") -> int:
    """Print a table for each lab: example, points, and the first thing that went wrong. Returns 0."""
    console = Console(highlight=False)
    for name in names:
        lab = labs.load(name, root, lang=lang)
        session = Session(lab, zygote)
        with lab.speaking():
            title = say(lab.file.title)
        table = Table(title=title, title_justify="left", expand=True)
        table.add_column("example", no_wrap=True)
        table.add_column("points", justify="right", no_wrap=True)
        table.add_column("✓ ✗ –", justify="right", no_wrap=True)
        table.add_column("first finding", ratio=1)
        table.add_column("ms", justify="right", no_wrap=True)
        for example, path in examples(name, root).items():
            begun = time.monotonic()
            with lab.speaking():
                record = session.grade(collect(path, lab.wanted))
            spent = f"{1000 * (time.monotonic() - begun):.0f}"
            points = f"{number(record.score)} / {number(record.max_score)}"
            table.add_row(example, points, _counts(record), first_finding(record), spent)
        session.close_reference()
        console.print(table)
        console.print()
    example = f"reference/{names[0]}/examples/…"
    console.print(f"The reasons for each lost point: make grade LAB={names[0]} SUBMISSION={example}")
    return 0


def first_finding(record: Record) -> str:
    """The first failed check and why, in one line; the notes on the hand-in where all passed."""
    for result in record.results:
        if result.status in (Status.FAILED, Status.ERROR, Status.NOT_RUN):
            at = f" ({result.where.place})" if result.where else ""
            return f"{result.number} {result.cause or result.gap}{at}"
    return record.notes[0] if record.notes else "everything passed"


def _counts(record: Record) -> str:
    statuses = [result.status for result in record.results]
    return f"{statuses.count(Status.PASSED)} {statuses.count(Status.FAILED)} {statuses.count(Status.BLOCKED)}"
