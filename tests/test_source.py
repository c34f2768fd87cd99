"""What is read of a source: lines, places, definitions, uses of a name, and the text without its story."""

from __future__ import annotations

import pytest
from sources import WHOLE, read

from autograder.source import Source


class TestSound:
    def test_a_sound_file_is_left_alone(self) -> None:
        source = read(WHOLE)
        assert (source.text, source.original, source.broken, source.notes) == (WHOLE, WHOLE, (), ())

    def test_lines_and_places(self) -> None:
        source = read("a = 1\r\nb = 2\r\n".replace("\r\n", "\n"))
        assert [source.line(n) for n in (0, 1, 2, 3, 9)] == ["", "a = 1", "b = 2", "", ""]
        assert source.where(2) == "attention.py:2"

    @pytest.mark.parametrize("tail", ["\f", "\x85", "\u2028", "\x1c", "\x0b"])
    def test_only_line_feeds_count_as_lines(self, tail: str) -> None:
        source = Source.read(f"x = 1  # {tail}\ndef f(): return 1\n".encode(), "a.py")
        span = source.find("f")
        assert span
        assert span.line == 2
        assert source.line(2) == "def f(): return 1"

    def test_warnings_of_the_compiler_are_not_ours(self, recwarn: pytest.WarningsRecorder) -> None:
        Source.read(b'x = "\\d"\nif x is 1: pass\n', "attention.py")
        assert not recwarn.list


class TestFind:
    def test_functions_classes_methods_names(self) -> None:
        source = read(WHOLE)
        spans = {
            name: source.find(name)
            for name in ("scores_of", "SelfAttention", "SelfAttention.forward", "no_loop", "ANSWERS")
        }
        assert {name: (span.first, span.line, span.last) for name, span in spans.items() if span} == {
            "scores_of": (13, 13, 18),
            "SelfAttention": (21, 21, 34),
            "SelfAttention.forward": (31, 32, 34),
            "no_loop": (37, 38, 42),
            "ANSWERS": (8, 8, 10),
        }
        assert source.find("gone") is None
        assert source.find("SelfAttention.gone") is None

    def test_the_last_definition_wins_and_the_others_are_listed(self) -> None:
        source = read("def f(): return 1\ndef f(): return 2\nif True:\n    def f(): return 3\n")
        span = source.find("f")
        assert span
        assert (span.line, span.earlier) == (4, (1, 2))

    def test_a_second_class_has_none_of_the_first_ones_methods(self) -> None:
        source = read("class A:\n    def f(self): pass\n    def g(self): pass\nclass A:\n    def f(self): pass\n")
        assert source.find("A.f").line == 5  # type: ignore[union-attr]
        assert source.find("A.g") is None

    def test_inherited_methods(self) -> None:
        source = read("class A:\n    def f(self): pass\nclass B(A):\n    pass\nclass C(C): pass\n")
        assert source.find("B.f").line == 2  # type: ignore[union-attr]
        assert source.find("C.f") is None

    def test_broken_ones(self) -> None:
        source = read("@dec\ndef f(x:\n    y = 1\n    return y\n\nANSWERS = {\n\ndef g(): return 1\n")
        span = source.find("f")
        assert span
        assert (span.first, span.line, span.last) == (1, 2, 4)
        assert source.find("ANSWERS").line == 6  # type: ignore[union-attr]
        mended = read("def f(x:\n    pass\n\ndef f(x):\n    return x\n")
        assert mended.find("f").line == 4  # type: ignore[union-attr]
        spoilt = read("def f(x):\n    return x\n\ndef f(x:\n    pass\n")
        assert spoilt.find("f").line == 4  # type: ignore[union-attr]
        assert spoilt.find("f").earlier == (1,)  # type: ignore[union-attr]


class TestLinesCalling:
    def test_every_way_to_use_it(self) -> None:
        text = """import torch.nn.functional as F
from torch import softmax as sm
norm = F.softmax
def a(x): return x.softmax(-1)
def b(x):
    return sm(x)
def c(x):
    return norm(x)
def d(x):
    return getattr(F, "softmax")(x)
def e(x):
    return (x
            .transpose(0, 1)
            .softmax(-1))
def f(x):
    softmax = x + 1
    return "softmax"
"""
        source = read(text)
        found = {name: source.lines_calling(name, ["softmax"]) for name in "abcdef"}
        assert found == {"a": [4], "b": [6], "c": [8], "d": [10], "e": [14], "f": []}

    def test_through_what_it_calls(self) -> None:
        source = read(WHOLE)
        assert source.lines_calling("SelfAttention.forward", ["softmax"]) == [29]
        assert source.lines_calling("SelfAttention.forward", ["sqrt"]) == [18]
        assert source.lines_calling("SelfAttention", {"softmax", "no_grad"}) == [29, 31]
        assert source.lines_calling("no_loop", ["softmax"]) == [39]
        assert source.lines_calling("last", ["softmax", "sqrt"]) == []
        assert source.lines_calling("gone", ["softmax"]) == []

    def test_recursion_ends(self) -> None:
        source = read("def f(x): return g(x)\ndef g(x): return f(x).softmax()\n")
        assert source.lines_calling("f", ["softmax"]) == [2]

    def test_inherited(self) -> None:
        source = read(
            "class A:\n    def f(self): return self.g()\n    def g(self): return softmax(1)\nclass B(A): pass\n"
        )
        assert source.lines_calling("B.f", ["softmax"]) == [3]


class TestDefinitionsOnly:
    def test_only_definitions_stay_on_their_lines(self) -> None:
        text = '''"""Doc."""
from __future__ import annotations
import math
try:
    import tqdm
except ImportError:
    tqdm = None
if math.pi > 3:
    import random
D = 4
PAIR: tuple[int, int] = (1, 2)
D += 1
print("hello")
while True:
    pass
for i in range(3):
    print(i)
@staticmethod
def f(x):
    return x
class A:
    x = 1
y = f(3)
z = y + 1
D2 = math.sqrt(2)
g = lambda: f(1)
table = {"f": f, "A": A}
model = A()
model.x = 2
import sys; sys.exit(); E = 5; w = f(
    3); h = 6
if __name__ == "__main__":
    f(1)
answer = input()
'''
        source = read(text)
        only = source.definitions_only()
        kept = {number: line for number, line in enumerate(only.split("\n"), start=1) if line}
        original = text.split("\n")
        assert kept.pop(30) == "import sys; E = 5"
        assert kept.pop(31) == "h = 6"
        assert set(kept) == {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 18, 19, 20, 21, 22, 25, 26, 27}
        assert all(original[number - 1] == line for number, line in kept.items())
        namespace: dict[str, object] = {"__name__": "hand_in"}
        exec(compile(only, "attention.py", "exec"), namespace)
        assert namespace["D"] == 5

    def test_of_a_repaired_file(self) -> None:
        only = read("def f(x:\n    pass\nwhile True: pass\ndef g(): return 1\n").definitions_only()
        namespace: dict[str, object] = {}
        exec(compile(only, "attention.py", "exec"), namespace)
        assert namespace["g"]() == 1  # type: ignore[operator]

    def test_a_sound_file_keeps_its_definitions(self) -> None:
        source = read(WHOLE)
        kept = Source.read(source.definitions_only().encode(), "attention.py")
        for name in ("scores_of", "no_loop", "last", "SelfAttention", "SelfAttention.forward", "ANSWERS"):
            assert kept.find(name) == source.find(name)
