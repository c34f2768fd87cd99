"""Watch mode: a save is answered, whatever is saved; and what is certain is shown before all is checked."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import ROOT
from handed_out import unzipped
from rich.console import Console

from autograder.lab import Lab
from autograder.local import watch as module
from autograder.local.choose import only, select
from autograder.local.desk import Desk
from autograder.local.watch import Superseded, Watch, look
from autograder.result import Record, Status
from autograder.sandbox.launcher import Zygote

EXAMPLES = ROOT / "reference" / "attention" / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A student's folder: the zip, unpacked."""
    return unzipped("attention-student.zip", tmp_path / "my lab")


class Screen:
    """A Watch on a folder, whose screens are kept one by one."""

    def __init__(self, folder: Path, zygote: Zygote, everything: bool = False, what: str = "") -> None:
        self.out = io.StringIO()
        self.desk = Desk(folder)
        lab = select(self.desk.lab, what) if what else self.desk.lab
        assert isinstance(lab, Lab)
        self.watch = Watch(self.desk, lab, zygote, Console(file=self.out, width=100), everything)

    def after_saving(self, text: str | bytes | None = None) -> list[str]:
        """Save attention.py, have it answered, and hand back the screens that were shown."""
        if text is not None:
            data = text if isinstance(text, bytes) else text.encode()
            (self.desk.folder / "attention.py").write_bytes(data)
        self.out.seek(0)
        self.out.truncate()
        self.watch.seen = look(self.desk.folder)
        self.watch.answer()
        return [screen.strip() for screen in re.split(r"─{100}\n", self.out.getvalue())[1:]]


def example(name: str) -> str:
    """An example hand-in."""
    return (EXAMPLES / name / "attention.py").read_text(encoding="utf-8")


def test_one_open_item_and_a_bar_over_the_lab(folder: Path, zygote: Zygote) -> None:
    screen = Screen(folder, zygote).after_saving(example("softmax_over_readers"))[-1]
    lines = [line.rstrip() for line in screen.splitlines()]
    assert re.search(r"  15 of 23 checks, [1-9][\d.]* / [\d.]+ points$", lines[1])
    assert lines[1].count("█") == 40 * 15 // 23
    assert lines[2] == "1.1 ✓✓  1.2 ✓✓  1.3 ✓✓✓  1.4 ✗–––––––  1.5 ✓✓✓✓✓  1.6 ✓✓✓"
    assert [line for line in lines if re.match("[✗–!·] ", line)] == [
        "✗ 1.4.1 what every reader gets, readers and sources being different sequences                  0 / 8"
    ]
    assert "Cause    softmax runs over the readers" in screen
    assert lines[-1] == "save attention.py to check it again, Ctrl-C to stop"


def test_the_open_item_is_answered_before_the_rest(folder: Path, zygote: Zygote) -> None:
    screens = Screen(folder, zygote)
    screens.after_saving(example("softmax_over_readers"))
    asked: list[tuple[str, ...]] = []
    grade = screens.desk.grade

    def noted(launcher: Zygote, lab: Lab, sink: object) -> Record:
        asked.append(tuple(check.name for check in lab.checks))
        return grade(launcher, lab, sink)  # type: ignore[arg-type]

    screens.desk.grade = noted  # type: ignore[method-assign,assignment]
    shown = screens.after_saving(example("no_scale"))
    assert asked[0] == ("no_loop_output",)
    assert len(asked[1]) == 23
    assert "1.4.1" in shown[0]
    shown = screens.after_saving(example("complete"))
    assert len(shown) == 1  # the item passed: what comes next is said when it is known
    assert "Everything that can be checked here is right." in shown[0]
    assert re.search(r"23 of 23 checks, ([\d.]+) / \1 points", shown[0])


def test_an_earlier_part_that_broke_comes_first(folder: Path, zygote: Zygote) -> None:
    screens = Screen(folder, zygote)
    screens.after_saving(example("softmax_over_readers"))
    text = example("softmax_over_readers").replace("def weighted_read(", "def weighted_reed(", 1)
    last = screens.after_saving(text)[-1]
    assert "✗ 1.1.1 " in last
    assert "✗ 1.4.1 " not in last


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "`weighted_read` is not defined in attention.py."),
        (b"def (:\n", "`weighted_read` is not defined in attention.py."),
        (b"\xff\xfe\x00", "1.1.1"),
        (b"import sys\nsys.exit()\n", "the import of attention.py stopped before it"),
        (b"import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "1.1.1"),
    ],
)
def test_whatever_is_saved_is_answered(folder: Path, zygote: Zygote, data: bytes, says: str) -> None:
    screens = Screen(folder, zygote)
    screen = screens.after_saving(data)[-1]
    assert says in " ".join(screen.split())
    assert "0 of 23 checks" in screen
    assert "23 of 23 checks" in screens.after_saving(example("complete"))[-1]


