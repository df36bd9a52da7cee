"""Rooms and open ground, light and sky: rows of the surroundings table (scene.h)."""
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .random_numbers import Stream


@dataclass
class Place:
    """Where objects and cameras may be; all [B]. half_x, half_y: reach from the middle; top: of the cameras."""
    half_x: Tensor
    half_y: Tensor
    top: Tensor
    open: Tensor  # bool


def _direction(azimuth: Tensor, elevation: Tensor) -> Tensor:
    """Unit vectors [B,3]."""
    flat = elevation.cos()
    return torch.stack([azimuth.cos() * flat, azimuth.sin() * flat, elevation.sin()], -1)


def _tint(random: Stream, amount: float) -> Tensor:
    return 1 + amount * (random.uniform(3) - 0.5)


def draw_surroundings(random: Stream) -> tuple[Tensor, Place]:
    """The table [B,32], its count of primitives still 0, and the place."""
    where = torch.where
    is_open = random.chance(0.35)
    endless = is_open & random.chance(0.45)  # no walls: the ground goes on to the horizon
    inside = random.log_uniform(2, low=1.5, high=5.5)
    reach = where(is_open[:, None], random.uniform(2, low=4.5, high=12.0), inside)  # [B,2]
    height = random.uniform(low=2.3, high=4.2)
    walls = where(endless[:, None], 900.0, reach)
    wall_height = where(endless, 0.0, random.uniform(low=0.8, high=6.0))

    sun = _direction(random.uniform(high=2 * math.pi), random.uniform(low=0.45, high=1.4))
    at = torch.cat([reach * random.uniform(2, low=-0.8, high=0.8),
                    (height * random.uniform(low=0.65, high=0.97))[:, None]], -1)
    light = where(is_open[:, None], sun, at)
    light_range = where(is_open, 0.0, random.uniform(low=2.0, high=6.0))
    overcast = random.chance(0.3) & is_open
    strength = random.uniform(low=0.45, high=1.1) * where(is_open, 1.0, 1.4) * where(overcast, 0.25, 1.0)
    light_colour = strength[:, None] * _tint(random, 0.25)
    ambient = (random.uniform(low=0.25, high=0.75) * where(overcast, 1.3, 1.0))[:, None] * _tint(random, 0.15)
    fill = _direction(random.uniform(high=2 * math.pi), random.uniform(low=-0.2, high=0.9))
    fill_colour = random.uniform(1, high=0.3) * _tint(random, 0.3)
    horizon = random.uniform(3, low=0.72, high=0.97)
    zenith = torch.stack([random.uniform(low=0.2, high=0.6), random.uniform(low=0.4, high=0.75),
                          random.uniform(low=0.6, high=1.0)], -1)
    zenith = where(overcast[:, None], horizon * 0.9, zenith)
    clouds = where(random.chance(0.3), 0.0, random.uniform())
    seed = (random.uniform() * 60000).floor()

    zero = torch.zeros_like(height)
    head = torch.stack([walls[:, 0], walls[:, 1], height, is_open.float(), wall_height, zero, clouds, seed], -1)
    table = torch.cat([head, light, light_range[:, None], light_colour, ambient, fill, fill_colour, horizon, zenith,
                       zero[:, None], zero[:, None]], -1)
    top = where(is_open, 3.8, height - 0.25)
    return table, Place(reach[:, 0], reach[:, 1], top, is_open)
