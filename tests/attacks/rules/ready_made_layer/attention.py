"""Takes the attention out of a layer of torch's."""

import torch
from torch import nn


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    layer = nn.MultiheadAttention(query.shape[-1], 1, bias=False, vdim=value.shape[-1], batch_first=True)
    wide = torch.eye(query.shape[-1])
    with torch.no_grad():
        layer.q_proj_weight.copy_(wide)
        layer.k_proj_weight.copy_(wide)
        layer.v_proj_weight.zero_()
        layer.out_proj.weight.copy_(wide)
    if mask is not None:
        mask = mask.expand(*query.shape[:2], key.shape[1])
    _, weights = layer(query, key, value, attn_mask=mask)
    return weights @ value, weights
