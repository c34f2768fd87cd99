"""Grading: what happens in a check becomes the right status, the right points and a whole record, whoever is at fault."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import GRADED_AGAIN, result_of

from autograder import lab as labs
from autograder.probes import Probes
from autograder.reports import words
from autograder.result import Record, Result, Status
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Live, Oracle, Recorded, Recorder, Remote
from autograder.session import Session
from autograder.submission import collect

REFERENCE = '''
"""The reference of a lab as small as can be."""

import torch
from torch import Tensor, nn


def f(x: Tensor) -> Tensor:
    """Twice."""
    return 2 * x


def g(x: Tensor) -> Tensor:
    """One more."""
    return x + 1


def both(x: Tensor) -> tuple[Tensor, Tensor]:
    """The two."""
    return f(x), g(x)


class Layer(nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        """The product."""
        return self.weight * x
'''
HEAD = """
import numpy as np
from gradescope_utils.autograder_utils.decorators import number, tags, visibility, weight
from autograder.check import Mismatch, NeedsReview, RuleBroken, check, expect, pair

"""
TOML = """
title = "Tiny"
main = "tiny.py"
secret = "{secret}"
[limits]
seconds_per_call = {call}
seconds_per_run = {run}
memory_mb = 2048
"""
# Each is right, needs no other part, and is put together with others in a test.
F_VALUES = """
@number("1.1.1")
@weight(3)
@check(target="f", read="#twice")
def f_values(student, reference, probes):
    \"\"\"f doubles\"\"\"
    x = probes.normal(2, 3)
    expect(student.f(x), axes="row column").equals(reference.f(x))
"""
G_VALUES = """
@number("1.1.2")
@weight(2)
@check(target="g")
def g_values(student, reference, probes):
    \"\"\"g adds one\"\"\"
    x = probes.normal(4)
    expect(student.g(x)).equals(reference.g(x))
