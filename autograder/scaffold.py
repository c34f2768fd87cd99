"""A lab's folders as one thing: a new lab from the template, another name for one, and its end."""

from __future__ import annotations

import keyword
import re
import secrets
import shutil
import sys
from pathlib import Path

from autograder import bundle, course
from autograder.check import AuthoringError

TEMPLATE = Path(__file__).resolve().parent / "template"
PLACES = ("assignments", "reference", "starter_code")


def new(name: str, root: Path, title: str = "") -> list[Path]:
    """Make a small lab that passes the audit, to be changed piece by piece; returns its files.

    Raises:
        AuthoringError: the name cannot be that of a Python file, or is taken.
    """
    _free(name, root)
    first = 1 + max((course.first_section(folder)[0] for folder in _labs(root)), default=0)
    words = {
        "@LAB@": name,
        "@N@": str(first),
        "@TITLE@": title or f"Lab {first} · {name.replace('_', ' ').capitalize()}",
        "@SECRET@": secrets.token_hex(16),
    }
    written = []
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        text = source.read_text(encoding="utf-8")
        for mark, word in words.items():
            text = text.replace(mark, word)
        inside = source.relative_to(TEMPLATE)
        if inside.name == "reference.py":
            path = root / "reference" / name / inside.parent / f"{name}.py"
        else:
            path = root / "assignments" / name / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return sorted([*written, *bundle.write_starter(name, root)])


def rename(old: str, name: str, root: Path) -> list[str]:
    """Give a lab another name, its folders and its main file with it; returns what is left to do, in sentences.

    Raises:
        AuthoringError: there is no such lab, or the name cannot be taken.
    """
    _there(old, root)
    _free(name, root)
    for place in PLACES:
        if (root / place / old).is_dir():
            (root / place / old).rename(root / place / name)
    for place in PLACES:
        for path in sorted((root / place / name).rglob(f"{old}.py")):
            path.rename(path.with_name(f"{name}.py"))
    _put(root / "assignments" / name / "lab.toml", rf'^main = "{old}\.py"', f'main = "{name}.py"')
    for handout in sorted((root / "assignments" / name).glob("README*.md")):
        _put(handout, rf"\b{old}\.py\b", f"{name}.py")
    if (sheet := root / "assignments" / name / "worksheet.py").exists():
        _put(sheet, rf"^from {old} import\b", f"from {name} import")
    for folder in _labs(root):
        _put(folder / "lab.toml", rf'^(requires = .*)"{old}"', rf'\1"{name}"')
    bundle.write_starter(name, root)
    word = re.compile(rf"\b{old}\b")
    texts = [path for place in PLACES[:2] for path in sorted((root / place).rglob("*"))]
    left = [path for path in texts if path.suffix in (".py", ".md", ".toml")]
    return [
        f"{path.relative_to(root).as_posix()}:{at} still says {old}"
        for path in left
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if word.search(line)
    ]


def remove(name: str, root: Path, really: bool) -> list[Path]:
    """Remove all folders of a lab, and its zips; returns them. Without `really` they stay.

    Raises:
        AuthoringError: there is no such lab, or another one builds on it.
    """
    _there(name, root)
    for folder in _labs(root):
        if name in course.parse_toml(folder / "lab.toml").get("requires", []):
            raise AuthoringError(f"{folder / 'lab.toml'} requires {name}: remove it there first")
    gone = [root / place / name for place in (*PLACES, "dist") if (root / place / name).exists()]
    for folder in gone if really else []:
        shutil.rmtree(folder)
    return gone


def _labs(root: Path) -> list[Path]:
    return [root / "assignments" / name for name in course.labs(root)]


def _there(name: str, root: Path) -> None:
    names = [folder.name for folder in _labs(root)]
    if name not in names:
        raise AuthoringError(f"there is no lab {name}; there is {', '.join(names) or 'none'}")


def _free(name: str, root: Path) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise AuthoringError(f"{name!r} cannot be the name of a lab: small letters, digits and _, as for a Python file")
    if name in sys.stdlib_module_names or name in ("torch", "numpy", "check", "conftest"):
        raise AuthoringError(f"{name!r} cannot be the name of a lab: a module of Python or of the grader is called so")
    for place in PLACES:
        if (root / place / name).exists():
            raise AuthoringError(f"{root / place / name} is there already: choose another name, or remove it first")


def _put(path: Path, pattern: str, instead: str) -> None:
    path.write_text(re.sub(pattern, instead, course.read_text(path), flags=re.MULTILINE), encoding="utf-8")
