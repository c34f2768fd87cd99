"""A lab: its `lab.toml`, checks, questions and the sources that the oracle runs, loaded and found consistent.

Nothing is half loaded: what does not fit together raises AuthoringError with file, place and what to do.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import types
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from autograder import course
from autograder.check import AuthoringError, Check, build
from autograder.questions import Question
from autograder.result import points
from autograder.sandbox.proxy import Program


class Limits(BaseModel):
    """What one hand-in may take. Values beyond what any platform grants are refused, not capped in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds_per_call: float = Field(5.0, gt=0, le=120)
    seconds_per_run: float = Field(300.0, gt=0, le=2400)
    memory_mb: int = Field(3072, ge=1024, le=16384)


class Section(BaseModel):
    """One part of the lab, with the points that its checks add up to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: str = Field(pattern=r"^\d+\.\d+$")
    title: str
    points: float = Field(ge=0)
    extra_credit: bool = False


class LabFile(BaseModel):
    """`lab.toml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    main: str = Field(pattern=r"^[a-z_][a-z0-9_]*\.py$")
    requires: tuple[str, ...] = ()
    secret: str = Field("", description="seeds the hidden probes; empty in what students receive")
    limits: Limits = Limits()
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Lab:
    """Everything that grading a hand-in of this lab needs."""

    name: str
    file: LabFile
    checks: tuple[Check, ...]
    questions: dict[str, Question]
    wanted: tuple[str, ...]  # the files of a hand-in, the lab's own first
    reference: Program
    contract: dict[str, list[str]]  # module → the names that the files of a hand-in must define
    root: Path

    @property
    def main_module(self) -> str:
        """The module name of the lab's own file."""
        return self.file.main.removesuffix(".py")

    @property
    def max_score(self) -> float:
        """Points without extra credit."""
        return points(section.points for section in self.file.sections if not section.extra_credit)

    def section(self, check: Check) -> Section:
        """The section that a check belongs to."""
        return next(section for section in self.file.sections if section.number == check.section)

    def probe_seed(self, check: Check, secret: bool) -> str:
        """The text that a check's probes follow from: public for what students run themselves, secret otherwise."""
        return f"{self.name}/{check.name}/{self.file.secret if secret else 'handed out'}"

    def seed_digest(self) -> str:
        """Tells two secrets apart without telling either."""
        return hashlib.sha256(f"seed of {self.name}: {self.file.secret}".encode()).hexdigest()[:12]


def load(name: str, root: Path, with_reference: bool = True) -> Lab:
    """Load a lab by name. Raises AuthoringError."""
    folder = root / "assignments" / name
    if not (folder / "lab.toml").exists():
        there = ", ".join(course.labs(root)) or "none"
        raise AuthoringError(f"there is no lab {name!r} in {root / 'assignments'}: there is {there}")
    file = course.read(folder / "lab.toml", LabFile)
    main_module = file.main.removesuffix(".py")
    checks = read_checks(folder / "checks.py", name, main_module)
    found = course.parse_toml(folder / "questions.toml") if (folder / "questions.toml").exists() else {}
    questions = {
        key: course.validated(entry, Question, folder / f"questions.toml: {key}") for key, entry in found.items()
    }
    needed = [(name, file.main), *prerequisites(file, root)]
    program = reference_program(root, needed) if with_reference else Program({}, {})
    lab = Lab(
        name=name,
        file=file,
        checks=checks,
        questions=questions,
        wanted=tuple(main for _, main in needed),
        reference=program,
        contract=contract(program) if with_reference else {},
        root=root,
    )
    _check_points(lab, folder)
    return lab


def prerequisites(file: LabFile, root: Path) -> list[tuple[str, str]]:
    """(lab, main file) of everything the lab builds on, nearest first."""
    found: list[tuple[str, str]] = []
    for required in file.requires:
        other = course.read(root / "assignments" / required / "lab.toml", LabFile)
        found += [(required, other.main), *prerequisites(other, root)]
    return list(dict.fromkeys(found))


def reference_program(root: Path, needed: list[tuple[str, str]]) -> Program:
    """The reference sources of a lab and of what it builds on, in import order."""
    files = {}
    for lab_name, main in reversed(needed):
        path = root / "reference" / lab_name / main
        if not path.exists():
            raise AuthoringError(f"{path} does not exist: the reference of {lab_name} is what everything is made from")
        files[main.removesuffix(".py")] = (f"reference/{lab_name}/{main}", path.read_text(encoding="utf-8"))
    return Program(files, {})


def contract(program: Program) -> dict[str, list[str]]:
    """The functions and classes of each reference file: what a file of a hand-in may be expected to have."""
    return {
        module: [node.name for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        for module, (_, text) in program.files.items()
    }


def read_checks(path: Path, lab_name: str, main_module: str) -> tuple[Check, ...]:
    """The checks of one file, in the order in which they stand."""
    module = _import(path, f"assignments_{lab_name}_checks")
    functions = [value for value in vars(module).values() if hasattr(value, "__check__")]
    checks = tuple(build(function, main_module) for function in functions)
    seen: dict[str, Check] = {}
    numbers: dict[str, Check] = {}
    for check in checks:
        for gate in check.after:
            if gate not in seen:
                raise AuthoringError(
                    f"{check.origin}: {check.name} comes after {gate!r}, which no earlier check is called"
                )
        if check.number in numbers:
            raise AuthoringError(
                f"{check.origin}: {check.name} has the number {check.number} of {numbers[check.number].name}"
            )
        seen[check.name] = numbers[check.number] = check
    if not checks:
        raise AuthoringError(f"{path}: no function is decorated with @check(…)")
    return checks


def local_part(lab: Lab) -> Lab:
    """What of a lab a student's copy holds: the checks that can be run there, and no secret."""
    kept = tuple(check for check in lab.checks if check.local)
    names = {check.name for check in kept}
    kept = tuple(replace(check, after=tuple(gate for gate in check.after if gate in names)) for check in kept)
    return replace(lab, checks=kept, file=lab.file.model_copy(update={"secret": ""}))


def _import(path: Path, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise AuthoringError(f"{path} does not exist")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except AuthoringError:
        raise
    except Exception as error:  # any fault in an author's file is told as one sentence with its place
        line = next((f":{tb.tb_lineno}" for tb in _frames(error) if tb.tb_frame.f_code.co_filename == str(path)), "")
        raise AuthoringError(f"{path}{line}: {type(error).__name__}: {error}") from error
    return module


def _frames(error: BaseException) -> list[types.TracebackType]:
    frames, here = [], error.__traceback__
    while here:
        frames.append(here)
        here = here.tb_next
    return frames[::-1]


def _check_points(lab: Lab, folder: Path) -> None:
    for section in lab.file.sections:
        found = points(check.points for check in lab.checks if check.section == section.number)
        if found != section.points:
            raise AuthoringError(
                f"{folder / 'lab.toml'}: section {section.number} says {section.points:g} points, "
                f"its checks add up to {found:g}"
            )
    known = {section.number for section in lab.file.sections}
    for check in lab.checks:
        if check.section not in known:
            raise AuthoringError(f"{check.origin}: check {check.number} belongs to no section of lab.toml")