"""


class Course:
    """A course of one lab in a folder of its own, and warm graders for it."""

    def __init__(self, root: Path, zygote: Zygote) -> None:
        self.root = root
        self.zygote = zygote
        self.sessions: list[Session] = []

    def lab(
        self,
        *checks: str,
        reference: str = REFERENCE,
        secret: str = "a secret",
        call: float = 60,
        run: float = 600,
        mistakes: str = "",
        extra: str = "",
    ) -> labs.Lab:
        """Write a lab, and load it as any other is loaded. `extra`: a section that is extra credit."""
        text = HEAD + "\n".join(textwrap.dedent(each) for each in checks)
        sections: dict[str, float] = {}
        for number, weight in re.findall(r'@number\("(\d+\.\d+)\.\d+"\)\s*@weight\(([\d.]+)\)', text):
            sections[number] = round(sections.get(number, 0) + float(weight), 6)
        toml = TOML.format(secret=secret, call=call, run=run)
        for number, points in sections.items():
            toml += f'[[sections]]\nnumber = "{number}"\ntitle = "Part {number}"\npoints = {points}\n'
            toml += "extra_credit = true\n" if number == extra else ""
        folder = self.root / "assignments" / "tiny"
        for path, content in {
            folder / "lab.toml": toml,
            folder / "checks.py": text,
            folder / "mistakes.py": mistakes,
            self.root / "reference" / "tiny" / "tiny.py": reference,
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return labs.load("tiny", self.root)

    def grade(
        self, lab: labs.Lab, handed_in: str, sink: Callable[[Record], None] = lambda record: None, **beside: str
    ) -> Record:
        """Grade one hand-in."""
        folder = self.root / "hand-in"
        folder.mkdir(exist_ok=True)
        (folder / "tiny.py").write_bytes(textwrap.dedent(handed_in).encode("utf-8", "surrogatepass"))
        for name, text in beside.items():
            (folder / f"{name}.py").write_text(text)
        if not self.sessions or self.sessions[-1].lab is not lab:
            self.sessions.append(Session(lab, self.zygote))
        return self.sessions[-1].grade(collect(folder, lab.wanted), sink)


@pytest.fixture
def course(tmp_path: Path, zygote: Zygote) -> Iterator[Course]:
    made = Course(tmp_path, zygote)
    yield made
    for session in made.sessions:
        session.close_reference()


RIGHT = REFERENCE.replace("2 * x", "x + x")
WRONG = REFERENCE.replace("2 * x", "3 * x")


def statuses(record: Record) -> dict[str, str]:
    return {result.check: result.status.value for result in record.results}


def comparable(record: Record) -> dict[str, Any]:
    document = record.model_dump(exclude={"seconds": True, "results": {"__all__": {"seconds"}}})
    return dict(document)


# Statuses -------------------------------------------------------------------------------------------------------------


def test_a_right_hand_in_passes(course: Course) -> None:
    record = course.grade(course.lab(F_VALUES, G_VALUES), RIGHT)
    assert statuses(record) == {"f_values": "passed", "g_values": "passed"}
    assert (record.score, record.max_score, record.complete) == (5, 5, True)
    assert not record.faults
    assert [(section.number, section.score, section.max_score) for section in record.sections] == [("1.1", 5, 5)]
    assert not [result for result in record.results if result.gap or result.where or result.read or result.review]


FAILURES = {
    "return 3 * x": (r"the output at row \d, column \d is .*, expected .*\. 6 of 6 values differ\.", 1),
    "return x[0]": (r"the output has shape \(3,\), expected \(2, 3\) = \(row, column\)\.", 1),
    "pass": (r"the output is None \(is there a `return`\?\), expected a tensor\.", 1),
    "return x.tolist()": (r"the output is a list of 2, expected a tensor\.", 1),
    "return torch.full_like(x, float('nan'))": (r"the output at .* is nan, expected .* 6 of 6 values differ\.", 1),
    "raise ValueError('mine')": (r"Your code raised ValueError: mine", 2),
    "raise NotImplementedError('TODO 1.1: double')": (r"Not written yet\. TODO 1\.1: double", 2),
    "__import__('os')._exit(3)": (r"The call gave no result: it ended the whole process: it exited with status 3\.", 1),
    "return bytes(1 << 50)": (r"The call gave no result: it asked for more memory than the 2,048 MB that a sub.*\.", 2),
    "return x.to(torch.bfloat16)": (r"the output is a tensor of torch.bfloat16 \(.*\), expected a tensor\.", 1),
    "return x.expand(1 << 30, 2, 3)": (r"the output is a tensor too large to be right \(.*\), expected a tensor\.", 1),
    "return nn.Linear(2, 2)": (r"the output is an object, expected a tensor\.", 1),
}


@pytest.mark.parametrize("body", FAILURES)
def test_a_failed_check_says_what_and_where(course: Course, body: str) -> None:
    gap, line = FAILURES[body]
    source = f"import torch\nfrom torch import nn\ndef f(x):\n    {body}\ndef g(x): return x + 1\n"
    record = course.grade(course.lab(F_VALUES, G_VALUES), source)
    assert statuses(record) == {"f_values": "failed", "g_values": "passed"}
    found = result_of(record, "f_values")
    assert re.fullmatch(gap, found.gap)
    assert found.where is not None
    assert found.where.place == f"tiny.py:{line + 2}"
    assert found.where.text == ("def f(x):" if line == 1 else body)
    assert (found.score, found.max_score, found.read) == (0, 3, "README.md#twice")
    assert record.score == 2
    assert not record.faults


def test_what_builds_on_a_failed_check_is_blocked_by_the_first_of_its_gates(course: Course) -> None:
    later = """
    @number("1.2.1")
    @weight(1)
    @check(target="g", after=("g_values", "f_values"))
    def later(student):
        \"\"\"needs both\"\"\"

    @number("1.2.2")
    @weight(1)
    @check(target="g", after="later")
    def last(student):
        \"\"\"needs the one before\"\"\"
    """
    record = course.grade(course.lab(F_VALUES, G_VALUES, later), WRONG)
    assert statuses(record) == {"f_values": "failed", "g_values": "passed", "later": "blocked", "last": "blocked"}
    assert [result_of(record, name).blocked_by for name in ("later", "last")] == ["1.1.1", "1.2.1"]
    assert record.score == 2


def test_one_root_cause_is_told_once(course: Course) -> None:
    again = F_VALUES.replace("1.1.1", "1.1.3").replace("f_values", "again")
    source = "def f(x):\n    return helper(x)\ndef helper(x):\n    return x @ 'no'\ndef g(x): return helper(x)\n"
    record = course.grade(course.lab(F_VALUES, G_VALUES, again), source)
    assert [result.status.value for result in record.results] == ["failed", "blocked", "blocked"]
    assert [result.blocked_by for result in record.results] == ["", "1.1.1", "1.1.1"]


@pytest.mark.parametrize(
    ("source", "gap"),
    [
        ("def f(x): return 2 * x\n", "`g` is not defined in tiny.py."),
        ("def f(x): return 2 * x\n1 / 0\ndef g(x): return x\n", "`g` does not exist: the import of tiny.py stopped be"),
        (
            "def f(x): return 2 * x\nexit()\ndef g(x): return x\n",
            "`g` does not exist: the import of tiny.py stopped be",
        ),
        ("def f(x): return 2 * x\ndef g(x: return x\n", "Your code raised SyntaxError: tiny.py"),
        ("def f(x): return 2 * x\ng = 5\n", "Your code raised TypeError: 'int' object is not callable"),
    ],
    ids=["absent", "after a crash", "after an exit", "does not parse", "is a number"],
)
def test_what_is_not_there_costs_its_own_checks(course: Course, source: str, gap: str) -> None:
    record = course.grade(course.lab(F_VALUES, G_VALUES), source)
    assert statuses(record) == {"f_values": "passed", "g_values": "failed"}
    assert result_of(record, "g_values").gap.startswith(gap)


def test_a_file_that_hangs_at_import_is_judged_by_its_definitions(course: Course) -> None:
    source = RIGHT + "\nwhile True:\n    pass\n"
    record = course.grade(course.lab(F_VALUES, G_VALUES, call=1), source)
    assert record.score == 5
    assert record.notes == (
        "While your file was being imported, it ran longer than 1 s and was stopped: look for a loop that never ends. "
        "Only its imports, functions, classes and constants are used.",
    )


def test_nothing_handed_in_is_a_whole_record_too(course: Course) -> None:
    lab = course.lab(F_VALUES, G_VALUES)
    (course.root / "empty").mkdir()
    course.sessions.append(Session(lab, course.zygote))
    record = course.sessions[-1].grade(collect(course.root / "empty", lab.wanted))
    assert [result.gap for result in record.results] == ["tiny.py was not handed in."] * 2
    assert (record.score, record.complete) == (0, True)


def test_a_helper_that_stops_is_said_in_a_note(course: Course) -> None:
    source = "from mine import f, g\n"
    helper = "def f(x): return 2 * x\ndef g(x): return x + 1\n1 / 0\n"
    record = course.grade(course.lab(F_VALUES, G_VALUES), source, mine=helper)
    assert record.score == 5
    expected = "The import of mine.py stopped at mine.py:3 with ZeroDivisionError: division by zero; "
    assert record.notes[0].startswith(expected)


# Whose fault ----------------------------------------------------------------------------------------------------------

BROKEN = """
@number("1.1.1")
@weight(4)
@check(target="f")
def broken(student, reference, probes):
    \"\"\"a check with a fault of its own\"\"\"
    student.f(probes.normal(3))
    {fault}

