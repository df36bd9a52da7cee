"""A folder of photographs to a cloud: cameras, depth and points as NumPy arrays.

    python clouds.py [FOLDER]
"""

import os
import sys
from pathlib import Path

import numpy as np
import vggt_recon

folder = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "room"
width = int(os.environ.get("VGGT_EXAMPLE_WIDTH", 224))  # network pixels; more is finer and slower

reconstructor = vggt_recon.Reconstructor(width=width)  # the small model; else Reconstructor("model.safetensors")
scene = reconstructor.run(folder, max_frames=6, conf_percentile=20,
                          progress=lambda stage, done, total, unit: print(f"\r{stage}: {done} {unit}", end=""))
print(f"\r{scene}")

# Each camera: where it stood, and how it maps the world to pixels.
for camera in scene.cameras:
    print(f"{camera.name}: at {camera.center.round(3)}, focal length {camera.intrinsics[0, 0]:.0f} of {camera.width}")

# Depth to points by hand: a pixel's ray, times its depth, into the world.
camera, depth = scene.cameras[0], scene.depth[0]
y, x = np.mgrid[:depth.shape[0], :depth.shape[1]]
rays = np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(camera.network_intrinsics).T
points = (rays * depth[..., None]) @ camera.world_from_cam[:3, :3].T + camera.center
print("middle of the first frame:", points[depth.shape[0] // 2, depth.shape[1] // 2].round(3))

# The surest pixels of all frames.
sure = scene.confidence > np.quantile(scene.confidence, 0.9)
print(f"median depth of the surest tenth: {np.median(scene.depth[sure]):.3f}")

scene.save("room.ply")  # and room.cameras.json, room.tum, room.report.json
scene.save("room.npz")
