"""A folder with a helper whose name is stored in two ways, composed and decomposed."""

from pathlib import Path


def make(folder: Path) -> Path:
    work = "from b\u00e9b\u00e9 import mix as weighted_read\n"
    (folder / "attention.py").write_text(work, encoding="utf-8")
    (folder / "b\u00e9b\u00e9.py").write_text("def mix(weights, values):\n    return weights @ values\n")
    (folder / "be\u0301be\u0301.py").write_text("def mix(weights, values):\n    return weights @ values\n")
    return folder