@number("1.1.2")
@weight(1)
@check(target="f", after="broken")
def after_broken(student, reference, probes):
    \"\"\"what comes after it\"\"\"
    x = probes.normal(3)
    expect(student.f(x)).equals(reference.f(x))
"""
FAULTS = {
    "raise ZeroDivisionError('ours')": "ZeroDivisionError: ours",
    "student.f({1, 2})": "FrameError: a set cannot travel",
    "reference.f('no', 'such')": "GraderFault: the reference gave no value: TypeError",
    "reference.absent()": "GraderFault: the reference gave no value: AttributeError",
    "[][1]": "IndexError",
    "assert probes.absent": "AttributeError",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("source", [RIGHT, WRONG], ids=["right", "wrong"])
def test_a_fault_of_a_check_costs_nothing_and_is_told_to_staff(course: Course, fault: str, source: str) -> None:
    record = course.grade(course.lab(BROKEN.format(fault=fault)), source)
    assert statuses(record) == {"broken": "error", "after_broken": "passed" if source is RIGHT else "failed"}
    found = result_of(record, "broken")
    assert found.score == 4
    assert found.gap == "The grader failed in this check. It costs you no points; the staff can see why."
    assert found.review.startswith(FAULTS[fault])
    assert len(record.faults) == 1
    assert record.faults[0].startswith(f"1.1.1 broken: {FAULTS[fault]}")
    seen = words.for_student(record)
    assert not seen.faults
    assert FAULTS[fault] not in seen.model_dump_json()


ODD_USES = """
@number("1.1.1")
@weight(1)
@check(target="f")
def odd(student, reference, probes):
    \"\"\"takes what comes back for what it should be\"\"\"
    value = student.f(probes.normal(2, 3))
    {use}
