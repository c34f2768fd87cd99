"""The same work on many machines: a Dask cluster, through the executor that its client offers.

Workers must run with one thread each, and find this course at the same path. See docs/ta.md.
"""

from __future__ import annotations

from concurrent.futures import Executor

from distributed import Client, KilledWorker

CONNECT_SECONDS = 20


class DaskCrew:
    """The workers of a scheduler at `tcp://host:port`. What a worker that is lost had in hand, Dask gives to another.

    Raises:
        OSError: no scheduler answers at the address.
    """

    # A job whose workers were lost three times: it may have been unlucky, so it is tried alone, as on one machine.
    lost: tuple[type[BaseException], ...] = (KilledWorker,)

    def __init__(self, address: str) -> None:
        self.client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        # Not pure: Dask shall not decide by the arguments that two jobs are one.
        self._executor: Executor = self.client.get_executor(pure=False)

    @property
    def size(self) -> int:
        threads: dict[str, int] = self.client.nthreads()  # asked each time: workers come and go
        return max(1, sum(threads.values()))

    def renew(self) -> None:
        """Nothing to do: the scheduler outlives its workers."""

    def executor(self) -> Executor:
        return self._executor

    def leave(self, at_once: bool) -> None:
        self._executor.shutdown(wait=not at_once)
        self.client.close()
