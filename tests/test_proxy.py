"""Live and Remote: who is asked, what a failed question costs, and that the next check has a fresh guest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autograder.sandbox import claims, frames
from autograder.sandbox.frames import Foreign, FrameError, Handle, Name
from autograder.sandbox.jail import JailPlan, plan_for
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import (
    GraderFault,
    Live,
    NoAnswer,
    NotRecorded,
    Oracle,
    OutOfTime,
    Program,
    Recorded,
    Recorder,
    Remembering,
    Remote,
    request_key,
)

PATIENT, SHORT = 60.0, 1.0
Make = Callable[..., Live]


@pytest.fixture(scope="module")
def plan() -> JailPlan:
    return plan_for()


@pytest.fixture
def make(zygote: Zygote, plan: JailPlan) -> Iterator[Make]:
    """A student's guest with one file, `work.py`."""
    made: list[Live] = []

    def start(source: str, seconds: float = PATIENT, definitions: str | None = None) -> Live:
        fallback = None if definitions is None else lambda: {"work": ("work.py", definitions)}
        made.append(Live(zygote, Program({"work": ("work.py", source)}, {}, fallback), plan.fresh, seconds))
        return made[-1]

    yield start
    for live in made:
        live.close()


def failure(call: Callable[[], Any]) -> NoAnswer:
    with pytest.raises(NoAnswer) as caught:
        call()
    return caught.value


ENDS = "import os\nclass Box:\n    def __call__(self): return 7\ndef f(): os._exit(3)\ndef g(x=1): return x\n"


# Replacement ----------------------------------------------------------------------------------------------------------


def test_a_guest_is_started_when_it_is_first_asked_and_kept(make: Make) -> None:
    live = make(ENDS)
    assert (live.forks, live.process) == (0, None)
    code = Remote(live, "work")
    assert [code.g(), code.g(2)] == [1, 2]
    assert live.forks == 1
    assert live.layers.keys() >= {"uid", "seccomp"}
    live.close()
    live.close()
    assert code.g() == 1
    assert live.forks == 2


def test_a_dead_guest_is_replaced_in_the_same_state(make: Make) -> None:
    live = make(
        "import os, torch\nseed = []\ndef f(): os._exit(3)\ndef g(): return [torch.initial_seed(), len(seed)]\n"
    )
    code = Remote(live, "work")
    live.ask("begin", seed=99)
    assert failure(code.f).kind == "died"
    assert live.process is None
    assert code.g() == [99, 0]
    assert live.forks == 2


def test_objects_of_a_dead_guest_are_never_mistaken_for_others(make: Make) -> None:
    live = make(ENDS)
    code = Remote(live, "work")
    live.ask("begin", seed=1)
    old = code.Box()
    assert old() == 7
    assert failure(code.f).kind == "died"
    new = code.Box()
    assert new() == 7
    for use in (old, old.part, old.parameters, lambda: code.g(old)):
        assert failure(use if callable(use) else use.value).message.startswith("an object that is needed here was lost")
    # Numbers begin again in each check, so that a recording of one fits another.
    live.ask("begin", seed=1)
    assert code.Box()._target == Handle(0, "Box")


def test_what_ends_between_two_checks_costs_neither(make: Make) -> None:
    live = make(ENDS)
    live.ask("begin", seed=1)
    assert Remote(live, "work").g() == 1
    assert live.process is not None
    # As a thread would that an earlier check left running.
    live.process.sock.shutdown(2)
    live.ask("begin", seed=2)
    assert Remote(live, "work").g() == 1
    assert live.forks == 2
    # Once: what ends a new guest, too, is the check's own.
    live.ask("begin", seed=3)
    assert failure(Remote(live, "work").f).kind == "died"
    assert live.forks == 3


def test_a_guest_that_cannot_begin_says_so_each_time(make: Make) -> None:
    live = make("import os, torch\ntorch.set_grad_enabled = os._exit\n")
    for _ in range(2):
        live.ask("begin", seed=3)
        assert failure(Remote(live, "work").f).kind == "died"
    live = make("import torch\ntorch.set_grad_enabled = None\n")
    live.ask("begin", seed=3)
    assert "TypeError" in failure(Remote(live, "work").f).message
    assert live.forks == 1


# Time -----------------------------------------------------------------------------------------------------------------


