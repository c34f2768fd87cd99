"""What needs no root file system of the platform harness, and its container with this machine's own programs in it.

The whole of it (`make platform`) takes minutes and root; test_gradescope.py has the quick stand-in.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Grade
from handed_out import unzipped
from harness import CannotRun, base, dockerfile, gradescope, handins, inside, machine, report
from harness.container import Container, Ended, Limits

from autograder import lab as labs
from autograder import policy
from autograder.reports.gradescope import Results, Test
from autograder.reports.gradescope import text as as_file

LABS = sorted(path.name for path in (ROOT / "reference").iterdir())
ENDED = Ended(status=0, seconds=5.04, limit=False, left=(), results="", peak=316_000_000)


def results(score: float = 60.0, output: str = "60 / 100 points", shown: str = "wrong") -> Results:
    test = Test(score=score, max_score=100, status="failed", name="read", number="1.1.1", output=shown)
    return Results(score=score, execution_time=2.5, output=output, tests=[test])


# What the platform does -------------------------------------------------------------------------------------------------


def test_metadata_has_the_documented_form_and_is_understood() -> None:
    known = gradescope.metadata(
        4711, "Lab 1", "100.0", datetime(2026, 3, 2, 14, 22, 32, 365935), earlier=[{"score": 1.0}]
    )
    assert set(known) == {"id", "created_at", "assignment", "submission_method", "users", "previous_submissions"}
    assert set(known["assignment"]) == {
        "due_date", "group_size", "group_submission", "id", "course_id", "late_due_date", "release_date", "title", "total_points"
    }  # fmt: skip
    assert known["created_at"] == "2026-03-02T14:22:32.365935-07:00"
    facts = policy.circumstances(known)
    assert facts.created is not None and facts.due is not None
    assert (facts.due - facts.created).days == 7
    assert policy.days_late(facts, 0) == 0


def test_texts_are_cut_where_the_platform_cuts_them() -> None:
    long = "é" * (gradescope.TEXT_LIMIT + 1)
    found, fault = gradescope.received(as_file(results(output=long, shown=long + "x")))
    assert found is not None and not fault
    assert len(found.output) == len(found.tests[0].output) == gradescope.TEXT_LIMIT
    assert found.score == 60


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "there is no results.json"),
        ("", "not valid"),
        ('{"score": 1', "not valid"),
        ('{"score": NaN}', "not valid"),
        ("[]", "not valid"),
    ],
)
def test_a_results_file_that_is_none_is_a_fault(text: str | None, fault: str) -> None:
    found, said = gradescope.received(text)
    assert found is None
    assert fault in said


# What is handed in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LABS)
def test_every_lab_has_all_hand_ins(name: str) -> None:
    lab = labs.load(name, ROOT)
    found = handins.all_of(lab)
    assert len({one.name for one in found}) == len(found) == 9
    for one in found:
        assert set(one.files) == set(lab.wanted), one.name
        for data in one.files.values():
            ast.parse(data)
    assert len({one.files[lab.file.main] for one in found}) == len(found) - 2  # the reference and the attack come twice


def test_the_attack_is_tried_and_fails(grade: Grade) -> None:
    attack = next(one for one in handins.all_of(labs.load("attention", ROOT)) if one.attack)
    record = grade("attention", attack.files)
    assert record.score == 0
    printed = "".join(result.printed for result in record.results)
    assert handins.BEGAN in printed
    assert record.sandbox or handins.SUCCEEDED not in printed


def test_statements_come_first_in_the_first_function() -> None:
    first = 'def first(x):\n    """Say."""\n    # BEGIN SOLUTION 1.1 say\n    return x\n    # END SOLUTION\n'
    source = f'"""What."""\n\n\ndef given(x):\n    return x\n\n\n{first}\n\ndef second(x):\n    return x\n'.encode()
    names: dict[str, object] = {}
    exec(handins.beginning_with("x = 2\nx += 1", source), names)
    assert names["first"](0) == 3  # type: ignore[operator]
    assert names["given"](0) == names["second"](0) == 0  # type: ignore[operator]


# The table --------------------------------------------------------------------------------------------------------------

HAND_IN = handins.HandIn("the reference", {})


def row(there: Results | None, here: Results | None, ended: Ended = ENDED, **facts: object) -> report.Row:
    outcome = gradescope.Outcome(ended, there, "" if there else "there is no results.json", "")
    return report.Row("attention", replace(HAND_IN, **facts), outcome, here, most=100)  # type: ignore[arg-type]


def test_equal_results_are_a_row_without_faults() -> None:
    later = results().model_copy(update={"execution_time": 9.0})
    found = row(results(), later)
    assert found.faults() == []
    assert found.cells() == ["attention", "the reference", "60", "60", "yes", "5.0", "316", "yes", "0"]
    lines = report.table([found]).splitlines()
    assert [line.count("|") for line in lines] == [len(report.HEAD) + 1] * 3


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (row(results(), results(shown="right")), "output of 1.1.1: 'wrong' and here 'right'"),
        (row(results(), results(output="all")), "output: '60 / 100 points' and here 'all'"),
        (row(None, results()), "there is no results.json"),
        (row(results(), results(), replace(ENDED, left=("python -c 1",))), "a process was left: python -c 1"),
        (row(results(), results(), replace(ENDED, limit=True)), "the run was killed at the limit"),
        (row(results(), None), "the run was not killed at the limit"),
        (row(results(), None, replace(ENDED, limit=True), killed=True), "must say that it is not finished"),
        (row(results(shown="x" * 100_000), results(shown="x" * 100_000)), "a text was cut"),
        (row(results(), results(), attack=True), "the attack did not run"),
        (row(results(shown="ATTACK: wrote"), results(shown="ATTACK: wrote"), attack=True), "an attack did something"),
        (row(results(60), results(61), size_tells=True), "differ"),
        (row(results(60), results(60), worth=(0.0, 0.0)), "it scores 60, not 0 to 0"),
        (row(results(60), results(60), worth=(1.0, 1.5)), "it scores 60, not 100 to 150"),
    ],
)
def test_what_is_not_as_it_must_be_is_told(found: report.Row, fault: str) -> None:
    assert fault in "\n".join(found.faults())


def test_a_killed_run_keeps_what_was_earned() -> None:
    found = row(
        results(output="The grading is not finished."), None, replace(ENDED, limit=True, status=-9), killed=True
    )
    assert found.faults() == []
    assert found.cells()[2:5] == ["60", "–", "–"]


def test_where_the_machine_decides_what_is_said_the_points_are_compared() -> None:
    found = row(results(shown="the system killed it"), results(shown="3,072 MB"), size_tells=True)
    assert found.faults() == []
    assert found.cells()[4] == "yes, points"


def test_each_reader_is_shown_what_it_sees() -> None:
    outcome = gradescope.Outcome(ENDED, results(), "", "what was printed")
    students, _, staff = report.seen(outcome).partition("what only staff see")
    assert "now: 1 of 1 tests, 60 points" in students
    assert "what was printed" in staff
    assert "what was printed" not in students


def test_the_table_goes_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGINS}\nold\n{report.ENDS}\nafter\n", encoding="utf-8")
    report.put("new", page)
    assert page.read_text(encoding="utf-8") == f"before\n{report.BEGINS}\nnew\n{report.ENDS}\nafter\n"


# What it needs ----------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "sudo make platform" in base.missing()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "apt-get install mmdebstrap" in base.missing()
    with pytest.raises(CannotRun, match="mmdebstrap"):
        base.made(tmp_path)
    (tmp_path / f"base-{base.SUITE}{base.STAMP}").write_text(" ".join(base.PACKAGES), encoding="utf-8")
    assert base.made(tmp_path) == tmp_path / f"base-{base.SUITE}"  # made before: no tool is needed any more
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert base.missing() == ""


@pytest.mark.parametrize("name", base.TOOLS)
def test_the_root_holds_nothing_of_ours(name: str, tmp_path: Path) -> None:
    words = base.command(name, tmp_path)
    assert words[0] == name
    assert words[-2:] == [base.SUITE, str(tmp_path)]
    assert "--variant=minbase" in words
    assert not [word for word in words if "venv" in word or "pip" in word]


def test_what_pip_names_on_disk_is_shared(tmp_path: Path) -> None:
    for name in ("wheels", "index/simple"):
        (tmp_path / name).mkdir(parents=True)
    settings = tmp_path / "pip.conf"
    index = f"file://{tmp_path}/index/simple file:///not/there/simple https://example.org/simple"
    settings.write_text(f"[global]\nfind-links = {tmp_path}/wheels\nextra-index-url = {index}\ntimeout = 5\n")
    assert machine.local_paths(machine.values(settings)) == [tmp_path / "wheels", tmp_path / "index"]


# The container ----------------------------------------------------------------------------------------------------------

OF_THIS_MACHINE = tuple(path for path in map(Path, ("/usr", "/bin", "/lib", "/lib64")) if path.exists())
KEEPS_ON = """
mkdir -p /autograder/results
sleep 600 &
echo '{"score": 40}' > /autograder/results/results.json
echo printed
sleep 600
"""
LOOKS = """
mount -t tmpfs none /mnt 2>/dev/null && echo mounts
[ -e /proc/kcore ] && [ -s /proc/kcore ] && echo kcore
echo 1 2>/dev/null > /proc/sys/kernel/core_pattern && echo sysctl
touch /usr/x 2>/dev/null && echo writes
echo pid $$ of $(ls /proc | grep -c '^[0-9]')
head -c 4 /dev/zero > /dev/null && echo devices
grep -h 'CapEff\\|Seccomp:' /proc/self/status
"""


def entered(tmp_path: Path, script: str, **given: object) -> tuple[Ended, str] | None:
    """Run a script in a root that has this machine's programs; None where no root can be entered, which is said."""
    (tmp_path / "empty").mkdir()
    container = Container((tmp_path / "empty",), tmp_path / "container")
    container.clear()
    try:
        ended = container.run(("sh", "-c", script), tmp_path / "printed", shared=OF_THIS_MACHINE, **given)  # type: ignore[arg-type]
    except CannotRun as error:
        assert "could not be entered" in str(error) or "control group" in str(error)
        return None
    return ended, (tmp_path / "printed").read_text()


