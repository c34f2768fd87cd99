"""Notebooks handed in place of a file: real ones written by nbformat, old ones, and damaged ones."""

# mypy: allow-untyped-calls

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import nbformat
import pytest
from fuzzing import examples
from hypothesis import given
from hypothesis import strategies as st
from nbformat import v3, v4

from autograder.reading.notebook import NotebookSource, definitions_from_notebook, is_notebook
from autograder.source import Source


def book(*cells: str | tuple[str, str]) -> bytes:
    """A notebook of format 4; a pair is a cell of another kind."""
    made = [v4.new_code_cell(cell) if isinstance(cell, str) else v4.new_markdown_cell(cell[1]) for cell in cells]
    return str(nbformat.writes(v4.new_notebook(cells=made))).encode()


def take(*cells: str | tuple[str, str]) -> NotebookSource:
    found = definitions_from_notebook(book(*cells), "worksheet.ipynb", own="attention")
    check(found)
    return found


def check(found: NotebookSource) -> None:
    compile(found.text, found.name, "exec")
    assert len(found.lines) == len(found.places)
    assert found.text.count("\n") + 1 == len(found.lines) or not found.lines
    assert found.text.count("\n") == found.original.count("\n")


def kept(found: NotebookSource) -> list[str]:
    return [line for line in found.text.split("\n") if line]


def said(found: NotebookSource | Source) -> str:
    return "\n".join(note.text for note in found.notes)


def run(found: NotebookSource | Source) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(found.text, "attention.py", "exec"), namespace)
    return namespace


class TestWhatIsKept:
    def test_definitions_and_simple_values_without_the_story(self) -> None:
        found = take(
            ("markdown", "# Lab 1\ndef not_code(): pass"),
            "import math\nimport torch.nn.functional as F",
            "D = 4\nBIG = -1e9\nSCALE = 1 / math.sqrt(16)\nPAIR: tuple[int, int] = (1, 2)",
            "def f(x):\n    return x * D\n\nprint(f(3))\nf(3)",
            "class A:\n    x = 1\n\n@staticmethod\ndef g(): return 1",
            'ANSWERS = {"a": None, "b": None}',
            'ANSWERS["a"] = "C"\nANSWERS["b"] = "D"',
            "h = lambda x: f(x)\nalias = f\nsoftmax = F.softmax",
            "y = f(3)\nfor i in range(3):\n    z = i\nwhile False: pass\nwith open('x') as file: pass",
            "raise SystemExit",
        )
        assert kept(found) == [
            "import math",
            "import torch.nn.functional as F",
            "D = 4",
            "BIG = -1e9",
            "SCALE = 1 / math.sqrt(16)",
            "PAIR: tuple[int, int] = (1, 2)",
            "def f(x):",
            "    return x * D",
            "class A:",
            "    x = 1",
            "@staticmethod",
            "def g(): return 1",
            'ANSWERS = {"a": None, "b": None}',
            'ANSWERS["a"] = "C"',
            'ANSWERS["b"] = "D"',
            "h = lambda x: f(x)",
            "alias = f",
            "softmax = F.softmax",
        ]
        assert found.notes == ()

    def test_the_labs_own_file_is_not_imported(self) -> None:
        found = take(
            "from attention import *\nfrom attention import f\nimport attention\nimport attention as att",
            "try:\n    from attention import g\nexcept ImportError:\n    g = None",
            "def f(): return 1",
        )
        assert kept(found) == ["def f(): return 1"]

    def test_other_libraries_may_be_missing(self) -> None:
        found = take(
            "import no_such_plots.pyplot as plt, math\nfrom no_such_bars import (\n    bar,\n    other,\n)",
            "def f(): return 1\ndef show(): plt.plot()",
        )
        namespace = run(found)
        assert namespace["f"]() == 1
        with pytest.raises(NameError):
            namespace["show"]()
        places = [found.places[number] for number, line in enumerate(found.text.split("\n")) if "no_such_bars" in line]
        assert places == ["worksheet.ipynb cell 1 line 2"]

    def test_future_imports_come_first(self) -> None:
        found = take(
            "import no_such_module", "def f(x: Missing): return 1", "from __future__ import annotations\nD = 1"
        )
        assert kept(found)[0] == "from __future__ import annotations"
        assert run(found)["f"](0) == 1

    def test_guards_around_imports(self) -> None:
        found = take(
            "try:\n    import no_such\n    HAS = True\nexcept ImportError:\n    HAS = False", "def f(): return HAS"
        )
        assert run(found)["f"]() is False

    def test_statements_that_share_a_line(self) -> None:
        found = take("import math; D = 4; print(D); E = D")
        assert kept(found) == ["import math; D = 4; E = D"]

    def test_a_definition_that_needs_the_story_is_told(self) -> None:
        found = take(
            "scale = compute()\nx = load()", "def f(x):\n    return x * scale", "def g():\n    x = 1\n    return x"
        )
        assert said(found) == (
            "A definition uses `scale`, which worksheet.ipynb cell 1 computes and the grader does not: "
            "pass it in, or set it to a constant."
        )

    def test_no_definitions(self) -> None:
        assert "No definitions were found in worksheet.ipynb" in said(take("print(1)", ("markdown", "x")))


