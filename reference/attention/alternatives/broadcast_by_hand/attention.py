"""Lab 1 without a single matrix multiplication, softmax included."""

import torch
from torch import Tensor, nn


def softmax(scores, dim):
    largest = scores.max(dim=dim, keepdim=True).values
    e = torch.exp(scores - largest)
    return e / e.sum(dim=dim, keepdim=True)


def weighted_read(weights, values):
    return (weights.unsqueeze(-1) * values).sum(dim=0)


def scaled_dot_product_two_loop_single(query, key, value):
    K = query.shape[0]
    M = query.shape[1]
    out = []
    for i in range(K):
        s = []
        for j in range(K):
            s.append((query[i] * key[j]).sum() * M**-0.5)
        a = softmax(torch.stack(s), 0)
        out.append((a[:, None] * value).sum(0))
    return torch.stack(out)


def scaled_dot_product_two_loop_batch(query, key, value):
    N, K, M = query.shape
    out = []
    for n in range(N):
        for i in range(K):
            s = (query[n, i][None, :] * key[n]).sum(1) * M**-0.5
            a = softmax(s, 0)
            out.append((a[:, None] * value[n]).sum(0))
    return torch.stack(out).view(N, K, value.shape[2])


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    M = query.shape[2]
    scores = (query[:, :, None, :] * key[:, None, :, :]).sum(dim=3) * M**-0.5
    if mask is not None:
        scores = scores + mask.to(scores.dtype) * -1e9
    weights_softmax = softmax(scores, 2)
    y = (weights_softmax[:, :, :, None] * value[:, None, :, :]).sum(dim=2)
    return y, weights_softmax


class SelfAttention(nn.Module):
    def __init__(self, dim_in, dim_q, dim_v):
        super().__init__()
        self.weights_softmax = None
        self.q = nn.Linear(dim_in, dim_q)
        self.k = nn.Linear(dim_in, dim_q)
        self.v = nn.Linear(dim_in, dim_v)
        with torch.no_grad():
            for layer in [self.q, self.k, self.v]:
                d_out, d_in = layer.weight.shape
                r = (6 / (d_in + d_out)) ** 0.5
                layer.weight.copy_((torch.rand(d_out, d_in) * 2 - 1) * r)
                layer.bias.zero_()

    def forward(self, query, key, value, mask=None):
        y, weights = scaled_dot_product_no_loop_batch(self.q(query), self.k(key), self.v(value), mask)
        self.weights_softmax = weights.detach()
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


def reads(function, x):
    K = x.shape[1]
    result = torch.zeros(K, K).bool()
    for i in range(K):
        leaf = x.clone().detach()
        leaf.requires_grad = True
        function(leaf)[0, i].sum().backward()
        for j in range(K):
            result[i, j] = bool(leaf.grad[0, j].abs().sum() > 0)
    return result


ANSWERS = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
