"""One command in a root file system of its own, as in a container: namespaces, Docker's capabilities and calls, limits.

The root is a stack of folders, of which only the topmost is written to; so a fresh one costs nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.groups import Group, group
from benchmarks.measure import proportional
from harness import ROOT, CannotRun

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
NAMESPACES = ("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
LOOK = 0.2  # seconds between two looks at the memory


@dataclass(frozen=True)
class Limits:
    """What a command may take. Gradescope's smallest container, and its default of ten minutes."""

    megabytes: int = 768
    cores: float = 0.5
    seconds: float = 600.0


@dataclass(frozen=True)
class Spec:
    """What the first process of a container is told."""

    layers: tuple[str, ...]  # topmost first; read only
    upper: str
    work: str
    root: str
    command: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    printed: str  # where on this machine the command's output goes; may lie below `root`
    shared: tuple[str, ...] = ()
    seconds: float = 0.0  # 0: no limit
    results: str = ""  # a file inside, read in the moment when the command's own process has ended
    points: float = 0.0  # the limit is also reached as soon as that file tells of so many; 0: it is not
    doors: tuple[str, ...] = ()
    landlock: bool = True  # whether the kernel seems to have it


@dataclass(frozen=True)
class Ended:
    """How it went."""

    status: int  # negative: the signal that ended it
    seconds: float
    limit: bool  # whether it was ended by the limit
    left: tuple[str, ...]  # processes that were still there some seconds later
    results: str | None
    peak: int = 0  # bytes


@dataclass(frozen=True)
class Container:
    """A root to run in: what it is made of, and the folder for what is written."""

    layers: tuple[Path, ...]
    folder: Path

    @property
    def upper(self) -> Path:
        """What is written, and what is there from the start beside the layers."""
        return self.folder / "upper"

    @property
    def root(self) -> Path:
        """Where the whole root is seen, by the processes in it only."""
        return self.folder / "root"

    def clear(self) -> None:
        """Begin anew."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for part in (self.upper, self.folder / "work", self.root):
            part.mkdir(parents=True)
            part.chmod(0o755)  # every user inside enters through it

    def run(
        self,
        command: tuple[str, ...],
        printed: Path,
        limits: Limits | None = None,
        environment: dict[str, str] | None = None,
        shared: tuple[Path, ...] = (),
        results: str = "",
        points: float = 0.0,
        folder: str = "/autograder",
        landlock: bool = True,
    ) -> Ended:
        """Run a command as root. Without limits it is an image that is built. Raises CannotRun."""
        spec = Spec(
            layers=tuple(str(layer) for layer in self.layers),
            upper=str(self.upper),
            work=str(self.folder / "work"),
            root=str(self.root),
            command=command,
            folder=folder,
            environment={**ENVIRONMENT, **(environment or {})},
            printed=str(printed),
            shared=tuple(str(path) for path in shared),
            seconds=limits.seconds if limits else 0.0,
            results=results,
            points=points,
            landlock=landlock,
        )
        limited: AbstractContextManager[Group | None] = contextlib.nullcontext()
        if limits:
            limited = group(limits.megabytes, limits.cores)
        try:
            with limited as inside:
                return _start(spec, inside)
        except OSError as error:
            raise CannotRun(f"no control group can be had here, so no limit of memory: {error}") from error


def _start(spec: Spec, inside: Group | None) -> Ended:
    told = {**asdict(spec), "doors": [str(door) for door in inside.doors] if inside else []}
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests'}"
    process = subprocess.Popen(
        ["unshare", *NAMESPACES, sys.executable, "-m", "harness.inside"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with _watched(inside) as peaks:
        said, _ = process.communicate(json.dumps(told))
    if process.returncode or not said:
        raise CannotRun(f"a container could not be entered in {Path(spec.root).parent}: see above")
    found = json.loads(said)
    return Ended(**{**found, "left": tuple(found["left"])}, peak=max(peaks))


@contextlib.contextmanager
def _watched(inside: Group | None) -> Iterator[list[int]]:
    """The memory of all processes in a group, looked at now and then while this lasts."""
    peaks, over = [0], threading.Event()

    def look() -> None:
        while inside and not over.wait(LOOK):
            peaks.append(proportional([int(pid) for pid in inside.doors[0].read_text().split()]))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield peaks
    finally:
        over.set()
        looking.join()
