"""The sentences of the feedback, from one source for every report, and what each reader may see of them.

What → gap → cause → where → next, at most twelve lines; one root cause once: what only waits for another check says so in
one line.
"""

from __future__ import annotations

from dataclasses import dataclass

from autograder.result import Record, Result, Status

SYMBOLS = {
    Status.PASSED: "✓",
    Status.FAILED: "✗",
    Status.BLOCKED: "–",
    Status.ERROR: "!",
    Status.NOT_RUN: "·",
}
HIDDEN = "This check is hidden: what it looks at is its title, its inputs are not shown."


@dataclass(frozen=True)
class Line:
    """One line of feedback: a label (`Where`, `Read`, or none) and the text."""

    label: str
    text: str


def number(value: float) -> str:
    """Points without a needless `.0`."""
    return f"{value:g}"


def score_words(result: Result) -> str:
    """`2 / 2`, `blocked by 1.4.2`, or `extra 3 / 3`."""
    if result.status is Status.BLOCKED:
        return f"blocked by {result.blocked_by}" if result.blocked_by else "blocked"
    if result.status is Status.NOT_RUN:
        return f"not run  0 / {number(result.max_score)}"
    words = f"{number(result.score)} / {number(result.max_score)}"
    return f"extra {words}" if result.extra_credit else words


def explain(result: Result) -> list[Line]:
    """Why points were lost, line by line. Empty for a check that passed or only waits."""
    if result.status is Status.PASSED or result.blocked_by:
        return []
    lines = [Line("", text) for text in result.gap.splitlines() if text.strip()]
    if result.cause:
        lines.append(Line("Cause", result.cause))
    if result.where:
        lines.append(Line("Where", "   ".join(filter(None, [result.where.place, result.where.text]))))
    if result.read:
        lines.append(Line("Read", result.read))
    if result.printed.strip():
        shown = result.printed.strip().splitlines()[:4]
        lines += [Line("Printed" if i == 0 else "", text[:200]) for i, text in enumerate(shown)]
    return lines


def total_words(record: Record) -> str:
    """`72 / 100 points` and what of it is extra credit."""
    base = f"{number(record.score - record.extra_credit)} / {number(record.max_score)} points"
    has_extra = any(section.extra_credit for section in record.sections)
    return f"{base} + {number(record.extra_credit)} extra credit" if has_extra else base


def for_student(record: Record) -> Record:
    """The record as a student may see it: nothing of hidden inputs and values, nothing that only staff read."""
    return record.model_copy(update={"results": tuple(_redacted(r) for r in record.results), "faults": (), "seed": ""})


def _redacted(result: Result) -> Result:
    if not result.hidden:
        return result.model_copy(update={"review": ""})
    tells = result.status in (Status.FAILED, Status.PASSED) and "question" not in result.tags
    quiet = {"review": "", "mistakes": (), "printed": ""}
    if result.status is Status.PASSED or not tells:
        return result.model_copy(update=quiet)
    return result.model_copy(update={**quiet, "gap": HIDDEN, "cause": "", "where": None})


def sandbox_warning(record: Record) -> str:
    """One sentence for staff where a layer of the sandbox is missing; empty where all are on."""
    off = [f"{layer}: {state}" for layer, state in record.sandbox.items() if state != "on"]
    return f"Not fully sandboxed: {'; '.join(off)}." if off else ""
