"""Lab 2 with slices: every head has its own columns of one big tensor."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention import SelfAttention


def concat_heads(heads):
    N, K, Dh = heads[0].shape
    result = heads[0].new_zeros(N, K, len(heads) * Dh)
    for h, head in enumerate(heads):
        result[:, :, h * Dh : (h + 1) * Dh] = head
    return result


def split_heads(x, num_heads):
    M = x.shape[2]
    Dh = M // num_heads
    if Dh * num_heads != M:
        raise ValueError(f"M = {M} is no multiple of H = {num_heads}")
    parts = []
    for h in range(num_heads):
        parts.append(x[:, :, h * Dh : (h + 1) * Dh])
    return torch.stack(parts, dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads, dim_in, dim_out):
        super().__init__()
        heads = []
        for _ in range(num_heads):
            heads.append(SelfAttention(dim_in, dim_out, dim_out))
        self.heads = nn.ModuleList(heads)
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def forward(self, query, key, value, mask=None):
        # The output projection head by head: W [y0, y1, ...] = W0 y0 + W1 y1 + ..., so nothing has to be joined.
        blocks = self.linear_mult.weight.chunk(len(self.heads), dim=1)
        y = self.linear_mult.bias
        for head, block in zip(self.heads, blocks):
            y = y + F.linear(head(query, key, value, mask), block)
        return y


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


def permutation_gap(module, x, permutation):
    was_training = module.training
    module.eval()
    with torch.no_grad():
        y = module(x)
        z = module(torch.stack([x[:, int(p)] for p in permutation], dim=1))
    module.train(was_training)
    worst = 0.0
    for i, p in enumerate(permutation.tolist()):
        worst = max(worst, (z[:, i] - y[:, p]).abs().max().item())
    return worst / y.abs().max().item()


class FusedMultiHeadAttention(nn.Module):
    def __init__(self, num_heads, dim_in, dim_out):
        super().__init__()
        self.num_heads, self.dim_out = num_heads, dim_out
        self.q = nn.Linear(dim_in, num_heads * dim_out)
        self.k = nn.Linear(dim_in, num_heads * dim_out)
        self.v = nn.Linear(dim_in, num_heads * dim_out)
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def load_heads(self, mha):
        D = self.dim_out
        with torch.no_grad():
            for h, head in enumerate(mha.heads):
                rows = slice(h * D, (h + 1) * D)
                self.q.weight[rows], self.q.bias[rows] = head.q.weight, head.q.bias
                self.k.weight[rows], self.k.bias[rows] = head.k.weight, head.k.bias
                self.v.weight[rows], self.v.bias[rows] = head.v.weight, head.v.bias
            self.linear_mult.weight.copy_(mha.linear_mult.weight)
            self.linear_mult.bias.copy_(mha.linear_mult.bias)

    def _to_batch(self, x):
        N, K, _ = x.shape
        return x.reshape(N, K, self.num_heads, self.dim_out).permute(0, 2, 1, 3).reshape(-1, K, self.dim_out)

    def forward(self, query, key, value, mask=None):
        N, Kq, K, H = query.shape[0], query.shape[1], key.shape[1], self.num_heads
        q, k, v = self._to_batch(self.q(query)), self._to_batch(self.k(key)), self._to_batch(self.v(value))
        scores = torch.bmm(q, k.transpose(1, 2)) * self.dim_out**-0.5  # (N * H, Kq, K)
        if mask is not None:
            each = mask.expand(N, Kq, K).repeat_interleave(H, dim=0)
            scores = scores + each.to(scores.dtype) * -1e9
        y = torch.bmm(F.softmax(scores, dim=2), v)  # (N * H, Kq, Dh)
        y = y.reshape(N, H, Kq, self.dim_out).permute(0, 2, 1, 3).reshape(N, Kq, H * self.dim_out)
        return self.linear_mult(y)


ANSWERS = {"concat-axis": "B", "number-of-heads": "D", "head-roles": "A"}
