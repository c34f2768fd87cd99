"""How each tool is set up with the twenty checks, started on one hand-in and on a class, and where its score stands."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
import sys
import xml.etree.ElementTree
from pathlib import Path

from benchmarks import COURSE, ROOT, environments, forms, handins
from benchmarks.forms import POINTS
from benchmarks.measure import Command, run


class Tool:
    """A tool that grades one hand-in with one command, so a class with as many commands.

    Args:
        work: a folder of its own.
    """

    name = ""
    requirements: tuple[str, ...] = ()  # itself first
    isolation = "none"  # between the hand-in and what judges it, in words
    hundred = True  # whether a class of a hundred is graded: see docs/benchmarks.md

    def __init__(self, work: Path) -> None:
        self.work = work / self.name
        self.python = Path(sys.executable)

    def prepare(self) -> None:
        """Install it, and give it the twenty checks. Raises CannotInstall."""
        if self.requirements:
            self.python = environments.python_of(self.name, *self.requirements)
        self.write({**forms.beside(), **self.form()})

    def form(self) -> forms.Files:
        """The twenty checks as the tool wants them."""
        return {}

    def write(self, files: forms.Files, below: str = ".") -> None:
        """Write files into the tool's folder."""
        for name, text in files.items():
            path = self.work / below / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def place(self, student: int) -> None:
        """Put a hand-in where the tool expects it. Not measured."""
        self.write({"twenty.py": handins.text(student)})

    def command(self) -> Command:
        """What grades the hand-in that was placed."""
        raise NotImplementedError

    def score(self) -> float:
        """The points that the last command gave. Raises an OSError, ValueError or LookupError where it gave none."""
        raise NotImplementedError

    def started(self, *words: str | Path) -> Command:
        """The tool's interpreter with these words, where whatever else belongs to the tool is found, too."""
        found = {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}
        return Command([self.python, *words], self.work, found)

    def set_up(self, module: str, *words: str) -> None:
        """Run a module of the tool. Raises CannotInstall where that does not succeed."""
        done = run(self.started("-m", module, *words))
        if done.status:
            raise environments.CannotInstall(f"{module} {words[0]}: {done.said.strip().splitlines()[-1]}")


class GradescopeUtils(Tool):
    """unittest with gradescope-utils' runner, as Gradescope's own examples have it."""

    name = "gradescope-utils"
    requirements = ("gradescope-utils==0.5.0",)

    def form(self) -> forms.Files:
        return forms.for_unittest()

    def command(self) -> Command:
        return self.started("run_tests.py")

    def score(self) -> float:
        found = json.loads((self.work / "results.json").read_text())
        return sum(float(test["score"]) for test in found["tests"])


class Pytest(Tool):
    """Plain pytest with a report in JUnit's form."""

    name = "pytest"
    requirements = ("pytest==9.2.0",)

    def form(self) -> forms.Files:
        return forms.for_pytest()

    def command(self) -> Command:
        return self.started("-m", "pytest", "-q", "--junitxml=report.xml")

    def score(self) -> float:
        suite = xml.etree.ElementTree.parse(self.work / "report.xml").getroot()[0].attrib
        return POINTS * (int(suite["tests"]) - int(suite["failures"]) - int(suite["errors"]))


class Check50(Tool):
    """check50 on this machine; it forks a process for each check."""

    name = "check50"
    requirements = ("check50==3.5.0",)
    isolation = "a process for each check, same user"

    def form(self) -> forms.Files:
        return forms.for_check50()

    def prepare(self) -> None:
        super().prepare()
        for name in forms.beside():
            shutil.move(self.work / name, self.work / "checks" / name)

    def command(self) -> Command:
        return self.started("-m", "check50", "--dev", "-o", "json", "--output-file", "report.json", "checks")

    def score(self) -> float:
        found = json.loads((self.work / "report.json").read_text())
        return float(POINTS * sum(result["passed"] is True for result in found["results"]))


class Otter(Tool):
    """`otter run` on a notebook; its isolation for a class is Docker, which is left out here in its favour."""

    name = "otter-grader"
    requirements = ("otter-grader==7.0.0", "ipykernel==7.4.0")  # without a kernel, no notebook
    isolation = "a kernel, same user"
    hundred = False

    def form(self) -> forms.Files:
        return forms.for_otter()

    def prepare(self) -> None:
        super().prepare()
        self.set_up("otter", "generate", "-t", "tests", "-o", "autograder.zip", "--no-environment", *forms.beside())

    def place(self, student: int) -> None:
        (self.work / "out").mkdir(exist_ok=True)
        self.write({"twenty.ipynb": forms.code_notebook(handins.text(student))})

    def command(self) -> Command:
        return self.started("-m", "otter", "run", "-a", "autograder.zip", "-o", "out", "twenty.ipynb")

    def score(self) -> float:
        found = json.loads((self.work / "out" / "results.json").read_text())
        return sum(float(test["score"]) for test in found["tests"] if test.get("score"))