class TestMagics:
    def test_lines_for_the_notebook_and_the_shell(self) -> None:
        found = take(
            "%matplotlib inline\n%load_ext autoreload\n!pip install torch \\\n   --quiet\n"
            "files = !ls\nt = %timeit -o 1\n"
            "torch?\n?torch\nD = 4\ndef f(x):\n    %time y = 1\n    !echo {x}\n    return x"
        )
        assert kept(found) == ["D = 4", "def f(x):", "    pass", "    pass", "    return x"]
        assert found.notes == ()

    @pytest.mark.parametrize("magic", ["%%time", "%%timeit -n 1", "%%capture out", "\n%%prun"])
    def test_cell_magics_above_python(self, magic: str) -> None:
        found = take(f"{magic}\nimport math\ndef f(): return 1\nprint(f())")
        assert kept(found) == ["import math", "def f(): return 1"]
        line = found.text.split("\n").index("def f(): return 1")
        assert found.places[line] == f"worksheet.ipynb cell 1 line {magic.count(chr(10)) + 3}"

    @pytest.mark.parametrize("magic", ["%%bash", "%%html", "%%javascript", "%%writefile other.py", "%%sql x"])
    def test_cell_magics_above_something_else(self, magic: str) -> None:
        assert kept(take(f"{magic}\ndef f(): return 1")) == []

    def test_a_file_written_from_a_cell_is_the_work_itself(self) -> None:
        assert kept(take("%%writefile /content/attention.py\ndef f(): return 1")) == ["def f(): return 1"]

    def test_a_percent_that_is_python(self) -> None:
        found = take("def f(a, b):\n    return (a\n        % b)\nx = '''\n%time\n!ls\n'''")
        assert run(found)["f"](7, 4) == 3
        assert run(found)["x"] == "\n%time\n!ls\n"
        found = take("def f(a, b):\n    return (a\n        % b)\n!ls")
        assert run(found)["f"](7, 4) == 3

    def test_await_and_return_of_the_story(self) -> None:
        found = take(
            "import asyncio\nawait asyncio.sleep(0)\nD = 1",
            "async def f(): return 1\nasync for x in y: pass",
            "return 3",
        )
        assert kept(found) == ["import asyncio", "D = 1", "async def f(): return 1"]
        assert found.notes == ()

    def test_await_in_a_cell_that_is_broken_elsewhere(self) -> None:
        found = take("await thing()\ndef f(:\n    pass\ndef g(): return 1")
        assert run(found)["g"]() == 1
        assert len(found.notes) == 1


