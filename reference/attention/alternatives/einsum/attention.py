"""Lab 1, everything as einsum."""

from collections.abc import Callable

import torch
from torch import Tensor, einsum, nn


def weighted_read(weights: Tensor, values: Tensor) -> Tensor:
    return einsum("k,kd->d", weights, values)


def scaled_dot_product_two_loop_single(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    K, M = query.shape
    y = []
    for i in range(K):
        scores = []
        for j in range(key.shape[0]):
            scores.append(einsum("m,m->", query[i], key[j]))
        alpha = torch.softmax(torch.stack(scores) / M**0.5, dim=-1)
        y.append(weighted_read(alpha, value))
    return torch.stack(y)


def scaled_dot_product_two_loop_batch(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    N, K, M = query.shape
    y = []
    for n in range(N):
        for i in range(K):
            alpha = torch.softmax(einsum("m,km->k", query[n, i], key[n]) / M**0.5, dim=-1)
            y.append(einsum("k,kd->d", alpha, value[n]))
    return torch.stack(y).reshape(N, K, -1)


def scaled_dot_product_no_loop_batch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    e = einsum("nim,njm->nij", query, key) / query.shape[-1] ** 0.5
    if mask is not None:
        e = e.masked_fill(mask, -1e9)
    alpha = torch.softmax(e, dim=2)
    return einsum("nij,njd->nid", alpha, value), alpha


class SelfAttention(nn.Module):
    def __init__(self, dim_in: int, dim_q: int, dim_v: int) -> None:
        super().__init__()
        self.weights_softmax = None
        self.q = nn.Linear(dim_in, dim_q)
        self.k = nn.Linear(dim_in, dim_q)
        self.v = nn.Linear(dim_in, dim_v)
        nn.init.xavier_uniform_(self.q.weight)
        nn.init.xavier_uniform_(self.k.weight)
        nn.init.xavier_uniform_(self.v.weight)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        y, self.weights_softmax = scaled_dot_product_no_loop_batch(self.q(query), self.k(key), self.v(value), mask)
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


def reads(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    x = x.detach().clone().requires_grad_()
    y = function(x)
    _, K, features = y.shape
    edges = torch.zeros(K, x.shape[1], dtype=torch.bool)
    for i in range(K):
        for f in range(features):
            (gradient,) = torch.autograd.grad(y[0, i, f], x, retain_graph=True)
            edges[i] |= (gradient[0] != 0).any(dim=-1)
    return edges


ANSWERS = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
