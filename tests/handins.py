"""Hand-ins made of real bytes: folders, zips, a notebook."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

from autograder.submission import Submission

GOOD = b"def weighted_read(weights, values):\n    return weights @ values\n"
OTHER = b"def weighted_read(weights, values):\n    return values\n"
NOTEBOOK = json.dumps(
    {
        "cells": [{"cell_type": "code", "source": "x = 1", "outputs": []}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
).encode()
Files = Sequence[tuple[str, bytes] | tuple[zipfile.ZipInfo, bytes]]
ONE = ("attention.py",)
TWO = ("multihead.py", "attention.py")


def put(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # zipfile warns of the duplicates that are the point here
        for name, data in files:
            archive.writestr(name, data, compress_type=method)
    return buffer.getvalue()


def zip_of(tmp_path: Path, files: Files, name: str = "hand-in.zip") -> Path:
    path = tmp_path / name
    path.write_bytes(zipped(files))
    return path


def said(submission: Submission) -> str:
    return "\n".join(note.text for note in submission.notes)
