"""A zip as a Mac makes it: with a resource fork of the same name."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/._attention.py", b"\0\x05\x16\x07\0\2\0\0Mac OS X        ")
        archive.writestr("__MACOSX/attention.py", "1 / 0\n")
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
        archive.writestr(".DS_Store", b"\0\0\0\1Bud1")
    return path
