"""The training code's modules against the golden tensors of the public PyTorch code: usage: FIXTURES."""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from train.camera_head import activate_pose
from train.config import Config
from train.model import Vggt

LIMIT = 5e-6  # of a tensor's largest value; the reference with other thread counts differs by 1.3e-6


def stages(model: Vggt, images: torch.Tensor) -> dict[str, torch.Tensor]:
    layers = range(model.config.depth)
    outputs = model(images[None], keep=layers)
    found = {"patch_tokens": model.aggregator.embed(images[None])[0, :, model.config.special_tokens :]}
    for i in layers:
        frame, whole = outputs.layers.tokens[i]
        found[f"frame_block.{i}"] = frame[0]
        found[f"global_block.{i}"] = whole.flatten(1, 2)
    for i, pose in enumerate(outputs.poses):
        found[f"pose_enc.{i}"] = activate_pose(pose[0])
    predicted = model.predict(images)
    del predicted["pose_enc"]  # the last refinement, which is there
    return found | predicted


@torch.no_grad()
def main() -> None:
    golden = Path(sys.argv[1]) / "golden" / "nano"
    weights = torch.load(golden / "weights.pt", weights_only=True)
    model = Vggt(Config.read(golden / "config.json"), points=True)
    model.load_state_dict({k: v.float() for k, v in weights.items() if not k.startswith("track_head.")})
    case = load_file(golden / "frames2_42x56.safetensors")
    found = stages(model, case["images"].float())
    expected = {k: v for k, v in case.items() if k in found}
    assert len(expected) == len(found) == 19, sorted(set(found) ^ set(expected))
    errors = {
        name: float((found[name] - value.float()).abs().max() / value.float().abs().max())
        for name, value in expected.items()
    }
    for name, error in sorted(errors.items()):
        print(f"{name:20} {error:.2e}")
    assert all(error <= LIMIT for error in errors.values()), f"above {LIMIT}"


if __name__ == "__main__":
    main()
