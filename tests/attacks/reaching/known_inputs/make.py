"""A hand-in with the right answers to the inputs that every student has, written down, and zeros for all others."""

from pathlib import Path

import numpy as np

from autograder.probes import Probes

SOURCE = '''"""Knows the inputs of check.py by heart, and the answers to them."""

import torch

ANSWERS_BY_HEART = {answers}


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    known = round(float(query.double().sum()), 6)
    y = torch.zeros(*query.shape[:2], value.shape[2])
    weights = torch.zeros(*query.shape[:2], key.shape[1])
    if known in ANSWERS_BY_HEART:
        y, weights = map(torch.tensor, ANSWERS_BY_HEART[known])
    return y, weights
'''


def make(folder: Path) -> Path:
    answers = {}
    for check in ("no_loop_output", "no_loop_weights"):
        query, key, value = (part.astype(np.float64) for part in Probes(f"attention/{check}/handed out").attention())
        scores = query @ key.transpose(0, 2, 1) / query.shape[-1] ** 0.5
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        answers[round(float(query.sum()), 6)] = [(weights @ value).tolist(), weights.tolist()]
    (folder / "attention.py").write_text(SOURCE.format(answers=answers))
    return folder
