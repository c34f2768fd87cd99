"""Expressions that make parsers slow or crash them, each in a function of its own."""

from pathlib import Path

DEEP = (
    "(" * 90 + "1" + ")" * 90,
    "-" * 14_000 + "1",
    "1" + "+1" * 14_000,
    "x" + ".x" * 14_000,
    "x" + "()" * 14_000,
    "lambda: " * 1500 + "1",
    "[" * 5_000,
    "'" + "\\N{DIGIT ONE}" * 5_000 + "'",
    "9" * 5_000,
    "f'{" * 100,
)


def make(folder: Path) -> Path:
    text = "def weighted_read(weights, values):\n    return weights @ values\n"
    for number, expression in enumerate(DEEP):
        text += f"\n\ndef deep{number}(x):\n    return {expression}\n"
    (folder / "attention.py").write_text(text)
    return folder
