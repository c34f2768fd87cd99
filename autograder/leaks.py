"""What must not be handed out, and where it would be: solutions, answers, hidden checks and their numbers, seeds, the
catalogue's code, and what a build leaves behind.

    leaks.scan({"attention-student.zip": data}, lab)

Zips and notebooks are opened; every text in them is read, and every byte compared.
"""

from __future__ import annotations

import ast
import getpass
import hashlib
import io
import json
import re
import socket
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from autograder import bundle, course, language, strip
from autograder import lab as labs
from autograder.lab import Lab, LabFile
from autograder.language import say, words_in
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.spawner import Launcher
from autograder.solutions import SolutionLine, find_solution, lines_of, tokens
from autograder.withheld import Values, values

LEFT_BEHIND = re.compile(
    r"(^|/)(__pycache__|\.git[^/]*|\.ipynb_checkpoints|\.\w+_cache|\.hypothesis|\.venv|\.idea|\.vscode|__MACOSX|\.DS_Store"
    r"|Thumbs\.db)(/|$)|\.(py[cod]|swp|orig|bak)$|~$"
)
# Accounts that many machines have; their names are words like any other.
COMMON_NAMES = {
    "root",
    "user",
    "admin",
    "runner",
    "student",
    "ubuntu",
    "debian",
    "docker",
    "nobody",
    "localhost",
    "vscode",
}
FILLER = (
    r"(?:(?i:is|the|right|correct|one|answer|letter|solution|option)[^\w\n]{1,4}"
    r"|[的是为选应正确答案项字母]+[^\w\n]{0,4}){0,5}"
)
ANSWER = r"(?i:answer|right|correct|solution)[^\n\w]{1,6}|(?:正确)?答案[^\n\w]{0,6}[是为选]?[^\n\w]{0,6}"
MODES = (0o100644, 0o100755)
PIECE_TOKENS = 6  # of a change of the catalogue; a shorter one is an idiom
TITLE_WORDS = 4  # a shorter title is a phrase of the subject


class Leak(NamedTuple):
    """Something that must not be handed out: where (line from 1; 0 where there are none), what it is, what to do."""

    file: str
    line: int
    what: str
    advice: str


class Text(NamedTuple):
    """A part of a file that can be read: its name, its lines, and whether it is Python."""

    file: str
    text: str
    python: bool = False


@dataclass(frozen=True)
class Withheld:
    """All that a lab keeps to itself."""

    lines: list[SolutionLine]  # of solutions, hidden checks and mistakes
    own: list[SolutionLine]  # of solutions, without idioms that the starter has as well
    patterns: list[tuple[re.Pattern[str], str]]  # and what it is that they find
    needles: list[tuple[bytes, str]]  # in lower case
    values: Values
    wanted: tuple[str, ...] = ()  # the files of a hand-in
    starter: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, lab: Lab, zygote: Launcher) -> Withheld:
        """Everything of one lab and of what it builds on. The reference runs once through all checks for its numbers."""
        solutions, own = _solutions(lab)
        lines = [*solutions, *_hidden_lines(lab), *_mistakes(lab)]
        patterns = [*_hidden_names(lab), *_answers(lab), *_places(lab.root)]
        starter = bundle.starter_files(lab)
        return cls(lines, own, patterns, _secrets(lab), values(lab, zygote), lab.wanted, starter)


def scan(files: Mapping[str, bytes], lab: Lab, zygote: Launcher | None = None) -> list[Leak]:
    """Look for everything that a lab keeps to itself in what is handed out, by name. Sound where nothing comes back."""
    if zygote is None:
        with Zygote() as started:
            return scan(files, lab, started)
    return find(files, Withheld.of(lab, zygote))


def find(files: Mapping[str, bytes], withheld: Withheld) -> list[Leak]:
    """The same for what is already known; each leak once."""
    found: list[Leak] = []
    for name, data in files.items():
        if LEFT_BEHIND.search(name):
            found.append(
                Leak(name, 0, "a file that tools leave behind", "build from a list of files, not from a folder")
            )
        if data[:4] == b"PK\x03\x04" or name.endswith(".zip"):
            found += [*_archive(name, data), *find(_unzipped(name, data), withheld)]
            continue
        found += _own_file(name, data, withheld)
        found += _in_bytes(name, data, withheld)
        for part in texts(name, data):
            found += _in_text(part, withheld)
    return list(dict.fromkeys(found))


# Reading what is handed out ------------------------------------------------------------------------------------------


