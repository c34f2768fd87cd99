"""Guests where a process cannot be forked: each is an interpreter of its own, started before it is needed.

Same protocol as the zygote's guests, over a loopback socket, which every system has. There is no confinement: this is for a
student's own code on a student's own machine (Windows, macOS), never for the hand-ins of others.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from types import TracebackType
from typing import IO, TYPE_CHECKING, TypeAlias

from autograder.sandbox.launcher import (
    START_SECONDS,
    LaunchError,
    Process,
    Zygote,
    command,
    environment,
    how_it_ended,
    why_it_did_not_start,
)

if TYPE_CHECKING:
    from autograder.sandbox.jail import JailPlan

TOKEN = 32  # bytes by which the started interpreter is known: any process of this machine can connect to a port


def launcher_for_this_system() -> Launcher:
    """A zygote where processes can be forked safely, else a spawner. Call it early: torch loads from here on."""
    # macOS forks, but not safely once Apple's libraries have started threads, which torch has them do.
    forks = hasattr(os, "fork") and hasattr(socket, "send_fds") and sys.platform != "darwin"
    return Zygote() if forks else Spawner()


@dataclass
class _Started:
    """An interpreter on its way: it loads torch, then it connects to `door` and says its token."""

    process: subprocess.Popen[bytes]
    door: socket.socket
    token: bytes
    said: IO[bytes]


class Spawner:
    """Starts interpreters with torch in them. `with Spawner() as spawner: process = spawner.fork(None)`."""

    def __init__(self) -> None:
        self.torch_version = ""
        self._running: dict[int, _Started] = {}
        self._spare: _Started | None = self._start()
        self._ready: Process | None = None  # the spare, once it has said that torch is loaded

    def __enter__(self) -> Spawner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait_ready(self) -> str:
        """Wait until torch is loaded once and return its version. Raises LaunchError with what the interpreter said."""
        if not self.torch_version:
            self._ready = self._met()
        return self.torch_version

    @property
    def ended(self) -> bool:
        """Never: no guest depends on a process of ours that could end."""
        return False

    def restart(self) -> None:
        """End every guest, and start anew. Raises LaunchError."""
        self.close()
        self._spare, self.torch_version = self._start(), ""
        self.wait_ready()

    def load_transforms(self) -> None:
        """Nothing to do: a guest loads them before it is wanted."""

    def prepare(self) -> None:
        """Start the next guest now, so that nobody waits for its torch."""
        self._spare = self._spare or self._start()

    def fork(self, plan: JailPlan | None) -> Process:
        """A guest: the one that stands ready, or a new one. Raises LaunchError where a plan asks for confinement."""
        if plan is not None:
            raise LaunchError("a submission cannot be confined on this system; see docs/security.md")
        ready, self._ready = self._ready or self._met(), None
        return ready

    def end(self, process: Process, patient: bool = False) -> str:
        """Stop a guest. Says in words how it had ended, if it ended before that."""
        process.sock.close()
        started = self._running.pop(process.pid)
        if patient:
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.process.wait(1.0)
        code = started.process.poll()
        _stop(started)
        return how_it_ended(code is None, patient, -code if code and code < 0 else 0, code or 0)

    def close(self) -> None:
        """End every guest, and what was to become one."""
        if self._ready:
            self._ready.sock.close()
        for started in [*self._running.values(), *filter(None, [self._spare])]:
            _stop(started)
        self._running.clear()
        self._spare = self._ready = None

    def _start(self) -> _Started:
        door, token = socket.create_server(("127.0.0.1", 0), backlog=4), os.urandom(TOKEN)
        said = tempfile.TemporaryFile()  # noqa: SIM115  (closed when the guest is stopped)
        try:
            process = subprocess.Popen(
                command("spawned"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment(),
                start_new_session=True,  # Ctrl-C in a terminal reaches the grader alone
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # which Windows calls so
            )
            assert process.stdin is not None
            # Not as arguments, which every user of the machine can list.
            process.stdin.write(json.dumps([door.getsockname()[1], token.hex()]).encode() + b"\n")
            process.stdin.flush()  # and left open: where it ends, the guest knows that the grader is gone
        except OSError as error:
            door.close()
            raise LaunchError(f"no process can be started here: {error}") from error
        return _Started(process, door, token, said)

    def _met(self) -> Process:
        """The spare, or one that is started now, as soon as it says that it is ready."""
        from autograder.sandbox import frames

        started, self._spare = self._spare or self._start(), None
        deadline = time.monotonic() + START_SECONDS
        try:
            sock = _visitor(started, deadline)
            hello = frames.receive(sock, deadline)
        except (OSError, frames.Closed, frames.Late, frames.FrameError) as error:
            started.process.kill()
            started.process.wait()
            started.said.seek(0)
            why = why_it_did_not_start(started.said.read())
            _stop(started)
            raise LaunchError(why) from error
        started.door.close()
        self._running[started.process.pid] = started
        self.torch_version = str(hello["torch"])
        return Process(started.process.pid, sock, None, {})


def _visitor(started: _Started, deadline: float) -> socket.socket:
    """The connection of the interpreter that was started. Raises OSError where it ends or is late."""
    started.door.settimeout(0.1)
    while time.monotonic() < deadline:
        try:
            sock, _ = started.door.accept()
        except TimeoutError:
            if started.process.poll() is not None:
                raise OSError("it ended") from None
            continue
        sock.settimeout(5.0)
        said = b""
        with contextlib.suppress(OSError):
            while len(said) < TOKEN and (chunk := sock.recv(TOKEN - len(said))):
                said += chunk
        if hmac.compare_digest(said, started.token):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        sock.close()  # somebody else's
    raise OSError("it is late")


def _stop(started: _Started) -> None:
    started.door.close()
    started.said.close()
    started.process.kill()
    started.process.wait()
    assert started.process.stdin is not None
    with contextlib.suppress(OSError):
        started.process.stdin.close()


Launcher: TypeAlias = Zygote | Spawner
