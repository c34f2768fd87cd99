"""A file in Latin-1 with a coding line."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "# -*- coding: latin-1 -*-\n# caf\u00e9\ndef weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "attention.py").write_bytes(text.encode("latin-1"))
    return folder
