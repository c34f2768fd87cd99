"""One command measured whole: wall time, time of the processor and peak memory of all processes that it starts."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

PAUSE = 0.02  # seconds between two looks at the memory; a look takes the kernel some milliseconds
# One thread for every tool: with torch's own choice, a busy neighbour makes any of them twenty times slower.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Command:
    """What to run, and where."""

    argv: Sequence[str | Path]
    cwd: Path
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Run:
    """What a command took: seconds, and bytes where memory was looked at. `said` is all that it printed."""

    wall: float
    cpu: float
    peak: int
    status: int
    said: str


def run(command: Command, memory: bool = False, limit: float = 900.0) -> Run:
    """Run a command to its end. Where it takes more than `limit` seconds, it is killed with all that it started.

    `cpu` counts every process that was waited for, as a well-behaved tool does with all of its own.
    """
    environment = {**os.environ, **ONE_THREAD, **(command.environment or {})}
    with tempfile.TemporaryFile() as said:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.perf_counter()
        process = psutil.Popen(
            [str(part) for part in command.argv],
            cwd=command.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            peak = _watched(process, begun + limit) if memory else 0
            status = process.wait(max(0.0, begun + limit - time.perf_counter()))
        except psutil.TimeoutExpired:
            _end(process)
            status = -signal.SIGKILL
        wall = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        said.seek(0)
        text = said.read().decode(errors="replace")
    return Run(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak, status, text)


def _watched(process: psutil.Popen, ends: float) -> int:
    """The largest memory that was seen of a process and all below it, until it has ended."""
    peak = 0
    while process.poll() is None and time.perf_counter() < ends:
        with contextlib.suppress(psutil.NoSuchProcess):
            peak = max(peak, proportional([process.pid, *(child.pid for child in process.children(recursive=True))]))
        time.sleep(PAUSE)
    return peak


def _end(process: psutil.Popen) -> None:
    for one in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


def proportional(pids: Sequence[int]) -> int:
    """Bytes of memory of some processes together, each shared page counted once. Others' processes need root."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
    return total


def median(values: Sequence[float]) -> float:
    """The median, rounded to what was measured."""
    return round(statistics.median(values), 4)
