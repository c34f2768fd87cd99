"""The grader's end of the zygote: start it, have it fork guests, and end them. The only place that kills.

Imports nothing heavy at its top: the sooner the zygote starts, the more of the grader's own loading is hidden behind
torch's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.language import say

if TYPE_CHECKING:
    from autograder.sandbox.jail import JailPlan

PACKAGE_PARENT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
# What an interpreter may need to find its libraries or to compute rightly; everything else stays outside.
KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP")


class LaunchError(Exception):
    """No guest can be started here: a fault of the grader's machine, in one sentence."""


def user_packages() -> list[str]:
    """The folder of `pip install --user`, where this interpreter uses it: -s would leave it out, torch with it."""
    folder = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    return [folder] if folder in sys.path else []


def environment(hash_seed: int = 0) -> dict[str, str]:
    """The environment of a process that holds torch: one thread, the same hashes each time, nothing of the user's."""
    kept = {key: os.environ[key] for key in KEPT_ENVIRONMENT if key in os.environ}
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**kept, **threads, "PYTHONHASHSEED": str(hash_seed), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}


def command(module: str, *arguments: int) -> list[str]:
    """The command that runs `main` of a module of this package in an interpreter of its own."""
    # Neither the working directory (sys.path[0]) nor PYTHONPATH may put a module of the hand-in before a real one. Not by
    # -I, which would leave the hash seed to chance. The package's folder leaves sys.path again, so that nothing beside it
    # can be imported by name in a guest.
    program = (
        f"import sys; sys.path[:1] = [{str(PACKAGE_PARENT)!a}]; sys.path += {user_packages()!a}; "
        f"from autograder.sandbox import {module}; del sys.path[0]; {module}.main{arguments!a}"
    )
    return [sys.executable, "-s", "-c", program]


def how_it_ended(stopped: bool, patient: bool, by_signal: int, status: int) -> str:
    """The end of a guest in words; `stopped`: it had to be stopped."""
    if stopped:
        return say("it had closed its connection to the grader") if patient else say("it was stopped")
    if not by_signal:
        return say("it exited with status {status}", status=status)
    name = signal.Signals(by_signal).name
    if name == "SIGKILL":
        return say("the system killed it, most likely because the machine ran out of memory")
    if name == "SIGXCPU":
        return say("it used more computing time than a submission may")
    return say("it crashed ({signal})", signal=name)


def why_it_did_not_start(said: bytes) -> str:
    """What an interpreter that should have loaded torch said last, as a sentence that says what to do."""
    lines = said.decode(errors="replace").strip().splitlines()
    last = lines[-1] if lines else "it said nothing"
    if "No module named" in last:
        missing = last.split("'")[1] if "'" in last else "a package"
        return f"{sys.executable} cannot import {missing}: install it with `pip install -r requirements.txt`"
    return f"the process that holds torch ended at start: {last}"


@dataclass
class Process:
    """One guest: its pid and the grader's end of its socket."""

    pid: int
    sock: socket.socket
    uid: int | None
    layers: dict[str, str] = field(default_factory=dict)


