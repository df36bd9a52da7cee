"""Transformer blocks under VGGT's parameter names."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rope_table(rows: int, columns: int, special: int, head_dim: int, base: float) -> Tensor:
    """Cosines and sines [2,P,1,2,D/4] of a frame's tokens: per axis (row, column), per frequency.

    The special tokens come first and stay unrotated; patches count from 1 on both axes.
    """
    frequencies = base ** -(torch.arange(head_dim // 4) / (head_dim // 4))  # [D/4]
    grid = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)) + 1  # [rows·columns,2]
    positions = torch.cat([torch.zeros(special, 2), grid.float()])  # [P,2]
    angles = positions[:, None, :, None] * frequencies  # [P,1,2,D/4]
    return torch.stack([angles.cos(), angles.sin()])


def rotate(x: Tensor, rope: Tensor) -> Tensor:
    """x [B,N,A,D] turned by rope [2,P,1,2,D/4]; N is a multiple of P."""
    B, N, A, D = x.shape
    P = rope.shape[1]
    first, second = x.reshape(B, N // P, P, A, 2, 2, D // 4).unbind(-2)  # each [B,N/P,P,A,2,D/4]
    cosine, sine = rope.unbind(0)
    turned = torch.stack([first * cosine - second * sine, second * cosine + first * sine], -2)
    return turned.reshape(B, N, A, D)


class LayerScale(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int, out: int):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, qk_norm: bool):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.q_norm = nn.LayerNorm(dim // heads) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(dim // heads) if qk_norm else nn.Identity()

    def forward(self, x: Tensor, rope: Tensor | None) -> Tensor:
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, C // self.heads).unbind(2)  # [B,N,A,D]
        q, k = self.q_norm(q), self.k_norm(k)
        if rope is not None:
            q, k = rotate(q, rope), rotate(k, rope)
        heads = [part.transpose(1, 2) for part in (q, k, v)]  # [B,A,N,D]
        out = F.scaled_dot_product_attention(*heads)
        return self.proj(out.transpose(1, 2).reshape(B, N, C))

    def queries_and_keys(self, x: Tensor, rope: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """What the first `count` heads compare: two [B,N,count,D]."""
        B, N, C = x.shape
        D = C // self.heads
        weight = self.qkv.weight.view(3, self.heads, D, C)[:2, :count].reshape(-1, C)
        bias = self.qkv.bias.view(3, self.heads, D)[:2, :count].reshape(-1)
        q, k = F.linear(x, weight, bias).view(B, N, 2, count, D).unbind(2)
        return rotate(self.q_norm(q), rope), rotate(self.k_norm(k), rope)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, eps: float, qk_norm: bool):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps)
        self.attn = Attention(dim, heads, qk_norm)
        self.ls1 = LayerScale(dim)
        self.norm2 = nn.LayerNorm(dim, eps)
        self.mlp = Mlp(dim, 4 * dim, dim)
        self.ls2 = LayerScale(dim)

    def forward(self, x: Tensor, rope: Tensor | None = None) -> Tensor:  # [B,N,C] -> [B,N,C]
        x = x + self.ls1(self.attn(self.norm1(x), rope))
        return x + self.ls2(self.mlp(self.norm2(x)))
