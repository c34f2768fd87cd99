"""Lab 1 with sources down and readers across, turned round at the end, and a softmax that never sees a whole row.

The streaming softmax keeps the largest score so far, as in Milakov & Gimelshein 2018, "Online normalizer calculation".
"""

import torch
from torch import Tensor, nn


def weighted_read(weights: Tensor, values: Tensor) -> Tensor:
    return torch.einsum("kd,k", values, weights)


def scaled_dot_product_two_loop_single(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    outputs = []
    for i in range(query.shape[0]):
        best = query.new_tensor(float("-inf"))
        total = query.new_tensor(0.0)
        read = torch.zeros_like(value[0])
        for j in range(key.shape[0]):
            score = (query[i] @ key[j]) / query.shape[1] ** 0.5
            new_best = torch.maximum(best, score)
            shrink, grow = torch.exp(best - new_best), torch.exp(score - new_best)
            total = total * shrink + grow
            read = read * shrink + value[j] * grow
            best = new_best
        outputs.append(read / total)
    return torch.stack(outputs)


def scaled_dot_product_two_loop_batch(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    # over sequences and sources: one column of scores at a time
    outputs = []
    for n in range(query.shape[0]):
        columns = []
        for j in range(key.shape[1]):
            columns.append(query[n] @ key[n, j])  # (K,)
        scores = torch.stack(columns) / query.shape[2] ** 0.5  # (sources, readers)
        outputs.append(torch.softmax(scores, dim=0).t() @ value[n])
    return torch.stack(outputs)


def scaled_dot_product_no_loop_batch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    query = query / query.shape[-1] ** 0.5
    scores = key @ query.transpose(1, 2)  # (N, K, Kq): sources down, readers across
    if mask is not None:
        scores = scores.masked_fill(mask.transpose(-1, -2), -1e9)
    weights = torch.softmax(scores, dim=-2)
    y = (value.transpose(1, 2) @ weights).transpose(1, 2)
    return y, weights.transpose(1, 2)


class SelfAttention(nn.Module):
    def __init__(self, dim_in: int, dim_q: int, dim_v: int) -> None:
        super().__init__()
        self.weights_softmax = None
        for name, dim_out in {"q": dim_q, "k": dim_q, "v": dim_v}.items():
            projection = nn.Linear(dim_in, dim_out)
            a = (6 / (dim_in + dim_out)) ** 0.5
            projection.weight = nn.Parameter(torch.empty(dim_out, dim_in).uniform_(-a, a))
            self.add_module(name, projection)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        queries = query @ self.q.weight.T + self.q.bias
        keys = key @ self.k.weight.T + self.k.bias
        values = value @ self.v.weight.T + self.v.bias
        y, self.weights_softmax = scaled_dot_product_no_loop_batch(queries, keys, values, mask)
        return y


# Three functions to try `reads` on, and a wrapper that makes a fourth of your own layer. They are given: nothing to do.
# All are smooth: behind a ReLU a unit that happens to be off would look like an edge that is not there.


def tanh_mlp(x: Tensor) -> Tensor:
    """A two-layer perceptron with fixed random weights, applied to each position."""
    generator = torch.Generator().manual_seed(1)
    width = x.shape[-1]
    inner = torch.randn(width, 2 * width, generator=generator).to(x)
    outer = torch.randn(2 * width, width, generator=generator).to(x)
    return torch.tanh(x @ inner / width) @ outer  # (N, K, M)


def running_mean(x: Tensor) -> Tensor:
    """At each position the mean of tanh(x) over all positions so far, itself included."""
    count = torch.arange(1, x.shape[1] + 1).to(x)  # (K,)
    return torch.tanh(x).cumsum(dim=1) / count[:, None]  # (N, K, M)


def back_to_front(x: Tensor) -> Tensor:
    """tanh(x) with the positions in reverse order."""
    return torch.tanh(x).flip(1)  # (N, K, M)


class ReadsItself(nn.Module):
    """Turns an attention layer into a function of one argument: x is query, key and value."""

    def __init__(self, attention: nn.Module) -> None:
        """Args: `attention`, for example your `SelfAttention(4, 3, 6)` (TODO 1.5)."""
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K, dim_in)` -> `(N, K, dim_v)`."""
        y: Tensor = self.attention(x, x, x)
        return y


def reads(function, x: Tensor) -> Tensor:
    leaf = x.detach().requires_grad_()
    output = function(leaf)[0]  # (K, Dv)
    picks = torch.eye(output.numel(), dtype=x.dtype).reshape(-1, *output.shape)  # one per output feature
    (gradients,) = torch.autograd.grad(output, leaf, picks, is_grads_batched=True)  # (K * Dv, 1, K, M)
    gradients = gradients.reshape(*output.shape, *x.shape[1:])  # (K, Dv, K, M)
    return torch.count_nonzero(gradients, dim=(1, 3)) > 0


ANSWERS = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
