"""A zip that would overwrite the checks and the results if it were unpacked, beside an honest file."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
        for name in ("../assignments/attention/checks.py", "a/../../../reference/attention/attention.py"):
            archive.writestr(name, "attack_was_here = True\n")
        archive.writestr("..\\..\\results\\results.json", '{"score": 1000}')
    return path