def test_a_loop_is_told_with_its_line_and_costs_its_own_call(make: Make) -> None:
    live = make("def f():\n    n = 0\n    while True:\n        n += 1\ndef g(): return 1\n", SHORT)
    error = failure(Remote(live, "work").f)
    assert error.kind == "time"
    assert error.message == "it ran longer than 1 s and was stopped: look for a loop that never ends"
    assert error.file == "work.py"
    assert error.line in (3, 4)
    assert Remote(live, "work").g() == 1


def test_the_runs_own_end_is_no_fault_of_a_call(make: Make) -> None:
    live = make("def f():\n    while True: pass\n")
    live.ask("begin", seed=1)
    live.run_ends = time.monotonic() + 0.2
    with pytest.raises(OutOfTime):
        Remote(live, "work").f()
    assert live.process is None
    live.ask("begin", seed=1)
    with pytest.raises(OutOfTime):
        Remote(live, "work").f()


def test_a_run_that_is_over_starts_no_call(make: Make) -> None:
    live = make(ENDS)
    live.ask("begin", seed=1)
    live.run_ends = time.monotonic() - 1
    with pytest.raises(OutOfTime):
        Remote(live, "work").g()


# Import ---------------------------------------------------------------------------------------------------------------

DEFINITIONS = "def f(): return 1\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("while True: pass\n", "it ran longer than 1 s and was stopped: look for a loop that never ends"),
        ("import os; os._exit(5)\n", "it ended the whole process: it exited with status 5"),
        ("import ctypes; ctypes.string_at(0)\n", "it ended the whole process: it crashed (SIGSEGV)"),
        ("import os; os.write(3, b'x' * 99)\n", None),
    ],
    ids=["hangs", "exits", "crashes", "sends what it should not"],
)
def test_a_file_that_cannot_be_imported_is_used_by_its_definitions(make: Make, source: str, said: str | None) -> None:
    live = make(DEFINITIONS + source, SHORT, DEFINITIONS)
    assert Remote(live, "work").f() == 1
    said = said or "it sent something to the grader that is no answer"
    kept = "Only its imports, functions, classes and constants are used."
    assert live.notes == [f"While your file was being imported, {said}. {kept}"]
    # From now on without another try: the next guest would only hang again.
    live.close()
    assert Remote(live, "work").f() == 1
    assert (live.forks, len(live.notes)) == (3, 1)


def test_a_file_that_cannot_be_used_at_all_is_tried_twice_and_no_more(make: Make) -> None:
    live = make("import os; os._exit(5)\n", PATIENT, "import os; os._exit(6)\n")
    for _ in range(3):
        error = failure(live.wake)
        assert error.kind == "died"
        assert error.message == "your file cannot be loaded: it ended the whole process: it exited with status 6"
    assert live.forks == 2
    assert live.process is None


def test_the_oracle_is_tried_again(make: Make) -> None:
    live = make("import os; os._exit(5)\n")
    for _ in range(2):
        with pytest.raises(GraderFault, match="the reference gave no value: your file cannot be loaded"):
            Oracle(live).ask("get", target=Name("work", "f"))
    assert live.forks == 2


# What is said ---------------------------------------------------------------------------------------------------------


def test_memory_is_told_with_whose_and_how_much(zygote: Zygote, plan: JailPlan) -> None:
    small = replace(plan, memory_bytes=1 << 30)
    live = Live(zygote, Program({"work": ("work.py", "def f(): return bytes(1 << 40)\n")}, {}), small.fresh, PATIENT)
    error = failure(Remote(live, "work").f)
    assert error.kind == "memory"
    assert error.message == "it asked for more memory than the 1,024 MB that a submission may use"
    assert (error.file, error.line) == ("work.py", 1)
    live.close()
    # The same without a jail, on a student's own machine.
    live = Live(zygote, Program({"work": ("work.py", "def f(): raise MemoryError\n")}, {}), None, PATIENT)
    assert failure(Remote(live, "work").f).message == "it asked for more memory than there is"
    live.close()


def test_computing_time_is_told(zygote: Zygote, plan: JailPlan) -> None:
    short = replace(plan, cpu_seconds=1)
    source = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_DFL)\ndef f():\n    while True: pass\n"
    live = Live(zygote, Program({"work": ("work.py", source)}, {}), short.fresh, PATIENT)
    error = failure(Remote(live, "work").f)
    assert error.message == "it ended the whole process: it used more computing time than a submission may"
    live.close()


