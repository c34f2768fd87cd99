"""Check your work: `python check.py`. Runs the visible checks of the lab, with the sentences of the grader.

python check.py             everything
python check.py no_loop     the checks whose name, number or section fits
python check.py --help
"""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEEDED = {
    "torch": "torch",
    "numpy": "numpy",
    "rich": "rich",
    "pydantic": "pydantic",
    "gradescope_utils": "gradescope-utils",
    "nbformat": "nbformat",
}


def main() -> int:
    """Say what is missing, or check."""
    if sys.version_info < (3, 10):
        print(f"check.py needs Python 3.10 or newer; this is {sys.version.split()[0]}.")
        return 2
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f"Not installed for {sys.executable}: {', '.join(missing)}. Install them with\n")
        print(f'    "{sys.executable}" -m pip install -r "{HERE / "requirements.txt"}"\n')
        print("and run check.py again.")
        return 2
    sys.path.insert(0, str(HERE / "_check"))
    from autograder.local.main import main as run

    return run(HERE, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