@pytest.mark.parametrize(("seconds", "points"), [(600.0, 40.0), (2.0, 0.0)])
def test_at_the_limit_only_the_direct_child_is_killed(tmp_path: Path, seconds: float, points: float) -> None:
    limits = Limits(megabytes=256, cores=1, seconds=seconds)
    found = entered(tmp_path, KEEPS_ON, limits=limits, results="/autograder/results/results.json", points=points)
    if found:
        ended, printed = found
        assert (ended.status, ended.limit) == (-9, True)
        assert ended.results == '{"score": 40}\n'
        assert sorted(ended.left) == ["sleep 600", "sleep 600"]  # what it started outlives it
        assert printed == "printed\n"
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert "sleep 600" not in running.splitlines()  # and ends with the container


def test_a_container_has_what_docker_gives_and_no_more(tmp_path: Path) -> None:
    found = entered(tmp_path, LOOKS)
    if found:
        ended, printed = found
        assert ended.left == ()
        assert not [word for word in ("mounts", "kcore", "sysctl", "writes") if word in printed]
        assert "devices" in printed
        assert re.search(r"pid 2 of [2-4]\b", printed), printed
        assert re.search(r"Seccomp:\s+2", printed)
        assert "CapEff:\t00000000a80425fb" in printed  # Docker's default set


