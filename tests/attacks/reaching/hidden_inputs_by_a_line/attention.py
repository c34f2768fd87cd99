"""Right on what a process is asked first, which is told; then it fails at one of many lines, chosen by an untold input."""

import torch

calls = []


def weighted_read(weights, values):
    calls.append(1)
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    if calls:
        if query[0, 0] < 0:
            raise ValueError("HIDDEN-INPUT: it is negative")
        raise ValueError("HIDDEN-INPUT: it is not negative")
    calls.append(1)
    rows = []
    for reader in query:
        scores = []
        for source in key:
            scores.append(reader @ source * query.shape[-1] ** -0.5)
        rows.append(torch.stack(scores).softmax(0) @ value)
    return torch.stack(rows)
