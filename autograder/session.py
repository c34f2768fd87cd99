"""A warm grader: torch loaded once, the reference running, ready for one hand-in after another."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from types import TracebackType

from autograder.diagnose import Answers, MistakenReference
from autograder.grade import Grading, Sink, nowhere, read_sources
from autograder.judge import Judge
from autograder.lab import Lab
from autograder.result import Record
from autograder.sandbox.jail import JailPlan, make_undumpable, plan_for
from autograder.sandbox.launcher import LaunchError
from autograder.sandbox.preflight import verdict
from autograder.sandbox.proxy import Interpreter, Live, NoAnswer, Program, Remembering
from autograder.sandbox.spawner import Launcher
from autograder.submission import Submission

# Words by which code asks for those parts of torch that are loaded for it only. Any other way to them costs its own time.
TRANSFORMS = re.compile(
    r"\b(?:functorch|jacrev|jacfwd|vjp|jvp|hvp|vhp|vectorize|grad_outputs|is_grads_batched|checkpoint|optim|testing"
    r"|TorchDispatchMode|torch\s*\.\s*(?:func|fx|compile)|import\s+func)\b"
    r"|\bgradient\s*=|\.backward\s*\(\s*[^)\s]"
)
ORACLE_SECONDS = 60.0  # no student waits for the reference: a limit only so that a fault of ours ends


class Session:
    """Grades hand-ins of one lab. Leaving the `with` block ends every process.

    Args:
        zygote: started by the caller, as early as possible: torch loads while the rest is read.
        reference: answers for the reference; by default a guest of its own that runs the reference.
        mistaken: answers for the reference with a mistake in it; by default the same guest.
        confined: False only on a student's own machine, for the student's own code.
    """

    def __init__(
        self,
        lab: Lab,
        zygote: Launcher,
        reference: Interpreter | None = None,
        mistaken: Answers | None = None,
        confined: bool = True,
    ) -> None:
        self.lab = lab
        self.zygote = zygote
        self.reference = reference or Live(zygote, lab.reference, None, ORACLE_SECONDS)
        remembering = Remembering(self.reference) if isinstance(self.reference, Live) else self.reference
        self.remembered: Interpreter = remembering
        self.mistaken = mistaken or MistakenReference(self.remembered, lab.reference, lab.main_module)
        limits = lab.file.limits
        self.plan: JailPlan | None = None
        if confined:
            seconds = int(limits.seconds_per_run) + 1
            self.plan = plan_for(memory_bytes=limits.memory_mb << 20, cpu_seconds=seconds)
            make_undumpable()  # where guests keep the grader's uid, none shall read the grader's memory

    @cached_property
    def unsandboxed(self) -> list[str]:
        """What a submission could do here that it should not: tried once, by a jailed guest that runs nothing else."""
        if self.plan is None:
            return []
        guest = Live(self.zygote, Program({}, {}), self.plan.fresh, ORACLE_SECONDS)
        private = [str(self.lab.root / place / self.lab.name) for place in ("reference", "assignments")]
        secrets = [*private, str(self.lab.root / "reference" / self.lab.name / self.lab.file.main)]
        try:
            return verdict(guest.ask("preflight", secrets=secrets))
        except NoAnswer as error:
            return [f"not sandboxed: the trial of the sandbox gave no result ({error.message})"]
        finally:
            guest.close()

    def require_sandbox(self) -> None:
        """Raise LaunchError with what to do, where the sandbox does not hold."""
        if self.unsandboxed:
            advice = self.plan.advice if self.plan else ""
            raise LaunchError(f"{self.unsandboxed[0]}. {advice or 'See docs/security.md.'}")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.zygote.close()

    def close_reference(self) -> None:
        """End the reference's guest, and leave the zygote to another lab."""
        if isinstance(self.reference, Live):
            self.reference.close()

    def guest(self, program: Program) -> Live:
        """A guest for a hand-in."""
        plan = self.plan.fresh if self.plan else None
        return Live(self.zygote, program, plan, self.lab.file.limits.seconds_per_call)

    def grade(self, submission: Submission, sink: Sink = nowhere) -> Record:
        """Grade one hand-in; `sink` gets a valid record after each check. Leaves no process of the hand-in behind.

        Raises:
            LaunchError: torch cannot be loaded. Check by check it would be a fault of the grader, which costs no points.
        """
        with self.lab.speaking():
            return self._grade(submission, sink)

    def _grade(self, submission: Submission, sink: Sink) -> Record:
        if self.zygote.ended:  # by an earlier hand-in, or from outside: this one has nothing to do with it
            self.zygote.restart()
        self.zygote.wait_ready()
        sources = read_sources(submission, self.lab.contract)
        if any(TRANSFORMS.search(text) for _, text in sources.program.files.values()):
            self.zygote.load_transforms()
        student = self.guest(sources.program)
        try:
            judge = Judge(self.lab, sources.sources, student, self.remembered, self.mistaken)
            return Grading(submission, judge, self.unsandboxed).run(sink)
        finally:
            with suppress(LaunchError):  # that it stayed is said in the record
                student.close()
