"""The grader is graded: `make audit` proves the four laws of a lab, and that its folders fit together.

1. The untouched starter scores 0.   2. The reference scores everything.   3. So does every other correct way of writing it.
4. Every catalogued mistake loses points on the check that is meant for it, and is named.

A check that reads how a part is written has a mistake that breaks its rule: no wrong value would show that it can fail.
And nothing that a student receives holds a solution, an answer or a hidden check.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder import bundle, diagnose, leaks, rules, worksheet
from autograder import lab as labs
from autograder.check import AuthoringError, Check
from autograder.diagnose import Mistake
from autograder.lab import Lab
from autograder.local.choose import select
from autograder.result import Record, Result, Status, points
from autograder.session import Session
from autograder.strip import strip
from autograder.submission import Submission

NAMED, TOLD, SILENT, WRONG = "named by their cause", "told by the check itself", "silent", "named wrongly"


@dataclass(frozen=True)
class Entry:
    """One hand-in that is made for the audit."""

    kind: str  # "starter", "reference", "alternative", "mistake"
    name: str
    hand_in: Submission
    mistake: Mistake | None = None

    @property
    def who(self) -> str:
        """What a fault is told of."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Trial:
    """One of these hand-ins, and its record."""

    entry: Entry
    record: Record

    @property
    def name(self) -> str:
        """The name of the hand-in."""
        return self.entry.name

    @property
    def mistake(self) -> Mistake | None:
        """The mistake that was made in it."""
        return self.entry.mistake

    def failed(self) -> set[str]:
        """The checks that failed (not those that only waited for one that did)."""
        return {result.check for result in self.record.results if result.status is Status.FAILED}

    def named(self) -> set[tuple[str, ...]]:
        """The causes that the report names."""
        return {result.mistakes for result in self.record.results if result.mistakes}


@dataclass
class Audit:
    """What was tried and what is wrong. Sound where `faults` is empty."""

    lab: Lab
    trials: list[Trial] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)  # numbers of checks that nothing was seen to fail

    def of(self, kind: str) -> list[Trial]:
        """The trials of one kind."""
        return [trial for trial in self.trials if trial.entry.kind == kind]

    def naming(self) -> Counter[str]:
        """How many mistakes are told by their name, by the check alone, by nothing but lost points, by a wrong name."""
        found = Counter(dict.fromkeys((NAMED, TOLD, SILENT, WRONG), 0))
        for trial in self.of("mistake"):
            wrong = trial.named() - {(trial.name,)}
            meant = TOLD if trial.mistake and trial.mistake.told == "gap" else SILENT
            found[WRONG if wrong else NAMED if trial.named() else meant] += 1
        return found

    def idle_checks(self) -> list[Check]:
        """Checks that fail for no catalogued mistake: either they wait for one that does, or the catalogue lacks it."""
        caught = {check for trial in self.of("mistake") for check in trial.failed()}
        return [check for check in self.lab.checks if check.name not in caught and "question" not in check.tags]

    def caught_once(self) -> list[str]:
        """Mistakes that a single check stands against."""
        return [trial.name for trial in self.of("mistake") if len(trial.failed()) == 1]


def run(lab: Lab, session: Session) -> Audit:
    """Try everything that the laws speak of."""
    audit = Audit(lab)
    audit.faults += structure(lab)
    for entry in entries(lab):
        trial = Trial(entry, session.grade(entry.hand_in))
        audit.trials.append(trial)
        audit.faults += judge(lab, trial)
    audit.unproven = unproven(audit, session)
    audit.faults += leaked(lab, session)
    return audit


