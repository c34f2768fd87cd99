"""What one hand-in costs, in counts that no clock is needed for: processes, questions, bytes, modules. They must not grow.

A bound is what was measured and a little. Where a change needs more for a good reason (a check was added), write down the new
number; where it does not, something is asked or imported twice.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder import lab as labs
from autograder.result import Record
from autograder.sandbox import frames
from autograder.sandbox.frames import Name
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Live, Program
from autograder.session import Session
from autograder.submission import Submission, collect


@dataclass
class Counts:
    """What went over the wire, and how many guests were started."""

    forks: int = 0
    questions: int = 0
    bytes_out: int = 0
    bytes_in: int = 0


@pytest.fixture
def counts(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> Counts:
    """Counts from here on."""
    found = Counts()
    send, read, fork = frames.send_packed, frames._read, zygote.fork

    def sending(sock: Any, packed: bytes, deadline: float | None = None) -> None:
        found.questions += 1
        found.bytes_out += len(packed)
        send(sock, packed, deadline)

    def reading(sock: Any, size: int, deadline: float | None) -> bytearray:
        found.bytes_in += size
        return read(sock, size, deadline)

    def forking(plan: Any) -> Any:
        found.forks += 1
        return fork(plan)

    monkeypatch.setattr(frames, "send_packed", sending)
    monkeypatch.setattr(frames, "_read", reading)
    monkeypatch.setattr(zygote, "fork", forking)
    return found


@pytest.fixture(scope="module")
def lab1(root: Path, zygote: Zygote) -> Iterator[tuple[Session, Submission]]:
    """A grader of Lab 1 that has graded nothing yet, and the lab's reference as a hand-in."""
    session = Session(labs.load("attention", root), zygote)
    yield session, collect(root / "reference" / "attention", session.lab.wanted)
    session.close_reference()


def test_the_first_hand_in(lab1: tuple[Session, Submission], counts: Counts) -> None:
    session, hand_in = lab1
    assert session.grade(hand_in).score == 100
    assert counts.forks <= 3, "the reference, the trial of the sandbox, the hand-in"
    assert counts.questions <= 150
    assert counts.bytes_out <= 180_000
    assert counts.bytes_in <= 150_000


def test_one_more_hand_in(lab1: tuple[Session, Submission], counts: Counts) -> None:
    session, hand_in = lab1
    session.grade(hand_in)
    first = Counts(**vars(counts))
    assert session.grade(hand_in).score == 100
    assert counts.forks - first.forks == 1, "the reference is asked nothing twice, the sandbox is tried once"
    assert counts.questions - first.questions <= 100
    assert counts.bytes_out - first.bytes_out <= 110_000
    assert counts.bytes_in - first.bytes_in <= 112_000


def test_a_further_one_costs_the_same(lab1: tuple[Session, Submission], counts: Counts) -> None:
    session, hand_in = lab1
    session.grade(hand_in)
    each = []
    for _ in range(3):
        before = Counts(**vars(counts))
        session.grade(hand_in)
        each.append([after - was for after, was in zip(vars(counts).values(), vars(before).values())])
    assert each[0] == each[1] == each[2]


TELL = "\n\ndef modules_now():\n    import sys\n    return sorted(sys.modules)\n"
FOR_FEW = {"sympy", "torch._dynamo", "torch.fx.experimental.symbolic_shapes"}