def test_half_a_file_keeps_what_is_whole(folder: Path, zygote: Zygote) -> None:
    text = example("complete")
    screen = Screen(folder, zygote).after_saving(text[: text.index("def scaled_dot_product_two_loop_batch") + 40])[-1]
    assert "1.1 ✓✓  1.2 ✓✓  1.3 ✗" in screen


def test_a_file_that_is_gone_and_back(folder: Path, zygote: Zygote) -> None:
    screens = Screen(folder, zygote)
    (folder / "attention.py").rename(folder / "notes.txt")
    assert "There is no attention.py in" in " ".join(screens.after_saving()[-1].split())
    assert "23 of 23 checks" in screens.after_saving(example("complete"))[-1]


def test_all_shows_the_table(folder: Path, zygote: Zygote) -> None:
    (screen,) = Screen(folder, zygote, everything=True).after_saving(example("half_done"))
    assert "✓ 1.1.1 " in screen
    assert "– 1.6.3 " in screen
    assert "Total" in screen


def test_a_part_can_be_watched(folder: Path, zygote: Zygote) -> None:
    screen = Screen(folder, zygote, what="1.4.2").after_saving(example("complete"))[-1]
    assert re.search(r"2 of 2 checks, ([\d.]+) / \1 points", screen)


def test_a_save_during_a_check_ends_it(folder: Path, zygote: Zygote) -> None:
    screens = Screen(folder, zygote)
    watch = screens.watch
    watch.seen = look(folder)
    begun = len(watch.fresh)
    record = screens.desk.grade(zygote, only(screens.desk.lab, {"worked_example"}))
    (folder / "attention.py").write_text(example("complete"), encoding="utf-8")
    with pytest.raises(Superseded):
        watch.keep(record)
    assert len(watch.fresh) == begun
    watch.answer()  # of what was seen before: nothing of it is shown
    assert screens.out.getvalue() == ""


def test_a_save_is_waited_for_until_it_is_whole(folder: Path, zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 30.0)
    watch = Screen(folder, zygote).watch
    path = folder / "attention.py"
    watch.seen = look(folder)
    text = example("complete")
    emptied, answered = threading.Event(), threading.Event()

    def waiting() -> None:
        watch.wait()
        answered.set()

    thread = threading.Thread(target=waiting)
    thread.start()
    path.write_text("", encoding="utf-8")
    emptied.wait(0.2)  # an editor that is slow: the empty file is no save yet
    assert not answered.is_set()
    path.write_text(text, encoding="utf-8")
    thread.join()
    assert look(folder)["attention.py"][1] == len(text.encode())


def test_what_counts_as_a_save(folder: Path) -> None:
    before = look(folder)
    assert set(before) == {"attention.py", "worksheet.ipynb"}  # what else came with the lab is not the student's
    (folder / "notes.txt").write_text("x", encoding="utf-8")
    assert look(folder) == before
    (folder / "helper.py").write_text("x = 1\n", encoding="utf-8")
    assert set(look(folder)) == {"attention.py", "worksheet.ipynb", "helper.py"}
    text = (folder / "attention.py").read_text(encoding="utf-8")
    (folder / "new").write_text(text, encoding="utf-8")
    os.replace(folder / "new", folder / "attention.py")  # as editors save: another file of the same name
    assert look(folder)["attention.py"] != before["attention.py"]


def test_from_a_shell_until_ctrl_c(folder: Path) -> None:
    shutil.copy(EXAMPLES / "softmax_over_readers" / "attention.py", folder)
    with subprocess.Popen(
        [sys.executable, "check.py", "--watch"], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        screen = ""
        while "15 of 23 checks" not in screen or "Ctrl-C" not in screen.splitlines()[-1]:
            screen += process.stdout.readline()
        shutil.copy(EXAMPLES / "complete" / "attention.py", folder)
        screen = ""
        while "Ctrl-C" not in screen or "23 of 23 checks" not in screen:
            screen += process.stdout.readline()
        assert "s after the save" in screen
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0  # everything passed
        assert "Traceback" not in process.stderr.read()


def test_the_results_are_those_of_one_run(folder: Path, zygote: Zygote) -> None:
    screens = Screen(folder, zygote)
    screens.after_saving(example("half_done"))
    screens.after_saving(example("softmax_over_readers"))
    once = screens.desk.grade(zygote, screens.desk.lab)
    told = [(r.check, r.status, r.gap, r.cause) for r in screens.watch.known.values()]
    assert told == [(r.check, r.status, r.gap, r.cause) for r in once.results]
    assert any(r.status is Status.BLOCKED for r in once.results)
