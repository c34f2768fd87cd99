"""Grades attacks in one way of running, in a process of its own: `python tests/attacking.py WAY FOLDER`.

FOLDER/WAY.json names the attacks, and which are graded twice; FOLDER/WAY/outcomes.json comes out: for each what it earned and
told, and what it left behind. test_attacks.py starts this and judges what comes out; nothing is decided here.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import resource
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
ATTACKS = TESTS / "attacks"
# Honest calls take milliseconds; on a busy machine a limit of one second would hit some of them.
SECONDS_PER_CALL = 2.0
SECONDS_PER_RUN = 60.0
MARK = "attack-was-here"
OWN_FILES = ("record.json", "results.json", "feedback.html")
WRITABLE = ("/tmp", "/dev/shm", "/var/tmp")


@dataclass(frozen=True)
class Attack:
    """One folder of tests/attacks: a hand-in, and what it must come to."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.relative_to(ATTACKS).as_posix()

    @cached_property
    def expected(self) -> dict[str, Any]:
        """`expect.toml`: see tests/attacks/README.md for its keys."""
        return tomllib.loads((self.folder / "expect.toml").read_text(encoding="utf-8"))

    @property
    def maker(self) -> Path:
        return self.folder / "make.py"

    def make(self, folder: Path) -> Path:
        """Make the hand-in in an empty folder, where its files cannot be committed. Returns its path."""
        spec = importlib.util.spec_from_file_location("make", self.maker)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made: Path = module.make(folder)
        return made

    def write(self, folder: Path, known: dict[str, str]) -> Path:
        """Copy the hand-in into an empty folder. What an attacker may know of the machine is filled in."""
        for source in self.folder.glob("*.py"):
            text = source.read_text(encoding="utf-8")
            for name, value in known.items():
                text = text.replace(f"@{name}@", value)
            (folder / source.name).write_text(text, encoding="utf-8")
        return folder


def attacks() -> list[Attack]:
    """All of them, by name."""
    return [Attack(path.parent) for path in sorted(ATTACKS.glob("*/*/expect.toml"))]


@dataclass
class Outcome:
    """What one attack came to."""

    seconds: float = 0.0
    record: str = ""
    results: str = ""
    page: str = ""  # feedback.html, which the student reads
    student: str = ""  # the student's table of points
    staff: str = ""
    same_again: bool = True
    left: list[str] = field(default_factory=list)  # processes
    written: list[str] = field(default_factory=list)  # files
    error: str = ""


@dataclass
class Outcomes:
    """What all attacks came to, in one way of running."""

    secrets: list[str] = field(default_factory=list)
    unsandboxed: list[str] = field(default_factory=list)
    control: list[float] = field(default_factory=list)  # what the reference earns before and after
    megabytes: int = 0  # the grader's largest memory
    outcomes: dict[str, Outcome] = field(default_factory=dict)


def read_outcomes(path: Path) -> Outcomes:
    """What `main` has written."""
    found = json.loads(path.read_text(encoding="utf-8"))
    found["outcomes"] = {name: Outcome(**outcome) for name, outcome in found["outcomes"].items()}
    return Outcomes(**found)


def course_with_secrets(folder: Path, secrets: list[str], closed: bool) -> Path:
    """A copy of lab 1 with words in its secret, its reference and its checks that must never be told."""
    course = folder / "course"
    course.mkdir(mode=0o700 if closed else 0o755)
    shutil.copy(ROOT / "course.toml", course)
    shutil.copytree(ROOT / "assignments" / "attention", course / "assignments" / "attention")
    (course / "reference" / "attention").mkdir(parents=True)
    shutil.copy(ROOT / "reference" / "attention" / "attention.py", course / "reference" / "attention")
    lab, checks = course / "assignments" / "attention" / "lab.toml", course / "assignments" / "attention" / "checks.py"
    lines = lab.read_text(encoding="utf-8").splitlines()
    lines = [f'secret = "{secrets[0]}"' if line.startswith("secret = ") else line for line in lines]
    lab.write_text("\n".join(lines), encoding="utf-8")
    checks.write_text(f"{checks.read_text(encoding='utf-8')}\nWORD = '{secrets[1]}'\n", encoding="utf-8")
    reference = course / "reference" / "attention" / "attention.py"
    reference.write_text(f"{reference.read_text(encoding='utf-8')}\nWORD = '{secrets[2]}'\n", encoding="utf-8")
    return course


