"""What becomes of the points that were earned: late deductions, attempts, rounding, extra credit. From settings and metadata.

The time of a hand-in is the platform's `created_at`, never the clock: a hand-in that is graded again in May was not late.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from autograder.course import Settings
from autograder.language import in_its_language, say
from autograder.result import Record, points

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Circumstances:
    """When a hand-in came and what came before it, as the platform tells; None where it does not."""

    created: datetime | None = None
    due: datetime | None = None
    earlier: tuple[tuple[datetime, float], ...] = ()  # attempts that were graded before this one: when, and their score


@dataclass(frozen=True)
class Verdict:
    """The score that counts, and the sentences that say how it came about."""

    score: float
    said: tuple[str, ...] = ()


def circumstances(known: dict[str, Any]) -> Circumstances:
    """From `submission_metadata.json`; what is missing or odd there is passed over.

    A due date of the student's own (an extension) goes before that of the assignment; in a group the latest counts.
    """
    assignment = mapping(known.get("assignment"))
    own = [_time(mapping(user.get("assignment")).get("due_date")) for user in mappings(known.get("users"))]
    due = max(filter(None, own), default=None) or _time(assignment.get("due_date"))
    graded = [item for item in mappings(known.get("previous_submissions")) if mapping(item.get("results")).get("tests")]
    earlier = [(_time(item.get("submission_time")), item.get("score")) for item in graded]
    return Circumstances(
        _time(known.get("created_at")),
        due,
        tuple((when, _number(score)) for when, score in earlier if when is not None),
    )


def days_late(facts: Circumstances, grace_minutes: float) -> int:
    """Days that have begun since the due date and the grace after it."""
    if facts.created is None or facts.due is None:
        return 0
    late = facts.created - facts.due - timedelta(minutes=grace_minutes)
    return max(0, math.ceil(late / DAY))


def next_attempt(facts: Circumstances, settings: Settings) -> datetime | None:
    """When another attempt will be graded, where the ones of the last 24 hours are used up; else None."""
    allowed = settings.attempts.per_day
    if not allowed or facts.created is None:
        return None
    recent = sorted(when for when, _ in facts.earlier if facts.created - DAY < when <= facts.created)
    return recent[-allowed] + DAY if len(recent) >= allowed else None


@in_its_language
def apply(record: Record, facts: Circumstances, settings: Settings) -> Verdict:
    """The score of a record under the course's settings."""
    said = []
    score = record.score
    if not settings.extra_credit and record.extra_credit:
        score = points([score, -record.extra_credit])
        extra = _figure(record.extra_credit)
        said.append(say("Extra credit ({points}) is not counted in this course.", points=extra))
    days = days_late(facts, settings.late.grace_minutes)
    lost = min(settings.late.most_percent, days * settings.late.percent_per_day)
    if days and lost:
        before, score = score, score * (1 - lost / 100)
        said.append(
            say(
                "Handed in late, on day {day} after the due date: {lost} % of {points} points are taken off.",
                day=days,
                lost=_figure(lost),
                points=_figure(before),
            )
        )
    return Verdict(rounded(score, settings.rounding), tuple(said))


def rounded(score: float, step: float) -> float:
    """To the nearest multiple of `step`, halves up; 0 leaves a score as exact as it is."""
    if not step:
        return points([score])
    return points([math.floor(points([score / step]) + 0.5) * step])


def _figure(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _time(text: Any) -> datetime | None:
    """A time with its zone; Gradescope writes ISO 8601."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return None
    return found if found.tzinfo else None


def _number(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return 0.0
    return found if math.isfinite(found) and found > 0 else 0.0


def mapping(value: Any) -> dict[str, Any]:
    """A part of the metadata that should be a dict; an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterable[dict[str, Any]]:
    """The dicts in a part of the metadata that should be a list of them."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
