"""`python check.py --watch`: save, and see. One open item at a time, with a bar over the whole lab.

Nothing waits for torch: it was loaded once, and a process with it stands ready before the next save. The item that was open is
asked first, since it is most likely the one that was worked on; the rest follows, and what is on the screen is corrected
where that changes it.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from autograder.lab import Lab
from autograder.language import say
from autograder.local.choose import only
from autograder.local.desk import Desk
from autograder.reports import console as table
from autograder.reports import progress, words
from autograder.result import Record, Result, Status
from autograder.sandbox.spawner import Launcher

POLL = 0.02  # seconds between two looks at the folder; a look takes a twentieth of a millisecond
SETTLED = 0.01  # a save is over when two looks this far apart see the same
PATIENCE = 0.3  # for an editor that empties a file, or takes it away, before it writes it anew
KINDS = (".py", ".ipynb")
OURS = ("check.py", "conftest.py", "plots.py")  # came with the lab
Seen = dict[str, tuple[int, int, int]]  # file name → time of its last change, size, inode


class Superseded(Exception):
    """A file was saved while it was being checked."""


class Watch:
    """Checks a folder again and again, and shows what is open."""

    def __init__(self, desk: Desk, lab: Lab, launcher: Launcher, out: Console, everything: bool) -> None:
        self.desk = desk
        self.lab = lab
        self.launcher = launcher
        self.out = out
        self.everything = everything
        self.seen: Seen = {}
        self.known: dict[str, Result] = {}  # by name of the check, as far as anything is known
        self.fresh: set[str] = set()  # of these, what was found out since the last save
        self.shown = ""
        self.saves = 0
        # The item that was shown last, and how long after the save it stood there.
        self.told: tuple[str, float | None] = ("", None)

    def run(self) -> int:
        """Check now and at every save, until Ctrl-C. Exit status: 0 all passed, 1 something is open."""
        try:
            while True:
                self.seen = look(self.desk.folder)
                self.answer()
                self.wait()
                self.saves += 1
        except KeyboardInterrupt:
            self.out.print()
        done = [result.status is Status.PASSED for result in self.known.values()]
        return 0 if len(done) == len(self.lab.checks) and all(done) else 1

    def wait(self) -> None:
        """Return when a file was changed, and the change is whole."""
        before = self.seen
        while look(self.desk.folder) == before:
            time.sleep(POLL)
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            now = look(self.desk.folder)
            time.sleep(SETTLED)
            emptied = any(size and not now.get(name, (0, 0, 0))[1] for name, (_, size, _) in before.items())
            if look(self.desk.folder) == now and not emptied:
                return

    def answer(self) -> None:
        """Check what is there now: the item that was open first, then everything."""
        self.fresh.clear()
        self.shown, self.told = "", ("", None)
        if self.out.is_terminal:  # seen only where it takes long enough to be read
            self.out.print(Text(say(words.CHECKING), style="dim"), end="\r")
        opened = progress.first_open(self.known.values())
        try:
            if opened and not self.everything:
                self.check(only(self.lab, {opened.check}))
            record = self.check(self.lab)
        except Superseded:
            return
        self.show(record)
        self.launcher.prepare()

    def check(self, lab: Lab) -> Record:
        """Run the checks of a part of the lab, and show an open item as soon as it is certain to be the first one."""
        record = self.desk.grade(self.launcher, lab, self.keep)
        self.take(record, whole=True)
        return record

    def keep(self, record: Record) -> None:
        """What is known after one more check. Raises Superseded where a file has changed meanwhile."""
        if look(self.desk.folder) != self.seen:
            raise Superseded
        self.take(record, whole=False)
        opened = progress.first_open(self.known.values())
        if opened and opened.check in self.fresh and not self.everything:
            self.show(record)

    def take(self, record: Record, whole: bool) -> None:
        """Keep what a record says of the checks that have been run."""
        found = {r.check: r for r in record.results if whole or r.status is not Status.NOT_RUN}
        self.fresh |= found.keys()
        everything = self.known | found
        self.known = {check.name: everything[check.name] for check in self.lab.checks if check.name in everything}

    def show(self, record: Record) -> None:
        """Paint the screen, unless it already says just this."""
        with self.out.capture() as captured:
            if self.everything:
                table.render(record, self.out)
            else:
                results = [self.known.get(found.name) for found in self.lab.checks]
                progress.render(record, self.lab.checks, results, self.out)
        if captured.get() == self.shown:
            return
        self.shown = captured.get()
        opened = progress.first_open(self.known.values())
        item = opened.check if opened else ""
        if not self.told[1] or self.told[0] != item:
            newest = max((changed for changed, _, _ in self.seen.values()), default=0)
            self.told = (item, time.time() - newest / 1e9 if self.saves else None)
        with self.out:  # in one go: a screen that is built up line by line flickers
            self.out.clear() if self.out.is_terminal else self.out.rule()
            self.out.out(self.shown, end="", highlight=False)
            progress.footer(self.lab.file.main, self.told[1], self.out)


def look(folder: Path) -> Seen:
    """The files of a folder that a hand-in may consist of, as they stand now."""
    seen: Seen = {}
    for path in folder.iterdir():
        if path.suffix in KINDS and path.name not in OURS:
            try:
                status = path.stat()
            except OSError:  # it has just gone
                continue
            seen[path.name] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return seen
