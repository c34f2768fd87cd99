"""What the attacks came to, as tables for people: all of them in docs/attacks.md, their sum in docs/security.md.

Made of the outcomes that tests/test_attacks.py has judged: `make attacks` prints them, `make attacks TABLES=docs` commits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from attacking import Attack, Outcomes, attacks

from autograder.result import Record

BEGIN, END = "<!-- attacks: made by `make attacks TABLES=docs` -->", "<!-- end of attacks -->"
TITLES = {"root": "root", "no landlock": "root, no Landlock", "user": "ordinary user", "docker": "as in Docker"}
HEAD = """# What each attack came to

Made by `make attacks TABLES=docs`. *Honest*: points of 100 for what is solved in the hand-in. In each way of running: points
earned, and seconds. *Leaks*: ways in which a secret word was told. *Left*: processes after the grading. *Usual*: what an
in-process grader with gradescope-utils pays for the same hand-in (`nothing`: it leaves no results at all).
"""


def write(folder: Path, graded: Mapping[str, Outcomes], paid: Mapping[str, Any]) -> None:
    """Write attacks.md, and the sum of it into security.md where that has a place for it (else beside it)."""
    folder.mkdir(parents=True, exist_ok=True)
    known = attacks()
    (folder / "attacks.md").write_text(f"{HEAD}\n{whole(known, graded, paid)}", encoding="utf-8")
    page = folder / "security.md"
    text = page.read_text(encoding="utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{summary(known, graded, paid)}{END}{after}", encoding="utf-8")


def whole(known: list[Attack], graded: Mapping[str, Outcomes], paid: Mapping[str, Any]) -> str:
    """A row for each attack."""
    ways = [TITLES[way] for way in graded]
    rows = [["attack", "honest", *ways, "leaks", "left", "usual"]]
    for attack in known:
        told = sum(leaks(attack, found) for found in graded.values())
        left = sum(len(found.outcomes[attack.name].left) for found in graded.values())
        cells = [f"{score(attack, found):g} · {found.outcomes[attack.name].seconds:.1f} s" for found in graded.values()]
        rows.append([attack.name, f"{honest(attack):g}", *cells, str(told), str(left), words(paid.get(attack.name, ""))])
    return table(rows)


def summary(known: list[Attack], graded: Mapping[str, Outcomes], paid: Mapping[str, Any]) -> str:
    """A row for each group."""
    rows = [["group", "attacks", "earned more than is solved", "leaks", "processes left", "seconds: median, most",
             "usual grader pays more", "usual grader: no results"]]  # fmt: skip
    groups: dict[str, list[Attack]] = {}
    for attack in known:
        groups.setdefault(attack.folder.parent.name, []).append(attack)
        groups.setdefault("all", []).append(attack)
    for name, some in sorted(groups.items(), key=lambda item: item[0] == "all"):
        pairs = [(attack, found) for attack in some for found in graded.values()]
        seconds = [found.outcomes[attack.name].seconds for attack, found in pairs]
        usual = [(attack, paid[attack.name]) for attack in some if attack.name in paid]
        rows.append([
            name,
            str(len(some)),
            str(sum(score(attack, found) > honest(attack) for attack, found in pairs)),
            str(sum(leaks(attack, found) for attack, found in pairs)),
            str(sum(len(found.outcomes[attack.name].left) for attack, found in pairs)),
            f"{median(seconds):.1f}, {max(seconds):.1f}",
            str(sum(not isinstance(pays, str) and pays > honest(attack) for attack, pays in usual)),
            str(sum(isinstance(pays, str) for _, pays in usual)),
        ])  # fmt: skip
    return table(rows)


def honest(attack: Attack) -> float:
    """The points that it must come to."""
    return float(attack.expected["score"])


def score(attack: Attack, found: Outcomes) -> float:
    """The points that it came to."""
    return Record.model_validate_json(found.outcomes[attack.name].record).score


def leaks(attack: Attack, found: Outcomes) -> bool:
    """Whether a word was told that nobody, or no student, may read."""
    outcome = found.outcomes[attack.name]
    told = outcome.results + outcome.page + outcome.student
    everything = told + outcome.record + outcome.staff
    never = [*found.secrets, *attack.expected.get("never", [])]
    return any(word in everything for word in never) or any(word in told for word in attack.expected.get("untold", []))


def words(pays: Any) -> str:
    """A payment in a table."""
    return pays if isinstance(pays, str) else f"{pays:g}"


def table(rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]]) + "\n"
