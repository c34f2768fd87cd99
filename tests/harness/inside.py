"""The first process of a container: mounts its root, gives up what Docker gives up, and runs one command as a harness does.

Started by container.py in namespaces of its own, told what to do on its standard input; tells on its standard output how it
went. All that it needs is imported before the root changes. As in a container, whatever is left ends with this process.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import launch

PAUSE = 0.05
GRACE = 5.0  # seconds in which what was left behind may end by itself
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
QUIET = "nosuid,nodev,noexec"
# As Docker has them: what tells of the machine is covered, what would change it can only be read.
COVERED = ("proc/kcore", "proc/keys", "proc/timer_list")
READ_ONLY = ("proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger")


def main() -> None:
    """Enter, run, tell."""
    spec: dict[str, Any] = json.load(sys.stdin)
    mount(spec)
    Path(spec["printed"]).parent.mkdir(parents=True, exist_ok=True)
    doors = [os.open(door, os.O_WRONLY) for door in spec["doors"]]
    with open(spec["printed"], "wb") as printed:
        os.chroot(spec["root"])
        os.chdir(spec["folder"] if os.path.isdir(spec["folder"]) else "/")
        if not spec["landlock"]:
            launch.become("no landlock")
        launch.become("docker")
        print(json.dumps(run(spec, doors, printed.fileno())))


def mount(spec: dict[str, Any]) -> None:
    """The root with all that a container finds in it."""
    root = Path(spec["root"])
    layers = ":".join(spec["layers"])
    _mount("overlay", root, "overlay", f"lowerdir={layers},upperdir={spec['upper']},workdir={spec['work']}")
    _mount("proc", root / "proc", "proc", QUIET)
    _mount("sysfs", root / "sys", "sysfs", f"ro,{QUIET}")
    _mount("tmpfs", root / "dev", "tmpfs", "nosuid,mode=755,size=65536k")
    for name, numbers in DEVICES.items():
        os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        os.chmod(root / "dev" / name, 0o666)
    for name, target in LINKS.items():
        os.symlink(target, root / "dev" / name)
    for name in ("pts", "shm", "mqueue"):
        (root / "dev" / name).mkdir()
    _mount("devpts", root / "dev/pts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", root / "dev/ptmx")
    _mount("tmpfs", root / "dev/shm", "tmpfs", f"{QUIET},size=65536k,mode=1777")
    for name in COVERED:
        if (root / name).exists():
            _mount(str(root / "dev/null"), root / name, "", "bind")
    for name in READ_ONLY:
        if (root / name).exists():
            _bind(root / name, root / name)
    for path in ("/etc/resolv.conf", *spec["shared"]):
        _bind(Path(path), root / path.removeprefix("/"))


def _bind(source: Path, target: Path) -> None:
    """Have a file or a folder seen elsewhere, to be read only."""
    source = source.resolve()
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(source), target, "", "bind")
    _mount("", target, "", "remount,bind,ro")


def _mount(source: str, target: Path, kind: str, options: str) -> None:
    words = ["mount", *(["-t", kind] if kind else []), "-o", options, *([source] if source else []), str(target)]
    subprocess.run(words, check=True)


def run(spec: dict[str, Any], doors: list[int], printed: int) -> dict[str, Any]:
    """Run the command until it ends or reaches its limit, at which it alone is killed; then see what is left."""

    def enter() -> None:
        for door in doors:
            os.write(door, b"0")

    begun = time.monotonic()
    child = subprocess.Popen(
        spec["command"],
        env=spec["environment"],
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=printed,
        preexec_fn=enter,
    ).pid
    status, limit = None, False
    while status is None:
        time.sleep(PAUSE)
        spent = time.monotonic() - begun
        status = reap(child)
        over = 0 < spec["seconds"] < spent or (0 < spec["points"] <= earned(read(spec["results"])))
        if status is None and over and not limit:
            os.kill(child, signal.SIGKILL)
            limit = True
    found = read(spec["results"])
    spent = time.monotonic() - begun
    return {"status": status, "seconds": spent, "limit": limit, "left": left_behind(), "results": found}


def reap(child: int) -> int | None:
    """Take in every process that has ended, as a first process must; the child's status, where it has."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        if pid == child:
            found = os.waitstatus_to_exitcode(status)


def read(path: str) -> str | None:
    """A file as it lies, whatever is in it."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return None


def earned(text: str | None) -> float:
    """The points that a results file tells of."""
    try:
        return float(json.loads(text or "{}")["score"])
    except (ValueError, LookupError, TypeError):
        return 0.0


def left_behind() -> list[str]:
    """The processes that are still there when they have had some time to end."""
    until = time.monotonic() + GRACE
    while True:
        reap(0)
        names = [
            name for pid in os.listdir("/proc") if pid.isdigit() and pid != "1" for name in [_command(pid)] if name
        ]
        if not names or time.monotonic() > until:
            return names
        time.sleep(PAUSE)


def _command(pid: str) -> str:
    return (read(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip() or (read(f"/proc/{pid}/comm") or "").strip()


if __name__ == "__main__":
    main()
