"""Camera paths: rows of the camera table (scene.h)."""
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .geometry import camera_rotation
from .random_numbers import Stream
from .surroundings import Place

PATHS = ("orbit", "forward", "handheld", "strafe", "pan", "flythrough")
WEIGHTS = [0.38, 0.15, 0.19, 0.12, 0.05, 0.11]


@dataclass
class View:
    """target [B,3] is what the cameras mostly look at, from about `distance` [B]."""
    target: Tensor
    distance: Tensor


def draw_view(random: Stream, place: Place) -> View:
    reach = torch.minimum(place.half_x, place.half_y)
    inner = torch.where(place.open, torch.full_like(reach, 1.5), 0.35 * reach)[:, None]
    target = torch.cat([inner * random.uniform(2, low=-1, high=1), random.uniform(1, low=0.1, high=1.2)], -1)
    far = torch.where(place.open, random.log_uniform(low=1.2, high=6.0), random.uniform() * (0.9 * reach - 0.9) + 0.9)
    return View(target, far)


def _progress(random: Stream, frame: Stream, frames: int) -> Tensor:
    """Where on its path each frame is, [B,S] in [0,1]: a stretch of it, longer with more frames; half are shuffled."""
    low, high = {1: (0.5, 0.5), 2: (0.1, 0.5), 3: (0.2, 0.8), 4: (0.25, 1.0)}.get(frames, (0.4, 1.0))
    stretch = random.uniform(1, low=low, high=high)
    start = random.uniform(1)
    shuffled = random.chance(0.5, 1)
    jitter = frame.uniform().view(-1, frames) - 0.5  # [B,S]
    order = frame.uniform().view(-1, frames).argsort(1)
    step = 1 / max(frames - 1, 1)
    even = torch.arange(frames, device=jitter.device) * step
    u = start * (1 - stretch) + stretch * (even + 0.6 * step * jitter).clamp(0, 1)
    return torch.where(shuffled, u.gather(1, order), u)


def _wobble(random: Stream, u: Tensor, axes: int) -> Tensor:
    """A smooth curve over u: [B,S] to [B,S,axes], within about ±1."""
    frequency = random.uniform(2, 1, axes, low=0.4, high=1.6)
    phase = random.uniform(2, 1, axes, high=2 * math.pi)
    amplitude = random.uniform(1, axes, low=0.2, high=1.0)
    waves = (2 * math.pi * frequency * u[:, None, :, None] + phase).sin()  # [B,2,S,axes]
    return amplitude * (0.7 * waves[:, 0] + 0.3 * waves[:, 1])


def _orbit(random: Stream, view: View, angle: Tensor, height: Tensor, u: Tensor) -> Tensor:
    """Positions [B,S,3] around the target, over 25° to 360°."""
    full = random.chance(0.3)
    span = torch.where(full, random.uniform(low=200, high=360), random.uniform(low=25, high=200))
    overlap = 50 * (u.shape[1] - 1) / (u.amax(1) - u.amin(1)).clamp_min(1e-3)  # neighbours are about 50° apart at most
    span = torch.deg2rad(torch.minimum(span, overlap)) * random.sign()
    a = angle[:, None] + span[:, None] * (u - 0.5)
    radius = view.distance[:, None] * (1 + 0.12 * _wobble(random, u, 1)[..., 0])
    z = height[:, None] + 0.35 * _wobble(random, u, 1)[..., 0]
    return torch.stack([view.target[:, None, 0] + radius * a.cos(), view.target[:, None, 1] + radius * a.sin(), z], -1)


def _line(random: Stream, heading: Tensor, rise: float, length: Tensor, shake: float, u: Tensor) -> Tensor:
    """Offsets [B,S,3] along a shaky line."""
    along = torch.stack([heading.cos(), heading.sin(), random.uniform(low=-rise, high=rise)], -1)
    return length[:, None, None] * (along[:, None] * (u - 0.5)[..., None] + shake * _wobble(random, u, 3))


def _flythrough(random: Stream, place: Place, u: Tensor) -> Tensor:
    """Positions [B,S,3] on a curve through the whole place."""
    knots = random.uniform(4, 3, low=-0.8, high=0.8)
    reach = torch.stack([place.half_x, place.half_y, 0.5 * place.top], -1).clamp_max(5.0)[:, None]
    knots = knots * reach + torch.stack([0 * place.top, 0 * place.top, 0.55 * place.top], -1)[:, None]
    t = u[..., None]
    weights = torch.cat([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3], -1)  # Bézier [B,S,4]
    return weights @ knots


def _keep_inside(position: Tensor, place: Place) -> Tensor:
    reach = torch.stack([place.half_x, place.half_y], -1)[:, None] - 0.25
    flat = position[..., :2].clamp(-reach, reach)
    z = torch.minimum(position[..., 2], place.top[:, None]).clamp_min(0.15)
    return torch.cat([flat, z[..., None]], -1)


