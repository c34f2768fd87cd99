"""What was handed in, and by whom: Gradescope's export, Canvas's download, GitHub Classroom's clones, or any folder.

What is not understood is listed with its reason and never dropped in silence.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from autograder.reading.handin import BROKEN_ZIP, ignored
from autograder.reading.notes import shown
from autograder.submission import CollectError, Submission, collect, collect_files

HANDED_IN = (".py", ".ipynb", ".zip")
METADATA = "submission_metadata.yml"
# Canvas: sortable name without spaces, "LATE", the user's id, the file's id, and the name of the file as it was handed in.
CANVAS = re.compile(r"(?P<who>[^_]+)_(?P<late>LATE_)?(?P<user>\d+)_(?P<file>\d+)_(?P<name>.+)", re.DOTALL)
MOST_FILES = 200_000
MOST_BYTES = 4 << 30


class ExportError(Exception):
    """What lies there is no class; one sentence."""


@dataclass(frozen=True)
class Student:
    """One member of a class, as far as the export tells."""

    name: str
    sid: str = ""
    email: str = ""


@dataclass(frozen=True)
class Earlier:
    """What the export says the hand-in scored before: in all, and by the number of the check where it tells."""

    score: float
    checks: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class HandedIn:
    """One hand-in of one student or a group. `label` is unique in its class.

    `files` are the names under which they were handed in and where they are; one folder stands under "".
    """

    label: str
    students: tuple[Student, ...]
    files: dict[str, Path]
    submitted: str = ""
    late: bool = False
    earlier: Earlier | None = None

    def collect(self, wanted: Sequence[str]) -> Submission:
        """The hand-in in memory. Raises CollectError."""
        if not self.files:
            raise CollectError("the export has no files of it")
        if "" in self.files:
            return replace(collect(self.files[""], wanted), name=self.label)
        return collect_files(self.files, self.label, wanted)


@dataclass(frozen=True)
class NotUnderstood:
    """Something in the export that was not graded, and why."""

    what: str
    why: str


@dataclass
class Export:
    """A class: its hand-ins in the order of their labels, and what was not understood."""

    kind: str
    hand_ins: list[HandedIn] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)


def read(path: Path, unpack_to: Path) -> Export:
    """The class at `path`: a folder, or a zip, which is unpacked below `unpack_to`. Raises ExportError."""
    if not path.exists():
        raise ExportError(f"there is no {path}: give the folder or zip with the hand-ins of the class")
    lost: list[NotUnderstood] = []
    if path.is_file():
        path, lost = unpacked(path, unpack_to)
    root = _innermost(path)
    if (root / METADATA).is_file():
        from autograder.classroom import gradescope_export  # reads YAML, which nothing else needs

        export = gradescope_export.read(root)
    else:
        export = _canvas(root) or _clones(root) or _folder(root)
    export.not_understood += lost
    export.hand_ins.sort(key=lambda handed: (handed.label.casefold(), handed.label))
    if not export.hand_ins:
        raise ExportError(f"{path} holds no hand-in: a folder, {', '.join(HANDED_IN)} for each student is expected")
    return export


def unpacked(path: Path, to: Path) -> tuple[Path, list[NotUnderstood]]:
    """The folder that a class's zip was unpacked to, and what of it could not be. Raises ExportError."""
    lost = []
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            members = archive.infolist()
            if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
                raise ExportError(f"{path} holds more than a class can: unpack it yourself, and give the folder")
            to = to / _digest(file)  # of another zip, nothing may be left there
            for member in members:
                if {"..", ""} & set(member.filename.replace("\\", "/").rstrip("/").split("/")):
                    lost.append(NotUnderstood(shown(member.filename), "has a path that leads out of the zip"))
                    continue
                try:
                    archive.extract(member, to)  # leaves no path outside of `to` in any case, and makes no links
                except BROKEN_ZIP as error:
                    lost.append(NotUnderstood(shown(member.filename), f"cannot be unpacked ({error})"))
    except BROKEN_ZIP as error:
        raise ExportError(f"{path} is neither a folder nor a zip that can be read ({error})") from error
    return to, lost


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()[:12]


def _innermost(path: Path) -> Path:
    """The folder that holds the hand-ins: a zip often has one folder around them all."""
    while not (path / METADATA).exists():
        inside = [item for item in path.iterdir() if not ignored(item.name)]
        if len(inside) != 1 or not inside[0].is_dir() or inside[0].is_symlink():
            break
        below = [item for item in inside[0].iterdir() if not ignored(item.name)]
        if any(item.suffix.lower() in HANDED_IN and not CANVAS.fullmatch(item.name) for item in below):
            break  # it is a student's own
        path = inside[0]
    return path


def _entries(root: Path, export: Export) -> Iterator[Path]:
    """What stands at the top of a folder, links apart: they may lead to anything on this machine."""
    for path in sorted(root.iterdir()):
        if path.is_symlink():
            export.not_understood.append(NotUnderstood(path.name, "is a link, which is not followed"))
        elif not ignored(path.name):
            yield path


def _canvas(root: Path) -> Export | None:
    """Canvas's download of all submissions: files of everybody side by side; None where it is none."""
    export = Export("Canvas")
    paths = list(_entries(root, export))
    matches = {path: CANVAS.fullmatch(path.name) for path in paths if path.is_file()}
    if sum(map(bool, matches.values())) * 2 <= len(paths):
        return None
    found: dict[tuple[str, str], HandedIn] = {}
    for path in paths:
        match = matches.get(path)
        if match is None:
            export.not_understood.append(
                NotUnderstood(path.name, "is not called name_number_number_file, as Canvas does")
            )
            continue
        key = match["who"], match["user"]
        one = found.setdefault(key, HandedIn("_".join(key), (Student(match["who"], sid=match["user"]),), {}))
        name = match["name"]
        if name in one.files:  # handed in twice under one name: both are candidates, and the note says which was taken
            name = f"{Path(name).stem} ({match['file']}){Path(name).suffix}"
        found[key] = replace(one, files={**one.files, name: path}, late=one.late or bool(match["late"]))
    export.hand_ins = list(found.values())
    return export


def _clones(root: Path) -> Export | None:
    """GitHub Classroom's clones: one repository for each student, `assignment-user`; None where they are none."""
    export = Export("GitHub Classroom")
    paths = list(_entries(root, export))
    clones = [path for path in paths if (path / ".git").exists()]
    if len(clones) < 2 or len(clones) * 2 <= len(paths):
        return None
    heads = [path.name[: at + 1] for path in clones[:1] for at, char in enumerate(path.name) if char == "-"]
    common = max((head for head in heads if all(path.name.startswith(head) for path in clones)), key=len, default="")
    for path in paths:
        if path in clones:
            user = path.name.removeprefix(common)
            export.hand_ins.append(HandedIn(path.name, (Student(user, sid=user),), {"": path}))
        else:
            export.not_understood.append(NotUnderstood(path.name, "is no clone of a repository"))
    return export


def _folder(root: Path) -> Export:
    """Any folder: each folder, source, notebook and zip in it is a hand-in, and its name is the student's."""
    export = Export("folder")
    for path in _entries(root, export):
        if path.is_dir():
            export.hand_ins.append(HandedIn(path.name, (Student(path.name),), {"": path}))
        elif path.is_file() and path.suffix.lower() in HANDED_IN:
            export.hand_ins.append(HandedIn(path.name, (Student(path.stem),), {"": path}))
        else:
            why = f"is no folder, {', '.join(HANDED_IN[:-1])} or {HANDED_IN[-1]}"
            export.not_understood.append(NotUnderstood(shown(path.name), why))
    return export
