"""Classes to try things on: the same for the same seed, every form an export is read in, and a truth that holds."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT

from autograder import lab as labs
from autograder.classroom import exports, generator
from autograder.classroom.broken import WAYS
from autograder.lab import Lab


@pytest.fixture(scope="module")
def lab() -> Lab:
    return labs.load("attention", ROOT)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("form", ["gradescope", "canvas", "folder"])
def test_every_form_is_read_as_what_it_is(form: generator.Form, lab: Lab, tmp_path: Path) -> None:
    folder = generator.write("attention", ROOT, tmp_path / "class", 40, 3, 1, form)
    export = exports.read(folder, tmp_path / "unpacked")
    with (tmp_path / "class" / "truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {entry["hand-in"]: entry for entry in csv.DictReader(file)}
    assert export.kind.lower() == form and export.not_understood == []
    empty = {label for label, entry in truth.items() if entry["planted"] == "nothing handed in"}
    assert {handed.label for handed in export.hand_ins} == set(truth) - (empty if form == "canvas" else set())
    if form != "canvas":  # where names are those of files
        names = Counter(student.name for handed in export.hand_ins for student in handed.students)
        told = [name for label, entry in truth.items() for name in entry["names"].split("; ")]
        assert form == "folder" or names == Counter(told)
    digests = [
        handed.collect(lab.wanted).digest for handed in export.hand_ins if truth[handed.label]["kind"] != "broken"
    ]
    assert len(set(digests)) == len(digests)


def test_the_seed_decides(tmp_path: Path) -> None:
    for name, seed in (("one", 5), ("same", 5), ("other", 6)):
        generator.write("attention", ROOT, tmp_path / name, 12, 2, seed, "folder")
    assert tree(tmp_path / "one") == tree(tmp_path / "same") != tree(tmp_path / "other")


def test_a_class_has_its_share_of_everything(lab: Lab) -> None:
    made = generator.generate(lab, 200, 15, 0)
    kinds = Counter(one.kind for one in made)
    assert kinds["broken"] == len({one.planted for one in made if one.kind == "broken"}) == len(WAYS) == 15
    assert {"complete", "mistake", "two mistakes", "example", "untouched"} < set(kinds)
    planted = {name for one in made if one.kind == "mistake" for name in one.planted}
    assert planted == {item.name for item in lab.mistakes}


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    for students, broken in ((5, None), (5, 6), (0, 0)):
        with pytest.raises(generator.CannotMake):
            generator.write(
                "attention", ROOT, tmp_path / ("mine" if broken is None else "new"), students, broken, 0, "folder"
            )
    assert os.listdir(tmp_path) == ["mine"]
