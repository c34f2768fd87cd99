"""The steps of a Dockerfile, done in a bare root: what can be tried of it where no Docker is.

`FROM` is not followed: the base is ours. Of the other instructions those that our file has are known; any other is refused.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from harness import CannotRun, machine
from harness.container import Container, Ended, Limits

IGNORED = (".git", ".venv", "__pycache__", "dist", "out")


@dataclass
class State:
    """What instructions leave for those that follow."""

    folder: str = "/"
    environment: dict[str, str] = field(default_factory=dict)  # of ENV, and of ARG with its defaults
    entry: tuple[str, ...] = ()


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a file with what follows them, lines joined, comments left out."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    words = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in words]


def build(file: Path, container: Container) -> State:
    """Do the steps of a file in an empty container, its folder being the context. Raises CannotRun."""
    state = State()
    container.clear()
    for word, rest in instructions(file.read_text(encoding="utf-8")):
        if word == "RUN":
            log = container.folder / "build.log"
            done = container.run(
                ("sh", "-c", rest),
                log,
                environment={**state.environment, **machine.pip_variables()},
                shared=tuple(machine.pip_files()),
                folder=state.folder,
            )
            if done.status:
                raise CannotRun(f"RUN {rest} ended with {done.status}: {log.read_text(errors='replace')[-1000:]}")
        else:
            follow(word, rest, state, file.parent, container.upper)
    return state


def follow(word: str, rest: str, state: State, context: Path, root: Path) -> None:
    """One instruction that runs nothing."""
    if word == "WORKDIR":
        state.folder = rest
        (root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif word == "COPY":
        source, target = rest.split()
        place = root / target.lstrip("/")
        if (context / source).is_dir():
            shutil.copytree(context / source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*IGNORED))
        else:
            shutil.copy(context / source, place)
    elif word in ("ARG", "ENV"):
        name, _, value = rest.partition("=")
        state.environment[name] = value.strip('"')
    elif word == "ENTRYPOINT":
        state.entry = tuple(json.loads(rest))
    elif word != "FROM":
        raise CannotRun(f"the Dockerfile's instruction {word} is not known here")


def run(
    state: State, image: Container, folder: Path, arguments: tuple[str, ...], hand_in: Path, limits: Limits
) -> Ended:
    """Run the image with arguments, as `docker run` does, in a fresh view; the hand-in lies in /hand-in, read only."""
    container = Container((image.upper, *image.layers), folder)
    container.clear()
    shutil.copytree(hand_in, container.upper / "hand-in")
    (container.upper / "out").mkdir()
    return container.run(
        (*state.entry, *arguments), folder / "printed", limits, folder=state.folder, results="/out/results.json"
    )
