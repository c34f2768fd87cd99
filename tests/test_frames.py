"""The wire: what may travel comes back as it was, and no bytes from the other end do more than raise one of three errors."""

from __future__ import annotations

import socket
import struct
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
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
    return frames.unpack(frames.pack(message))


def frame(header: bytes, data: bytes = b"") -> bytes:
    """A frame as a liar would write it."""
    return frames.PREFIX.pack(frames.MAGIC, len(header), len(data)) + header + data


def kind(code: int, fields: list[Any]) -> list[Any]:
    """A value of a kind of ours, as a liar would write it."""
    return [msgpack.ExtType(code, b""), *fields]


def lie(value: Any, data: bytes = b"") -> bytes:
    """A frame with any value that msgpack can write."""
    return frame(msgpack.packb(value), data)


def array(dtype: str | int, shape: list[int], data: bytes = b"") -> bytes:
    """A frame with one array."""
    code = frames.DTYPES.index(dtype) if isinstance(dtype, str) else dtype
    told = struct.pack(f"!B{len(shape)}I", code, *shape)
    return lie(msgpack.ExtType(frames.ARRAY, told), data)


MARK = msgpack.packb(msgpack.ExtType(frames.TUPLE, b""))


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


class Items(list):  # type: ignore[type-arg]
    pass


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
        -(1 << 64),
        (1 << 63) - 1,
        1 << 63,
        -(1 << 63),
        -(1 << 63) - 1,
        -(10**4000),
        (1 << 14279) - 1,
        -(1 << 14279),
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
        (Counter("aab"), {"a": 2, "b": 1}),
        (Items([1, 2]), [1, 2]),
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
        np.zeros((0, 1 << 32)),
        10**4300,
        1 << 14279,
        msgpack.ExtType(frames.TUPLE, b""),
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


SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text(max_size=5)
FIELDS = SCALARS | st.sampled_from(frames.DTYPES) | st.integers(-2, 5)
EXTENSIONS = st.builds(
    lambda code, fields: kind(code, fields), st.integers(0, 8), st.lists(FIELDS, max_size=4)
) | st.builds(msgpack.ExtType, st.integers(0, 8) | st.integers(0, 127), st.binary(max_size=20))
MSGPACK = st.recursive(
    SCALARS | st.binary(max_size=5) | EXTENSIONS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(SCALARS, inner, max_size=4)
        | st.builds(lambda code, fields: kind(code, fields), st.integers(1, 6), st.lists(inner, max_size=4))
    ),
    max_leaves=15,
)


@examples(400)
@given(MSGPACK, st.binary(max_size=64))
def test_any_msgpack_in_a_frame_is_a_value_or_refused(value: Any, data: bytes) -> None:
    try:
        received(lie(value, data))
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
    "no msgpack": frame(b"\xc1"),
    "no UTF-8": frame(b"\xa2\xff\xfe"),
    "an empty header": frame(b""),
    "two values": frame(b"\x01\x01"),
    "half a list": frame(b"\x92\x01"),
    "a list of four thousand million": frame(b"\xdd\xff\xff\xff\xff"),
    "a dict of four thousand million": frame(b"\xdf\xff\xff\xff\xff"),
    "a text of four thousand million": frame(b"\xdb\xff\xff\xff\xff"),
    "a bomb of lists": frame(b"\x91" * 100_000),
    "a bomb of dicts": frame(b"\x81\x01" * 100_000),
    "a closed bomb": frame(b"\x91" * 300 + b"\x90"),
    "a closed bomb of tuples": frame((b"\x92" + MARK) * 300 + b"\x90"),
    "a bomb of tuples": frame((b"\x92" + MARK) * 20_000),
    "a mark": frame(MARK),
    "a mark that is no first": frame(b"\x92\x01" + MARK),
    "two marks": frame(b"\x92" + MARK * 2),
    "a mark as key": frame(b"\x81" + MARK + b"\x01"),
    "a mark with content": lie([msgpack.ExtType(frames.TUPLE, b"\x90")]),
    "an array in an array": lie(msgpack.ExtType(frames.ARRAY, msgpack.packb(msgpack.ExtType(frames.ARRAY, b"\0")))),
    "a time": frame(b"\xd6\xff\x00\x00\x00\x00"),
    "a number of 100,000 bytes": lie(msgpack.ExtType(frames.INTEGER, b"1" * 100_000)),
    "an unknown kind": lie(kind(9, [])),
    "a kind of another's": lie(msgpack.ExtType(127, b"cposix\nsystem\n")),
    "a key of no kind": frame(b"\x81\xc0\x01"),
    "a key that is a list": frame(b"\x81\x90\x01"),
    "a key that is a fraction": lie({0.5: 1}),
    "a key that is bytes": lie({b"a": 1}),
    "a key that is a tuple": frame(b"\x81" + msgpack.packb(kind(frames.TUPLE, [])) + b"\x01"),
    "a key that is a handle": frame(b"\x81" + msgpack.packb(kind(frames.HANDLE, [1, "", ""])) + b"\x01"),
    "a key that is there twice": frame(b"\x82\x01\x01\x01\x02"),
    "two keys that are the same": frame(b"\x82\x01\x01\xc3\x02"),
    "a key of 64 bits without sign": lie({1 << 63: 1}),
    "a handle of text": lie(kind(frames.HANDLE, ["0", "", ""])),
    "a handle of 64 bits without sign": lie(kind(frames.HANDLE, [1 << 63, "", ""])),
    "a handle before the first": lie(kind(frames.HANDLE, [-1, "", ""])),
    "a handle that is a bool": lie(kind(frames.HANDLE, [True, "", ""])),
    "a handle of too little": lie(kind(frames.HANDLE, [1])),
    "a handle of too much": lie(kind(frames.HANDLE, [1, "", "", ""])),
    "a name of numbers": lie(kind(frames.NAME, [1, 2])),
    "a name of too much": lie(kind(frames.NAME, ["a", "b", "c"])),
    "a type name without end": lie(kind(frames.FOREIGN, ["x" * 10_000, ""])),
    "an array of nothing": lie(msgpack.ExtType(frames.ARRAY, b"")),
    "an array of half a size": lie(msgpack.ExtType(frames.ARRAY, bytes(4)), b"1"),
    "an unknown dtype": array(len(frames.DTYPES), [1], b"12345678"),
    "another unknown dtype": array(255, [1], b"12345678"),
    "a product beyond 64 bits": array("uint8", [BIG] * 16),
    "a product of 2**512": array("uint8", [(1 << 32) - 1] * 16),
    "nothing of what is huge": array("uint8", [0] + [BIG] * 15),
    "a rank of 17": array("uint8", [1] * 17, b"1"),
    "more than was sent": array("float64", [2], b"12345678"),
    "less than was sent": array("uint8", [2], b"123"),
    "bytes for no array": lie(1, b"1"),
}


