"""Gradescope's image: the autograder zip unpacked, set up and run, with everything that can be missing or broken there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Grade
from handed_out import python_without, run, unzipped

from autograder.course import Settings
from autograder.gradescope.run import failed_before, metadata
from autograder.reports import gradescope
from autograder.session import Session

EXAMPLES = ROOT / "reference" / "attention" / "examples"
SCRIPTS = ROOT / "autograder" / "gradescope"
NOT_YOURS = "this is not your fault"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """`/autograder` as it is in the image, with the running interpreter's venv and a hand-in."""
    unzipped("attention-autograder.zip", tmp_path / "source")
    (tmp_path / "venv").symlink_to(sys.prefix)
    hand_in(tmp_path, "softmax_over_readers")
    return tmp_path


def hand_in(root: Path, example: str) -> None:
    """Put an example where Gradescope puts a submission."""
    shutil.rmtree(root / "submission", ignore_errors=True)
    shutil.copytree(EXAMPLES / example, root / "submission")


def graded(root: Path) -> gradescope.Results:
    """Run `run_autograder` and read the file that it leaves, which must be valid whatever happened."""
    done = run([root / "source" / "run_autograder"], env={"AUTOGRADER_ROOT": str(root)}, cwd="/")
    assert done.returncode == 0, done.stderr
    return read(root)


def read(root: Path) -> gradescope.Results:
    return gradescope.Results.model_validate_json((root / "results" / "results.json").read_bytes())


def without_times(document: gradescope.Results) -> dict[str, Any]:
    return document.model_dump(exclude={"execution_time"})


def test_the_image_says_what_the_grader_says(image: Path, grade: Grade, session: Callable[[str], Session]) -> None:
    (image / "submission_metadata.json").write_text('{"id": 4711, "previous_submissions": 5}', encoding="utf-8")
    found = graded(image)
    assert found.execution_time > 0
    if session("attention").unsandboxed:  # on such a machine the image refuses to run a submission at all
        assert NOT_YOURS in found.output
        return
    record = grade("attention", image / "submission")
    assert 0 < record.score < 100
    assert without_times(found) == without_times(gradescope.results(record, Settings()))
    kept = json.loads((image / "results" / "record.json").read_text(encoding="utf-8"))
    assert kept["hand_in"]["name"] == "submission 4711"
    assert kept["score"] == record.score
    assert (image / "results" / "results.json").read_bytes().isascii()


BROKEN: dict[str, Callable[[Path], object]] = {
    "no lab.toml": lambda source: (source / "assignments/attention/lab.toml").unlink(),
    "checks that fail": lambda source: (source / "assignments/attention/checks.py").write_text(
        "1 / 0", encoding="utf-8"
    ),
    "no reference": lambda source: shutil.rmtree(source / "reference"),
    "a broken course.toml": lambda source: (source / "course.toml").write_text("titel = 1", encoding="utf-8"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_lab_is_not_the_students_fault(image: Path, what: str) -> None:
    BROKEN[what](image / "source")
    found = graded(image)
    assert found.score == 0
    assert found.tests == []
    assert NOT_YOURS in found.output
    assert str(image) not in found.output


@pytest.mark.parametrize("missing", ["venv", "source/autograder", "source/autograder/cli.py", "source/assignments"])
def test_a_valid_file_is_there_even_if_nothing_can_start(image: Path, missing: str) -> None:
    path = image / missing
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    (image / "results").mkdir()
    (image / "results" / "results.json").write_text("left over", encoding="utf-8")
    run([image / "source" / "run_autograder"], env={"AUTOGRADER_ROOT": str(image)}, cwd="/")
    found = read(image)
    assert found.score == 0
    assert "not your fault" in found.output


def test_without_torch_nobody_gets_points_for_it(image: Path, tmp_path: Path) -> None:
    (image / "venv").unlink()
    python_without(tmp_path, "torch")
    found = graded(image)
    assert found.score == 0
    assert NOT_YOURS in found.output
    assert "cannot import torch" in found.output


def test_a_failure_on_the_way_keeps_what_was_earned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grade: Grade
) -> None:
    """The disk is full from the third file on: what the second one told stands."""
    from autograder.gradescope import run as platform
    from autograder.reports import files

    real, written = files.writer, []

    def writer(*given: Any) -> Callable[[Any], None]:
        write = real(*given)

        def until_full(record: Any) -> None:
            if len(written) == 3:
                raise OSError(28, "No space left on device")
            written.append(record)
            write(record)

        return until_full

    monkeypatch.setattr(files, "writer", writer)
    hand_in(tmp_path, "complete")
    assert platform.main("attention", tmp_path, ROOT) == 0
    found = read(tmp_path)
    if written:
        assert found.score == sum(result.score for result in written[-1].results) > 0
        assert "The grading is not finished." in found.output
    else:
        assert NOT_YOURS in found.output


# Metadata ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [None, b"", b"{", b"[]", b"5", b"null", b"\xff\xfe", b"[" * 100_000, b'{"id": ' * 100_000, b'"id"']
)
def test_broken_metadata_is_no_metadata(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "submission_metadata.json").write_bytes(data)
    assert metadata(tmp_path) == {}


