"""The wire: what may travel comes back as it was, and no bytes from the other end do more than raise one of three errors."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fuzzing import examples
from hypothesis import given
from hypothesis import strategies as st

from autograder.sandbox import frames
from autograder.sandbox.frames import Closed, Foreign, FrameError, Handle, Late, Name

FORMS = FrameError, Closed, Late
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def round_trip(message: Any) -> Any:
    packed = frames.pack(message)
    _, header_size, _ = frames.PREFIX.unpack_from(packed)
    begin = frames.PREFIX.size
    return frames.unpack(packed[begin : begin + header_size], packed[begin + header_size :])


def frame(body: Any, arrays: Any = (), data: bytes = b"") -> bytes:
    """A frame as a liar would write it."""
    header = json.dumps({"body": body, "arrays": arrays}).encode()
    return frames.PREFIX.pack(frames.MAGIC, len(header), len(data)) + header + data


def received(data: bytes) -> Any:
    """What the grader gets from a guest that sends these bytes and goes."""
    left, right = socket.socketpair()
    with left:
        sender = threading.Thread(target=_send_and_close, args=(right, data))
        sender.start()
        try:
            return frames.receive(left, time.monotonic() + 20)
        finally:
            left.close()  # a sender of more than was asked for shall not wait
            sender.join()


def _send_and_close(sock: socket.socket, data: bytes) -> None:
    with sock:
        try:
            sock.sendall(data)
        except OSError:
            return


class Text(str):
    def __str__(self) -> str:
        return "another text"


class Number(int):
    def __int__(self) -> int:
        raise ValueError("no number after all")

    def __repr__(self) -> str:
        return "[]"


class Fraction(float):
    __float__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "[]"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        1 << 64,
        -(10**4000),
        0.1,
        -0.0,
        float("inf"),
        "",
        "größe 读 🙂",
        "a lone surrogate \ud800, a NUL \x00",
        b"",
        b"\x00\xff",
        [],
        (),
        {},
        [1, (2, [3.5, ()], "x"), None],
        {"a": (1,), 5: {"b": []}, -(1 << 63): True},
        Handle(3, "Linear", "q.weight"),
        Name("attention", "SelfAttention"),
        Foreign("generator", "of nothing"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    back = round_trip({"value": value})["value"]
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value)  # -0.0 is not 0.0, True is not 1


def test_nan_comes_back() -> None:
    assert np.isnan(round_trip(float("nan")))


@pytest.mark.parametrize("dtype", frames.DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4)], ids=str)
def test_arrays_come_back_as_they_were(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7, dtype=dtype)
    back = round_trip([array, "between", array])
    for got in (back[0], back[2]):
        assert got.dtype == array.dtype
        assert got.shape == shape
        assert np.array_equal(got, array)
        assert got.flags.writeable
    assert not np.shares_memory(back[0], back[2])


def test_arrays_keep_nan_infinity_and_the_sign_of_zero() -> None:
    array = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    assert round_trip(array).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(4, 6).T,
        np.arange(24.0)[::-2],
        np.broadcast_to(np.float32(3), (4, 5)),
        np.arange(6, dtype=">f4"),
        np.arange(6, dtype=">i8").reshape(2, 3).T,
    ],
    ids=["transposed", "backwards", "broadcast", "big-endian", "big-endian, transposed"],
)
def test_values_travel_and_not_their_memory(array: np.ndarray) -> None:
    back = round_trip(array)
    assert np.array_equal(back, array)
    assert back.dtype.isnative


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(-3), -3),
        (np.bool_(True), True),
        (Text("as written"), "as written"),
        (Number(7), 7),
        (Fraction(0.25), 0.25),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kinds_of_plain_values_travel_as_plain_ones(value: Any, expected: Any) -> None:
    back = round_trip(value)
    assert type(back) is type(expected)
    assert back == expected


def _knot() -> list[Any]:
    knot: list[Any] = []
    knot.append(knot)
    return knot


@pytest.mark.parametrize(
    "value",
    [
        1j,
        {1, 2},
        object(),
        np.array([1j]),
        np.array(["text"]),
        np.array([object()]),
        np.array("2026-01-01", dtype="datetime64"),
        np.longdouble(1),
        np.zeros((1,) * 17),
        10**5000,
        {None: 1},
        {(1, 2): 3},
        {1.5: 2},
        {1 << 63: 0},
        _knot(),
        "x" * (frames.HEADER_CAP + 1),
        np.zeros(frames.BODY_CAP + 1, np.uint8),
        [np.zeros(frames.BODY_CAP // 2 + 1, np.uint8)] * 2,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_travel_is_refused_by_the_sender(value: Any) -> None:
    with pytest.raises(FrameError):
        frames.pack(value)


def test_what_a_guest_answers_is_held_shorter(pair: Pair) -> None:
    message = "x" * frames.ANSWER_CAP
    with pytest.raises(FrameError, match="too large"):
        frames.pack(message, frames.ANSWER_CAP)
    array = np.zeros(frames.ANSWER_BODY_CAP + 1, np.uint8)
    with pytest.raises(FrameError, match="too large"):
        frames.pack(array, frames.ANSWER_CAP, frames.ANSWER_BODY_CAP)
    for value in (message, array):
        pair[0].sendall(frames.pack(value)[: frames.PREFIX.size])
        with pytest.raises(FrameError):
            frames.receive(pair[1], time.monotonic() + 20, frames.ANSWER_CAP, frames.ANSWER_BODY_CAP)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(-(1 << 63), (1 << 63) - 1), inner, max_size=4)
    ),
    max_leaves=12,
)


@examples(150)
@given(PLAIN)
def test_any_plain_value_comes_back(value: Any) -> None:
    assert round_trip(value) == value


@examples(150)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FORMS):
        received(data)


@examples(200)
@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_behind_a_right_prefix_are_a_value_or_refused(data: bytes, split: int) -> None:
    cut = min(split, len(data))
    try:
        received(frames.PREFIX.pack(frames.MAGIC, cut, len(data) - cut) + data)
    except FORMS:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["$", "at", "items", "id", "type", "path", "text", "module"]), inner, max_size=5
        )
        | st.builds(
            lambda kind, rest: {"$": kind, **rest},
            st.sampled_from(["array", "bytes", "tuple", "dict", "object", "name", "foreign"]),
            st.dictionaries(
                st.sampled_from(["at", "items", "id", "type", "path", "text", "module"]), inner, max_size=5
            ),
        )
    ),
    max_leaves=15,
)
SPECS = st.lists(
    st.tuples(st.sampled_from([*frames.DTYPES, "object", "str", "V8"]), st.lists(st.integers(-2, 5), max_size=3))
    | JSON,
    max_size=3,
)


@examples(400)
@given(JSON, SPECS | JSON, st.binary(max_size=64))
def test_any_json_in_a_frame_is_a_value_or_refused(body: Any, arrays: Any, data: bytes) -> None:
    try:
        received(frame(body, arrays, data))
    except FORMS:
        return


@examples(100)
@given(st.data())
def test_any_damage_to_a_right_frame_is_a_value_or_refused(data: st.DataObject) -> None:
    right = bytearray(frames.pack({"id": 1, "value": [np.arange(6.0), {"a": Handle(1)}, np.array(True)]}))
    for _ in range(data.draw(st.integers(1, 4))):
        right[data.draw(st.integers(0, len(right) - 1))] = data.draw(st.integers(0, 255))
    try:
        received(bytes(right[: data.draw(st.integers(0, len(right)))]))
    except FORMS:
        return


BIG = 2**28
LIES: dict[str, bytes] = {
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "a pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "no JSON": frames.PREFIX.pack(frames.MAGIC, 3, 0) + b"abc",
    "no UTF-8": frames.PREFIX.pack(frames.MAGIC, 2, 0) + b"\xff\xfe",
    "an empty header": frames.PREFIX.pack(frames.MAGIC, 0, 0),
    "a header that is no dict": frames.PREFIX.pack(frames.MAGIC, 2, 0) + b"[]",
    "a bomb of lists": frames.PREFIX.pack(frames.MAGIC, 100_000, 0) + b"[" * 100_000,
    "a bomb of dicts": frames.PREFIX.pack(frames.MAGIC, 100_000, 0) + b'{"$":' * 20_000,
    "a closed bomb": frame(json.loads("[" * 300 + "]" * 300)),
    "a number of 100,000 digits": frames.PREFIX.pack(frames.MAGIC, 100_000, 0) + b"9" * 100_000,
    "a dict": frame({"a": 1}),
    "an unknown kind": frame({"$": "pickle", "data": "gASVFAAAAA"}),
    "a kind that is no text": frame({"$": ["array"]}),
    "an unhashable key": frame({"$": "dict", "items": [[[], 1]]}),
    "a key that is a tuple": frame({"$": "dict", "items": [[{"$": "tuple", "items": []}, 1]]}),
    "a key that is a handle": frame({"$": "dict", "items": [[{"$": "object", "id": 1, "type": "", "path": ""}, 1]]}),
    "a key of 65 bits": frame({"$": "dict", "items": [[1 << 64, 1]]}),
    "an item without a value": frame({"$": "dict", "items": [["a"]]}),
    "items that are no items": frame({"$": "dict", "items": 7}),
    "an array that is not there": frame({"$": "array", "at": 0}),
    "bytes that are meant twice": frame([{"$": "bytes", "at": 0}] * 2, [["uint8", [1]]], b"a"),
    "an array before the first": frame({"$": "array", "at": -1}, [["uint8", [1]]], b"a"),
    "an index that is a bool": frame({"$": "array", "at": True}, [["uint8", [1]], ["uint8", [1]]], b"aa"),
    "a handle of text": frame({"$": "object", "id": "0", "type": "", "path": ""}),
    "a handle of 100 bits": frame({"$": "object", "id": 1 << 100, "type": "", "path": ""}),
    "a name of numbers": frame({"$": "name", "module": 1, "path": 2}),
    "a type name without end": frame({"$": "foreign", "type": "x" * 10_000, "text": ""}),
    "an unknown dtype": frame(0, [["object", [1]]], b"12345678"),
    "a dtype of text": frame(0, [["S8", [1]]], b"12345678"),
    "a dtype with fields": frame(0, [[[["a", "f4"]], [2]]], b"12345678"),
    "a dtype of another order": frame(0, [[">f4", [2]]], b"12345678"),
    "a shape that is a text": frame(0, [["uint8", "12"]], b"12"),
    "a shape that is an empty text": frame(0, [["uint8", ""]], b"1"),
    "a shape that is a dict": frame(0, [["uint8", {}]], b"1"),
    "a shape that is a number": frame(0, [["uint8", 8]], b"12345678"),
    "a shape of fractions": frame(0, [["uint8", [1.0]]], b"1"),
    "a shape of bools": frame(0, [["uint8", [True]]], b"1"),
    "a negative size": frame(0, [["uint8", [-1]]]),
    "two negative sizes": frame(0, [["uint8", [-1, -1]]], b"1"),
    "a size beyond 64 bits": frame(0, [["uint8", [1 << 70]]]),
    "a product beyond 64 bits": frame(0, [["uint8", [BIG] * 16]]),
    "nothing of what is huge": frame(0, [["uint8", [0] + [BIG] * 15]]),
    "a rank of 17": frame(0, [["uint8", [1] * 17]], b"1"),
    "more than was sent": frame(0, [["float64", [2]]], b"12345678"),
    "less than was sent": frame(0, [["uint8", [2]]], b"123"),
    "one array too many": frame(0, [["uint8", [1]], ["uint8", [1]]], b"1"),
    "arrays that are none": frame(0, {"uint8": [1]}),
    "arrays that are a number": frame(0, 3),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_refused(lie: str) -> None:
    with pytest.raises((FrameError, Closed)):
        received(LIES[lie])


def test_bytes_that_are_no_bools_are_read_as_true() -> None:
    got = received(frame({"$": "array", "at": 0}, [["bool", [3]]], bytes([0, 1, 200])))
    assert got.tobytes() == bytes([0, 1, 1])


def test_an_array_that_is_meant_twice_is_there_once() -> None:
    many = [{"$": "array", "at": 0}] * 10_000
    got = received(frame(many, [["float64", [1000]]], bytes(8000)))
    assert len({id(array) for array in got}) == 1


@pytest.mark.parametrize(
    "start, item", [(b"[", b"[],"), (b'["a",', b"1,"), (b"[", b'"ab",')], ids=["lists", "numbers", "texts"]
)
def test_a_header_costs_bounded_memory(start: bytes, item: bytes) -> None:
    size = frames.ANSWER_CAP // 8
    header = b'{"arrays":[],"body":' + start + item * (size // len(item)) + b"0]}"
    peak = _peak(lambda: received(frames.PREFIX.pack(frames.MAGIC, len(header), 0) + header))
    assert peak < 80 * len(header)


@pytest.mark.parametrize(
    "prefix",
    [
        frames.PREFIX.pack(frames.MAGIC, 100, frames.BODY_CAP),
        frames.PREFIX.pack(frames.MAGIC, frames.HEADER_CAP, frames.BODY_CAP),
        frames.PREFIX.pack(frames.MAGIC, 100, 256 << 20),
        frames.PREFIX.pack(frames.MAGIC, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF),
    ],
    ids=["a body", "header and body", "256 MiB", "all there is"],
)
def test_what_is_promised_and_not_sent_takes_no_memory(prefix: bytes) -> None:
    assert _peak(lambda: received(prefix + b"x" * 50)) < 4 << 20


def _peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
    except FORMS:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def test_a_frame_may_come_byte_by_byte(pair: Pair) -> None:
    packed = frames.pack(["slow", np.arange(3)])
    sender = threading.Thread(target=lambda: [pair[0].sendall(packed[i : i + 1]) for i in range(len(packed))])
    sender.start()
    word, array = frames.receive(pair[1], time.monotonic() + 20)
    sender.join()
    assert word == "slow"
    assert array.tolist() == [0, 1, 2]


def test_two_frames_in_one_piece_are_two(pair: Pair) -> None:
    pair[0].sendall(frames.pack(1) + frames.pack(2))
    assert [frames.receive(pair[1]), frames.receive(pair[1])] == [1, 2]


@pytest.mark.parametrize("sent", [b"", frames.MAGIC, frames.pack("half")[:-3]], ids=["nothing", "a start", "a half"])
def test_the_deadline_is_kept_whatever_has_come(pair: Pair, sent: bytes) -> None:
    pair[0].sendall(sent)
    with pytest.raises(Late):
        frames.receive(pair[1], time.monotonic() + 0.05)


def test_the_deadline_is_kept_against_a_trickle(pair: Pair) -> None:
    stop = threading.Event()

    def trickle() -> None:
        pair[0].sendall(frames.PREFIX.pack(frames.MAGIC, frames.HEADER_CAP, 0))
        while not stop.wait(0.005):
            pair[0].sendall(b" ")

    sender = threading.Thread(target=trickle)
    sender.start()
    with pytest.raises(Late):
        frames.receive(pair[1], time.monotonic() + 0.1)
    stop.set()
    sender.join()


def test_the_deadline_is_kept_while_nobody_reads(pair: Pair) -> None:
    with pytest.raises(Late):
        frames.send(pair[0], np.zeros(8 << 20, np.uint8), time.monotonic() + 0.05)


def test_a_deadline_that_has_passed_is_late_at_once(pair: Pair) -> None:
    frames.send(pair[0], 1)
    with pytest.raises(Late):
        frames.receive(pair[1], time.monotonic() - 1)
    with pytest.raises(Late):
        frames.send(pair[0], 1, time.monotonic() - 1)


def test_an_end_that_is_gone_is_said(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(Closed):
        frames.receive(pair[1])
    with pytest.raises(Closed):
        frames.send(pair[1], np.zeros(1 << 20))
    with pytest.raises(Closed):
        frames.receive(pair[0])


def test_the_prefix_is_as_both_ends_expect_it() -> None:
    assert struct.calcsize("!4sIQ") == frames.PREFIX.size == 16
    assert frames.pack(None).startswith(b"ATT1")
