"""The commands: help that a newcomer can work from, wrong calls that are one sentence, and no torch where none is needed."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from handed_out import python_without, run
from tiny import change, make_course

from autograder import cli
from autograder.reports import gradescope
from autograder.result import Record

MODULE = [sys.executable, "-m", "autograder"]
HEAVY = {"torch", "numpy", "pydantic", "rich"}


def verbs() -> dict[str, argparse.ArgumentParser]:
    actions = cli.parser()._subparsers
    assert actions is not None
    return dict(actions._group_actions[0].choices)  # type: ignore[arg-type]


VERBS = sorted(verbs())


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_course(tmp_path / "course")


def imported(arguments: list[str], cwd: Path) -> set[str]:
    """The top-level packages that one command imports in the grader's own process."""
    done = run([sys.executable, "-X", "importtime", "-m", "autograder", *arguments], cwd=cwd,
               env={"PYTHONPATH": str(ROOT)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name.strip().split(".")[0] for name in re.findall(r"^import time:.*\|(.*)$", done.stderr, re.MULTILINE)}


# Help -------------------------------------------------------------------------------------------------------------------


def test_the_help_names_every_verb_and_needs_nothing_heavy() -> None:
    done = run([*MODULE, "--help"])
    assert done.returncode == 0
    for verb in VERBS:
        assert re.search(rf"^    {verb} +\w", done.stdout, re.MULTILINE), verb
    assert not imported(["--help"], ROOT) & HEAVY
    assert not imported(["zips", "--help"], ROOT) & HEAVY


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([verb, "--help"])
    assert left.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: python -m autograder {verb} ")
    for action in verbs()[verb]._actions:
        assert action.help, f"{verb}: {action.dest} has no help"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)


# What the grader's own process loads ------------------------------------------------------------------------------------


def test_what_grades_nothing_imports_no_torch(tiny: Path) -> None:
    assert "torch" not in imported(["starter"], tiny)


def test_the_grader_itself_never_imports_torch(tiny: Path) -> None:
    """Building zips and grading start torch, in other processes."""
    program = (
        "import sys; from autograder.cli import main; "
        "status = [main(['zips', '--out', 'out']), main(['grade', 'tiny', 'reference/tiny/tiny.py', '--out', 'graded'])]; "
        "print(status, sorted(name for name in sys.modules if name.split('.')[0] == 'torch'))"
    )
    done = run([sys.executable, "-c", program], cwd=tiny, env={"PYTHONPATH": str(ROOT)})
    assert done.stdout.splitlines()[-1] == "[0, 0] []", done.stdout + done.stderr
    assert "4.5 / 4.5 points" in done.stdout
    document = json.loads((tiny / "graded" / "results.json").read_text(encoding="ascii"))
    assert sum(test["score"] for test in document["tests"]) == document["score"] == 4.5
    assert {type(document[key]) for key in ("score", "execution_time")} == {float}
    assert {path.name for path in (tiny / "out" / "tiny").iterdir()} == {"tiny-student.zip", "tiny-autograder.zip"}


# Grading ----------------------------------------------------------------------------------------------------------------


