"""Rules on how a part is written: what of the file belongs to it, and what a count of operations says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autograder import rules
from autograder.check import NeedsReview, RuleBroken
from autograder.source import Source

LAYERS = """
def helper(x):
    return [row for row in x]

class Base:
    def forward(self, x):
        for row in x:
            pass

class Inherits(Base):
    def other(self, x):
        return x

class Layer(Base):
    def load(self, x):
        for row in x:
            pass
    def forward(self, x):
        return x

class Calls:
    def forward(self, x):
        return helper(x)

class Twice:
    def forward(self, x):
        return helper(x)
    def forward(self, x):
        return x
"""


def source(text: str) -> Source:
    return Source.read(text.encode(), "multihead.py")


def counting(**by_size: dict[str, int]) -> Callable[[int], dict[str, int]]:
    return lambda size: by_size["short" if size == 4 else "long"]


STEADY = counting(short={"aten.bmm.default": 2}, long={"aten.bmm.default": 2})


@pytest.mark.parametrize(
    ("qualname", "lines"),
    [
        ("Layer", [7, 16]),
        ("Layer.forward", []),
        ("Layer.load", [16]),
        ("Calls.forward", [3]),
        ("Inherits.forward", [7]),
        ("Inherits.missing", []),
        ("Twice.forward", []),
        ("nobody", []),
        ("nobody.forward", []),
    ],
)
def test_a_rule_looks_at_one_method_and_what_it_calls(qualname: str, lines: list[int]) -> None:
    assert [loop.line for loop in rules.Code(source(LAYERS), qualname).loops()] == lines


def test_bases_that_lead_in_a_circle_end() -> None:
    text = "class A(B): pass\nclass B(A): pass\n"
    assert rules.Code(source(text), "A.forward").loops() == []


def test_a_loop_of_another_method_breaks_no_rule() -> None:
    rules.no_loop(source(LAYERS), "Layer.forward", STEADY)
    with pytest.raises(NeedsReview, match=r"multihead.py:16 shows a for loop"):
        rules.no_loop(source(LAYERS), "Layer.load", STEADY)


def test_a_growing_count_names_the_size_that_grew() -> None:
    growing = counting(short={"aten.bmm.default": 4}, long={"aten.bmm.default": 9})
    with pytest.raises(RuleBroken, match=r"4 torch operations at H = 4, 9 at H = 9") as broken:
        rules.no_loop(source(LAYERS), "Layer.load", growing, letter="H")
    assert broken.value.line == 16
    with pytest.raises(RuleBroken, match="The work grows as a loop does"):
        rules.no_loop(source(LAYERS), "Layer.forward", growing)


def test_views_are_no_work_unless_a_loop_makes_them() -> None:
    """`tensor_split` dispatches one slice for each part."""
    views = counting(short={"aten.slice.Tensor": 4}, long={"aten.slice.Tensor": 9})
    rules.no_loop(source(LAYERS), "Layer.forward", views)
    with pytest.raises(RuleBroken, match="There is a comprehension"):
        rules.no_loop(source(LAYERS), "Calls.forward", views)
