"""Scenes as the program itself adjusted them, on files."""

import concurrent.futures
import functools
import multiprocessing
import tempfile
from pathlib import Path

import scenes
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from .adjusted import Adjusted
from .config import Config
from .evaluate import Case
from .files import write_atomically
from .imitated import FRAMES, SIZE
from .judge import run, write_scene
from .processes import Processes
from .refiner import BLOCK, Frames

SEED = scenes.TRAIN.start + 992


def record(program: Path, weights: Path, folder: Path, first: int, count: int, workers: int) -> None:
    """Writes FOLDER/NUMBER.safetensors for scenes first to first + count - 1; those that are there stay.

    Throws ValueError with the program's message where it fails.
    """
    case, config = Case(seed=SEED, frames=FRAMES, size=SIZE), Config.of_weights(weights)
    numbers = [n for n in range(first, first + count) if not _path(folder, n).exists()]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        for _ in pool.map(functools.partial(_record, program, weights, folder, case, config), numbers):
            pass


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06}.safetensors"


def _record(program: Path, weights: Path, folder: Path, case: Case, config: Config, number: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        given, true, found = (Path(temporary) / f"{name}.safetensors" for name in ("given", "true", "found"))
        write_scene(case, config, number, False, given, true)
        run(program, "--frames", given, "--weights", weights, "--heads", "camera,depth", "--device", "cpu",
            "--threads", 1, "--refine-depth", "off", "--save-predictions", found)
        tensors = _tensors(load_file(given)["images"], load_file(true)["depth"], load_file(found))
    write_atomically(_path(folder, number), lambda path: save_file(tensors, path))


def _tensors(images: Tensor, truth: Tensor, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Depth, true depth [S,H,W] and camera centres in units of the median depth that was found."""
    size = found["depth"].shape[1:]
    maps = {"images": images, "depth": found["depth"], "confidence": found["depth_conf"].clamp_max(6e4),
            "truth": scenes.nearest(truth, size)}
    height, width = (n // BLOCK * BLOCK for n in size)  # what the refiner's module takes
    maps = {name: tensor[..., :height, :width].contiguous() for name, tensor in maps.items()}
    unit = maps["depth"].median()
    maps["depth"] /= unit
    maps["truth"] /= (maps["truth"] / maps["depth"])[maps["truth"] > 0].median()
    extrinsic = found["extrinsic"].clone()
    extrinsic[:, :, 3] /= unit
    kept = {name: tensor.half() for name, tensor in maps.items()} | {"images": (maps["images"] * 255).round().byte()}
    return kept | {"extrinsic": extrinsic, "intrinsic": found["intrinsic"]}


class Recorded:
    """This process's share of a folder's scenes, on its device."""

    def __init__(self, folder: Path, count: int, processes: Processes, seen: int):
        """count: scenes of a step. seen: of others, before. Throws ValueError where there are fewer than a step's."""
        paths = sorted(folder.glob("*.safetensors"))[processes.rank :: processes.count]
        if len(paths) < count:
            raise ValueError(f"{folder}: {len(paths)} scenes for a process, expected at least {count}")
        files = [load_file(path) for path in paths]
        self.tensors = {name: torch.stack([file[name] for file in files]).to(processes.device) for name in files[0]}
        self.count, self.seen = count, seen

    def table(self, done: float) -> dict[str, Tensor]:
        """Some scenes, drawn anew, however much of the training is past."""
        depth = self.tensors["depth"]
        chosen = torch.randperm(len(depth))[: self.count].to(depth.device)
        return {name: tensor[chosen] for name, tensor in self.tensors.items()}

    @staticmethod
    def scene(table: dict[str, Tensor]) -> Adjusted:
        t = {name: tensor.flatten(0, 1).float() for name, tensor in table.items()}
        frames = Frames(t["images"] / 255, t["depth"], t["confidence"], t["extrinsic"], t["intrinsic"])
        return Adjusted(frames, t["truth"], t["truth"] > 0, table["depth"].shape[1])
