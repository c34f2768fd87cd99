"""Lab 1: from a weighted read to softmax(QK^T / sqrt(D)) V.

The letters of the handout, used in every docstring below:

    N       sequences in a batch
    K       positions of a sequence; Kq where the readers are another sequence than the sources
    M       features of a position;  D  features of a query or key;  Dv  features of a value

Weights have one row per reader and one column per source: `weights[n, i, j]` is how much reader i takes from source j,
so every row sums to 1. A mask is a bool tensor of the scores' shape, or one that broadcasts to it; True means
"this reader must not read this source".

Everywhere: outputs have the dtype and device of the inputs, inputs are never changed, and gradients flow from the
output back to every input.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

# ---------------------------------------------------------------------------------------------------------------------
# 1.1  A weighted read
# ---------------------------------------------------------------------------------------------------------------------


def weighted_read(weights: Tensor, values: Tensor) -> Tensor:
    """Mix the values of all sources, each in the amount that its weight says, into what one reader gets.

    Args:
        weights: `(K,)`, one number per source.
        values: `(K, Dv)`, one row per source.

    Returns:
        `(Dv,)`. For weights `[.05, .80, .15]` and values `[1, 0]`, `[0, 2]`, `[1, 1]` it is `[.20, 1.75]`.
    """
    return (weights[:, None] * values).sum(0)


# ---------------------------------------------------------------------------------------------------------------------
# 1.2 - 1.4  Scaled dot-product attention: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation 1
# ---------------------------------------------------------------------------------------------------------------------


def scaled_dot_product_two_loop_single(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention within one sequence, with two `for` loops over positions and one dot product at a time.

    The score of reader i for source j is the dot product of `query[i]` and `key[j]`, times `1 / sqrt(M)`. Softmax over
    all sources turns the scores of one reader into its weights; with them it reads the values.

    Rules:
        Two loops over positions, no more, and no call that multiplies all queries with all keys.
        Results may be collected in a list or written into a new tensor, as long as gradients still flow.

    Args:
        query: `(K, M)`, one row per reader.
        key: `(K, M)`, one row per source.
        value: `(K, Dv)`, one row per source; `Dv` may differ from `M`.

    Returns:
        `(K, Dv)`, one row per reader.
    """
    K, M = query.shape
    out = []
    for i in range(K):
        scores = []
        for j in range(K):
            scores.append((query[i] * key[j]).sum() / math.sqrt(M))
        w = torch.softmax(torch.stack(scores), dim=0)
        out.append((w[:, None] * value).sum(0))
    return torch.stack(out)


