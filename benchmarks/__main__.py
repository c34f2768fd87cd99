"""Measure this framework beside the peers, all in one run: `python -m benchmarks [--quick]`, or `make bench`.

Tools take turns, hand-in by hand-in, so that what else the machine does meets all of them alike. Each is asked for its points:
a figure counts only where the tool found what the hand-in is worth.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import HERE, ROOT, environments, handins, table, watch
from benchmarks.measure import Command, Run, run
from benchmarks.tools import PEERS, Classes, Nbgrader, Ours, Tool, framework

SCORELESS = (OSError, ValueError, LookupError)
FIGURES = HERE / "results" / "figures.json"
PAGE = ROOT / "docs" / "benchmarks.md"
QUICK_OUT = ROOT / "out" / "benchmarks"


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    looked: int  # rounds of one hand-in in which memory is looked at, which takes time
    few: int  # rounds of one hand-in that are timed: a class of so many, for a tool that grades one by one
    many: int  # hand-ins of a large class
    repeats: int  # classes of ours, and commands that grade nothing
    warm: int  # runs of the arithmetic in one process


WHOLE = Extent(looked=3, few=20, many=100, repeats=3, warm=200)
QUICK = Extent(looked=1, few=2, many=4, repeats=1, warm=20)


@dataclass
class Bench:
    """All that is measured, as it will be kept."""

    extent: Extent
    work: Path
    ours: Ours
    peers: list[Tool] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Set up every tool; one that cannot be had is kept with the reason."""
        self.import_torch = Command([environments.python_with_torch(), "-c", "import torch"], self.work)
        self.ours.prepare()
        for kind in PEERS:
            peer = kind(self.work)
            try:
                peer.prepare()
            except environments.CannotInstall as error:
                self.missing[peer.name] = str(error)
                print(f"{peer.name} is left out: {error}", flush=True)
            else:
                self.peers.append(peer)
        for tool in [self.ours, *self.peers]:  # once for nothing: what is compiled or read for the first time
            self.one(tool, 0)

    def everything(self) -> dict[str, Any]:
        """Measure in the order in which the table has it."""
        self.figures["extent"] = vars(self.extent)
        self.figures["machine"] = machine()
        self.figures["missing"] = self.missing
        self.figures["one"] = self.one_by_one()
        self.figures["class"] = self.classes()
        self.figures["floor_seconds"] = self.floor()
        self.figures["lab1"] = self.lab1()
        self.figures["commands"] = self.commands()
        self.figures["watch"] = dict(zip(("watch", "pytest"), watch.rounds(self.extent.repeats)))
        self.figures["load_at_end"] = os.getloadavg()
        return self.figures

    def one(self, tool: Tool, student: int, memory: bool = False) -> dict[str, Any]:
        """One hand-in, graded by one command."""
        tool.place(student)
        return {**taken(run(tool.command(), memory)), "student": student, "points": points_of(tool)}

    def one_by_one(self) -> dict[str, list[dict[str, Any]]]:
        """Rounds in which every tool grades one hand-in, after `import torch` alone: cold, and as a class one by one."""
        tools = [self.ours, *self.peers]
        found: dict[str, list[dict[str, Any]]] = {"import torch": [], **{tool.name: [] for tool in tools}}
        for student in range(self.extent.many):
            last = student >= self.extent.few
            if not last:
                memory = student < self.extent.looked
                found["import torch"].append(taken(run(self.import_torch, memory)))
            for tool in tools:
                if not last or (tool.hundred and not isinstance(tool, Classes)):
                    found[tool.name].append(self.one(tool, student, memory=student < self.extent.looked))
            tell(f"one hand-in, round {student + 1} of {self.extent.many}")
        return found

    def classes(self) -> list[dict[str, Any]]:
        """Classes of the tools that have a command for one: ours with one and two workers, and nbgrader."""
        one, two = Ours(self.ours.work / "one", workers=1), Ours(self.ours.work / "two", workers=2)
        found = []
        for students in (self.extent.few, self.extent.many):
            for repeat in range(self.extent.repeats + 1):
                for tool in (one, two, *self.peers):
                    if isinstance(tool, Ours) or (isinstance(tool, Nbgrader) and repeat == 0):
                        found.append(self.a_class(tool, students, memory=repeat == self.extent.repeats))
        return found

    def a_class(self, tool: Ours | Nbgrader, students: int, memory: bool) -> dict[str, Any]:
        """One class, graded with one command."""
        tool.place_class(students)
        taken_here = taken(run(tool.class_command(), memory))
        try:
            right = tool.class_scores() == [handins.points(student) for student in range(students)]
        except SCORELESS:
            right = False
        workers = tool.workers if isinstance(tool, Ours) else 1
        tell(f"a class of {students}, {tool.name}, workers: {workers}")
        return {**taken_here, "tool": tool.name, "workers": workers, "students": students, "right": right}

    def floor(self) -> float:
        """Seconds of the arithmetic alone: twenty checks in one warm process, without isolation and report."""
        warm = Command(
            [environments.python_with_torch(), handins.NATIVE, handins.SOLUTION, str(self.extent.warm)], self.work
        )
        return float(run(warm).said)

    def lab1(self) -> dict[str, float]:
        """Milliseconds of one more hand-in of Lab 1, whole, and of its parts."""
        done = run(Command([sys.executable, "-m", "benchmarks.profile", "--figures", "attention"], ROOT))
        assert done.status == 0, done.said
        tell("Lab 1, one more hand-in")
        return {name: float(value) for name, value in json.loads(done.said).items()}

    def commands(self) -> dict[str, list[float]]:
        """Seconds of commands that grade no hand-in, on a copy of the course."""
        course = self.work / "course"
        for name in ("assignments", "reference"):
            shutil.copytree(ROOT / name, course / name)
        for name in ("course.toml", "requirements.txt"):
            shutil.copy(ROOT / name, course)
        words = (["--help"], ["grade", "--help"], ["starter"], ["starter", "attention"], ["zips", "attention"])
        found: dict[str, list[float]] = {" ".join(some): [] for some in words}
        for _ in range(2 + self.extent.repeats):
            for some in words:
                done = run(framework(course, course, *some))
                assert done.status == 0, done.said
                found[" ".join(some)].append(done.wall)
        return found


