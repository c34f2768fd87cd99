"""Each layer of the jail, tried for real: children are forked, jailed, and do what a submission would."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import importlib
import json
import mmap
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from autograder.sandbox import jail, landlock, seccomp
from autograder.sandbox.seccomp import ALLOW, ENOSYS, EPERM, KILL, NUMBERS

PLAN = jail.plan_for()
OWN_UID = PLAN.uid is not None  # root, and not in a container that keeps it from changing its uid


def abi() -> int:
    try:
        return landlock.abi()
    except seccomp.Unavailable:
        return 0


def jailed(
    act: Callable[[], Any],
    plan: jail.JailPlan = PLAN,
    layers: tuple[str, ...] = jail.LAYERS,
    watch: Callable[[int], Any] = lambda pid: None,
) -> tuple[Any, dict[str, str]]:
    """Fork a child, put `layers` on it and run `act` in it. Returns what `act` returns, made of JSON, and the report.

    An OSError in the child is returned as its errno's name, a death as "died of SIG…". `watch` looks at the jailed
    child from outside, before it acts.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            descriptor = theirs.detach()
            report = jail.enter(plan.fresh(), descriptor, layers)
            os.write(descriptor, json.dumps(report.layers).encode() + b"\n")
            os.read(descriptor, 1)
            try:
                value = act()
            except Exception as error:
                code = getattr(error, "errno", None)
                value = errno.errorcode[code] if code else repr(error)
            with socket.socket(fileno=descriptor) as sock:
                sock.sendall(json.dumps(value).encode())
        finally:
            os._exit(0)
    theirs.close()
    with ours, ours.makefile("rb") as lines:
        report = json.loads(lines.readline())
        watch(pid)
        ours.sendall(b"\n")
        rest = lines.read()
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return f"died of {signal.Signals(os.WTERMSIG(status)).name}", report
    return json.loads(rest), report


def in_jail(act: Callable[[], Any], plan: jail.JailPlan = PLAN, layers: tuple[str, ...] = jail.LAYERS) -> Any:
    return jailed(act, plan, layers)[0]


def raw(number: int, *arguments: int | bytes | None) -> str:
    """The name of the errno of a system call by its number, or "done"."""
    filled = [*arguments, *[0] * (6 - len(arguments))]  # else the kernel sees what the registers happen to hold
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in filled]
    assert seccomp.libc is not None
    if seccomp.libc.syscall(ctypes.c_long(number), *wide) != -1:
        return "done"
    return errno.errorcode[ctypes.get_errno()]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own is closed to the guest's uid."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


# --- the plan ---


def test_a_plan_and_its_report_travel_as_json() -> None:
    plan = jail.plan_for(readable=["/etc/hostname"])
    assert jail.JailPlan(**json.loads(json.dumps(asdict(plan)))) == plan
    report = jail.JailReport({"limits": "on", "landlock": "no Landlock: old"})
    assert report.applied == ["limits"]
    assert report.missing == {"landlock": "no Landlock: old"}


def test_every_guest_gets_a_uid_of_its_own_or_the_plan_says_how_it_could() -> None:
    plan = jail.plan_for()
    if OWN_UID:
        assert plan.uid in jail.UIDS
        assert plan.fresh().uid not in (None, plan.uid)
    else:
        assert plan.fresh() == plan
        assert "uid: " in plan.advice


def test_the_ids_of_a_user_namespace_are_those_that_it_maps() -> None:
    assert jail.guest_ids("0 0 4294967295\n") == jail.UIDS
    rootless = jail.guest_ids("0 1000 1\n1 100000 65536\n")
    assert 30_000 < min(rootless) < max(rootless) < 65_534
    assert not jail.guest_ids("0 1000 1\n")


