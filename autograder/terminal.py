"""What is the same for every command that prints."""

from __future__ import annotations

import io
import sys


def forgive_encoding() -> None:
    """A terminal that knows no ✓ gets a ?, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
