"""Lab 2 with chunk, gather and state dicts."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attention import SelfAttention


def concat_heads(heads: Sequence[Tensor]) -> Tensor:
    joined = heads[0]
    for head in heads[1:]:
        joined = torch.cat((joined, head), dim=-1)
    return joined


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    width, rest = divmod(x.shape[-1], num_heads)
    if rest:
        raise ValueError(f"{rest} features would be left over")
    return torch.stack(torch.split(x, width, dim=-1), dim=-3)


class MultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = nn.ModuleList(SelfAttention(dim_in, dim_out, dim_out) for _ in range(num_heads))
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in, bias=True)
        self.drop = nn.Dropout(dropout)  # nobody asked for it; off unless wanted

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        each = tuple(head.forward(query, key, value, mask) for head in self.heads)
        return self.drop(self.linear_mult(torch.concatenate(each, -1)))


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


@torch.inference_mode()
def permutation_gap(module: nn.Module, x: Tensor, permutation: Tensor) -> float:
    modes = {part: part.training for part in module.modules()}
    module.eval()

    def reorder(tensor: Tensor) -> Tensor:
        index = permutation.view(1, -1, 1).expand(tensor.shape)
        return torch.gather(tensor, 1, index)

    y = module(x)
    gap = torch.max(torch.abs(module(reorder(x)) - reorder(y))) / torch.max(torch.abs(y))
    for part, mode in modes.items():
        part.training = mode
    return gap.item()


class FusedMultiHeadAttention(nn.Module):
    def __init__(self, num_heads: int, dim_in: int, dim_out: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = dim_out**-0.25
        self.q = nn.Linear(dim_in, num_heads * dim_out)
        self.k = nn.Linear(dim_in, num_heads * dim_out)
        self.v = nn.Linear(dim_in, num_heads * dim_out)
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def load_heads(self, mha: MultiHeadAttention) -> None:
        state = {f"linear_mult.{name}": tensor for name, tensor in mha.linear_mult.state_dict().items()}
        for name in ("q.weight", "q.bias", "k.weight", "k.bias", "v.weight", "v.bias"):
            state[name] = torch.cat([head.state_dict()[name] for head in mha.heads])
        self.load_state_dict(state)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q = split_heads(self.q(query) * self.scale, self.num_heads)
        k = split_heads(self.k(key) * self.scale, self.num_heads)
        v = split_heads(self.v(value), self.num_heads)
        scores = q @ k.mT
        if mask is not None:
            hidden = torch.broadcast_to(mask, (query.shape[0], query.shape[1], key.shape[1]))
            scores = scores.masked_fill(torch.stack((hidden,), dim=1), -1e9)
        y = torch.log_softmax(scores, dim=-1).exp() @ v  # (N, H, Kq, Dh)
        return self.linear_mult(torch.movedim(y, 1, 2).reshape(len(query), query.shape[1], -1))


ANSWERS = {"concat-axis": "B", "number-of-heads": "D", "head-roles": "A"}
