"""A broken file cut into statements that compile alone, and others that do not.

Python stops at the first error and often reports it far below its cause. Compiled one by one, each statement answers
for itself; lines that lost their indentation are put back to the definition they belong to.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, replace

from autograder.language import N_
from autograder.reading.lexing import Lexer

MOST_BROKEN = 200
MOST_LOOKAHEAD = 100_000
# The trees are walked by recursion in other places; code that people write is less than 40 deep.
DEEPEST = 200

DEFINITION = re.compile(r"\s*(?:async\s+)?(def|class)\s+(\w+)", re.IGNORECASE)
DECORATOR = re.compile(r"@\s*[^\W\d][\w.]*\s*(?:$|[(\[#])")
OWN_STATEMENT = re.compile(r"(?:async\s+)?(?:def|class)\b|@|import\b|from\b")
CONTINUES = re.compile(r"(?:else|elif|except|finally)\b|[#)\]}]")
CONFLICT = re.compile(r"(?:<{7}|={7}|>{7}|\|{7})(?: .*)?$")
FENCE = re.compile(r"\s*(?:```|~~~)")
STRAY = re.compile(r"unexpected indent|unindent does not match|outside function|outside loop|not properly in loop")


@dataclass(frozen=True)
class Problem:
    """Why a text does not compile, and where."""

    line: int
    message: str


@dataclass(frozen=True)
class Piece:
    """One statement of a block: its lines, counted from 1, and its tree or what is wrong with it."""

    first: int
    last: int
    tree: ast.Module | None
    problem: Problem | None = None


def examine(text: str) -> ast.Module | Problem:
    """The tree of a text that compiles, else the problem. Never raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Compile first: it refuses what would be too deep to become a tree, and what only the compiler sees.
            compile(text, "<hand-in>", "exec", dont_inherit=True)
            tree = ast.parse(text)
    except SyntaxError as error:
        return Problem(error.lineno or 1, error.msg or "invalid syntax")
    except (RecursionError, MemoryError):
        return Problem(1, N_("this is nested too deeply to be read"))
    except (ValueError, OverflowError, SystemError) as error:
        return Problem(1, str(error) or N_("this cannot be read"))
    deep = _too_deep(tree)
    return Problem(deep, N_("this is nested too deeply to be read")) if deep else tree


def _too_deep(tree: ast.Module) -> int:
    # A statement on one line with fewer characters than that cannot be too deep, and most are of that kind.
    level: list[tuple[ast.AST, int]] = [
        (node, node.lineno)
        for node in tree.body
        if node.end_lineno != node.lineno or (node.end_col_offset or 0) - node.col_offset > DEEPEST
    ]
    for _ in range(DEEPEST):
        deeper = ((child, line) for node, line in level for child in ast.iter_child_nodes(node))
        level = [(child, getattr(child, "lineno", line)) for child, line in deeper]
    return level[0][1] if level else 0


def cut(lines: list[str], begin: int, end: int, indent: str = "") -> list[Piece]:
    """The statements of lines[begin:end], a block indented by `indent`."""
    return _merge(lines, _Splitter(lines, indent).split(begin, end), indent)


class _Splitter:
    """Cuts a block into statements, each as short as can be while it compiles."""

    def __init__(self, lines: list[str], indent: str) -> None:
        self.lines = lines
        self.indent = indent
        self.lookahead = MOST_LOOKAHEAD
        self.broken = 0

    def split(self, begin: int, end: int) -> list[Piece]:
        """The statements of lines[begin:end]."""
        starts = [*self._starts(begin, end), end]
        if starts[0] > begin and "".join(self.lines[begin : starts[0]]).strip():
            starts.insert(0, begin)
        pieces = []
        at = 0
        while at < len(starts) - 1:
            piece, at = self._piece(starts, at)
            pieces.append(piece)
            if self.broken > MOST_BROKEN:
                pieces[-1] = replace(piece, last=end)
                break
        return pieces

    def _starts(self, begin: int, end: int) -> list[int]:
        """Lines at which a statement of this block may begin. In strings and brackets some of them do not."""
        starts: list[int] = []
        decorated = unclosed = False
        header = False  # of a definition of this block; ends with the line that ends in a colon
        body: int | None = None  # how far the definition's body is indented, 0 until that is seen
        for index in range(begin, end):
            line = re.sub(r"^[ \t\f]*\f", "", self.lines[index])
            bare = line[len(self.indent) :]
            word = line.lstrip()
            if not word or word.startswith("#"):
                continue
            at_level = line.startswith(self.indent) and not bare[:1].isspace() and not CONTINUES.match(bare)
            at_level = at_level or bool(CONFLICT.match(line))
            width = len(line) - len(word)
            # A definition that slipped a little to the right is no part of the one above it.
            slipped = body is not None and len(self.indent) < width < body and bool(DEFINITION.match(word))
            if (at_level or slipped) and not decorated:
                starts.append(index)
            if at_level or slipped:
                header, body = bool(DEFINITION.match(word)), None
                decorated = _decorates(word)
            else:
                # Below a decorator that is complete, only another one or the definition can stand.
                decorated = decorated and unclosed
                body = width if body == 0 else body
            if decorated and word.startswith("@"):
                unclosed = word.count("(") > word.count(")")
            if header and word.split("#")[0].rstrip().endswith(":"):
                header, body = False, 0
        return starts

    def _piece(self, starts: list[int], at: int) -> tuple[Piece, int]:
        begin, end = starts[at], starts[at + 1]
        tree = self._fits(begin, end)
        if tree:
            return Piece(begin + 1, end, tree), at + 1
        lexer = Lexer()
        lexer.feed("\n".join(self.lines[begin:end]) + "\n")
        further = at + 1
        while lexer.open and further < len(starts) - 1 and self.lookahead > 0:
            lexer.feed("\n".join(self.lines[starts[further] : starts[further + 1]]) + "\n")
            further += 1
            self.lookahead -= 1
        tree = None if lexer.open or further == at + 1 else self._fits(begin, starts[further])
        if tree:
            return Piece(begin + 1, starts[further], tree), further
        self.broken += 1
        return _broken(self.lines, begin + 1, end, self.indent), at + 1

    def _fits(self, begin: int, end: int) -> ast.Module | None:
        text = "\n".join(self.lines[begin:end]) + "\n"
        found = examine(f"class _:\n{text}" if self.indent else text)
        if isinstance(found, Problem) or (self.indent and len(found.body) != 1):
            return None
        return found


