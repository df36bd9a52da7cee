"""The program itself on held-out scenes: it reconstructs each one and compares with `eval`."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import scenes
import torch
from safetensors.torch import save_file

from .config import Config
from .evaluate import Case


def write_scene(case: Case, config: Config, number: int, shuffle: bool, frames: Path, truth: Path) -> None:
    parameters = scenes.draw(case.seed, number, 1, case.frames, size=case.size, path=case.path)
    batch = scenes.render(parameters, samples=2)
    order = torch.arange(case.frames)
    if shuffle:
        order = torch.randperm(case.frames, generator=torch.Generator().manual_seed(number))
    images = batch.resized(config.fitted(case.size)).images
    save_file({"images": images[0, order].float().contiguous()}, frames)
    true = {"extrinsic": batch.extrinsic, "intrinsic": batch.intrinsic, "depth": batch.depth}
    save_file({name: tensor[0, order].contiguous() for name, tensor in true.items()}, truth)


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{command[0]}: exit code {done.returncode}\n{done.stderr}")


def judge(program: Path, weights: Path, case: Case, shuffle: bool, variants: list[list[str]]) -> Iterator[dict]:
    """What `PROGRAM eval --json` says of the case's scenes together, once for each variant of options.

    Throws ValueError with the program's message where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Config.of_weights(weights)
        inputs = [(Path(folder) / f"{n}-images.safetensors", Path(folder) / f"{n}-true.safetensors")
                  for n in range(case.scenes)]
        for number, (frames, truth) in enumerate(inputs):
            write_scene(case, config, number, shuffle, frames, truth)
        for options in variants:
            yield _judge(program, weights, inputs, options, Path(folder))


def _judge(program: Path, weights: Path, inputs: list[tuple[Path, Path]], options: list[str], folder: Path) -> dict:
    results = [folder / f"{number}-found.safetensors" for number in range(len(inputs))]
    for (frames, _), result in zip(inputs, results, strict=True):
        run(program, "--frames", frames, "--weights", weights, "--heads", "camera,depth",
            "--save-predictions", result, *options)
    table = folder / "eval.json"
    run(program, "eval", "--result", *results, "--truth", *(truth for _, truth in inputs), "--json", table)
    return json.loads(table.read_text())
