"""The student's front door: grade the folder's own files against the recording, print what is open."""

from __future__ import annotations

import argparse
from pathlib import Path

from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.spawner import launcher_for_this_system
from autograder.terminal import add_language, forgive_encoding


def main(folder: Path, arguments: list[str]) -> int:
    """Run the visible checks on the files of `folder`. Exit status: 0 all passed, 1 something is open, 2 a wrong call."""
    forgive_encoding()
    options = _parser().parse_args(arguments)
    with launcher_for_this_system() as launcher:  # first of all: torch loads while everything below is imported
        from rich.console import Console

        from autograder.language import say
        from autograder.local.choose import select
        from autograder.local.desk import Damaged, Desk
        from autograder.local.watch import Watch
        from autograder.reports import console, words
        from autograder.result import Status

        out = Console(highlight=False)
        try:
            desk = Desk(folder, options.lang or "")
            lab = select(desk.lab, options.what) if options.what else desk.lab
            if isinstance(lab, str):
                print(lab)
                return 2
            if options.watch:
                return Watch(desk, lab, launcher, out, options.all).run()
            record = desk.grade(launcher, lab)
        except Damaged as error:
            print(error)
            return 2
        except LaunchError as error:
            print(words.cannot_run(error))
            return 2
    console.render(record, out)
    out.print(console.paragraph(say(words.ONLY_VISIBLE)))
    return 0 if all(result.status is Status.PASSED for result in record.results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python check.py", description="Check your work with the lab's visible checks."
    )
    parser.add_argument(
        "what", nargs="?", metavar="PART", help="name, number or section of a check: no_loop, 1.4, 1.4.2"
    )
    parser.add_argument("--watch", action="store_true", help="check at every save, and show the first open item")
    parser.add_argument("--all", action="store_true", help="with --watch: show every item")
    add_language(parser, "the course's")
    return parser
