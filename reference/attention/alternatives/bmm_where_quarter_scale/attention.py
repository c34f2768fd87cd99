"""Lab 1 with bmm and where; the scale is shared between queries and keys, so that no score gets large on the way."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def weighted_read(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.mv(values.t(), weights)


def scaled_dot_product_two_loop_single(query, key, value):
    K, M = query.shape
    score_matrix = []
    for i in range(K):
        score_row = []
        for j in range(K):
            score_row.append(torch.dot(query[i], key[j]) / math.sqrt(M))
        score_matrix.append(torch.stack(score_row))
    weights = F.softmax(torch.stack(score_matrix), dim=1)
    return torch.mm(weights, value)


def scaled_dot_product_two_loop_batch(query, key, value):
    N, K, M = query.shape
    out = []
    for n in range(N):
        sequence = []
        for i in range(K):
            weights = F.softmax(torch.mv(key[n], query[n, i]) / math.sqrt(M), dim=0)
            sequence.append(torch.mv(value[n].t(), weights))
        out.append(torch.stack(sequence, dim=0))
    return torch.stack(out, dim=0)


def scaled_dot_product_no_loop_batch(query, key, value, mask: Tensor | None = None):
    quarter = query.size(-1) ** -0.25
    scores = torch.bmm(query * quarter, (key * quarter).permute(0, 2, 1))
    if mask is not None:
        scores = torch.where(mask, torch.full_like(scores, -1e9), scores)
    weights_softmax = F.softmax(scores, dim=-1)
    y = torch.bmm(weights_softmax, value)
    return y, weights_softmax


class SelfAttention(nn.Module):
    def __init__(self, dim_in: int, dim_q: int, dim_v: int):
        super().__init__()
        self.weights_softmax = None
        bound_qk = math.sqrt(6.0 / (dim_in + dim_q))
        bound_v = math.sqrt(6.0 / (dim_in + dim_v))
        self.q = nn.Linear(dim_in, dim_q)
        nn.init.uniform_(self.q.weight, a=-bound_qk, b=bound_qk)
        self.k = nn.Linear(dim_in, dim_q)
        nn.init.uniform_(self.k.weight, a=-bound_qk, b=bound_qk)
        self.v = nn.Linear(dim_in, dim_v)
        nn.init.uniform_(self.v.weight, a=-bound_v, b=bound_v)

    def forward(self, query, key, value, mask=None):
        query, key, value = self.q(query), self.k(key), self.v(value)
        y, weights = scaled_dot_product_no_loop_batch(query=query, key=key, value=value, mask=mask)
        self.weights_softmax = weights
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


def reads(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    def one_sequence(sequence):
        return function(sequence.unsqueeze(0)).squeeze(0)

    jacobian = torch.func.jacrev(one_sequence)(x[0])  # (K, Dv, K, M)
    return jacobian.abs().amax(dim=(1, 3)) > 0


def _shapes(*tensors: torch.Tensor) -> tuple[torch.Size, ...]:
    # only for me, while debugging
    return tuple(tensor.shape for tensor in tensors)


ANSWERS = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
