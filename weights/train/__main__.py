"""python -m train run|evaluate|export|judge|plot|record|refine|join."""

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

import torch

from . import files, settings
from .plot import plot


def run(arguments: argparse.Namespace) -> None:
    from .processes import Processes
    from .trainer import Trainer

    chosen = settings.read(arguments.settings, arguments.set)
    processes = Processes.join(arguments.device)
    torch.set_float32_matmul_precision("high")
    trainer = Trainer(chosen, processes, arguments.out, arguments.checkpoint)
    if not trainer.resume() and arguments.restart:
        trainer.restart(arguments.restart)
    if processes.first:
        text = settings.dump(chosen)
        files.write_atomically(arguments.out / "settings.yaml", lambda path: path.write_text(text))
    trainer.run()
    processes.leave()


def evaluate(arguments: argparse.Namespace) -> None:
    from .config import Config
    from .evaluate import Case, evaluate
    from .model import Vggt
    from .processes import Processes

    weights = files.model_weights(files.read_snapshot(arguments.snapshot)[1])
    processes = Processes.join(arguments.device)
    points = any(name.startswith("point_head.") for name in weights)
    model = Vggt(Config.read(arguments.snapshot / "config.json"), points).to(processes.device).eval()
    model.load_state_dict(weights)
    for size in arguments.sizes.split(","):
        for frames in map(int, arguments.frames.split(",")):
            case = Case(settings.parse_size(size), frames, arguments.scenes, **_scenes(arguments))
            result = {"size": size, "frames": frames} | evaluate(model, case, processes)
            if processes.first:
                print(json.dumps(result), flush=True)
    processes.leave()


def judge(arguments: argparse.Namespace) -> None:
    from .evaluate import Case
    from .judge import judge

    for size in arguments.sizes.split(","):
        for frames in map(int, arguments.frames.split(",")):
            case = Case(settings.parse_size(size), frames, arguments.scenes, **_scenes(arguments))
            texts = arguments.options or [""]
            variants = [["--device", arguments.device, *shlex.split(text)] for text in texts]
            all_found = judge(arguments.program, arguments.weights, case, arguments.shuffle, variants)
            for text, found in zip(texts, all_found, strict=True):
                what = {"size": size, "frames": frames, "shuffled": arguments.shuffle, "options": text}
                print(json.dumps(what | found), flush=True)


def refine(arguments: argparse.Namespace) -> None:
    from .processes import Processes
    from .refine import Training, train

    processes = Processes.join(arguments.device)
    torch.backends.cudnn.allow_tf32 = False  # as bf16 (refiner.py), with three bits more
    training = Training(arguments.weights, arguments.scenes, processes, arguments.initial, arguments.recorded,
                        arguments.compile)
    train(training, arguments.out, arguments.minutes, arguments.rate, tuple(arguments.progress))
    processes.leave()


def record(arguments: argparse.Namespace) -> None:
    from .recorded import record

    record(arguments.program.resolve(), arguments.weights, arguments.folder, arguments.first, arguments.scenes,
           arguments.workers)


def _scenes(arguments: argparse.Namespace) -> dict:
    from scenes import TEST

    return {"seed": TEST.start if arguments.seed is None else arguments.seed, "path": arguments.path}


