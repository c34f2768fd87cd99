"""What a guest says, checked for its form before anything else of the grader sees it: a guest is a student's process.

Each function gives back what it was given, in its right form, or raises FrameError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder.language import N_, retold
from autograder.sandbox import frames


def text(value: Any, cap: int = frames.TEXT_CAP) -> str:
    """A text, without what no report can hold, and not longer than `cap`."""
    if not isinstance(value, str):
        raise frames.FrameError("a text is no text")
    # Lone surrogates are in no report: no file could hold them.
    return value[:cap].encode("utf-8", "backslashreplace").decode()


def count(value: Any) -> int:
    """A line number, or how many of something."""
    if type(value) is not int or value < 0 or value not in frames.INT64:  # a longer one might be too long to be written
        raise frames.FrameError("a number is no number")
    return value


def error(value: Any) -> dict[str, Any]:
    """An exception, as `modules.describe` gives it."""
    if type(with_keys(value).get("unfinished")) is not bool:
        raise frames.FrameError("an exception is not described")
    texts = {key: text(value.get(key)) for key in ("type", "message", "file")}
    return {**texts, "line": count(value.get("line")), "unfinished": value["unfinished"]}


def loaded(value: Any) -> dict[str, Any]:
    """What an import came to: exceptions and names, by module; packages that are not installed."""
    found = with_keys(value, "errors", "names", "absent")
    if not isinstance(found["absent"], list):
        raise frames.FrameError("what is absent is no list")
    errors, names = with_keys(found["errors"]), with_keys(found["names"])
    return {
        "errors": {text(module): error(described) for module, described in errors.items()},
        "names": {text(module): [text(name) for name in inside] for module, inside in names.items()},
        "absent": [text(name, 100) for name in found["absent"][:16]],
    }


def call(value: Any) -> dict[str, Any]:
    """What a call came to: its value, and what was wanted besides."""
    found = with_keys(value, "value")
    if not isinstance(found.get("inputs", []), list):
        raise frames.FrameError("the arguments of a call are no list")
    operations = with_keys(found.get("operations", {}))
    return {**found, "operations": {text(name): count(number) for name, number in operations.items()}}


def gradients(value: Any) -> dict[str, Any]:
    """What gradients came to."""
    found = with_keys(value, "attached", "gradients")
    if type(found["attached"]) is not bool:
        raise frames.FrameError("whether there is a gradient is not said")
    with_keys(found["gradients"])
    return found


def with_keys(value: Any, *keys: str) -> dict[Any, Any]:
    """A dict that has these keys."""
    if not isinstance(value, dict) or not all(key in value for key in keys):
        raise frames.FrameError("a dict is none, or has not what it should have")
    return value


# What a guest says in sentences of ours. It speaks English and no other language: what it says is told anew here.
TEXTS = (
    N_("this needs {name}, which is not installed in the grader"),
    N_("this needs {name}, and {file} was not handed in"),
    N_("this needs {name}, and {file} does not define it"),
    N_("this needs {name}, and {file} stopped at {error}"),
    N_("a part is missing"),
    N_("not written yet"),
    N_("{type} has no parameter {name}; it has {names}"),
    N_("{type} has no parameter {name}: {part} is a plain {kind}, in which PyTorch finds no parameters; use {instead}"),
    N_("parameter {name} has shape {got}, expected {wanted}"),
    N_("a {type} came back, expected {number} values at least"),
    N_("the output has shape {got}, expected {wanted}"),
    N_("the output has no gradient: it was detached from the graph on the way"),
    N_("an object that is needed here was lost when its process was stopped"),
    N_("{type} is not an nn.Module, so it has no parameters"),
    N_("what came back cannot be sent"),
    N_("what came back: {error}"),
    N_("tensor on the device {device}"),
    N_("tensor too large to be right"),
    N_("tensor that cannot be read"),
    N_("tensor of {dtype}"),
    N_("numpy array"),
    N_("{type} that is nested too deep"),
    N_("shape {shape}"),
    N_("of {number} bits"),
)


def told(sentence: str) -> str:
    """A sentence of a guest's in the language of the grading; as it is where it is none of ours."""
    return retold(sentence, TEXTS)


OF: dict[str, Callable[[Any], Any]] = {"load": loaded, "call": call, "gradients": gradients, "parameters": with_keys}


def answer(verb: str, value: Any) -> Any:
    """The value of an answer to a request."""
    return OF[verb](value) if verb in OF else value
