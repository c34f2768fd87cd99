"""What was handed in and by whom, in every form in which a class arrives; nothing is dropped in silence."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from autograder.classroom import exports
from autograder.classroom.exports import ExportError, HandedIn, Student

METADATA = """---
submission_11:
  :submitters:
  - :name: 'Ng, "Wei" 🦊'
    :sid: '00123'
    :email: wei@example.edu
  - :name: 李伟
    :sid:
    :email: li@example.edu
  :created_at: 2026-03-01 12:00:00.000000000 Z
  :score: 2.5
  :status: processed
  :results: !ruby/hash:ActiveSupport::HashWithIndifferentAccess
    tests:
    - number: '1.1.1'
      score: 2.0
      name: doubled
    - number: 1.1.2
      score: 0.5
    - name: a test without a number
      score: 7.0
submission_12:
  :submitters:
  - :name: '=HYPERLINK("x")'
  :score:
submission_13:
  :submitters: []
'../outside':
  :submitters: []
nonsense: 3
"""


def put(path: Path, text: str = "x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path, tmp_path: Path) -> exports.Export:
    return exports.read(path, tmp_path / "unpacked")


def by_label(export: exports.Export) -> dict[str, HandedIn]:
    assert len({handed.label for handed in export.hand_ins}) == len(export.hand_ins)
    return {handed.label: handed for handed in export.hand_ins}


def why(export: exports.Export) -> dict[str, str]:
    return {item.what: item.why for item in export.not_understood}


@pytest.fixture
def gradescope(tmp_path: Path) -> Path:
    root = tmp_path / "assignment_5_export"
    put(root / "submission_metadata.yml", METADATA)
    put(root / "submission_11" / "tiny.py", "eleven = 1\n")
    put(root / "submission_12" / "tiny.py")
    put(root / "submission_99" / "tiny.py")
    put(root / "notes.txt")
    return root


def test_gradescope_tells_who_when_and_what_it_scored(gradescope: Path, tmp_path: Path) -> None:
    export = read(gradescope, tmp_path)
    found = by_label(export)
    group = found["submission_11"]
    assert export.kind == "Gradescope"
    assert group.students == (
        Student('Ng, "Wei" 🦊', "00123", "wei@example.edu"),
        Student("李伟", "", "li@example.edu"),
    )
    assert group.submitted.startswith("2026-03-01 12:00:00")
    assert group.earlier == exports.Earlier(2.5, {"1.1.1": 2.0, "1.1.2": 0.5})
    assert group.collect(["tiny.py"]).files == {"tiny.py": b"eleven = 1\n"}
    assert found["submission_12"].earlier is None


def test_gradescope_lists_what_does_not_fit(gradescope: Path, tmp_path: Path) -> None:
    export = read(gradescope, tmp_path)
    found = by_label(export)
    assert set(found) == {"submission_11", "submission_12", "submission_13", "submission_99"}
    assert found["submission_13"].files == {}  # in the metadata, and no folder
    assert found["submission_99"].students == (Student("submission_99"),)
    assert set(why(export)) == {"../outside", "nonsense", "submission_99", "notes.txt"}
    with pytest.raises(exports.CollectError, match="no files"):
        found["submission_13"].collect(["tiny.py"])


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "a: !!python/object/apply:os.system ['touch x']\n", "\x00"])
def test_metadata_that_is_none_is_one_sentence(text: str, tmp_path: Path) -> None:
    put(tmp_path / "in" / "submission_metadata.yml", text)
    with pytest.raises(ExportError, match=r"submission_metadata\.yml.*export the class again"):
        read(tmp_path / "in", tmp_path)


def test_a_zip_of_a_class_is_unpacked_and_stays_inside(gradescope: Path, tmp_path: Path) -> None:
    path = tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in gradescope.rglob("*"):
            archive.write(file, file.relative_to(gradescope.parent))
        archive.writestr("../../escaped.py", "x")
    export = read(path, tmp_path)
    assert set(by_label(export)) >= {"submission_11", "submission_12"}
    assert "leads out" in why(export)["../../escaped.py"]
    assert not list(tmp_path.parent.glob("escaped.py")) and not list(tmp_path.glob("escaped.py"))


def test_a_zip_without_the_old_one_in_it(tmp_path: Path) -> None:
    path = tmp_path / "class.zip"
    for names in (("ann", "bob"), ("ann", "cem")):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(f"{name}/tiny.py", "x = 1\n")
        assert set(by_label(read(path, tmp_path))) == set(names)


def test_canvas_files_of_one_student_are_one_hand_in(tmp_path: Path) -> None:
    root = tmp_path / "submissions"
    put(root / "liwei_101_9001_tiny.py", "x = 1\n")
    put(root / "liwei_101_9002_helper.py", "y = 1\n")
    put(root / "wongada_LATE_102_9003_tiny-2.py")
    put(root / "wongada_103_9004_tiny.py")  # the same name, another student
    put(root / "李伟_104_9005_my_own_tiny.py")
    put(root / "readme.txt")
    export = read(root, tmp_path)
    found = by_label(export)
    assert export.kind == "Canvas"
    assert set(found) == {"liwei_101", "wongada_102", "wongada_103", "李伟_104"}
    li = found["liwei_101"].collect(["tiny.py"])
    assert (li.files, li.helpers, li.notes) == ({"tiny.py": b"x = 1\n"}, {"helper.py": b"y = 1\n"}, ())
    assert [label for label, handed in found.items() if handed.late] == ["wongada_102"]
    assert found["李伟_104"].students == (Student("李伟", sid="104"),)
    assert found["李伟_104"].collect(["tiny.py"]).files == {"tiny.py": b"x = 1\n"}
    assert set(why(export)) == {"readme.txt"}


def test_canvas_keeps_both_of_one_name_and_opens_a_zip(tmp_path: Path) -> None:
    root = tmp_path / "submissions"
    put(root / "ann_1_10_tiny.py", "first = 1\n")
    put(root / "ann_1_11_tiny.py", "second = 1\n")
    with zipfile.ZipFile(root / "bob_2_12_lab.zip", "w") as archive:
        archive.writestr("lab/tiny.py", "zipped = 1\n")
    found = by_label(read(root, tmp_path))
    ann = found["ann_1"].collect(["tiny.py"])
    assert ann.files == {"tiny.py": b"first = 1\n"}
    assert any("More than one file could be tiny.py" in note.text for note in ann.notes)
    assert found["bob_2"].collect(["tiny.py"]).files == {"tiny.py": b"zipped = 1\n"}


def test_clones_are_known_by_what_their_names_do_not_share(tmp_path: Path) -> None:
    root = tmp_path / "tiny-lab-submissions"
    for user in ("ann", "bob-lee", "annika"):
        put(root / f"tiny-lab-{user}" / "tiny.py")
        (root / f"tiny-lab-{user}" / ".git").mkdir()
    put(root / "grades.csv")
    export = read(root, tmp_path)
    assert export.kind == "GitHub Classroom"
    assert {handed.students[0].name for handed in export.hand_ins} == {"ann", "bob-lee", "annika"}
    assert set(why(export)) == {"grades.csv"}


def test_a_folder_of_anything(tmp_path: Path) -> None:
    root = tmp_path / "hand-ins"
    put(root / "ann" / "deep" / "tiny.py")
    put(root / "bob.py", "bob = 1\n")
    put(root / "cem.ipynb", "{}")
    put(root / "roster.csv")
    put(root / ".hidden")
    (root / "empty").mkdir()
    os.symlink("/etc", root / "link")
    export = read(root, tmp_path)
    found = by_label(export)
    assert set(found) == {"ann", "bob.py", "cem.ipynb", "empty"}
    assert found["bob.py"].students == (Student("bob"),)
    assert found["bob.py"].collect(["tiny.py"]).files == {"tiny.py": b"bob = 1\n"}
    assert found["ann"].collect(["tiny.py"]).name == "ann"
    assert found["empty"].collect(["tiny.py"]).missing == ("tiny.py",)
    assert set(why(export)) == {"roster.csv", "link"}


def test_one_folder_around_them_all_is_opened_but_not_a_students_own(tmp_path: Path) -> None:
    around = tmp_path / "around"
    put(around / "class" / "ann" / "tiny.py")
    put(around / "class" / "bob" / "tiny.py")
    assert set(by_label(read(around, tmp_path))) == {"ann", "bob"}
    single = tmp_path / "single"
    put(single / "ann" / "tiny.py")
    assert set(by_label(read(single, tmp_path))) == {"ann"}


def test_what_is_no_class_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path / "broken.zip", "no zip")
    for name, words in (("absent", "there is no"), ("empty", "holds no hand-in"), ("broken.zip", "neither")):
        with pytest.raises(ExportError, match=words):
            read(tmp_path / name, tmp_path)
