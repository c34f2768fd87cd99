"""A function or class as text and as tree: a change of one node, written back into the text as it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.check import AuthoringError
from autograder.mutators import OPERATORS
from autograder.syntax import Scope


class Piece:
    """One top-level function or class: its text, and where its holes are."""

    def __init__(self, text: str, rows: set[int]) -> None:
        self.text = text
        self.data = text.encode()
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.tree = ast.parse(text)
        self.rows = rows

    def changed(self) -> Iterator[tuple[int, str, str, str, str, str]]:
        """Line, symbol, operator, statement before and after, and text of each change, from top to bottom."""
        seen = {ast.dump(self.tree)}
        for symbol, scope in self._scopes():
            for node in self._nodes(scope):
                for operator, replacements in OPERATORS.items():
                    for new in replacements(node, scope):
                        before, after, source = self._with(node, new, scope)
                        dump = ast.dump(ast.parse(source))
                        if dump not in seen:
                            seen.add(dump)
                            yield getattr(node, "lineno", 0), symbol, operator, before, after, source

    def _scopes(self) -> Iterator[tuple[str, Scope]]:
        for top in self.tree.body:
            if isinstance(top, ast.FunctionDef):
                yield top.name, Scope(top, None)
            elif isinstance(top, ast.ClassDef):
                for node in top.body:
                    if isinstance(node, ast.FunctionDef):
                        yield f"{top.name}.{node.name}", Scope(node, top)

    def _nodes(self, scope: Scope) -> list[ast.AST]:
        """What may be changed, in the order of the text. Parts of f-strings have no place of their own before 3.12."""
        kept: set[ast.AST] = set()
        for node in ast.walk(scope.function):
            if isinstance(node, ast.JoinedStr):
                kept |= set(ast.walk(node))
            elif isinstance(node, ast.AnnAssign):
                kept |= set(ast.walk(node.annotation))
        found = [node for node in ast.walk(scope.function) if getattr(node, "lineno", 0) in self.rows]
        return sorted((node for node in found if node not in kept), key=self._span)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        place = vars(node)
        begin = self.starts[place["lineno"] - 1] + place["col_offset"]
        return begin, self.starts[place["end_lineno"] - 1] + place["end_col_offset"]

    def _with(self, node: ast.AST, new: ast.AST, scope: Scope) -> tuple[str, str, str]:
        part = _Part(node, scope)
        before = part.text()
        with _Exchanged(scope.parents[node], node, new):
            after = part.text()
            meant = ast.dump(ast.parse(ast.unparse(self.tree)))
        begin, end = self._span(node)
        for form in ("{}", "({})"):  # in brackets only where the bare text would mean something else
            written = form.format(ast.unparse(new)).encode()
            source = (self.data[:begin] + written + self.data[end:]).decode()
            if _dump(source) == meant:
                return before, after, source
        raise AuthoringError(f"line {vars(node)['lineno']}: {before!r} cannot be changed to {after!r}")


class _Part:
    """What a reader is shown of a change: the statement that a node stands in; of a long dict the one entry."""

    def __init__(self, node: ast.AST, scope: Scope) -> None:
        inside = node
        while not isinstance(inside, ast.stmt) and not isinstance(scope.parents[inside], ast.Dict):
            inside = scope.parents[inside]
        self.above = scope.parents[inside]
        self.list, self.at = self._place(inside)

    def _place(self, inside: ast.AST) -> tuple[list[ast.AST], int]:
        """Every statement, key and value stands in a list; the node at this place is another one while exchanged."""
        lists = [value for _, value in ast.iter_fields(self.above) if isinstance(value, list) and inside in value]
        return lists[0], lists[0].index(inside)

    def text(self) -> str:
        """The part as it is now."""
        if isinstance(self.above, ast.Dict):
            key, value = self.above.keys[self.at], self.above.values[self.at]
            return f"{ast.unparse(key) if key else '**'}: {ast.unparse(value)}"
        return _header(self.list[self.at])


class _Exchanged:
    """One child of a node replaced, inside a `with` block."""

    def __init__(self, above: ast.AST, old: ast.AST, new: ast.AST) -> None:
        self.above, self.old, self.new = above, old, new

    def __enter__(self) -> None:
        self._put(self.old, self.new)

    def __exit__(self, *_: object) -> None:
        self._put(self.new, self.old)

    def _put(self, old: ast.AST, new: ast.AST) -> None:
        for name, value in ast.iter_fields(self.above):
            if value is old:
                setattr(self.above, name, new)
            elif isinstance(value, list):
                value[:] = [new if item is old else item for item in value]


def _dump(source: str) -> str:
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return ""


def _header(statement: ast.AST) -> str:
    """A statement in one line; of a compound one its first line."""
    if getattr(statement, "body", None):
        fields = dict(ast.iter_fields(statement)) | {"body": [ast.Pass()]}
        fields |= {name: [] for name in ("orelse", "finalbody", "handlers") if name in fields}
        statement = type(statement)(**fields)
    return ast.unparse(ast.fix_missing_locations(statement)).strip().splitlines()[0]
