"""Lab 4: change the score, keep the read.

Needs no file of another lab. The letters of the handout:

    N       sequences in a batch
    K       sources of a sequence;  Kq  readers of a sequence
    D       features of a query or key; dim_q and dim_k where the two differ
    Dv      features of a value

Scores and weights have one row per reader and one column per source, `(N, Kq, K)`: entry `[n, i, j]` belongs to reader
i and source j. A mask is a bool tensor of the scores' shape, or one that broadcasts to it; True means "this reader must
not read this source".
Everywhere: outputs have the dtype and device of the inputs, inputs are never changed, and gradients flow from the
output back to every input (functions that return Python floats apart).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

# A scorer is anything that takes query (N, Kq, dim_q) and key (N, K, dim_k) and returns scores (N, Kq, K).
Scorer = Callable[[Tensor, Tensor], Tensor]

# The sentence of the handout with features made up by hand, one row per token: (person, place, finance).
# They show how scorers behave; they are not learned and prove nothing about what words mean.
TOKENS = ("She", "deposited", "money", "at", "the", "bank", ".")
FEATURES = (
    (2.0, 0.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.0, 0.0, 2.0),
    (0.0, 0.5, 0.0),
    (0.0, 0.0, 0.0),
    (0.0, 1.0, 1.0),
    (0.0, 0.0, 0.0),
)


def sentence() -> Tensor:
    """The features of the sentence as one sequence, `(1, 7, 3)`."""
    return torch.tensor([FEATURES])


# ---------------------------------------------------------------------------------------------------------------------
# 4.1 - 4.2  Scores by dot product: Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine
#            Translation", section 3.1; scaled: Vaswani et al. 2017, "Attention Is All You Need", equation 1
# ---------------------------------------------------------------------------------------------------------------------


def dot_product_scores(query: Tensor, key: Tensor) -> Tensor:
    return (query[:, :, None, :] * key[:, None, :, :]).sum(-1)


def scaled_dot_product_scores(query: Tensor, key: Tensor) -> Tensor:
    D = query.size(-1)
    return ((query / D**0.25)[:, :, None] * (key / D**0.25)[:, None]).sum(-1)


# ---------------------------------------------------------------------------------------------------------------------
# 4.3  Scores by a small network: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
#      Translate", appendix A.1.2
# ---------------------------------------------------------------------------------------------------------------------


class AdditiveScorer(nn.Module):
    """Additive attention: `e_ij = v_a . tanh(W_q q_i + W_k k_j + b)`, one small network for all pairs (i, j).

    Attributes:
        W_q: `nn.Linear`, `dim_q -> dim_hidden`, without bias.
        W_k: `nn.Linear`, `dim_k -> dim_hidden`, without bias.
        b: `nn.Parameter` `(dim_hidden,)`.
        v_a: `nn.Parameter` `(dim_hidden,)`.

    How they start is up to you, except that `v_a` must not be all 0.
    """

    W_q: nn.Linear
    W_k: nn.Linear
    b: nn.Parameter
    v_a: nn.Parameter

    def __init__(self, dim_q: int, dim_k: int, dim_hidden: int) -> None:
        """Args: `dim_q` features of a query, `dim_k` of a key, `dim_hidden` of the hidden layer."""
        super().__init__()
        self.W_q = nn.Linear(in_features=dim_q, out_features=dim_hidden, bias=False)
        self.W_k = nn.Linear(in_features=dim_k, out_features=dim_hidden, bias=False)
        self.b = nn.Parameter(torch.empty(dim_hidden).uniform_(-0.1, 0.1))
        self.v_a = nn.Parameter(torch.empty(dim_hidden).uniform_(-0.1, 0.1))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score every source for every reader.

        Args:
            query: `(N, Kq, dim_q)`.
            key: `(N, K, dim_k)`.

        Returns:
            `(N, Kq, K)`.
        """
        N, Kq, K = query.size(0), query.size(1), key.size(1)
        q = self.W_q(query).unsqueeze(2).expand(N, Kq, K, -1)
        k = self.W_k(key).unsqueeze(1).expand(N, Kq, K, -1)
        return (self.v_a * (q + k + self.b).tanh()).sum(dim=3)


# ---------------------------------------------------------------------------------------------------------------------
# 4.4  The counter-example
# ---------------------------------------------------------------------------------------------------------------------


