"""A zip with two files of the same name: a wrong one, then a right one."""

import warnings
import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return values\n")
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
    return path
