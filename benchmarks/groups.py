"""A control group of our own, version 1 or 2: limits that hold for a process and all that it starts together. Needs root."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PERIOD = 100_000  # microseconds
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Group:
    """A control group with limits: how to enter it, and where its peak of memory stands."""

    doors: tuple[Path, ...]
    peak: Path

    def enter(self) -> None:
        """Put this process into it."""
        for door in self.doors:
            door.write_text(str(os.getpid()))


@contextlib.contextmanager
def group(megabytes: int, cores: float) -> Iterator[Group]:
    """A control group of ours, removed again. Raises OSError where none can be had."""
    name = f"autograder-{os.getpid()}"
    bytes_, quota = str(megabytes << 20), str(int(cores * PERIOD))
    if (GROUPS / "memory").is_dir():
        memory, cpu = GROUPS / "memory" / name, GROUPS / "cpu" / name
        folders = [memory, cpu]
        settings = {
            memory / "memory.limit_in_bytes": bytes_,
            cpu / "cpu.cfs_period_us": str(PERIOD),
            cpu / "cpu.cfs_quota_us": quota,
        }
        made = Group((memory / "cgroup.procs", cpu / "cgroup.procs"), memory / "memory.max_usage_in_bytes")
    else:
        folders = [GROUPS / name]
        settings = {folders[0] / "memory.max": bytes_, folders[0] / "cpu.max": f"{quota} {PERIOD}"}
        made = Group((folders[0] / "cgroup.procs",), folders[0] / "memory.peak")
    try:
        for folder in folders:
            folder.mkdir()
        for path, value in settings.items():
            path.write_text(value)
        yield made
    finally:
        for folder in filter(Path.exists, folders):
            folder.rmdir()