class Zygote:
    """A process with torch in it, from which guests are forked. Start early: torch loads while the grader goes on.

    `with Zygote() as zygote: process = zygote.fork(plan)`; leaving the block ends every guest.

    Args:
        hash_seed: of the guests: one for all, so that a hand-in which goes through a set is graded alike each time.
    """

    def __init__(self, hash_seed: int = 0) -> None:
        self.hash_seed = hash_seed
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._said, said = os.pipe()
        os.set_blocking(said, False)  # nobody reads it while the zygote lives: what does not fit is dropped
        # Started with this process's own session so that Ctrl-C in a terminal reaches the grader alone.
        try:
            self.process = subprocess.Popen(
                command("zygote", theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment(self.hash_seed),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(self._said)
            raise LaunchError(f"no process can be started here: {error}") from error
        finally:
            theirs.close()
            os.close(said)
        self.control = ours
        self.torch_version = ""
        self._asked = 0
        self._transforms = False
        self._unread = b""
        self._spare: Process | None = None

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ended(self) -> bool:
        """Whether it was ready once and is no more."""
        return bool(self.torch_version) and self.process.poll() is not None

    def restart(self) -> None:
        """End it with all its guests, and start it anew; who holds a guest finds it dead. Raises LaunchError."""
        self.close()
        self._start()
        self.wait_ready()

    def wait_ready(self) -> str:
        """Wait until torch is loaded and return its version. Raises LaunchError with what the interpreter said."""
        if not self.torch_version:
            self.torch_version = self._answer(0)["ready"]
        elif self.process.poll() is not None:
            raise LaunchError(self._last_words())
        return self.torch_version

    def load_transforms(self) -> None:
        """Load the parts of torch that few hand-ins use, once: each guest would take seconds to do so itself."""
        if not self._transforms:
            self._ask({"verb": "load_transforms"})
            self._transforms = True

    def prepare(self) -> None:
        """Fork a guest without a jail in advance: the next one that is wanted is there at once."""
        self._spare = self._spare or self._forked(None)

    def fork(self, plan: JailPlan | None) -> Process:
        """A new guest: jailed by `plan`, or (`None`) the trusted oracle."""
        if plan is None and self._spare:
            spare, self._spare = self._spare, None
            return spare
        return self._forked(plan)

    def _forked(self, plan: JailPlan | None) -> Process:
        from autograder.sandbox import frames

        self.wait_ready()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                answer = self._ask({"verb": "fork", "plan": asdict(plan) if plan else None}, theirs.fileno())
                if "error" in answer:
                    raise LaunchError(answer["error"])
            except LaunchError:
                ours.close()
                raise
        process = Process(answer["pid"], ours, plan.uid if plan else None)
        try:
            process.layers = frames.receive(ours, time.monotonic() + START_SECONDS)["jail"]
        except (frames.Closed, frames.Late, frames.FrameError) as error:
            ended = self.end(process, patient=True)
            raise LaunchError(f"a guest ended before it could be used ({ended}); see docs/security.md") from error
        return process

    def end(self, process: Process, patient: bool = False) -> str:
        """Kill a guest and all that it left. Says in words how it had ended, if it ended before the kill.

        `patient`: it closed its socket, so give it the moment that its end takes.
        """
        process.sock.close()
        status = self._ask({"verb": "status", "pid": process.pid, "patient": patient})
        left = self._ask({"verb": "sweep", "uid": process.uid})["left"]
        if left:
            raise LaunchError(f"{left} processes of a submission could not be killed")
        return how_it_ended(status["stopped"], patient, status["signal"], status["exit"])

    def close(self) -> None:
        """End the zygote, and with it every guest."""
        if self._spare:
            self._spare.sock.close()
            self._spare = None
        self.control.close()  # the zygote reads the end of its control socket, kills its guests and leaves
        if not self.torch_version:  # it was never asked for a guest: nobody waits for torch to load only to leave
            self.process.kill()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._said >= 0:
            os.close(self._said)
            self._said = -1

    def _ask(self, request: dict[str, Any], fd: int | None = None) -> dict[str, Any]:
        self.wait_ready()
        self._asked += 1
        line = json.dumps({**request, "number": self._asked}).encode() + b"\n"
        try:
            if fd is None:
                self.control.sendall(line)
            else:
                self.control.sendall(line[socket.send_fds(self.control, [line], [fd]) :])
        except OSError as error:
            raise LaunchError(self._last_words()) from error
        return self._answer(self._asked)

    def _answer(self, number: int) -> dict[str, Any]:
        """The answer to one question. Earlier ones, for which somebody stopped waiting (Ctrl-C), are dropped."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            line, found, rest = self._unread.partition(b"\n")
            if found:
                self._unread = rest
                answer: dict[str, Any] = json.loads(line)
                if answer["number"] == number:
                    return answer
                continue
            try:
                self.control.settimeout(max(0.001, deadline - time.monotonic()))
                chunk = self.control.recv(65536)
            except ConnectionError:
                chunk = b""
            except OSError as error:
                raise LaunchError(f"the process that holds torch does not answer: {error}") from error
            if not chunk:
                raise LaunchError(self._last_words())
            self._unread += chunk

    def _last_words(self) -> str:
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            return "the process that holds torch does not answer"
        if self.torch_version:
            by = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
            return f"the process that holds torch ended {by}; if the machine is short of memory, give it more"
        said = b""
        with contextlib.suppress(OSError):
            os.set_blocking(self._said, False)
            said = os.read(self._said, 1 << 20)
        return why_it_did_not_start(said)
