"""What leaves the instructor's folder: the same bytes each time, whole, and without what students may not have."""

from __future__ import annotations

import ast
import io
import re
import shutil
import stat
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from handed_out import run, zips
from tiny import CHECKS, change, make_course

from autograder import bundle, course
from autograder import lab as labs
from autograder.check import AuthoringError
from autograder.lab import Lab
from autograder.strip import find_solution, solution_lines
from autograder.visible import visible_source


def contents(name: str) -> dict[str, bytes]:
    """The files of one of lab 1's zips."""
    with zipfile.ZipFile(zips() / name) as archive:
        return {item.filename: archive.read(item) for item in archive.infolist()}


@pytest.fixture(scope="module")
def student() -> dict[str, bytes]:
    return contents("attention-student.zip")


@pytest.fixture(scope="module")
def image() -> dict[str, bytes]:
    return contents("attention-autograder.zip")


@pytest.fixture(scope="module")
def lab() -> Lab:
    return labs.load("attention", ROOT)


# The same bytes ---------------------------------------------------------------------------------------------------------


def test_a_copy_of_the_course_elsewhere_makes_the_same_bytes(tmp_path: Path) -> None:
    copy = tmp_path / ".course of a colleague, ümläut"
    for folder in ("autograder", "assignments", "reference", "starter_code"):
        shutil.copytree(ROOT / folder, copy / folder)
    for file in ("course.toml", "requirements.txt"):
        shutil.copy(ROOT / file, copy)
    # What editors and runs leave behind goes nowhere.
    (copy / "assignments" / "attention" / "__pycache__").mkdir(exist_ok=True)
    for litter in (".env", "checks.py.swp", "__pycache__/checks.cpython-311.pyc", ".ipynb_checkpoints"):
        (copy / "assignments" / "attention" / litter).write_bytes(b"litter")
    done = run(
        [sys.executable, "-m", "autograder", "zips", "attention", "--out", tmp_path / "out"],
        cwd=copy,
        env={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
    )
    assert done.returncode == 0, done.stderr
    for name in ("attention-student.zip", "attention-autograder.zip"):
        assert (tmp_path / "out" / "attention" / name).read_bytes() == (zips() / name).read_bytes()


def test_a_zip_tells_no_time_and_no_owner() -> None:
    for name in ("attention-student.zip", "attention-autograder.zip"):
        with zipfile.ZipFile(zips() / name) as archive:
            assert archive.comment == b""
            items = archive.infolist()
        assert [item.filename for item in items] == sorted(item.filename for item in items)
        for item in items:
            assert item.date_time == (1980, 1, 1, 0, 0, 0)
            assert item.comment == b""
            assert item.extra == b""
            script = item.filename in ("setup.sh", "run_autograder")
            assert stat.filemode(item.external_attr >> 16) == ("-rwxr-xr-x" if script else "-rw-r--r--")


def test_the_order_in_which_files_were_found_does_not_matter() -> None:
    files = {"b.py": b"2", "a/c.py": b"3", "a.py": b"1"}
    assert bundle.zipped(files) == bundle.zipped(dict(reversed(files.items())))
    with zipfile.ZipFile(io.BytesIO(bundle.zipped(files))) as archive:
        assert archive.testzip() is None


# The student's zip ------------------------------------------------------------------------------------------------------


def texts(files: dict[str, bytes]) -> dict[str, str]:
    """Every file as text; the recording, too: what is readable in it is readable."""
    return {name: data.decode("utf-8", "replace") for name, data in files.items()}


def test_what_a_student_gets(student: dict[str, bytes]) -> None:
    assert {name for name in student if not name.startswith("_check/")} - {"README.zh.md"} == {
        "README.md",
        "attention.py",
        "check.py",
        "conftest.py",
        "plots.py",
        "requirements-worksheet.txt",
        "requirements.txt",
        "worksheet.ipynb",
    }
    lists = {name for name in student if name.startswith("_check/") and not name.startswith("_check/autograder/")}
    assert lists - {"_check/assignments/attention/locale/zh.mo"} == {
        "_check/assignments/attention/checks.py",
        "_check/assignments/attention/lab.toml",
        "_check/recording.bin",
    }
    for name in ("strip", "bundle", "cli", "mutants", "demo", "gradescope/run"):
        assert f"_check/autograder/{name}.py" not in student
    assert student["attention.py"] == (ROOT / "starter_code" / "attention" / "attention.py").read_bytes()
    for name, data in student.items():
        if name.startswith("_check/autograder/"):
            assert data == (ROOT / name.removeprefix("_check/")).read_bytes()


def test_no_solution_is_handed_out(student: dict[str, bytes], lab: Lab) -> None:
    reference = lab.reference.files["attention"][1]
    solution = solution_lines(reference)
    for name, text in texts(student).items():
        assert find_solution(solution, text, python=name.endswith(".py")) == [], name
        assert "SOLUTION" not in text or name.startswith("_check/autograder/"), name


def test_no_answer_is_handed_out(student: dict[str, bytes], lab: Lab) -> None:
    for name, text in texts(student).items():
        for question, asked in lab.questions.items():
            assert not re.search(rf"{question}[\"']?\s*[:=]\s*[\"']?[A-E]\b", text), name
            for option in asked.options.values():
                assert not option.implies or option.implies.strip() not in text, name


def test_nothing_of_a_hidden_check_is_handed_out(student: dict[str, bytes], lab: Lab) -> None:
    hidden = [check for check in lab.checks if not check.local]
    assert len(hidden) > 10
    titles = {check.title for check in lab.checks if check.local}  # one and the same sentence may name a visible check
    ours = {name: text for name, text in texts(student).items() if not name.startswith("_check/autograder/")}
    source = (ROOT / "assignments" / "attention" / "checks.py").read_text(encoding="utf-8")
    functions = {
        node.name: ast.unparse(node.body[1:]) for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)
    }
    handed_out = ast.unparse(ast.parse(ours["_check/assignments/attention/checks.py"]))
    for check in hidden:
        for name, text in ours.items():
            assert not re.search(rf"\b{check.name}\b", text), (check.name, name)
            assert check.title in titles or check.title not in text, (check.name, name)
        assert textwrap.indent(functions[check.name], "    ") not in handed_out, check.name


