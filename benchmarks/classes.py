"""Whole classes of one lab, generated, with 1 to 3,000 hand-ins: `python -m benchmarks.classes [LAB] [SIZE…]`.

Time for each hand-in, memory and its growth, and output, as `grade-all` takes them; 100 hand-ins also with one worker. One
hand-in in twenty is broken, some run into the limit of five seconds for a call: they are in every size alike. Each row of
grades.csv is held against the truth about its hand-in.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from autograder import lab as labs
from autograder.classroom import generator
from autograder.result import points
from benchmarks import ROOT
from benchmarks.measure import Command, median, proportional, run

SIZES = (10, 100, 1000, 3000)
BESIDE = 100  # this size with one worker, too
PAUSE = 1.0  # seconds between two looks at the memory


@dataclass
class Watch:
    """Looks at a class that is being graded: how many hand-ins are done, and the memory of all processes."""

    out: Path
    looks: list[tuple[int, int]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Until it is over."""
        while not self.over.wait(PAUSE):
            below = psutil.Process().children(recursive=True)
            memory = proportional([process.pid for process in below])
            done = sum(1 for _ in (self.out / "records").glob("*"))
            self.looks.append((done, memory))

    def quarter(self, last: bool) -> str:
        """Mebibytes in the first or last quarter of the hand-ins, as a median; empty where a class was over too soon."""
        most = self.looks[-1][0]
        inside = [memory for n, memory in self.looks if (most * 3 / 4 <= n if last else 0 < n <= most / 4)]
        return f"{median(inside) / (1 << 20):.0f}" if inside else ""


def measured(lab: str, size: int, workers: int, folder: Path) -> str:
    """One row of the table."""
    hand_ins = generator.write(lab, ROOT, folder / "class", size, None, seed=0, form="gradescope")
    watch = Watch(folder / "out")
    thread = threading.Thread(target=watch.look)
    thread.start()
    command = [sys.executable, "-m", "autograder", "grade-all", lab, hand_ins, "--out", watch.out]
    ended = run(Command([*command, "--workers", str(workers)], ROOT), limit=7200)
    watch.over.set()
    thread.join()
    assert ended.status == 0, ended.said
    rows, wrong = held_against_the_truth(lab, folder)
    written = sum(path.stat().st_size for path in watch.out.rglob("*") if path.is_file())
    cells = [
        size,
        workers,
        f"{ended.wall:.0f} s",
        f"{ended.wall / size:.3f} s",
        watch.quarter(last=False),
        watch.quarter(last=True),
        f"{written / size / 1024:.0f} KiB",
        f"{(watch.out / 'class.html').stat().st_size / (1 << 20):.1f} MiB",
        f"{rows - wrong} of {rows}",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def held_against_the_truth(lab: str, folder: Path) -> tuple[int, int]:
    """How many rows there are, and how many say otherwise than the truth: complete, wrong somewhere, untouched."""
    loaded = labs.load(lab, ROOT)
    most = points([check.points for check in loaded.checks])
    with (folder / "out" / "grades.csv").open(newline="", encoding="utf-8-sig") as file:
        scores = {row["hand-in"]: row["points"] for row in csv.DictReader(file)}
    with (folder / "class" / "truth.csv").open(newline="", encoding="utf-8-sig") as file:
        truth = list(csv.DictReader(file))
    wrong = 0
    for row in truth:
        said = scores[row["hand-in"]]
        score = float(said) if said else -1.0
        if row["kind"] == "complete":
            wrong += score != most
        elif row["kind"] == "untouched":
            wrong += score != 0
        elif row["kind"] in ("mistake", "two mistakes"):
            wrong += not 0 <= score < most
    return len(truth), wrong


def main(lab: str = "attention", *sizes: str) -> None:
    """Measure and print, a row as soon as it is there."""
    print("| hand-ins | workers | whole | each | MiB, first quarter | MiB, last quarter | output, each | class.html "
          "| rows as planted |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for size in map(int, sizes or SIZES):
        for workers in (1, 2) if size == BESIDE else (2,):
            with tempfile.TemporaryDirectory() as folder:
                print(measured(lab, size, workers, Path(folder)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
