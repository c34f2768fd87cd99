"""The system calls that a guest may make: a seccomp filter, built here, installed by one call to the kernel.

It is a list of what is allowed, not of what is forbidden: a call that nobody thought of, or that a later kernel adds,
is refused. A refusal is an error that Python raises as PermissionError; only calls in another architecture's numbering,
which no honest program of this process makes, kill. Sources: Linux `Documentation/userspace-api/seccomp_filter.rst`,
`include/uapi/linux/{filter,seccomp,audit}.h`, and the system call tables of x86-64 and of arm64 (asm-generic).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
from functools import cache

# name: (x86-64, arm64); None where the architecture has no such call.
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # reading files, and the descriptors that are already open
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67), "preadv": (295, 69),
    "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "fcntl": (72, 25), "ioctl": (16, 29), "open": (2, None), "openat": (257, 56), "stat": (4, None),
    "fstat": (5, 80), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78),
    "getdents64": (217, 61), "getcwd": (79, 17), "statfs": (137, 43), "fstatfs": (138, 44), "poll": (7, None),
    "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    # the inherited socket
    "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212), "shutdown": (48, 210),
    "getsockname": (51, 204), "getpeername": (52, 205), "getsockopt": (55, 209),
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233),
    "mincore": (27, 232), "msync": (26, 227), "brk": (12, 214), "membarrier": (324, 283),
    # threads
    "clone": (56, 220), "exit": (60, 93), "exit_group": (231, 94), "futex": (202, 98), "futex_waitv": (449, 449),
    "futex_wake": (454, 454), "futex_wait": (455, 455), "futex_requeue": (456, 456), "set_robust_list": (273, 99),
    "set_tid_address": (218, 96), "rseq": (334, 293), "arch_prctl": (158, None), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "sched_setaffinity": (203, 122), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "getcpu": (309, 168),
    # signals to itself, and waiting
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "pause": (34, None),
    "alarm": (37, None), "getitimer": (36, 102), "setitimer": (38, 103), "restart_syscall": (219, 128),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "wait4": (61, 260), "waitid": (247, 95),
    # clocks, and what a process may know of itself
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getpid": (39, 172), "gettid": (186, 178),
    "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158), "getpgrp": (111, None),
    "getpgid": (121, 155), "getsid": (124, 156), "getpriority": (140, 141), "getrlimit": (97, 163),
    "prlimit64": (302, 261), "getrusage": (98, 165), "sysinfo": (99, 179), "uname": (63, 160), "umask": (95, 166),
    "capget": (125, 90), "prctl": (157, 167), "getrandom": (318, 278),
}  # fmt: skip
OTHERS: dict[str, tuple[int | None, int | None]] = {  # what only the jail and its preflight call, or the filter names
    "clone3": (435, 435), "openat2": (437, 437), "seccomp": (317, 277), "capset": (126, 91),
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446),
    "keyctl": (250, 219), "io_uring_setup": (425, 425), "memfd_create": (319, 279), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "execve": (59, 221),
}  # fmt: skip
NUMBERS = ALLOWED | OTHERS
# A libc that meets ENOSYS falls back to the older call, which is filtered by its arguments; theirs lie in memory, where
# a filter cannot look.
UNKNOWN_HERE = ("clone3", "openat2")
YOUNG = 451  # no libc insists on calls with numbers from here on

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of NUMBERS, AUDIT_ARCH_…
X32_BIT = 0x40000000  # x86-64 numbers with this bit are a third calling convention, with a table of its own

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
LOAD, AND, RETURN, JUMP = 0x20, 0x54, 0x06, 0x05
IF_EQUAL, IF_AT_LEAST, IF_BITS = 0x15, 0x35, 0x45
OWN_PID = 0x7FFFFFFF  # stands in the program for the process's own, which is known after the fork; no pid is as large

Code = list[tuple[int, int, int, int]]  # operation, jump if true, jump if false, constant: `struct sock_filter`

if sys.platform == "win32":
    libc = None
else:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long


class Unavailable(Exception):
    """This system has no such protection; the text says why, for a report."""


def column() -> int:
    """Which column of NUMBERS is this process's. Raises Unavailable where there is none."""
    if sys.platform != "linux":
        raise Unavailable(f"{sys.platform} is not Linux")
    machine = platform.machine()
    if machine not in ARCHITECTURES or sys.maxsize < 2**32 or sys.byteorder != "little":
        raise Unavailable(f"no table of system calls for {machine}, {8 * struct.calcsize('P')} bits")
    return ARCHITECTURES[machine][0]