def test_a_hand_in_without_a_point_is_graded_all_the_same(tiny: Path) -> None:
    (tiny / "nothing").mkdir()
    out = tiny / "new" / "folder"
    done = run([*MODULE, "grade", "tiny", "nothing", "--out", out], cwd=tiny, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert re.search(r"Total +0 / 4.5 points", done.stdout)
    assert f"written: {out}/feedback.html, {out}/record.json, {out}/results.json" in done.stdout
    record = Record.model_validate_json((out / "record.json").read_bytes())
    results = gradescope.Results.model_validate_json((out / "results.json").read_bytes())
    assert (record.score, record.max_score, record.complete) == (0, 4.5, True)
    assert results.score == 0
    assert [test.number for test in results.tests] == [result.number for result in record.results]
    assert results.output.startswith("0 / 4.5 points")
    assert {path.name for path in out.iterdir()} == {"feedback.html", "record.json", "results.json"}


def test_a_student_sees_nothing_that_is_for_staff(tiny: Path) -> None:
    hand_in = tiny / "hand-in.py"
    hand_in.write_text(
        "import torch\ndef double(x):\n"
        "    if x.shape != (3, 4) and x.shape != (2, 3): raise ValueError(f'hidden {x.tolist()} \\ud800 \\x1b[31m')\n"
        "    return x + x\nANSWERS = {'growth': 'A'}\n",
        encoding="utf-8",
    )
    environment = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    command = [*MODULE, "grade", "tiny", hand_in, "--student", "--out", tiny / "out"]
    done = run(command, cwd=tiny, env=environment)
    # A surrogate in a message, and a terminal that knows nothing but ASCII, are no reason to stop.
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "A is not it. Then doubling would add two." in done.stdout
    assert "\x1b" not in done.stdout
    assert "hidden [[" not in done.stdout
    assert "This check is hidden" in done.stdout
    assert "hidden [[" in (tiny / "out" / "record.json").read_text(encoding="utf-8")
    assert "hidden [[" not in (tiny / "out" / "results.json").read_text(encoding="ascii")


# Wrong calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "the following arguments are required: VERB"),
        (["grad"], "invalid choice: 'grad' (choose from"),
        (["grade"], "the following arguments are required: LAB, SUBMISSION"),
        (["grade", "tiny"], "the following arguments are required: SUBMISSION"),
        (["grade", "tiny", "x", "--ouz", "y"], "unrecognized arguments: --ouz y"),
    ],
)
def test_a_call_that_lacks_something(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence with which a call is refused."""
    assert cli.main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("autograder: ")
    assert told.err.count("\n") == 1
    return told.err.removeprefix("autograder: ").rstrip("\n")


THERE = "reference/tiny/tiny.py"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grade", "tyny", THERE], "there is no lab 'tyny' in .*assignments: there is tiny"),
        (["starter", "tyny"], "there is no lab 'tyny' in .*assignments: there is tiny"),
        (["zips", "tyny"], "there is no lab 'tyny' in .*assignments: there is tiny"),
        (["demo", "tyny"], "there is no lab 'tyny' in .*assignments: there is tiny"),
        (["grade", "tiny", "nothing.py"], r"there is no nothing\.py: name the file, folder or zip that was handed in"),
        (["grade", "tiny", "x" * 300], "there is no xxx.*: name the file"),
        (["grade", "tiny", "nul\0.py"], "there is no nul.*: name the file"),
        (["grade", "tiny", THERE, "--out", THERE], r"reference/tiny/tiny\.py cannot be a folder for results: "),
        (["grade", "tiny", THERE, "--out", f"{THERE}/below"], "cannot be a folder for results: "),
        (["zips", "tiny", "--out", THERE], "cannot be a folder for results: "),
        (["gradescope", "tiny", "--root", THERE], "cannot be a folder for results: "),
        (["--course", "/proc", "starter"], "/proc is not inside a course: no folder above it holds assignments/"),
    ],
)
def test_a_wrong_call_is_one_sentence(
    arguments: list[str], says: str, tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tiny)
    assert re.match(f".*{says}", refused(arguments, capsys))


@pytest.mark.parametrize("verb", ["grade", "starter", "zips", "demo"])
def test_a_broken_lab_is_one_sentence(verb: str, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(tiny / "assignments/tiny/lab.toml", "points = 3", "points = 5")
    arguments = ["--course", str(tiny), verb, "tiny", *([str(tiny / THERE)] if verb == "grade" else [])]
    assert "section 1.1 says 5 points, its checks add up to 3" in refused(arguments, capsys)


@pytest.mark.parametrize("missing", ["reference/tiny/tiny.py", "assignments/tiny/README.md", "requirements.txt"])
def test_a_course_that_lacks_a_file_is_one_sentence(
    missing: str, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tiny / missing).unlink()
    arguments = ["--course", str(tiny), "zips", "--out", str(tiny / "out")]
    assert f"{tiny / missing} does not exist" in refused(arguments, capsys)


def test_a_region_that_is_not_understood_stops_the_build(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(tiny / THERE, "    # END SOLUTION\n", "    # END SOLUTON\n")
    for verb in ("starter", "zips"):
        assert re.match(r"reference/tiny/tiny\.py:\d+: ", refused(["--course", str(tiny), verb], capsys))
    assert not (tiny / "starter_code").exists()


def test_a_reference_that_fails_its_own_check_hands_out_nothing(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(tiny / "assignments/tiny/checks.py", ".equals(expected)", ".equals(expected + 1)")
    told = refused(["--course", str(tiny), "zips", "--out", str(tiny / "out")], capsys)
    assert re.match(r".*checks\.py:\d+: doubled: the reference itself does not pass: ", told)
    assert not list((tiny / "out").rglob("*.zip"))


def test_a_machine_without_torch_is_one_sentence(tiny: Path) -> None:
    python = python_without(tiny, "torch")
    done = run(
        [python, "-m", "autograder", "grade", "tiny", THERE, "--out", "out"], cwd=tiny, env={"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 2
    assert re.fullmatch(r"autograder: nothing can be graded on this machine: .* cannot import torch: .*\n", done.stderr)
    assert not list((tiny / "out").iterdir())


def test_a_reader_that_has_seen_enough_is_no_error(tiny: Path) -> None:
    command = subprocess.Popen([*MODULE, "starter"], cwd=tiny, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert command.stdout is not None
    command.stdout.close()
    _, told = command.communicate()
    assert told == b""
    assert command.returncode == 0


def test_a_course_without_labs_has_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "assignments").mkdir()
    for verb in ("starter", "demo"):
        assert "has no lab" in refused(["--course", str(tmp_path), verb], capsys)


# The course is found ----------------------------------------------------------------------------------------------------


def test_the_course_is_found_from_inside_and_by_name(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, arguments in ((tiny / "assignments" / "tiny", []), (tmp_path, ["--course", str(tiny)])):
        monkeypatch.chdir(folder)
        assert cli.main([*arguments, "starter"]) == 0
        assert capsys.readouterr().out.splitlines() == ["starter_code/tiny/tiny.py", "starter_code/tiny/README.md"]


# make -------------------------------------------------------------------------------------------------------------------


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(["make", "--no-print-directory", *arguments], cwd=ROOT)


def test_make_alone_lists_its_targets() -> None:
    done = make()
    assert done.returncode == 0
    listed = re.findall(r"^  make ([a-z-]+) +\S", done.stdout, re.MULTILINE)
    assert len(listed) == len(done.stdout.splitlines())
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(listed) == set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(listed)


def test_make_runs_only_verbs_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\(RUN\) (\w+)", makefile)) <= set(VERBS)


def test_make_grade_says_what_it_needs() -> None:
    done = make("-o", "setup", "grade")
    assert done.returncode == 2
    assert "make grade LAB=attention SUBMISSION=path" in done.stdout


# A python that has the right version, and fails where FAIL says.
PYTHON = """#!/bin/sh
case "$*" in *"$FAIL"*) echo "because of the disk" >&2; exit 1;; esac
"""


def set_up(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make setup` in a folder that needs no packages."""
    (folder / "requirements.txt").touch()
    shutil.copy(ROOT / "Makefile", folder)
    return run(["make", "setup"], cwd=folder, env=environment)


