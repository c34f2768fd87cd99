"""The statements at the top level of a file or a cell: which of them define, and a text with only some of them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def first_line(node: ast.stmt) -> int:
    """Where a statement begins, its decorators included."""
    return min([node.lineno, *(int(decorator.lineno) for decorator in getattr(node, "decorator_list", []))])


def stored_in(node: ast.AST) -> set[str]:
    """The plain names that a statement gives a value to."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}


def named_in(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    """Everything that a block gives a name to, in order: qualified name and node; methods of its classes too."""
    for node in body:
        if isinstance(node, DEFINITIONS):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from named_in(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if node.value else []
            for target in targets:
                for inner in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    if isinstance(inner, ast.Name):
                        yield prefix + inner.id, node
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from named_in(parts(node), prefix)


def parts(node: ast.stmt) -> list[ast.stmt]:
    """The statements of a compound statement, of all its branches."""
    inside = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    for handler in getattr(node, "handlers", []):
        inside += handler.body
    return sorted(inside, key=lambda child: child.lineno)


def only_defines(node: ast.stmt, own: set[str], lost: set[str]) -> bool:
    """Whether a top-level statement defines and does nothing else.

    An assignment does more where it calls one of the `own` names or needs one of the `lost`.
    """
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass, *DEFINITIONS)):
        return True
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        if node.value is None:
            return True
        inner = list(evaluated(node))
        used = {name.id for name in inner if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}
        functions = [call.func for call in inner if isinstance(call, ast.Call)]
        called = {name.id for func in functions for name in ast.walk(func) if isinstance(name, ast.Name)}
        changed = {node.target.id} if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) else set()
        return not ((used | changed) & lost or called & own)
    if isinstance(node, (ast.If, ast.Try)):
        if isinstance(node, ast.If) and any(isinstance(part, ast.Call) for part in ast.walk(node.test)):
            return False
        return all(isinstance(part, ast.Raise) or only_defines(part, own, lost) for part in parts(node))
    return False


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """What is evaluated where it stands: everything but the bodies of lambdas."""
    yield node
    if not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from evaluated(child)


def only(text: str, statements: list[tuple[ast.stmt, bool]]) -> str:
    """The text with only the statements that are kept, each on its own lines."""
    lines = text.split("\n")
    result = [""] * len(lines)
    last = 0
    begun = Counter(node.lineno for node, _ in statements)
    for node, keep in statements:
        first = first_line(node)
        end = node.end_lineno or first
        alone = first > last and begun[end] == (node.lineno == end)
        last = end
        if keep and alone:
            result[first - 1 : end] = lines[first - 1 : end]
        elif keep:  # it shares its line with others, by semicolons
            written = ast.unparse(node)
            result[first - 1] = f"{result[first - 1]}; {written}" if result[first - 1] else written
    return "\n".join(result)
