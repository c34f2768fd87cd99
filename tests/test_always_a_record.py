"""Whatever ends first, the files are whole, hold what was earned so far, and no process of ours is left."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import launch
import pytest
from conftest import GRADED_AGAIN, ROOT, result_of

from autograder import course
from autograder import lab as labs
from autograder.reports import files, gradescope
from autograder.reports.gradescope import Results
from autograder.result import Record, Status
from autograder.sandbox.jail import JailPlan, effective_capabilities, plan_for
from autograder.sandbox.landlock import first_closed, interpreter_paths
from autograder.sandbox.launcher import Process, Zygote
from autograder.sandbox.proxy import Live, Program
from autograder.session import Session
from autograder.submission import collect

HAND_IN = ROOT / "reference" / "attention" / "examples" / "softmax_over_readers"
REFERENCE = ROOT / "reference" / "attention" / "attention.py"
EARNED = 64  # by the hand-in, when it is graded to its end
SETTINGS = course.settings(ROOT)
ALL = os.environ.get("ATTACKS") == "all"
WAIT = 60.0  # for what takes milliseconds: the machine may be busy

# Kills its own process when it is about to do something the n-th time: to put a file in its place, to import a module.
KILLER = """
import os, signal, sys
event, word, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def watch(name, arguments):
    global count
    if name == event and any(word in str(argument) for argument in arguments[:2]):
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)

if event:
    sys.addaudithook(watch)
from autograder.cli import main
sys.exit(main(sys.argv[4:]))
"""
# Adopts whatever its command leaves behind, and waits for the end of it.
SUPERVISOR = """
import ctypes, json, os, subprocess, sys, time
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
done = subprocess.run(sys.argv[2:], capture_output=True, text=True)
ends = time.monotonic() + float(sys.argv[1])
left = [0]
while left and time.monotonic() < ends:
    time.sleep(0.02)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    left = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(json.dumps({"status": done.returncode, "out": done.stdout, "err": done.stderr, "left": left}))