class TestBrokenCells:
    def test_costs_the_definition_only(self) -> None:
        cells: list[str | tuple[str, str]] = [
            "import math\n",
            ("markdown", "text"),
            "def good(): return 1\n\ndef bad(x):\n    return (x\n\nD = 2",
            "def later(): return 3",
        ]
        found = take(*cells)
        namespace = run(found)
        assert (namespace["good"](), namespace["later"](), namespace["D"]) == (1, 3, 2)
        with pytest.raises(SyntaxError, match=r"worksheet\.ipynb cell 3 line 4: '\(' was never closed"):
            namespace["bad"](1)
        assert "worksheet.ipynb cell 3 line 4: SyntaxError: '(' was never closed; `bad` cannot be graded" in said(found)
        (item,) = found.broken
        assert item.name == "bad"
        assert found.places[item.line - 1] == "worksheet.ipynb cell 3 line 4"
        assert found.original.split("\n")[item.line - 1] == "    return (x"

    def test_an_open_bracket_ends_with_its_cell(self) -> None:
        found = take("x = [1,\n", "def f(): return 1", '"""', "def g(): return 2")
        assert (run(found)["f"](), run(found)["g"]()) == (1, 2)

    def test_lines_stay_right_below_an_import_that_moved(self) -> None:
        found = take("import no_such_thing", "def f(:\n    pass", "def g(): return 1")
        (item,) = found.broken
        assert found.places[item.line - 1] == "worksheet.ipynb cell 2 line 1"


class TestDuplicates:
    def test_the_last_one_wins_and_is_named(self) -> None:
        found = take("def f(): return 1", "def g(): return 1", "def f(): return 2", "f()")
        assert run(found)["f"]() == 2
        assert said(found) == "worksheet.ipynb defines `f` in cells 1 and 3: the last one is graded."


VALUES = st.none() | st.booleans() | st.floats() | st.text(max_size=20)
VALUES |= st.sampled_from(["code", "x = (", "%%time\ndef f(): pass"])
KEYS = st.sampled_from(
    ["cells", "worksheets", "cell_type", "source", "input", "metadata", "nbformat", "outputs", "kernelspec"]
)


