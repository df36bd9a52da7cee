"""Scenes that are rendered, and whose depth the network estimates and an imitation of the program adjusts."""

from pathlib import Path

import scenes
import torch
import torch.nn.functional as F
from torch import Tensor

from .adjusted import Adjusted, adjusted
from .config import Config
from .dpt_head import activate_depth
from .model import Vggt
from .objective import compile_parts
from .processes import Processes

FRAMES = 8  # of a scene
DRAWN = 16  # steps whose scenes are drawn at once
SIZE, ENLARGED = (168, 224), (252, 336)  # H, W
SEED = scenes.TRAIN.start + 991


def network_of(weights: Path, device: torch.device, compiled: bool) -> Vggt:
    """The network of a TorchScript archive, without the heads that depth does not need."""
    model = Vggt(Config.of_weights(weights), points=False)
    tensors = torch.jit.load(weights, map_location="cpu").state_dict()
    model.load_state_dict({name: tensors[name].float() for name in model.state_dict()})
    if compiled:
        compile_parts(model)
    return model.to(device).eval()


class Imitated:
    """Scenes that are rendered, and estimated by the network. What the program makes of that is imitated."""

    def __init__(self, model: Vggt, count: int, processes: Processes, seen: int):
        """count: of a step. seen: so many of all scenes do not come."""
        self.model, self.count, self.processes, self.seen = model, count, processes, seen
        self.drawn, self.steps = {}, 0

    def table(self, done: float) -> dict[str, Tensor]:
        """What the next scenes are drawn by, and `roughness`, the deviation of smooth errors that some get on top.

        done: the part of the training that is past.
        """
        place, own = self.steps % DRAWN, DRAWN * self.count
        if place == 0:
            first = self.seen + self.processes.rank * own
            self.drawn = scenes.draw(SEED, first, own, FRAMES, size=SIZE, device=self.processes.device)
            self.seen += self.processes.count * own
        self.steps += 1
        table = scenes.select(self.drawn, slice(place * self.count, (place + 1) * self.count))
        return table | {"roughness": torch.full((), 0.05 * max(0.3, 1 - done / 0.6), device=self.processes.device)}

    @torch.no_grad()
    def scene(self, table: dict[str, Tensor]) -> Adjusted:
        batch = scenes.render(table, samples=2).resized(ENLARGED)
        device = batch.images.device
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            raw = self.model(batch.images.float()).depth
        depth, confidence = activate_depth(raw.float())
        found = adjusted(batch, depth.view_as(batch.depth), confidence.view_as(batch.depth))
        B, S = batch.depth.shape[:2]
        amount = table["roughness"] * torch.rand(B, 1, 1, 1, device=device)
        amount = amount * (torch.rand(B, 1, 1, 1, device=device) < 0.6)
        bumps = F.interpolate(torch.randn(B, S, 4, 5, device=device), ENLARGED, mode="bicubic")
        found.frames.depth = found.frames.depth * (bumps * amount).flatten(0, 1).exp()
        return found
