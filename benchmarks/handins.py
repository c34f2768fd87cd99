"""The class that every tool grades: one right solution and one with a fault, in turn, each of them a little different."""

from __future__ import annotations

import ast

from benchmarks import COURSE, HERE

SOLUTION = COURSE / "reference" / "twenty" / "twenty.py"
NATIVE = HERE / "native.py"
FULL = 40
# It fails one check, on which no other builds: so that each tool has the same points to find.
RIGHT = "(centred.square().mean(-1, keepdim=True) + self.epsilon).sqrt()"
WRONG = "(centred.square().mean(-1, keepdim=True).sqrt() + self.epsilon)"
FAULT_COSTS = 2
EVERY = 4


def text(student: int) -> str:
    """What a student handed in. No two are alike, so that none is graded from memory."""
    solution = SOLUTION.read_text(encoding="utf-8")
    assert RIGHT in solution
    return (solution.replace(RIGHT, WRONG) if faulty(student) else solution) + f"\n# student {student}\n"


def faulty(student: int) -> bool:
    """Whether the student's solution has the fault."""
    return student % EVERY == 1


def points(student: int) -> int:
    """What the hand-in is worth."""
    return FULL - FAULT_COSTS if faulty(student) else FULL


def name(student: int) -> str:
    """How the student is called."""
    return f"student{student:03}"


def check_names() -> list[str]:
    """The twenty checks, in their order. Read, not run: whoever measures holds no torch."""
    tree = ast.parse(NATIVE.read_text(encoding="utf-8"))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(item, ast.Name) and item.id == "twenty" for item in node.decorator_list)
    ]
