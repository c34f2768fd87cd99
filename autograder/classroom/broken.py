"""The ways in which hand-ins of a real class are broken, for the generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Files = dict[str, bytes]


@dataclass(frozen=True)
class Way:
    """`make`: from the files of a right hand-in and the name of the main one to a broken hand-in."""

    name: str
    make: Callable[[Files, str], Files]


def _after(text: str) -> Callable[[Files, str], Files]:
    return lambda files, main: {**files, main: files[main] + text.encode()}


def _before(text: bytes) -> Callable[[Files, str], Files]:
    return lambda files, main: {**files, main: text + files[main]}


def _instead(data: bytes, suffix: str = ".py") -> Callable[[Files, str], Files]:
    return lambda files, main: {main.removesuffix(".py") + suffix: data}


WAYS = (
    Way("nothing handed in", lambda files, main: {}),
    Way("an empty file", _instead(b"")),
    Way("a PDF only", _instead(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", ".pdf")),
    Way("a PDF under the name of the source", _instead(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n")),
    Way("a damaged zip", _instead(b"PK\x03\x04 this is no zip", ".zip")),
    Way("a damaged notebook", _instead(b'{"cells": [{"cell_type": "code", "source": ["def f(', ".ipynb")),
    Way("a syntax error at the end", _after("\n\ndef unfinished(:\n    return (\n")),
    Way("an unclosed bracket at the beginning", _before(b"import torch\nx = torch.tensor([1, 2\n\n")),
    Way("raises at import", _after('\n\nraise RuntimeError("demo does not work")\n')),
    Way("ends the process at import", _after("\n\nimport os\nos._exit(0)\n")),
    Way("loops at import", _after("\n\nwhile True:\n    pass\n")),
    Way("prints without end", _after('\n\nprint("x" * 50_000_000)\n')),
    Way("asks for all memory", _after("\n\nmemory = bytearray(20 << 30)\n")),
    Way("byte order mark and Latin-1", _before(b"\xef\xbb\xbf# caf\xe9\n")),
    Way("another file in its place", lambda files, main: {"notes.txt": b"see e-mail", "helper.py": b"x = 1\n"}),
)
