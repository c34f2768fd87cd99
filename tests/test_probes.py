"""Probes: the same for ever, all sizes different, masks and permutations in which no mistake can hide."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from autograder.probes import GRAIN, Probes
from autograder.sandbox.frames import Array

SEEDS = [f"lab/check/{i}" for i in range(60)]


def digest(*arrays: Array) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def test_the_values_of_a_seed_never_change() -> None:
    """Recordings that were handed out were made from them: a change here would break every student's copy."""
    probes = Probes("attention/no_loop_output/handed out")
    assert probes.seed == 1157628491
    assert digest(*probes.attention()) == "550fd1410eef10b7"
    assert digest(probes.mask()) == "a70793b37bc6c25b"
    assert digest(probes.permutation(7)) == "e8ef5083e6f50685"
    assert digest(probes.uniform(3, 4, low=0, high=1), probes.normal(5, scale=0.3)) == "904db13c4b74f732"
    assert digest(*probes.parameters(q__weight=(3, 4), q__bias=(3,)).values()) == "5840fdc23547aefc"


def test_a_seed_is_a_stream() -> None:
    one, other = Probes("a"), Probes("a")
    first = one.normal(3, 4)
    assert np.array_equal(first, other.normal(3, 4))
    assert not np.array_equal(first, one.normal(3, 4))
    assert not np.array_equal(first, Probes("b").normal(3, 4))


def test_all_sizes_are_different() -> None:
    query, key, value = Probes("sizes").attention()
    n, kq, m = query.shape
    assert key.shape == (n, key.shape[1], m)
    assert value.shape == (n, key.shape[1], value.shape[2])
    assert len({n, kq, key.shape[1], m, value.shape[2]}) == 5
    query, key, value = Probes("sizes").self_attention()
    assert query.shape == key.shape
    assert len({*query.shape, value.shape[2]}) == 4


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_values_are_exact_and_spread(seed: str) -> None:
    probes = Probes(seed)
    for array in (probes.normal(50, 40), probes.uniform(50, 40)):
        assert array.dtype == np.float32
        assert np.array_equal(array * GRAIN, np.round(array.astype(np.float64) * GRAIN))
        assert abs(float(array.mean())) < 0.08
    assert 0.9 < float(probes.normal(50, 40).std()) < 1.1
    assert 0.45 < float(probes.normal(50, 40, scale=0.5).std()) < 0.55
    low = probes.uniform(2000, low=0.25, high=0.5)
    assert float(low.min()) >= 0.25
    assert float(low.max()) < 0.5


@pytest.mark.parametrize("k", [3, 4, 5, 7, 12])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_permutation_moves_everything_and_is_not_its_own_inverse(seed: str, k: int) -> None:
    order = Probes(seed).permutation(k)
    assert sorted(order) == list(range(k))
    assert not (order == np.arange(k)).any()
    assert not np.array_equal(order[order], np.arange(k))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mask_decides_something_everywhere(seed: str) -> None:
    mask = Probes(seed).mask()
    assert mask.dtype == bool
    assert mask.shape == (2, 5, 7)
    assert not mask.all(axis=-1).any()  # no reader is left without a source
    assert mask.any(axis=-1).all()  # and none may read them all
    for axis in range(3):  # it differs along each axis, so none can be mixed up, dropped or broadcast unnoticed
        assert not np.array_equal(mask, np.roll(mask, 1, axis))
        assert mask.any(axis).any()
    assert not np.array_equal(mask[:, :, :5], mask[:, :, :5].swapaxes(1, 2))


@pytest.mark.parametrize("k", [2, 3])
def test_a_small_mask_leaves_a_source_open(k: int) -> None:
    mask = Probes("small").mask(3, 4, k)
    assert not mask.all(-1).any()
    assert mask.any(-1).all()


def test_what_cannot_be_drawn_is_an_error() -> None:
    with pytest.raises(ValueError, match="integers below 0"):
        Probes("x").mask(2, 3, 1)
    with pytest.raises(ValueError, match="integers below 0"):
        Probes("x").uniform(2, low=1, high=1)


def test_parameters_are_named_as_torch_names_them() -> None:
    found = Probes("p").parameters(q__weight=(3, 4), heads__0__q__bias=(3,))
    assert {name: array.shape for name, array in found.items()} == {"q.weight": (3, 4), "heads.0.q.bias": (3,)}