def syscall(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call by name. Raises OSError with the kernel's errno, Unavailable where it has no number."""
    number = NUMBERS[name][column()]
    if libc is None or number is None:
        raise Unavailable(f"no system call {name} here")
    # ctypes passes a bare int as 32 bits; the kernel reads 64.
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *wide)
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def install(pid: int) -> None:
    """Put this thread, and all that it will start, behind the filter for good. `pid`: this process's own.

    Needs `no_new_privs`. Raises OSError where the kernel refuses, Unavailable where it has no filters or we no table.
    """
    program = build(column())
    code = b"".join(struct.pack("=HBBI", *head, pid if k == OWN_PID else k) for *head, k in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    set_mode_filter, all_threads = 1, 1
    syscall("seccomp", set_mode_filter, all_threads, header)


@cache
def build(column: int) -> Code:
    """The filter as instructions of classic BPF over `struct seccomp_data` (number at 0, architecture at 4)."""
    conditions = _conditions()
    verdicts: dict[int, Code] = {}
    for name, numbers in ALLOWED.items():
        number = numbers[column]
        if number is not None:
            verdicts[number] = [*conditions.get(name, []), (RETURN, 0, 0, ALLOW)]
    for name in UNKNOWN_HERE:
        verdicts[NUMBERS[name][column] or 0] = [(RETURN, 0, 0, ENOSYS)]
    segments: list[tuple[int, Code]] = []  # (first number, verdict up to the next segment)
    for number in range(max(*verdicts, YOUNG) + 2):
        verdict = verdicts.get(number, [(RETURN, 0, 0, EPERM if number < YOUNG else ENOSYS)])
        if not segments or segments[-1][1] != verdict:
            segments.append((number, verdict))
    if column == 0:
        segments.append((X32_BIT, [(RETURN, 0, 0, KILL)]))
    audit = next(audit for place, audit in ARCHITECTURES.values() if place == column)
    return [(LOAD, 0, 0, 4), (IF_EQUAL, 1, 0, audit), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0), *_search(segments)]


def _search(segments: list[tuple[int, Code]]) -> Code:
    # A tree, not a chain: the kernel runs the filter for every number when it is installed, and at every call after.
    if len(segments) == 1:
        return segments[0][1]
    middle = len(segments) // 2
    below, above = _search(segments[:middle]), _search(segments[middle:])
    return [(IF_AT_LEAST, 0, 1, segments[middle][0]), (JUMP, 0, 0, len(below)), *below, *above]


def _conditions() -> dict[str, Code]:
    write_only, read_write, create, truncate, append, unnamed = 0o1, 0o2, 0o100, 0o1000, 0o2000, 0o20000000
    writing = write_only | read_write | create | truncate | append | unnamed
    thread, namespaces = 0x10000, 0x7E020000
    # duplicate, close-on-exec, status flags. Not F_SETOWN with F_SETSIG: any signal to any process of the same user.
    of_descriptors = (0, 1, 2, 3, 4, 1030)
    # isatty, window size, close-on-exec, bytes waiting, non-blocking. Not TIOCSTI, FIOSETOWN.
    of_devices = (0x5401, 0x5413, 0x5450, 0x5451, 0x541B, 0x5421)
    set_name, get_name, name_mapping = 15, 16, 0x53564D41
    itself = _one_of(0, OWN_PID)
    return {
        "open": _without(1, writing),
        "openat": _without(2, writing),
        "clone": [*_with(0, thread), *_without(0, namespaces)],
        "fcntl": _one_of(1, *of_descriptors),
        "ioctl": _one_of(1, *of_devices),
        "prctl": _one_of(0, set_name, get_name, name_mapping),
        "kill": itself,  # abort() and raise_signal() end in one of the three
        "tkill": itself,
        "tgkill": itself,
        "sched_setaffinity": _one_of(0, 0, OWN_PID),
        "prlimit64": [*_one_of(0, 0, OWN_PID), *_null(2)],  # reading its limits, not setting them
        "sendto": _null(4),  # an address would reach other sockets than the inherited one's peer
    }


def _argument(index: int, half: int = 0) -> tuple[int, int, int, int]:
    return (LOAD, 0, 0, 16 + 8 * index + 4 * half)


# Each condition refuses, or falls through to the next. All but pointers are 32 bits to the kernel, too.
def _one_of(index: int, *values: int) -> Code:
    tests = [(IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_argument(index), *tests, (RETURN, 0, 0, EPERM)]


def _without(index: int, bits: int) -> Code:
    return [_argument(index), (IF_BITS, 0, 1, bits), (RETURN, 0, 0, EPERM)]


def _with(index: int, bits: int) -> Code:
    return [_argument(index), (AND, 0, 0, bits), (IF_EQUAL, 1, 0, bits), (RETURN, 0, 0, EPERM)]


def _null(index: int) -> Code:
    halves = ([_argument(index, half), (IF_EQUAL, 1, 0, 0), (RETURN, 0, 0, EPERM)] for half in (0, 1))
    return [instruction for half in halves for instruction in half]


with contextlib.suppress(Unavailable):
    build(column())  # now, so that each fork finds it made: it takes a third of the time of all layers
