"""What the documentation says to do is done, and what it says is printed is what is printed.

A block marked `console` is run: each line after `$ ` in a shell, and what follows is what it must print; a line `…` stands for
any lines. Where figures change from run to run (times, digests), only their form is compared. After a change of what is
printed: `python tests/test_docs.py`, and look at the difference.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import composition, laws, rules
from autograder.check import Expectation
from autograder.probes import Probes
from autograder.reports import schema
from autograder.sandbox.proxy import RemoteValue

ROOT = Path(__file__).resolve().parents[1]
INTO = r"(?:Put this into `(?P<path>[^`]+)`:\n\n)?"
BLOCK = re.compile(rf"^{INTO}```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TAKES_LONG = re.compile(r"^make (test|attacks|mutants|bench|demo$|audit|setup)")  # CI runs them by themselves
PAGES = sorted(path.relative_to(ROOT).as_posix() for folder in ("", "docs") for path in (ROOT / folder).glob("*.md"))
OF_ITS_OWN = "docs/writing-a-lab.md"  # begins in an empty course


def blocks(page: str) -> Iterator[re.Match[str]]:
    return BLOCK.finditer((ROOT / page).read_text(encoding="utf-8"))


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block with the lines that it prints. What follows `#` is a remark."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for part in parts:
        first, *printed = part.rstrip("\n").split("\n")
        yield first.partition("  #")[0].strip(), [line.rstrip() for line in printed if line.strip()]


def course_in(folder: Path, empty: bool) -> Path:
    """A course that commands may change: this one's framework and environment, its labs or none."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("Makefile", "requirements.txt", "course.toml"):
        shutil.copy2(ROOT / name, folder / name)
    (folder / "autograder").symlink_to(ROOT / "autograder")
    (folder / ".venv").symlink_to(sys.prefix)
    ready = Path(sys.prefix) / ".ready"
    if not ready.exists():
        ready.touch()
    os.utime(folder / "requirements.txt", (0, 0))  # older than the stamp: nothing is set up anew
    for name in ("assignments", "reference", "starter_code"):
        if empty:
            (folder / name).mkdir()
        else:
            shutil.copytree(ROOT / name, folder / name)
    return folder


def shell(command: str, folder: Path) -> list[str]:
    """What a command prints, line by line. It must succeed."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of the `make test` around this: below it, make says where it is
        environment.pop(name, None)
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def form(line: str) -> str:
    """A line without what changes from run to run."""
    line = re.sub(r"\b[0-9a-f]{12,}\b", "DIGEST", line)
    return re.sub(r"\d+(\.\d+)? (s|ms|MB|kB)\b", "FIGURE", line)


def fits(expected: list[str], printed: list[str]) -> bool:
    """Whether lines are as expected, `…` standing for any."""
    pattern = "".join(r"(?:.*\n)*" if line == "…" else re.escape(form(line)) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(form(line) + "\n" for line in printed)) is not None


def follow(page: str, folder: Path) -> int:
    """Do what a page says, in a folder; returns how many commands were run."""
    count = 0
    for block in blocks(page):
        if block["path"]:
            (folder / block["path"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / block["path"]).write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "console":
            for command, expected in commands(block["text"]):
                if TAKES_LONG.match(command) and page != OF_ITS_OWN:
                    continue
                printed = shell(command, folder)
                count += 1
                if expected:
                    assert fits(expected, printed), f"{page}: $ {command}\n" + "\n".join(printed)
    return count


def test_a_lab_is_written_by_following_its_page(tmp_path: Path) -> None:
    folder = course_in(tmp_path / "course", empty=True)
    assert follow(OF_ITS_OWN, folder) >= 6
    # And what it says would happen happens: a wrong alternative is found.
    wrong = folder / "reference/causal/alternatives/triu/causal.py"
    wrong.write_text(wrong.read_text().replace("scores + hidden, -1", "scores + hidden, -2"))
    done = subprocess.run(["make", "audit", "LAB=causal"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "alternative triu: scores 50 of 100" in done.stdout


def public(owner: object, of: str) -> list[str]:
    """The names of the functions of a module or a class that are there for others."""
    return [
        name
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == of
    ]


@pytest.mark.parametrize("owner", [laws, rules, composition, Probes, Expectation, RemoteValue])
def test_what_checks_are_made_of_stands_on_the_page(owner: object) -> None:
    names = public(owner, getattr(owner, "__module__", "") or getattr(owner, "__name__", ""))
    names = [name for name in names if name != "difference"]  # what `beside` shows; its docstring is enough
    page = (ROOT / OF_ITS_OWN).read_text(encoding="utf-8")
    table = page[page.index("What there is") : page.index("## 5.")]
    assert len(names) > 2
    assert [name for name in names if f"{name}(" not in table] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != OF_ITS_OWN])
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    follow(page, course_in(tmp_path / "course", empty=False))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_every_target_of_make_is_told_of() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    told = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    targets.remove("help")  # what `make` alone does
    assert [name for name in targets if f"make {name}" not in told] == []


def test_the_form_of_a_record_is_that_of_its_models() -> None:
    assert (ROOT / "docs/results.md").read_text(encoding="utf-8") == schema.page()
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.*) \|$", schema.page(), re.MULTILINE)
    assert len(rows) > 40
    assert [name for name, said in rows if not said] == []
