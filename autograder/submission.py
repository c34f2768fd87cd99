"""Any hand-in → a Submission: the lab's files as bytes in memory, what had to be decided on the way, and a digest."""

from __future__ import annotations

import hashlib
import keyword
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autograder.language import N_, say
from autograder.reading.decoding import not_text
from autograder.reading.handin import (
    CLOSED,
    DEVICE,
    CollectLimits,
    Entry,
    Listing,
    Refused,
    file_entry,
    list_folder,
    list_zip,
)
from autograder.reading.notes import Note, listed, shown

__all__ = ["CollectError", "CollectLimits", "Note", "Submission", "collect", "collect_files"]

# A helper of such a name would be imported in place of what everything else means by it.
TAKEN_NAMES = sys.stdlib_module_names | {"torch", "numpy", "autograder", "pytest"}
# Files that lie in a student's folder and are no part of the work.
NOT_HANDED_IN = re.compile(
    r"(?:conftest|sitecustomize|usercustomize|check|setup|tests?|(?:test|check)_.*|.*_test)\.py", re.IGNORECASE
)

# What editors, browsers and people add to a name: "attention (1)", "attention-2", "Attention_final", "attention copy".
ENDING = r"(?:[\s_.-]*(?:\(\d+\)|v?\d+(?!\d)|copy|final|new|fixed|done|finished|solution|submission|副本|最终))*"
CANVAS = r"(?:[^\W_]+_(?:late_)?\d+_\d+_)?"  # name_user_file_
TAKEN = N_("{file} was taken as {wanted}.")
TAKEN_UNDER_ANOTHER_NAME = N_("{file} was taken as {wanted}: hand it in under that name.")
NOT_FOUND = N_("Not found in {name}: {files}. It holds {there}. Hand in the .py file, a folder or a zip with it.")
NOTHING_FOUND = N_(
    "Not found in {name}: {files}. It holds no file that can be read. Hand in the .py file, a folder or a zip with it."
)
NOT_WITH_IT = N_("Not handed in with {name}: {files}. Hand in a folder or a zip with all of them.")
LONGEST = 255
COPY = r"(?:copy of )?"
PREFIX = r"(?!(?:test|check|old|starter|reference)[_ -])[\w .]*[_ -]"


class CollectError(Exception):
    """There is nothing at the path; one sentence."""


@dataclass(frozen=True)
class Submission:
    """A hand-in in memory. `origins` says which file of the hand-in each wanted file was taken from."""

    name: str
    files: dict[str, bytes]
    helpers: dict[str, bytes]
    notes: tuple[Note, ...]
    missing: tuple[str, ...]
    origins: dict[str, str]

    @property
    def digest(self) -> str:
        """SHA-256 over the sorted names and bytes: the same for a file, a folder and a zip with the same content."""
        digest = hashlib.sha256()
        for name, data in sorted({**self.helpers, **self.files}.items()):
            for part in (name.encode("utf-8", "surrogateescape"), data):
                digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()


def collect(path: Path, wanted: Sequence[str], *, limits: CollectLimits | None = None) -> Submission:
    """Find the files of a lab in a `.py` or `.ipynb` file, a folder, or a zip.

    `wanted`: their names, the lab's main file first; the others are what it builds on. What cannot be read, and what is
    missing, is said in notes. Nothing is written to disk, no link is followed, and a pipe does not block.

    Raises:
        CollectError: nothing exists at `path`.
    """
    path, limits = Path(path), limits or CollectLimits()
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        raise CollectError(
            f"{shown(str(path))} does not exist or cannot be reached: give the path of a hand-in."
        ) from error
    single = False
    if stat.S_ISDIR(mode):
        listing = list_folder(path, wanted, limits)
    elif not stat.S_ISREG(mode):
        listing = Listing()
        listing.refuse(DEVICE, path.name)
    else:
        listing, single = _open_file(path, path.name, wanted, limits)
    return _collected(listing, path.name or str(path), wanted, limits, single, folder=stat.S_ISDIR(mode))


def collect_files(
    files: Mapping[str, Path], name: str, wanted: Sequence[str], *, limits: CollectLimits | None = None
) -> Submission:
    """The same for a hand-in that a platform keeps as files beside those of others, under names of its own.

    `files`: the names under which they were handed in, and where they are; `name`: of the hand-in.
    """
    limits = limits or CollectLimits()
    if len(files) == 1:
        ((called, path),) = files.items()
        listing, single = _open_file(path, called, wanted, limits)
        return _collected(listing, name, wanted, limits, single, folder=False)
    listing = Listing([file_entry(str(path), called) for called, path in sorted(files.items())])
    return _collected(listing, name, wanted, limits, single=False, folder=True)


