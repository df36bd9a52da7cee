"""What the network is trained by. All in fp32."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .camera_head import relative, rotation_from_quaternion
from .targets import Matches

ITERATION_DECAY = 0.6  # of the weights of earlier camera refinements
NEAR = 0.02  # frames so far apart, in mean distances of the scene, say half as much of a direction
FAR_TRANSLATION = 5.0  # an error beyond it counts as this: a lost scene must not rule a step


def pose_loss(poses: list[Tensor], truth: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """L1 on the encodings [B,S,9], translation also relative to its length. Loss and its last parts."""
    total, parts = truth.new_zeros(()), {}
    near = 1 / (0.1 + truth[..., :3].norm(dim=-1))  # [B,S]
    for i, pose in enumerate(poses):
        error = (pose - truth).abs()
        shift = error[..., :3].clamp(max=FAR_TRANSLATION).mean(-1)  # [B,S]
        parts = {
            "translation": shift.mean(),
            "relative": (shift * near).mean(),
            "rotation": error[..., 3:7].mean(),
            "fov": error[..., 7:].mean(),
        }
        loss = parts["translation"] + 0.25 * parts["relative"] + parts["rotation"] + 0.5 * parts["fov"]
        total = total + ITERATION_DECAY ** (len(poses) - 1 - i) * loss
    return total, parts


def pair_loss(pose: Tensor, truth: Tensor) -> Tensor:
    """Relative motions of all pairs of frames, from encodings [B,S,9], as the AUC of pairs judges them.

    The distance between rotation matrices, and that between directions of translation, which counts less where
    the frames are so near each other that it says little.
    """
    (turn, shift), (true_turn, true_shift) = (
        relative(rotation_from_quaternion(x[..., 3:7], least=0.1), x[..., :3]) for x in (pose, truth)
    )
    rotation = (turn - true_turn).square().sum((-1, -2)).add(1e-8).sqrt().mean()
    lengths = true_shift.norm(dim=-1)  # [B,pairs]
    found, true = (t / (t.square().sum(-1, keepdim=True).add(1e-8).sqrt() + NEAR) for t in (shift, true_shift))
    direction = (found - true).square().sum(-1).add(1e-8).sqrt()
    return 0.5 * rotation + (direction * lengths / (lengths + NEAR)).mean()


def _mean(x: Tensor, weight: Tensor) -> Tensor:
    return (x * weight).sum() / weight.sum().clamp_min(1)


def _confident(error: Tensor, raw: Tensor, valid: Tensor, sky: float) -> Tensor:
    """Errors weighted by the confidence that the network claims; where nothing is valid it is to be 1."""
    confidence = 1 + raw.clamp(-8, 6).exp()
    claimed = _mean(confidence * error - 0.2 * confidence.log(), valid)
    return claimed + sky * _mean(confidence - 1, 1 - valid)


def _slopes(error: Tensor, valid: Tensor) -> Tensor:
    """Mean difference of neighbouring errors [F,H,W], one and four pixels apart."""
    total = error.new_zeros(())
    for step in (1, 4):
        for axis in (1, 2):
            count = error.shape[axis] - step
            a, b = error.narrow(axis, step, count), error.narrow(axis, 0, count)
            both = valid.narrow(axis, step, count) * valid.narrow(axis, 0, count)
            total = total + _mean((a - b).abs(), both)
    return total


def depth_loss(raw: Tensor, depth: Tensor, valid: Tensor, sky: float) -> tuple[Tensor, Tensor]:
    """Raw [F,2,H,W] against depth [F,H,W]: error of its logarithm and of its slopes. Loss, mean error."""
    valid = valid.float()
    error = (raw[:, 0] - depth.clamp_min(1e-3).log()) * valid
    loss = _confident(error.abs(), raw[:, 1], valid, sky) + 0.5 * _slopes(error, valid)
    return loss, _mean(error.abs(), valid)


def point_loss(raw: Tensor, points: Tensor, valid: Tensor, sky: float) -> tuple[Tensor, Tensor]:
    """Raw [F,4,H,W] against points [F,H,W,3], on the head's own logarithmic scale. Loss, mean error."""
    valid = valid.float()
    truth = (points.sign() * points.abs().log1p()).permute(0, 3, 1, 2)  # [F,3,H,W]
    error = (raw[:, :3] - truth).abs().mean(1)  # [F,H,W]
    return _confident(error, raw[:, 3], valid, sky), _mean(error, valid)


def reading_loss(found: Tensor, truth: Tensor, weight: Tensor, valid: Tensor) -> Tensor:
    """Vectors [F,Q,4,D] that a linear map reads off patch tokens; the weight [F,Q,4] is 0 where not valid."""
    return ((found - truth).abs().sum(-1) * weight).sum() / valid.sum().clamp_min(1)


def match_loss(queries: Tensor, keys: Tensor, matches: Matches) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the first heads' attention towards the patch that shows the same surface.

    Queries and keys [B,S,Q,A,D] are those of a global block's patches. Head k may choose among the patches of
    one frame alone, `matches.keys[k]`. Returns the loss and the share of patches whose strongest key is right.
    """
    loss, hits, count = matches.weights.new_zeros(3).unbind()
    for head in range(len(matches.keys)):
        there = keys[..., head, :].index_select(1, matches.keys[head])  # [B,S,Q,D]
        scores = (queries[..., head, :] @ there.mT).float() * queries.shape[-1] ** -0.5  # [B,S,Q,Q]
        patches, weights = matches.patches[head], matches.weights[head]  # [B,S,Q,4]
        chosen = F.log_softmax(scores, -1).gather(-1, patches)
        loss = loss - _mean(chosen, weights)
        right = ((scores.argmax(-1, keepdim=True) == patches) & (weights > 0)).any(-1)
        hits, count = hits + right.sum(), count + (weights.sum(-1) > 0).sum()
    return loss, hits / count.clamp_min(1)
