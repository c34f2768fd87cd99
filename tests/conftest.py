"""What tests share: the course's root, and one warm grader for each lab."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import fuzzing  # noqa: F401  (its profiles are there before pytest chooses one)
import pytest

from autograder import lab as labs
from autograder import language
from autograder.result import Record, Result, Status
from autograder.sandbox.launcher import Zygote
from autograder.session import Session
from autograder.submission import collect

ROOT = Path(__file__).resolve().parents[1]
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests that a shell has started in the background ignore Ctrl-C, and so would the processes that are to end by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
GRADED_AGAIN = "Its points are not lost: ask your instructor to have the hand-in graded again."
HandedIn = dict[str, bytes] | Path
Grade = Callable[[str, HandedIn], Record]


@pytest.fixture(autouse=True)
def english_again() -> Iterator[None]:
    """check.py speaks its lab's language for as long as its process lives, which here is that of other tests, too."""
    yield
    language.use(language.ENGLISH)


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the course."""
    return ROOT


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """One process with torch in it, for every test that grades."""
    with Zygote() as started:
        started.wait_ready()
        yield started


@pytest.fixture(scope="session")
def session(zygote: Zygote) -> Callable[[str], Session]:
    """A warm grader by the name of its lab."""
    warm: dict[str, Session] = {}

    def session_of(name: str) -> Session:
        if name not in warm:
            warm[name] = Session(labs.load(name, ROOT), zygote)
        return warm[name]

    return session_of


@pytest.fixture
def grade(session: Callable[[str], Session], tmp_path: Path) -> Grade:
    """Grade a hand-in of a lab: a path, or files by name."""

    def grade_one(name: str, handed_in: HandedIn) -> Record:
        path = handed_in
        if not isinstance(path, Path):
            path = tmp_path / "hand-in"
            path.mkdir(exist_ok=True)
            for old in path.iterdir():
                old.unlink()
            for file_name, data in handed_in.items():
                (path / file_name).write_bytes(data)
        warm = session(name)
        return warm.grade(collect(path, warm.lab.wanted))

    return grade_one


def result_of(record: Record, check: str) -> Result:
    """One result of a record, by the name of its check."""
    return next(result for result in record.results if result.check == check)


def failed(record: Record) -> set[str]:
    """The checks that failed, by name; not those that only waited for one."""
    return {result.check for result in record.results if result.status is Status.FAILED}


def reviews(record: Record) -> set[str]:
    """The checks that ask staff for a look."""
    return {result.check for result in record.results if result.review}
