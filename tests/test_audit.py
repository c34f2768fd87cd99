"""The audit sees what it is there for: a mistake that no check catches, a lost marker, a hidden check in the handout."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
from rich.console import Console

from autograder import audit, bundle, cli, scaffold, structure
from autograder.check import AuthoringError
from autograder.reports import audit as report
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

RULED = """

@number("1.1.4")
@weight(0)
@check(target="double", after="doubled", read="#twice")
def without_a_loop(student, source):
    \"\"\"no loop\"\"\"
    rules.no_loop(source, "double", COUNT)
"""
COUNTED = "lambda n: student.double.operations(np.ones((n, 2), np.float32))"
UNRULY = """
    mistake(
        name="loops",
        of="double",
        change={"torch.add(x, x)": "LOOP"},
        caught_by="without_a_loop",
        told="gap",
        says="there is a loop.",
    ),
]
"""
DEAD = """

@number("1.1.4")
@weight(0)
@check(target="double", after="doubled", read="#twice")
def gives_something(student, probes):
    \"\"\"it gives something\"\"\"
    expect(student.double(probes.normal(2, 3))).is_tensor()
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


def with_check(root: Path, text: str, mistake: str = "") -> None:
    """Add a check at the end of section 1.1, and a mistake."""
    checks, mistakes = (root / "assignments" / "tiny" / name for name in ("checks.py", "mistakes.py"))
    tiny.change(checks, '\n\n@number("1.2.1")', f'{text}\n\n@number("1.2.1")')
    if mistake:
        save(mistakes.read_text().rstrip().removesuffix("]") + mistake.lstrip("\n"), mistakes)
    bundle.write_starter("tiny", root)


def test_a_rule_that_no_mistake_breaks_is_a_fault(course: Path, zygote: Zygote) -> None:
    with_check(course, RULED.replace("COUNT", "None"))
    (fault,) = beyond_its_size(audited(course, zygote).faults)
    assert fault.startswith("1.1.4 without_a_loop reads how double is written, and no mistake is meant for it")
    assert 'caught_by="without_a_loop" and told="gap"' in fault


def test_a_rule_that_a_mistake_breaks_is_sound(course: Path, zygote: Zygote) -> None:
    loop = UNRULY.replace("LOOP", "torch.stack([row + row for row in x])")
    with_check(course, RULED.replace("COUNT", COUNTED), loop)
    assert beyond_its_size(audited(course, zygote).faults) == []


def test_where_a_count_tells_nothing_the_way_out_is_named(course: Path, zygote: Zygote) -> None:
    """Of a mistake that its rule only asks a review for, and of a right alternative."""
    with_check(
        course, RULED.replace("COUNT", "lambda n: {}"), UNRULY.replace("LOOP", "torch.stack([r + r for r in x])")
    )
    alternative = course / "reference" / "tiny" / "alternatives" / "times_two" / "tiny.py"
    tiny.change(alternative, "return 2 * x", "return torch.stack([2 * row for row in x])")
    mistake, right = sorted(beyond_its_size(audited(course, zygote).faults), reverse=True)
    assert mistake.startswith("mistake loops: without_a_loop does not catch it (caught by nothing): it only asks for")
    assert right.startswith("alternative times_two: 1.1.4 asks for a review: tiny.py:5 shows a comprehension")
    for fault in (mistake, right):
        assert "about a function of sizes only" in fault
        assert "give its rule count=None in checks.py: then the syntax tree alone decides" in fault


def test_a_check_that_cannot_fail_is_told_from_one_that_waits(
    course: Path, zygote: Zygote, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [check.number for check in audited(course, zygote).idle_checks()] == ["1.1.2", "1.1.3"]
    with_check(course, DEAD)
    found = audited(course, zygote)
    # 1.1.2 waits for the values; nothing in this catalogue changes the input, and nothing at all fails 1.1.4.
    assert found.unproven == ["1.1.3", "1.1.4"]
    assert beyond_its_size(found.faults) == []
    report.render(found, Console(width=400), 0.0)
    printed = capsys.readouterr().out
    assert "nothing shows that these checks can fail: 1.1.3, 1.1.4. " in printed
    assert "Add the mistake that each is there for to mistakes.py" in printed
    assert "! nothing shows that these checks can fail" in report.page(found)


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
    assert structure.orphans(course, ["tiny"]) == ["starter_code/gone belongs to no lab"]


def test_labs_are_audited_side_by_side_and_one_fault_is_enough(
    course: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "available_cores", lambda: {0, 1})
    scaffold.new("sound", course)
    assert cli.main(["--course", str(course), "audit"]) == 1  # the miniature has no hundred points
    printed = capfd.readouterr().out
    assert printed.index("Tiny lab") < printed.index("· Sound")
    assert cli.main(["--course", str(course), "audit", "sound"]) == 0
