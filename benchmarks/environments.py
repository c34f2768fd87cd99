"""A virtual environment for each peer below `.bench/`, with pinned versions; torch is installed once and seen by all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT

FOLDER = ROOT / ".bench"
# Alone and first: a resolver that sees other requirements beside it may take a build for other hardware.
TORCH = "torch==2.13.0"
NUMPY = "numpy==2.2.6"


class CannotInstall(Exception):
    """A peer that cannot be had here, in one line."""


def python_with_torch() -> Path:
    """An interpreter whose environment holds torch and numpy, and nothing else."""
    return _environment("torch", (TORCH,), (NUMPY,))


def python_of(peer: str, *requirements: str) -> Path:
    """The interpreter of a peer's environment, made where it is not there yet. Raises CannotInstall."""
    shared = _site_packages(python_with_torch())
    return _environment(peer, requirements, sees=shared)


def _environment(name: str, *installs: tuple[str, ...], sees: Path | None = None) -> Path:
    folder = FOLDER / name
    python, stamp = folder / "bin" / "python", folder / ".ready"
    wanted = "\n".join([sys.version, *(" ".join(packages) for packages in installs)])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"installing {' '.join(package for packages in installs for package in packages)} in {folder}", flush=True)
    _call(sys.executable, "-m", "venv", str(folder))
    if sees:
        (_site_packages(python) / "torch.pth").write_text(f"{sees}\n")
    for packages in installs:
        _call(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    stamp.write_text(wanted)
    return python


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise CannotInstall(
            next((line for line in said if line.startswith("ERROR")), said[-1] if said else "no reason given")
        )


def _site_packages(python: Path) -> Path:
    return next((python.parent.parent / "lib").glob("python3*/site-packages"))
