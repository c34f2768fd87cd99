"""docs/results.md: the form of record.json, read from the models themselves so that it is never out of date."""

from __future__ import annotations

import ast
from pathlib import Path

from autograder import result

HEAD = """# record.json

`make grade … OUT=out` and a graded class write one `record.json` for each hand-in. Every report is made from it and from
nothing else, so other tools may read it, too. It is private: what students may see of it stands in `results.json` and
`feedback.html`. This page is made from the models in `autograder/result.py` (`python -m autograder schema`).
"""


def page() -> str:
    """The page, in Markdown."""
    tree = ast.parse(Path(result.__file__).read_text(encoding="utf-8"))
    models = [node for node in tree.body if isinstance(node, ast.ClassDef) and _is(node, "BaseModel")]
    return "\n".join([HEAD, *(_table(model) for model in reversed(models))])


def _is(node: ast.ClassDef, base: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == base for item in node.bases)


def _table(model: ast.ClassDef) -> str:
    rows = []
    for node, following in zip(model.body, [*model.body[1:], None]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = following.value.value if isinstance(following, ast.Expr) else ""  # type: ignore[attr-defined]
            rows.append(f"| `{node.target.id}` | {_type(ast.unparse(node.annotation))} | {said} |")
    head = f"## {model.name}\n\n{ast.get_docstring(model)}\n\n| field | type | what it is |\n|---|---|---|"
    return "\n".join([head, *rows, ""])


def _type(annotation: str) -> str:
    """A type as JSON has it."""
    if annotation.startswith("tuple["):
        return f"list of {_type(annotation.removeprefix('tuple[').removesuffix(', ...]'))}"
    if annotation.endswith(" | None"):
        return f"{_type(annotation.removesuffix(' | None'))} or null"
    words = {"str": "text", "Text": "text", "float": "number", "int": "number", "bool": "true or false", "Status": "text"}
    words |= {"Row": "list of text", "dict[str, str]": "texts by name"}
    return words.get(annotation, annotation)
