"""The grader is graded: `make audit` proves the four laws of a lab, and that its folders fit together.

1. The untouched starter scores 0.   2. The reference scores everything.   3. So does every other correct way of writing it.
4. Every catalogued mistake loses points on the check that is meant for it, and is named.

A check that reads how a part is written has a mistake that breaks its rule: no wrong value would show that it can fail.
And nothing that a student receives holds a solution, an answer or a hidden check.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from autograder import bundle, leaks, rules, specimens, structure
from autograder.check import Check
from autograder.diagnose import Mistake
from autograder.lab import Lab
from autograder.result import Record, Result, Status, points
from autograder.session import Session
from autograder.specimens import Specimen

NAMED, TOLD, SILENT, WRONG = "named by their cause", "told by the check itself", "silent", "named wrongly"


@dataclass(frozen=True)
class Trial:
    """One of these hand-ins, and its record."""

    specimen: Specimen
    record: Record

    @property
    def name(self) -> str:
        """The name of the hand-in."""
        return self.specimen.name

    @property
    def mistake(self) -> Mistake | None:
        """The mistake that was made in it."""
        return self.specimen.mistake

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
        return [trial for trial in self.trials if trial.specimen.kind == kind]

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
    audit.faults += structure.faults(lab)
    for specimen in specimens.of(lab):
        trial = Trial(specimen, session.grade(specimen.hand_in))
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
            record = grader.grade(trial.specimen.hand_in)
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


def judge(lab: Lab, trial: Trial) -> list[str]:
    """What is wrong with one trial, in sentences."""
    record, who, kind = trial.record, trial.specimen.who, trial.specimen.kind
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
