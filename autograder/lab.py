"""A lab: its `lab.toml`, checks, questions and the sources that the oracle runs, loaded and found consistent.

Nothing is half loaded: what does not fit together raises AuthoringError with file, place and what to do.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import types
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from autograder import consistency, course, language
from autograder.check import AuthoringError, Check, build
from autograder.diagnose import Mistake
from autograder.questions import Question
from autograder.result import points
from autograder.sandbox.proxy import Program


class Limits(BaseModel):
    """What one hand-in may take. Values beyond what any platform grants are refused, not capped in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds_per_call: course.Number = Field(5.0, gt=0, le=120)
    seconds_per_run: course.Number = Field(300.0, gt=0, le=2400)
    memory_mb: course.Whole = Field(3072, ge=1024, le=16384)


class Section(BaseModel):
    """One part of the lab, with the points that its checks add up to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: str = Field(pattern=r"^\d+\.\d+$")
    title: str
    points: course.Number = Field(ge=0)
    extra_credit: course.Flag = False


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
    mistakes: tuple[Mistake, ...]
    contract: dict[str, list[str]]  # module → the names that the files of a hand-in must define
    root: Path
    language: str = language.ENGLISH  # of what students read
    handout: str = "README.md"  # the file of it that is in this language

    @property
    def folder(self) -> Path:
        """Where its own files are."""
        return self.root / "assignments" / self.name

    def speaking(self) -> AbstractContextManager[None]:
        """Say what is said inside in the lab's language: collect, grade, and what is shown before there is a record."""
        return language.speaking(self.language, self.folder)

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

    def draws(self, check: Check) -> tuple[str, str]:
        """The two texts that a check's probes follow from: public first for what students run themselves.

        The second draw tells a pasted answer from a computed one, and a mistake from a coincidence.
        """
        secret = self.file.secret
        if check.hidden:
            return f"{self.name}/{check.name}/{secret}", f"{self.name}/{check.name}/{secret}/again"
        return f"{self.name}/{check.name}/handed out", f"{self.name}/{check.name}/{secret or 'handed out again'}"

    def seed_digest(self) -> str:
        """Tells two secrets apart without telling either."""
        return hashlib.sha256(f"seed of {self.name}: {self.file.secret}".encode()).hexdigest()[:12]


def load(name: str, root: Path, with_reference: bool = True, lang: str = "") -> Lab:
    """Load a lab by name; `lang`: another language than the course's. Raises AuthoringError."""
    folder = root / "assignments" / name
    if not (folder / "lab.toml").exists():
        there = ", ".join(course.labs(root)) or "none"
        raise AuthoringError(f"there is no lab {name!r} in {root / 'assignments'}: there is {there}")
    file = course.read(folder / "lab.toml", LabFile)
    main_module = file.main.removesuffix(".py")
    checks = read_checks(folder / "checks.py", name, main_module)
    found = course.parse_toml(folder / "questions.toml") if (folder / "questions.toml").exists() else {}
    questions = {
        key: course.validated(entry, Question, f"{folder / 'questions.toml'}: {key}") for key, entry in found.items()
    }
    needed = [(name, file.main), *prerequisites(file, root, (name,))]
    program = reference_program(root, needed) if with_reference else Program({}, {})
    lab = Lab(
        name=name,
        file=file,
        checks=checks,
        questions=questions,
        wanted=tuple(main for _, main in needed),
        reference=program,
        mistakes=read_mistakes(folder / "mistakes.py", name, checks) if with_reference else (),
        contract=contract(program) if with_reference else {},
        root=root,
        language=lang or course.settings(root).language,
    )
    if (folder / (own := handout_name(lab.language))).exists():
        lab = replace(lab, handout=own)
    consistency.examine(lab, folder)
    return lab


def handout_name(lang: str) -> str:
    """The handout in a language: `README.md`, `README.zh.md`."""
    return "README.md" if lang == language.ENGLISH else f"README.{lang}.md"


