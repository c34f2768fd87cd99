"""What lies in a hand-in: the ordinary files of a folder or a zip, listed within limits, read on demand, in memory."""

from __future__ import annotations

import io
import os
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder.language import N_, say
from autograder.reading.notes import Note, listed

# Beside every hidden one.
IGNORED_FOLDERS = frozenset({"__MACOSX", "__pycache__", "node_modules", "site-packages", "venv"})

LINK = N_("Not read, because it is a link: {names}. Hand in the file itself.")
DEVICE = N_("Not read, because it is not an ordinary file: {names}.")
CLOSED = N_("Not read, because the system does not allow it: {names}.")
DEEP = N_("Not searched, because it lies too deep: {names}. Hand in fewer folders inside each other.")
UNSAFE = N_("Not read, because its path leads out of the zip: {names}. Zip the files again, without '..' or a drive.")
FOLDER = N_("This is a folder, not a file: {names}. It was searched like any other folder.")
LOCKED = N_("Not read, because it is protected by a password: {names}. Make the zip without one.")
METHOD = N_("Not read, because of an unusual compression: {names}. Make an ordinary zip.")
DAMAGED = N_("Not read, because it is damaged: {names}. Make the zip again and open it once to see.")
BOMB = N_("Not read, because it is compressed beyond reason: {names}.")
LARGE = N_(
    "Not read, because it is larger than is accepted: {names}. A solution is a few kilobytes; remove data and outputs."
)
TWICE = N_("More than once in the zip, the last one was taken: {names}.")
TWIN = N_("Two names that look the same (accents stored in two ways), the first one was taken: {names}.")

BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, OSError, EOFError, NotImplementedError,
              RuntimeError, MemoryError, OverflowError, IndexError, KeyError, TypeError)  # fmt: skip


@dataclass(frozen=True)
class CollectLimits:
    """How much of a hand-in is looked at. Sizes in bytes.

    Of source, so little because Python compiles nested definitions in the square of their number: 400 kB of them take ten
    seconds, a megabyte takes a minute, and no budget has begun by then.
    """

    entries: int = 20_000
    depth: int = 16
    source_bytes: int = 400_000
    notebook_bytes: int = 32_000_000
    archive_bytes: int = 64_000_000
    total_bytes: int = 64_000_000
    ratio: int = 200
    helpers: int = 20
    helper_bytes: int = 100_000
    all_helpers_bytes: int = 400_000


class Refused(Exception):
    """A file that is not read; holds one of the sentences above."""


@dataclass(frozen=True)
class Entry:
    """One ordinary file: its path inside the hand-in with `/` between the parts, and how to read it."""

    path: str
    read: Callable[[int], bytes]  # at most so many bytes, else Refused(LARGE)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def depth(self) -> int:
        return self.path.count("/")


