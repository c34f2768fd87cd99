"""The framework alone, installed from its wheel, serves a course of its own in a folder that knows nothing of this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tiny
from conftest import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: building leaves files beside the sources."""
    source = tmp_path_factory.mktemp("source") / "framework"
    source.mkdir()
    shutil.copytree(ROOT / "autograder", source / "autograder", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    # Without isolation: nothing is fetched.
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(out), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


def test_the_wheel_holds_the_framework_and_nothing_of_the_labs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "autograder").rglob("*") if path.is_file()}
    package = {name for name in package if "__pycache__" not in name}
    assert package <= set(names)
    assert not [name for name in names if name.startswith(("reference", "assignments", "tests", "benchmarks"))]


def test_a_course_in_an_empty_folder_is_served_by_it(wheel: Path, tmp_path: Path) -> None:
    installed, course = tmp_path / "site", tmp_path / "course"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    (course / "assignments").mkdir(parents=True)
    (course / "requirements.txt").write_text(tiny.REQUIREMENTS)
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "autograder", *words], cwd=course, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = "import autograder; print(autograder.__file__)"
    found = subprocess.run([sys.executable, "-c", where], cwd=course, env=environment, capture_output=True, text=True)
    assert found.stdout.startswith(str(installed))
    assert "assignments/causal/checks.py" in run("new", "causal")
    run("audit", "causal")
    run("zips", "causal")
    assert (course / "dist/causal/causal-student.zip").exists()
    assert "Total" in run("grade", "causal", "reference/causal/examples/mean_of_a_column")
