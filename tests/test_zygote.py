"""Zygote and launcher: guests start and end, and whatever ends first, no process of ours is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT

from autograder.sandbox import frames
from autograder.sandbox.jail import JailPlan, plan_for
from autograder.sandbox.launcher import LaunchError, Process, Zygote

WAIT = 60.0  # for what takes milliseconds: the machine may be busy
# Its socket closes before the kill: a guest may see that first, and leave by itself.
STOPPED = ("it was stopped", "it exited with status 0")


@pytest.fixture(scope="module")
def plan() -> JailPlan:
    return plan_for()


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def children(pid: int) -> list[int]:
    """Direct children, zombies too."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def eventually(happens: Callable[[], bool]) -> bool:
    """Whether something comes true before anybody loses patience."""
    ends = time.monotonic() + WAIT
    while not happens():
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True


def load(process: Process, source: str) -> None:
    """Have a guest import a file, and do not wait for the answer."""
    files = {"work": ("work.py", source)}
    request = {"id": 1, "verb": "load", "limit": 1000.0, "files": files, "helpers": {}, "contract": {}}
    frames.send(process.sock, request, time.monotonic() + WAIT)


def answered(process: Process) -> bool:
    """Whether a guest says anything more."""
    try:
        frames.receive(process.sock, time.monotonic() + WAIT)
    except (frames.Closed, frames.FrameError):
        return False
    return True


LOOP = (
    "import signal, sys\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\n"
)
LOOP += "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\nwhile True: pass\n"


@pytest.mark.parametrize("confined", [True, False], ids=["a student's guest", "the oracle"])
def test_a_guest_serves_until_it_is_ended(zygote: Zygote, plan: JailPlan, confined: bool) -> None:
    process = zygote.fork(plan.fresh() if confined else None)
    assert alive(process.pid)
    load(process, "x = 1\n")
    answer = frames.receive(process.sock, time.monotonic() + WAIT)
    assert answer["value"]["names"] == {"work": ["x"]}
    assert bool(process.layers) == confined
    assert zygote.end(process) in STOPPED
    assert not alive(process.pid)
    assert process.pid not in children(zygote.process.pid)


def test_fifty_guests_leave_nothing_behind(zygote: Zygote, plan: JailPlan) -> None:
    zygote.end(zygote.fork(plan.fresh()))
    here, there = descriptors(os.getpid()), descriptors(zygote.process.pid)
    before = children(zygote.process.pid)
    ends = ["", "raise SystemExit\n", "import os\nos._exit(4)\n", "import ctypes\nctypes.string_at(0)\n", LOOP]
    for number in range(50):
        process = zygote.fork(plan.fresh() if number % 2 else None)
        source = ends[number % len(ends)]
        load(process, source)
        if source is not LOOP:
            answered(process)
        zygote.end(process, patient="_exit" in source or "string_at" in source)
    assert children(zygote.process.pid) == before
    assert descriptors(zygote.process.pid) == there
    assert descriptors(os.getpid()) == here


def test_guests_that_ended_by_themselves_are_no_zombies_for_long(zygote: Zygote, plan: JailPlan) -> None:
    dead = [zygote.fork(plan.fresh()) for _ in range(5)]
    for process in dead:
        load(process, "import os\nos._exit(4)\n")
        assert not answered(process)
    pids = {process.pid for process in dead}
    working = zygote.fork(plan.fresh())
    assert eventually(lambda: zygote.end(zygote.fork(None)) and not set(children(zygote.process.pid)) & pids)
    assert [zygote.end(process, patient=True) for process in dead] == ["it exited with status 4"] * 5
    assert alive(working.pid)
    zygote.end(working)


def test_an_end_is_told_only_where_it_came_before_ours(zygote: Zygote, plan: JailPlan) -> None:
    process = zygote.fork(plan.fresh())
    load(process, LOOP)
    assert zygote.end(process) in STOPPED
    process = zygote.fork(plan.fresh())
    load(process, "import os\nos.kill(os.getpid(), 9)\n")
    assert not answered(process)
    assert zygote.end(process, patient=True).startswith("the system killed it")
    assert zygote.end(process) == "it exited with status 0"  # asked again: nobody knows any more, and nothing is killed


def test_orphans_of_a_guest_end_with_it_and_guests_at_work_do_not(zygote: Zygote) -> None:
    # Without a jail a guest can start processes; with one, seccomp refuses.
    before = set(children(zygote.process.pid))
    working, process = zygote.fork(None), zygote.fork(None)
    load(
        process,
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    time.sleep(1000)\n",
    )
    assert answered(process)
    known = before | {working.pid, process.pid}
    assert eventually(lambda: bool(set(children(zygote.process.pid)) - known))
    (orphan,) = set(children(zygote.process.pid)) - known
    zygote.end(process)
    assert not alive(orphan)
    assert set(children(zygote.process.pid)) == before | {working.pid}
    load(working, "x = 1\n")
    assert answered(working)
    zygote.end(working)


