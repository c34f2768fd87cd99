"""A file in UTF-8 whose coding line names something that would decode to other code."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "# coding: unicode_escape\n# caf\u00e9\ndef weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "attention.py").write_bytes(text.encode("utf-8"))
    return folder
