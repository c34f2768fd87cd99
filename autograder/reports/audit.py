"""What an audit found, in a terminal and as one HTML page: the trials, and which check catches which mistake."""

from __future__ import annotations

import html
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder import audit, course, mutants, naming, stability, structure
from autograder import lab as labs
from autograder.audit import Audit
from autograder.reports.words import number
from autograder.result import Status, save
from autograder.sandbox.launcher import Zygote
from autograder.session import Session

MARKS = {Status.FAILED: "✗", Status.BLOCKED: "·", Status.ERROR: "!", Status.NOT_RUN: "?", Status.PASSED: ""}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1b1b1b; background: #fff; }
table { border-collapse: collapse; font-size: 13px; }
th, td { border: 1px solid #d8d8d8; padding: 2px 6px; text-align: center; }
th.name { text-align: left; font-weight: normal; white-space: nowrap; position: sticky; left: 0; background: #fff; }
th.check { writing-mode: vertical-rl; font-weight: normal; padding: 6px 2px; position: sticky; top: 0; background: #fff; }
td.meant { background: #cfe8d5; font-weight: bold; }
td.also { background: #f6e3c5; }
td.waits { color: #8a8a8a; }
.wide { overflow: auto; max-height: 90vh; border: 1px solid #d8d8d8; }
.fault { color: #9b1c1c; }
"""


def run(root: Path, names: Sequence[str], zygote: Zygote, out: Path | None, more: Collection[str] = ()) -> int:
    """Audit labs and print what was found. Exit status 1 where a law does not hold, or one of `more` finds a fault.

    Args:
        out: folder for the matrix as HTML.
        more: what is done beside the four laws: "mutants", "naming", "stability", "matrix".
    """
    console = Console(highlight=False)
    sound = True
    if not names:
        console.print("There is no lab to audit.")
    for fault in structure.orphans(root, course.labs(root)):
        sound = False
        console.print(Text(f"✗ {fault}", style="red"))
    for name in names:
        begun = time.monotonic()
        session = Session(labs.load(name, root), zygote)
        found = audit.run(session.lab, session)
        render(found, console, time.monotonic() - begun)
        sound = sound and not found.faults
        if "matrix" in more:
            console.print(table(found))
        for good, lines in _more(found, session, more):
            sound = sound and good
            for line in lines:
                console.print(Text(f"  {line}", style="" if good else "red"))
        session.close_reference()
        if out:
            save(page(found), out / f"audit-{name}.html")
            console.print(Text(f"matrix: {out / f'audit-{name}.html'}", style="dim"))
        console.print()
    return 0 if sound else 1


def _more(found: Audit, session: Session, more: Collection[str]) -> Iterator[tuple[bool, list[str]]]:
    """What is tried beside the four laws: whether it is as it should be, and the report."""
    if "naming" in more:
        counts = naming.run(session.lab, session.zygote)
        yield not counts.false, counts.lines()
    if "mutants" in more:
        mutated = mutants.survivors(session.lab, session)
        yield not mutated.of(mutants.SURVIVED) and not mutated.stale, mutated.lines()
    if "stability" in more:
        for outcome in stability.run(session.lab, session, [trial.record for trial in found.trials]):
            yield not outcome.changed, outcome.lines()


def render(found: Audit, console: Console, seconds: float) -> None:
    """The laws of one lab, a line each; then everything that is wrong."""
    lab = found.lab
    console.print(Text(lab.file.title, style="bold"))
    mistakes = found.of("mistake")
    named = found.naming()
    starter = ", ".join(number(trial.record.score) for trial in found.of("starter"))
    full = [*found.of("reference"), *found.of("alternative")]
    best = max((trial.record.score for trial in full), default=0)
    lines = [
        f"{len(lab.checks)} checks, {number(lab.max_score)} points",
        f"untouched starter: {starter} points",
        f"reference and {len(full) - 1} alternative{'' if len(full) == 2 else 's'}: "
        f"{sum(trial.record.score == best for trial in full)} of {len(full)} score {number(best)}",
        f"{len(mistakes)} mistakes: {sum(bool(trial.failed()) for trial in mistakes)} lose points, "
        + ", ".join(f"{count} {what}" for what, count in named.items()),
        f"caught by a single check: {len(found.caught_once())}; checks that no mistake fails, because they come after one "
        f"that fails already: {len(found.idle_checks()) - len(found.unproven)}",
        f"{len(found.trials)} hand-ins graded in {seconds:.0f} s",
    ]
    for line in lines:
        console.print(f"  {line}")
    if found.unproven:
        console.print(Text(f"  ! {doubt(found)}", style="yellow"))
    for fault in found.faults:
        console.print(Text(f"  ✗ {fault}", style="red"))
    if not found.faults:
        console.print(Text("  ✓ sound", style="green"))


def doubt(found: Audit) -> str:
    """What to do about checks that nothing was seen to fail."""
    return (
        f"nothing shows that these checks can fail: {', '.join(found.unproven)}. No mistake gives a value that they refuse, "
        "whatever they come after. Add the mistake that each is there for to mistakes.py, or break the reference by hand "
        "and see it fail"
    )


def table(found: Audit) -> Table:
    """Mistakes down, checks across, for a wide terminal."""
    grid = Table(show_lines=False, pad_edge=False)
    grid.add_column("mistake", no_wrap=True)
    for check in found.lab.checks:
        grid.add_column(check.number, justify="center")
    for trial in found.of("mistake"):
        grid.add_row(trial.name, *(MARKS[result.status] for result in trial.record.results))
    return grid


def page(found: Audit) -> str:
    """The matrix of mistakes and checks as one self-contained page."""
    lab = found.lab
    head = "".join(f'<th class="check">{check.number} {html.escape(check.title)}</th>' for check in lab.checks)
    rows = []
    for trial in found.of("mistake"):
        cells = []
        for result in trial.record.results:
            meant = trial.mistake is not None and trial.mistake.caught_by == result.check
            kind = {Status.FAILED: "meant" if meant else "also", Status.BLOCKED: "waits"}.get(result.status, "")
            cells.append(f'<td class="{kind}">{MARKS[result.status]}</td>')
        says = html.escape(trial.mistake.says if trial.mistake else "")
        rows.append(f'<tr><th class="name" title="{says}">{html.escape(trial.name)}</th>{"".join(cells)}</tr>')
    faults = "".join(f'<p class="fault">✗ {html.escape(fault)}</p>' for fault in found.faults) or "<p>✓ sound</p>"
    doubts = f"<p>! {html.escape(doubt(found))}</p>" if found.unproven else ""
    legend = (
        "<p>Rows are mistakes, columns are checks. ✗ on green: caught by the check that is meant for it; "
        "✗ on amber: another check fails, too; · waits for a check that failed.</p>"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(lab.file.title)}: audit</title>'
        f"<style>{STYLE}</style><h1>{html.escape(lab.file.title)}</h1>{faults}{doubts}{legend}"
        f'<div class="wide"><table><thead><tr><th class="name">mistake</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></html>"
    )