@pytest.mark.parametrize("name", [b"\xff\xfe\xfd", b"a:b\tc", b"(x) R 1 1"])
def test_the_name_of_another_process_cannot_end_the_zygote(zygote: Zygote, plan: JailPlan, name: bytes) -> None:
    # Any program may call itself so while `/proc` is read; this one is a guest of another hand-in.
    other = zygote.fork(plan.fresh())
    load(other, f"import ctypes\nctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)\n")
    assert answered(other)
    assert name in Path(f"/proc/{other.pid}/comm").read_bytes()
    zygote.end(zygote.fork(plan.fresh()))
    assert alive(other.pid)
    zygote.end(other)
    assert not alive(other.pid)


# The end of everything ------------------------------------------------------------------------------------------------


def test_after_close_no_process_is_left(plan: JailPlan) -> None:
    zygote = Zygote()
    started = [zygote.fork(None), zygote.fork(plan.fresh()), zygote.fork(plan.fresh())]
    load(started[0], LOOP)
    load(started[1], LOOP)
    pids = [zygote.process.pid, *(process.pid for process in started)]
    zygote.close()
    assert not [pid for pid in pids if alive(pid)]
    zygote.close()
    for process in started:
        process.sock.close()


def test_guests_die_with_the_zygote_and_the_grader_is_told(plan: JailPlan) -> None:
    with Zygote() as own:
        started = [own.fork(None), own.fork(plan.fresh())]
        for process in started:
            load(process, LOOP)
        own.process.kill()
        assert eventually(lambda: not any(alive(process.pid) for process in started))
        here = descriptors(os.getpid())
        for ask in (lambda: own.fork(None), lambda: own.fork(plan.fresh()), lambda: own.end(started[0])):
            with pytest.raises(LaunchError, match="the process that holds torch ended by SIGKILL"):
                ask()
        assert descriptors(os.getpid()) == here - 1  # of the guest that was to be ended
        started[1].sock.close()


GRADER = """
import os, sys, time
sys.path.insert(0, {root!r})
from autograder.sandbox import frames
from autograder.sandbox.jail import plan_for
from autograder.sandbox.launcher import Zygote
zygote = Zygote()
if {ready}:
    zygote.wait_ready()
    started = [zygote.fork(None), zygote.fork(plan_for().fresh())]
    files = {{"work": ("work.py", {loop!r})}}
    for process in started:
        request = {{"id": 1, "verb": "load", "limit": 1000.0, "files": files, "helpers": {{}}, "contract": {{}}}}
        frames.send(process.sock, request)
    print(zygote.process.pid, *(process.pid for process in started), flush=True)
else:
    print(zygote.process.pid, flush=True)
time.sleep(1000)
"""


def test_everything_ends_with_a_grader_that_is_killed() -> None:
    graders = []
    for ready in (True, False):
        program = GRADER.format(root=str(ROOT), ready=ready, loop=LOOP)
        graders.append(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE))
    for grader, count in zip(graders, (3, 1)):
        assert grader.stdout is not None
        pids = list(map(int, grader.stdout.readline().split()))
        assert len(pids) == count
        grader.kill()
        grader.wait()
        grader.stdout.close()
        assert eventually(lambda pids=pids: not any(map(alive, pids)))


def test_ctrl_c_in_a_terminal_reaches_the_grader_alone(zygote: Zygote, plan: JailPlan) -> None:
    # It goes to a whole process group, and a guest may set what it likes: so neither is in ours.
    confined, oracle = zygote.fork(plan.fresh()), zygote.fork(None)
    groups = [os.getpgid(pid) for pid in (zygote.process.pid, confined.pid, oracle.pid)]
    assert os.getpgrp() not in groups
    assert os.getsid(zygote.process.pid) == zygote.process.pid
    assert os.getsid(confined.pid) == confined.pid
    os.kill(oracle.pid, signal.SIGINT)
    load(oracle, "x = 1\n")
    assert answered(oracle)
    zygote.end(confined)
    zygote.end(oracle)


# What can be wrong with it --------------------------------------------------------------------------------------------


def test_what_guests_write_to_standard_error_blocks_nobody(zygote: Zygote) -> None:
    process = zygote.fork(None)
    load(
        process,
        "import os\nfor _ in range(64): os.write(2, b'x' * 65536)\nfor _ in range(64): os.write(1, b'x' * 65536)\n",
    )
    assert answered(process)
    zygote.end(process)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.stderr.write('x' * (1 << 20)); sys.exit('the last line')", "ended at start"),
        ("raise ModuleNotFoundError(\"No module named 'torch'\")", "cannot import torch: install it with `pip install"),
        ("import os; os._exit(3)", "ended at start: it said nothing"),
        ("import os; os.kill(os.getpid(), 9)", "ended at start: it said nothing"),
    ],
    ids=["much", "no torch", "an exit", "a kill"],
)
def test_a_zygote_that_cannot_start_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    package = tmp_path / "autograder" / "sandbox"
    package.mkdir(parents=True)
    (tmp_path / "autograder" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "zygote.py").write_text(program)
    monkeypatch.setattr("autograder.sandbox.launcher.PACKAGE_PARENT", tmp_path)
    with Zygote() as zygote, pytest.raises(LaunchError) as caught:
        zygote.fork(None)
    assert said in str(caught.value)


