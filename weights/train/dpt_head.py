"""Dense maps from the tokens of four layers, for depth and for points."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import Config

LAST_CHANNELS = 32


def bilinear_matrix(count: int, target: int) -> Tensor:
    """[target,count]: linear interpolation with aligned corners.

    As a product its gradient needs no atomic additions, unlike F.interpolate's.
    """
    positions = torch.arange(target, dtype=torch.float64) * ((count - 1) / max(target - 1, 1))
    lower = positions.floor().clamp(max=count - 1).long()
    upper = (lower + 1).clamp(max=count - 1)
    matrix = torch.zeros(target, count, dtype=torch.float64)
    matrix[torch.arange(target), lower] += 1 - (positions - lower)
    matrix[torch.arange(target), upper] += positions - lower
    return matrix.float()


def axis_embedding(count: int, span: float, channels: int) -> Tensor:
    """Sine and cosine of `count` coordinates spread over ±span: [count,channels]."""
    edge = span * (count - 1) / count
    coordinates = torch.linspace(-edge, edge, count).double()
    frequencies = 100.0 ** -(torch.arange(channels // 2).double() / (channels / 2))
    angles = coordinates[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1).float() * 0.1


def position_map(rows: int, columns: int, aspect: float, channels: int) -> Tensor:
    """0.1 × the UV embedding [channels,rows,columns] of frames of this aspect ratio (width/height)."""
    diagonal = math.hypot(aspect, 1)
    along_x = axis_embedding(columns, aspect / diagonal, channels // 2)  # [columns,channels/2]
    along_y = axis_embedding(rows, 1 / diagonal, channels // 2)  # [rows,channels/2]
    x = along_x.expand(rows, -1, -1)
    y = along_y[:, None].expand(-1, columns, -1)
    return torch.cat([x, y], 2).permute(2, 0, 1).contiguous()


@dataclasses.dataclass
class Tables:
    """What a dense head needs to know of a frame size."""

    rows: int
    columns: int
    positions: list[Tensor]  # four [c,rows,columns], one [features/2,H,W]
    up_rows: list[Tensor]  # [target,count] of the resizes after refinenet 4, 3, 2, 1 and of the last
    up_columns: list[Tensor]

    @classmethod
    def make(cls, config: Config, height: int, width: int, device: torch.device) -> "Tables":
        rows, columns = height // config.patch_size, width // config.patch_size
        aspect = width / height
        maps = [position_map(rows, columns, aspect, c) for c in config.dpt_out_channels]
        maps.append(position_map(height, width, aspect, config.dpt_features // 2))

        def ups(n: int, side: int) -> list[Tensor]:
            steps = [(n + 1) // 2, n, 2 * n, 4 * n, 8 * n, side]
            return [bilinear_matrix(a, b).to(device) for a, b in zip(steps, steps[1:])]

        maps = [m.to(device) for m in maps]
        return cls(rows, columns, maps, ups(rows, height), ups(columns, width))

    def resize(self, x: Tensor, step: int) -> Tensor:  # [F,c,h,w] -> [F,c,h',w'], channels last
        up_rows, up_columns = self.up_rows[step], self.up_columns[step]
        frames, channels, height, _ = x.shape
        x = torch.matmul(up_columns, x.permute(0, 2, 3, 1))  # [F,h,w',c]
        x = torch.matmul(up_rows, x.reshape(frames, height, -1))  # [F,h',w'·c]
        return x.view(frames, up_rows.shape[0], up_columns.shape[0], channels).permute(0, 3, 1, 2)


def upscale(conv: nn.ConvTranspose2d, x: Tensor) -> Tensor:
    """The transposed convolution, whose stride is its kernel: a product and a rearrangement."""
    frames, _, rows, columns = x.shape
    _, channels, k, _ = conv.weight.shape
    weight = conv.weight.permute(2, 3, 1, 0).reshape(k * k * channels, -1)
    y = F.linear(x.permute(0, 2, 3, 1), weight, conv.bias.repeat(k * k))
    y = y.view(frames, rows, columns, k, k, channels).permute(0, 1, 3, 2, 4, 5)
    return y.reshape(frames, rows * k, columns * k, channels).permute(0, 3, 1, 2)


class ResidualUnit(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.conv1 = nn.Conv2d(features, features, 3, padding=1)
        self.conv2 = nn.Conv2d(features, features, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        # The official ReLU works in place, so that the skip adds relu(x).
        x = F.relu(x)
        return x + self.conv2(F.relu(self.conv1(x)))


class FusionBlock(nn.Module):
    def __init__(self, features: int, has_skip: bool):
        super().__init__()
        if has_skip:
            self.resConfUnit1 = ResidualUnit(features)
        self.resConfUnit2 = ResidualUnit(features)
        self.out_conv = nn.Conv2d(features, features, 1)

    def forward(self, x: Tensor, skip: Tensor | None) -> Tensor:
        """To be resized: a 1×1 convolution and a bilinear resize commute, and the map is still small."""
        if skip is not None:
            x = x + self.resConfUnit1(skip)
        return self.out_conv(self.resConfUnit2(x))


class Scratch(nn.Module):
    def __init__(self, config: Config, outputs: int):
        super().__init__()
        features = config.dpt_features
        for level, channels in enumerate(config.dpt_out_channels, 1):
            self.add_module(f"layer{level}_rn", nn.Conv2d(channels, features, 3, padding=1, bias=False))
            self.add_module(f"refinenet{level}", FusionBlock(features, has_skip=level < 4))
        self.output_conv1 = nn.Conv2d(features, features // 2, 3, padding=1)
        self.output_conv2 = nn.Sequential(
            nn.Conv2d(features // 2, LAST_CHANNELS, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(LAST_CHANNELS, outputs, 1),
        )


class DptHead(nn.Module):
    def __init__(self, config: Config, outputs: int):
        super().__init__()
        dim, channels = 2 * config.embed_dim, config.dpt_out_channels
        self.norm = nn.LayerNorm(dim)
        self.projects = nn.ModuleList(nn.Conv2d(dim, c, 1) for c in channels)
        self.resize_layers = nn.ModuleList(
            [
                nn.ConvTranspose2d(channels[0], channels[0], 4, 4),
                nn.ConvTranspose2d(channels[1], channels[1], 2, 2),
                nn.Identity(),
                nn.Conv2d(channels[3], channels[3], 3, stride=2, padding=1),
            ]
        )
        self.scratch = Scratch(config, outputs)

    def compile(self) -> None:
        self.read = torch.compile(self.read, dynamic=True)
        self.finish = torch.compile(self.finish, dynamic=True)

    def read(self, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # [F,N,2C] -> [F,N,c]
        return F.linear(self.norm(tokens), weight.flatten(1), bias)

    def finish(self, x: Tensor) -> Tensor:
        """The last ReLU and 1×1 convolution, [F,32,H,W] to [F,outputs,H,W], in fp32.

        Logarithms of depth and confidence come of it: half precision would show in them. Written as sums, it
        compiles to one pass over x.
        """
        last = self.scratch.output_conv2[2]
        with torch.autocast(x.device.type, enabled=False):
            x = F.relu(x.permute(0, 2, 3, 1)).float()  # [F,H,W,32]
            rows = zip(last.weight.flatten(1), last.bias)
            return torch.stack([(x * row).sum(-1) + bias for row, bias in rows], 1)

    def reassemble(self, level: int, tokens: Tensor, tables: Tables) -> Tensor:
        """Patch tokens [F,rows·columns,2C] to a map [F,features,h,w]."""
        project, resize = self.projects[level], self.resize_layers[level]
        x = self.read(tokens, project.weight, project.bias)
        x = x.view(len(x), tables.rows, tables.columns, -1).permute(0, 3, 1, 2)
        x = x + tables.positions[level].to(x.dtype)
        x = upscale(resize, x) if level < 2 else resize(x)
        return self.scratch.get_submodule(f"layer{level + 1}_rn")(x)

    def forward(self, tokens: list[Tensor], tables: Tables) -> Tensor:
        """Patch tokens of four layers, each [F,rows·columns,2C], to raw outputs [F,outputs,H,W]."""
        maps = [self.reassemble(level, x, tables) for level, x in enumerate(tokens)]
        scratch, x = self.scratch, maps[3]
        for step, level in enumerate((4, 3, 2, 1)):
            skip = None if level == 4 else maps[level - 1]
            x = scratch.get_submodule(f"refinenet{level}")(x, skip)
            x = tables.resize(x, step)
        x = tables.resize(scratch.output_conv1(x), 4)
        x = x + tables.positions[4].to(x.dtype)
        return self.finish(scratch.output_conv2[0](x))


def activate_depth(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Raw [F,2,H,W] to depth and confidence, each [F,H,W]."""
    return raw[:, 0].exp(), 1 + raw[:, 1].exp()


def activate_points(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Raw [F,4,H,W] to points [F,H,W,3] in the first camera's frame and confidence [F,H,W]."""
    xyz = raw[:, :3].permute(0, 2, 3, 1)
    return xyz.sign() * xyz.abs().expm1(), 1 + raw[:, 3].exp()
