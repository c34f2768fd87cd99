"""Files as students break them: what each fault costs, what it must not cost, and that nothing ever raises."""

from __future__ import annotations

import ast
import random
import time
from collections.abc import Callable

import pytest
from fuzzing import examples
from hypothesis import given
from hypothesis import strategies as st
from sources import WHOLE, read

from autograder.source import Source


def names(source: Source) -> set[str]:
    """What the file defines and the repair did not take."""
    lost = {item.name for item in source.broken}
    defined = {node.name for node in source.tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return defined - lost


def run(source: Source) -> dict[str, object]:
    """Execute a repaired source of our own making."""
    namespace: dict[str, object] = {"__name__": "hand_in"}
    exec(compile(source.text, source.name, "exec"), namespace)
    return namespace


def raises_when_used(thing: object) -> str:
    assert callable(thing)
    with pytest.raises(SyntaxError) as caught:
        thing(1, key=2)
    return str(caught.value)


def fault(old: str, new: str) -> str:
    assert WHOLE.count(old) == 1
    return WHOLE.replace(old, new)


LOST_ALONE: dict[str, tuple[str, str, int]] = {
    # fault: the text, what is lost, the line that is named
    "missing colon": (fault("def last(x):", "def last(x)"), "last", 45),
    "unclosed bracket": (fault("math.sqrt(query.shape[-1])", "math.sqrt(query.shape[-1]"), "scores_of", 18),
    "unclosed header": (fault("def no_loop(query, key, value):", "def no_loop(query, key, value:"), "no_loop", 38),
    "unterminated docstring": (
        fault('    Shapes as in the handout.\n    """', "    Shapes as in the handout."),
        "scores_of",
        14,
    ),
    "unterminated string": (fault("return x\n", "return x + 'a\n"), "last", 46),
    "inconsistent indentation": (fault("    return weights @ value\n", "  return weights @ value\n"), "no_loop", 42),
    "stray line": (fault("    weights = F", "weights = F"), "no_loop", 39),
    "tabs": (fault("    return weights @ value\n", "\tif 1:\n        return weights @ value\n"), "no_loop", 42),
    "conflict": (
        fault(
            "    return weights @ value\n",
            "<<<<<<< HEAD\n    return weights @ value\n=======\n    return 1\n>>>>>>> b\n",
        ),
        "no_loop",
        42,
    ),
    "fence inside": (fault("    return x\n", "    y = x\n```\n    return y\n"), "last", 47),
    "decorator": (fault("@torch.no_grad()\ndef no_loop", "@torch.no_grad(\ndef no_loop"), "no_loop", 37),
    "method": (
        fault("return normalise(scores_of(self.q(x), x), dim=-1)", "return normalise(scores_of("),
        "SelfAttention.weights",
        29,
    ),
    "method header": (fault("def weights(self, x):", "def weights(self, x)"), "SelfAttention.weights", 28),
    "decorated method": (
        fault("        return weights @ x\n", "        return weights @\n"),
        "SelfAttention.forward",
        34,
    ),
    "class header": (
        fault("class SelfAttention(torch.nn.Module):", "class SelfAttention(torch.nn.Module:"),
        "SelfAttention",
        21,
    ),
    "assignment": (fault('"C",\n', '"C" "D"; \n'), "ANSWERS", 9),
    "dict not closed": (fault('"C",\n}\n', '"C",\n'), "ANSWERS", 8),
    "capital": (fault("def last", "Def last"), "last", 45),
    "slipped": (fault("def last", "  def last"), "last", 45),
    "python 2": (fault("return x\n", "print x\n"), "last", 46),
    "assign to call": (fault("    return x\n", "    f(x) = 1\n    return x\n"), "last", 46),
    "too deep": (fault("return x\n", f"return {'-' * 50_000}x\n"), "last", 45),
    "deep tree": (fault("return x\n", f"return {'1+' * 500}x\n"), "last", 46),
    "too many brackets": (fault("return x\n", f"return {'(' * 300}x{')' * 300}\n"), "last", 46),
}
ALL = {"scores_of", "SelfAttention", "no_loop", "last"}


class TestRepair:
    @pytest.mark.parametrize("kind", LOST_ALONE)
    def test_costs_what_it_stands_in(self, kind: str) -> None:
        text, lost, line = LOST_ALONE[kind]
        source = read(text)
        assert {item.name for item in source.broken} == {lost}
        assert names(source) == ALL - {lost}
        (item,) = source.broken
        assert item.first <= item.line <= item.last
        assert item.line == line
        (note,) = source.notes
        assert note.severity == "warning"
        assert note.text.startswith(f"attention.py:{line}: SyntaxError: ")
        assert f"`{lost}` cannot be graded" in note.text
        if lost != "ANSWERS":
            assert source.find("ANSWERS")
        # What is left stays where it was.
        for name in ALL - {lost.partition(".")[0]}:
            span = source.find(name)
            assert span
            assert name in source.line(span.line)

    def test_the_stub_says_why_at_the_line_of_the_error(self) -> None:
        source = read("def good():\n    return 1\n\ndef bad(x):\n    y = 1\n    return (x\n")
        namespace = run(source)
        assert namespace["good"]() == 1  # type: ignore[operator]
        assert "attention.py line 6: '(' was never closed" in raises_when_used(namespace["bad"])
        with pytest.raises(SyntaxError) as caught:
            namespace["bad"]()  # type: ignore[operator]
        assert caught.traceback[-1].lineno + 1 == 6
        assert source.line(6) == "    return (x"

    def test_stubs_of_classes_methods_and_one_liners(self) -> None:
        text = """
class Base(:
    def f(self): return 1

class Sub(Base):
    def __init__(self):
        super().__init__()

class Part:
    def good(self):
        return 1
    def bad(self):
        return 1 +

def one(: return 1
class Two(: pass
"""
        namespace = run(read(text))
        assert "line 2" in raises_when_used(namespace["Base"])
        with pytest.raises(SyntaxError, match="line 2"):
            namespace["Sub"]()  # type: ignore[operator]
        part = namespace["Part"]()  # type: ignore[operator]
        assert part.good() == 1
        assert "line 13" in raises_when_used(part.bad)
        assert "line 15" in raises_when_used(namespace["one"])
        assert "line 16" in raises_when_used(namespace["Two"])

    def test_a_name_that_needs_quoting(self) -> None:
        source = Source.read(b"def f(x:\n    pass\n", 'it\'s "a" \u9f98.py')
        assert "it's" in raises_when_used(run(source)["f"])

    def test_several_errors(self) -> None:
        text = (
            fault("def last(x):", "def last(x)")
            .replace("math.sqrt(query.shape[-1])", "math.sqrt(")
            .replace("weights = self.weights(x)", "weights = = self.weights(x)")
        )
        source = read(text)
        assert [item.name for item in source.broken] == ["scores_of", "SelfAttention.forward", "last"]
        assert names(source) == {"SelfAttention", "no_loop"}

    def test_text_in_column_0_of_strings_and_brackets(self) -> None:
        text = 'def f():\n    """doc\ndef no_definition:\nimport nothing (\n"""\n    return [\n1,\n2]\n\n'
        text += "x = 1 + \\\n2\n\ndef g(:\n    pass\n"
        source = read(text)
        assert names(source) == {"f"}
        assert run(source)["x"] == 3

    def test_two_unterminated_strings_do_not_pair_up(self) -> None:
        text = 'def f():\n    """one\n    return 1\n\ndef g():\n    return 2\n\n'
        text += 'def h():\n    """two\n    return 3\n\ndef i():\n    return 4\n'
        source = read(text)
        assert names(source) == {"g", "i"}

    def test_a_body_without_indentation(self) -> None:
        source = read("def f(x):\na = x + 1\nreturn a\n\ndef g(x):\n    return x\n\ny = 1\n")
        assert {item.name for item in source.broken} == {"f"}
        assert run(source)["y"] == 1

    def test_a_stray_line_between_complete_definitions_costs_itself(self) -> None:
        source = read("def f(x):\n    return x\n\nn = 3\n    oops\n\ndef g(x):\n    return x\n")
        assert names(source) == {"f", "g"}
        assert [item.name for item in source.broken] == ["n"]

    def test_a_stray_line_in_a_class(self) -> None:
        source = read(fault("        self.q = ", "print(1)\n        self.q = "))
        assert [item.name for item in source.broken] == ["SelfAttention.__init__"]
        assert source.find("SelfAttention.forward")

    def test_a_stray_print_between_methods(self) -> None:
        source = read("class A:\n    def f(self):\n        self.a = 1\nprint(1)\n    def g(self):\n        return 2\n")
        assert [item.name for item in source.broken] == ["A.f"]
        assert run(source)["A"].g(None) == 2  # type: ignore[attr-defined]

    def test_a_loop_that_slipped_out_of_its_function(self) -> None:
        source = read("def f(x):\n    y = 0\nfor i in x:\n    y += i\n    return y\n\ndef g(x):\n    return x\n")
        assert [item.name for item in source.broken] == ["f"]

    def test_conflict_around_definitions_keeps_the_last(self) -> None:
        source = read(
            "<<<<<<< HEAD\ndef f():\n    return 1\n=======\ndef f():\n    return 2\n>>>>>>> x\n\n"
            "def g():\n    return 3\n"
        )
        assert run(source)["f"]() == 2  # type: ignore[operator]
        assert "merge conflict" in source.notes[0].text

    def test_a_product_that_was_broken_before_its_sign_is_no_decorator(self) -> None:
        source = Source.read(b"def f(q, k):\n    return q\n@ k.T / 2  so\n\n\nclass A:\n    x = 1\n", "attention.py")
        assert names(source) == {"f", "A"}
        assert [(item.name, item.line) for item in source.broken] == [(None, 3)]

    def test_markdown_around_the_code(self) -> None:
        text = "Here's the code (for you:\n\n```python\nimport math\n\ndef f():\n    return math.pi\n```\nIt's done.\n"
        source = read(text)
        assert names(source) == {"f"}
        assert len(source.broken) == 2
        assert source.find("f").line == 6  # type: ignore[union-attr]

    def test_a_future_import_that_no_longer_comes_first(self) -> None:
        source = read("def f(x:\n    pass\nfrom __future__ import annotations\ndef g(): return 1\n")
        assert names(source) == {"g"}

    def test_what_only_the_compiler_sees(self) -> None:
        source = read(
            "def f(a, a):\n    return a\n\nreturn 3\n\ndef g():\n    break\n\n"
            "def h():\n    nonlocal z\n\ndef i(): return 1\n"
        )
        assert names(source) == {"i"}

    def test_an_unclosed_bracket_at_the_end_keeps_what_comes_before(self) -> None:
        source = read("def f():\n    return 1\nx = [\n1,\n2,\n")
        assert names(source) == {"f"}
        assert [item.name for item in source.broken] == ["x"]

    def test_form_feeds_between_definitions(self) -> None:
        source = read("def f(:\n    pass\n\f\ndef g():\n    return 1\n\fdef h():\n    return 2\n")
        assert names(source) == {"g", "h"}

    def test_notes_have_an_end(self) -> None:
        source = read("".join(f"def f{n}(:\n    pass\n\n" for n in range(60)) + "def g():\n    return 1\n")
        assert len(source.broken) == 60
        assert len(source.notes) == 13
        assert "48 more syntax errors" in source.notes[-1].text
        assert "g" in names(source)

    @pytest.mark.parametrize(
        "text",
        [
            "x = (\n" * 15_000,
            'x = """\n' * 15_001,
            "I don't know (what\n" * 15_000,
            "def f():\n    return 1 +\n" * 9_000,
            "class A:\n" + "    def f(self):\n        return 1 +\n" * 9_000,
            "def f():\n" + "y = 1\n" * 15_000,
            "<<<<<<< a\n    x\n" * 9_000,
            "a=1\n" * 60_000 + "x = (\n" + "a=1\n" * 60_000,
            "'" * 1_000_000,
            "\\\n" * 400_000,
            "{" * 1_000_000,
            "1+" * 400_000 + "1",
            "if 1:pass\n" + "elif 1:pass\n" * 30_000,
            "@a\n" * 15_000,
        ],
    )
    def test_sources_made_to_be_slow(self, text: str) -> None:
        begun = time.process_time()
        source = read(text)
        source.definitions_only()
        assert source.broken
        assert time.process_time() - begun < 30  # quadratic work here takes minutes


def lines_of(text: str) -> list[str]:
    return text.split("\n")


EDITS: list[Callable[[random.Random, str], str]] = [
    lambda rng, line: line[: rng.randrange(len(line) + 1)],
    lambda rng, line: line[(at := rng.randrange(len(line) + 1)) :] + line[:at],
    lambda rng, line: " " * rng.randrange(1, 6) + line,
    lambda rng, line: line.lstrip(),
    lambda rng, line: line + rng.choice("([{'\"\\:=,`"),
    lambda rng, line: line.replace(rng.choice(line or "x"), rng.choice("([{)]}'\":\\ \t\f\0é#@")),
    lambda rng, line: "<<<<<<< HEAD\n" + line,
    lambda rng, line: '"""' + line,
    lambda rng, line: "",
]


class TestRandomEdits:
    @examples(1500)
    @given(st.integers(0, 2**32), st.integers(1, 5))
    def test_never_raise(self, seed: int, count: int) -> None:
        rng = random.Random(seed)
        lines = lines_of(WHOLE)
        for _ in range(count):
            at = rng.randrange(len(lines))
            lines[at] = rng.choice(EDITS)(rng, lines[at])
        source = Source.read("\n".join(lines).encode(), "attention.py")
        compile(source.text, "attention.py", "exec")
        compile(source.definitions_only(), "attention.py", "exec")
        assert source.text.count("\n") == source.original.count("\n")
        for name in ("last", "SelfAttention.forward", "ANSWERS", "gone"):
            source.find(name)
            source.lines_calling(name, ["softmax"])

    @examples(1000)
    @given(st.integers(0, 2**32))
    def test_one_edit_costs_only_its_definition(self, seed: int) -> None:
        """An edit inside the body of `scores_of` or `no_loop`: the definitions around it survive."""
        rng = random.Random(seed)
        lines = lines_of(WHOLE)
        victim, at = rng.choice([("scores_of", 17), ("no_loop", 40), ("no_loop", 41), ("no_loop", 43)])
        lines[at] = rng.choice(EDITS)(rng, lines[at])
        source = Source.read("\n".join(lines).encode(), "attention.py")
        assert names(source) | {victim} == ALL
        assert source.find("SelfAttention.weights")
        assert {item.name for item in source.broken} <= {victim, None, "weights"}

    @examples(300)
    @given(st.text(alphabet="def clas():\n \t\"'\\@#=x1,[]{}\f", max_size=200))
    def test_any_text(self, text: str) -> None:
        source = Source.read(text.encode(), "attention.py")
        compile(source.text, "attention.py", "exec")
        compile(source.definitions_only(), "attention.py", "exec")