def test_a_venv_that_is_a_link_is_used_as_it_is(tmp_path: Path) -> None:
    finished, course = tmp_path / "finished", tmp_path / "course"
    course.mkdir()
    subprocess.run([sys.executable, "-m", "venv", finished], check=True)
    (course / ".venv").symlink_to(finished)
    done = set_up(course, PYTHON="/bin/true")  # whatever makes a venv is not asked for one
    assert done.returncode == 0, done.stdout + done.stderr
    assert (finished / ".ready").exists()


def test_a_venv_that_cannot_be_made_is_told_with_its_cause(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    without = set_up(tmp_path, PYTHON=str(python), FAIL="import ensurepip")
    assert without.returncode != 0
    assert "apt-get install python3-venv" in without.stdout
    failing = set_up(tmp_path, PYTHON=str(python), FAIL="-m venv")
    assert failing.returncode != 0
    assert ".venv could not be made; the lines above say why" in failing.stdout
    assert "because of the disk" in failing.stderr
    (tmp_path / ".venv").symlink_to("nowhere")
    lost = set_up(tmp_path, PYTHON=str(python), FAIL="nothing")
    assert lost.returncode != 0
    assert ".venv is a link to nowhere, where there is no bin/python: remove the link" in lost.stdout
    for done in (failing, lost):
        assert "apt-get" not in done.stdout


def test_git_ignores_a_venv_that_is_a_link() -> None:
    assert ".venv" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
