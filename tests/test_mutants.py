"""The mutants: what each operator makes, that nothing else is touched, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT

from autograder import course
from autograder.check import AuthoringError
from autograder.lab import Lab
from autograder.mutants import (
    EQUIVALENT,
    KILLED,
    SURVIVED,
    Mutant,
    equivalents,
    mutants,
    plain,
    solution_rows,
    survivors,
)
from autograder.sandbox.proxy import Program
from autograder.session import Session

SessionOf = Callable[[str], Session]
REFERENCES = {name: next((ROOT / "reference" / name).glob("*.py")) for name in course.labs(ROOT)}


def made(code: str, head: str = "def f(x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:") -> list[Mutant]:
    """The mutants of one function whose solution is `code`."""
    inside = "\n".join(f"    {line}" for line in code.split("\n"))
    return mutants(f"{head}\n    # BEGIN SOLUTION 9.1 do it\n{inside}\n    # END SOLUTION\n", "f.py")


def after(found: list[Mutant], operator: str) -> set[str]:
    """What an operator makes of the line; brackets and spaces aside, which not every Python writes alike."""
    return {plain(mutant.after) for mutant in found if mutant.operator == operator}


@pytest.mark.parametrize(
    "operator, code, expected",
    [
        ("axis", "return x.softmax(dim=-1)", ["return x.softmax(dim=-2)"]),
        ("axis", "return x.sum(1)", ["return x.sum(0)", "return x.sum(2)"]),
        ("axis", "return torch.cat([x, y], 1)", ["return torch.cat([x, y], 0)", "return torch.cat([x, y], 2)"]),
        ("axis", "return x / x.shape[-1]", ["return x / x.shape[-2]"]),
        ("transpose", "return x.transpose(1, 2)", ["return x", "return x.transpose(0, 2)", "return x.transpose(1, 1)"]),
        ("transpose", "return x.T", ["return x"]),
        ("scale", "return x * y.numel() ** -0.5", ["return x", "return x * y.numel() ** 0.5", "return x * y.numel()"]),
        ("operands swapped", "return x @ y - y", ["return y @ x - y", "return y - x @ y"]),
        ("operator", "return x + y * x", ["return x - y * x", "return x + y / x"]),
        ("summand dropped", "return x + y", ["return x", "return y"]),
        ("bias", "g = nn.Linear(3, 4)", ["g = nn.Linear(3, 4, bias=False)"]),
        ("bias", "g = nn.Linear(3, 4, bias=False)", ["g = nn.Linear(3, 4)"]),
        ("arguments swapped", "return g(x, y)", ["return g(y, x)"]),
        ("sibling", "return x @ y", ["return y @ y", "return x @ x"]),
        ("mask", "return x.masked_fill(mask, -1e9)", ["return x", "return x.masked_fill(~mask, -1e9)"]),
        ("mask", "return g(x, mask)", ["return g(x, None)", "return g(x, mask if mask is None else ~mask)"]),
        ("comparison", "return x != 0", ["return x == 0", "return x > 0"]),
        ("off by one", "for i in range(3):\n    g(i)", ["for i in range(2):", "for i in range(1, 3):"]),
        ("off by one", "return x[1:n]", ["return x[1:n + 1]", "return x[1:n - 1]"]),
        ("off by one", "return g(a for a in x)", ["return g(a for a in x[1:])", "return g(a for a in reversed(x))"]),
        ("constant", "return g(0, 0.5, True)", ["return g(1, 0.5, True)", "return g(0, 0.55, True)", "return g(0, 0.5, False)"]),
        ("constant", "return x.masked_fill(mask, -1e9)", ["return x.masked_fill(mask, -1e2)"]),
        ("dtype", "return x @ y", ["return (x @ y).double()", "return (x @ y).float()"]),
        ("detached", "return x, x @ y", ["return x.detach(), x @ y", "return x, (x @ y).detach()"]),
        ("detached", "z = x @ y\nreturn g(z)", ["z = (x @ y).detach()", "return g(z).detach()"]),
        ("in place", "return x - y", ["return x.sub_(y)", "return (x - y, y.zero_())[0]"]),
        ("in place", "return x.masked_fill(mask, 0)", ["return x.masked_fill_(mask, 0)"]),
        ("returned", "return x, y", ["return y, x"]),
        ("condition", "if x:\n    g(x)", ["if not x:"]),
        ("condition", "return x if y else g(x)", ["return x", "return g(x)", "return x if not y else g(x)"]),
        ("method", "return x.softmax(dim=-1)", ["return x.sigmoid()", "return x.log_softmax(dim=-1)", "return x"]),
        ("method", "return torch.relu(x).mean(-1)", ["return x.mean(-1)", "return torch.relu(x).sum(-1)"]),
        ("method", "return torch.sqrt(x)", ["return x"]),
        ("shared", "return g(Block(x) for _ in range(3))", ["return g([Block(x)] * 3)"]),
        ("exception", "raise ValueError(x)", ["raise TypeError(x)"]),
        ("deleted", "x = g(x)\nreturn x", ["pass"]),
        ("deleted", "if mask is not None:\n    x = g(x)", ["pass"]),
    ],
)  # fmt: skip
def test_an_operator_makes(operator: str, code: str, expected: list[str]) -> None:
    assert {plain(line.replace("-1e2", "-100.0").replace("-1e9", "-1000000000.0")) for line in expected} <= after(
        made(code), operator
    )


def test_attributes_of_the_same_kind_are_exchanged() -> None:
    text = """class Block(nn.Module):
    norm1: Norm
    norm2: Norm
    linear: nn.Linear

    def forward(self, x: Tensor) -> Tensor:
        # BEGIN SOLUTION 9.1 do it
        return self.linear(self.norm1(x))
        # END SOLUTION
