"""How far a class is: a bar with the time left in a terminal, a line now and then where there is none."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from autograder.classroom.rows import Row

LINES = 10  # without a terminal


class Progress:
    """Counts rows as they come."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.total = total
        self.done = self.kept = self.not_graded = self.faults = 0
        self.bar = Bar(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(self.words(), total=total)

    def __enter__(self) -> Progress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def tell(self, row: Row) -> None:
        """One more is done."""
        before = self.done * LINES // max(self.total, 1)
        self.done += 1
        self.kept += row.graded and not row.fresh
        self.not_graded += not row.graded
        self.faults += bool(row.faults)
        self.bar.update(self.task, advance=1, description=self.words())
        if not self.console.is_terminal and self.done * LINES // self.total > before:
            self.console.print(", ".join(filter(None, [f"{self.done} of {self.total}", self.words()])))

    def words(self) -> str:
        """What is worth knowing before the end."""
        said = [
            f"{self.kept} had a result already" if self.kept else "",
            f"{self.not_graded} not graded" if self.not_graded else "",
            f"{self.faults} with a fault of the grader" if self.faults else "",
        ]
        return ", ".join(filter(None, said))
