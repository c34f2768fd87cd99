"""A folder with a zip in it."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "student_12_34_work.zip", "w") as archive:
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
    return folder
