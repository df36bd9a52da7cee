"""Training on the CPU, from scenes to weights that the program runs. Arguments: PROGRAM, FOLDER to fill."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import train
from scenes import TEST, VALIDATION, draw, render
from train import settings
from train.adjusted import adjusted, see
from train.config import Config
from train.evaluate import Case, evaluate
from train.files import REFINER, load_refiner, model_weights, read_snapshot
from train.judge import judge, write_scene
from train.model import Vggt
from train.processes import Processes
from train.recorded import SEED
from train.refiner import Refiner
from train.targets import in_first_view, make_targets, sampled
from train.trainer import Trainer

TINY = Path(train.__file__).parent / "configs" / "tiny.yaml"
LEARNED = 3.5  # the last steps' loss: 2.2 after looking, 5.7 on blank images
LIMIT = 1e-5  # of a tensor's largest value, between the program and the module


def start(out: Path, *changes: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "train", "run", TINY, "--out", out, "--device", "cpu"]
    for change in changes:
        command += ["--set", change]
    log = (out.parent / f"{out.name}.log").open("w")
    return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})


def last_loss(out: Path) -> float:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line][-1]


def check_sightings() -> None:
    """Where the first camera sees the points: its own at their pixels, another frame's by the true camera, and where
    its depth agrees they are indeed seen there."""
    H, W, patch = 56, 84, 14
    batch = render(draw(VALIDATION.start, 0, 4, 3, size=(H, W)))
    targets = make_targets(batch, patch)
    position, seen = in_first_view(targets, patch)
    pixel = position * (max(H, W) / 2) + torch.tensor([W / 2, H / 2])
    own = torch.stack(torch.meshgrid(*(torch.arange(patch // 4, n, patch // 2) for n in (W, H)), indexing="xy"), -1)
    assert torch.equal(seen[:, 0], sampled(targets.valid, patch)[:, 0])
    assert (pixel[:, 0] - own)[seen[:, 0]].abs().max() < 1e-3
    depth = sampled(targets.points, patch)[:, 1:, ..., 2]
    nearest = pixel[:, 1:].round().long()
    inside = ((nearest >= 0) & (nearest < torch.tensor([W, H]))).all(-1) & seen[:, 1:]
    u, v = nearest.clamp_min(0).minimum(torch.tensor([W - 1, H - 1])).unbind(-1)
    there = targets.depth[:, 0].flatten(1).gather(1, (v * W + u).flatten(1)).view_as(depth)
    agree = ((there - depth).abs() < 0.07 * depth) & inside
    print(f"of {int(inside.sum())} points in view, {int(agree.sum())} seen")
    assert agree.sum() > 0.3 * inside.sum() > 50


def check_resizing() -> None:
    """Depth and cameras of a resized batch are those of the scene at that size."""
    parameters = draw(VALIDATION.start, 0, 4, 2, size=(56, 84))
    batch = render(parameters).resized((98, 168))
    focal = 12  # of a camera's row, in pixels
    parameters["cameras"][..., focal] *= 2
    parameters["size"] = parameters["size"] * 2
    larger = render(parameters)  # 112×168: across it is the same
    assert batch.images.shape == (4, 2, 3, 98, 168) and batch.points().shape == (4, 2, 98, 168, 3)
    assert torch.equal(batch.intrinsic[..., 0, :], larger.intrinsic[..., 0, :])
    assert torch.allclose(batch.intrinsic[..., 1, :], larger.intrinsic[..., 1, :] * (98 / 112))
    rows = ((torch.arange(98) + 0.5) * 112 / 98).long()
    both = batch.valid & larger.valid[..., rows, :]
    error = ((batch.depth / larger.depth[..., rows, :]).log().abs())[both]
    print(f"resized depth: median difference {error.median():.4f}")
    assert error.median() < 0.02 and both.sum() > 0.9 * batch.valid.sum()
    colour = (batch.images - larger.images[..., rows, :]).abs().mean()
    assert colour < 0.05, colour


def check_learning(folder: Path) -> None:
    runs = {"seeing": start(folder / "seeing"), "blank": start(folder / "blank", "data.blank=true")}
    for name, run in runs.items():
        assert run.wait() == 0, (folder / f"{name}.log").read_text()
    seeing, blank = last_loss(folder / "seeing"), last_loss(folder / "blank")
    print(f"loss {seeing:.3f}, on blank images {blank:.3f}, limit {LEARNED}")
    assert seeing < LEARNED < blank


def check_resume(folder: Path) -> None:
    """A run that pauses and goes on is the run that does not pause, to the last bit."""
    chosen = settings.read(TINY, ["schedule.steps=8", "evaluation.scenes=2", "data.scenes=0", "data.group=3"])
    paused = dataclasses.replace(chosen, schedule=dataclasses.replace(chosen.schedule, pause_at=0.5))
    alone = Processes.join("cpu")
    Trainer(chosen, alone, folder / "straight", None).run()
    Trainer(paused, alone, folder / "resumed", None).run()
    resumed = Trainer(chosen, alone, folder / "resumed", None)
    assert resumed.resume() and resumed.step == 4
    resumed.run()
    for straight, other in zip(read_snapshot(folder / "straight"), read_snapshot(folder / "resumed")):
        assert straight.keys() == other.keys()
        assert all(torch.equal(straight[name], other[name]) for name in straight)


def check_restart(folder: Path) -> None:
    """Another run takes the model as it was, whether or not both have the same parts that only training needs."""
    alone, last = Processes.join("cpu"), folder / "seeing"
    for name, weight in (("without", 0.0), ("with", 1.0)):
        other = Trainer(settings.read(TINY, [f"loss.sightings={weight}"]), alone, folder / name, None)
        other.restart(last)
        for given, taken in zip(read_snapshot(last), (other.objective, other.optimisers.average)):
            model = model_weights(taken.state_dict())
            assert all(torch.equal(model[k], tensor) for k, tensor in model_weights(given).items())
        other.save()
        last = folder / name


def run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def check_export(program: str, folder: Path) -> None:
    """What is exported gives the same in the program as in the module that was trained."""
    exported, archive = folder / "tiny.safetensors", folder / "tiny.ts"
    run(sys.executable, "-m", "train", "export", folder / "seeing", exported)
    run(program, "weights", "convert", exported, archive, "--type", "fp16")
    images = render(draw(VALIDATION.start, 0, 1, 5, size=(42, 56))).images[0]
    save_file({"images": images.contiguous()}, folder / "frames.safetensors")
    predictions = folder / "predictions.safetensors"
    run(program, "--frames", folder / "frames.safetensors", "--weights", archive, "--device", "cpu",
        "--precision", "fp32", "--heads", "camera,depth,points", "--save-predictions", predictions)
    found = load_file(predictions)
    assert torch.equal(found["images"], images)
    model = Vggt(Config.read(folder / "config.json"), points=True).eval()
    model.load_state_dict({name: t.float() for name, t in load_file(exported).items()})
    for name, expected in model.predict(images).items():
        error = float((found[name] - expected).abs().max() / expected.abs().max())
        print(f"{name:18} {error:.2e}")
        assert error <= LIMIT, name


def check_judge(program: str, folder: Path) -> None:
    """The program's figures on test scenes are those of the training code."""
    weights = read_snapshot(folder / "seeing")[1]
    model = Vggt(Config.read(folder / "config.json"), points=True).eval()
    model.load_state_dict({n: t.half().float() for n, t in model_weights(weights).items()})
    case = Case((70, 84), 3, 4, seed=TEST.start)  # the model's own size is 42×56
    options = ["--device", "cpu", "--precision", "fp32"]
    found, merged = judge(Path(program), folder / "tiny.ts", case, False, [options, [*options, "--merge", "on"]])
    expected = evaluate(model, case, Processes.join("cpu"))
    names = {"auc_30": "auc30", "median_rotation_deg": "rotation_deg", "abs_rel": "absrel", "delta_1": "delta"}
    for name, other in names.items():
        value = (found | found["depth"])[name]
        print(f"{name:20} {value:.5f} {expected[other]:.5f}")
        assert abs(value - expected[other]) <= 1e-3 * max(1, expected[other]), name
    assert merged["poses"] == found["poses"] and merged["depth"]["abs_rel"] != found["depth"]["abs_rel"]


