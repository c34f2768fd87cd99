"""Anything at all is handed in, sent or found: always a whole valid record, never a fault of ours, never a process left.

What is tried on each module alone stands with that module's tests; here the real grader meets it, from the hand-in to the files.
`--hypothesis-profile=thorough` tries thousands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fuzzing import examples
from handins import zipped
from hypothesis import given
from hypothesis import strategies as st
from tiny import make_course

from autograder import lab as labs
from autograder.course import Settings
from autograder.gradescope.run import failed_before, metadata
from autograder.reports import files, gradescope
from autograder.reports.gradescope import Results
from autograder.result import HandIn, Record, Status
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Live
from autograder.session import Session
from autograder.submission import collect

RIGHT = '''
import torch
from torch import Tensor

SCALE = {"twice": 2, "letters": ["A", "B"]}


def double(x: Tensor) -> Tensor:
    """Twice `x`."""
    if x.numel() == 0:
        return x
    factor = SCALE["twice"]
    return torch.add(x, x, alpha=factor - 1)


ANSWERS = {"growth": "B"}
'''
POINTS = 4.5


class Grader:
    """The tiny lab, graded for real, and its folders."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session = session
        self.hand_in, self.out = folder / "hand-in", folder / "results"
        self.hand_in.mkdir()

    def grade(self, data: bytes, name: str = "tiny.py") -> Record:
        """The record of a hand-in of one file; whatever it is, these hold."""
        for old in self.hand_in.iterdir():
            old.unlink()
        path = self.hand_in / name
        path.write_bytes(data)
        before = self.processes()
        record = self.session.grade(collect(path, self.session.lab.wanted), files.writer(self.out, Settings()))
        reference = self.session.reference
        assert isinstance(reference, Live)
        assert self.processes() - before <= ({reference.process.pid} if reference.process else set())
        assert Record.model_validate_json((self.out / "record.json").read_bytes()) == record
        results = Results.model_validate_json((self.out / "results.json").read_bytes())
        assert record.complete
        assert record.faults == ()
        assert {result.status for result in record.results} <= {Status.PASSED, Status.FAILED, Status.BLOCKED}
        assert 0 <= record.score == results.score <= POINTS
        assert "Traceback" not in gradescope.text(results)
        return record

    def processes(self) -> set[int]:
        """The children of the process that holds torch."""
        pid = self.session.zygote.process.pid
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@pytest.fixture(scope="module")
def grader(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grader]:
    folder = tmp_path_factory.mktemp("fuzz")
    lab = labs.load("tiny", make_course(folder / "course"))
    limits = lab.file.limits.model_copy(update={"seconds_per_call": 1.5})  # an edit may make a loop
    session = Session(replace(lab, file=lab.file.model_copy(update={"limits": limits})), zygote)
    yield Grader(session, folder)
    session.close_reference()


def test_what_is_edited_here_is_right(grader: Grader) -> None:
    assert grader.grade(RIGHT.encode()).score == POINTS


# Sources --------------------------------------------------------------------------------------------------------------

TOKENS = [
    "(", ")", "[", "}", ":", ",", "=", "\n", "    ", "\t", "\r", "'", '"""', "\\", "#", "@", "0", "x", "*", "-1", "1e400",
    "return ", "yield ", "await x", "lambda: ", "del double\n", "raise ", "global x\n", "import os, sys\n", "1/0\n", "None",
    "from tiny import double\n", "class double:\n", "async ", "exit()\n", "print(x)\n", "f'{x!r}'", "\0", "\ufeff", "é", "𝟚",
    "# coding: utf-16\n", "<<<<<<< HEAD\n", "%%time\n", "!ls\n", "x" * 2000, "(" * 300,
]  # fmt: skip
SPAN = st.tuples(st.integers(0, len(RIGHT)), st.integers(0, 40))
EDIT = st.tuples(
    st.sampled_from(["put", "drop", "double", "move"]), SPAN, st.integers(0, len(RIGHT)), st.sampled_from(TOKENS)
)


