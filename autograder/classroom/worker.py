"""The process that grades for a class: one warm Session in it, one hand-in after another, on whatever machine it runs."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import platform
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.sandbox.launcher import LaunchError, Zygote

if TYPE_CHECKING:
    from autograder.classroom.jobs import Job
    from autograder.session import Session


@dataclass(frozen=True)
class Graded:
    """A record as JSON, how long it took, and who graded it."""

    record: str
    seconds: float
    by: str


class _Warm:
    """The session of this process. A worker of Dask has threads; a session is for one at a time."""

    lock = threading.Lock()
    zygote: Zygote | None = None
    session: Session | None = None
    grader = ""


def start() -> None:
    """Begin to load torch, before the first hand-in comes. Ctrl-C is the business of the process that asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()
    with _Warm.lock, suppress(LaunchError):  # which the first hand-in meets again, and can tell
        _Warm.zygote = _Warm.zygote or Zygote()


def _leave_with(sentinel: int) -> None:
    """A pool's process waits for work for ever where the one that asked is killed; this one ends with it."""
    multiprocessing.connection.wait([sentinel])
    os._exit(1)  # the zygote sees its control socket close, and ends its guests


def grade(job: Job) -> Graded:
    """Grade one hand-in.

    Raises:
        LaunchError: no hand-in can be graded here: torch does not load, or this machine has another lab or framework.
    """
    begun = time.monotonic()
    with _Warm.lock:
        record = _grade(job)
        if record is None:  # the process that holds torch was lost: once more, with another
            cool()
            record = _grade(job)
            if record is None:
                raise RuntimeError("the process that holds torch ended twice while this was graded")
    return Graded(record, round(time.monotonic() - begun, 3), f"{platform.node()}:{os.getpid()}")


def cool() -> None:
    """End the session of this process."""
    if _Warm.zygote is not None:
        _Warm.zygote.close()
    _Warm.zygote = _Warm.session = None


def _grade(job: Job) -> str | None:
    session = _session(job)
    try:
        record = session.grade(job.submission)
    except LaunchError:
        if session.zygote.torch_version:
            return None
        raise  # torch never came to be loaded, and would not the next time
    if record.faults and session.zygote.ended:
        return None
    return record.model_dump_json(indent=1)


def _session(job: Job) -> Session:
    if _Warm.session is None or _Warm.grader != job.grader:
        if _Warm.session is not None:
            cool()
        zygote = _Warm.zygote = _Warm.zygote or Zygote()  # first of all: torch loads while the lab is read
        from autograder import lab as labs
        from autograder.classroom.jobs import grader_digest
        from autograder.session import Session

        lab = labs.load(job.lab, Path(job.root), lang=job.language)
        if grader_digest(lab) != job.grader:
            raise LaunchError(
                f"{platform.node()} has another version of the lab, the framework, Python, torch or numpy than the machine "
                f"that asked: install the same in {job.root} there"
            )
        _Warm.session, _Warm.grader = Session(lab, zygote), job.grader
    return _Warm.session
