"""The record as Gradescope's results.json, and a pydantic model of that format: what does not fit it is never written.

Source: Gradescope's autograder specification, "Output format" (as of 2026); `extra="forbid"` because a misspelt key is ignored
there in silence.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from autograder import policy
from autograder.course import Settings
from autograder.language import N_, in_its_language, say, say_many
from autograder.reports import feedback
from autograder.reports.words import SYMBOLS, as_text, for_student, plain, remarks, total_words
from autograder.result import Record, Result, Status

TEXT_CAP = 20_000
MONTHS = (
    *(N_("January"), N_("February"), N_("March"), N_("April"), N_("May"), N_("June")),
    *(N_("July"), N_("August"), N_("September"), N_("October"), N_("November"), N_("December")),
)
Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]
Format = Literal["text", "html", "simple_format", "md", "ansi"]


class Test(BaseModel):
    """One line of the student's page."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    __test__ = False  # not a pytest class, whatever it is called

    score: float = Field(ge=0)
    max_score: float = Field(ge=0)
    status: Literal["passed", "failed"]
    name: str
    number: str
    output: str = ""
    output_format: Format = "text"
    tags: list[str] = []
    visibility: Visibility = "visible"


class Rank(BaseModel):
    """One column of the leaderboard."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str
    value: float
    order: Literal["asc", "desc"] = "desc"


class Results(BaseModel):
    """The whole file. `score` overrides the sum of the tests."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    score: float = Field(ge=0)
    execution_time: float = Field(ge=0)
    output: str
    output_format: Format = "text"
    visibility: Visibility = "visible"
    stdout_visibility: Visibility = "hidden"
    tests: list[Test]
    leaderboard: list[Rank] | None = None
    extra_data: dict[str, Any] = {}


@in_its_language
def results(
    record: Record,
    settings: Settings,
    failed_before: Collection[str] = (),
    facts: policy.Circumstances | None = None,
) -> Results:
    """What a student may see of a record, in Gradescope's form; `failed_before`: numbers of checks, of earlier attempts."""
    shown = for_student(record, settings.feedback, failed_before)
    verdict = policy.apply(record, facts or policy.Circumstances(), settings)
    tests = [_test(result, settings, record.language) for result in shown.results]
    output = [total_words(shown), *verdict.said, *remarks(shown), *(plain(note) for note in shown.notes)]
    return Results(
        score=verdict.score,
        execution_time=record.seconds,
        output="\n".join(output)[:TEXT_CAP],
        tests=tests,
        leaderboard=_leaderboard(record, verdict.score, settings),
        extra_data={"schema_version": record.schema_version, "lab": record.lab, "digest": record.hand_in.digest},
    )


def too_many(facts: policy.Circumstances, again: datetime, settings: Settings) -> Results:
    """The file for an attempt beyond those of a day: the score of the attempt before it stands."""
    score = max(facts.earlier)[1]
    allowed = settings.attempts.per_day
    output = say_many(
        allowed,
        "This attempt was not graded: {number} attempt is graded in 24 hours. The score of your last one stands. Next: {time}.",
        "This attempt was not graded: {number} attempts are graded in 24 hours. The score of your last one stands. "
        "Next: {time}.",
        number=allowed,
        time=_time(again),
    )
    return Results(score=score, execution_time=0, output=output, tests=[])


def _time(when: datetime) -> str:
    """A time of this year with its zone, where it has a name: `02 May, 14:00 UTC`."""
    return say(
        "{day} {month}, {time}", day=f"{when:%d}", month=say(MONTHS[when.month - 1]), time=f"{when:%H:%M %Z}".strip()
    )


def _leaderboard(record: Record, score: float, settings: Settings) -> list[Rank] | None:
    if settings.leaderboard == "off":
        return None
    passed = sum(result.status is Status.PASSED for result in record.results)
    ranks = {"points": Rank(name=say("Points"), value=score), "checks": Rank(name=say("Checks passed"), value=passed)}
    return [ranks[settings.leaderboard]]


def failure(sentence: str) -> Results:
    """The file for a grading that could not begin: valid, with what to do in it."""
    said = plain(sentence)
    output = say(
        "Your hand-in could not be graded, and this is not your fault: {why}\nPlease tell the staff.",
        why=said[:TEXT_CAP],
    )
    return Results(score=0, execution_time=0, output=output, tests=[])


def text(document: Results) -> str:
    """The file's text: ASCII, so that no surrogate or odd character can spoil it."""
    return json.dumps(document.model_dump(exclude_none=True), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _test(result: Result, settings: Settings, language: str) -> Test:
    # Cut in the middle of an element, HTML would spoil the rest of the page; plain text can be cut anywhere.
    output, title = feedback.fragment(result, language), f"{SYMBOLS[result.status]} {result.title}"
    is_html = 0 < len(output) <= TEXT_CAP
    visibility = result.shown if result.shown != "hidden" else _hidden(settings)
    return Test(
        score=result.score,
        max_score=result.max_score,
        status="failed" if result.unjudged or result.status not in (Status.PASSED, Status.ERROR) else "passed",
        name=say("{title} (extra credit)", title=title) if result.extra_credit else title,
        number=result.number,
        output=output if is_html else as_text(result)[:TEXT_CAP],
        output_format="html" if is_html else "text",
        tags=list(result.tags),
        visibility=cast(Visibility, visibility),  # the model refuses what is none
    )


def _hidden(settings: Settings) -> str:
    """Where hidden checks show title and verdict they are visible: one hidden test would hide the student's total."""
    return "visible" if settings.hidden_results == "title" else settings.hidden_results