def _angle_between(a: Tensor, b: Tensor) -> Tensor:
    return torch.remainder(a - b + math.pi, 2 * math.pi) - math.pi


def _heading(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Yaw and pitch of [...,3]."""
    return (torch.atan2(vectors[..., 1], vectors[..., 0]),
            torch.atan2(vectors[..., 2], vectors[..., :2].norm(dim=-1).clamp_min(0.1)))


def draw_cameras(random: Stream, frame: Stream, frames: int, place: Place, view: View, size: tuple[int, int],
                 path: str | None) -> tuple[Tensor, Tensor]:
    """The geometric part of the camera table [B,S,13] (rotation, centre, focal) and the kind of path [B].

    `frame` has a key for each of the B S frames; `path` fixes the kind.
    """
    field = torch.deg2rad(random.uniform(low=30, high=100))  # of the longer side
    focal = 0.5 * max(size) / (field / 2).tan()
    kind = random.choice(WEIGHTS)
    if path is not None:
        kind = torch.full_like(kind, PATHS.index(path))
    u = _progress(random, frame, frames)
    angle = random.uniform(high=2 * math.pi)
    d, eye = view.distance, random.uniform(low=0.35, high=2.1)
    away = torch.stack([d * angle.cos(), d * angle.sin()], -1)
    start = torch.cat([view.target[:, :2] + away, eye[:, None]], -1)
    side = random.sign()
    turn = (side * field * random.uniform(low=0.5, high=1.6))[:, None] * (u - 0.5)  # of a pan
    paths = _positions(random, place, view, angle, side, start, turn, u)
    chosen = kind[None, :, None, None].expand(1, -1, frames, 3)
    position = _keep_inside(paths.gather(0, chosen)[0], place)
    yaw, pitch = _look(random, view, kind, start, position, u)
    yaw = yaw + (kind[:, None] == PATHS.index("pan")) * turn
    tilted = random.chance(0.15) * random.uniform(low=-0.4, high=0.4)
    roll = (0.07 * random.normal() + tilted)[:, None] + 0.07 * _wobble(random, u, 1)[..., 0]
    rotation = camera_rotation(yaw, pitch.clamp(-1.25, 0.9), roll)
    table = torch.cat([rotation.flatten(2), position, focal[:, None, None].expand(-1, frames, 1)], -1)
    return table, kind


def _positions(random: Stream, place: Place, view: View, angle: Tensor, side: Tensor, start: Tensor, turn: Tensor,
               u: Tensor) -> Tensor:
    """Each path's positions in the order of PATHS [6,B,S,3]."""
    d, look, begin = view.distance, angle + math.pi, start[:, None]
    ahead = look + random.uniform(low=-0.45, high=0.45)
    across = look + side * (math.pi / 2 + random.uniform(low=-0.5, high=0.5))
    arm, yaw = random.uniform(1, low=0.1, high=0.4), look[:, None] + turn  # of a pan: it is held before the body
    return torch.stack([
        _orbit(random, view, angle, start[:, 2], u),
        begin + _line(random, ahead, 0.15, d * random.uniform(low=0.35, high=1.0), 0.06, u),
        begin + _wobble(random, u, 3) * (d * random.uniform(low=0.2, high=0.6))[:, None, None],
        begin + _line(random, across, 0.25, d * random.uniform(low=0.3, high=1.0), 0.05, u),
        begin + torch.stack([arm * yaw.cos(), arm * yaw.sin(), 0.6 * arm * (u - 0.5)], -1),
        _flythrough(random, place, u)])


def _look(random: Stream, view: View, kind: Tensor, start: Tensor, position: Tensor, u: Tensor):
    """Yaw and pitch [B,S]: between the fixed direction from the start and the direction to the target."""
    aim = view.target[:, None] + 0.12 * _wobble(random, u, 3) * view.distance[:, None, None]
    yaw, pitch = _heading(aim - position)
    fixed_yaw, fixed_pitch = _heading(view.target - start)
    fixed_yaw = (fixed_yaw + random.uniform(low=-0.2, high=0.2))[:, None]
    one, zero = torch.ones_like(start[:, 0]), torch.zeros_like(start[:, 0])
    follow = torch.stack([one, random.uniform(), random.uniform(low=0.4, high=1.0), random.uniform(), zero, one])
    follow = follow.gather(0, kind[None])[0][:, None]
    yaw = fixed_yaw + follow * _angle_between(yaw, fixed_yaw)
    pitch = fixed_pitch[:, None] + follow * (pitch - fixed_pitch[:, None])
    shake = _wobble(random, u, 2)
    return yaw + 0.12 * shake[..., 0], pitch + 0.1 * shake[..., 1]
