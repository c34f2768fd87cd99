"""What a guest says, checked for its form before anything else of the grader sees it: a guest is a student's process.

Each function gives back what it was given, in its right form, or raises FrameError.
"""

from __future__ import annotations

from typing import Any

from autograder.sandbox import frames


def text(value: Any, cap: int = frames.TEXT_CAP) -> str:
    """A text, without what no report can hold, and not longer than `cap`."""
    if not isinstance(value, str):
        raise frames.FrameError("a text is no text")
    # Lone surrogates are in no report: no file could hold them.
    return value[:cap].encode("utf-8", "backslashreplace").decode()


def count(value: Any) -> int:
    """A line number, or how many of something."""
    if type(value) is not int or value < 0:
        raise frames.FrameError("a number is no number")
    return value


def error(value: Any) -> dict[str, Any]:
    """An exception, as `modules.describe` gives it."""
    if not isinstance(value, dict) or type(value.get("unfinished")) is not bool:
        raise frames.FrameError("an exception is not described")
    texts = {key: text(value.get(key)) for key in ("type", "message", "file")}
    return {**texts, "line": count(value.get("line")), "unfinished": value["unfinished"]}


def loaded(value: Any) -> dict[str, Any]:
    """What an import came to: exceptions and names, by module."""
    if not isinstance(value, dict) or not all(isinstance(value.get(key), dict) for key in ("errors", "names")):
        raise frames.FrameError("what was loaded is not described")
    names = {text(module): [text(name) for name in names] for module, names in value["names"].items()}
    return {"errors": {text(module): error(found) for module, found in value["errors"].items()}, "names": names}
