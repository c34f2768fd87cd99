"""What staff look at: equal wrong outputs, equal code, codes for names, pages, and the report's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from class_tiny import course

from autograder import lab as labs
from autograder.classroom import codes, report
from autograder.classroom.codes import Codes
from autograder.classroom.exports import HandedIn, Student
from autograder.classroom.feedback import file_name
from autograder.classroom.fingerprints import Prints, fingerprints
from autograder.classroom.rows import CheckRow, Row
from autograder.classroom.unexplained import clusters
from autograder.diagnose import Tape
from autograder.outputs import outline, same
from autograder.reports.words import for_student
from autograder.result import HandIn, Output, Record, Result, Status
from autograder.sandbox.frames import Foreign


class Answers:
    """Gives what it was made with, one after the other."""

    def __init__(self, *answers: object) -> None:
        self.left = list(answers)

    def ask(self, verb: str, **body: object) -> object:
        return self.left.pop(0)


def outlined(*answers: object) -> Output | None:
    tape = Tape(Answers(*answers))
    for _ in answers:
        tape.ask("call")
    return outline(tape)


def must(output: Output | None) -> Output:
    assert output is not None
    return output


# Equal wrong outputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_float_noise_does_not_split_and_a_small_mistake_does(seed: int) -> None:
    chance = np.random.default_rng(seed)
    values = chance.standard_normal((2, 5, 7)).astype(np.float32)
    noisy = values * (1 + 1e-6 * chance.standard_normal(values.shape)).astype(np.float32)
    other = values.copy()
    other[1, 2] *= 1.3
    base = must(outlined({"value": (values, 3)}))
    assert same(base, must(outlined({"value": (noisy.astype(np.float64), 3)})))
    assert not same(base, must(outlined({"value": (other, 3)})))
    assert not same(base, must(outlined({"value": (values.transpose(0, 2, 1), 3)})))
    assert not same(base, must(outlined({"value": (-values, 3)})))


def test_an_outline_holds_what_json_can() -> None:
    odd = np.array([np.nan, np.inf, 1e300, -1e300])
    one = must(outlined([odd, np.zeros((0, 3)), True, Foreign("raised", "ValueError")]))
    assert Output.model_validate_json(one.model_dump_json()) == one
    assert one.form == "(4,), (0, 3), (), raised ValueError"
    assert not same(one, must(outlined([np.array([1.0, np.inf, 1e300, -1e300]), np.zeros((0, 3)), True,
                                        Foreign("raised", "ValueError")])))  # fmt: skip
    assert outlined("text", None) is None


def test_no_student_reads_an_outline() -> None:
    result = Result(check="c", number="1.1.1", title="t", section="1.1", status=Status.FAILED, score=0, max_score=1,
                    output=Output(form="(3,)", numbers=(1.0, 2.0, 3.0, 0.0)))  # fmt: skip
    record = Record(lab="l", title="t", hand_in=HandIn(name="n", digest="d", files=()), results=(result,))
    for hidden in (False, True):
        shown = record.model_copy(update={"results": (result.model_copy(update={"hidden": hidden}),)})
        assert [item.output for item in for_student(shown).results] == [None]


def row(label: str, **checks: CheckRow) -> Row:
    named = {number.replace("_", "."): check for number, check in checks.items()}
    return Row(
        HandedIn(label, (Student(label),), {}), checks={key.removeprefix("c"): one for key, one in named.items()}
    )


def failed(*numbers: float, mistakes: tuple[str, ...] = ()) -> CheckRow:
    return CheckRow(Status.FAILED, 0.0, mistakes, Output(form="(3,)", numbers=numbers))


def test_a_cluster_is_told_once_and_named_mistakes_are_in_none() -> None:
    first, second = (1.0, 0.5, 0.25, 0.0), (2.0, 0.5, 0.25, 0.0)
    near = (1.0, 0.5000001, 0.25, 0.0)
    rows = [
        row("a", c1_1_1=failed(*first), c1_1_2=failed(*second)),
        row("b", c1_1_1=failed(*near), c1_1_2=failed(*second)),
        row("c", c1_1_1=failed(*second), c1_1_2=CheckRow(Status.PASSED, 1.0)),
        row("d", c1_1_1=failed(*first, mistakes=("known",)), c1_1_2=CheckRow(Status.BLOCKED, 0.0)),
    ]
    found = clusters(rows)
    assert [(cluster.checks, [item.label for item in cluster.rows]) for cluster in found] == [
        (["1.1.1", "1.1.2"], ["a", "b"])
    ]


def test_what_a_check_tells_by_itself_is_counted_once_for_each_who_is_told() -> None:
    loop = CheckRow(Status.FAILED, 0.0, gap="There is a for loop.")
    absent = CheckRow(Status.FAILED, 0.0, gap="a.py was not handed in.")
    waits, right = CheckRow(Status.BLOCKED, 0.0), CheckRow(Status.PASSED, 1.0)
    rows = [
        row("a", c1_1_1=right, c1_1_2=loop),
        row("b", c1_1_1=absent, c1_1_2=absent),
        row("c", c1_1_1=failed(1.0), c1_1_2=loop),
        row("d", c1_1_1=failed(1.0, mistakes=("known",)), c1_1_2=waits),
    ]
    found = [(one.says, one.checks, [item.label for item in one.rows]) for one in report.told(rows)]
    assert found == [
        ("There is a for loop.", ["1.1.2"], ["a", "c"]),
        ("a.py was not handed in.", ["1.1.1", "1.1.2"], ["b"]),
    ]


# Equal code -----------------------------------------------------------------------------------------------------------

STARTER = "import torch\n\n\ndef attend(query, key, value):\n    '''Read.'''\n    raise NotImplementedError('TODO')\n"
LOOPS = """
    rows = []
    for i in range(query.shape[0]):
        scores = torch.stack([query[i].dot(key[j]) / key.shape[1] ** 0.5 for j in range(key.shape[0])])
        weights = scores.softmax(0)
        rows.append((weights[:, None] * value).sum(0))
    out = torch.stack(rows)
    if out.isnan().any():
        raise ValueError("nan")
    return out