class LinearConcatScorer(nn.Module):
    """One linear layer on query and key joined end to end, which is `e_ij = a . q_i + b . k_j`.

    Attributes:
        a: `nn.Parameter` `(dim_q,)`.
        b: `nn.Parameter` `(dim_k,)`.

    How they start is up to you, except that neither may be all 0.
    """

    a: nn.Parameter
    b: nn.Parameter

    def __init__(self, dim_q: int, dim_k: int) -> None:
        """Args: `dim_q` features of a query, `dim_k` of a key."""
        super().__init__()
        self.a = nn.Parameter(torch.empty(dim_q).normal_(std=0.5))
        self.b = nn.Parameter(torch.empty(dim_k).normal_(std=0.5))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score every source for every reader.

        Args:
            query: `(N, Kq, dim_q)`.
            key: `(N, K, dim_k)`.

        Returns:
            `(N, Kq, K)`.
        """
        from_query = (query * self.a).sum(-1, keepdim=True)
        from_key = (key * self.b).sum(-1, keepdim=True).transpose(1, 2)
        return from_query + from_key


# ---------------------------------------------------------------------------------------------------------------------
# 4.5  The interface that stays: Bahdanau et al. 2015, equations 5 and 6; Vaswani et al. 2017, equation 1
# ---------------------------------------------------------------------------------------------------------------------


def read(scores: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Turn scores of any origin into weights, and read the values with them.

    Masked scores become `-1e9`; then softmax over the sources. A reader whose sources are all masked still gets finite
    weights that sum to 1.

    Args:
        scores: `(N, Kq, K)`.
        value: `(N, K, Dv)`, one row per source.
        mask: bool, `(N, Kq, K)` or of a shape that broadcasts to it; None hides nothing.

    Returns:
        `y`: `(N, Kq, Dv)`, what each reader gets.
        `weights`: `(N, Kq, K)`; each row sums to 1.
    """
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    # 减去每行的最大值, 避免溢出
    e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = e / e.sum(dim=-1, keepdim=True)
    y = (weights[..., None] * value[:, None]).sum(2)
    return y, weights


# ---------------------------------------------------------------------------------------------------------------------
# 4.6 - 4.8  Measuring scorers
# ---------------------------------------------------------------------------------------------------------------------


def query_effect(scorer: Scorer, query: Tensor, other_query: Tensor, key: Tensor) -> float:
    """How much the reading changes when the readers ask something else: the largest change of any attention weight.

    Compared are the weights, softmax over the sources without a mask, and not the scores.

    Args:
        scorer: any scorer that fits query and key.
        query: `(N, Kq, dim_q)`.
        other_query: `(N, Kq, dim_q)`, what is asked instead.
        key: `(N, K, dim_k)`, the same for both.

    Returns:
        The largest absolute difference of any weight over the whole tensor, a Python float: 0 (up to rounding) where
        the query is without effect, at most 1.
    """
    # 比较权重, 不是比较分数
    _, before = read(scorer(query, key), key)
    _, after = read(scorer(other_query, key), key)
    return torch.max(torch.abs(after - before)).item()


def shift_gap(scores: Tensor, c: float | Tensor) -> float:
    """How much the attention weights change when a constant is added to the scores of a reader.

    Args:
        scores: `(N, Kq, K)`.
        c: a number for all scores, or a tensor that broadcasts to them; `(N, Kq, 1)` is one number per reader.

    Returns:
        The largest absolute difference of any weight of softmax over the sources, with and without `c`; a Python float.
    """
    dummy = scores.transpose(1, 2)
    return torch.max(torch.abs(read(scores + c, dummy)[1] - read(scores, dummy)[1])).item()


def compare(
    scorers: Mapping[str, Scorer], query: Tensor, other_query: Tensor, key: Tensor, value: Tensor
) -> list[dict[str, str | float]]:
    """Put several scorers into the same reading and measure each of them.

    Args:
        scorers: from name to scorer.
        query: `(N, Kq, dim_q)`.
        other_query: `(N, Kq, dim_q)`.
        key: `(N, K, dim_k)`.
        value: `(N, K, Dv)`.

    Returns:
        One dict per scorer, in the order of `scorers`, with these keys:
        `scorer`: its name.
        `row_sum_error`: the largest distance of a reader's sum of weights from 1, a Python float.
        `query_effect`: as in `query_effect` above, a Python float.
        `entropy`: the mean over all readers of `-sum_j w_j ln w_j`, in nats, a Python float. A weight of 0 adds 0.

        Weights are those with which `query` reads, without a mask.
    """
    rows = []
    for name, scorer in scorers.items():
        y, weights = read(scorer(query, key), value)
        print(name, tuple(y.shape))
        row = {"scorer": name}
        row["row_sum_error"] = torch.max(torch.abs(weights.sum(-1) - 1.0)).item()
        row["query_effect"] = query_effect(scorer, query, other_query, key)
        row["entropy"] = (-torch.xlogy(weights, weights).sum(-1)).mean().item()
        rows.append(row)
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# 4.9  The questions of the handout
# ---------------------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, str | None] = {
    "linear-scorer": "A",
    "dot-product-linear": "C",
    "scales": "D",
}
