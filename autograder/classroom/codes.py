"""Names replaced by codes. Who is who stands in one file, `codes.csv`, which is for the teacher alone."""

from __future__ import annotations

import csv
import io
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from autograder.classroom.exports import HandedIn, Student
from autograder.reading.notes import Note
from autograder.result import Record, save
from autograder.submission import Submission

COLUMNS = ("code", "name", "sid", "email", "hand-in")
SHORTEST = 2  # a single letter would be found in every sentence


class Codes:
    """The codes of one class: random, and the same in each run with the same file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[tuple[str, ...], str] = {}
        if path.exists():
            with path.open(encoding="utf-8-sig", newline="") as file:
                for entry in csv.DictReader(file):
                    self.known[tuple(entry[name] for name in COLUMNS[1:])] = entry["code"]

    def code(self, student: Student, label: str) -> str:
        """The code of a student, a new one where there is none yet."""
        key = (student.name, student.sid, student.email, label)
        taken = set(self.known.values())
        while key not in self.known:
            drawn = f"S{secrets.randbelow(900_000) + 100_000}"
            if drawn not in taken:
                self.known[key] = drawn
        return self.known[key]

    def coded(self, handed: HandedIn) -> HandedIn:
        """The hand-in with codes in the place of names; its files stay where they are."""
        codes = [self.code(student, handed.label) for student in handed.students]
        return replace(handed, label=codes[0], students=tuple(map(Student, codes)))

    def save(self) -> None:
        """Keep who is who."""
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        writer.writerows((code, *key) for key, code in sorted(self.known.items(), key=lambda item: item[1]))
        save("\ufeff" + text.getvalue(), self.path, private=True)


def hider(handed: HandedIn, code: str, keep: Collection[str]) -> Callable[[str], str]:
    """A function that replaces in a text all by which a hand-in's students are known; never what is in `keep`."""
    words = {handed.label, Path(handed.label).stem}
    for student in handed.students:
        words |= {student.name, student.sid, student.email, ", ".join(reversed(student.name.rsplit(" ", 1)))}
    for path in handed.files.values():
        words |= {path.name, path.stem}
    found = sorted((word for word in words if len(word) >= SHORTEST and word not in keep), key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in found) or r"(?!)", re.IGNORECASE)
    return lambda text: pattern.sub(code, text)


def hidden_submission(submission: Submission, hide: Callable[[str], str]) -> Submission:
    """A hand-in whose name, notes and file names tell nobody."""
    return replace(
        submission,
        name=hide(submission.name),
        notes=tuple(Note(note.severity, hide(note.text)) for note in submission.notes),
        origins={wanted: hide(origin) for wanted, origin in submission.origins.items()},
    )


def hidden_record(record: Record, hide: Callable[[str], str]) -> Record:
    """A record in which neither what was printed nor what an exception said tells a name."""
    results = []
    for result in record.results:
        texts = {name: hide(getattr(result, name)) for name in ("gap", "printed", "review")}
        where = result.where and result.where.model_copy(update={"text": hide(result.where.text)})
        results.append(result.model_copy(update={**texts, "where": where}))
    return record.model_copy(update={"results": tuple(results), "notes": tuple(map(hide, record.notes))})
