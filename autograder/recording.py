"""The oracle of a student's copy: what the reference, and the reference with each mistake in it, answered to the probes of
the visible checks, as arrays. No source of either is in it.

The file is one frame (see sandbox/frames.py): read with the same checks as anything that comes from outside, and the same
bytes each time it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autograder.check import AuthoringError, Check, Mismatch, NeedsReview
from autograder.diagnose import Mistake, Tape, method_of, patches
from autograder.lab import Lab
from autograder.probes import Probes
from autograder.sandbox import frames
from autograder.sandbox.frames import FrameError
from autograder.sandbox.launcher import LaunchError, Zygote
from autograder.sandbox.proxy import GraderFault, Live, Oracle, Questions, Recorded, Recorder, Remote
from autograder.source import Source

Answers = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """What a student's copy knows of the reference."""

    lab: str
    contract: dict[str, list[str]]  # the names that each file of a hand-in should define
    reference: Answers
    mistaken: dict[str, Answers]
    mistakes: tuple[Mistake, ...]  # names and sentences, without the change


def record(lab: Lab, mistakes: Iterable[Mistake]) -> bytes:
    """Run each local check of a lab on the reference and on each mistake, and keep what was asked and answered."""
    with Zygote() as zygote:
        oracle = Live(zygote, lab.reference, None, 60)
        recorder = Recorder(oracle)
        kept = [item for item in mistakes if item.told == "cause"]
        for check in lab.checks:
            for draw in lab.draws(check):
                _must_pass(lab, check, draw, Tape(oracle), recorder)
        mistaken = {item.name: _answers(lab, item, oracle, recorder) for item in kept}
        told = [
            {
                "name": item.name,
                "of": item.of,
                "says": item.says,
                "look": list(item.look),
                "by": item.caught_by,
                "method": method_of(item, lab.reference, lab.main_module),
            }
            for item in kept
        ]
        known = {"lab": lab.name, "contract": lab.contract, "reference": recorder.answers}
        return frames.pack({**known, "mistaken": mistaken, "mistakes": told})


def load(path: Path) -> Recording:
    """The recording of a student's copy. Raises FrameError where the file is missing or damaged."""
    try:
        found = frames.unpack(path.read_bytes())
        mistakes = tuple(
            Mistake(
                item["name"], item["of"], {}, item["by"], item["says"], tuple(item["look"]), method=item["method"]
            )
            for item in found["mistakes"]
        )
        return Recording(found["lab"], found["contract"], found["reference"], found["mistaken"], mistakes)
    except (OSError, FrameError, KeyError, TypeError) as error:
        raise FrameError(f"{path.name} cannot be read ({error})") from error


def _answers(lab: Lab, mistake: Mistake, oracle: Live, recorder: Recorder) -> Answers:
    """What the reference with one mistake answers in every check of its symbol."""
    found: Answers = {}
    for check in lab.checks:
        if check.target != mistake.of:
            continue
        for draw in lab.draws(check):
            tape = Tape(oracle)
            for (module, symbol), source in patches([mistake], lab.reference, lab.main_module).items():
                oracle.ask("define", module=module, symbol=symbol, source=source)
            try:
                # The reference's own answers come from the recording: the oracle is mistaken just now.
                _run(lab, check, draw, tape, Recorded(recorder.answers))
            finally:
                oracle.ask("restore")
            questions = Questions(Probes(draw).seed)
            found |= {questions.key(verb, body): answer for verb, body, answer in tape.asked}
    return found


def _must_pass(lab: Lab, check: Check, draw: str, student: Tape, reference: Recorder) -> None:
    """Run a check on the reference. Raises AuthoringError where it does not pass: then nothing may be handed out."""
    try:
        _run(lab, check, draw, student, reference)
    except (AuthoringError, LaunchError):
        raise
    except Exception as error:
        kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
        raise AuthoringError(
            f"{check.origin}: {check.name}: the reference itself does not pass: {kind}{error}"
        ) from error


def _run(lab: Lab, check: Check, draw: str, student: Tape, reference: Recorder | Recorded) -> None:
    probes = Probes(draw)
    student.interpreter.ask("begin", seed=probes.seed)
    reference.ask("begin", seed=probes.seed)
    place, text = lab.reference.files[check.module]
    resources = {
        "student": Remote(student, lab.main_module),
        "reference": Remote(Oracle(reference), lab.main_module, lift=True),
        "probes": probes,
        "source": _source(text, place),
        "questions": lab.questions,
    }
    try:
        check.function(**{need: resources[need] for need in check.needs})
    except NeedsReview:
        return
    except GraderFault:
        raise
    except Exception:
        if isinstance(reference, Recorder):
            raise  # the reference itself does not pass a check: nothing may be handed out
        return  # of a mistaken reference; up to there it was asked


@lru_cache(maxsize=8)
def _source(text: str, place: str) -> Source:
    """A file of the reference, read once: each check is run on it for each mistake."""
    return Source.read(text.encode(), place)
