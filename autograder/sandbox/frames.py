"""The wire between the grader and its guests: a header in msgpack, then raw bytes. Nothing is ever unpickled.

A frame is `magic, header length, body length`, the header (the message, in which an array is its dtype and shape), and the
bytes of the arrays one after the other, in the order in which they stand in the message. Both ends use this file; the grader
trusts none of what it reads: every length is capped and checked against the others before memory is taken.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MAGIC = b"ATT2"
PREFIX = struct.Struct("!4sIQ")
HEADER_CAP = 16 << 20
BODY_CAP = 64 << 20
# One byte of msgpack may become some seventy bytes of objects, each of which the judge looks at several times, so what a
# guest answers is held shorter; and judging an array takes several times its size in float64.
ANSWER_CAP = 256 << 10
ANSWER_BODY_CAP = 18 << 20
RANK_CAP = 16
DEPTH_CAP = 64
INTEGER_CAP = 1785  # bytes: Python writes no integer of more than 4300 digits
TEXT_CAP = 4096  # of what names something; a plain text may be as long as the header
INT64 = range(-(1 << 63), 1 << 63)
DTYPES = ("float16", "float32", "float64", "bool", "uint8", "int8", "int16", "int32", "int64")
CODES = {np.dtype(name): code for code, name in enumerate(DTYPES)}
SHAPES = [struct.Struct(f"!B{rank}I") for rank in range(RANK_CAP + 1)]  # an array's dtype, as a code, and its sizes
TUPLE, HANDLE, NAME, FOREIGN, ARRAY, INTEGER = range(1, 7)  # msgpack's codes for kinds that it does not know
# What is made of several values is a list behind a mark that tells its kind. (Were it packed inside its mark, each one inside
# another would be a reading of its own, and msgpack takes 32 MiB for the lists that are left open in one.)
MARKS = {code: msgpack.ExtType(code, b"") for code in (TUPLE, HANDLE, NAME, FOREIGN)}


class FrameError(Exception):
    """What came over the wire is not a frame of ours."""


class Closed(Exception):
    """The other end is gone."""


class Late(Exception):
    """The deadline passed before a whole frame came."""


@dataclass(frozen=True)
class Handle:
    """An object that lives in a guest, named by a number; `path` leads on to one of its parts (`attention.q`)."""

    id: int
    type: str = ""
    path: str = ""


@dataclass(frozen=True)
class Name:
    """A name in a module of the guest: `attention`, `SelfAttention`."""

    module: str
    path: str


@dataclass(frozen=True)
class Foreign:
    """A value that cannot travel (a numpy array where a tensor belongs, a generator, …), described in words."""

    type: str
    text: str = ""


def pack(message: Any, header_cap: int = HEADER_CAP, body_cap: int = BODY_CAP) -> bytes:
    """Encode a message of None, bool, int, float, str, bytes, list, tuple, dict, numpy arrays and the classes above.

    Scalars of numpy travel as plain numbers. Keys of a dict are texts, or integers of 64 bits.

    Raises:
        FrameError: a value is of another type, is nested too deep, or the frame would be larger than the caps.
    """
    _check(message, 0)
    writer = _Writer()
    try:
        # Strict: it asks us about tuples, and about subclasses, which may have another idea of what they are.
        header: bytes = msgpack.packb(message, default=writer.known, strict_types=True, unicode_errors="surrogatepass")
    except (ValueError, OverflowError, struct.error) as error:
        raise FrameError(f"a value cannot travel: {error}") from error
    if len(header) > header_cap or writer.size > body_cap:
        raise FrameError(f"a message of {len(header) + writer.size:,} bytes is too large to travel")
    return b"".join([PREFIX.pack(MAGIC, len(header), writer.size), header, *writer.blobs])


class _Writer:
    """Puts into msgpack's own kinds what it does not know, and keeps the bytes of arrays aside."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.size = 0

    def known(self, value: Any) -> Any:
        """The value, as msgpack knows it."""
        if isinstance(value, np.ndarray):
            return msgpack.ExtType(ARRAY, self.keep(value))
        if isinstance(value, tuple):
            return [MARKS[TUPLE], *value]
        if isinstance(value, Handle):
            return [MARKS[HANDLE], value.id, value.type, value.path]
        if isinstance(value, Name):
            return [MARKS[NAME], value.module, value.path]
        if isinstance(value, Foreign):
            return [MARKS[FOREIGN], value.type, value.text]
        if type(value) is int:  # of more than 64 bits
            size = max(value, ~value).bit_length() // 8 + 1  # with a bit for the sign
            if size > INTEGER_CAP:
                raise FrameError(f"a number of {size:,} bytes cannot travel")
            return msgpack.ExtType(INTEGER, value.to_bytes(size, "little", signed=True))
        if isinstance(value, (dict, list)):
            return dict(value) if isinstance(value, dict) else list(value)
        return _plain(value)

    def keep(self, array: Array) -> bytes:
        """Put an array's bytes aside; returns its dtype and shape."""
        code = CODES.get(array.dtype.newbyteorder("="))
        if code is None or array.ndim > RANK_CAP:
            raise FrameError(f"an array of dtype {array.dtype} and rank {array.ndim} cannot travel")
        # Little-endian on the wire: a dtype's code does not tell its byte order.
        self.blobs.append(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes())
        self.size += len(self.blobs[-1])
        return SHAPES[array.ndim].pack(code, *array.shape)


