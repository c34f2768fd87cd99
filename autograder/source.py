"""What the trusted grader knows of one file of the student's, without running a line of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autograder.language import N_, say
from autograder.reading.decoding import decode
from autograder.reading.notes import Note, shown
from autograder.reading.pieces import examine
from autograder.reading.repair import BrokenDefinition, repair
from autograder.reading.statements import DEFINITIONS, first_line, named_in, only, only_defines, stored_in

__all__ = ["BrokenDefinition", "Note", "Source", "Span", "decode"]


MOST_SAID = 12


@dataclass(frozen=True)
class Span:
    """Where something is defined: decorators from `first`, its own `line`; `earlier`: lines that it overrides."""

    name: str
    first: int
    line: int
    last: int
    earlier: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)  # the same only as itself, so that what is read of it can be kept under it
class Source:
    """One file: `original` as it was handed in, `text` as the guest compiles it, with the same line numbers."""

    name: str
    original: str
    text: str
    tree: ast.Module
    notes: tuple[Note, ...] = ()
    broken: tuple[BrokenDefinition, ...] = ()
    places: tuple[str, ...] = ()  # of a notebook: what each line is called
    helpers: frozenset[str] = frozenset()  # other modules of the hand-in, of which a rule reads nothing

    @classmethod
    def read(cls, data: bytes, name: str, origin: str | None = None) -> Source:
        """The file `name` of a lab from the bytes of a hand-in. Never raises.

        `origin`: the file of the hand-in that was taken for it; a notebook is also recognised by its content.
        """
        origin = origin or name
        if origin.endswith(".ipynb") or re.match(rb'\s*\{\s*"', data):
            from autograder.reading.notebook import (
                definitions_from_notebook,
                is_notebook,
            )  # slow to import, and rarely needed

            if origin.endswith(".ipynb") or is_notebook(data):
                shown_as = origin if origin.endswith(".ipynb") else f"{name.removesuffix('.py')}.ipynb"
                book = definitions_from_notebook(data, shown_as, own=name.removesuffix(".py"))
                return cls._made(name, book.original, book.text, book.notes, book.broken, book.places)
        original, notes = decode(data, name)
        sound = examine(original)
        if isinstance(sound, ast.Module):
            return cls(name, original, original, sound, notes)
        text, broken = repair(original, lambda line: say("{file} line {line}", file=name, line=line))
        said = [_cost(f"{shown(name)}:{item.line}", item) for item in broken[:MOST_SAID]]
        if len(broken) > MOST_SAID:
            more = len(broken) - MOST_SAID
            many = N_("{file}: {number} more syntax errors; run the file yourself to see them.")
            said.append(Note("warning", say(many, file=shown(name), number=more)))
        return cls._made(name, original, text, (*notes, *said), broken)

    @classmethod
    def _made(cls, name: str, original: str, text: str, notes: Sequence[Note], broken: Sequence[BrokenDefinition],
              places: tuple[str, ...] = ()) -> Source:  # fmt: skip
        tree = examine(text)
        if not isinstance(tree, ast.Module):  # repaired text compiles; were it not so, nothing of it may be trusted
            text, tree = "\n" * text.count("\n"), ast.Module([], [])
        return cls(name, original, text, tree, tuple(notes), tuple(broken), places)

    @cached_property
    def _lines(self) -> list[str]:
        return self.original.split("\n")

    def line(self, number: int) -> str:
        """Line `number` (from 1) as the student wrote it; empty where there is none."""
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def where(self, line: int) -> str:
        """`attention.py:41`, or `worksheet.ipynb cell 7 line 3`."""
        return self.places[line - 1] if 0 < line <= len(self.places) else f"{self.name}:{line}"

    def find(self, qualname: str) -> Span | None:
        """Where `f`, `Class`, `Class.method` or an assigned `NAME` is defined; the last of several, as in Python."""
        found = self._defined.get(qualname, [])
        wound = next((item for item in reversed(self.broken) if item.name == qualname), None)
        if wound and not (found and found[-1][0] > wound.last):
            line = next((line for line, _ in found if wound.first <= line), wound.first)
            return Span(qualname, wound.first, line, wound.last, tuple(line for line, _ in found if line < wound.first))
        if found:
            line, node = found[-1]
            earlier = tuple(before for before, _ in found[:-1])
            return Span(qualname, first_line(node), line, node.end_lineno or line, earlier)
        owner, _, method = qualname.rpartition(".")
        for base in self._bases(owner):
            inherited = self.find(f"{base}.{method}") if base != owner else None
            if inherited:
                return replace(inherited, name=qualname)
        return None

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the file: several rules look at all of them, and to walk is dearer than to look."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def _defined(self) -> dict[str, list[tuple[int, ast.stmt]]]:
        """Every qualified name → its definitions in order: line and node."""
        defined: dict[str, list[tuple[int, ast.stmt]]] = {}
        for qualname, node in named_in(self.tree.body, ""):
            if isinstance(node, ast.ClassDef):  # a second class of the name has none of the first one's methods
                for name in [name for name in defined if name.startswith(f"{qualname}.")]:
                    del defined[name]
            defined.setdefault(qualname, []).append((node.lineno, node))
        return defined

    def _bases(self, owner: str) -> list[str]:
        found = self._defined.get(owner)
        node = found[-1][1] if found else None
        return [base.id for base in node.bases if isinstance(base, ast.Name)] if isinstance(node, ast.ClassDef) else []

    def lines_calling(self, qualname: str, names: Iterable[str]) -> list[int]:
        """Lines within a definition, and in what it calls of this file, where one of the names or attributes is used.

        `softmax` is found as `softmax(…)`, `F.softmax`, `scores.softmax(-1)`, `getattr(F, "softmax")` and under another
        name that an import or a plain assignment at top level gave it.
        """
        sought = set(names)
        sought |= {alias for alias, name in self._aliases.items() if name in sought}
        lines: set[int] = set()
        waiting, seen = [qualname], {qualname}
        while waiting:
            current = waiting.pop()
            found = self._defined.get(current)
            if not found:
                span = self.find(current)  # inherited
                found = [pair for pairs in self._defined.values() for pair in pairs if span and pair[0] == span.line]
            for node in ast.walk(found[-1][1]) if found else ():
                name, line = _mention(node)
                if name in sought:
                    lines.add(line)
                for callee in self._callees(node, current):
                    if callee not in seen:
                        seen.add(callee)
                        waiting.append(callee)
        return sorted(lines)

    def _callees(self, node: ast.AST, inside: str) -> Iterator[str]:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self._defined:
            defined = self._defined[node.id][-1][1]
            if isinstance(defined, DEFINITIONS) or isinstance(getattr(defined, "value", None), ast.Lambda):
                yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = inside.rpartition(".")[0] or inside
            qualname = f"{owner if node.value.id in ('self', 'cls') else node.value.id}.{node.attr}"
            if self.find(qualname):
                yield qualname

    @cached_property
    def _aliases(self) -> dict[str, str]:
        aliases: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom):
                aliases |= {item.asname: item.name for item in node.names if item.asname}
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.Name, ast.Attribute)):
                name = _mention(statement.value)[0]
                named = [target.id for target in statement.targets if isinstance(target, ast.Name)]
                aliases |= dict.fromkeys(named, aliases.get(name, name))
        return aliases

    def definitions_only(self) -> str:
        """The text without what runs by itself, the rest on its old lines: for a file that hangs or dies at import.

        Stays: imports (also guarded by `if` or `try`), `def`, `class`, and assignments, unless these call what the file
        itself defines (that is where a demonstration hangs) or need the value of one that does.
        """
        own = {name for name, found in self._defined.items() if isinstance(found[-1][1], DEFINITIONS)}
        lost: set[str] = set()
        kept: list[tuple[ast.stmt, bool]] = []
        for node in self.tree.body:
            keep = only_defines(node, own | {"input"}, lost)
            lost = lost - stored_in(node) if keep else lost | (stored_in(node) - own)
            kept.append((node, keep))
        return only(self.text, kept)


def _cost(place: str, item: BrokenDefinition) -> Note:
    lost = N_("{place}: SyntaxError: {error}; `{name}` cannot be graded, the rest of the file is.")
    left_out = N_("{place}: SyntaxError: {error}; this statement was left out, the rest of the file is.")
    text = say(lost if item.name else left_out, place=place, error=say(item.message), name=item.name)
    return Note("warning", text)


def _mention(node: ast.AST) -> tuple[str, int]:
    """The name that an expression uses, and the line on which it stands."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id, node.lineno
    if isinstance(node, ast.Attribute):
        return node.attr, node.end_lineno or node.lineno
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        named = node.args[1] if len(node.args) > 1 else None
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            return named.value, named.lineno
    return "", 0
