"""A zip in which attention.py is a device that never ends."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("attention.py")
        info.create_system, info.external_attr = 3, 0o020666 << 16
        archive.writestr(info, "def weighted_read(weights, values):\n    return weights @ values\n")
    return path
