"""The twenty checks as the usual tools run them: torch beside torch, in the student's own process.

The arithmetic is that of `course/assignments/twenty/checks.py`. Also the floor of every measurement: `python native.py
SOLUTION N` runs them N times in one warm process, without isolation and without a report.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

Check = Callable[[Any, Any], None]
CHECKS: dict[str, Check] = {}


def twenty(function: Check) -> Check:
    """Keep a check under its name."""
    CHECKS[function.__name__] = function
    return function


def load(path: Path, name: str) -> ModuleType:
    """A hand-in, imported from its file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(seed: int, *shape: int) -> Tensor:
    """Seeded normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def qkv(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of all different sizes."""
    return drawn(seed, 2, 5, 4), drawn(seed + 1, 2, 7, 4), drawn(seed + 2, 2, 7, 6)


def masked(*shape: int) -> Tensor:
    """A mask that leaves the first source of every reader."""
    mask = drawn(9, *shape) > 0.3
    mask[..., 0] = False
    return mask


def close(got: Any, expected: Tensor) -> None:
    """Shape, dtype and values."""
    assert isinstance(got, Tensor) and got.shape == expected.shape and got.dtype == expected.dtype
    assert torch.allclose(got, expected, rtol=1e-4, atol=1e-5), f"largest gap {(got - expected).abs().max()}"


def filled(module: Any, seed: int = 5) -> Any:
    """A module with every parameter set."""
    with torch.no_grad():
        for at, parameter in enumerate(module.parameters()):
            parameter.copy_(drawn(seed + at, *parameter.shape))
    return module


def follows(function: Callable[[Tensor], Tensor]) -> None:
    """Permutation equivariance."""
    x, order = drawn(1, 2, 6, 4), torch.tensor([3, 5, 0, 2, 1, 4])
    close(function(x[:, order]), function(x)[:, order])


@twenty
def read_values(s: Any, r: Any) -> None:
    weights, values = drawn(0, 7), drawn(1, 7, 4)
    close(s.weighted_read(weights, values), r.weighted_read(weights, values))


@twenty
def read_shape(s: Any, r: Any) -> None:
    assert s.weighted_read(drawn(0, 3), drawn(1, 3, 5)).shape == (5,)


@twenty
def loop_values(s: Any, r: Any) -> None:
    probe = drawn(0, 7, 4), drawn(1, 7, 4), drawn(2, 7, 6)
    close(s.two_loop_single(*probe), r.two_loop_single(*probe))


@twenty
def loop_one_position(s: Any, r: Any) -> None:
    value = drawn(2, 1, 6)
    close(s.two_loop_single(drawn(0, 1, 4), drawn(1, 1, 4), value), value)


@twenty
def no_loop_values(s: Any, r: Any) -> None:
    close(s.no_loop_batch(*qkv())[0], r.no_loop_batch(*qkv())[0])


@twenty
def no_loop_rows(s: Any, r: Any) -> None:
    close(s.no_loop_batch(*qkv())[1].sum(-1), torch.ones(2, 5))


@twenty
def no_loop_mask(s: Any, r: Any) -> None:
    mask = masked(2, 5, 7)
    close(s.no_loop_batch(*qkv(), mask)[0], r.no_loop_batch(*qkv(), mask)[0])


@twenty
def no_loop_order(s: Any, r: Any) -> None:
    follows(lambda x: s.no_loop_batch(x, x, x)[0])


@twenty
def head_values(s: Any, r: Any) -> None:
    x, y = drawn(0, 2, 5, 4), drawn(1, 2, 7, 4)
    close(filled(s.SelfAttention(4, 3, 6))(x, y, y), filled(r.SelfAttention(4, 3, 6))(x, y, y))


@twenty
def head_mask(s: Any, r: Any) -> None:
    x, mask = drawn(0, 2, 5, 4), masked(2, 5, 5)
    close(filled(s.SelfAttention(4, 3, 6))(x, x, x, mask), filled(r.SelfAttention(4, 3, 6))(x, x, x, mask))


@twenty
def concat_values(s: Any, r: Any) -> None:
    heads = [drawn(at, 2, 5, 3) for at in range(3)]
    close(s.concat_heads(heads), r.concat_heads(heads))


@twenty
def concat_one(s: Any, r: Any) -> None:
    close(s.concat_heads([drawn(0, 2, 5, 3)]), drawn(0, 2, 5, 3))


@twenty
def several_values(s: Any, r: Any) -> None:
    x = drawn(0, 2, 5, 4)
    close(filled(s.MultiHeadAttention(2, 4, 3))(x, x, x), filled(r.MultiHeadAttention(2, 4, 3))(x, x, x))


@twenty
def several_mask(s: Any, r: Any) -> None:
    x, mask = drawn(0, 2, 5, 4), masked(2, 5, 5)
    close(filled(s.MultiHeadAttention(2, 4, 3))(x, x, x, mask), filled(r.MultiHeadAttention(2, 4, 3))(x, x, x, mask))


@twenty
def several_order(s: Any, r: Any) -> None:
    module = filled(s.MultiHeadAttention(2, 4, 3))
    follows(lambda x: module(x, x, x))


@twenty
def ffn_values(s: Any, r: Any) -> None:
    x = drawn(0, 2, 5, 4)
    close(filled(s.FeedForwardBlock(4, 7))(x), filled(r.FeedForwardBlock(4, 7))(x))


@twenty
def ffn_order(s: Any, r: Any) -> None:
    follows(filled(s.FeedForwardBlock(4, 7)))


@twenty
def norm_values(s: Any, r: Any) -> None:
    x = drawn(0, 2, 5, 4)
    close(filled(s.LayerNormalization(4))(x), filled(r.LayerNormalization(4))(x))


@twenty
def norm_epsilon(s: Any, r: Any) -> None:
    x = drawn(0, 2, 5, 4) / 8
    close(s.LayerNormalization(4, 0.1)(x), r.LayerNormalization(4, 0.1)(x))


@twenty
def norm_constant(s: Any, r: Any) -> None:
    module = filled(s.LayerNormalization(4))
    close(module(torch.ones(2, 3, 4)), module.beta.expand(2, 3, 4))


def main(solution: str, times: str) -> None:
    """Print the seconds of one run of all twenty, the median of `times`."""
    torch.set_num_threads(1)
    reference = load(Path(solution), "reference")
    spent = []
    for at in range(int(times)):
        begun = time.perf_counter()
        student = load(Path(solution), f"student{at}")
        for function in CHECKS.values():
            function(student, reference)
        spent.append(time.perf_counter() - begun)
    print(sorted(spent)[len(spent) // 2])


if __name__ == "__main__":
    main(*sys.argv[1:])
