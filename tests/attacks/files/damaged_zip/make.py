"""Half a zip."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n" * 50)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path
