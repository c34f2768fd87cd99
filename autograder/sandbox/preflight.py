"""Tries, from inside a jail, each thing that a submission must not be able to do. What works there is not sandboxed.

The grader has one jailed guest run this before it grades: layers are not believed, they are tried. An attempt that
succeeds changes nothing: what was made is removed, what was opened is closed, what was started ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import socket
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial

from autograder.sandbox.seccomp import Unavailable, syscall

if sys.platform != "win32":
    import resource

REFUSED, WORKED = "refused", "WORKED"
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WAIT_ALL = 17, 0x4206, 0x4207, 0x40000000

Attempt = Callable[[], object]


def _attempts(private: Sequence[str]) -> dict[str, Attempt]:
    # Each action completes the sentence "a submission could …"; an attempt raises where it is refused.
    return {
        "write files in /tmp": partial(_write_in, "/tmp"),
        "write files in its working directory": partial(_write_in, "."),
        "write files in /dev/shm": partial(_write_in, "/dev/shm"),
        "make folders": _make_folder,
        "change the mode of files": partial(_any, _set_mode_as_it_is, [*private, "/", sys.executable]),
        "read the grader's private files": partial(_any, _read, private),
        "list the grader's private folders": partial(_any, os.listdir, private),
        "change the grader's private files": partial(_any, _open_for_writing, private),
        "write into the grader's private folders": partial(_any, _write_in, private),
        "start processes": _fork,
        "run programs": _execute,
        "open network sockets": partial(_socket, "AF_INET"),
        "open local sockets": partial(_socket, "AF_UNIX"),
        "reach the network": partial(_any, _connect, ("SOCK_STREAM", "SOCK_DGRAM")),
        "trace its parent": _trace,
        "read its parent's memory": partial(_any, _read_memory, ("/proc", "process_vm_readv")),
        "read its parent's environment": lambda: _read(f"/proc/{os.getppid()}/environ"),
        "send signals to its parent": lambda: os.kill(os.getppid(), 0),
        "use descriptors that the grader left open": _find_descriptors,
        "make files in memory": _make_memory_file,
        "use io_uring": _set_up_io_uring,
        "use the kernel's keyring": _join_keyring,
        "become root": lambda: os.setuid(0),
        "raise its own limits": _raise_limit,
        "take memory without limit": _find_no_limit,
    }


def probe(private: Sequence[str] = ()) -> dict[str, str]:
    """Try all ACTIONS, in this process, for real. Returns action → "refused" or "WORKED".

    `private`: files and folders that exist and that no guest may reach: the reference, the hidden checks, the results;
    an action on them is refused where none is given. Run it in a jailed child only: it is one descriptor that the
    child may hold, above the standard three.
    """
    return {action: WORKED if _works(attempt) else REFUSED for action, attempt in _attempts(private).items()}


def verdict(report: object) -> list[str]:
    """One sentence for each action that is not known to be refused; empty where the jail holds. Trusts no form."""
    states = report if isinstance(report, dict) else {}
    return [
        f"not sandboxed: a submission could {action}"
        if states.get(action) == WORKED
        else f"not sandboxed: nobody knows whether a submission could {action}"
        for action in ACTIONS
        if states.get(action) != REFUSED
    ]


def _works(attempt: Attempt) -> bool:
    try:
        attempt()
    except (OSError, ValueError, Unavailable):
        return False
    return True


def _any(attempt: Callable[[str], object], subjects: Sequence[str]) -> None:
    if not any(_works(partial(attempt, subject)) for subject in subjects):
        raise PermissionError


def _name_in(folder: str) -> str:
    return os.path.join(folder, f"preflight-{secrets.token_hex(8)}")


def _write_in(folder: str) -> None:
    path = _name_in(folder)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


def _make_folder() -> None:
    path = _name_in("/tmp")
    os.mkdir(path)
    os.rmdir(path)


def _set_mode_as_it_is(path: str) -> None:
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def _open_for_writing(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _execute() -> None:
    program = next((path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path)), sys.executable)
    try:
        child = os.fork()
    except OSError:
        # Here a success would end this process. Arguments at no valid address: a kernel that gets as far as reading
        # them would have run the program.
        try:
            syscall("execve", program.encode(), 1, None)
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
        return
    if child == 0:
        try:
            os.execv(program, [program])
        finally:
            os._exit(97)
    if os.waitpid(child, 0)[1] != 0:
        raise PermissionError


def _socket(family: str) -> None:
    socket.socket(getattr(socket, family), socket.SOCK_STREAM).close()


def _connect(kind: str) -> None:
    with socket.socket(socket.AF_INET, getattr(socket, kind)) as end:
        end.settimeout(1)
        # Refused by the other side is reached; on a datagram socket nothing is sent.
        with contextlib.suppress(ConnectionRefusedError, TimeoutError):
            end.connect(("127.0.0.1", 9))


def _trace() -> None:
    parent = os.getppid()
    syscall("ptrace", PTRACE_SEIZE, parent, 0, 0)  # does not stop the parent, PTRACE_ATTACH would
    syscall("ptrace", PTRACE_INTERRUPT, parent, 0, 0)  # only a tracee that has stopped can be let go
    os.waitpid(parent, WAIT_ALL)
    syscall("ptrace", PTRACE_DETACH, parent, 0, 0)


def _read_memory(way: str) -> None:
    parent = os.getppid()
    if way == "/proc":
        os.close(os.open(f"/proc/{parent}/mem", os.O_RDONLY))
        return
    byte = ctypes.create_string_buffer(1)
    piece = struct.pack("PN", ctypes.addressof(byte), 1)
    try:
        syscall("process_vm_readv", parent, piece, 1, piece, 1, 0)
    except OSError as error:
        if error.errno != errno.EFAULT:  # nothing lies at this address over there, but reading is allowed
            raise


def _find_descriptors() -> None:
    found = [number for number in range(3, 1024) if _works(partial(os.fstat, number))]
    if len(found) < 2:
        raise PermissionError


def _make_memory_file() -> None:
    os.close(syscall("memfd_create", b"preflight", 0))


def _set_up_io_uring() -> None:
    os.close(syscall("io_uring_setup", 1, ctypes.create_string_buffer(120)))  # struct io_uring_params, all 0


def _join_keyring() -> None:
    get_id, of_the_session, make_it = 0, -3, 1
    syscall("keyctl", get_id, of_the_session, make_it)


def _raise_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard + 1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _find_no_limit() -> None:
    if resource.getrlimit(resource.RLIMIT_AS)[1] != resource.RLIM_INFINITY:
        raise PermissionError


ACTIONS = tuple(_attempts(()))
