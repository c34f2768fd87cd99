"""The part of a checks.py that a student may read."""

from __future__ import annotations

import ast
import re

from autograder.check import AuthoringError
from autograder.reading.statements import first_line


def visible_source(source: str, kept: set[str], place: str = "checks.py") -> str:
    """The checks that a student may read, and what of the file they use: nothing else of it, comments included.

    Raises:
        AuthoringError: a check to keep is no plain function of the file, or the file cannot be taken apart safely.
    """
    body = ast.parse(source).body
    defined = {node: _defines(node) for node in body}
    shown = [node for node in body if not defined[node] or (_is_check(node) and defined[node] <= kept)]
    if lost := kept.difference(*(defined[node] for node in shown)) if shown else kept:
        raise AuthoringError(f"{place}: {', '.join(sorted(lost))} must be a plain function with @check(…) of this file")
    waiting = list(shown)
    while waiting:
        used = {node.id for node in ast.walk(waiting.pop()) if isinstance(node, ast.Name)}
        found = [node for node in body if node not in shown and defined[node] & used and not _is_check(node)]
        shown += found
        waiting += found
    lines, begin, text = source.split("\n"), 0, ""
    before: ast.stmt | None = None
    for node in body:
        first, end = first_line(node) - 1, node.end_lineno or 0
        if node in shown:
            remarks = lines[begin:first]
            if before and before not in shown:  # they may be about what is cut out
                remarks = _attached(remarks)
            text += "\n".join([*remarks, *lines[first:end]]) + "\n"
        begin, before = end, node
    text = text.lstrip("\n")
    if [ast.dump(node) for node in ast.parse(text).body] != [ast.dump(node) for node in body if node in shown]:
        raise AuthoringError(f"{place}: two statements share a line, so hidden checks cannot be cut out: use two lines")
    return text


def _attached(remarks: list[str]) -> list[str]:
    """Of the lines above a statement, the comment that stands right on it, and headings of sections."""
    at = len(remarks)
    while at and remarks[at - 1].startswith("#"):
        at -= 1
    headings = [line for line in remarks[:at] if re.fullmatch(r"# [\d.]+ -+", line)][-1:]
    return ["", "", *headings, *([] if not headings else ["", ""]), *remarks[at:]]


def _is_check(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id == "check"
        for item in node.decorator_list
    )


def _defines(node: ast.stmt) -> set[str]:
    """The names that a statement brings into the file; nothing where it is more than a definition."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__"):
        return {(item.asname or item.name).split(".")[0] for item in node.names}
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)}
    return set()
