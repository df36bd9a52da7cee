"""Trains the refiner of depth on rendered scenes, whose depth the given network estimates."""

import math
import time
from pathlib import Path

import scenes
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from .adjusted import Adjusted, adjusted
from .config import Config
from .dpt_head import activate_depth
from .files import REFINER, write_atomically
from .log import Log
from .model import Vggt
from .processes import Processes
from .recorded import Recorded
from .refiner import BLOCK, SOURCES, Refined, Refiner

FRAMES = 8  # of a scene
DRAWN = 16  # steps whose scenes are drawn at once
SIZE, ENLARGED = (168, 224), (252, 336)  # H, W
SEED = scenes.TRAIN.start + 991
AVERAGE = 0.998
LOG_STEPS, TICK_STEPS, WARMUP_STEPS, SAVE_STEPS = 100, 4, 200, 1000


def network_of(weights: Path, device: str) -> Vggt:
    """The network of a TorchScript archive, without the heads that depth does not need."""
    model = Vggt(Config.of_weights(weights), points=False)
    tensors = torch.jit.load(weights, map_location="cpu").state_dict()
    model.load_state_dict({name: tensors[name].float() for name in model.state_dict()})
    return model.to(device).eval()


class Imitated:
    """Scenes that are rendered, and estimated by the network. What the program makes of that is imitated."""

    def __init__(self, model: Vggt, count: int, processes: Processes, seen: int):
        """count: of a step. seen: so many of all scenes do not come."""
        self.model, self.count, self.processes, self.seen = model, count, processes, seen
        self.drawn, self.steps = {}, 0

    def table(self) -> dict[str, Tensor]:
        """What the next scenes are drawn by."""
        place, own = self.steps % DRAWN, DRAWN * self.count
        if place == 0:
            first = self.seen + self.processes.rank * own
            self.drawn = scenes.draw(SEED, first, own, FRAMES, size=SIZE, device=self.processes.device)
            self.seen += self.processes.count * own
        self.steps += 1
        return scenes.select(self.drawn, slice(place * self.count, (place + 1) * self.count))

    @torch.no_grad()
    def scene(self, table: dict[str, Tensor], roughness: Tensor) -> Adjusted:
        """roughness: deviation of smooth errors that some scenes get on top."""
        batch = scenes.render(table, samples=2).resized(ENLARGED)
        device = batch.images.device
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            raw = self.model(batch.images.float()).depth
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


def losses(
    found: Refined, scene: Adjusted, references: Tensor, offsets: Tensor, sharpness: Tensor
) -> dict[str, Tensor]:
    """before, after: mean errors of the depth's logarithm; relative: of depth; blocks: both together, before pixels are
    told apart; match: cross-entropy of where features are most alike."""
    true, valid = scene.truth[references].clamp_min(1e-6).log(), scene.valid[references] & (scene.truth[references] > 0)
    middle = (slice(None), slice(1, None, BLOCK), slice(1, None, BLOCK))
    off = true[middle] - found.given
    alike = (found.alike * found.inside).sum(1) / (found.inside.sum(1) + 0.1) * F.softplus(sharpness)  # [R,n,D]
    right = (-(offsets - off.flatten(1)[..., None]).abs() / (0.004 + 0.2 * off.flatten(1)[..., None].abs())).softmax(-1)
    told = valid[middle].flatten(1) * found.inside.amax(1).amax(-1) * (off.flatten(1).abs() < offsets.max())

    def mean(values: Tensor, mask: Tensor) -> Tensor:
        return (values * mask).sum() / mask.sum().clamp_min(1)

    def relative(logs: Tensor) -> Tensor:
        return torch.expm1(logs.clamp_max(2)).abs()

    after, blocks = found.logs - true, found.blocks - true[middle]
    return {
        "before": mean((scene.frames.depth[references].log() - true).abs(), valid),
        "after": mean(after.abs(), valid),
        "relative": mean(relative(after), valid),
        "blocks": mean(blocks.abs() + relative(blocks), valid[middle]) / 2,
        "match": mean(-(right * alike.float().log_softmax(-1)).sum(-1), told),
    }


