"""A whole course in miniature, for tests that change or break one: one lab with a part, a hidden check and a question."""

from __future__ import annotations

import re
from pathlib import Path

from autograder import audit, bundle, messages
from autograder import lab as labs
from autograder.sandbox.launcher import Zygote
from autograder.session import Session

LAB = """
title = "Tiny lab: twice as much"
main = "tiny.py"
secret = "0123456789abcdef"

[limits]
seconds_per_call = 7
memory_mb = 2048

[[sections]]
number = "1.1"
title = "Twice"
points = 3

[[sections]]
number = "1.2"
title = "Questions"
points = 1.5
"""

CHECKS = '''"""The checks of the tiny lab."""

from __future__ import annotations

import numpy as np
from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight

from autograder import laws, rules
from autograder import questions as concept
from autograder.check import check, expect

HIDDEN_SIZES: tuple[int, ...] = (1, 11)
FIRST, SECOND = 3, 4


def two(student, reference, x):
    """Compare on x."""
    expected = reference.double(x)
    expect(student.double(x), axes="row column").equals(expected)


def recursively_unused(n):
    return recursively_unused(n - 1)


# 1.1 ----------------------------


@number("1.1.1")
@weight(2)
@check(target="double", read="#twice")
def doubled(student, reference, probes):
    """twice the input"""
    two(student, reference, probes.normal(FIRST, SECOND))


# The hidden edge: a single row, and eleven of them.
@number("1.1.2")
@weight(1)
@visibility("hidden")
@check(target="double", after="doubled", read="#twice")
def rows_of_edge_length(student, reference, probes):
    """very long and very short inputs come out right"""
    # An inner remark that nobody is to see.
    for rows in HIDDEN_SIZES:
        two(student, reference, probes.normal(rows, 2))


# The last remark, about a hidden thing.


@number("1.1.3")
@weight(0)
@check(target="double", after="doubled")
def input_stays(student, probes):
    """the input is left alone"""
    x = probes.normal(2, 3)
    _, (after,) = student.double.call_keeping_inputs(x)
    expect(after, "x after the call").equals(x, tolerance=0.0)


@number("1.2.1")
@weight(1.5)
@tags("question")
@check(target="ANSWERS", local=False)
def answer_growth(student, reference, questions):
    """what doubling does"""
    concept.judge(questions, "growth", student, reference)
'''

REFERENCE = '''"""The tiny lab."""

import torch
from torch import Tensor


def double(x: Tensor) -> Tensor:
    """Twice `x`, whatever its shape."""
    # BEGIN SOLUTION 1.1 return twice the input
    result_of_doubling = torch.add(x, x)
    return result_of_doubling
    # END SOLUTION


# BEGIN SOLUTION 1.2 answer the question
ANSWERS = {"growth": "B"}
# END SOLUTION
# BEGIN STARTER
# # TODO 1.2: a letter, or None
# ANSWERS: dict[str, str | None] = {"growth": None}
# END STARTER
'''

QUESTIONS = """
[growth]
prompt = "What does doubling do to 3?"
options.A.text = "It makes 5 of it."
options.A.implies = "Then doubling would add two."
options.B.text = "It makes 6 of it."
options.C.text = "It makes 9 of it."
options.C.implies = "Then doubling would be squaring."
"""

HANDOUT = """# Tiny lab

## Twice

Add x to itself.

## Questions

<!-- questions -->
"""

MISTAKES = """
from autograder.diagnose import mistake

CATALOGUE = [
    mistake(
        name="three_times",
        of="double",
        change={"torch.add(x, x)": "torch.add(x, x) + x"},
        caught_by="doubled",
        says="the input is added once too often.",
    ),
]
"""
ALTERNATIVE = """import torch


def double(x):
    return 2 * x


ANSWERS = {'growth': 'b'}
"""

REQUIREMENTS = "".join(
    f"{name}==1.0\n"
    for name in (
        "torch",
        "numpy",
        "msgpack",
        "rich",
        "jinja2",
        "pydantic",
        "gradescope-utils",
        "nbformat",
        "jinja2",
        'tomli==2;python_version<"3.11"#',
    )
)


def make_course(root: Path, name: str = "tiny") -> Path:
    """Write the course below `root`, and return `root`."""
    files = {
        f"assignments/{name}/lab.toml": LAB,
        f"assignments/{name}/checks.py": CHECKS,
        f"assignments/{name}/questions.toml": QUESTIONS,
        f"assignments/{name}/README.md": HANDOUT,
        f"reference/{name}/tiny.py": REFERENCE,
        "requirements.txt": REQUIREMENTS,
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def make_audited_course(root: Path) -> Path:
    """The same with a catalogue, an alternative called times_two, and its starter."""
    make_course(root)
    alternative = root / "reference" / "tiny" / "alternatives" / "times_two" / "tiny.py"
    alternative.parent.mkdir(parents=True)
    alternative.write_text(ALTERNATIVE, encoding="utf-8")
    (root / "assignments" / "tiny" / "mistakes.py").write_text(MISTAKES, encoding="utf-8")
    bundle.write_starter("tiny", root)
    return root


def make_chinese(root: Path) -> None:
    """Put the lab of the course into something like Chinese: a catalogue, and a handout with the anchors of the English one."""
    folder = root / "assignments" / "tiny"
    messages.update_lab("tiny", root, "zh")
    catalogue = folder / "locale" / "zh.po"
    text = catalogue.read_text(encoding="utf-8")
    text = re.sub(r'^msgid "(.+)"\nmsgstr ""$', r'msgid "\1"\nmsgstr "译文：\1"', text, flags=re.MULTILINE)
    catalogue.write_text(text, encoding="utf-8")
    assert messages.update_lab("tiny", root, "zh") == []
    handout = HANDOUT.replace("## Twice", '<a id="twice"></a>\n## 两倍').replace("## Questions", "## 问题")
    (folder / "README.zh.md").write_text(handout.replace("Add x to itself.", "把 x 加到自己上。"), encoding="utf-8")


def change(path: Path, old: str, new: str) -> None:
    """Replace a piece of a file that stands there exactly once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def audited(name: str, root: Path, zygote: Zygote) -> audit.Audit:
    """What the audit of a lab finds."""
    session = Session(labs.load(name, root), zygote)
    try:
        return audit.run(session.lab, session)
    finally:
        session.close_reference()