PLAIN = frozenset({type(None), bool, int, float, str, bytes})
LEAVES = PLAIN | {np.ndarray, Handle, Name, Foreign}


def _check(value: Any, depth: int) -> None:
    """Raises FrameError for a value that may not travel. Both ends look: msgpack itself takes more than we do."""
    if type(value) in LEAVES:
        return
    if depth > DEPTH_CAP:
        raise FrameError("a value that is nested so deep cannot travel")
    if isinstance(value, (list, tuple)) and type(value) is not msgpack.ExtType:
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_key(key)
            _check(item, depth + 1)
    else:
        _plain(value)


def _check_key(key: Any) -> None:
    # Any other key could be made to collide with all others, and a dict of them would take minutes to build.
    if not isinstance(key, str) and not (isinstance(key, int) and int.__int__(key) in INT64):
        raise FrameError(f"a dict with a {type(key).__name__} as key cannot travel")


def _plain(value: Any) -> Any:
    """A scalar of numpy, or a text or number of a class of its own, as a plain one."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in PLAIN:
        return value
    # By the base class: a subclass may have another idea of what it is.
    base: Any = next((kind for kind in (int, float, str) if isinstance(value, kind)), None)
    if base is None:
        raise FrameError(f"a {type(value).__name__} cannot travel")
    return getattr(base, f"__{base.__name__}__")(value)


def unpack(frame: bytes) -> Any:
    """Decode one whole frame. Raises FrameError for what is not of the form that `pack` gives it."""
    if len(frame) < PREFIX.size:
        raise FrameError("malformed frame: it is not whole")
    magic, header_size, body_size = PREFIX.unpack_from(frame)
    body = PREFIX.size + header_size
    if magic != MAGIC or len(frame) != body + body_size:
        raise FrameError("malformed frame: it is not whole")
    return _decode(frame[PREFIX.size : body], frame[body:])


def _decode(header: bytes, body: bytes | bytearray) -> Any:
    reader = _Reader(memoryview(body))
    try:
        message = reader.message(header)
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError, struct.error) as error:
        raise FrameError(f"malformed frame: {type(error).__name__}") from error
    if reader.read != len(body):
        raise FrameError("malformed frame: bytes left over")
    _check(message, 0)
    return message


class _Reader:
    """Turns what msgpack does not know back into our own kinds, and cuts the arrays out of the body, one after the other."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.read = 0

    def message(self, header: bytes) -> Any:
        return msgpack.unpackb(
            header,
            ext_hook=self.known,
            list_hook=_list,
            object_pairs_hook=_dict,
            strict_map_key=False,
            unicode_errors="surrogatepass",
        )

    def known(self, code: int, data: bytes) -> Any:
        """A value of one of our own kinds, or the mark of one."""
        if code == INTEGER:
            if len(data) > INTEGER_CAP:
                raise FrameError("malformed frame: a number is too long")
            return int.from_bytes(data, "little", signed=True)
        if code == ARRAY:
            return self.array(data)
        if code not in MARKS or data:
            raise FrameError("malformed frame: unknown kind of value")
        return MARKS[code]

    def array(self, told: bytes) -> Array:
        """The next array of the body, of the dtype and shape that are told."""
        rank = (len(told) - 1) // 4
        if not 0 <= rank <= RANK_CAP:
            raise FrameError("malformed frame: an array of no rank that there is")
        code, *shape = SHAPES[rank].unpack(told)
        name = DTYPES[code]
        dtype = np.dtype(name).newbyteorder("<")
        begin, self.read = self.read, self.read + math.prod(shape) * dtype.itemsize
        if self.read > len(self.body):
            raise FrameError("malformed frame: an array is larger than what was sent")
        # A copy: aligned, writable, and it lets go of the receive buffer. Bytes other than 0 and 1 are no bools.
        array = np.frombuffer(self.body[begin : self.read], dtype=np.uint8 if name == "bool" else dtype)
        return (array != 0 if name == "bool" else array.astype(name)).reshape(shape)


def _list(items: list[Any]) -> Any:
    """A list, or what the mark at its beginning makes of it; a mark anywhere else is refused by `_check`."""
    if not items or type(items[0]) is not msgpack.ExtType:
        return items
    mark, *fields = items
    if mark.code == TUPLE:
        return tuple(fields)
    if mark.code == HANDLE:
        number, kind, path = fields
        return Handle(_index(number), _text(kind), _text(path))
    return (Name if mark.code == NAME else Foreign)(*map(_text, fields))


def _dict(items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    found = {}
    for key, item in items:
        _check_key(key)
        if key in found:
            raise FrameError("malformed frame: a key that is there twice")
        found[key] = item
    return found


def _index(value: Any) -> int:
    if type(value) is not int or value < 0 or value not in INT64:
        raise FrameError("malformed frame: an index is no index")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_CAP:
        raise FrameError("malformed frame: a text is no text, or too long")
    return value


def send(sock: socket.socket, message: Any, deadline: float | None = None) -> None:
    """Send one message; `deadline` is on the clock of `time.monotonic`. Raises Closed, Late, FrameError."""
    send_packed(sock, pack(message), deadline)


def send_packed(sock: socket.socket, packed: bytes, deadline: float | None = None) -> None:
    """Send what `pack` made. Raises Closed, Late."""
    frame = memoryview(packed)
    try:
        while frame:
            sock.settimeout(_left(deadline))
            frame = frame[sock.send(frame) :]
    except TimeoutError as error:
        raise Late from error
    except OSError as error:
        raise Closed from error


def receive(
    sock: socket.socket, deadline: float | None = None, header_cap: int = HEADER_CAP, body_cap: int = BODY_CAP
) -> Any:
    """Wait for one message. Raises Closed, Late, FrameError. What it takes of memory is bounded by the caps."""
    magic, header_size, body_size = PREFIX.unpack(_read(sock, PREFIX.size, deadline))
    if magic != MAGIC or header_size > header_cap or body_size > body_cap:
        raise FrameError("malformed frame: not a frame of this protocol")
    header = _read(sock, header_size, deadline)
    return _decode(bytes(header), _read(sock, body_size, deadline))


def _read(sock: socket.socket, size: int, deadline: float | None) -> bytearray:
    # Grown as bytes arrive: a header that promises 256 MiB and sends nothing costs nothing.
    buffer = bytearray()
    try:
        while len(buffer) < size:
            sock.settimeout(_left(deadline))
            chunk = sock.recv(min(size - len(buffer), 1 << 20))
            if not chunk:
                raise Closed
            buffer += chunk
    except TimeoutError as error:
        raise Late from error
    except OSError as error:
        raise Closed from error
    return buffer


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late
    return left