class Grader:
    """A warm grader in this process, and what it sees of the attacks."""

    def __init__(self, way: str, folder: Path) -> None:
        from autograder import course, lab
        from autograder.sandbox.jail import JailPlan
        from autograder.sandbox.launcher import Process, Zygote
        from autograder.session import Session

        class Watched(Zygote):
            """Remembers the uids of its guests."""

            uids: set[int]

            def fork(self, plan: JailPlan | None) -> Process:
                process = super().fork(plan)
                self.uids |= {process.uid} if process.uid is not None else set()
                return process

        self.secrets = [
            f"SENTINEL-{name}-{os.urandom(8).hex()}" for name in ("secret", "checks", "reference", "setting")
        ]
        os.environ["COURSE_TOKEN"] = self.secrets[3]
        self.folder = folder
        self.results = folder / "results"
        self.results.mkdir()
        self.course = course_with_secrets(folder, self.secrets, closed=way == "no landlock")
        (folder / "cwd").mkdir()
        os.chdir(folder / "cwd")
        loaded = lab.load("attention", self.course)
        limits = {"seconds_per_call": SECONDS_PER_CALL, "seconds_per_run": SECONDS_PER_RUN}
        limited = loaded.file.limits.model_copy(update=limits)
        loaded = replace(loaded, file=loaded.file.model_copy(update={"limits": limited}))
        self.zygote = Watched()
        self.zygote.uids = set()
        self.session = Session(loaded, self.zygote)
        self.settings = course.settings(self.course)
        self.known = {"COURSE": str(self.course), "RESULTS": str(self.results), "GRADER": str(os.getpid())}

    def grade(self, path: Path, sink: Any = None) -> Any:
        """The record of one hand-in."""
        from autograder.grade import nowhere
        from autograder.submission import collect

        return self.session.grade(collect(path, self.session.lab.wanted), sink or nowhere)

    def outcome(self, attack: Attack, made: Path | None, twice: bool) -> Outcome:
        """Grade one attack and look around."""
        from rich.console import Console

        from autograder.reports import console, files, words

        path = made
        if path is None:
            path = self.folder / "hand-in"
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            attack.write(path, self.known)
        found = Outcome()
        started = time.monotonic()
        try:
            record = self.grade(path, files.writer(self.results, self.settings))
            found.seconds = round(time.monotonic() - started, 2)
            found.record = (self.results / "record.json").read_text(encoding="utf-8")
            found.results = (self.results / "results.json").read_text(encoding="utf-8")
            found.page = (self.results / "feedback.html").read_text(encoding="utf-8")
            for shown, staff in ((words.for_student(record), False), (record, True)):
                out = io.StringIO()
                console.render(shown, Console(file=out, width=120), staff=staff)
                setattr(found, "staff" if staff else "student", out.getvalue())
            if twice:
                found.same_again = timeless(self.grade(path)) == timeless(record)
        except BaseException as error:
            found.error = f"{type(error).__name__}: {error}"
        found.left = self.processes_left()
        found.written = self.files_written()
        return found

    def processes_left(self) -> list[str]:
        """Processes that are neither the one that holds torch nor the reference's."""
        from autograder.sandbox.proxy import Live

        ours = {os.getpid(), self.zygote.process.pid}
        reference = self.session.reference
        if isinstance(reference, Live) and reference.process is not None:
            ours.add(reference.process.pid)
        family, found = set(ours), []
        statuses = sorted((int(name), _status(int(name))) for name in os.listdir("/proc") if name.isdigit())
        for pid, status in statuses:  # a child has the higher number, unless the numbers have begun anew
            if status.get("PPid") in family:
                family.add(pid)
            of_a_guest = pid in family or status.get("Uid") in self.zygote.uids
            if pid not in ours and of_a_guest and status.get("State") != "Z":
                found.append(f"{pid} {status}")
        return found

    def files_written(self) -> list[str]:
        """Files that no grader made."""
        found = [str(path) for path in Path().iterdir()]
        found += [str(path) for path in self.results.iterdir() if path.name not in OWN_FILES]
        found += [str(path) for path in self.course.rglob(f"{MARK}*")]
        for folder in WRITABLE:
            for entry in os.scandir(folder):
                marked = entry.name.startswith(MARK) or entry.name in OWN_FILES
                with suppress(FileNotFoundError):  # other programs make and remove files there, too
                    if marked or entry.stat(follow_symlinks=False).st_uid in self.zygote.uids:
                        found.append(entry.path)
        return found


def _status(pid: int) -> dict[str, Any]:
    try:
        fields = dict(
            line.split(b":", 1) for line in Path(f"/proc/{pid}/status").read_bytes().splitlines() if b":" in line
        )
    except OSError:
        return {}
    numbers = {name: int(fields[name.encode()].split()[0]) for name in ("PPid", "Uid")}
    return {**numbers, "State": fields[b"State"].split()[0].decode(), "Name": fields[b"Name"].strip().decode("latin-1")}


def timeless(record: Any) -> Any:
    """A record without what differs from one time to the next."""
    document = record.model_dump(exclude={"seconds"})
    for result in document["results"]:
        del result["seconds"]
    return document


def main(way: str, folder: Path) -> None:
    """Grade what `folder`/WAY.json names, some of it twice; `folder`/made holds the hand-ins that were made."""
    name = way.replace(" ", "-")
    inside = folder / name
    inside.mkdir()
    plan: dict[str, bool] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    grader = Grader(way, inside)
    with grader.session:
        reference = grader.course / "reference" / "attention" / "attention.py"
        found = Outcomes(secrets=grader.secrets, unsandboxed=grader.session.unsandboxed)
        found.control.append(grader.grade(reference).score)
        for attack in attacks():
            if attack.name in plan:
                made = folder / "made" / attack.name.replace("/", "-") / "path"
                path = Path(made.read_text(encoding="utf-8")) if attack.maker.exists() else None
                found.outcomes[attack.name] = grader.outcome(attack, path, plan[attack.name])
        found.control.append(grader.grade(reference).score)
        found.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    (inside / "outcomes.json").write_text(json.dumps(asdict(found)), encoding="utf-8")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(TESTS)]
    if sys.argv[1] == "--ready":
        main(sys.argv[2], Path(sys.argv[3]))
    else:
        import launch

        launch.become(sys.argv[1])
        # Anew: what this process has read as another user, and its memory, is gone.
        os.execv(sys.executable, [sys.executable, "-B", __file__, "--ready", *sys.argv[1:]])
