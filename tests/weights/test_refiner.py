"""The refiner's module gives the tensors of golden/refiner.safetensors: usage: FIXTURES, or --write to make them anew."""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from train.refiner import Frames, Refined, Refiner, Widths

WIDTHS = Widths(half=4, quarter=8, eighth=8, merged=8, matching=8, groups=2, hidden=6, scores=3, gathered=8, first=8,
                second=8, third=8, sharpened=8)
REFERENCES = torch.tensor([0, 2, 3])
SOURCES = torch.tensor([[1, 2, 3, -1, -1, -1], [3, 0, -1, -1, -1, -1], [2, -1, -1, -1, -1, -1]])
LIMIT = 2e-6  # of the logarithms


def draw() -> dict[str, torch.Tensor]:
    """Random weights, and four frames of 28×36 pixels whose cameras look at one wall."""
    torch.manual_seed(5)
    refiner = Refiner(WIDTHS)
    for tensor in refiner.parameters():
        deviation = 1.8 * tensor[0].numel() ** -0.5 if tensor.dim() > 1 else 0.2
        tensor.data.normal_(0, deviation)
    images = torch.rand(4, 3, 7, 9).repeat_interleave(4, 2).repeat_interleave(4, 3)
    depth = 2 + 0.3 * torch.rand(4, 28, 36)
    depth[3, 8:12, 4:8] = 0.25  # nearer than the rest by more than MOST_OFF
    extrinsic = torch.eye(3, 4).repeat(4, 1, 1)
    extrinsic[:, :, 3] = torch.tensor([[0.0, 0, 0], [0.3, 0, 0], [-0.2, 0.2, 0.1], [0, -0.3, -0.1]])
    angle = torch.tensor(0.06)
    turn = torch.tensor([[angle.cos(), 0, angle.sin()], [0, 1, 0], [-angle.sin(), 0, angle.cos()]])
    extrinsic[1, :, :3] = turn
    intrinsic = torch.tensor([[30.0, 0, 18], [0, 31, 14], [0, 0, 1]]).repeat(4, 1, 1)
    case = {"images": images, "depth": depth, "confidence": 1 + 3 * torch.rand(4, 28, 36), "extrinsic": extrinsic,
            "intrinsic": intrinsic, "references": REFERENCES.float(), "sources": SOURCES.float()}
    # One without other frames, wider than WINDOWS.
    wide = 2 + 0.3 * torch.rand(8, 160)
    wide[:4, 8:12] = 1
    case |= {"wide_image": torch.rand(3, 2, 40).repeat_interleave(4, 1).repeat_interleave(4, 2), "wide_depth": wide,
             "wide_confidence": 1 + 3 * torch.rand(8, 160)}
    return case | {f"weights.{name}": tensor.detach() for name, tensor in refiner.state_dict().items()}


def refiner_of(case: dict[str, torch.Tensor], kind: torch.dtype) -> Refiner:
    refiner = Refiner(WIDTHS)
    refiner.load_state_dict({k.removeprefix("weights."): v for k, v in case.items() if k.startswith("weights.")})
    return refiner.to(kind)


def run(case: dict[str, torch.Tensor], kind: torch.dtype) -> tuple[Refiner, Refined]:
    refiner = refiner_of(case, kind)
    frames = Frames(*(case[name].to(kind) for name in ("images", "depth", "confidence", "extrinsic", "intrinsic")))
    return refiner, refiner(frames, case["references"].long(), case["sources"].long())


@torch.no_grad()
def refined(case: dict[str, torch.Tensor], kind: torch.dtype) -> torch.Tensor:
    return run(case, kind)[1].logs.exp()


@torch.no_grad()
def refined_alone(case: dict[str, torch.Tensor], depth: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """The wide frame with this depth."""
    maps = (case["wide_image"], depth, case["wide_confidence"], torch.eye(3, 4), case["intrinsic"][0])
    frames = Frames(*(tensor[None].to(kind) for tensor in maps))
    return refiner_of(case, kind)(frames, torch.tensor([0]), torch.full((1, 6), -1)).logs[0].exp()


def first_gradient(case: dict[str, torch.Tensor], bf16: bool) -> torch.Tensor:
    """Of the first layer, which learns by how alike features are."""
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        refiner, found = run(case, torch.float32)
    found.alike.square().mean().backward()
    return refiner.to_half.first.weight.grad


def main() -> None:
    path = Path(sys.argv[-1]) / "golden" / "refiner.safetensors"
    if sys.argv[1] == "--write":
        case = draw()
        case["refined"] = refined(case, torch.float64).float()
        case["wide_refined"] = refined_alone(case, case["wide_depth"], torch.float64).float()
        save_file({name: tensor.contiguous() for name, tensor in case.items()}, path)
        return
    case = load_file(path)
    found, expected = refined(case, torch.float32), case["refined"]
    error = float((found / expected).log().abs().max())
    changed = float((found / case["depth"][REFERENCES]).log().abs().mean())
    assert changed > 0.02, f"the refiner changes depth by {changed:.3f} alone"
    assert error < LIMIT, f"depth is off by {error:.2e}"
    alone, wide = refined_alone(case, case["wide_depth"], torch.float32), case["wide_refined"]
    assert float((alone / wide).log().abs().max()) < LIMIT, "wide depth is off"
    hole, whole = case["wide_depth"].clone(), case["wide_depth"].clone()
    hole[:4, 8:12], whole[:4, 8:12] = 0, 2.1
    with_hole, without = (refined_alone(case, depth, torch.float32) for depth in (hole, whole))
    moved = float((with_hole / without).log().abs()[:, 24:].max())
    assert moved < 0.015, f"a block without depth moves others by {moved:.3f}"
    assert float(with_hole[hole > 0].min()) > 0.5, "pixels beside a block without depth have lost theirs"
    exact, rounded = first_gradient(case, False), first_gradient(case, True)
    noise = float((rounded - exact).norm() / exact.norm())
    assert noise < 1e-4, f"autocast changes the first layer's gradient by {noise:.1e}"
    print(f"depth within {error:.1e}, changed by {changed:.3f}")


main()
