"""The count of names: what is named, what is not, and that a false name would be seen."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny

from autograder import lab as labs
from autograder import naming
from autograder.audit import NAMED, SILENT, TOLD, WRONG, Audit, Trial
from autograder.diagnose import Mistake, mistake
from autograder.lab import Lab
from autograder.result import HandIn, Record, Result, Status
from autograder.sandbox.launcher import Zygote
from autograder.specimens import Specimen, handed_in

OTHER = """
    mistake(
        name="once",
        of="double",
        change={"return result_of_doubling": "return result_of_doubling / 2"},
        caught_by="doubled",
        says="the input comes back as it is.",
    ),
]
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The miniature lab with two mistakes that can be made at once."""
    root = tiny.make_audited_course(tmp_path / "course")
    path = root / "assignments" / "tiny" / "mistakes.py"
    path.write_text(path.read_text().rstrip().removesuffix("]") + OTHER.lstrip("\n"))
    return labs.load("tiny", root)


def test_random_wrong_output_gets_no_name_and_a_pair_gets_both(lab: Lab, zygote: Zygote) -> None:
    counts = naming.run(lab, zygote, spoil=12)
    assert (counts.spoiled, counts.lost, counts.false) == (12, 12, ())
    assert dict(counts.pairs) == {naming.IN_FULL: 1}
    assert counts.lines()[0].startswith(
        "12 random wrong outputs (12 lose points) and 1 pairs of mistakes: 0 false names"
    )


def test_a_false_name_is_seen(lab: Lab, zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "FUNCTION", "\ndef {symbol}(x):\n    return x\n\n# {amount} {seed} {way}\n")
    counts = naming.run(lab, zygote, spoil=2)  # as "random" output what a mistake gives
    assert counts.false == tuple(f"double, spoiled with seed {seed}: doubled names once" for seed in (0, 1))
    assert counts.lines()[-1] == "✗ double, spoiled with seed 1: doubled names once"


def test_a_third_name_for_two_is_false_unless_it_does_the_same(lab: Lab, zygote: Zygote) -> None:
    two = (lab.mistakes[0], lab.mistakes[1])

    def third(factor: str) -> Mistake:
        change = {"return result_of_doubling": f"return result_of_doubling * {factor}"}
        return mistake(name="third", of="double", change=change, caught_by="doubled", says="it is the third.")

    bench = naming.Bench(lab, zygote)
    try:
        same, other = third("0.75"), third("7")
        found = bench.findings(naming.patches(two, lab.reference, lab.main_module), "double")
        assert bench.does_the_same(same, found)
        assert not bench.does_the_same(other, found)
    finally:
        bench.close()


def trial(lab: Lab, item: Mistake, *named: str) -> Trial:
    """A record in which the check that is meant for a mistake names something."""
    result = Result(
        check="doubled",
        number="1.1.1",
        title="twice",
        section="1.1",
        status=Status.FAILED,
        score=0,
        max_score=2,
        mistakes=named,
    )
    record = Record(lab="tiny", title="Tiny", hand_in=HandIn(name="x", digest="", files=()), results=(result,))
    return Trial(Specimen("mistake", item.name, handed_in(item.name, {}, lab), item), record)


def test_the_audit_counts_what_is_named(lab: Lab) -> None:
    item = lab.mistakes[0]
    quiet = mistake(
        name="quiet", of="double", change=item.change, caught_by="doubled", says="the check says it.", told="gap"
    )
    trials = [trial(lab, item, item.name), trial(lab, item), trial(lab, item, "once"), trial(lab, quiet)]
    assert Audit(lab, trials).naming() == {NAMED: 1, SILENT: 1, WRONG: 1, TOLD: 1}
