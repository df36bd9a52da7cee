"""python -m scenes.sheet out.png: a contact sheet, one row a scene: images, then the depth of the first frame."""
import argparse

import torch
from PIL import Image

from . import TEST, draw, render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--scenes", type=int, default=12)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--frames", type=int, default=6)
    parser.add_argument("--size", type=int, nargs=2, default=(168, 224), metavar=("H", "W"))
    parser.add_argument("--path")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    parameters = draw(TEST.start, options.first, options.scenes, options.frames, size=tuple(options.size),
                      device=options.device, path=options.path)
    batch = render(parameters, samples=4)
    near = torch.where(batch.valid[:, :1], 1 / (0.3 + batch.depth[:, :1]), 0)
    depth = (near / near.amax((2, 3), keepdim=True))[:, :, None].expand(-1, -1, 3, -1, -1)
    tiles = torch.cat([batch.images.float(), depth], 1)  # [B,S+1,3,H,W]
    rows = tiles.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
    Image.fromarray((rows * 255).round().byte().cpu().numpy()).save(options.out)


if __name__ == "__main__":
    main()