def texts(name: str, data: bytes) -> Iterator[Text]:
    """What can be read in a file: itself, the cells of a notebook, or the strings in something binary."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = ""
    if name.endswith(".mo"):  # which holds its texts as they are
        yield Text(name, data.decode("utf-8", "replace").replace("\0", "\n"))
        return
    if "\0" in text or (data and not text):
        runs = b"\n".join(re.findall(rb"[\t\n\x20-\x7e]{6,}", data)).decode("ascii")
        yield Text(name, runs.replace("\\n", "\n"))  # a line end as JSON writes it would stick to the next word
        return
    book = _notebook(text) if name.endswith(".ipynb") else None
    if book is None:
        yield Text(name, text, name.endswith(".py"))
        return
    for number, cell in enumerate(book.pop("cells"), 1):
        place = f"{name} cell {number}"
        yield Text(place, "".join(cell.pop("source", "")), cell.get("cell_type") == "code")
        yield Text(f"{place}, outputs and metadata", "\n".join(_strings(cell)))
    yield Text(f"{name} metadata", "\n".join(_strings(book)))


def _notebook(text: str) -> dict[str, Any] | None:
    try:
        book = json.loads(text)
    except ValueError:
        return None
    sound = isinstance(book, dict) and isinstance(book.get("cells"), list)
    return book if sound and all(isinstance(cell, dict) for cell in book["cells"]) else None


def _strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, names of fields too; the lines of a text in one piece."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *_strings(item))
    elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        yield "".join(value)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _unzipped(name: str, data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {f"{name}!{item.filename}": archive.read(item) for item in archive.infolist() if not item.is_dir()}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return {}


def _archive(name: str, data: bytes) -> Iterator[Leak]:
    """What a zip tells besides its files: comments, extra fields, times, modes."""
    advice = "build it with bundle.zipped"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.comment:
                yield Leak(name, 0, f"a comment of the zip: {archive.comment[:60]!r}", advice)
            items = archive.infolist()
    except zipfile.BadZipFile as error:
        yield Leak(name, 0, f"a zip that cannot be read ({error}), so nobody knows what is in it", advice)
        return
    for item in items:
        place = f"{name}!{item.filename}"
        if item.comment:
            yield Leak(place, 0, f"a comment of a zip's entry: {item.comment[:60]!r}", advice)
        if item.extra:
            yield Leak(place, 0, "extra fields of a zip's entry: they hold times and the builder's user number", advice)
        if item.date_time != bundle.EPOCH:
            yield Leak(place, 0, f"the time of a file: {item.date_time}", advice)
        if item.external_attr >> 16 not in MODES or item.create_system != 3:
            yield Leak(
                place, 0, f"the mode of a file as it was on the builder's disk: {item.external_attr >> 16:o}", advice
            )
        if item.filename.startswith("/") or ".." in item.filename.split("/") or item.is_dir():
            yield Leak(place, 0, "a name that is no plain path of a file", advice)


# Looking -------------------------------------------------------------------------------------------------------------


def _own_file(name: str, data: bytes, withheld: Withheld) -> Iterator[Leak]:
    """A file of the lab is handed out as the starter that is made from the reference, or not at all."""
    base = re.split(r"[/!]", name)[-1]
    if base in withheld.wanted and data != withheld.starter.get(base):
        yield Leak(name, 0, "a file of the lab that is not its starter", "hand out what `make starter` writes, only")


def _in_bytes(name: str, data: bytes, withheld: Withheld) -> Iterator[Leak]:
    lower = data.lower()
    for needle, what in withheld.needles:
        if needle in lower:
            line = data.count(b"\n", 0, lower.index(needle)) + 1
            yield Leak(name, line, what, "change the secret in lab.toml, and take it out here")
    for at in withheld.values.in_bytes(data)[:1]:
        yield Leak(name, 0, f"numbers of a hidden check, from byte {at}", "record what local checks ask, only")


def _in_text(part: Text, withheld: Withheld) -> Iterator[Leak]:
    for line in find_solution(withheld.lines, part.text, python=part.python):
        yield _repeated(part, line.line, line.solution)
    own = re.split(r"[/!]| cell ", part.file)
    if part.python and (set(own) & set(withheld.wanted) or " cell " in part.file):
        for line in find_solution(withheld.own, part.text, python=False):
            yield _repeated(part, line.line, line.solution)
    for pattern, what in withheld.patterns:
        for match in pattern.finditer(part.text):
            said = " ".join(match.group().split())[:80]
            yield Leak(part.file, _line(part.text, match.start()), f"{what}: {said}", "take it out")
    for at in withheld.values.in_text(part.text)[:1]:
        yield Leak(part.file, _line(part.text, at), "numbers of a hidden check, printed", "clear what was printed")


def _repeated(part: Text, line: int, solution: SolutionLine) -> Leak:
    what = f"{solution.number}: {solution.text[:80]}"
    return Leak(part.file, line, what, "say it in other words, or take it out")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


# What a lab keeps to itself ------------------------------------------------------------------------------------------


def _solutions(lab: Lab) -> tuple[list[SolutionLine], list[SolutionLine]]:
    """All lines of all solutions, and those of them that the given code has not as well."""
    lines: list[SolutionLine] = []
    given = ""
    for place, text in lab.reference.files.values():
        lines += [
            replace(line, number=f"line {line.line} of solution {line.number}")
            for line in strip.solution_lines(text, place)
        ]
        given += strip.strip(text, name=Path(place).name, origin=place).text
    idioms = {repeat.solution for repeat in find_solution(lines, given, python=False)}
    return lines, [line for line in lines if line not in idioms]


def _hidden_lines(lab: Lab) -> list[SolutionLine]:
    """The lines of checks.py that the student's checks.py does not have: hidden checks, and helpers that only they use."""
    source = (lab.root / "assignments" / lab.name / "checks.py").read_text(encoding="utf-8")
    shown = {line.tokens for line in lines_of(bundle.visible_lab(labs.local_part(lab))["checks.py"].decode(), "")}
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)):
            begin = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
            code = "\n".join(source.splitlines()[begin - 1 : node.end_lineno]) + "\n"
            label = f"a line of {getattr(node, 'name', 'a constant')} in checks.py, which stays here"
            found += [line for line in lines_of(code, label, begin) if line.tokens not in shown]
    return [line for line in found if not line.text.startswith(('"', "@number", "@weight", "@visibility"))]


