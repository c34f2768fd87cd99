"""A folder that is called attention.py, with the work in it."""

from pathlib import Path


def make(folder: Path) -> Path:
    (folder / "attention.py").mkdir()
    text = "def weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "attention.py" / "attention.py").write_text(text)
    return folder
