"""Lab 1 is sound: what is right scores 100, what is constant or untouched scores 0, each fault costs what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT, Grade, failed, result_of

from autograder import lab as labs
from autograder.probes import Probes
from autograder.result import Record, Status

REFERENCE = ROOT / "reference" / "attention"
ALTERNATIVES = sorted((REFERENCE / "alternatives").iterdir())


def test_the_reference_scores_100(grade: Grade) -> None:
    record = grade("attention", REFERENCE / "attention.py")
    assert (record.score, record.max_score, record.complete) == (100, 100, True)
    assert not record.faults
    assert {result.status for result in record.results} == {Status.PASSED}
    assert not [result.number for result in record.results if result.review]


@pytest.mark.parametrize("folder", ALTERNATIVES, ids=lambda path: path.name)
def test_every_other_right_way_scores_100(grade: Grade, folder: Path) -> None:
    record = grade("attention", folder)
    assert not failed(record)
    assert record.score == 100
    assert not [result.review for result in record.results if result.review]


def test_the_untouched_starter_scores_0(grade: Grade) -> None:
    record = grade("attention", ROOT / "starter_code" / "attention")
    assert record.score == 0
    first = result_of(record, "worked_example")
    assert first.gap.startswith("Not written yet. TODO 1.1:")
    # One root cause once: the second check that runs into the same TODO only points at the first.
    assert result_of(record, "weighted_read_values").blocked_by == "1.1.1"


CONSTANT = {
    "zeros": "torch.zeros(shape, dtype=x.dtype)",
    "ones": "torch.ones(shape, dtype=x.dtype)",
    "graph": "(x.sum() * 0).expand(shape)",
}


@pytest.mark.parametrize("kind", CONSTANT)
def test_constants_score_0(grade: Grade, kind: str) -> None:
    source = f"""
import torch
from torch import nn

def constant(x, *shape):
    return {CONSTANT[kind]}

def weighted_read(weights, values):
    return constant(values, values.shape[-1])

def scaled_dot_product_two_loop_single(query, key, value):
    for i in query:
        for j in key:
            pass
    return constant(value, *value.shape)

def scaled_dot_product_two_loop_batch(query, key, value):
    return scaled_dot_product_two_loop_single(query, key, value)

def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    y = constant(value, query.shape[0], query.shape[1], value.shape[2])
    return y, constant(value, query.shape[0], query.shape[1], key.shape[1])

class SelfAttention(nn.Module):
    def __init__(self, dim_in, dim_q, dim_v):
        super().__init__()
        self.q = nn.Linear(dim_in, dim_q)
        self.k = nn.Linear(dim_in, dim_q)
        self.v = nn.Linear(dim_in, dim_v)
    def forward(self, query, key, value, mask=None):
        y, self.weights_softmax = scaled_dot_product_no_loop_batch(self.q(query), self.k(key), self.v(value), mask)
        return y

def reads(function, x):
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)

ANSWERS = {{"attention-matrix": None}}
"""
    record = grade("attention", {"attention.py": source.encode()})
    # The layers of 1.5.1 and their sizes are real work; nothing else here is.
    assert {result.check for result in record.results if result.score} == {"head_has_projections"}


def test_handing_back_the_value_scores_0(grade: Grade) -> None:
    source = """
