"""Lab 2 is sound: what is right scores 100 and all extra credit, each fault costs its own checks, one of Lab 1 costs nothing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, Grade, failed, result_of, reviews

from autograder import bundle
from autograder import lab as labs
from autograder.diagnose import Mistake
from autograder.local import main as local
from autograder.result import Record, Status
from autograder.specimens import with_mistake

REFERENCE = ROOT / "reference" / "multihead"
LAB1 = (ROOT / "reference" / "attention" / "attention.py").read_text(encoding="utf-8")
LAB2 = (REFERENCE / "multihead.py").read_text(encoding="utf-8")
ALTERNATIVES = sorted((REFERENCE / "alternatives").iterdir())
EXTRA = 10


def handed_in(lab2: str = LAB2, lab1: str = LAB1) -> dict[str, bytes]:
    return {"multihead.py": lab2.encode(), "attention.py": lab1.encode()}


def changed(text: str, old: str, new: str) -> str:
    assert old in text, f"the reference no longer has {old!r}: change the fault of this test with it"
    return text.replace(old, new, 1)


def test_the_points_of_the_lab() -> None:
    lab = labs.load("multihead", ROOT)
    assert lab.max_score == 100
    assert [(section.number, section.points) for section in lab.file.sections if section.extra_credit] == [
        ("2.6", EXTRA)
    ]


def test_the_reference_scores_100_and_the_extra_credit(grade: Grade) -> None:
    record = grade("multihead", handed_in())
    assert (record.score, record.extra_credit, record.max_score) == (100 + EXTRA, EXTRA, 100)
    assert {result.status for result in record.results} == {Status.PASSED}
    assert not record.faults
    assert not reviews(record)


@pytest.mark.parametrize("folder", ALTERNATIVES, ids=lambda path: path.name)
def test_every_other_right_way_scores_in_full(grade: Grade, folder: Path) -> None:
    record = grade("multihead", handed_in((folder / "multihead.py").read_text(encoding="utf-8")))
    assert not failed(record)
    assert record.score == 100 + EXTRA
    assert not reviews(record)


def starter(lab: str) -> str:
    return bundle.starter_files(labs.load(lab, ROOT))[f"{lab}.py"].decode()


def test_the_untouched_starter_scores_0(grade: Grade) -> None:
    assert grade("multihead", handed_in(starter("multihead"), starter("attention"))).score == 0
    assert grade("multihead", handed_in(starter("multihead"))).score == 0


CONSTANT = """
import torch
from torch import nn
from attention import SelfAttention

def constant(x, *shape): return {value}
def concat_heads(heads): return constant(heads[0], *heads[0].shape[:2], len(heads) * heads[0].shape[2])
def split_heads(x, num_heads): return constant(x, x.shape[0], num_heads, x.shape[1], x.shape[2] // num_heads)

class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, dim_in, dim_out):
        super().__init__()
        self.heads = nn.ModuleList(SelfAttention(dim_in, dim_out, dim_out) for _ in range(num_heads))
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)
    def forward(self, query, key, value, mask=None): return constant(query, *query.shape)

class RunningMean(nn.Module): pass
class AddsPlace(nn.Module): pass
class DroppingMLP(nn.Module):
    def __init__(self, width): super().__init__()
class ReadsItself(nn.Module):
    def __init__(self, attention): super().__init__()
    def forward(self, x): return x
def permutation_gap(module, x, permutation): return constant(x).item()

class FusedMultiHeadAttention(nn.Module):
    def __init__(self, num_heads, dim_in, dim_out):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim_in, num_heads * dim_out) for _ in range(3))
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)
    def load_heads(self, mha): pass
    def forward(self, query, key, value, mask=None): return constant(query, *query.shape)

ANSWERS = {{"concat-axis": None}}
"""
CONSTANTS = {
    "zeros": "torch.zeros(shape, dtype=x.dtype)",
    "ones": "torch.ones(shape, dtype=x.dtype)",
    "graph": "(x.sum() * 0).expand(shape)",
}


@pytest.mark.parametrize("kind", CONSTANTS)
def test_constants_score_0(grade: Grade, kind: str) -> None:
    record = grade("multihead", handed_in(CONSTANT.format(value=CONSTANTS[kind])))
    # The parts of 2.3.1 and their sizes are real work; nothing else here is.
    assert {result.check for result in record.results if result.score} == {"layer_has_its_parts"}


@pytest.mark.parametrize("kind", CONSTANTS)
def test_a_layer_of_constant_heads_is_no_layer(grade: Grade, kind: str) -> None:
    """Right on its own parts, were it not that these are constant."""
    heads = changed(LAB1, "return y  # (N, Kq, dim_v)", f"shape, x = y.shape, y\n        return {CONSTANTS[kind]}")
    record = grade("multihead", handed_in(lab1=heads))
    assert "layer_values" in failed(record)
    assert "The output does not change when `heads.0` changes" in result_of(record, "layer_values").gap


def test_handing_back_the_input_scores_0(grade: Grade) -> None:
    source = """
