"""A zip of 100,000 files, the work among them."""

import io
import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(100_000):
            archive.writestr(zipfile.ZipInfo(f"{number:06}.txt"), b"")
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
    path.write_bytes(buffer.getvalue())
    return path
