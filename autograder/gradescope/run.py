"""One grading inside the image: `/autograder/submission` in, `/autograder/results/results.json` out, valid at any moment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.sandbox.launcher import LaunchError, Zygote

if TYPE_CHECKING:
    from autograder.grade import Sink
    from autograder.result import Record


def main(lab_name: str, root: Path, course_root: Path) -> int:
    """Grade the hand-in below `root`; whatever goes wrong, the results file says so and is valid."""
    from autograder import course
    from autograder.reports import files, gradescope
    from autograder.result import Status, save

    out = root / "results"
    earned: list[bool] = []

    try:
        write = files.writer(out, course.settings(course_root))

        def keep(record: Record) -> None:
            write(record)
            earned.append(any(result.status is not Status.NOT_RUN for result in record.results))

        grade(lab_name, root, course_root, keep)
    except Exception as error:  # the last line of defence: a student must never see an empty page
        sentence = str(error) if isinstance(error, LaunchError) else "the grader itself failed before it could begin."
        if not any(earned):  # else the file tells what was earned so far, and that the rest is missing
            save(gradescope.text(gradescope.failure(sentence)), out / "results.json")
        print(f"autograder: {type(error).__name__}: {error}")  # goes to results/stdout, which only staff see
    return 0


def grade(lab_name: str, root: Path, course_root: Path, sink: Sink) -> None:
    """Grade and write; raises what `main` turns into a results file."""
    with Zygote() as zygote:
        from autograder import lab
        from autograder.session import Session
        from autograder.submission import collect

        loaded = lab.load(lab_name, course_root)
        submission = collect(root / "submission", loaded.wanted)
        if number := metadata(root).get("id"):
            submission = replace(submission, name=f"submission {number}"[:60])
        with Session(loaded, zygote) as session:
            session.grade(submission, sink)


def metadata(root: Path) -> dict[str, Any]:
    """`submission_metadata.json`, or an empty dict where it is missing or not what Gradescope documents."""
    try:
        found = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