"""


class Done:
    """How a command ended."""

    def __init__(self, status: int, out: str, err: str, left: list[str]) -> None:
        self.status, self.out, self.err, self.left = status, out, err, left


def command(
    *arguments: str | Path, kill_at: tuple[str, str, int] = ("", "", 0), first: Callable[[], None] | None = None
) -> Done:
    """`python -m autograder …`, killed at an event where one is given; `first` is done in the process before."""
    event, word, count = kill_at
    driver = [sys.executable, "-B", "-c", KILLER, event, word, str(count), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SUPERVISOR, str(WAIT), *driver],
        capture_output=True,
        text=True,
        env=environment,
        preexec_fn=first,
        cwd="/",
    )
    assert done.stdout, done.stderr
    return Done(**json.loads(done.stdout))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter."""
    path = Path(tempfile.mkdtemp(prefix="record-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def platform(place: Path) -> Path:
    """The platform's folders, with a hand-in."""
    (place / "submission").mkdir()
    shutil.copy(HAND_IN / "attention.py", place / "submission")
    return place / "results"


def found(out: Path) -> tuple[Record | None, Results | None]:
    """The two files, each whole or not there."""
    record, results = out / "record.json", out / "results.json"
    return (
        Record.model_validate_json(record.read_bytes()) if record.exists() else None,
        Results.model_validate_json(results.read_bytes()) if results.exists() else None,
    )


def finished(record: Record) -> int:
    """How many checks have had their turn."""
    return sum(result.status is not Status.NOT_RUN for result in record.results)


# --- each step of writing, without the rest ---


@pytest.fixture(scope="module")
def records(session: Callable[[str], Session]) -> list[Record]:
    """What is written in the course of one grading."""
    kept: list[Record] = []
    warm = session("attention")
    warm.grade(collect(HAND_IN, warm.lab.wanted), kept.append)
    return kept


def test_the_record_grows_by_one_check_at_a_time(records: list[Record]) -> None:
    checks = len(records[0].results)
    assert [finished(record) for record in records] == [*range(checks + 1), checks]
    assert [record.complete for record in records] == [False] * (checks + 1) + [True]
    earned = [record.score for record in records]
    assert earned == sorted(earned)
    assert (earned[0], earned[-1]) == (0, EARNED)


STEPS = ("open", "os.rename")  # each file is opened aside, then put in its place
FILES = ("record.json", "results.json", "feedback.html")


def written_in_turn(records: int) -> list[tuple[str, int]]:
    """Which file is written of which record, one after the other: the page of the first and the last one only."""
    return [(name, at) for at in range(records) for name in FILES if name != FILES[2] or at in (0, records - 1)]


@pytest.mark.parametrize("event", STEPS)
def test_killed_at_every_step_of_writing_the_files_are_whole(records: list[Record], event: str, place: Path) -> None:
    some = records if ALL else [*records[:3], records[20], *records[-2:]]
    states = [gradescope.text(gradescope.results(record, SETTINGS)) for record in some]
    turns = written_in_turn(len(some))
    for step in range(1, len(turns) + 1):
        out = place / f"{event}-{step}"
        killed = kill_while_writing(some, out, event, step)
        assert killed
        record, results, page = (path.read_text() if path.exists() else None for path in map(out.joinpath, FILES))
        last = dict(turns[: step - 1])  # of each file, the record that it was last written of
        assert record == (some[last[FILES[0]]].model_dump_json(indent=1) if FILES[0] in last else None)
        assert results == (states[last[FILES[1]]] if FILES[1] in last else None)
        assert (page or "").rstrip().endswith("</html>") == (FILES[2] in last)


def kill_while_writing(some: list[Record], out: Path, event: str, step: int) -> bool:
    """Write records in a process that ends itself when it is about to take a step; whether that came to pass."""
    pid = os.fork()
    if pid == 0:
        left = step

        def watch(name: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if name == event and ".part" in str(arguments[0]):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(watch)
            write = files.writer(out, SETTINGS)
            for record in some:
                write(record)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


# --- the grader, killed ---

TURNS = written_in_turn(1 + len(labs.load("attention", ROOT).checks) + 1)
LAST = len(TURNS)
MOMENTS = range(1, LAST + 1) if ALL else (1, 2, 3, LAST // 2, LAST)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_grader_that_is_killed_leaves_what_was_earned_and_no_process(moment: int, place: Path) -> None:
    done = command(
        "--course", ROOT, "grade", "attention", HAND_IN, "--out", place, kill_at=("os.rename", ".part", moment)
    )
    assert (done.status, done.left) == (-signal.SIGKILL, [])
    record, results = found(place)
    last = dict(TURNS[: moment - 1])
    assert (record is None, results is None) == (FILES[0] not in last, FILES[1] not in last)
    checks = TURNS[-1][1] - 1
    if record:
        assert finished(record) == min(last[FILES[0]], checks)
        assert record.complete == (last[FILES[0]] > checks)
    if results:
        assert len(results.tests) == checks
        assert ("The grading is not finished." in results.output) == (last[FILES[1]] <= checks)


@pytest.mark.parametrize("moment", [1, 3, LAST // 2])
def test_a_killed_grading_on_the_platform_leaves_valid_results(moment: int, place: Path) -> None:
    out = platform(place)
    arguments = ("--course", ROOT, "gradescope", "attention", "--root", place)
    done = command(*arguments, kill_at=("os.rename", ".part", moment))
    assert (done.status, done.left) == (-signal.SIGKILL, [])
    record, results = found(out)
    last = dict(TURNS[: moment - 1])
    assert (record is None, results is None) == (FILES[0] not in last, FILES[1] not in last)
    if record and results:
        assert results.score == sum(test.score for test in results.tests)
        assert results.score <= record.score <= EARNED


@pytest.mark.parametrize("module", ["subprocess", "autograder.session", "autograder.reports.gradescope"])
def test_a_grader_that_is_killed_at_its_start_leaves_nothing(module: str, place: Path) -> None:
    """Nothing is promised to be there yet: on the platform `run_autograder` has written a valid file before."""
    done = command("--course", ROOT, "grade", "attention", HAND_IN, "--out", place, kill_at=("import", module, 1))
    assert (done.status, done.left) == (-signal.SIGKILL, [])
    assert found(place) == (None, None)


def test_an_interrupted_grader_says_so_and_leaves_what_was_earned(place: Path) -> None:
    arguments = ["--course", str(ROOT), "grade", "attention", str(HAND_IN), "--out", str(place)]
    driver = KILLER.replace("SIGKILL", "SIGINT")
    done = subprocess.run(
        [sys.executable, "-B", "-c", driver, "os.rename", ".part", "21", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 130
    assert done.stderr == "autograder: interrupted; what had been graded by then is written\n"
    record, _ = found(place)
    assert record is not None
    assert finished(record) in (TURNS[20][1] - 1, TURNS[20][1])


# --- a process of the grading, killed ---

SLOW = """
import time

def weighted_read(weights, values):
    time.sleep(SECONDS)
    return weights @ values

def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
"""


def hand_in(place: Path, seconds: float) -> Path:
    (place / "attention.py").write_text(SLOW.replace("SECONDS", str(seconds)))
    return place


def children(pid: int) -> set[int]:
    try:
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:  # it has ended
        return set()


def killing(find: Callable[[], set[int]]) -> threading.Thread:
    """Kills the first processes that are found."""

    def wait_and_kill() -> None:
        ends = time.monotonic() + WAIT
        while time.monotonic() < ends:
            if victims := find():
                time.sleep(0.1)  # it is in the middle of something
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.005)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


@pytest.fixture
def own(place: Path) -> Iterator[Session]:
    """A grader of its own, whose processes may be killed."""
    with Session(labs.load("attention", ROOT), Zygote()) as session:
        assert not session.unsandboxed or os.geteuid() != 0
        (place / "hand-in").mkdir()
        yield session


def grade_slowly(own: Session, place: Path, seconds: float = 0.4) -> Record:
    return own.grade(collect(hand_in(place / "hand-in", seconds), own.lab.wanted))


def guests_of(own: Session) -> set[int]:
    """The student's guests: what the zygote has beside the reference."""
    reference = own.reference
    assert isinstance(reference, Live)
    trusted = {reference.process.pid} if reference.process else set()
    return children(own.zygote.process.pid) - trusted


def test_a_guest_that_is_killed_from_outside_costs_its_own_check(own: Session, place: Path) -> None:
    assert grade_slowly(own, place, 0).score == 42  # also: the reference is at work
    killer = killing(lambda: guests_of(own))
    record = grade_slowly(own, place)
    killer.join()
    hit = [result for result in record.results if "the system killed it" in result.gap]
    # In the first call of a check it costs nothing: a new guest is asked. While the file is imported, neither.
    assert len(hit) <= 1
    assert record.score == 42 - sum(result.max_score for result in hit)
    assert not record.faults
    assert not guests_of(own)


def test_a_reference_that_is_killed_costs_nothing(own: Session, place: Path) -> None:
    reference = own.reference
    assert isinstance(reference, Live)
    killer = killing(lambda: {reference.process.pid} if reference.process and guests_of(own) else set())
    record = grade_slowly(own, place, 0.1)
    killer.join()
    assert reference.forks == 2
    assert record.score == 42
    assert record.complete
    assert {result.status for result in record.results} <= {Status.PASSED, Status.FAILED, Status.BLOCKED}


def test_a_reference_that_always_dies_pays_nothing_and_says_what_to_do(zygote: Zygote, place: Path) -> None:
    """Asked twice, then the check is an error without points: what ended the reference may have been the hand-in."""
    lab = labs.load("attention", ROOT)
    name, text = lab.reference.files["attention"]
    broken = f"{text}\n\ndef weighted_read(weights, values):\n    import os\n    os._exit(3)\n"
    lab = replace(lab, reference=Program({"attention": (name, broken)}, {}, contract=lab.contract))
    session = Session(lab, zygote)
    record = session.grade(collect(hand_in(place, 0), lab.wanted))
    session.close_reference()
    hit = result_of(record, "weighted_read_values")
    assert (hit.status, hit.score) == (Status.ERROR, 0)
    assert hit.gap == f"The grading machine failed in this check. {GRADED_AGAIN}"
    assert record.faults[0].startswith("1.1.2 weighted_read_values: the reference gave no value:")
    assert record.faults[1].startswith("1.1.2 weighted_read_values: ReferenceLost: the reference gave no value:")
    waiting = [result for result in record.results if result.unjudged]
    assert record.score == 42 - sum(result.max_score for result in waiting)
    assert "ask your instructor to have this hand-in graded again" in gradescope.results(record, SETTINGS).output


def test_a_zygote_that_is_killed_costs_nothing_and_takes_its_guests_along(own: Session, place: Path) -> None:
    grade_slowly(own, place, 0)
    zygote = own.zygote.process.pid
    orphans: set[int] = set()

    def find() -> set[int]:
        orphans.update(children(zygote))
        return {zygote} if guests_of(own) else set()

    killer = killing(find)
    record = grade_slowly(own, place)
    killer.join()
    assert record.complete
    assert record.score == 42
    assert {result.status for result in record.results} <= {Status.PASSED, Status.FAILED, Status.BLOCKED}
    assert len(record.faults) == 1
    assert "the process that holds torch ended by SIGKILL" in record.faults[0]
    assert record.faults[0].endswith("it was started again, and the check judged anew")
    ends = time.monotonic() + WAIT
    while any(map(runs, orphans)) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not any(map(runs, orphans))


def test_a_zygote_that_is_always_killed_pays_nothing_and_spares_the_next_hand_in(own: Session, place: Path) -> None:
    fork = own.zygote.fork

    def fork_and_kill(plan: JailPlan | None) -> Process:
        made = fork(plan)
        os.kill(own.zygote.process.pid, signal.SIGKILL)
        ends = time.monotonic() + WAIT
        while runs(made.pid) and time.monotonic() < ends:  # guests die with it
            time.sleep(0.001)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own.zygote, "fork", fork_and_kill)
        record = grade_slowly(own, place)
    assert record.complete
    assert record.score == 0
    assert {result.status for result in record.results if not result.unjudged} <= {Status.FAILED, Status.BLOCKED}
    assert [result for result in record.results if result.unjudged]
    assert "ask your instructor to have this hand-in graded again" in gradescope.results(record, SETTINGS).output
    assert (grade_slowly(own, place, 0).score, guests_of(own)) == (42, set())


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def test_memory_that_runs_out_in_a_guest_is_told_with_whose_and_how_much(own: Session, place: Path) -> None:
    (place / "hand-in" / "attention.py").write_text(
        "import torch\n\ndef weighted_read(weights, values):\n    return torch.ones(1 << 40)\n"
    )
    record = own.grade(collect(place / "hand-in", own.lab.wanted))
    told = result_of(record, "worked_example").gap
    assert told == "The call gave no result: it asked for more memory than the 3,072 MB that a submission may use."


# --- places that take no file ---


def small_files() -> None:
    """Whatever is written ends after four kilobytes, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(place: Path) -> None:
    done = command("--course", ROOT, "grade", "attention", HAND_IN, "--out", place, first=small_files)
    assert (done.status, done.left) == (2, [])
    assert done.err == f"autograder: {place / 'record.json'}: File too large\n"
    assert list(place.iterdir()) == []


def test_on_a_disk_that_fills_up_what_was_written_stays(place: Path) -> None:
    earlier = command("--course", ROOT, "grade", "attention", HAND_IN, "--out", place)
    assert earlier.status == 0, earlier.err
    before = found(place)
    again = command("--course", ROOT, "grade", "attention", REFERENCE, "--out", place, first=small_files)
    assert again.status == 2
    assert found(place) == before
    assert {path.name for path in place.iterdir()} == set(FILES)


# A disk of its own can be had by root only, and in few containers.
DISKS = [44] if os.geteuid() == 0 and launch.SYS_ADMIN in effective_capabilities() else []


@pytest.mark.parametrize("kilobytes", DISKS)
def test_a_small_disk_keeps_the_last_files_that_fit(kilobytes: int, place: Path) -> None:
    """There is room for the first two files, and none for a second record beside them."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)], check=True)
    try:
        done = command("--course", ROOT, "grade", "attention", HAND_IN, "--out", place)
        assert (done.status, done.left) == (2, [])
        assert done.err == f"autograder: {place / 'record.json'}: No space left on device\n"
        assert {path.name for path in place.iterdir()} == {"record.json", "results.json"}
        record, results = found(place)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert record is not None
    assert results is not None
    assert (finished(record), record.complete) == (0, False)
    assert "The grading is not finished. If this stays, it was stopped from outside" in results.output


def test_a_full_disk_on_the_platform_is_told_to_students(place: Path) -> None:
    out = platform(place)
    done = command("--course", ROOT, "gradescope", "attention", "--root", place, first=small_files)
    assert done.left == []
    assert "Traceback" not in done.out + done.err
    assert "File too large" in done.out
    _, results = found(out)  # the sentence is short enough for the place that is left
    assert results is not None
    assert results.score == 0
    assert results.output.startswith("Your hand-in could not be graded, and this is not your fault")


@pytest.mark.parametrize("verb", ["grade", "gradescope"])
def test_a_results_folder_that_is_a_file_is_one_sentence(verb: str, place: Path) -> None:
    out = platform(place)
    out.write_text("")
    arguments = (
        ("grade", "attention", HAND_IN, "--out", out)
        if verb == "grade"
        else ("gradescope", "attention", "--root", place)
    )
    done = command("--course", ROOT, *arguments)
    assert (done.status, done.left) == (2, [])
    assert done.err == f"autograder: {out} cannot be a folder for results: File exists\n"


def test_a_folder_that_is_missing_is_made(place: Path) -> None:
    done = command("--course", ROOT, "grade", "attention", HAND_IN, "--out", place / "a" / "b")
    assert (done.status, done.left) == (0, [])
    record, results = found(place / "a" / "b")
    assert record is not None
    assert results is not None
    assert record.score == results.score == EARNED


def an_ordinary_user() -> None:
    if os.geteuid() == 0:
        launch.become_user(plan_for().fresh().uid or 12345)


@pytest.mark.parametrize("verb", ["grade", "gradescope"])
def test_a_results_folder_that_is_closed_is_one_sentence_before_the_grading(verb: str, place: Path) -> None:
    """For root no folder is closed, so an ordinary user tries; where root's Python is closed to it, it is we who try."""
    out = platform(place)
    out.mkdir()
    out.chmod(0o555)
    arguments = (
        ("grade", "attention", HAND_IN, "--out", out)
        if verb == "grade"
        else ("gradescope", "attention", "--root", place)
    )
    reachable = not first_closed([str(ROOT / "autograder"), *interpreter_paths()])
    done = command("--course", ROOT, *arguments, first=an_ordinary_user if reachable else None)
    assert (done.status, done.left) == ((2, []) if reachable or os.geteuid() else (0, []))
    if done.status:
        assert done.err == f"autograder: {out} is closed to writing: name another folder, or open it\n"
        assert list(out.iterdir()) == []