def prerequisites(file: LabFile, root: Path, above: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(lab, main file) of everything the lab builds on, nearest first; `above`: the labs that ask for it."""
    found: list[tuple[str, str]] = []
    for required in file.requires:
        path = root / "assignments" / required / "lab.toml"
        if required in above:
            raise AuthoringError(f"{path}: {' requires '.join([*above, required])}: a lab cannot build on itself")
        if not path.exists():
            near = consistency.nearest(required, course.labs(root))
            raise AuthoringError(f"{file.main} is built on a lab {required!r}, and {path} does not exist; {near}")
        other = course.read(path, LabFile)
        found += [(required, other.main), *prerequisites(other, root, (*above, required))]
        if [main for _, main in dict.fromkeys(found)].count(other.main) > 1 or other.main == file.main:
            raise AuthoringError(f"{path}: another lab that is needed beside it has a main file {other.main}, too")
    return list(dict.fromkeys(found))


def reference_program(root: Path, needed: list[tuple[str, str]]) -> Program:
    """The reference sources of a lab and of what it builds on, in import order."""
    files = {}
    for lab_name, main in reversed(needed):
        path = root / "reference" / lab_name / main
        if not path.exists():
            raise AuthoringError(f"{path} does not exist: the reference of {lab_name} is what everything is made from")
        files[main.removesuffix(".py")] = (f"reference/{lab_name}/{main}", course.read_text(path))
    return Program(files, {})


def contract(program: Program) -> dict[str, list[str]]:
    """The functions and classes of each reference file: what a file of a hand-in may be expected to have."""
    found = {}
    for module, (place, text) in program.files.items():
        body = consistency.parsed(text, place).body
        found[module] = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return found


def read_checks(path: Path, lab_name: str, main_module: str) -> tuple[Check, ...]:
    """The checks of one file, in the order in which they stand."""
    module = _import(path, f"assignments_{lab_name}_checks")
    consistency.no_name_twice(path)
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


def read_mistakes(path: Path, lab_name: str, checks: tuple[Check, ...]) -> tuple[Mistake, ...]:
    """The catalogue of a lab, in the order in which it stands; empty where there is no mistakes.py."""
    if not path.exists():
        return ()
    found = [
        value for value in vars(_import(path, f"assignments_{lab_name}_mistakes")).values() if _is_catalogue(value)
    ]
    mistakes = tuple(item for value in found for item in (value if isinstance(value, (list, tuple)) else [value]))
    names = [item.name for item in mistakes]
    for item in mistakes:
        if names.count(item.name) > 1:
            raise AuthoringError(f"{path}: two mistakes are called {item.name}")
        fault = consistency.of_mistake(item, [check.name for check in checks])
        if fault:
            raise AuthoringError(f"{path}: mistake {item.name} {fault}")
    return mistakes


def _is_catalogue(value: object) -> bool:
    return isinstance(value, Mistake) or (
        isinstance(value, (list, tuple)) and any(isinstance(i, Mistake) for i in value)
    )


def local_part(lab: Lab) -> Lab:
    """What of a lab a student's copy holds: the checks that can be run there, and no secret."""
    kept = tuple(check for check in lab.checks if check.local)
    names = {check.name for check in kept}
    for check in kept:
        for gate in check.after:
            if gate not in names:
                raise AuthoringError(
                    f"{check.origin}: {check.name} is handed out and comes after {gate}, which is not: "
                    "hide it too, give it another gate, or keep it back with local=False"
                )
    return replace(lab, checks=kept, file=lab.file.model_copy(update={"secret": ""}))


def _import(path: Path, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    text = course.read_text(path)
    sys.modules[name] = module
    try:
        # Not through the loader: it would leave a __pycache__ in the course, and trust one that is there.
        exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    except AuthoringError:
        raise
    except (Exception, SystemExit) as error:  # any fault in an author's file is told as one sentence with its place
        line = next((f":{tb.tb_lineno}" for tb in _frames(error) if tb.tb_frame.f_code.co_filename == str(path)), "")
        raise AuthoringError(f"{path}{line}: {type(error).__name__}: {error}") from error
    return module


def _frames(error: BaseException) -> list[types.TracebackType]:
    frames, here = [], error.__traceback__
    while here:
        frames.append(here)
        here = here.tb_next
    return frames[::-1]
