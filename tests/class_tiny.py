"""A small class for the miniature course of tiny.py: right, mistaken, wrong without a name, empty, hostile."""

from __future__ import annotations

from pathlib import Path

from tiny import change, make_course

from autograder.classroom.run import Wish

MISTAKES = """
from autograder.diagnose import mistake

TRIPLED = mistake(
    name="tripled",
    of="double",
    change={"torch.add(x, x)": "torch.add(x, 2 * x)"},
    caught_by="doubled",
    look=("add",),
    says="three times the input comes out, not twice.",
)
SQUARED = mistake(
    name="squared",
    of="double",
    change={"torch.add(x, x)": "torch.mul(x, x)"},
    caught_by="doubled",
    says="the input is squared.",
)
"""


def course(root: Path) -> Path:
    """The miniature course with a catalogue of two mistakes, and little patience."""
    make_course(root)
    (root / "assignments/tiny/mistakes.py").write_text(MISTAKES, encoding="utf-8")
    change(root / "assignments/tiny/lab.toml", "seconds_per_call = 7", "seconds_per_call = 1.0")
    return root


def double(body: str) -> str:
    """A hand-in whose part is written so."""
    return f'import torch\n\n\ndef double(x):\n    {body}\n\n\nANSWERS = {{"growth": "B"}}\n'


SOURCES = {
    "ann": double("return x * 2"),
    "bob": double("return torch.add(x, 2 * x)"),
    "cem": double("return x ** 2"),
    "dee": double("return x / 2"),
    "eve": double("half = x * 0.5\n    return half * (1 + 3e-7)"),  # the same as dee's, up to float noise
    "fay": double("return x / 3"),
    "gus": double("return x + x") + "import os\nos._exit(3)\n",
    "hal": "",
    "ian": double("return x * 2"),
}
POINTS = {"ann": 4.5, "bob": 1.5, "cem": 1.5, "dee": 1.5, "eve": 1.5, "fay": 1.5, "gus": 4.5, "hal": 0.0, "ian": 4.5}


def hand_ins(folder: Path) -> Path:
    """The class as a folder of folders; `hal` handed in nothing."""
    for name, text in SOURCES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        if text:
            (folder / name / "tiny.py").write_text(text, encoding="utf-8")
    return folder


def wish(submissions: Path, out: Path, **more: object) -> Wish:
    """What a caller asks for."""
    return Wish(**{"lab": "tiny", "submissions": submissions, "out": out, "workers": 2, **more})  # type: ignore[arg-type]
