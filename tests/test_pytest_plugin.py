"""The student's folder under pytest: each check an item at its definition, the grader's sentences for a traceback."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from handed_out import run, unzipped

EXAMPLES = ROOT / "reference" / "attention" / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A student's folder: the zip, unpacked."""
    return unzipped("attention-student.zip", tmp_path / "my lab")


def in_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in the folder, as a student or an editor does."""
    return run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *arguments], cwd=folder)


def test_each_check_is_an_item(folder: Path) -> None:
    shutil.copy(EXAMPLES / "softmax_over_readers" / "attention.py", folder)
    (folder / "rich.py").write_text("raise RuntimeError('a file of the student')\n", encoding="utf-8")
    done = in_pytest(folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"1 failed, 15 passed, 7 skipped", done.stdout)
    failure = done.stdout.partition("= FAILURES =")[2]
    assert "1.4.1 what every reader gets, readers and sources being different sequences" in failure
    assert "Cause  softmax runs over the readers (dim=1)." in failure
    assert "Where  attention.py:131   weights_softmax = torch.softmax(scores, dim=1)" in failure
    assert "Traceback" not in done.stdout
    assert "def runtest" not in done.stdout
    assert "pytest_plugin.py" not in failure


def test_everything_right_is_green_and_a_named_file_is_not_imported(folder: Path) -> None:
    text = (EXAMPLES / "complete" / "attention.py").read_text(encoding="utf-8")
    (folder / "attention.py").write_text(text + "\nopen('imported here', 'w')\n", encoding="utf-8")
    done = in_pytest(folder, "attention.py", "-q", "-k", "weighted_read")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 21 deselected" in done.stdout
    done = in_pytest(folder, "attention.py", "--collect-only", "-q")
    assert "attention.py::no_loop_output" in done.stdout.splitlines()
    assert "23 tests collected" in done.stdout
    (folder / "imported here").unlink(missing_ok=True)
    in_pytest(folder, "--collect-only")
    assert not (folder / "imported here").exists()


def test_an_item_that_waits_for_one_that_was_not_chosen_says_why(folder: Path) -> None:
    shutil.copy(EXAMPLES / "softmax_over_readers" / "attention.py", folder)
    done = in_pytest(folder, "attention.py::no_loop_weights")
    assert done.returncode == 1
    failure = done.stdout.partition("= FAILURES =")[2]
    assert "blocked by 1.4.1\n1.4.1 what every reader gets" in failure
    assert "Cause  softmax runs over the readers" in failure


def test_an_item_stands_at_its_definition(folder: Path) -> None:
    source = (folder / "attention.py").read_text(encoding="utf-8").splitlines()
    plugin = "def pytest_collection_modifyitems(items):\n    for i in items:\n        print('AT', i.name, i.location[1])\n"
    (folder / "look.py").write_text(plugin, encoding="utf-8")
    done = run([sys.executable, "-m", "pytest", "--collect-only", "-p", "look"], cwd=folder, env={"PYTHONPATH": str(folder)})
    places = dict(re.findall(r"AT (\w+) (\d+)", done.stdout))
    assert source[int(places["no_loop_output"])].startswith("def scaled_dot_product_no_loop_batch(")
    assert source[int(places["head_values"])].startswith("class SelfAttention(")


def test_damage_and_a_file_that_does_not_parse_are_sentences(folder: Path) -> None:
    (folder / "attention.py").write_text("def weighted_read(:\n", encoding="utf-8")
    done = in_pytest(folder, "-k", "1.1.1")
    assert "weighted_read" in done.stdout.partition("= FAILURES =")[2]
    assert "Traceback" not in done.stdout
    (folder / "_check" / "recording.bin").write_bytes(b"")
    done = in_pytest(folder)
    assert done.returncode == 4
    assert "The folder _check is damaged, so unzip the lab's zip once more:" in done.stdout + done.stderr
