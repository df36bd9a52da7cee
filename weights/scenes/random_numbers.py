"""Numbers that depend on (seed, index, position) alone: the same on every device and for every batch."""
from functools import cache
import math

import torch
from torch import Tensor


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_STEP = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def _shift(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # without the sign


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64."""
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def scene_keys(seed: int, first: int, count: int, device) -> Tensor:
    """One 64-bit key a scene [count]."""
    index = torch.arange(first, first + count, dtype=torch.int64, device=device)
    start = _mix(torch.full_like(index, _signed(seed)) * _STEP + _SECOND)
    return _mix(start + (index + 1) * _STEP)


@cache
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """fp32 [n], made once: to bring a constant to a GPU holds up what is drawn."""
    return torch.tensor(values, device=device)


@cache
def _edges(weights: tuple[float, ...], device: torch.device) -> Tensor:
    return (torch.tensor(weights[:-1], dtype=torch.float64).cumsum(0) / sum(weights)).float().to(device)


class Stream:
    """A sequence of numbers [B,length] in [0,1); what is drawn first does not depend on what is drawn after it.

    All draws have shape [B, *shape]. Throws IndexError past the last number.
    """

    def __init__(self, numbers: Tensor):
        self._numbers = numbers
        self._used = 0

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        count = math.prod(shape)
        start, self._used = self._used, self._used + count
        if self._used > self._numbers.shape[1]:
            raise IndexError(f"expected at most {self._numbers.shape[1]} numbers, got {self._used}")
        numbers = self._numbers[:, start:self._used].reshape(-1, *shape)
        return numbers if (low, high) == (0.0, 1.0) else torch.add(low, numbers, alpha=high - low)

    def log_uniform(self, *shape: int, low: float, high: float) -> Tensor:
        return low * (high / low) ** self.uniform(*shape)

    def normal(self, *shape: int) -> Tensor:
        radius = (-2 * (1 - self.uniform(*shape)).clamp_min(1e-7).log()).sqrt()
        return radius * (2 * math.pi * self.uniform(*shape)).cos()

    def sign(self, *shape: int) -> Tensor:
        return (self.uniform(*shape) < 0.5) * 2.0 - 1

    def chance(self, probability: float, *shape: int) -> Tensor:
        return self.uniform(*shape) < probability

    def choice(self, weights: list[float], *shape: int) -> Tensor:
        """int64 indices, each as likely as its weight."""
        edges = _edges(tuple(weights), self._numbers.device)
        return torch.bucketize(self.uniform(*shape).contiguous(), edges, right=True)


@cache
def _layout(lengths: tuple[tuple[int, int], ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """What to add to a key for each name, and for each number its name's place in this and what to add for it."""
    names = torch.tensor([_signed(name * 0xD1342543DE82EF95 % (1 << 64)) for name, _ in lengths])
    owner = torch.cat([torch.full((length,), i) for i, (_, length) in enumerate(lengths)])
    steps = torch.cat([torch.arange(1, length + 1) for _, length in lengths]) * _STEP
    return names.to(device), owner.to(device), steps.to(device)


def streams(keys: Tensor, lengths: dict[int, int]) -> list[Stream]:
    """One stream for each name, of that length, from keys [B]; hashed together, as launches are what drawing costs."""
    names, owner, steps = _layout(tuple(lengths.items()), keys.device)
    bits = _mix(_mix(keys[:, None] + names)[:, owner] + steps)  # [B, all lengths]
    numbers = _shift(bits, 40).float() / (1 << 24)
    return [Stream(part) for part in numbers.split(list(lengths.values()), 1)]