class Classes:
    """What a tool has that grades a class with one command."""

    def place_class(self, students: int) -> None:
        """Put a class where the tool expects it, and take away what an earlier one left. Not measured."""
        raise NotImplementedError

    def class_command(self) -> Command:
        """What grades the class that was placed."""
        raise NotImplementedError

    def class_scores(self) -> list[float]:
        """The points of every student, in the order of their names."""
        raise NotImplementedError


class Nbgrader(Tool, Classes):
    """`nbgrader autograde`, whose class is one command; a kernel for each hand-in."""

    name = "nbgrader"
    requirements = ("nbgrader==0.9.6",)
    isolation = "a kernel, same user"

    def prepare(self) -> None:
        super().prepare()
        source = {**forms.beside(), **forms.for_nbgrader(handins.SOLUTION.read_text(encoding="utf-8"))}
        self.write(source, "source/twenty")
        settings = 'c = get_config()\nc.CourseDirectory.course_id = "course"\nc.ExecutePreprocessor.timeout = 300\n'
        self.write({"nbgrader_config.py": settings})
        self.set_up("nbgrader", "generate_assignment", "twenty")

    def place(self, student: int) -> None:
        self._place([student])

    def place_class(self, students: int) -> None:
        self._place(range(students))

    def _place(self, students: range | list[int]) -> None:
        for folder in ("submitted", "autograded"):
            shutil.rmtree(self.work / folder, ignore_errors=True)
        for student in students:
            self.write(forms.for_nbgrader(handins.text(student)), f"submitted/{handins.name(student)}/twenty")

    def command(self) -> Command:
        return self.started("-m", "nbgrader", "autograde", "twenty", "--force")

    def class_command(self) -> Command:
        return self.command()

    def score(self) -> float:
        return self.class_scores()[0]

    def class_scores(self) -> list[float]:
        placed = sorted(path.name for path in (self.work / "autograded").iterdir())
        asked = (
            "select submitted_assignment.student_id, sum(coalesce(grade.manual_score, grade.auto_score)) from grade "
            "join submitted_notebook on grade.notebook_id = submitted_notebook.id "
            "join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id group by 1"
        )
        with sqlite3.connect(self.work / "gradebook.db") as database:
            found = dict(database.execute(asked).fetchall())
        return [found[name] for name in placed]


class Ours(Tool, Classes):
    """This framework, with all layers of its sandbox."""

    name = "this framework"
    isolation = "a process of its own: other user, no files, no network, memory and time limited"

    def __init__(self, work: Path, workers: int = 2) -> None:
        super().__init__(work)
        self.workers = workers

    def prepare(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)

    def command(self) -> Command:
        return self._command("grade", "twenty", "twenty.py", "--out", "out")

    def score(self) -> float:
        return float(json.loads((self.work / "out" / "record.json").read_text())["score"])

    def place_class(self, students: int) -> None:
        for folder in ("class", "out-class"):
            shutil.rmtree(self.work / folder, ignore_errors=True)
        for student in range(students):
            self.write({"twenty.py": handins.text(student)}, f"class/{handins.name(student)}")

    def class_command(self) -> Command:
        return self._command("grade-all", "twenty", "class", "--out", "out-class", "--workers", str(self.workers))

    def class_scores(self) -> list[float]:
        with (self.work / "out-class" / "grades.csv").open(encoding="utf-8-sig", newline="") as book:
            return [float(row["points"]) for row in sorted(csv.DictReader(book), key=lambda row: row["student"])]

    def _command(self, *words: str) -> Command:
        return framework(COURSE, self.work, *words)


def framework(course: Path, cwd: Path, *words: str) -> Command:
    """A command of this framework on a course."""
    argv = [sys.executable, "-m", "autograder", "--course", str(course), *words]
    return Command(argv, cwd, {"PYTHONPATH": str(ROOT)})


PEERS = (GradescopeUtils, Pytest, Check50, Nbgrader, Otter)