def weighted_read(weights, values): return values[0]
def scaled_dot_product_two_loop_single(query, key, value): return value
def scaled_dot_product_two_loop_batch(query, key, value): return value
def scaled_dot_product_no_loop_batch(query, key, value, mask=None): return value[:, :query.shape[1]], query @ key.transpose(1, 2)
def reads(function, x): return x
"""
    assert grade("attention", {"attention.py": source.encode()}).score == 0


@pytest.mark.parametrize(
    ("example", "score", "first", "place"),
    [
        ("softmax_over_readers", 64, "no_loop_output", "weights_softmax = torch.softmax(scores, dim=1)"),
        ("no_scale", 64, "no_loop_output", "weights_softmax = torch.softmax(scores, dim=-1)"),
        ("mask_inverted", 92, "mask_values", "scores = scores.masked_fill(~mask, -1e9)"),
        ("half_done", 34, "no_loop_output", "raise NotImplementedError"),
    ],
)
def test_a_fault_costs_its_own_checks(grade: Grade, example: str, score: float, first: str, place: str) -> None:
    record = grade("attention", REFERENCE / "examples" / example)
    assert record.score == score
    found = next(result for result in record.results if result.status is Status.FAILED)
    assert found.check == first
    assert found.where is not None
    assert found.where.text.startswith(place)
    assert found.mistakes == (() if example == "half_done" else (example,))


def test_an_endless_loop_costs_its_own_checks(grade: Grade) -> None:
    record = grade("attention", REFERENCE / "examples" / "endless_loop")
    stopped = result_of(record, "no_loop_output")
    assert "ran longer than 5 s" in stopped.gap
    assert stopped.where is not None
    assert stopped.where.text == "while True:"
    everything_else = {r.section for r in record.results if r.status is not Status.PASSED}
    assert everything_else == {"1.4", "1.5", "1.6"}  # 1.5 calls the function that loops; one edge check needs 1.5


def test_a_crash_at_import_keeps_what_was_defined(grade: Grade) -> None:
    record = grade("attention", REFERENCE / "examples" / "crash_on_import")
    assert record.score == 100
    assert any(re.search(r"import of attention.py stopped at attention.py:\d+ with ", note) for note in record.notes)


def test_what_stands_after_a_crash_is_said_to_be_missing(grade: Grade) -> None:
    text = (REFERENCE / "attention.py").read_text().replace("class SelfAttention", "1 / 0\n\n\nclass SelfAttention")
    record = grade("attention", {"attention.py": text.encode()})
    found = result_of(record, "head_has_projections")
    assert (
        "`SelfAttention` does not exist: the import of attention.py stopped before it, with ZeroDivisionError"
        in found.gap
    )
    assert found.where is not None
    assert found.where.text == "1 / 0"
    assert {result.section for result in record.results if result.status is Status.FAILED} == {"1.5", "1.6", "1.7"}


def test_a_syntax_error_costs_its_definition(grade: Grade) -> None:
    text = (REFERENCE / "attention.py").read_text().replace("return weights @ values", "return weights @@ values")
    record = grade("attention", {"attention.py": text.encode()})
    assert {result.section for result in record.results if result.status is not Status.PASSED} == {"1.1"}
    assert "SyntaxError" in result_of(record, "worked_example").gap


def test_a_recorded_answer_pasted_in_earns_nothing(grade: Grade) -> None:
    text = (REFERENCE / "attention.py").read_text()
    # The inputs of the handed-out probe are known, so its answer can be pasted; any other input gives nonsense.
    handed_out = Probes("attention/weighted_read_values/handed out").uniform(7, low=0, high=1).tolist()
    text += f"""
right = weighted_read
def weighted_read(weights, values):
    known = weights.tolist() == {handed_out} or len(weights) == 3
    return right(weights, values) if known else values[0]
"""
    record = grade("attention", {"attention.py": text.encode()})
    pasted = result_of(record, "weighted_read_values")
    assert pasted.status is Status.FAILED
    assert pasted.gap.startswith("Right on the inputs of check.py, wrong on others of the same shape:")


def test_the_same_hand_in_scores_the_same_twice(grade: Grade) -> None:
    first = grade("attention", REFERENCE / "examples" / "softmax_over_readers")
    second = grade("attention", REFERENCE / "examples" / "softmax_over_readers")

    def without_times(record: Record) -> dict[str, object]:
        document = record.model_dump(exclude={"seconds"})
        for result in document["results"]:
            del result["seconds"]
        return document

    assert without_times(first) == without_times(second)


def test_every_anchor_that_a_check_names_is_in_the_handout() -> None:
    lab = labs.load("attention", ROOT)
    text = (ROOT / "starter_code" / "attention" / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    assert {check.read for check in lab.checks} <= {f"#{slug}" for slug in slugs}


def test_a_package_that_is_not_installed_costs_only_what_uses_it(grade: Grade) -> None:
    text = (REFERENCE / "attention.py").read_text()
    text = "import no_such_plots.pyplot as plt\nfrom no_such_plots import colors, style\n" + text
    record = grade("attention", {"attention.py": text.encode()})
    assert record.score == 100
    assert "Not installed in the grader: no_such_plots. What does not use it is graded." in record.notes

    used = text.replace("    return weights @ values  # (Dv,)", "    plt.plot(weights)\n    return weights @ values")
    record = grade("attention", {"attention.py": used.encode()})
    assert {result.section for result in record.results if result.status is not Status.PASSED} == {"1.1"}
    said = "This needs no_such_plots, which is not installed in the grader."
    assert result_of(record, "worked_example").gap == said

    with_a_way_round = "try:\n    import no_such_plots\nexcept ImportError:\n    no_such_plots = None\n" + text
    record = grade(
        "attention",
        {
            "attention.py": with_a_way_round.replace("import no_such_plots.pyplot as plt\n", "")
            .replace("from no_such_plots import colors, style\n", "")
            .encode()
        },
    )
    assert record.score == 100
    assert not record.notes
