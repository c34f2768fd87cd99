"""A folder with nothing but a text in it."""

from pathlib import Path


def make(folder: Path) -> Path:
    (folder / "readme.txt").write_text("my dog ate it\n")
    return folder
