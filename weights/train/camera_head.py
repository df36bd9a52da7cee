"""Cameras from the camera tokens, in four refinements."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import Config
from .layers import Block, Mlp

ITERATIONS = 4


class CameraHead(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        dim = 2 * config.embed_dim
        self.token_norm = nn.LayerNorm(dim)
        self.trunk_norm = nn.LayerNorm(dim)
        self.adaln_norm = nn.LayerNorm(dim, 1e-6, elementwise_affine=False)
        self.empty_pose_tokens = nn.Parameter(torch.zeros(1, 1, 9))
        self.embed_pose = nn.Linear(9, dim)
        self.poseLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(dim, 3 * dim))
        self.trunk = nn.ModuleList(
            Block(dim, config.camera_num_heads, 1e-5, False) for _ in range(config.camera_trunk_depth)
        )
        self.pose_branch = Mlp(dim, dim // 2, 9)

    def forward(self, tokens: Tensor) -> list[Tensor]:
        """Camera tokens [B,S,2C] to the raw pose encodings [B,S,9] of each refinement.

        Gradients stop between refinements: each one learns to better what it is given.
        """
        x = self.token_norm(tokens)
        normed = self.adaln_norm(x)
        pose, poses = None, []
        for _ in range(ITERATIONS):
            given = self.empty_pose_tokens.expand(*x.shape[:2], -1) if pose is None else pose.detach()
            shift, scale, gate = self.poseLN_modulation(self.embed_pose(given)).chunk(3, -1)
            y = x + gate * (normed * (1 + scale) + shift)
            for block in self.trunk:
                y = block(y)
            delta = self.pose_branch(self.trunk_norm(y))
            pose = delta if pose is None else given + delta
            poses.append(pose)
        return poses


def activate_pose(raw: Tensor) -> Tensor:
    """The pose encoding [...,9] that is given out: translation, quaternion xyzw, field of view >= 0."""
    return torch.cat([raw[..., :7], F.relu(raw[..., 7:])], -1)


def rotation_from_quaternion(q: Tensor, least: float = 0.0) -> Tensor:
    """Matrices [...,3,3] from quaternions xyzw [...,4] of any length but 0.

    Those whose squared length is below `least` are lengthened no further than by it: no rotations, but their
    gradients stay small.
    """
    x, y, z, w = (q * (2 / q.square().sum(-1, keepdim=True).clamp_min(least)).sqrt()).unbind(-1)
    rows = [1 - y * y - z * z, x * y - z * w, x * z + y * w]
    rows += [x * y + z * w, 1 - x * x - z * z, y * z - x * w]
    rows += [x * z - y * w, y * z + x * w, 1 - x * x - y * y]
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def relative(rotation: Tensor, translation: Tensor) -> tuple[Tensor, Tensor]:
    """From cam_from_world [B,S,3,3] and [B,S,3], i_from_j of all pairs i < j: [B,pairs,3,3], [B,pairs,3]."""
    S = rotation.shape[1]
    i, j = torch.triu_indices(S, S, 1, device=rotation.device)
    turn = rotation[:, i] @ rotation[:, j].mT
    return turn, translation[:, i] - (turn @ translation[:, j, :, None]).squeeze(-1)


def camera_matrices(pose: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """cam_from_world [...,3,4] and intrinsics [...,3,3] in pixels, centre at (width/2, height/2)."""
    extrinsic = torch.cat([rotation_from_quaternion(pose[..., 3:7]), pose[..., :3, None]], -1)
    intrinsic = torch.zeros(*pose.shape[:-1], 3, 3, device=pose.device)
    intrinsic[..., 0, 0] = width / 2 / (pose[..., 8] / 2).tan()
    intrinsic[..., 1, 1] = height / 2 / (pose[..., 7] / 2).tan()
    intrinsic[..., 0, 2], intrinsic[..., 1, 2], intrinsic[..., 2, 2] = width / 2, height / 2, 1
    return extrinsic, intrinsic
