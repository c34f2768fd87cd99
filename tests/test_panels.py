"""Panels: a wrong value beside what was expected, small enough to look at, of visible checks only."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ROOT, Grade, result_of
from pydantic import ValidationError

from autograder import panels
from autograder.check import Mismatch, expect
from autograder.probes import Probes
from autograder.result import Panel, Result, Status

SOFTMAX_OVER_READERS = ROOT / "reference" / "attention" / "examples" / "softmax_over_readers"


def seen(got: np.ndarray, expected: np.ndarray, axes: str = "", tokens: tuple[str, ...] = ()) -> Panel | None:
    """The panel of what `equals` finds."""
    with pytest.raises(Mismatch) as found:
        expect(got, "y", axes, tokens).equals(expected)
    return panels.panel(found.value.seen[0])


def test_the_table_of_the_worst_sequence() -> None:
    expected = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10
    got = expected.copy()
    got[1, 2, 3] += 0.5
    got[0, 0, 0] += 0.1
    panel = seen(got, expected, "sequence reader feature")
    assert panel is not None
    assert (panel.place, panel.row_axis, panel.column_axis) == ("sequence 1", "reader", "feature")
    assert panel.rows == ("0", "1", "2")
    assert panel.expected[2] == ("2.000", "2.100", "2.200", "2.300")
    assert panel.got[2] == ("2.000", "2.100", "2.200", "2.800")
    assert panel.difference == (("",) * 4, ("",) * 4, ("", "", "", "+0.500"))
    assert panel.expected_sums == ()  # a sum over features means nothing
    assert panel.cut == ""


def test_weights_show_what_their_rows_sum_to() -> None:
    expected = np.full((1, 2, 4), 0.25, dtype=np.float32)
    panel = seen(expected * 2, expected, "sequence reader source")
    assert panel is not None
    assert panel.expected_sums == ("1.000", "1.000")
    assert panel.got_sums == ("2.000", "2.000")


def test_only_what_lies_around_the_worst_place_is_kept() -> None:
    expected = np.zeros((40, 30), dtype=np.float32)
    got = expected.copy()
    got[39, 2] = 1
    panel = seen(got, expected)
    assert panel is not None
    assert panel.rows == tuple(map(str, range(32, 40)))
    assert panel.columns == tuple(map(str, range(8)))
    assert panel.cut == "rows 32–39 of 40, columns 0–7 of 30"
    assert panel.difference[7][2] == "+1.000"


def test_row_sums_are_those_of_whole_rows() -> None:
    expected = np.full((2, 20), 0.05, dtype=np.float32)
    panel = seen(expected + np.float32(0.05), expected, "reader source")
    assert panel is not None
    assert len(panel.columns) == 8
    assert panel.got_sums == ("2.000", "2.000")


def test_one_axis_is_one_row_and_a_number_is_no_table() -> None:
    panel = seen(np.array([1.0, 2.0]), np.array([1.0, 2.5]), "feature")
    assert panel is not None
    assert (panel.rows, panel.columns, panel.row_axis, panel.column_axis) == (("",), ("0", "1"), "", "feature")
    assert seen(np.array(1.0), np.array(2.0)) is None


def test_positions_are_called_by_their_words_and_features_are_not() -> None:
    words = ("The", "animal", "slept")
    edges = np.tril(np.ones((3, 3), dtype=bool))
    panel = seen(edges.T, edges, "output input", words)
    assert panel is not None
    assert panel.rows == panel.columns == ("0 The", "1 animal", "2 slept")
    assert panel.difference[0] == ("", "≠", "≠")
    features = seen(np.zeros((3, 2)), np.ones((3, 2)), "reader feature", words)
    assert features is not None
    assert features.columns == ("0", "1")


def test_what_is_no_number_is_shown_and_small_errors_stay_visible() -> None:
    expected = np.array([[0.5, 0.25, 1.0]])
    panel = seen(np.array([[np.nan, -np.inf, 1.00001]]), expected)
    assert panel is not None
    assert panel.got == (("nan", "-inf", "1.00001"),)
    assert panel.expected == (("0.500", "0.250", "1"),)
    assert panel.difference[0][2] == "+1e-05"
    large = seen(np.array([[1e30, 2.0]]), np.array([[2e30, 2.0]]))
    assert large is not None
    assert (large.got[0], large.difference[0]) == (("1e+30", "2"), ("-1e+30", ""))


def test_the_figures_of_a_difference_are_those_of_the_tables() -> None:
    generator = np.random.default_rng(7)
    for scale in (1e-4, 1e-2, 1.0, 30.0, 5e3, 1e7):
        expected = generator.normal(size=(3, 4)) * scale
        panel = seen(expected + generator.normal(size=(3, 4)) * scale, expected)
        assert panel is not None
        for one, other, gap in zip(panel.got, panel.expected, panel.difference):
            for a, b, c in zip(one, other, gap):
                assert float(c) == pytest.approx(float(a) - float(b), abs=0.02 * scale)


def test_a_grading_shows_the_weights_beside_the_output(grade: Grade) -> None:
    record = grade("attention", SOFTMAX_OVER_READERS)
    y, weights = result_of(record, "no_loop_output").panels
    assert (y.name, weights.name) == ("y", "weights_softmax")
    assert set(weights.expected_sums) == {"1.000"}
    assert "1.000" not in weights.got_sums
    assert any(result.hidden and result.status is Status.BLOCKED for result in record.results)


def test_no_hidden_check_keeps_what_was_expected(grade: Grade) -> None:
    text = (ROOT / "reference" / "attention" / "attention.py").read_text(encoding="utf-8")
    wrong = text.replace("def weighted_read(", "def weighted_read(weights, values):\n    return right(weights, values) * "
                         "(1 if weights.shape[0] in (3, 7) else 2)\n\n\ndef right(")  # fmt: skip
    record = grade("attention", {"attention.py": wrong.encode()})
    hidden = result_of(record, "weighted_read_one_source")
    assert hidden.status is Status.FAILED
    assert not hidden.panels
    # Nor does a check that is right on the inputs of check.py and wrong on the secret ones.
    handed_out = Probes("attention/weighted_read_values/handed out").uniform(7, low=0, high=1).tolist()
    known = f"(len(weights) == 3 or weights.tolist() == {handed_out})"
    head = f"def weighted_read(weights, values):\n    return right(weights, values) + (not {known})\n\n\n"
    pasted = text.replace("def weighted_read(", f"{head}def right(")
    second = result_of(grade("attention", {"attention.py": pasted.encode()}), "weighted_read_values")
    assert second.gap.startswith("Right on the inputs of check.py")
    assert not second.panels


def test_a_hidden_result_with_a_panel_is_refused(grade: Grade) -> None:
    panel = seen(np.zeros((2, 2)), np.ones((2, 2)))
    with pytest.raises(ValidationError, match="must not stand in its result"):
        Result(check="c", number="1.1.1", title="t", section="1.1", status=Status.FAILED, score=0, max_score=1,
               hidden=True, panels=(panel,))  # fmt: skip
