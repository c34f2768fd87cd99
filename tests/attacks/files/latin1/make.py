"""A file in Latin-1 that does not say so."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "# caf\u00e9\ndef weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "attention.py").write_bytes(text.encode("latin-1"))
    return folder
