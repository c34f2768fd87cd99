"""Where the time of one more hand-in goes, warm: `python -m benchmarks.profile [LAB] [ROUNDS]`.

Milliseconds of the processor, medians, so that a busy machine does little harm: of the grader, of the process that forks, and of
the guest (as root only: another's figures are its own affair). Then the guest's questions once more in a process that was
not forked: what is missing there is the price of the fork, a first touch of each page of torch.
"""

from __future__ import annotations

import cProfile
import json
import pickle
import pstats
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from autograder import lab as labs
from autograder.sandbox import frames
from autograder.sandbox.launcher import Zygote, environment
from autograder.sandbox.proxy import Live, Program
from autograder.session import Session
from autograder.specimens import handed_in, with_mistake
from benchmarks import ROOT
from benchmarks.measure import median

SHOWN = 12
ROUNDS = 20
WARM = "all of it, on the clock"
FRAMES = "read and write of frames"
FLOOR = "the floor: its calls alone, in one warm process"
Spent = dict[str, list[float]]


def used(pid: int) -> tuple[float, int]:
    """Milliseconds of the processor and page faults of a process until now."""
    spent = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return spent / 1e6, int(fields[7])


class Watched(Live):
    """A guest whose use of the processor is read at each turn."""

    spent: Spent
    questions: list[bytes]

    def _exchange(self, verb: str, body: dict[str, Any], begin: dict[str, Any] | None = None) -> Any:
        assert self.process is not None
        asked = {"id": self._number + 1, "verb": verb, "limit": 5.0, **body}
        self.questions.append(frames.pack({**asked, "begin": begin} if begin else asked))
        if verb != "load":
            return super()._exchange(verb, body, begin)
        before, faults = used(self.process.pid)
        self.spent["guest: forked and jailed"].append(before)
        self.spent["guest: page faults until then"].append(faults)
        answer = super()._exchange(verb, body, begin)
        self.at_load = used(self.process.pid)
        self.spent["guest: the file loaded"].append(self.at_load[0] - before)
        return answer

    def close(self, patient: bool = False) -> str:
        if self.process is not None and not patient:
            spent, faults = used(self.process.pid)
            self.spent["guest: its answers"].append(spent - self.at_load[0])
            self.spent["guest: page faults in all"].append(faults)
        return super().close(patient)


class WatchedSession(Session):
    """A session whose guests are watched."""

    spent: Spent
    questions: list[bytes]

    def guest(self, program: Program) -> Live:
        made = Watched(
            self.zygote, program, self.plan.fresh if self.plan else None, self.lab.file.limits.seconds_per_call
        )
        self.questions = made.questions = []
        made.spent = self.spent
        return made


def measured(lab: str, rounds: int) -> tuple[Spent, list[bytes], pstats.Stats]:
    """The parts of some gradings of the lab's reference, what the guest was asked, and a profile of the grader."""
    spent: Spent = defaultdict(list)
    with Zygote() as zygote:
        loaded = labs.load(lab, ROOT)
        session = WatchedSession(loaded, zygote)
        with session:
            session.spent = defaultdict(list)
            submission = handed_in("reference", with_mistake(loaded), loaded)
            session.grade(submission)
            session.spent = spent
            for _ in range(rounds):
                ours, forker, begun = time.process_time(), used(zygote.process.pid), time.perf_counter()
                assert session.grade(submission).score
                spent[WARM].append((time.perf_counter() - begun) * 1000)
                spent["grader"].append((time.process_time() - ours) * 1000)
                spent["zygote: forks, ends, looks for strays"].append(used(zygote.process.pid)[0] - forker[0])
            profile = cProfile.Profile()
            profile.runcall(session.grade, submission)
            return spent, session.questions, pstats.Stats(profile)


def by_file(stats: pstats.Stats) -> list[tuple[str, float]]:
    """The share of each file in the grader's own time, in hundredths."""
    own: dict[str, float] = defaultdict(float)
    for (file, _, function), (_, _, seconds, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        if "socket" in function or "select" in function:
            continue  # waits for the guest
        own["/".join(Path(file).parts[-2:]) if file != "~" else f"built in: {function[:50]}"] += seconds
    total = sum(own.values())
    return sorted(((name, 100 * seconds / total) for name, seconds in own.items()), key=lambda item: -item[1])[:SHOWN]


def replay(questions: list[bytes], rounds: int) -> Spent:
    """The same questions, answered by a guest's code in this process. It holds torch from here on."""
    import torch

    from autograder.sandbox import guest, zygote

    torch.set_num_threads(1)
    zygote.warm()
    spent: Spent = defaultdict(list)
    for _ in range(rounds):
        host: Any = guest.Guest(None)  # type: ignore[arg-type]  # nothing is sent
        found: dict[str, float] = defaultdict(float)
        out = sys.stdout, sys.stderr
        for packed in questions:
            begun = time.thread_time()
            request = frames.unpack(packed)
            read = time.thread_time()
            answer = host.answer(request)
            answered = time.thread_time()
            frames.pack(answer)
            found[FRAMES] += read - begun + time.thread_time() - answered
            found["the file loaded" if request["verb"] == "load" else f"answers: {request['verb']}"] += answered - read
        sys.stdout, sys.stderr = out
        for name, seconds in found.items():
            spent[f"not forked: {name}"].append(seconds * 1000)
    return spent


def figures(lab: str, rounds: int) -> tuple[dict[str, float], pstats.Stats]:
    """Medians in milliseconds, the floor among them, and a profile of the grader."""
    spent, questions, stats = measured(lab, rounds)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pickle.dumps(questions))
        again = [sys.executable, "-m", "benchmarks.profile", "--replay", file.name]
        done = subprocess.run(again, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, check=True)
    found = {name: median(values) for name, values in {**spent, **pickle.loads(done.stdout)}.items()}
    found["questions"] = len(questions)
    found[FLOOR] = sum(value for name, value in found.items() if name.startswith("not forked") and FRAMES not in name)
    return found, stats


def main(lab: str = "attention", rounds: str = str(ROUNDS)) -> None:
    """Measure and print; with `--figures LAB`, as JSON."""
    if lab == "--replay":
        questions = pickle.loads(Path(rounds).read_bytes())
        pickle.dump(dict(replay(questions, 30)), sys.stdout.buffer)
        return
    if lab == "--figures":
        print(json.dumps(figures(rounds, ROUNDS)[0]))
        return
    found, stats = figures(lab, int(rounds))
    print(f"{lab}, its reference, warm: {rounds} gradings; medians, ms of the processor unless it says otherwise")
    for name, value in found.items():
        print(f"  {name:45} {value:9.2f}")
    print("the grader's own time by file, in hundredths (cProfile makes small functions dearer than they are)")
    for name, share in by_file(stats):
        print(f"  {name:60} {share:5.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
