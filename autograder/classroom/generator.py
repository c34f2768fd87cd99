"""Classes to try things on: hand-ins made from a lab's reference, other right ways, mistakes and examples, and the truth.

Everything follows from the seed. No two hand-ins have the same bytes, so that none is graded for another.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

from autograder import bundle, demo
from autograder import lab as labs
from autograder.classroom.broken import WAYS
from autograder.classroom.exports import METADATA, Student
from autograder.lab import Lab
from autograder.result import save
from autograder.specimens import alternatives, completed, with_mistake

Files = dict[str, bytes]
Form = Literal["gradescope", "canvas", "folder"]
# What a grade book must survive: commas, quotes, other scripts, emoji, right to left, formulas, twice the same.
NAMES = (
    "Ada Lovelace", "李伟", 'Jean "Jo" Dupont', "O'Neil, Sinéad", "张伟", "Zoë 🦊 Müller", "محمد علي", "=1+1", "Ng Wei", "김민준",
    "@SUM(A1)", "Łukasz Żak", "Ada Lovelace", "-cmd|' /C calc'!A0", "Nguyễn Thị Minh", "שרה כהן", "Ann-Marie de la Cruz",
)  # fmt: skip
TRUTH = ("hand-in", "names", "kind", "planted")
WRAPPERS = ("plain", "plain", "plain", "notebook", "zip", "folder", "renamed")


class CannotMake(Exception):
    """A class that cannot be made; one sentence."""


@dataclass(frozen=True)
class Planted:
    """One hand-in and the truth about it. `kind`: complete, mistake, two mistakes, example, untouched, broken."""

    files: Files
    kind: str
    planted: tuple[str, ...] = ()
    students: tuple[Student, ...] = ()
    label: str = ""


def write(name: str, root: Path, out: Path, students: int, broken: int | None, seed: int, form: Form) -> Path:
    """Write a class of hand-ins to the new folder `out`, with truth.csv. Returns the folder to be graded."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CannotMake(f"{out} is there already and not empty: name a new folder")
    broken = students // 20 if broken is None else broken
    if students < 1 or not 0 <= broken <= students:
        raise CannotMake(f"{broken} broken ones of {students} students cannot be made")
    lab = labs.load(name, root)
    made = people(generate(lab, students, broken, seed), random.Random(seed), form)
    folder = out / ("assignment_1_export" if form == "gradescope" else "submissions")
    writers: dict[str, Callable[[Path, Planted], None]] = {"canvas": _canvas, "folder": _folder, "gradescope": _folder}
    for one in made:
        writers[form](folder, one)
    if form == "gradescope":
        save(_metadata(made), folder / METADATA)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(TRUTH)
    table.writerows(
        (one.label, "; ".join(student.name for student in one.students), one.kind, " ".join(one.planted))
        for one in made
    )
    save(text.getvalue(), out / "truth.csv")
    return folder


def generate(lab: Lab, students: int, broken: int, seed: int) -> list[Planted]:
    """The hand-ins of a class, in an order of chance."""
    chance = random.Random(seed)
    made = list(islice(_sound(lab, chance), students - broken))
    reference = with_mistake(lab)
    ways = islice(cycle(WAYS), broken)
    made += [Planted(way.make(dict(reference), lab.file.main), "broken", (way.name,)) for way in ways]
    chance.shuffle(made)
    return [replace(one, files=_marked(one.files, at)) for at, one in enumerate(made)]


