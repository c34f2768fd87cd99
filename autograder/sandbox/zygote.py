"""Imports torch once and forks a guest for each hand-in: 30 ms instead of the seconds of a fresh interpreter.

Runs as `python -I -c "…main(fd)"`. It holds no secret: whatever it has, every student's guest has too. One thread only:
a fork of a process in which torch has started threads hangs at the first operation of the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def main(control_fd: int) -> None:
    """Answer the grader's requests, one JSON line each, until it goes away; then leave no process behind."""
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    warm()
    from autograder.sandbox import guest, jail  # noqa: F401  (forked children need them in memory)

    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    control = socket.socket(fileno=control_fd)
    control.sendall(json.dumps({"ready": torch.__version__}).encode() + b"\n")
    children: dict[int, int | None] = {}
    while True:
        try:
            line, fds, _, _ = socket.recv_fds(control, 65536, 1)
        except OSError:
            break
        if not line:
            break
        request = json.loads(line)
        reap(children)
        if request["verb"] == "fork":
            answer = fork(request, fds[0], control, children)
        elif request["verb"] == "status":
            answer = status(request["pid"], children)
        else:
            answer = {"left": sweep(request["uid"], children)}
        control.sendall(json.dumps(answer).encode() + b"\n")
    for pid in [pid for pid, code in children.items() if code is None]:
        _kill(pid)
    sweep(None, children)


def warm() -> None:
    """Load what torch loads lazily, so that the first check of a guest does not pay for it (sympy alone: 0.4 s)."""
    import torch

    from autograder.sandbox.guest import Counting

    x = torch.ones(2, 2, requires_grad=True)
    layer = torch.nn.Linear(2, 2)
    y = torch.einsum("ij,jk->ik", layer(x).softmax(-1), x)
    torch.autograd.grad(y, [x], grad_outputs=torch.ones(2, 2))
    torch.autograd.functional.jacobian(layer, torch.ones(1, 2))  # type: ignore[no-untyped-call]
    with Counting():  # the first dispatch mode of a process imports half of torch's compiler: 0.7 s
        torch.ones(2).softmax(0)
    torch.manual_seed(0)


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


def status(pid: int, children: dict[int, int | None]) -> dict[str, Any]:
    """Kill a guest, wait for its end, and tell how it ended (before the kill, if it was earlier)."""
    if children.get(pid) is None and pid in children:
        _kill(pid)
        _, children[pid] = os.waitpid(pid, 0)
    code = children.pop(pid, None)
    if code is None:
        return {"signal": 0, "exit": 0}
    return {
        "signal": os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0,
        "exit": os.WEXITSTATUS(code) if os.WIFEXITED(code) else 0,
    }


def sweep(uid: int | None, children: dict[int, int | None]) -> int:
    """Kill whatever a guest may have left: processes of its uid, and orphans that came to us. Returns how many stay.

    `/proc` is read again after the kill: a kill that returns 0 proves nothing.
    """
    for _ in range(50):
        left = [pid for pid in _strays(uid) if children.get(pid, 0) is not None]  # a guest at work is no stray
        if not left:
            return 0
        for pid in left:
            _kill(pid)
        reap(children)
    return len(left)


def _strays(uid: int | None) -> list[int]:
    me = os.getpid()
    found = []
    try:
        entries = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # no /proc: macOS; there the process group is all that can be killed
        return []
    for pid in entries:
        try:
            with open(f"/proc/{pid}/status") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError:
            continue
        if fields["State"].split()[0] in "ZX":
            continue
        of_uid = uid is not None and int(fields["Uid"].split()[0]) == uid
        if of_uid or int(fields["PPid"]) == me:
            found.append(pid)
    return found


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
