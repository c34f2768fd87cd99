"""The oracle of a student's copy: what the reference answered to the probes of the visible checks, as arrays.

The file is one frame (see sandbox/frames.py): read with the same checks as anything that comes from outside, and the same
bytes each time it is made.
"""

from __future__ import annotations

from pathlib import Path

from autograder.check import NeedsReview
from autograder.lab import Lab
from autograder.probes import Probes
from autograder.sandbox import frames
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Live, Oracle, Recorded, Recorder, Remote
from autograder.source import Source


def record(lab: Lab) -> bytes:
    """Run each local check of a lab on the reference, and keep what it asked the reference and got."""
    with Zygote() as zygote:
        oracle = Live(zygote, lab.reference, None, 60)
        recorder = Recorder(oracle)
        sources = {module: Source.read(text.encode(), place) for module, (place, text) in lab.reference.files.items()}
        for check in lab.checks:
            probes = Probes(lab.probe_seed(check, secret=False))
            Oracle(oracle).ask("begin", seed=probes.seed)
            recorder.ask("begin", seed=probes.seed)
            resources = {
                "student": Remote(oracle, lab.main_module),
                "reference": Remote(recorder, lab.main_module, lift=True),
                "probes": probes,
                "source": sources[check.module],
                "questions": lab.questions,
            }
            try:
                check.function(**{need: resources[need] for need in check.needs})
            except NeedsReview:
                continue
        return frames.pack(recorder.answers)


def load(path: Path) -> Recorded:
    """The recording of a student's copy. Raises frames.FrameError where the file is damaged."""
    data = path.read_bytes()
    magic, header_size, body_size = frames.PREFIX.unpack_from(data)
    begin = frames.PREFIX.size
    if magic != frames.MAGIC or len(data) != begin + header_size + body_size:
        raise frames.FrameError("the recording is damaged")
    answers = frames.unpack(data[begin : begin + header_size], data[begin + header_size :])
    return Recorded(answers)