def check_adjusted() -> None:
    """Depth as if it were adjusted is nearer to the truth, which other frames confirm by the true cameras."""
    batch = render(draw(VALIDATION.start, 0, 3, 4, size=(84, 112)))
    B, S, H, W = batch.depth.shape
    torch.manual_seed(3)
    wave = F.interpolate(torch.randn(B, S, 2, 3), (H, W), mode="bicubic") * 0.15
    given = batch.depth.clamp_min(0.1) * wave.exp()
    scene = adjusted(batch, given, torch.full_like(given, 2.0))

    def error(depth: torch.Tensor) -> float:
        return float((depth / scene.truth).log().abs()[scene.valid].mean())

    before, after = error(given.flatten(0, 1)), error(scene.frames.depth)
    turn = scene.frames.extrinsic[:, :, :3] @ batch.extrinsic.flatten(0, 1)[:, :, :3].mT
    angle = ((turn.diagonal(dim1=1, dim2=2).sum(1) - 1) / 2).clamp(-1, 1).acos().rad2deg()
    print(f"adjusted depth: error {before:.4f} -> {after:.4f}, cameras turned by up to {angle.max():.3f} degrees")
    assert after < 0.8 * before and 0 < angle.max() < 4
    frame, _ = scene.pairs(range(1, 2))
    place = see(scene.frames, scene.truth, frame, frame, 1)
    own = torch.stack(torch.meshgrid(torch.arange(W), torch.arange(H), indexing="xy"), -1).float()
    found = torch.stack([place.u, place.v], -1).view(-1, H, W, 2)
    assert (found - own).abs().max(-1).values[scene.valid].max() < 0.01
    sources, own = scene.sources(6), frame[:, None].expand(-1, S - 1)
    some = sources >= 0
    assert some.any() and torch.equal(sources[some] // S, own[some] // S) and (sources != own).all()


def check_refiner(program: str, folder: Path) -> None:
    """A refiner that was trained a little is part of weights that the program takes."""
    run(sys.executable, "-m", "train", "refine", folder / "tiny.ts", "--out", folder / "refiner", "--minutes", "0.01",
        "--scenes", "1", "--device", "cpu")
    refiner = folder / "refiner" / "refiner.safetensors"
    (folder / "tiny.config.json").write_text('{"fit": "pad"}')
    run(sys.executable, "-m", "train", "join", folder / "tiny.ts", refiner, folder / "joined" / "tiny.safetensors")
    (folder / "tiny.config.json").unlink()
    assert json.loads((folder / "joined" / "config.json").read_text())["fit"] == "pad"
    archive = folder / "joined.ts"
    run(program, "weights", "convert", folder / "joined" / "tiny.safetensors", archive, "--type", "fp16")
    run(sys.executable, "-m", "train", "join", archive, refiner, folder / "again" / "tiny.safetensors")
    first, again = (load_file(folder / name / "tiny.safetensors") for name in ("joined", "again"))
    assert first.keys() == again.keys() and all(torch.equal(first[name], again[name]) for name in first)
    start = Refiner().state_dict()
    trained = {name.removeprefix(REFINER): t.float() for name, t in first.items() if name.startswith(REFINER)}
    assert trained.keys() == start.keys() and trained["change.bias"].abs().max() > 0
    (saved, seen), (joined, unknown) = load_refiner(refiner), load_refiner(archive)
    assert seen > 0 and unknown == 0 and all(torch.equal(saved[name], t) and torch.equal(joined[name], t)
                                             for name, t in trained.items())


def check_recorded(program: str, folder: Path) -> None:
    """Scenes as the program adjusts them have its depth and cameras, beside the truth in the same unit."""
    recorded, weights = folder / "recorded", folder / "tiny.ts"
    command = [sys.executable, "-m", "train", "record", program, weights, recorded, "--scenes", "2", "--workers", "1"]
    run(*command, "--first", "1")
    scene = load_file(recorded / "000002.safetensors")
    depth, truth = (scene[name].float() for name in ("depth", "truth"))
    assert depth.shape == truth.shape and len(depth) == 8 and abs(depth.median() - 1) < 1e-3
    assert abs((truth / depth)[truth > 0].median() - 1) < 2e-3
    frames, true = folder / "frames.safetensors", folder / "true.safetensors"
    case = Case(seed=SEED, frames=8, size=(168, 224))
    write_scene(case, Config.of_weights(weights), 2, False, frames, true)
    images = load_file(frames)["images"][..., :depth.shape[1], :depth.shape[2]]
    assert (scene["images"] / 255 - images).abs().max() < 0.003
    before = (recorded / "000001.safetensors").stat().st_mtime_ns
    run(*command)
    assert sorted(p.name for p in recorded.iterdir()) == [f"00000{n}.safetensors" for n in range(3)]
    assert (recorded / "000001.safetensors").stat().st_mtime_ns == before
    refine = [sys.executable, "-m", "train", "refine", weights, "--out", folder / "on-recorded", "--minutes", "0.01",
              "--device", "cpu", "--recorded", recorded, "--initial", folder / "refiner" / "refiner.safetensors"]
    run(*refine, "--scenes", "2")
    old, new = (load_file(folder / name / "refiner.safetensors") for name in ("refiner", "on-recorded"))
    assert old.keys() == new.keys() and any(not torch.equal(old[name], new[name]) for name in old)
    failed = subprocess.run(list(map(str, [*refine, "--scenes", "4"])), capture_output=True, text=True)
    assert failed.returncode != 0 and "3 scenes for a process, expected at least 4" in failed.stderr, failed.stderr


def main() -> None:
    program, folder = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    check_sightings()
    check_resizing()
    check_learning(folder)
    check_resume(folder)
    check_restart(folder)
    check_export(program, folder)
    check_judge(program, folder)
    check_adjusted()
    check_refiner(program, folder)
    check_recorded(program, folder)


if __name__ == "__main__":
    main()
