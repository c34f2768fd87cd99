"""An attention.py with a literal of 50 MB in it."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "def weighted_read(weights, values):\n    return weights @ values\n"
    (folder / "attention.py").write_text(f"{text}\n\nDATA = '{'x' * 50_000_000}'\n")
    return folder
