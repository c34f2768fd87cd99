"""Sentences about a hand-in that are said before anything of it is graded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from autograder.language import say

LONGEST_NAME = 60
NAMES_LISTED = 3


@dataclass(frozen=True)
class Note:
    """One sentence: what, where, what to do. A warning is about something that may cost points."""

    severity: Literal["info", "warning"]
    text: str


def shown(name: str) -> str:
    """A file name as it can be printed anywhere: no control characters, no lone surrogates, not endless."""
    printable = "".join(char if char.isprintable() else "?" for char in name)
    return printable if len(printable) <= LONGEST_NAME else printable[: LONGEST_NAME - 1] + "…"


def listed(names: Iterable[str], most: int = NAMES_LISTED) -> str:
    """`a, b, c and 4 more`."""
    every = [shown(name) for name in names]
    if len(every) > most:
        return say("{names} and {number} more", names=say(", ").join(every[:most]), number=len(every) - most)
    if len(every) < 2:
        return "".join(every)
    return say("{names} and {last}", names=say(", ").join(every[:-1]), last=every[-1])