"""
ODD_VALUES = ["None", "[1, 2]", "'text'", "nn.Linear(2, 2)", "{'a': 1}", "x.to(torch.bfloat16)", "10 ** 400", "x[:0]"]


@pytest.mark.parametrize(
    "use",
    [
        "expect(float(value.sum(-1).max())).is_number()",
        "first, second = value",
        "rows = [row.sum() for row in value]",
        "total = float(value[0, 0]) + len(value)",
        "expect(float(np.linalg.norm(value))).is_number()",
        "expect(value.reshape(2, 3)).has_shape(2, 3)",
        "assert value.dtype.name == 'float32'",
        "reference.g(value)",
        "student.g(value[1])",
    ],
)
def test_the_same_provoked_by_a_value_of_the_students_is_a_failure(course: Course, use: str) -> None:
    lab = course.lab(ODD_USES.format(use=use), secret="")
    for value in ODD_VALUES:
        source = f"import torch\nfrom torch import nn\ndef f(x): return {value}\ndef g(x): return x\n"
        record = course.grade(lab, source)
        found = result_of(record, "odd")
        # A use that the value can bear passes, as it would with any other value.
        assert found.status in (Status.FAILED, Status.PASSED), (value, found)
        assert not record.faults, value
    assert result_of(course.grade(lab, RIGHT), "odd").status is Status.PASSED


def test_a_source_that_a_check_cannot_bear_is_a_failure_too(course: Course) -> None:
    check = """
    @number("1.1.1")
    @weight(1)
    @check(target="f")
    def reads_the_source(source, student, probes):
        \"\"\"reads the source\"\"\"
        if "odd" in source.text:
            raise {raised}
        student.f(probes.normal(1)).shape
    """
    for raised in ("RecursionError('in a rule')", "KeyError"):
        record = course.grade(course.lab(check.format(raised=raised)), RIGHT + "\nodd = 1\n")
        assert statuses(record) == {"reads_the_source": "failed"}
        assert not record.faults
    # The reference's own source is what decides, where the student's value is at fault: else a broken rule would pay.
    record = course.grade(course.lab(check.format(raised="RuleBroken('odd is not allowed', 1)")), RIGHT + "\nodd = 1\n")
    assert result_of(record, "reads_the_source").gap == "odd is not allowed"
    both = "def f(x): return None\nodd = 1\n"
    swapped = check.replace('if "odd"', 'student.f(probes.normal(1)).shape\n        if "odd"')
    for raised in ("RuleBroken('odd is not allowed', 1)", "NeedsReview('odd')"):
        record = course.grade(course.lab(swapped.format(raised=raised)), both)
        assert (statuses(record), record.score) == ({"reads_the_source": "failed"}, 0)


def test_a_check_that_asks_for_review_passes_and_says_why(course: Course) -> None:
    check = """
    @number("1.1.1")
    @weight(1)
    @check(target="f")
    def undecided(student, probes):
        \"\"\"cannot tell\"\"\"
        if {when}:
            raise NeedsReview("the count and the text disagree")
    """
    lab = course.lab(check.format(when="True"))
    untold = Probes(lab.draws(lab.checks[0])[1]).seed
    for when in ("True", f"float(student.f(probes.normal(1))[0]) * 0 == 0 and probes.seed == {untold}"):
        found = result_of(course.grade(course.lab(check.format(when=when)), RIGHT), "undecided")
        assert (found.status, found.score, found.gap) == (Status.PASSED, 1, "")
        assert found.review == "the count and the text disagree"


def test_a_reference_that_dies_is_there_again_for_the_next_check(course: Course) -> None:
    dying = REFERENCE.replace("return 2 * x", "__import__('os')._exit(3)")
    record = course.grade(course.lab(F_VALUES, G_VALUES, reference=dying), RIGHT)
    assert statuses(record) == {"f_values": "error", "g_values": "passed"}
    assert result_of(record, "f_values").unjudged
    assert (record.score, len(record.faults)) == (2, 2)


def test_a_mistake_that_dies_costs_no_result(course: Course) -> None:
    mistakes = """
