"""Ways in which a grader runs elsewhere, put on a process of our own: an old kernel, an ordinary user, a Docker container.

Called in a process that does nothing else afterwards than to become the grader: nothing here can be taken off again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Collection, Mapping
from pathlib import Path

from autograder.sandbox import jail, landlock, seccomp

ROOT = Path(__file__).resolve().parents[1]
LANDLOCK = {
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
# What Docker's default profile refuses to a container without more capabilities, by number on x86-64 and arm64.
# Source: Docker's documentation, "Seccomp security profiles for Docker", the table of blocked calls.
BLOCKED_BY_DOCKER = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "clock_adjtime": (305, 266),
    "clock_settime": (227, 112), "delete_module": (176, 106), "fanotify_init": (300, 262),
    "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "fspick": (433, 433), "get_mempolicy": (239, 236), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "mbind": (237, 235), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "pivot_root": (155, 41), "quotactl": (179, 60), "reboot": (169, 142),
    "request_key": (249, 218), "set_mempolicy": (238, 237), "setdomainname": (171, 162), "sethostname": (170, 161),
    "setns": (308, 268), "settimeofday": (164, 170), "swapoff": (168, 225), "swapon": (167, 224),
    "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
# CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP
CAPABILITIES_IN_DOCKER = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
LAST_CAPABILITY = 63
SYS_ADMIN = 21
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24

Numbers = Mapping[str, tuple["int | None", "int | None"]]


def ways() -> tuple[str, ...]:
    """The ways that can be had here: all four for root, else only what we are."""
    if os.geteuid() != 0:
        return ("user",)
    open_to_all = not landlock.first_closed([str(ROOT / "autograder"), *landlock.interpreter_paths()])
    return ("root", "no landlock", *(["user"] if open_to_all else []), "docker")


def become(way: str) -> None:
    """Turn this process into one that runs in such a way; it keeps its memory, so replace that by `exec` afterwards."""
    if way == "no landlock":
        refuse(LANDLOCK, errno.ENOSYS)
    elif way == "user":
        if os.geteuid() == 0:
            become_user(jail.random_uid())
    elif way == "docker":
        refuse(BLOCKED_BY_DOCKER, errno.EPERM)
        keep_capabilities(CAPABILITIES_IN_DOCKER)
    elif way != "root":
        raise ValueError(f"no way is called {way!r}")


def become_user(uid: int) -> None:
    """An ordinary user without any privilege."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def refuse(calls: Numbers, code: int) -> None:
    """Have the kernel refuse these system calls with this errno, in this process and all that it starts."""
    place = seccomp.column()
    numbers = [columns[place] for columns in calls.values()]
    returns = [(seccomp.IF_EQUAL, 0, 1, number) for number in numbers if number is not None]
    program: seccomp.Code = [(seccomp.LOAD, 0, 0, 0)]
    for test in returns:
        program += [test, (seccomp.RETURN, 0, 0, 0x00050000 | code)]
    program.append((seccomp.RETURN, 0, 0, seccomp.ALLOW))
    if SYS_ADMIN not in jail.effective_capabilities():  # a filter needs the one or the other
        seccomp.syscall("prctl", jail.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    seccomp.syscall("seccomp", 1, 0, struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer)))


def keep_capabilities(kept: Collection[int]) -> None:
    """Give up every capability but these, for good: also the next program that root starts has no other."""
    for number in range(LAST_CAPABILITY + 1):
        if number not in kept and _is_bound(number):
            seccomp.syscall("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
    bits = sum(1 << number for number in kept)
    sets = struct.pack("=6I", bits, bits, 0, 0, 0, 0)
    seccomp.syscall("capset", struct.pack("=Ii", 0x20080522, 0), sets)


def _is_bound(number: int) -> bool:
    try:
        return seccomp.syscall("prctl", PR_CAPBSET_READ, number, 0, 0, 0) == 1
    except OSError:  # a number that this kernel does not have
        return False
