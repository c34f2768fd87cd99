"""What is handed in to a platform, for any lab: made from its reference, its starter and its mistakes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from autograder import bundle
from autograder.lab import Lab
from autograder.specimens import with_mistake

HOLE = "# BEGIN SOLUTION"
ENDLESS = "while True:\n    pass"
GREEDY = "import torch\nkept = []\nwhile True:\n    kept.append(torch.ones(1_000_000))"
# Longer than the platform keeps: what is printed, and what is raised.
TALKATIVE = 'print("many words " * 20_000)\nraise ValueError("a long reason " * 20_000)'
# What a hand-in would do on this platform, whose layout everybody can read: tell results, end its judge, stay, look.
ATTACK = """
import glob, os, signal, subprocess, sys

print("the attack begins")
RESULTS = '{"score": 1000, "tests": [], "output": "all passed"}'
for place in ("/autograder/results", "/autograder", "/tmp", "/dev/shm", "."):
    for name in ("results.json", "record.json"):
        try:
            open(f"{place}/{name}", "w").write(RESULTS)
            print(f"ATTACK: wrote {place}/{name}")
        except OSError:
            pass
RECORD = ["/autograder/results/record.json", "/autograder/results/.record.json.part"]
for path in glob.glob("/autograder/source/**", recursive=True) + RECORD:
    try:
        print("ATTACK: read", open(path).read())
    except OSError:
        pass
CHILD = f"import time; time.sleep(8); open('/autograder/results/results.json', 'w').write('{RESULTS}'); time.sleep(600)"
try:
    subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=True)
    print("ATTACK: stays")
except OSError:
    pass
# All processes of a container; on any other machine only the one that it can know to be the grader's.
for pid in range(1, 400) if os.path.exists("/autograder/run_autograder") else [os.getppid()]:
    try:
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
            print("ATTACK: ended", pid)
    except OSError:
        pass
"""
NOTHING = (0.0, 0.0)
BEGAN, SUCCEEDED = "the attack begins", "ATTACK:"


@dataclass(frozen=True)
class HandIn:
    """One of them."""

    name: str
    files: dict[str, bytes]
    worth: tuple[float, float] = (0.0, 0.99)  # the share of the lab's points that it must earn: at least, and at most
    killed: bool = False  # the platform ends its run halfway
    attack: bool = False
    size_tells: bool = False  # what is said of it depends on the machine's size, so that only the points are compared
    landlock: bool = True  # whether the platform's kernel has it


def all_of(lab: Lab) -> list[HandIn]:
    """Everything that is tried with a lab."""
    reference = with_mistake(lab)
    starter = {**reference, lab.file.main: bundle.starter_files(lab)[lab.file.main]}
    mistakes = [item for item in lab.mistakes if item.told == "cause"][:1]
    main = lab.file.main
    attack = {**starter, main: ATTACK.encode() + starter[main].replace(b"from __future__ import annotations\n", b"")}
    return [
        HandIn("the reference", reference, worth=(1.0, 1.5)),
        HandIn("the untouched starter", starter, worth=NOTHING),
        *(HandIn(f"a mistake: {item.name}", with_mistake(lab, item)) for item in mistakes),
        HandIn("an attack, in the starter", attack, worth=NOTHING, attack=True),
        HandIn("the same, without Landlock", attack, worth=NOTHING, attack=True, landlock=False),
        HandIn("an endless loop", {**reference, main: beginning_with(ENDLESS, reference[main])}),
        HandIn("memory without end", {**reference, main: beginning_with(GREEDY, reference[main])}, size_tells=True),
        HandIn("far too much output", {**reference, main: beginning_with(TALKATIVE, reference[main])}),
        HandIn("the reference, killed halfway", reference, worth=(0.01, 0.99), killed=True),
    ]


def beginning_with(statements: str, source: bytes) -> bytes:
    """A reference's file in which the first function that students write (or method, if none) begins with these statements."""
    text = source.decode()
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    function = next(node for node in functions if HOLE in (ast.get_source_segment(text, node) or ""))
    body = function.body[1] if ast.get_docstring(function) else function.body[0]
    lines = text.splitlines()
    at = body.lineno - 1
    added = [" " * body.col_offset + line for line in statements.splitlines()]
    return "\n".join([*lines[:at], *added, *lines[at:], ""]).encode()


def put(hand_in: HandIn, folder: Path) -> Path:
    """Write a hand-in into a new folder."""
    folder.mkdir(parents=True)
    for name, data in hand_in.files.items():
        (folder / name).write_bytes(data)
    return folder
