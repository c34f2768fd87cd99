"""Reports: what each reader is told, what is never told, and that nothing of a hand-in can spoil a report."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from autograder.cli import main
from autograder.course import Settings
from autograder.reports import console, feedback, files, gradescope
from autograder.reports.words import (
    HIDDEN,
    HIDDEN_BLOCKED,
    LINES,
    WORDS,
    explain,
    for_student,
    number,
    plain,
    sandbox_warning,
    score_words,
    total_words,
)
from autograder.result import HandIn, Record, Result, SectionTotal, Status, Where, points, save

SECRET = "query[0] = 0.123456"
NASTY = "\ud800 \x1b[31mred\x1b]0;title\x07 \u202eback \u2028 \r\t x\x00 ✓ 注意 🙂 <b>&amp;</b>"


def result(**given: Any) -> Result:
    """A failed check of 2 points, but for what is given."""
    known = {
        "check": "no_loop_output",
        "number": "1.4.1",
        "title": "what every reader gets",
        "section": "1.4",
        "status": Status.FAILED,
        "score": 0,
        "max_score": 2,
        "gap": "y at sequence 0, reader 3 is 2.842, expected 1. 10 of 10 values differ.",
        "cause": "softmax runs over the readers (dim=1). A row is one reader: normalise over the sources.",
        "mistakes": ("softmax_over_readers",),
        "where": Where(place="attention.py:41", text="weights = scores.softmax(1)"),
        "read": "README.md#no-loop",
    }
    return Result.model_validate({**known, **given})


def record(*results: Result, **given: Any) -> Record:
    """A record of these results."""
    sections = [
        SectionTotal(number=found.section, title="No loop", score=found.score, max_score=found.max_score)
        for found in {found.section: found for found in results}.values()
    ]
    known = {
        "lab": "attention",
        "title": "Lab 1",
        "hand_in": HandIn(name="hand-in", digest="d1", files=("attention.py",)),
        "faults": ("1.4.1: the reference failed",),
        "sandbox": {"seccomp": "on", "landlock": "off (no kernel support)"},
        "seed": "5eed",
        "sections": tuple(sections),
        "results": results,
        "score": points(found.score for found in results),
        "max_score": points(found.max_score for found in results if not found.extra_credit),
        "extra_credit": points(found.score for found in results if found.extra_credit),
        "complete": True,
    }
    return Record.model_validate({**known, **given})


PASSED = result(status=Status.PASSED, score=2, gap="", cause="", mistakes=(), where=None, read="", number="1.4.2")
HIDDEN_FAILED = result(
    check="large_scores",
    number="1.4.10",
    title="large scores",
    hidden=True,
    shown="hidden",
    gap=f"y is wrong at {SECRET}",
    cause=f"cause of {SECRET}",
    where=Where(place="attention.py:7", text=f"# {SECRET}"),
    printed=f"printed {SECRET}",
    review=f"review {SECRET}",
    mistakes=("secret_mistake",),
)


def lines(found: Result) -> list[str]:
    return [f"{line.label}  {line.text}" if line.label else line.text for line in explain(found)]


# What a student reads ---------------------------------------------------------------------------------------------------


def test_the_feedback_says_what_gap_cause_where_next() -> None:
    assert lines(result(printed="scores\n\ntensor([1., 2.])\n")) == [
        "y at sequence 0, reader 3 is 2.842, expected 1. 10 of 10 values differ.",
        "Cause  softmax runs over the readers (dim=1). A row is one reader: normalise over the sources.",
        "Where  attention.py:41   weights = scores.softmax(1)",
        "Read  README.md#no-loop",
        "Printed  scores",
        "tensor([1., 2.])",
    ]


def test_what_passed_or_waits_needs_no_words() -> None:
    assert lines(PASSED) == []
    assert lines(result(status=Status.BLOCKED, blocked_by="1.4.1")) == []
    assert score_words(result(status=Status.BLOCKED, blocked_by="1.4.1")) == "blocked by 1.4.1"
    needs = result(status=Status.BLOCKED, gap="This needs SelfAttention, and attention.py does not define it.",
                   cause="", where=None, read="")  # fmt: skip
    assert lines(needs) == ["This needs SelfAttention, and attention.py does not define it."]
    assert score_words(needs) == "blocked"


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (2, "2"), (1.5, "1.5"), (0.1 + 0.2, "0.3"), (100, "100"), (1234567.25, "1234567.25"), (-1e-16, "0")],
)
def test_points_are_written_exactly(value: float, words: str) -> None:
    assert number(value) == words


def test_points_in_words() -> None:
    assert score_words(PASSED) == "2 / 2"
    assert score_words(result(extra_credit=True)) == "extra 0 / 2"
    assert score_words(result(status=Status.NOT_RUN)) == "not run  0 / 2"
    assert score_words(result(status=Status.ERROR, score=2)) == "2 / 2"
    assert score_words(result(status=Status.ERROR)) == "not judged  0 / 2"
    extra = result(number="2.6.1", section="2.6", extra_credit=True, status=Status.PASSED, score=2)
    whole = record(PASSED, result(), extra)
    assert total_words(whole) == "2 / 4 points"
    with_extra = [*whole.sections[:1], whole.sections[1].model_copy(update={"extra_credit": True})]
    assert total_words(whole.model_copy(update={"sections": tuple(with_extra)})) == "2 / 4 points + 2 extra credit"


LONG = {
    "one word": "m" * 100_000,
    "words": "word " * 20_000,
    "lines": "line of text\n" * 8_000,
    "long lines": ("word " * 300 + "\n") * 60,
    "Chinese": "注意力" * 30_000,
    "nasty": NASTY * 2_000,
    "empty": "",
}


@pytest.mark.parametrize("gap", LONG)
@pytest.mark.parametrize("cause", ["short", *LONG])
@pytest.mark.parametrize("printed", ["", *LONG])
def test_the_feedback_is_never_longer_than_agreed(gap: str, cause: str, printed: str) -> None:
    text = LONG[printed] if printed else ""
    found = lines(
        result(gap=LONG[gap], cause=LONG.get(cause, cause), printed=text, where=Where(place="a b:1", text="x = " * 400))
    )
    assert len(found) <= LINES
    assert sum(len(line.split()) for line in found) <= WORDS
    assert sum(map(len, found)) < 20_000
    assert any(line.startswith("Where  a b:1   x = x") for line in found)
    assert any(line.startswith("Read") for line in found)
    if text.strip():
        assert any(line.startswith("Printed") for line in found)


def test_what_is_cut_is_said_to_be_cut() -> None:
    printed = "\n".join(f"epoch {i}" for i in range(50))
    assert lines(result(printed=printed))[-4:] == [
        "Printed  epoch 0",
        "epoch 1",
        "epoch 2…",
        "and 47 more lines that are not shown",
    ]
    full = "word " * 200
    assert lines(result(gap=full, cause="", printed=printed))[-1] == "Printed  50 lines, not shown"
    assert lines(result(gap=full, cause=""))[0].endswith("word…")
    assert lines(result(gap="\n".join("abcdefgh"), cause=""))[:5] == ["a", "b", "c", "d", "e…"]
    assert lines(result(gap="x" * 300, cause=""))[0] == "x" * 240 + "…"


def test_control_characters_are_written_out() -> None:
    told = plain(NASTY)
    assert told == ("\\ud800 \\x1b[31mred\\x1b]0;title\\x07 \\u202eback \\u2028 \\r\t x\\x00 ✓ 注意 🙂 <b>&amp;</b>")
    assert plain("a\r\nb\n") == "a\nb\n"


# What a student never reads ---------------------------------------------------------------------------------------------


def everything_shown(whole: Record, settings: Settings | None = None) -> str:
    """All that any student's view of a record holds."""
    out = io.StringIO()
    console.render(for_student(whole), Console(file=out, width=500))
    document = gradescope.text(gradescope.results(whole, settings or Settings()))
    return out.getvalue() + document + feedback.page(whole, settings or Settings()) + for_student(whole).model_dump_json()


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("blocked_by", ["", "1.4.1"])
def test_nothing_of_a_hidden_check_is_told(status: Status, blocked_by: str) -> None:
    ours = {Status.ERROR: "The grader failed.", Status.NOT_RUN: "The grading ended."}  # the grader's own sentences
    found = HIDDEN_FAILED.model_copy(update={"status": status, "blocked_by": blocked_by, **(
        {"gap": ours[status]} if status in ours else {})})  # fmt: skip
    shown = everything_shown(record(PASSED, found))
    assert SECRET not in shown
    assert "0.123456" not in shown
    assert "secret_mistake" not in shown
    assert "attention.py:7" not in shown
    assert "large scores" in shown
    hidden = for_student(record(found)).results[0]
    told = {Status.FAILED: HIDDEN, Status.BLOCKED: "" if blocked_by else HIDDEN_BLOCKED, Status.PASSED: ""}
    assert hidden.gap == told.get(status, ours.get(status))
    assert (hidden.score, hidden.max_score, hidden.status) == (found.score, found.max_score, status)


