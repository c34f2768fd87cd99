"""A right first part beside files that would take the place of what a grader imports, in the usual folder layout."""

from pathlib import Path

ALWAYS = "def __getattr__(name):\n    return lambda *args, **kwargs: True\n"
NAMES = ("torch", "numpy", "random", "unittest", "pytest", "json", "math", "typing", "autograder", "sitecustomize")
FILES = {f"{name}.py": ALWAYS for name in (*NAMES, "usercustomize", "gradescope_utils", "conftest", "check")}
WORK = '''"""Trusts the modules beside it."""

import torch


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    return query, torch.allclose
'''


def make(folder: Path) -> Path:
    for name, text in {**FILES, "attention.py": WORK}.items():
        (folder / name).write_text(text)
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(ALWAYS)
    return folder
