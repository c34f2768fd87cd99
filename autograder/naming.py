"""How well mistakes are named: wrong output that nobody catalogued must get no name, and two mistakes at once none but theirs.

A Bench exchanges definitions in one running guest, so that a hand-in takes no process of its own and hundreds can be tried.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations

from autograder.check import AuthoringError
from autograder.diagnose import Mistake, MistakenReference, Patches, definitions, patched, patches
from autograder.judge import Finding, Judge
from autograder.lab import Lab
from autograder.result import Status
from autograder.sandbox.proxy import Live, Remembering
from autograder.sandbox.spawner import Launcher
from autograder.source import Source

SPOILED = 200  # hand-ins with random output, of each lab
PAIRS = 60  # of mistakes, of each lab
SECONDS_PER_CALL = 60.0
SPOIL = """

_draw = __import__("torch").Generator().manual_seed({seed})
_right = {symbol}


def _spoiled(value):
    import torch
    if isinstance(value, (tuple, list)):
        return type(value)(_spoiled(item) for item in value)
    if isinstance(value, dict):
        return {{key: _spoiled(item) for key, item in value.items()}}
    if isinstance(value, float):
        return value * {amount} + {amount} / 7
    if not isinstance(value, torch.Tensor):
        return value
    noise = torch.randn(value.shape, generator=_draw)
    if value.dtype == torch.bool:
        return value ^ (noise > 1)
    if {way!r} == "constant":
        return value * 0 + {amount}
    if {way!r} == "shuffled" and value.dim() > 1:
        axis = max(range(value.dim()), key=lambda axis: value.shape[axis])  # so that no catalogued order comes by chance
        return value.index_select(axis, torch.randperm(value.shape[axis], generator=_draw))
    return value + {amount} * value.detach().abs().mean() * noise.to(value.dtype)


"""
FUNCTION = """
def {symbol}(*args, **kwargs):
    return _spoiled(_right(*args, **kwargs))
"""
LAYER = """
class {symbol}(_right):
    def forward(self, *args, **kwargs):
        return _spoiled(super().forward(*args, **kwargs))
"""
IN_FULL, ONE, NONE, ANOTHER = (
    "named in full",
    "one of the two named",
    "none named",
    "named as a third that does the same",
)


@dataclass(frozen=True)
class Counts:
    """What was tried on one lab. `false`: names that nobody had earned, in sentences."""

    spoiled: int
    lost: int  # of the spoiled ones, those that lost points: only these could be named at all
    pairs: Counter[str]
    false: tuple[str, ...]
    seconds: float

    def lines(self) -> list[str]:
        """The report."""
        told = ", ".join(f"{self.pairs[kind]} {kind}" for kind in (IN_FULL, ONE, ANOTHER, NONE))
        return [
            f"{self.spoiled} random wrong outputs ({self.lost} lose points) and {self.pairs.total()} pairs of mistakes: "
            f"{len(self.false)} false names ({self.seconds:.0f} s)",
            f"pairs: {told}",
            *(f"✗ {sentence}" for sentence in self.false),
        ]


def run(lab: Lab, zygote: Launcher, spoil: int = SPOILED, pairs: int = PAIRS) -> Counts:
    """Spoil the symbols of a lab in turn, then put its mistakes together in pairs, and see what is named."""
    begun = time.monotonic()
    bench = Bench(lab, zygote)
    places = nameable(lab)
    false: list[str] = []
    lost = 0
    try:
        for seed in range(spoil if places else 0):
            module, symbol = places[seed % len(places)]
            found = bench.findings(spoiled(lab, module, symbol, seed), symbol)
            lost += any(finding.status is Status.FAILED for finding in found.values())
            false += [
                f"{symbol}, spoiled with seed {seed}: {check} names {'+'.join(finding.mistakes)}"
                for check, finding in found.items()
                if finding.mistakes
            ]
        everything = together(lab, [item for item in lab.mistakes if item.told == "cause"])
        told: Counter[str] = Counter()
        for two in random.Random(lab.name).sample(everything, min(pairs, len(everything))):
            how, wrong = bench.named(two)
            told[how] += 1
            false += wrong
    finally:
        bench.close()
    return Counts(spoil if places else 0, lost, told, tuple(false), time.monotonic() - begun)


def nameable(lab: Lab) -> list[tuple[str, str]]:
    """Module and symbol of all that has mistakes whose cause is told, where the reference defines it."""
    places = dict.fromkeys((item.module or lab.main_module, item.of) for item in lab.mistakes if item.told == "cause")
    return [place for place in places if place in definitions(lab.reference)]


def spoiled(lab: Lab, module: str, symbol: str, seed: int) -> Patches:
    """The reference's symbol with an output that is wrong, a little or entirely, in a way that nobody catalogued."""
    chance = random.Random(f"{symbol} {seed}")
    text = definitions(lab.reference)[module, symbol].text
    way = chance.choice(("noise", "noise", "constant", "shuffled"))
    amount = 10 ** chance.uniform(-2.5, 1) * chance.choice((-1, 1))
    wrapped = SPOIL + (LAYER if text.startswith("class") else FUNCTION)
    return {(module, symbol): text + wrapped.format(symbol=symbol, seed=seed, way=way, amount=amount)}


