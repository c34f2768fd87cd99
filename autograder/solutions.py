"""Lines of code that must not be handed out, and where a text repeats them: compared by tokens, so that other spaces, quotes
and line breaks hide nothing."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

PROSE_TOKENS = 4  # as short as this, a line of a solution in a comment or a string is no accident
CODE_TOKENS = 12  # code may repeat short idioms (`if mask is not None:`), not a whole step of a solution

# Quotes, # and \ are no words: then code compares equal to itself in a comment, a docstring or other quotes.
_WORD = re.compile(r"\d+\.\d+\w*|\w+|\*\*|//|->|[-+*/%@&|^<>=!:]=|[^\w\s#'\"`\\]")


@dataclass(frozen=True)
class SolutionLine:
    """One line that must not be handed out: `text` at `line` of its file, its tokens, and what it belongs to."""

    number: str
    line: int
    text: str
    tokens: tuple[str, ...]

    @property
    def telling(self) -> bool:
        """Whether it says anything: a few tokens, or nothing but names and commas, stand anywhere."""
        return len(self.tokens) >= PROSE_TOKENS and not all(re.fullmatch(r"\w+|,", token) for token in self.tokens)


class Repeat(NamedTuple):
    """A line that stands in another text, at `line` (from 1) of that text."""

    solution: SolutionLine
    line: int


def lines_of(code: str, number: str, row: int = 1) -> list[SolutionLine]:
    """The lines of a piece of code that begins at `row` of its file, without comments and blank lines.

    A statement over several lines is one line, and each dict entry in it is one more: an answer leaks without the rest.
    """
    found: list[SolutionLine] = []
    rows = code.split("\n")
    for statement in _statements(code):
        below = sorted({token.start[0] for token in statement})[1:]
        entries = [[token for token in statement if token.start[0] == at] for at in below]
        for part in [statement, *(entry for entry in entries if any(token.string == ":" for token in entry))]:
            at = part[0].start[0]
            text = " ".join(token.string for token in part).rstrip(" ,")
            found.append(SolutionLine(number, row + at - 1, rows[at - 1].strip(), tokens(text)))
    return found


def tokens(code: str) -> tuple[str, ...]:
    """A piece of code as it is compared."""
    return tuple(_WORD.findall(code))


def find_solution(lines: Iterable[SolutionLine], text: str, *, python: bool = True) -> list[Repeat]:
    """Where `text` repeats such lines, in the order of the text.

    In comments and strings, and everywhere in a text that is not Python (`python=False`), PROSE_TOKENS tokens are
    enough to count; in code it takes CODE_TOKENS. Names and commas alone never count.
    """
    words = _words(normalised(text), python)
    places: dict[str, list[int]] = {}
    for at, word in enumerate(words):
        places.setdefault(word.text, []).append(at)
    repeats: list[Repeat] = []
    for line in lines:
        if not line.telling:
            continue
        size = len(line.tokens)
        for at in places.get(line.tokens[0], ()):
            same = tuple(word.text for word in words[at : at + size]) == line.tokens
            if same and (words[at].prose or size >= CODE_TOKENS):
                repeats.append(Repeat(line, words[at].line))
    return sorted(repeats, key=lambda repeat: repeat.line)


def normalised(text: str) -> str:
    """Without a BOM, with LF as line end and one at the end of the text."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") + "\n"


def is_string(token: tokenize.TokenInfo) -> bool:
    """A string literal, or a part of an f-string, which are tokens of their own since Python 3.12."""
    return "STRING" in tokenize.tok_name[token.type]


class _Word(NamedTuple):
    text: str
    line: int
    prose: bool


def _statements(code: str) -> Iterator[list[tokenize.TokenInfo]]:
    """The tokens of each logical line, without comments and layout."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE}
    statement: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type not in layout:
            statement.append(token)
        elif token.type == tokenize.NEWLINE:
            yield statement
            statement = []


def _words(text: str, python: bool) -> list[_Word]:
    pieces = [(text, 1, True)]
    if python:
        try:
            found = list(tokenize.generate_tokens(io.StringIO(text).readline))
            pieces = [(each.string, each.start[0], is_string(each) or each.string[:1] == "#") for each in found]
        except (tokenize.TokenError, SyntaxError, ValueError):  # a lone surrogate, since Python 3.12
            pass  # not Python after all: all of it counts as prose, the stricter reading
    return [
        _Word(word, line, prose)
        for piece, first, prose in pieces
        for line, row in enumerate(piece.split("\n"), first)
        for word in _WORD.findall(row)
    ]
