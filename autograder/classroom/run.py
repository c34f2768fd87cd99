"""`grade-all`: an export in; grades.csv, a page for each student, class.html and what else was asked for out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder import course
from autograder import lab as labs
from autograder.classroom import codes, exports, gradebook, regrade, report, summary, worker
from autograder.classroom.exports import Export, HandedIn
from autograder.classroom.feedback import Pages
from autograder.classroom.fingerprints import Prints
from autograder.classroom.jobs import Job, grader_digest
from autograder.classroom.pool import Crew, Done, LocalCrew, Run
from autograder.classroom.progress import Progress
from autograder.classroom.rows import GradedClass, Row, row
from autograder.classroom.shelf import Shelf
from autograder.grade import read_sources
from autograder.lab import Lab
from autograder.reports.words import sandbox_warning
from autograder.result import Record, save
from autograder.submission import CollectError, Submission


class ClassError(Exception):
    """What was asked for cannot be done; one sentence."""


@dataclass(frozen=True)
class Wish:
    """What the caller wants."""

    lab: str
    submissions: Path
    out: Path
    workers: int
    scheduler: str = ""
    canvas: Path | None = None
    column: str = ""
    codes: bool = False
    lang: str = ""  # empty: the course's


def grade_all(wish: Wish, root: Path) -> int:
    """Grade a class and write everything. Exit status 0: every hand-in has its row, whatever came of it."""
    lab = labs.load(wish.lab, root, lang=wish.lang)
    canvas = _read_canvas(wish.canvas) if wish.canvas else ""
    if canvas:  # a wrong column is told now, and not when everything is graded
        _filled(canvas, [], lab, wish)
    try:
        export = exports.read(wish.submissions, wish.out / "unpacked")
    except exports.ExportError as error:
        raise ClassError(str(error)) from error
    graded = grade_export(export, lab, wish)
    write(graded, wish, canvas)
    return 0


def grade_export(export: Export, lab: Lab, wish: Wish) -> GradedClass:
    """Grade every hand-in that has no result yet."""
    begun = time.monotonic()
    grading = _Grading(export, lab, wish)
    crew = _crew(wish)
    at_once = True
    try:
        with Progress(len(export.hand_ins)) as progress:
            grading.tell = progress.tell
            for done in Run(crew, worker.grade, grading.jobs()):
                grading.landed(done)
        at_once, workers = False, crew.size
    finally:
        crew.leave(at_once)
        if grading.codes:
            grading.codes.save()
    rows = sorted(grading.rows, key=lambda item: (item.label.casefold(), item.label))
    grading.pages.sweep()
    return GradedClass(lab, export, rows, grading.prints, time.monotonic() - begun, workers, wish.codes)


class _Grading:
    """Hand-ins become jobs, and what comes back becomes rows and pages."""

    def __init__(self, export: Export, lab: Lab, wish: Wish) -> None:
        self.export = export
        self.lab = lab
        self.grader = grader_digest(lab)
        self.shelf = Shelf(wish.out / "records")
        self.pages = Pages(wish.out / "feedback", course.settings(lab.root))
        self.codes = codes.Codes(wish.out / "codes.csv") if wish.codes else None
        self.prints = Prints.of_lab(lab)
        self.rows: list[Row] = []
        self.asked: dict[str, list[tuple[HandedIn, Callable[[str], str] | None]]] = {}
        self.tell: Callable[[Row], None] = lambda _: None

    def jobs(self) -> Iterator[Job]:
        """A job for each hand-in without a result. One that another has handed in just so is graded once."""
        for original in self.export.hand_ins:
            handed = self.codes.coded(original) if self.codes else original
            hide = codes.hider(original, handed.label, self._kept_words()) if self.codes else None
            try:
                submission = self._collect(handed, hide)
            except Exception as error:  # of one hand-in: it is a row, and not the end of the others
                said = str(error) if isinstance(error, CollectError) else f"{type(error).__name__}: {error}"
                self.keep(Row(handed, trouble=f"cannot be read: {hide(said) if hide else said}"))
                continue
            job = Job(str(self.lab.root), self.lab.name, self.grader, submission, self.lab.language)
            kept = self.shelf.get(job.key)
            if kept:
                self.finish(handed, kept, hide, fresh=False)
            elif job.key in self.asked:
                self.asked[job.key].append((handed, hide))
            else:
                self.asked[job.key] = [(handed, hide)]
                yield job

    def _collect(self, handed: HandedIn, hide: Callable[[str], str] | None) -> Submission:
        with self.lab.speaking():
            submission = handed.collect(self.lab.wanted)
        main = read_sources(submission, self.lab.contract).sources.get(self.lab.main_module)
        if main:
            self.prints.add(handed.label, main.text)
        return codes.hidden_submission(submission, hide) if hide else submission

    def _kept_words(self) -> set[str]:
        return {*self.lab.wanted, *(name.removesuffix(".py") for name in self.lab.wanted)}

    def landed(self, done: Done[Job, worker.Graded]) -> None:
        """Keep what came of a job, for everybody who handed it in."""
        key = done.item.key
        record = Record.model_validate_json(done.answer.record) if done.answer else None
        if record and done.answer:
            self.shelf.put(key, record, done.answer.record)
        for at, (handed, hide) in enumerate(self.asked.pop(key)):
            if record is None:
                self.keep(Row(handed, trouble=done.trouble))
            else:
                self.finish(handed, record, hide, fresh=at == 0)

    def finish(self, handed: HandedIn, record: Record, hide: Callable[[str], str] | None, fresh: bool) -> None:
        """The row and the page of a record."""
        own = record.model_copy(update={"hand_in": record.hand_in.model_copy(update={"name": handed.label})})
        if hide:
            own = codes.hidden_record(own, hide)
        self.keep(row(handed, own, fresh, self.pages.write(own, handed.label), sandbox_warning(own)))

    def keep(self, made: Row) -> None:
        """A hand-in is done."""
        self.rows.append(made)
        self.tell(made)


def write(graded: GradedClass, wish: Wish, canvas: str) -> None:
    """Write the files of a class and say which."""
    files = {"grades.csv": gradebook.grades(graded.rows, graded.lab)}
    changed = regrade.changes(graded.rows)
    if any(item.handed.earlier for item in graded.rows):
        files["regrade.csv"] = regrade.as_csv(changed)
    filled = _filled(canvas, graded.rows, graded.lab, wish) if canvas else None
    if filled:
        files["canvas.csv"] = filled.text
    files["class.html"] = report.page(graded, changed)
    for name, text in files.items():
        save(text, wish.out / name, private=True)
        graded.written.append(wish.out / name)
    summary.render(graded, changed, filled)


def _crew(wish: Wish) -> Crew:
    if not wish.scheduler:
        return LocalCrew(wish.workers)
    try:
        from autograder.classroom.cluster import DaskCrew
    except ImportError as error:
        raise ClassError("a scheduler needs Dask: pip install 'distributed' (extra `cluster`)") from error
    try:
        return DaskCrew(wish.scheduler)
    except (OSError, ValueError) as error:
        raise ClassError(f"no Dask scheduler answers at {wish.scheduler}: {error}") from error


def _read_canvas(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise ClassError(f"there is no {path}: export the grade book from Canvas first") from error
    except UnicodeDecodeError as error:
        raise ClassError(f"{path} is not UTF-8: give the file as Canvas exports it") from error


def _filled(canvas: str, rows: list[Row], lab: Lab, wish: Wish) -> gradebook.Filled:
    try:
        return gradebook.fill_canvas(canvas, rows, lab, wish.column)
    except gradebook.GradebookError as error:
        raise ClassError(f"{wish.canvas}: {error}") from error
