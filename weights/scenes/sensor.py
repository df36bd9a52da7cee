"""What a camera does to an image after the light has arrived, as drawn: exposure, noise, blur, compression."""
import math

import torch
from torch import Tensor

from .random_numbers import Stream


def _metered(surroundings: Tensor, faces: Tensor) -> Tensor:
    """The gain [B] that brings the scene to a middle grey, from its light and the faces [B,6,16] of its room."""
    albedo = 0.5 * faces[..., :6].mean((1, 2)) + 0.2  # half of what is seen are objects
    outdoors = surroundings[:, 11] == 0
    direct = surroundings[:, 12:15].mean(-1) * torch.where(outdoors, 0.5, 0.25)
    return (0.36 / (albedo * (surroundings[:, 15:18].mean(-1) + direct))).clamp(0.4, 4)


def draw_exposure(random: Stream, frame: Stream, frames: int, surroundings: Tensor, faces: Tensor) -> Tensor:
    """The last columns of the camera table [B,S,7]: gain (3), gamma, noise, seed, unused."""
    def each(**span):
        return frame.uniform(**span).view(-1, frames)  # [B,S]

    metered = _metered(surroundings, faces)[:, None] ** random.uniform(1, low=0.6, high=1.0)
    gain = metered * random.log_uniform(1, low=0.65, high=1.4) * (1 + each(low=-0.08, high=0.08))
    tint = 1 + 0.12 * (random.uniform(1, 3) - 0.5)
    gamma = random.uniform(1, low=0.65, high=1.2).expand_as(gain)
    noise = (random.uniform(1) ** 2.5 * 0.05).expand_as(gain)
    seed = (each() * (1 << 24)).floor()
    return torch.cat([gain[..., None] * tint, torch.stack([gamma, noise, seed, torch.zeros_like(seed)], -1)], -1)


def draw_damage(random: Stream, frame: Stream, frames: int) -> Tensor:
    """Rows of Damage in scene.h [B,S,3]: blur along x and along y, step of the compression."""
    def each(**span):
        return frame.uniform(**span).view(-1, frames)

    soft = random.chance(0.35, 1) * random.uniform(1, low=0.3, high=1.0) * (0.7 + 0.6 * each())
    moved = random.chance(0.12, 1) & (each() < 0.5)
    motion = moved * each(low=0.5, high=1.8)
    turn = each(high=math.pi / 2)
    step = (random.chance(0.4, 1) * random.log_uniform(1, low=0.008, high=0.09)).expand_as(soft)
    return torch.stack([soft + motion * turn.cos(), soft + motion * turn.sin(), step], -1)
