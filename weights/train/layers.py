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
    """x [F,P,A,D], the tokens of F frames, turned by rope [2,P,1,2,D/4]."""
    first, second = x.unflatten(-1, (2, 2, -1)).unbind(-2)  # each [F,P,A,2,D/4]
    cosine, sine = rope.unbind(0)
    turned = torch.stack([first * cosine - second * sine, second * cosine + first * sine], -2)
    return turned.flatten(-3)


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

    def compared(self, x: Tensor, rope: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)  # each [F,P,A,D]
        q, k = self.q_norm(q), self.k_norm(k)
        if rope is not None:
            q, k = rotate(q, rope), rotate(k, rope)
        return q.to(v.dtype), k.to(v.dtype), v


class Block(nn.Module):
    """Two parts that see the tokens of one frame after another, whoever attends to whom, and attention between.

    So that each part compiles to one graph for all sizes and numbers of frames.
    """

    def __init__(self, dim: int, heads: int, eps: float, qk_norm: bool):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps)
        self.attn = Attention(dim, heads, qk_norm)
        self.ls1 = LayerScale(dim)
        self.norm2 = nn.LayerNorm(dim, eps)
        self.mlp = Mlp(dim, 4 * dim, dim)
        self.ls2 = LayerScale(dim)

    def before(self, x: Tensor, rope: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """What attention compares and mixes: queries, keys and values [F,P,A,D] of x [F,P,C]."""
        return self.attn.compared(self.norm1(x), rope)

    def after(self, x: Tensor, mixed: Tensor) -> Tensor:
        x = x + self.ls1(self.attn.proj(mixed))
        return x + self.ls2(self.mlp(self.norm2(x)))

    def attend(self, x: Tensor, compared: tuple[Tensor, Tensor, Tensor], together: int) -> Tensor:
        """x [F,P,C] after the block; the tokens of each `together` frames attend to one another."""
        frames, P, C = x.shape
        groups = [t.reshape(frames // together, together * P, *t.shape[2:]) for t in compared]  # [B,N,A,D]
        mixed = F.scaled_dot_product_attention(*(g.transpose(1, 2) for g in groups))  # [B,A,N,D]
        return self.after(x, mixed.transpose(1, 2).reshape(frames, P, C))

    def forward(self, x: Tensor, rope: Tensor | None = None) -> Tensor:  # [F,P,C] -> [F,P,C]
        return self.attend(x, self.before(x, rope), 1)

    def compile(self) -> None:
        self.before = torch.compile(self.before, dynamic=True)
        self.after = torch.compile(self.after, dynamic=True)
