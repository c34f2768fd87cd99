"""The zips of lab 1, built once for all tests, and interpreters that lack a package."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from conftest import ROOT

from autograder import bundle


@cache
def zips() -> Path:
    """A folder with both zips of lab 1."""
    folder = Path(tempfile.mkdtemp(prefix="zips-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    bundle.write_zips("attention", ROOT, folder)
    return folder / "attention"


def unzipped(name: str, folder: Path) -> Path:
    """Unpack one of the zips into `folder`, with the modes that are stored in it."""
    with zipfile.ZipFile(zips() / name) as archive:
        for item in archive.infolist():
            path = Path(archive.extract(item, folder))
            path.chmod(item.external_attr >> 16 & 0o777)
    return folder


def python_without(folder: Path, *packages: str) -> Path:
    """An interpreter in a venv of its own that has what this one has, without some packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    for item in Path(sysconfig.get_path("purelib")).iterdir():
        if item.name.split("-")[0].split(".")[0] not in packages:
            (site / item.name).symlink_to(item)
    return folder / "venv" / "bin" / "python"


def run(command: list[str | Path], **given: object) -> subprocess.CompletedProcess[str]:
    """Run a command with one thread, and hand back what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **given.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **given)  # type: ignore[call-overload, no-any-return]
