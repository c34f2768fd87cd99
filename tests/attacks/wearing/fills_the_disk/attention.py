"""Writes files wherever it can, as long as it can."""

import os


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    for folder in ("/tmp", "/dev/shm", "/var/tmp", ".", "@RESULTS@", "@COURSE@"):
        for number in range(4):
            try:
                with open(f"{folder}/attack-was-here-{number}", "wb") as file:
                    file.write(bytes(8 << 20))
            except OSError:
                continue
    kept = [os.memfd_create("attack-was-here") for _ in range(4)]
    return kept


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    scores = query @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