def test_the_record_keeps_what_students_do_not_see() -> None:
    whole = record(HIDDEN_FAILED)
    for_student(whole)
    assert whole.results[0].gap == f"y is wrong at {SECRET}"
    assert SECRET in whole.model_dump_json()


def test_what_only_staff_read_is_not_told() -> None:
    whole = record(result(review="is it a loop?"))
    shown = everything_shown(whole)
    assert "is it a loop?" not in shown
    assert "the reference failed" not in shown
    assert "5eed" not in shown
    out = io.StringIO()
    console.render(whole, Console(file=out, width=200), staff=True)
    assert "needs review: is it a loop?" in out.getvalue()
    assert "staff: 1.4.1: the reference failed" in out.getvalue()
    assert "staff: Not fully sandboxed: landlock: off (no kernel support)." in out.getvalue()


def test_an_answer_keeps_its_sentence_though_it_is_hidden() -> None:
    asked = result(tags=("question",), hidden=True, shown="hidden", gap="A is not it. Then …", cause="", where=None)
    assert for_student(record(asked)).results[0].gap == "A is not it. Then …"


@pytest.mark.parametrize(
    ("feedback", "before", "told"),
    [
        ("cause", (), True),
        ("gap", ("1.4.1",), False),
        ("cause_on_second_attempt", (), False),
        ("cause_on_second_attempt", ("1.4.1",), True),
    ],
)
def test_the_course_says_when_causes_are_told(feedback: Any, before: tuple[str, ...], told: bool) -> None:
    found = gradescope.results(record(result()), Settings(feedback=feedback), before).tests[0]
    assert ("softmax runs over the readers" in found.output) is told
    assert "expected 1." in found.output


