"""Late deductions, attempts, rounding, extra credit: the right figure in each case."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import tiny

from autograder import course, policy
from autograder.check import AuthoringError
from autograder.course import Settings
from autograder.gradescope import run
from autograder.policy import Circumstances
from autograder.reports import gradescope
from autograder.result import HandIn, Record, Result, Status

DUE = datetime(2026, 11, 1, 23, 0, tzinfo=timezone(timedelta(hours=-7)))


def record(score: float = 80.0, extra: float = 0.0) -> Record:
    result = Result(check="c", number="1.1.1", title="t", section="1.1", status=Status.PASSED, score=1, max_score=1)
    hand_in = HandIn(name="x", digest="0", files=())
    return Record(lab="l", title="L", hand_in=hand_in, results=(result,), score=score, max_score=100, extra_credit=extra)


def settings(**keys: Any) -> Settings:
    return Settings.model_validate(keys)


def handed_in(minutes: float) -> Circumstances:
    return Circumstances(DUE + timedelta(minutes=minutes), DUE)


@pytest.mark.parametrize(
    ("minutes", "score"),
    [(-5, 80), (0, 80), (15, 80), (15.1, 72), (24 * 60 + 15, 72), (24 * 60 + 16, 64), (9 * 24 * 60, 40)],
    ids=["early", "on time", "within the grace", "day 1", "end of day 1", "day 2", "no more than the cap"],
)
def test_each_day_that_has_begun_costs_its_share(minutes: float, score: float) -> None:
    late = settings(late={"grace_minutes": 15, "percent_per_day": 10, "most_percent": 50})
    verdict = policy.apply(record(), handed_in(minutes), late)
    assert verdict.score == score
    assert bool(verdict.said) == (score < 80)


def test_a_deduction_is_told_in_figures() -> None:
    verdict = policy.apply(record(), handed_in(24 * 60 + 16), settings(late={"percent_per_day": 12.5}))
    assert verdict.said == ("Handed in late, on day 2 after the due date: 25 % of 80 points are taken off.",)
    assert verdict.score == 60


def test_nothing_is_taken_off_by_default_or_where_no_time_is_known() -> None:
    assert policy.apply(record(), handed_in(99_999), Settings()).score == 80
    assert policy.apply(record(), Circumstances(), settings(late={"percent_per_day": 50})).score == 80


@pytest.mark.parametrize(("step", "score"), [(0, 80.3), (0.5, 80.5), (1, 80), (0.1, 80.3), (10, 80)])
def test_rounding_is_to_the_nearest_step(step: float, score: float) -> None:
    assert policy.apply(record(80.3), Circumstances(), settings(rounding=step)).score == score
    assert policy.rounded(0.25, 0.5) == 0.5  # halves go up


def test_extra_credit_may_be_left_out() -> None:
    assert policy.apply(record(110, 10), Circumstances(), Settings()).score == 110
    left_out = policy.apply(record(110, 10), Circumstances(), settings(extra_credit=False))
    assert left_out.score == 100
    assert left_out.said == ("Extra credit (10) is not counted in this course.",)


METADATA = {
    "created_at": "2026-11-02T10:00:00.000000-07:00",
    "assignment": {"due_date": "2026-11-01T23:00:00.000000-07:00", "late_due_date": None},
    "users": [{"name": "A"}, {"name": "B", "assignment": {"due_date": "2026-11-03T23:00:00.000000-07:00"}}],
    "previous_submissions": [
        {"submission_time": "2026-11-02T09:00:00.000000-07:00", "score": 40.0, "results": {"tests": [{"number": "1"}]}},
        {"submission_time": "2026-11-02T09:30:00.000000-07:00", "score": 40.0, "results": {"tests": []}},
        {"submission_time": "2026-10-20T09:00:00.000000-07:00", "score": "12", "results": {"tests": [{"number": "1"}]}},
    ],
}


def test_a_students_own_due_date_goes_first() -> None:
    assert policy.days_late(policy.circumstances(METADATA), 0) == 0
    assert policy.days_late(policy.circumstances({**METADATA, "users": []}), 0) == 1


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"created_at": 5, "assignment": [], "users": {}, "previous_submissions": "x"},
        {"created_at": "yesterday", "assignment": {"due_date": "2026-13-01"}, "users": [3], "previous_submissions": [None]},
        {"created_at": "2026-11-02T10:00:00", "assignment": {"due_date": "2026-11-01T10:00:00"}},  # of which zone?
    ],
)
def test_odd_metadata_takes_nothing_off(known: dict[str, Any]) -> None:
    facts = policy.circumstances(known)
    assert policy.days_late(facts, 0) == 0
    assert policy.next_attempt(facts, settings(attempts={"per_day": 1})) is None


def test_attempts_of_a_day_are_counted_where_they_were_graded() -> None:
    facts = policy.circumstances(METADATA)
    assert policy.next_attempt(facts, settings(attempts={"per_day": 2})) is None
    again = policy.next_attempt(facts, settings(attempts={"per_day": 1}))
    assert again == datetime.fromisoformat("2026-11-03T09:00:00-07:00")
    assert policy.next_attempt(facts, Settings()) is None


def test_an_attempt_too_many_keeps_the_last_score_and_says_when(tmp_path: Path) -> None:
    root, place = tiny.make_course(tmp_path / "course"), tmp_path / "autograder"
    (root / "course.toml").write_text("[attempts]\nper_day = 1\n")
    (place / "submission").mkdir(parents=True)
    (place / "submission_metadata.json").write_text(json.dumps(METADATA))
    assert run.main("tiny", place, root) == 0
    document = json.loads((place / "results" / "results.json").read_text())
    assert document["score"] == 40
    said = "This attempt was not graded: 1 attempts are graded in 24 hours. The score of your last one stands. Next: 03 November"
    assert document["output"].startswith(said.replace("1 attempts are", "1 attempt is"))


def test_the_leaderboard_ranks_what_the_course_says() -> None:
    assert "leaderboard" not in json.loads(gradescope.text(gradescope.results(record(), Settings())))
    ranked = json.loads(gradescope.text(gradescope.results(record(), settings(leaderboard="checks"))))
    assert ranked["leaderboard"] == [{"name": "Checks passed", "value": 1.0, "order": "desc"}]
    late = gradescope.results(
        record(), settings(leaderboard="points", late={"percent_per_day": 50}), facts=handed_in(1)
    )
    assert late.score == 40
    assert late.leaderboard and late.leaderboard[0].value == 40


def test_a_misspelt_key_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text("[late]\npercent_per_days = 5\n")
    with pytest.raises(AuthoringError, match="late, percent_per_days: unknown key; did you mean 'percent_per_day'"):
        course.settings(tmp_path)
