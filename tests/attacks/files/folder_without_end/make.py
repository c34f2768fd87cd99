"""A folder of 20,100 files, with names that are not ASCII, the work among them."""

from pathlib import Path


def make(folder: Path) -> Path:
    for number in range(20_100):
        (folder / f"\u6ce8\u610f{number}.py").touch()
    (folder / "attention.py").write_text("def weighted_read(weights, values):\n    return weights @ values\n")
    return folder
