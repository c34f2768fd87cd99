"""Lab 3: one block of the Transformer's encoder, and what reordering does to each of its parts.

Needs your `attention.py` of Lab 1 and your `multihead.py` of Lab 2 in the same folder. The letters of the handout:

    N       sequences in a batch
    K       positions of a sequence
    M       features of a position, called `emb_dim` here
    H       heads, called `num_heads` here

A mask is a bool tensor `(N, K, K)`, or one that broadcasts to it; True means "this reader must not read this source".
Everywhere: outputs have the dtype and device of the inputs, inputs are never changed, and gradients flow from the
output back to every input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from attention import SelfAttention
from multihead import MultiHeadAttention, concat_heads

# ---------------------------------------------------------------------------------------------------------------------
# 3.1  Digest what was read: Vaswani et al. 2017, "Attention Is All You Need", section 3.3, equation 2
# ---------------------------------------------------------------------------------------------------------------------


class FeedForwardBlock(nn.Module):
    """The position-wise feed-forward network: `ReLU(h W1 + b1) W2 + b2` for the features `h` of a position.

    Attributes:
        linear1: `nn.Linear`, `inp_dim -> hidden_dim_feedforward`, with bias.
        linear2: `nn.Linear`, `hidden_dim_feedforward -> inp_dim`, with bias.
    """

    linear1: nn.Linear
    linear2: nn.Linear

    def __init__(self, inp_dim: int, hidden_dim_feedforward: int) -> None:
        """Args: `inp_dim` features of a position, `hidden_dim_feedforward` features between the two layers."""
        super().__init__()
        self.linear1 = nn.Linear(in_features=inp_dim, out_features=hidden_dim_feedforward)
        self.linear2 = nn.Linear(in_features=hidden_dim_feedforward, out_features=inp_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the same two layers to every position, with one ReLU, between them.

        Args:
            x: `(N, K, inp_dim)`.

        Returns:
            `(N, K, inp_dim)`.
        """
        rows = x.reshape(-1, x.shape[-1])  # every position of every sequence is one row
        h = torch.addmm(self.linear1.bias, rows, self.linear1.weight.t())
        h = h * (h > 0)
        return torch.addmm(self.linear2.bias, h, self.linear2.weight.t()).view(x.shape)


# ---------------------------------------------------------------------------------------------------------------------
# 3.2  Keep the features in range: Ba, Kiros, Hinton 2016, "Layer Normalization", equations 3 and 4
# ---------------------------------------------------------------------------------------------------------------------


class LayerNormalization(nn.Module):
    """Layer normalisation, written out: `(x - mean) / sqrt(variance + epsilon) * gamma + beta`.

    Mean and variance belong to one position of one sequence and are taken over its M features. The variance is the
    biased one: divide by M, not by M - 1.

    Rules:
        Not allowed, because they are what is being built: `nn.LayerNorm`, `F.layer_norm`, `torch.std`, and every other
        ready-made normalisation or standard deviation. `mean`, `var`, `sqrt` and `rsqrt` are welcome.

    Attributes:
        gamma: `nn.Parameter` `(emb_dim,)`, 1 at the start; shared by all positions.
        beta: `nn.Parameter` `(emb_dim,)`, 0 at the start; shared by all positions.
    """

    gamma: nn.Parameter
    beta: nn.Parameter

    def __init__(self, emb_dim: int, epsilon: float = 1e-10) -> None:
        """Args: `emb_dim` features of a position (M); `epsilon` is added to the variance."""
        super().__init__()
        self.epsilon = epsilon
        one, zero = torch.ones(emb_dim), torch.zeros(emb_dim)
        self.gamma, self.beta = nn.Parameter(one), nn.Parameter(zero)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the features of every position, then scale them by gamma and shift them by beta.

        Args:
            x: `(N, K, M)`.

        Returns:
            `(N, K, M)`. A position whose features are all equal becomes beta, never NaN.
        """
        N, K, M = x.shape
        rows = x.reshape(N * K, M)
        mean = rows.sum(1, keepdim=True) / M
        centered = rows - mean
        std = ((centered * centered).sum(1, keepdim=True) / M + self.epsilon) ** 0.5
        out = centered / std
        return (out * self.gamma[None] + self.beta[None]).reshape(N, K, M)


# ---------------------------------------------------------------------------------------------------------------------
# 3.3  Read, then digest: Vaswani et al. 2017, sections 3.1 (sum and norm) and 5.4 (dropout)
# ---------------------------------------------------------------------------------------------------------------------


class EncoderBlock(nn.Module):
    attention: MultiHeadAttention
    norm1: LayerNormalization
    feedforward: FeedForwardBlock
    norm2: LayerNormalization
    dropout: nn.Dropout

    def __init__(self, num_heads: int, emb_dim: int, feedforward_dim: int, dropout: float) -> None:
        super().__init__()
        if emb_dim % num_heads:
            raise ValueError("emb_dim % num_heads != 0")
        parts = {
            "attention": MultiHeadAttention(num_heads, emb_dim, emb_dim // num_heads),
            "norm1": LayerNormalization(emb_dim),
            "feedforward": FeedForwardBlock(emb_dim, feedforward_dim),
            "norm2": LayerNormalization(emb_dim),
            "dropout": nn.Dropout(dropout),
        }
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        U = self.norm1(torch.add(x, self.dropout(self.attention(x, x, x, mask))))
        return self.norm2(torch.add(U, self.dropout(self.feedforward(U))))


# ---------------------------------------------------------------------------------------------------------------------
# 3.4  Block upon block: Vaswani et al. 2017, section 3.1
# ---------------------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    layers: nn.ModuleList

    def __init__(self, num_layers: int, num_heads: int, emb_dim: int, feedforward_dim: int, dropout: float) -> None:
        super().__init__()
        make = partial(EncoderBlock, num_heads, emb_dim, feedforward_dim, dropout)
        self.layers = nn.ModuleList(make() for _ in range(num_layers))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.run(x, mask, 0)

    def run(self, x, mask, start):
        if start == len(self.layers):
            return x
        return self.run(self.layers[start](x, mask), mask, start + 1)


# ---------------------------------------------------------------------------------------------------------------------
# 3.5 - 3.6  Dropout without chance: Srivastava et al. 2014, "Dropout", sections 4 and 10
# ---------------------------------------------------------------------------------------------------------------------


def dropout_with_mask(x: Tensor, keep: Tensor, p: float) -> Tensor:
    return (x * keep) * (1 / (1 - p))


def dropout_permutation_gap(x: Tensor, keep: Tensor, p: float, permutation: Tensor, permute_mask: bool) -> float:
    P = torch.eye(len(permutation), dtype=x.dtype, device=x.device)[permutation]  # (K, K), P @ x reorders the rows
    k = (P @ keep.to(x.dtype)).bool() if permute_mask else keep
    return float((dropout_with_mask(P @ x, k, p) - P @ dropout_with_mask(x, keep, p)).abs().max())


# ---------------------------------------------------------------------------------------------------------------------
# 3.7  Which operations commute with reordering?
# ---------------------------------------------------------------------------------------------------------------------

# The operations are given; nothing is to be done before EQUIVARIANT. Each takes x (N, K, 6), returns (N, K, anything),
# and makes its modules of your own classes when it is called, so that an unfinished class stops no other operation.


def fixed(x: Tensor, make: Callable[..., nn.Module], *sizes: float, seed: int = 0) -> nn.Module:
    """The module `make(*sizes)` in eval mode and in the dtype of x; the same seed gives the same weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(*sizes).to(x).eval()


