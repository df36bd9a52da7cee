"""From (seed, index) to tables of parameters, and from these to images with their ground truth."""
import glob
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from .cameras import draw_cameras, draw_view
from .materials import draw_materials
from .objects import MATERIALS, ROOM_MATERIALS, draw_objects
from .random_numbers import scene_keys, streams
from .sensor import draw_damage, draw_exposure
from .surroundings import draw_surroundings

TRAIN = range(0, 1 << 39)
VALIDATION = range(1 << 39, 1 << 40)
TEST = range((1 << 40) + (1 << 20), 1 << 41)

# Each part of a scene has a stream of its own: one that draws more does not change the others.
_PLACE, _MATERIALS, _VIEW, _CAMERAS, _FRAMES, _OBJECTS, _SENSOR = range(7)
_LENGTHS = {_PLACE: 64, _MATERIALS: 1024, _VIEW: 16, _CAMERAS: 128, _OBJECTS: 2048, _SENSOR: 32}


def nearest(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Maps [...,H,W] at another size: of each pixel what the nearest one has."""
    rows, columns = (((torch.arange(n, device=maps.device) + 0.5) * old // n).long()
                     for n, old in zip(size, maps.shape[-2:]))
    return maps[..., rows[:, None], columns]


@dataclass
class Batch:
    """B scenes of S frames. The world is the first camera; pixel (x, y) has its middle at (x, y), as for VGGT."""
    images: Tensor  # [B,S,3,H,W] in [0,1], fp32, on a GPU fp16
    depth: Tensor  # [B,S,H,W] fp32, along the camera's z axis, 0 where not valid
    valid: Tensor  # [B,S,H,W] bool, False: sky, or farther than 60 scene units
    extrinsic: Tensor  # [B,S,3,4] fp32, cam_from_world
    intrinsic: Tensor  # [B,S,3,3] fp32, pixels

    def points(self) -> Tensor:
        """Every pixel's point in the world [B,S,H,W,3]; the camera's centre where not valid."""
        height, width = self.depth.shape[-2:]
        x = torch.arange(width, device=self.depth.device)
        y = torch.arange(height, device=self.depth.device)
        k = self.intrinsic[..., None, None]
        u = (x - k[:, :, 0, 2]) / k[:, :, 0, 0]
        v = (y[:, None] - k[:, :, 1, 2]) / k[:, :, 1, 1]
        u, v = torch.broadcast_tensors(u, v)  # [B,S,H,W]
        in_camera = torch.stack([u, v, torch.ones_like(u)], -1) * self.depth[..., None]
        rotation, translation = self.extrinsic[..., :3], self.extrinsic[..., 3]
        points = (in_camera - translation[:, :, None, None]).flatten(2, 3) @ rotation  # [B,S,H·W,3]
        return points.unflatten(2, (height, width))

    def resized(self, size: tuple[int, int]) -> "Batch":
        """At another (H, W): images as the program resizes them (bicubic), depth that of the nearest pixel.

        The principal point stays in the middle, as VGGT has it; by the pixels' middles it moves by half of what the
        factor is above 1.
        """
        height, width = self.depth.shape[-2:]
        if size == (height, width):
            return self
        images = F.interpolate(self.images.float().flatten(0, 1), size, mode="bicubic", antialias=True).clamp(0, 1)
        across, down, last = self.intrinsic.unbind(-2)
        intrinsic = torch.stack([across * (size[1] / width), down * (size[0] / height), last], -2)
        return Batch(images.to(self.images.dtype).unflatten(0, self.depth.shape[:2]),
                     nearest(self.depth, size), nearest(self.valid, size), self.extrinsic, intrinsic)


@cache
def load_renderer() -> None:
    """Loads torch.ops.vggt_scenes from VGGT_SCENES_LIBRARY, or from the newest build of this repository."""
    path = os.environ.get("VGGT_SCENES_LIBRARY")
    if path is None:
        root = Path(__file__).resolve().parents[2]
        found = glob.glob(str(root / "build/**/libvggt_scenes.so"), recursive=True)
        if not found:
            raise FileNotFoundError("libvggt_scenes.so: build the target vggt_scenes, or set VGGT_SCENES_LIBRARY")
        path = max(found, key=os.path.getmtime)
    torch.ops.load_library(path)


def draw(seed: int, first: int, count: int, frames: int, *, size: tuple[int, int], device="cpu",
         path: str | None = None) -> dict[str, Tensor]:
    """Parameters of the scenes first to first + count - 1 of a seed. A scene depends on (seed, index) and on how many
    frames of which size (H, W) see it, not on the batch.

    `path`, one of PATHS, fixes the kind of camera path. Throws ValueError for seeds outside of the three ranges.
    """
    if not any(seed in seeds for seeds in (TRAIN, VALIDATION, TEST)):
        raise ValueError(f"seed: expected one of TRAIN, VALIDATION or TEST, got {seed}")
    keys = scene_keys(seed, first, count, torch.device(device))
    frame_keys = (keys[:, None] + 0x632BE59BD9B4E019 * torch.arange(1, frames + 1, device=keys.device)).flatten()
    per_frame, = streams(frame_keys, {_FRAMES: 16})
    of_place, of_materials, of_view, of_cameras, of_objects, of_sensor = streams(keys, _LENGTHS)
    surroundings, place = draw_surroundings(of_place)
    materials = draw_materials(of_materials, MATERIALS - ROOM_MATERIALS)
    view = draw_view(of_view, place)
    cameras, kind = draw_cameras(of_cameras, per_frame, frames, place, view, size, path)
    primitives, surroundings[:, 5] = draw_objects(of_objects, place, view, cameras[..., 9:12])
    exposure = draw_exposure(of_sensor, per_frame, frames, surroundings, materials[:, :ROOM_MATERIALS])
    return {"surroundings": surroundings, "materials": materials, "primitives": primitives,
            "cameras": torch.cat([cameras, exposure], -1), "path": kind,
            "damage": draw_damage(of_sensor, per_frame, frames),
            "size": torch.tensor(size).expand(count, 2)}


def select(parameters: dict[str, Tensor], scenes: slice) -> dict[str, Tensor]:
    """Some of the scenes: drawing many at once and rendering them in parts is faster."""
    return {name: table[scenes] for name, table in parameters.items()}


def render(parameters: dict[str, Tensor], *, samples: int = 2) -> Batch:
    """Renders with `samples` rays a pixel, on the device of the parameters."""
    load_renderer()
    height, width = parameters["size"][0].tolist()
    cameras = parameters["cameras"]
    images, depth, valid = torch.ops.vggt_scenes.render(
        parameters["surroundings"], parameters["materials"], parameters["primitives"], cameras, height, width, samples)
    images = torch.ops.vggt_scenes.damage(images, parameters["damage"])
    return Batch(images, depth, valid, *_projections(cameras, height, width))


def _projections(cameras: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    rotation = cameras[..., :9].unflatten(-1, (3, 3)).double()
    centre, focal = cameras[..., 9:12].double(), cameras[..., 12]
    relative = rotation @ rotation[:, :1].transpose(-1, -2)
    translation = rotation @ (centre[:, :1] - centre)[..., None]
    extrinsic = torch.cat([relative, translation], -1).float()
    extrinsic[:, 0] = torch.eye(3, 4, device=cameras.device)  # exactly
    zero, one = torch.zeros_like(focal), torch.ones_like(focal)
    entries = [focal, zero, 0.5 * width * one, zero, focal, 0.5 * height * one, zero, zero, one]
    return extrinsic, torch.stack(entries, -1).unflatten(-1, (3, 3))
