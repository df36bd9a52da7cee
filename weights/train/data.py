"""Rendered batches. What a step sees depends on its number alone, so that a run can go on anywhere."""

import dataclasses
import random

import scenes
import torch

from .objective import Draw
from .processes import Processes
from .settings import Settings, parse_size


@dataclasses.dataclass(frozen=True)
class Shape:
    size: tuple[int, int]  # H, W
    frames: int
    scenes: int

    @classmethod
    def make(cls, size: tuple[int, int], frames: int, pixels: int) -> "Shape":
        return cls(size, frames, max(1, round(pixels / (size[0] * size[1] * frames))))


def shapes(settings: Settings) -> dict[Shape, float]:
    """Every shape of batch that a run may draw, with its weight."""
    data = settings.data
    return {
        Shape.make(parse_size(size), frames, data.pixels): a * b
        for size, a in data.sizes.items()
        for frames, b in data.frames.items()
    }


class Batches:
    def __init__(self, settings: Settings, processes: Processes):
        self.settings, self.processes = settings, processes
        self.shapes = shapes(settings)
        # Scenes set aside for a step of one process, whatever its shape: no scene is seen twice.
        self.stride = max(shape.scenes for shape in self.shapes)
        self.drawn_as, self.drawn = None, None

    def _chance(self, kind: int, number: int) -> random.Random:
        return random.Random((self.settings.data.seed * 2 + kind) << 40 | number)

    def shape(self, step: int) -> Shape:
        """The same in all processes."""
        chance = self._chance(0, step // self.settings.data.group)
        return chance.choices(list(self.shapes), list(self.shapes.values()))[0]

    def rehearsal(self, shape: Shape) -> tuple[scenes.Batch, Draw]:
        """A batch of this shape that is not for learning."""
        frames = self._dense_frames(shape, random.Random(0))
        draw = Draw(frames, [1] * (self.settings.loss.match_heads - 1))
        return self._render(self._draw(shape, 0, shape.scenes)), draw

    def _draw(self, shape: Shape, first: int, count: int) -> dict[str, torch.Tensor]:
        return scenes.draw(
            self.settings.data.seed, first, count, shape.frames, size=shape.size, device=self.processes.device
        )

    def _render(self, parameters: dict[str, torch.Tensor]) -> scenes.Batch:
        batch = scenes.render(parameters, samples=self.settings.data.samples)
        if self.settings.data.blank:
            batch.images = torch.full_like(batch.images, 0.5)
        return batch

    def batch(self, step: int) -> scenes.Batch:
        """This process's batch [B,S,...] of a step; the scenes of a group of steps are drawn at once."""
        shape, size = self.shape(step), self.settings.data.group
        group, place = divmod(step, size)
        first = (group * self.processes.count + self.processes.rank) * self.stride * size
        if self.settings.data.scenes:
            first %= self.settings.data.scenes
        if self.drawn_as != (shape, first):
            self.drawn = self._draw(shape, first, shape.scenes * size)
            self.drawn_as = (shape, first)
        part = slice(place * shape.scenes, (place + 1) * shape.scenes)
        return self._render(scenes.select(self.drawn, part))

    def chance(self, step: int) -> Draw:
        """What the losses leave to chance; another draw for each process."""
        shape, chance = self.shape(step), self._chance(1, step * self.processes.count + self.processes.rank)
        others = range(self.settings.loss.match_heads - 1)
        offsets = [chance.randrange(1, max(shape.frames, 2)) for _ in others]
        return Draw(self._dense_frames(shape, chance), offsets)

    def _dense_frames(self, shape: Shape, chance: random.Random) -> torch.Tensor:
        total = shape.scenes * shape.frames
        count = max(1, int(total * self.settings.loss.dense_share))
        frames = torch.tensor(sorted(chance.sample(range(total), count)))
        return frames.to(self.processes.device)