@dataclass
class Listing:
    """The files that may be read, and what was refused: sentence → names."""

    entries: list[Entry] = field(default_factory=list)
    refused: dict[str, list[str]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def refuse(self, sentence: str, name: str) -> None:
        self.refused.setdefault(sentence, []).append(name)

    def said(self) -> list[Note]:
        """One note for each kind of trouble, however many files have it."""
        refused = [Note("warning", say(sentence, names=listed(names))) for sentence, names in self.refused.items()]
        return self.notes + refused


def ignored(name: str) -> bool:
    return name.startswith(".") or name in IGNORED_FOLDERS


def file_entry(path: str, name: str) -> Entry:
    """A file on disk. A link in its last part is not followed, and a pipe does not block."""

    def read(limit: int) -> bytes:
        flags = os.O_RDONLY
        for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # what the platform has of them
            flags |= getattr(os, flag, 0)
        try:
            with open(os.open(path, flags), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise Refused(DEVICE)
                data = file.read(min(limit, status.st_size) + 1)  # so much memory is taken at once
        except OSError as error:
            raise Refused(CLOSED) from error
        if len(data) > limit:
            raise Refused(LARGE)
        return data

    return Entry(unicodedata.normalize("NFC", name), read)


def list_folder(root: Path, wanted: Sequence[str], limits: CollectLimits) -> Listing:
    """The files of a folder, shallow ones first. Links are not followed; hidden and generated folders are left out."""
    listing = Listing()
    waiting = deque([(str(root), "")])
    left = limits.entries
    while waiting:
        folder, inside = waiting.popleft()
        try:
            with os.scandir(folder) as scan:
                found = [item for item, _ in zip(scan, range(left + 1), strict=False)]
        except OSError:
            listing.refuse(CLOSED, inside or root.name)
            continue
        left -= len(found)
        if left < 0:
            # A folder comes in no order: of one that is too long, take only what can be asked for by name.
            for name in dict.fromkeys(wanted):
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    _take(listing, path, inside + name, os.lstat(path).st_mode)
            listing.notes.append(_too_many(limits, wanted))
            break
        for item in sorted(found, key=lambda item: item.name):
            path = inside + item.name
            if ignored(item.name):
                continue
            mode = _mode(item)
            if not stat.S_ISDIR(mode):
                _take(listing, item.path, path, mode)
            elif path.count("/") >= limits.depth:
                listing.refuse(DEEP, path)
            else:
                if item.name in wanted:
                    listing.refuse(FOLDER, path)
                waiting.append((item.path, path + "/"))
    return listing


def _mode(item: os.DirEntry[str]) -> int:
    try:
        return item.stat(follow_symlinks=False).st_mode
    except OSError:  # it went away while we looked
        return 0


def _take(listing: Listing, on_disk: str, path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        entry = file_entry(on_disk, path)
        if path.isascii() or all(entry.path != other.path for other in listing.entries):
            listing.entries.append(entry)
        else:
            listing.refuse(TWIN, path)
    else:
        listing.refuse(LINK if stat.S_ISLNK(mode) else DEVICE, path)


def _too_many(limits: CollectLimits, wanted: Sequence[str]) -> Note:
    text = say(
        "The hand-in holds more than {number} files and was not searched to its end: hand in {names} only.",
        number=limits.entries,
        names=listed(wanted),
    )
    return Note("warning", text)


def list_zip(data: bytes, name: str, wanted: Sequence[str], limits: CollectLimits) -> Listing:
    """The files of a zip that is held in memory. Nothing is unpacked before it is asked for."""
    listing = Listing()
    # The directory of a zip is read at once, so its length is bounded first: every entry in it carries this mark.
    if data.count(b"PK\x01\x02") > limits.entries:
        listing.notes.append(_too_many(limits, wanted))
        return listing
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except BROKEN_ZIP:
        listing.refuse(DAMAGED, name)
        return listing
    chosen: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        path = _inside(info)
        if path is None:
            listing.refuse(UNSAFE, info.filename)
        elif any(ignored(part) for part in path.split("/")):
            continue
        elif info.filename.endswith(("/", "\\")):
            if path.rpartition("/")[2] in wanted:
                listing.refuse(FOLDER, path)
        elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            listing.refuse(LINK if stat.S_ISLNK(info.external_attr >> 16) else DEVICE, path)
        elif path.count("/") > limits.depth:
            listing.refuse(DEEP, path)
        else:
            if path in chosen:
                listing.refuse(TWICE, path)
            chosen[path] = info
    listing.entries = [Entry(path, _zip_reader(archive, info, limits)) for path, info in sorted(chosen.items())]
    return listing


def _inside(info: zipfile.ZipInfo) -> str | None:
    """The path with `/`, or None where it leads elsewhere. Some Windows tools write backslashes between folders."""
    if "\0" in info.orig_filename:
        return None
    path = unicodedata.normalize("NFC", info.filename.replace("\\", "/"))
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not parts or parts[0][1:2] == ":":
        return None
    return "/".join(parts)


def _zip_reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limits: CollectLimits) -> Callable[[int], bytes]:
    def read(limit: int) -> bytes:
        if info.flag_bits & 0x1:
            raise Refused(LOCKED)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refused(METHOD)
        if info.file_size > 65_536 and info.file_size > limits.ratio * max(1, info.compress_size):
            raise Refused(BOMB)
        if info.file_size > limit:
            raise Refused(LARGE)
        try:
            with archive.open(info) as file:
                data = file.read(limit + 1)
                file.read(1)  # the checksum is compared only where the end is reached
        except BROKEN_ZIP as error:
            raise Refused(DAMAGED) from error
        if len(data) > limit:
            raise Refused(LARGE)
        return data

    return read
