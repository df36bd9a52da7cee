"""What the network is to say about a rendered batch."""

import dataclasses

import torch
from torch import Tensor

VISIBLE = 0.07  # a point is seen where the depth there differs by less than this share


@dataclasses.dataclass
class Targets:
    """Scaled so that the valid points' mean distance from the first camera is 1."""

    pose: Tensor  # [B,S,9]
    depth: Tensor  # [B,S,H,W]
    points: Tensor  # [B,S,H,W,3] in the first camera's frame
    valid: Tensor  # [B,S,H,W] bool
    extrinsic: Tensor  # [B,S,3,4]
    intrinsic: Tensor  # [B,S,3,3]


def quaternion_from_rotation(rotation: Tensor) -> Tensor:
    """Unit quaternions xyzw [...,4] with w >= 0 from rotation matrices [...,3,3].

    4·q·qᵀ is linear in the matrix; its column of largest diagonal is free of cancellation.
    """
    m = rotation
    difference = m - m.mT
    skew = torch.stack([difference[..., 2, 1], difference[..., 0, 2], difference[..., 1, 0]], -1)  # [...,3]
    trace = m.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]  # [...,1,1]
    vector = m + m.mT + torch.eye(3, device=m.device) * (1 - trace)  # [...,3,3]
    upper = torch.cat([vector, skew[..., None]], -1)  # [...,3,4]
    lower = torch.cat([skew[..., None, :], 1 + trace], -1)  # [...,1,4]
    outer = torch.cat([upper, lower], -2)  # [...,4,4]
    best = outer.diagonal(dim1=-2, dim2=-1).argmax(-1)  # [...]
    q = outer.gather(-2, best[..., None, None].expand(*best.shape, 1, 4)).squeeze(-2)
    q = q / q.norm(dim=-1, keepdim=True)
    return torch.where(q[..., 3:] < 0, -q, q)


def sampled(x: Tensor, patch: int) -> Tensor:
    """Every second half patch of [B,S,H,W,...], two samples a patch and axis: [B,S,h,w,...]."""
    first, step = patch // 4, patch // 2
    return x[:, :, first::step, first::step]


def make_targets(batch, patch: int) -> Targets:
    """Targets of a `scenes.Batch`."""
    H, W = batch.depth.shape[-2:]
    points = batch.points()  # [B,S,H,W,3]
    near, seen = sampled(points, patch), sampled(batch.valid, patch)
    total = (near.norm(dim=-1) * seen).sum((1, 2, 3))
    scale = (total / seen.sum((1, 2, 3)).clamp_min(1)).clamp_min(0.05)  # [B]
    extrinsic = batch.extrinsic.clone()
    extrinsic[..., 3] /= scale[:, None, None]
    fov_h = 2 * (H / 2 / batch.intrinsic[..., 1, 1]).atan()
    fov_w = 2 * (W / 2 / batch.intrinsic[..., 0, 0]).atan()
    quaternion = quaternion_from_rotation(extrinsic[..., :3])
    pose = torch.cat([extrinsic[..., 3], quaternion, fov_h[..., None], fov_w[..., None]], -1)
    scale = scale[:, None, None, None]
    return Targets(
        pose, batch.depth / scale, points / scale[..., None], batch.valid, extrinsic, batch.intrinsic
    )


def in_first_view(targets: Targets, patch: int) -> tuple[Tensor, Tensor]:
    """Where the first camera would see each frame's sampled points, hidden or not.

    Positions [B,S,h,w,2] from the middle of its image, in halves of the longer side, and which are within it, or
    nearly: [B,S,h,w] bool.
    """
    H, W = targets.depth.shape[2:]
    points, half = sampled(targets.points, patch), max(H, W) / 2
    focal = targets.intrinsic[:, 0].diagonal(dim1=-2, dim2=-1)[:, None, None, None, :2] / half  # [B,1,1,1,2]
    position = focal * points[..., :2] / points[..., 2:].clamp_min(1e-3)
    across, down = position.abs().unbind(-1)
    inside = (across < 0.6 * W / half) & (down < 0.6 * H / half) & (points[..., 2] > 0.02)
    return position, inside & sampled(targets.valid, patch)


@dataclasses.dataclass
class Matches:
    """Where each patch's four sampled points are seen in one other frame per head."""

    keys: Tensor  # [K,S] the frame looked into
    patches: Tensor  # [K,B,S,Q,4] patch in that frame
    weights: Tensor  # [K,B,S,Q,4] 1 where the point is seen there, else 0


def by_patch(x: Tensor) -> Tensor:
    """[...,2·rows,2·columns] samples to [...,rows·columns,4]."""
    rows, columns = x.shape[-2] // 2, x.shape[-1] // 2
    x = x.unflatten(-1, (columns, 2)).unflatten(-3, (rows, 2))  # [...,rows,2,columns,2]
    return x.transpose(-3, -2).flatten(-2).flatten(-3, -2)


def find_matches(targets: Targets, patch: int, keys: Tensor) -> Matches:
    """Head k of frame s looks into frame keys[k,s]."""
    H, W = targets.depth.shape[2:]
    frames = torch.arange(keys.shape[1], device=keys.device)
    points = sampled(targets.points, patch).flatten(2, 3)  # [B,S,n,3]
    extrinsic, intrinsic = targets.extrinsic[:, keys], targets.intrinsic[:, keys]  # [B,K,S,...]
    seen_from = torch.einsum("bksij,bsnj->bksni", extrinsic[..., :3], points)
    seen_from = seen_from + extrinsic[..., None, :, 3]  # [B,K,S,n,3]
    z = seen_from[..., 2]
    pixel = torch.einsum("bksij,bksnj->bksni", intrinsic, seen_from)[..., :2]
    u, v = (pixel / z.clamp_min(1e-3)[..., None]).unbind(-1)  # [B,K,S,n]
    u, v = u.round(), v.round()  # the pixel that is hit
    inside = (z > 0.02) & (u >= 0) & (u < W) & (v >= 0) & (v < H)
    u, v = u.clamp(0, W - 1).long(), v.clamp(0, H - 1).long()
    there = targets.depth.flatten(2)[:, keys].gather(3, v * W + u)  # [B,K,S,n]
    valid = sampled(targets.valid, patch).flatten(2)[:, None] & (keys != frames)[:, :, None]
    weights = inside & valid & ((there - z).abs() < VISIBLE * z)
    rows, columns = H // patch, W // patch
    shape = (2 * rows, 2 * columns)
    found = torch.stack([(v // patch) * columns + u // patch, weights.long()])  # [2,B,K,S,n]
    found = by_patch(found.unflatten(-1, shape)).transpose(1, 2)  # [2,K,B,S,Q,4]
    return Matches(keys, found[0], found[1].float())
