"""Bytes of a hand-in → text, the way Python would read them, but without ever giving up."""

from __future__ import annotations

import codecs
import re

from autograder.language import N_, say
from autograder.reading.notes import Note, shown

# PEP 263: where a coding line may stand, and how it looks.
CODING_LINE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
COMMENT_OR_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?\r?$")

# Python has codecs that are no character sets (zip, rot13), and some that are slow on purpose-made input (idna).
CHARACTER_SETS = re.compile(
    r"utf-8(-sig)?|ascii|iso8859-\d+|cp\d+|gbk|gb2312|gb18030|hz|big5(hkscs)?|shift_jis(x0213|_2004)?"
    r"|euc_\w+|euc-\w+|johab|koi8-\w|mac-\w+|tis-620|iso2022_\w+"
)

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

MAGIC = (
    (b"%PDF", N_("a PDF")),
    (b"PK\x03\x04", N_("a zip archive")),
    (b"PK\x05\x06", N_("an empty zip archive")),
    (b"\x1f\x8b", N_("a gzip archive")),
    (b"7z\xbc\xaf\x27\x1c", N_("a 7z archive")),
    (b"Rar!", N_("a RAR archive")),
    (b"BZh", N_("a bzip2 archive")),
    (b"\xfd7zXZ", N_("an xz archive")),
    (b"\x89PNG", N_("a picture")),
    (b"\xff\xd8\xff", N_("a picture")),
    (b"GIF8", N_("a picture")),
    (b"\x7fELF", N_("a program")),
    (b"MZ\x90", N_("a program")),
    (b"\xd0\xcf\x11\xe0", N_("an Office document")),
    (b"{\\rtf", N_("a rich text document")),
)


def not_text(data: bytes) -> str | None:
    """What the bytes are ("a PDF"), where that is plainly something else than text; None for text."""
    for magic, kind in MAGIC:
        if data.startswith(magic):
            return kind
    if any(data.startswith(mark) for mark, _ in BYTE_ORDER_MARKS) or _wide(data):
        return None
    control = sum(data.count(code) for code in range(32) if code not in b"\t\n\r\f\x0b\x1a\x1b")
    return N_("a binary file") if control > 8 and control * 20 > len(data) else None


def decode(data: bytes, name: str) -> tuple[str, tuple[Note, ...]]:
    """The text of a source file with `\\n` line ends, and what had to be said about its bytes.

    Never raises. Line numbers are those of the student's editor. Bytes that are no text at all give an empty text
    and a warning. Encoding: byte order mark, else coding line (PEP 263), else UTF-8, else Latin-1.
    """
    kind = not_text(data)
    if kind:
        text = say(
            "{file} is {kind}, not Python source: hand in the .py file itself.", file=shown(name), kind=say(kind)
        )
        return "", (Note("warning", text),)
    text, notes = _characters(data, shown(name))
    if "\0" in text:
        line = text.replace("\r\n", "\n").count("\n", 0, text.index("\0")) + 1
        place = f"{shown(name)}:{line}"
        said = say("{place} has NUL bytes, which were taken out: save it as plain text.", place=place)
        notes.append(Note("warning", said))
        text = text.replace("\0", "")
    text = text.encode("utf-8", "replace").decode("utf-8") if _has_surrogates(text) else text
    return text.replace("\r\n", "\n").replace("\r", "\n"), tuple(notes)


def _characters(data: bytes, name: str) -> tuple[str, list[Note]]:
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _marked(data[len(mark) :], encoding, name)
    wide = _wide(data)
    if wide:
        note = Note("info", say("{file} was read as {encoding}: save it as UTF-8.", file=name, encoding=wide.upper()))
        return data.decode(wide, "replace"), [note]
    notes: list[Note] = []
    declared = _declared(data)
    if declared and not _known(declared):
        text = say(
            "{file} names the encoding {encoding}, which is unknown: read as UTF-8.",
            file=name,
            encoding=repr(shown(declared)),
        )
        notes.append(Note("info", text))
        declared = None
    for encoding in [declared, "utf-8"] if declared else ["utf-8"]:
        try:
            return data.decode(encoding), notes
        except UnicodeError as error:
            at = error.start if isinstance(error, UnicodeDecodeError) else 0
            line = data.count(b"\n", 0, at) + 1
    text = say(
        "{place} is not {encoding}: read as Latin-1; save the file as UTF-8.",
        place=f"{name}:{line}",
        encoding=declared or "UTF-8",
    )
    notes.append(Note("info", text))
    return data.decode("latin-1"), notes


def _marked(data: bytes, encoding: str, name: str) -> tuple[str, list[Note]]:
    try:
        text, broken = data.decode(encoding), False
    except UnicodeError:
        text, broken = data.decode(encoding, "replace"), True
    if broken:
        said = say("{file} has bytes that are no {encoding}: save it as UTF-8.", file=name, encoding=encoding.upper())
        return text, [Note("warning", said)]
    if encoding != "utf-8":
        said = say("{file} was read as {encoding}: save it as UTF-8.", file=name, encoding=encoding.upper())
        return text, [Note("info", said)]
    return text, []


def _wide(data: bytes) -> str | None:
    """UTF-16 without its mark: nearly every second byte of a Python source is then zero."""
    half = len(data) // 2
    if half < 4 or b"\0" not in data:
        return None
    if data[1::2].count(0) * 10 > half * 7 and data[0::2].count(0) * 10 < half:
        return "utf-16-le"
    if data[0::2].count(0) * 10 > half * 7 and data[1::2].count(0) * 10 < half:
        return "utf-16-be"
    return None


def _declared(data: bytes) -> str | None:
    first, _, rest = data.partition(b"\n")
    lines = [first, rest.partition(b"\n")[0]] if COMMENT_OR_BLANK.match(first) else [first]
    for line in lines:
        found = CODING_LINE.match(line)
        if found:
            return found.group(1).decode("ascii", "replace")
    return None


def _known(encoding: str) -> bool:
    try:
        return CHARACTER_SETS.fullmatch(codecs.lookup(encoding).name) is not None
    except (LookupError, ValueError):
        return False


def _has_surrogates(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
