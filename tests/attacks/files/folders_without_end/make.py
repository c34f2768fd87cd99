"""A hundred folders inside each other, the work in the last one."""

from pathlib import Path


def make(folder: Path) -> Path:
    last = folder.joinpath(*["x"] * 100)
    last.mkdir(parents=True)
    (last / "attention.py").write_text("def weighted_read(weights, values):\n    return weights @ values\n")
    return folder
