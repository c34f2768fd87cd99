"""The grade book: exact points, no formula, and Canvas's export with nothing else touched."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import make_course

from autograder import lab as labs
from autograder.classroom import gradebook, regrade
from autograder.classroom.exports import Earlier, HandedIn, Student
from autograder.classroom.gradebook import GradebookError, fill_canvas, grades, safe
from autograder.classroom.rows import CheckRow, Row
from autograder.lab import Lab
from autograder.result import Status

CANVAS = (
    '\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Tiny lab: twice as much (77),"Other, one (78)",Final Score\r\n'
    ",,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,3,10,(read only)\r\n"
    '"Ng, Wei ""W""",101,00123,wei,Lab 1,,  9.50,88\r\n'
    '"Lovelace, Ada",102,,ada@example.edu,Lab 1,1.0,7,70\r\n'
    '"Lovelace, Ada",103,,ada2,"Lab 2\nevening",,,\r\n'
    "张伟,104,,,Lab 2,,1,1\r\n"
    '"Student, Test",105,,,Lab 2,,,'
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return labs.load("tiny", make_course(tmp_path_factory.mktemp("course")))


def made(label: str, *students: Student, **values: Any) -> Row:
    handed = HandedIn(label, students, {}, submitted="2026-03-01", earlier=values.pop("earlier", None))
    return Row(handed, max_score=4.5, **values)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_a_row_for_each_student_of_a_group(lab: Lab) -> None:
    checks = {"1.1.1": CheckRow(Status.PASSED, 2.0), "1.1.2": CheckRow(Status.FAILED, 0.0, ("halved",))}
    row = made("g", Student("Ng, Wei"), Student('Jo "J" 🦊'), score=2.1, sections={"1.1": 0.1 + 0.2}, checks=checks)
    text = grades([row], lab)
    first, second = table(text)
    assert text.startswith("\ufeffstudent,")
    assert (first["student"], second["student"]) == ("Ng, Wei", 'Jo "J" 🦊')
    assert first["points"] == second["points"] == "2.1"
    assert first["1.1 Twice (3)"] == "0.3"
    assert (first["failed checks"], first["mistakes"], first["status"]) == ("1.1.2", "halved", "graded")


def test_what_was_not_graded_has_no_points(lab: Lab) -> None:
    (entry,) = table(grades([made("a", Student("Ann"), trouble="its worker died")], lab))
    assert (entry["status"], entry["points"], entry["1.1 Twice (3)"]) == ("not graded", "", "")
    assert entry["trouble"] == "its worker died"
    (entry,) = table(grades([made("a", Student("Ann"), empty=True)], lab))
    assert (entry["status"], entry["points"]) == ("nothing found", "0")


@given(st.text(alphabet=st.sampled_from("=+-@\t\r\n ,\"'a1|!\u00a0"), max_size=8))
def test_no_cell_is_a_formula(text: str) -> None:
    cell = safe(text)
    assert not cell.lstrip(" \u00a0").startswith(gradebook.FORMULA)
    assert cell.removeprefix("'") == text.removeprefix("'")


def test_a_formula_in_a_name_stays_text(lab: Lab) -> None:
    (entry,) = table(grades([made("=1+1", Student("=1+1", "-5", "@x"))], lab))
    assert (entry["student"], entry["sid"], entry["email"], entry["hand-in"]) == ("'=1+1", "'-5", "'@x", "'=1+1")


def test_canvas_is_filled_in_and_nothing_else_is_touched(lab: Lab) -> None:
    rows = [
        made("a", Student("Wei Ng", sid="00123"), score=2.25),
        made("b", Student("Ada L.", email="ADA@example.edu"), score=3.0),
        made("c", Student("张伟"), score=0.0),
        made("d", Student("Nobody Known", sid="999"), score=1.0),
    ]
    filled = fill_canvas(CANVAS, rows, lab)
    expected = CANVAS.replace("Lab 1,,  9.50", "Lab 1,2.25,  9.50").replace("Lab 1,1.0,7", "Lab 1,3,7")
    assert filled.text == expected.replace("Lab 2,,1,1", "Lab 2,0,1,1")
    assert filled.placed == 3
    assert filled.overwritten == ["Lovelace, Ada: 1.0 → 3"]
    assert filled.without_points == ["Lovelace, Ada", "Student, Test"]
    assert filled.not_in_canvas == ["Nobody Known"]
    assert "Canvas gives 3 points" in filled.remarks[0] and "4.5" in filled.remarks[0]


def test_one_name_of_two_students_places_nobody(lab: Lab) -> None:
    rows = [made("a", Student("Ada Lovelace"), score=1.0), made("b", Student("Ada Lovelace"), score=2.0)]
    filled = fill_canvas(CANVAS, rows, lab)
    assert filled.placed == 0 and filled.text == CANVAS
    assert filled.not_in_canvas == ["Ada Lovelace", "Ada Lovelace"]


def test_a_hand_in_that_was_not_graded_leaves_canvas_as_it_is(lab: Lab) -> None:
    filled = fill_canvas(CANVAS, [made("a", Student("x", email="ada@example.edu"), trouble="died")], lab)
    assert filled.text == CANVAS and filled.not_in_canvas == []


def test_the_column_is_found_or_asked_for(lab: Lab) -> None:
    assert fill_canvas(CANVAS, [], lab, "other").column == "Other, one (78)"
    with pytest.raises(GradebookError, match="choose one of Student; ID"):
        fill_canvas(CANVAS, [], lab, "absent")
    with pytest.raises(GradebookError, match="no export of Canvas"):
        fill_canvas("name,points\n", [], lab)
    with pytest.raises(GradebookError, match="no export of Canvas"):
        fill_canvas("", [], lab)


@given(st.lists(st.lists(st.text(alphabet='a,"\n\r 1é', max_size=5), min_size=1, max_size=4), max_size=5))
def test_cells_are_split_and_joined_without_loss(rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    lines = list(gradebook._lines(text.getvalue()))
    assert "".join(",".join(cells) + end for cells, end in lines) == text.getvalue()
    assert [[gradebook._value(cell) for cell in cells] for cells, _ in lines] == [row or [""] for row in rows]


def test_regrading_says_what_changes_for_whom_and_by_which_check() -> None:
    checks = {"1.1.1": CheckRow(Status.PASSED, 2.0), "1.1.2": CheckRow(Status.FAILED, 0.0)}
    rows = [
        made("same", Student("s"), score=2.0, checks=checks, earlier=Earlier(2.0, {"1.1.1": 2.0, "1.1.2": 0.0})),
        made("less", Student("=l"), score=2.0, checks=checks, earlier=Earlier(3.0, {"1.1.1": 2.0, "1.1.2": 1.0})),
        made("more", Student("m"), score=2.0, checks=checks, earlier=Earlier(0.0, {"9.9.9": 0.0, "1.1.1": 0.0})),
        made("total", Student("t"), score=2.0, checks=checks, earlier=Earlier(1.5)),
        made("new", Student("n"), score=2.0, checks=checks),
        made("lost", Student("x"), trouble="died", earlier=Earlier(1.0)),
    ]
    found = regrade.changes(rows)
    assert [change.row.label for change in found] == ["more", "less", "total"]
    assert [change.reason for change in found] == ["1.1.1 0 → 2", "1.1.2 1 → 0", "the export holds no single checks"]
    entry = table(regrade.as_csv(found))[1]
    assert entry == {
        "student": "'=l",
        "sid": "",
        "hand-in": "less",
        "before": "3",
        "now": "2",
        "difference": "-1",
        "by which check": "1.1.2 1 → 0",
    }
