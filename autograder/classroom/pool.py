"""Jobs over any `concurrent.futures.Executor`, a few in flight at a time; none is lost where a worker is.

A worker that dies takes down what was in flight with it, the innocent too. So those are graded again, each of them alone: what
then takes its worker down again is the one.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from autograder.classroom import worker
from autograder.sandbox.launcher import LaunchError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
ALONE_AT_MOST = 2


class Crew(Protocol):
    """Those who do the work. `lost`: the exceptions that say that a worker was lost, and nothing about the job."""

    lost: tuple[type[BaseException], ...]

    @property
    def size(self) -> int:
        """How many there are now."""

    def executor(self) -> Executor:
        """Where jobs are handed in now."""

    def renew(self) -> None:
        """Have an executor that takes jobs, after workers were lost."""

    def leave(self, at_once: bool) -> None:
        """End the work; `at_once`: without waiting for what is in flight."""


class LocalCrew:
    """Worker processes on this machine, each with a warm Session in it."""

    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def __init__(self, workers: int, start: Callable[[], None] = worker.start) -> None:
        self.size = workers
        self.start = start
        self.renew()

    def renew(self) -> None:
        # Spawned, not forked: this process has threads (a progress bar), and workers shall share nothing with it.
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(self.size, mp_context=context, initializer=self.start)

    def executor(self) -> Executor:
        return self._executor

    def leave(self, at_once: bool) -> None:
        ours = multiprocessing.active_children() if at_once else []
        self._executor.shutdown(wait=not at_once, cancel_futures=True)
        for process in ours:
            process.kill()  # its guests end with it: see sandbox/zygote.py


@dataclass(frozen=True)
class Done(Generic[Item, Answer]):
    """One item and what came of it: an answer, or one sentence on why there is none."""

    item: Item
    answer: Answer | None = None
    trouble: str = ""


class Run(Generic[Item, Answer]):
    """One pass over all items. Each comes out once, in the order in which they are done."""

    def __init__(self, crew: Crew, work: Callable[[Item], Answer], items: Iterable[Item]) -> None:
        self.crew = crew
        self.work = work
        self.waiting = iter(items)
        self.flying: dict[Future[Answer], Item] = {}
        self.suspects: deque[tuple[Item, int]] = deque()  # with how often each was tried alone
        self.broken = False

    def __iter__(self) -> Iterator[Done[Item, Answer]]:
        while True:
            if not self.broken:
                self._send()
            if not self.flying:
                if not self.broken:
                    return
                self.crew.renew()
                self.broken = False
                yield from self._alone()
                continue
            for future in wait(self.flying, return_when=FIRST_COMPLETED).done:
                yield from self._landed(future, self.flying.pop(future))

    def _send(self) -> None:
        # Twice as many as there are workers, so that none waits; not all, so that memory holds a few hand-ins only.
        while len(self.flying) < 2 * self.crew.size:
            item = next(self.waiting, None)
            if item is None:
                return
            try:
                self.flying[self.crew.executor().submit(self.work, item)] = item
            except self.crew.lost:  # a worker was lost while it had nothing to do
                self._suspect(item)
                return

    def _suspect(self, item: Item) -> None:
        self.broken = True
        self.suspects.append((item, 0))

    def _landed(self, future: Future[Answer], item: Item) -> Iterator[Done[Item, Answer]]:
        try:
            yield Done(item, future.result())
        except self.crew.lost:
            self._suspect(item)
        except LaunchError:  # it would be the same for every other
            raise
        except Exception as error:  # whatever one hand-in brings about is a row of its own, and not the end of the rest
            yield Done(item, trouble=f"{type(error).__name__}: {error}")

    def _alone(self) -> Iterator[Done[Item, Answer]]:
        while self.suspects:
            item, tried = self.suspects.popleft()
            try:
                future = self.crew.executor().submit(self.work, item)
                wait([future])
                yield from self._landed_alone(future, item, tried)
            except self.crew.lost:
                self.suspects.appendleft((item, tried))
                self.crew.renew()

    def _landed_alone(self, future: Future[Answer], item: Item, tried: int) -> Iterator[Done[Item, Answer]]:
        if not isinstance(future.exception(), self.crew.lost):
            yield from self._landed(future, item)
            return
        self.crew.renew()
        if tried + 1 < ALONE_AT_MOST:
            self.suspects.appendleft((item, tried + 1))
        else:
            yield Done(item, trouble=f"graded alone, it took its worker down {ALONE_AT_MOST} times")
