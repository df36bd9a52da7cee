"""python -m scenes.example FOLDER: a scene as files for the program: frames, true cameras, true depth; see README.md."""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from . import PATHS, TEST, draw, render

_NOISE = 17  # column of the camera table


def world_from_cam(camera: Tensor) -> np.ndarray:
    """The pose [4,4] of a row of the camera table: OpenCV axes, the scene's world with z up."""
    camera = camera.double().numpy()
    pose = np.eye(4)
    pose[:3, :3] = camera[:9].reshape(3, 3).T
    pose[:3, 3] = camera[9:12]
    return pose


def quaternion(rotation: np.ndarray) -> np.ndarray:
    """x y z w of a rotation [3,3], w >= 0: the eigenvector of the largest eigenvalue, which has no special cases."""
    r = rotation
    k = np.array([
        [r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[2, 0] + r[0, 2], r[2, 1] - r[1, 2]],
        [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]],
        [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], r[1, 0] - r[0, 1]],
        [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r[0, 0] + r[1, 1] + r[2, 2]]])
    q = np.linalg.eigh(k)[1][:, -1]
    return q if q[3] >= 0 else -q


def write_trajectory(path: Path, poses: list[np.ndarray]) -> None:
    lines = ["# index tx ty tz qx qy qz qw: world_from_cam"]
    for i, pose in enumerate(poses):
        lines.append(f"{i} " + " ".join(f"{x:.7f}" for x in (*pose[:3, 3], *quaternion(pose[:3, :3]))))
    path.write_text("\n".join(lines) + "\n")


def write_transforms(path: Path, poses: list[np.ndarray], focal: float, size: tuple[int, int]) -> None:
    """As nerfstudio reads it: OpenGL axes, and the middle of the first pixel at (0.5, 0.5), which is (0, 0) here."""
    height, width = size
    frames = [{"file_path": f"{i:02}.jpg", "depth_file_path": f"depth/{i:02}.png",
               "transform_matrix": (pose @ np.diag([1, -1, -1, 1])).round(7).tolist()} for i, pose in enumerate(poses)]
    camera = {"w": width, "h": height, "fl_x": round(focal, 4), "fl_y": round(focal, 4), "cx": width / 2 + 0.5,
              "cy": height / 2 + 0.5}
    rows = ",\n  ".join(json.dumps(frame) for frame in frames)
    path.write_text(json.dumps(camera)[:-1] + ',\n "frames": [\n  ' + rows + "]}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=TEST.start)
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--path", choices=PATHS)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--size", type=int, nargs=2, default=(336, 448), metavar=("H", "W"))
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--quality", type=int, default=90, help="of the JPEG files")
    options = parser.parse_args()
    size = tuple(options.size)
    parameters = draw(options.seed, options.index, 1, options.frames, size=size, path=options.path)
    parameters["cameras"][..., _NOISE] = 0
    parameters["damage"].zero_()
    batch = render(parameters, samples=options.samples)
    (options.folder / "depth").mkdir(parents=True, exist_ok=True)
    for i in range(options.frames):
        pixels = (batch.images[0, i].permute(1, 2, 0) * 255).round().byte()  # [H,W,3]
        Image.fromarray(pixels.numpy()).save(options.folder / f"{i:02}.jpg", quality=options.quality)
        millimetres = (batch.depth[0, i] * 1000).round().numpy().astype(np.uint16)  # at most 60000
        Image.fromarray(millimetres).save(options.folder / f"depth/{i:02}.png", optimize=True)
    cameras = parameters["cameras"][0]  # [S,20]
    poses = [world_from_cam(camera) for camera in cameras]
    write_trajectory(options.folder / "groundtruth.tum", poses)
    write_transforms(options.folder / "transforms.json", poses, cameras[0, 12].item(), size)


if __name__ == "__main__":
    main()
