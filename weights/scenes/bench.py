"""python -m scenes.bench: frames per second of drawing, rendering, and both; the median of some runs."""
import argparse
import statistics
import time

import torch

from . import TRAIN, draw, render


def seconds(action, device: torch.device, runs: int) -> list[float]:
    times = []
    for run in range(runs + 2):
        start = time.perf_counter()
        action(run)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times[2:]  # without what is done once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scenes", type=int, default=256)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--size", type=int, nargs=2, default=(168, 224), metavar=("H", "W"))
    options = parser.parse_args()
    device, size, frames = torch.device(options.device), tuple(options.size), options.scenes * options.frames

    def drawn(run: int):
        return draw(TRAIN.start, run * options.scenes, options.scenes, options.frames, size=size, device=device)

    kept = drawn(0)
    bare = [kept[name] for name in ("surroundings", "materials", "primitives", "cameras")]
    images = render(kept, samples=options.samples).images
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}: {options.scenes} scenes of {options.frames} frames, {size[0]}x{size[1]}, "
          f"{options.samples} samples a pixel")
    print(f"primitives a scene: {kept['surroundings'][:, 5].mean():.1f}")
    for what, action in {
        "draw": drawn,
        "trace alone": lambda _: torch.ops.vggt_scenes.render(*bare, *size, options.samples),
        "damage alone": lambda _: torch.ops.vggt_scenes.damage(images, kept["damage"]),
        "render": lambda _: render(kept, samples=options.samples),
        "draw and render": lambda run: render(drawn(run), samples=options.samples),
    }.items():
        times = seconds(action, device, options.runs)
        middle = statistics.median(times)
        print(f"{what:16} {frames / middle:10,.0f} frames/s   {middle * 1e3:8.2f} ms "
              f"({min(times) * 1e3:.2f}-{max(times) * 1e3:.2f})")


if __name__ == "__main__":
    main()
