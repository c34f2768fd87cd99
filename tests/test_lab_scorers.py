"""Lab 4 is sound: what is right scores 100, what is constant or untouched scores 0, each fault costs what it should."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Grade, result_of

from autograder import bundle
from autograder import lab as labs
from autograder.result import Record, Status
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Interpreter, Live, NoAnswer
from autograder.session import Session
from autograder.specimens import with_mistake
from autograder.submission import collect

REFERENCE = ROOT / "reference" / "scorers"
ALTERNATIVES = sorted((REFERENCE / "alternatives").iterdir())


def failed(record: Record) -> list[str]:
    return [result.check for result in record.results if result.status is Status.FAILED]


def lost_sections(record: Record) -> set[str]:
    return {result.section for result in record.results if result.status is not Status.PASSED}


def named(record: Record) -> set[tuple[str, ...]]:
    return {result.mistakes for result in record.results if result.mistakes}


def changed(path: Path, *changes: tuple[str, str]) -> dict[str, bytes]:
    """A hand-in with some of its text replaced; each text must stand in it once."""
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return {"scorers.py": text.encode()}


def test_the_reference_scores_100(grade: Grade) -> None:
    record = grade("scorers", REFERENCE / "scorers.py")
    assert (record.score, record.max_score, record.complete) == (100, 100, True)
    assert not record.faults
    assert {result.status for result in record.results} == {Status.PASSED}
    assert not [result.number for result in record.results if result.review]


@pytest.mark.parametrize("folder", ALTERNATIVES, ids=lambda path: path.name)
def test_every_other_right_way_scores_100(grade: Grade, folder: Path) -> None:
    record = grade("scorers", folder)
    assert not failed(record)
    assert record.score == 100
    assert not [result.review for result in record.results if result.review]


def test_the_untouched_starter_scores_0(grade: Grade) -> None:
    record = grade("scorers", {"scorers.py": bundle.starter_files(labs.load("scorers", ROOT))["scorers.py"]})
    assert record.score == 0
    assert not record.faults
    assert result_of(record, "dot_values").gap.startswith("Not written yet. TODO 4.1:")
    assert result_of(record, "dot_listens").blocked_by == "4.1.1"
    assert "this needs a scorer" in result_of(record, "effect_values").gap.lower()


CONSTANT = {
    "zeros": "torch.zeros(shape, dtype=x.dtype)",
    "ones": "torch.ones(shape, dtype=x.dtype)",
    "graph": "(x.sum() * 0).expand(shape)",
    "random": "torch.rand(shape, dtype=x.dtype)",
}


def constants(kind: str) -> dict[str, bytes]:
    """A hand-in whose every part gives a constant."""
    source = f"""
import torch
from torch import nn

def constant(x, *shape):
    return {CONSTANT[kind]}

def dot_product_scores(query, key):
    return constant(query, *query.shape[:2], key.shape[1])

def scaled_dot_product_scores(query, key):
    return constant(query, *query.shape[:2], key.shape[1])

class AdditiveScorer(nn.Module):
    def __init__(self, dim_q, dim_k, dim_hidden):
        super().__init__()
        self.W_q = nn.Linear(dim_q, dim_hidden, bias=False)
        self.W_k = nn.Linear(dim_k, dim_hidden, bias=False)
        self.b = nn.Parameter(torch.zeros(dim_hidden))
        self.v_a = nn.Parameter(torch.ones(dim_hidden))
    def forward(self, query, key):
        return constant(query, *query.shape[:2], key.shape[1])

class LinearConcatScorer(nn.Module):
    def __init__(self, dim_q, dim_k):
        super().__init__()
        self.a = nn.Parameter(torch.ones(dim_q))
        self.b = nn.Parameter(torch.ones(dim_k))
    def forward(self, query, key):
        return constant(query, *query.shape[:2], key.shape[1])

def read(scores, value, mask=None):
    return constant(value, *scores.shape[:2], value.shape[2]), constant(value, *scores.shape)

def query_effect(scorer, query, other_query, key):
    return float(constant(query))

def shift_gap(scores, c):
    return float(constant(scores))

def compare(scorers, query, other_query, key, value):
    numbers = {{key: float(constant(value)) for key in ("row_sum_error", "query_effect", "entropy")}}
    return [{{"scorer": name, **numbers}} for name in scorers]

