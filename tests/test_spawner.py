"""Guests where nothing can be forked: the same answers, the same ends, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from handed_out import run, unzipped

from autograder import lab as labs
from autograder.local.desk import Desk
from autograder.reports.words import for_student
from autograder.sandbox import spawner as module
from autograder.sandbox.jail import JailPlan
from autograder.sandbox.launcher import LaunchError, Zygote
from autograder.sandbox.proxy import Live, NoAnswer, Program, Remote
from autograder.sandbox.spawner import Spawner, launcher_for_this_system

EXAMPLES = ROOT / "reference" / "attention" / "examples"
# What Windows has not: taken away before check.py is run.
POSIX_ONLY = """
import os, signal, socket, sys
for owner, names in ((os, ("fork", "killpg", "getuid", "geteuid", "setuid", "getpgid", "setsid", "waitid", "mkfifo")),
                     (signal, ("SIGALRM", "setitimer", "SIGXCPU", "SIGHUP", "pthread_sigmask")),
                     (socket, ("AF_UNIX", "send_fds", "recv_fds", "socketpair"))):
    for name in names:
        owner.__dict__.pop(name, None)
"""
NO_MODULES = """
sys.platform = "win32"
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
"""


@pytest.fixture(scope="module")
def spawner() -> Iterator[Spawner]:
    with Spawner() as started:
        yield started


def live(spawner: Spawner, text: str, seconds: float = 20.0) -> Live:
    """A guest of its own that runs a text."""
    return Live(spawner, Program({"work": ("work.py", textwrap.dedent(text))}, {}), None, seconds)


def test_a_spawned_guest_answers(spawner: Spawner) -> None:
    guest = live(spawner, "import torch\ndef double(x):\n    print('hi')\n    return 2 * x\n")
    got = Remote(guest, "work").double(np.ones(3, np.float32))
    assert np.array_equal(got, [2, 2, 2])
    assert guest.printed == "hi\n"
    assert spawner.torch_version.startswith("2.")
    guest.close()


def test_how_a_spawned_guest_ends_is_told(spawner: Spawner) -> None:
    guest = live(spawner, "import os, sys\ndef gone(x):\n    os._exit(3)\ndef slow(x):\n    while True: pass\n"
                          "def read(x):\n    return sys.stdin.read()\n", 2.0)  # fmt: skip
    with pytest.raises(NoAnswer, match="it exited with status 3"):
        Remote(guest, "work").gone(1)
    guest.call_seconds = 20.0
    assert Remote(guest, "work").read(1) == ""  # a new guest, and its standard input is empty
    guest.call_seconds = 1.0
    with pytest.raises(NoAnswer) as late:
        Remote(guest, "work").slow(1)
    assert late.value.kind == "time"
    guest.close()


def test_the_next_guest_stands_ready(spawner: Spawner) -> None:
    spawner.prepare()
    assert spawner._spare is not None
    pid = spawner._spare.process.pid
    spawner.prepare()
    assert spawner._spare.process.pid == pid
    process = spawner.fork(None)
    assert process.pid == pid
    assert spawner._spare is None
    assert spawner.end(process) == "it was stopped"


def test_confinement_is_refused_not_left_out(spawner: Spawner) -> None:
    with pytest.raises(LaunchError, match="cannot be confined on this system"):
        spawner.fork(JailPlan())


def test_a_stranger_at_the_door_is_not_the_guest(spawner: Spawner) -> None:
    started = spawner._start()
    with socket.create_connection(started.door.getsockname()) as stranger:
        stranger.sendall(b"x" * module.TOKEN)
        sock = module._visitor(started, time.monotonic() + 120)
        assert stranger.recv(1) == b""
        sock.close()
    module._stop(started)


def test_what_an_interpreter_said_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "autograder").mkdir()
    (tmp_path / "autograder" / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr("autograder.sandbox.launcher.PACKAGE_PARENT", tmp_path)
    with Spawner() as started, pytest.raises(LaunchError, match=r"cannot import autograder\.sandbox: install it"):
        started.wait_ready()


def test_nothing_is_left_when_it_is_closed_or_the_grader_is_killed(tmp_path: Path) -> None:
    with Spawner() as started:
        process = started.fork(None)
        started.prepare()
        assert started._spare is not None
        pids = [process.pid, started._spare.process.pid]
    assert not any(alive(pid) for pid in pids)
    program = "from autograder.sandbox.spawner import Spawner; s = Spawner(); p = s.fork(None); " \
              "print(p.pid, flush=True); import time; time.sleep(600)"  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as grader:
        assert grader.stdout is not None
        pid = int(grader.stdout.readline())
        assert alive(pid)
        grader.kill()
    while alive(pid):
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_system_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    made = launcher_for_this_system()
    assert isinstance(made, Zygote)
    made.close()
    monkeypatch.delattr(os, "fork")
    other = launcher_for_this_system()
    assert isinstance(other, Spawner)
    other.close()


def test_a_grading_is_the_same(spawner: Spawner, zygote: Zygote, tmp_path: Path) -> None:
    folder = unzipped("attention-student.zip", tmp_path / "my lab")
    shutil.copy(EXAMPLES / "softmax_over_readers" / "attention.py", folder)
    desk = Desk(folder)
    both = [desk.grade(launcher, desk.lab) for launcher in (spawner, zygote)]
    one, other = ([r.model_dump(exclude={"seconds"}) for r in for_student(record).results] for record in both)
    assert one == other


def test_check_py_where_nothing_of_posix_is_there(tmp_path: Path) -> None:
    folder = unzipped("attention-student.zip", tmp_path / "my lab")
    shutil.copy(EXAMPLES / "complete" / "attention.py", folder)
    program = f"{POSIX_ONLY}\nimport runpy\nsys.argv = ['check.py', '1.1']\nrunpy.run_path('check.py', run_name='__main__')"
    done = run([sys.executable, "-c", program], cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ 1.1.2" in done.stdout


def test_every_module_that_is_handed_out_is_imported_without_posix(tmp_path: Path) -> None:
    folder = unzipped("attention-student.zip", tmp_path / "my lab")
    modules = [
        ".".join(path.relative_to(folder / "_check").with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((folder / "_check" / "autograder").rglob("*.py"))
        if path.name not in ("check.py", "pytest_plugin.py") or path.parent.name != "local"
    ]
    assert len(modules) > 40
    program = f"{POSIX_ONLY}{NO_MODULES}\nimport importlib\nsys.path.insert(0, '_check')\n" + "\n".join(
        f"importlib.import_module({name!r})" for name in modules
    )
    done = run([sys.executable, "-c", "import numpy, torch, rich, pydantic, subprocess\n" + program], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert labs.load("attention", ROOT).checks  # and here everything is as it was