def test_what_is_printed_at_import_is_told_once(make: Make) -> None:
    live = make("import os\nprint('at import')\ndef f(): os._exit(3)\ndef g(): print('in g')\n")
    code = Remote(live, "work")
    code.g()
    failure(code.f)
    code.g()
    assert live.take_printed(1000) == "at import\nin g\nin g\n"


def test_what_the_grader_cannot_send_is_no_fault_of_the_guest(make: Make) -> None:
    live = make(ENDS)
    code = Remote(live, "work")
    assert code.g() == 1
    for value in ({1, 2}, 1j, object(), np.array(["text"])):
        with pytest.raises(FrameError, match="cannot travel"):
            code.g(value)
    assert code.g(5) == 5
    assert live.forks == 1


def test_what_came_back_can_be_passed_on(make: Make) -> None:
    code = Remote(make(ENDS), "work")
    box = code.Box()
    assert repr(code.g(box)) == "<Box in a guest>"
    listed = code.g([box, (box, {"a": box})])
    assert [listed[0](), listed[1][0](), listed[1][1]["a"]()] == [7, 7, 7]
    assert code.g(Foreign("generator")) == Foreign("Foreign")
    assert code.g(np.float32(0.5)) == 0.5


# Claims ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "value"),
    [
        ("load", None),
        ("load", {"errors": {}, "names": 5}),
        ("load", {"errors": {}, "names": {"work": 5}}),
        ("load", {"errors": {}, "names": {"work": [5]}}),
        ("load", {"errors": {"work": "ValueError"}, "names": {}}),
        ("load", {"errors": {"work": {"type": 5}}, "names": {}}),
        ("load", {"errors": [], "names": {}}),
        ("call", None),
        ("call", [1]),
        ("call", {"operations": {}}),
        ("call", {"value": 1, "operations": 5}),
        ("call", {"value": 1, "operations": {"aten.mm": "many"}}),
        ("call", {"value": 1, "operations": {"aten.mm": -1}}),
        ("call", {"value": 1, "operations": {"aten.mm": float("nan")}}),
        ("call", {"value": 1, "inputs": 3}),
        ("gradients", {"value": 1, "attached": np.ones(3), "gradients": {}}),
        ("gradients", {"attached": True, "gradients": []}),
        ("gradients", None),
        ("parameters", [1]),
    ],
)
def test_an_answer_of_another_form_is_none(verb: str, value: Any) -> None:
    with pytest.raises((FrameError, TypeError)):
        claims.answer(verb, value)


FORGED = """
import sys
from autograder.sandbox import frames, guest
frame = sys._getframe()
while not isinstance(frame.f_locals.get("self"), guest.Guest): frame = frame.f_back
me = frame.f_locals["self"]
def say(how):
    for piece in eval(how): frames.send(me.sock, {"id": me.working_on, **piece})
def g(): return 1
"""
ERROR = "'type': 'T', 'message': 'm', 'file': 'f', 'line': 1, 'unfinished': False"
LIES = {
    "a value that is none": "[{'value': 5}]",
    "no value": "[{}]",
    "another question's number": "[{'id': 77, 'value': {'value': 1}}]",
    "a number that is true": "[{'id': True, 'value': {'value': 1}}]",
    "an error without words": "[{'error': 5}]",
    "an error whose line is endless": "[{'error': {" + ERROR + ", 'line': float('inf')}}]",
    "an error whose line is nothing": "[{'error': {" + ERROR + ", 'line': float('nan')}}]",
    "an error whose line is true": "[{'error': {" + ERROR + ", 'line': True}}]",
    "an error of arrays": "[{'error': {" + ERROR + ", 'unfinished': __import__('numpy').ones(3)}}]",
    "an error in a list": "[{'error': {" + ERROR + ", 'message': [[]]}}]",
    "prints that are none": "[{'printed': 5, 'value': {'value': 1}}]",
    "prints of numbers": "[{'printed': [5, 5], 'value': {'value': 1}}]",
    "prints cut by less than nothing": "[{'printed': ['x', -5], 'value': {'value': 1}}]",
    "prints cut by more than can be written": "[{'printed': ['x', 10**4200], 'value': {'value': 1}}]",
    "a place that is none": "[{'at': 5}]",
    "a place without a line": "[{'at': ['work.py']}]",
    "a place at an endless line": "[{'at': ['work.py', float('inf')]}]",
    "two places": "[{'at': ['work.py', 1]}, {'at': ['work.py', 2]}]",
}


