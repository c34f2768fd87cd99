"""An attention.py of no bytes."""

from pathlib import Path


def make(folder: Path) -> Path:
    (folder / "attention.py").write_bytes(b"")
    return folder
