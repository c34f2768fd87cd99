"""Hand-ins made from a lab's own folders: its starter, its reference, the other right ways, and each mistake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder import bundle, diagnose
from autograder.diagnose import Mistake
from autograder.lab import Lab
from autograder.submission import Submission


@dataclass(frozen=True)
class Specimen:
    """One of them."""

    kind: str  # "starter", "reference", "alternative", "mistake"
    name: str
    hand_in: Submission
    mistake: Mistake | None = None

    @property
    def who(self) -> str:
        """What a fault is told of."""
        return f"{self.kind} {self.name}"


def of(lab: Lab) -> Iterator[Specimen]:
    """Starter, reference, alternatives and mistakes, each as a hand-in."""
    starter = bundle.starter_files(lab)[lab.file.main]
    yield Specimen("starter", "untouched", handed_in("starter", {lab.file.main: starter}, lab))
    yield Specimen("reference", "reference", handed_in("reference", with_mistake(lab), lab))
    for folder in alternatives(lab):
        yield Specimen("alternative", folder.name, handed_in(folder.name, completed(lab, folder), lab))
    for item in lab.mistakes:
        yield Specimen("mistake", item.name, handed_in(item.name, with_mistake(lab, item), lab), item)


def with_mistake(lab: Lab, *mistakes: Mistake) -> dict[str, bytes]:
    """The reference's files with one or more mistakes made in them, as a student would hand them in."""
    changed = diagnose.patches(mistakes, lab.reference, lab.main_module)
    return {f"{module}.py": text.encode() for module, text in diagnose.patched(lab.reference, changed).items()}


def completed(lab: Lab, folder: Path) -> dict[str, bytes]:
    """The files of an alternative or an example, with the reference's in the place of those that it leaves out."""
    return {**with_mistake(lab), **{path.name: path.read_bytes() for path in folder.glob("*.py")}}


def handed_in(name: str, files: dict[str, bytes], lab: Lab) -> Submission:
    """Files as a hand-in, in the order in which the lab wants them."""
    found = {wanted: files[wanted] for wanted in lab.wanted if wanted in files}
    missing = tuple(wanted for wanted in lab.wanted if wanted not in files)
    return Submission(name, found, {}, (), missing, {wanted: wanted for wanted in found})


def alternatives(lab: Lab) -> list[Path]:
    """The folders of other correct solutions."""
    folder = lab.root / "reference" / lab.name / "alternatives"
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