def parser() -> argparse.ArgumentParser:
    commands = argparse.ArgumentParser(prog="train", description=__doc__)
    sub = commands.add_subparsers(required=True)
    device = {"default": "cuda" if torch.cuda.is_available() else "cpu"}

    p = sub.add_parser("run", help="train, or go on from the checkpoint in the folder")
    p.add_argument("settings", type=Path, help="YAML")
    p.add_argument("--out", type=Path, required=True, help="folder of the log and the snapshot")
    p.add_argument("--checkpoint", type=Path, help="file to go on from exactly [OUT/checkpoint.pt]")
    p.add_argument("--restart", type=Path, help="folder of a snapshot whose weights to begin with")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes a setting")
    p.add_argument("--device", **device)
    p.set_defaults(command=run)

    held_out = argparse.ArgumentParser(add_help=False)
    held_out.add_argument("--frames", default="2,8,16,32", help="scenes of so many, each")
    held_out.add_argument("--sizes", default="168x224", help="HxW, each")
    held_out.add_argument("--scenes", type=int, default=512)
    held_out.add_argument("--seed", type=int, help="of the scenes [the first of scenes.TEST]")
    held_out.add_argument("--path", help="one kind of camera path, see scenes.PATHS")

    p = sub.add_parser("evaluate", help="a snapshot's poses and depth on held-out scenes", parents=[held_out])
    p.add_argument("snapshot", type=Path)
    p.add_argument("--device", **device)
    p.set_defaults(command=evaluate)

    p = sub.add_parser("judge", help="the program with its weights on held-out scenes", parents=[held_out])
    p.add_argument("program", type=Path, help="vggt-recon")
    p.add_argument("weights", type=Path, help="anything that --weights takes")
    p.add_argument("--shuffle", action="store_true", help="the frames of each scene")
    p.add_argument("--device", default="auto", help="of vggt-recon")
    p.add_argument("--options", action="append", metavar="'--NAME VALUE ...'",
                   help="of vggt-recon; given again: the same scenes once more, with others")
    p.set_defaults(command=judge)

    p = sub.add_parser("export", help="a snapshot's average as fp16 .safetensors with config.json")
    p.add_argument("snapshot", type=Path)
    p.add_argument("target", type=Path)
    p.set_defaults(command=lambda a: files.export(a.snapshot, a.target))

    p = sub.add_parser("record", help="rendered scenes as the program adjusts them, to train its refiner on")
    p.add_argument("program", type=Path, help="vggt-recon")
    p.add_argument("weights", type=Path, help="the network, a TorchScript archive")
    p.add_argument("folder", type=Path, help="of the scenes; those that are there stay")
    p.add_argument("--first", type=int, default=0, help="number of the first scene [0]")
    p.add_argument("--scenes", type=int, default=1000, help="of eight frames [1000]")
    p.add_argument("--workers", type=int, default=os.cpu_count(), help="programs that run at once [one on each core]")
    p.set_defaults(command=record)

    p = sub.add_parser("refine", help="train the refiner of a network's depth")
    p.add_argument("weights", type=Path, help="the network, a TorchScript archive")
    p.add_argument("--out", type=Path, required=True, help="folder of refiner.safetensors and the log")
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--rate", type=float, default=0.002, help="of the optimiser [0.002]")
    p.add_argument("--scenes", type=int, default=8, help="of eight frames, in a step of a process [8]")
    p.add_argument("--initial", type=Path, help="a refiner.safetensors to begin with, or weights with a refiner")
    p.add_argument("--recorded", type=Path, help="folder of `record`, to learn from these scenes instead")
    p.add_argument("--progress", type=float, nargs=2, default=(0, 1), metavar=("FROM", "TO"),
                   help="the part of the schedule that these minutes are [0 1]")
    p.add_argument("--compile", action="store_true", help="by torch.compile, which takes a minute or two first")
    p.add_argument("--device", **device)
    p.set_defaults(command=refine)

    p = sub.add_parser("join", help="a network's weights with a refiner as .safetensors with config.json")
    p.add_argument("weights", type=Path, help="a TorchScript archive")
    p.add_argument("refiner", type=Path, help="refiner.safetensors")
    p.add_argument("target", type=Path)
    p.set_defaults(command=lambda a: files.join(a.weights, a.refiner, a.target))

    p = sub.add_parser("plot", help="a log's curves as SVG")
    p.add_argument("log", type=Path)
    p.add_argument("target", type=Path)
    p.set_defaults(command=lambda a: plot(a.log, a.target))
    return commands


def main() -> int:
    arguments = parser().parse_args()
    try:
        arguments.command(arguments)
    except (ValueError, FileNotFoundError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
