"""Whether a lab's folders fit together: starter, handout, numbers, points, names, anchors. Nothing is graded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from autograder import bundle, worksheet
from autograder import lab as labs
from autograder.check import AuthoringError
from autograder.lab import Lab
from autograder.local.choose import select
from autograder.strip import strip


def faults(lab: Lab) -> list[str]:
    """What does not fit together within a lab, in sentences."""
    return [
        *_starter(lab),
        *links(lab),
        *_names(lab),
        *_numbers(lab),
        *_visibility(lab),
        *_rules(lab),
        *_worksheet(lab),
    ]


def _starter(lab: Lab) -> list[str]:
    found = []
    folder = lab.root / "starter_code" / lab.name
    made = bundle.starter_files(lab)
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for name, data in made.items():
        if name not in there:
            found.append(f"starter_code/{lab.name}/{name} is missing: run `make starter`")
        elif (folder / name).read_bytes() != data:
            found.append(f"starter_code/{lab.name}/{name} is not what the reference gives: run `make starter`")
    found += [f"starter_code/{lab.name}/{name} is made from nothing: remove it" for name in sorted(there - set(made))]
    origin = f"reference/{lab.name}/{lab.file.main}"
    text = (lab.root / origin).read_text(encoding="utf-8")
    todos = {todo.number for todo in strip(text, name=lab.file.main, origin=origin).todos}
    sections = {section.number for section in lab.file.sections}
    found += [f"section {number} of lab.toml has no region in {origin}" for number in sorted(sections - todos)]
    found += [f"region {number} of {origin} has no section in lab.toml" for number in sorted(todos - sections)]
    return found


def links(lab: Lab) -> list[str]:
    """What links to a place of the handout that is not there, in each of its languages."""
    found = []
    for name, text in bundle.handouts(lab).items():
        there = anchors(text)
        found += [
            f"{check.origin}: {check.number} links to {check.read}, which the handout {name} has not"
            for check in lab.checks
            if check.read and check.read.lstrip("#") not in there
        ]
        place = f"assignments/{lab.name}/{name}"
        found += [
            f"{place} links to #{to}, which it has not" for to in re.findall(r"\]\(#([^)]+)\)", text) if to not in there
        ]
    return found


def anchors(markdown: str) -> set[str]:
    """The anchors of a text: those that GitHub gives to headings, and those that are written out, as in a translation."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    written = set(re.findall(r'<a id="([^"]+)">', markdown))
    return written | {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _names(lab: Lab) -> list[str]:
    """Every name that a check reads from the hand-in must stand in the stub, so that no one reads what nobody asked for."""
    stub = bundle.starter_files(lab)[lab.file.main].decode()
    words = set(re.findall(r"\w+", stub))
    missing = [check for check in lab.checks if check.target not in words]
    return [f"{check.origin}: {check.target} is judged, and does not stand in the stub" for check in missing]


def _numbers(lab: Lab) -> list[str]:
    found = []
    for section in lab.file.sections:
        inside = [check.number for check in lab.checks if check.section == section.number]
        wanted = [f"{section.number}.{k}" for k in range(1, len(inside) + 1)]
        if inside != wanted:
            found.append(f"section {section.number}: checks are numbered {', '.join(inside)}, not 1 to {len(inside)}")
    if lab.max_score != 100:
        found.append(f"{lab.name}: the points without extra credit are {lab.max_score:g}, not 100")
    return found


def _visibility(lab: Lab) -> list[str]:
    """A symbol whose every check is hidden leaves a student without a way to try it."""
    found = []
    for target in dict.fromkeys(check.target for check in lab.checks):
        if all(check.hidden for check in lab.checks if check.target == target):
            found.append(f"every check of {target} is hidden")
    try:
        bundle.visible_lab(labs.local_part(lab))
    except AuthoringError as error:
        found.append(str(error))
    return found


def _rules(lab: Lab) -> list[str]:
    """What reads the code itself needs a mistake that it catches: values that are wrong do not show that it can fail."""
    meant = {item.caught_by for item in lab.mistakes}
    return [
        f"{check.number} {check.name} reads how {check.target} is written, and no mistake is meant for it: it might pass "
        f"whatever is handed in. For each way to break its rule (a loop, no loop, a ready-made part), add one to "
        f'mistakes.py with caught_by="{check.name}" and told="gap"'
        for check in lab.checks
        if "source" in check.needs and check.name not in meant
    ]


def _worksheet(lab: Lab) -> list[str]:
    """What a cell checks must be there in a student's copy."""
    place = f"assignments/{lab.name}/worksheet.py"
    found = [(what, select(lab, what)) for what in worksheet.asked(worksheet.source(lab.name, lab.root))]
    return [f"{place}: check({what!r}): {sentence}" for what, sentence in found if isinstance(sentence, str)]


def orphans(root: Path, names: Sequence[str]) -> list[str]:
    """Folders of assignments/, reference/ and starter_code/ without a counterpart."""
    found = []
    for place in ("assignments", "reference", "starter_code"):
        there = {path.name for path in (root / place).iterdir() if path.is_dir() and path.name[0] not in "._"}
        found += [f"{place}/{name} belongs to no lab" for name in sorted(there - set(names))]
        found += [f"{place}/{name} is missing" for name in sorted(set(names) - there)]
    return found