def scaled_dot_product_two_loop_batch(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same attention for a batch: sequence n reads within sequence n and nowhere else.

    Rules:
        Two loops again, so one of the three axes (sequence, reader, source) is left to a tensor operation.
        Which two are looped over is up to you; sequence and reader is the usual choice.

    Args:
        query: `(N, K, M)`.
        key: `(N, K, M)`.
        value: `(N, K, Dv)`.

    Returns:
        `(N, K, Dv)`.
    """
    N, K, M = query.shape
    out = []
    for n in range(N):
        rows = []
        for i in range(K):
            s = (query[n, i] * key[n]).sum(-1) / math.sqrt(M)
            w = torch.softmax(s, dim=0)
            rows.append((w[:, None] * value[n]).sum(0))
        out.append(torch.stack(rows))
    return torch.stack(out)


def scaled_dot_product_no_loop_batch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same attention without any loop, for readers that may be another sequence than the sources, with a mask.

    Masked scores become `-1e9` before softmax. A reader whose sources are all masked still gets finite weights
    that sum to 1.

    Rules:
        No Python loop of any kind: no comprehension, `map`, recursion or `vmap` either.
        Not allowed, because they are what is being built: `torch.nn.functional.scaled_dot_product_attention`,
        `torch.nn.MultiheadAttention`, and torch's functions behind them. A ready-made softmax is welcome.

    Args:
        query: `(N, Kq, M)`, one row per reader.
        key: `(N, K, M)`, one row per source.
        value: `(N, K, Dv)`, one row per source.
        mask: bool, `(N, Kq, K)` or of a shape that broadcasts to it, such as `(1, 1, K)`; None hides nothing.

    Returns:
        `y`: `(N, Kq, Dv)`, what each reader gets.
        `weights_softmax`: `(N, Kq, K)`, the weights after softmax with which it was read.
    """
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = torch.masked_fill(scores, mask, -1e9)
    weights_softmax = torch.softmax(scores, dim=-1)
    y = torch.bmm(weights_softmax, value)
    return y, weights_softmax


# ---------------------------------------------------------------------------------------------------------------------
# 1.5  A layer with weights of its own
# ---------------------------------------------------------------------------------------------------------------------


class SelfAttention(nn.Module):
    """One attention head: learned projections in front of scaled dot-product attention.

    Attributes:
        q: `nn.Linear`, `dim_in -> dim_q`, makes queries. With bias, like the other two.
        k: `nn.Linear`, `dim_in -> dim_q`, makes keys.
        v: `nn.Linear`, `dim_in -> dim_v`, makes values.
        weights_softmax: the weights `(N, Kq, K)` of the last forward call, None before the first one.

    The weight matrix of each projection is drawn uniformly from `-r ... r` with `r = sqrt(6 / (D_in + D_out))`, where
    `D_in` and `D_out` are the sizes of that projection (Glorot & Bengio 2010, equation 16). How the biases start is
    up to you.
    """

    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    weights_softmax: Tensor | None

    def __init__(self, dim_in: int, dim_q: int, dim_v: int) -> None:
        """Args: `dim_in` features of a position, `dim_q` of a query and of a key, `dim_v` of a value."""
        super().__init__()
        self.weights_softmax = None
        self.q = nn.Linear(dim_in, dim_q)
        self.k = nn.Linear(dim_in, dim_q)
        self.v = nn.Linear(dim_in, dim_v)
        for layer in [self.q, self.k]:
            bound = math.sqrt(6 / (dim_in + dim_q))
            nn.init.uniform_(layer.weight, -bound, bound)
        bound = math.sqrt(6 / (dim_in + dim_v))
        nn.init.uniform_(self.v.weight, -bound, bound)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Project query, key and value, let every reader read, and keep the weights in `self.weights_softmax`.

        Args:
            query: `(N, Kq, dim_in)`.
            key: `(N, K, dim_in)`.
            value: `(N, K, dim_in)`.
            mask: as in `scaled_dot_product_no_loop_batch`, which you may call.

        Returns:
            `(N, Kq, dim_v)`.
        """
        q = self.q(query)
        k = self.k(key)
        v = self.v(value)
        y, self.weights_softmax = scaled_dot_product_no_loop_batch(q, k, v, mask)
        return y


# ---------------------------------------------------------------------------------------------------------------------
# 1.6  Who reads whom?
# ---------------------------------------------------------------------------------------------------------------------

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
    """Which output positions of a function depend on which input positions, found out by gradients.

    Output position i depends on input position j where any feature of the output at i has, at this x, a gradient
    that is not 0 with respect to any feature of the input at j. The edge exists however small that gradient is.

    Loops are fine here. x is left as it was, its `requires_grad` included.

    Args:
        function: takes `(1, K, M)` and returns `(1, K, anything)`; differentiable. One of the above, or your own.
        x: `(1, K, M)`, floating point.

    Returns:
        `(K, K)`, bool; row i is the output position (who reads), column j the input position (who is read).
    """
    x = x.detach().clone().requires_grad_(True)
    y = function(x)
    K = x.shape[1]
    result = torch.zeros(K, K, dtype=torch.bool)
    for i in range(K):
        for f in range(y.shape[2]):
            (grad,) = torch.autograd.grad(y[0, i, f], x, retain_graph=True)
            result[i] |= (grad[0] != 0).any(dim=-1)
    return result


# ---------------------------------------------------------------------------------------------------------------------
# 1.7  The questions of the handout
# ---------------------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, str | None] = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
