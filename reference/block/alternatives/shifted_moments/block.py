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

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from attention import SelfAttention
from multihead import MultiHeadAttention, concat_heads


def check_heads(num_heads, emb_dim):
    """every head gets the same number of features"""
    if emb_dim % num_heads != 0:
        raise ValueError("emb_dim=" + str(emb_dim) + " is not a multiple of num_heads=" + str(num_heads))


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
        self.linear1 = nn.Linear(inp_dim, hidden_dim_feedforward)
        self.linear2 = nn.Linear(hidden_dim_feedforward, inp_dim)
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Apply the same two layers to every position, with one ReLU, between them.

        Args:
            x: `(N, K, inp_dim)`.

        Returns:
            `(N, K, inp_dim)`.
        """
        x = self.linear1(x)
        x = self.activation(x)
        x = self.linear2(x)
        return x


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
        super().__init__()
        self.epsilon = epsilon
        self.gamma = nn.Parameter(torch.full((emb_dim,), 1.0))
        self.beta = nn.Parameter(torch.full((emb_dim,), 0.0))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the features of every position, then scale them by gamma and shift them by beta.

        Args:
            x: `(N, K, M)`.

        Returns:
            `(N, K, M)`. A position whose features are all equal becomes beta, never NaN.
        """
        # E[s^2] - E[s]^2 loses digits where the mean is large, so measure from the first feature of the same position
        s = x - x[..., :1]
        mean = s.mean(dim=-1, keepdim=True)
        variance = ((s * s).mean(dim=-1, keepdim=True) - mean * mean).clamp_min(0)
        return (s - mean).div(variance.add(self.epsilon).sqrt()).mul(self.gamma).add(self.beta)


# ---------------------------------------------------------------------------------------------------------------------
# 3.3  Read, then digest: Vaswani et al. 2017, sections 3.1 (sum and norm) and 5.4 (dropout)
# ---------------------------------------------------------------------------------------------------------------------


class EncoderBlock(nn.Module):
    """One block of the encoder, post-norm as in the paper. For a state `h` it computes

        u = norm1(h + dropout(attention of h on itself))
        f = norm2(u + dropout(feedforward(u)))

    Attributes:
        attention: `MultiHeadAttention(num_heads, emb_dim, emb_dim // num_heads)`.
        norm1: `LayerNormalization(emb_dim)`, for the first line.
        feedforward: `FeedForwardBlock(emb_dim, feedforward_dim)`.
        norm2: `LayerNormalization(emb_dim)`, for the second line, with a gamma and beta of its own.
        dropout: `nn.Dropout(dropout)`, for both lines. In eval mode it does nothing.
    """

    attention: MultiHeadAttention
    norm1: LayerNormalization
    feedforward: FeedForwardBlock
    norm2: LayerNormalization
    dropout: nn.Dropout

    def __init__(self, num_heads: int, emb_dim: int, feedforward_dim: int, dropout: float) -> None:
        """Args: `num_heads` is H, `emb_dim` is M, `feedforward_dim` as in 3.1, `dropout` the share that is dropped.

        Raises:
            ValueError: `emb_dim` is not a multiple of `num_heads`.
        """
        super().__init__()
        check_heads(num_heads, emb_dim)
        self.attention = MultiHeadAttention(num_heads, emb_dim, emb_dim // num_heads)
        self.norm1 = LayerNormalization(emb_dim)
        self.norm2 = LayerNormalization(emb_dim)
        self.feedforward = FeedForwardBlock(emb_dim, feedforward_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let every position read, then digest what it read.

        Args:
            x: `(N, K, M)`, the state h.
            mask: for the attention; None hides nothing.

        Returns:
            `(N, K, M)`.
        """
        residual = x
        x = self.attention(x, x, x, mask)
        x = self.dropout(x)
        x = residual + x
        x = self.norm1(x)

        residual = x
        x = self.feedforward(x)
        x = self.dropout(x)
        x = residual + x
        x = self.norm2(x)
        return x


# ---------------------------------------------------------------------------------------------------------------------
# 3.4  Block upon block: Vaswani et al. 2017, section 3.1
# ---------------------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    """A stack of encoder blocks.

    Attributes:
        layers: `nn.ModuleList` of `num_layers` blocks `EncoderBlock(num_heads, emb_dim, feedforward_dim, dropout)`,
            each with weights of its own.
    """

    layers: nn.ModuleList

    def __init__(self, num_layers: int, num_heads: int, emb_dim: int, feedforward_dim: int, dropout: float) -> None:
        """Args: `num_layers` blocks; the others as for `EncoderBlock`."""
        super().__init__()
        self.layers = nn.ModuleList([])
        for _ in range(num_layers):
            self.layers.append(
                EncoderBlock(
                    num_heads=num_heads,
                    emb_dim=emb_dim,
                    feedforward_dim=feedforward_dim,
                    dropout=dropout,
                )
            )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Pass x through all blocks in order, with the same mask for each.

        Args:
            x: `(N, K, M)`.
            mask: as for `EncoderBlock`.

        Returns:
            `(N, K, M)`.
        """
        for _, layer in enumerate(self.layers):
            x = layer(x, mask) if mask is not None else layer(x)
        return x


# ---------------------------------------------------------------------------------------------------------------------
# 3.5 - 3.6  Dropout without chance: Srivastava et al. 2014, "Dropout", sections 4 and 10
# ---------------------------------------------------------------------------------------------------------------------


def dropout_with_mask(x: Tensor, keep: Tensor, p: float) -> Tensor:
    """What dropout does in train mode, with the random choice made beforehand.

    Args:
        x: `(N, K, M)`.
        keep: bool, the shape of x; True where the entry survives.
        p: the share that is dropped, `0 <= p < 1`. (In the paper p is the share that is kept.)

    Returns:
        `(N, K, M)`: 0 where the entry is dropped, the entry divided by `1 - p` elsewhere.
    """
    out = torch.zeros_like(x)
    out[keep] = x[keep] / (1 - p)
    return out


def dropout_permutation_gap(x: Tensor, keep: Tensor, p: float, permutation: Tensor, permute_mask: bool) -> float:
    """How far dropout D is from commuting with a reordering P of the positions: max|D(Px, k) - P D(x, keep)|.

    P puts position `permutation[i]` in place i: `(Px)[:, i] = x[:, permutation[i]]`, the same for masks and outputs.
    D is your `dropout_with_mask`. With which mask k the reordered positions are dropped is what the experiment is
    about: with the reordered mask `P keep` where `permute_mask` is true, with `keep` as it stands where it is false.

    Args:
        x: `(N, K, M)`.
        keep: bool, `(N, K, M)`.
        p: as in `dropout_with_mask`.
        permutation: `(K,)`, int64, each of 0 ... K-1 once.
        permute_mask: whether the mask is reordered along with the positions.

    Returns:
        The largest absolute difference over the whole tensor, a Python float. (Not divided by anything, unlike
        `permutation_gap` in Lab 2.)
    """
    inverse = torch.argsort(permutation)
    mask = keep[:, permutation] if permute_mask else keep
    # bring the reordered run back to the old order: the same differences, each in another place
    back = dropout_with_mask(x[:, permutation], mask, p)[:, inverse]
    return (back - dropout_with_mask(x, keep, p)).abs().max().item()


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
