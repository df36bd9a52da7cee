"""Trains the refiner of depth on rendered scenes, whose depth the given network estimates."""

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from .adjusted import Adjusted
from .files import REFINER, load_refiner, write_atomically
from .gradients import captured, gradient_buffer
from .imitated import SEED, Imitated, network_of
from .log import Log
from .processes import Clock, Processes
from .recorded import Recorded
from .refiner import BLOCK, SOURCES, Refined, Refiner

AVERAGE = 0.998
# The relative error's weight in the loss; the rest is the error of the depth's logarithm. A larger one lowers the
# relative error, but takes gaps between bars for near, which moves a scene's median depth.
RELATIVE = 0.3
LOG_STEPS, TICK_STEPS, WARMUP_STEPS, SAVE_STEPS = 100, 4, 200, 1000


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
    off = (true[middle] - found.given).flatten(1)  # [R,n]
    alike = (found.alike * found.inside).sum(1) / (found.inside.sum(1) + 0.1) * F.softplus(sharpness)  # [R,n,D]
    right = (-(offsets - off[..., None]).abs() / (0.004 + 0.2 * off[..., None].abs())).softmax(-1)
    told = valid[middle].flatten(1) * found.inside.amax(1).amax(-1) * (off > offsets.min()) * (off < offsets.max())

    def mean(values: Tensor, mask: Tensor) -> Tensor:
        return (values * mask).sum() / mask.sum().clamp_min(1)

    def relative(logs: Tensor) -> Tensor:
        return torch.expm1(logs.clamp_max(2)).abs()

    def both(logs: Tensor) -> Tensor:
        return torch.lerp(logs.abs(), relative(logs), RELATIVE)

    after, blocks = found.logs - true, found.blocks - true[middle]
    return {
        "before": mean((scene.frames.depth[references].log() - true).abs(), valid),
        "after": mean(after.abs(), valid),
        "relative": mean(relative(after), valid),
        "blocks": mean(both(blocks), valid[middle]),
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
        self.buffer = gradient_buffer(self.params, device)
        self.graph, self.given, self.parts = None, {}, {}

    def __call__(self, table: dict[str, Tensor]) -> dict[str, Tensor]:
        """Leaves in the buffer what all processes' gradients are in the mean, at most 1 long; returns the losses."""
        if self.processes.device.type != "cuda":
            parts = self._compute(table)
        else:
            if self.graph is None:
                self.given = {name: tensor.clone() for name, tensor in table.items()}
                self.graph, self.parts = captured(lambda: self._compute(self.given))
            for name, tensor in table.items():
                self.given[name].copy_(tensor)
            self.graph.replay()
            parts = {name: part.clone() for name, part in self.parts.items()}
        self.processes.average(self.buffer)
        self.buffer.nan_to_num_(0, 0, 0)
        self.buffer /= self.buffer.norm().clamp_min(1)
        return parts

    def _compute(self, table: dict[str, Tensor]) -> dict[str, Tensor]:
        kind = self.processes.device.type
        scene = self.source.scene(table)
        references = torch.arange(len(scene.truth), device=self.processes.device)
        sources = with_fewer(scene.sources(SOURCES), scene.per_scene)
        self.buffer.zero_()
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            found = self.refine(scene.frames, references, sources)
        parts = losses(found, scene, references, self.refiner.offsets, self.sharpness)
        error = torch.lerp(parts["after"], parts["relative"], RELATIVE)
        (error + 0.3 * parts["blocks"] + 0.2 * parts["match"]).backward()
        return {name: part.detach() for name, part in parts.items()}


class Training:
    """A refiner and its moving average."""

    def __init__(self, weights: Path, count: int, processes: Processes, initial: Path | None, folder: Path | None,
                 compiled: bool):
        """count: scenes of a process's step. initial: what `save` wrote, whose scenes do not come again, or weights
        with a refiner. folder: of recorded scenes to learn from instead."""
        device = processes.device
        torch.manual_seed(SEED)
        self.refiner, seen = Refiner().initialise(), 0
        if initial:
            tensors, seen = load_refiner(initial)
            expected = {name: tensor.shape for name, tensor in self.refiner.state_dict().items()}
            if {name: tensor.shape for name, tensor in tensors.items()} != expected:
                raise ValueError(f"{initial}: not a refiner, or one of another form")
            self.refiner.load_state_dict(tensors)
        self.state = self.refiner.to(device).state_dict()
        self.average = {name: tensor.clone() for name, tensor in self.state.items()}
        if folder:
            self.source = Recorded(folder, count, processes, seen)
        else:
            self.source = Imitated(network_of(weights, device, compiled), count, processes, seen)
        self.gradients = Gradients(self.source, self.refiner, processes, compiled)
        fused = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(self.gradients.params, betas=(0.9, 0.98), weight_decay=1e-3, fused=fused)
        self.processes, self.steps = processes, 0
        torch.manual_seed(SEED + seen + processes.rank)

    def step(self, rate: float, done: float) -> dict[str, Tensor]:
        parts = self.gradients(self.source.table(done))
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
    begin, end = progress
    log, clock = Log(out / "log.jsonl", training.processes.first), Clock(training.processes)
    sums, done = {}, begin
    while done < end:
        parts = training.step(rate * (0.5 + 0.5 * math.cos(math.pi * done)), done)
        sums = {name: sums.get(name, 0) + value for name, value in parts.items()}
        if training.steps == 1:  # is compiled and recorded
            clock.start()
        if training.steps % TICK_STEPS == 0:
            clock.tick()
            done = begin + (end - begin) * clock.seconds / 60 / minutes
        if training.steps % LOG_STEPS == 0:
            log.write({"step": training.steps} | {name: float(value) / LOG_STEPS for name, value in sums.items()})
            sums = {}
        if training.steps % SAVE_STEPS == 0:
            training.save(out / "refiner.safetensors")
    training.save(out / "refiner.safetensors")
