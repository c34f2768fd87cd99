"""The layers around a guest, put on after the fork and before a byte of the submission is read. None can be taken off.

Who decides: the grader makes a plan at its start (`plan_for`), the zygote passes it on, the child puts it on (`enter`)
and reports which layers hold. Whether they hold together is not believed but tried: see preflight.py.

Each layer is there for what the others cannot do; docs/security.md has the table. Where a system lacks one, the rest
still goes on, and the report says what is missing. On macOS that is all but session, descriptors and limits.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.sandbox import landlock, seccomp
from autograder.sandbox.landlock import first_closed, interpreter_paths, outermost, shared_paths
from autograder.sandbox.seccomp import Unavailable, syscall

if sys.platform != "win32":
    import resource

# No distribution, container manager or systemd hands these out (systemd.io/UIDS-GIDS).
UIDS = range(0x70000000, 0x7FFFFFFE)
UID_MAP = "/proc/self/uid_map"
OPEN_FILES = 64
STACK_BYTES = 8 << 20

# In this order: the filter last, since what comes before it needs calls that it refuses.
LAYERS = (
    "session",
    "descriptors",
    "surroundings",
    "limits",
    "uid",
    "capabilities",
    "no_new_privs",
    "landlock",
    "seccomp",
)

DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID = 1, 2, 6, 7
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 1, 4, 8, 38


@dataclass(frozen=True)
class JailPlan:
    """What a guest may use. `asdict` gives JSON, `JailPlan(**json)` takes it back.

    Attributes:
        uid: user and group that the guest becomes; None keeps the grader's.
        read_capability: a capability number that the guest keeps, or None; see `plan_for`.
        memory_bytes: address space, not resident memory; torch alone maps 0.6 GiB.
        cpu_seconds: CPU time of the whole guest; then SIGXCPU, and a second later, where that was ignored, SIGKILL.
        max_threads: limit on processes and threads of the uid; without an own uid it would count those of others.
        readable: folders and files that may be read.
        advice: one sentence on what would make the jail tighter, or "".
    """

    uid: int | None = None
    read_capability: int | None = None
    memory_bytes: int = 3 << 30
    cpu_seconds: int = 60
    max_threads: int = 64
    readable: tuple[str, ...] = ()
    landlock: bool = True
    seccomp: bool = True
    advice: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "readable", tuple(self.readable))

    def fresh(self) -> JailPlan:
        """The same plan for the next guest: another uid, so that guests cannot touch each other."""
        return self if self.uid is None else replace(self, uid=random_uid())


@dataclass(frozen=True)
class JailReport:
    """What `enter` did: `layers` maps each layer to "on", or to the reason why it is missing."""

    layers: dict[str, str] = field(default_factory=dict)

    @property
    def applied(self) -> list[str]:
        return [layer for layer, state in self.layers.items() if state == "on"]

    @property
    def missing(self) -> dict[str, str]:
        return {layer: state for layer, state in self.layers.items() if state != "on"}


def plan_for(
    memory_bytes: int = 3 << 30,
    cpu_seconds: int = 60,
    readable: Sequence[str] = (),
    landlock: bool = True,
    seccomp: bool = True,
) -> JailPlan:
    """Decide what this system allows; `readable` adds to what the running interpreter needs. Takes a few ms.

    A uid of its own needs root, and an interpreter that this uid can read. Where root's Python lies in a closed folder
    (`/root/.pyenv`, a venv with mode 0700), the guest still gets its uid, and keeps the one capability to read past
    file modes, so that modules load lazily. Landlock confines what is read to `readable`, and the foreign uid guards
    all else: signals, ptrace, /proc, files of root. The other way, uid 0 without capabilities, owns root's files and
    processes, so each of these would hang on Landlock or seccomp alone; it guards nothing that this one does not.
    Without Landlock neither keeps a guest from reading root's files, and preflight says so.
    """
    own = [*interpreter_paths(), *readable]
    plan = JailPlan(
        memory_bytes=memory_bytes,
        cpu_seconds=cpu_seconds,
        readable=outermost([*own, *shared_paths()]),
        landlock=landlock,
        seccomp=seccomp,
    )
    if sys.platform != "linux":
        return replace(plan, advice="only Linux can confine a submission: grade in a Linux container.")
    if os.geteuid() != 0:
        return replace(plan, advice="the grader is not root, so guests keep its uid: run it as root in a container.")
    capabilities = effective_capabilities()
    if not {SETUID, SETGID} <= capabilities or not guest_ids(Path(UID_MAP).read_text()):
        return replace(plan, advice="this container keeps root from changing its uid: allow it SETUID and SETGID.")
    closed = first_closed(own)
    if not closed:
        return replace(plan, uid=random_uid())
    advice = f"{closed} is closed to all users but root: install Python and its packages where everyone may read them."
    # Docker's default set lacks the narrower one. Landlock stops both; writing, which the wider one allows, too.
    kept = next((number for number in (DAC_READ_SEARCH, DAC_OVERRIDE) if number in capabilities), None)
    return replace(plan, uid=None if kept is None else random_uid(), read_capability=kept, advice=advice)


def enter(plan: JailPlan, keep_fd: int, layers: Sequence[str] = LAYERS) -> JailReport:
    """Confine this process for good. Call right after the fork, in its one thread; takes 1–2 ms.

    `keep_fd` (above 2) stays open, every other descriptor goes: close the objects that own them before, so that none
    closes a number that is in use again. What the process had in memory, its first environment too, stays readable.
    The process dies with its parent. Fewer `layers` are for tests of what each is good for.
    Raises ValueError for a `keep_fd` below 3; whatever else fails is in the report, and the rest goes on.
    """
    if keep_fd < 3:
        raise ValueError(f"the descriptor to keep must be above 2, not {keep_fd}: 0, 1 and 2 become /dev/null")
    put_on: dict[str, Callable[[], object]] = {
        "session": _session,
        "descriptors": lambda: _descriptors(keep_fd),
        "surroundings": _surroundings,
        "limits": lambda: _limits(plan),
        "uid": lambda: _uid(plan),
        "capabilities": lambda: _capabilities(plan),
        "no_new_privs": _no_new_privileges,
        "landlock": lambda: _landlock(plan),
        "seccomp": lambda: _seccomp(plan),
    }
    states = {}
    for layer in layers:
        try:
            put_on[layer]()
            states[layer] = "on"
        except Unavailable as error:
            states[layer] = str(error)
        except (OSError, ValueError) as error:
            states[layer] = f"refused by the system: {error}"
    if plan.read_capability is not None and states.get("landlock", "on") != "on":
        states["landlock"] += "; the guest reads past file modes, so every file is open to it"
    return JailReport(states)


def make_undumpable() -> bool:
    """Keep processes of the same uid from tracing this one and reading its memory. False where it cannot be done.

    For the grader and the oracle, whose memory holds answers. Its files in /proc belong to root from then on.
    """
    if sys.platform != "linux":
        return False
    _prctl(PR_SET_DUMPABLE, 0)
    return True


def random_uid() -> int:
    """A user id that nobody has; where a user namespace lacks the high ones, one from its upper half. Linux only."""
    ids = guest_ids(Path(UID_MAP).read_text())
    return ids[secrets.randbelow(len(ids))]


def effective_capabilities() -> set[int]:
    """The numbers of the capabilities that this process can use."""
    status = Path("/proc/self/status").read_text()
    bits = int(status.split("CapEff:", 1)[1].split(None, 1)[0], 16)
    return {number for number in range(64) if bits >> number & 1}


def guest_ids(uid_map: str) -> Sequence[int]:
    """The ids for guests in a user namespace with this map (`/proc/self/uid_map`); none where it maps root alone."""
    lines = uid_map.splitlines()
    extents = [range(int(first), int(first) + int(count)) for first, _, count in map(str.split, lines)]
    if any(UIDS[0] in extent and UIDS[-1] in extent for extent in extents):
        return UIDS
    longest = max(extents, key=len, default=range(0))
    return longest[len(longest) // 2 : -1024]  # not the very end: nobody is 65534


def _session() -> None:
    if os.getsid(0) != os.getpid():
        os.setsid()


def _descriptors(keep_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    try:
        # Listed, not counted up: the limit on open files may be a million, and closing each takes its time.
        descriptors = [int(name) for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")]
    except OSError:
        descriptors = list(range(os.sysconf("SC_OPEN_MAX")))
    for descriptor in descriptors:
        if descriptor > 2 and descriptor != keep_fd:
            os.closerange(descriptor, descriptor + 1)


def _surroundings() -> None:
    os.environ.clear()
    # Optimizers and torch.func import a part of torch that makes its cache's folder, or fails; this one is there.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/"
    os.chdir("/")
    os.umask(0o077)
    sys.dont_write_bytecode = True


def _limits(plan: JailPlan) -> None:
    # Out of memory, the kernel shall end this process and not the grader. A wish: an undumpable zygote's child may not
    # write there.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    limits = {"AS": plan.memory_bytes, "FSIZE": 0, "CORE": 0, "NOFILE": OPEN_FILES, "STACK": STACK_BYTES, "MSGQUEUE": 0}
    if plan.uid is not None:
        limits["NPROC"] = plan.max_threads
    refused = []
    for name, value in {**limits, "CPU": plan.cpu_seconds + 1}.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        hard = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (min(plan.cpu_seconds, hard) if name == "CPU" else hard, hard))
        except (OSError, ValueError):
            refused.append(name)
    if refused:
        raise Unavailable(f"{sys.platform} sets no limit on {', '.join(refused)}")


def _uid(plan: JailPlan) -> None:
    if plan.uid is None:
        raise Unavailable(plan.advice or "the plan keeps the grader's uid")
    if plan.read_capability is not None:
        _prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(plan.uid, plan.uid, plan.uid)
    os.setresuid(plan.uid, plan.uid, plan.uid)


def _capabilities(plan: JailPlan) -> None:
    if sys.platform != "linux":
        raise Unavailable(f"{sys.platform} has no capabilities")
    keep = 0
    if plan.read_capability is not None and os.geteuid() == plan.uid:
        keep = 1 << plan.read_capability
    version_3, this_process = 0x20080522, 0
    effective, permitted, inheritable = keep, keep, 0
    sets = struct.pack("=6I", effective, permitted, inheritable, 0, 0, 0)  # the lower 32 numbers, then the upper
    syscall("capset", struct.pack("=Ii", version_3, this_process), sets)


def _no_new_privileges() -> None:
    if sys.platform != "linux":
        raise Unavailable(f"{sys.platform} has no no_new_privs")
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    make_undumpable()  # guests that share the grader's uid shall not read each other
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the kernel forgets it at a change of uid, hence not earlier


def _landlock(plan: JailPlan) -> None:
    if not plan.landlock:
        raise Unavailable("switched off in the plan")
    landlock.restrict(plan.readable)


def _seccomp(plan: JailPlan) -> None:
    if not plan.seccomp:
        raise Unavailable("switched off in the plan")
    seccomp.install(os.getpid())


def _prctl(option: int, value: int) -> None:
    syscall("prctl", option, value, 0, 0, 0)
