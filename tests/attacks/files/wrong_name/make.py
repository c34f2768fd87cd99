"""The work under a name of its author's."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "def weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "my solution (2) FINAL.py").write_text(text)
    return folder
