"""The files of a grading, kept whole and valid from its first moment to its last."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from autograder.course import Settings
from autograder.policy import Circumstances
from autograder.reports import feedback, gradescope
from autograder.result import Record, save


def writer(
    out: Path,
    settings: Settings,
    failed_before: Collection[str] = (),
    facts: Circumstances | None = None,
) -> Callable[[Record], None]:
    """A sink that keeps the files of a grading whole and valid in `out`, whenever it ends.

    `record.json` is for staff; `results.json` (Gradescope) and `feedback.html` (a browser) show what a student may see.
    """

    pages = 0

    def write(record: Record) -> None:
        nonlocal pages
        # It holds what hidden checks came to, and the hand-in is still running: its user could read a file that is open to all.
        save(record.model_dump_json(indent=1), out / "record.json", private=True)
        save(gradescope.text(gradescope.results(record, settings, failed_before, facts)), out / "results.json")
        # The page takes longer than a check. Until all is done it says only that the grading is not finished. It comes last:
        # on a disk that is nearly full, the platform's file matters more.
        if record.complete or not pages:
            pages += 1
            save(feedback.page(record, settings, failed_before), out / "feedback.html")

    return write
