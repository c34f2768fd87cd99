"""What an ordinary in-process grader pays for an attack: gradescope-utils' own runner, tests beside the student's file.

For comparison only. Each runs in a process of its own, forked from one with torch in it, under limits that keep the machine
whole; that such a grader has none of its own is the point. A hand-in that takes all its time "hangs"; one that leaves no
results that can be read is paid "nothing".
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from attacking import MARK, ROOT, WRITABLE, Attack

FIXTURES = Path(__file__).resolve().parent / "fixtures" / "ordinary"
SECONDS = 8.0
Payment = float | str


def payments(folder: Path, chosen: list[Attack]) -> dict[str, Payment]:
    """What is paid for each attack, by name. `folder`/made holds the hand-ins that were made."""
    handed_in = {}
    for attack in chosen:
        place = folder / "ordinary" / attack.name.replace("/", "-")
        made = folder / "made" / attack.name.replace("/", "-") / "path"
        source = Path(made.read_text()) if attack.maker.exists() else None
        if source is None:
            source = place / "hand-in"
            source.mkdir(parents=True)
            known = {"COURSE": str(place / "source"), "RESULTS": str(place / "results"), "GRADER": "@GRADER@"}
            attack.write(source, known)
        lay_out(source, place)
        handed_in[attack.name] = str(place)
    return run(folder, handed_in)


def payment(folder: Path, hand_in: Path) -> Payment:
    """What is paid for one hand-in."""
    place = folder / "ordinary" / "one"
    lay_out(hand_in, place)
    return run(folder, {"one": str(place)})["one"]


def lay_out(hand_in: Path, place: Path) -> None:
    """The folders of the platform: what was handed in is copied over the tests, as most set-ups do."""
    source = place / "source"
    source.mkdir(parents=True, exist_ok=True)
    (place / "results").mkdir(exist_ok=True)
    for path in FIXTURES.iterdir():
        shutil.copy(path, source)
    shutil.copy(ROOT / "reference" / "attention" / "attention.py", source / "solution.py")
    if hand_in.is_file():
        with contextlib.suppress(zipfile.BadZipFile, RuntimeError), zipfile.ZipFile(hand_in) as archive:
            archive.extractall(source)
        return
    for path in hand_in.iterdir():
        if path.is_file():
            shutil.copy(path, source)
        elif path.is_fifo():
            os.mkfifo(source / path.name)


def run(folder: Path, places: dict[str, str]) -> dict[str, Payment]:
    """Grade each place in a process of its own."""
    given, paid = folder / "ordinary" / "places.json", folder / "ordinary" / "paid.json"
    given.write_text(json.dumps(places))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-B", __file__, str(given), str(paid)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found: dict[str, Payment] = json.loads(paid.read_text())
    return found


def main(given: Path, paid: Path) -> None:
    import numpy  # noqa: F401  (with torch, so that no hand-in waits for them)
    import torch

    torch.set_num_threads(1)
    found = {name: grade(Path(place)) for name, place in json.loads(given.read_text()).items()}
    paid.write_text(json.dumps(found))


def grade(place: Path) -> Payment:
    """Fork, wait, and look at the results file as the platform does: at the end, whatever the status."""
    uid = 0x70000000 + os.getpid() % 1000 if os.geteuid() == 0 else os.geteuid()
    guard = os.fork()
    if guard == 0:
        # A process between: what kills its parent does not reach this one.
        os.setsid()
        if os.geteuid() == 0:
            become(uid, place)
        worker = os.fork()
        if worker == 0:
            os.setsid()
            become_grader(place)
        os.waitpid(worker, 0)
        os._exit(0)
    hangs = not _ended(guard)
    _clean_up(uid)
    results = place / "results" / "results.json"
    try:
        document = json.loads(results.read_text())
        score = document["score"] if "score" in document else sum(test["score"] for test in document["tests"])
        return float(score)
    except (OSError, ValueError, KeyError, TypeError):
        return "hangs" if hangs else "nothing"


def become(uid: int, place: Path) -> None:
    """An ordinary user who owns the place: an attack of this kind can spoil what it can write, and nothing more."""
    for path in (place, *place.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def become_grader(place: Path) -> None:
    """Run the tests, under limits that keep this machine whole."""
    limits = {"AS": 6 << 30, "FSIZE": 64 << 20, "CPU": 60, "CORE": 0, "NOFILE": 256}
    if os.geteuid() >= 0x70000000:
        limits["NPROC"] = 400
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    for source in (place / "source").glob("attention.py"):
        if source.is_file():
            source.write_text(source.read_text(errors="surrogateescape").replace("@GRADER@", str(os.getppid())),
                              errors="surrogateescape")  # fmt: skip
    os.chdir(place / "source")
    sys.path.insert(0, "")
    sys.dont_write_bytecode = True
    try:
        runpy.run_path("run_tests.py", run_name="__main__")
    finally:
        os._exit(0)


def _ended(pid: int) -> bool:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def _clean_up(uid: int) -> None:
    """End what it left running, and remove what it wrote outside of its place."""
    ends = time.monotonic() + 10
    while time.monotonic() < ends and (left := [pid for pid in _processes() if _belongs(pid, uid)]):
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for folder in WRITABLE:
        for entry in os.scandir(folder):
            written = entry.name.startswith(MARK) or entry.name in ("results.json", "record.json")
            with contextlib.suppress(OSError):
                if written and entry.stat(follow_symlinks=False).st_uid == uid:
                    os.unlink(entry.path)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _belongs(pid: int, uid: int) -> bool:
    """Whether it is one of ours to end: of the uid that we gave away, or (as an ordinary user) of our own family."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
        session = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[3])
    except OSError:
        return False
    fields = dict(line.split(b":", 1) for line in status.splitlines() if b":" in line)
    if fields[b"State"].split()[0] in (b"Z", b"X") or pid == os.getpid():
        return False
    if uid != os.geteuid():
        return int(fields[b"Uid"].split()[0]) == uid
    return int(fields[b"PPid"].split()[0]) == 1 and session != os.getsid(0) and b"attention" in _folder(pid)


def _folder(pid: int) -> bytes:
    try:
        return os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return b""


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]
    main(Path(sys.argv[1]), Path(sys.argv[2]))
