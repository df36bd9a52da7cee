"""Where objects stand and which primitives they are: rows of the primitive table (scene.h)."""
import math
from functools import cache

import torch
from torch import Tensor

from .cameras import View
from .furniture import ANY, DIMENSIONS, KINDS, MAX_PARTS, SHAPES, templates
from .geometry import rotation_from_quaternion, yaw_quaternion
from .random_numbers import Stream, constant
from .surroundings import Place

MAX_PRIMITIVES = 128  # kMaxPrimitives in scene.h
GROUPS, SINGLES, ON_WALLS, LARGE = 10, 20, 10, 4
ROOM_MATERIALS, MATERIALS = 6, 24  # of the room; of all
_SINGLE_WEIGHTS = [2.0, 1.5, 1.2, 1.0, 0.4, 0.5, 0.7, 1.0, 1.0, 1.0]  # in the order of SHAPES

# n primitives a scene: shape [B,n], centre [B,n,3], turn [B,n,3,3], size [B,n,3], material [B,n], as for `rows`; look
# [B,n,2]; which of them are there [B,n].
Drawn = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


def _sizes_within(shape: Tensor, half: Tensor, free: Tensor) -> Tensor:
    """Sizes as in scene.h of shapes that fill about the half extents [...,3]; `free` [...] in [0,1]."""
    x, y, z = half.unbind(-1)
    thin, wide = torch.minimum(x, y), torch.maximum(x, y)
    round_ = thin * (0.3 + 0.7 * free)
    tube = wide * (0.12 + 0.2 * free)
    by_shape = [half, half, torch.stack([wide, wide * (0.25 + free), z], -1),
                torch.stack([round_, (z - round_).clamp_min(0.02), 0 * x], -1),
                torch.stack([x, y, 0 * x], -1), torch.stack([x, y, 0.15 + 0.4 * free], -1), half,
                torch.stack([wide - tube, tube, (free - 0.6).clamp_min(0) * wide], -1), half,
                torch.stack([wide * 0.7, wide * (0.3 + 0.4 * free), z], -1)]
    index = shape[None, ..., None].expand(1, *half.shape)
    return torch.stack(by_shape).gather(0, index)[0]


def half_extents(shape: Tensor, size: Tensor) -> Tensor:
    """Of the box around a primitive, [...,3] in its own axes."""
    a, b, c = size.unbind(-1)
    zero, wide = torch.zeros_like(a), torch.maximum(a, b)
    by_shape = [size, size, torch.stack([wide, wide, c], -1), torch.stack([a, a, a + b], -1),
                torch.stack([a, b, zero], -1), torch.stack([a, b, zero], -1), size,
                torch.stack([a + b + c, a + b, b], -1), size,
                torch.stack([1.25 * wide, 1.25 * wide, 0.5 * c + wide], -1)]
    return torch.stack(by_shape).gather(0, shape[None, ..., None].expand(1, *size.shape))[0]


def rows(shape: Tensor, centre: Tensor, turn: Tensor, size: Tensor, material: Tensor, seed: Tensor,
         detail: Tensor) -> Tensor:
    """Rows of the primitive table [...,20]; `turn` [...,3,3] is world from local."""
    bound = half_extents(shape, size).norm(dim=-1)
    parts = [centre, bound[..., None], turn.transpose(-1, -2).flatten(-2), size,
             torch.stack([shape.float(), material.float(), seed, detail], -1)]
    return torch.cat(parts, -1)


def _look(random: Stream, count: int) -> Tensor:
    """Two numbers for each of `count` primitives [B,count,2]."""
    return random.uniform(2, count).transpose(1, 2)