@pytest.mark.parametrize(
    ("attempts", "numbers"),
    [
        (None, set()),
        ("x", set()),
        ([None, 5, {}, {"results": 5}, {"results": {"tests": 5}}, {"results": {"tests": [5, {}]}}], set()),
        (
            [
                {
                    "results": {
                        "tests": [{"number": "1.1.1", "status": "failed"}, {"number": "1.1.2", "status": "passed"}]
                    }
                },
                {"results": {"tests": [{"number": "1.2.1", "status": "failed"}]}},
            ],
            {"1.1.1", "1.2.1"},
        ),
    ],
)
def test_what_failed_before_is_read_from_the_metadata(attempts: Any, numbers: set[str]) -> None:
    assert failed_before({"previous_submissions": attempts}) == numbers
    assert failed_before({}) == set()


# setup.sh ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["setup.sh", "run_autograder"])
def test_the_scripts_are_bash(name: str) -> None:
    assert subprocess.run(["bash", "-n", SCRIPTS / name], check=False).returncode == 0
    assert (SCRIPTS / name).read_bytes().startswith(b"#!/usr/bin/env bash\n")
    assert b"\r" not in (SCRIPTS / name).read_bytes()


def tool(folder: Path, name: str, script: str) -> Path:
    """A small program of that name which notes how it was called."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >> "{folder}/calls"\n{script}\n', encoding="utf-8")
    path.chmod(0o755)
    return path


# A python that makes a "venv" whose python is a copy of itself, and fails where FAIL says.
PYTHON = """
case "$*" in *"$FAIL"*) echo "made to fail" >&2; exit 3;; esac
if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi
"""
STEPS = {
    "import ensurepip": "install python3-venv with apt-get",
    "-m venv": "make a venv in ",
    "pip install": "install the pinned requirements of source/requirements.txt",
    "import torch": "load torch once",
}


@pytest.fixture
def built(tmp_path: Path) -> Callable[[str], tuple[subprocess.CompletedProcess[str], list[str]]]:
    """Run setup.sh with tools that fail at one step; what it printed, and what was called."""

    def build(fail: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        source = tmp_path / "autograder" / "source"
        for folder in ("reference/attention", "assignments/attention"):
            (source / folder).mkdir(parents=True)
            (source / folder / "secret.py").touch(0o644)
        shutil.copy(SCRIPTS / "run_autograder", source)
        tools = tmp_path / "tools"
        python = tool(tools, "python", PYTHON)
        tool(tools, "apt-get", "exit 100")
        environment = {
            "AUTOGRADER_ROOT": str(source.parent),
            "AUTOGRADER_BASE_PYTHON": str(python),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "FAIL": fail,
        }
        done = run(["bash", SCRIPTS / "setup.sh"], env=environment)
        calls = (tools / "calls").read_text(encoding="utf-8") if (tools / "calls").exists() else ""
        return done, calls.splitlines()

    return build


@pytest.mark.parametrize("fail", STEPS)
def test_setup_stops_at_the_first_step_that_fails_and_names_it(
    built: Callable[[str], tuple[subprocess.CompletedProcess[str], list[str]]], fail: str
) -> None:
    done, calls = built(fail)
    assert done.returncode != 0
    assert re.search(
        rf'setup\.sh: step "{re.escape(STEPS[fail])}.*" failed \(line \d+\): the image is not usable', done.stderr
    )
    assert "setup.sh: done" not in done.stdout
    later = list(STEPS)[list(STEPS).index(fail) + 1 :]
    assert not [call for call in calls for step in later if step in call]


def test_setup_makes_the_image_and_closes_what_is_the_courses(
    built: Callable[[str], tuple[subprocess.CompletedProcess[str], list[str]]], tmp_path: Path
) -> None:
    done, calls = built("nothing fails")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "setup.sh: done"
    assert [call for call in calls if "pip install" in call] == [
        "python -m pip install --no-cache-dir --quiet --disable-pip-version-check "
        f"-r {tmp_path}/autograder/source/requirements.txt"
    ]
    source = tmp_path / "autograder" / "source"
    for path in [source, *source.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert (source / "run_autograder").stat().st_mode & 0o777 == 0o700