# Gradescope -------------------------------------------------------------------------------------------------------------


def test_the_gradescope_file_in_full() -> None:
    extra = result(
        number="2.6.1", section="2.6", title="fused", extra_credit=True, status=Status.PASSED, score=1.5, tags=("x",)
    )
    waits = result(number="1.4.3", title="rows sum to 1", status=Status.BLOCKED, blocked_by="1.4.1")
    late = result(number="1.4.4", title="with a mask", status=Status.NOT_RUN, gap="The time of the whole run was used up.",
                  cause="", where=None, read="")  # fmt: skip
    failed = result(number="1.4.5", title="dtype", status=Status.ERROR, score=2, gap="The grader failed in this check.",
                    cause="", where=None, read="")  # fmt: skip
    whole = record(PASSED, result(), HIDDEN_FAILED, extra, waits, late, failed, notes=("Note one.",), seconds=1.25)
    document = gradescope.results(whole, Settings())
    assert document.score == 5.5
    assert document.execution_time == 1.25
    assert document.output.split("\n") == [
        "4 / 12 points",
        "1 of 7 checks are hidden: they tell their title and whether they passed.",
        "The grader failed in a check. That costs you nothing; please tell the staff.",
        "Note one.",
    ]
    assert document.extra_data == {"schema_version": 1, "lab": "attention", "digest": "d1"}
    told = [(test.number, test.name, test.status, test.score, test.max_score) for test in document.tests]
    assert told == [
        ("1.4.2", "✓ what every reader gets", "passed", 2, 2),
        ("1.4.1", "✗ what every reader gets", "failed", 0, 2),
        ("1.4.10", "✗ large scores", "failed", 0, 2),
        ("2.6.1", "✓ fused (extra credit)", "passed", 1.5, 2),
        ("1.4.3", "– rows sum to 1", "failed", 0, 2),
        ("1.4.4", "· with a mask", "failed", 0, 2),
        ("1.4.5", "! dtype", "passed", 2, 2),
    ]
    assert [test.output for test in document.tests[2:]] == [
        f"<p>{HIDDEN}</p><p><strong>Read</strong> README.md#no-loop</p>",
        "",
        "<p>blocked by 1.4.1</p>",
        "<p>not run  0 / 2</p><p>The time of the whole run was used up.</p>",
        "<p>2 / 2</p><p>The grader failed in this check.</p>",
    ]
    assert [test.output_format for test in document.tests] == ["text", "html", "html", "text", "html", "html", "html"]
    assert document.tests[3].tags == ["x"]
    assert {test.visibility for test in document.tests} == {"visible"}


