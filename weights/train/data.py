"""Rendered batches. What a step sees depends on its number alone, so that a run can go on anywhere."""

import concurrent.futures
import dataclasses
import math
import random

import scenes
import torch
from torch import Tensor

from .objective import Draw
from .processes import Processes
from .settings import Settings, parse_sizes


@dataclasses.dataclass(frozen=True)
class Shape:
    rendered: tuple[int, int]  # H, W
    size: tuple[int, int]  # to which images are resized
    frames: int
    scenes: int


def shapes(settings: Settings) -> dict[Shape, float]:
    """Every shape of batch that a run may draw, with its weight. Batches of one size have equally many frames."""
    data, found = settings.data, {}
    unit = math.lcm(*data.frames)
    for text, a in data.sizes.items():
        rendered, size = parse_sizes(text)
        total = unit * max(1, round(data.pixels / (unit * size[0] * size[1])))
        found |= {Shape(rendered, size, frames, total // frames): a * b for frames, b in data.frames.items()}
    return found


class Batches:
    """Tables of scenes, drawn one group of steps ahead of their use: by a thread and, on a GPU, a stream of its own.

    Drawing is a thousand tiny launches, which would otherwise hold up the steps.
    """

    def __init__(self, settings: Settings, processes: Processes):
        self.settings, self.processes = settings, processes
        self.shapes = shapes(settings)
        # Scenes set aside for a step of one process, whatever its shape: no scene is seen twice.
        self.stride = max(shape.scenes for shape in self.shapes)
        self.drawer = concurrent.futures.ThreadPoolExecutor(1)
        self.stream = torch.cuda.Stream(processes.device) if processes.device.type == "cuda" else None
        self.ahead: dict[int, concurrent.futures.Future] = {}  # by group

    def _chance(self, kind: int, number: int) -> random.Random:
        return random.Random((self.settings.data.seed * 2 + kind) << 40 | number)

    def shape(self, step: int) -> Shape:
        """The same in all processes."""
        chance = self._chance(0, step // self.settings.data.group)
        return chance.choices(list(self.shapes), list(self.shapes.values()))[0]

    def parameters(self, step: int) -> dict[str, Tensor]:
        """This process's scenes of a step, as `scenes.draw` gives them."""
        group, place = divmod(step, self.settings.data.group)
        wanted = {number: self.ahead.get(number) for number in (group, group + 1)}
        self.ahead = {n: f or self.drawer.submit(self._draw, n) for n, f in wanted.items()}
        tables, drawn = self.ahead[group].result()
        if drawn is not None:
            now = torch.cuda.current_stream()
            now.wait_event(drawn)
            for table in tables.values():
                if table.is_cuda:
                    table.record_stream(now)
        count = self.shape(step).scenes
        return scenes.select(tables, slice(place * count, (place + 1) * count))

    def _draw(self, group: int) -> tuple[dict[str, Tensor], torch.cuda.Event | None]:
        """The tables of a group of steps, and when they are there."""
        data, device = self.settings.data, self.processes.device
        shape = self.shape(group * data.group)
        first = (group * self.processes.count + self.processes.rank) * self.stride * data.group
        if data.scenes:
            first %= data.scenes

        def draw() -> dict[str, Tensor]:
            count = shape.scenes * data.group
            return scenes.draw(data.seed, first, count, shape.frames, size=shape.rendered, device=device)

        if self.stream is None:
            return draw(), None
        with torch.cuda.device(device), torch.cuda.stream(self.stream):
            return draw(), self.stream.record_event()

    def chance(self, step: int) -> Draw:
        """What the losses leave to chance; another draw for each process."""
        shape, chance = self.shape(step), self._chance(1, step * self.processes.count + self.processes.rank)
        loss, S = self.settings.loss, shape.frames
        offsets = [chance.randrange(1, max(S, 2)) for _ in range(loss.match_heads - 1)]
        keys = torch.tensor([[0] * S] + [[(s + offset) % S for s in range(S)] for offset in offsets])
        total = shape.scenes * S
        count = max(1, int(total * loss.dense_share))
        points = min(count, max(1, int(total * loss.point_share)))
        return Draw(torch.tensor(chance.sample(range(total), count)), points, keys)
