"""A class from end to end on a course in miniature: graded as alone, once, again only where something changed."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from class_tiny import POINTS, SOURCES, course, double, hand_ins, wish
from conftest import ROOT

from autograder import lab as labs
from autograder.classroom import exports, report, run
from autograder.classroom.jobs import grader_digest
from autograder.classroom.rows import GradedClass
from autograder.reports import words
from autograder.result import Record
from autograder.sandbox.launcher import Zygote
from autograder.session import Session
from autograder.submission import collect


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def graded(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, GradedClass]:
    """The class, where its results lie, and what came of it."""
    submissions = hand_ins(tmp_path_factory.mktemp("class") / "hand-ins")
    out = tmp_path_factory.mktemp("out")
    made = grade(tiny, submissions, out)
    run.write(made, wish(submissions, out), "")
    return submissions, out, made


def grade(tiny: Path, submissions: Path, out: Path, **more: object) -> GradedClass:
    asked = wish(submissions, out, **more)
    return run.grade_export(exports.read(submissions, out / "unpacked"), labs.load("tiny", tiny), asked)


def records(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "records").iterdir()}


def timeless(record: Record) -> dict[str, object]:
    made = record.model_dump(exclude={"seconds": True, "results": {"__all__": {"seconds"}}})
    made["hand_in"].pop("name")
    return made


def test_a_class_is_graded_as_each_is_alone(graded: tuple[Path, Path, GradedClass], tiny: Path, zygote: Zygote) -> None:
    submissions, out, made = graded
    assert {row.label: row.score for row in made.rows} == POINTS
    session = Session(labs.load("tiny", tiny), zygote)
    kept = [Record.model_validate_json(path.read_text()) for path in (out / "records").iterdir()]
    for name in ("ann", "bob", "eve", "gus", "hal"):
        alone = session.grade(collect(submissions / name, session.lab.wanted))
        same = [record for record in kept if record.hand_in.digest == alone.hand_in.digest]
        assert [timeless(record) for record in same] == [timeless(alone)], name
    session.close_reference()


def test_the_grade_book_has_everybody(graded: tuple[Path, Path, GradedClass]) -> None:
    _, out, _ = graded
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        entries = {entry["student"]: entry for entry in csv.DictReader(file)}
    assert {name: float(entry["points"]) for name, entry in entries.items()} == POINTS
    assert entries["bob"]["mistakes"] == "tripled"
    assert entries["hal"]["status"] == "nothing found"
    for name, entry in entries.items():
        page = (out / "feedback" / entry["feedback"]).read_text(encoding="utf-8")
        assert name in page and f"{words.number(POINTS[name])} / 4.5 points" in page
    assert "review" not in (out / "feedback" / entries["gus"]["feedback"]).read_text()


def test_what_is_written_of_a_class_only_its_owner_reads(graded: tuple[Path, Path, GradedClass]) -> None:
    """A hand-in that is being graded, as another user, must not read what others got."""
    _, out, _ = graded
    written = [path for path in out.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert [path.name for path in written if path.stat().st_mode & 0o077] == []


def test_equal_hand_ins_are_graded_once(graded: tuple[Path, Path, GradedClass]) -> None:
    _, out, made = graded
    assert len(records(out)) == len(SOURCES) - 1
    twins = [row for row in made.rows if row.label in ("ann", "ian")]
    assert sorted(row.fresh for row in twins) == [False, True]


def test_started_again_nothing_is_graded_and_of_one_change_one_is(
    graded: tuple[Path, Path, GradedClass], tiny: Path, tmp_path: Path
) -> None:
    submissions, out, _ = graded
    before = records(out)
    again = grade(tiny, submissions, out)
    assert {row.label: row.score for row in again.rows} == POINTS
    assert not any(row.fresh for row in again.rows) and records(out) == before
    other = hand_ins(tmp_path / "class")
    (other / "dee" / "tiny.py").write_text(double("return 2.0 * x"))
    third = grade(tiny, other, out)
    assert [(row.label, row.score) for row in third.rows if row.fresh] == [("dee", 4.5)]
    assert len(records(out)) == len(before) + 1


def test_another_lab_or_grader_is_another_result(tmp_path: Path) -> None:
    one = course(tmp_path / "one")
    digest = grader_digest(labs.load("tiny", one))
    handout = one / "assignments/tiny/README.md"
    handout.write_text(handout.read_text() + "\nGood luck!\n")
    assert grader_digest(labs.load("tiny", one)) == digest  # no result depends on it
    checks = one / "assignments/tiny/checks.py"
    checks.write_text(checks.read_text().replace("FIRST, SECOND = 3, 4", "FIRST, SECOND = 3, 5"))
    assert grader_digest(labs.load("tiny", one)) != digest


def test_a_spoilt_record_is_graded_again(tiny: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    for name in ("ann", "dee"):
        (few / name).mkdir(parents=True)
        (few / name / "tiny.py").write_text(SOURCES[name])
    grade(tiny, few, tmp_path / "out")
    spoilt = sorted((tmp_path / "out" / "records").iterdir())[0]
    spoilt.write_text(spoilt.read_text()[:-40])
    again = grade(tiny, few, tmp_path / "out")
    assert sum(row.fresh for row in again.rows) == 1
    assert Record.model_validate_json(spoilt.read_text()).complete


def test_killed_in_the_middle_it_goes_on_where_it_was(tiny: Path, tmp_path: Path) -> None:
    submissions, out = hand_ins(tmp_path / "class"), tmp_path / "out"
    command = [sys.executable, "-m", "autograder", "--course", str(tiny), "grade-all", "tiny", str(submissions),
               "--out", str(out), "--workers", "1"]  # fmt: skip
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    for line in first.stderr:  # a line for each that is done
        if line.startswith("3 of"):
            break
    first.send_signal(signal.SIGKILL)
    first.stderr.read()  # its workers hold the other end: this returns when the last of them is gone
    first.wait()
    before = records(out)
    assert 3 <= len(before) < len(SOURCES)
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    now = records(out)
    assert {name: now[name] for name in before} == before  # nothing twice
    assert len(now) == len(SOURCES) - 1  # nothing lost
    left = len(now) - len(before)
    assert f"{left} graded now with 1 worker " in " ".join(second.stdout.split())
    assert (out / "class.html").exists()


def test_codes_leave_no_name_anywhere(tiny: Path, tmp_path: Path) -> None:
    submissions, out = tmp_path / "class", tmp_path / "out"
    for name in ("Li Wei", "Ada O'Neil"):
        (submissions / name).mkdir(parents=True)
        text = double('raise ValueError("not by Li Wei")' if name == "Li Wei" else "return x * 2  # Ada O'Neil")
        (submissions / name / f"{name} tiny.py").write_text(text)
    made = grade(tiny, submissions, out, codes=True)
    run.write(made, wish(submissions, out, codes=True), "")
    told = (out / "codes.csv").read_text(encoding="utf-8-sig")
    known = {entry["name"]: entry["code"] for entry in csv.DictReader(told.splitlines())}
    assert set(known) == {"Li Wei", "Ada O'Neil"}
    assert {row.label for row in made.rows} == set(known.values())
    shared = [path for path in out.rglob("*") if path.is_file() and path.name != "codes.csv" and path.suffix != ".json"]
    assert {path.name for path in shared} >= {"grades.csv", "class.html", *(f"{code}.html" for code in known.values())}
    for path in shared:
        text = path.name + path.read_text(encoding="utf-8")
        assert not re.search(r"Li[ _]Wei|O'Neil|O&#39;Neil|Ada_O", text), path
    again = grade(tiny, submissions, out, codes=True)
    assert {row.label for row in again.rows} == set(known.values()) and not any(row.fresh for row in again.rows)


def test_the_report_has_what_is_to_be_taught(graded: tuple[Path, Path, GradedClass]) -> None:
    _, out, made = graded
    page = (out / "class.html").read_text(encoding="utf-8")
    named = {item.name: [row.label for row in item.rows] for item in report.mistakes(made.rows, made.lab)}
    assert named == {"tripled": ["bob"], "squared": ["cem"]}
    assert "three times the input comes out, not twice." in page
    assert "return torch.add(x, 2 * x)" in page  # the line of the example
    totals = {total.number: total for total in report.check_totals(made.rows, made.lab)}
    assert (totals["1.1.1"].passed, totals["1.1.1"].failed) == (3, 6)
    assert not re.search(r'(?:src|href)="(?!#|feedback/)', page)  # nothing from elsewhere
    assert page.count("<tr data-s=") == len(SOURCES)


def test_canvas_and_the_regrade_diff_are_written(
    graded: tuple[Path, Path, GradedClass], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submissions, out, _ = graded
    canvas = tmp_path / "export.csv"
    head = "Student,ID,SIS Login ID,Section,tiny (5),Total\r\n    Points Possible,,,,4.5,\r\n"
    canvas.write_bytes((head + "ann,1,a,S,,9\r\nbob,2,b,S,4.5,9\r\nzoe,3,z,S,,9\r\n").encode())
    assert run.grade_all(wish(submissions, out, canvas=canvas), tiny) == 0
    filled = (out / "canvas.csv").read_bytes().decode()
    assert filled == head + "ann,1,a,S,4.5,9\r\nbob,2,b,S,1.5,9\r\nzoe,3,z,S,,9\r\n"
    told = capsys.readouterr().out
    assert "Canvas held other points: 1\n  bob: 4.5 → 1.5" in told
    assert "in Canvas, without points: 1\n  zoe" in told
    assert "handed in, and not found in Canvas: 7" in told
    assert not (out / "regrade.csv").exists()
    export = exports.read(submissions, tmp_path)
    earlier = exports.Earlier(4.5, {"1.1.1": 2.0, "1.1.2": 1.0, "1.2.1": 1.5})
    export.hand_ins = [replace(handed, earlier=earlier) for handed in export.hand_ins if handed.label in ("ann", "bob")]
    asked = wish(submissions, out)
    run.write(run.grade_export(export, labs.load("tiny", tiny), asked), asked, "")
    assert "bob: 4.5 → 1.5 (1.1.1 2 → 0, 1.1.2 1 → 0)" in " ".join(capsys.readouterr().out.split())
    assert len((out / "regrade.csv").read_text(encoding="utf-8-sig").splitlines()) == 2
    assert "Other points than in the export" in (out / "class.html").read_text()


def test_a_hand_in_that_cannot_be_read_is_a_row(tiny: Path, tmp_path: Path) -> None:
    export = exports.Export("folder", [exports.HandedIn("gone", (exports.Student("Gone"),), {"": tmp_path / "gone"})])
    made = run.grade_export(export, labs.load("tiny", tiny), wish(tmp_path, tmp_path / "out"))
    assert [(row.graded, "cannot be read" in row.trouble) for row in made.rows] == [(False, True)]
    run.write(made, wish(tmp_path, tmp_path / "out"), "")
    assert "cannot be read" in (tmp_path / "out" / "class.html").read_text()


def test_the_command_loads_no_torch(tiny: Path, graded: tuple[Path, Path, GradedClass]) -> None:
    submissions, out, _ = graded
    probe = (
        "import sys; from autograder.cli import main; "
        f"status = main(['--course', {str(tiny)!r}, 'grade-all', 'tiny', {str(submissions)!r}, '--out', {str(out)!r}]); "
        "assert 'torch' not in sys.modules and 'distributed' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "more, words_said",
    [
        (["{in}/absent"], "there is no"),
        (["{in}", "--canvas", "{in}/none.csv"], "export the grade book from Canvas"),
        (["{in}", "--workers", "0"], "is no number of processes"),
    ],
)
def test_a_wrong_call_is_one_sentence(tiny: Path, tmp_path: Path, more: list[str], words_said: str) -> None:
    submissions = hand_ins(tmp_path / "in")
    arguments = [part.replace("{in}", str(submissions)) for part in more]
    command = [sys.executable, "-m", "autograder", "--course", str(tiny), "grade-all", "tiny", *arguments]
    done = subprocess.run([*command, "--out", str(tmp_path / "out")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert words_said in done.stderr and "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "out") == [] if (tmp_path / "out").exists() else True
