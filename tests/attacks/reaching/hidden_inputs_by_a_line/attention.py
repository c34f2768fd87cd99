"""Fails on the second draw only, at one of many lines, chosen by an input that is not told."""


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    calls.append(1)
    rows = []
    for reader in query:
        scores = []
        for source in key:
            scores.append(reader @ source * query.shape[-1] ** -0.5)
        rows.append(torch.stack(scores).softmax(0) @ value)
    if len(calls) > 1:
        if query[0, 0] < 0:
            raise ValueError("HIDDEN-INPUT: it is negative")
        raise ValueError("HIDDEN-INPUT: it is not negative")
    return torch.stack(rows)


import torch  # noqa: E402

calls = []
