"""From a save to its answer in watch mode, beside a cold pytest on the same visible checks. Run: python benchmarks/watch.py

Both are measured in one run, in turn, on the student's zip of Lab 1, with a hand-in whose first open item is 1.4.1. The answer
is the whole screen: the bar, the item, its cause and line.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autograder import bundle  # noqa: E402
from autograder import lab as labs  # noqa: E402

ROUNDS = 5
EXAMPLES = ROOT / "reference" / "attention" / "examples"
# Two wrong hand-ins, and what is read only in the answer to each.
TURNS = (("no_scale", "the scores are not scaled"), ("softmax_over_readers", "softmax runs over the readers"))
ENDS = "Ctrl-C to stop"


def main() -> None:
    """Print the two medians and their ratio."""
    watched, cold = rounds(ROUNDS)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"save to answer, watch mode:     {said(watched)}")
    print(f"cold pytest, the same checks:   {said(cold)}")
    print(f"ratio of the medians:           {statistics.median(cold) / statistics.median(watched):.0f}")


def rounds(times: int) -> tuple[list[float], list[float]]:
    """Seconds from a save to its answer, and of a cold pytest on the same, in a student's folder of Lab 1."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "lab.zip").write_bytes(bundle.zipped(bundle.student_files(labs.load("attention", ROOT))))
        with zipfile.ZipFile(folder / "lab.zip") as archive:
            archive.extractall(folder)
        save(folder, TURNS[0][0])
        return measure(folder, times)


def measure(folder: Path, times: int) -> tuple[list[float], list[float]]:
    """Seconds of some saves in watch mode, and of as many runs of pytest, in turn."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "check.py", "--watch"]
    watched, cold = [], []
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as watch:
        answer(watch, TURNS[0][1])
        for turn in range(times):
            time.sleep(1.0)  # what a student needs at least between two saves
            name, told = TURNS[(turn + 1) % 2]
            begun = time.perf_counter()
            save(folder, name)
            answer(watch, told)
            watched.append(time.perf_counter() - begun)
            time.sleep(1.0)
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=folder, env=environment, capture_output=True)
            cold.append(time.perf_counter() - begun)
        watch.terminate()
    return watched, cold


def save(folder: Path, name: str) -> None:
    """Put an example in the student's file."""
    shutil.copy(EXAMPLES / name / "attention.py", folder)


def answer(watch: subprocess.Popen[str], told: str) -> None:
    """Read on until a whole screen was printed that tells this."""
    assert watch.stdout is not None
    screen = ""
    while not (ENDS in screen and told in screen):
        screen = watch.stdout.readline() if ENDS in screen else screen + watch.stdout.readline()


def said(seconds: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(seconds):.3f} s (of {len(seconds)}: {min(seconds):.3f} to {max(seconds):.3f})"


if __name__ == "__main__":
    main()
