"""The student's front door: grade the folder's own files against the recording, print what is open."""

from __future__ import annotations

import argparse
import difflib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.sandbox.launcher import LaunchError, Zygote
from autograder.terminal import forgive_encoding

if TYPE_CHECKING:
    from autograder.lab import Lab
    from autograder.submission import Submission


def main(folder: Path, arguments: list[str]) -> int:
    """Run the visible checks on the files of `folder`. Exit status: 0 all passed, 1 something is open, 2 a wrong call."""
    forgive_encoding()
    options = _parser().parse_args(arguments)
    with Zygote() as zygote:
        from rich.console import Console

        from autograder import lab as labs
        from autograder import recording
        from autograder.check import AuthoringError
        from autograder.diagnose import RecordedMistakes
        from autograder.reports import console, words
        from autograder.result import Status
        from autograder.sandbox.frames import FrameError
        from autograder.sandbox.proxy import Recorded
        from autograder.session import Session

        base = folder / "_check"
        try:
            known = recording.load(base / "recording.bin")
            lab = labs.load(known.lab, base, with_reference=False)
            lab = replace(lab, mistakes=known.mistakes, contract=known.contract)
            if options.what:
                chosen = select(lab, options.what)
                if isinstance(chosen, str):
                    print(chosen)
                    return 2
                lab = chosen
            mistaken = RecordedMistakes(known.mistaken)
            session = Session(lab, zygote, Recorded(known.reference), mistaken, confined=False)
            record = session.grade(found(folder, lab))
        except (AuthoringError, FrameError, OSError) as error:
            print(f"The folder _check is damaged, so unzip the lab's zip once more: {error}")
            return 2
        except LaunchError as error:
            print(f"Your file cannot be run here: {error}")
            return 2
    out = Console(highlight=False)
    console.render(words.for_student(record), out)
    out.print(
        "These are the checks that you can run yourself. After handing in, hidden ones and the questions count too."
    )
    return 0 if all(result.status is Status.PASSED for result in record.results) else 1


def found(folder: Path, lab: Lab) -> Submission:
    """The files of the student's folder; of a missing one it is said where it belongs, not how to hand it in."""
    from autograder.reading.notes import Note
    from autograder.submission import collect

    submission = collect(folder, lab.wanted)
    if not submission.missing:
        return submission
    beside = [
        Note("warning", f"Put your {name} beside {lab.file.main}: this lab uses it.") for name in submission.missing
    ]
    if lab.file.main in submission.missing:
        beside[0] = Note("warning", f"There is no {lab.file.main} in {folder}: it is the file that you work on.")
    other = (note for note in submission.notes if not any(name in note.text for name in submission.missing))
    return replace(submission, notes=(*other, *beside))


def select(lab: Lab, what: str) -> Lab | str:
    """The lab with the fitting checks only, and what they come after; or a sentence where nothing fits."""
    names = {check: (check.name, check.number, check.section, check.target) for check in lab.checks}
    chosen = {check.name for check in lab.checks if what in names[check]}
    if not chosen and not what[:1].isdigit():
        chosen = {check.name for check in lab.checks if any(what in name for name in names[check])}
    if not chosen:
        known = [name for check in lab.checks for name in (check.name, check.number, check.section, check.target)]
        near = difflib.get_close_matches(what, sorted(set(known)), 3)
        there = ", ".join(section.number for section in lab.file.sections)
        advice = f"Did you mean {' or '.join(near)}?" if near else f"There are the sections {there}."
        return f"No check fits {what!r}. {advice} (The questions are judged after you hand in.)"
    from autograder.result import points

    while True:
        gates = {gate for check in lab.checks if check.name in chosen for gate in check.after}
        if gates <= chosen:
            break
        chosen |= gates
    checks = tuple(check for check in lab.checks if check.name in chosen)
    sections = tuple(
        section.model_copy(update={"points": points(c.points for c in checks if c.section == section.number)})
        for section in lab.file.sections
    )
    return replace(lab, checks=checks, file=lab.file.model_copy(update={"sections": sections}))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python check.py", description="Check your work with the lab's visible checks."
    )
    parser.add_argument(
        "what", nargs="?", metavar="PART", help="name, number or section of a check: no_loop, 1.4, 1.4.2"
    )
    return parser