@pytest.mark.parametrize("told", LIES)
def test_each_lie_is_refused(told: str) -> None:
    with pytest.raises((FrameError, Closed)):
        received(LIES[told])


def test_bytes_that_are_no_bools_are_read_as_true() -> None:
    assert received(array("bool", [3], bytes([0, 1, 200]))).tobytes() == bytes([0, 1, 1])


def test_arrays_are_cut_out_in_the_order_of_the_message() -> None:
    got = round_trip({"a": np.arange(3), "b": (np.array(1.5), [np.array([True])]), "c": np.arange(2)})
    assert (got["a"].tolist(), got["c"].tolist()) == ([0, 1, 2], [0, 1])
    assert (got["b"][0].item(), got["b"][1][0].tolist()) == (1.5, [True])


@pytest.mark.parametrize(
    "item",
    [b"\x90", b"\x80", b"\xc0", b"\xc4\x00", b"\xa2ab", msgpack.packb(kind(frames.TUPLE, []))],
    ids=["lists", "dicts", "nothing", "bytes", "texts", "tuples"],
)
def test_a_header_costs_bounded_memory(item: bytes) -> None:
    count = frames.ANSWER_CAP // 8 // len(item)
    header = b"\xdd" + struct.pack("!I", count) + item * count
    peak = _peak(lambda: received(frame(header)))
    assert peak < 90 * len(header)


def test_lists_that_are_left_open_cost_bounded_memory() -> None:
    opened = b"\xdc\x10\x00"  # a list of 4096, the most that msgpack takes memory for at once
    header = b"\xc0" * 8000
    for _ in range(60):
        header = opened * 1000 + b"\xc9" + struct.pack("!IB", len(header), frames.TUPLE) + header
    assert _peak(lambda: received(frame(header))) < 64 << 20


@pytest.mark.parametrize("depth", [frames.DEPTH_CAP, frames.DEPTH_CAP + 1])
def test_both_ends_nest_as_deep(depth: int) -> None:
    knot: Any = ()
    for _ in range(depth):
        knot = (knot,)
    if depth <= frames.DEPTH_CAP:
        assert round_trip(knot) == knot
        return
    with pytest.raises(FrameError):
        frames.pack(knot)


def test_a_number_that_came_can_be_written() -> None:
    longest = b"\xff" * (frames.INTEGER_CAP - 1) + b"\x7f"
    assert len(str(received(lie(msgpack.ExtType(frames.INTEGER, longest))))) < 4300
    with pytest.raises(FrameError):
        received(lie(msgpack.ExtType(frames.INTEGER, b"\xff" + longest)))


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
    assert frames.pack(None).startswith(b"ATT2")