"""
OTHERS = [
    "    return torch.softmax(query @ key.T / key.shape[1] ** 0.5, -1) @ value\n",
    "    s = torch.einsum('im,jm->ij', query, key)\n    s = s * key.size(-1) ** -0.5\n    e = (s - s.max(1, True)[0]).exp()\n"
    "    w = e / e.sum(dim=1, keepdim=True)\n    return torch.einsum('ij,jd->id', w, value)\n",
    "    d = query.size(1)\n    logits = torch.matmul(query, key.transpose(0, 1)).div(d ** 0.5)\n"
    "    lse = torch.logsumexp(logits, dim=1, keepdim=True)\n    return torch.matmul((logits - lse).exp(), value)\n",
]
HEAD = STARTER.rpartition("    raise")[0]


def test_renamed_copies_are_found_and_others_are_not() -> None:
    prints = Prints(STARTER)
    renamed = LOOPS
    for old, new in (("rows", "result"), ("scores", "s"), ("weights", "w"), ("out", "final"), ("for i", "for reader"),
                     ("[i]", "[reader]"), ("for j", "for source"), ("[j]", "[source]")):  # fmt: skip
        renamed = renamed.replace(old, new)
    prints.add("copy", HEAD + "    # all my own work\n" + renamed)
    prints.add("original", HEAD + LOOPS)
    for at, body in enumerate(OTHERS):
        prints.add(f"other {at}", HEAD + body)
    (group,) = prints.groups()
    assert group.labels == ("copy", "original")
    assert group.similarity > 0.9


def test_what_the_starter_brought_or_everybody_has_is_no_evidence() -> None:
    prints = Prints(HEAD + LOOPS)
    prints.add("a", HEAD + LOOPS)
    prints.add("b", HEAD + LOOPS)
    assert prints.groups() == [] and prints.of["a"] == frozenset()
    everybody = Prints(STARTER)
    for at in range(20):
        everybody.add(str(at), HEAD + LOOPS)
    assert everybody.groups() == []


@pytest.mark.parametrize("text", ["", "x", "def f(:\n  '''", "\x00", "ა = 1\n" * 30, "\ud800"])
def test_fingerprints_of_anything(text: str) -> None:
    assert isinstance(fingerprints(text, set()), set)


def test_what_stands_in_texts_does_not_count() -> None:
    calls = "".join(f"total = read(total, {at}, f'WORD {{total}}', 'WORD')\n" for at in range(9))
    one, other = (fingerprints(calls.replace("WORD", word), set()) for word in ("one", "other"))
    assert one == other != set()


def test_any_common_run_of_two_lines_leaves_a_common_fingerprint() -> None:
    run = "total = total + weights[i, j] * values[j].sum(dim=-1) / norm ** 0.5\n"
    one = fingerprints("import a\nfor x in y: print(x, 3)\n" + run + "del q\n", set())
    other = fingerprints("class A(B):\n    pass\n" + run + "assert z < 4, w\n", set())
    assert one & other


# Codes and pages -------------------------------------------------------------------------------------------------------


def test_codes_stay_the_same_and_two_of_one_name_have_two(tmp_path: Path) -> None:
    people = [HandedIn(f"s{at}", (Student("Ada Lovelace", sid=str(at)),), {}) for at in (1, 2)]
    first = Codes(tmp_path / "codes.csv")
    coded = [first.coded(one) for one in people]
    first.save()
    again = Codes(tmp_path / "codes.csv")
    assert [again.coded(one) for one in people] == coded
    assert len({one.label for one in coded}) == 2
    assert all(one.students == (Student(one.label),) for one in coded)


def test_a_hider_hides_names_numbers_and_files_but_not_the_labs_own(tmp_path: Path) -> None:
    handed = HandedIn(
        "liwei_7", (Student("Li Wei", "0012", "li@example.edu"),), {"tiny.py": tmp_path / "liwei_7_9_tiny.py"}
    )
    hide = codes.hider(handed, "S1", {"tiny.py", "tiny"})
    text = "Li Wei, Wei, Li, li@example.edu (0012) handed in liwei_7_9_tiny.py as tiny.py; likely 00123"
    assert hide(text) == "S1, S1, S1 (S1) handed in S1 as tiny.py; likely 00123"


def test_names_of_pages_are_safe_and_differ() -> None:
    taken: set[str] = set()
    for label in ("ann", "Ann", "a/b", "a_b", "..", "李伟", "x" * 300, "", "a\0b"):
        name = file_name(label, taken)
        assert name.casefold() not in taken and "/" not in name and "\0" not in name and len(name) < 120
        assert not name.startswith(".")
        taken.add(name.casefold())


# The report's numbers --------------------------------------------------------------------------------------------------


def test_the_distribution_holds_everybody_and_full_marks_are_in_the_last() -> None:
    bins = report.distribution([0, 9.99, 10, 99.9, 100, 110], 100)
    assert [one.count for one in bins] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 3]
    assert [one.count for one in report.distribution([], 0)] == [0] * 10


def test_checks_that_tell_nothing_are_pointed_out(tmp_path: Path) -> None:
    lab = labs.load("tiny", course(tmp_path))
    numbers = [check.number for check in lab.checks]
    statuses = dict.fromkeys(numbers, Status.PASSED) | {"1.1.2": Status.FAILED}
    rows = [
        Row(HandedIn(name, (), {}), checks={number: CheckRow(statuses[number], 0.0) for number in numbers})
        for name in "ab"
    ]
    remarks = {total.number: total.remark.partition(":")[0] for total in report.check_totals(rows, lab)}
    assert remarks["1.1.1"] == "everybody passes" and remarks["1.1.2"] == "nobody passes"
    assert all(not total.remark for total in report.check_totals([], lab))