class TestFormats:
    def test_format_3(self) -> None:
        sheet = v3.new_worksheet(cells=[
            v3.new_heading_cell("Title"), v3.new_code_cell("def f():\n    return 1"), v3.new_text_cell("markdown", "x"),
            v3.new_code_cell("def g():\n    return f()"),
        ])  # fmt: skip
        data = v3.nbjson.JSONWriter().writes(v3.new_notebook(worksheets=[sheet])).encode()
        found = definitions_from_notebook(data, "old.ipynb")
        check(found)
        assert run(found)["g"]() == 1
        assert found.places[found.text.split("\n").index("def g():")] == "old.ipynb cell 4 line 1"

    @pytest.mark.parametrize("missing", ["metadata", "nbformat", "nbformat_minor", "both"])
    def test_missing_parts(self, missing: str) -> None:
        loaded = json.loads(book("def f(): return 1"))
        for key in ("metadata", "nbformat") if missing == "both" else (missing,):
            del loaded[key]
        for cell in loaded["cells"]:
            for key in ("id", "metadata", "outputs", "execution_count"):
                cell.pop(key, None)
        found = definitions_from_notebook(json.dumps(loaded).encode(), "worksheet.ipynb")
        assert run(found)["f"]() == 1

    def test_widgets_and_outputs_of_megabytes(self) -> None:
        loaded = json.loads(book("def f(): return 1"))
        loaded["metadata"]["widgets"] = {
            "application/vnd.jupyter.widget-state+json": {"state": {str(n): {} for n in range(999)}}
        }
        loaded["cells"][0]["outputs"] = [
            {"output_type": "display_data", "data": {"image/png": "A" * 10_000_000}, "metadata": {}}
        ]
        loaded["cells"].insert(
            0, {"cell_type": "markdown", "source": "x", "attachments": {"a.png": {"image/png": "A" * 999_999}}}
        )
        data = json.dumps(loaded).encode()
        found = definitions_from_notebook(data, "worksheet.ipynb")
        assert run(found)["f"]() == 1
        assert len(found.text) < 100
        assert is_notebook(data)

    @pytest.mark.parametrize("old", [False, True])
    def test_without_nbformat(self, monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
        monkeypatch.setitem(sys.modules, "nbformat", None)
        cell = {"cell_type": "code", "input" if old else "source": "def f(): return 1"}
        loaded = {"worksheets": [{"cells": [cell]}], "nbformat": 3} if old else {"cells": [cell], "nbformat": 4}
        found = definitions_from_notebook(json.dumps(loaded).encode(), "worksheet.ipynb")
        assert run(found)["f"]() == 1

    def test_lines_as_a_list_and_other_line_ends(self) -> None:
        cells = [
            {"cell_type": "code", "source": ["def f():\r\n", "    return 1\0\r\n"]},
            {"cell_type": "raw", "source": "def g(: pass"},
        ]
        found = definitions_from_notebook(json.dumps({"cells": cells}).encode("utf-8-sig"), "worksheet.ipynb")
        assert run(found)["f"]() == 1
        assert found.notes == ()

    @pytest.mark.parametrize(
        "data",
        [
            b"", b"{", b"[]", b"null", b"\xff\xfe", b"PK\x03\x04", b'{"cells": 3}',
            b'{"cells": [3, null, {"cell_type": "code"}]}',
            b'{"worksheets": [1, {"cells": {}}]}', b'{"metadata": 3, "cells": []}', b"[" * 100_000, b'{"a":' * 100_000,
            b'{"cells": [{"cell_type": "code", "source": "x = \\ud800"}]}', b'{"nbformat": 99, "cells": []}',
            b'{"nbformat": "x", "cells": [{"cell_type": "code", "source": 3}]}', b'{"nbformat": ' + b"9" * 5000 + b"}",
        ],
    )  # fmt: skip
    def test_damage_is_said_and_never_raises(self, data: bytes) -> None:
        found = definitions_from_notebook(data, "worksheet.ipynb")
        check(found)
        assert found.notes
        said(found).encode()

    def test_another_language(self) -> None:
        loaded = json.loads(book("f <- function(x) x"))
        loaded["metadata"]["kernelspec"] = {"language": "R", "name": "ir", "display_name": "R"}
        assert "is written for R" in said(definitions_from_notebook(json.dumps(loaded).encode(), "worksheet.ipynb"))

    def test_too_much_code(self) -> None:
        found = take("def f(): return 1", "x = 1\n" * 200_000, "def g(): return 1")
        assert "has too much code: it was read up to cell 1" in said(found)
        assert "g" not in run(found)

    @examples(300)
    @given(
        st.recursive(VALUES, lambda i: st.lists(i, max_size=3) | st.dictionaries(KEYS, i, max_size=4), max_leaves=15)
    )
    def test_any_json(self, loaded: Any) -> None:
        check(definitions_from_notebook(json.dumps(loaded).encode(), "worksheet.ipynb"))


class TestAsSource:
    CELLS = (
        "import math",
        "def f(x):\n    return x\n\ndef g(x):\n    return f(x).softmax(-1)",
        "def h(:\n    pass",
        "g(1)",
    )

    def test_lines_are_cells(self) -> None:
        source = Source.read(book(*self.CELLS), "attention.py", "worksheet.ipynb")
        assert source.name == "attention.py"
        span = source.find("g")
        assert span
        assert source.where(span.line) == "worksheet.ipynb cell 2 line 4"
        assert source.line(span.line) == "def g(x):"
        (line,) = source.lines_calling("g", ["softmax"])
        assert source.where(line) == "worksheet.ipynb cell 2 line 5"
        (item,) = source.broken
        assert source.where(item.line) == "worksheet.ipynb cell 3 line 1"
        assert source.find("h")
        assert isinstance(source.tree, ast.Module)
        compile(source.definitions_only(), "attention.py", "exec")

    def test_a_notebook_under_the_name_of_the_source(self) -> None:
        source = Source.read(book(*self.CELLS), "attention.py")
        span = source.find("f")
        assert span
        assert source.where(span.line) == "attention.ipynb cell 2 line 1"

    def test_a_source_that_begins_like_json(self) -> None:
        source = Source.read(b'{"a": 1}\ndef f(): return 1\n', "attention.py")
        assert source.find("f")
        assert source.where(2) == "attention.py:2"

    def test_only_a_notebook_pays_for_nbformat(self) -> None:
        code = "import sys; from autograder.source import Source; Source.read(b'def f(:', 'a.py')"
        code += "; print('nbformat' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
