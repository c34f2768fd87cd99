"""A folder in which attention.py is a pipe that nobody writes to, beside a zip with a device in it."""

import os
from pathlib import Path


def make(folder: Path) -> Path:
    os.mkfifo(folder / "attention.py")
    return folder