def _collected(
    listing: Listing, name: str, wanted: Sequence[str], limits: CollectLimits, single: bool, folder: bool
) -> Submission:
    collector = _Collector(listing, wanted, limits, single)
    collector.choose()
    if not collector.files and folder:
        collector.open_inner_zip()
    return collector.finish(name)


def _open_file(path: Path, called: str, wanted: Sequence[str], limits: CollectLimits) -> tuple[Listing, bool]:
    """A hand-in that is one file: a zip by its content, or else the work itself."""
    entry = file_entry(os.path.realpath(path), called)  # the path is the caller's, so a link here is meant
    listing = Listing()
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        if start[:2] == b"PK" or called.lower().endswith(".zip"):
            return list_zip(entry.read(limits.archive_bytes), called, wanted, limits), False
    except Refused as refused:
        listing.refuse(str(refused), called)
    except OSError:
        listing.refuse(CLOSED, called)
    else:
        listing.entries.append(entry)
    return listing, True


class _Collector:
    """Chooses from the files of a hand-in the ones that the lab asks for."""

    def __init__(self, listing: Listing, wanted: Sequence[str], limits: CollectLimits, single: bool) -> None:
        self.listing = listing
        self.wanted = tuple(dict.fromkeys(wanted))
        self.limits = limits
        self.single = single
        self.left = limits.total_bytes
        self.files: dict[str, bytes] = {}
        self.origins: dict[str, str] = {}
        self.taken: set[str] = set()
        self.notes: list[Note] = []

    def _say(self, severity: Literal["info", "warning"], text: str, **values: object) -> None:
        self.notes.append(Note(severity, say(text, **values)))

    def _say_taken(self, entry: Entry, wanted: str) -> None:
        text = TAKEN if _is_notebook(entry) else TAKEN_UNDER_ANOTHER_NAME
        self._say("info", text, file=shown(entry.path), wanted=wanted)

    def choose(self) -> None:
        """Exact names for all files first, then names that were changed on the way, then the only one there is."""
        for close in (False, True):
            for name in self.wanted:
                if name not in self.files:
                    self._choose_for(name, close)
        main = self.wanted[0]
        if main not in self.files:
            guess = self._only_one()
            if guess and self._take(main, guess):
                self._say_taken(guess, main)

    def _choose_for(self, name: str, close: bool) -> None:
        free = [entry for entry in self.listing.entries if entry.path not in self.taken]
        ranked = [(_closeness(entry.name, name), entry) for entry in free]
        fitting = [(rank, entry) for rank, entry in ranked if rank is not None and close == (rank > 0)]
        # "multihead_attention.py" is more likely the multihead.py of a lab than its attention.py.
        stems = [other.removesuffix(".py") for other in self.wanted if other != name]
        fitting = [pair for pair in fitting if pair[0] < 2 or not any(stem in pair[1].name for stem in stems)]
        fitting.sort(key=lambda pair: (pair[0], pair[1].depth, _is_notebook(pair[1]), pair[1].path))
        for at, (rank, entry) in enumerate(fitting):
            if not self._take(name, entry):
                continue
            if rank > 0 or _is_notebook(entry):
                self._say_taken(entry, name)
            others = [other.path for other_rank, other in fitting[at + 1 :] if other_rank < 2]
            if not close:
                others += [entry.path for rank, entry in ranked if rank == 1]
            if others:
                said = N_("More than one file could be {wanted}: {file} was taken, {names} not; hand in one.")
                self._say("warning", said, wanted=name, file=shown(entry.path), names=listed(others))
            return

    def _only_one(self) -> Entry | None:
        """The hand-in's only Python file or only notebook, whatever its name."""
        free = [entry for entry in self.listing.entries if entry.path not in self.taken]
        if self.single:
            return free[0] if free and not self._foreign(free[0]) else None
        sources = [
            entry for entry in free if entry.name.lower().endswith(".py") and not NOT_HANDED_IN.fullmatch(entry.name)
        ]
        sources = [entry for entry in sources if entry.name[:-3].lower() not in TAKEN_NAMES]
        notebooks = [entry for entry in free if _is_notebook(entry)]
        worksheets = [entry for entry in notebooks if entry.name == "worksheet.ipynb"]
        return next((found[0] for found in (sources, worksheets, notebooks) if len(found) == 1), None)

    def _foreign(self, entry: Entry) -> bool:
        """Whether a single file is plainly something else than a source, a PDF for one."""
        try:
            return not_text(entry.read(self.limits.notebook_bytes)[:4096]) is not None
        except Refused:
            return False  # which is said when it is taken

    def _take(self, name: str, entry: Entry) -> bool:
        data = self._read(entry, self.limits.notebook_bytes if _is_notebook(entry) else self.limits.source_bytes)
        self.taken.add(entry.path)  # also where it cannot be read: it is not tried again
        if data is None:
            return False
        if not data.strip():
            self._say("warning", N_("{file} is empty: save it and hand it in again."), file=shown(entry.path))
        self.files[name] = data
        self.origins[name] = entry.path
        return True

    def _read(self, entry: Entry, cap: int) -> bytes | None:
        try:
            data = entry.read(min(cap, self.left))
        except Refused as refused:
            self.listing.refuse(str(refused), entry.path)
            return None
        self.left -= len(data)
        return data

    def open_inner_zip(self) -> None:
        """A folder with nothing but a zip in it, as some platforms keep hand-ins: look into the zip."""
        zips = [entry for entry in self.listing.entries if entry.name.lower().endswith(".zip")]
        data = self._read(zips[0], self.limits.archive_bytes) if len(zips) == 1 else None
        if data is not None:
            inner = list_zip(data, zips[0].name, self.wanted, self.limits)
            self.listing.entries = inner.entries
            self.listing.notes += inner.notes
            for sentence, names in inner.refused.items():
                self.listing.refused.setdefault(sentence, []).extend(names)
            self.left = self.limits.total_bytes
            self._say("info", N_("{file} was opened."), file=shown(zips[0].path))
            self.choose()

    def _helpers(self) -> dict[str, bytes]:
        """Other modules beside the main file (beside the first one found, where the main file is missing)."""
        if self.single or not self.origins:
            return {}
        folder = self.origins.get(self.wanted[0], next(iter(self.origins.values()))).rpartition("/")[0]
        wanted = {name.lower() for name in self.wanted}
        shadows, surplus = [], []
        helpers: dict[str, bytes] = {}
        beside = [entry for entry in self.listing.entries if entry.folder == folder and entry.path not in self.taken]
        for entry in sorted(beside, key=lambda entry: entry.path):
            stem = entry.name.removesuffix(".py")
            usable = entry.name.endswith(".py") and stem.isidentifier() and not keyword.iskeyword(stem)
            if not usable or entry.name.lower() in wanted or NOT_HANDED_IN.fullmatch(entry.name):
                continue
            if stem.lower() in TAKEN_NAMES:
                shadows.append(entry.name)
            elif len(helpers) >= self.limits.helpers:
                surplus.append(entry.name)
            else:
                left = self.limits.all_helpers_bytes - sum(map(len, helpers.values()))
                data = self._read(entry, min(self.limits.helper_bytes, left))
                if data is not None:
                    helpers[entry.name] = data
        if shadows:
            said = N_("Left out, because a Python module has the same name: {names}. Rename it.")
            self._say("warning", said, names=listed(shadows))
        if surplus:
            said = N_("Left out, because more than {number} files lie beside yours: {names}.")
            self._say("warning", said, number=self.limits.helpers, names=listed(surplus))
        return helpers

    def finish(self, name: str) -> Submission:
        """The Submission of what was chosen."""
        helpers = self._helpers()
        missing = tuple(wanted for wanted in self.wanted if wanted not in self.files)
        if missing:
            there = listed(entry.path for entry in self.listing.entries)
            found = NOT_WITH_IT if self.single and self.files else NOT_FOUND
            said = found if there else NOTHING_FOUND
            self._say("warning", said, files=listed(missing), name=shown(name), there=there)
        return Submission(
            name=name,
            files={wanted: self.files[wanted] for wanted in self.wanted if wanted in self.files},
            helpers=helpers,
            notes=tuple(_once([*self.notes, *self.listing.said()])),
            missing=missing,
            origins=dict(self.origins),
        )


def _closeness(name: str, wanted: str) -> int | None:
    """0: the name, or its notebook; 1: as editors, browsers and platforms change it; 2: with something before it."""
    stem = wanted.removesuffix(".py")
    if len(name) > LONGEST:
        return None
    if name in (wanted, f"{stem}.ipynb"):
        return 0
    ending = rf"{re.escape(stem)}{ENDING}\.(?:py|ipynb)(?:\.txt)?"
    if re.fullmatch(CANVAS + COPY + ending, name, re.IGNORECASE):
        return 1
    return 2 if re.fullmatch(PREFIX + ending, name, re.IGNORECASE) else None


def _is_notebook(entry: Entry) -> bool:
    return entry.name.lower().endswith((".ipynb", ".ipynb.txt"))


def _once(notes: Iterable[Note]) -> list[Note]:
    return list(dict.fromkeys(notes))