def test_an_interrupted_question_is_not_answered_by_the_next(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    before = set(children(zygote.process.pid))
    with monkeypatch.context() as patch:
        patch.setattr(zygote, "_answer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            zygote.fork(None)
    process = zygote.fork(None)
    assert zygote.end(process) in STOPPED
    # The guest whose number nobody got: its socket is closed, so it ends by itself.
    assert eventually(lambda: zygote.end(process) and set(children(zygote.process.pid)) == before)


def test_a_guest_that_ends_in_its_jail_is_a_fault_of_the_machine(zygote: Zygote, plan: JailPlan) -> None:
    impossible = replace(plan, cpu_seconds="soon")  # type: ignore[arg-type]  # a fault of ours, in the jail
    here = descriptors(os.getpid())
    with pytest.raises(LaunchError, match=r"a guest ended before it could be used \(.*\); see docs/security.md"):
        zygote.fork(impossible)
    assert descriptors(os.getpid()) == here
    zygote.end(zygote.fork(None))


def test_a_plan_of_many_paths_arrives(zygote: Zygote, plan: JailPlan) -> None:
    paths = (*plan.readable, *(f"/nowhere/{number}/{'x' * 100}" for number in range(2000)))
    process = zygote.fork(JailPlan(uid=plan.uid, readable=paths))
    load(process, "x = 1\n")
    assert answered(process)
    zygote.end(process)


def test_the_zygote_holds_no_descriptor_of_its_guests_and_no_environment_of_the_grader(
    zygote: Zygote, plan: JailPlan
) -> None:
    process = zygote.fork(plan.fresh())
    sockets = [path for path in Path(f"/proc/{zygote.process.pid}/fd").iterdir() if "socket" in os.readlink(path)]
    assert len(sockets) == 1
    variables = Path(f"/proc/{zygote.process.pid}/environ").read_bytes().split(b"\0")
    names = {variable.partition(b"=")[0].decode() for variable in variables if variable}
    assert names <= {
        *("PATH", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "TMPDIR", "HOME"),
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"),
    }
    zygote.end(process)


def test_the_oracle_cannot_be_looked_into(zygote: Zygote) -> None:
    process = zygote.fork(None)
    load(process, "x = 1\nimport ctypes\ndumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n")
    frames.receive(process.sock, time.monotonic() + WAIT)
    target = frames.Name("work", "dumpable")
    frames.send(process.sock, {"id": 2, "verb": "get", "limit": 1000.0, "target": target})
    assert frames.receive(process.sock, time.monotonic() + WAIT)["value"] == 0
    zygote.end(process)


def test_the_control_socket_is_not_handed_on(zygote: Zygote) -> None:
    process = zygote.fork(None)
    inside = Path(f"/proc/{process.pid}/fd")
    sockets = [os.readlink(path) for path in inside.iterdir() if "socket" in os.readlink(path)]
    assert len(sockets) == 1
    assert os.readlink(f"/proc/{os.getpid()}/fd/{process.sock.fileno()}") not in sockets
    assert not os.get_inheritable(process.sock.fileno()) and not os.get_inheritable(zygote.control.fileno())
    zygote.end(process)


def test_sets_have_one_order_and_nothing_beside_the_grader_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json.py", "torch.py", "sitecustomize.py"):
        (tmp_path / name).write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    asked = [sys.executable, "-E", "-c", "print(hash('order'))"]
    assert len({subprocess.check_output(asked, cwd="/") for _ in range(3)}) > 1, "this Python does not mix its hashes"
    environment = {"PYTHONHASHSEED": "0"}
    expected = int(subprocess.check_output([sys.executable, "-c", "print(hash('order'))"], cwd="/", env=environment))
    with Zygote() as fresh:
        process = fresh.fork(None)
        load(process, "seen = hash('order')\n")
        frames.receive(process.sock, time.monotonic() + WAIT)
        frames.send(process.sock, {"id": 2, "verb": "get", "limit": 1000.0, "target": frames.Name("work", "seen")})
        assert frames.receive(process.sock, time.monotonic() + WAIT)["value"] == expected
        fresh.end(process)


def test_a_prepared_guest_is_the_next_one_without_a_jail(plan: JailPlan) -> None:
    with Zygote() as zygote:
        zygote.prepare()
        (ready,) = children(zygote.process.pid)
        zygote.prepare()  # one is enough
        assert children(zygote.process.pid) == [ready]
        confined = zygote.fork(plan.fresh())
        assert confined.pid != ready  # never the one without a jail
        zygote.end(confined)
        first, second = zygote.fork(None), zygote.fork(None)
        assert first.pid == ready != second.pid
        zygote.prepare()
        left = children(zygote.process.pid)
        assert len(left) == 3
    assert not [pid for pid in left if alive(pid)]
    for process in (first, second):
        process.sock.close()
