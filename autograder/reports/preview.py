"""What a student will see of a results file on Gradescope: now, after the due date, and once grades are published."""

from __future__ import annotations

import html
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from autograder.check import AuthoringError
from autograder.reports.gradescope import Results, Test
from autograder.reports.words import number

MOMENTS = ("now", "after the due date", "after grades are published")
# From which moment on a test shows; a hidden one never does.
FROM = {"visible": 0, "after_due_date": 1, "after_published": 2, "hidden": 3}


def read(path: Path) -> Results:
    """A results.json, or the one in a folder. Raises AuthoringError where it is none."""
    file = path / "results.json" if path.is_dir() else path
    try:
        return Results.model_validate_json(file.read_bytes())
    except (OSError, ValueError) as error:
        raise AuthoringError(f"{file} is no results file of Gradescope: {error}") from error


def seen(document: Results, moment: int) -> list[Test]:
    """The tests that a student sees at a moment (an index of MOMENTS)."""
    return [test for test in document.tests if FROM[test.visibility] <= moment]


def total(document: Results, moment: int) -> str:
    """The total that a student sees; Gradescope shows none while any test is kept back."""
    if len(seen(document, moment)) < len(document.tests):
        return "no total: a test is kept back"
    return f"{number(document.score)} points"


def render(document: Results, console: Console) -> None:
    """Print the three pages, the later ones by what they add."""
    console.print(Text("what Gradescope shows above the tests", style="bold"))
    console.print(Text(document.output))
    shown: set[str] = set()
    for moment, name in enumerate(MOMENTS):
        console.print()
        tests = seen(document, moment)
        head = f"{name}: {len(tests)} of {len(document.tests)} tests, {total(document, moment)}"
        console.print(Text(head, style="bold"))
        for test in tests:
            if test.number not in shown:
                style = "green" if test.status == "passed" else "red"
                console.print(Text(f"  {test.number} {test.name}  {number(test.score)} / {number(test.max_score)}", style=style))
                for line in as_lines(test):
                    console.print(Text(f"      {line}", style="dim"))
        shown |= {test.number for test in tests}
    never = [test.number for test in document.tests if test.visibility == "hidden"]
    if never:
        console.print(Text(f"\nnever shown to students: {', '.join(never)}", style="bold"))


def as_lines(test: Test) -> list[str]:
    """The words of a test's output, a line each."""
    text = test.output
    if test.output_format == "html":
        text = re.sub(r"<(style|title)\b.*?</\1>", "", text, flags=re.DOTALL)
        text = html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"</(p|tr|table|div|caption|h\d|li)>", "\n", text)))
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
