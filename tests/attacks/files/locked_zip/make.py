"""A zip that claims to be encrypted."""

import zipfile
from pathlib import Path


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("attention.py", "def weighted_read(weights, values):\n    return weights @ values\n")
    data = bytearray(path.read_bytes())
    data[6] |= 1  # the flag in the file's own header, and in the directory at the end
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    return path
