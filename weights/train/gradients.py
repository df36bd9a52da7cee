"""Gradients of one step: render, look, compare, go back. On a GPU recorded once per shape and replayed.

A step launches thousands of kernels, which takes the host longer than the GPU needs to run them.
"""

import dataclasses
from collections.abc import Callable

import scenes
import torch
from torch import Tensor

from .data import Shape
from .objective import Draw, Objective
from .processes import Processes
from .settings import Settings


@dataclasses.dataclass
class Recording:
    graph: torch.cuda.CUDAGraph
    parameters: dict[str, Tensor]  # what is read when it is replayed
    draw: Draw
    parts: dict[str, Tensor]  # what is written


def gradient_buffer(params: list[Tensor], device: torch.device) -> Tensor:
    """Zeros, one after another the gradients of the parameters from now on."""
    buffer = torch.zeros(sum(p.numel() for p in params), device=device)
    for p, part in zip(params, buffer.split([p.numel() for p in params])):
        p.grad = part.view_as(p)
    return buffer


def captured(compute: Callable[[], dict[str, Tensor]], pool=None) -> tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]:
    """A graph that does what `compute` does, and the tensors that its replay writes; computes once before."""
    now, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(now)
    with torch.cuda.stream(side):
        compute()  # compiles, and fills caches
    now.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog asks for events from a thread of its own.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        parts = compute()
    return graph, parts


class Gradients:
    """All gradients lie in one buffer, where they are summed over the processes in one call."""

    def __init__(self, settings: Settings, objective: Objective, params: list[Tensor], processes: Processes):
        self.settings, self.objective, self.processes = settings, objective, processes
        self.buffer = gradient_buffer(params, processes.device)
        self.records = settings.compile and processes.device.type == "cuda"
        self.recordings: dict[tuple[Shape, bool], Recording] = {}
        self.pool = torch.cuda.graph_pool_handle() if self.records else None
        self.match_weight = torch.zeros((), device=processes.device)

    def is_new(self, shape: Shape, matching: bool) -> bool:
        """Whether the next call will record."""
        return self.records and (shape, matching) not in self.recordings

    def __call__(self, shape: Shape, parameters: dict[str, Tensor], draw: Draw, match_weight: float) -> dict:
        """Leaves the gradients of a batch, drawn as `scenes` draws it, in the buffer; returns the loss's parts."""
        matching = match_weight > 0
        self.match_weight.fill_(match_weight)
        if not self.records:
            parts = self._compute(shape, parameters, draw.to(self.processes.device), matching)
        else:
            if self.is_new(shape, matching):
                self.recordings[shape, matching] = self._record(shape, parameters, draw, matching)
            parts = self._replay(self.recordings[shape, matching], parameters, draw)
        self.processes.average(self.buffer)
        return parts

    def _compute(self, shape: Shape, parameters: dict[str, Tensor], draw: Draw, matching: bool) -> dict[str, Tensor]:
        batch = scenes.render(parameters, samples=self.settings.data.samples).resized(shape.size)
        if self.settings.data.blank:
            batch.images = torch.full_like(batch.images, 0.5)
        self.buffer.zero_()
        loss, parts = self.objective(batch, draw, self.match_weight if matching else None)
        loss.backward()
        return parts

    def _record(
        self, shape: Shape, parameters: dict[str, Tensor], draw: Draw, matching: bool
    ) -> Recording:
        given = {name: table.clone() for name, table in parameters.items()}
        draw = draw.to(self.processes.device)
        graph, parts = captured(lambda: self._compute(shape, given, draw, matching), self.pool)
        return Recording(graph, given, draw, parts)

    @staticmethod
    def _replay(recording: Recording, parameters: dict[str, Tensor], draw: Draw) -> dict[str, Tensor]:
        for name, table in parameters.items():
            recording.parameters[name].copy_(table)
        recording.draw.frames.copy_(draw.frames, non_blocking=True)
        recording.draw.keys.copy_(draw.keys, non_blocking=True)
        recording.graph.replay()
        return {name: part.clone() for name, part in recording.parts.items()}
