"""A file with the line ends of three systems."""

from pathlib import Path


def make(folder: Path) -> Path:
    text = (
        b"import math\r\n\r\ndef weighted_read(weights, values):\r    result = weights @ values\n    return result\r\n"
    )
    (folder / "attention.py").write_bytes(text)
    return folder