def test_points_of_a_results_file_that_is_being_written() -> None:
    assert inside.earned('{"score": 2.5, "tests": []}') == 2.5
    assert [inside.earned(text) for text in (None, "", "{", "[]", "{}", '{"score": null}')] == [0] * 6


# Other platforms --------------------------------------------------------------------------------------------------------


def test_the_dockerfile_has_only_instructions_that_are_tried() -> None:
    found = dockerfile.instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert found[0][0] == "FROM"
    state = dockerfile.State()
    for word, rest in found:
        if word == "RUN":
            assert subprocess.run(["sh", "-n", "-c", rest], check=False).returncode == 0
        elif word == "COPY":
            assert (ROOT / rest.split()[0]).exists()
        elif word != "WORKDIR":
            dockerfile.follow(word, rest, state, ROOT, Path("/nowhere"))
    assert state.entry == ("/venv/bin/python", "-m", "autograder")
    with pytest.raises(CannotRun, match="HEALTHCHECK"):
        dockerfile.follow("HEALTHCHECK", "", state, ROOT, Path("/nowhere"))


def test_what_is_copied_into_an_image_is_the_course(tmp_path: Path) -> None:
    state = dockerfile.State()
    for word, rest in dockerfile.instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        if word in ("WORKDIR", "COPY"):
            dockerfile.follow(word, rest, state, ROOT, tmp_path)
    course = tmp_path / "course"
    assert labs.load("attention", course).max_score == 100
    assert not list(course.rglob("__pycache__"))
    assert {path.name for path in course.iterdir()} == {
        "assignments", "autograder", "course.toml", "reference", "requirements.txt", "starter_code"
    }  # fmt: skip


def steps() -> list[dict[str, object]]:
    workflow = yaml.safe_load((ROOT / "docs/github/check.yml").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = workflow["jobs"]["check"]["steps"]
    return found


@pytest.mark.parametrize(("solved", "status", "points"), [(True, 0, "65.5 / 65.5"), (False, 1, "0 / 65.5")])
def test_the_steps_of_the_workflow_run_in_a_students_folder(
    solved: bool, status: int, points: str, tmp_path: Path
) -> None:
    """As GitHub runs them: `bash --noprofile --norc -eo pipefail` on each script, with a file for the summary."""
    folder = unzipped("attention-student.zip", tmp_path / "repository")
    if solved:
        shutil.copy(ROOT / "reference/attention/attention.py", folder)
    summary = tmp_path / "summary.md"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
        "TORCH_INDEX": "",
        "OMP_NUM_THREADS": "1",
    }
    scripts = [str(step["run"]) for step in steps() if "run" in step]
    assert len(scripts) == 2
    assert scripts[0].endswith("-r requirements.txt")
    (tmp_path / "step.sh").write_text(scripts[1], encoding="utf-8")
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(tmp_path / "step.sh")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert f"::notice title=Points::Total {points} points" in done.stdout
    assert "1.1.1" in summary.read_text(encoding="utf-8")