def _seed_and_detail(look: Tensor, shape: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    seed = (look[..., 0] * 60000).floor()
    u = look[..., 1]
    finest = size[..., :2].amax(-1).clamp_min(0.03)
    leaves = (4 + 7 * u) / finest
    bars = (2 + 10 * u) / finest
    detail = torch.where(shape == SHAPES.index("foliage"), leaves, bars)
    return seed, torch.where(shape == SHAPES.index("rounded"), 0.15 + 0.85 * u, detail)


def _spread(random: Stream, count: int, place: Place, view: View) -> Tensor:
    """Positions on the ground [B,count,2]: about the target, or anywhere."""
    near = view.target[:, None, :2] + random.uniform(1, 1, low=0.4, high=1.5) * random.normal(count, 2)
    reach = torch.stack([place.half_x, place.half_y], -1).clamp_max(7.0)[:, None]
    anywhere = reach * random.uniform(count, 2, low=-1, high=1)
    limit = torch.stack([place.half_x, place.half_y], -1)[:, None]
    return torch.where(random.chance(0.55, count, 1), near, anywhere).clamp(-limit, limit)


def _groups(random: Stream, place: Place, view: View, scale: Tensor) -> Drawn:
    """Furniture, plants and the like: GROUPS*MAX_PARTS of them."""
    table = templates(scale.device)
    kind = random.choice([k.weight for k in KINDS.values()], GROUPS)  # [B,G]
    span = table.ranges[kind]  # [B,G,5,2]
    dimensions = span[..., 0] + (span[..., 1] - span[..., 0]) * random.uniform(GROUPS, DIMENSIONS - 1)
    dimensions = torch.cat([torch.ones_like(dimensions[..., :1]), dimensions], -1)
    grow = scale[:, None] * random.log_uniform(GROUPS, low=0.7, high=1.4)
    placed = (table.place[kind] @ dimensions[..., None, :, None]).squeeze(-1) * grow[..., None, None]  # [B,G,P,6]
    shape = table.shape[kind]  # [B,G,P]
    any_shape = random.choice(_SINGLE_WEIGHTS, GROUPS, MAX_PARTS)
    free = random.uniform(GROUPS, MAX_PARTS)
    at, size = placed[..., :3], placed[..., 3:]
    solid = torch.where(shape == ANY, any_shape, shape.clamp_min(0))
    size = torch.where((shape == ANY)[..., None], _sizes_within(solid, size, free), size)
    # The share of bars does not grow with the object.
    bars = (solid == SHAPES.index("lattice")) & (shape != ANY)
    size = torch.where(bars[..., None], size * torch.stack(
        [torch.ones_like(grow), torch.ones_like(grow), 1 / grow], -1)[..., None, :], size)

    yaw = random.uniform(GROUPS, high=2 * math.pi) * random.chance(0.75, GROUPS)
    body = rotation_from_quaternion(yaw_quaternion(yaw))  # [B,G,3,3]
    tilt = table.tilt[kind][..., None] * random.normal(GROUPS, MAX_PARTS, 3) * 0.6
    own = rotation_from_quaternion(torch.cat([torch.ones_like(tilt[..., :1]), tilt], -1))
    turn = body[:, :, None] @ own @ table.turn[kind]
    ground = _spread(random, GROUPS, place, view)
    ground[:, 0] = torch.where(random.chance(0.75, 1), view.target[:, :2], ground[:, 0])  # what orbits are around
    base = torch.cat([ground, torch.zeros_like(ground[..., :1])], -1)
    centre = base[:, :, None] + (body[:, :, None] @ at[..., None]).squeeze(-1)

    own_materials = (random.uniform(GROUPS, 3) * (MATERIALS - ROOM_MATERIALS)).long() + ROOM_MATERIALS
    material = own_materials.gather(2, table.material[kind])
    flat = [x.flatten(1, 2) for x in (solid, centre, turn, size, material)]
    look = _look(random, GROUPS * MAX_PARTS)
    how_many = random.uniform(1, low=1, high=GROUPS + 1).floor()
    there = (torch.arange(GROUPS, device=scale.device) < how_many)[..., None] & (shape >= 0)
    return *flat, look, there.flatten(1)


def _singles(random: Stream, place: Place, view: View, scale: Tensor) -> Drawn:
    """Single shapes on the ground, lying about and in the air: SINGLES of them."""
    n = SINGLES
    shape = random.choice(_SINGLE_WEIGHTS, n)
    usual = scale[:, None] * random.log_uniform(1, low=0.1, high=0.35)
    half = (usual * (0.6 * random.normal(n)).exp())[..., None] * random.uniform(n, 3, low=0.4, high=1.6)
    half = half.clamp(0.03, 1.0)
    size = _sizes_within(shape, half, random.uniform(n))
    upright = random.chance(0.55, n)[..., None]
    quaternion = torch.where(upright, yaw_quaternion(random.uniform(n, high=2 * math.pi)), random.normal(n, 4))
    turn = rotation_from_quaternion(quaternion)
    height = (turn.abs() @ half_extents(shape, size)[..., None])[..., 2, 0]  # so that it touches the ground
    height = height + random.chance(0.2, n) * random.uniform(n, high=2.2)
    centre = torch.cat([_spread(random, n, place, view), height[..., None]], -1)
    material = (random.uniform(n) * (MATERIALS - ROOM_MATERIALS)).long() + ROOM_MATERIALS
    look = _look(random, n)
    there = torch.arange(n, device=scale.device) < random.uniform(1, high=n + 1).floor()
    return shape, centre, turn, size, material, look, there


@cache
def _against_walls(device: torch.device) -> Tensor:
    """Turns [2,3,3] that point the z axis to a wall along x, along y, with the y axis up."""
    facing = yaw_quaternion(torch.tensor([0.0, math.pi / 2]))
    upright = torch.tensor([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])
    return (rotation_from_quaternion(facing) @ upright).to(device)


def _on_walls(random: Stream, place: Place) -> Drawn:
    """Pictures, doors, boards, windows: flat boxes and lattices, ON_WALLS of them."""
    n = ON_WALLS
    side = (random.uniform(n) * 4).long()  # +x, -x, +y, -y
    along_y = side < 2
    sign = 1.0 - 2.0 * (side % 2)
    reach = torch.where(along_y, place.half_x[:, None], place.half_y[:, None])
    width = torch.where(along_y, place.half_y[:, None], place.half_x[:, None])
    half = random.log_uniform(n, 2, low=0.12, high=0.8)
    door = random.chance(0.15, n)
    z = torch.where(door, half[..., 1] + 0.4, random.uniform(n, low=0.5, high=2.2))
    deep = random.log_uniform(n, low=0.01, high=0.12)
    lattice = random.chance(0.12, n)
    shape = torch.where(lattice, SHAPES.index("lattice"), SHAPES.index("box"))
    bars = random.uniform(n, low=0.1, high=0.4)
    size = torch.where(lattice[..., None], torch.stack([half[..., 0], half[..., 1], bars], -1),
                       torch.stack([half[..., 0], torch.where(door, half[..., 1] + 0.4, half[..., 1]), deep], -1))
    across = width * random.uniform(n, low=-0.95, high=0.95)
    out = sign * (reach - deep * lattice)
    centre = torch.stack([torch.where(along_y, out, across), torch.where(along_y, across, out), z], -1)
    turn = _against_walls(out.device)[along_y.long()]
    material = (random.uniform(n) * (MATERIALS - ROOM_MATERIALS)).long() + ROOM_MATERIALS
    look = _look(random, n)
    there = torch.arange(n, device=out.device) < random.uniform(1, high=n + 1).floor()
    there &= ~place.open[:, None] | random.chance(0.4, 1)
    return shape, centre, turn, size, material, look, there


def _large(random: Stream, place: Place) -> Drawn:
    """Pillars, partitions, beams, slopes: LARGE of them."""
    n = LARGE
    long = random.chance(0.5, n)
    half = torch.stack([torch.where(long, random.uniform(n, low=0.5, high=2.0), random.uniform(n, low=0.08, high=0.4)),
                        random.uniform(n, low=0.06, high=0.4), random.uniform(n, low=0.4, high=2.0)], -1)
    overhead = random.chance(0.25, n)
    half = torch.where(overhead[..., None], half * constant((1.5, 1.0, 0.1), half.device), half)
    z = torch.where(overhead, place.top[:, None], half[..., 2])
    reach = torch.stack([place.half_x, place.half_y], -1)[:, None]
    away = random.sign(n, 2) * random.uniform(n, 2, low=0.45, high=1.0) * reach
    centre = torch.cat([away, z[..., None]], -1)
    yaw = math.pi / 2 * random.chance(0.5, n) + 0.5 * random.normal(n) * random.chance(0.3, n)
    lean = torch.cat([torch.ones(*yaw.shape, 1, device=yaw.device),
                      0.25 * random.normal(n, 3) * random.chance(0.15, n, 1)], -1)
    turn = rotation_from_quaternion(yaw_quaternion(yaw)) @ rotation_from_quaternion(lean)
    shape = torch.where(random.chance(0.75, n), SHAPES.index("box"), SHAPES.index("frustum"))
    half = torch.where((shape == SHAPES.index("frustum"))[..., None],
                       torch.stack([half[..., 1], half[..., 1], half[..., 2]], -1), half)
    material = (random.uniform(n) * MATERIALS).long()
    look = _look(random, n)
    there = torch.arange(n, device=half.device) < (random.uniform(1, high=n + 1) * random.chance(0.6, 1)).floor()
    return shape, centre, turn, half, material, look, there


def _clearance(table: Tensor, position: Tensor) -> Tensor:
    """Distance [B,N] from each primitive's box to the nearest camera; position [B,S,3]."""
    shape = table[..., 16].long()
    half = half_extents(shape, table[..., 13:16])
    local_from_world = table[..., 4:13].unflatten(-1, (3, 3))
    offset = position[:, None] - table[:, :, None, :3]  # [B,N,S,3]
    local = offset @ local_from_world.transpose(-1, -2)
    return (local.abs() - half[:, :, None]).clamp_min(0).norm(dim=-1).amin(-1)


def draw_objects(random: Stream, place: Place, view: View, position: Tensor) -> tuple[Tensor, Tensor]:
    """The primitive table [B,MAX_PRIMITIVES,20] and how many of its rows are in use [B].

    What would be too near to a camera (position [B,S,3]) is left out, furniture as a whole.
    """
    scale = torch.where(place.open, random.log_uniform(low=0.6, high=2.2), random.log_uniform(low=0.5, high=1.4))
    drawn = [_groups(random, place, view, scale), _singles(random, place, view, scale), _on_walls(random, place),
             _large(random, place)]
    shape, centre, turn, size, material, look, there = (torch.cat(column, 1) for column in zip(*drawn))
    table = rows(shape, centre, turn, size, material, *_seed_and_detail(look, shape, size))
    needed = there * random.uniform(1, low=0.2, high=0.55)
    near = there & (_clearance(table, position) < needed)
    grouped = near[:, :GROUPS * MAX_PARTS].unflatten(1, (GROUPS, MAX_PARTS)).any(-1, keepdim=True)
    near[:, :GROUPS * MAX_PARTS] |= grouped.expand(-1, -1, MAX_PARTS).flatten(1)
    there = there & ~near
    order = (~there).long().argsort(dim=1, stable=True)[:, :MAX_PRIMITIVES, None]
    table = table.gather(1, order.expand(-1, -1, table.shape[-1]))
    return table, there.sum(1).clamp_max(MAX_PRIMITIVES)
