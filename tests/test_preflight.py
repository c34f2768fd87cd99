"""What preflight sees in a whole jail, in no jail, with each layer alone and with each layer taken away."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.sandbox import jail, landlock, preflight, seccomp
from autograder.sandbox.preflight import ACTIONS, REFUSED, WORKED

PLAN = jail.plan_for()
OWN_UID = PLAN.uid is not None  # root, and not in a container that keeps it from changing its uid

READING = {"read the grader's private files", "list the grader's private folders"}
WRITING = {
    "write files in /tmp",
    "write files in /dev/shm",
    "make folders",
    "change the grader's private files",
    "write into the grader's private folders",
}


def has_landlock() -> bool:
    try:
        return landlock.abi() > 0
    except seccomp.Unavailable:
        return False


# What each layer stops where it is the only one, of what works on every kernel without it.
ALONE: dict[str, set[str]] = {
    "descriptors": {"use descriptors that the grader left open"},
    "limits": {"take memory without limit"},
    "seccomp": WRITING
    | {"change the mode of files", "start processes", "run programs", "open network sockets", "open local sockets"}
    | {"reach the network", "send signals to its parent", "make files in memory"},
}
if has_landlock():
    ALONE["landlock"] = READING | WRITING | {"run programs", "read its parent's environment"}
if OWN_UID:
    ALONE["uid"] = {
        "write files in its working directory",
        "change the mode of files",
        "change the grader's private files",
        "write into the grader's private folders",
        "read its parent's environment",
        "send signals to its parent",
        "become root",
    }
    ALONE["capabilities"] = {"read its parent's environment"}
# What comes back when one layer of the whole jail is missing: nothing else guards it.
WITHOUT: dict[str, set[str]] = {
    "descriptors": {"use descriptors that the grader left open"},
    "limits": {"take memory without limit"},
    "landlock": READING,
    "seccomp": {"start processes", "open network sockets", "open local sockets", "make files in memory"},
}
if "NoNewPrivs:\t0" in Path("/proc/self/status").read_text():  # else a container has it on already
    WITHOUT["no_new_privs"] = {"start processes", *READING}  # the kernel takes neither filter nor ruleset without it


@pytest.fixture
def private() -> Iterator[list[str]]:
    """A folder and a file of the grader that file modes leave open to every reader: only Landlock can close them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "checks").mkdir(mode=0o755)
    (folder / "reference.py").write_text("answer = 42")
    (folder / "reference.py").chmod(0o644)
    yield [str(folder / "checks"), str(folder / "reference.py")]
    shutil.rmtree(folder)


def probe_in(layers: tuple[str, ...], private: list[str], plan: jail.JailPlan = PLAN) -> dict[str, str]:
    """What a child with these layers reports; it starts where `private` lies, with a file of the grader open."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            os.chdir(Path(private[0]).parent)
            os.open(os.devnull, os.O_RDONLY)
            descriptor = theirs.detach()
            jail.enter(plan.fresh(), descriptor, layers)
            os.write(descriptor, json.dumps(preflight.probe(private)).encode())
        finally:
            os._exit(0)
    theirs.close()
    with ours, ours.makefile("rb") as answer:
        report: dict[str, str] = json.loads(answer.read())
    os.waitpid(pid, 0)
    return report


def test_a_whole_jail_refuses_every_action(private: list[str]) -> None:
    report = probe_in(jail.LAYERS, private)
    # Without Landlock, file modes alone guard files, and an own uid alone guards /proc.
    unguarded = READING if OWN_UID else {*READING, "read its parent's environment", "read its parent's memory"}
    assert {action for action in ACTIONS if report[action] == WORKED} == (set() if has_landlock() else unguarded)
    assert tuple(report) == ACTIONS


def test_without_a_jail_each_action_is_found_to_work_and_leaves_nothing_behind(private: list[str]) -> None:
    folders = [Path("/tmp"), Path("/dev/shm"), Path(private[0])]
    before = [set(folder.glob("preflight-*")) for folder in folders]
    report = probe_in((), private)
    worked = {action for action in ACTIONS if report[action] == WORKED}
    assert worked >= set[str]().union(*ALONE.values(), *WITHOUT.values())
    assert set(preflight.verdict(report)) == {f"not sandboxed: a submission could {action}" for action in worked}
    assert [set(folder.glob("preflight-*")) for folder in folders] == before
    assert Path(private[1]).read_text() == "answer = 42"


@pytest.mark.parametrize("layer", ALONE)
def test_what_a_layer_stops_alone(layer: str, private: list[str]) -> None:
    needed = ("no_new_privs", layer) if layer in ("landlock", "seccomp") else (layer,)
    report = probe_in(needed, private)
    assert {action for action in ALONE[layer] if report[action] == REFUSED} == ALONE[layer]


@pytest.mark.parametrize("layer", WITHOUT)
def test_what_works_when_a_layer_is_taken_away(layer: str, private: list[str]) -> None:
    report = probe_in(tuple(name for name in jail.LAYERS if name != layer), private)
    assert {action for action in WITHOUT[layer] if report[action] == WORKED} == WITHOUT[layer]
    assert f"not sandboxed: a submission could {sorted(WITHOUT[layer])[0]}" in preflight.verdict(report)


@pytest.mark.parametrize("switch", ["landlock", "seccomp"])
def test_the_plan_can_switch_a_layer_off(switch: str, private: list[str]) -> None:
    report = probe_in(jail.LAYERS, private, jail.plan_for(**{switch: False}))  # type: ignore[arg-type]
    assert {action for action in WITHOUT[switch] if report[action] == WORKED} == WITHOUT[switch]


def test_the_verdict_trusts_no_report_that_says_less_than_refused() -> None:
    assert preflight.verdict(dict.fromkeys(ACTIONS, REFUSED)) == []
    forms: tuple[object, ...] = (None, [], {}, dict.fromkeys(ACTIONS, "Refused"))
    for nonsense in forms:
        sentences = preflight.verdict(nonsense)
        assert ["nobody knows whether" in sentence for sentence in sentences] == [True] * len(ACTIONS)
    one = {**dict.fromkeys(ACTIONS, REFUSED), "run programs": WORKED}
    assert preflight.verdict(one) == ["not sandboxed: a submission could run programs"]


def test_private_files_are_told_from_missing_ones(private: list[str]) -> None:
    assert probe_in((), [private[1] + ".none"])["read the grader's private files"] == REFUSED
    assert probe_in((), private)["read the grader's private files"] == WORKED


def test_the_parent_is_not_left_traced() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            preflight._works(preflight._trace)
            traced = "TracerPid:\t0\n" not in Path(f"/proc/{os.getppid()}/status").read_text()
            os._exit(int(traced))
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
