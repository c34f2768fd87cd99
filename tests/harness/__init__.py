"""Gradescope at home: its image built in a bare root file system, and each hand-in run as its harness does. `make platform`.

It stands with the tests, not with the benchmarks or the framework: it tests what is shipped, it uses how attacks are launched
(`launch.py`), and nothing of it may travel in the zip that it tries.

    base.py        a bare root file system, made once
    machine.py     what of this machine's package set-up an image may see while it is built
    container.py   one command in a root as in a container; inside.py is its first process
    gradescope.py  the platform: layout, metadata, setup.sh, run_autograder, limits, cuts
    handins.py     what is handed in
    report.py      the table, and what each reader sees
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class CannotRun(Exception):
    """The harness cannot run here: one sentence that says what to install or to do."""