def test_no_secret_is_handed_out(student: dict[str, bytes], lab: Lab) -> None:
    assert len(lab.file.secret) >= 32
    for name, data in student.items():
        assert lab.file.secret.encode() not in data, name
        assert str(ROOT).encode() not in data, name
    assert b"secret" not in student["_check/assignments/attention/lab.toml"]


def test_the_copy_is_a_lab_of_its_own(student: dict[str, bytes], lab: Lab, tmp_path: Path) -> None:
    with zipfile.ZipFile(zips() / "attention-student.zip") as archive:
        archive.extractall(tmp_path)
    copy = labs.load("attention", tmp_path / "_check", with_reference=False)
    visible = [check for check in lab.checks if check.local]
    assert [check.name for check in copy.checks] == [check.name for check in visible]
    for here, there in zip(visible, copy.checks):
        assert (here.number, here.title, here.points, here.after) == (
            there.number,
            there.title,
            there.points,
            there.after,
        )
        assert lab.draws(here)[0] == copy.draws(there)[0]
    assert copy.file.limits == lab.file.limits
    assert not copy.file.secret


# What is cut out of checks.py -------------------------------------------------------------------------------------------


KEPT = {"doubled", "input_stays"}


def test_only_what_the_visible_checks_use_stays() -> None:
    text = visible_source(CHECKS, KEPT)
    assert re.findall(r"^def (\w+)", text, re.MULTILINE) == ["two", "doubled", "input_stays"]
    for gone in ("rows_of_edge_length", "HIDDEN_SIZES", "recursively_unused", "answer_growth", "concept",
                 "rules", "laws", "hidden", "edge", "inner remark", "last remark", "Literal"):  # fmt: skip
        assert gone not in text, gone
    for there in (
        "FIRST, SECOND = 3, 4",
        "from __future__ import annotations",
        "# 1.1 -----------",
    ):
        assert there in text
    compile(text, "checks.py", "exec")
    assert visible_source(text, KEPT) == text


