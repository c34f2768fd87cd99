"""Lab 2 on top of Lab 1: the fused layer hands all heads, as one bigger batch, to what is there already."""

import torch
from torch import Tensor, nn

import attention


def _joined(stacked: Tensor) -> Tensor:
    """`(N, H, K, Dh)` -> `(N, K, H * Dh)`."""
    return torch.swapaxes(stacked, 1, 2).flatten(-2)


def concat_heads(heads: list[Tensor]) -> Tensor:
    return _joined(torch.stack(heads, dim=1))


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    if x.shape[-1] != x.shape[-1] // num_heads * num_heads:
        raise ValueError("The number of features has to be a multiple of the number of heads.")
    return torch.stack(x.tensor_split(num_heads, dim=-1), dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        super().__init__()
        one_head = (dim_in, dim_out, dim_out)
        self.heads = nn.ModuleList(attention.SelfAttention(*sizes) for sizes in [one_head] * num_heads)
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        reads = torch.stack([head(query, key, value, mask=mask) for head in self.heads], dim=1)  # (N, H, Kq, Dh)
        return self.linear_mult(_joined(reads))


# Three modules to try `permutation_gap` on, and a wrapper that makes a fourth of an attention layer. They are given:
# nothing to do.


class ReadsItself(nn.Module):
    """Turns an attention layer into a module of one argument, as in Lab 1: x is query, key and value."""

    def __init__(self, attention: nn.Module) -> None:
        """Args: `attention`, for example `MultiHeadAttention(2, 6, 3)`."""
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, features that the layer returns)`."""
        y: Tensor = self.attention(x, x, x)
        return y


class DroppingMLP(nn.Module):
    """A perceptron applied to each position, with dropout: random in train mode, not in eval mode."""

    def __init__(self, width: int) -> None:
        """Args: `width`, the features of a position."""
        super().__init__()
        wide = 2 * width
        self.layers = nn.Sequential(nn.Linear(width, wide), nn.Tanh(), nn.Dropout(0.5), nn.Linear(wide, width))

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, M)`."""
        y: Tensor = self.layers(x)
        return y


class RunningMean(nn.Module):
    """At each position the mean over all positions so far, itself included."""

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, M)`."""
        count = torch.arange(1, x.shape[1] + 1).to(x)  # (K,)
        return x.cumsum(dim=1) / count[:, None]


class AddsPlace(nn.Module):
    """Adds the number of the position (0, 1, 2, ...) to each of its features."""

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, M)` -> `(N, K, M)`."""
        return x + torch.arange(x.shape[1]).to(x)[:, None]


def permutation_gap(module: nn.Module, x: Tensor, permutation: Tensor) -> float:
    was_training = module.training
    with torch.no_grad():
        both = module.eval()(torch.cat([x, x[:, permutation]]))  # one call for both orders
    module.train(was_training)
    y, z = both.chunk(2)
    undone = z[:, torch.argsort(permutation)]  # putting F(Px) back is the same comparison
    return float((undone - y).abs().max() / y.abs().max())


class FusedMultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        for name in ("q", "k", "v"):
            setattr(self, name, nn.Linear(dim_in, num_heads * dim_out))
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def load_heads(self, mha: MultiHeadAttention) -> None:
        for name in ("q", "k", "v"):
            layers = [getattr(head, name) for head in mha.heads]
            mine = getattr(self, name)
            mine.weight = nn.Parameter(torch.vstack([layer.weight.detach() for layer in layers]))
            mine.bias = nn.Parameter(torch.hstack([layer.bias.detach() for layer in layers]))
        self.linear_mult.weight = nn.Parameter(mha.linear_mult.weight.detach().clone())
        self.linear_mult.bias = nn.Parameter(mha.linear_mult.bias.detach().clone())

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        n, h = query.shape[0], self.num_heads
        q, k, v = (split_heads(x, h).flatten(0, 1) for x in (self.q(query), self.k(key), self.v(value)))
        if mask is not None:
            mask = mask.expand(n, query.shape[1], key.shape[1])[:, None].expand(-1, h, -1, -1).flatten(0, 1)
        y, _ = attention.scaled_dot_product_no_loop_batch(q, k, v, mask)  # (N * H, Kq, Dh)
        return self.linear_mult(_joined(y.unflatten(0, (n, h))))


ANSWERS = {"concat-axis": "B", "number-of-heads": "D", "head-roles": "A"}