def test_a_forged_answer_costs_the_check_that_asked(make: Make) -> None:
    live = make(FORGED)
    code = Remote(live, "work")
    for lie, how in LIES.items():
        live.ask("begin", seed=1)
        error = failure(lambda how=how: code.say(how))
        assert (error.kind, error.message) == ("malformed", "it sent something to the grader that is no answer"), lie
        assert code.g() == 1
    assert live.forks == 2 * len(LIES)  # each lie is asked for a second time: it may have been an earlier check's


def test_words_of_a_guest_are_cut_and_can_be_written(make: Make) -> None:
    live = make(FORGED)
    code = Remote(live, "work")
    long = "[{'error': {" + ERROR + ", 'message': '\\ud800' + 'x' * 200_000}}]"
    error = failure(lambda: code.say(long))
    assert len(error.message) < 2 * frames.TEXT_CAP
    error.message.encode()
    live.ask("begin", seed=1)
    code.say("[{'printed': ['\\ud800' + 'x' * 200_000, 10], 'value': {'value': 1}}]")
    live.take_printed(10_000).encode()


# The reference is asked once ------------------------------------------------------------------------------------------

COUNTS = """
import torch
calls = []
class Box:
    def __init__(self): self.size = 1
    def grow(self): self.size += 1; return self.size
def f(x): calls.append(x); return {"x": x, "calls": [len(calls)]}
def bad(): raise ValueError("no")
def ends(): import os; os._exit(3)
"""
TWICE = "def f(x): return 2 * x\n"


@pytest.fixture
def remembering(zygote: Zygote) -> Iterator[Remembering]:
    live = Live(zygote, Program({"work": ("work.py", COUNTS)}, {}), None, PATIENT)
    yield Remembering(live)
    live.close()


def test_a_question_is_put_to_the_guest_once(remembering: Remembering) -> None:
    code = Remote(remembering, "work")
    asked = []
    for _ in range(3):
        remembering.ask("begin", seed=1)
        first = code.f(np.arange(3))
        assert list(first["x"]) == [0, 1, 2]
        assert first["calls"] == [1]
        first["x"][:] = 7  # the asker's own
        first["calls"].append(9)
        assert code.f(np.arange(3))["calls"] == [2]  # the same again is another question
        asked.append(remembering.guest._number)
    assert asked[0] == asked[1] == asked[2]
    remembering.ask("begin", seed=2)
    assert code.f(np.arange(3))["calls"] == [3]


def test_a_new_question_finds_the_guest_as_if_all_had_been_asked(remembering: Remembering) -> None:
    code = Remote(remembering, "work")
    for steps in (1, 2, 4, 3, 4):
        remembering.ask("begin", seed=1)
        box = code.Box()
        assert [box.grow() for _ in range(steps)] == list(range(2, steps + 2))


def test_what_a_reference_raises_is_remembered_and_its_death_is_not(remembering: Remembering) -> None:
    code = Remote(remembering, "work")
    for _ in range(2):
        remembering.ask("begin", seed=1)
        assert failure(code.bad).message == "ValueError: no"
    assert remembering.guest.forks == 1
    for _ in range(2):
        remembering.ask("begin", seed=3)
        box = code.Box()
        assert failure(code.ends).kind == "died"
        assert box.grow() == 2  # a new guest is led to where the old one was


def test_a_changed_definition_has_answers_of_its_own(remembering: Remembering) -> None:
    code = Remote(remembering, "work")
    for _ in range(2):
        remembering.ask("define", module="work", symbol="f", source=TWICE)
        remembering.ask("begin", seed=1)
        assert code.f(4) == 8
        remembering.ask("restore")
        remembering.ask("begin", seed=1)
        assert code.f(4) == {"x": 4, "calls": [1]}


def test_changes_outlive_the_guest(remembering: Remembering) -> None:
    code = Remote(remembering, "work")
    remembering.ask("define", module="work", symbol="f", source=TWICE)
    remembering.ask("begin", seed=1)
    assert code.f(4) == 8
    assert remembering.guest.process is not None
    remembering.guest.process.sock.shutdown(2)
    remembering.ask("begin", seed=2)
    assert failure(lambda: code.f(5)).kind == "died"  # without its change a new guest would answer something else
    remembering.ask("begin", seed=2)
    assert code.f(5) == 10


def test_memory_is_bounded(zygote: Zygote) -> None:
    live = Live(zygote, Program({"work": ("work.py", COUNTS)}, {}), None, PATIENT)
    small = Remembering(live, most=20_000)
    for seed in range(40):
        small.ask("begin", seed=seed)
        Remote(small, "work").f(np.zeros(200))
        assert small._size <= 20_000
    assert 1 <= len(small._answers) < 20
    live.close()