"""
    found = [mutant for mutant in mutants(text, "block.py") if mutant.operator == "sibling"]
    assert [(mutant.symbol, mutant.target, mutant.after) for mutant in found] == [
        ("Block.forward", "Block", "return self.linear(self.norm2(x))")
    ]


def test_what_is_not_to_be_changed() -> None:
    text = '''def given(x: Tensor) -> Tensor:
    return x.sum(0) + 1


def f(x: Tensor, n: int = 1) -> Tensor:
    """Adds 1."""
    # BEGIN SOLUTION 9.1 do it
    """Not a 2."""
    y: Annotated[Tensor, 3] = g(x)
    raise Refused(f"{n + 4} is not 5")
    # END SOLUTION


# BEGIN SOLUTION 9.2 answer
ANSWERS = {"one": "A", "two": 6}
# END SOLUTION
'''
    found = mutants(text, "f.py")
    assert {mutant.symbol for mutant in found} == {"f"}
    assert not {"constant", "operator", "off by one", "axis"} & {mutant.operator for mutant in found} - {"constant"}
    assert [mutant.after for mutant in found if mutant.operator == "constant"] == ["'Not a 2._'"]


@pytest.mark.parametrize("name", REFERENCES)
def test_each_mutant_of_a_reference_is_one_change_inside_a_solution(name: str) -> None:
    text = REFERENCES[name].read_text(encoding="utf-8")
    rows = solution_rows(text)
    outside = [line for row, line in enumerate(text.split("\n"), 1) if row not in rows]
    found = mutants(text, REFERENCES[name].name)
    assert len(found) > 100
    assert (
        len({plain(mutant.id) for mutant in found}) == len({mutant.source for mutant in found} - {text}) == len(found)
    )
    for mutant in found:
        compile(mutant.source, mutant.name, "exec", dont_inherit=True)
        kept = iter(mutant.source.split("\n"))
        assert all(line in kept for line in outside)  # in this order
        assert mutant.line in rows


def test_the_same_mutants_each_time() -> None:
    text = REFERENCES["attention"].read_text(encoding="utf-8")
    assert mutants(text, "attention.py") == mutants(text, "attention.py")


def test_an_id_stays_when_other_lines_change() -> None:
    code = "z = x @ y\nreturn z.softmax(dim=-1)"
    before = {mutant.id for mutant in made(code) if "softmax" in mutant.before}
    moved = made(f"# a remark\nw = g(x, 7)\n{code}  # (N, K)")
    assert before <= {mutant.id for mutant in moved}
    assert "f: axis: return z.softmax(dim=-1) → return z.softmax(dim=-2)" in before


def test_the_same_statement_twice_gives_two_ids() -> None:
    found = [mutant.id for mutant in made("g(x)\ng(x)") if mutant.operator == "deleted"]
    assert found == ["f: deleted: g(x) → pass", "f: deleted: g(x) → pass #2"]


def test_of_a_dict_the_entry_is_shown() -> None:
    found = [mutant for mutant in made("return {'a': x.sum(1), 'b': y}") if mutant.operator == "axis"]
    assert [(mutant.before, mutant.after) for mutant in found] == [
        ("'a': x.sum(1)", "'a': x.sum(0)"),
        ("'a': x.sum(1)", "'a': x.sum(2)"),
    ]


def test_letters_of_many_bytes_before_a_change() -> None:
    source = next(mutant.source for mutant in made("return g('√Σ', x.sum(1))") if mutant.operator == "axis")
    assert "    return g('√Σ', x.sum(0))\n" in source


# ---- what becomes of them -------------------------------------------------------------------------------------------


def of(lab: Lab, *ids: str) -> list[Mutant]:
    place, text = lab.reference.files[lab.main_module]
    found = {mutant.id: mutant for mutant in mutants(text, place)}
    return [found[id] for id in ids]


NO_LOOP, SINGLE = "scaled_dot_product_no_loop_batch", "scaled_dot_product_two_loop_single"
BEFORE, AFTER = "weights_softmax = scores.softmax(dim=-1)", "weights_softmax = scores.softmax(dim=-2)"
AXIS = f"{NO_LOOP}: axis: {BEFORE} → {AFTER}"
DOT = f"{SINGLE}: operands swapped: scores.append(reader @ source * scale) → scores.append(source @ reader * scale)"


def test_killed_and_equivalent(session: SessionOf) -> None:
    warm = session("attention")
    told = []
    outcome = survivors(warm.lab, warm, of(warm.lab, AXIS, DOT), told.append)
    assert [(verdict.mutant.id, verdict.status) for verdict in outcome.verdicts] == [(AXIS, KILLED), (DOT, EQUIVALENT)]
    assert outcome.verdicts[0].by == "1.4.1"
    assert "does not ask for the order" in outcome.verdicts[1].note
    assert told == list(outcome.verdicts)
    assert outcome.lines()[0].startswith("attention: 2 mutants: 1 killed, 1 equivalent, 0 survived (")
    assert warm.lab.mistakes  # what is graded quickly is a copy


def test_a_survivor_is_shown_with_its_diff(session: SessionOf) -> None:
    warm = session("attention")
    blind = replace(warm.lab, checks=tuple(check for check in warm.lab.checks if check.name == "worked_example"))
    outcome = survivors(blind, warm, of(warm.lab, AXIS))
    assert [verdict.status for verdict in outcome.of(SURVIVED)] == [SURVIVED]
    lines = REFERENCES["attention"].read_text(encoding="utf-8").splitlines()
    row = next(row for row, line in enumerate(lines, 1) if BEFORE in line)
    assert outcome.lines()[1:] == [
        f"  survived  reference/attention/attention.py:{row} {NO_LOOP}: axis",
        f"    - {BEFORE}",
        f"    + {AFTER}",
    ]


def test_a_loop_without_end_is_killed(session: SessionOf) -> None:
    warm = session("attention")
    (mutant,) = of(warm.lab, AXIS)
    source = mutant.source.replace("scores = query @", "while True:\n        pass\n    scores = query @")
    endless = replace(mutant, source=source)
    (verdict,) = survivors(warm.lab, warm, [endless]).verdicts
    assert verdict.status == KILLED
    assert "ran longer than 2 s" in verdict.note


def test_stale_entries_of_the_file_are_named(session: SessionOf, tmp_path: Path) -> None:
    warm = session("attention")
    file = tmp_path / "reference" / "attention" / "equivalent_mutants.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'"{AXIS}" = "wrong"\n"weighted_read: gone" = "was there once"\n', encoding="utf-8")
    outcome = survivors(replace(warm.lab, root=tmp_path), warm, of(warm.lab, AXIS))
    assert [verdict.status for verdict in outcome.verdicts] == [KILLED]
    assert outcome.stale == (
        f"reference/attention/equivalent_mutants.toml: it is not equivalent, 1.4.1 kills it: {AXIS}",
        "reference/attention/equivalent_mutants.toml: there is no such mutant: weighted_read: gone",
    )
    assert outcome.lines()[1:] == list(outcome.stale)
    file.write_text(f'"{AXIS}" = " "\n', encoding="utf-8")
    with pytest.raises(AuthoringError, match="say in words why it is no fault"):
        equivalents(replace(warm.lab, root=tmp_path))


@pytest.mark.parametrize("name", REFERENCES)
def test_every_excuse_is_of_a_mutant_that_exists(name: str, session: SessionOf) -> None:
    lab = session(name).lab
    there = {plain(mutant.id) for mutant in mutants(lab.reference.files[lab.main_module][1], "")}
    assert {plain(id) for id in equivalents(lab)} <= there


def test_a_reference_that_loses_points_proves_nothing(session: SessionOf) -> None:
    warm = session("attention")
    place, text = warm.lab.reference.files["attention"]
    wrong = Program({"attention": (place, text.replace("return weights @ values", "return values.sum(0)"))}, {})
    with pytest.raises(AuthoringError, match=r"attention\.py itself loses points on 1\.1\.1"):
        survivors(replace(warm.lab, reference=wrong), warm, [])
