"""Images that are in memory already, from torch or NumPy, and results back as tensors: nothing is copied, nothing is
written.

    python memory.py
"""

import os
from pathlib import Path

import numpy as np
import vggt_recon
from PIL import Image

room = Path(__file__).resolve().parents[1] / "room"
width = int(os.environ.get("VGGT_EXAMPLE_WIDTH", 224))

images = [np.asarray(Image.open(path).convert("RGB")) for path in sorted(room.glob("*.jpg"))[::4]]  # [H,W,3]
reconstructor = vggt_recon.Reconstructor(width=width)
scene = reconstructor.run(images, names=["left", "middle", "right"], keep=["maps"])
print(scene, "of", [camera.name for camera in scene.cameras])

try:
    import torch
except ImportError:
    print("depth:", scene.depth.shape, scene.depth.dtype)
else:
    depth = torch.from_dlpack(scene.depth)  # the same memory
    print("depth:", tuple(depth.shape), depth.dtype, "mean", round(depth.mean().item(), 4))
    frames = torch.stack([torch.from_numpy(image) for image in images])  # [S,H,W,3]
    again = reconstructor.run(frames)
    print("the same from a tensor:", np.array_equal(again.depth, scene.depth))
