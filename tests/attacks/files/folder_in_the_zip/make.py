"""A zip of a folder of a folder."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "Lab 1 (final)/work/attention.py", "def weighted_read(weights, values):\n    return weights @ values\n"
        )
    return path
