"""Where a course stands, and how strictly its TOML files are read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tiny import make_course

from autograder import course
from autograder.check import AuthoringError
from autograder.lab import LabFile
from autograder.questions import Question


def told(text: str, model: type = course.Settings, name: str = "course.toml", tmp: Path = Path()) -> str:
    """What reading a TOML text says is wrong with it."""
    path = tmp / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AuthoringError) as error:
        course.read(path, model)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("titel = 'x'", "titel: unknown key; did you mean 'title'?"),
        ("zzz = 1", "zzz: unknown key; there is title, language, hidden_results"),
        ("[torch]\nindx = 'x'", "torch, indx: unknown key; did you mean 'index'?"),
        ("title = 5", "title: input should be a valid string, and is '5'"),
        ("hidden_results = 'maybe'", "hidden_results: "),
        ("torch = 'torch==2'", "torch: input should be a valid dictionary"),
        ("title = ", "not TOML: "),
        ("title = 'a'\ntitle = 'b'", "not TOML: "),
    ],
)
def test_a_wrong_course_toml(tmp_path: Path, text: str, says: str) -> None:
    assert told(text, tmp=tmp_path).startswith(says)


SECTION = "[[sections]]\nnumber = '1.1'\ntitle = 't'\npoints = 1\n"
HEAD = "title = 't'\nmain = 'tiny.py'\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD, "sections: is missing"),
        ("main = 'tiny.py'\n" + SECTION, "title: is missing"),
        (HEAD + SECTION + SECTION.replace("points = 1", ""), "sections, entry 2, points: is missing"),
        (HEAD + SECTION.replace("points", "ponits"), "sections, entry 1, points: is missing"),
        (HEAD + SECTION + "extra_credits = true", "sections, entry 1, extra_credits: unknown key; did you mean 'extra_credit'?"),
        (HEAD + SECTION.replace("= 1\n", "= '6'\n"), "sections, entry 1, points: input should be a valid number, and is '6'"),
        (HEAD + SECTION.replace("= 1\n", "= true\n"), "sections, entry 1, points: input should be a valid number"),
        (HEAD + SECTION.replace("= 1\n", "= nan\n"), "sections, entry 1, points: input should be a finite number"),
        (HEAD + SECTION.replace("= 1\n", "= inf\n"), "sections, entry 1, points: input should be a finite number"),
        (HEAD + SECTION.replace("= 1\n", "= -1\n"), "sections, entry 1, points: input should be greater than or equal to 0"),
        (HEAD + SECTION + "extra_credit = 1", "sections, entry 1, extra_credit: input should be a valid boolean"),
        (HEAD + SECTION.replace("'1.1'", "'1.1.1'"), "sections, entry 1, number: string should match pattern"),
        (HEAD + "sections = 5", "sections: input should be a valid tuple"),
        (HEAD.replace("tiny.py", "../tiny.py") + SECTION, "main: string should match pattern"),
        (HEAD + "requires = 'attention'\n" + SECTION, "requires: input should be a valid tuple"),
        (HEAD + "[limits]\nseconds_per_call = 99999\n" + SECTION, "limits, seconds_per_call: input should be less than"),
        (HEAD + "[limits]\nseconds_per_run = 0\n" + SECTION, "limits, seconds_per_run: input should be greater than 0"),
        (HEAD + "[limits]\nmemory_mb = 500\n" + SECTION, "limits, memory_mb: input should be greater than or equal to 1024"),
        (HEAD + "[limits]\nmemory_mb = '3072'\n" + SECTION, "limits, memory_mb: input should be a valid integer"),
        (HEAD + "[limits]\nsecond_per_call = 5\n" + SECTION, "limits, second_per_call: unknown key; did you mean"),
    ],
)  # fmt: skip
def test_a_wrong_lab_toml(tmp_path: Path, text: str, says: str) -> None:
    assert told(text, LabFile, "lab.toml", tmp_path).startswith(says)


QUESTION = """
prompt = "?"
options.A.text = "a"
options.A.implies = "no"
options.B.text = "b"
options.C.text = "c"
options.C.implies = "no"
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("options.B.text", "options.B.txt", "options, B, text: is missing"),
        ('options.B.text = "b"', 'options.B.text = "b"\noptions.B.impleis = ""', "options, B, impleis: unknown key; did you"),
        ("prompt", "promt", "prompt: is missing"),
        ('options.C.implies = "no"', "", "options B and C have no `implies`: every option but the right one needs it"),
        ('options.B.text = "b"', 'options.B.text = "b"\noptions.B.implies = "x"', "options A, B, C all have `implies`: take"),
        ("options.C", "options.D", "options are A, B, C, at most to E, in this order"),
        ("options.C", "options.c", "options are A, B, C"),
    ],
)  # fmt: skip
def test_a_wrong_question(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert told(QUESTION.replace(old, new), Question, "questions.toml", tmp_path).startswith(says)


def test_a_question_that_is_no_table() -> None:
    with pytest.raises(AuthoringError, match=r"^questions\.toml: growth: input should be a valid dict") as error:
        course.validated(5, Question, "questions.toml: growth")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"title = '\xe9'", "byte 9 is not UTF-8: save the file as UTF-8"), (b"\xff\xfet\x00", "byte 0 is not UTF-8")],
)
def test_a_file_that_is_not_utf_8(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "course.toml").write_bytes(data)
    with pytest.raises(AuthoringError, match=re.escape(f"course.toml: {says}")):
        course.settings(tmp_path)


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match=r"nothing\.toml does not exist"):
        course.parse_toml(tmp_path / "nothing.toml")
    with pytest.raises(AuthoringError, match=f"{re.escape(str(tmp_path))} cannot be read: "):
        course.read_text(tmp_path)


def test_settings_have_defaults(tmp_path: Path) -> None:
    assert course.settings(tmp_path) == course.Settings()
    (tmp_path / "course.toml").write_text("", encoding="utf-8")
    assert course.settings(tmp_path) == course.Settings()


def test_the_course_toml_that_is_handed_out_says_what_the_defaults_are(root: Path) -> None:
    assert course.settings(root) == course.Settings()
    assert set(course.parse_toml(root / "course.toml")) == set(course.Settings.model_fields)


def test_the_root_is_found_from_anywhere_inside(tmp_path: Path) -> None:
    make_course(tmp_path)
    inside = tmp_path / "assignments" / "tiny"
    assert course.find_root(tmp_path) == course.find_root(inside) == tmp_path
    with pytest.raises(AuthoringError, match="is not inside a course: no folder above it holds assignments/"):
        course.find_root(Path("/proc"))


@pytest.mark.parametrize("text", ["sections = 5", "sections = []", "sections = [1]", "[[sections]]\nnumber = 3", ""])
def test_labs_are_listed_whatever_is_in_them(tmp_path: Path, text: str) -> None:
    make_course(tmp_path)
    for name in ("odd", "_template", "no_lab"):
        (tmp_path / "assignments" / name).mkdir()
    (tmp_path / "assignments" / "odd" / "lab.toml").write_text(text, encoding="utf-8")
    (tmp_path / "assignments" / "_template" / "lab.toml").write_text(text, encoding="utf-8")
    assert sorted(course.labs(tmp_path)) == ["odd", "tiny"]


def test_labs_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name, number in (("a", "10.1"), ("b", "2.1"), ("c", "1.1")):
        (tmp_path / "assignments" / name).mkdir(parents=True)
        (tmp_path / "assignments" / name / "lab.toml").write_text(
            f"[[sections]]\nnumber = '{number}'", encoding="utf-8"
        )
    assert course.labs(tmp_path) == ["c", "b", "a"]
