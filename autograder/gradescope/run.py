"""One grading inside the image: `/autograder/submission` in, `/autograder/results/results.json` out, valid at any moment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.sandbox.launcher import LaunchError, Zygote

if TYPE_CHECKING:
    from autograder.result import Record


def main(lab_name: str, root: Path, course_root: Path) -> int:
    """Grade the hand-in below `root`; whatever goes wrong, the results file says so and is valid."""
    earned: list[bool] = []
    try:
        with Zygote() as zygote:  # first of all: torch loads while everything else is imported and read
            grade(zygote, lab_name, root, course_root, earned)
    except Exception as error:  # the last line of defence: a student must never see an empty page
        from autograder.language import say
        from autograder.reports import gradescope
        from autograder.result import save

        sentence = (
            str(error) if isinstance(error, LaunchError) else say("the grader itself failed before it could begin.")
        )
        if not any(earned):  # else the file tells what was earned so far, and that the rest is missing
            save(gradescope.text(gradescope.failure(sentence)), root / "results" / "results.json")
        print(f"autograder: {type(error).__name__}: {error}")  # goes to results/stdout, which only staff see
    return 0


def grade(zygote: Zygote, lab_name: str, root: Path, course_root: Path, earned: list[bool]) -> None:
    """Grade and write; raises what `main` turns into a results file. `earned`: for each file written, if it has a result."""
    from autograder import course, lab, language, policy
    from autograder.language import say
    from autograder.reports import files, gradescope
    from autograder.result import Status, save
    from autograder.session import Session
    from autograder.submission import collect

    known = metadata(root)
    settings, facts = course.settings(course_root), policy.circumstances(known)
    language.use(settings.language)
    again = policy.next_attempt(facts, settings)
    if again:
        save(gradescope.text(gradescope.too_many(facts, again, settings)), root / "results" / "results.json")
        return
    write = files.writer(root / "results", settings, failed_before(known), facts)

    def keep(record: Record) -> None:
        write(record)
        earned.append(any(result.status is not Status.NOT_RUN for result in record.results))

    loaded = lab.load(lab_name, course_root)
    with loaded.speaking():
        submission = collect(root / "submission", loaded.wanted)
    if number := known.get("id"):
        submission = replace(submission, name=say("submission {number}", number=number)[:60])
    with Session(loaded, zygote) as session:
        session.require_sandbox()
        session.grade(submission, keep)


def metadata(root: Path) -> dict[str, Any]:
    """`submission_metadata.json`, or an empty dict where it is missing or not what Gradescope documents."""
    try:
        found = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def failed_before(known: dict[str, Any]) -> frozenset[str]:
    """The numbers of the checks that failed in an earlier attempt, as the metadata tells; odd entries are passed over."""
    from autograder.policy import mapping, mappings

    attempts = mappings(known.get("previous_submissions"))
    tests = (test for attempt in attempts for test in mappings(mapping(attempt.get("results")).get("tests")))
    return frozenset(str(test.get("number", "")) for test in tests if test.get("status") == "failed")
