"""The worksheets: made, run from top to bottom on the reference and on the untouched starter, and handed in."""

# mypy: allow-untyped-calls

from __future__ import annotations

import ast
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from conftest import ROOT, Grade
from nbformat import v4

from autograder import bundle, course, structure, worksheet
from autograder import lab as labs
from autograder.lab import Lab
from autograder.local import plots
from autograder.local.worksheet import Answer, Saying, check
from autograder.strip import strip

LABS = course.labs(ROOT)
WRONG = (ROOT / "reference/attention/examples/softmax_over_readers/attention.py").read_text(encoding="utf-8")


@cache
def lab(name: str) -> Lab:
    return labs.load(name, ROOT)


@cache
def handed_out(name: str) -> dict[str, bytes]:
    return bundle.student_files(lab(name))


def unpacked(name: str, folder: Path) -> Path:
    """A student's folder, with the files of earlier labs that this one builds on."""
    earlier = {f"{module}.py": text.encode() for module, (_, text) in lab(name).reference.files.items()}
    for path, data in {**earlier, **handed_out(name)}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def executed(folder: Path) -> list[dict[str, Any]]:
    """Every output of the folder's worksheet, run from top to bottom."""
    book = nbformat.read(folder / "worksheet.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        book, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "IPYTHONDIR": str(folder / ".ipython")}
    client.execute(env=environment)  # raises CellExecutionError with the traceback of a cell
    return [output for cell in book.cells for output in cell.get("outputs", [])]


def printed(outputs: list[dict[str, Any]]) -> str:
    """What cells print, and what stands for an answer where there is no HTML."""
    answers = [output["data"]["text/plain"] for output in outputs if "text/html" in output.get("data", {})]
    return "\n".join([*(output["text"] for output in outputs if output["output_type"] == "stream"), *answers])


def pictures(outputs: list[dict[str, Any]]) -> int:
    return sum("image/png" in output.get("data", {}) for output in outputs)


# From the source to the notebook --------------------------------------------------------------------------------------


def test_a_notebook_is_made_of_its_source_alone() -> None:
    text = "# %% [markdown]\n# # Title\n\n# %%\n# %load_ext autoreload\nx = 1\n"
    made = worksheet.notebook(text)
    assert made == worksheet.notebook(text)
    book = nbformat.reads(made.decode(), as_version=4)
    assert [(cell.cell_type, cell.source) for cell in book.cells] == [
        ("markdown", "# Title"),
        ("code", "%load_ext autoreload\nx = 1"),
    ]
    assert book.cells[1].outputs == []
    assert set(book.metadata) == {"kernelspec", "language_info"}


@pytest.mark.parametrize("name", LABS)
def test_what_the_student_gets(name: str) -> None:
    files = handed_out(name)
    assert files["worksheet.ipynb"] == worksheet.notebook(worksheet.source(name, ROOT))
    assert files["plots.py"] == (ROOT / "autograder" / "local" / "plots.py").read_bytes()
    assert "matplotlib==" in files["requirements-worksheet.txt"].decode()
    assert len(worksheet.asked(worksheet.source(name, ROOT))) >= 4
    assert structure.faults(lab(name)) == []


def test_a_cell_that_checks_what_is_not_there_is_a_fault_of_the_lab(tmp_path: Path) -> None:
    for place in ("assignments", "reference", "starter_code"):
        shutil.copytree(ROOT / place / "attention", tmp_path / place / "attention")
    path = tmp_path / "assignments" / "attention" / "worksheet.py"
    path.write_text('# %%\ncheck("no_lop")\n', encoding="utf-8")
    (fault,) = structure.faults(labs.load("attention", tmp_path))
    assert fault.startswith("assignments/attention/worksheet.py: check('no_lop'): No check fits 'no_lop'.")
    path.unlink()
    assert structure.faults(labs.load("attention", tmp_path)) == []  # a lab may have none


# Executed -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LABS)
def test_on_the_reference_every_cell_runs_and_every_check_passes(name: str, tmp_path: Path) -> None:
    folder = unpacked(name, tmp_path)
    (folder / lab(name).file.main).write_text(lab(name).reference.files[lab(name).main_module][1], encoding="utf-8")
    outputs = executed(folder)
    text = printed(outputs)
    for sign in ("☐", "✗", "–", "No check fits"):
        assert not any(line.startswith(sign) for line in text.splitlines()), text
    assert text.count("✓") >= len([found for found in lab(name).checks if found.local])
    assert pictures(outputs) >= 5
    assert "stderr" not in {output.get("name") for output in outputs}


@pytest.mark.parametrize("name", LABS)
def test_on_the_starter_notes_stand_where_something_is_open(name: str, tmp_path: Path) -> None:
    outputs = executed(unpacked(name, tmp_path))
    text = printed(outputs)
    main = lab(name).file.main
    starter = handed_out(name)[main].decode()
    noted = [line for line in text.splitlines() if line.startswith("☐")]
    assert len(noted) >= 4
    for line in noted:
        assert line.removeprefix("☐ ").partition(". Write it")[0] in starter, line
    assert "✗" in text
    assert "✓" not in text
    assert "Traceback" not in text
    todos = strip(lab(name).reference.files[lab(name).main_module][1], name=main, origin=main).todos
    assert any(todo.number in line for todo in todos for line in noted)


# check() in a cell ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return unpacked("attention", tmp_path)


def test_a_wrong_part_shows_what_was_expected_beside_what_came(folder: Path) -> None:
    (folder / "attention.py").write_text(f"{WRONG}\nweighted_read = None\n", encoding="utf-8")
    answer = check(folder, "", [])
    assert isinstance(answer, Answer)
    page = answer._repr_html_()
    for caption in ("expected", "yours", "yours − expected"):
        assert f"<caption>{caption}</caption>" in page
    assert page.count("<details") > 1
    assert page.count(" open>") == 1  # one thing at a time
    assert "softmax runs over the readers" in page
    assert "softmax runs over the readers" in " ".join(repr(answer).split())


def test_an_unknown_name_suggests_the_nearest(folder: Path) -> None:
    said = check(folder, "weighted_reed", [])
    assert isinstance(said, Saying)
    assert "weighted_read" in repr(said)


def test_definitions_in_cells_are_judged_where_there_are_any(folder: Path) -> None:
    right = "def weighted_read(weights, values):\n    return (weights @ values)"
    cells = ["", "import torch", "def weighted_read(weights, values):\n    return values[0]", "%time 1", right]
    answer = check(folder, "weighted_read", cells)
    assert isinstance(answer, Answer)
    assert answer.record.score == 4
    assert answer.record.notes == ()  # of the older version nothing needs to be said
    assert "attention.py was left aside: hand in the notebook alone" in answer._repr_html_()
    older = check(
        folder, "weighted_read", [*cells[:2], "def weighted_read(weights, values):\n    return weights / None"]
    )
    assert isinstance(older, Answer)
    assert older.record.score == 0
    assert "worksheet.ipynb cell 2 line 2" in repr(older)
    other = check(folder, "two_loop_single", cells)
    assert isinstance(other, Answer)
    assert "TODO 1.2" in repr(other)  # the file's
    assert not other.remark


def test_a_note_takes_the_place_of_a_traceback_for_what_is_open_only(capsys: pytest.CaptureFixture[str]) -> None:
    with plots.to_do():
        raise NotImplementedError("TODO 1.1: add up")
    assert capsys.readouterr().out == "☐ TODO 1.1: add up. Write it, save the file, and run this cell again.\n"
    with pytest.raises(NotImplementedError, match="no such kernel"), plots.to_do():
        raise NotImplementedError("no such kernel for this dtype")


# Handed in ------------------------------------------------------------------------------------------------------------


def test_a_worksheet_with_every_trouble_scores_as_its_file_does(folder: Path, grade: Grade) -> None:
    book = nbformat.read(folder / "worksheet.ipynb", as_version=4)
    lines = WRONG.splitlines()
    for node in ast.parse(WRONG).body:  # one cell for each statement
        first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
        code = "\n".join(lines[first - 1 : node.end_lineno])
        name = getattr(node, "name", "")
        if name == "weighted_read":
            book.cells.append(v4.new_code_cell("def weighted_read(weights, values):\n    return values"))
            code = f"%%time\n{code}\nawait asyncio.sleep(0)\n!pip list | head \\\n  -3"
        if name == "SelfAttention":
            code = f"%matplotlib inline\n{code}\nfiles = !ls\nlayer = SelfAttention(4, 3, 6)\nplt.plot(layer.q.weight)"
        if name == "reads":
            code = f"import matplotlib.pyplot as plt\nimport asyncio\n{code}\nplt.imshow(reads(tanh_mlp, x))\nreads?"
        book.cells += [v4.new_markdown_cell("A story."), v4.new_code_cell(code)]
    book.cells.append(v4.new_code_cell("assert False, 'the story is not run again'\ncheck()"))
    as_file = grade("attention", {"attention.py": WRONG.encode()})
    as_notebook = grade("attention", {"worksheet.ipynb": nbformat.writes(book).encode()})
    assert 0 < as_file.score < 100
    assert [(r.number, r.status, r.score, r.gap, r.cause) for r in as_notebook.results] == [
        (r.number, r.status, r.score, r.gap, r.cause) for r in as_file.results
    ]
    said = " ".join(as_notebook.notes)
    assert "defines `weighted_read` in cells" in said
    assert "SyntaxError" not in said
    (place,) = {r.where.place for r in as_notebook.results if r.where}
    assert place.startswith("worksheet.ipynb cell ")
