"""The wire between the grader and its guests: a JSON header, then raw bytes. Nothing is ever unpickled.

A frame is `magic, header length, body length`, the header (JSON: the message, and for each array its dtype and shape),
and the bytes of the arrays one after the other. Both ends use this file; the grader trusts none of what it reads:
every length is capped and checked against the others before memory is taken.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MAGIC = b"ATT1"
PREFIX = struct.Struct("!4sIQ")
HEADER_CAP = 16 << 20
BODY_CAP = 64 << 20
# JSON makes up to fifty bytes of objects out of one that was sent, so what a guest answers is held shorter; and judging
# an array takes several times its size in float64.
ANSWER_CAP = 1 << 20
ANSWER_BODY_CAP = 18 << 20
RANK_CAP = 16
DEPTH_CAP = 64
TEXT_CAP = 4096  # of what names something; a plain text may be as long as the header
INT64 = range(-(1 << 63), 1 << 63)
DTYPES = ("float16", "float32", "float64", "bool", "uint8", "int8", "int16", "int32", "int64")
NAMES = {np.dtype(name): name for name in DTYPES}  # a dtype puts its own name together anew each time


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
    writer = _Writer()
    body = writer.encode(message, 0)
    try:
        header = json.dumps({"body": body, "arrays": writer.specs}).encode()
    except ValueError as error:  # Python writes no integer of more than 4300 digits
        raise FrameError(f"a value cannot travel: {error}") from error
    if len(header) > header_cap or writer.size > body_cap:
        raise FrameError(f"a message of {len(header) + writer.size:,} bytes is too large to travel")
    return b"".join([PREFIX.pack(MAGIC, len(header), writer.size), header, *writer.blobs])


class _Writer:
    """Turns values into what JSON knows, and keeps the bytes of arrays aside."""

    def __init__(self) -> None:
        self.specs: list[list[Any]] = []
        self.blobs: list[bytes] = []
        self.size = 0

    def encode(self, value: Any, depth: int) -> Any:
        if depth > DEPTH_CAP:
            raise FrameError("a value that is nested so deep cannot travel")
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return _plain(value)
        if isinstance(value, (np.ndarray, bytes)):
            return self._keep(value)
        if isinstance(value, (tuple, list)):
            items = [self.encode(item, depth + 1) for item in value]
            return {"$": "tuple", "items": items} if isinstance(value, tuple) else items
        if isinstance(value, dict):
            return {"$": "dict", "items": [[_key(k), self.encode(item, depth + 1)] for k, item in value.items()]}
        if isinstance(value, Handle):
            return {"$": "object", "id": value.id, "type": value.type, "path": value.path}
        if isinstance(value, Name):
            return {"$": "name", "module": value.module, "path": value.path}
        if isinstance(value, Foreign):
            return {"$": "foreign", "type": value.type, "text": value.text}
        raise FrameError(f"a {type(value).__name__} cannot travel")

    def _keep(self, value: Array | bytes) -> dict[str, Any]:
        array = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        name = NAMES.get(array.dtype.newbyteorder("="))
        if name is None or array.ndim > RANK_CAP:
            raise FrameError(f"an array of dtype {array.dtype} and rank {array.ndim} cannot travel")
        # Little-endian on the wire: a dtype's name does not tell its byte order.
        self.blobs.append(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes())
        self.specs.append([name, list(array.shape)])
        self.size += len(self.blobs[-1])
        return {"$": "bytes" if isinstance(value, bytes) else "array", "at": len(self.specs) - 1}


PLAIN = frozenset({type(None), bool, int, float, str})


def _plain(value: Any) -> Any:
    # By the base class: a subclass may have another idea of what it is.
    if type(value) in PLAIN:
        return value
    base: Any = next(kind for kind in (int, float, str) if isinstance(value, kind))
    return getattr(base, f"__{base.__name__}__")(value)


def _key(value: Any) -> Any:
    # Any other key could be made to collide with all others, and a dict of them would take minutes to build.
    if isinstance(value, str) or (isinstance(value, int) and int.__int__(value) in INT64):
        return _plain(value)
    raise FrameError(f"a dict with a {type(value).__name__} as key cannot travel")


def unpack(header: bytes, body: bytes | bytearray) -> Any:
    """Decode one frame. Raises FrameError for anything that `pack` could not have made."""
    try:
        document = json.loads(header)
        arrays = _arrays(document["arrays"], memoryview(body))
        return _decode(document["body"], arrays, 0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise FrameError(f"malformed frame: {type(error).__name__}") from error


def _arrays(specs: list[Any], body: memoryview) -> list[Array | None]:
    arrays: list[Array | None] = []
    offset = 0
    for dtype_name, shape in specs:
        if dtype_name not in DTYPES or len(shape) > RANK_CAP:
            raise FrameError(f"malformed frame: dtype {str(dtype_name)[:40]!r}, rank {len(shape)}")
        if type(shape) is not list or not all(type(size) is int and 0 <= size <= BODY_CAP for size in shape):
            raise FrameError("malformed frame: a size that no array has")
        dtype = np.dtype(dtype_name).newbyteorder("<")
        count = math.prod(shape)
        end = offset + count * dtype.itemsize
        if end > len(body):
            raise FrameError("malformed frame: an array is larger than what was sent")
        # A copy: aligned, writable, and it lets go of the receive buffer. Bytes other than 0 and 1 are no bools.
        array = np.frombuffer(body[offset:end], dtype=np.uint8 if dtype_name == "bool" else dtype)
        arrays.append((array != 0 if dtype_name == "bool" else array.astype(dtype_name)).reshape(shape))
        offset = end
    if offset != len(body):
        raise FrameError("malformed frame: bytes left over")
    return arrays


def _decode(value: Any, arrays: list[Array | None], depth: int) -> Any:
    if depth > DEPTH_CAP:
        raise FrameError("malformed frame: nested too deep")
    if isinstance(value, list):
        return [_decode(item, arrays, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value["$"]
    if kind == "array":
        return _array_at(arrays, value["at"])
    if kind == "bytes":
        found = _array_at(arrays, value["at"]).tobytes()
        arrays[value["at"]] = None  # once: of an array, a thousand references would make a thousand copies
        return found
    if kind == "tuple":
        return tuple(_decode(item, arrays, depth + 1) for item in value["items"])
    if kind == "dict":
        return {_key(key): _decode(item, arrays, depth + 1) for key, item in value["items"]}
    if kind == "object":
        return Handle(_index(value["id"]), _text(value["type"]), _text(value["path"]))
    if kind == "name":
        return Name(_text(value["module"]), _text(value["path"]))
    if kind == "foreign":
        return Foreign(_text(value["type"]), _text(value["text"]))
    raise FrameError("malformed frame: unknown kind of value")


def _array_at(arrays: list[Array | None], at: Any) -> Array:
    array = arrays[_index(at)]
    if array is None:
        raise FrameError("malformed frame: bytes that are referred to twice")
    return array


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
    """Wait for one message. Raises Closed, Late, FrameError; takes no more memory than the frame's checked size."""
    magic, header_size, body_size = PREFIX.unpack(_read(sock, PREFIX.size, deadline))
    if magic != MAGIC or header_size > header_cap or body_size > body_cap:
        raise FrameError("malformed frame: not a frame of this protocol")
    header = _read(sock, header_size, deadline)
    return unpack(bytes(header), _read(sock, body_size, deadline))


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
