"""What a grading says: one Result for each check, one Record for the hand-in.

`record.json` is the only coupling between grading and reporting: every report is made from it, and can be made again
without grading again. The models refuse what must never reach a report: a NaN score, points above the maximum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

SCHEMA_VERSION = 1


def encodable(text: str) -> str:
    r"""The text with lone surrogates written out, as `\ud800`: JSON and every encoding can hold it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# What may come from a hand-in: an exception's message, a file name, what was printed.
Text = Annotated[str, AfterValidator(encodable)]


class Status(str, Enum):
    """What happened to a check."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"  # something that it builds on failed first
    ERROR = "error"  # a fault of the grader, never of the student; see Result.unjudged
    NOT_RUN = "not run"  # the time of the whole run was used up


class Where(BaseModel):
    """A place in the student's own code."""

    model_config = ConfigDict(frozen=True)

    place: Text
    """Such as "attention.py:41" or "worksheet.ipynb cell 7 line 3"."""
    text: Text = ""
    """The line as the student wrote it."""


class Output(BaseModel):
    """What a student's code gave, in a few numbers (see outputs.py): equal outputs have equal ones, up to float noise."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    form: Text
    """Such as "(2, 5, 6), (2, 5, 7)"."""
    numbers: tuple[float, ...] = ()
    """Figures that stand for the values, rounded."""


Row = tuple[str, ...]


class Panel(BaseModel):
    """A value that is not what was expected, as a table of both that can be read: figures are texts, `nan` among them.

    Only of visible checks, on the inputs that students have themselves. At most a few rows and columns, around the
    worst place: `cut` says what of the whole is shown.
    """

    model_config = ConfigDict(frozen=True)

    name: Text
    """What the value is called, such as "y"."""
    place: Text = ""
    """Such as "sequence 1", where the value has more axes than a table."""
    row_axis: Text = ""
    """Such as "reader"."""
    column_axis: Text = ""
    """Such as "source"."""
    rows: Row
    """What stands before each row: "0", or with its token "0 The"."""
    columns: Row
    """What stands above each column."""
    expected: tuple[Row, ...]
    """What the reference gives, as texts."""
    got: tuple[Row, ...]
    """What the student's code gave."""
    difference: tuple[Row, ...]
    """got − expected; "" where they agree."""
    expected_sums: Row = ()
    """Of whole rows, where a sum means something."""
    got_sums: Row = ()
    """The same, of what came."""
    cut: Text = ""
    """What of the whole is shown, where it is not all."""


class Result(BaseModel):
    """One check of one hand-in. Texts are for the student, except `review`, which only staff read."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    check: str
    """The check's name in checks.py."""
    number: str
    """Such as "1.4.2"; the first two figures are the section."""
    title: str
    """What the check is about, as a student reads it."""
    section: str
    """Number of the section."""
    status: Status
    """One of passed, failed, blocked, error, not run."""
    score: float = Field(ge=0)
    """Points that were earned."""
    max_score: float = Field(ge=0)
    """Points that can be earned."""
    extra_credit: bool = False
    """On top of 100."""
    hidden: bool = False
    """Not handed out: its inputs and values are never told."""
    shown: str = "visible"
    """When the result may be seen, in Gradescope's words."""
    tags: tuple[str, ...] = ()
    """As gradescope-utils knows them, such as "question"."""
    gap: Text = ""
    """What came out and what was expected, in a sentence."""
    cause: Text = ""
    """The mistake that gives exactly this, in a sentence; empty where none is known."""
    mistakes: tuple[str, ...] = ()
    """Names of these mistakes in mistakes.py."""
    where: Where | None = None
    """The line to look at."""
    read: str = ""
    """Place in the handout, such as "README.md#no-loop"."""
    blocked_by: str = ""
    """Number of the check that must pass first."""
    printed: Text = ""
    """What the code printed meanwhile, cut."""
    panels: tuple[Panel, ...] = ()
    """Expected, got and difference, of visible checks that failed on values."""
    review: Text = ""
    """For staff only."""
    output: Output | None = None
    """Of wrong values that no mistake explains; for staff, who look for the next mistake."""
    seconds: float = 0.0
    """How long the check took."""

    @property
    def unjudged(self) -> bool:
        """Whether the grader failed and the points wait for another grading; where it costs nothing they stand."""
        return self.status is Status.ERROR and self.score < self.max_score

    @model_validator(mode="after")
    def _score_is_possible(self) -> Result:
        if self.score > self.max_score:
            raise ValueError(f"check {self.number}: score {self.score} is above its maximum {self.max_score}")
        if self.hidden and self.panels:
            raise ValueError(f"check {self.number} is hidden: what was expected must not stand in its result")
        return self


class SectionTotal(BaseModel):
    """The points of one part of the lab."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    number: str
    """Such as "1.4"."""
    title: str
    """As in lab.toml."""
    score: float
    """Points that were earned."""
    max_score: float
    """Points that can be earned."""
    extra_credit: bool = False
    """On top of 100."""


class HandIn(BaseModel):
    """Which bytes were graded."""

    model_config = ConfigDict(frozen=True)

    name: Text
    """Of the file, folder or zip that was handed in."""
    digest: str
    """SHA-256 of what was graded."""
    files: tuple[Text, ...]
    """Files of the lab that were found in it."""
    missing: tuple[Text, ...] = ()
    """Files of the lab that were not."""


class Record(BaseModel):
    """Everything that one grading found out. Full and private: reports redact it for their reader."""

    model_config = ConfigDict(allow_inf_nan=False)

    schema_version: int = SCHEMA_VERSION
    """Raised when a reader of old records would misread a new one."""
    lab: str
    """Folder of assignments/."""
    title: str
    """As in lab.toml."""
    hand_in: HandIn
    """Which bytes were graded."""
    notes: tuple[Text, ...] = ()
    """About the hand-in as a whole, for the student."""
    faults: tuple[Text, ...] = ()
    """Of the grader, for staff."""
    sandbox: dict[str, str] = {}
    """Layer → "on", or why it is off."""
    versions: dict[str, str] = {}
    """Of this framework, Python, torch, numpy and the system."""
    seed: str = ""
    """Digest of the lab's secret: tells two gradings apart without telling the secret."""
    language: str = "en"
    """Of the sentences."""
    sections: tuple[SectionTotal, ...] = ()
    """Points by section."""
    results: tuple[Result, ...] = ()
    """One for each check, in order."""
    score: float = 0.0
    """All points, extra credit included."""
    max_score: float = 0.0
    """Without extra credit."""
    extra_credit: float = 0.0
    """Points of extra credit in `score`."""
    complete: bool = False
    """False while checks are still to come: a killed run leaves such a record."""
    seconds: float = 0.0
    """How long the whole grading took."""


def points(scores: Iterable[float]) -> float:
    """The exact sum of points: 0.1 + 0.2 is 0.3 in a grade book."""
    return round(math.fsum(scores), 6)


def save(text: str, path: Path, *, private: bool = False) -> None:
    """Write `text` aside and rename it: whoever reads `path`, at any moment, finds a whole file.

    `private`: only its owner may read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    try:
        if private:  # one that a killed grader has left may be open to all
            aside.unlink(missing_ok=True)
        mode = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        opened = os.open(aside, mode, 0o600 if private else 0o666)  # from its first byte on
        with open(opened, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):  # on a full disk half a file would take the place that the next attempt needs
            aside.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk does not name the file
