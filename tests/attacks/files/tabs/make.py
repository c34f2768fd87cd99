"""A file indented with tabs, and a definition in which tabs and blanks do not go together."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = "def weighted_read(weights, values):\n\tresult = weights @ values\n\treturn result\n\n\n"
    text += "def reads(function, x):\n        y = x\n\treturn y\n"
    (folder / "attention.py").write_text(text)
    return folder
