"""Poses and depth on held-out scenes; `vggt-recon eval` measures files likewise."""

import dataclasses

import torch
from scenes import VALIDATION, draw, render
from torch import Tensor

from .camera_head import activate_pose, relative, rotation_from_quaternion
from .dpt_head import activate_depth
from .model import Vggt
from .processes import Processes

FAR = 60.0  # scene units; depth beyond does not count
THRESHOLDS = (5, 15, 30)


@dataclasses.dataclass(frozen=True)
class Case:
    """Which scenes. Frames of `size` are resized to what the network sees by default."""

    size: tuple[int, int] = (168, 224)
    frames: int = 8
    scenes: int = 256
    batch_frames: int = 128
    seed: int = VALIDATION.start
    path: str | None = None


def pair_errors(pose: Tensor, extrinsic: Tensor) -> tuple[Tensor, Tensor]:
    """Degrees of rotation and of (signed) translation direction per pair: two [B,pairs]."""
    turn, shift = relative(rotation_from_quaternion(pose[..., 3:7]), pose[..., :3])
    true_turn, true_shift = relative(extrinsic[..., :3], extrinsic[..., 3])
    cosine = ((turn * true_turn).sum((-1, -2)) - 1) / 2
    rotation = cosine.clamp(-1, 1).acos().rad2deg()
    lengths = shift.norm(dim=-1) * true_shift.norm(dim=-1)
    direction = (shift * true_shift).sum(-1) / lengths.clamp_min(1e-9)
    return rotation, direction.clamp(-1, 1).acos().rad2deg()


def area_under_curve(errors: Tensor, threshold: int) -> float:
    """Of the share of errors below 1°, 2°, ... threshold: the mean."""
    counts = errors.histc(threshold, 0, threshold)  # what is beyond is not counted
    return float((counts.cumsum(0) / errors.numel()).mean())


def depth_error(depth: Tensor, truth: Tensor, valid: Tensor) -> tuple[float, float]:
    """AbsRel and the share within 25 % of one scene's [S,H,W], after scaling to the median."""
    valid = valid & (truth > 0) & (truth < FAR)
    found, true = depth[valid], truth[valid]
    found = found * (true.median() / found.median())
    ratio = found / true
    return float((ratio - 1).abs().mean()), float((torch.maximum(ratio, 1 / ratio) < 1.25).float().mean())


@torch.no_grad()
def _measure(model: Vggt, case: Case, first: int, count: int, device: torch.device) -> dict[str, list[float]]:
    parameters = draw(
        case.seed, first, count, case.frames, size=case.size, device=device, path=case.path
    )
    batch = render(parameters, samples=2).resized(model.config.fitted(case.size))
    outputs = model(batch.images)
    rotation, direction = pair_errors(activate_pose(outputs.poses[-1]), batch.extrinsic)
    depth = activate_depth(outputs.depth)[0].view_as(batch.depth)
    errors = [depth_error(*scene) for scene in zip(depth, batch.depth, batch.valid)]
    absrel, within = zip(*errors)
    return {
        "rotation": rotation.flatten().tolist(),
        "direction": direction.flatten().tolist(),
        "absrel": list(absrel),
        "delta": list(within),
    }


def evaluate(model: Vggt, case: Case, processes: Processes) -> dict[str, float]:
    """AUC of the larger of both pose errors, their medians, depth errors; each process does a share."""
    step = max(1, case.batch_frames // case.frames)
    firsts = range(0, case.scenes, step)
    found: dict[str, list[float]] = {"rotation": [], "direction": [], "absrel": [], "delta": []}
    for first in firsts[processes.rank :: processes.count]:
        part = _measure(model, case, first, min(step, case.scenes - first), processes.device)
        for name, values in part.items():
            found[name] += values
    shares = processes.gathered(found)
    merged = {name: torch.tensor(sum((s[name] for s in shares), [])) for name in found}
    worst = torch.maximum(merged["rotation"], merged["direction"])
    result = {f"auc{t}": area_under_curve(worst, t) for t in THRESHOLDS}
    result["rotation_deg"] = float(merged["rotation"].quantile(0.5))
    result["direction_deg"] = float(merged["direction"].quantile(0.5))
    return result | {"absrel": float(merged["absrel"].mean()), "delta": float(merged["delta"].mean())}