ANSWERS = {{"linear-scorer": None}}
"""
    return {"scorers.py": source.encode()}


@pytest.mark.parametrize("kind", CONSTANT)
def test_constants_score_0(grade: Grade, kind: str) -> None:
    record = grade("scorers", constants(kind))
    assert [result.check for result in record.results if result.score] == []
    assert not record.faults


class Late:
    """The reference on a machine that is too busy: some questions are not answered in time."""

    def __init__(self, reference: Interpreter, share: float, seed: int) -> None:
        self.reference, self.share, self.random = reference, share, random.Random(seed)

    def ask(self, verb: str, **body: Any) -> Any:
        if verb != "begin" and self.random.random() < self.share:
            raise NoAnswer("time", "it ran longer than it may")
        return self.reference.ask(verb, **body)


@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_a_machine_that_is_too_busy_pays_no_constant(zygote: Zygote, tmp_path: Path, share: float) -> None:
    """What stands behind a gate that was not judged is not judged either: a constant would pass it."""
    lab = labs.load("scorers", ROOT)
    live = Live(zygote, lab.reference, None, 60)
    (tmp_path / "scorers.py").write_bytes(constants("graph")["scorers.py"])
    for seed in range(3):
        session = Session(lab, zygote, reference=Late(live, share, seed))
        record = session.grade(collect(tmp_path, lab.wanted))
        assert [result.check for result in record.results if result.score] == []
        assert record.faults
    live.close()


@pytest.mark.parametrize("number", ["0.0", "1.0"])
def test_constant_instruments_score_0_on_right_scorers(grade: Grade, number: str) -> None:
    text = (REFERENCE / "examples" / "complete" / "scorers.py").read_text(encoding="utf-8")
    text += f"""
def query_effect(scorer, query, other_query, key):
    return {number}

def shift_gap(scores, c):
    return {number}

def compare(scorers, query, other_query, key, value):
    keys = ("row_sum_error", "query_effect", "entropy")
    return [{{"scorer": name, **dict.fromkeys(keys, {number})}} for name in scorers]
"""
    record = grade("scorers", {"scorers.py": text.encode()})
    assert record.score == 100 - 8 - 6 - 7


def test_handing_back_an_input_scores_0(grade: Grade) -> None:
    source = """
from torch import nn
def dot_product_scores(query, key): return query
def scaled_dot_product_scores(query, key): return key
class AdditiveScorer(nn.Module):
    def __init__(self, dim_q, dim_k, dim_hidden): super().__init__()
    def forward(self, query, key): return query
class LinearConcatScorer(nn.Module):
    def __init__(self, dim_q, dim_k): super().__init__()
    def forward(self, query, key): return key
