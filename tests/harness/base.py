"""A bare root file system with nothing of ours in it, made once by mmdebstrap or debootstrap and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness import CannotRun

SUITE = "bookworm"
# What Gradescope's image is documented to have: its own harness is a python3, and it unpacks an autograder with these tools.
PACKAGES = ("ca-certificates", "curl", "dos2unix", "python3", "unzip")
STAMP = ".made"
TOOLS = ("mmdebstrap", "debootstrap")


def missing(root_is_there: bool = False) -> str:
    """What this machine lacks, in one sentence with what to do; empty where nothing is."""
    if sys.platform != "linux":
        return "the platform harness needs Linux: it enters a root file system of its own"
    if os.geteuid() != 0:
        return "the platform harness needs root, as it mounts file systems: sudo make platform"
    if not root_is_there and not tool():
        return "the platform harness needs mmdebstrap: on Debian and Ubuntu, apt-get install mmdebstrap"
    return ""


def tool() -> str:
    """The first of the tools that is there."""
    return next((name for name in TOOLS if shutil.which(name)), "")


def command(name: str, folder: Path) -> list[str]:
    """How that tool makes the root in a folder."""
    wanted = ",".join(PACKAGES)
    if name == "mmdebstrap":
        kind = ["--mode=root", "--format=directory", "--quiet"]
        return [name, *kind, "--variant=minbase", f"--include={wanted}", SUITE, str(folder)]
    return [name, "--variant=minbase", f"--include={wanted}", SUITE, str(folder)]


def made(folder: Path) -> Path:
    """The root below `folder`, made where it is not there yet. Raises CannotRun."""
    root = folder / f"base-{SUITE}"
    wanted = " ".join(PACKAGES)
    stamp = root.with_suffix(STAMP)
    there = stamp.exists() and stamp.read_text(encoding="utf-8") == wanted
    if lack := missing(root_is_there=there):
        raise CannotRun(lack)
    if there:
        return root
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command(tool(), root), capture_output=True, text=True, check=False)
    if done.returncode:
        last = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()][-1:]
        raise CannotRun(f"{tool()} could not make a {SUITE} root: {''.join(last) or 'it gave no reason'}")
    stamp.write_text(wanted, encoding="utf-8")
    return root


def release(root: Path) -> str:
    """What the root is, as it says itself."""
    lines = (root / "etc/os-release").read_text(encoding="utf-8").splitlines()
    names = dict(line.partition("=")[::2] for line in lines)
    version = (root / "etc/debian_version").read_text(encoding="utf-8").strip()
    return f"{names['PRETTY_NAME'].strip(chr(34))}, {version}"
