"""The sentences of the feedback, from one source for every report, and what each reader may see of them.

What → gap → cause → where → next, at most twelve lines and 120 words; one root cause once: what only waits for another
check says so in one line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autograder.language import N_, TOKEN, in_its_language, say, words_in
from autograder.result import Record, Result, SectionTotal, Status, points

SYMBOLS = {
    Status.PASSED: "✓",
    Status.FAILED: "✗",
    Status.BLOCKED: "–",
    Status.ERROR: "!",
    Status.NOT_RUN: "·",
}
STATUSES = {
    Status.PASSED: N_("passed"),
    Status.FAILED: N_("failed"),
    Status.BLOCKED: N_("blocked"),
    Status.ERROR: N_("failed in the grader"),
    Status.NOT_RUN: N_("not run"),
}
# Of the tables of a wrong value.
EXPECTED, YOURS, DIFFERENCE = N_("expected"), N_("yours"), N_("yours − expected")
SUM, EDGES = N_("Σ row"), N_("● true, ○ false")
WRONG, AGREES, YES, NO = "✗", "·", "●", "○"
# Of the page as a whole.
SKIP, SECTIONS = N_("Skip to the results"), N_("Sections")
BEGIN_HERE = N_("Begin here:")
FOOT = N_("In the tables a frame marks a value that is not what was expected; · stands where both agree.")
HIDDEN = N_("This check is hidden: what it looks at is its title, its inputs are not shown.")
HIDDEN_BLOCKED = N_("This check is hidden: something that it needs is not there.")
# Of check.py, in a student's own folder.
ONLY_VISIBLE = N_(
    "These are the checks that you can run yourself. After handing in, hidden ones and the questions count too."
)
CHECKING = N_("checking …")
ALL_DONE = N_("Everything that can be checked here is right.")
# What stands before a line of feedback.
WHERE, READ, CAUSE, PRINTED = N_("Where"), N_("Read"), N_("Cause"), N_("Printed")
LINES = 12
WORDS = 120
GAP_LINES = 5
PRINTED_LINES = 3
GAP_WORDS = 50  # where a cause follows; alone, the gap may take what there is
WORD_LENGTH = 240
# Control characters drive a terminal, and direction marks turn what follows back to front. Both are written out.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Line:
    """One line of feedback: a label (`Where`, `Read`, or none) and the text."""

    label: str
    text: str
    kind: str = ""  # which label it is, in any language: where, read, cause, printed


def number(value: float) -> str:
    """Points without a needless `.0`, exact to the sixth digit behind the point."""
    return f"{round(value, 6) + 0.0:.6f}".rstrip("0").rstrip(".")  # + 0.0: never "-0"


def plain(text: str) -> str:
    """Text of a hand-in as it can be shown anywhere: what drives a terminal is written out."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def score_words(result: Result) -> str:
    """`2 / 2`, `blocked by 1.4.2`, or `extra 3 / 3`."""
    if result.status is Status.BLOCKED:
        return say("blocked by {number}", number=result.blocked_by) if result.blocked_by else say("blocked")
    words = f"{number(result.score)} / {number(result.max_score)}"
    if result.status is Status.NOT_RUN:
        return say("not run  {points}", points=words)
    if result.unjudged:
        return say("not judged  {points}", points=words)
    return say("extra {points}", points=words) if result.extra_credit else words


def section_title(section: SectionTotal) -> str:
    """`1.4 Title`, and that it is extra credit."""
    title = f"{section.number} {section.title}"
    return say("{title} (extra credit)", title=title) if section.extra_credit else title


def check_title(result: Result) -> str:
    """`1.4.2 title`, and that the check is hidden."""
    title = f"{result.number} {result.title}"
    hidden = result.hidden and "question" not in result.tags
    return say("{title} (hidden)", title=title) if hidden else title


