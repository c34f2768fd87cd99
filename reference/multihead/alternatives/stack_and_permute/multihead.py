"""Lab 2 with stack, permute and einsum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attention import SelfAttention


def concat_heads(heads: list[Tensor]) -> Tensor:
    # (N, K, H, Dh): the heads side by side at every position, then one after the other
    return torch.stack(list(heads), dim=2).flatten(start_dim=2)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    if x.size(-1) % num_heads > 0:
        raise ValueError(f"cannot split {x.size(-1)} features into {num_heads} heads")
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).permute(0, 2, 1, 3)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(SelfAttention(dim_in, dim_out, dim_out))
        self.linear_mult = nn.Linear(in_features=num_heads * dim_out, out_features=dim_in)
        nn.init.xavier_uniform_(self.linear_mult.weight)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        found = []
        for head in self.heads:
            found.append(head(query=query, key=key, value=value, mask=mask))
        return self.linear_mult(concat_heads(found))


# Three modules to try `permutation_gap` on, and a wrapper that makes a fourth of an attention layer. They are given:
# nothing to do.


class ReadsItself(nn.Module):
    """Turns an attention layer into a module of one argument, as in Lab 1: x is query, key and value."""

    def __init__(self, attention: nn.Module) -> None:
        """Args: `attention`, for example `MultiHeadAttention(2, 6, 3)`."""
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, features that the layer returns)`."""
        y: Tensor = self.attention(x, x, x)
        return y


class DroppingMLP(nn.Module):
    """A perceptron applied to each position, with dropout: random in train mode, not in eval mode."""

    def __init__(self, width: int) -> None:
        """Args: `width`, the features of a position."""
        super().__init__()
        wide = 2 * width
        self.layers = nn.Sequential(nn.Linear(width, wide), nn.Tanh(), nn.Dropout(0.5), nn.Linear(wide, width))

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, M)`."""
        y: Tensor = self.layers(x)
        return y


class RunningMean(nn.Module):
    """At each position the mean over all positions so far, itself included."""

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, M)`."""
        count = torch.arange(1, x.shape[1] + 1).to(x)  # (K,)
        return x.cumsum(dim=1) / count[:, None]


class AddsPlace(nn.Module):
    """Adds the number of the position (0, 1, 2, ...) to each of its features."""

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, M)`."""
        return x + torch.arange(x.shape[1]).to(x)[:, None]


def permutation_gap(module: nn.Module, x: Tensor, permutation: Tensor) -> float:
    mode = module.training
    try:
        module.train(False)
        y = module(x).detach()
        z = module(torch.index_select(x, 1, permutation)).detach()
        distance = torch.linalg.vector_norm(z - torch.index_select(y, 1, permutation), ord=float("inf"))
        return float(distance) / float(torch.linalg.vector_norm(y, ord=float("inf")))
    finally:
        module.train(mode)


class FusedMultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q = nn.Linear(dim_in, num_heads * dim_out)
        self.k = nn.Linear(dim_in, num_heads * dim_out)
        self.v = nn.Linear(dim_in, num_heads * dim_out)
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    @torch.no_grad()
    def load_heads(self, mha: MultiHeadAttention) -> None:
        for part in ["q", "k", "v"]:
            weights = torch.stack([getattr(head, part).weight for head in mha.heads])  # (H, Dh, M)
            biases = torch.stack([getattr(head, part).bias for head in mha.heads])  # (H, Dh)
            getattr(self, part).weight.copy_(weights.flatten(0, 1))
            getattr(self, part).bias.copy_(biases.flatten())
        self.linear_mult.weight.copy_(mha.linear_mult.weight)
        self.linear_mult.bias.copy_(mha.linear_mult.bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q = self.q(query).unflatten(-1, (self.num_heads, -1))  # (N, Kq, H, Dh)
        k = self.k(key).unflatten(-1, (self.num_heads, -1))
        v = self.v(value).unflatten(-1, (self.num_heads, -1))
        scores = torch.einsum("nihd,njhd->nijh", q, k) / q.shape[-1] ** 0.5  # heads last: the mask fits as it is
        if mask is not None:
            scores = torch.where(mask.unsqueeze(-1), -1e9, scores)
        weights = scores.softmax(dim=2)
        return self.linear_mult(torch.einsum("nijh,njhd->nihd", weights, v).flatten(2))


ANSWERS = {"concat-axis": "B", "number-of-heads": "D", "head-roles": "A"}
