"""The stability runs: nothing changes where nothing matters, and what hangs on chance is found where it shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny

from autograder import lab as labs
from autograder import specimens, stability
from autograder.result import save
from autograder.sandbox.frames import Name
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Program
from autograder.session import Session
from autograder.stability import AGAIN, NOISE, OTHERS, Surroundings, Trembling
from autograder.tensors import RELATIVE, agree

HASH_SEED, _, THREADS, NOISY = OTHERS
ALTERNATIVE = Path("reference/tiny/alternatives/times_two/tiny.py")
CHECKS = Path("assignments/tiny/checks.py")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The miniature course with a catalogue, an alternative and its starter."""
    return tiny.make_audited_course(tmp_path / "course")


def changed(root: Path, zygote: Zygote, *others: Surroundings) -> dict[str, tuple[str, ...]]:
    """What changes in a second run and in other surroundings, by their names."""
    lab = labs.load("tiny", root)
    session = Session(lab, zygote)
    try:
        first = [session.grade(specimen.hand_in) for specimen in specimens.of(lab)]
        found = list(stability.run(lab, session, first, others))
    finally:
        session.close_reference()
    assert {outcome.hand_ins for outcome in found} == {len(first)}
    return {outcome.surroundings.name: outcome.changed for outcome in found}


def test_nothing_changes_where_nothing_matters(course: Path, zygote: Zygote) -> None:
    found = changed(course, zygote, HASH_SEED, THREADS, NOISY)
    assert found == {surroundings.name: () for surroundings in (AGAIN, HASH_SEED, THREADS, NOISY)}


@pytest.mark.parametrize(
    ("surroundings", "condition"),
    [(HASH_SEED, "sys.flags.hash_randomization"), (THREADS, "torch.get_num_threads() > 1")],
    ids=["hash seed", "threads"],
)
def test_a_hand_in_that_hangs_on_its_surroundings_is_found(
    course: Path, zygote: Zygote, surroundings: Surroundings, condition: str
) -> None:
    text = tiny.ALTERNATIVE.replace("2 * x", f"3 * x if {condition} else 2 * x").replace("import", "import sys, ", 1)
    save(text, course / ALTERNATIVE)
    found = changed(course, zygote, surroundings)
    assert found[AGAIN.name] == ()
    assert any(
        line.startswith("alternative times_two: 1.1.1: status was <Status.PASSED") for line in found[surroundings.name]
    )


def test_a_tolerance_without_room_for_rounding_is_found(course: Path, zygote: Zygote) -> None:
    tiny.change(course / CHECKS, 'axes="row column").equals(expected)', 'axes="row column").equals(expected, 1e-6)')
    found = changed(course, zygote, NOISY)
    assert found[AGAIN.name] == ()
    assert any(line.startswith("reference reference: 1.1.1: score was 2.0, is 0.0") for line in found[NOISY.name])


def test_a_check_that_remembers_is_found_by_a_second_run(course: Path, zygote: Zygote) -> None:
    tiny.change(
        course / CHECKS,
        '    """very long and very short inputs come out right"""\n',
        '    """very long and very short inputs come out right"""\n'
        "    two.calls = getattr(two, 'calls', 0) + 1\n    assert two.calls <= 2, 'once too often'\n",
    )
    assert changed(course, zygote)[AGAIN.name]


def test_words_count_only_where_the_numbers_are_the_same() -> None:
    assert "gap" in AGAIN.watched and "gap" in HASH_SEED.watched
    assert "gap" not in THREADS.watched and "gap" not in NOISY.watched
    assert {"status", "score", "mistakes"} <= set(NOISY.watched)


def test_noise_moves_what_is_computed_and_nothing_else(zygote: Zygote) -> None:
    program = Program({"tiny": ("tiny.py", "def double(x, y):\n    return 2 * x, float(2 * y[0]), y > 0\n")}, {})
    guest = Trembling(zygote, program, None, 60.0, noise=NOISE)
    x, y = np.linspace(0, 1, 11, dtype=np.float32), np.array([3, -1], np.float32)
    target = Name("tiny", "double")
    try:
        answer = guest.ask("call", target=target, args=[x, y], kwargs={}, want=("inputs",))
        again = guest.ask("call", target=target, args=[answer["value"][0], y], kwargs={}, want=("inputs",))
    finally:
        guest.close()
    doubled, number, positive = answer["value"]
    off = np.abs(doubled.astype(np.float64) - 2 * x)
    assert doubled.dtype == np.float32 and doubled[0] == 0
    assert NOISE / 2 < off.max() / 2 <= 1.01 * NOISE
    assert 0 < abs(number - 6) / 6 <= 1.01 * NOISE
    assert positive.tolist() == [True, False]
    assert np.array_equal(again["inputs"][0], 2 * x)  # what it is handed back is what it had computed
    assert all(np.array_equal(before, after) for before, after in zip((x, y), answer["inputs"]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_sign_turns_and_in_float64_the_noise_is_finer(zygote: Zygote, dtype: str) -> None:
    guest = Trembling(zygote, Program({}, {}), None, 60.0, noise=NOISE)
    weights = np.array([1e-9, 0, 1, np.inf, np.nan] * 50, dtype)
    shaken = guest.shaken(weights)
    assert shaken.dtype == weights.dtype
    assert np.array_equal(np.sign(shaken), np.sign(weights), equal_nan=True)
    finite = np.isfinite(weights)
    assert not np.array_equal(shaken[finite], weights[finite])
    assert agree(shaken[finite], weights[finite])


def test_tolerances_leave_room_for_the_noise() -> None:
    assert RELATIVE["float32"] >= 4 * NOISE
    assert 1000 * NOISE * np.finfo(np.float64).eps / np.finfo(np.float32).eps <= RELATIVE["float64"]
