"""The whole network, under VGGT's parameter names."""

import dataclasses
import functools
from collections.abc import Collection

import torch
from torch import Tensor, nn

from .aggregator import Aggregator, Layers
from .camera_head import CameraHead, activate_pose, camera_matrices
from .config import Config
from .dpt_head import DptHead, Tables, activate_depth, activate_points
from .layers import Block


@dataclasses.dataclass
class Outputs:
    poses: list[Tensor]  # raw [B,S,9] of each refinement
    depth: Tensor  # raw [F,2,H,W] of the frames asked for
    points: Tensor | None  # raw [F,4,H,W]
    layers: Layers


class Vggt(nn.Module):
    """Camera and depth head always; the point head if asked for."""

    def __init__(self, config: Config, points: bool):
        super().__init__()
        self.config = config
        self.aggregator = Aggregator(config)
        self.camera_head = CameraHead(config)
        self.depth_head = DptHead(config, 2)
        self.point_head = DptHead(config, 4) if points else None
        self.tables = functools.lru_cache(functools.partial(Tables.make, config))

    def initialise(self) -> "Vggt":
        """Weights to train from. Each block starts as the identity: its last products are 0."""
        for block in self.modules():
            if isinstance(block, Block):
                _start_block(block)
        tokens = self.aggregator
        for token in (tokens.camera_token, tokens.register_token):
            nn.init.normal_(token, std=0.5)
        nn.init.normal_(tokens.patch_embed.pos_embed, std=0.05)
        nn.init.normal_(tokens.patch_embed.register_tokens, std=0.02)
        _start_output(self.camera_head.pose_branch.fc2, 1e-3)
        for head in filter(None, (self.depth_head, self.point_head)):
            _start_output(head.scratch.output_conv2[2], 0.02)
        return self

    def forward(
        self,
        images: Tensor,
        frames: Tensor | None = None,
        point_frames: int | None = None,
        keep: Collection[int] = (),
        watch: Collection[int] = (),
    ) -> Outputs:
        """Images [B,S,3,H,W] in [0,1].

        Dense maps are made of the frames that `frames` [F] numbers within [B·S], or of all; point maps of the
        first `point_frames` of these, or of all. `keep` and `watch` name layers whose tokens, and whose
        queries and keys, the losses look at.
        """
        config = self.config
        H, W = images.shape[-2:]
        layers = self.aggregator(
            images, {*config.intermediate_layers, config.depth - 1, *keep}, watch
        )
        with torch.autocast(images.device.type, enabled=False):
            camera = torch.cat([x[:, :, 0] for x in layers.tokens[config.depth - 1]], -1)  # [B,S,2C]
            poses = self.camera_head(camera.float())
        tables = self.tables(H, W, images.device)
        tokens = [self._patches(layers, i, frames) for i in config.intermediate_layers]
        depth, points = self.depth_head(tokens, tables), None
        if self.point_head is not None:
            points = self.point_head([t[:point_frames] for t in tokens], tables)
        return Outputs(poses, depth, points, layers)

    def _patches(self, layers: Layers, layer: int, frames: Tensor | None) -> Tensor:
        """Patch tokens [F,rows·columns,2C] of one layer."""
        special = self.config.special_tokens
        parts = [x.flatten(0, 1)[:, special:] for x in layers.tokens[layer]]  # each [B·S,P-special,C]
        return torch.cat(parts if frames is None else [x.index_select(0, frames) for x in parts], -1)

    @torch.no_grad()
    def predict(self, images: Tensor) -> dict[str, Tensor]:
        """What vggt-recon saves of one scene, images [S,3,H,W], by the same names."""
        H, W = images.shape[-2:]
        outputs = self(images[None])
        pose = activate_pose(outputs.poses[-1][0])
        extrinsic, intrinsic = camera_matrices(pose, H, W)
        depth, depth_conf = activate_depth(outputs.depth)
        result = {"pose_enc": pose, "extrinsic": extrinsic, "intrinsic": intrinsic}
        result |= {"depth": depth, "depth_conf": depth_conf}
        if outputs.points is not None:
            points, confidence = activate_points(outputs.points)
            result |= {"world_points": points, "world_points_conf": confidence}
        return result


def _start_block(block: Block) -> None:
    for linear in (block.attn.qkv, block.mlp.fc1):
        nn.init.normal_(linear.weight, std=0.6 * linear.in_features**-0.5)
        nn.init.zeros_(linear.bias)
    for linear in (block.attn.proj, block.mlp.fc2):
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)


def _start_output(layer: nn.Linear | nn.Conv2d, std: float) -> None:
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
