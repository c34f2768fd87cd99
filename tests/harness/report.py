"""What a run on the platform came to: a row beside that of `grade` here, and what each reader sees."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from autograder.reports import preview
from autograder.reports.gradescope import Results
from autograder.reports.words import number
from harness.gradescope import TEXT_LIMIT, Outcome
from harness.handins import BEGAN, SUCCEEDED, HandIn

BEGINS = "<!-- written by `make platform TABLE=docs/platforms.md`: what stands between these marks is overwritten -->"
ENDS = "<!-- end of what is written -->"
HEAD = ("lab", "hand-in", "platform", "here", "equal", "s", "MB", "valid", "left")


@dataclass(frozen=True)
class Row:
    """One hand-in of one lab: on the platform, and graded here."""

    lab: str
    hand_in: HandIn
    outcome: Outcome
    here: Results | None  # None where the run was killed: there is nothing to compare with
    most: float = 0.0  # points that the lab gives

    @property
    def equal(self) -> bool:
        """Whether both gave the same results, times apart; the same points, where only these can be compared."""
        there, here = self.outcome.document, self.here
        if there is None or here is None:
            return False
        compared = points if self.hand_in.size_tells else without_times
        return compared(there) == compared(here)

    def cells(self) -> list[str]:
        """The row of the table."""
        ended, there = self.outcome.ended, self.outcome.document
        same = yes(self.equal) + (", points" if self.hand_in.size_tells else "")
        return [
            self.lab,
            self.hand_in.name,
            number(there.score) if there else "–",
            number(self.here.score) if self.here else "–",
            "–" if self.here is None else same,
            f"{ended.seconds:.1f}",
            f"{ended.peak / 1e6:.0f}",
            yes(there is not None),
            str(len(ended.left)),
        ]

    def faults(self) -> list[str]:
        """What is not as it must be, in sentences."""
        ended, there = self.outcome.ended, self.outcome.document
        found = [f"a process was left: {command}" for command in ended.left]
        if there is None:
            return [*found, self.outcome.fault]
        if self.here is not None and not self.equal:
            found.append(f"the platform's results differ from those of `grade`: {difference(there, self.here)}")
        if (self.here is None) != ended.limit:
            found.append(f"the run was {'not ' if self.here is None else ''}killed at the limit")
        least, most = (share * self.most for share in self.hand_in.worth)
        if not least <= there.score <= most:
            found.append(f"it scores {there.score:g}, not {least:g} to {most:g}")
        if self.here is None and "not finished" not in there.output:
            found.append(f"a killed run must say that it is not finished: {there.output}")
        texts = [there.output, *(test.output for test in there.tests)]
        if any(len(text) >= TEXT_LIMIT for text in texts):
            found.append("a text was cut by the platform, in the middle of whatever it was")
        if self.hand_in.attack:
            said = "\n".join([*texts, self.outcome.printed])
            found += [] if BEGAN in said else ["the attack did not run"]
            found += [f"an attack did something: look for {SUCCEEDED} in the results"] if SUCCEEDED in said else []
        return found


def without_times(document: Results) -> dict[str, object]:
    """All that must be equal on every machine."""
    return document.model_dump(exclude={"execution_time"})


def points(document: Results) -> dict[str, object]:
    """What was earned, and where."""
    return {"score": document.score, **{test.number: (test.score, test.status) for test in document.tests}}


def difference(there: Results, here: Results) -> str:
    """Where two results differ first."""
    pairs = [(f" of {one.number}", one, other) for one, other in zip(there.tests, here.tests)]
    for of, one, other in [*pairs, ("", there, here)]:
        for name in type(one).model_fields:
            ours, theirs = getattr(one, name), getattr(other, name)
            if ours != theirs and name != "execution_time":
                return f"{name}{of}: {ours!r:.300} and here {theirs!r:.300}"
    return "nothing"


def yes(value: bool) -> str:
    """In a word."""
    return "yes" if value else "NO"


def table(rows: list[Row]) -> str:
    """All rows, in Markdown."""
    lines = [HEAD, *(row.cells() for row in rows)]
    return "\n".join(
        [f"| {' | '.join(lines[0])} |", f"|{'---|' * len(HEAD)}", *(f"| {' | '.join(x)} |" for x in lines[1:])]
    )


def seen(outcome: Outcome) -> str:
    """What students see of a run, now and later, and what only staff see."""
    console = Console(file=io.StringIO(), width=100, color_system=None, highlight=False)
    if outcome.document is None:
        console.print(f"the platform has nothing to show: {outcome.fault}", markup=False)
    else:
        preview.render(outcome.document, console)
    console.print(f"\nwhat only staff see: the output of run_autograder\n{outcome.printed}", markup=False)
    text = console.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def keep(row: Row, folder: Path) -> None:
    """Write what one run left behind."""
    (folder / "results.json").write_text(row.outcome.ended.results or "", encoding="utf-8")
    (folder / "stdout").write_text(row.outcome.printed, encoding="utf-8")
    (folder / "preview.txt").write_text(seen(row.outcome), encoding="utf-8")


def put(text: str, page: Path) -> None:
    """Write the table into a page, between its marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    page.write_text(f"{before}{BEGINS}\n{text}\n{ENDS}{after}", encoding="utf-8")