def edited(text: str, edits: list[Any]) -> str:
    """The text after some edits."""
    for kind, (start, length), to, token in edits:
        piece = text[start : start + length]
        if kind == "put":
            text = text[:start] + token + text[start:]
        elif kind == "double":
            text = text[:to] + piece + text[to:]
        else:
            rest = text[:start] + text[start + length :]
            text = rest if kind == "drop" else rest[:to] + piece + rest[to:]
    return text


@examples(60)
@given(st.lists(EDIT, min_size=1, max_size=6))
def test_any_edit_of_a_source(grader: Grader, edits: list[Any]) -> None:
    grader.grade(edited(RIGHT, edits).encode())


@examples(20)
@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"\xff\xfe", b"\xef\xbb\xbf", b"PK\x03\x04", b'{"cells": [', b"# coding: "]),
)
def test_any_bytes_as_a_source(grader: Grader, data: bytes, start: bytes) -> None:
    assert grader.grade(start + data).score == 0


# Zips -----------------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["tiny.py", "a/tiny.py", "../tiny.py", "/tiny.py", "TINY.PY", "tiny.ipynb", "__MACOSX/._tiny.py", "tiny.py/", "e\u0301.py",
     "\u00e9.py", "torch.py", "a/b/c/tiny (1).py", "tiny.zip", ".git/tiny.py", "tiny\0.py", "C:\\tiny.py"]
)  # fmt: skip
CONTENT = st.sampled_from(
    [RIGHT.encode(), b"", b"double = None", b"{}", zipped([("tiny.py", RIGHT.encode())])]
) | st.binary(max_size=40)


@examples(60)
@given(
    st.lists(st.tuples(NAMES, CONTENT), max_size=5),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=5),
)
def test_any_zip(grader: Grader, inside: list[tuple[str, bytes]], damage: list[tuple[float, int]]) -> None:
    data = bytearray(zipped(inside))
    for at, byte in damage:
        data[int(at * len(data))] = byte
    grader.grade(bytes(data), "hand-in.zip")


# Frames ---------------------------------------------------------------------------------------------------------------

FORGER = """
import gc
from math import inf, nan

from autograder.sandbox import frames, guest

ours = next(item for item in gc.get_objects() if type(item) is guest.Guest)


def double(x):
    claim = {{"id": ours.working_on, **{claim!r}}}
    sent = bytearray({data!r} or frames.pack(claim))
    for at, byte in {damage!r}:
        sent[at % len(sent)] = byte
    ours.sock.sendall(sent)
    return 3 * x
"""
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 80), 1 << 80)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=6,
)
PART = st.sampled_from(["value", "error", "printed", "at", "busy", "id", "begin"])
CLAIM = st.dictionaries(PART, VALUE, max_size=3).map(lambda claim: {key: claim[key] for key in claim if key != "id"})
ERROR = st.fixed_dictionaries(
    {
        "error": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("type", "message", "file", "line", "unfinished"), VALUE)
        )
    }
)


@examples(20)
@given(
    CLAIM | ERROR | VALUE.map(lambda value: {"value": {"value": value}}),
    st.just(b"") | st.binary(max_size=200),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
)
def test_any_bytes_from_a_guest(grader: Grader, claim: Any, data: bytes, damage: list[tuple[int, int]]) -> None:
    source = FORGER.format(claim=claim, data=data, damage=damage)
    record = grader.grade(source.encode("utf-8", "backslashreplace"))
    assert record.notes == ()  # it was imported whole
    assert record.score == 0


# Metadata -------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "previous_submissions", "results", "tests", "number", "status", "users", "created_at"]
            ),
            inner | st.just("failed"),
            max_size=4,
        )
    ),
    max_leaves=25,
)


@examples(200)
@given(JSON.map(lambda loaded: json.dumps(loaded).encode()) | st.binary(max_size=60))
def test_any_metadata(grader: Grader, data: bytes) -> None:
    (grader.hand_in / "submission_metadata.json").write_bytes(data)
    known = metadata(grader.hand_in)
    record = Record(
        lab="tiny", title="Tiny", hand_in=HandIn(name=f"submission {known.get('id')}"[:60], digest="", files=())
    )
    files.writer(grader.out, Settings(), failed_before(known))(record)
    assert Record.model_validate_json((grader.out / "record.json").read_bytes()).hand_in.name.startswith("submission ")
    Results.model_validate_json((grader.out / "results.json").read_bytes())
