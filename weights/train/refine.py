"""Trains the refiner of depth on rendered scenes, whose depth the given network estimates."""

import math
import time
from pathlib import Path

import scenes
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from .adjusted import Adjusted, adjusted
from .config import Config
from .dpt_head import activate_depth
from .files import REFINER, write_atomically
from .log import Log
from .model import Vggt
from .refiner import BLOCK, SOURCES, Refined, Refiner

FRAMES = 8  # of a scene
DRAWN = 8  # steps whose scenes are drawn at once
SIZE, ENLARGED = (168, 224), (252, 336)  # H, W
SEED = scenes.TRAIN.start + 991
AVERAGE = 0.998
LOG_STEPS = 100


def network_of(weights: Path, device: str) -> Vggt:
    """The network of a TorchScript archive, without the heads that depth does not need."""
    model = Vggt(Config.of_weights(weights), points=False)
    tensors = torch.jit.load(weights, map_location="cpu").state_dict()
    model.load_state_dict({name: tensors[name].float() for name in model.state_dict()})
    return model.to(device).eval()


@torch.no_grad()
def scene_batch(model: Vggt, table: dict[str, Tensor], roughness: float) -> Adjusted:
    """Rendered, estimated and adjusted scenes. roughness: deviation of smooth errors that some get on top."""
    batch = scenes.render(table, samples=2).resized(ENLARGED)
    device = batch.images.device
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        raw = model(batch.images.float()).depth
    depth, confidence = activate_depth(raw.float())
    found = adjusted(batch, depth.view_as(batch.depth), confidence.view_as(batch.depth))
    B, S = batch.depth.shape[:2]
    amount = roughness * torch.rand(B, 1, 1, 1, device=device) * (torch.rand(B, 1, 1, 1, device=device) < 0.6)
    bumps = F.interpolate(torch.randn(B, S, 4, 5, device=device), ENLARGED, mode="bicubic")
    found.frames.depth = found.frames.depth * (bumps * amount).flatten(0, 1).exp()
    return found


def with_fewer(sources: Tensor, per_scene: int) -> Tensor:
    """The sources of some scenes without their last ones."""
    N, K = sources.shape
    B, device = N // per_scene, sources.device
    count = torch.where(torch.rand(B, device=device) < 0.3, torch.randint(1, K + 1, (B,), device=device), K)
    return torch.where(torch.arange(K, device=device) < count.repeat_interleave(per_scene)[:, None], sources, -1)


def losses(found: Refined, scene: Adjusted, references: Tensor, offsets: Tensor, sharpness: Tensor) -> dict[str, Tensor]:
    """before, after: mean errors of the depth's logarithm; blocks: before pixels are told apart; match: cross-entropy
    of where features are most alike."""
    true, valid = scene.truth[references].clamp_min(1e-6).log(), scene.valid[references] & (scene.truth[references] > 0)
    middle = (slice(None), slice(1, None, BLOCK), slice(1, None, BLOCK))
    off = true[middle] - found.given
    alike = (found.alike * found.inside).sum(1) / (found.inside.sum(1) + 0.1) * F.softplus(sharpness)  # [R,n,D]
    right = (-(offsets - off.flatten(1)[..., None]).abs() / (0.004 + 0.2 * off.flatten(1)[..., None].abs())).softmax(-1)
    told = valid[middle].flatten(1) * found.inside.amax(1).amax(-1) * (off.flatten(1).abs() < offsets.max())

    def mean(values: Tensor, mask: Tensor) -> Tensor:
        return (values * mask).sum() / mask.sum().clamp_min(1)

    return {
        "before": mean((scene.frames.depth[references].log() - true).abs(), valid),
        "after": mean((found.logs - true).abs(), valid),
        "blocks": mean((found.blocks - true[middle]).abs(), valid[middle]),
        "match": mean(-(right * alike.float().log_softmax(-1)).sum(-1), told),
    }


def train(weights: Path, out: Path, minutes: float, rate: float, count: int, device: str, start: Path | None,
          compiled: bool) -> None:
    """Writes OUT/refiner.safetensors, the moving average in fp16, with the names it has among the weights."""
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    model = network_of(weights, device)
    refiner = Refiner().to(device)
    if start:
        tensors = {name.removeprefix(REFINER): tensor.float() for name, tensor in load_file(start).items()}
        refiner.load_state_dict(tensors)
    refine = torch.compile(refiner) if compiled else refiner
    sharpness = torch.nn.Parameter(torch.tensor(3.0, device=device))
    average = {name: tensor.detach().clone() for name, tensor in refiner.state_dict().items()}
    optimiser = torch.optim.AdamW([*refiner.parameters(), sharpness], rate, betas=(0.9, 0.98), weight_decay=1e-3)
    log, sums, step, began = Log(out / "log.jsonl", True), {}, 0, time.monotonic()
    while (done := (time.monotonic() - began) / 60 / minutes) < 1:
        if step % DRAWN == 0:
            table = scenes.draw(SEED, step * count, DRAWN * count, FRAMES, size=SIZE, device=device)
        part = scenes.select(table, slice(step % DRAWN * count, (step % DRAWN + 1) * count))
        scene = scene_batch(model, part, 0.05 * max(0.3, 1 - done / 0.6))
        references = torch.arange(count * FRAMES, device=device)
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * done))
        kind = torch.device(device).type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            found = refine(scene.frames, references, with_fewer(scene.sources(SOURCES), FRAMES))
        parts = losses(found, scene, references, refiner.offsets, sharpness)
        loss = parts["after"] + 0.3 * parts["blocks"] + 0.2 * parts["match"]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(refiner.parameters(), 1.0)
        if torch.isfinite(norm):
            optimiser.step()
        step += 1
        with torch.no_grad():
            for name, tensor in refiner.state_dict().items():
                average[name].lerp_(tensor, 1 - min(AVERAGE, step / (step + 9)))
        sums = {name: sums.get(name, 0) + value.detach() for name, value in parts.items()}
        if step % LOG_STEPS == 0:
            log.write({"step": step} | {name: float(value) / LOG_STEPS for name, value in sums.items()})
            sums = {}
    tensors = {REFINER + name: tensor.half().cpu().contiguous() for name, tensor in average.items()}
    write_atomically(out / "refiner.safetensors", lambda path: save_file(tensors, path))