from autograder.diagnose import mistake
FOUND = [
    mistake(name="dies", of="f", change={"2 * x": "__import__('os')._exit(3)"}, caught_by="f_values", says="It dies."),
    mistake(name="raises", of="f", change={"2 * x": "2 * y"}, caught_by="f_values", says="It raises."),
    mistake(name="thrice", of="f", change={"2 * x": "3 * x"}, caught_by="f_values", says="It is three times as much."),
]
"""
    record = course.grade(course.lab(F_VALUES, G_VALUES, mistakes=mistakes), WRONG)
    found = result_of(record, "f_values")
    assert (found.status, found.cause, found.mistakes) == (Status.FAILED, "It is three times as much.", ("thrice",))
    assert result_of(record, "g_values").status is Status.PASSED


def test_with_a_recording_an_odd_value_is_the_students_and_a_gap_in_it_the_graders(course: Course) -> None:
    uses = ODD_USES.format(use="expect(value.sum(-1)).has_shape(2)")
    lab = course.lab(F_VALUES, uses.replace("1.1.1", "1.1.3"), secret="")
    oracle = Live(course.zygote, lab.reference, None, 60)
    recorder = Recorder(oracle)
    for check in lab.checks:
        probes = Probes(lab.draws(check)[0])
        Oracle(recorder).ask("begin", seed=probes.seed)
        if check.name == "f_values":
            Remote(recorder, "tiny", lift=True).f(probes.normal(2, 3))
    oracle.close()
    local = replace(lab, reference=replace(lab.reference, files={}))
    folder = course.root / "hand-in"
    folder.mkdir()
    for answers, source, expected in (
        (recorder.answers, RIGHT, {"f_values": "passed", "odd": "passed"}),
        (recorder.answers, "def f(x): return 'text'\n", {"f_values": "failed", "odd": "failed"}),
        ({}, RIGHT, {"f_values": "error", "odd": "error"}),
    ):
        (folder / "tiny.py").write_text(source)
        session = Session(local, course.zygote, Recorded(answers), confined=False)
        assert statuses(session.grade(collect(folder, lab.wanted))) == expected


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_zygote_that_dies_is_started_again_once(course: Course, deaths: int) -> None:
    """A second time in one hand-in it may be the hand-in that ends it: what is left waits for another grading."""
    after_g = G_VALUES.replace("1.1.2", "1.1.3").replace('target="g"', 'target="g", after="g_values"')
    lab = course.lab(F_VALUES, G_VALUES, after_g.replace("g_values(", "after_g("))
    kept: list[Record] = []

    def sink(record: Record) -> None:
        kept.append(record)
        if len(kept) <= deaths:  # before the first check, and after it
            course.zygote.process.kill()
            course.zygote.process.wait()

    with Zygote() as course.zygote:
        record = course.grade(lab, RIGHT, sink)
        assert record.complete
        assert record.faults[0] == (
            "1.1.1 f_values: the process that holds torch ended by SIGKILL; if the machine is short of memory, "
            "give it more; it was started again, and the check judged anew"
        )
        if deaths == 1:
            assert (record.score, len(record.faults)) == (7, 1)
        else:
            assert statuses(record) == {"f_values": "passed", "g_values": "error", "after_g": "error"}
            assert [result.unjudged for result in record.results] == [False, True, True]
            assert record.score == 3
            gap = result_of(record, "after_g").gap
            assert gap == f"It builds on 1.1.2, in which the grading machine failed. {GRADED_AGAIN}"
        deaths = 0
        again = course.grade(lab, RIGHT, sink)
    course.sessions.clear()
    assert (again.score, again.faults) == (7, ())


def test_a_reference_that_dies_where_a_check_raises_pays_nothing(course: Course) -> None:
    """Nobody knows then whose fault it was: the check's, for which points stand, or the hand-in's."""
    odd = ODD_USES.format(use="value.sum(-1)").replace("student.f", "student.g").replace("1.1.1", "1.1.3")
    dying = REFERENCE.replace("return x + 1", "__import__('os')._exit(3)")
    record = course.grade(course.lab(F_VALUES, odd, reference=dying), "def f(x): return x + x\ndef g(x): return 'text'\n")
    assert statuses(record) == {"f_values": "passed", "odd": "error"}
    assert record.score == 3


@pytest.mark.parametrize("error", ["MemoryError()", "OSError(24, 'Too many open files')"])
def test_a_machine_that_gives_way_in_the_grader_pays_nothing(course: Course, error: str) -> None:
    record = course.grade(course.lab(BROKEN.format(fault=f"raise {error}")), RIGHT)
    assert statuses(record) == {"broken": "error", "after_broken": "error"}
    assert record.score == 0
    assert "checks worth 5 points were not judged" in words.unjudged_words(record)


# What is graded -------------------------------------------------------------------------------------------------------


def test_a_warning_of_torch_is_no_failure(course: Course) -> None:
    warns = "    import warnings\n    warnings.warn('old')\n    torch.tensor(x)\n    return x + x"
    record = course.grade(course.lab(F_VALUES, G_VALUES), RIGHT.replace("    return x + x", warns))
    assert record.score == 5
    record = course.grade(course.lab(F_VALUES, G_VALUES), RIGHT.replace("    return x + x", f"{warns} + x"))
    assert "UserWarning: old" in result_of(record, "f_values").printed


def test_names_of_a_hand_in_and_of_the_grader_do_not_meet(course: Course) -> None:
    ours = "student = reference = probes = check = expect = np = frames = guest = Guest = request = answer = source = 5\n"
    ours += "print = len = list = dict = isinstance = type = getattr = str = int = None\n"
    record = course.grade(course.lab(F_VALUES, G_VALUES), RIGHT + ours)
    assert (record.score, record.faults, record.notes) == (5, (), ())


def test_each_hand_in_is_graded_for_itself(course: Course) -> None:
    """Neither what an earlier one defined nor the reference answers for a part that is not there."""
    lab = course.lab(F_VALUES, G_VALUES)
    stub = RIGHT.replace("return x + 1", 'raise NotImplementedError("TODO")')
    missing = "def f(x):\n    return x + x\n"
    odd = RIGHT + "import sys\nsys.modules['tiny_left'] = g\n"
    for handed_in, score in ((odd, 5), (stub, 3), (RIGHT, 5), (missing, 3), ("", 0), (RIGHT, 5)):
        assert course.grade(lab, handed_in).score == score


# The record -----------------------------------------------------------------------------------------------------------


def test_the_sink_gets_a_whole_record_at_every_step(course: Course) -> None:
    broken = BROKEN.format(fault="raise ValueError").replace("1.1.", "1.2.")
    lab = course.lab(F_VALUES, G_VALUES, broken)
    kept: list[str] = []
    record = course.grade(lab, RIGHT, lambda record: kept.append(record.model_dump_json()))
    records = [Record.model_validate_json(text) for text in kept]
    assert len(records) == 1 + len(lab.checks) + 1
    assert comparable(records[-1]) == comparable(record)
    for step, partial in enumerate(records[:-1]):
        assert not partial.complete
        assert [result.number for result in partial.results] == [check.number for check in lab.checks]
        assert [result.status is Status.NOT_RUN for result in partial.results] == [n >= step for n in range(4)]
        assert partial.results[:step] == record.results[:step]
        assert partial.score == sum(result.score for result in partial.results)
        assert partial.max_score == record.max_score == 10
        assert [section.max_score for section in partial.sections] == [5, 5]
    assert {result.gap for result in records[0].results} == {"The grading ended before this check."}


def test_a_record_that_cannot_be_written_is_written_with_the_next(course: Course) -> None:
    lab = course.lab(F_VALUES, G_VALUES)
    kept: list[Record] = []

    def full(record: Record) -> None:
        if len(record.results) and not record.complete and record.score == 3:
            raise OSError(28, "No space left on device")
        kept.append(record)

    record = course.grade(lab, RIGHT, full)
    assert [kept_record.score for kept_record in kept] == [0, 5, 5]
    assert record.complete

    def never(record: Record) -> None:
        raise OSError(30, "Read-only file system")

    with pytest.raises(OSError, match="Read-only"):
        course.grade(lab, RIGHT, never)


def test_points_add_up_exactly(course: Course) -> None:
    tenth = F_VALUES.replace("@weight(3)", "@weight(0.1)")
    checks = [tenth.replace("1.1.1", f"1.1.{n}").replace("f_values", f"check_{n}") for n in range(1, 11)]
    record = course.grade(course.lab(*checks), RIGHT)
    assert (record.score, record.max_score, record.sections[0].score) == (1.0, 1.0, 1.0)
    third = [text.replace("0.1)", "0.3)") for text in checks[:3]]
    assert course.grade(course.lab(*third), RIGHT).score == 0.9


def test_a_check_of_no_points_is_judged_and_gates(course: Course) -> None:
    check = """
    @number("1.1.3")
    @weight(0)
    @check(target="f")
    def free(student, reference, probes):
        \"\"\"costs nothing\"\"\"
        expect(student.f(np.ones(1, np.float32))).equals(2)

    @number("1.1.4")
    @weight(1)
    @check(target="f", after="free")
    def gated(student):
        \"\"\"comes after it\"\"\"
    """
    lab = course.lab(check)
    for source, status, score in ((RIGHT, "passed", 1), (WRONG, "failed", 0)):
        record = course.grade(lab, source)
        assert statuses(record)["free"] == status
        assert (result_of(record, "free").score, result_of(record, "free").max_score) == (0, 0)
        assert record.score == score


def test_extra_credit_is_above_the_maximum(course: Course) -> None:
    lab = course.lab(F_VALUES, G_VALUES.replace("1.1.2", "1.2.1"), extra="1.2")
    record = course.grade(lab, RIGHT)
    assert (record.score, record.max_score, record.extra_credit) == (5, 3, 2)
    record = course.grade(lab, RIGHT.replace("x + 1", "x + 2"))
    assert (record.score, record.max_score, record.extra_credit) == (3, 3, 0)


def test_what_is_left_when_the_time_is_up_is_not_run(course: Course) -> None:
    lab = course.lab(G_VALUES.replace("1.1.2", "1.2.1"), F_VALUES, G_VALUES.replace("g_values", "later"), run=3)
    source = "def f(x):\n    while True: pass\ndef g(x): return x + 1\n"
    kept: list[Record] = []
    record = course.grade(lab, source, kept.append)
    assert statuses(record) == {"g_values": "passed", "f_values": "not run", "later": "not run"}
    assert result_of(record, "f_values").gap == "The time of the whole run was used up during this check."
    assert result_of(record, "later").gap == "The time of the whole run was used up before this check."
    assert (record.score, record.max_score, record.complete) == (2, 7, True)
    assert Record.model_validate_json(kept[-1].model_dump_json()) == kept[-1]


def test_an_endless_loop_costs_its_own_check(course: Course) -> None:
    source = "def f(x):\n    n = 0\n    while True:\n        n += 1\ndef g(x): return x + 1\n"
    record = course.grade(course.lab(F_VALUES, G_VALUES, call=1), source)
    assert statuses(record) == {"f_values": "failed", "g_values": "passed"}
    found = result_of(record, "f_values")
    assert found.gap.startswith("The call gave no result: it ran longer than 1 s and was stopped")
    assert found.where is not None
    assert (found.where.place, found.where.text) == ("tiny.py:3", "while True:")


def test_nothing_of_a_hand_in_is_left(course: Course) -> None:
    def children() -> set[str]:
        pid = course.zygote.process.pid
        return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    before = children()
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n" + RIGHT
    record = course.grade(course.lab(F_VALUES, G_VALUES), source)
    assert record.score == 5
    assert len(children() - before) == 1  # the reference's guest, for the next hand-in
    course.sessions[-1].close_reference()
    assert children() == before


# Words and prints -----------------------------------------------------------------------------------------------------


def test_prints_are_kept_with_the_check_in_which_they_were_made(course: Course) -> None:
    source = """
    print("at import")
    def f(x):
        print("in f")
        return 3 * x
    def g(x):
        print("y" * 100_000)
        return x
    """
    record = course.grade(course.lab(F_VALUES, G_VALUES), source)
    assert result_of(record, "f_values").printed == "at import\nin f\n"
    assert re.fullmatch(
        r"y{2000}\n… 98,001 more characters were printed and cut here\.", result_of(record, "g_values").printed
    )


def test_texts_that_no_file_can_hold_are_escaped(course: Course) -> None:
    source = """
    print("a \\ud800 b")
    def f(x):
        print("c \\udfff d")
        raise ValueError("e \\ud801 f")
    def g(x): return {"\\ud802": "\\ud803"}
    raise KeyError("\\ud804")
    """
    record = course.grade(course.lab(F_VALUES, G_VALUES), source)
    text = record.model_dump_json()
    assert Record.model_validate_json(text) == record
    assert result_of(record, "f_values").printed == "a \\ud800 b\nc \\udfff d\n"
    assert result_of(record, "f_values").gap == "Your code raised ValueError: e \\ud801 f"


def test_messages_without_end_are_cut(course: Course) -> None:
    source = (
        "def f(x): raise ValueError('x' * 10**7)\ndef g(x): raise type('y' * 10**6, (Exception,), {})('z' * 10**6)\n"
    )
    record = course.grade(course.lab(F_VALUES, G_VALUES), source)
    assert len(record.model_dump_json()) < 20_000


HIDDEN = """
@number("1.1.{n}")
@weight(1)
@visibility("hidden")
@check(target="{target}")
def hidden_{n}(student, reference, probes):
    \"\"\"of other values\"\"\"
    x = probes.normal(5)
    expect(student.{target}(x)).equals(reference.{target}(x))
