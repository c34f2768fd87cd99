"""What is the same for every command."""

from __future__ import annotations

import argparse
import io
import sys


def forgive_encoding() -> None:
    """A terminal that knows no ✓ gets a ?, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def add_language(parser: argparse.ArgumentParser, default: str) -> None:
    """Give a command the option `--lang`; `default`: in words, what is spoken without it."""
    parser.add_argument("--lang", type=_language, metavar="LANG", help=f"en or zh (default: {default})")


def _language(text: str) -> str:
    from autograder.language import checked

    try:
        return checked(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
