"""Diagnosis names the mistake that was made, both of a pair, and nothing at all for what is in no catalogue."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from conftest import ROOT

from autograder import audit, course
from autograder import lab as labs
from autograder.check import AuthoringError, Check
from autograder.diagnose import Mistake, MistakenReference, Patches, Tape, definitions, explain, mistake, patches
from autograder.judge import Finding, Judge
from autograder.lab import Lab
from autograder.result import Record, Status
from autograder.sandbox.frames import Foreign, Handle
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Live, NoAnswer, Program, request_key
from autograder.session import Session
from autograder.source import Source

EVERY = 4  # of a catalogue one in so many is graded here; `make audit` grades all
SPOILED = 40  # hand-ins of random output for each symbol
PAIRS = 12  # for each lab


def catalogued() -> dict[str, Lab]:
    """The labs that have a catalogue; one that is being written, and does not load, has none yet."""
    found = {}
    for name in course.labs(ROOT):
        try:
            lab = labs.load(name, ROOT)
        except AuthoringError:
            continue
        if lab.mistakes:
            found[name] = lab
    return found


LABS = catalogued()


class Remembered(MistakenReference):
    """The mistaken reference, asked once for each series of questions: many hand-ins are asked the same."""

    def __init__(self, interpreter: Live, lab: Lab) -> None:
        super().__init__(interpreter, lab.reference, lab.main_module)
        self.known: dict[tuple[str, ...], list[Any] | AuthoringError] = {}
        self.series: WeakKeyDictionary[Tape, tuple[str, ...]] = WeakKeyDictionary()

    def answers(self, mistakes: Sequence[Mistake], tape: Tape, seed: int) -> Iterator[Any]:  # type: ignore[override]
        if tape not in self.series:
            self.series[tape] = tuple(request_key(verb, body, seed) for verb, body, _ in tape.asked)
        key = (*(item.name for item in mistakes), *self.series[tape])
        if key not in self.known:
            try:
                self.known[key] = list(super().answers(mistakes, tape, seed))
            except AuthoringError as error:  # two changes that cannot be made at once
                self.known[key] = error
        found = self.known[key]
        if isinstance(found, AuthoringError):
            raise found
        yield from found


class Bench:
    """One lab's judge, and a student whose definitions are exchanged in place: a hand-in takes no process of its own."""

    def __init__(self, lab: Lab, zygote: Zygote) -> None:
        # Without a secret no guest is replaced between two checks: what was defined in it stays.
        self.lab = replace(lab, file=lab.file.model_copy(update={"secret": ""}))
        self.student = Live(zygote, lab.reference, None, 60)
        self.oracle = Live(zygote, lab.reference, None, 60)
        self.mistaken = Remembered(self.oracle, lab)
        files = lab.reference.files
        self.sources = {module: Source.read(text.encode(), f"{module}.py") for module, (_, text) in files.items()}

    def findings(self, changed: Patches, symbol: str) -> dict[str, Finding]:
        """What the checks of a symbol come to while definitions are changed; what a failed one gates is left out."""
        judge = Judge(self.lab, self.sources, self.student, self.oracle, self.mistaken)
        found: dict[str, Finding] = {}
        stopped: set[str] = set()
        for (module, name), source in changed.items():
            self.student.ask("define", module=module, symbol=name, source=source)
        for check in checks_of(self.lab, symbol):
            if not stopped & set(check.after):
                found[check.name] = judge.find(check)
            if check.name not in judge.passed:
                stopped.add(check.name)
        self.student.ask("restore")
        assert not judge.faults
        return found


def checks_of(lab: Lab, symbol: str) -> list[Check]:
    return [check for check in lab.checks if check.target == symbol]
