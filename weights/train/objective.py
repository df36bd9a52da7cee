"""The network with its training-only parts: a rendered batch in, the loss out."""

import dataclasses

import torch
import torch._inductor.config
from torch import Tensor, nn

from .aggregator import Layers, Projection
from .dpt_head import DptHead
from .layers import Block
from .losses import depth_loss, match_loss, pair_loss, point_loss, pose_loss, reading_loss
from .model import Vggt
from .settings import Settings
from .targets import Targets, by_patch, find_matches, in_first_view, make_targets, sampled


@dataclasses.dataclass
class Draw:
    """What one step leaves to chance."""

    frames: Tensor  # [F] frames within [B·S] that get dense maps
    points: int  # of these, the first so many get point maps too
    keys: Tensor  # [K,S] the frame that match head k of frame s looks into

    def to(self, device: torch.device) -> "Draw":
        return Draw(self.frames.to(device), self.points, self.keys.to(device))


class Reader(nn.Sequential):
    """A linear map of the patch tokens to vectors [B,S,Q,4,D] for their four samples."""

    def __init__(self, dim: int, special: int, size: int):
        super().__init__(nn.LayerNorm(2 * dim), nn.Linear(2 * dim, 4 * size))
        nn.init.zeros_(self[1].weight)  # a fresh one does not disturb tokens that are good already
        self.special = special

    def forward(self, frame: Tensor, whole: Tensor) -> Tensor:  # each [B,S,P,C]
        tokens = torch.cat([frame[:, :, self.special :], whole[:, :, self.special :]], -1)
        return super().forward(tokens).float().unflatten(-1, (4, -1))


def compile_parts(module: nn.Module) -> None:
    """Compiles what of a network repeats or is wide, each to one graph for all shapes."""
    torch._dynamo.config.recompile_limit = 64  # a few kinds of blocks and maps; the default is 8
    # In torch 2.11 it fails on some orders of shapes, and does nothing for dynamic ones.
    torch._inductor.config.triton.coalesce_tiling_analysis = False
    for part in module.modules():
        if isinstance(part, (Block, DptHead)):
            part.compile()
        elif isinstance(part, (Projection, Reader)):
            part.compile(dynamic=True)


class Objective(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.settings = settings
        self.model = Vggt(settings.model, settings.points).initialise()
        dim, special = settings.model.embed_dim, settings.model.special_tokens
        layers = settings.loss.auxiliary_layers
        self.auxiliary = nn.ModuleList(Reader(dim, special, 3) for _ in layers)
        self.sightings = nn.ModuleList(Reader(dim, special, 2) for _ in layers if settings.loss.sightings > 0)
        self.depth_loss, self.point_loss, self.match_loss = depth_loss, point_loss, match_loss

    def compile(self) -> None:
        compile_parts(self)
        for name in ("depth_loss", "point_loss", "match_loss"):
            setattr(self, name, torch.compile(getattr(self, name), dynamic=True))

    def forward(self, batch, draw: Draw, match_weight: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a `scenes.Batch`, and its parts without gradients. No weight: no match loss."""
        loss, patch = self.settings.loss, self.settings.model.patch_size
        with torch.no_grad():
            targets = make_targets(batch, patch)
        with torch.autocast(batch.images.device.type, torch.bfloat16, enabled=self.settings.bf16):
            watch = () if match_weight is None else loss.match_layers
            outputs = self.model(batch.images, draw.frames, draw.points, loss.auxiliary_layers, watch)
            total, parts = self._dense(outputs, targets, draw)
            if match_weight is not None:
                match, parts["match_hits"] = self._match(outputs.layers, targets, draw.keys)
                total, parts["match"] = total + match_weight * match, match
            parts["auxiliary"] = self._auxiliary(outputs.layers, targets)
            total = total + loss.auxiliary * parts["auxiliary"]
            if loss.sightings > 0:
                parts["sightings"] = self._sightings(outputs.layers, targets)
                total = total + loss.sightings * parts["sightings"]
        pose, pose_parts = pose_loss(outputs.poses, targets.pose)
        parts |= pose_parts
        total = total + loss.pose * pose
        if loss.pairs > 0:
            parts["pairs"] = pair_loss(outputs.poses[-1], targets.pose)
            total = total + loss.pairs * parts["pairs"]
        return total, {name: part.detach() for name, part in (parts | {"loss": total}).items()}

    def _dense(self, outputs, targets: Targets, draw: Draw) -> tuple[Tensor, dict[str, Tensor]]:
        loss = self.settings.loss
        depth, valid = (t.flatten(0, 1)[draw.frames] for t in (targets.depth, targets.valid))
        total, error = self.depth_loss(outputs.depth, depth, valid, loss.sky)
        parts = {"depth": error}
        total = loss.depth * total
        if outputs.points is not None:
            points = targets.points.flatten(0, 1)[draw.frames[: draw.points]]
            valid = valid[: draw.points]
            wrong, parts["points"] = self.point_loss(outputs.points, points, valid, loss.sky)
            total = total + loss.points * wrong
        return total, parts

    def _match(self, layers: Layers, targets: Targets, keys: Tensor) -> tuple[Tensor, Tensor]:
        config = self.settings.model
        with torch.no_grad():
            matches = find_matches(targets, config.patch_size, keys)
        total, hits = targets.pose.new_zeros(()), None
        for i in self.settings.loss.match_layers:
            patches = [t[:, :, config.special_tokens :] for t in layers.compared[i]]
            one, hits = self.match_loss(*patches, matches)
            total = total + one
        return total, hits

    def _auxiliary(self, layers: Layers, targets: Targets) -> Tensor:
        """Points in the first camera's frame; far ones count less."""
        patch = self.settings.model.patch_size
        points, valid = _of_patches(sampled(targets.points, patch)), _of_patches(sampled(targets.valid, patch))
        weight = valid.float() / (0.3 + points.norm(dim=-1))
        return self._read(self.auxiliary, layers, points, weight, valid)

    def _sightings(self, layers: Layers, targets: Targets) -> Tensor:
        positions, seen = map(_of_patches, in_first_view(targets, self.settings.model.patch_size))
        return self._read(self.sightings, layers, positions, seen.float(), seen)

    def _read(
        self, readers: nn.ModuleList, layers: Layers, truth: Tensor, weight: Tensor, valid: Tensor
    ) -> Tensor:
        total = truth.new_zeros(())
        for i, reader in zip(self.settings.loss.auxiliary_layers, readers):
            total = total + reading_loss(reader(*layers.tokens[i]).flatten(0, 1), truth, weight, valid)
        return total


def _of_patches(x: Tensor) -> Tensor:
    """Samples [B,S,h,w] or [B,S,h,w,D] to [B·S,Q,4] or [B·S,Q,4,D]."""
    if x.ndim == 4:
        return by_patch(x).flatten(0, 1)
    return by_patch(x.movedim(-1, 2)).movedim(2, -1).flatten(0, 1)
