"""A zip with absolute paths, of both kinds of system."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("/tmp/attack-was-here-1", "C:\\attack-was-here-2", "//server/share/attack-was-here-3"):
            info = zipfile.ZipInfo()
            info.filename = name
            archive.writestr(info, "attack\n")
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
    return path
