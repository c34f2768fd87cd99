"""Prints 200 MB."""


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    for _ in range(200):
        print("x" * 1_000_000)
    return value


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
