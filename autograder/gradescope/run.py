"""One grading inside the image: `/autograder/submission` in, `/autograder/results/results.json` out, valid at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autograder.sandbox.launcher import LaunchError, Zygote


def main(lab_name: str, root: Path, course_root: Path) -> int:
    """Grade the hand-in below `root`; whatever goes wrong, the results file says so and is valid."""
    from autograder.reports import gradescope
    from autograder.result import save

    out = root / "results"
    try:
        grade(lab_name, root, course_root, out)
    except Exception as error:  # the last line of defence: a student must never see an empty page
        print(f"autograder: {type(error).__name__}: {error}")  # goes to results/stdout, which only staff see
        sentence = str(error) if isinstance(error, LaunchError) else "the grader itself failed before it could begin."
        save(gradescope.text(gradescope.failure(sentence)), out / "results.json")
    return 0


def grade(lab_name: str, root: Path, course_root: Path, out: Path) -> None:
    """Grade and write; raises what `main` turns into a results file."""
    with Zygote() as zygote:
        from autograder import course, lab
        from autograder.reports import files
        from autograder.session import Session
        from autograder.submission import collect

        loaded = lab.load(lab_name, course_root)
        submission = collect(root / "submission", loaded.wanted)
        with Session(loaded, zygote) as session:
            session.grade(submission, files.writer(out, course.settings(course_root)))


def metadata(root: Path) -> dict[str, Any]:
    """`submission_metadata.json`, or an empty dict where it is missing or not what Gradescope documents."""
    try:
        found = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