def concat_heads(heads): return heads
def split_heads(x, num_heads): return x
def MultiHeadAttention(num_heads, dim_in, dim_out): return lambda query, key, value, mask=None: query
def permutation_gap(module, x, permutation): return x
def FusedMultiHeadAttention(num_heads, dim_in, dim_out): return lambda query, key, value, mask=None: query
"""
    assert grade("multihead", handed_in(source)).score == 0


@pytest.mark.parametrize(
    ("example", "score", "checks"),
    [
        ("complete", 110, set()),
        ("bottom_fault", 110, set()),
        ("no_extra_credit", 100, {"fused_values"}),
        ("heads_joined_along_positions", 96, {"concat_example", "concat_values"}),
        ("split_without_transpose", 90, {"split_example", "split_values"}),
        ("only_first_head", 70, {"layer_values"}),
        ("projection_forgotten", 70, {"layer_values"}),
        ("query_and_key_swapped", 104, {"layer_reads_another_sequence"}),
        ("mask_dropped", 103, {"layer_passes_the_mask"}),
        ("gap_without_permuting", 92, {"gap_example", "gap_values"}),
        ("fused_scale_of_all_heads", 102, {"fused_values"}),
    ],
)
def test_an_example_loses_what_is_meant_for_it(grade: Grade, example: str, score: float, checks: set[str]) -> None:
    record = grade("multihead", REFERENCE / "examples" / example)
    assert failed(record) == checks
    assert record.score == score
    sections = {result.section for result in record.results if result.status is not Status.PASSED}
    assert len(sections) == bool(checks), "a fault in one part costs points in another"
    assert not reviews(record)


def test_every_example_is_in_the_table() -> None:
    marks = test_an_example_loses_what_is_meant_for_it.pytestmark
    assert {row[0] for row in marks[0].args[1]} == {path.name for path in (REFERENCE / "examples").iterdir()}


SCORES = "scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5  # (N, Kq, K)"
PROJECT = "scaled_dot_product_no_loop_batch(self.q(query), self.k(key), self.v(value), mask)"
RETURN = "return weights_softmax @ value, weights_softmax"
# One fault each in attention.py: what to exchange, and the checks of Lab 2 that staff are asked to look at.
LAB1_FAULTS: dict[str, tuple[str, str, set[str]]] = {
    "softmax over readers": ("scores.softmax(dim=-1)", "scores.softmax(dim=1)", set()),
    "no scale": (" * query.shape[-1] ** -0.5  # (N, Kq, K)", "", set()),
    "keys read as values": ("self.v(value), mask)", "self.k(value), mask)", {"layer_learns"}),
    "one projection for all": (
        PROJECT,
        PROJECT.replace("self.k(", "self.q(").replace("self.v(", "self.q("),
        {"layer_learns"},
    ),
    "query and key swapped": ("(self.q(query), self.k(key),", "(self.k(query), self.q(key),", set()),
    "mask ignored": ("if mask is not None:", "if False:", set()),
    "mask inverted": ("masked_fill(mask,", "masked_fill(~mask,", set()),
    "mask not written": (
        "scores = scores.masked_fill(mask, -1e9)",
        'raise NotImplementedError("later")',
        {"layer_passes_the_mask", "layer_mask_broadcasts", "layer_leaves_inputs_alone"},
    ),
    "mask does not broadcast": (
        "scores = scores.masked_fill(mask, -1e9)",
        "scores[mask.nonzero(as_tuple=True)] = -1e9; assert mask.shape == scores.shape",
        {"layer_mask_broadcasts"},
    ),
    "no float64": (SCORES, "scores = query @ key.transpose(1, 2) @ torch.eye(key.shape[1])", {"layer_in_float64"}),
    "float64 is rounded": (RETURN, "return (weights_softmax @ value).float(), weights_softmax", {"layer_in_float64"}),
    "one position crashes": (
        RETURN,
        "assert query.shape[1] > 1\n    " + RETURN,
        {"layer_small", "layer_one_reader_one_source"},
    ),
    "keys detached": ("self.k(key),", "self.k(key).detach(),", {"layer_learns"}),
    "all detached": ("return y  # (N, Kq, dim_v)", "return y.detach()", {"layer_learns"}),
    "always causal": (
        SCORES,
        SCORES + "\n    scores = scores + torch.ones_like(scores).triu(1) * -9",
        {"layer_reorders"},
    ),
    "ready-made": (
        "y, self.weights_softmax = " + PROJECT,
        "read = None if mask is None else ~mask\n"
        "        y = nn.functional.scaled_dot_product_attention(self.q(query), self.k(key), self.v(value), read)",
        set(),
    ),
}


@pytest.mark.parametrize("fault", LAB1_FAULTS)
def test_a_fault_of_lab_1_costs_nothing_here(grade: Grade, fault: str) -> None:
    old, new, looked_at = LAB1_FAULTS[fault]
    record = grade("multihead", handed_in(lab1=changed(LAB1, old, new)))
    assert not failed(record)
    assert record.score == 100 + EXTRA
    assert reviews(record) == looked_at


MISTAKES = labs.load("multihead", ROOT).mistakes
# For each check the first mistake that is meant for it: `make audit` grades all of them, and sees whether they are named.
ONE_FOR_EACH_CHECK = list({item.caught_by: item for item in reversed(MISTAKES)}.values())[::-1]


def follows_from(record: Record, checks: set[str]) -> bool:
    """Whether everything that is blocked waits, at first or second hand, for one of these checks."""
    roots = {result_of(record, name).number for name in checks}
    waiting = {result.number: result.blocked_by for result in record.results if result.status is Status.BLOCKED}
    waiting = {number: blocker for number, blocker in waiting.items() if number not in roots}
    while later := {number for number, blocker in waiting.items() if blocker in roots}:
        roots |= later
        waiting = {number: blocker for number, blocker in waiting.items() if number not in later}
    return not waiting


@pytest.mark.parametrize("item", ONE_FOR_EACH_CHECK, ids=lambda item: item.name)
def test_a_mistake_costs_the_checks_of_its_own_part(grade: Grade, item: Mistake) -> None:
    lab = labs.load("multihead", ROOT)
    record = grade("multihead", with_mistake(lab, item))
    own = {check.name for check in lab.checks if check.target == item.of}
    needs_it = {result.check for result in record.results if result.gap.startswith("This needs `")}
    assert item.caught_by in failed(record) <= own
    assert not needs_it & own
    assert follows_from(record, failed(record) | needs_it)
    assert not reviews(record) & own  # what is built on it asks staff, where it cannot be judged


HEAD = "head(query, key, value, mask) for head in self.heads"
PER_SEQUENCE = "scores = scores.masked_fill(per_sequence[:, None], -1e9)"
# What nobody would write, and a check should see all the same: what to exchange, and the checks that must fail.
FAR_FETCHED: dict[str, tuple[str, str, set[str]]] = {
    "a head left out": (HEAD, HEAD.replace("in self.heads", "in (*self.heads[:-1], self.heads[0])"), {"layer_values"}),
    "query changed before it is read": (
        "joined = concat_heads([",
        "query *= 2; joined = concat_heads([",
        {"layer_values"},
    ),
    "mask misplaced where it fits": (
        PER_SEQUENCE,
        PER_SEQUENCE.replace(
            "per_sequence[:, None]", "per_sequence if len(query) == self.num_heads else per_sequence[:, None]"
        ),
        {"fused_mask_broadcasts"},
    ),
}


@pytest.mark.parametrize("fault", FAR_FETCHED)
def test_a_far_fetched_fault_costs_its_own_checks(grade: Grade, fault: str) -> None:
    old, new, checks = FAR_FETCHED[fault]
    record = grade("multihead", handed_in(changed(LAB2, old, new)))
    assert failed(record) == checks
    assert follows_from(record, checks)
    assert not reviews(record)


def test_without_lab_1_what_needs_no_head_is_graded(grade: Grade) -> None:
    record = grade("multihead", {"multihead.py": LAB2.encode()})
    assert not failed(record)
    blocked = [result for result in record.results if result.status is Status.BLOCKED]
    assert {result.section for result in blocked} == {"2.3", "2.6"}
    assert (
        result_of(record, "layer_has_its_parts").gap == "This needs SelfAttention, and attention.py was not handed in."
    )
    assert (record.score, record.extra_credit) == (66, 8)
    assert record.hand_in.missing == ("attention.py",)


@pytest.mark.parametrize("example", ["complete", "bottom_fault"])
def test_the_students_copy_answers_every_visible_check(
    copy: Path, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (REFERENCE / "examples" / example).iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    status = local.main(copy, [])
    assert (status, "✗" in (shown := capsys.readouterr().out)) == (0, False), shown


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The student's zip, unpacked."""
    folder = tmp_path_factory.mktemp("copy")
    for name, data in bundle.student_files(labs.load("multihead", ROOT)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_a_students_copy_holds_the_visible_checks_only() -> None:
    lab = labs.load("multihead", ROOT)
    source = bundle.visible_lab(labs.local_part(lab))["checks.py"].decode()
    compile(source, "checks.py", "exec")
    names = set(re.findall(r"^def (\w+)", source, re.MULTILINE))
    assert {check.name for check in lab.checks if check.local} <= names
    assert not {check.name for check in lab.checks if not check.local} & names


def test_every_part_has_visible_and_hidden_checks() -> None:
    lab = labs.load("multihead", ROOT)
    kinds = Counter((check.section, check.hidden) for check in lab.checks)
    for section in ("2.1", "2.2", "2.3", "2.4", "2.6"):
        assert kinds[section, False] >= 3
        assert kinds[section, True] >= 1


def test_every_anchor_that_a_check_names_is_in_the_handout() -> None:
    lab = labs.load("multihead", ROOT)
    headings = re.findall(r"^#+ (.+)$", bundle.handout(lab), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    assert {check.read for check in lab.checks} <= {f"#{slug}" for slug in slugs}
