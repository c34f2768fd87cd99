"""A syntax error costs the definition it stands in, not the file.

The file is cut into its top-level statements; each one that does not compile alone is taken out. In the place of a
`def` or `class` stands, on the same lines, a stub that says what is wrong when it is used. A class loses only the
method, where the rest of it still compiles. All line numbers stay those of the student's file.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from autograder.language import say
from autograder.reading.lexing import Lexer
from autograder.reading.pieces import DEFINITION, Piece, Problem, cut, examine

MOST_LINES = 20_000
ASSIGNMENT = re.compile(r"\s*(\w+)\s*(?::[^=]+)?=(?!=)")


@dataclass(frozen=True)
class BrokenDefinition:
    """What a syntax error cost: `f`, `Class`, `Class.method` or an assigned name; None for any other statement."""

    name: str | None
    first: int
    last: int
    line: int
    message: str


def repair(text: str, where: Callable[[int], str] = "line {}".format) -> tuple[str, tuple[BrokenDefinition, ...]]:
    """The text with every broken statement taken out, and what that cost. `where` words a line number for the stubs.

    The result always compiles and has as many lines as the text.
    """
    found = examine(text)
    if not isinstance(found, Problem):
        return text, ()
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        return _head(lines, found)
    pieces = cut(lines, 0, len(lines))
    broken: list[BrokenDefinition] = []
    for piece in pieces:
        if piece.problem:
            broken += _lose(lines, piece, "", where)
    for _ in range(len(pieces) + 1):
        found = examine("\n".join(lines))
        if not isinstance(found, Problem):
            return "\n".join(lines), tuple(_joined(broken))
        # Each statement is right and the whole is not: a __future__ import that does not come first, for one.
        sound = (piece for piece in pieces if not piece.problem)
        culprit = next((piece for piece in sound if piece.first <= found.line <= piece.last), None)
        if culprit is None:
            break
        pieces[pieces.index(culprit)] = culprit = replace(culprit, problem=found)
        broken += _lose(lines, culprit, "", where)
    kept, rest = _head(lines, found)
    return kept, (*broken, *rest)


def _head(lines: list[str], problem: Problem) -> tuple[str, tuple[BrokenDefinition, ...]]:
    """What comes before the error, where nothing better can be done."""
    first = min(problem.line, len(lines))
    while first > 1 and (not re.match(r"[\w@]", lines[first - 1]) or lines[first - 2].startswith("@")):
        first -= 1
    for start in (first, 1):
        kept = "\n".join(lines[: start - 1] + [""] * (len(lines) - start + 1))
        if not isinstance(examine(kept), Problem):
            break
    return kept, (BrokenDefinition(None, start, len(lines), problem.line, problem.message),)


def _lose(
    lines: list[str], piece: Piece, indent: str, where: Callable[[int], str], owner: str = ""
) -> list[BrokenDefinition]:
    """Takes a broken statement out of the lines; a class is first tried method by method."""
    assert piece.problem is not None
    head, kind, name = _heading(lines, piece)
    last = piece.last
    while last > piece.first and (not lines[last - 1].strip() or lines[last - 1].startswith("#")):
        last -= 1
    if kind == "class" and name and not indent:
        saved = _save_class(lines, replace(piece, last=last), head, name, where)
        if saved:
            return saved
    problem = piece.problem
    lines[piece.first - 1 : last] = [""] * (last - piece.first + 1)
    if kind and name:
        _stub(lines, (indent, kind, name), head, last, f"{where(problem.line)}: {say(problem.message)}", problem.line)
    return [BrokenDefinition(owner + name if name else None, piece.first, last, problem.line, problem.message)]


def _stub(lines: list[str], what: tuple[str, str, str], head: int, last: int, message: str, at: int) -> None:
    """Writes a definition whose use raises, if it can on the very line of the error, so that a traceback shows it."""
    indent, kind, name = what
    stop = f"raise SyntaxError({message!a})"
    at = at if head < at <= last else head + 1
    if kind == "class" and at <= last:
        lines[head - 1] = f"{indent}class {name}:"
        lines[at - 1] = f"{indent}    def __new__(cls, *args, **kwargs): {stop}"
    elif at <= last:
        lines[head - 1] = f"{indent}def {name}(*args, **kwargs):"
        lines[at - 1] = f"{indent}    {stop}"
    else:
        lines[head - 1] = f"{indent}def {name}(*args, **kwargs): {stop}"


def _heading(lines: list[str], piece: Piece) -> tuple[int, str, str | None]:
    """The line that names what a piece defines, `def` or `class` or nothing, and the name."""
    decorated = lines[piece.first - 1].lstrip().startswith("@")
    for number in range(piece.first, piece.last + 1 if decorated else piece.first + 1):
        found = DEFINITION.match(lines[number - 1])
        if found:
            name = found.group(2) if found.group(2).isidentifier() and not keyword.iskeyword(found.group(2)) else None
            return number, found.group(1).lower(), name
    assigned = ASSIGNMENT.match(lines[piece.first - 1])
    named = assigned.group(1) if assigned and assigned.group(1).isidentifier() else None
    return piece.first, "", named


def _save_class(
    lines: list[str], piece: Piece, head: int, name: str, where: Callable[[int], str]
) -> list[BrokenDefinition] | None:
    """The class without its broken methods; None, and the lines unchanged, where that does not compile either."""
    lexer = Lexer()
    body = head
    while body < piece.last and (body == head or lexer.open):
        lexer.feed(lines[body - 1] + "\n")
        body += 1
    while body <= piece.last and not lines[body - 1].split("#")[0].strip():
        body += 1
    line = lines[body - 1] if body <= piece.last else ""
    indent = line[: len(line) - len(line.lstrip())]
    if not indent:
        return None
    trial = list(lines)
    pieces = cut(trial, body - 1, piece.last, indent)
    lost: list[BrokenDefinition] = []
    for part in pieces:
        if part.problem:
            lost += _lose(trial, part, indent, where, f"{name}.")
    found = examine("\n".join(trial[piece.first - 1 : piece.last]) + "\n")
    if not lost or isinstance(found, Problem) or len(found.body) != 1:
        return None
    lines[piece.first - 1 : piece.last] = trial[piece.first - 1 : piece.last]
    return lost


def _joined(broken: list[BrokenDefinition]) -> list[BrokenDefinition]:
    """Lines of prose or markers that follow each other are one thing to say."""
    joined: list[BrokenDefinition] = []
    for item in sorted(broken, key=lambda item: item.first):
        if joined and item.name is None and joined[-1].name is None and item.first - joined[-1].last <= 2:
            joined[-1] = replace(joined[-1], last=item.last)
        else:
            joined.append(item)
    return joined