def explain(result: Result) -> list[Line]:
    """Why points were lost, in at most LINES lines and WORDS words. Empty for a check that passed or only waits."""
    if result.status is Status.PASSED or result.blocked_by:
        return []
    end = []
    if result.where:
        code = _cut(result.where.text, 16)
        end.append(Line(say(WHERE), "   ".join(filter(None, [plain(result.where.place), code])), "where"))
    if result.read:
        end.append(Line(say(READ), result.read, "read"))
    printed = [line for line in plain(result.printed).splitlines() if line.strip()]
    # What was printed comes last and is the first to give way, but that something was printed is always said.
    left = WORDS - sum(_words(line) for line in end) - (9 if printed else 0)
    told = [line for line in plain(result.gap).splitlines() if line.strip()]
    start = [Line("", text) for text in _fitted(told, GAP_LINES, min(GAP_WORDS, left) if result.cause else left)]
    left -= sum(_words(line) for line in start)
    if result.cause:
        start.append(Line(say(CAUSE), _cut(" ".join(result.cause.split()), left - 1), "cause"))
        left -= _words(start[-1])
    return [*start, *end, *_printed(printed, left)]


def as_text(result: Result) -> str:
    """Why a check lost its points, as lines of text without a layout."""
    return "\n".join(f"{line.label}  {line.text}" if line.label else line.text for line in explain(result))


def total_words(record: Record) -> str:
    """`72 / 100 points` and what of it is extra credit."""
    known = {"score": number(record.score - record.extra_credit), "most": number(record.max_score)}
    if not any(section.extra_credit for section in record.sections):
        return say("{score} / {most} points", **known)
    return say("{score} / {most} points + {extra} extra credit", extra=number(record.extra_credit), **known)


def unjudged_words(record: Record) -> str:
    """What to do about the checks in which the grading machine failed; empty where there are none."""
    waiting = [result for result in record.results if result.unjudged]
    if not waiting:
        return ""
    worth = number(points(result.max_score for result in waiting))
    return say(
        "The grading machine failed: checks worth {points} points were not judged. "
        "Nothing is lost: ask your instructor to have this hand-in graded again.",
        points=worth,
    )


def section_words(section: SectionTotal) -> str:
    """`4.5 / 6`, of a section."""
    return f"{number(section.score)} / {number(section.max_score)}"


def remarks(record: Record) -> list[str]:
    """What is to be said of a grading as a whole, beside its points."""
    said = []
    hidden = sum(result.hidden for result in record.results)
    if hidden:
        said.append(
            say(
                "{hidden} of {all} checks are hidden: they tell their title and whether they passed.",
                hidden=hidden,
                all=len(record.results),
            )
        )
    if any(result.status is Status.ERROR and not result.unjudged for result in record.results):
        said.append(say("The grader failed in a check. That costs you nothing; please tell the staff."))
    if waiting := unjudged_words(record):
        said.append(waiting)
    if not record.complete:
        said.append(
            say("The grading is not finished. If this stays, it was stopped from outside: please tell the staff.")
        )
    return said


def progress(passed: int, of: int, earned: float, points_of: float) -> str:
    """`12 of 23 checks, 45 / 71 points`."""
    known = {"passed": passed, "all": of, "score": number(earned), "most": number(points_of)}
    return say("{passed} of {all} checks, {score} / {most} points", **known)


def answered(seconds: float) -> str:
    """How long after a save its answer stood there."""
    return say("{seconds} s after the save", seconds=f"{seconds:.2f}")


def save_again(main: str) -> str:
    """What to do in watch mode."""
    return say("save {file} to check it again, Ctrl-C to stop", file=main)


def nothing_fits(what: str, near: Sequence[str], sections: Sequence[str]) -> str:
    """That no check is called so, and what might have been meant."""
    if near:
        return say(
            "No check fits {what}. Did you mean {names}? (The questions are judged after you hand in.)",
            what=repr(what),
            names=say(" or ").join(near),
        )
    return say(
        "No check fits {what}. There are the sections {names}. (The questions are judged after you hand in.)",
        what=repr(what),
        names=say(", ").join(sections),
    )


def judged_in_cells(names: Sequence[str], main: str) -> str:
    """That a notebook's own definitions were judged, and how they are handed in."""
    return say(
        "Judged as the cells of this notebook define it: {names}. {file} was left aside: "
        "hand in the notebook alone, or copy the definitions to {file}.",
        names=say(", ").join(f"`{name}`" for name in names),
        file=main,
    )


def damaged(error: Exception) -> str:
    """That the student's copy of the checks cannot be read."""
    return say("The folder _check is damaged, so unzip the lab's zip once more: {error}", error=error)