def read(scores, value, mask=None): return value, scores
def query_effect(scorer, query, other_query, key): return scorer
def shift_gap(scores, c): return scores
def compare(scorers, query, other_query, key, value): return scorers
"""
    record = grade("scorers", {"scorers.py": source.encode()})
    assert record.score == 0
    assert not record.faults


@pytest.mark.parametrize(
    ("example", "score", "caught_by", "mistake"),
    [
        ("scale_forgotten", 92, ["scaled_values"], "no_scale"),
        ("tanh_missing", 77, ["additive_values", "additive_listens"], "tanh_missing"),
        ("b_outside_tanh", 83, ["additive_values"], "b_outside_tanh"),
        ("v_a_missing", 83, ["additive_values"], "v_a_missing"),
        ("linear_scorer_multiplies", 86, ["linear_values", "linear_does_not_listen"], "linear_multiplies"),
        ("softmax_over_readers", 81, ["read_output"], "softmax_over_readers"),
        ("mask_ignored", 93, ["read_mask"], "mask_ignored"),
        ("query_effect_of_scores", 92, ["effect_values"], "effect_of_scores"),
        ("shift_gap_without_softmax", 94, ["shift_of_every_pair"], "gap_without_softmax"),
        ("entropy_in_bits", 97.5, ["compare_entropy"], "entropy_in_bits"),
    ],
)
def test_a_fault_costs_its_own_checks_and_is_named(
    grade: Grade, example: str, score: float, caught_by: list[str], mistake: str
) -> None:
    record = grade("scorers", REFERENCE / "examples" / example)
    assert failed(record) == caught_by
    assert record.score == score
    assert len(lost_sections(record)) == 1
    assert named(record) == {(mistake,)}


def test_half_done_earns_its_half(grade: Grade) -> None:
    record = grade("scorers", REFERENCE / "examples" / "half_done")
    assert record.score == 9 + 8 + 23 + 19
    assert lost_sections(record) == {"4.4", "4.6", "4.7", "4.8", "4.9"}


DOT = "return query @ key.transpose(1, 2)  # (N, Kq, K)"


@pytest.mark.parametrize("wrong", ["return 2 * (query @ key.transpose(1, 2))", "return key @ query.transpose(1, 2)"])
def test_wrong_dot_products_cost_neither_the_scale_nor_the_instruments(grade: Grade, wrong: str) -> None:
    record = grade("scorers", changed(REFERENCE / "scorers.py", (DOT, wrong)))
    assert failed(record) == ["dot_values"]
    assert lost_sections(record) == {"4.1"}
    assert result_of(record, "dot_listens").status is Status.PASSED


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        ("return (query @ key.transpose(1, 2)).float()", "dot_in_float64"),
        ("return query @ key.transpose(1, 2).squeeze()", "dot_small"),
        ("return (query @ key.transpose(1, 2)).detach()", "dot_gradients"),
    ],
)
def test_an_edge_that_the_dot_products_miss_costs_its_point_once(grade: Grade, wrong: str, caught_by: str) -> None:
    record = grade("scorers", changed(REFERENCE / "scorers.py", (DOT, wrong)))
    assert failed(record) == [caught_by]
    assert record.score == 99
    assert len([result for result in record.results if result.review]) == 1


def test_scaling_what_is_constant_earns_nothing(grade: Grade) -> None:
    record = grade("scorers", changed(REFERENCE / "scorers.py", (DOT, "return 0 * (query @ key.transpose(1, 2))")))
    assert {"dot_values", "dot_listens", "scaled_values"} == set(failed(record))
    assert lost_sections(record) == {"4.1", "4.2"}


def test_a_wrong_read_costs_no_instrument_that_is_built_on_it(grade: Grade) -> None:
    built_on_read = REFERENCE / "alternatives" / "broadcast_and_sum" / "scorers.py"
    over_readers = ("weights = e / e.sum(dim=-1, keepdim=True)", "weights = e / e.sum(dim=1, keepdim=True)")
    record = grade("scorers", changed(built_on_read, over_readers))
    assert failed(record) == ["read_output"]
    assert lost_sections(record) == {"4.5"}


def test_a_missing_read_costs_compare_and_no_more(grade: Grade) -> None:
    text = (REFERENCE / "scorers.py").read_text(encoding="utf-8").replace("def read(", "def read_it(")
    record = grade("scorers", {"scorers.py": text.encode()})
    assert lost_sections(record) == {"4.5", "4.8"}


def test_instruments_without_scorers_are_blocked_and_no_fault(grade: Grade) -> None:
    text = (REFERENCE / "scorers.py").read_text(encoding="utf-8")
    for scorer in ("def dot_product_scores(", "class AdditiveScorer(", "class LinearConcatScorer("):
        text = text.replace(scorer, scorer.replace(" ", " My"))
    record = grade("scorers", {"scorers.py": text.encode()})
    assert result_of(record, "effect_values").status is Status.BLOCKED
    assert result_of(record, "compare_entropy").status is Status.BLOCKED
    assert result_of(record, "shift_of_every_reader").status is Status.PASSED
    assert not record.faults


@pytest.mark.parametrize(
    "name",
    [
        "dot_keys_with_keys",
        "dot_features_with_features",
        "no_softmax",
        "read_by_columns",
        "weights_and_output_swapped",
        "effect_is_always_0",
        "effect_of_one_query_only",
        "effect_is_a_tensor",
    ],
)
def test_a_mistake_fails_no_check_of_what_is_built_on_it(grade: Grade, name: str) -> None:
    lab = labs.load("scorers", ROOT)
    item = next(item for item in lab.mistakes if item.name == name)
    targets = {check.name: check.target for check in lab.checks}
    record = grade("scorers", with_mistake(lab, item))
    assert {targets[check] for check in failed(record)} == {item.of}


def test_a_linear_scorer_that_does_not_load_is_no_fault_of_an_instrument(grade: Grade) -> None:
    renamed = ("self.a = nn.Parameter(torch.randn(dim_q))", "self.weight = nn.Parameter(torch.randn(dim_q))")
    record = grade("scorers", changed(REFERENCE / "scorers.py", renamed))
    assert failed(record) == ["linear_values", "linear_does_not_listen"]
    waiting = result_of(record, "effect_of_the_linear_scorer")
    assert waiting.status is Status.BLOCKED
    assert "LinearConcatScorer has no parameter a" in waiting.gap


@pytest.mark.parametrize(
    ("right", "scaled"),
    [
        (DOT, "return 40 * (query @ key.transpose(1, 2))"),
        ("return torch.tanh(pairs + self.b) @ self.v_a", "return torch.tanh(pairs + self.b) @ self.v_a / 40"),
        (
            "return (query @ self.a).unsqueeze(2) + (key @ self.b).unsqueeze(1)",
            "return 40 * (query @ self.a).unsqueeze(2) + 3 * (key @ self.b).unsqueeze(1)",
        ),
    ],
)
def test_whether_the_query_matters_is_judged_whatever_the_scale(grade: Grade, right: str, scaled: str) -> None:
    record = grade("scorers", changed(REFERENCE / "scorers.py", (right, scaled)))
    for check in ("dot_listens", "additive_listens", "linear_does_not_listen"):
        assert result_of(record, check).status is Status.PASSED
    assert len(failed(record)) == 1


@pytest.mark.parametrize(
    ("change", "caught_by", "mistake"),
    [
        (("* self.v_a).sum(dim=-1)", "* self.v_a.detach()).sum(dim=-1)"), "additive_learns", "v_a_detached"),
        (("* self.v_a).sum(dim=-1)", "* self.v_a).sum(dim=-1).float()"), "additive_in_float64", "additive_in_float32"),
        (("* self.v_a).sum(dim=-1)", "* self.v_a).mean(dim=-1)"), "additive_values", "hidden_units_averaged"),
        (("return y, weights", "return y, scores"), "read_weights", "scores_returned_for_weights"),
        (("scores.masked_fill(mask, -1e9)", "torch.where(mask, scores, -1e9)"), "read_mask", "mask_inverted"),
        (
            ("torch.softmax(scores, dim=-1)\n    y", "scores.exp() / scores.exp().sum(-1, keepdim=True)\n    y"),
            "large_scores",
            "softmax_unstable",
        ),
        (
            ("log_w = torch.where(weights > 0, weights, torch.ones_like(weights)).log()", "log_w = weights.log()"),
            "compare_weights_of_zero",
            "entropy_nan_at_0",
        ),
    ],
)
def test_a_mistake_in_other_words_is_named(grade: Grade, change: tuple[str, str], caught_by: str, mistake: str) -> None:
    record = grade("scorers", changed(REFERENCE / "examples" / "complete" / "scorers.py", change))
    assert failed(record) == [caught_by]
    assert len(lost_sections(record)) == 1
    assert named(record) == {(mistake,)}


@pytest.mark.parametrize(
    ("changes", "mistakes"),
    [
        ((("w1 = torch.softmax(scorer(query, key), dim=-1)", "w1 = scorer(query, key)"),
          ("w2 = torch.softmax(scorer(other_query, key), dim=-1)\n    return (w1 - w2).abs().max()",
           "w2 = scorer(other_query, key)\n    return (w1 - w2).abs().mean()")),
         ("effect_of_scores", "effect_mean")),
        ((("hidden = torch.tanh(q[:, :, None, :] + k[:, None, :, :] + self.b)",
           "hidden = torch.tanh(q[:, None, :, :] + k[:, :, None, :] + self.b)"),
          ("(hidden * self.v_a).sum(dim=-1)", "hidden.sum(dim=-1)")),
         ("v_a_missing", "additive_transposed")),
    ],
)  # fmt: skip
def test_two_mistakes_together_are_named(
    grade: Grade, changes: tuple[tuple[str, str], ...], mistakes: tuple[str, ...]
) -> None:
    record = grade("scorers", changed(REFERENCE / "examples" / "complete" / "scorers.py", *changes))
    assert named(record) == {mistakes}


def test_a_wrong_answer_of_no_known_kind_gets_no_cause(grade: Grade) -> None:
    odd = ("hidden = torch.tanh(", "hidden = torch.sin(")
    record = grade("scorers", changed(REFERENCE / "examples" / "complete" / "scorers.py", odd))
    assert failed(record) == ["additive_values"]
    assert named(record) == set()


def test_every_anchor_that_a_check_names_is_in_the_handout() -> None:
    lab = labs.load("scorers", ROOT)
    headings = re.findall(r"^#+ (.+)$", bundle.handout(lab), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    assert {check.read for check in lab.checks} <= {f"#{slug}" for slug in slugs}


def test_every_question_has_its_check() -> None:
    lab = labs.load("scorers", ROOT)
    asked = {check.read for check in lab.checks if "question" in check.tags}
    assert asked == {f"#{name}" for name in lab.questions}


@pytest.fixture(scope="module")
def student_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a student unzips: nothing of the reference but a recording of its answers."""
    folder = tmp_path_factory.mktemp("student")
    for name, data in bundle.student_files(labs.load("scorers", ROOT)).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.mark.parametrize(("hand_in", "status"), [("alternatives/loops", 0), ("examples/linear_scorer_multiplies", 1)])
def test_the_students_copy_says_the_same(student_folder: Path, grade: Grade, hand_in: str, status: int) -> None:
    shutil.copy(REFERENCE / hand_in / "scorers.py", student_folder)
    run = subprocess.run([sys.executable, "check.py"], cwd=student_folder, capture_output=True, text=True, timeout=120)
    assert run.returncode == status, run.stdout + run.stderr
    record = grade("scorers", REFERENCE / hand_in)
    symbols = {Status.PASSED: "✓", Status.FAILED: "✗", Status.BLOCKED: "–"}
    for result in record.results:
        if not result.hidden and "question" not in result.tags:
            assert f"{symbols[result.status]} {result.number} " in run.stdout
