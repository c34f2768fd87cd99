"""Seeded inputs whose sizes are all different, so that no axis mistake can hide.

Values are multiples of 1/1024 made from integers alone: the same on every machine and every numpy, exact in float32, and
short to print. So a recording of the reference made on one machine answers the questions of another.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from autograder.sandbox.frames import Array

GRAIN = 1024


class Attention(NamedTuple):
    """Inputs of an attention: `query` (N, Kq, M), `key` (N, K, M), `value` (N, K, Dv), all float32."""

    query: Array
    key: Array
    value: Array


class Probes:
    """A stream of inputs that follows from a text alone: the check's name and, where it is hidden, the lab's secret."""

    def __init__(self, seed: str) -> None:
        digest = hashlib.sha256(seed.encode()).digest()
        self._stream = int.from_bytes(digest, "big")
        self._drawn = 0  # of the stream, until now
        self.seed = int.from_bytes(digest[:4], "big") >> 1

    def integers(self, *shape: int, below: int) -> Array:
        """Integers in `[0, below)`, int64."""
        if not 1 <= below <= 1 << 32:  # beyond it the remainder would no longer be near uniform
            raise ValueError(f"integers below {below}: there is none, or too many")
        begin, self._drawn = self._drawn, self._drawn + math.prod(shape)
        return _integers(self._stream, begin, shape, below).copy()

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Array:
        """Uniform in `[low, high)`, float32 multiples of 1/1024."""
        first, last = round(low * GRAIN), round(high * GRAIN)
        return ((self.integers(*shape, below=last - first) + first) / GRAIN).astype(np.float32)

    def normal(self, *shape: int, scale: float = 1.0) -> Array:
        """About normal (a sum of twelve uniforms), mean 0, standard deviation `scale`, float32 multiples of 1/1024."""
        begin, self._drawn = self._drawn, self._drawn + 12 * math.prod(shape)
        return _normal(self._stream, begin, shape, scale).copy()

    def attention(self, n: int = 2, kq: int = 5, k: int = 7, m: int = 4, dv: int = 6) -> Attention:
        """Readers and sources of different lengths, features of keys and values of different widths."""
        return Attention(self.normal(n, kq, m), self.normal(n, k, m), self.normal(n, k, dv))

    def self_attention(self, n: int = 2, k: int = 5, m: int = 4, dv: int = 6) -> Attention:
        """As many readers as sources."""
        return self.attention(n, k, k, m, dv)

    def mask(self, n: int = 2, kq: int = 5, k: int = 7) -> Array:
        """A bool mask (N, Kq, K), True where reading is forbidden: no row is fully hidden, none is fully open (K ≥ 2)."""
        hidden = self.integers(n, kq, k, below=3) == 0
        # In each row one source stays open and one, elsewhere, is hidden: no row decides nothing.
        open_at = self.integers(n, kq, 1, below=k)
        shut_at = (open_at + 1 + self.integers(n, kq, 1, below=k - 1)) % k
        np.put_along_axis(hidden, shut_at, True, axis=-1)
        np.put_along_axis(hidden, open_at, False, axis=-1)
        return np.asarray(hidden)

    def permutation(self, k: int) -> Array:
        """A rotation of shuffled positions, int64 (K,): moves every position, and is not its own inverse (K ≥ 3)."""
        order = list(range(k))
        for i in range(k - 1, 0, -1):
            j = int(self.integers(below=i + 1)[()])
            order[i], order[j] = order[j], order[i]
        # One cycle through all positions: applying it or its inverse are different things, so mixing them up shows.
        cycle = np.empty(k, dtype=np.int64)
        for here, there in zip(order, order[1:] + order[:1]):
            cycle[here] = there
        return cycle

    def parameters(self, **shapes: tuple[int, ...]) -> dict[str, Array]:
        """Distinct random parameters by name; in a name `__` stands for a dot: `q__weight=(3, 4)` is `q.weight`."""
        return {name.replace("__", "."): self.normal(*shape, scale=0.6) for name, shape in shapes.items()}


# Kept, since a whole class is asked on the same inputs: each follows from its place in its stream.


@lru_cache(maxsize=2048)
def _integers(stream: int, begin: int, shape: tuple[int, ...], below: int) -> Array:
    return _drawn(stream, begin, shape, below)


@lru_cache(maxsize=2048)
def _normal(stream: int, begin: int, shape: tuple[int, ...], scale: float) -> Array:
    twelve = _drawn(stream, begin, (12, *shape), GRAIN).sum(axis=0) - 6 * GRAIN
    return np.asarray(np.round(twelve * scale) / GRAIN, dtype=np.float32)


def _drawn(stream: int, begin: int, shape: tuple[int, ...], below: int) -> Array:
    # The raw stream of PCG64 is stable by promise; numpy's distributions are not.
    bits = np.random.PCG64(stream)
    bits.advance(begin)
    raw = np.asarray(bits.random_raw(math.prod(shape)), dtype=np.uint64) >> np.uint64(16)
    return (raw % np.uint64(below)).astype(np.int64).reshape(shape)
