"""Rotations and camera geometry on tensors."""
import torch
from torch import Tensor


def rotation_from_quaternion(q: Tensor) -> Tensor:
    """[...,4] (w first, any length) to [...,3,3]."""
    w, x, y, z = (q / q.norm(dim=-1, keepdim=True).clamp_min(1e-6)).unbind(-1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def yaw_quaternion(angle: Tensor) -> Tensor:
    """A turn about z: [...] radians to [...,4]."""
    zero = torch.zeros_like(angle)
    return torch.stack([(angle / 2).cos(), zero, zero, (angle / 2).sin()], -1)


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