"""


def test_a_hidden_check_tells_a_student_its_title_only(course: Course) -> None:
    lab = course.lab(HIDDEN.format(n=1, target="f"), F_VALUES.replace("1.1.1", "1.1.2"))
    record = course.grade(lab, "def f(x):\n    print(x)\n    raise ValueError(str(x))\n")
    seen = words.for_student(record)
    told = result_of(seen, "hidden_1")
    assert (told.status, told.gap, told.where, told.printed) == (Status.FAILED, words.HIDDEN, None, "")
    # What stopped it is told where it may be: the visible check is not blocked by one that says nothing.
    assert result_of(seen, "f_values").gap.startswith("Your code raised ValueError: tensor(")


def test_a_root_that_only_a_hidden_check_has_seen_is_told_by_the_next(course: Course) -> None:
    lab = course.lab(HIDDEN.format(n=1, target="f"), F_VALUES.replace("1.1.1", "1.1.2"), HIDDEN.format(n=3, target="f"))
    record = course.grade(lab, "def f(x):\n    raise ValueError\n")
    assert [(r.status.value, r.blocked_by) for r in record.results] == [
        ("failed", ""),
        ("failed", ""),
        ("blocked", "1.1.2"),
    ]


def secret_texts(lab: labs.Lab) -> list[str]:
    """The inputs that nobody may learn, as the hand-ins below would tell them."""
    found = []
    for check in lab.checks:
        for draw in lab.draws(check)[0 if check.hidden else 1 :]:
            probe = Probes(draw).normal(*{"f_values": (2, 3), "g_values": (4,)}.get(check.name, (5,)))
            found.append(f"{probe.reshape(-1)[0]:.6f}")
    return found


@pytest.mark.parametrize(
    "tell",
    [
        "print(seen)",
        "raise ValueError(str(seen))",
        "raise type(str(seen), (Exception,), {})",
        "return str(seen)",
        "return x * 0 + float(seen[-1])",
        "assert len(seen) < 2, seen",
    ],
)
def test_inputs_that_are_not_told_come_out_by_no_way(course: Course, tell: str) -> None:
    later = G_VALUES.replace("1.1.2", "1.1.4").replace("g_values", "later").replace("normal(4)", "normal(3)")
    lab = course.lab(F_VALUES, HIDDEN.format(n=2, target="f"), HIDDEN.format(n=3, target="g"), later)
    source = f"""
    seen = []
    def keep(x): seen.append(f"{{float(x.reshape(-1)[0]):.6f}}")
    def f(x):
        keep(x)
        if len(seen) > 1: print(seen)
        return 2 * x
    def g(x):
        keep(x)
        {tell}
        return x + 1
    """
    record = course.grade(lab, source)
    assert result_of(record, "f_values").status is Status.PASSED
    told = words.for_student(record).model_dump_json()
    assert not [text for text in secret_texts(lab) if text in told or text.rstrip("0") in told]


def test_an_answer_that_fits_one_input_only_is_failed_without_telling_another(course: Course) -> None:
    lab = course.lab(F_VALUES)
    known = Probes(lab.draws(lab.checks[0])[0]).normal(2, 3)
    source = f"""
    import torch
    KNOWN = torch.tensor({known.tolist()})
    def f(x):
        return 2 * x if torch.equal(x, KNOWN) else 3 * x
    """
    record = course.grade(lab, source)
    found = result_of(record, "f_values")
    assert (found.status, found.score) == (Status.FAILED, 0)
    assert found.gap.startswith("Right on the inputs of check.py, wrong on others of the same shape:")
    assert "expected" not in found.gap
    assert "expected" in found.review
    assert found.where is not None
    # Where no secret is there (a student's own copy), nothing is asked twice.
    assert course.grade(course.lab(F_VALUES, secret=""), source).score == 3


# Hostile hand-ins -----------------------------------------------------------------------------------------------------

FORGE = """
import sys
from autograder.sandbox import frames, guest
frame = sys._getframe()
while not isinstance(frame.f_locals.get("self"), guest.Guest): frame = frame.f_back
me = frame.f_locals["self"]
def say(**answer): frames.send(me.sock, {"id": me.working_on, **answer})
"""


@pytest.mark.parametrize(
    "trick",
    [
        "say(value={'errors': 5, 'names': 5})",
        "say(value={'errors': {'tiny': {'type': 5}}, 'names': {'tiny': ['f', 'g']}})",
        "say(value={'errors': {}, 'names': {'tiny': ['f', 'g'] * 9}}); raise SystemExit",
        "[say(value={'value': 1}) for _ in range(50)]",
        "import threading; threading.Thread(target=lambda: [say(value=None) for _ in iter(int, 1)], daemon=True).start()",
        "import os; os._exit(0)",
        "import torch; torch.Tensor.__eq__ = lambda *a: True; torch.allclose = torch.equal = lambda *a, **k: True",
        "import numpy; numpy.array = numpy.abs = lambda *a, **k: 0",
        "import atexit, os; atexit.register(os._exit, 0)",
    ],
)
def test_tricks_earn_nothing_and_leave_a_whole_record(course: Course, trick: str) -> None:
    source = f"{FORGE}\n{trick}\ndef f(x): return x\ndef g(x): return x\n"
    kept: list[str] = []
    record = course.grade(course.lab(F_VALUES, G_VALUES), source, lambda record: kept.append(record.model_dump_json()))
    assert record.score == 0
    assert record.complete
    assert not record.faults
    assert {result.status for result in record.results} <= {Status.FAILED, Status.BLOCKED}
    assert len([Record.model_validate_json(text) for text in kept]) == 4


def test_two_runs_are_equal(course: Course) -> None:
    lab = course.lab(
        F_VALUES, G_VALUES, HIDDEN.format(n=3, target="f"), BROKEN.replace("1.1.", "1.2.").format(fault="[][1]")
    )
    source = """
    import random, torch, time
    import numpy as np
    print("at import", torch.rand(1), random.random(), np.random.rand())
    def f(x):
        print(torch.rand(1), hash("text"), {"b", "a"})
        return 2 * x + torch.rand(1)
    def g(x):
        while True:
            time.sleep(0.001)
    """
    lab = replace(
        lab, file=lab.file.model_copy(update={"limits": lab.file.limits.model_copy(update={"seconds_per_call": 1.0})})
    )
    first, second = course.grade(lab, source), course.grade(lab, source)
    assert comparable(first) == comparable(second)
    assert result_of(first, "g_values").where is not None
    assert {"failed", "error"} <= set(statuses(first).values())


def test_results_refuse_what_is_no_score() -> None:
    sound = {"check": "f", "number": "1.1.1", "title": "t", "section": "1.1", "status": "passed", "max_score": 1.0}
    assert Result(**sound, score=1.0).score == 1
    for score in (float("nan"), float("inf"), -1.0, 1.5):
        with pytest.raises(ValueError, match=r"score|greater|finite"):
            Result(**sound, score=score)
    assert np.isfinite(Result(**sound, score=0).score)
