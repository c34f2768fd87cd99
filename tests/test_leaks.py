"""The leak scan: each kind of leak is planted and found; what is handed out today has none."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from autograder import bundle, course, leaks, strip
from autograder import lab as labs
from autograder.lab import Lab
from autograder.leaks import Leak, Withheld
from autograder.sandbox.launcher import Zygote
from autograder.withheld import RUN, Values

Find = Callable[[str, bytes | str], list[Leak]]


@pytest.fixture(scope="module")
def lab() -> Lab:
    return labs.load("attention", ROOT)


@pytest.fixture(scope="module")
def withheld(lab: Lab, zygote: Zygote) -> Withheld:
    return Withheld.of(lab, zygote)


@pytest.fixture
def find(withheld: Withheld) -> Find:
    """What is found in one file."""

    def find_in(name: str, content: bytes | str) -> list[Leak]:
        return leaks.find({name: content.encode() if isinstance(content, str) else content}, withheld)

    return find_in


def notebook(*, code: str = "", printed: str = "", **metadata: object) -> str:
    output = {"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["Lab 1\n", "in a notebook\n"]},
        {"cell_type": "code", "metadata": {}, "source": code.splitlines(keepends=True), "outputs": [output]},
    ]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def of_solutions(found: list[Leak]) -> set[tuple[str, int]]:
    """Where solution lines were found; parts of them may be in the catalogue of mistakes, too."""
    return {(leak.file, leak.line) for leak in found if " of solution " in leak.what}


@pytest.fixture(scope="module")
def step(lab: Lab) -> str:
    """A line of a solution that is long enough to be no idiom."""
    place, text = lab.reference.files[lab.main_module]
    return next(
        line.text.split("  #")[0]
        for line in strip.solution_lines(text, place)
        if line.text.startswith("scores = query")
    )


# ---- solutions ------------------------------------------------------------------------------------------------------


def test_a_line_of_a_solution(step: str, find: Find) -> None:
    found = find("README.md", f"# Lab\n\nTry this:\n\n    {step.replace(' ', '  ').replace('.s', ' . s')}\n")
    assert of_solutions(found) == {("README.md", 5)}
    assert any(re.match(r"line \d+ of solution 1\.4: scores = query", leak.what) for leak in found)
    for text in (f"# {step}\n", f'"""Do\n\n    {step}\n"""\n', f"def f():\n    {step}\n"):
        assert of_solutions(find("_check/helper.py", text))


def test_short_lines_count_in_prose_and_in_the_files_of_the_lab(find: Find) -> None:
    assert find("notes.md", "return weights @ values")
    assert not find("_check/helper.py", "def f(weights, values):\n    return weights @ values\n")
    assert [leak.line for leak in find("work/attention.py", "x = 1\ndef f():\n    return weights @ values\n")] == [0, 3]
    assert not find("notes.md", "return y")


def test_a_solution_in_a_notebook(step: str, find: Find) -> None:
    found = find("worksheet.ipynb", notebook(code=f"import torch\n\n{step}\n"))
    assert of_solutions(found) == {("worksheet.ipynb cell 2", 3)}
    found = find("worksheet.ipynb", notebook(code="1 + 1", printed=f"first\n{step}\n"))
    assert {file for file, _ in of_solutions(found)} == {"worksheet.ipynb cell 2, outputs and metadata"}
    found = find("worksheet.ipynb", notebook(widgets={"state": {"value": step}}))
    assert {file for file, _ in of_solutions(found)} == {"worksheet.ipynb metadata"}
    assert of_solutions(find("broken.ipynb", notebook(code=step)[:-5]))  # what is no notebook is read as it stands


def test_a_solution_inside_something_binary(step: str, find: Find) -> None:
    assert of_solutions(find("recording.bin", b"ATT1\x00\xff\x00" + json.dumps(f"so:\n{step}").encode() + b"\x00\xfe"))


def test_a_file_of_the_lab_is_its_starter_or_a_leak(lab: Lab, find: Find) -> None:
    starter = bundle.starter_files(lab)["attention.py"]
    assert not find("attention.py", starter)
    changed = starter.replace(b'"TODO 1.1: ', b'"TODO 1.1 (weights first): ')
    assert [leak.what for leak in find("attention.py", changed)] == ["a file of the lab that is not its starter"]


# ---- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"attention-matrix": "%s"}',
        "attention-matrix: %s",
        "The answer to `attention-matrix` is **%s**.",
        'attention-matrix = "%s"',
        "| attention-matrix | %s |",
        '[attention-matrix]\nprompt = "What?"\nright = "%s"\n',
    ],
)
def test_a_right_answer(lab: Lab, find: Find, text: str) -> None:
    right = leaks.right_letters(lab)["attention-matrix"]
    assert any("right answer" in leak.what for leak in find("notes.txt", text % right))
    wrong = next(letter for letter in "ABC" if letter != right)
    assert not find("notes.txt", text % wrong)


def test_the_questions_themselves_are_no_leak(lab: Lab, find: Find) -> None:
    assert set(leaks.right_letters(lab)) == set(lab.questions)
    assert not find("README.md", bundle.handout(lab))
    letter = leaks.right_letters(lab)["reads-across-positions"]
    assert letter == "A"  # which is a word, too
    assert not find("README.md", "reads-across-positions (A position reads another one where ...)")


# ---- hidden checks --------------------------------------------------------------------------------------------------


def test_a_hidden_check(lab: Lab, find: Find) -> None:
    source = (ROOT / "assignments" / "attention" / "checks.py").read_text(encoding="utf-8")
    hidden = next(check for check in lab.checks if check.name == "large_scores")
    assert hidden.hidden
    (leak,) = find("README.md", f"Mind {hidden.name}.")
    assert leak.what == "the name of a check that stays here: large_scores"
    (leak,) = find("README.md", f"There:\n  {hidden.title.capitalize().replace(' ', chr(10), 1)}!")
    assert (leak.line, leak.what.split(":")[0]) == (2, "the title of a hidden check")
    body = source[source.index("def large_scores") :].split('"""')[2].split("\n\n")[0]
    found = find("checks.py", f"def other(student, reference, probes):{body}\n")
    assert "a line of large_scores in checks.py, which stays here" in {leak.what.split(":")[0] for leak in found}
    helper = source[source.index("def same_gradients") :].split('"""')[2].split("\n\n\n")[0]
    assert find("checks.py", f"def f(student, reference, symbol, probe, cotangent, output):{helper}\n")


