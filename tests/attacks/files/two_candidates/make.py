"""A zip with the file and two that differ in case and folder."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    wrong = "def weighted_read(weights, values):\n    return values\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Attention.py", wrong)
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
        archive.writestr("old/attention.py", wrong)
    return path
