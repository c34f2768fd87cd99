"""实验二：多头注意力。重排用置换矩阵来写。"""

import math

import torch
from torch import Tensor, nn

from attention import SelfAttention

print("multihead 已载入")


def concat_heads(heads):
    # 沿特征维拼接：先把头放到最前面，再移到特征旁边
    H = len(heads)
    N, K, Dh = heads[0].shape
    全部 = torch.stack(tuple(heads), 0)              # (H, N, K, Dh)
    return 全部.permute(1, 2, 0, 3).reshape(N, K, H * Dh)


def split_heads(x, num_heads):
    N, K, M = x.shape
    if M % num_heads != 0:
        raise ValueError("特征数必须能被头数整除")
    return x.reshape(N, K, num_heads, M // num_heads).permute(0, 2, 1, 3)


class MultiHeadAttention(nn.Module):
    """多头注意力"""

    def __init__(self, num_heads, dim_in, dim_out):
        super().__init__()
        self.heads = nn.ModuleList([SelfAttention(dim_in, dim_out, dim_out) for _ in range(num_heads)])
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)
        r = math.sqrt(6 / (num_heads * dim_out + dim_in))
        nn.init.uniform_(self.linear_mult.weight, -r, r)

    def forward(self, query, key, value, mask=None):
        N, Kq, _ = query.shape
        y = []
        for i in range(len(self.heads)):
            y.append(self.heads[i](query, key, value, mask))
        y = concat_heads(y)
        assert y.shape[:2] == (N, Kq)
        return y @ self.linear_mult.weight.t() + self.linear_mult.bias


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


def permutation_gap(module, x, permutation):
    原来 = module.training
    module.eval()
    K = x.shape[1]
    P = torch.zeros(K, K, dtype=x.dtype)
    P[torch.arange(K), permutation] = 1              # P 的第 i 行选出位置 permutation[i]
    with torch.no_grad():
        左 = module(P @ x)
        y = module(x)
        右 = P @ y
    if 原来:
        module.train()
    return float(torch.max(torch.abs(左 - 右)) / torch.max(torch.abs(y)))


class FusedMultiHeadAttention(nn.Module):
    def __init__(self, num_heads, dim_in, dim_out):
        super().__init__()
        self.num_heads = num_heads
        self.dim_out = dim_out
        self.q, self.k, self.v = (nn.Linear(dim_in, num_heads * dim_out) for _ in range(3))
        self.linear_mult = nn.Linear(num_heads * dim_out, dim_in)

    def load_heads(self, mha):
        with torch.no_grad():
            for 自己, 名字 in ((self.q, "q"), (self.k, "k"), (self.v, "v")):
                for h, head in enumerate(mha.heads):
                    来源 = getattr(head, 名字)
                    自己.weight.view(self.num_heads, self.dim_out, -1)[h].copy_(来源.weight)
                    自己.bias.view(self.num_heads, self.dim_out)[h].copy_(来源.bias)
        self.linear_mult.load_state_dict(mha.linear_mult.state_dict())

    def forward(self, query, key, value, mask=None):
        # (H, N, K, Dh)：头放最前面，掩码 (N, Kq, K) 可以直接广播
        q = self.q(query).unflatten(-1, (self.num_heads, self.dim_out)).permute(2, 0, 1, 3)
        k = self.k(key).unflatten(-1, (self.num_heads, self.dim_out)).permute(2, 0, 1, 3)
        v = self.v(value).unflatten(-1, (self.num_heads, self.dim_out)).permute(2, 0, 1, 3)
        s = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.dim_out)
        if mask is not None:
            s = s.masked_fill(mask, -1e9)
        s = s - s.max(dim=-1, keepdim=True).values
        w = s.exp()
        w = w / w.sum(dim=-1, keepdim=True)
        y = torch.matmul(w, v).permute(1, 2, 0, 3).flatten(2)
        return self.linear_mult(y)


ANSWERS = {"concat-axis": "B", "number-of-heads": "D", "head-roles": "A"}
