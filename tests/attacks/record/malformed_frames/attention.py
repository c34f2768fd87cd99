"""Answers with bytes that are no frame: wrong marks, sizes that promise gigabytes, JSON that is none or has no end."""

import gc
import itertools
import json
import os

from autograder.sandbox import frames, guest

ours = next(item for item in gc.get_objects() if type(item) is guest.Guest)


def frame(header, body=b""):
    return frames.PREFIX.pack(frames.MAGIC, len(header), len(body)) + header + body


def claim(value, arrays):
    return json.dumps({"body": {"$": "dict", "items": [["id", ours.working_on], ["value", value]]}, "arrays": arrays})


KINDS = itertools.cycle(
    (
        lambda: os.urandom(4096),
        lambda: frames.PREFIX.pack(frames.MAGIC, (1 << 32) - 1, (1 << 64) - 1) + bytes(64),
        lambda: frame(b"[" * 100_000),
        lambda: frame(b'{"body": ' + b"9" * 5000 + b', "arrays": []}'),
        lambda: frame(claim({"$": "array", "at": 0}, [["float64", [1 << 31, 1 << 31]]]).encode(), bytes(8)),
        lambda: frame(claim({"$": "array", "at": -1}, [["object", [1]]]).encode(), bytes(8)),
        lambda: frame(claim({"$": "reduce", "items": ["os.system", "true"]}, []).encode()),
    )
)


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    ours.sock.sendall(next(KINDS)())
    return value


scaled_dot_product_two_loop_batch = scaled_dot_product_two_loop_single


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    ours.sock.sendall(next(KINDS)())
    return query, key