@pytest.mark.parametrize("setting", ["title", "after_due_date", "after_published", "hidden"])
def test_hidden_results_are_shown_as_the_course_says(setting: str) -> None:
    due = result(number="1.4.9", shown="after_due_date")
    tests = gradescope.results(record(PASSED, HIDDEN_FAILED, due), Settings(hidden_results=setting)).tests
    assert [test.visibility for test in tests] == [
        "visible",
        "visible" if setting == "title" else setting,
        "after_due_date",
    ]


def test_an_unfinished_grading_says_so() -> None:
    document = gradescope.results(record(PASSED, complete=False), Settings())
    assert document.output.endswith("it was stopped from outside: please tell the staff.")
    assert document.score == 2


def test_what_the_machine_did_not_judge_waits_and_is_said() -> None:
    lost = result(status=Status.ERROR, gap="The grading machine failed in this check.", cause="", where=None, read="")
    document = gradescope.results(record(PASSED, lost, lost), Settings())
    assert document.score == 2
    assert document.tests[1].status == "failed"
    said = "<p>not judged  0 / 2</p><p>The grading machine failed in this check.</p>"
    assert document.tests[1].output == said
    said = "The grading machine failed: checks worth 4 points were not judged. "
    said += "Nothing is lost: ask your instructor to have this hand-in graded again."
    assert document.output.splitlines() == ["2 / 6 points", said]
    out = io.StringIO()
    console.render(record(PASSED, lost, lost), Console(file=out, width=200))
    assert said in out.getvalue()


def test_the_status_is_never_read_out_of_text() -> None:
    claims = result(title="✓ passed", gap="passed 2 / 2 ✓", cause="", printed='{"status": "passed"}')
    assert gradescope.results(record(claims), Settings()).tests[0].status == "failed"
    denies = result(status=Status.PASSED, score=2, title="✗ failed", gap="")
    assert gradescope.results(record(denies), Settings()).tests[0].status == "passed"


@pytest.mark.parametrize("text", [NASTY, "m" * 100_000, NASTY * 3_000, '"}]}\n', "\\ud800"])
def test_text_of_a_hand_in_cannot_spoil_a_file(tmp_path: Path, text: str) -> None:
    found = result(gap=text, cause=text, printed=text, review=text, where=Where(place=text, text=text))
    hand_in = HandIn(name=text, digest="d", files=(text,), missing=(text,))
    whole = record(found, notes=(text,), faults=(text,), hand_in=hand_in)
    files.writer(tmp_path, Settings())(whole)
    data = (tmp_path / "results.json").read_bytes()
    assert data.isascii()
    assert len(data) < 100_000
    gradescope.Results.model_validate_json(data)
    again = Record.model_validate_json((tmp_path / "record.json").read_bytes())
    assert again == whole  # reports can be made from it again
    out = io.StringIO()
    console.render(again, Console(file=out, width=100), staff=True)
    assert out.getvalue().encode("utf-8")
    assert "\x1b[31m" not in out.getvalue()
    assert gradescope.Results.model_validate_json(gradescope.text(gradescope.failure(text)))


def test_nothing_is_left_beside_the_files(tmp_path: Path) -> None:
    write = files.writer(tmp_path / "new" / "folder", Settings())
    for complete in (False, True):
        write(record(PASSED, complete=complete))
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "feedback.html",
        "record.json",
        "results.json",
    ]
    assert json.loads((tmp_path / "new" / "folder" / "record.json").read_text(encoding="utf-8"))["complete"] is True


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    save("before", tmp_path / "x.json")
    with pytest.raises(TypeError):
        save(object(), tmp_path / "x.json")  # type: ignore[arg-type]
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == "before"


def test_only_its_owner_reads_a_record(tmp_path: Path) -> None:
    """It tells how hidden checks went; a hand-in that still runs, as another user, must not read it, half written or whole."""
    left = tmp_path / ".record.json.part"
    left.write_text("left by a grader that was killed", encoding="utf-8")
    left.chmod(0o644)
    files.writer(tmp_path, Settings())(record(PASSED))
    assert (tmp_path / "record.json").stat().st_mode & 0o077 == 0
    (tmp_path / "ordinary").touch()
    assert (tmp_path / "results.json").stat().st_mode == (tmp_path / "ordinary").stat().st_mode  # its platform reads it


