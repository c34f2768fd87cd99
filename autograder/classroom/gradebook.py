"""The grade book: `grades.csv` with a row for each student, and Canvas's own export with one column filled in."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from autograder.classroom.rows import Row
from autograder.lab import Lab
from autograder.reports.words import number
from autograder.result import Status

# A spreadsheet computes what begins so. A quote before it makes it text, in all of them.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class GradebookError(Exception):
    """An export of a grade book that cannot be filled in; one sentence."""


def safe(text: str) -> str:
    """Text from outside as a cell that no spreadsheet computes."""
    return f"'{text}" if text.lstrip(" \u00a0").startswith(FORMULA) or text.startswith(FORMULA) else text


def grades(rows: Iterable[Row], lab: Lab) -> str:
    """`grades.csv`: a row for each student, a column for each section. No points where there was no grading."""
    sections = lab.file.sections
    head = ["student", "sid", "email", "hand-in", "submitted", "late", "status", "points", "of", "extra credit"]
    head += [f"{section.number} {section.title} ({number(section.points)})" for section in sections]
    head += ["failed checks", "mistakes", "feedback", "trouble"]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(map(safe, head))
    for row in rows:
        points = [row.score, row.max_score, row.extra_credit, *(row.sections.get(s.number, 0.0) for s in sections)]
        cells = [number(value) if row.graded else "" for value in points]
        end = [" ".join(row.failed()), " ".join(row.mistakes), row.page, row.trouble or "; ".join(row.faults)]
        for student in row.handed.students:
            who = [student.name, student.sid, student.email, row.label, row.handed.submitted]
            start = [*who, "late" if row.handed.late else "", status(row)]
            writer.writerow([*map(safe, start), *cells, *map(safe, end)])
    return "\ufeff" + text.getvalue()  # the mark without which Excel reads UTF-8 as something else


def status(row: Row) -> str:
    """In a word, what came of a hand-in."""
    if not row.graded:
        return "not graded"
    if row.empty:
        return "nothing found"
    if row.faults or any(check.status is Status.ERROR for check in row.checks.values()):
        return "fault of the grader"
    return "cut short" if any(check.status is Status.NOT_RUN for check in row.checks.values()) else "graded"


# Canvas ---------------------------------------------------------------------------------------------------------------


@dataclass
class Filled:
    """Canvas's export with the points in it, and who could not be placed."""

    text: str
    column: str
    placed: int = 0
    overwritten: list[str] = field(default_factory=list)
    without_points: list[str] = field(default_factory=list)  # in Canvas, and no hand-in found
    not_in_canvas: list[str] = field(default_factory=list)  # handed in, and no line found
    remarks: list[str] = field(default_factory=list)


def fill_canvas(export: str, rows: Sequence[Row], lab: Lab, column: str = "") -> Filled:
    """Put the points into the one column of the lab; every other character of the export stays as it is.

    `column`: its name, or how it begins; else it is found by the title or the name of the lab. Raises GradebookError.
    """
    mark = "\ufeff" if export.startswith("\ufeff") else ""
    lines = list(_lines(export.removeprefix("\ufeff")))
    head = [_value(cell) for cell in lines[0][0]] if lines else []
    if not {"Student", "ID"} <= set(head):
        raise GradebookError("this is no export of Canvas's grade book: its first line has no Student and ID")
    at = _column(head, lab, column)
    filled = Filled("", head[at])
    finder = _Finder(rows)
    for cells, _ in lines[1:]:
        entry = dict(zip(head, map(_value, cells)))
        who = entry["Student"].strip()
        if who.lower().startswith("points possible"):
            possible = entry[head[at]].strip()
            if possible and possible != number(lab.max_score) and _as_number(possible) != lab.max_score:
                filled.remarks.append(
                    f"Canvas gives {possible} points for {head[at]}, the lab has {number(lab.max_score)}: "
                    "points are filled in as they are"
                )
            continue
        if not entry.get("ID", "").strip() or len(cells) <= at:
            continue  # "Manual Posting", or a line that is no student's
        row = finder.find(entry)
        if row is None:
            filled.without_points.append(who)
            continue
        old, new = _value(cells[at]).strip(), number(row.score)
        if old and _as_number(old) != row.score:
            filled.overwritten.append(f"{who}: {old} → {new}")
        cells[at] = new
        filled.placed += 1
    filled.not_in_canvas = finder.left()
    filled.text = mark + "".join(",".join(cells) + end for cells, end in lines)
    return filled


def _column(head: list[str], lab: Lab, wanted: str) -> int:
    bare = [re.sub(r"\s*\(\d+\)$", "", name).casefold() for name in head]  # Canvas adds the assignment's number
    names = [wanted] if wanted else [lab.file.title, lab.name]
    for name in names:
        exact = [at for at, title in enumerate(head) if name.casefold() in (title.casefold(), bare[at])]
        near = [at for at, title in enumerate(bare) if name.casefold() in title]
        for found in (exact, near):
            if len(found) == 1:
                return found[0]
    known = "; ".join(head)
    raise GradebookError(f"no single column of Canvas's export is called {' or '.join(names)}: choose one of {known}")


class _Finder:
    """Which graded hand-in a line of Canvas belongs to: by number, by login, and by name where only one has it."""

    def __init__(self, rows: Sequence[Row]) -> None:
        pairs = [(student, row) for row in rows for student in row.handed.students]
        self.by_id: dict[str, Row] = {}
        self.students = [(student, row) for student, row in pairs]
        for student, row in pairs:
            for key in {student.sid, student.email.casefold()} - {""}:
                self.by_id[key.casefold()] = row
        names = Counter(name for student, _ in pairs for name in _names(student.name))
        self.by_name = {name: row for student, row in pairs for name in _names(student.name) if names[name] == 1}
        self.found: set[str] = set()

    def find(self, entry: dict[str, str]) -> Row | None:
        ids = [entry.get(key, "").strip().casefold() for key in ("ID", "SIS User ID", "SIS Login ID", "Email")]
        row = next((self.by_id[key] for key in ids if key and key in self.by_id), None)
        row = row or next((self.by_name[name] for name in _names(entry["Student"]) if name in self.by_name), None)
        if row is None:
            return None
        self.found.add(row.label)
        return row if row.graded else None

    def left(self) -> list[str]:
        return [student.name for student, row in self.students if row.label not in self.found]


def _names(name: str) -> set[str]:
    """A name as it may be written: `Li Wei`, `Wei, Li`, and Canvas's `liwei` of file names."""
    plain = unicodedata.normalize("NFKC", name).casefold().strip()
    if "," in plain:
        last, _, first = plain.partition(",")
        plain = f"{first.strip()} {last.strip()}"
    words = plain.split()
    return {" ".join(words), "".join(words[-1:] + words[:-1])} - {""}


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _lines(text: str) -> Iterator[tuple[list[str], str]]:
    """The cells of each line as they are written, quotes and all, and the line's end."""
    cells, cell, quoted, at = [], "", False, 0
    while at < len(text):
        char = text[at]
        if char == '"':
            quoted = not quoted
        if quoted or char not in ",\r\n":
            cell += char
        elif char == ",":
            cells.append(cell)
            cell = ""
        else:
            end = "\r\n" if text[at : at + 2] == "\r\n" else char
            yield [*cells, cell], end
            cells, cell = [], ""
            at += len(end) - 1
        at += 1
    if cells or cell:
        yield [*cells, cell], ""


def _value(cell: str) -> str:
    """What a cell holds."""
    return cell[1:-1].replace('""', '"') if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell
