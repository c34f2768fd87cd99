"""Gradescope's "Download Submissions": a folder for each, and `submission_metadata.yml` with who handed in what.

The file is Ruby's YAML: its keys are symbols (`:submitters:`), and values may carry tags of Ruby classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from autograder.classroom.exports import METADATA, Earlier, Export, ExportError, HandedIn, NotUnderstood, Student
from autograder.reading.handin import ignored

# libyaml's loader where it was built in: with the results of a class the file has tens of megabytes.
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _RubyLoader(_Safe):  # type: ignore[misc]
    """The safe loader, which takes Ruby's classes for the plain maps, lists and texts that they hold."""


def _plain(loader: Any, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)


_RubyLoader.add_multi_constructor("!ruby/", _plain)


def read(root: Path) -> Export:
    """The class in an export. Raises ExportError where its metadata cannot be read."""
    try:
        document = yaml.load((root / METADATA).read_bytes(), Loader=_RubyLoader)  # a subclass of the safe one
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        where = " ".join(str(error).split())
        raise ExportError(f"{root / METADATA} cannot be read as YAML: {where[:200]}; export the class again") from error
    if not isinstance(document, dict):
        raise ExportError(f"{root / METADATA} holds no submissions: export the class again")
    export = Export("Gradescope")
    for key, entry in document.items():
        folder = root / str(key)
        plain_name = Path(str(key)).name == str(key)
        if not isinstance(entry, dict) or not plain_name:
            export.not_understood.append(NotUnderstood(str(key), f"is no submission as {METADATA} has them"))
            continue
        there = folder.is_dir() and not folder.is_symlink()
        export.hand_ins.append(
            HandedIn(
                label=str(key),
                students=_students(entry, str(key)),
                files={"": folder} if there else {},
                submitted=str(_of(entry, "created_at") or ""),
                earlier=_earlier(entry),
            )
        )
    for path in sorted(root.iterdir()):
        if path.name in document or path.name == METADATA or ignored(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            export.hand_ins.append(HandedIn(path.name, (Student(path.name),), {"": path}))
            why = f"is not in {METADATA}: graded, without a student's name"
        else:
            why = "is no folder of a submission"
        export.not_understood.append(NotUnderstood(path.name, why))
    return export


def _of(entry: dict[Any, Any], key: str) -> Any:
    """A value by its key, which is a Ruby symbol or, in other versions, plain text."""
    return entry.get(f":{key}", entry.get(key))


def _students(entry: dict[Any, Any], label: str) -> tuple[Student, ...]:
    found = _of(entry, "submitters")
    people = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    students = [
        Student(*(str(_of(item, key) if _of(item, key) is not None else "") for key in ("name", "sid", "email")))
        for item in people
    ]
    return tuple(students) or (Student(label),)


def _earlier(entry: dict[Any, Any]) -> Earlier | None:
    score = _of(entry, "score")
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return None
    results = _of(entry, "results")
    tests = _of(results, "tests") if isinstance(results, dict) else None
    checks = {}
    for test in tests if isinstance(tests, list) else []:
        number, points = (_of(test, key) for key in ("number", "score")) if isinstance(test, dict) else (None, None)
        if number and isinstance(points, (int, float)):
            checks[str(number)] = float(points)
    return Earlier(float(score), checks)