def _hidden_names(lab: Lab) -> Iterator[tuple[re.Pattern[str], str]]:
    for check in lab.checks:
        if not check.local:
            yield re.compile(rf"\b{check.name}\b"), "the name of a check that stays here"
    for lang in language.known():
        with language.speaking(lang, lab.folder):
            titles = [(say(check.title), check.hidden) for check in lab.checks]
        shown = {title for title, hidden in titles if not hidden}
        for title in dict.fromkeys(title for title, hidden in titles if hidden and title not in shown):
            if words_in(title) >= TITLE_WORDS:
                words = r"\s+".join(re.escape(word) for word in title.split())
                yield re.compile(words, re.IGNORECASE), "the title of a hidden check"


def _mistakes(lab: Lab) -> list[SolutionLine]:
    """What the catalogue changes, and into what: the one is the solution, the other says where it goes wrong."""
    found: dict[tuple[str, ...], SolutionLine] = {}
    for item in lab.mistakes:
        for piece in (*item.change, *item.change.values()):
            line = SolutionLine(f"the change of mistake {item.name}", 1, piece, tokens(piece))
            # A call by names alone is how the handout says it, too.
            if len(line.tokens) >= PIECE_TOKENS and not re.fullmatch(r"[\w\s(),]*", piece):
                found.setdefault(line.tokens, line)
    return list(found.values())


def _answers(lab: Lab) -> Iterator[tuple[re.Pattern[str], str]]:
    """The right letter beside the name of its question, or further down under a word for it."""
    for name, letter in right_letters(lab).items():
        right = rf"(?:{letter}\b(?!\s+[a-z])|[\"']{letter.lower()}[\"'])"
        under = rf"(?:[^\n]*\n){{0,3}}?[^\n\w]*(?:{ANSWER}){right}"
        yield (
            re.compile(rf"\b{re.escape(name)}\b(?:[^\w\n]{{1,12}}{FILLER}{right}|[^\w\n]*\n{under})"),
            "a right answer",
        )


def right_letters(lab: Lab) -> dict[str, str]:
    """The answers to the lab's questions, as they stand in the reference."""
    _, text = lab.reference.files[lab.main_module]
    for node in ast.parse(text).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(target, ast.Name) and target.id == "ANSWERS":
            found: dict[str, str] = ast.literal_eval(node.value) if node.value else {}
            return {name: letter for name, letter in found.items() if name in lab.questions}
    return {}


def _secrets(lab: Lab) -> list[tuple[bytes, str]]:
    """The secret of every lab of the course, and what could be made from it to be printed."""
    found = []
    for name in course.labs(lab.root):
        file = course.read(lab.root / "assignments" / name / "lab.toml", LabFile)
        if file.secret:
            digests = [hashlib.new(kind, file.secret.encode()).hexdigest()[:12] for kind in ("sha256", "sha1", "md5")]
            found.append((file.secret.lower().encode(), f"the secret of {name}"))
            digests.append(replace(lab, name=name, file=file).seed_digest())
            found += [(digest.encode(), f"a digest of the secret of {name}") for digest in digests]
    return found


def _places(root: Path) -> Iterable[tuple[re.Pattern[str], str]]:
    """Paths and names of the machine that builds."""
    homes = r"(?:/home/|/Users/|\b[A-Z]:\\+Users\\+)[\w.-]+"
    here = [str(path) for path in (root.resolve(), Path.home()) if path.name and path.name not in COMMON_NAMES]
    yield (
        re.compile("|".join([homes, *(rf"(?<![\w.]){re.escape(path)}(?![\w-])" for path in here)])),
        "a path of the builder's",
    )
    names = {getpass.getuser(), socket.gethostname().split(".")[0]} - COMMON_NAMES
    for name in sorted(name for name in names if len(name) >= 4):
        yield re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"), "a name of the builder's"
