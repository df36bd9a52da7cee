"""What a run leaves: a checkpoint to go on from exactly, and a snapshot in parts to carry elsewhere."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from .config import Config

PART_BYTES = 15 << 20
REFINER = "depth_refiner."  # begins the names of the refiner's tensors among the weights
MODEL = "model."  # begins the names of what is exported; the others are of training alone


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """A crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    write(temporary)
    os.replace(temporary, path)


def write_checkpoint(path: Path, state: dict) -> None:
    write_atomically(path, lambda target: torch.save(state, target))


def write_snapshot(
    folder: Path, weights: dict[str, Tensor], average: dict[str, Tensor], config: Config, step: int
) -> None:
    """snapshot-NN.safetensors, each at most 15 MiB: `weights.*` in fp32, `average.*` in fp16; config.json.

    Every part holds whole tensors and names the step it was written after.
    """
    tensors = {f"weights.{k}": v.float() for k, v in weights.items()}
    tensors |= {f"average.{k}": v.half() for k, v in average.items()}
    parts, room = [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        if not parts or tensor.nbytes > room:
            parts.append({})
            room = PART_BYTES
        parts[-1][name] = tensor
        room -= tensor.nbytes
    for number, part in enumerate(parts):
        path = folder / f"snapshot-{number:02}.safetensors"
        write_atomically(path, lambda target: save_file(part, target, {"step": str(step)}))
    write_atomically(folder / "config.json", lambda target: target.write_text(config.to_json()))


def read_snapshot(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights and average of a snapshot, both in fp32. Parts with the average alone do: after a run both are near.

    Throws FileNotFoundError where there is none, ValueError where its parts are of different steps.
    """
    paths = sorted(folder.glob("snapshot-*.safetensors"))
    if not paths:
        raise FileNotFoundError(f"{folder}: no snapshot-*.safetensors")
    steps = {safe_open(path, "pt").metadata()["step"] for path in paths}
    if len(steps) > 1:
        raise ValueError(f"{folder}: the snapshot's parts are of steps {', '.join(sorted(steps))}")
    tensors = {name: t.float() for path in paths for name, t in load_file(path).items()}

    def section(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    return section("weights.") or section("average."), section("average.")


def model_weights(objective: dict[str, Tensor]) -> dict[str, Tensor]:
    """The network's tensors by their official names, without what only training needs."""
    return {k.removeprefix(MODEL): v for k, v in objective.items() if k.startswith(MODEL)}


def export(folder: Path, target: Path) -> None:
    """The average of a snapshot as fp16 .safetensors with its config.json beside it."""
    _, average = read_snapshot(folder)
    weights = {k: v.half().contiguous() for k, v in model_weights(average).items()}
    write_atomically(target, lambda path: save_file(weights, path))
    text = (folder / "config.json").read_text()
    write_atomically(target.with_name("config.json"), lambda path: path.write_text(text))


def load_refiner(path: Path) -> tuple[dict[str, Tensor], int]:
    """A refiner's tensors in fp32, by their names in its module, and the scenes that it has seen as far as is known.

    path: what `Training.save` in refine.py wrote, or an archive of weights.
    """
    if path.suffix == ".safetensors":
        tensors = load_file(path)
        with safe_open(path, "pt") as file:
            seen = int((file.metadata() or {}).get("scenes", 0))
    else:
        tensors, seen = torch.jit.load(path, map_location="cpu").state_dict(), 0
    return {k.removeprefix(REFINER): v.float() for k, v in tensors.items() if k.startswith(REFINER)}, seen


def join(weights: Path, refiner: Path, target: Path) -> None:
    """The tensors of a TorchScript archive and of a refiner as .safetensors with the archive's config.json beside it.

    What NAME.config.json beside the archive NAME.ts says goes before. A refiner that the archive holds is replaced.
    """
    archive = torch.jit.load(weights, map_location="cpu", _extra_files=(extra := {"config.json": ""}))
    if not extra["config.json"]:
        raise ValueError(f"{weights}: no config.json in it")
    tensors = {k: v for k, v in archive.state_dict().items() if not k.startswith(REFINER)} | load_file(refiner)
    tensors = {k: v.contiguous() for k, v in tensors.items()}
    config = json.loads(extra["config.json"])
    if (beside := weights.with_suffix(".config.json")).exists():
        config |= json.loads(beside.read_text())
    write_atomically(target, lambda path: save_file(tensors, path))
    write_atomically(target.with_name("config.json"), lambda path: path.write_text(json.dumps(config)))
