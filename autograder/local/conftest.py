"""For pytest, and the test view of your editor: each check is a test. `python check.py` needs none of this."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# A file of yours called random.py or numpy.py must not take the place of the real one.
sys.path[:] = [os.path.join(HERE, "_check"), *(path for path in sys.path if os.path.abspath(path) != HERE)]
collect_ignore = ["_check", "check.py"]

from autograder.local.pytest_plugin import (  # noqa: E402, F401
    pytest_collect_file,
    pytest_collection_finish,
    pytest_sessionfinish,
)
