"""A sound source that the tests break, and how they read one."""

from __future__ import annotations

from autograder.source import Source

WHOLE = '''\
"""Attention."""
import math

import torch
import torch.nn.functional as F
from torch.nn.functional import softmax as normalise

ANSWERS = {
    "attention-matrix": "C",
}


def scores_of(query, key):
    """Scores.

    Shapes as in the handout.
    """
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


class SelfAttention(torch.nn.Module):
    """One head."""

    def __init__(self, dim):
        super().__init__()
        self.q = torch.nn.Linear(dim, dim)

    def weights(self, x):
        return normalise(scores_of(self.q(x), x), dim=-1)

    @torch.no_grad()
    def forward(self, x):
        weights = self.weights(x)
        return weights @ x


@torch.no_grad()
def no_loop(query, key, value):
    weights = F.softmax(
        scores_of(query, key), dim=-1
    )
    return weights @ value


def last(x):
    return x
'''


def read(text: str, name: str = "attention.py") -> Source:
    source = Source.read(text.encode(), name)
    assert source.text.count("\n") == text.count("\n")
    compile(source.text, name, "exec")
    return source