def together(lab: Lab, known: Iterable[Mistake]) -> list[tuple[Mistake, Mistake]]:
    """The pairs of one symbol's mistakes that can be made at once."""
    found = []
    for two in combinations(known, 2):
        if two[0].of == two[1].of:
            with suppress(AuthoringError):
                patches(two, lab.reference, lab.main_module)
                found.append(two)
    return found


class Bench:
    """One lab's judge, and a student whose definitions are exchanged in place."""

    def __init__(self, lab: Lab, zygote: Launcher) -> None:
        # Without a secret no guest is replaced between two checks: what was defined in it stays.
        self.lab = replace(lab, file=lab.file.model_copy(update={"secret": ""}))
        self.student = Live(zygote, lab.reference, None, SECONDS_PER_CALL)
        self.oracle = Live(zygote, lab.reference, None, SECONDS_PER_CALL)
        self.remembered = Remembering(self.oracle)
        self.mistaken = MistakenReference(self.remembered, lab.reference, lab.main_module)

    def close(self) -> None:
        """End both guests."""
        self.student.close()
        self.oracle.close()

    def findings(
        self, changed: Patches, symbol: str, catalogue: Iterable[Mistake] | None = None, passed: Iterable[str] = ()
    ) -> dict[str, Finding]:
        """What the checks of a symbol come to while definitions are changed; what a failed one gates is left out.

        Args:
            catalogue: the mistakes that may be named, where not all.
            passed: checks that are taken to have passed before.

        Raises:
            AuthoringError: the grader itself failed.
        """
        lab = self.lab if catalogue is None else replace(self.lab, mistakes=tuple(catalogue))
        judge = Judge(lab, self.sources(changed), self.student, self.remembered, self.mistaken)
        judge.passed.update(passed)
        found: dict[str, Finding] = {}
        stopped: set[str] = set()
        for (module, name), source in changed.items():
            self.student.ask("define", module=module, symbol=name, source=source)
        for check in [check for check in self.lab.checks if check.target == symbol]:
            if not stopped & set(check.after):
                found[check.name] = judge.find(check)
            if check.name not in found or found[check.name].status is not Status.PASSED:
                stopped.add(check.name)
        self.student.ask("restore")
        if judge.faults:
            raise AuthoringError(f"{symbol}: fault of the grader: {'; '.join(judge.faults)}")
        return found

    def named(self, two: tuple[Mistake, Mistake], catalogue: Iterable[Mistake] | None = None) -> tuple[str, list[str]]:
        """How two mistakes, made at once, are named, and the names that are false, in sentences."""
        found = self.findings(patches(two, self.lab.reference, self.lab.main_module), two[0].of, catalogue)
        names = {name for finding in found.values() for name in finding.mistakes}
        own = names & {item.name for item in two}
        thirds = [item for item in self.lab.mistakes if item.name in names - own]
        false = [
            f"{two[0].name} and {two[1].name} are called {third.name}"
            for third in thirds
            if not self.does_the_same(third, found)
        ]
        return ANOTHER if thirds else (NONE, ONE, IN_FULL)[len(own)], false

    def does_the_same(self, item: Mistake, found: Mapping[str, Finding]) -> bool:
        """Two mistakes may make up a third: then no check can tell them apart, and its name is as right as theirs."""
        alone = self.findings(patches([item], self.lab.reference, self.lab.main_module), item.of)
        return {check: finding.gap for check, finding in alone.items()} == {
            check: finding.gap for check, finding in found.items()
        }

    def sources(self, changed: Patches) -> dict[str, Source]:
        """The hand-in as text, which rules are read from."""
        texts = patched(self.lab.reference, changed)
        return {module: Source.read(text.encode(), f"{module}.py") for module, text in texts.items()}