# What the models refuse -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0, 2.5, "2 points", None])
def test_an_impossible_score_is_refused(odd: Any) -> None:
    with pytest.raises(ValidationError):
        result(score=odd)
    with pytest.raises(ValidationError):
        result(max_score=odd if odd != 2.5 else float("nan"))


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_total_that_is_no_number_is_refused(odd: float) -> None:
    for key in ("score", "max_score", "extra_credit", "seconds"):
        with pytest.raises(ValidationError):
            record(PASSED, **{key: odd})
    with pytest.raises(ValidationError):
        SectionTotal(number="1.1", title="t", score=odd, max_score=1)
    with pytest.raises(ValidationError):
        gradescope.Results(score=odd, execution_time=0, output="", tests=[])


@pytest.mark.parametrize("key", ["max_scor", "visibilty", "Score"])
def test_a_misspelt_key_never_reaches_gradescope(key: str) -> None:
    test = gradescope.results(record(PASSED), Settings()).tests[0].model_dump()
    with pytest.raises(ValidationError):
        gradescope.Test.model_validate({**test, key: 1})


def test_sums_are_exact() -> None:
    assert points([0.1] * 3) == 0.3
    assert points([]) == 0
    assert points([1.5, 1.5, 0.1, 0.2]) == 3.3
    assert points([1 / 3] * 3) == 1


# The terminal -----------------------------------------------------------------------------------------------------------


def test_the_table_in_a_terminal() -> None:
    out = io.StringIO()
    waits = result(number="1.4.3", title="each reader's weights sum to 1", status=Status.BLOCKED, blocked_by="1.4.1")
    whole = record(result(), waits, HIDDEN_FAILED, notes=("attention (1).py was taken as attention.py.",))
    console.render(for_student(whole), Console(file=out, width=90))
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "Lab 1",
        "hand-in hand-in",
        "· attention (1).py was taken as attention.py.",
        "",
        "1.4 No loop                                                                          0 / 2",
        "✗ 1.4.1 what every reader gets                                                       0 / 2",
        "    y at sequence 0, reader 3 is 2.842, expected 1. 10 of 10 values differ.",
        "    Cause    softmax runs over the readers (dim=1). A row is one reader: normalise over",
        "             the sources.",
        "    Where    attention.py:41   weights = scores.softmax(1)",
        "    Read     README.md#no-loop",
        "– 1.4.3 each reader's weights sum to 1                                    blocked by 1.4.1",
        "✗ 1.4.10 large scores (hidden)                                                       0 / 2",
        f"    {HIDDEN}",
        "    Read     README.md#no-loop",
        "",
        "Total                                                                         0 / 6 points",
    ]


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "[/]", "[link=file:///etc]x", ":smile:"])
def test_markup_in_a_hand_in_is_text(text: str) -> None:
    out = io.StringIO()
    console.render(record(result(gap=text, where=None, cause=text), notes=(text,)), Console(file=out, width=90))
    assert out.getvalue().count(text) == 3


def test_the_sandbox_in_one_sentence() -> None:
    assert sandbox_warning(record(PASSED, sandbox={})) == ""
    assert sandbox_warning(record(PASSED, sandbox={"uid": "on"})) == ""
    off = {"uid": "on", "landlock": "the kernel has none.", "seccomp": "off"}
    assert sandbox_warning(record(PASSED, sandbox=off)) == (
        "Not fully sandboxed: landlock: the kernel has none; seccomp: off."
    )


# What students see when ------------------------------------------------------------------------------------------------


def test_a_preview_shows_each_moment_and_no_total_while_something_is_kept_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept_back = result(number="1.1.2", check="later", title="kept back", hidden=True, shown="hidden")
    document = gradescope.results(record(PASSED, kept_back), Settings(hidden_results="after_published"))
    (tmp_path / "results.json").write_text(gradescope.text(document))
    assert main(["preview", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    now, later = printed.split("after grades are published: ")
    assert "now: 1 of 2 tests, no total: a test is kept back" in now
    assert "after the due date: 1 of 2 tests, no total" in now
    assert "kept back  " not in now
    assert f"2 of 2 tests, {document.score:g} points" in later
    assert "1.1.2 ✗ kept back" in later
    assert "<p>" not in printed
    (tmp_path / "results.json").write_text("{}")
    assert main(["preview", str(tmp_path)]) == 2
    assert "is no results file of Gradescope" in capsys.readouterr().err
