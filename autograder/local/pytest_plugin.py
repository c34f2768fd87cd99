"""Each visible check as a pytest item of the lab's file: `pytest`, `pytest -k no_loop`, or a click in the editor.

All items of a run are graded at once, when the first one is asked for; nothing of the student's is imported here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autograder.check import Check
from autograder.language import say
from autograder.local.choose import only
from autograder.local.desk import Damaged, Desk
from autograder.reports import words
from autograder.result import Result, Status
from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.spawner import Launcher, launcher_for_this_system
from autograder.source import Source


@dataclass
class Grading:
    """The grading of one run of pytest: what takes part, the process that holds torch, and what came out."""

    desk: Desk
    wanted: set[str] = field(default_factory=set)
    launcher: Launcher | None = None
    results: dict[str, Result] = field(default_factory=dict)

    def result(self, name: str) -> Result:
        """What a check came to; the first call grades all that take part."""
        if not self.results:
            assert self.launcher is not None
            record = self.desk.grade(self.launcher, only(self.desk.lab, self.wanted))
            self.results = {found.check: found for found in record.results}
        return self.results[name]

    def root(self, found: Result) -> Result:
        """What a check waits for in the end."""
        while found.blocked_by:
            found = next(other for other in self.results.values() if other.number == found.blocked_by)
        return found


GRADING = pytest.StashKey[Grading]()


class Open(Exception):
    """A check that is open, in the sentences of the grader."""


class Checks(pytest.File):
    """The lab's main file, as a collection of checks."""

    def collect(self) -> Iterator[CheckItem]:
        """One item for each check that was handed out."""
        source = Source.read(self.path.read_bytes(), self.path.name)
        for check in self.config.stash[GRADING].desk.lab.checks:
            yield CheckItem.from_parent(self, name=check.name, check=check, source=source)


class CheckItem(pytest.Item):
    """One check. It stands at the definition that it judges."""

    def __init__(self, *, check: Check, source: Source, **known: Any) -> None:
        super().__init__(**known)
        self.check = check
        span = source.find(check.target)
        self.line = span.line - 1 if span else None
        self.extra_keyword_matches.update((check.number, check.target))

    def runtest(self) -> None:
        """Pass, skip what waits for another check, or raise what is open."""
        grading = self.config.stash[GRADING]
        try:
            found = grading.result(self.check.name)
        except LaunchError as error:
            raise Open(words.cannot_run(error)) from error
        if found.blocked_by:
            root = grading.root(found)
            if root.check in grading.wanted:
                pytest.skip(words.score_words(found))
            raise Open(f"{words.score_words(found)}\n{root.number} {root.title}\n{words.as_text(root)}")
        if found.status is not Status.PASSED:
            raise Open(words.as_text(found) or words.score_words(found))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The grader's sentences; a traceback only of faults of ours."""
        return str(excinfo.value) if isinstance(excinfo.value, Open) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where an editor puts the mark, and the heading of a failure."""
        return self.path, self.line, f"{self.check.number} {say(self.check.title)}"


@pytest.hookimpl(hookwrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator[None, Any, None]:
    """Take the lab's main file for its checks, and for nothing else: pytest would import it."""
    outcome = yield
    grading = _grading(parent.config)
    if file_path == grading.desk.folder / grading.desk.lab.file.main:
        outcome.force_result([Checks.from_parent(parent, path=file_path)])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Have torch loaded while pytest goes on, if there is something to run."""
    grading = _grading(session.config)
    grading.wanted = {item.check.name for item in session.items if isinstance(item, CheckItem)}
    if grading.wanted and not session.config.option.collectonly:
        grading.launcher = launcher_for_this_system()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no process behind."""
    grading = session.config.stash.get(GRADING, None)
    if grading and grading.launcher:
        grading.launcher.close()
        grading.launcher = None


def _grading(config: pytest.Config) -> Grading:
    if GRADING not in config.stash:
        try:
            config.stash[GRADING] = Grading(Desk(Path(__file__).resolve().parents[3]))
        except Damaged as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[GRADING]
