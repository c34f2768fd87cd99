"""A file in UTF-8 with a byte order mark, once at the beginning and once in the middle."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "\ufeff# caf\u00e9\ndef weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "attention.py").write_bytes(text.encode("utf-8"))
    return folder