# The oracle and its recording -----------------------------------------------------------------------------------------


def test_the_oracle_computes_as_exactly_as_it_can(make: Make) -> None:
    live = make("def kind(x, *more, **named): return [str(v.dtype) for v in (x, *more, *named.values())]\n")
    lifted = Remote(Oracle(live), "work", lift=True)
    one = np.ones(1, np.float32)
    assert lifted.kind(one, np.ones(1, np.int64), mask=one) == ["torch.float64", "torch.int64", "torch.float64"]
    assert Remote(live, "work").kind(one) == ["torch.float32"]


def test_a_fault_of_the_reference_is_the_graders(make: Make) -> None:
    live = make("def f(): raise ValueError('ours')\n")
    with pytest.raises(GraderFault, match=r"the reference gave no value: ValueError: ours \(work.py:1\)"):
        Remote(Oracle(live), "work").f()


def test_a_recording_answers_what_it_was_asked_and_nothing_else(make: Make) -> None:
    recorder = Recorder(make(ENDS))
    recorder.ask("begin", seed=4)
    live = Remote(recorder, "work")
    box = live.Box()
    assert (live.g(np.arange(3)).tolist(), box()) == ([0, 1, 2], 7)
    recorded = Recorded(frames_round_trip(recorder.answers))
    recorded.ask("begin", seed=4)
    played = Remote(recorded, "work")
    assert (played.g(np.arange(3)).tolist(), played.Box()()) == ([0, 1, 2], 7)
    for ask in (lambda: played.g(np.arange(4)), lambda: played.h(), lambda: recorded.ask("begin", seed=5)):
        with pytest.raises(NotRecorded):
            ask()


def test_a_question_that_is_asked_twice_has_two_answers_in_a_recording(make: Make) -> None:
    live = make("made = []\nclass Box:\n    def __init__(self): made.append(1); self.number = len(made)\n"
                "    def __call__(self): return self.number\n")  # fmt: skip
    recorder = Recorder(live)
    recorder.ask("begin", seed=4)
    first, second = Remote(recorder, "work").Box(), Remote(recorder, "work").Box()
    assert (first(), second()) == (1, 2)
    recorded = Recorded(frames_round_trip(recorder.answers))
    for _ in range(2):  # in each run of the check
        recorded.ask("begin", seed=4)
        boxes = [Remote(recorded, "work").Box() for _ in range(3)]  # a third was not recorded: it is the last one again
        assert [box() for box in boxes] == [1, 2, 2]


def frames_round_trip(message: Any) -> Any:
    return frames.unpack(frames.pack(message))


def test_a_question_is_known_by_all_that_is_asked() -> None:
    body = {"target": Name("work", "f"), "args": [np.arange(3)], "kwargs": {}, "want": ()}
    others = [
        {**body, "target": Name("work", "g")},
        {**body, "target": Handle(0)},
        {**body, "args": [np.arange(3.0)]},
        {**body, "args": [np.arange(3).reshape(3, 1)]},
        {**body, "args": [[0, 1, 2]]},
        {**body, "kwargs": {"mask": None}},
        {**body, "want": ("inputs",)},
    ]
    keys = {request_key("call", each, 1) for each in (body, *others)}
    assert len(keys) == 1 + len(others)
    assert request_key("call", {**body, "args": [np.arange(6)[::2] // 2]}, 1) in keys
    assert not {request_key("get", body, 1), request_key("call", body, 2)} & keys


# Names ----------------------------------------------------------------------------------------------------------------


def test_parts_are_reached_by_attribute_and_index(make: Make) -> None:
    live = make("from torch import nn\nrow = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 3)])\nclass A: b = 5\n")
    code = Remote(live, "work")
    assert code.row[1].bias.value().shape == (3,)
    assert code.A.b.value() == 5
    assert code.module("work").row[0].weight.value().shape == (2, 2)
    assert code.row[-1].bias.value().shape == (3,)
    error = failure(code.row[7].bias.value)
    assert error.message == "IndexError: index 7 is out of range"
    assert "has no attribute 'absent'" in failure(code.absent.value).message
    assert "KeyError" in failure(code.module("elsewhere").x.value).message
    for name in ("__len__", "__array__", "__iter__"):
        with pytest.raises(AttributeError):
            getattr(code, name)
