"""The code cells of a notebook file, of any version of the format and as damaged as may be."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any


def load(data: bytes) -> dict[str, Any] | None:
    """The JSON object in the bytes, if there is one."""
    try:
        loaded = json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError, MemoryError):
        return None
    return loaded if isinstance(loaded, dict) else None


def raw_cells(loaded: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells as they are stored: nbformat 4 has one list, nbformat 3 one for each worksheet."""
    sheets = loaded.get("worksheets")
    holders = sheets if isinstance(sheets, list) else [loaded]
    lists = [holder.get("cells") for holder in holders if isinstance(holder, dict)]
    return [cell for cells in lists if isinstance(cells, list) for cell in cells if isinstance(cell, dict)]


def code_cells(loaded: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Number (from 1, text cells count too) and text of each code cell.

    Outputs are dropped first: they may be megabytes, and nothing reads them.
    """
    for cell in raw_cells(loaded):
        cell["outputs"] = []
        cell.pop("attachments", None)
    if not isinstance(loaded.get("nbformat"), int):  # which nbformat would take for an empty notebook of version 1
        loaded |= {"nbformat": 3 if "worksheets" in loaded else 4, "nbformat_minor": 0}
    cells = _by_nbformat(loaded) or raw_cells(loaded)
    for number, cell in enumerate(cells, start=1):
        code = cell.get("source", cell.get("input", ""))
        if isinstance(code, list):
            code = "".join(part for part in code if isinstance(part, str))
        if cell.get("cell_type") == "code" and isinstance(code, str):
            code = code.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
            yield number, code.encode("utf-8", "replace").decode("utf-8")


def _by_nbformat(loaded: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells as nbformat upgrades them from any of its versions; none where the notebook breaks its rules."""
    try:
        import nbformat
    except ImportError:  # in a student's folder it may not be there, and the plain reading does
        return []

    logger = logging.getLogger("traitlets")  # nbformat prints what is invalid there, and goes on
    level = logger.level
    try:
        logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(nbformat.reads(json.dumps(loaded), as_version=4).cells)  # type: ignore[no-untyped-call]
    except (nbformat.ValidationError, nbformat.reader.NotJSONError, ValueError, KeyError, TypeError, AttributeError,
            LookupError, RecursionError):  # fmt: skip
        return []
    finally:
        logger.setLevel(level)
