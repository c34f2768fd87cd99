"""Which checks of a lab a student means: by name, number, section or symbol, with what they come after."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from autograder.lab import Lab
from autograder.reports import words
from autograder.result import points


def select(lab: Lab, what: str) -> Lab | str:
    """The lab with the fitting checks only, and what they come after; or a sentence where nothing fits."""
    names = {check: (check.name, check.number, check.section, check.target) for check in lab.checks}
    chosen = {check.name for check in lab.checks if what in names[check]}
    if not chosen and not what[:1].isdigit():
        chosen = {check.name for check in lab.checks if any(what in name for name in names[check])}
    if chosen:
        return only(lab, chosen)
    known = sorted({name for check in lab.checks for name in names[check]})
    near = difflib.get_close_matches(what, known, 3)
    return words.nothing_fits(what, near, [section.number for section in lab.file.sections])


def only(lab: Lab, names: Iterable[str]) -> Lab:
    """The lab with these checks and what they come after; the sections count the points of those."""
    chosen = set(names)
    while True:
        gates = {gate for check in lab.checks if check.name in chosen for gate in check.after}
        if gates <= chosen:
            break
        chosen |= gates
    checks = tuple(check for check in lab.checks if check.name in chosen)
    sections = tuple(
        section.model_copy(update={"points": points(c.points for c in checks if c.section == section.number)})
        for section in lab.file.sections
    )
    return replace(lab, checks=checks, file=lab.file.model_copy(update={"sections": sections}))
