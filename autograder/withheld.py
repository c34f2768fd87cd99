"""Numbers that must not be handed out: what the reference answers, and is asked, in checks that students do not have.

Looked for as bytes of float32 and float64, and as printed decimals; RUN in a row are no coincidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autograder.check import AuthoringError, Check
from autograder.judge import Judge
from autograder.lab import Lab, local_part
from autograder.result import Status
from autograder.sandbox.frames import Array
from autograder.sandbox.proxy import Live
from autograder.sandbox.spawner import Launcher
from autograder.source import Source

RUN = 8  # consecutive values
DIFFERENT = 5  # of them: zeros, ones and counting tell nothing
DECIMALS = 3
ORACLE_SECONDS = 60.0

_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.\d*|\.\d+)(?:e[+-]?\d+)?(?![\w.])", re.IGNORECASE)


@dataclass(frozen=True)
class Values:
    """Every run of RUN consecutive values that is to stay, `(count, RUN)`, float64, sorted by the first one."""

    runs: Array

    @classmethod
    def of(cls, arrays: Iterable[Array], known: Iterable[Array] = ()) -> Values:
        """The runs of some arrays, without those that are handed out on purpose."""
        kept = _runs(arrays)
        given = {run.tobytes() for run in _runs(known)}
        rows = [run for run in kept if run.tobytes() not in given]
        found = np.unique(np.array(rows, np.float64).reshape(-1, RUN), axis=0)
        return cls(found)

    @cached_property
    def _forms(self) -> list[tuple[int, set[bytes], Array]]:
        """For float64 and float32: bytes of a value, the runs as bytes, and the single values as unsigned integers."""
        found = []
        for size in (8, 4):
            runs = self.runs.astype(f"<f{size}")
            found.append((size, {run.tobytes() for run in runs}, np.unique(runs.view(f"<u{size}"))))
        return found

    def in_bytes(self, data: bytes) -> list[int]:
        """The offsets at which runs begin in `data`, as float64 or as float32, at whatever alignment."""
        found = set()
        for size, whole, singles in self._forms:
            for shift in range(min(size, len(data) - RUN * size + 1)):
                known = np.isin(np.frombuffer(data, f"<u{size}", (len(data) - shift) // size, shift), singles)
                # Only where all of a run are values of ours are its bytes looked up.
                in_a_row = np.convolve(known, np.ones(RUN, np.int64), "valid") == RUN
                places = (shift + int(at) * size for at in np.flatnonzero(in_a_row))
                found |= {at for at in places if data[at : at + RUN * size] in whole}
        return sorted(found)

    @cached_property
    def _printable(self) -> Array:
        """The runs that can be told apart by what is printed of them: not those of values near 0."""
        rounded = np.sort(np.round(self.runs, DECIMALS), axis=1)
        return np.asarray(self.runs[(np.diff(rounded) != 0).sum(axis=1) + 1 >= DIFFERENT])

    def in_text(self, text: str) -> list[int]:
        """The places at which runs begin that are printed in `text` with DECIMALS decimals or more."""
        matches = list(_NUMBER.finditer(text))
        printed = np.array([float(match.group()) for match in matches])
        found = []
        for at in range(len(printed) - RUN + 1):
            window = printed[at : at + RUN]
            error = 0.6 * 10.0**-DECIMALS * np.maximum(1, np.abs(window))  # large numbers are printed with fewer
            low, high = np.searchsorted(self._printable[:, 0], (window[0] - error[0], window[0] + error[0]))
            if (np.abs(self._printable[low:high] - window) <= error).all(axis=1).any():
                found.append(matches[at].start())
        return found


def _runs(arrays: Iterable[Array]) -> list[Array]:
    found = []
    for array in arrays:
        flat = np.asarray(array, np.float64).ravel()
        if flat.size >= RUN:
            windows = np.lib.stride_tricks.sliding_window_view(flat, RUN)
            finite = windows[np.isfinite(windows).all(axis=1)]
            found += [run for run in finite if len(set(run.tolist())) >= DIFFERENT]
    return found


def values(lab: Lab, zygote: Launcher) -> Values:
    """The numbers of a lab's hidden checks, and of the draws by which visible ones are judged a second time.

    Raises:
        AuthoringError: the reference does not pass one of its checks, so that its numbers are not known.
    """
    return Values.of(_asked(lab, zygote), known=_asked(local_part(lab), zygote))


def _asked(lab: Lab, zygote: Launcher) -> list[Array]:
    """Every float array that passes between the checks of a lab and its reference, which stands for the student, too."""
    guest = _Listener(zygote, lab.reference, None, ORACLE_SECONDS)
    try:
        sources = {module: Source.read(text.encode(), place) for module, (place, text) in lab.reference.files.items()}
        judge = Judge(lab, sources, guest, guest)
        for check in lab.checks:
            for draw in lab.draws(check):
                _run(judge, check, draw)
    finally:
        guest.close()
    return guest.heard


def _run(judge: Judge, check: Check, draw: str) -> None:
    finding = judge.attempt(check, draw)
    if finding.status is not Status.PASSED:
        raise AuthoringError(f"{check.origin}: the reference does not pass {check.number}: {finding.gap}")


class _Listener(Live):
    """A guest that keeps the float arrays of every question and answer."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.heard: list[Array] = []

    def ask(self, verb: str, **body: Any) -> Any:
        answer = super().ask(verb, **body)
        self.heard += _floats([body, answer])
        return answer


def _floats(value: Any) -> Iterator[Array]:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield value
    elif isinstance(value, dict):
        yield from _floats(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _floats(item)
