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
HEADER_CAP = 4 << 20
BODY_CAP = 256 << 20
RANK_CAP = 16
DTYPES = ("float16", "float32", "float64", "bool", "uint8", "int8", "int16", "int32", "int64")


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


def pack(message: Any) -> bytes:
    """Encode a message of None, bool, int, float, str, bytes, list, tuple, dict, numpy arrays and the classes above.

    Raises:
        FrameError: a value is of another type, or the frame would be larger than the caps.
    """
    arrays: list[Array] = []
    blobs: list[bytes] = []

    def encode(value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, np.ndarray):
            if value.dtype.name not in DTYPES:
                raise FrameError(f"an array of dtype {value.dtype} cannot travel")
            arrays.append(value)
            blobs.append(np.ascontiguousarray(value).tobytes())
            return {"$": "array", "at": len(arrays) - 1}
        if isinstance(value, (tuple, list)):
            items = [encode(item) for item in value]
            return {"$": "tuple", "items": items} if isinstance(value, tuple) else items
        if isinstance(value, dict):
            return {"$": "dict", "items": [[encode(key), encode(item)] for key, item in value.items()]}
        if isinstance(value, Handle):
            return {"$": "object", "id": value.id, "type": value.type, "path": value.path}
        if isinstance(value, Name):
            return {"$": "name", "module": value.module, "path": value.path}
        if isinstance(value, Foreign):
            return {"$": "foreign", "type": value.type, "text": value.text}
        raise FrameError(f"a {type(value).__name__} cannot travel")

    body = encode(message)
    header = json.dumps({"body": body, "arrays": [[a.dtype.name, list(a.shape)] for a in arrays]}).encode()
    size = sum(map(len, blobs))
    if len(header) > HEADER_CAP or size > BODY_CAP:
        raise FrameError(f"a message of {len(header) + size:,} bytes is too large to travel")
    return b"".join([PREFIX.pack(MAGIC, len(header), size), header, *blobs])


def unpack(header: bytes, body: bytes | bytearray) -> Any:
    """Decode one frame. Raises FrameError for anything that `pack` could not have made."""
    try:
        document = json.loads(header)
        arrays = _arrays(document["arrays"], memoryview(body))
        return _decode(document["body"], arrays)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise FrameError(f"malformed frame: {type(error).__name__}") from error


def _arrays(specs: list[Any], body: memoryview) -> list[Array]:
    arrays = []
    offset = 0
    for dtype_name, shape in specs:
        if dtype_name not in DTYPES or len(shape) > RANK_CAP:
            raise FrameError(f"malformed frame: dtype {str(dtype_name)[:40]!r}, rank {len(shape)}")
        if not all(type(size) is int and 0 <= size <= BODY_CAP for size in shape):
            raise FrameError("malformed frame: a size that no array has")
        dtype = np.dtype(dtype_name)
        count = math.prod(shape)
        end = offset + count * dtype.itemsize
        if end > len(body):
            raise FrameError("malformed frame: an array is larger than what was sent")
        # A copy: aligned, writable, and it lets go of the receive buffer. Bytes other than 0 and 1 are no bools.
        array = np.frombuffer(body[offset:end], dtype=np.uint8 if dtype_name == "bool" else dtype)
        arrays.append((array != 0 if dtype_name == "bool" else array.copy()).reshape(shape))
        offset = end
    if offset != len(body):
        raise FrameError("malformed frame: bytes left over")
    return arrays


def _decode(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value["$"]
    if kind == "array":
        return arrays[_index(value["at"])]
    if kind == "tuple":
        return tuple(_decode(item, arrays) for item in value["items"])
    if kind == "dict":
        return {_decode(key, arrays): _decode(item, arrays) for key, item in value["items"]}
    if kind == "object":
        return Handle(_index(value["id"]), _text(value["type"]), _text(value["path"]))
    if kind == "name":
        return Name(_text(value["module"]), _text(value["path"]))
    if kind == "foreign":
        return Foreign(_text(value["type"]), _text(value["text"]))
    raise FrameError("malformed frame: unknown kind of value")


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise FrameError("malformed frame: an index is no index")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise FrameError("malformed frame: a text is no text")
    return value


def send(sock: socket.socket, message: Any, deadline: float | None = None) -> None:
    """Send one message; `deadline` is on the clock of `time.monotonic`. Raises Closed, Late, FrameError."""
    frame = memoryview(pack(message))
    try:
        while frame:
            sock.settimeout(_left(deadline))
            frame = frame[sock.send(frame) :]
    except TimeoutError as error:
        raise Late from error
    except OSError as error:
        raise Closed from error


def receive(sock: socket.socket, deadline: float | None = None) -> Any:
    """Wait for one message. Raises Closed, Late, FrameError; takes no more memory than the frame's checked size."""
    magic, header_size, body_size = PREFIX.unpack(_read(sock, PREFIX.size, deadline))
    if magic != MAGIC or header_size > HEADER_CAP or body_size > BODY_CAP:
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
