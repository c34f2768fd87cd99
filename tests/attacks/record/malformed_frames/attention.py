"""Answers with bytes that are no frame: wrong marks, sizes that promise gigabytes, msgpack that is none or has no end."""

import gc
import itertools
import os

import msgpack

from autograder.sandbox import frames, guest

ours = next(item for item in gc.get_objects() if type(item) is guest.Guest)


def frame(header, body=b""):
    return frames.PREFIX.pack(frames.MAGIC, len(header), len(body)) + header + body


def claim(code, data):
    return msgpack.packb({"id": ours.working_on, "value": msgpack.ExtType(code, data)})


KINDS = itertools.cycle(
    (
        lambda: os.urandom(4096),
        lambda: frames.PREFIX.pack(frames.MAGIC, (1 << 32) - 1, (1 << 64) - 1) + bytes(64),
        lambda: frame(b"\x91" * 100_000),
        lambda: frame(b"\xdd\xff\xff\xff\xff"),
        lambda: frame(claim(frames.ARRAY, frames.SHAPES[2].pack(2, 1 << 31, 1 << 31)), bytes(8)),
        lambda: frame(claim(frames.ARRAY, frames.SHAPES[1].pack(200, 1)), bytes(8)),
        lambda: frame(claim(127, b"cos\nsystem\n(S'true'\ntR.")),
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
