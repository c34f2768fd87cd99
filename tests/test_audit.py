"""The audit sees what it is there for: a mistake that no check catches, a lost marker, a hidden check in the handout."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny

from autograder import audit, bundle, cli, scaffold
from autograder.check import AuthoringError
from autograder.result import save
from autograder.sandbox.launcher import Zygote
from autograder.strip import StripError

UNNOTICED = """
    mistake(
        name="keeps_a_copy",
        of="double",
        change={"torch.add(x, x)": "torch.add(x.clone(), x)"},
        caught_by="doubled",
        says="nobody notices this.",
    ),
]
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The miniature course with a catalogue, an alternative and its starter."""
    return tiny.make_audited_course(tmp_path / "course")


def audited(root: Path, zygote: Zygote) -> audit.Audit:
    return tiny.audited("tiny", root, zygote)


def beyond_its_size(faults: list[str]) -> list[str]:
    """Without the one thing that is wrong with a miniature: it has no hundred points."""
    return [fault for fault in faults if "not 100" not in fault]


def test_a_sound_lab_is_sound(course: Path, zygote: Zygote) -> None:
    found = audited(course, zygote)
    assert beyond_its_size(found.faults) == []
    assert [trial.name for trial in found.trials] == ["untouched", "reference", "times_two", "three_times"]
    assert found.of("mistake")[0].named() == {("three_times",)}


def test_a_mistake_that_no_check_catches_is_a_fault(course: Path, zygote: Zygote) -> None:
    path = course / "assignments" / "tiny" / "mistakes.py"
    save(path.read_text().rstrip().removesuffix("]") + UNNOTICED.lstrip("\n"), path)
    faults = beyond_its_size(audited(course, zygote).faults)
    assert "mistake keeps_a_copy: doubled does not catch it (caught by nothing)" in faults


@pytest.mark.parametrize("marker", ["# BEGIN SOLUTION 1.1 return twice the input", "# END SOLUTION"])
def test_a_solution_marker_that_is_gone_stops_it(course: Path, zygote: Zygote, marker: str) -> None:
    path = course / "reference" / "tiny" / "tiny.py"
    save(path.read_text().replace(f"    {marker}\n", "", 1), path)
    with pytest.raises(StripError, match=r"reference/tiny/tiny\.py:\d+: "):
        audited(course, zygote)


def test_a_whole_region_that_lost_its_markers_is_a_fault(course: Path, zygote: Zygote) -> None:
    path = course / "reference" / "tiny" / "tiny.py"
    text = path.read_text().replace("    # BEGIN SOLUTION 1.1 return twice the input\n", "")
    save(text.replace("    # END SOLUTION\n", "", 1), path)
    faults = audited(course, zygote).faults
    assert any("section 1.1 of lab.toml has no region" in fault for fault in faults)
    assert any(fault.startswith("starter untouched: scores ") for fault in faults)


def test_a_hidden_check_that_is_copied_into_the_handout_is_a_fault(course: Path, zygote: Zygote) -> None:
    path = course / "assignments" / "tiny" / "README.md"
    copied = tiny.CHECKS[tiny.CHECKS.index("def rows_of_edge_length") : tiny.CHECKS.index("# The last remark")]
    save(path.read_text() + f"\n```python\n{copied}```\n", path)
    bundle.write_starter("tiny", course)
    faults = audited(course, zygote).faults
    assert any("README.md" in fault and "hidden check" in fault for fault in faults)


def test_an_alternative_that_fails_is_a_fault(course: Path, zygote: Zygote) -> None:
    save("def double(x):\n    return 3 * x\n", course / "reference" / "tiny" / "alternatives" / "wrong" / "tiny.py")
    faults = audited(course, zygote).faults
    assert any(fault.startswith("alternative wrong: scores 0 of 4.5") for fault in faults)


def test_a_mistake_that_does_not_fit_the_reference_stops_it(course: Path, zygote: Zygote) -> None:
    path = course / "assignments" / "tiny" / "mistakes.py"
    save(path.read_text().replace('torch.add(x, x)"', 'torch.mul(x, 2)"', 1), path)
    with pytest.raises(AuthoringError, match="three_times"):
        audited(course, zygote)


def test_a_stale_starter_is_a_fault(course: Path, zygote: Zygote) -> None:
    path = course / "starter_code" / "tiny" / "tiny.py"
    save(path.read_text() + "\n# edited by hand\n", path)
    assert any("run `make starter`" in fault for fault in audited(course, zygote).faults)


def test_folders_without_a_counterpart_are_told(course: Path) -> None:
    (course / "starter_code" / "gone").mkdir()
    assert audit.orphans(course, ["tiny"]) == ["starter_code/gone belongs to no lab"]


def test_labs_are_audited_side_by_side_and_one_fault_is_enough(
    course: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "available_cores", lambda: {0, 1})
    scaffold.new("sound", course)
    assert cli.main(["--course", str(course), "audit"]) == 1  # the miniature has no hundred points
    printed = capfd.readouterr().out
    assert printed.index("Tiny lab") < printed.index("· Sound")
    assert cli.main(["--course", str(course), "audit", "sound"]) == 0
