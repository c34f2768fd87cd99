"""Whether every verdict stays what it is where nothing that matters has changed.

Each hand-in of the audit is graded a second time, by graders with another hash seed, with two threads, and with outputs
that carry the rounding of another CPU. Status, points and the cause that is named must be the same each time; where the
numbers are the same, too, so must every word.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autograder import lab as labs
from autograder import specimens
from autograder.lab import Lab
from autograder.result import Record
from autograder.sandbox.frames import Array
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Live, Program
from autograder.session import Session
from autograder.specimens import Specimen

# Of the largest value: the worst float32 error of honest work that was seen on another CPU (docs/design.md, Tolerances).
NOISE = 2.5e-5
COMPUTED = {"call": "value", "get": "", "gradients": "gradients"}  # verb → where its answer holds what was computed
VERDICT = ("status", "score", "mistakes")
WORDS = ("gap", "cause", "where", "review")
TWO_THREADS = "\n\nimport torch as _torch\n\n_torch.set_num_threads(2)\n"


@dataclass(frozen=True)
class Surroundings:
    """What may be different around a hand-in without making a difference."""

    name: str
    hash_seed: int = 0
    threads: int = 1
    noise: float = 0.0

    @property
    def watched(self) -> tuple[str, ...]:
        """The parts of a result that must stay; with the same numbers that is every sentence, too."""
        return VERDICT if self.threads > 1 or self.noise else VERDICT + WORDS

    def looked_at(self, specimen: Specimen) -> str:
        """The check that must stay as it was; empty for all.

        What a wrong part does to the parts behind it may well enlarge a rounding (softmax of unbounded scores), so with
        noise a mistake has to be caught where it is meant to be, and no more.
        """
        return specimen.mistake.caught_by if self.noise and specimen.mistake else ""


AGAIN = Surroundings("a second time")
OTHERS = (
    Surroundings("hash seed 1", hash_seed=1),
    Surroundings("hash seed 2", hash_seed=2),
    Surroundings("two threads", threads=2),
    Surroundings(f"noise of {NOISE:g}", noise=NOISE),
)


@dataclass(frozen=True)
class Outcome:
    """What came out otherwise than in the audit, in sentences."""

    surroundings: Surroundings
    hand_ins: int
    changed: tuple[str, ...]
    seconds: float

    def lines(self) -> list[str]:
        """The report: one line, then what changed."""
        much = f"{len(self.changed)} changes" if self.changed else "no verdict changes"
        return [f"{self.surroundings.name}: {self.hand_ins} hand-ins: {much} ({self.seconds:.0f} s)", *self.changed]


def run(
    lab: Lab, session: Session, first: Sequence[Record], others: Sequence[Surroundings] = OTHERS
) -> Iterator[Outcome]:
    """Grade every hand-in of the audit again: in this session, then in other surroundings.

    Args:
        first: the records of the audit, in the order of `specimens.of`.
        others: each costs a grader that is started anew.
    """
    hand_ins = list(specimens.of(lab))
    for surroundings in (AGAIN, *others):
        begun = time.monotonic()
        here = surroundings is AGAIN
        records = [session.grade(specimen.hand_in) for specimen in hand_ins] if here else elsewhere(lab, surroundings)
        changed = [
            f"{specimen.who}: {change}"
            for specimen, before, after in zip(hand_ins, first, records, strict=True)
            for change in changes(before, after, surroundings.watched, surroundings.looked_at(specimen))
        ]
        yield Outcome(surroundings, len(hand_ins), tuple(changed), time.monotonic() - begun)


def changes(before: Record, after: Record, watched: Sequence[str], check: str = "") -> Iterator[str]:
    """What two records of one hand-in say differently, in sentences; with `check`, on that one only."""
    yield from (f"fault of the grader: {fault}" for fault in after.faults if fault not in before.faults)
    for one, other in zip(before.results, after.results, strict=True):
        for what in watched if check in ("", one.check) else ():
            was, now = getattr(one, what), getattr(other, what)
            if was != now:
                yield f"{one.number}: {what} was {was!r}, is {now!r} ({other.gap})"


# In other surroundings -----------------------------------------------------------------------------------------------


def elsewhere(lab: Lab, surroundings: Surroundings) -> list[Record]:
    """The records of all hand-ins, from a grader that is started anew: a hash seed is settled when Python starts."""
    start = multiprocessing.get_context("spawn")
    with _environment(PYTHONHASHSEED=str(surroundings.hash_seed)), ProcessPoolExecutor(1, start) as pool:
        return pool.submit(_graded, lab.name, lab.root, surroundings).result()


def _graded(name: str, root: Path, surroundings: Surroundings) -> list[Record]:
    with Zygote(surroundings.hash_seed) as zygote:
        lab = labs.load(name, root)
        hand_ins = list(specimens.of(lab))
        if surroundings.threads > 1:
            files = {module: (place, text + TWO_THREADS) for module, (place, text) in lab.reference.files.items()}
            lab = replace(lab, reference=replace(lab.reference, files=files))
            hand_ins = [_with_two_threads(specimen, lab) for specimen in hand_ins]
        session = Shaken(lab, zygote, surroundings.noise)
        return [session.grade(specimen.hand_in) for specimen in hand_ins]


def _with_two_threads(specimen: Specimen, lab: Lab) -> Specimen:
    main = lab.file.main
    files = {**specimen.hand_in.files, main: specimen.hand_in.files[main] + TWO_THREADS.encode()}
    return replace(specimen, hand_in=replace(specimen.hand_in, files=files))


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Environment variables as a child shall inherit them; put back afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Shaken(Session):
    """Grades hand-ins whose outputs carry the rounding of another CPU."""

    def __init__(self, lab: Lab, zygote: Zygote, noise: float) -> None:
        super().__init__(lab, zygote)
        self.noise = noise

    def guest(self, program: Program) -> Live:
        """A guest for a hand-in; without noise an ordinary one."""
        plan = self.plan.fresh if self.plan else None
        return Trembling(self.zygote, program, plan, self.lab.file.limits.seconds_per_call, noise=self.noise)


class Trembling(Live):
    """A guest, every float of whose answers is a little off; what is merely handed back, such as inputs, is not."""

    def __init__(self, *args: Any, noise: float) -> None:
        super().__init__(*args)
        self.noise = noise
        self.computed: dict[bytes, Array] = {}  # what was told → what had been computed

    def ask(self, verb: str, **body: Any) -> Any:
        """The answer of the guest, a little off. What it told before and is handed now it gets as it was: one CPU, no noise."""
        if verb not in COMPUTED or not self.noise:
            return super().ask(verb, **body)
        answer = super().ask(verb, **{name: self._as_computed(value) for name, value in body.items()})
        key = COMPUTED[verb]
        return {**answer, key: self.shaken(answer[key])} if key else self.shaken(answer)

    def shaken(self, value: Any) -> Any:
        """A value as another CPU would round it: off by at most `noise` of its largest entry.

        As on every CPU, 0 stays 0 and no sign turns (softmax gives nothing negative, and 0 for what is masked), and the
        same comes out of the same.
        """
        if isinstance(value, dict):
            return {key: self.shaken(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.shaken(item) for item in value)
        if isinstance(value, float):
            return float(self.shaken(np.array(value, np.float32)))
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
            return value
        # In float64 the same number of units in the last place.
        noise = self.noise * float(np.finfo(value.dtype).eps) / float(np.finfo(np.float32).eps)
        off = noise * np.random.default_rng(zlib.crc32(value.tobytes())).uniform(-1, 1, value.shape)
        largest = np.abs(value[np.isfinite(value)]).max(initial=0)
        moved = value + off * largest
        told = np.where(moved * value > 0, moved, value * (1 + off)).astype(value.dtype)
        self.computed[told.tobytes()] = value
        return told

    def _as_computed(self, value: Any) -> Any:
        """In place, so that a tape of what was asked holds what the guest was given."""
        for key, item in _items(value):
            value[key] = self._as_computed(item)
        return self.computed.get(value.tobytes(), value) if isinstance(value, np.ndarray) else value


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []
