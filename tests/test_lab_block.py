"""Lab 3 is sound: what is right scores 100, each fault costs its own checks, one of an earlier part costs nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, Grade, failed, result_of, reviews

from autograder import bundle, composition, recording
from autograder import lab as labs
from autograder.check import expect
from autograder.result import Status
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Recorded
from autograder.session import Session
from autograder.submission import collect

REFERENCE = ROOT / "reference" / "block"
EXAMPLES = REFERENCE / "examples"
LAB1 = (ROOT / "reference" / "attention" / "attention.py").read_text(encoding="utf-8")
LAB2 = (ROOT / "reference" / "multihead" / "multihead.py").read_text(encoding="utf-8")
LAB3 = (REFERENCE / "block.py").read_text(encoding="utf-8")
WRITTEN = (EXAMPLES / "complete" / "block.py").read_text(encoding="utf-8")
ALTERNATIVES = sorted((REFERENCE / "alternatives").iterdir())
WITHOUT_ATTENTION = 61  # 3.1, 3.2 and 3.5 to 3.8, without the one check of 3.7 that needs the whole stack


def handed_in(lab3: str = LAB3, lab2: str = LAB2, lab1: str = LAB1) -> dict[str, bytes]:
    return {"block.py": lab3.encode(), "multihead.py": lab2.encode(), "attention.py": lab1.encode()}


def changed(text: str, old: str, new: str) -> str:
    assert old in text, f"there is no {old!r} any more: change the fault of this test with it"
    return text.replace(old, new)


def starter(lab: str) -> str:
    return bundle.starter_files(labs.load(lab, ROOT))[f"{lab}.py"].decode()


# What is right -------------------------------------------------------------------------------------------------------


def test_the_points_of_the_lab() -> None:
    lab = labs.load("block", ROOT)
    assert lab.max_score == 100
    assert lab.wanted == ("block.py", "multihead.py", "attention.py")


def test_the_reference_scores_100(grade: Grade) -> None:
    record = grade("block", handed_in())
    assert (record.score, record.max_score, record.complete) == (100, 100, True)
    assert {result.status for result in record.results} == {Status.PASSED}
    assert not record.faults
    assert not reviews(record)


@pytest.mark.parametrize("folder", ALTERNATIVES, ids=lambda path: path.name)
def test_every_other_right_way_scores_100(grade: Grade, folder: Path) -> None:
    record = grade("block", handed_in((folder / "block.py").read_text(encoding="utf-8")))
    assert not failed(record)
    assert record.score == 100
    assert not reviews(record)


OWN_NAMES = {
    "a method called normalize": (
        "x_norm = (x - mean) / torch.sqrt(var + self.epsilon)",
        "x_norm = self.normalize(x, mean, var)",
        "    def normalize(self, x, mean, var):\n"
        "        std = (var + self.epsilon) ** 0.5\n"
        "        return (x - mean) / std\n\n",
    ),
    "a variable called layer_norm": (
        "return self.gamma * x_norm + self.beta",
        "layer_norm = self.gamma * x_norm + self.beta\n        return layer_norm",
        "",
    ),
}


@pytest.mark.parametrize("name", OWN_NAMES)
def test_names_of_the_students_own_are_not_blamed(grade: Grade, name: str) -> None:
    old, new, method = OWN_NAMES[name]
    forward = '    def forward(self, x: Tensor) -> Tensor:\n        """Normalise'
    record = grade("block", handed_in(changed(changed(WRITTEN, old, new), forward, method + forward)))
    assert result_of(record, "norm_is_written_out").status is Status.PASSED
    assert record.score == 100


# What is nothing -----------------------------------------------------------------------------------------------------


def test_the_untouched_starter_scores_0(grade: Grade) -> None:
    assert grade("block", handed_in(starter("block"))).score == 0
    assert grade("block", handed_in(starter("block"), starter("multihead"), starter("attention"))).score == 0
    alone = grade("block", {"block.py": starter("block").encode()})
    assert alone.score == 0
    assert result_of(alone, "ffn_layers").gap.startswith("Not written yet. TODO 3.1:")


CONSTANT = """
import torch
from torch import nn
from multihead import MultiHeadAttention

class FeedForwardBlock(nn.Module):
    def __init__(self, m, f):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(m, f), nn.Linear(f, m)
    def forward(self, x): return {value}

class LayerNormalization(nn.Module):
    def __init__(self, m, epsilon=1e-10):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(m)), nn.Parameter(torch.zeros(m))
    def forward(self, x): return {value}

class EncoderBlock(nn.Module):
    def __init__(self, h, m, f, dropout):
        super().__init__()
        if m % h: raise ValueError
        self.attention, self.feedforward = MultiHeadAttention(h, m, m // h), FeedForwardBlock(m, f)
        self.norm1, self.norm2 = LayerNormalization(m), LayerNormalization(m)
    def forward(self, x, mask=None): return {value}

class Encoder(nn.Module):
    def __init__(self, layers, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(EncoderBlock(*sizes) for _ in range(layers))
    def forward(self, x, mask=None): return {value}

class Operation(nn.Module):
    def __init__(self, name): super().__init__()
    def forward(self, x): return {value}

def dropout_with_mask(x, keep, p): return {value}
def dropout_permutation_gap(x, keep, p, permutation, permute_mask): return {gap}
EQUIVARIANT = dict.fromkeys({names}, {said})
ANSWERS = {{"position-wise": None}}
"""
VALUES = {
    "zeros": ("torch.zeros_like(x)", "0.0", True),
    "ones": ("torch.ones_like(x)", "1.0", False),
    "the input": ("x", "float(x.abs().max())", None),
    "nothing": ("None", "None", 1),
    "nan": ("x * float('nan')", "float('nan')", "True"),
    "chance": ("torch.rand_like(x)", "24.0", True),
    "a mean": ("x.mean(1, keepdim=True).expand_as(x)", "24.0", True),
}


@pytest.mark.parametrize("kind", VALUES)
def test_constants_score_0(grade: Grade, kind: str) -> None:
    value, gap, said = VALUES[kind]
    names = re.findall(r'^    "([^"]+)": (?:True|False),$', LAB3, re.MULTILINE)
    assert len(names) == 17
    record = grade("block", handed_in(CONSTANT.format(value=value, gap=gap, names=names, said=repr(said))))
    assert {result.check for result in record.results if result.score} == set()


@pytest.mark.parametrize("said", ["True", "False", "None"])
def test_one_prediction_for_all_earns_nothing(grade: Grade, said: str) -> None:
    record = grade("block", handed_in(LAB3 + f"\nEQUIVARIANT = dict.fromkeys(EQUIVARIANT, {said})\n"))
    lost = {result.check for result in record.results if not result.score}
    assert lost == {"predictions_attention", "predictions_each_alone", "predictions_mixing", "predictions_chains"}


# What is missing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ([], "This needs MultiHeadAttention, and multihead.py was not handed in."),
        (["attention.py"], "This needs MultiHeadAttention, and multihead.py was not handed in."),
        (["multihead.py"], "This needs SelfAttention, and attention.py was not handed in."),
    ],
)
def test_what_needs_no_missing_file_is_graded(grade: Grade, there: list[str], said: str) -> None:
    files = handed_in()
    record = grade("block", {name: data for name, data in files.items() if name in ("block.py", *there)})
    assert record.score == WITHOUT_ATTENTION
    assert not failed(record)
    assert not record.faults
    for check in ("block_reads_and_digests", "stack_values"):
        assert (result_of(record, check).status, result_of(record, check).gap) == (Status.BLOCKED, said)


def test_an_earlier_part_that_is_not_written_blocks(grade: Grade) -> None:
    record = grade("block", handed_in(lab2=starter("multihead")))
    assert record.score == WITHOUT_ATTENTION
    assert not failed(record)
    gap = result_of(record, "block_reads_and_digests").gap
    assert gap.startswith("This needs MultiHeadAttention, which does not work yet: TODO 2.3:")


@pytest.mark.parametrize(
    ("old", "new", "section", "part"),
    [
        ("= self.linear2(hidden)", "= hidden", "3.1", "FeedForwardBlock"),
        (" * self.gamma + self.beta  #", " @ self.gamma  #", "3.2", "LayerNormalization"),
    ],
)
def test_what_is_built_on_a_part_of_another_shape_waits_for_it(
    grade: Grade, old: str, new: str, section: str, part: str
) -> None:
    record = grade("block", handed_in(changed(LAB3, old, new)))
    assert {result.section for result in record.results if result.status is Status.FAILED} == {section}
    waiting = {result.section for result in record.results if result.status is Status.BLOCKED}
    assert waiting | {section} == {section, "3.3", "3.4", "3.7"}
    gap = result_of(record, "block_reads_and_digests").gap
    assert gap.startswith(f"This needs {part}, which is not right yet: its output has shape")


# What is wrong -------------------------------------------------------------------------------------------------------

AFTER_VALUES = {"block_drops_what_is_added", "block_small", "block_in_float64"}


@pytest.mark.parametrize(
    ("example", "score", "checks", "looked_at"),
    [
        ("complete", 100, set(), set()),
        ("bottom_fault", 100, set(), set()),
        ("relu_missing", 97, {"ffn_relu"}, set()),
        ("unbiased_variance", 97, {"norm_variance"}, set()),
        ("epsilon_added_to_sigma", 97, {"norm_epsilon"}, set()),
        ("norm_over_positions", 78, {"norm_over_features"}, {"block_passes_the_mask"}),
        ("first_residual_missing", 88, {"block_values"}, set()),
        ("same_norm_twice", 88, {"block_values"}, set()),
        ("pre_norm", 88, {"block_values"}, set()),
        ("dropout_after_norm", 97, {"block_drops_what_is_added"}, set()),
        ("mask_not_passed_on", 97, {"block_passes_the_mask"}, set()),
        ("one_block_for_all_layers", 99, {"stack_has_weights_of_its_own"}, set()),
    ],
)
def test_an_example_loses_what_is_meant_for_it(
    grade: Grade, example: str, score: float, checks: set[str], looked_at: set[str]
) -> None:
    record = grade("block", EXAMPLES / example)
    assert failed(record) == checks
    assert record.score == score
    sections = {result.section for result in record.results if result.status is not Status.PASSED}
    assert len(sections) == bool(checks), "a fault in one part costs points in another"
    # A norm that mixes positions lets through what the mask hides: whether the mask arrives cannot be seen.
    assert reviews(record) <= looked_at


def test_half_done_loses_what_is_not_there(grade: Grade) -> None:
    record = grade("block", EXAMPLES / "half_done")
    assert record.score == 12 + 22 + 7
    assert {result.section for result in record.results if result.score} == {"3.1", "3.2", "3.5"}


def test_every_example_is_in_the_table() -> None:
    marks = test_an_example_loses_what_is_meant_for_it.pytestmark
    named = {row[0] for row in marks[0].args[1]}
    assert named | {"half_done"} == {path.name for path in EXAMPLES.iterdir()}


ATTEND = "attn_out = self.attention(x, x, x, mask)"
FIRST = "u = self.norm1(x + self.dropout(attn_out))"
LAST = "return self.norm2(u + self.dropout(ff_out))"
BOTH = f"{FIRST}\n        ff_out = self.feedforward(u)\n        {LAST}"
NORMED = "x_norm = (x - mean) / torch.sqrt(var + self.epsilon)"
SCALED = "return self.gamma * x_norm + self.beta"
LAYER = "x = layer(x, mask)"
GAP = "return (out_perm - out[:, permutation]).abs().max().item()"
LAYERS_WORD = "for _ in range(num_layers)]"
GAP_STAYS = {"gap_where_the_mask_stays"}
# One fault each in block.py: what to exchange, and the checks that must fail; others may be blocked by them, no more.
FAULTS: dict[str, tuple[str, str, set[str]]] = {
    "ReLU at the end": ("out = self.linear2(out)", "out = self.linear2(self.linear1(x)).relu()", {"ffn_relu"}),
    "ReLU twice": ("out = self.linear2(out)", "out = self.relu(self.linear2(out))", {"ffn_relu"}),
    "GELU": ("nn.ReLU()", "nn.GELU()", {"ffn_relu"}),
    "layers swapped": ("out = self.linear1(x)", "out = x @ self.linear2.weight + self.linear1.bias", {"ffn_layers"}),
    "squeezed": ("        return out\n", "        return out.squeeze()\n", {"ffn_small"}),
    "cut off": ("out = self.linear1(x)", "out = self.linear1(x).detach()", {"ffn_gradients"}),
    "over the batch": ("(dim=-1, keepdim=True)", "(dim=0, keepdim=True)", {"norm_over_features"}),
    "over all": ("mean = x.mean(dim=-1, keepdim=True)", "mean = x.mean()", {"norm_over_features"}),
    "epsilon forgotten": (" + self.epsilon", "", {"norm_epsilon", "norm_of_equal_features"}),
    "epsilon fixed": ("self.epsilon = epsilon", "self.epsilon = 1e-5", {"norm_epsilon"}),
    "no gamma": (SCALED, "return x_norm + self.beta", {"norm_gamma_beta"}),
    "beta inside": (SCALED, "return self.gamma * (x_norm + self.beta)", {"norm_gamma_beta"}),
    "no parameters": ("nn.Parameter(torch.ones(emb_dim))", "torch.ones(emb_dim)", {"norm_gamma_beta"}),
    "gamma drawn": ("torch.ones(emb_dim)", "torch.rand(emb_dim)", {"norm_starts_plain"}),
    "statistics detached": ("(dim=-1, keepdim=True)\n", "(dim=-1, keepdim=True).detach()\n", {"norm_gradients"}),
    "float32 inside": (SCALED, SCALED.replace("x_norm", "x_norm.float()"), {"norm_in_float64"}),
    "torch.std": (NORMED, NORMED.replace("var", "x.std(-1, False, keepdim=True) ** 2"), {"norm_is_written_out"}),
    "layer_norm": (
        SCALED,
        "return nn.functional.layer_norm(x, x.shape[-1:], self.gamma, self.beta, self.epsilon)",
        {"norm_is_written_out"},
    ),
    "second residual missing": (LAST, "return self.norm2(self.dropout(ff_out))", {"block_values"}),
    "second residual from x": (LAST, LAST.replace("u +", "x +"), {"block_values"}),
    "norms exchanged": (
        BOTH,
        BOTH.replace("norm1", "norm").replace("norm2", "norm1").replace("norm(", "norm2("),
        {"block_values"},
    ),
    "one norm in two places": ("self.norm2 = LayerNormalization(emb_dim)", "self.norm2 = self.norm1", {"block_values"}),
    "norm before the sum": (FIRST, "u = x + self.norm1(self.dropout(attn_out))", {"block_values"}),
    "heads too wide": ("emb_dim // num_heads)\n", "emb_dim)\n", {"block_has_its_parts"}),
    "ready-made norms": (
        "self.norm2 = LayerNormalization(emb_dim)",
        "self.norm2 = nn.LayerNorm(emb_dim)",
        {"block_has_its_parts", "block_is_not_ready_made"},
    ),
    "dropout once": (LAST, "return self.norm2(u + ff_out)", {"block_drops_what_is_added"}),
    "dropout of the sum": (FIRST, "u = self.norm1(self.dropout(x + attn_out))", {"block_drops_what_is_added"}),
    "dropout stays on": (
        FIRST,
        FIRST.replace("self.dropout(attn_out)", "torch.dropout(attn_out, self.dropout.p, True)"),
        {"block_in_eval_mode"},
    ),
    "mask inverted": (ATTEND, ATTEND.replace("mask)", "mask if mask is None else ~mask)"), {"block_passes_the_mask"}),
    "mask transposed": (
        ATTEND,
        ATTEND.replace("mask)", "mask if mask is None else mask.mT)"),
        {"block_passes_the_mask"},
    ),
    "uneven shares accepted": ("if emb_dim % num_heads != 0:", "if False:", {"block_needs_equal_shares"}),
    "attention cut off": (ATTEND, f"{ATTEND}.detach()", {"block_gradients"}),
    "last block first": ("for layer in self.layers:", "for layer in reversed(self.layers):", {"stack_values"}),
    "a block left out": ("for layer in self.layers:", "for layer in self.layers[1:]:", {"stack_values"}),
    "a block too many": (LAYERS_WORD, LAYERS_WORD.replace("num_layers", "num_layers + 1"), {"stack_values"}),
    "no mask in the stack": (LAYER, "x = layer(x)", {"stack_passes_the_mask"}),
    "mask for the first block": (LAYER, f"{LAYER}; mask = None", {"stack_passes_the_mask"}),
    "dropout not handed on": (
        f"feedforward_dim, dropout) {LAYERS_WORD}",
        f"feedforward_dim, 0.1) {LAYERS_WORD}",
        {"stack_hands_dropout_on"},
    ),
    "not made up for": ("x * keep / (1 - p)", "x * keep", {"dropout_values"}),
    "divided by p": ("x * keep / (1 - p)", "x * keep / p", {"dropout_values"}),
    "keep inverted": ("x * keep / (1 - p)", "x * ~keep / (1 - p)", {"dropout_values"}),
    "dropped in place": (
        "return x * keep / (1 - p)",
        "return x.data.mul_(keep) / (1 - p)",
        {"dropout_leaves_inputs_alone"},
    ),
    "mean gap": (GAP, GAP.replace("max", "mean"), GAP_STAYS),
    "signed gap": (GAP, GAP.replace(".abs()", ""), GAP_STAYS),
    "not reordered": (GAP, GAP.replace("[:, permutation]", ""), GAP_STAYS),
    "the other way round": ("x_perm = x[:", "permutation = permutation.argsort()\n    x_perm = x[:", GAP_STAYS),
    "mask always stays": (
        "keep_perm = keep[:, permutation] if permute_mask",
        "keep_perm = keep if True",
        {"gap_where_the_mask_travels"},
    ),
    "mask always travels": ("if permute_mask else keep\n", "\n", GAP_STAYS),
    "one wrong prediction": ('"causal attention": False', '"causal attention": True', {"predictions_attention"}),
    "one wrong letter": ('"layernorm-axis": "B"', '"layernorm-axis": "A"', {"answer_layernorm_axis"}),
}
BESIDE = {"dropped in place": {"dropout_gradients"}}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_its_own_checks(grade: Grade, fault: str) -> None:
    old, new, checks = FAULTS[fault]
    record = grade("block", handed_in(changed(WRITTEN, old, new)))
    assert checks <= failed(record) <= checks | BESIDE.get(fault, set())
    assert not record.faults
    stack = {"own_operations_commute"}  # needs the stack, and stands in 3.7
    lost = [result for result in record.results if not result.score and result.check not in stack]
    assert len({result.section for result in lost}) == 1, "a fault in one part costs points in another"


# What is wrong below -------------------------------------------------------------------------------------------------

PROJECT = "scaled_dot_product_no_loop_batch(self.q(query), self.k(key), self.v(value), mask)"
HEADS = "[head(query, key, value, mask) for head in self.heads]"
JOINED = f"joined = concat_heads({HEADS})"
# One fault each in attention.py or multihead.py: what to exchange, and the checks of Lab 3 that staff should look at.
FAULTS_BELOW: dict[str, tuple[str, str, set[str]]] = {
    "softmax over readers": ("scores.softmax(dim=-1)", "scores.softmax(dim=1)", set()),
    "no scale": (" * query.shape[-1] ** -0.5  # (N, Kq, K)", "", set()),
    "mask inverted": ("masked_fill(mask,", "masked_fill(~mask,", set()),
    "mask ignored": ("if mask is not None:", "if False:", {"block_passes_the_mask"}),
    "mask not written": (
        "scores = scores.masked_fill(mask, -1e9)",
        'raise NotImplementedError("later")',
        {"block_passes_the_mask", "block_leaves_inputs_alone", "stack_passes_the_mask", "stack_in_float64"},
    ),
    "keys read as values": ("self.v(value), mask)", "self.k(value), mask)", {"block_gradients"}),
    "all detached": ("return y  # (N, Kq, dim_v)", "return y.detach()", {"block_gradients"}),
    "no float64": (
        "y, self.weights_softmax = ",
        "query = query.float()\n        y, _ = ",
        {"block_in_float64", "stack_in_float64"},
    ),
    "one position crashes": (JOINED, f"assert key.shape[1] > 1\n        {JOINED}", {"block_small", "stack_small"}),
    "only the first head": (HEADS, HEADS.replace("head(", "self.heads[0]("), {"block_gradients"}),
    "heads backwards": (HEADS, HEADS.replace("in self.heads", "in reversed(self.heads)"), set()),
    "heads in a list": ("nn.ModuleList(SelfAttention", "list(SelfAttention", {"block_in_float64", "stack_in_float64"}),
    "projection renamed": ("self.linear_mult", "self.mix", {"block_in_float64", "stack_in_float64"}),
    "positions reversed": (
        "y: Tensor = self.linear_mult(joined)\n",
        "y: Tensor = self.linear_mult(joined).flip(1)\n",
        {"block_reorders", "stack_reorders", "own_operations_commute"},
    ),
}


@pytest.mark.parametrize("fault", FAULTS_BELOW)
def test_a_fault_below_costs_nothing_here(grade: Grade, fault: str) -> None:
    old, new, looked_at = FAULTS_BELOW[fault]
    lab1, lab2 = (text.replace(old, new) for text in (LAB1, LAB2))
    assert (lab1, lab2) != (LAB1, LAB2)
    record = grade("block", handed_in(lab2=lab2, lab1=lab1))
    assert not failed(record)
    assert record.score == 100
    assert reviews(record) == looked_at


def test_what_composition_saves(grade: Grade, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong softmax in attention.py, judged against the reference alone, would cost a quarter of this lab."""
    monkeypatch.setattr(
        composition,
        "equals_reference_or_own_parts",
        lambda got, expected, own_parts, alive, name, axes: expect(got, name, axes).equals(expected),
    )
    monkeypatch.setattr(composition, "unless_earlier_part", lambda judge, earlier, what: judge())
    record = grade("block", EXAMPLES / "bottom_fault")
    assert failed(record) == {"block_values", "stack_values"}
    assert record.score == 75


def test_an_attention_that_reads_nothing_makes_no_block(grade: Grade) -> None:
    """Right on its own parts, were it not that nothing of the others arrives."""
    lab2 = changed(LAB2, "y: Tensor = self.linear_mult(joined)\n", "y: Tensor = self.linear_mult(joined) * 0\n")
    record = grade("block", handed_in(lab2=lab2))
    assert "nothing is read" in result_of(record, "block_reads_and_digests").gap


# What is handed out --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A grader as a student's copy has it: the visible checks, and a recording in the place of the reference."""
    lab = replace(labs.local_part(labs.load("block", ROOT)), mistakes=())
    path = tmp_path_factory.mktemp("recording") / "recording.bin"
    path.write_bytes(recording.record(lab, ()))
    return Session(lab, zygote, Recorded(recording.load(path).reference), confined=False)


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir()))
def test_a_recording_answers_what_is_asked(grade: Grade, played: Session, example: str) -> None:
    """Whatever is wrong in a hand-in, the student's copy asks nothing that was not recorded, and says the same."""
    at_home = played.grade(collect(EXAMPLES / example, played.lab.wanted))
    assert not at_home.faults
    marked = grade("block", EXAMPLES / example)
    for result in at_home.results:
        beside = result_of(marked, result.check)
        assert (result.status, result.gap) == (beside.status, beside.gap)


def test_every_anchor_that_a_check_names_is_in_the_handout() -> None:
    lab = labs.load("block", ROOT)
    headings = re.findall(r"^#+ (.+)$", bundle.handout(lab), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    assert {check.read for check in lab.checks} <= {f"#{slug}" for slug in slugs}
