"""Imports torch once and forks a guest for each hand-in: 30 ms instead of the seconds of a fresh interpreter.

Runs as `python -s -c "…main(fd)"`. It holds no secret: whatever it has, every student's guest has too. One thread only:
a fork of a process in which torch has started threads hangs at the first operation of the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 5.0  # seconds for a process to end; it takes a millisecond


def main(control_fd: int) -> None:
    """Answer the grader's requests, one JSON line each, until it goes away; then leave no process behind."""
    gc.disable()  # what is imported stays
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    warm()
    from autograder.sandbox import guest, jail  # noqa: F401  (forked children need them in memory)

    settle()
    gc.enable()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    # What it says from here on, or a guest that is not jailed, nobody would read.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    control = socket.socket(fileno=control_fd)
    children: dict[int, int | None] = {}
    _tell(control, {"ready": torch.__version__, "number": 0})
    for request, fd in _requests(control):
        reap(children)
        if request["verb"] == "fork":
            answer = fork(request, fd, control, children)
        elif request["verb"] == "load_transforms":
            load_transforms()
            answer = {}
        elif request["verb"] == "status":
            answer = status(request["pid"], children, request["patient"])
        else:
            # All that a guest leaves behind comes to us: where nobody has, there is no need to look at every process.
            answer = {"left": sweep(request["uid"], children) if _has_orphans(children) else 0}
        _tell(control, {**answer, "number": request["number"]})
    for pid in [pid for pid, code in children.items() if code is None]:
        _kill(pid)
    sweep(None, children)


def _requests(control: socket.socket) -> Iterator[tuple[dict[str, Any], int]]:
    """Each request, and the descriptor that came with it (-1: none), until the grader goes away."""
    unread, descriptors = b"", []
    while True:
        try:
            chunk, fds, _, _ = socket.recv_fds(control, 65536, 1)
        except OSError:
            return
        if not chunk:
            return
        unread += chunk
        descriptors += fds
        while b"\n" in unread:
            line, _, unread = unread.partition(b"\n")
            request = json.loads(line)
            yield request, descriptors.pop(0) if request["verb"] == "fork" else -1


def _tell(control: socket.socket, answer: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the grader is gone: the next read says so
        control.sendall(json.dumps(answer).encode() + b"\n")


def warm() -> None:
    """Load what torch loads lazily and what any hand-in uses, so that the first check of a guest does not pay for it."""
    import numpy as np
    import torch

    from autograder.sandbox.guest import Counting

    x = torch.ones(2, 2, requires_grad=True)
    layer = torch.nn.Linear(2, 2)
    y = torch.einsum("ij,jk->ik", layer(x).softmax(-1), x)
    torch.autograd.grad(y.sum(), [x])
    torch.autograd.functional.jacobian(layer, torch.ones(1, 2))  # type: ignore[no-untyped-call]
    with Counting():
        torch.ones(2).softmax(0)
    torch.get_default_device()
    torch.manual_seed(0)
    np.random.seed(0)


def load_transforms() -> None:
    """Load what only gradients of one's own and transforms of functions need: sympy and torch's compiler, as long as torch."""
    import torch

    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(x * 2, [x], grad_outputs=torch.ones(2))
    torch.func.jacrev(torch.sin)(torch.ones(2))
    settle()


def settle() -> None:
    """Keep what has been loaded out of every collection of garbage: in a guest, one would copy all the memory it looks at."""
    gc.freeze()


def fork(request: dict[str, Any], fd: int, control: socket.socket, children: dict[int, int | None]) -> dict[str, Any]:
    """Start a guest that serves `fd`, jailed by the plan where there is one."""
    from autograder.sandbox import frames, guest, jail

    try:
        pid = os.fork()
    except OSError as error:
        os.close(fd)
        return {"error": f"the system starts no more processes ({error.strerror})"}
    if pid:
        os.close(fd)
        children[pid] = None
        return {"pid": pid}
    code = 1
    try:
        control.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        plan = request["plan"]
        report = jail.enter(jail.JailPlan(**plan), fd) if plan else None
        if report is None:
            jail.make_undumpable()
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        sock = socket.socket(fileno=fd)
        frames.send(sock, {"jail": report.layers if report else {}})
        guest.Guest(sock).serve()
        code = 0
    finally:
        os._exit(code)
    raise AssertionError("unreachable")


def reap(children: dict[int, int | None]) -> None:
    """Collect every process that has ended: guests keep their status, orphans that were left to us only vanish."""
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in children:
            children[pid] = code


def status(pid: int, children: dict[int, int | None], patient: bool) -> dict[str, Any]:
    """End a guest, and tell how it had ended before: `stopped` where it had not. `patient` waits a moment for that."""
    ends = time.monotonic() + (1.0 if patient else 0.0)
    while pid in children and children[pid] is None and time.monotonic() < ends:
        time.sleep(0.001)
        reap(children)
    stopped = children.get(pid, 0) is None
    if stopped:
        _kill(pid)
        _, children[pid] = os.waitpid(pid, 0)
    code = children.pop(pid, None) or 0
    return {
        "stopped": stopped,
        "signal": os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0,
        "exit": os.WEXITSTATUS(code) if os.WIFEXITED(code) else 0,
    }


def sweep(uid: int | None, children: dict[int, int | None]) -> int:
    """Kill whatever a guest may have left: processes of its uid, and orphans that came to us. Returns how many stay.

    `/proc` is read again after the kill: a kill that returns 0 proves nothing.
    """
    ends = time.monotonic() + PATIENCE
    while True:
        left = [pid for pid in _strays(uid) if children.get(pid, 0) is not None]  # a guest at work is no stray
        if not left or time.monotonic() > ends:
            reap(children)
            return len(left)
        for pid in left:
            _kill(pid)
        time.sleep(0.001)  # the end of a process takes its time where it held much memory
        reap(children)


def _has_orphans(children: dict[int, int | None]) -> bool:
    """Whether there are children of ours that are no guests at work. True where the system does not tell."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return any(children.get(int(pid), 0) is not None for pid in file.read().split())
    except OSError:
        return True


def _strays(uid: int | None) -> list[int]:
    me = os.getpid()
    found = []
    try:
        entries = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # no /proc: macOS; there the process group is all that can be killed
        return []
    for pid in entries:
        try:
            with open(f"/proc/{pid}/status", "rb") as file:  # its name may be any bytes
                fields = dict(line.split(b":", 1) for line in file if b":" in line)
        except OSError:
            continue
        if fields[b"State"].split()[0] in (b"Z", b"X"):
            continue
        of_uid = uid is not None and int(fields[b"Uid"].split()[0]) == uid
        if of_uid or int(fields[b"PPid"]) == me:
            found.append(pid)
    return found


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
