"""Eight parts of Labs 1 to 3, as one file: what `make bench` has every tool grade."""

import torch
from torch import Tensor, nn


def weighted_read(weights: Tensor, values: Tensor) -> Tensor:
    """`(K,)`, `(K, Dv)` -> `(Dv,)`."""
    # BEGIN SOLUTION 9.1 read
    return weights @ values
    # END SOLUTION


def two_loop_single(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`(K, M)`, `(K, M)`, `(K, Dv)` -> `(K, Dv)`, with two loops."""
    # BEGIN SOLUTION 9.1 loop over readers and sources
    scale = query.shape[-1] ** -0.5
    rows = []
    for reader in query:
        scores = torch.stack([reader @ source * scale for source in key])
        rows.append(scores.softmax(dim=0) @ value)
    return torch.stack(rows)
    # END SOLUTION


def no_loop_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`(N, Kq, M)`, `(N, K, M)`, `(N, K, Dv)` -> `(N, Kq, Dv)`, `(N, Kq, K)`."""
    # BEGIN SOLUTION 9.1 no loop
    scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
    # END SOLUTION


class SelfAttention(nn.Module):
    """One head: `q`, `k`, `v` in front of attention."""

    def __init__(self, dim_in: int, dim_q: int, dim_v: int) -> None:
        super().__init__()
        # BEGIN SOLUTION 9.1 make the projections
        self.q, self.k, self.v = nn.Linear(dim_in, dim_q), nn.Linear(dim_in, dim_q), nn.Linear(dim_in, dim_v)
        # END SOLUTION

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """`(N, Kq, dim_in)` and twice `(N, K, dim_in)` -> `(N, Kq, dim_v)`."""
        # BEGIN SOLUTION 9.1 project and attend
        return no_loop_batch(self.q(query), self.k(key), self.v(value), mask)[0]
        # END SOLUTION


def concat_heads(heads: list[Tensor]) -> Tensor:
    """`H` times `(N, K, Dh)` -> `(N, K, H * Dh)`."""
    # BEGIN SOLUTION 9.2 join
    return torch.cat(heads, dim=-1)
    # END SOLUTION


class MultiHeadAttention(nn.Module):
    """`heads` side by side, then `linear_mult`."""

    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        super().__init__()
        # BEGIN SOLUTION 9.2 make the heads
        self.heads = nn.ModuleList(SelfAttention(dim_in, dim_out, dim_out) for _ in range(num_heads))
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)
        # END SOLUTION

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """`(N, Kq, dim_in)` and twice `(N, K, dim_in)` -> `(N, Kq, dim_in)`."""
        # BEGIN SOLUTION 9.2 read, join, mix
        return self.linear_mult(concat_heads([head(query, key, value, mask) for head in self.heads]))
        # END SOLUTION


class FeedForwardBlock(nn.Module):
    """`linear1`, ReLU, `linear2` at every position."""

    def __init__(self, inp_dim: int, hidden_dim_feedforward: int) -> None:
        super().__init__()
        # BEGIN SOLUTION 9.3 make the layers
        self.linear1 = nn.Linear(inp_dim, hidden_dim_feedforward)
        self.linear2 = nn.Linear(hidden_dim_feedforward, inp_dim)
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, inp_dim)` -> `(N, K, inp_dim)`."""
        # BEGIN SOLUTION 9.3 widen, ReLU, narrow
        return self.linear2(torch.relu(self.linear1(x)))
        # END SOLUTION


class LayerNormalization(nn.Module):
    """`gamma` and `beta` over the features of each position."""

    def __init__(self, emb_dim: int, epsilon: float = 1e-10) -> None:
        super().__init__()
        # BEGIN SOLUTION 9.3 make the parameters
        self.epsilon = epsilon
        self.gamma, self.beta = nn.Parameter(torch.ones(emb_dim)), nn.Parameter(torch.zeros(emb_dim))
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, M)`."""
        # BEGIN SOLUTION 9.3 normalise
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + self.epsilon).sqrt() * self.gamma + self.beta
        # END SOLUTION