def unproven(audit: Audit, session: Session) -> list[str]:
    """The numbers of checks that no mistake fails by its values, even where they wait for no other check.

    What waits often has no mistake of its own, and is right to: one position, another dtype. But a check that cannot fail
    looks the same.
    """
    made = audit.lab.contract  # of anything else there can be no mistake
    idle = {
        check.name: check.number
        for check in audit.idle_checks()
        if "source" not in check.needs and check.target in made.get(check.module, ())
    }
    alone = tuple(replace(check, after=()) for check in audit.lab.checks if check.name in idle)
    lab = replace(audit.lab, checks=alone, mistakes=())
    grader = Session(lab, session.zygote, session.reference, confined=session.plan is not None)
    for trial in audit.of("mistake"):
        if idle:
            record = grader.grade(trial.entry.hand_in)
            # With an output: an exception would fail every check, so it proves nothing of any.
            for result in record.results:
                if result.status is Status.FAILED and result.output is not None:
                    idle.pop(result.check, None)
    return list(idle.values())


def leaked(lab: Lab, session: Session) -> list[str]:
    """What the student's zip holds that it must not, in sentences."""
    handed_out = {f"{lab.name}-student.zip": bundle.zipped(bundle.student_files(lab))}
    return [
        f"{leak.file}:{leak.line}: {leak.what}: {leak.advice}" for leak in leaks.scan(handed_out, lab, session.zygote)
    ]


def entries(lab: Lab) -> Iterator[Entry]:
    """Starter, reference, alternatives and mistakes, each as a hand-in."""
    starter = bundle.starter_files(lab)[lab.file.main]
    yield Entry("starter", "untouched", handed_in("starter", {lab.file.main: starter}, lab))
    yield Entry("reference", "reference", handed_in("reference", with_mistake(lab), lab))
    for folder in alternatives(lab):
        yield Entry("alternative", folder.name, handed_in(folder.name, completed(lab, folder), lab))
    for item in lab.mistakes:
        yield Entry("mistake", item.name, handed_in(item.name, with_mistake(lab, item), lab), item)


def judge(lab: Lab, trial: Trial) -> list[str]:
    """What is wrong with one trial, in sentences."""
    record, who, kind = trial.record, trial.entry.who, trial.entry.kind
    found = [f"{who}: fault of the grader: {fault}" for fault in record.faults]
    everything = points(check.points for check in lab.checks)
    if kind == "starter" and record.score:
        earned = [result.number for result in record.results if result.score]
        found.append(f"{who}: scores {record.score:g}, not 0 (checks {', '.join(earned)})")
    if kind in ("reference", "alternative"):
        lost = [f"{r.number} ({r.gap})" for r in record.results if r.status is not Status.PASSED]
        if lost or record.score != everything:
            found.append(f"{who}: scores {record.score:g} of {everything:g}: {'; '.join(lost)}")
        found += [f"{who}: {r.number} asks for a review: {r.review}{way_out(r)}" for r in record.results if r.review]
    if trial.mistake:
        if trial.mistake.caught_by not in trial.failed():
            caught = ", ".join(sorted(trial.failed())) or "nothing"
            meant = next(result for result in record.results if result.check == trial.mistake.caught_by)
            only = f": it only asks for a review: {meant.review}{way_out(meant)}" if meant.review else ""
            found.append(f"{who}: {trial.mistake.caught_by} does not catch it (caught by {caught}){only}")
        if trial.named() != ({(trial.mistake.name,)} if trial.mistake.told == "cause" else set()):
            said = " and ".join("+".join(names) for names in sorted(trial.named())) or "nothing"
            found.append(f"{who}: the report names {said}")
    return found


def way_out(result: Result) -> str:
    """What an author can do where a rule counts operations and there are none to count."""
    if rules.DOES_NOT_GROW not in result.review:
        return ""
    return (
        f". If {result.check} is about a function of sizes only, which need not run torch in its loop, "
        "give its rule count=None in checks.py: then the syntax tree alone decides"
    )


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


# What needs no grading ------------------------------------------------------------------------------------------------


def structure(lab: Lab) -> list[str]:
    """Whether a lab's folders fit together: starter, handout, numbers, points, names, anchors."""
    return [
        *_starter(lab),
        *_anchors(lab),
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


def _anchors(lab: Lab) -> list[str]:
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
