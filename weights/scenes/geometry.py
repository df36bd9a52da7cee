"""Rotations and camera geometry on tensors."""
from functools import cache

import torch
from torch import Tensor

# The entries of a rotation, row after row, are twice a sum of two products of w, x, y, z; 1 more on the diagonal.
_ROTATION = ("-yy-zz", "+xy-wz", "+xz+wy", "+xy+wz", "-xx-zz", "+yz-wx", "+xz-wy", "+yz+wx", "-xx-yy")


@cache
def _rotation_products(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The factors' places in wxyz [2 factors, 2 products, 9], what multiplies the products [2,9], what is added [9]."""
    factors = [[["wxyz".index(entry[3 * k + 1 + f]) for entry in _ROTATION] for k in range(2)] for f in range(2)]
    signs = [[2.0 if entry[3 * k] == "+" else -2.0 for entry in _ROTATION] for k in range(2)]
    return torch.tensor(factors).to(device), torch.tensor(signs).to(device), torch.eye(3).flatten().to(device)


def rotation_from_quaternion(q: Tensor) -> Tensor:
    """[...,4] (w first, any length) to [...,3,3]."""
    factors, signs, diagonal = _rotation_products(q.device)
    q = q / q.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    first, second = q[..., factors].unbind(-3)  # [...,2,9]
    first, second = (first * second * signs).unbind(-2)
    return (diagonal + (first + second)).unflatten(-1, (3, 3))


def yaw_quaternion(angle: Tensor) -> Tensor:
    """A turn about z: [...] radians to [...,4]."""
    half, zero = angle / 2, torch.zeros_like(angle)
    return torch.stack([half.cos(), zero, zero, half.sin()], -1)


def camera_rotation(yaw: Tensor, pitch: Tensor, roll: Tensor) -> Tensor:
    """cam_from_world rotations [...,3,3] of cameras (x right, y down, z forward) in a world with z up; radians.

    At yaw 0 and pitch 0 the camera looks along +x; positive pitch looks up, positive roll turns it clockwise.
    """
    sy, cy, sp, cp = yaw.sin(), yaw.cos(), pitch.sin(), pitch.cos()
    forward = torch.stack([cy * cp, sy * cp, sp], -1)
    level = torch.stack([sy, -cy, torch.zeros_like(sy)], -1)
    down = torch.linalg.cross(forward, level)
    c, s = roll.cos()[..., None], roll.sin()[..., None]
    return torch.stack([c * level + s * down, c * down - s * level, forward], -2)
