"""A lab is loaded whole or not at all, and what is wrong with it is said with file and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT
from tiny import change, make_course

from autograder import course
from autograder import lab as labs
from autograder.check import AuthoringError

CHECKS = "assignments/tiny/checks.py"
TOML = "assignments/tiny/lab.toml"
ASKED = "assignments/tiny/questions.toml"
REFERENCE = "reference/tiny/tiny.py"
HIDDEN = '@weight(1)\n@visibility("hidden")'


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_course(tmp_path)


def refused(root: Path, name: str = "tiny") -> str:
    with pytest.raises(AuthoringError) as error:
        labs.load(name, root)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_lab_is_loaded_whole(tiny: Path) -> None:
    lab = labs.load("tiny", tiny)
    assert [check.number for check in lab.checks] == ["1.1.1", "1.1.2", "1.1.3", "1.2.1"]
    assert lab.max_score == 4.5
    assert lab.wanted == ("tiny.py",)
    assert lab.main_module == "tiny"
    assert lab.contract == {"tiny": ["double"]}
    assert list(lab.questions) == ["growth"]
    assert lab.section(lab.checks[3]).title == "Questions"
    assert lab.file.limits.seconds_per_call == 7
    assert lab.file.limits.seconds_per_run == 300
    assert lab.reference.files["tiny"][0] == "reference/tiny/tiny.py"


def test_loading_leaves_nothing_behind(tiny: Path) -> None:
    before = sorted(tiny.rglob("*"))
    labs.load("tiny", tiny)
    assert sorted(tiny.rglob("*")) == before


def test_a_changed_file_is_read_again(tiny: Path) -> None:
    labs.load("tiny", tiny)
    change(tiny / CHECKS, '"""twice the input"""', '"""TWICE the input"""')
    assert labs.load("tiny", tiny).checks[0].title == "TWICE the input"


@pytest.mark.parametrize("name", ["tyny", "", "../reference", "tiny/", "no such\nlab"])
def test_an_unknown_lab(tiny: Path, name: str) -> None:
    if name == "tiny/":  # a shell completes the name of a folder like this
        assert labs.load(name.rstrip("/"), tiny).name == "tiny"
        return
    assert f"there is no lab {name!r} in {tiny / 'assignments'}: there is tiny" in refused(tiny, name)


FAULTS: dict[str, tuple[str, str, str, str]] = {
    "points that do not add up": (TOML, "points = 3", "points = 4", "section 1.1 says 4 points, its checks add up to 3"),
    "no points in a section": (TOML, "points = 3\n", "", "lab.toml: sections, entry 1, points: is missing"),
    "a check without points": (CHECKS, "@weight(2)\n", "", "check doubled has no @weight(…)"),
    "a check without a number": (CHECKS, '@number("1.1.3")\n', "", "check input_stays has no @number(…)"),
    "one number twice": (CHECKS, '@number("1.1.3")', '@number("1.1.1")', "input_stays has the number 1.1.1 of doubled"),
    "one name twice": (CHECKS, "def input_stays(", "def doubled(", "checks.py:32: doubled is defined again in line 55"),
    "one section twice": (TOML, 'number = "1.2"', 'number = "1.1"', "section 1.1 stands there 2 times"),
    "a section that is not there": (CHECKS, '@number("1.2.1")', '@number("1.3.1")', "check 1.3.1 belongs to no section"),
    "after nothing": (CHECKS, 'after="doubled")', 'after="dubled")', "input_stays comes after 'dubled', which no earlier"),
    "after itself": (CHECKS, 'after="doubled")', 'after="input_stays")', "comes after 'input_stays', which no earlier"),
    "a target that is not there": (CHECKS, 'target="double", read="#twice")\ndef d', 'target="duoble")\ndef d',
                                   "doubled judges 'duoble', which the reference does not define; did you mean 'double'?"),
    "a file that is not there": (CHECKS, 'target="double", after="doubled")', 'target="double", module="tny")',
                                 "input_stays is about tny.py, no file of this lab; did you mean 'tiny'?"),
    "an unknown need": (CHECKS, "def input_stays(student, probes)", "def input_stays(student, prober)", "asks for 'prober'"),
    "a syntax error": (CHECKS, "    x = probes.normal(2, 3)", "    x = = 3", "checks.py: SyntaxError: "),
    "an error at import": (CHECKS, "FIRST, SECOND = 3, 4", "FIRST = 1 / 0", "checks.py:13: ZeroDivisionError: division"),
    "an exit at import": (CHECKS, "FIRST, SECOND = 3, 4", "raise SystemExit(0)", "checks.py:13: SystemExit: 0"),
    "an import that is not there": (CHECKS, "import numpy as np", "import nunpy", "ModuleNotFoundError: No module named"),
    "an unknown key": (TOML, "secret =", "sekret =", "lab.toml: sekret: unknown key; did you mean 'secret'?"),
    "no file of that name": (TOML, 'main = "tiny.py"', 'main = "tidy.py"', "reference/tiny/tidy.py does not exist: the ref"),
    "a lab that is not there": (TOML, "secret =", 'requires = ["tony"]\nsecret =', "is built on a lab 'tony', and "),
    "a lab built on itself": (TOML, "secret =", 'requires = ["tiny"]\nsecret =', "tiny requires tiny: a lab cannot build"),
    "a broken reference": (REFERENCE, "torch.add(x, x)", "torch.add(x, x", "reference/tiny/tiny.py:10: the reference is not"),
    "a question without answer": (REFERENCE, '{"growth": "B"}', "{}", "ANSWERS has no entry 'growth', which is a question"),
    "an answer without question": (REFERENCE, '"B"}', '"B", "grwth": "A"}', "an entry 'grwth', which is no question of"),
    "a wrong answer": (REFERENCE, '{"growth": "B"}', '{"growth": "C"}', "the answer to 'growth' is not the option without"),
    "answers that are computed": (REFERENCE, '{"growth": "B"}', "dict(growth='B')", "ANSWERS must be a dict that is written"),
    "a broken question": (ASKED, "options.B.text", "options.B.txt", "questions.toml: growth: options, B, text: is missing"),
    "an option that implies nothing": (ASKED, 'options.A.implies = "Then doubling would add two."\n', "",
                                       "growth: options A and B have no `implies`: every option but the right one"),
    "a right option with implies": (ASKED, 'options.B.text = "It makes 6 of it."', 'options.B = { text = "6", implies = "x" }',
                                    "growth: options A, B, C all have `implies`: take it from the right one"),
}  # fmt: skip
MISTAKEN: dict[str, tuple[str, str]] = {
    'look="double"': ("", ""),
    'look=("double", "<")': ("looks for '<', which is never found: `look` is a tuple of names", "no operator"),
    'look=("return",)': ("looks for 'return', which is never found", "keyword"),
    'look=("-1",)': ("looks for '-1', which is never found", "number"),
    'told="gab"': ("has told='gab'; there is 'cause', 'gap'", ""),
    'caught_by="dubled"': ("is caught by 'dubled', which is no check; did you mean 'doubled'?", ""),
    'says="a " * 161': ("takes 161 words; 160 is the most", ""),
}


@pytest.mark.parametrize("argument", MISTAKEN)
def test_an_entry_of_the_catalogue_that_cannot_work_is_refused(tiny: Path, argument: str) -> None:
    given = {
        "name": '"m"',
        "of": '"double"',
        "change": '{"torch.add(x, x)": "x"}',
        "caught_by": '"doubled"',
        "says": '"s"',
    }
    given |= [argument.split("=", 1)]
    text = ", ".join(f"{key}={value}" for key, value in given.items())
    path = tiny / "assignments/tiny/mistakes.py"
    path.write_text(f"from autograder.diagnose import mistake\nMISTAKES = [mistake({text})]\n", encoding="utf-8")
    first, second = MISTAKEN[argument]
    if not first:
        assert labs.load("tiny", tiny).mistakes[0].look == ("double",)
        return
    said = refused(tiny)
    assert f"mistakes.py: mistake m {first}" in said
    assert second in said


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_together_stops_with_its_place(tiny: Path, fault: str) -> None:
    path, old, new, says = FAULTS[fault]
    change(tiny / path, old, new)
    assert says in refused(tiny)


@pytest.mark.parametrize("missing", [CHECKS, REFERENCE])
def test_a_missing_file_is_named(tiny: Path, missing: str) -> None:
    (tiny / missing).unlink()
    assert f"{tiny / missing} does not exist" in refused(tiny)


@pytest.mark.parametrize("path", [CHECKS, TOML, ASKED, REFERENCE])
def test_a_file_in_another_encoding_is_named(tiny: Path, path: str) -> None:
    (tiny / path).write_bytes((tiny / path).read_bytes() + "# é\n".encode("latin-1"))
    assert re.search(rf"{re.escape(path)}: byte \d+ is not UTF-8", refused(tiny))


def test_a_lab_that_no_check_belongs_to(tiny: Path) -> None:
    (tiny / CHECKS).write_text('"""Nothing yet."""\n', encoding="utf-8")
    assert "no function is decorated with @check(…)" in refused(tiny)


def second_lab(root: Path, **changes: str) -> Path:
    """A lab `next` in the course, built on `tiny`."""
    make_course(root, "next")
    text = (root / TOML).read_text(encoding="utf-8")
    text = text.replace("secret =", 'requires = ["tiny"]\nsecret =').replace("tiny.py", "next.py")
    (root / "assignments/next/lab.toml").write_text(text, encoding="utf-8")
    (root / "reference/next/tiny.py").rename(root / "reference/next/next.py")
    return root


def test_what_a_lab_builds_on_is_wanted_too(tiny: Path) -> None:
    lab = labs.load("next", second_lab(tiny))
    assert lab.wanted == ("next.py", "tiny.py")
    assert list(lab.reference.files) == ["tiny", "next"]  # in the order of import
    assert lab.contract == {"tiny": ["double"], "next": ["double"]}


def test_labs_that_build_on_each_other(tiny: Path) -> None:
    second_lab(tiny)
    change(tiny / TOML, "secret =", 'requires = ["next"]\nsecret =')
    assert "next requires tiny requires next: a lab cannot build on itself" in refused(tiny, "next")


def test_two_labs_with_one_file_name_cannot_be_handed_in_together(tiny: Path) -> None:
    second_lab(tiny)
    change(tiny / "assignments/next/lab.toml", "next.py", "tiny.py")
    assert "has a main file tiny.py, too" in refused(tiny, "next")


def test_seeds_of_hidden_checks_follow_from_the_secret(tiny: Path) -> None:
    before = labs.load("tiny", tiny)
    change(tiny / TOML, "0123456789abcdef", "another secret")
    after = labs.load("tiny", tiny)
    visible, hidden = before.checks[:2]
    assert before.draws(visible)[0] == after.draws(visible)[0]  # what students run themselves
    assert before.draws(visible)[1] != after.draws(visible)[1]
    assert not {*before.draws(hidden)} & {*after.draws(hidden)}
    assert before.seed_digest() != after.seed_digest()
    assert "another secret" not in after.seed_digest()


def test_a_students_part_has_no_secret_and_nothing_hidden(tiny: Path) -> None:
    local = labs.local_part(labs.load("tiny", tiny))
    assert [check.name for check in local.checks] == ["doubled", "input_stays"]
    assert local.file.secret == ""


def test_a_visible_check_cannot_come_after_one_that_is_kept_back(tiny: Path) -> None:
    change(tiny / CHECKS, 'after="doubled")', 'after="rows_of_edge_length")')
    with pytest.raises(
        AuthoringError, match="input_stays is handed out and comes after rows_of_edge_length, which is not"
    ):
        labs.local_part(labs.load("tiny", tiny))
    change(tiny / CHECKS, HIDDEN, "@weight(1)")
    assert len(labs.local_part(labs.load("tiny", tiny)).checks) == 3
    change(tiny / CHECKS, '"double", after="doubled", read', '"double", local=False, after="doubled", read')
    with pytest.raises(AuthoringError, match="keep it back with local=False"):
        labs.local_part(labs.load("tiny", tiny))


@pytest.mark.parametrize("name", course.labs(ROOT))
def test_every_lab_of_the_course_loads_and_has_100_points(name: str) -> None:
    lab = labs.load(name, ROOT)
    assert lab.max_score == 100
    assert lab.file.secret
    assert labs.local_part(lab).checks
