"""Where a course stands on disk, and how its TOML files are read: unknown keys stop with the nearest known one."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from autograder.check import AuthoringError
from autograder.language import ENGLISH, checked

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Model = TypeVar("Model", bound=BaseModel)
# TOML has types of its own: "6" is no number and true is not 1, whatever could be read into them.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]


class Torch(BaseModel):
    """Where the autograder image takes torch from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requirement: str = "torch==2.13.0"
    index: str = ""


class Late(BaseModel):
    """What a late hand-in costs; nothing by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    grace_minutes: Number = Field(0.0, ge=0)
    percent_per_day: Number = Field(0.0, ge=0, le=100)
    most_percent: Number = Field(100.0, ge=0, le=100)


class Attempts(BaseModel):
    """How often a hand-in is graded; 0: as often as one likes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per_day: Whole = Field(0, ge=0)


class Settings(BaseModel):
    """`course.toml`: what holds for every lab. Every key has a default; no file is needed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = "Attention and the Transformer"
    language: Annotated[str, AfterValidator(checked)] = ENGLISH
    hidden_results: str = Field("title", pattern="^(title|after_due_date|after_published|hidden)$")
    feedback: Literal["gap", "cause", "cause_on_second_attempt"] = "cause"
    rounding: Number = Field(0.0, ge=0)
    extra_credit: Flag = True
    leaderboard: Literal["off", "points", "checks"] = "off"
    late: Late = Late()
    attempts: Attempts = Attempts()
    torch: Torch = Torch()


def read_text(path: Path) -> str:
    """A text file of the course, with `\n` as line end. Raises AuthoringError with the file and what is wrong."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise AuthoringError(f"{path} does not exist") from error
    except UnicodeDecodeError as error:
        raise AuthoringError(f"{path}: byte {error.start} is not UTF-8: save the file as UTF-8") from error
    except OSError as error:
        raise AuthoringError(f"{path} cannot be read: {error.strerror}") from error


def parse_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dict. Raises AuthoringError with the file and what is wrong."""
    try:
        document: dict[str, Any] = tomllib.loads(read_text(path))
        return document
    except tomllib.TOMLDecodeError as error:
        raise AuthoringError(f"{path}: not TOML: {error}") from error


def read(path: Path, model: type[Model]) -> Model:
    """A TOML file as a model. Raises AuthoringError that names the key, and for an unknown one the nearest known."""
    return validated(parse_toml(path), model, path)


def validated(document: Any, model: type[Model], path: Path | str) -> Model:
    """A parsed document as a model. Raises AuthoringError with the place and what to do there."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        advice = first["msg"].removeprefix("Value error, ")
        advice = advice[0].lower() + advice[1:]
        if first["type"] == "extra_forbidden":
            known = _keys_beside(model, first["loc"])
            near = difflib.get_close_matches(str(first["loc"][-1]), known, 1)
            advice = f"unknown key; did you mean {near[0]!r}?" if near else f"unknown key; there is {', '.join(known)}"
        elif first["type"] == "missing":
            advice = "is missing"
        elif first["loc"] and first["type"] != "value_error":
            advice += f", and is {str(first['input'])[:80]!r}"
        raise AuthoringError(": ".join(filter(None, [str(path), _key_words(first["loc"]), advice]))) from error


def settings(root: Path) -> Settings:
    """The course's settings, defaults where there is no course.toml."""
    path = root / "course.toml"
    return read(path, Settings) if path.exists() else Settings()


def find_root(start: Path) -> Path:
    """The course that `start` lies in: the nearest folder above it that holds `assignments/`."""
    for folder in (start, *start.parents):
        if (folder / "assignments").is_dir():
            return folder
    raise AuthoringError(f"{start} is not inside a course: no folder above it holds assignments/")


def labs(root: Path) -> list[str]:
    """The names of all labs, in the order of their section numbers."""
    found = [path.parent for path in (root / "assignments").glob("*/lab.toml") if not path.parent.name.startswith("_")]
    return [folder.name for folder in sorted(found, key=lambda folder: (first_section(folder), folder.name))]


def first_section(folder: Path) -> tuple[int, ...]:
    """The number of a lab's first section: `(1, 1)` of 1.1; empty where it has none."""
    sections = parse_toml(folder / "lab.toml").get("sections")
    first = sections[0] if isinstance(sections, list) and sections else {}
    number = str(first.get("number", "")) if isinstance(first, dict) else ""
    return tuple(int(part) for part in number.split(".") if part.isdecimal())


def _key_words(location: tuple[int | str, ...]) -> str:
    """`sections, entry 3, points`."""
    return ", ".join(f"entry {part + 1}" if isinstance(part, int) else part for part in location)


def _keys_beside(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that a model knows at a location, through nested models, and lists and tables of them."""
    here = model
    for part in location[:-1]:
        field = here.model_fields.get(str(part))
        if field:  # otherwise the part is an index of a list, or a key of a table that the author chooses
            found = get_args(field.annotation) or (field.annotation,)
            here = next((item for item in found if isinstance(item, type) and issubclass(item, BaseModel)), here)
    return list(here.model_fields)
