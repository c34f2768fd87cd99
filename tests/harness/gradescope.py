"""The platform itself: how Gradescope builds an image from an autograder's zip, and runs a submission in it.

From its documentation (specifications, submission metadata, base images, technical details): the zip is unpacked to
`/autograder/source`, `run_autograder` copied beside it, `setup.sh` run once as root. For each submission a fresh container gets
the files and the metadata; `run_autograder` runs in `/autograder`; then `results/results.json` is read, whatever it holds. At the
time limit the harness kills the one process that it started, and it cuts texts.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autograder.reports.gradescope import Results
from harness import CannotRun, machine
from harness.container import Container, Ended, Limits
from harness.handins import HandIn, put

TEXT_LIMIT = 100_000  # characters
UNPACK = """set -e
mkdir -p /autograder/source /autograder/submission /autograder/results
unzip -q -n -d /autograder/source /autograder.zip
rm /autograder.zip
cp /autograder/source/run_autograder /autograder/run_autograder
dos2unix -q /autograder/run_autograder /autograder/source/setup.sh
chmod +x /autograder/run_autograder
"""
SET_UP = """set -e
apt-get update -qq
bash /autograder/source/setup.sh
apt-get clean
rm -rf /var/lib/apt/lists/* /tmp/* /var/tmp/*
"""
TIME_FORM = "%Y-%m-%dT%H:%M:%S.%f"
UTC_OFFSET = "-07:00"


@dataclass(frozen=True)
class Image:
    """What one autograder's zip was built into: the layers of its root, topmost first."""

    layers: tuple[Path, ...]
    seconds: float  # that setup.sh took; 0 where the image was there


def build(base: Path, archive: Path, folder: Path) -> Image:
    """Build an image in a folder, or take the one that was built there from the same zip. Raises CannotRun."""
    container = Container((base,), folder)
    layers = (container.upper, base)
    stamp, wanted = folder / "made", hashlib.sha256(archive.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return Image(layers, 0.0)
    container.clear()
    shutil.copy(archive, container.upper / "autograder.zip")
    seconds = 0.0
    for step, script in (("unpacking", UNPACK), ("setup.sh", SET_UP)):
        log = folder / f"{step}.log"
        done = container.run(
            ("bash", "-c", script), log, environment=machine.pip_variables(), shared=tuple(machine.pip_files())
        )
        if done.status:
            last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
            raise CannotRun(f"the image was not built: {step} ended with {done.status}; the end of {log}:\n{last}")
        seconds = done.seconds
    stamp.write_text(wanted, encoding="utf-8")
    return Image(layers, seconds)


def metadata(number: int, title: str, total: str, created: datetime, earlier: Sequence[Any] = ()) -> dict[str, Any]:
    """`submission_metadata.json` of a hand-in in time, in the form that is documented. `created`: without a time zone."""

    def at(days: float) -> str:
        return (created + timedelta(days=days)).strftime(TIME_FORM) + UTC_OFFSET

    return {
        "id": number,
        "created_at": at(0),
        "assignment": {
            "due_date": at(7),
            "group_size": None,
            "group_submission": False,
            "id": 25828,
            "course_id": 1234,
            "late_due_date": None,
            "release_date": at(-7),
            "title": title,
            "total_points": total,
        },
        "submission_method": "upload",
        "users": [{"email": "student@example.com", "id": 1234, "name": "Student User"}],
        "previous_submissions": list(earlier),
    }


@dataclass(frozen=True)
class Outcome:
    """What the platform has when a run is over."""

    ended: Ended
    document: Results | None  # as it is shown: cut
    fault: str  # what is wrong with the results file; "" where it is valid
    printed: str  # what staff see of the output, cut


def graded(
    image: Image, one: HandIn, folder: Path, known: dict[str, Any], limits: Limits, points: float = 0.0
) -> Outcome:
    """Run a hand-in in a fresh view of an image, in an empty folder. `known`: its metadata.

    `points`: how many end the run of one that is killed.
    """
    container = Container(image.layers, folder / "container")
    container.clear()
    put(one, folder / "hand-in")
    inside = container.upper / "autograder"
    shutil.copytree(folder / "hand-in", inside / "submission")
    (inside / "submission_metadata.json").write_text(json.dumps(known), encoding="utf-8")
    ended = container.run(
        ("/autograder/run_autograder",),
        container.root / "autograder/results/stdout",
        limits,
        results="/autograder/results/results.json",
        points=points if one.killed else 0.0,
        landlock=one.landlock,
    )
    shutil.copytree(inside / "results", folder / "results")
    document, fault = received(ended.results)
    stdout = (inside / "results/stdout").read_text(encoding="utf-8", errors="replace")
    return Outcome(ended, document, fault, cut(stdout))


def received(text: str | None) -> tuple[Results | None, str]:
    """What the platform makes of a results file: as it is shown, or what is wrong with it."""
    if text is None:
        return None, "there is no results.json"
    try:
        found = Results.model_validate_json(text)
    except ValidationError as error:
        return None, f"results.json is not valid: {error.errors()[0]['msg']}"
    tests = [test.model_copy(update={"output": cut(test.output)}) for test in found.tests]
    return found.model_copy(update={"output": cut(found.output), "tests": tests}), ""


def cut(text: str) -> str:
    """A text as long as the platform keeps it."""
    return text[:TEXT_LIMIT]
