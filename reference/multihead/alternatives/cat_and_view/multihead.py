"""Lab 2 as most people write it: cat, view, transpose, matmul."""

import math

import torch
from torch import Tensor, nn

from attention import SelfAttention


def concat_heads(heads: list[Tensor]) -> Tensor:
    return torch.cat(heads, dim=2)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    N, K, M = x.shape
    if M % num_heads != 0:
        raise ValueError("M must be divisible by num_heads")
    return x.contiguous().view(N, K, num_heads, M // num_heads).transpose(1, 2)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int):
        super().__init__()
        self.num_heads = num_heads
        self.heads = nn.ModuleList([SelfAttention(dim_in, dim_out, dim_out) for _ in range(num_heads)])
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask=None) -> Tensor:
        out = [h(query, key, value, mask) for h in self.heads]
        out = torch.cat(out, dim=-1)
        return self.linear_mult(out)


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
    training = module.training
    module.eval()
    with torch.no_grad():
        fpx = module(x[:, permutation, :])
        fx = module(x)
        pfx = fx[:, permutation, :]
    module.train(training)
    return ((fpx - pfx).abs().max() / fx.abs().max()).item()


class FusedMultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int):
        super().__init__()
        self.num_heads = num_heads
        self.dim_out = dim_out
        self.q = nn.Linear(dim_in, num_heads * dim_out)
        self.k = nn.Linear(dim_in, num_heads * dim_out)
        self.v = nn.Linear(dim_in, num_heads * dim_out)
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def load_heads(self, mha: MultiHeadAttention) -> None:
        self.q.weight.data = torch.cat([h.q.weight.data for h in mha.heads], dim=0).clone()
        self.q.bias.data = torch.cat([h.q.bias.data for h in mha.heads], dim=0).clone()
        self.k.weight.data = torch.cat([h.k.weight.data for h in mha.heads], dim=0).clone()
        self.k.bias.data = torch.cat([h.k.bias.data for h in mha.heads], dim=0).clone()
        self.v.weight.data = torch.cat([h.v.weight.data for h in mha.heads], dim=0).clone()
        self.v.bias.data = torch.cat([h.v.bias.data for h in mha.heads], dim=0).clone()
        self.linear_mult.weight.data = mha.linear_mult.weight.data.clone()
        self.linear_mult.bias.data = mha.linear_mult.bias.data.clone()

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask=None) -> Tensor:
        N, Kq, _ = query.shape
        K = key.shape[1]
        H, D = self.num_heads, self.dim_out
        q = self.q(query).view(N, Kq, H, D).transpose(1, 2)
        k = self.k(key).view(N, K, H, D).transpose(1, 2)
        v = self.v(value).view(N, K, H, D).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(D)
        if mask is not None:
            scores = scores.masked_fill(mask.expand(N, Kq, K).unsqueeze(1), -1e9)
        y = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.linear_mult(y.transpose(1, 2).contiguous().view(N, Kq, H * D))


ANSWERS = {"concat-axis": "B", "number-of-heads": "D", "head-roles": "A"}