def _sound(lab: Lab, chance: random.Random) -> Iterator[Planted]:
    """Hand-ins without end, as a class has them: a third complete, most with a mistake, some with two, some unfinished."""
    reference = with_mistake(lab)
    complete: list[Files] = [reference, *(completed(lab, folder) for folder in alternatives(lab))]
    examples = {
        name: completed(lab, folder)
        for name, folder in demo.examples(lab.name, lab.root).items()
        if name != "untouched"
    }
    untouched = {**reference, lab.file.main: bundle.starter_files(lab)[lab.file.main]}
    mistakes = cycle(chance.sample(lab.mistakes, len(lab.mistakes))) if lab.mistakes else None
    right, example = cycle(complete), cycle(sorted(examples.items())) if examples else None
    # A fixed order of kinds, so that a class of any size has its share of each; chance only shuffles the class.
    for kind in cycle("cmmcmxcmmcmtcmmecmmcmxcmmcmucmmt"):
        if kind == "t" and mistakes:
            first, second = chance.choices(lab.mistakes, k=2)
            if first.of != second.of:
                yield Planted(with_mistake(lab, first, second), "two mistakes", (first.name, second.name))
        elif kind == "m" and mistakes:
            one = next(mistakes)
            yield Planted(with_mistake(lab, one), "mistake", (one.name,))
        elif kind in "xe" and example:
            name, files = next(example)
            yield Planted(files, "example", (name,))
        elif kind == "u":
            yield Planted(untouched, "untouched")
        else:
            yield Planted(next(right), "complete")


def _marked(files: Files, at: int) -> Files:
    """The same files with a comment in the first that is text, so that no other hand-in has its bytes."""
    for name, data in files.items():
        if name.endswith(".py") and data.strip() and b"\0" not in data:
            return {**files, name: data.rstrip(b"\n") + f"\n# hand-in {at}\n".encode()}
    return files


def people(made: list[Planted], chance: random.Random, form: Form) -> list[Planted]:
    """Who handed in what: odd names, the same name twice, a group now and then."""
    named = []
    for at, one in enumerate(made):
        name = NAMES[at % len(NAMES)]
        name = name if at < len(NAMES) else f"{name} {at}"
        group = form == "gradescope" and at % 25 == 7
        members = [name, f"{chance.choice(NAMES)} and partner {at}"] if group else [name]
        students = tuple(
            Student(member, sid=str(100_000 + 10 * at + k), email=f"s{at}.{k}@example.edu")
            for k, member in enumerate(members)
        )
        labels = {"gradescope": f"submission_{2_000_000 + at}", "canvas": f"student{at}_{100_000 + 10 * at}"}
        named.append(replace(one, students=students, label=labels.get(form, f"student {at:04}")))
    return named


def _folder(root: Path, one: Planted) -> None:
    """A folder for each, with the files as students wrap them: as they are, as a notebook, in a zip, one folder deeper."""
    folder = root / one.label
    folder.mkdir(parents=True)
    wrapper = WRAPPERS[sum(one.label.encode()) % len(WRAPPERS)] if one.kind != "broken" else "plain"
    files = _notebook(one.files) if wrapper == "notebook" else one.files
    if wrapper == "renamed":
        files = {f"{Path(name).stem} (1){Path(name).suffix}": data for name, data in files.items()}
    if wrapper == "zip":
        (folder / "lab.zip").write_bytes(bundle.zipped(files))
        return
    for name, data in files.items():
        path = folder / ("my lab" if wrapper == "folder" else "") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _canvas(root: Path, one: Planted) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for at, (name, data) in enumerate(one.files.items()):
        (root / f"{one.label}_{9_000_000 + at}_{Path(name).name}").write_bytes(data)


def _notebook(files: Files) -> Files:
    """Each source as a notebook with one cell; what is no text stays."""
    found = {}
    for name, data in files.items():
        cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "id": "a",
                "source": data.decode("utf-8", "replace")}  # fmt: skip
        book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        found[f"{Path(name).stem}.ipynb"] = json.dumps(book).encode()
    return found


def _metadata(made: list[Planted]) -> str:
    """As Gradescope writes it, with Ruby's symbols for keys. JSON's texts are YAML's, too."""
    lines = ["---"]
    for at, one in enumerate(made):
        lines += [f"{one.label}:", "  :submitters:"]
        for student in one.students:
            lines.append(f"  - :name: {json.dumps(student.name, ensure_ascii=False)}")
            lines += [f"    :sid: '{student.sid}'", f"    :email: {student.email}"]
        lines += [f"  :created_at: 2026-03-{1 + at % 28:02} 12:00:00.000000000 Z", "  :score:", "  :status: processed"]
    return "\n".join(lines) + "\n"