def modules_during(warm: Session, folder: Path, more: str = "") -> list[set[str]]:
    """The modules that a guest has before the first check of the reference as a hand-in, and after each."""
    for module, (_, text) in warm.lab.reference.files.items():
        (folder / f"{module}.py").write_text(
            text + (TELL + more if module == warm.lab.main_module else ""), encoding="utf-8"
        )
    guests: list[Live] = []
    told: list[set[str]] = []

    def guest(program: Program) -> Live:
        guests.append(Session.guest(warm, program))
        return guests[-1]

    def ask(record: Record) -> None:
        if not record.complete:  # then it has ended
            asked = {"target": Name(warm.lab.main_module, "modules_now"), "args": [], "kwargs": {}}
            told.append(set(guests[-1].ask("call", **asked)["value"]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm, "guest", guest)
        record = warm.grade(collect(folder, warm.lab.wanted), ask)
    assert record.score == record.max_score + record.extra_credit
    return told


@pytest.mark.parametrize("name", ["attention", "multihead", "block", "scorers"])
def test_a_guest_loads_nothing_of_torch_itself(name: str, session: Callable[[str], Session], tmp_path: Path) -> None:
    told = modules_during(session(name), tmp_path)
    assert len(told) > 10
    assert not {module for module in told[-1] - told[0] if module.partition(".")[0] in ("torch", "sympy")}


def test_a_guest_loads_nothing_before_the_file_either(root: Path) -> None:
    program = (
        "import socket, sys; from autograder.sandbox import guest, zygote; zygote.warm(); before = set(sys.modules); "
        "guest.Guest(socket.socketpair()[0]).load({'files': {}, 'helpers': {}, 'contract': {}}); "
        "print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_few_hand_ins_use_is_loaded_for_those_only(root: Path, tmp_path: Path) -> None:
    using = "\n\ndef of_their_own(x):\n    return torch.func.jacrev(torch.sin)(x)\n"
    with Zygote() as zygote:
        warm = Session(labs.load("attention", root), zygote, confined=False)
        assert not modules_during(warm, tmp_path)[0] & FOR_FEW
        assert modules_during(warm, tmp_path, using)[0] >= FOR_FEW


# Runs a command, then says which packages that were installed it has loaded, how many of our modules, and how many in all.
LOADED = """
import contextlib, io, json, sys
from autograder.cli import main
try:
    with contextlib.redirect_stdout(io.StringIO()):
        status = main(sys.argv[1:])
except SystemExit as ended:
    status = ended.code
assert not status, status
installed = {
    name.partition(".")[0] for name, module in sys.modules.items()
    if "site-packages" in (getattr(getattr(module, "__spec__", None), "origin", None) or "")
}
own = [name for name in sys.modules if name.partition(".")[0] == "autograder"]
print(json.dumps([sorted(installed), len(own), len(sys.modules)]))
"""
BY_THE_ENVIRONMENT = {"_distutils_hack", "_virtualenv", "sitecustomize"}
MODELS = {
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
    "gradescope_utils",
    "msgpack",
    "numpy",
}
MODELS |= {"tomli"}  # on Python 3.10
PAGES = {"rich", "jinja2", "markupsafe"}
COMMANDS = {
    # words: installed packages (None: the worksheet's jupytext brings half of Jupyter), our own modules, modules in all (of
    # which Python's own differ a little between versions)
    "--help": (set(), 3, 120),
    "grade --help": (set(), 3, 120),
    "grade-all --help": (set(), 3, 120),
    "starter attention": (MODELS, 39, 390),
    "zips attention --out OUT": (None, 41, 830),
    "grade attention reference/attention": (MODELS | PAGES, 52, 500),
}


@pytest.mark.parametrize("words", COMMANDS)
def test_modules_that_a_command_loads(words: str, root: Path, tmp_path: Path) -> None:
    packages, own, everything = COMMANDS[words]
    for name in ("assignments", "reference"):
        shutil.copytree(root / name, tmp_path / name)
    shutil.copy(root / "requirements.txt", tmp_path)
    given = ["--course", str(tmp_path), *words.replace("OUT", str(tmp_path)).split()]
    done = subprocess.run([sys.executable, "-c", LOADED, *given], cwd=root, capture_output=True, text=True, check=True)
    found, ours, all_modules = json.loads(done.stdout)
    assert packages is None or set(found) - BY_THE_ENVIRONMENT <= packages
    assert ours <= own
    assert all_modules <= everything