def _decorates(line: str) -> bool:
    """Whether a definition can stand below this line. A product that was broken before its `@` begins like a decorator."""
    if not DECORATOR.match(line):
        return False
    unclosed = any(line.count(left) > line.count(right) for left, right in ("()", "[]"))
    return unclosed or not isinstance(examine(f"{line}\ndef _(): pass\n"), Problem)


def explain(lines: list[str], begin: int, end: int, indent: str = "") -> Problem:
    """What is wrong with lines[begin:end] alone, in the line numbers of the whole file."""
    marked = next((index for index in range(begin, end) if CONFLICT.match(lines[index])), None)
    if marked is not None:
        return Problem(marked + 1, N_("a merge conflict marker was left here"))
    text = "\n".join(lines[begin:end]) + "\n"
    # Messages name lines too, so the text is moved to where it stands.
    found = examine("\n" * (begin - 1) + "class _:\n" + text if indent else "\n" * begin + text)
    if not isinstance(found, Problem):
        stray = found.body[1].lineno if len(found.body) > 1 else begin + 1
        return Problem(stray, N_("this line is not indented as the ones around it"))
    line = min(max(found.line, begin + 1), end)
    return Problem(line, N_("a line of Markdown was left here") if FENCE.match(lines[line - 1]) else found.message)


def _merge(lines: list[str], pieces: list[Piece], indent: str) -> list[Piece]:
    """Puts together what belongs to one definition although a line of it lost its indentation."""
    merged: list[Piece] = []
    grown: set[int] = set()
    for piece in pieces:
        before = merged[-1] if merged else None
        adjacent = before is not None and bool(lines[before.last - 1].strip())
        own = OWN_STATEMENT.match(lines[piece.first - 1].strip())
        said = before.problem.message if before and before.problem else ""
        if before and adjacent and not own and "expected an indented block" in said:
            merged[-1] = replace(before, last=piece.last)
            grown.add(before.first)
            continue
        marker = bool(CONFLICT.match(lines[piece.first - 1]))
        if before and adjacent and marker and "conflict" in said:
            merged[-1] = replace(before, last=piece.last)
            continue
        # `<<<<<<<` inside of a definition is followed by more of that definition, a stray fence too.
        marker = marker or bool(FENCE.match(lines[piece.first - 1]))
        marker = marker and any(line[:1].isspace() for line in lines[piece.first : piece.last])
        if piece.problem and not own and (marker or _stray(lines, piece, indent)):
            owner = _owner(lines, merged, piece, indent)
            if owner is not None:
                grown.add(merged[owner].first)
                merged[owner:] = [Piece(merged[owner].first, piece.last, None, piece.problem)]
                continue
        merged.append(piece)
    return [_broken(lines, piece.first, piece.last, indent) if piece.first in grown else piece for piece in merged]


def _stray(lines: list[str], piece: Piece, indent: str) -> bool:
    assert piece.problem is not None
    text = "\n" * (piece.first - 1) + "\n".join(lines[piece.first - 1 : piece.last])
    found = examine(text) if not indent else piece.problem
    return isinstance(found, Problem) and bool(STRAY.search(found.message))


def _owner(lines: list[str], before: list[Piece], piece: Piece, indent: str) -> int | None:
    """The definition above that a stray statement belongs to, if it is one that does not look complete."""
    for index in range(len(before) - 1, -1, -1):
        above = before[index]
        first = lines[above.first - 1].strip()
        if re.match(r"(?:async\s+)?(?:def|class)\b|@", first):
            more = any(DEFINITION.match(line) and line[:1].isspace() for line in lines[piece.first : piece.last])
            whole = _complete(above.tree) and not (more and not indent and first.startswith(("class", "@")))
            return index if above.problem or not whole else None
        # Whatever stands directly under the definition, without a blank line, may be part of it too.
        if OWN_STATEMENT.match(first) or not lines[above.last - 1].strip():
            return None
    return None


def _broken(lines: list[str], first: int, last: int, indent: str) -> Piece:
    return Piece(first, last, None, explain(lines, first - 1, last, indent))


def _complete(tree: ast.Module | None) -> bool:
    """Whether a definition ends the way a finished one does, by returning or raising."""
    if tree is None or not tree.body:
        return True
    last: ast.stmt = tree.body[-1]
    while isinstance(last, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With)):
        last = last.body[-1]
    return isinstance(last, (ast.Return, ast.Raise))