def attention_head(x: Tensor, seed: int = 0) -> Tensor:
    """One head in which x reads itself; another seed is a head with other weights."""
    y: Tensor = fixed(x, SelfAttention, 6, 4, 5, seed=seed)(x, x, x)
    return y  # (N, K, 5)


def multi_head_attention(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Three heads of two features in which x reads itself, and their output projection."""
    y: Tensor = fixed(x, MultiHeadAttention, 3, 6, 2)(x, x, x, mask)
    return y  # (N, K, 6)


def later_positions(x: Tensor) -> Tensor:
    """The causal mask, bool `(N, K, K)`: no position reads what comes after it."""
    return x.new_ones(x.shape[0], x.shape[1], x.shape[1]).triu(1).bool()


def row_numbers(x: Tensor) -> Tensor:
    """1, 2, ... K as a column."""
    return torch.arange(1, x.shape[1] + 1).to(x)[:, None]  # (K, 1)


OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "attention head": attention_head,
    "joined heads": lambda x: concat_heads([attention_head(x, seed) for seed in range(3)]),
    "multi-head attention": multi_head_attention,
    "causal attention": lambda x: multi_head_attention(x, later_positions(x)),
    "feed-forward": lambda x: fixed(x, FeedForwardBlock, 6, 11)(x),
    "residual sum": lambda x: x + multi_head_attention(x),
    "layer norm": lambda x: fixed(x, LayerNormalization, 6)(x),
    "dropout in eval mode": lambda x: fixed(x, nn.Dropout, 0.5)(x),
    "encoder block": lambda x: fixed(x, EncoderBlock, 3, 6, 11, 0.5)(x),
    "encoder stack": lambda x: fixed(x, Encoder, 2, 3, 6, 11, 0.5)(x),
    "scale of its own per row": lambda x: x * row_numbers(x),
    "position codes added": lambda x: x + torch.sin(row_numbers(x)),
    "each feature normalised over the positions": lambda x: normalize(x - x.mean(1, keepdim=True), dim=1),
    "mean over the positions, copied to each": lambda x: x.mean(1, keepdim=True).expand_as(x),
    "each feature sorted over the positions": lambda x: x.sort(1).values,
    "running sum over the positions": lambda x: x.cumsum(1),
    "sequence reversed": lambda x: x.flip(1),
}


class Operation(nn.Module):
    """One of OPERATIONS as a module, to be measured with Lab 2: `permutation_gap(Operation(name), x, permutation)`."""

    def __init__(self, name: str) -> None:
        """Args: `name`, a key of OPERATIONS."""
        super().__init__()
        self.function = OPERATIONS[name]

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, 6)` -> `(N, K, features that the operation returns)`."""
        with torch.no_grad():
            return self.function(x)


EQUIVARIANT: dict[str, bool | None] = {
    "attention head": True,
    "joined heads": True,
    "multi-head attention": True,
    "causal attention": False,
    "feed-forward": True,
    "residual sum": True,
    "layer norm": True,
    "dropout in eval mode": True,
    "encoder block": True,
    "encoder stack": True,
    "scale of its own per row": False,
    "position codes added": False,
    "each feature normalised over the positions": True,
    "mean over the positions, copied to each": True,
    "each feature sorted over the positions": False,
    "running sum over the positions": False,
    "sequence reversed": False,
}

# ---------------------------------------------------------------------------------------------------------------------
# 3.8  The questions of the handout
# ---------------------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, str | None] = {
    "position-wise": "C",
    "layernorm-axis": "B",
    "dropout-identity": "E",
}
