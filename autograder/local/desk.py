"""A student's folder as a place to grade in: its own files against the recording that came with the lab."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autograder import lab as labs
from autograder import language, recording
from autograder.check import AuthoringError
from autograder.diagnose import RecordedMistakes
from autograder.grade import Sink, nowhere
from autograder.lab import Lab
from autograder.reading.notes import Note
from autograder.reports import words
from autograder.result import Record
from autograder.sandbox.frames import FrameError
from autograder.sandbox.proxy import Recorded
from autograder.sandbox.spawner import Launcher
from autograder.session import Session
from autograder.source import Source
from autograder.submission import Submission, collect


class Damaged(Exception):
    """What the lab brought along cannot be read: one sentence that says what to do."""


class Desk:
    """The lab of one folder, ready to grade what lies there, as often as wanted. Raises Damaged.

    `lang`: another language than the course's. From here on all is said in it.
    """

    def __init__(self, folder: Path, lang: str = "") -> None:
        self.folder = folder
        base = folder / "_check"
        try:
            self.known = recording.load(base / "recording.bin")
            lab = labs.load(self.known.lab, base, with_reference=False, lang=lang)
        except (AuthoringError, FrameError, OSError) as error:
            raise Damaged(words.damaged(error)) from error
        own = labs.handout_name(lab.language)
        handout = own if (folder / own).exists() else lab.handout
        self.lab = replace(lab, mistakes=self.known.mistakes, contract=self.known.contract, handout=handout)
        language.use(self.lab.language, self.lab.folder)  # the whole process is one student's

    def grade(self, launcher: Launcher, lab: Lab, sink: Sink = nowhere, handed_in: Submission | None = None) -> Record:
        """Run the checks of `lab`, this one or a part of it, on what now lies in the folder, or on `handed_in`.

        Raises:
            LaunchError: torch cannot be loaded.
        """
        reference, mistaken = Recorded(self.known.reference), RecordedMistakes(self.known.mistaken)
        session = Session(lab, launcher, reference, mistaken, confined=False)
        return words.for_student(session.grade(handed_in or found(self.folder, lab), sink))


def found(folder: Path, lab: Lab) -> Submission:
    """The files of the student's folder; of a missing one it is said where it belongs, not how to hand it in."""
    submission = without_the_story(collect(folder, lab.wanted), lab)
    if not submission.missing:
        return submission
    beside = [Note("warning", words.put_beside(name, lab.file.main)) for name in submission.missing]
    if lab.file.main in submission.missing:
        beside[0] = Note("warning", words.no_main_file(lab.file.main, str(folder)))
    other = (note for note in submission.notes if not any(name in note.text for name in submission.missing))
    return replace(submission, notes=(*other, *beside))


def without_the_story(submission: Submission, lab: Lab) -> Submission:
    """The hand-in without a worksheet in the place of the lab's file, where it is as it was handed out: it defines nothing."""
    main = lab.file.main
    origin = submission.origins.get(main, main)
    if main not in submission.files or not origin.endswith(".ipynb"):
        return submission
    source = Source.read(submission.files[main], main, origin)
    if any(source.find(check.target) for check in lab.checks):
        return submission
    files = {name: data for name, data in submission.files.items() if name != main}
    notes = tuple(note for note in submission.notes if origin not in note.text)
    return replace(submission, files=files, missing=(main, *submission.missing), notes=notes)
