"""Takes torch's own attention."""

import torch
import torch.nn.functional as F


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    attend = F.scaled_dot_product_attention
    visible = None if mask is None else ~mask
    one_each = torch.eye(key.shape[1], dtype=key.dtype).expand(len(key), -1, -1)
    return attend(query, key, value, visible), attend(query, key, one_each, visible)
