"""A lab from the template passes the audit at once; its folders are renamed and removed together."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny

from autograder import course, scaffold
from autograder import lab as labs
from autograder.check import AuthoringError
from autograder.cli import main
from autograder.sandbox.launcher import Zygote


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty course."""
    (tmp_path / "assignments").mkdir()
    (tmp_path / "requirements.txt").write_text(tiny.REQUIREMENTS)
    return tmp_path


def folders(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.glob("*/*") if path.is_dir()}


def test_a_new_lab_is_sound_at_once_and_under_another_name(root: Path, zygote: Zygote) -> None:
    scaffold.new("causal", root, title="Lab 7 · Only backwards")
    found = tiny.audited("causal", root, zygote)
    assert found.faults == []
    assert {check.number for check in found.idle_checks()} == {"1.1.2", "1.1.3"}
    assert found.unproven == []
    assert [trial.record.score for trial in found.of("reference")] == [100]
    assert found.of("mistake")[0].named() == {("mean_over_positions",)}
    assert labs.load("causal", root).file.title == "Lab 7 · Only backwards"
    assert scaffold.rename("causal", "backwards", root) == []
    assert folders(root) == {"assignments/backwards", "reference/backwards", "starter_code/backwards"}
    assert tiny.audited("backwards", root, zygote).faults == []


def test_numbers_go_on_and_secrets_differ(root: Path) -> None:
    for name in ("one", "two"):
        scaffold.new(name, root)
    first, second = (labs.load(name, root) for name in course.labs(root))
    assert [section.number for section in second.file.sections] == ["2.1", "2.2"]
    assert first.file.secret != second.file.secret


def test_what_builds_on_a_lab_follows_it_and_holds_it(root: Path) -> None:
    for name in ("ground", "house"):
        scaffold.new(name, root)
    tiny.change(root / "assignments/house/lab.toml", "requires = []", 'requires = ["ground"]')
    main_file = root / "reference/house/house.py"
    tiny.change(main_file, "from torch import Tensor", "from torch import Tensor\n\nfrom ground import centre as below")
    with pytest.raises(AuthoringError, match="requires ground: remove it there first"):
        scaffold.remove("ground", root, really=True)
    assert scaffold.rename("ground", "cellar", root) == ["reference/house/house.py:5 still says ground"]
    assert 'requires = ["cellar"]' in (root / "assignments/house/lab.toml").read_text()
    assert "cellar.py" in (root / "starter_code/cellar/README.md").read_text()


@pytest.mark.parametrize("name", ["Causal", "two words", "2nd", "class", "random", "torch", "a/b", "", ".."])
def test_a_name_that_no_python_file_can_have_is_refused(root: Path, name: str) -> None:
    with pytest.raises(AuthoringError, match="cannot be the name of a lab"):
        scaffold.new(name, root)
    assert not folders(root)


def test_nothing_is_overwritten(root: Path) -> None:
    scaffold.new("one", root)
    (root / "starter_code" / "two").mkdir()
    for make in (lambda: scaffold.new("one", root), lambda: scaffold.rename("one", "two", root)):
        with pytest.raises(AuthoringError, match="is there already"):
            make()


def test_remove_says_first_and_removes_when_told(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--course", str(root), "new", "one"]) == 0
    assert "next: make audit LAB=one" in capsys.readouterr().out
    assert main(["--course", str(root), "remove", "one"]) == 0
    assert "would be removed: reference/one" in capsys.readouterr().out
    assert len(folders(root)) == 3
    assert main(["--course", str(root), "remove", "one", "--yes"]) == 0
    assert not folders(root)
    assert main(["--course", str(root), "remove", "one", "--yes"]) == 2
    assert "there is no lab one; there is none" in capsys.readouterr().err
