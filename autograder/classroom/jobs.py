"""One hand-in that waits for its grading, and the key under which its result is kept.

The key is a digest of all that a result depends on: the bytes of the hand-in, the lab, the framework, and the versions of
what computes. Where none of them changed, the result of an earlier run is the result.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import platform
from collections.abc import Iterator
from dataclasses import dataclass

from autograder import bundle, course, language
from autograder import lab as labs
from autograder.lab import Lab
from autograder.submission import Submission

# What they import, directly or not, is what a result depends on: no report, no command, nothing that only hands out.
GRADING = ("autograder.session", "autograder.submission", "autograder.sandbox.zygote")
LAB_FILES = ("lab.toml", "checks.py", "mistakes.py", "questions.toml")


@dataclass(frozen=True)
class Job:
    """All that a worker needs, on this machine or another. `grader` is the digest of lab and framework."""

    root: str
    lab: str
    grader: str
    submission: Submission
    language: str = ""  # in which it is told; empty: the course's

    @property
    def key(self) -> str:
        """What the result is kept under."""
        own = self.submission
        # The names beside the bytes: they stand in the notes and lines of the result.
        parts = [self.grader, own.digest, *own.missing, *map(repr, own.notes), repr(sorted(own.origins.items()))]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()


def grader_digest(lab: Lab) -> str:
    """SHA-256 over everything else that a result depends on."""
    digest = hashlib.sha256()
    for name, data in _parts(lab):
        for part in (name.encode(), data):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _parts(lab: Lab) -> Iterator[tuple[str, bytes]]:
    yield "versions", "\n".join([platform.python_version(), *map(_version, ("torch", "numpy"))]).encode()
    checks = course.read_text(lab.root / "assignments" / lab.name / "checks.py")
    for file in bundle.imported_files([*GRADING, *bundle.imported_modules(ast.parse(checks))]):
        yield file, (bundle.PACKAGE.parent / file).read_bytes()
    for name in (lab.name, *(required for required, _ in labs.prerequisites(lab.file, lab.root))):
        for file in LAB_FILES:
            path = lab.root / "assignments" / name / file
            if path.exists():
                yield f"assignments/{name}/{file}", path.read_bytes()
    yield "language", lab.language.encode()
    for path in language.files(lab.language, lab.folder):
        yield path.name, path.read_bytes()
    for module, (place, text) in lab.reference.files.items():
        yield f"{module} {place}", text.encode()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)  # without importing it
    except importlib.metadata.PackageNotFoundError:
        return ""
