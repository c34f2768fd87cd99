"""The student's zip in an empty folder: check.py says the grader's sentences, or in one sentence why it cannot."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Grade
from handed_out import python_without, run, unzipped

from autograder.result import Record, Status

EXAMPLES = ROOT / "reference" / "attention" / "examples"
ALTERNATIVES = ROOT / "reference" / "attention" / "alternatives"
AGAIN = "The folder _check is damaged, so unzip the lab's zip once more: "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A student's folder: the zip, unpacked."""
    return unzipped("attention-student.zip", tmp_path / "my lab")


def check(folder: Path, *arguments: str, python: Path | str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run `python check.py` in the folder, as a student does."""
    return run([python, "check.py", *arguments], cwd=folder)


def told(output: str) -> dict[str, str]:
    """What stands under each failed check of a table, by number, as one line."""
    found = re.findall(r"^✗ (\d+\.\d+\.\d+) .*\n((?:    .*\n)*)", output, re.MULTILINE)
    return {number: " ".join(text.split()) for number, text in found}


def sentences(record: Record) -> dict[str, str]:
    """The same of a record, visible checks only."""
    parts = {
        result.number: (result.gap, "Cause " + result.cause if result.cause else "", result.where, result.read)
        for result in record.results
        if result.status is Status.FAILED and not result.hidden and "question" not in result.tags
    }
    return {
        number: " ".join(
            " ".join(
                filter(None, [gap, cause, f"Where {where.place} {where.text}" if where else "", f"Read {read}"])
            ).split()
        )
        for number, (gap, cause, where, read) in parts.items()
    }


def test_the_reference_passes_everything(folder: Path) -> None:
    shutil.copy(ROOT / "reference" / "attention" / "attention.py", folder)
    done = check(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    assert "✗" not in done.stdout
    earned, of = re.findall(r"Total\s+(\S+) / (\S+) points", done.stdout)[0]
    assert earned == of
    assert "hidden ones and the questions count too" in " ".join(done.stdout.split())
    assert not list(folder.glob("*/__pycache__"))


def test_the_untouched_starter_is_not_written_yet(folder: Path) -> None:
    done = check(folder)
    assert done.returncode == 1
    assert told(done.stdout)["1.1.1"].startswith("Not written yet. TODO 1.1:")
    assert "✓" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_wrong_hand_in_reads_the_sentences_of_the_grader(folder: Path, grade: Grade) -> None:
    text = (EXAMPLES / "softmax_over_readers" / "attention.py").read_text(encoding="utf-8")
    text = text.replace("class ReadsItself", "def weighted_read(w, v):\n    return values\n\n\nclass ReadsItself")
    (folder / "attention.py").write_text(text, encoding="utf-8")
    done = check(folder)
    assert done.returncode == 1
    graded = sentences(grade("attention", {"attention.py": text.encode()}))
    assert {"1.1.1", "1.4.1"} <= set(graded)
    assert "Your code raised NameError" in graded["1.1.1"]
    assert "Cause softmax runs over the readers" in graded["1.4.1"]
    assert told(done.stdout) == graded


def test_code_unlike_the_reference_is_right_here_and_there(folder: Path, grade: Grade) -> None:
    shutil.copy(ALTERNATIVES / "transposed_and_streaming" / "attention.py", folder)
    # Files of the names of packages, as students have them, must not take the place of the packages.
    for name in ("random.py", "numpy.py", "types.py", "rich.py", "autograder.py"):
        (folder / name).write_text("raise RuntimeError('a file of the student')\n", encoding="utf-8")
    done = check(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert grade("attention", folder).score == 100


def test_a_part_can_be_checked_alone(folder: Path) -> None:
    shutil.copy(EXAMPLES / "complete" / "attention.py", folder)
    done = check(folder, "1.4.2")
    assert done.returncode == 0
    assert re.findall(r"^✓ (\S+)", done.stdout, re.MULTILINE) == ["1.4.1", "1.4.2"]  # with what it comes after
    points = re.findall(r"(\S+) / (\S+)(?: points)?$", done.stdout, re.MULTILINE)
    assert len(points) == 4
    assert all(earned == of for earned, of in points)  # the section counts what was run


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no_lop_output", "No check fits 'no_lop_output'. Did you mean no_loop_output"),
        ("1.4.99", "No check fits '1.4.99'. Did you mean 1.4.9"),
        ("large_scores", "No check fits 'large_scores'."),  # hidden: unknown here
        ("zzzz", "No check fits 'zzzz'. There are the sections 1.1, 1.2, "),
    ],
)
def test_an_unknown_part_is_a_sentence(folder: Path, what: str, says: str) -> None:
    done = check(folder, what)
    assert done.returncode == 2
    assert done.stdout.startswith(says)
    assert done.stdout.count("\n") == 1
    assert not done.stderr


def test_the_help_names_what_can_be_given(folder: Path) -> None:
    done = check(folder, "--help")
    assert done.returncode == 0
    assert "no_loop, 1.4, 1.4.2" in done.stdout
    wrong = check(folder, "1.4", "1.5")
    assert wrong.returncode == 2
    assert wrong.stderr.splitlines()[-1].startswith("python check.py: error: unrecognized arguments")


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        (("torch",), "torch"),
        (("numpy", "rich", "gradescope_utils", "nbformat"), "numpy, rich, gradescope-utils, nbformat"),
    ],
)
def test_missing_packages_are_named_with_the_command(folder: Path, packages: tuple[str, ...], says: str) -> None:
    python = python_without(folder.parent, *packages)
    done = check(folder, python=python)
    assert done.returncode == 2
    assert not done.stderr
    first, _, command, _, last = done.stdout.splitlines()
    assert first == f"Not installed for {python}: {says}. Install what is needed with"
    assert command == f'    "{python}" -m pip install -r "{folder / "requirements.txt"}"'
    assert last == "and run check.py again."


def test_the_requirements_name_every_package_that_is_needed(folder: Path) -> None:
    pinned = (folder / "requirements.txt").read_text(encoding="utf-8")
    source = (folder / "check.py").read_text(encoding="utf-8")
    for package in [*re.findall(r'^    "\w+": "([\w-]+)",$', source, re.MULTILINE), "tomli"]:
        assert re.search(rf"^{package}==\d", pinned, re.MULTILINE), package
    assert "pytest" not in pinned


DAMAGE = {
    "an empty recording": ("recording.bin", b"", "recording.bin cannot be read ("),
    "half a recording": ("recording.bin", b"ATT1\0\0\1\0", "recording.bin cannot be read ("),
    "another file": ("recording.bin", b"PK\3\4" * 99, "recording.bin cannot be read ("),
    "no recording": ("recording.bin", None, "recording.bin cannot be read ("),
    "no checks": ("assignments/attention/checks.py", None, "checks.py does not exist"),
    "no lab": ("assignments/attention/lab.toml", None, "there is no lab 'attention'"),
    "a broken lab": ("assignments/attention/lab.toml", b"title = ", "lab.toml: not TOML"),
    "broken checks": ("assignments/attention/checks.py", b"import nothing_of_that_name", "No module named"),
    "a missing module": ("autograder/tensors.py", None, "No module named 'autograder.tensors'"),
    "no package": ("autograder/local/main.py", None, "No module named 'autograder.local.main'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_a_sentence(folder: Path, damage: str) -> None:
    name, data, says = DAMAGE[damage]
    path = folder / "_check" / name
    path.unlink() if data is None else path.write_bytes(data)
    done = check(folder)
    assert done.returncode == 2
    assert done.stdout.startswith(AGAIN), done.stdout + done.stderr
    assert says in done.stdout
    assert done.stdout.count("\n") == 1
    assert not done.stderr


def test_without_the_file_and_in_a_terminal_that_knows_no_check_mark(folder: Path) -> None:
    (folder / "attention.py").rename(folder / "notes.txt")
    done = run([sys.executable, "check.py", "1.1"], cwd=folder, env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 1
    assert f"There is no attention.py in {folder}: it is the file that you work on." in " ".join(done.stdout.split())
    assert "? 1.1.1 the example of the handout" in done.stdout
    assert not done.stderr
