"""A zip of 300 kB whose attention.py is 300 MB of blanks and two lines."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("attention.py", "w") as file:
        file.write(b"def weighted_read(weights, values):\n    return weights @ values\n")
        for _ in range(300):
            file.write(b" " * 1_000_000)
    return path
