"""The twenty checks in the native form of each tool, all made from `native.py`. A form is files by name."""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.handins import NATIVE, SOLUTION, check_names

Files = dict[str, str]
POINTS = 2


def beside() -> Files:
    """What each form builds on: the checks as functions, and the solution that they compare with."""
    return {"native.py": NATIVE.read_text(encoding="utf-8"), "reference.py": SOLUTION.read_text(encoding="utf-8")}


def each(of: Callable[[str], str]) -> str:
    """One piece of text for each check."""
    return "\n\n".join(map(of, check_names())) + "\n"


def for_unittest() -> Files:
    """Weighted test methods, and the script that Gradescope's examples run."""
    head = (
        "import unittest\n\nimport native\nimport reference\nimport twenty\n"
        "from gradescope_utils.autograder_utils.decorators import weight\n\n\nclass TestTwenty(unittest.TestCase):\n"
    )
    body = each(
        lambda check: (
            f"    @weight({POINTS})\n    def test_{check}(self):\n        native.CHECKS[{check!r}](twenty, reference)"
        )
    )
    script = (
        "import unittest\n\nfrom gradescope_utils.autograder_utils.json_test_runner import JSONTestRunner\n\n"
        'suite = unittest.defaultTestLoader.discover("tests")\n'
        'with open("results.json", "w") as results:\n    JSONTestRunner(visibility="visible", stream=results).run(suite)\n'
    )
    return {"tests/test_twenty.py": head + body, "run_tests.py": script}


def for_pytest() -> Files:
    """Plain test functions."""
    head = "import native\nimport reference\nimport twenty\n\n\n"
    return {"test_twenty.py": head + each(lambda c: f"def test_{c}():\n    native.CHECKS[{c!r}](twenty, reference)")}


def for_check50() -> Files:
    """Checks of check50, which takes an exception of any other kind for its own fault."""
    head = (
        "import os\nimport sys\n\nimport check50\n\nsys.path[:0] = [os.path.dirname(__file__)]\n"
        "import native\nimport reference\n\n\n"
        "def judge(name):\n    sys.path[:0] = [os.getcwd()]\n    try:\n        import twenty\n\n"
        "        native.CHECKS[name](twenty, reference)\n"
        "    except Exception as error:\n        raise check50.Failure(str(error))\n\n\n"
    )
    body = each(lambda c: f'@check50.check()\ndef {c}():\n    """{c}"""\n    judge({c!r})')
    return {"checks/__init__.py": head + body, "checks/.cs50.yml": "check50:\n  files:\n    - !require twenty.py\n"}


def for_otter() -> Files:
    """One test file of twenty cases: of all ways to write it, the one that otter runs fastest."""
    head = (
        "import types\n\nimport native\nimport reference\nfrom otter.test_files import test_case\n\n"
        'OK_FORMAT = False\nname = "twenty"\npoints = None\n\n\n'
    )
    body = each(
        lambda c: (
            f"@test_case(points={POINTS}, name={c!r})\ndef test_{c}(env):\n"
            f"    native.CHECKS[{c!r}](types.SimpleNamespace(**env), reference)"
        )
    )
    return {"tests/twenty.py": head + body}


def for_nbgrader(solution: str) -> Files:
    """A cell for the solution, and a graded cell of tests for each check."""
    answer = _cell(solution, {"grade": False, "grade_id": "answer", "locked": False, "solution": True})
    head = "import sys\nimport types\n\nimport native\nimport reference\n\nstudent = types.SimpleNamespace(**globals())"
    cells = [answer, _cell(head, {"grade": False, "grade_id": "head", "locked": True, "solution": False})]
    for check in check_names():
        kind = {"grade": True, "grade_id": check, "locked": True, "points": POINTS, "solution": False}
        cells.append(_cell(f"native.CHECKS[{check!r}](student, reference)", kind))
    return {"twenty.ipynb": notebook(cells)}


def notebook(cells: list[dict[str, object]]) -> str:
    """A notebook of some cells."""
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


def _cell(source: str, nbgrader: dict[str, object] | None = None) -> dict[str, object]:
    metadata = {"nbgrader": {"schema_version": 3, "cell_type": "code", "task": False, **nbgrader}} if nbgrader else {}
    name = str(nbgrader["grade_id"]) if nbgrader else "code"
    return {
        "cell_type": "code", "id": name, "execution_count": None, "metadata": metadata, "outputs": [], "source": source
    }  # fmt: skip


def code_notebook(source: str) -> str:
    """A notebook that holds one cell of code."""
    return notebook([_cell(source)])
