"""What a camera does to an image after the light has arrived: exposure, noise, blur, compression."""
from functools import cache
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
    """[B,S,3]: the blur along x and along y (deviation in pixels), the step of the compression (0: none)."""
    def each(**span):
        return frame.uniform(**span).view(-1, frames)

    soft = torch.where(random.chance(0.35, 1), random.uniform(1, low=0.3, high=1.0), 0) * (0.7 + 0.6 * each())
    moved = random.chance(0.12, 1) & (each() < 0.5)
    motion = torch.where(moved, each(low=0.5, high=1.8), 0)
    turn = each(high=math.pi / 2)
    step = torch.where(random.chance(0.4, 1), random.log_uniform(1, low=0.008, high=0.09), 0).expand_as(soft)
    return torch.stack([soft + motion * turn.cos(), soft + motion * turn.sin(), step], -1)


def _blur_along(images: Tensor, deviation: Tensor, axis: int) -> Tensor:
    """Five taps of a Gaussian; deviation [N,1,1,1] in pixels, 0 leaves the image as it is."""
    variance = 2 * deviation.clamp_min(0.05).square()
    near, far = (-1 / variance).exp(), (-4 / variance).exp()
    total = 1 + 2 * near + 2 * far
    near, far, middle = ((w / total).to(images.dtype) for w in (near, far, torch.ones_like(near)))
    length = images.shape[axis]
    edge = [images.narrow(axis, 0, 1).expand_as(images.narrow(axis, 0, 2)), images,
            images.narrow(axis, length - 1, 1).expand_as(images.narrow(axis, 0, 2))]
    padded = torch.cat(edge, axis)
    out = padded.narrow(axis, 2, length) * middle
    for tap, weight in ((0, far), (1, near), (3, near), (4, far)):
        out.addcmul_(padded.narrow(axis, tap, length), weight)
    return out


@cache
def _cosines(length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The cosine transform of blocks of 8 along an axis, as one orthogonal matrix [length,length]."""
    k = torch.arange(8, dtype=torch.float64)
    block = ((2 * k + 1) * k[:, None] * math.pi / 16).cos() * 0.5
    block[0] *= 0.5**0.5
    return torch.kron(torch.eye(length // 8, dtype=torch.float64), block).to(device, dtype)


@cache
def _steps(height: int, width: int, device: torch.device) -> Tensor:
    """Relative quantisation [3,height,width] of brightness and the two colour differences: coarser for fine detail."""
    order = torch.arange(8, dtype=torch.float32)
    fine = 1 + 0.55 * (order + order[:, None])
    block = torch.stack([fine, 2 * fine, 2 * fine])
    return block.repeat(1, height // 8, width // 8).to(device)


_LUMA = [[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]]


@cache
def _colour_transform(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    forward = torch.tensor(_LUMA, dtype=torch.float64)
    return forward.to(device, dtype), torch.linalg.inv(forward).to(device, dtype)


def _compress(images: Tensor, step: Tensor) -> Tensor:
    """Quantises the cosine transform of 8×8 blocks, as JPEG does; step [N,1,1,1], 0 leaves the image as it is."""
    height, width = images.shape[-2:]
    high, wide = -(-height // 8) * 8, -(-width // 8) * 8
    padded = images
    if (high, wide) != (height, width):
        padded = torch.nn.functional.pad(images, (0, wide - width, 0, high - height), mode="replicate")
    forward, back = _colour_transform(images.device, images.dtype)
    rows, columns = (_cosines(n, images.device, images.dtype) for n in (high, wide))
    colours = torch.matmul(forward, padded.flatten(2)).unflatten(2, (high, wide))
    coefficients = rows @ (colours @ columns.T)
    quantum = (step.clamp_min(1e-3) * _steps(high, wide, images.device)).to(images.dtype)
    change = (coefficients / quantum).round() * quantum - coefficients  # what is lost
    lost = torch.matmul(back, (rows.T @ change @ columns).flatten(2)).unflatten(2, (high, wide))
    return images + lost[..., :height, :width] * (step > 0)


def damage(images: Tensor, amounts: Tensor) -> Tensor:
    """Blurs and compresses images [B,S,3,H,W] by amounts [B,S,3] of draw_damage."""
    flat = images.flatten(0, 1)  # [N,3,H,W]
    x, y, step = amounts.flatten(0, 1)[..., None, None, None].unbind(1)
    flat = _blur_along(_blur_along(flat, x, 3), y, 2)
    return _compress(flat, step).clamp_(0, 1).view_as(images)
