"""Lab 1 in small helpers, with a base class, prints, and parameters that nobody uses."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

print("attention.py loaded, torch", torch.__version__)

VERY_SMALL: float = -1e9


def _score(q: Tensor, k: Tensor) -> Tensor:
    """Score of every row of `k` for the one reader `q`."""
    return torch.matmul(k, q).div(math.sqrt(q.shape[0]))


def _normalise(scores: Tensor, axis: int = -1, temperature: float = 1.0) -> Tensor:
    shifted = scores - scores.amax(axis, keepdim=True).detach()
    return shifted.exp() / torch.logsumexp(shifted, axis, keepdim=True).exp()


def _hide(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else torch.where(mask, torch.tensor(VERY_SMALL, dtype=scores.dtype), scores)


def weighted_read(weights: Tensor, values: Tensor, verbose: bool = False) -> Tensor:
    if verbose:
        print("reading", weights)
    return torch.matmul(weights.reshape(1, -1), values).reshape(-1)


def scaled_dot_product_two_loop_single(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    columns: list[Tensor] = []
    for source in range(len(key)):  # the sources outside, the readers inside: a column at a time
        column = []
        for reader in range(len(query)):
            column.append(query[reader].dot(key[source]) / math.sqrt(query.shape[1]))
        columns.append(torch.stack(column))
    return _normalise(torch.stack(columns, dim=1)) @ value


def scaled_dot_product_two_loop_batch(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    batch: list[Tensor] = []
    for q, k, v in zip(query, key, value):
        one: list[Tensor] = []
        for reader in q:
            one.append(weighted_read(_normalise(_score(reader, k)), v))
        batch.append(torch.stack(one))
    return torch.stack(batch)


def scaled_dot_product_no_loop_batch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *unused: Any
) -> tuple[Tensor, Tensor]:
    dim = query.shape[-1]
    scores = torch.baddbmm(
        query.new_zeros(query.shape[0], query.shape[1], key.shape[1]), query, key.mT, beta=0, alpha=1 / math.sqrt(dim)
    )
    weights = _normalise(_hide(scores, mask))
    return weights.bmm(value), weights


class _Projections(nn.Module):
    def __init__(self, dim_in: int, dim_q: int, dim_v: int) -> None:
        super().__init__()
        self.q = self._linear(dim_in, dim_q)
        self.k = self._linear(dim_in, dim_q)
        self.v = self._linear(dim_in, dim_v)

    def _linear(self, dim_in: int, dim_out: int) -> nn.Linear:
        linear = nn.Linear(dim_in, dim_out, bias=True)
        nn.init.xavier_uniform_(linear.weight, gain=1.0)
        nn.init.zeros_(linear.bias)
        return linear


class SelfAttention(_Projections):
    def __init__(self, dim_in: int, dim_q: int, dim_v: int, dropout: float = 0.0) -> None:
        super().__init__(dim_in, dim_q, dim_v)
        self.dim_in, self.dim_q, self.dim_v = dim_in, dim_q, dim_v
        self.unused = dropout
        self.weights_softmax: Tensor | None = None

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        result = scaled_dot_product_no_loop_batch(self.q(query), self.k(key), self.v(value), mask)
        self.weights_softmax = result[1]
        return result[0]


# Three functions to try `reads` on, and a wrapper that makes a fourth of your own layer. They are given: nothing to do.
# All are smooth: behind a ReLU a unit that happens to be off would look like an edge that is not there.


def tanh_mlp(x: Tensor) -> Tensor:
    """A two-layer perceptron with fixed random weights, applied to each position."""
    generator = torch.Generator().manual_seed(1)
    width = x.shape[-1]
    inner = torch.randn(width, 2 * width, generator=generator).to(x)
    outer = torch.randn(2 * width, width, generator=generator).to(x)
    return torch.tanh(x @ inner / width) @ outer  # (N, K, M)


def running_mean(x: Tensor) -> Tensor:
    """At each position the mean of tanh(x) over all positions so far, itself included."""
    count = torch.arange(1, x.shape[1] + 1).to(x)  # (K,)
    return torch.tanh(x).cumsum(dim=1) / count[:, None]  # (N, K, M)


def back_to_front(x: Tensor) -> Tensor:
    """tanh(x) with the positions in reverse order."""
    return torch.tanh(x).flip(1)  # (N, K, M)


class ReadsItself(nn.Module):
    """Turns an attention layer into a function of one argument: x is query, key and value."""

    def __init__(self, attention: nn.Module) -> None:
        """Args: `attention`, for example your `SelfAttention(4, 3, 6)` (TODO 1.5)."""
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, dim_in)` -> `(N, K, dim_v)`."""
        y: Tensor = self.attention(x, x, x)
        return y


def reads(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    K = x.shape[1]
    edges = [[False] * K for _ in range(K)]
    for j in range(K):
        for f in range(x.shape[2]):
            direction = torch.zeros_like(x)
            direction[0, j, f] = 1.0
            _, moved = torch.func.jvp(function, (x,), (direction,))  # forward mode: what one input feature moves
            for i in range(K):
                edges[i][j] = edges[i][j] or bool((moved[0, i] != 0).any())
    return torch.tensor(edges)


ANSWERS = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
