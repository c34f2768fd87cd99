"""A real scheduler and two real workers on this machine: one is killed in the middle, and every result comes once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from class_tiny import POINTS, SOURCES, course, hand_ins, wish
from conftest import ROOT

from autograder import lab as labs
from autograder.classroom import exports, run, worker
from autograder.classroom.cluster import DaskCrew
from autograder.classroom.jobs import Job, grader_digest
from autograder.classroom.pool import Run
from autograder.classroom.run import ClassError
from autograder.result import Record
from autograder.sandbox.launcher import LaunchError, Zygote
from autograder.session import Session

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__WORKER__PREFER_DAEMON": "False"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return course(tmp_path_factory.mktemp("course"))


class Cluster:
    """A scheduler and its workers, as `dask scheduler` and `dask worker` start them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        self.scheduler, line = self._dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                                          until="Scheduler at:")  # fmt: skip
        self.address = line.split()[-1]
        self.workers = [self.worker(), self.worker()]

    def worker(self) -> subprocess.Popen[str]:
        place = self.folder / "space"
        return self._dask("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                          "--local-directory", str(place), until="Registered to:")[0]  # fmt: skip

    def _dask(self, *arguments: str, until: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen([sys.executable, "-m", "dask", *arguments], cwd=self.folder, env=ENVIRONMENT,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.started.append(process)
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if until in line:
                return process, line
        self.close()
        raise AssertionError("".join(said))

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def jobs(tiny: Path, submissions: Path) -> list[Job]:
    lab = labs.load("tiny", tiny)
    digest = grader_digest(lab)
    hands = exports.read(submissions, submissions).hand_ins
    return [Job(str(tiny), "tiny", digest, handed.collect(lab.wanted)) for handed in hands]


def timeless(record: Record) -> dict[str, object]:
    return record.model_dump(exclude={"seconds": True, "results": {"__all__": {"seconds"}}})


def test_a_killed_worker_loses_nothing_and_repeats_nothing(
    cluster: Cluster, tiny: Path, tmp_path: Path, zygote: Zygote
) -> None:
    asked = jobs(tiny, hand_ins(tmp_path / "class"))
    crew = DaskCrew(cluster.address)
    assert crew.size == 2
    came: dict[str, Record] = {}
    by = set()
    try:
        for done in Run(crew, worker.grade, asked):
            assert done.answer is not None, done.trouble
            assert done.item.submission.name not in came
            came[done.item.submission.name] = Record.model_validate_json(done.answer.record)
            by.add(int(done.answer.by.rpartition(":")[2]))
            if len(came) == 2:
                victim = cluster.workers[0]
                victim.kill()  # with what it has in hand, and what waits for it
                victim.wait()
    finally:
        crew.leave(at_once=True)
    assert set(came) == set(SOURCES) and cluster.workers[1].pid in by
    session = Session(labs.load("tiny", tiny), zygote)
    for job in asked:  # as on one machine
        assert timeless(came[job.submission.name]) == timeless(session.grade(job.submission))
    session.close_reference()


def test_the_same_class_through_the_command(cluster: Cluster, tiny: Path, tmp_path: Path) -> None:
    cluster.workers.append(cluster.worker())  # workers come while it runs, too
    submissions = hand_ins(tmp_path / "class")
    asked = wish(submissions, tmp_path / "out", scheduler=cluster.address)
    graded = run.grade_export(exports.read(submissions, tmp_path), labs.load("tiny", tiny), asked)
    assert {row.label: row.score for row in graded.rows} == POINTS


def test_a_worker_with_another_lab_grades_nothing(cluster: Cluster, tiny: Path, tmp_path: Path) -> None:
    (job,) = jobs(tiny, hand_ins(tmp_path / "class"))[:1]
    other = Job(job.root, job.lab, "another digest", job.submission)
    crew = DaskCrew(cluster.address)
    try:
        with pytest.raises(LaunchError, match="has another version of the lab"):
            list(Run(crew, worker.grade, [other]))
    finally:
        crew.leave(at_once=True)


def test_no_scheduler_is_one_sentence(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.classroom import cluster as module

    monkeypatch.setattr(module, "CONNECT_SECONDS", 1)
    with pytest.raises(ClassError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run._crew(wish(tmp_path, tmp_path / "out", scheduler="tcp://127.0.0.1:9"))
