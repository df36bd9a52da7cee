"""Images to tokens: the patch embedder of DINOv2's kind, then frame and global blocks in turn."""

import dataclasses
import functools
from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import Config
from .layers import Block, rope_table


class Projection(nn.Module):
    """The patches' linear map, with the weight of a convolution: [C,3,p,p]."""

    def __init__(self, patch: int, dim: int):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)
        mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        self.register_buffer("mean", mean.view(3, 1, 1), persistent=False)
        self.register_buffer("std", std.view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Patches [F,rows·columns,C] of images [F,3,H,W] in [0,1], which are normalised first."""
        frames, _, height, width = images.shape
        patch = self.proj.kernel_size[0]
        x = (images.float() - self.mean) / self.std
        x = x.view(frames, 3, height // patch, patch, width // patch, patch)
        x = x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # [F,rows·columns,3·p·p]
        return F.linear(x, self.proj.weight.flatten(1), self.proj.bias)


class PatchEmbed(nn.Module):
    EPS = 1e-6  # of all norms of DINOv2

    def __init__(self, config: Config):
        super().__init__()
        dim, self.grid = config.embed_dim, config.img_size // config.patch_size
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + self.grid**2, dim))
        self.register_tokens = nn.Parameter(torch.zeros(1, config.num_register_tokens, dim))
        # In every official file, unused.
        self.mask_token = nn.Parameter(torch.zeros(1, dim), requires_grad=False)
        self.patch_embed = Projection(config.patch_size, dim)
        self.blocks = nn.ModuleList(
            Block(dim, config.vit_num_heads, self.EPS, False) for _ in range(config.vit_depth)
        )
        self.norm = nn.LayerNorm(dim, self.EPS)

    def position_embedding(self, rows: int, columns: int) -> Tensor:  # [1,rows·columns,C]
        patches = self.pos_embed[:, 1:]
        if rows == columns == self.grid:
            return patches
        grid = patches.view(1, self.grid, self.grid, -1).permute(0, 3, 1, 2)  # [1,C,grid,grid]
        resized = F.interpolate(grid, size=(rows, columns), mode="bicubic", antialias=True)
        return resized.flatten(2).transpose(1, 2)

    def forward(self, images: Tensor, rows: int, columns: int) -> Tensor:
        """Images [F,3,H,W] in [0,1] to patch tokens [F,rows·columns,C]."""
        frames = len(images)
        patches = self.patch_embed(images) + self.position_embedding(rows, columns)
        first = (self.cls_token + self.pos_embed[:, :1]).expand(frames, -1, -1)  # [F,1,C]
        registers = self.register_tokens.expand(frames, -1, -1)  # [F,R,C]
        x = torch.cat([first, registers, patches], 1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x[:, 1 + registers.shape[1] :])


@dataclasses.dataclass
class Layers:
    """What the aggregator keeps: per layer the tokens after its two blocks, each [B,S,P,C]."""

    tokens: dict[int, tuple[Tensor, Tensor]]
    compared: dict[int, tuple[Tensor, Tensor]]  # queries and keys [B,S,P,A,D] of global blocks


class Aggregator(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        dim, heads = config.embed_dim, config.num_heads
        self.patch_embed = PatchEmbed(config)
        self.camera_token = nn.Parameter(torch.zeros(1, 2, 1, dim))
        self.register_token = nn.Parameter(torch.zeros(1, 2, config.num_register_tokens, dim))
        self.frame_blocks = nn.ModuleList(Block(dim, heads, 1e-5, True) for _ in range(config.depth))
        self.global_blocks = nn.ModuleList(Block(dim, heads, 1e-5, True) for _ in range(config.depth))
        self.rope = functools.lru_cache(self._rope)

    def _rope(self, rows: int, columns: int, device: torch.device) -> Tensor:
        config = self.config
        head_dim = config.embed_dim // config.num_heads
        return rope_table(rows, columns, config.special_tokens, head_dim, config.rope_freq).to(device)

    def embed(self, images: Tensor) -> Tensor:
        """Images [B,S,3,H,W] in [0,1] to tokens [B,S,P,C]: camera, registers, patches."""
        B, S, _, H, W = images.shape
        rows, columns = H // self.config.patch_size, W // self.config.patch_size
        patches = self.patch_embed(images.flatten(0, 1), rows, columns)
        special = torch.cat([self.camera_token, self.register_token], 2)  # [1,2,1+R,C]
        # Entry 0 is the first frame's, entry 1 all others'.
        special = torch.cat([special[:, :1], special[:, 1:].expand(-1, S - 1, -1, -1)], 1)
        special = special.expand(B, -1, -1, -1)  # [B,S,1+R,C]
        return torch.cat([special, patches.view(B, S, rows * columns, -1)], 2)

    def forward(self, images: Tensor, keep: Collection[int], watch: Collection[int] = ()) -> Layers:
        """Tokens after the layers in `keep`, and what the global blocks in `watch` compared."""
        x = self.embed(images)
        B, S, P, C = x.shape
        patch = self.config.patch_size
        rope = self.rope(images.shape[3] // patch, images.shape[4] // patch, x.device)
        x, layers = x.flatten(0, 1), Layers({}, {})
        for i, (frame_block, global_block) in enumerate(zip(self.frame_blocks, self.global_blocks)):
            frame = frame_block(x, rope)  # [B·S,P,C]
            compared = global_block.before(frame, rope)
            if i in watch:
                layers.compared[i] = tuple(t.unflatten(0, (B, S)) for t in compared[:2])
            x = global_block.attend(frame, compared, S)
            if i in keep:
                layers.tokens[i] = (frame.view(B, S, P, C), x.view(B, S, P, C))
        return layers