def cannot_run(error: Exception) -> str:
    """That no process can be started for the student's code."""
    return say("Your file cannot be run here: {error}", error=error)


def put_beside(name: str, main: str) -> str:
    """Of a missing file of an earlier lab: where it belongs."""
    return say("Put your {file} beside {main}: this lab uses it.", file=name, main=main)


def no_main_file(main: str, folder: str) -> str:
    """Of the lab's own file, that it is missing."""
    return say("There is no {file} in {folder}: it is the file that you work on.", file=main, folder=folder)


@in_its_language
def for_student(record: Record, feedback: str = "cause", failed_before: Collection[str] = ()) -> Record:
    """The record as a student may see it: nothing of hidden inputs and values, nothing that only staff read.

    `feedback` is the course's setting; `failed_before` has the numbers of the checks that failed in an earlier attempt.
    """
    told = {"gap": (), "cause": {result.number for result in record.results}, "cause_on_second_attempt": failed_before}
    results = tuple(_redacted(result, result.number in told[feedback]) for result in record.results)
    return record.model_copy(update={"results": results, "faults": (), "seed": ""})


def _redacted(result: Result, tell_cause: bool) -> Result:
    result = result.model_copy(update={"output": None})
    if not tell_cause:
        result = result.model_copy(update={"cause": "", "mistakes": ()})
    if not result.hidden:
        return result.model_copy(update={"review": ""})
    quiet = {"review": "", "mistakes": (), "printed": "", "panels": ()}
    if "question" in result.tags:  # says what the chosen option would imply, and nothing of the right one
        return result.model_copy(update=quiet)
    # Of the student's own code, too, nothing is told: an exception's message can carry the hidden input that it met.
    missing = "" if result.blocked_by else say(HIDDEN_BLOCKED)
    gap = {Status.FAILED: say(HIDDEN), Status.BLOCKED: missing, Status.PASSED: ""}
    return result.model_copy(
        update={**quiet, "gap": gap.get(result.status, result.gap), "cause": "", "where": None}  # the rest is ours
    )


def sandbox_warning(record: Record) -> str:
    """One sentence for staff where a layer of the sandbox is missing; empty where all are on."""
    off = [f"{layer}: {state.rstrip('.')}" for layer, state in record.sandbox.items() if state != "on"]
    return f"Not fully sandboxed: {'; '.join(off)}." if off else ""


def _words(line: Line) -> int:
    return words_in(f"{line.label} {line.text}")


def _cut(text: str, words: int) -> str:
    """The first words of one line, with `…` in place of what is left out."""
    shown = plain(text)
    found = shown.split()
    if words_in(shown) != len(found):  # Chinese, which can be cut anywhere but within a word of another script
        return _cut_between(shown, words)
    kept = [word if len(word) <= WORD_LENGTH else f"{word[:WORD_LENGTH]}…" for word in found[: max(words, 1)]]
    if len(found) <= words and kept == found:
        return shown
    return " ".join(kept) + ("…" if len(found) > words else "")


def _cut_between(text: str, words: int) -> str:
    for found in TOKEN.finditer(text):
        if len(found[0]) > WORD_LENGTH:
            return text[: found.start() + WORD_LENGTH] + "…"
        if words_in(text[: found.end()]) > max(words, 1):
            return text[: found.start()].rstrip(" ，、：；") + "…"
    return text


def _fitted(lines: list[str], most: int, words: int) -> list[str]:
    fitted: list[str] = []
    for line in lines[:most]:
        fitted.append(_cut(line, words))
        words -= words_in(line)
        if words <= 0:
            break
    if len(fitted) < len(lines) and not fitted[-1].endswith("…"):
        fitted[-1] += "…"
    return fitted


def _printed(lines: list[str], words: int) -> list[Line]:
    """The beginning of what the hand-in printed, and how much more there is."""
    shown = [Line("", text) for text in _fitted(lines, PRINTED_LINES, words)] if lines and words > 0 else []
    more = len(lines) - len(shown)
    if more:
        left_out = N_("and {number} more lines that are not shown") if shown else N_("{number} lines, not shown")
        shown.append(Line("", say(left_out, number=more)))
    return [Line(say(PRINTED), shown[0].text, "printed"), *shown[1:]] if shown else []