class Gradients:
    """Those of a step, in one buffer. On a GPU a step is recorded once and replayed, as in gradients.py."""

    def __init__(self, source: Imitated | Recorded, refiner: Refiner, processes: Processes, compiled: bool):
        device = processes.device
        self.source, self.refiner, self.processes = source, refiner, processes
        self.refine = torch.compile(refiner) if compiled else refiner
        self.sharpness = torch.nn.Parameter(torch.tensor(10.0, device=device))  # of losses(), learned too
        self.params = [*refiner.parameters(), self.sharpness]
        self.buffer = torch.zeros(sum(p.numel() for p in self.params), device=device)
        for p, part in zip(self.params, self.buffer.split([p.numel() for p in self.params])):
            p.grad = part.view_as(p)
        self.roughness = torch.zeros((), device=device)
        self.graph, self.given, self.parts = None, {}, {}

    def __call__(self, table: dict[str, Tensor], roughness: float) -> dict[str, Tensor]:
        """Leaves in the buffer what all processes' gradients are in the mean, at most 1 long; returns the losses."""
        self.roughness.fill_(roughness)
        if self.processes.device.type != "cuda":
            parts = self._compute(table)
        else:
            if self.graph is None:
                self._record(table)
            for name, tensor in table.items():
                self.given[name].copy_(tensor)
            self.graph.replay()
            parts = {name: part.clone() for name, part in self.parts.items()}
        if self.processes.count > 1:
            dist.all_reduce(self.buffer)
            self.buffer /= self.processes.count
        self.buffer.nan_to_num_(0, 0, 0)
        self.buffer /= self.buffer.norm().clamp_min(1)
        return parts

    def _compute(self, table: dict[str, Tensor]) -> dict[str, Tensor]:
        kind = self.processes.device.type
        scene = self.source.scene(table, self.roughness)
        references = torch.arange(len(scene.truth), device=self.processes.device)
        self.buffer.zero_()
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            found = self.refine(scene.frames, references, with_fewer(scene.sources(SOURCES), scene.per_scene))
        parts = losses(found, scene, references, self.refiner.offsets, self.sharpness)
        error = (parts["after"] + parts["relative"]) / 2
        (error + 0.3 * parts["blocks"] + 0.2 * parts["match"]).backward()
        return {name: part.detach() for name, part in parts.items()}

    def _record(self, table: dict[str, Tensor]) -> None:
        self.given = {name: tensor.clone() for name, tensor in table.items()}
        now, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(now)
        with torch.cuda.stream(side):
            for _ in range(2):
                self._compute(self.given)  # compiles, and fills caches
        now.wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.parts = self._compute(self.given)


class Training:
    """A refiner and its moving average."""

    def __init__(self, weights: Path, count: int, processes: Processes, start: Path | None, recorded: Path | None,
                 compiled: bool):
        """count: scenes of a process's step. start: what `save` wrote; scenes that it has seen do not come again.
        recorded: folder of scenes to learn from instead."""
        device = processes.device
        torch.manual_seed(SEED)
        self.refiner, seen = Refiner().initialise(), 0
        if start:
            tensors = {name.removeprefix(REFINER): tensor.float() for name, tensor in load_file(start).items()}
            self.refiner.load_state_dict(tensors)
            with safe_open(start, "pt") as file:
                seen = int((file.metadata() or {}).get("scenes", 0))
        self.state = self.refiner.to(device).state_dict()
        self.average = {name: tensor.clone() for name, tensor in self.state.items()}
        if recorded:
            self.source = Recorded(recorded, count, processes, seen)
        else:
            self.source = Imitated(network_of(weights, str(device)), count, processes, seen)
        self.gradients = Gradients(self.source, self.refiner, processes, compiled)
        fused = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(self.gradients.params, betas=(0.9, 0.98), weight_decay=1e-3, fused=fused)
        self.processes, self.steps = processes, 0
        torch.manual_seed(SEED + seen + processes.rank)

    def step(self, rate: float, roughness: float) -> dict[str, Tensor]:
        parts = self.gradients(self.source.table(), roughness)
        self.steps += 1
        self.optimiser.param_groups[0]["lr"] = rate * min(1, self.steps / WARMUP_STEPS)
        self.optimiser.step()
        weight = 1 - min(AVERAGE, self.steps / (self.steps + 9))
        torch._foreach_lerp_(list(self.average.values()), list(self.state.values()), weight)
        return parts

    def save(self, path: Path) -> None:
        """The average in fp16, by the names that it has among weights."""
        if self.processes.first:
            tensors = {REFINER + name: tensor.half().cpu().contiguous() for name, tensor in self.average.items()}
            write_atomically(path, lambda target: save_file(tensors, target, {"scenes": str(self.source.seen)}))


def train(training: Training, out: Path, minutes: float, rate: float, progress: tuple[float, float]) -> None:
    """Writes OUT/refiner.safetensors and OUT/log.jsonl. progress: the part of the schedule that the minutes are."""
    processes, (done, end) = training.processes, progress
    log, sums, began = Log(out / "log.jsonl", processes.first), {}, 0.0
    while done < end:
        parts = training.step(rate * (0.5 + 0.5 * math.cos(math.pi * done)), 0.05 * max(0.3, 1 - done / 0.6))
        sums = {name: sums.get(name, 0) + value for name, value in parts.items()}
        if training.steps == 1:  # is compiled and recorded
            processes.synchronise()
            began = time.monotonic()
        if training.steps % TICK_STEPS == 0:
            processes.synchronise()
            past = processes.shared((time.monotonic() - began) / 60 / minutes)
            done = progress[0] + (end - progress[0]) * past
        if training.steps % LOG_STEPS == 0:
            log.write({"step": training.steps} | {name: float(value) / LOG_STEPS for name, value in sums.items()})
            sums = {}
        if training.steps % SAVE_STEPS == 0:
            training.save(out / "refiner.safetensors")
    training.save(out / "refiner.safetensors")
