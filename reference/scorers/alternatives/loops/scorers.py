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

import math
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
    """The dot product of every query with every key of the same sequence.

    Args:
        query: `(N, Kq, D)`.
        key: `(N, K, D)`.

    Returns:
        `(N, Kq, K)`, not scaled.
    """
    rows = []
    for n in range(query.shape[0]):
        rows.append(query[n] @ key[n].T)
    return torch.stack(rows)


def scaled_dot_product_scores(query: Tensor, key: Tensor) -> Tensor:
    """The same scores, divided by the square root of the number of features of a key.

    Args:
        query: `(N, Kq, D)`.
        key: `(N, K, D)`.

    Returns:
        `(N, Kq, K)`.
    """
    rows = [q @ k.T / math.sqrt(k.shape[1]) for q, k in zip(query, key, strict=True)]
    return torch.stack(rows, dim=0)


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
        self.W_q = nn.Linear(dim_q, dim_hidden, False)
        self.W_k = nn.Linear(dim_k, dim_hidden, False)
        self.b = nn.Parameter(torch.zeros(dim_hidden))
        self.v_a = nn.Parameter(torch.Tensor(dim_hidden).uniform_(-1, 1))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score every source for every reader.

        Args:
            query: `(N, Kq, dim_q)`.
            key: `(N, K, dim_k)`.

        Returns:
            `(N, Kq, K)`.
        """
        columns = []
        for j in range(key.shape[1]):
            # one source, all readers
            hidden = torch.tanh(self.W_q(query) + self.W_k(key[:, j : j + 1]) + self.b)
            columns.append(torch.matmul(hidden, self.v_a))
        return torch.stack(columns, dim=-1)


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
        a = torch.arange(1.0, dim_q + 1)
        b = torch.arange(1.0, dim_k + 1)
        self.a = nn.Parameter(a / dim_q)
        self.b = nn.Parameter(b / dim_k)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score every source for every reader.

        Args:
            query: `(N, Kq, dim_q)`.
            key: `(N, K, dim_k)`.

        Returns:
            `(N, Kq, K)`.
        """
        scores = []
        for i in range(query.shape[1]):
            scores.append((query[:, i] @ self.a)[:, None] + key @ self.b)
        return torch.stack(scores, dim=1)


# ---------------------------------------------------------------------------------------------------------------------
# 4.5  The interface that stays: Bahdanau et al. 2015, equations 5 and 6; Vaswani et al. 2017, equation 1
# ---------------------------------------------------------------------------------------------------------------------


def read(scores: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    if mask is not None:
        scores = scores.clone()
        scores[mask.expand(scores.shape)] = -1e9
    ys, ws = [], []
    for s, v in zip(scores, value, strict=True):
        w = s.softmax(1)
        ws.append(w)
        ys.append(w @ v)
    return torch.stack(ys), torch.stack(ws)


# ---------------------------------------------------------------------------------------------------------------------
# 4.6 - 4.8  Measuring scorers
# ---------------------------------------------------------------------------------------------------------------------


def query_effect(scorer: Scorer, query: Tensor, other_query: Tensor, key: Tensor) -> float:
    largest = 0.0
    for n in range(query.shape[0]):
        k = key[n : n + 1]
        w1 = scorer(query[n : n + 1], k).softmax(-1)
        w2 = scorer(other_query[n : n + 1], k).softmax(-1)
        largest = max(largest, (w1 - w2).abs().max().item())
    return largest


def shift_gap(scores: Tensor, c: float | Tensor) -> float:
    difference = scores.softmax(-1) - (scores + c).softmax(-1)
    return max(difference.max().item(), -difference.min().item())


def compare(
    scorers: Mapping[str, Scorer], query: Tensor, other_query: Tensor, key: Tensor, value: Tensor
) -> list[dict[str, str | float]]:
    result = []
    for name, scorer in scorers.items():
        _, weights = read(scorer(query, key), value)
        error, entropies = 0.0, []
        for sequence in weights:
            for row in sequence:
                error = max(error, abs(row.sum().item() - 1))
                entropies.append(sum(-w * math.log(w) for w in row.tolist() if w > 0))
        result.append(
            {
                "scorer": name,
                "row_sum_error": error,
                "query_effect": query_effect(scorer, query, other_query, key),
                "entropy": sum(entropies) / len(entropies),
            }
        )
    return result


# ---------------------------------------------------------------------------------------------------------------------
# 4.9  The questions of the handout
# ---------------------------------------------------------------------------------------------------------------------

ANSWERS: dict[str, str | None] = {
    "linear-scorer": "A",
    "dot-product-linear": "C",
    "scales": "D",
}
