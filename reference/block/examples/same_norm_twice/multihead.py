"""Lab 2: several heads read at once.

Needs your `attention.py` of Lab 1 in the same folder. The letters of the handout:

    N       sequences in a batch
    K       positions of a sequence; Kq where the readers are another sequence than the sources
    M       features of a position
    H       heads;  Dh  features per head

A mask is a bool tensor `(N, Kq, K)`, or one that broadcasts to it; True means "this reader must not read this source".
Everywhere: outputs have the dtype and device of the inputs, inputs are never changed, and gradients flow from the
output back to every input.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attention import SelfAttention

# ---------------------------------------------------------------------------------------------------------------------
# 2.1 - 2.2  Joining heads and taking them apart
# ---------------------------------------------------------------------------------------------------------------------


def concat_heads(heads: list[Tensor]) -> Tensor:
    """Join what the heads found at each position into one longer feature vector.

    Args:
        heads: `H` tensors `(N, K, Dh)`, head 0 first.

    Returns:
        `(N, K, H * Dh)`: at every position the features of head 0, then those of head 1, and so on.
    """
    return torch.cat(heads, dim=2)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Undo `concat_heads`: give each head its own features of every position.

    Args:
        x: `(N, K, H * Dh)`; need not be contiguous.
        num_heads: `H`.

    Returns:
        `(N, H, K, Dh)`, so that `split_heads(concat_heads(heads), len(heads))[:, h]` is `heads[h]` again.

    Raises:
        ValueError: the number of features is not a multiple of `num_heads`.
    """
    N, K, M = x.shape
    if M % num_heads != 0:
        raise ValueError("number of features must be divisible by the number of heads")
    return x.reshape(N, K, num_heads, M // num_heads).permute(0, 2, 1, 3)


# ---------------------------------------------------------------------------------------------------------------------
# 2.3  Multi-head attention: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2
# ---------------------------------------------------------------------------------------------------------------------


class MultiHeadAttention(nn.Module):
    """`H` heads read the same sequence side by side; one linear layer mixes what they found.

    Attributes:
        heads: `nn.ModuleList` of `num_heads` layers `SelfAttention(dim_in, dim_out, dim_out)`.
        linear_mult: `nn.Linear`, `num_heads * dim_out -> dim_in`, with bias: the output projection.
    """

    heads: nn.ModuleList
    linear_mult: nn.Linear

    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        """Args: `num_heads` is H, `dim_in` the features of a position, `dim_out` the features per head (Dh)."""
        super().__init__()
        self.heads = nn.ModuleList([SelfAttention(dim_in, dim_out, dim_out) for _ in range(num_heads)])
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let every head read, join the heads in order, project.

        Args:
            query: `(N, Kq, dim_in)`.
            key: `(N, K, dim_in)`.
            value: `(N, K, dim_in)`.
            mask: bool, `(N, Kq, K)` or broadcasting to it; the same for every head.

        Returns:
            `(N, Kq, dim_in)`.
        """
        outputs = []
        for head in self.heads:
            outputs.append(head(query, key, value, mask))
        return self.linear_mult(concat_heads(outputs))


# ---------------------------------------------------------------------------------------------------------------------
# 2.4  Does a module commute with reordering the positions?
# ---------------------------------------------------------------------------------------------------------------------

# Three modules to try `permutation_gap` on, and a wrapper that makes a fourth of an attention layer. They are given:
# nothing to do.


class ReadsItself(nn.Module):
    """Turns an attention layer into a module of one argument, as in Lab 1: x is query, key and value."""

    def __init__(self, attention: SelfAttention | MultiHeadAttention) -> None:
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
    """How far a module F is from commuting with a reordering P of the positions: max|F(Px) - P F(x)| / max|F(x)|.

    P puts position `permutation[i]` in place i: `(Px)[:, i] = x[:, permutation[i]]`, and the same for outputs. The gap
    of a module that commutes is 0 up to rounding.

    F is `module(x)` in eval mode. Afterwards `module.training` is what it was before, and x is unchanged.

    Args:
        module: takes `(N, K, M)` and returns `(N, K, anything)`, not all 0.
        x: `(N, K, M)`.
        permutation: `(K,)`, int64, each of 0 ... K-1 once.

    Returns:
        The gap, a Python float. Both maxima run over the whole tensor.
    """
    mode = module.training
    module.eval()
    with torch.no_grad():
        y = module(x)
        y_perm = module(x[:, permutation])
    module.train(mode)
    return ((y_perm - y[:, permutation]).abs().max() / y.abs().max()).item()


# ---------------------------------------------------------------------------------------------------------------------
# 2.5  The questions of the handout
# ---------------------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, str | None] = {
    "concat-axis": "B",
    "number-of-heads": "D",
    "head-roles": "A",
}

# ---------------------------------------------------------------------------------------------------------------------
# 2.6  Extra credit: all heads in one multiplication
# ---------------------------------------------------------------------------------------------------------------------


class FusedMultiHeadAttention(nn.Module):
    """The function of `MultiHeadAttention`, without a loop over heads.

    Attributes:
        q: `nn.Linear`, `dim_in -> num_heads * dim_out`: the queries of all heads, head 0 first. With bias.
        k: `nn.Linear`, `dim_in -> num_heads * dim_out`: the keys of all heads.
        v: `nn.Linear`, `dim_in -> num_heads * dim_out`: the values of all heads.
        linear_mult: `nn.Linear`, `num_heads * dim_out -> dim_in`, with bias: the output projection.
    """

    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    linear_mult: nn.Linear

    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        """Args: as for `MultiHeadAttention`."""
        super().__init__()
        self.num_heads = num_heads
        raise NotImplementedError("TODO 2.6: make one projection each for all queries, keys and values")

    def load_heads(self, mha: MultiHeadAttention) -> None:
        """Copy all weights and biases of `mha`, built with the same three sizes; then both compute the same.

        They are copies: training one of the two afterwards leaves the other as it is. A loop over heads is fine here.
        """
        raise NotImplementedError("TODO 2.6: copy the weights and biases of every head")

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """As `MultiHeadAttention.forward`: the same arguments, mask and result.

        Rules:
            No Python loop: no comprehension either. One multiplication gives the scores of all heads.
            Not allowed: what Lab 1 did not allow.
        """
        raise NotImplementedError("TODO 2.6: project, split, attend in every head at once, join, project")
