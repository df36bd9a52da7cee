"""How often the report's health finds planted faults, and how often it warns of what is whole.

PYTHONPATH=weights python3 tests/bench/health_faults.py PROGRAM FOLDER [--first 200 --scenes 12 --options="--bundle-adjust off"]

Rendered test scenes of 12 frames, each as it is and with faults: a frame of another scene, three of them in a row, a
black frame, an over-exposed one, two halves of different scenes, and cameras that turn around half-way so that the
halves see nothing in common (where the true depth says so). Prints, for each kind, the share of scenes whose fault was found (the frames named are
those planted), and of scenes with a warning that names any other frame.
"""
import argparse
import json
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from scenes import TEST, draw, render

FRAMES, SIZE = 12, (240, 320)
KINDS = ("clean", "stranger", "strangers", "black", "white", "halves", "gap")


@lru_cache(3)
def rendered(index, frames):
    parameters = draw(TEST.start, index, 1, frames, size=SIZE)
    return render(parameters, samples=2)


def images_of(batch):
    return [(image.permute(1, 2, 0) * 255).round().byte().numpy() for image in batch.images[0]]


def shared(batch, a, b):
    """Which share of what frame a sees frame b sees too, by the true depth."""
    points = batch.points()[0, a][::6, ::6][batch.valid[0, a][::6, ::6]]
    if len(points) == 0:
        return 0.
    pose, k = batch.extrinsic[0, b], batch.intrinsic[0, b]
    local = points @ pose[:, :3].T + pose[:, 3]
    pixel = (local @ k.T)[:, :2] / local[:, 2:]
    x, y = pixel.round().long().unbind(-1)
    inside = (local[:, 2] > 0) & (x >= 0) & (y >= 0) & (x < SIZE[1]) & (y < SIZE[0])
    depth = batch.depth[0, b][y.clamp(0, SIZE[0] - 1), x.clamp(0, SIZE[1] - 1)]
    return (inside & ((local[:, 2] - depth).abs() < .1 * local[:, 2])).float().mean().item()


def gap(index):
    """A scene whose cameras turn around after half of the frames, and what the halves see of each other."""
    parameters = draw(TEST.start, index, 1, FRAMES, size=SIZE)
    turns = parameters["cameras"][0, 6:, :9].view(-1, 3, 3)  # cam_from_world
    turns[..., :2] *= -1  # half a turn about the vertical
    batch = render(parameters, samples=2)
    return images_of(batch), max(shared(batch, a, b) for a in range(6) for b in range(6, FRAMES))


def planted(kind, index):
    """The frames of a scene with a fault, and the frames that are to be named; nothing if it cannot be made."""
    if kind == "gap":
        images, most = gap(index)
        return (images, set(range(6))) if most < .01 else None
    images = images_of(rendered(index, FRAMES))
    at = 1 + (index * 7) % (FRAMES - 4)
    if kind == "clean":
        return images, set()
    other = images_of(rendered(index + 1000, FRAMES))
    if kind == "halves":
        return images[:6] + other[6:], set(range(6))
    bad = set(range(at, at + 3)) if kind == "strangers" else {at}
    noise = np.random.default_rng(index).integers(0, 4, (*SIZE, 3)).astype(np.uint8)
    for i in bad:
        images[i] = {"black": noise, "white": 255 - noise}.get(kind, other[i])
    return images, bad


def named_frames(health):
    return set().union(*(set(range(w["first"], w["last"] + 1)) for w in health["warnings"] if w["first"] >= 0), set())


def verdict(kind, bad, health):
    """Whether the fault was found, and whether other frames were named."""
    named = named_frames(health)
    if kind in ("halves", "gap"):  # either half may be called the one that lies apart
        rest = set(range(FRAMES)) - bad
        found = bad <= named or rest <= named
        wrong = not (named <= bad or named <= rest)
        return found, wrong
    return bad <= named, bool(named - bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=200)
    parser.add_argument("--scenes", type=int, default=12)
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--options", default="", help="of the program, in one text")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(2)
    for kind in options.kinds:
        found = wrong = scenes = 0
        for index in range(options.first, options.first + options.scenes):
            folder = options.folder / f"{index}-{kind}"
            if not (folder / "made").exists():
                folder.mkdir(parents=True, exist_ok=True)
                made = planted(kind, index)
                for i, image in enumerate(made[0] if made else []):
                    Image.fromarray(image).save(folder / f"{i:02}.png")
                (folder / "made").write_text(json.dumps(sorted(made[1]) if made else None))
            bad = json.loads((folder / "made").read_text())
            if bad is None:
                continue
            out = options.folder / "out" / folder.name
            command = [options.program, "--frames", folder, "--out", f"{out}/", "--quiet", *options.options.split()]
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
            health = json.loads((out / "scene.report.json").read_text())["health"]
            good, bad_too = verdict(kind, set(bad), health)
            scenes += 1
            found += good
            wrong += bad_too
            if options.verbose and (not good or bad_too):
                print(index, kind, bad, [(w["kind"], w["first"], w["last"]) for w in health["warnings"]], flush=True)
        print(f"{kind:10} {scenes:3} scenes: found {found:3}, others named {wrong:3}", flush=True)


if __name__ == "__main__":
    main()
