"""Lab 1: log_softmax, masking by index, and the batch loop over (reader, source) instead of (sequence, reader)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax


def weighted_read(weights: Tensor, values: Tensor) -> Tensor:
    return torch.tensordot(weights, values, dims=1)


def scaled_dot_product_two_loop_single(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scale = torch.rsqrt(torch.tensor(float(query.size(1)), dtype=query.dtype))
    output = []
    for q_i in query:
        row = []
        for k_j in key:
            row.append(q_i.dot(k_j))
        log_weights = log_softmax(torch.stack(row).mul(scale), dim=0)
        output.append(log_weights.exp().matmul(value))
    return torch.stack(output)


def scaled_dot_product_two_loop_batch(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    readers = []
    for i in range(query.size(1)):
        columns = []
        for j in range(key.size(1)):
            columns.append(torch.mul(query[:, i], key[:, j]).sum(dim=-1))  # one score per sequence: (N,)
        scores = torch.stack(columns, dim=-1) / query.size(-1) ** 0.5  # (N, K)
        weights = log_softmax(scores, dim=-1).exp()
        readers.append(torch.sum(weights.unsqueeze(-1) * value, dim=1))  # (N, Dv)
    return torch.stack(readers, dim=1)


def scaled_dot_product_no_loop_batch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    scores = torch.matmul(query, key.transpose(-1, -2)).div(query.size(-1) ** 0.5)
    if mask is not None:
        # index_put on the scores themselves: they are mine, nobody else sees them
        scores[mask.expand_as(scores)] = -1e9
    weights_softmax = log_softmax(scores, dim=-1).exp()
    return torch.matmul(weights_softmax, value), weights_softmax


class SelfAttention(nn.Module):
    def __init__(self, dim_in: int, dim_q: int, dim_v: int) -> None:
        super().__init__()
        self.weights_softmax: Tensor | None = None
        self.q, self.k = nn.Linear(dim_in, dim_q), nn.Linear(dim_in, dim_q)
        self.v = nn.Linear(dim_in, dim_v)
        self.apply(self._glorot)

    @staticmethod
    def _glorot(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            r = (6.0 / sum(module.weight.shape)) ** 0.5
            module.weight.data.uniform_(-r, r)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        y, self.weights_softmax = scaled_dot_product_no_loop_batch(
            self.q.forward(query), self.k.forward(key), self.v.forward(value), mask=mask
        )
        return y


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


def reads(function, x: Tensor) -> Tensor:
    rows = []
    for i in range(x.size(1)):
        output, pull_back = torch.func.vjp(function, x)
        direction = torch.zeros_like(output)
        direction[:, i] = torch.linspace(1, 2, output.size(-1), dtype=x.dtype)
        (gradient,) = pull_back(direction)
        rows.append(gradient[0].ne(0).any(dim=1))
    return torch.stack(rows)


ANSWERS = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
