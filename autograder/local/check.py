"""Check your work: `python check.py`. Runs the visible checks of the lab, with the sentences of the grader.

python check.py             everything
python check.py no_loop     the checks whose name, number or section fits
python check.py --help

In a notebook: `from check import check`, then `check("no_loop")`.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":  # a notebook that imports this has your folder on its path for `from attention import …`
    # A file of yours called random.py or numpy.py must not take the place of the real one.
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]

import importlib.util  # noqa: E402

NEEDED = {
    "torch": "torch",
    "numpy": "numpy",
    "msgpack": "msgpack",
    "rich": "rich",
    "pydantic": "pydantic",
    "gradescope_utils": "gradescope-utils",
    "nbformat": "nbformat",
}
if sys.version_info < (3, 11):
    NEEDED["tomli"] = "tomli"


def check(what=""):  # type: ignore[no-untyped-def]  # what it returns is imported below
    """Check a part in a notebook: by name, number or section; `check()` checks everything that can be checked here."""
    if is_ready({**NEEDED, "jinja2": "jinja2"}, "requirements-worksheet.txt"):
        from pathlib import Path

        from autograder.local.worksheet import check as run

        try:
            cells = get_ipython().history_manager.input_hist_raw  # type: ignore[name-defined]
        except NameError:  # not in a notebook
            cells = []
        return run(Path(HERE), what, cells)


def main() -> int:
    """Say what is missing, or check."""
    if not is_ready(NEEDED, "requirements.txt"):
        return 2
    try:
        from pathlib import Path

        from autograder.local.main import main as run

        return run(Path(HERE), sys.argv[1:])  # your own files are not imported here, but in a process of their own
    except ImportError as error:
        if not (error.name or "").startswith("autograder"):
            return not_installed(f"A package cannot be imported ({error}).")
        print(f"The folder _check is damaged, so unzip the lab's zip once more: {error}")
        return 2


def is_ready(needed: "dict[str, str]", listed: str) -> bool:
    """Say what is missing; or put the folder with the checks where Python finds it."""
    if sys.version_info < (3, 10):
        print(f"check.py needs Python 3.10 or newer; this is {sys.version.split()[0]}.")
        return False
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        not_installed(f"Not installed for {sys.executable}: {', '.join(missing)}.", listed)
        return False
    if os.path.join(HERE, "_check") not in sys.path:
        sys.path.insert(0, os.path.join(HERE, "_check"))
    return True


def not_installed(sentence: str, listed: str = "requirements.txt") -> int:
    """Say how to install what is needed."""
    print(f"{sentence} Install what is needed with\n")
    print(f'    "{sys.executable}" -m pip install -r "{os.path.join(HERE, listed)}"\n')
    print("and run check.py again.")
    return 2


if __name__ == "__main__":
    sys.exit(main())
