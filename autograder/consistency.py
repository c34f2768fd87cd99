"""Whether the parts of a lab fit together: points, numbers, targets, questions. What does not is an AuthoringError.

What would otherwise be told to students as their fault (a check of a misspelt name, a question without an answer) stops
here, before anything is handed out or graded.
"""

from __future__ import annotations

import ast
import difflib
import keyword
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder import course
from autograder.check import AuthoringError
from autograder.diagnose import LONGEST, TOLD, Mistake
from autograder.result import points

if TYPE_CHECKING:
    from autograder.lab import Lab


def examine(lab: Lab, folder: Path) -> None:
    """Check everything that can be checked without running anything. Raises AuthoringError with file and what to do."""
    _sections(lab, folder / "lab.toml")
    for check in lab.checks:
        files = [name.removesuffix(".py") for name in lab.wanted]
        if check.module not in files:
            near = nearest(check.module, files)
            raise AuthoringError(
                f"{check.origin}: {check.name} is about {check.module}.py, no file of this lab; {near}"
            )
    if lab.reference.files:
        _targets(lab)
        _answers(lab, folder / "questions.toml")


def no_name_twice(path: Path) -> None:
    """Of two functions of one name Python keeps the second: a check would vanish with its points. Raises AuthoringError."""
    lines: dict[str, int] = {}
    for node in parsed(course.read_text(path), str(path)).body:
        if isinstance(node, ast.FunctionDef):
            if node.name in lines:
                raise AuthoringError(f"{path}:{lines[node.name]}: {node.name} is defined again in line {node.lineno}")
            lines[node.name] = node.lineno


def of_mistake(item: Mistake, checks: Iterable[str]) -> str:
    """What is wrong with an entry of the catalogue, to be read after its name; empty where nothing is."""
    names = list(checks)
    if item.caught_by not in names:
        return f"is caught by {item.caught_by!r}, which is no check; {nearest(item.caught_by, names)}"
    if len(item.says.split()) > LONGEST:
        return f"takes {len(item.says.split())} words; {LONGEST} is the most"
    if item.told not in TOLD:
        return f"has told={item.told!r}; there is {', '.join(map(repr, TOLD))}"
    for name in item.look:
        if not name.isidentifier() or keyword.iskeyword(name):
            return (
                f"looks for {name!r}, which is never found: `look` is a tuple of names that a line uses, such as "
                '("softmax", "dim"), no operator, number or keyword'
            )
    return ""


def parsed(text: str, place: str) -> ast.Module:
    """The tree of a file of the reference. Raises AuthoringError."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        at = getattr(error, "lineno", None) or 1
        raise AuthoringError(f"{place}:{at}: the reference is not valid Python ({error})") from error


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean 'attention'?`, or what there is."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names) or 'none'}"


def _sections(lab: Lab, path: Path) -> None:
    for number, times in Counter(section.number for section in lab.file.sections).items():
        if times > 1:
            raise AuthoringError(f"{path}: section {number} stands there {times} times: give each a number of its own")
    known = {section.number for section in lab.file.sections}
    for check in lab.checks:
        if check.section not in known:
            raise AuthoringError(
                f"{check.origin}: check {check.number} belongs to no section of lab.toml: "
                f"add {check.section}, or renumber the check"
            )
    for section in lab.file.sections:
        found = points(check.points for check in lab.checks if check.section == section.number)
        if found != points([section.points]):
            raise AuthoringError(
                f"{path}: section {section.number} says {section.points:g} points, its checks add up to {found:g}"
            )


def _targets(lab: Lab) -> None:
    defined = {module: _defined(text, place) for module, (place, text) in lab.reference.files.items()}
    for check in lab.checks:
        if check.target not in defined[check.module]:
            near = nearest(check.target, defined[check.module])
            raise AuthoringError(
                f"{check.origin}: {check.name} judges {check.target!r}, which the reference does not define; {near}"
            )


def _answers(lab: Lab, path: Path) -> None:
    """The reference answers each question, with the option that has no `implies`."""
    place, text = lab.reference.files[lab.main_module]
    answers = _defined(text, place).get("ANSWERS")
    if not lab.questions:
        return
    if not isinstance(answers, dict):
        raise AuthoringError(f"{place}: ANSWERS must be a dict that is written out: question = letter")
    for name in [*lab.questions, *answers]:
        if name not in answers:
            raise AuthoringError(f"{place}: ANSWERS has no entry {name!r}, which is a question of {path}")
        if name not in lab.questions:
            near = nearest(name, lab.questions)
            raise AuthoringError(f"{place}: ANSWERS has an entry {name!r}, which is no question of {path}; {near}")
        options = lab.questions[name].options
        if answers[name] not in options or options[answers[name]].implies:
            raise AuthoringError(f"{place}: the answer to {name!r} is not the option without `implies` in {path}")


def _defined(text: str, place: str) -> dict[str, Any]:
    """Top-level names of a reference file; with its value where that is a dict of plain values, else with None."""
    found: dict[str, Any] = {}
    for node in parsed(text, place).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = None
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: _literal(node.value) for target in targets if isinstance(target, ast.Name)}
    return found


def _literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if isinstance(node, ast.Dict) else None
    except ValueError:  # made of something that only running it would tell
        return None
