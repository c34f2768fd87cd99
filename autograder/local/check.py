"""Check your work: `python check.py`. Runs the visible checks of the lab, with the sentences of the grader.

python check.py             everything
python check.py no_loop     the checks whose name, number or section fits
python check.py --help
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# A file of yours called random.py or numpy.py must not take the place of the real one.
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]

import importlib.util  # noqa: E402

NEEDED = {
    "torch": "torch",
    "numpy": "numpy",
    "rich": "rich",
    "pydantic": "pydantic",
    "gradescope_utils": "gradescope-utils",
    "nbformat": "nbformat",
}
if sys.version_info < (3, 11):
    NEEDED["tomli"] = "tomli"


def main() -> int:
    """Say what is missing, or check."""
    if sys.version_info < (3, 10):
        print(f"check.py needs Python 3.10 or newer; this is {sys.version.split()[0]}.")
        return 2
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        return not_installed(f"Not installed for {sys.executable}: {', '.join(missing)}.")
    sys.path.insert(0, os.path.join(HERE, "_check"))
    try:
        from pathlib import Path

        from autograder.local.main import main as run

        return run(Path(HERE), sys.argv[1:])  # your own files are not imported here, but in a process of their own
    except ImportError as error:
        if not (error.name or "").startswith("autograder"):
            return not_installed(f"A package cannot be imported ({error}).")
        print(f"The folder _check is damaged, so unzip the lab's zip once more: {error}")
        return 2


def not_installed(sentence: str) -> int:
    """Say how to install what is needed."""
    print(f"{sentence} Install what is needed with\n")
    print(f'    "{sys.executable}" -m pip install -r "{os.path.join(HERE, "requirements.txt")}"\n')
    print("and run check.py again.")
    return 2


if __name__ == "__main__":
    sys.exit(main())
