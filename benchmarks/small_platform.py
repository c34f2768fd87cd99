"""Grades a lab in the limits of a small platform, and measures what it takes: `small_platform.py [LAB] [MB] [CORES]`.

By default Lab 3 in Gradescope's 768 MB and half a core. The limits are a control group's (root is needed; version 1 or 2), so
they hold for the grader and all that it starts together; what others had read of the same files before is not charged to it.
Then what the sandbox costs: milliseconds of the processor that a guest needs to put on each of its layers.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from autograder.result import Record  # noqa: E402
from autograder.sandbox import jail  # noqa: E402
from benchmarks.groups import Group, group  # noqa: E402
from benchmarks.measure import proportional  # noqa: E402

ROUNDS = 40


def grade(lab: str, inside: Group) -> None:
    """Grade the lab's reference in the group, and say what it took."""
    with tempfile.TemporaryDirectory() as out:
        hand_in = ROOT / "reference" / lab
        command = [sys.executable, "-m", "autograder", "--course", str(ROOT), "grade", lab, str(hand_in), "--out", out]
        started = time.monotonic()
        grading = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=inside.enter)
        most = 0
        while grading.poll() is None:
            most = max(most, proportional([int(pid) for pid in inside.doors[0].read_text().split()]))
            time.sleep(0.2)
        seconds = time.monotonic() - started
        record = Record.model_validate_json((Path(out) / "record.json").read_bytes())
    peak = int(inside.peak.read_text()) >> 20
    print(f"{lab}: {record.score:g} of {record.max_score:g} points in {seconds:.1f} s (checks: {record.seconds:.1f} s)")
    print(f"peak memory: {most >> 20} MB of all processes, {peak} MB charged to the group")


def milliseconds(work: Callable[[int], object]) -> float:
    """What one thing takes of the processor, in a child of this process: the median of some."""
    found = []
    for _ in range(ROUNDS):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            pid = os.fork()
            if pid == 0:
                try:
                    started = time.thread_time()
                    work(theirs.fileno())
                    theirs.send(struct.pack("d", time.thread_time() - started))
                finally:
                    os.kill(os.getpid(), signal.SIGKILL)
            found.append(struct.unpack("d", ours.recv(8))[0] * 1000)
            os.waitpid(pid, 0)
    return statistics.median(found)


def layers() -> None:
    """What a guest's layers cost, one by one in their order, and all together."""
    plan = jail.plan_for()
    before = 0.0
    for count in range(1, len(jail.LAYERS) + 1):
        some = jail.LAYERS[:count]
        after = milliseconds(lambda fd, some=some: jail.enter(plan.fresh(), fd, some))  # type: ignore[misc]
        print(f"{some[-1]:14} {max(0.0, after - before):6.2f} ms")
        before = after
    print(f"{'all layers':14} {milliseconds(lambda fd: jail.enter(plan.fresh(), fd)):6.2f} ms a guest")


def main(lab: str = "block", megabytes: str = "768", cores: str = "0.5") -> None:
    """Grade, then measure the layers."""
    try:
        with group(int(megabytes), float(cores)) as inside:
            print(f"in {megabytes} MB and {cores} of a core:")
            grade(lab, inside)
    except OSError as error:
        print(f"no control group can be had here ({error}): run it as root, or in a container with these limits")
    layers()


if __name__ == "__main__":
    main(*sys.argv[1:])