def test_a_form_feed_or_a_line_separator_moves_no_line() -> None:
    odd = CHECKS.replace('"""Compare on x."""', '"""Compare\f on \u2028 x \x85 or \x1c y."""')
    text = visible_source(odd, KEPT)
    assert "inner remark" not in text
    assert "expect(after" in text


def test_statements_on_one_line_stop_the_build() -> None:
    with pytest.raises(AuthoringError, match="two statements share a line"):
        visible_source(CHECKS.replace("FIRST, SECOND = 3, 4", "FIRST, SECOND = 3, 4; HIDDEN = 5"), KEPT)


def test_a_check_that_is_no_plain_function_stops_the_build() -> None:
    odd = CHECKS.replace("def input_stays(", "def _stays(").replace(
        "@number(\"1.2.1\")", "input_stays = _stays\n\n\n@number(\"1.2.1\")"
    )  # fmt: skip
    with pytest.raises(AuthoringError, match=r"input_stays must be a plain function with @check"):
        visible_source(odd, KEPT)


def test_a_check_without_points_keeps_its_section(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    change(root / "assignments/tiny/checks.py", '@weight(2)\n@check(target="double", read="#twice")',
           '@weight(2)\n@check(target="double", local=False)')  # fmt: skip
    change(
        root / "assignments/tiny/checks.py",
        '@check(target="double", after="doubled")\ndef i',
        '@check(target="double")\ndef i',
    )
    local = labs.local_part(labs.load("tiny", root))
    assert [check.points for check in local.checks] == [0]
    files = bundle.visible_lab(local)
    assert b'number = "1.1"' in files["lab.toml"]
    assert b"points = 0.0" in files["lab.toml"]
    assert b'number = "1.2"' not in files["lab.toml"]


def test_every_dependency_of_what_is_handed_out_is_pinned(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    lines = (root / "requirements.txt").read_text(encoding="utf-8")
    (root / "requirements.txt").write_text(lines.replace("rich==1.0\n", "rich>=1\n"), encoding="utf-8")
    with pytest.raises(AuthoringError, match=r"requirements\.txt: no line `rich==…`"):
        bundle.autograder_files(labs.load("tiny", root))
    (root / "requirements.txt").unlink()
    with pytest.raises(AuthoringError, match=r"requirements\.txt does not exist"):
        bundle.autograder_files(labs.load("tiny", root))


# The autograder's zip ---------------------------------------------------------------------------------------------------


def test_what_gradescope_gets(image: dict[str, bytes], lab: Lab) -> None:
    assert {"setup.sh", "run_autograder", "requirements.txt", "course.toml", "reference/attention/attention.py"} < set(
        image
    )
    assert b"@LAB@" not in image["run_autograder"]
    assert b"gradescope attention" in image["run_autograder"]
    assert lab.file.secret.encode() in image["assignments/attention/lab.toml"]
    for name in image:
        assert not any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
        assert not name.startswith(("tests/", "reference/attention/examples", "reference/attention/alternatives"))
        assert not re.match("(assignments|reference)/(?!attention/)", name)
    for path in (ROOT / "autograder").rglob("*.py"):
        assert image[path.relative_to(ROOT).as_posix()] == path.read_bytes()
    lines = image["requirements.txt"].decode().splitlines()
    assert "torch==2.13.0" in lines
    assert all(re.match(r"[\w-]+==\d", line) for line in lines)


def test_the_course_says_where_torch_comes_from(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    (root / "course.toml").write_text(
        '[torch]\nrequirement = "torch==2.4.0"\nindex = "example:cpu"\n', encoding="utf-8"
    )
    lines = bundle.autograder_files(labs.load("tiny", root))["requirements.txt"].decode().splitlines()
    assert lines[:2] == ["--extra-index-url example:cpu", "torch==2.4.0"]
    assert lines.count("numpy==1.0") == 1


def test_a_lab_brings_what_it_is_built_on() -> None:
    for name in course.labs(ROOT):
        one = labs.load(name, ROOT)
        files = bundle.autograder_files(one)
        for module in one.reference.files:
            assert any(path.startswith("reference/") and path.endswith(f"/{module}.py") for path in files)
        for required in one.file.requires:
            assert f"assignments/{required}/lab.toml" in files
