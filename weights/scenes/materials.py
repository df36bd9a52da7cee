"""Rows of the material table (scene.h)."""
import torch
from torch import Tensor

from .random_numbers import Stream

# In the order of Texture in scene.h.
TEXTURES = ("cloudy", "stripes", "checks", "cobbles", "bricks", "mosaic", "spots", "wood", "print", "plain")
ON_OBJECTS = [1.2, 0.8, 0.6, 0.9, 0.4, 1.0, 0.8, 1.2, 1.0, 1.5]
ON_WALLS = [1.6, 0.5, 0.3, 0.6, 1.5, 0.5, 0.3, 0.6, 0.5, 1.2]
ON_FLOORS = [1.4, 0.3, 0.7, 0.9, 1.3, 0.4, 0.3, 1.6, 0.2, 0.5]


def _colours(random: Stream, count: int) -> Tensor:
    """RGB [B,count,3]; most are little saturated, as surfaces are."""
    hue = random.uniform(count, 1)
    saturation = 0.85 * random.uniform(count, 1) ** 2.2
    value = random.uniform(count, 1, low=0.08, high=0.96)
    offset = torch.tensor([0.0, 2 / 3, 1 / 3], device=hue.device)
    ramp = (((hue + offset) % 1.0) * 6 - 3).abs().sub(1).clamp(0, 1)
    return value * (1 - saturation + saturation * ramp)


def draw_materials(random: Stream, count: int, textures: list[float], frequency: tuple[float, float]) -> Tensor:
    """[B,count,16]. `textures` are weights in the order of TEXTURES, `frequency` the range of periods per unit."""
    kind = random.choice(textures, count)
    plain = kind == TEXTURES.index("plain")
    base = random.log_uniform(count, low=frequency[0], high=frequency[1])
    first, second = _colours(random, count), _colours(random, count)
    alike = random.uniform(count, 1) ** 2  # most pairs of colours are not far from each other
    second = first + (second - first) * torch.maximum(alike, random.uniform(count, 1) * 0.9)
    grain = 0.04 + 0.7 * random.uniform(count) ** 1.8
    grain = torch.where(plain, grain * 0.12 * random.chance(0.6, count), grain)
    glossy = random.chance(0.35, count)
    gloss = torch.where(glossy, random.uniform(count, low=0.05, high=0.7), 0)
    mirror = torch.where(glossy & random.chance(0.35, count), random.uniform(count, low=0.1, high=0.8), 0)
    grain_frequency = base * random.uniform(count, low=1.5, high=6.0)
    seed = (random.uniform(count) * 60000).floor()
    variant = random.uniform(count)
    sharpness = random.log_uniform(count, low=6.0, high=120.0)
    rest = [kind.float(), base, grain, grain_frequency, seed, variant, gloss, sharpness, mirror, 0 * mirror]
    return torch.cat([first, second, torch.stack(rest, -1)], -1)
