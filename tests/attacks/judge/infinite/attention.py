"""Returns infinities, whose differences are NaN and whose relative error is NaN."""

import torch


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    for reader in query:
        for source in key:
            pass
    return torch.full_like(value, float("inf"))


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    endless = torch.full((*query.shape[:2], value.shape[2]), float("inf"))
    return endless, torch.full((*query.shape[:2], key.shape[1]), -float("inf"))
