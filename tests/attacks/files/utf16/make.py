"""A file as some editors on Windows save it: UTF-16 with a mark."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "# caf\u00e9 \u6ce8\u610f\ndef weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "attention.py").write_bytes(text.encode("utf-16"))
    return folder