def test_nested_and_missing_paths_are_left_out_of_what_is_readable(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    (tmp_path / "link").symlink_to("a")
    names = ["a/b", "a", "ab", "link", "none"]
    assert landlock.outermost(str(tmp_path / name) for name in names) == (str(tmp_path / "a"), str(tmp_path / "ab"))


def test_the_first_folder_that_is_closed_to_others_is_found(open_folder: Path) -> None:
    packages = open_folder / "lib" / "packages"
    packages.mkdir(parents=True)
    (packages / "module.py").touch(0o644)
    assert landlock.first_closed([str(packages)]) == ""
    (packages / "module.py").chmod(0o600)
    assert landlock.first_closed([str(packages)]) == str(packages / "module.py")
    packages.chmod(0o754)
    assert landlock.first_closed([str(packages)]) == str(packages)
    packages.parent.chmod(0o700)
    assert landlock.first_closed([str(packages)]) == str(packages.parent)


def test_a_link_in_a_closed_folder_is_no_way_to_an_open_one(open_folder: Path) -> None:
    packages, closed = open_folder / "packages", open_folder / "closed"
    packages.mkdir()
    closed.mkdir(0o700)
    (closed / "venv").symlink_to(packages)
    assert landlock.first_closed([str(packages)]) == ""
    assert landlock.first_closed([str(closed / "venv")]) == str(closed)


@pytest.mark.parametrize("with_landlock", [True, False])
def test_an_interpreter_in_a_closed_folder_loads_modules_and_opens_no_other_file(
    with_landlock: bool, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's Python in /root: the guest has its uid and reads past modes, but only where Landlock lets it."""
    packages = open_folder / "closed" / "packages"
    packages.mkdir(parents=True)
    packages.parent.chmod(0o700)
    (packages / "loaded_late.py").write_text("answer = 42")
    (open_folder / "secret").write_text("secret")
    (open_folder / "secret").chmod(0o600)
    monkeypatch.syspath_prepend(str(packages))
    plan = jail.plan_for(readable=[str(packages)], landlock=with_landlock)
    if OWN_UID:
        assert plan.uid is not None
        assert plan.read_capability is not None
        assert str(packages.parent) in plan.advice

    def act() -> list[Any]:
        secret = open_folder / "secret"
        refused = ""
        try:
            secret.read_text()
        except PermissionError:
            refused = "refused"
        return [importlib.import_module("loaded_late").answer, os.getuid(), refused]

    (answer, uid, refused), layers = jailed(act, plan)
    landlocked = with_landlock and abi() > 0
    assert (answer, refused) == (42, "refused" if landlocked else "")
    assert (uid in jail.UIDS) == OWN_UID
    if OWN_UID and not landlocked:
        assert "every file is open to it" in layers["landlock"]


# --- layers that a process can look at ---


def test_every_layer_is_on_and_the_kernel_agrees() -> None:
    seen: dict[str, str] = {}

    def watch(pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        seen.update((key, value.strip()) for key, _, value in (line.partition(":") for line in status.splitlines()))

    def from_a_group_more() -> list[Any]:
        if OWN_UID:
            os.setgroups([4242])
        own_session, layers = jailed(lambda: os.getsid(0) == os.getpgrp() == os.getpid(), watch=watch)
        return [own_session, layers, seen]

    own_session, layers, seen = in_jail(from_a_group_more, layers=())
    missing = {name for name, state in layers.items() if state != "on"}
    assert own_session
    assert missing == (set() if OWN_UID else {"uid"}) | (set() if abi() else {"landlock"})
    assert tuple(layers) == jail.LAYERS
    assert (seen["NoNewPrivs"], seen["Seccomp"]) == ("1", "2")
    assert int(seen["CapEff"], 16) == int(seen["CapPrm"], 16) == int(seen["CapInh"], 16) == 0
    if OWN_UID:
        uids = set(seen["Uid"].split() + seen["Gid"].split())
        assert [int(uid) in jail.UIDS for uid in uids] == [True]
        assert seen["Groups"] == ""


def test_only_the_socket_and_dev_null_stay_open(tmp_path: Path) -> None:
    with open(tmp_path / "results.json", "w") as results:
        high = fcntl.fcntl(results, fcntl.F_DUPFD, 700)

        def act() -> list[Any]:
            null = os.stat("/dev/null").st_rdev
            standard = [os.fstat(number).st_rdev == null for number in range(3)]
            try:
                return [standard, os.fstat(high).st_size]
            except OSError as error:
                return [standard, error.errno]

        try:
            assert in_jail(act) == [[True] * 3, errno.EBADF]
            assert in_jail(act, layers=())[1] == 0
        finally:
            os.close(high)


@pytest.mark.parametrize("descriptor", [-1, 0, 2])
def test_a_standard_descriptor_cannot_be_the_one_to_keep(descriptor: int) -> None:
    with pytest.raises(ValueError, match="above 2"):
        jail.enter(PLAN, descriptor)


def test_environment_folder_and_mask_tell_and_allow_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    names, folder, mask = in_jail(lambda: [list(os.environ), os.getcwd(), os.umask(0)])
    assert (names, folder, mask) == (["TORCHINDUCTOR_CACHE_DIR"], "/", 0o077)


def test_a_guest_dies_with_its_parent() -> None:
    ours, theirs = socket.socketpair()

    def leave_a_guest_behind() -> None:
        ready, tell = os.pipe()
        if os.fork() == 0:
            jail.enter(PLAN.fresh(), theirs.fileno(), [name for name in jail.LAYERS if name != "descriptors"])
            os.write(tell, b"x")
            time.sleep(20)
            os.write(theirs.fileno(), b"alive")
            os._exit(0)
        os.read(ready, 1)

    in_jail(leave_a_guest_behind, layers=())
    theirs.close()
    with ours:
        assert ours.recv(5) == b""


# --- limits ---


def test_memory_ends_in_a_memory_error() -> None:
    limited = replace(PLAN, memory_bytes=1 << 30)
    assert in_jail(lambda: len(bytearray(2 << 30)), limited) == "MemoryError()"
    assert in_jail(lambda: mmap.mmap(-1, 2 << 30).close(), limited, layers=("descriptors",)) is None  # addresses only


@pytest.mark.parametrize(("ignored", "end"), [(False, "died of SIGXCPU"), (True, "died of SIGKILL")])
def test_time_of_the_processor_runs_out(ignored: bool, end: str) -> None:
    def act() -> None:
        if ignored:
            signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

    assert in_jail(act, replace(PLAN, cpu_seconds=1)) == end


def test_limits_are_hard_and_never_above_what_was_allowed_before() -> None:
    kinds = ("AS", "CPU", "FSIZE", "CORE", "NOFILE", "STACK")

    def act() -> dict[str, Any]:
        return {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in kinds}

    limits = in_jail(act)
    assert limits["AS"] == [PLAN.memory_bytes] * 2
    assert limits["CPU"] == [PLAN.cpu_seconds, PLAN.cpu_seconds + 1]
    assert limits["FSIZE"] == limits["CORE"] == [0, 0]
    assert limits["NOFILE"] == [64, 64]

    def in_tighter_limits() -> list[Any]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        limits, layers = jailed(act)
        return [limits["NOFILE"], layers["limits"]]

    assert in_jail(in_tighter_limits, layers=()) == [[32, 32], "on"]


def test_threads_start_but_not_without_end() -> None:
    def act() -> int:
        stop = threading.Event()
        threads: list[threading.Thread] = []
        try:
            for _ in range(300):
                threads.append(threading.Thread(target=stop.wait))
                threads[-1].start()
        except RuntimeError:
            threads.pop()
        stop.set()
        return len(threads)

    count: int = in_jail(act)
    # Without a uid of its own the number is bounded by the address space alone.
    assert 20 < count < (PLAN.max_threads if OWN_UID else 300) + 1


# --- Landlock, alone: seccomp would hide it ---


@pytest.mark.parametrize("layers", [("no_new_privs", "landlock"), ("no_new_privs",)])
def test_landlock_confines_reading_network_and_signals(layers: tuple[str, ...], open_folder: Path) -> None:
    (open_folder / "secret").write_text("x")
    parent = os.getpid()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket() as tcp:
        listener.bind("\0" + open_folder.name)
        listener.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        port = tcp.getsockname()[1]

        def reach_socket() -> None:
            with socket.socket(socket.AF_UNIX) as end:
                end.connect("\0" + open_folder.name)

        def act() -> dict[str, bool]:
            attempts: dict[str, Callable[[], Any]] = {
                "read": lambda: (open_folder / "secret").read_text(),
                "list": lambda: os.listdir(open_folder),
                "proc": lambda: Path("/proc/self/maps").read_text(),
                "connect": lambda: socket.create_connection(("127.0.0.1", port)).close(),
                "bind": lambda: socket.create_server(("127.0.0.1", 0)).close(),
                "abstract": reach_socket,
                "signal": lambda: os.kill(parent, 0),
            }
            return {name: works(attempt) for name, attempt in attempts.items()}

        worked = in_jail(act, layers=layers)
    since = {"read": 1, "list": 1, "proc": 1, "connect": 4, "bind": 4, "abstract": 6, "signal": 6}
    confined = abi() if "landlock" in layers else 0
    assert worked == {name: confined < version for name, version in since.items()}


def works(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


# --- seccomp: the program for both architectures by a small machine, then the kernel's judgement ---


def judge(program: seccomp.Code, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What the kernel's machine for classic BPF returns for a system call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    place, value = 0, 0
    while True:
        operation, if_true, if_false, constant = program[place]
        place += 1
        if operation == seccomp.RETURN:
            return constant
        if operation == seccomp.LOAD:
            value = int(struct.unpack_from("=I", data, constant)[0])
        elif operation == seccomp.AND:
            value &= constant
        elif operation == seccomp.JUMP:
            place += constant
        else:
            holds = {
                seccomp.IF_EQUAL: value == constant,
                seccomp.IF_AT_LEAST: value >= constant,
                seccomp.IF_BITS: bool(value & constant),
            }[operation]
            place += if_true if holds else if_false


PID = seccomp.OWN_PID
O_PATH_OR_LIKE = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
JUDGED = [
    ("openat", (0, 0, O_PATH_OR_LIKE), ALLOW),
    *(("openat", (0, 0, flag), EPERM) for flag in (1, 2, 3, os.O_CREAT, os.O_TRUNC, os.O_APPEND, 0o20000000)),
    ("clone", (0x3D0F00,), ALLOW),
    *(("clone", (flags,), EPERM) for flags in (0x11, 0x1200011, 0x4111, 0x3D0F00 | 0x10000000, 0x3D0F00 | 0x40000000)),
    *((name, (PID, 6), ALLOW) for name in ("kill", "tkill", "tgkill")),
    *((name, (other, 6), EPERM) for name in ("kill", "tkill", "tgkill") for other in (0, 1, PID - 1, 2**32 - 1)),
    *(("fcntl", (3, command), ALLOW) for command in (0, 1, 2, 3, 4, 1030)),
    *(("fcntl", (3, command), EPERM) for command in (5, 6, 8, 10, 15, 1024, 1033)),
    *(("ioctl", (0, request), EPERM) for request in (0x5412, 0x8901, 0x5452, 0)),
    ("prctl", (15,), ALLOW),
    *(("prctl", (option,), EPERM) for option in (1, 4, 8, 22, 35, 36, 59, 0x59616D61)),
    ("prlimit64", (0, 7, 0, 1), ALLOW),
    *(("prlimit64", arguments, EPERM) for arguments in ((1, 7, 0, 1), (0, 7, 8, 0), (0, 7, 2**40, 0))),
    ("sendto", (3, 1, 1, 0, 0, 0), ALLOW),
    *(("sendto", (3, 1, 1, 0, address, 16), EPERM) for address in (1, 2**40)),
    *(("sched_setaffinity", (pid,), verdict) for pid, verdict in ((0, ALLOW), (PID, ALLOW), (1, EPERM))),
]  # fmt: skip


@pytest.mark.parametrize("machine", list(seccomp.ARCHITECTURES))
def test_the_filter_allows_what_is_listed_and_nothing_else(machine: str) -> None:
    column, architecture = seccomp.ARCHITECTURES[machine]
    program = seccomp.build(column)
    conditional = {name for name, _, _ in JUDGED} | {"open"}
    allowed = {numbers[column] for name, numbers in seccomp.ALLOWED.items() if name not in conditional}
    never = {NUMBERS[name][column] for name in seccomp.UNKNOWN_HERE}
    restricted = {NUMBERS[name][column] for name in conditional}
    for plain in set(range(1024)) - restricted:
        refused = ENOSYS if plain in never or plain >= seccomp.YOUNG else EPERM
        assert judge(program, architecture, plain) == (ALLOW if plain in allowed else refused), plain
    for name, arguments, verdict in JUDGED:
        number = NUMBERS[name][column] or 0
        assert judge(program, architecture, number, arguments) == verdict, (name, arguments)
    for other in {audit for _, audit in seccomp.ARCHITECTURES.values()} - {architecture} | {0x40000003, 0x40000028, 0}:
        assert judge(program, other, 0) == KILL
    for x32 in (0x40000000, 0x40000000 + 39, 2**32 - 1):
        assert judge(program, architecture, x32) == (KILL if machine == "x86_64" else ENOSYS)
    assert len(program) < 4096


def test_every_call_with_a_condition_is_in_the_table_that_was_judged() -> None:
    assert set(seccomp._conditions()) == {name for name, _, _ in JUDGED} | {"open"}


# name: (x86-64, arm64), arguments; such that a process without rights gets past EPERM where nothing filters.
FORBIDDEN: dict[str, tuple[tuple[int, int], tuple[int | bytes | None, ...]]] = {
    "socket": ((41, 198), (1, 1, 0)), "socketpair": ((53, 199), (1, 1, 0, None)), "connect": ((42, 203), (-1, None, 0)),
    "bind": ((49, 200), (-1, None, 0)), "accept": ((43, 202), (-1, None, None)), "execve": ((59, 221), (None,)),
    "execveat": ((322, 281), (-1, None)), "ptrace": ((101, 117), (0x4207, 2**22)), "kcmp": ((312, 272), (2**22,)),
    "process_vm_readv": ((310, 270), (0,)), "process_vm_writev": ((311, 271), (0,)), "unshare": ((272, 97), (0,)),
    "pidfd_open": ((434, 434), (2**22, 0)), "pidfd_send_signal": ((424, 424), (-1, 0)), "setns": ((308, 268), (-1, 0)),
    "memfd_create": ((319, 279), (b"x", 0)), "memfd_secret": ((447, 447), (-1,)), "keyctl": ((250, 219), (0, -3, 1)),
    "io_uring_setup": ((425, 425), (0, None)), "io_uring_enter": ((426, 426), (-1,)), "add_key": ((248, 217), (None,)),
    "request_key": ((249, 218), (None,)), "userfaultfd": ((323, 282), (-1,)), "personality": ((135, 92), (2**32 - 1,)),
    "setuid": ((105, 146), (2**32 - 1,)), "setrlimit": ((160, 164), (99, None)), "truncate": ((76, 45), (None, 0)),
    "ftruncate": ((77, 46), (-1, 0)), "fchmod": ((91, 52), (-1, 0)), "fchmodat": ((268, 53), (-1, b"x", 0)),
    "fchown": ((93, 55), (-1, 0, 0)), "mkdirat": ((258, 34), (-1, b"x", 0)), "unlinkat": ((263, 35), (-1, b"x", 0)),
    "linkat": ((265, 37), (-1, b"x", -1, b"y", 0)), "symlinkat": ((266, 36), (b"x", -1, b"y")),
    "mknodat": ((259, 33), (-1, b"x")), "renameat2": ((316, 276), (-1, b"x", -1, b"y", 0)),
    "chdir": ((80, 49), (None,)), "utimensat": ((280, 88), (-1, b"x", None, 0)),
    "shmget": ((29, 194), (0, 4096, 0o600)), "flock": ((73, 32), (-1, 0)), "msgget": ((68, 186), (7, 0)),
    "semget": ((64, 190), (7, 1, 0)), "mq_open": ((240, 180), (None, 0)),
    "inotify_init1": ((294, 26), (-1,)), "setsockopt": ((54, 208), (-1, 0, 0, None)), "setxattr": ((188, 5), (None,)),
    "setpgid": ((109, 154), (2**22, 0)), "setpriority": ((141, 140), (9,)), "pipe2": ((293, 59), (None, 0)),
    "splice": ((275, 76), (-1, None, -1, None, 0, 0)), "landlock_create_ruleset": ((444, 444), (None, 0, 1)),
    "seccomp": ((317, 277), (2, 0, 0)), "rt_sigqueueinfo": ((129, 138), (2**22, 0, None)),
    "eventfd2": ((290, 19), (0, 0)), "timer_create": ((222, 107), (0, None, None)),
    "prlimit64": ((302, 261), (0, 99, 8, None)),
}  # fmt: skip


def test_the_kernel_refuses_each_forbidden_call_and_only_the_filter_makes_it() -> None:
    column = seccomp.column()

    def act() -> dict[str, str]:
        return {name: raw(numbers[column], *arguments) for name, (numbers, arguments) in FORBIDDEN.items()}

    assert set(in_jail(act).values()) == {"EPERM"}
    unfiltered = in_jail(act, layers=tuple(name for name in jail.LAYERS if name not in ("seccomp", "landlock")))
    # A container's own filter refuses these to everyone.
    unsure = {"userfaultfd", "personality", "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter"}
    unsure |= {"kcmp", "ptrace", "process_vm_readv", "process_vm_writev", "unshare", "setns"}
    assert {name for name, state in unfiltered.items() if state == "EPERM"} <= unsure


def test_a_libc_falls_back_from_the_calls_that_a_filter_cannot_read() -> None:
    assert in_jail(lambda: [raw(435, None, 0), raw(437, -1, None, None, 0), raw(500)]) == ["ENOSYS"] * 3


def test_the_third_numbering_of_x86_kills_and_a_plain_crash_is_a_plain_crash() -> None:
    end = in_jail(lambda: raw(0x40000000 + 39))
    assert end == ("died of SIGSYS" if seccomp.column() == 0 else "ENOSYS")
    assert in_jail(os.abort) == "died of SIGABRT"
    assert in_jail(lambda: os.kill(os.getpid(), signal.SIGTERM)) == "died of SIGTERM"
    assert in_jail(lambda: ctypes.string_at(0)) == "died of SIGSEGV"


def test_processes_start_by_no_call_and_signals_reach_no_other() -> None:
    parent = os.getpid()

    def start_another_way() -> str:
        if seccomp.column() == 0:
            return f"{raw(57)} {raw(58)} {raw(56, signal.SIGCHLD, None)}"
        return raw(220, signal.SIGCHLD, None)

    assert set(in_jail(start_another_way).split()) == {"EPERM"}
    assert in_jail(os.fork) == "EPERM"
    assert in_jail(lambda: os.kill(parent, 0)) == "EPERM"
    assert in_jail(lambda: os.killpg(0, signal.SIGTERM)) == "EPERM"
    assert in_jail(lambda: os.kill(-1, signal.SIGKILL)) == "EPERM"
    assert in_jail(lambda: fcntl.fcntl(0, fcntl.F_SETOWN, parent)) == "EPERM"


def test_files_open_for_reading_only() -> None:
    module = shutil.__file__
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_APPEND, os.O_RDONLY | os.O_TRUNC, os.O_CREAT):
        assert in_jail(lambda: os.open(module, flags)) == "EPERM", flags  # noqa: B023
    assert in_jail(lambda: os.open("/", os.O_RDWR | getattr(os, "O_TMPFILE", os.O_CREAT))) == "EPERM"
    assert in_jail(lambda: Path(module).read_text()[:3]) == '"""'


# --- what honest code needs ---


LAZY = """
import sys, os, socket, torch
torch.set_num_threads(1)
from autograder.sandbox import jail

def honest():
    import copy, inspect, linecache, random, statistics, threading, traceback
    import numpy
    x = torch.ones(3, requires_grad=True)
    assert torch.autograd.grad(x * 2, [x], grad_outputs=torch.ones(3))[0].tolist() == [2, 2, 2]
    assert torch.einsum("bi,bij,bjk->bk", torch.ones(2, 3), torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape == (2, 5)
    assert torch.func.vmap(lambda row: row * 2)(torch.ones(2, 3)).sum() == 12
    assert torch.func.jacrev(lambda row: row * 2)(torch.ones(3)).sum() == 6
    layer = copy.deepcopy(torch.nn.TransformerEncoderLayer(8, 2, 16))
    layer(torch.ones(3, 2, 8)).sum().backward()
    torch.optim.Adam(layer.parameters()).step()
    import sympy
    assert sympy.sqrt(8) == 2 * sympy.sqrt(2)
    assert "é".encode("cp037") and statistics.mean([1, 3]) == 2 and os.urandom(4) and random.SystemRandom().random()
    assert linecache.getline(statistics.__file__, 1) and "class Linear" in inspect.getsource(torch.nn.Linear)
    torch.seed(), numpy.random.default_rng().normal(), numpy.linalg.svd(numpy.eye(3)), repr(torch.rand(3, 3))
    torch.set_num_threads(2)
    assert (torch.ones(400, 400) @ torch.ones(400, 400))[0, 0] == 400
    try:
        statistics.mean([])
    except statistics.StatisticsError:
        assert "in mean" in traceback.format_exc() and "raise StatisticsError" in traceback.format_exc()

ours, theirs = socket.socketpair()
if os.fork() == 0:
    try:
        jail.enter(jail.plan_for(), theirs.fileno())
        honest()
        theirs.sendall(b"all work")
    except BaseException as error:
        import traceback
        theirs.sendall("".join(traceback.format_exception(error)).encode())
    os._exit(0)
theirs.close()
print(ours.makefile().read())
"""


def test_torch_and_lazy_imports_work_inside() -> None:
    """In an interpreter of its own: torch in this one would start threads, and then a fork hangs."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(jail.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, env=environment)
    assert done.stdout == "all work\n", done.stdout + done.stderr


# --- the grader's own memory ---


@pytest.mark.parametrize("closed_by", ["make_undumpable", "the jail", "nothing"])
def test_memory_is_closed_to_other_processes_of_the_same_user(closed_by: str) -> None:
    def read_from_a_child() -> bool:
        if OWN_UID:
            os.setgroups([])
            os.setresgid(12345, 12345, 12345)
            os.setresuid(12345, 12345, 12345)
        seccomp.syscall("prctl", jail.PR_SET_DUMPABLE, 1, 0, 0, 0)
        ready, tell_ready = os.pipe()
        target = os.fork()
        if target == 0:
            if closed_by == "make_undumpable":
                jail.make_undumpable()
            elif closed_by == "the jail":
                jail.enter(replace(PLAN, uid=None), tell_ready)
            os.write(tell_ready, b"x")
            signal.pause()
        os.read(ready, 1)
        opened = works(lambda: os.close(os.open(f"/proc/{target}/mem", os.O_RDONLY)))
        os.kill(target, signal.SIGKILL)
        os.waitpid(target, 0)
        return opened

    assert in_jail(read_from_a_child, layers=()) == (closed_by == "nothing")
