"""Rows of the material table (scene.h)."""
import torch
from torch import Tensor

from .random_numbers import Stream, constant

# In the order of Texture in scene.h.
TEXTURES = ("cloudy", "stripes", "checks", "cobbles", "bricks", "mosaic", "spots", "wood", "print", "plain")
ON_OBJECTS = [1.2, 0.8, 0.6, 0.9, 0.4, 1.0, 0.8, 1.2, 1.0, 1.5]
ON_WALLS = [1.6, 0.5, 0.3, 0.6, 1.5, 0.5, 0.3, 0.6, 0.5, 1.2]
ON_FLOORS = [1.4, 0.3, 0.7, 0.9, 1.3, 0.4, 0.3, 1.6, 0.2, 0.5]
_NUMBERS = 18  # that _materials draws for each


def _colours(random: Stream, count: int) -> Tensor:
    """RGB [B,count,3]; most are little saturated, as surfaces are."""
    hue = random.uniform(count, 1)
    saturation = 0.85 * random.uniform(count, 1) ** 2.2
    value = random.uniform(count, 1, low=0.08, high=0.96)
    ramp = (((hue + constant((0.0, 2 / 3, 1 / 3), hue.device)) % 1.0) * 6 - 3).abs().sub(1).clamp(0, 1)
    return value * (1 - saturation + saturation * ramp)


def _materials(random: Stream, kind: Tensor, base: Tensor) -> Tensor:
    """[B,count,16] of textures and frequencies [B,count]."""
    count = kind.shape[1]
    plain = kind == TEXTURES.index("plain")
    first, second = _colours(random, count), _colours(random, count)
    alike = random.uniform(count, 1) ** 2  # most pairs of colours are not far from each other
    second = first + (second - first) * torch.maximum(alike, random.uniform(count, 1) * 0.9)
    grain = 0.04 + 0.7 * random.uniform(count) ** 1.8
    grain = torch.where(plain, grain * 0.12 * random.chance(0.6, count), grain)
    glossy = random.chance(0.35, count)
    gloss = random.uniform(count, low=0.05, high=0.7) * glossy
    mirror = (glossy & random.chance(0.35, count)) * random.uniform(count, low=0.1, high=0.8)
    grain_frequency = base * random.uniform(count, low=1.5, high=6.0)
    seed = (random.uniform(count) * 60000).floor()
    variant = random.uniform(count)
    sharpness = random.log_uniform(count, low=6.0, high=120.0)
    rest = [kind.float(), base, grain, grain_frequency, seed, variant, gloss, sharpness, mirror, 0 * mirror]
    return torch.cat([first, second, torch.stack(rest, -1)], -1)


def draw_materials(random: Stream, count: int) -> Tensor:
    """The material table [B,6+count,16]: of floor and ceiling, of the walls, which are often all alike, of objects."""
    def group(n: int, textures: list[float], low: float, high: float) -> tuple[Tensor, Tensor, Tensor]:
        return random.choice(textures, n), random.log_uniform(n, low=low, high=high), random.uniform(_NUMBERS, n)

    floors, walls = group(2, ON_FLOORS, 0.4, 4.0), group(4, ON_WALLS, 0.4, 4.0)
    alike = random.chance(0.65, 1, 1)
    drawn = floors, walls, group(count, ON_OBJECTS, 1.2, 10.0)
    kind, base, numbers = (torch.cat(parts, -1) for parts in zip(*drawn))
    table = _materials(Stream(numbers.flatten(1)), kind, base)
    table[:, 3:6] = torch.where(alike, table[:, 2:3], table[:, 3:6])
    return table
