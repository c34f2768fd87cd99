"""Landlock: the kernel lets any process give up access to files, for good. Here: to all but a few, read-only.

Three system calls that no libc wraps. What a kernel can refuse grew by versions (ABI), each handled where it is there:
1 files (5.13), 2 moving between folders (5.19), 3 truncating (6.2), 4 TCP (6.7), 5 ioctl on devices (6.10), 6 abstract
Unix sockets and signals to processes outside (6.12). It does not refuse `stat`, `chmod`, `chown` or `utime`: seccomp
and the uid do. Source: Linux `Documentation/userspace-api/landlock.rst`, `include/uapi/linux/landlock.h`.
"""

from __future__ import annotations

import errno
import os
import site
import stat
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from autograder.sandbox.seccomp import Unavailable, syscall

LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
# The last two tell nothing but the processor's kind: mathematical libraries may look there at their first call.
DEVICES = ("/dev/null", "/dev/urandom", "/proc/cpuinfo", "/sys/devices/system/cpu")

READ_FILE, READ_DIRECTORY = 1 << 2, 1 << 3
# All that the kernel of an ABI can refuse on files: 13 rights at first (execute, write, read, list, remove, make …).
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
BIND_TCP_AND_CONNECT_TCP = 0b11
ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def abi() -> int:
    """The version of this kernel's Landlock. Raises Unavailable, with the reason, where there is none."""
    version_flag = 1
    try:
        return syscall("landlock_create_ruleset", None, 0, version_flag)
    except OSError as error:
        switched_off = error.errno == errno.EOPNOTSUPP
        raise Unavailable(f"no Landlock: {'switched off at boot' if switched_off else error.strerror}") from error


def restrict(readable: Iterable[str]) -> int:
    """Confine this thread, and all that it will start, to reading `readable` (folders with all below, or files).

    Paths that do not exist are left out; links are followed when the rule is made. Needs `no_new_privs`.
    Returns the ABI. Raises Unavailable, or OSError where the kernel refuses.
    """
    version = abi()
    files = FILE_RIGHTS[max(known for known in FILE_RIGHTS if known <= version)]
    attributes = struct.pack("=Q", files)
    if version >= 4:
        attributes += struct.pack("=Q", BIND_TCP_AND_CONNECT_TCP)
    if version >= 6:
        attributes += struct.pack("=Q", ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = syscall("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for path in readable:
            _allow_reading(ruleset, path)
        syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _allow_reading(ruleset: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # what is not there, or closed to this uid anyway, needs no rule
    try:
        # The kernel refuses rules that list a file.
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rights = READ_FILE | READ_DIRECTORY if is_folder else READ_FILE
        path_beneath = 1
        syscall("landlock_add_rule", ruleset, path_beneath, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def interpreter_paths() -> list[str]:
    """The standard library and the packages of the running interpreter, those that its user installed included."""
    of_user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")), *of_user]


def shared_paths() -> list[str]:
    """Shared libraries, which every user can read, and the devices that Python opens."""
    return [os.path.join(sys.base_prefix, sys.platlibdir), *LIBRARIES, *DEVICES]  # the first: Pythons outside /usr


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """The real paths of those that exist, without what lies below another of them."""
    kept: list[Path] = []
    for path in sorted({Path(path).resolve() for path in paths if os.path.exists(path)}):
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
    return tuple(map(str, kept))


def first_closed(paths: Iterable[str]) -> str:
    """The first folder or file, on the way to `paths` or directly in them, that not every user can read; "" if none.

    Goes by the mode alone: an access list that opens more is overlooked, and costs nothing but the tighter plan.
    """
    there = [Path(path).absolute() for path in paths if os.path.exists(path)]
    # As it is written, too: a module is opened by the path that leads over a link.
    for place in dict.fromkeys(way for path in there for way in (path, path.resolve())):
        for parent in reversed(place.parents):
            if not _open_to_all(parent, stat.S_IXOTH):
                return str(parent)
        for step in [place, *(place.iterdir() if place.is_dir() else [])]:
            if not _open_to_all(step, stat.S_IROTH):
                return str(step)
    return ""


def _open_to_all(path: Path, needed: int) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # a link that leads nowhere
        return True
    needed |= stat.S_IXOTH if stat.S_ISDIR(mode) else 0
    return mode & needed == needed
