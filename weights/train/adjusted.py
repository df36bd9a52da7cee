"""What the program's adjustment makes of the network's depth and of cameras, imitated where the truth is known."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from .refiner import Frames, inverse_intrinsic

STEP = 4  # pixels between places that may be matched
REACH = 24  # pixels: deviation of the Gaussian that spreads what a match tells, as app/adjust/depth_correction.cpp
AGREEMENT, NEIGHBOUR = 0.1, 0.7  # of logarithms of two frames' depths, as there


@dataclasses.dataclass
class Adjusted:
    """B scenes of S frames, one after another."""

    frames: Frames
    truth: Tensor  # [N,H,W] depth in the frames' unit
    valid: Tensor  # [N,H,W]
    per_scene: int

    def sources(self, count: int) -> Tensor:
        """For each frame those of its scene that tell most of its depth, [N,count], -1 for none. The program
        (app/run/refine_depth.cpp) chooses so among those that matches link."""
        S, N = self.per_scene, len(self.truth)
        H, W = self.truth.shape[-2:]
        frame, other = self.pairs(range(S))
        seen = see(self.frames, self.frames.depth, frame, other, 16)
        farther = see(self.frames, self.frames.depth * 1.1, frame, other, 16)
        inside = seen.inside(H, W)
        move = ((farther.u - seen.u).square() + (farther.v - seen.v).square()).sqrt()
        told = (inside * (move / (move + 3))).mean(1)
        told[(frame == other) | (inside.float().mean(1) < 0.05)] = -1
        best, place = told.view(N, S).topk(min(count, S - 1), 1)
        return torch.where(best > 0.001, other.view(N, S).gather(1, place), -1)

    def pairs(self, steps: range) -> tuple[Tensor, Tensor]:
        """Each frame with those that come so many after it in its scene, around."""
        N, S = len(self.truth), self.per_scene
        frame = torch.arange(N, device=self.truth.device).repeat_interleave(len(steps))
        after = torch.arange(steps.start, steps.stop, device=frame.device).repeat(N)
        return frame, frame // S * S + (frame + after) % S


@dataclasses.dataclass
class Seen:
    """Where other frames see points: pixels and depth, [M,points]."""

    u: Tensor
    v: Tensor
    z: Tensor

    def inside(self, H: int, W: int) -> Tensor:
        return (self.z > 1e-3) & (self.u > 0) & (self.u < W - 1) & (self.v > 0) & (self.v < H - 1)

    def sample(self, maps: Tensor, mode: str) -> Tensor:
        """[M,points] of maps [M,H,W] there; beyond their rims anything."""
        H, W = maps.shape[-2:]
        grid = torch.stack([(self.u + 0.5) / W * 2 - 1, (self.v + 0.5) / H * 2 - 1], -1).clamp(-2, 2)
        return F.grid_sample(maps[:, None], grid[:, None], mode=mode, align_corners=False)[:, 0, 0]


def see(frames: Frames, depth: Tensor, frame: Tensor, other: Tensor, step: int) -> Seen:
    """Every step-th pixel, by row and column, of `frame` [M] as `other` [M] sees it."""
    H, W = depth.shape[-2:]
    rows, columns = (torch.arange(step // 2, n, step, device=depth.device) for n in (H, W))
    v, u = torch.meshgrid(rows, columns, indexing="ij")
    grid = torch.stack([u, v, torch.ones_like(u)]).flatten(1).float()
    transfer = frames.transfer(other, frame)
    rays = (transfer[:, :, :3] @ inverse_intrinsic(frames.intrinsic[frame])) @ grid  # [M,3,points]
    pixel = torch.addcmul(transfer[:, :, 3:], rays, depth[frame][:, v, u].flatten(1)[:, None])
    z = pixel[:, 2]
    return Seen(pixel[:, 0] / z.clamp_min(1e-4), pixel[:, 1] / z.clamp_min(1e-4), z)


def blurred(x: Tensor, deviation: float) -> Tensor:
    """Maps [N,h,w] after a Gaussian, 0 beyond the rims."""
    radius = int(3 * deviation)
    kernel = torch.arange(-radius, radius + 1, device=x.device) / deviation
    kernel = (-kernel.square() / 2).exp()
    kernel = kernel / kernel.sum()
    x = F.conv2d(F.pad(x[:, None], (0, 0, radius, radius)), kernel.view(1, 1, -1, 1))
    return F.conv2d(F.pad(x, (radius, radius, 0, 0)), kernel.view(1, 1, 1, -1))[:, 0]


def turned(vectors: Tensor) -> Tensor:
    """Rotations [...,3,3] about vectors [...,3] by their length in radians."""
    angle = vectors.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    x, y, z = (vectors / angle).unbind(-1)
    zero = torch.zeros_like(x)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))
    angle = angle[..., None]
    return torch.eye(3, device=vectors.device) + angle.sin() * cross + (1 - angle.cos()) * (cross @ cross)


def per_scene(draw: Tensor, S: int) -> Tensor:
    """Numbers [B] of scenes as [B·S,1,1] of their frames."""
    return draw.repeat_interleave(S)[:, None, None]


def scene_medians(values: Tensor, valid: Tensor, otherwise: float) -> Tensor:
    """[B] of every fourth row and column of [B,S,H,W]."""
    some = (..., slice(None, None, 4), slice(None, None, 4))
    median = values[some].masked_fill(~valid[some], torch.nan).flatten(1).nanmedian(1).values
    return torch.where(median.isnan(), otherwise, median)


@torch.no_grad()
def adjusted(batch, depth: Tensor, confidence: Tensor) -> Adjusted:
    """The network's depth [B,S,H,W] of a `scenes.Batch` as if it were adjusted to matches, with cameras a little off.

    Matches are drawn where another frame sees the same, more or fewer of them by scene, and are off by some noise.
    """
    B, S, H, W = depth.shape
    device = depth.device
    difference = batch.depth.clamp_min(1e-6).log() - depth.clamp_min(1e-6).log()
    scale = scene_medians(difference, batch.valid, 0.0)
    truth = (batch.depth / scale.exp()[:, None, None, None]).flatten(0, 1)
    extrinsic = batch.extrinsic.clone()
    extrinsic[..., 3] /= scale.exp()[:, None, None]
    frames = Frames(batch.images.float().flatten(0, 1), truth, confidence.flatten(0, 1), extrinsic.flatten(0, 1),
                    batch.intrinsic.flatten(0, 1).clone())
    scene = Adjusted(frames, truth, batch.valid.flatten(0, 1), S)
    frames.depth = depth.flatten(0, 1) * _bending(scene, difference - scale[:, None, None, None]).exp()
    _move_cameras(scene)
    frames.depth = _averaged(scene)
    return scene


def _bending(scene: Adjusted, difference: Tensor) -> Tensor:
    """What matches change of the depth's logarithm, [N,H,W]; difference: what would be right, [B,S,H,W]."""
    (B, S, H, W), device = difference.shape, difference.device
    shape = (len(scene.truth), (H + STEP // 2 - 1) // STEP, (W + STEP // 2 - 1) // STEP)
    seen = torch.zeros(shape, device=device)
    for step in range(1, S):
        frame, other = scene.pairs(range(step, step + 1))
        place = see(scene.frames, scene.truth, frame, other, STEP)
        there = place.sample(scene.truth[other], "nearest")
        seen += ((place.z > 1e-3) & ((there - place.z).abs() < 0.03 * place.z)).view(shape)
    here = (slice(None), slice(STEP // 2, None, STEP), slice(STEP // 2, None, STEP))
    right, valid = difference.flatten(0, 1)[here], scene.valid[here]
    share = per_scene(10 ** (torch.rand(B, device=device) * 1.5 - 2), S)  # .01 to .3
    noise = per_scene(10 ** (torch.rand(B, device=device) * 1.2 - 2.5), S) * torch.randn_like(right)
    matched = (torch.rand_like(right) < share * seen.clamp(max=3) / 3) & valid & (right.abs() < 0.7)
    weight = matched * torch.rand_like(right)
    deviation = REACH / STEP
    peak = 2 * torch.pi * deviation**2
    field = peak * blurred(weight * (right + noise), deviation) / (peak * blurred(weight, deviation) + 1)
    return F.interpolate(field[:, None], (H, W), mode="bilinear", align_corners=False)[:, 0]


def _move_cameras(scene: Adjusted) -> None:
    """Turns of .006 to .13°, in a twelfth of the scenes 15 times as much."""
    S, N, device = scene.per_scene, len(scene.truth), scene.truth.device
    B = N // S
    degrees = 10 ** (torch.rand(B, device=device) * 1.3 - 2.2)
    degrees = torch.where(torch.rand(B, device=device) < 0.08, degrees * 15, degrees)
    amount = per_scene(degrees, S)[:, 0]  # [N,1]
    distance = per_scene(scene_medians(scene.truth.unflatten(0, (B, S)), scene.valid.unflatten(0, (B, S)), 1.0), S)
    turn = turned(torch.randn(N, 3, device=device) * amount.deg2rad())
    extrinsic = turn @ scene.frames.extrinsic
    extrinsic[:, :, 3] += torch.randn(N, 3, device=device) * amount * 0.02 * distance[:, 0]
    scene.frames.extrinsic = extrinsic
    zoom = 1 + torch.randn(B, device=device) * degrees * 0.01
    scene.frames.intrinsic[:, :2, :2] *= per_scene(zoom, S)


def _averaged(scene: Adjusted) -> Tensor:
    """Each depth's mean with what the scene's other frames say, where both nearly agree."""
    depth = scene.frames.depth
    H, W = depth.shape[-2:]
    sums, weights = torch.zeros_like(depth), torch.ones_like(depth)
    for step in range(1, scene.per_scene):
        frame, other = scene.pairs(range(step, step + 1))
        place = see(scene.frames, depth, frame, other, 1)
        there = place.sample(depth[other], "bilinear")
        known = place.inside(H, W) & (there > 0)
        difference = torch.where(known, there.clamp_min(1e-6).log() - place.z.clamp_min(1e-6).log(), 9.0)
        weight = NEIGHBOUR * (-(difference / AGREEMENT).square()).exp()
        sums += (weight * difference).view_as(sums)
        weights += weight.view_as(weights)
    return (depth.log() + sums / weights).exp()
