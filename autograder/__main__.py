"""`python -m autograder`."""

import sys

from autograder.cli import main

if __name__ == "__main__":  # a grader that is started anew imports this file under another name
    sys.exit(main())
