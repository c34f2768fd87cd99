"""Every hand-in of tests/attacks, in four ways of running: it earns what it honestly solved, and tells and leaves nothing.

`make test` grades all of them as we are, and in the other ways those that stand for the others there. `ATTACKS=all`
(`make attacks`) grades all of them in all ways, twice each, and the ordinary grader, too; see attack_table.py for the table.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import attack_table
import launch
import ordinary
import pytest
from attacking import ATTACKS, ROOT, Outcome, Outcomes, attacks, read_outcomes

from autograder.reports.gradescope import Results
from autograder.result import Record

ALL = os.environ.get("ATTACKS") == "all"
WAYS = launch.ways()
BY_NAME = {attack.name: attack for attack in attacks()}
KEYS = {"score", "because", "says", "never", "untold", "fails", "reviews", "everywhere", "steady", "usual"}
MEGABYTES = 500  # of the grader, which has none of a submission's own


def plan(way: str) -> dict[str, bool]:
    """The attacks to grade in a way, and whether twice."""
    if ALL:
        return {name: attack.expected.get("steady", True) for name, attack in BY_NAME.items()}
    chosen = {name: attack.expected.get("everywhere", False) for name, attack in BY_NAME.items()}
    steady = {name: attack.expected.get("steady", True) for name, attack in BY_NAME.items()}
    if way == WAYS[0]:
        return {name: chosen[name] and steady[name] for name in BY_NAME}
    return {name: False for name in BY_NAME if chosen[name]}


CASES = [(way, name) for way in WAYS for name in plan(way)]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own is closed to all but one. Holds the hand-ins that are made."""
    path = Path(tempfile.mkdtemp(prefix="attacks-"))
    path.chmod(0o1777)
    for attack in BY_NAME.values():
        if attack.maker.exists():
            made = path / "made" / attack.name.replace("/", "-")
            (made / "hand-in").mkdir(parents=True)
            (made / "path").write_text(str(attack.make(made / "hand-in")))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def graded(folder: Path) -> dict[str, Outcomes]:
    """What came out, by way. Two graders at a time: each waits for its guests half of the time."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(WAYS, pool.map(lambda way: run(way, folder), WAYS)))


def run(way: str, folder: Path) -> Outcomes:
    """Grade in a process of its own, which turns into what the way asks for."""
    name = way.replace(" ", "-")
    (folder / f"{name}.json").write_text(json.dumps(plan(way)))
    command = [sys.executable, "-B", str(ATTACKS.parent / "attacking.py"), way, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{way}: {done.stdout}{done.stderr}"
    assert not done.stderr, f"{way}: {done.stderr}"
    return read_outcomes(folder / name / "outcomes.json")


def every_text(outcome: Outcome) -> str:
    return outcome.record + outcome.staff + told_to_students(outcome)


def told_to_students(outcome: Outcome) -> str:
    return outcome.results + outcome.page + outcome.student


def said(record: Record) -> str:
    """What a student is told about a hand-in, and what it printed, in plain text."""
    return "\n".join([*record.notes, *(f"{result.gap}\n{result.printed}" for result in record.results)])


@pytest.mark.parametrize(("way", "name"), CASES, ids=[f"{way}, {name}" for way, name in CASES])
def test_an_attack_earns_what_it_honestly_solved(graded: dict[str, Outcomes], way: str, name: str) -> None:
    found, attack = graded[way].outcomes[name], BY_NAME[name]
    expected = attack.expected
    assert not found.error
    assert (found.left, found.written) == ([], [])
    record = Record.model_validate_json(found.record)
    results = Results.model_validate_json(found.results)
    if graded[way].unsandboxed:  # this machine confines nobody, and the record says so
        assert "not sandboxed" in record.sandbox["tried"]
        return
    by_check = {result.check: result for result in record.results}
    assert record.score == results.score == expected["score"], [r.check for r in record.results if r.score]
    assert record.complete
    assert not record.faults
    assert {result.status.value for result in record.results} <= {"passed", "failed", "blocked"}
    assert {name: by_check[name].status.value for name in expected.get("fails", [])} == dict.fromkeys(
        expected.get("fails", []), "failed"
    )
    assert {r.check for r in record.results if r.review and r.score} == set(expected.get("reviews", []))
    assert [sentence for sentence in expected.get("says", []) if sentence not in said(record)] == []
    assert found.same_again


@pytest.mark.parametrize(("way", "name"), CASES, ids=[f"{way}, {name}" for way, name in CASES])
def test_an_attack_learns_and_tells_nothing(graded: dict[str, Outcomes], way: str, name: str) -> None:
    found, expected = graded[way].outcomes[name], BY_NAME[name].expected
    if graded[way].unsandboxed:
        assert "not sandboxed" in found.staff.replace("\n", " ")
        return
    never = [*graded[way].secrets, "WORKED", *expected.get("never", [])]
    assert [word for word in never if word in every_text(found)] == []
    told = told_to_students(found)
    never_to_students = ["Traceback (most recent call last)", str(ROOT / "autograder"), *expected.get("untold", [])]
    assert [word for word in never_to_students if word in told] == []


@pytest.mark.parametrize("way", WAYS)
def test_the_grader_is_as_it_was_after_all_attacks(graded: dict[str, Outcomes], way: str) -> None:
    assert graded[way].control == [100, 100]
    assert graded[way].megabytes < MEGABYTES


@pytest.mark.parametrize("way", WAYS)
def test_the_trial_of_the_sandbox_finds_nothing_open(graded: dict[str, Outcomes], way: str) -> None:
    """An ordinary user on a kernel without Landlock shares its files with the guest, and is told so."""
    open_actions = set() if way != "user" or has_landlock() else {"read the grader's private files"}
    told = {sentence.rpartition(" could ")[2] for sentence in graded[way].unsandboxed}
    assert told >= open_actions
    assert bool(told) == bool(open_actions)


def has_landlock() -> bool:
    from autograder.sandbox import landlock, seccomp

    try:
        return landlock.abi() > 0
    except seccomp.Unavailable:
        return False


# --- what the usual in-process grader pays for the same ---

def is_compared(expected: dict[str, Any]) -> bool:
    """Those that hang such a grader take their time: one is enough, unless all are asked for."""
    return ALL or ("usual" in expected and (expected["usual"] != "hangs" or expected.get("everywhere", False)))


COMPARED = [name for name, attack in BY_NAME.items() if is_compared(attack.expected)]


@cache
def payments(folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    return ordinary.payments(folder, [BY_NAME[name] for name in names])


@pytest.mark.parametrize("name", COMPARED)
def test_what_the_ordinary_grader_pays(folder: Path, name: str) -> None:
    paid = payments(folder, tuple(COMPARED))[name]
    usual = BY_NAME[name].expected.get("usual", paid)
    # On a slow machine, what ends without results has not ended yet.
    assert paid == usual or {paid, usual} == {"hangs", "nothing"}


def test_the_ordinary_grader_pays_its_course_for_right_work(folder: Path) -> None:
    reference = ROOT / "reference" / "attention"
    assert ordinary.payment(folder, reference) == 100


# --- the folders themselves ---


@pytest.mark.parametrize("name", BY_NAME)
def test_a_folder_says_what_it_expects_and_why(name: str) -> None:
    attack = BY_NAME[name]
    assert set(attack.expected) <= KEYS
    assert attack.expected["because"].endswith(".")
    assert attack.maker.exists() != (attack.folder / "attention.py").exists()


@pytest.fixture(scope="module", autouse=True)
def _table(graded: dict[str, Outcomes], folder: Path) -> Iterator[None]:
    """Write the table where one is asked for, whatever the tests came to."""
    yield
    if ALL and os.environ.get("ATTACKS_TABLES"):
        attack_table.write(Path(os.environ["ATTACKS_TABLES"]), graded, payments(folder, tuple(COMPARED)))