def taken(done: Run) -> dict[str, Any]:
    """The figures of a run that are kept."""
    return {"wall": round(done.wall, 4), "cpu": round(done.cpu, 4), "peak": done.peak}


def points_of(tool: Tool) -> float | None:
    """What the tool gave; None where it gave nothing."""
    try:
        return tool.score()
    except SCORELESS:
        return None


def machine() -> dict[str, Any]:
    """What it was measured on, and when."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / (1 << 30)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": environments.TORCH.partition("==")[2],
        "versions": {kind.name: kind.requirements[0].partition("==")[2] for kind in PEERS},
        "date": time.strftime("%Y-%m-%d"),
        "load_at_start": os.getloadavg(),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def tell(what: str) -> None:
    """How far it has come."""
    print(f"{time.strftime('%H:%M:%S')}  {what}", flush=True)


def main() -> None:
    """Measure, keep the figures, and write the table into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help=f"a small run; writes to {QUICK_OUT.relative_to(ROOT)} instead"
    )
    parser.add_argument(
        "--table", action="store_true", help="only write the table again, from the figures of the last run"
    )
    options = parser.parse_args()
    figures_at = QUICK_OUT / "figures.json" if options.quick else FIGURES
    if not options.table:
        with tempfile.TemporaryDirectory() as work:
            bench = Bench(QUICK if options.quick else WHOLE, Path(work), Ours(Path(work)))
            bench.prepare()
            found = bench.everything()
        figures_at.parent.mkdir(parents=True, exist_ok=True)
        figures_at.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    text = table.of(json.loads(figures_at.read_text(encoding="utf-8")))
    if not options.quick:
        table.put(text, PAGE)
    print(text)


if __name__ == "__main__":
    main()
