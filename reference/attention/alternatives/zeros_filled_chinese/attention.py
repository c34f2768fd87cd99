"""实验一：从加权读取到注意力。（先建全零张量，再逐个位置填进去）"""

import math

import torch
from torch import Tensor, nn

DEBUG = False


def weighted_read(weights, values):
    # 每个来源的信息乘上它的权重，然后累加
    result = values.new_zeros(values.shape[1])
    for w, v in zip(weights, values):
        result = result + w * v
    return result


def scaled_dot_product_two_loop_single(query, key, value):
    K, M = query.shape
    scores = torch.zeros(K, K, dtype=query.dtype, device=query.device)
    for i in range(K):          # i：读者
        for j in range(K):      # j：来源
            scores[i, j] = query[i] @ key[j]
    scores = scores / math.sqrt(M)
    weights = torch.softmax(scores, dim=1)   # 沿来源方向归一化
    return weights @ value


def scaled_dot_product_two_loop_batch(query, key, value):
    N, K, M = query.shape
    out = value.new_zeros((N, K, value.shape[2]))
    for n in range(N):
        for i in range(K):
            w = torch.softmax(key[n] @ query[n, i] / math.sqrt(M), dim=-1)
            out[n, i] = w @ value[n]
    return out


def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    M = query.size(2)
    scores = query.matmul(key.permute(0, 2, 1)) / math.sqrt(M)
    if DEBUG:
        print("分数", scores.shape)
    if mask is not None:
        scores.masked_fill_(mask, -1e9)  # scores 是新张量，原地修改没有问题
    weights = torch.softmax(scores, dim=-1)
    output = weights.matmul(value)
    return output, weights


class SelfAttention(nn.Module):
    """一个注意力头"""

    def __init__(self, dim_in, dim_q, dim_v):
        super().__init__()
        self.weights_softmax = None
        self.q = nn.Linear(dim_in, dim_q)
        self.k = nn.Linear(dim_in, dim_q)
        self.v = nn.Linear(dim_in, dim_v)
        范围 = math.sqrt(6 / (dim_in + dim_q))
        self.q.weight.data.uniform_(-范围, 范围)
        self.k.weight.data.uniform_(-范围, 范围)
        范围 = math.sqrt(6 / (dim_in + dim_v))
        self.v.weight.data.uniform_(-范围, 范围)

    def forward(self, query, key, value, mask=None):
        q = self.q(query)
        k = self.k(key)
        v = self.v(value)
        # 这里直接重写一遍，不调用上面的函数
        scores = torch.bmm(q, k.transpose(2, 1)) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        self.weights_softmax = torch.softmax(scores, dim=-1)
        return torch.bmm(self.weights_softmax, v)


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
    边 = torch.zeros((K, K), dtype=torch.bool)
    输入 = x.detach().clone().requires_grad_(True)
    输出 = function(输入)
    for i in range(K):
        g = torch.autograd.grad((输出[0, i] ** 2).sum() + 输出[0, i].sum(), 输入, retain_graph=True)[0]
        边[i] = g[0].abs().sum(dim=-1) > 0
    return 边


if __name__ == "__main__":
    x = torch.randn(1, 4, 6)
    print(reads(tanh_mlp, x))
    print(reads(running_mean, x))


ANSWERS = {
    "attention-matrix": "C",
    "q-k-v-same": "B",
    "sum-is-not-a-score": "D",
    "reads-across-positions": "A",
}