def test_the_checks_that_students_have_are_no_leak(lab: Lab, find: Find) -> None:
    for name, data in bundle.visible_lab(labs.local_part(lab)).items():
        assert not find(f"_check/assignments/attention/{name}", data)


@pytest.mark.parametrize("name", course.labs(ROOT))
def test_a_secret_and_its_digests(name: str, find: Find) -> None:
    other = labs.load(name, ROOT)
    secret = other.file.secret
    (leak,) = find("lab.toml", f'title = "x"\nsecret = "{secret.upper()}"\n')
    assert (leak.line, leak.what) == (2, f"the secret of {name}")
    for digest in (other.seed_digest(), hashlib.sha256(secret.encode()).hexdigest()):
        (leak,) = find("record.json", f'{{"seed": "{digest}"}}')
        assert leak.what == f"a digest of the secret of {name}"


# ---- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("before", [b"", b"\x01", b"ATT1\x00\x00\x07"])
def test_numbers_of_a_hidden_check(withheld: Withheld, find: Find, dtype: type, before: bytes) -> None:
    run = withheld.values.runs[len(withheld.values.runs) // 3].astype(dtype)
    (leak,) = find("_check/recording.bin", before + run.tobytes() + b"\xff\xfe")
    assert leak.what == f"numbers of a hidden check, from byte {len(before)}"
    assert not find("_check/recording.bin", before + run[:-1].tobytes() + b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe")


def test_numbers_that_are_printed(withheld: Withheld, find: Find) -> None:
    telling = [run for run in withheld.values.runs if np.abs(run).min() > 0.01]
    run = telling[len(telling) // 2]
    printed = "tensor([[" + ", ".join(f"{value:.4f}" for value in run[:5]) + "],\n        ["
    printed += ", ".join(f"{value:.4f}" for value in run[5:]) + "]])"
    (leak,) = find("worksheet.ipynb", notebook(code="1", printed=printed))
    assert leak.what == "numbers of a hidden check, printed"
    assert not find("notes.txt", printed.replace(f"{run[3]:.4f}", f"{run[3] + 0.01:.4f}"))


def test_values_that_tell_nothing_are_not_looked_for() -> None:
    rows = np.array([np.zeros(RUN), np.tile([0.5, 1.5], RUN // 2), np.arange(RUN) / 7])
    assert len(Values.of(list(rows)).runs) == 1
    assert len(Values.of(list(rows), known=[np.arange(RUN) / 7]).runs) == 0
    assert len(Values.of([np.arange(RUN + 2) / 7, np.arange(3) / 7]).runs) == 3


# ---- the catalogue, and what a build leaves behind ------------------------------------------------------------------


def test_the_change_of_a_mistake(lab: Lab, find: Find) -> None:
    mistake = next(item for item in lab.mistakes if item.name == "mask_inverted")
    (changed,) = mistake.change.values()
    assert any("the change of mistake mask_inverted" in leak.what for leak in find("recording.txt", f"-> {changed}"))
    assert not find("recording.txt", mistake.says)


@pytest.mark.parametrize(
    "name",
    [
        "_check/autograder/__pycache__/lab.cpython-311.pyc",
        "_check/.git/config",
        ".gitignore",
        ".ipynb_checkpoints/worksheet-checkpoint.ipynb",
        ".pytest_cache/v/lastfailed",
        "__MACOSX/._check.py",
        ".DS_Store",
        "check.py~",
        "check.py.orig",
    ],
)
def test_what_tools_leave_behind(find: Find, name: str) -> None:
    assert [leak.what for leak in find(name, "x = 1\n")] == ["a file that tools leave behind"]


@pytest.mark.parametrize(
    "text", ["/home/miller/course/lab", r"C:\\Users\\Miller\\x.py", "see /Users/miller.j", f"in {ROOT}/tests"]
)
def test_a_path_of_the_builder(find: Find, text: str) -> None:
    assert [leak.what.split(":")[0] for leak in find("notes.txt", text)] == ["a path of the builder's"]


def test_a_name_of_the_builder(lab: Lab, zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "jmiller")
    (leak,) = leaks.scan({"notes.txt": b"kernel of jmiller"}, lab, zygote)
    assert (leak.line, leak.what) == (1, "a name of the builder's: jmiller")


# ---- zips -----------------------------------------------------------------------------------------------------------


def zipped(item: zipfile.ZipInfo | None = None, comment: bytes = b"", name: str = "a.txt") -> bytes:
    buffer = io.BytesIO()
    info = item or clean(name)
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, b"text")
        archive.comment = comment
    return buffer.getvalue()


def clean(name: str = "a.txt") -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, bundle.EPOCH)
    info.create_system, info.external_attr = 3, 0o100644 << 16
    return info


def changed(**values: object) -> zipfile.ZipInfo:
    info = clean()
    for name, value in values.items():
        setattr(info, name, value)
    return info


@pytest.mark.parametrize(
    "data, what",
    [
        (zipped(comment=b"built by me"), "a comment of the zip"),
        (zipped(changed(comment=b"draft")), "a comment of a zip's entry"),
        (zipped(changed(extra=b"UT\x05\x00\x03\x00\x00\x00\x00")), "extra fields"),
        (zipped(changed(date_time=(2026, 2, 3, 4, 5, 6))), "the time of a file: (2026, 2, 3"),
        (zipped(changed(external_attr=0o100600 << 16)), "the mode of a file"),
        (zipped(changed(create_system=0)), "the mode of a file"),
        (zipped(name="/etc/a.txt"), "a name that is no plain path"),
        (zipped(name="../a.txt"), "a name that is no plain path"),
        (b"PK\x03\x04 and no more", "a zip that cannot be read"),
    ],
)
def test_what_a_zip_tells(find: Find, data: bytes, what: str) -> None:
    (leak,) = find("lab.zip", data)
    assert leak.what.startswith(what)
    assert not find("lab.zip", zipped())


def test_a_zip_inside_a_zip_is_opened(lab: Lab, find: Find) -> None:
    inner = bundle.zipped({"notes.md": f"secret {lab.file.secret}".encode()})
    (leak,) = find("dist.zip", bundle.zipped({"old.zip": inner}))
    assert leak == Leak("dist.zip!old.zip!notes.md", 1, "the secret of attention", leak.advice)


# ---- what is handed out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", course.labs(ROOT))
def test_nothing_that_is_handed_out_leaks(name: str, zygote: Zygote) -> None:
    lab = labs.load(name, ROOT)
    files = {f"{name}-student.zip": bundle.zipped(bundle.student_files(lab))}
    folder = ROOT / "starter_code" / name
    files |= {f"starter_code/{path.name}": path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    assert leaks.scan(files, lab, zygote) == []


def test_a_folder_that_was_zipped_by_hand_is_full_of_leaks(lab: Lab, withheld: Withheld, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "lab.zip", "w") as archive:
        for place in (
            "assignments/attention/checks.py",
            "assignments/attention/lab.toml",
            "reference/attention/attention.py",
        ):
            archive.write(ROOT / place, place)
    found = leaks.find({"lab.zip": (tmp_path / "lab.zip").read_bytes()}, withheld)
    kinds = (
        "the time",
        "the secret of attention",
        "line ",
        "a right answer",
        "the name of a check",
        "a line of same_gradients in checks.py",
        "a file of the lab that is not its starter",
    )
    for kind in kinds:
        assert any(leak.what.startswith(kind) for leak in found), kind
    assert all(leak.file.startswith("lab.zip!") and leak.line >= 0 and leak.what and leak.advice for leak in found)
