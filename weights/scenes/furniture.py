"""Objects made of several primitives, as text: each part is linear in the dimensions of its object."""
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from .geometry import rotation_from_quaternion

# In the order of Shape in scene.h; "any" is drawn for each object.
SHAPES = ("box", "ellipsoid", "frustum", "capsule", "leaf", "lattice", "foliage", "torus", "rounded", "blob")
ANY = len(SHAPES)
MAX_PARTS = 10


class Linear:
    """A linear function of an object's dimensions."""

    def __init__(self, weights: tuple[float, ...]):
        self.weights = weights

    def __add__(self, other):
        return Linear(tuple(a + b for a, b in zip(self.weights, _linear(other).weights)))

    def __mul__(self, factor: float):
        return Linear(tuple(a * factor for a in self.weights))

    def __sub__(self, other):
        return self + _linear(other) * -1

    def __neg__(self):
        return self * -1

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return _linear(other) - self


DIMENSIONS = 6  # constant, half width (x), half depth (y), height (z), thickness, a free one


def _unit(k: int) -> Linear:
    return Linear(tuple(float(i == k) for i in range(DIMENSIONS)))


ONE, W, D, H, T, U = (_unit(k) for k in range(DIMENSIONS))


def _linear(value) -> Linear:
    return value if isinstance(value, Linear) else ONE * value


UP, ALONG_X, ALONG_Y = (1.0, 0, 0, 0), (0.70711, 0, 0.70711, 0), (0.70711, -0.70711, 0, 0)


@dataclass
class Part:
    """`size` as in scene.h; for "any" shapes the half extents. z runs along `axis`; `tilt` is a random turn."""
    shape: str
    at: tuple
    size: tuple
    material: int = 0  # of the object's three
    axis: tuple = UP
    tilt: float = 0.0


@dataclass
class Kind:
    """Ranges of the dimensions W, D, H, T, U in scene units, and the parts."""
    ranges: tuple
    parts: list[Part]
    weight: float = 1.0


def _legs(shape: str, height: Linear, radius: Linear, taper: float = 0.7) -> list[Part]:
    size = (radius * taper, radius, height * 0.5) if shape == "frustum" else (radius, radius, height * 0.5)
    return [Part(shape, (W * x - T * 1.5 * x, D * y - T * 1.5 * y, height * 0.5), size, 1)
            for x in (-1, 1) for y in (-1, 1)]


def _things(count: int, base: Linear, size: Linear) -> list[Part]:
    places = [(-0.55, 0.4), (0.1, -0.35), (0.6, 0.3), (-0.2, 0.5), (0.5, -0.5)]
    return [Part("any", (W * x, D * y, base + size), (size * (1 - 0.12 * k), size * (0.6 + 0.1 * k), size), k % 3)
            for k, (x, y) in enumerate(places[:count])]


KINDS = {
    "table": Kind(((0.4, 0.9), (0.3, 0.6), (0.5, 0.8), (0.015, 0.04), (0.05, 0.16)),
                  [Part("box", (0, 0, H - T), (W, D, T)), *_legs("box", H - T * 2, T),
                   *_things(5, H, U)], 2.0),
    "round table": Kind(((0.3, 0.7), (0.3, 0.7), (0.4, 0.8), (0.02, 0.04), (0.06, 0.18)),
                        [Part("frustum", (0, 0, H - T), (W, W, T)),
                         Part("capsule", (0, 0, H * 0.5), (T, H * 0.5, 0), 1),
                         Part("frustum", (0, 0, T * 0.5), (W * 0.6, W * 0.1, T * 0.5), 1),
                         *[Part("any", (W * x, W * y, H + U), (U * s, U * s, U), k) for k, (x, y, s) in
                           enumerate([(-0.4, 0.2, 0.8), (0.35, 0.35, 0.5), (0.1, -0.45, 0.9)])]], 1.2),
    "chair": Kind(((0.18, 0.28), (0.18, 0.28), (0.36, 0.5), (0.012, 0.03), (0.2, 0.3)),
                  [Part("rounded", (0, 0, H), (W, D, T * 1.4)), *_legs("frustum", H, T),
                   Part("lattice", (0, D - T, H + U), (W, U, 0.35), 1, ALONG_Y),
                   Part("capsule", (-W + T, D - T, H + U), (T, U, 0), 1),
                   Part("capsule", (W - T, D - T, H + U), (T, U, 0), 1)], 1.5),
    "shelf": Kind(((0.3, 0.8), (0.12, 0.25), (0.8, 2.0), (0.01, 0.03), (0.05, 0.11)),
                  [Part("box", (-W, 0, H * 0.5), (T, D, H * 0.5)), Part("box", (W, 0, H * 0.5), (T, D, H * 0.5)),
                   *[Part("box", (0, 0, H * z), (W, D, T)) for z in (0.05, 0.35, 0.66, 0.97)],
                   Part("box", (0, D, H * 0.5), (W, T * 0.4, H * 0.5), 1),
                   *[Part("any", (W * x, 0, H * z + T + U), (U, U * 0.8, U), k) for k, (x, z) in
                     enumerate([(-0.4, 0.05), (0.3, 0.35), (-0.2, 0.66)])]], 1.2),
    "sofa": Kind(((0.4, 0.9), (0.3, 0.45), (0.3, 0.45), (0.06, 0.12), (0.15, 0.3)),
                 [Part("rounded", (0, 0, H * 0.45), (W, D, H * 0.45)), Part("rounded", (0, D, H), (W, T, H)),
                  Part("rounded", (-W, 0, H * 0.65), (T, D, H * 0.65)),
                  Part("rounded", (W, 0, H * 0.65), (T, D, H * 0.65)),
                  Part("rounded", (W * 0.4, D * 0.5, H * 0.9 + U), (U, T * 0.8, U), 1, UP, 0.4),
                  Part("blob", (W * -0.5, D * 0.2, H + U * 0.5), (U * 0.5, U * 0.4, U * 0.5), 2, UP, 0.6)], 1.0),
    "stack": Kind(((0.1, 0.35), (0.08, 0.3), (0.2, 0.9), (0.0, 0.1), (0.0, 0.2)),
                  [Part("box", (T * dx, U * dy * 0.3, H * (0.1 + 0.2 * k)), (W * s, D * s, H * 0.1), k % 3, UP, 0.0)
                   for k, (dx, dy, s) in enumerate(
                       [(0, 0, 1), (1, -0.5, 0.95), (-1, 1, 0.8), (0.6, 0.2, 0.7), (-0.4, 0, 0.6)])], 1.2),
    "lamp": Kind(((0.1, 0.25), (0.05, 0.12), (0.4, 1.6), (0.008, 0.02), (0.1, 0.2)),
                 [Part("frustum", (0, 0, T), (W * 0.8, W * 0.7, T)),
                  Part("capsule", (0, 0, H * 0.5), (T, H * 0.5, 0)),
                  Part("frustum", (0, 0, H + U * 0.4), (W, D, U), 1),
                  Part("ellipsoid", (0, 0, H - U * 0.5), (D, D, D), 2)], 0.8),
    "pot plant": Kind(((0.08, 0.22), (0.12, 0.3), (0.4, 1.1), (0.008, 0.02), (0.12, 0.3)),
                      [Part("frustum", (0, 0, U * 0.5), (W * 0.7, W, U * 0.5)),
                       Part("foliage", (0, 0, H), (D, D, H * 0.45), 1),
                       Part("capsule", (0, 0, H * 0.5), (T, H * 0.5, 0), 2),
                       *[Part("leaf", (D * x, D * y, H * z), (D * 0.5, D * 0.22, 0), 1, UP, 0.9) for x, y, z in
                         [(0.8, 0, 0.6), (-0.6, 0.5, 0.7), (0, -0.8, 0.55), (-0.5, -0.6, 0.9), (0.4, 0.7, 1.0)]]], 1.2),
    "tree": Kind(((0.3, 0.8), (0.3, 0.8), (1.2, 3.2), (0.03, 0.09), (0.2, 0.6)),
                 [Part("frustum", (0, 0, H * 0.4), (T * 1.3, T * 0.7, H * 0.4), 0),
                  Part("capsule", (W * 0.3, 0, H * 0.65), (T * 0.4, H * 0.15, 0), 0, UP, 0.6),
                  Part("capsule", (W * -0.3, D * 0.2, H * 0.7), (T * 0.4, H * 0.15, 0), 0, UP, 0.6),
                  Part("foliage", (0, 0, H), (W, D, U), 1),
                  Part("foliage", (W * 0.5, D * 0.3, H * 0.8), (W * 0.6, D * 0.6, U * 0.7), 1),
                  Part("foliage", (W * -0.5, D * -0.3, H * 0.75), (W * 0.6, D * 0.5, U * 0.7), 2)], 1.2),
    "weeds": Kind(((0.2, 0.6), (0.2, 0.6), (0.15, 0.5), (0.02, 0.06), (0.1, 0.3)),
                  [Part("leaf", (W * x, D * y, H * 0.6), (T, H * 0.7, 0), k % 2, (0.80, -0.60, 0, 0), 0.7)
                   for k, (x, y) in enumerate(
                       [(0, 0), (0.5, 0.3), (-0.5, 0.4), (0.2, -0.6), (-0.4, -0.5), (0.7, -0.3)])]
                  + [Part("foliage", (0, 0, H * 0.4), (W * 0.8, D * 0.8, H * 0.4), 1)], 1.0),
    "mug": Kind(((0.08, 0.2), (0.06, 0.2), (0.2, 0.5), (0.012, 0.03), (0.06, 0.12)),
                [Part("frustum", (0, 0, H * 0.5), (W * 0.8, W, H * 0.5)),
                 Part("torus", (W, 0, H * 0.5), (U, T, 0), 0, ALONG_Y),
                 Part("blob", (W * 2.6, D, H * 0.45), (H * 0.4, H * 0.2, H * 0.6), 1),
                 Part("torus", (W * -2, D, T), (U * 1.2, T, 0), 2)], 0.8),
    "rings": Kind(((0.12, 0.3), (0.04, 0.1), (0.3, 0.7), (0.03, 0.06), (0.0, 0.1)),
                  [*[Part("torus", (0, 0, T + T * 1.9 * k), (W * (1 - 0.14 * k), T, 0), k % 3) for k in range(5)],
                   Part("blob", (0, 0, T * 10.5 + D), (D, D * 0.8, D), 1)], 0.6),
    "bicycle": Kind(((0.3, 0.5), (0.03, 0.06), (0.28, 0.36), (0.008, 0.02), (0.15, 0.25)),
                    [Part("torus", (-W, 0, H), (H - T, T, 0), 0, ALONG_Y),
                     Part("torus", (W, 0, H), (H - T, T, 0), 0, ALONG_Y),
                     Part("capsule", (W * -0.5, 0, H), (T, W * 0.5, 0), 1, ALONG_X),
                     Part("capsule", (0, 0, H * 2), (T, W * 0.7, 0), 1, ALONG_X),
                     Part("capsule", (W * 0.85, 0, H * 1.6), (T, H * 0.7, 0), 1),
                     Part("capsule", (W * -0.4, 0, H * 1.6), (T, H * 0.65, 0), 1, UP, 0.15),
                     Part("capsule", (W * 0.85, 0, H * 2.3), (T, U, 0), 2, ALONG_Y),
                     Part("ellipsoid", (W * -0.45, 0, H * 2.3), (U * 0.7, D, D), 2)], 0.6),
    "fence": Kind(((0.4, 1.2), (0.02, 0.05), (0.5, 1.3), (0.015, 0.04), (0.0, 0.1)),
                  [Part("lattice", (0, 0, H * 0.5), (W, H * 0.48, 0.3), 0, ALONG_Y),
                   *[Part("box", (W * x, 0, H * 0.52), (T, T, H * 0.52), 1) for x in (-1, 0, 1)],
                   Part("capsule", (0, 0, H), (T, W, 0), 1, ALONG_X)], 0.8),
    "ladder": Kind(((0.15, 0.3), (0.02, 0.04), (1.0, 2.2), (0.012, 0.03), (0.0, 0.1)),
                   [Part("capsule", (-W, 0, H * 0.5), (T, H * 0.5, 0)),
                    Part("capsule", (W, 0, H * 0.5), (T, H * 0.5, 0)),
                    *[Part("capsule", (0, 0, H * z), (T * 0.8, W, 0), 1, ALONG_X)
                      for z in (0.1, 0.28, 0.46, 0.64, 0.82)]], 0.6),
    "rocks": Kind(((0.2, 0.5), (0.2, 0.5), (0.15, 0.5), (0.05, 0.1), (0.1, 0.3)),
                  [Part("ellipsoid", (0, 0, H * 0.6), (W * 0.7, D * 0.6, H), 0, UP, 0.4),
                   Part("blob", (W, D * 0.5, U * 0.6), (U, U * 0.7, U), 1, UP, 1.0),
                   Part("rounded", (W * -0.9, D * 0.4, U * 0.5), (U, U * 0.6, U * 0.7), 0, UP, 1.0),
                   Part("ellipsoid", (W * 0.2, D * -1.1, U * 0.4), (U, U * 0.8, U * 0.6), 2, UP, 0.5),
                   Part("box", (W * -0.5, D * -0.9, U * 0.4), (U * 0.6, U * 0.7, U * 0.5), 1, UP, 1.0)], 0.9),
    "figure": Kind(((0.12, 0.25), (0.1, 0.2), (0.5, 1.6), (0.04, 0.08), (0.08, 0.14)),
                   [Part("blob", (0, 0, H * 0.55), (W, W * 0.8, H * 0.3)),
                    Part("ellipsoid", (0, 0, H * 0.98), (U, U * 0.9, U * 1.2), 1),
                    Part("capsule", (W * -0.5, 0, H * 0.2), (T, H * 0.2, 0), 2),
                    Part("capsule", (W * 0.5, 0, H * 0.2), (T, H * 0.2, 0), 2),
                    Part("capsule", (W * -1.3, 0, H * 0.6), (T * 0.8, H * 0.15, 0), 0, UP, 0.4),
                    Part("capsule", (W * 1.3, 0, H * 0.6), (T * 0.8, H * 0.15, 0), 0, UP, 0.4)], 0.8),
    "thing": Kind(((0.08, 0.5), (0.08, 0.5), (0.1, 0.9), (0.02, 0.1), (0.1, 0.3)),
                  [Part("any", (0, 0, H * 0.5), (W, D, H * 0.5))], 2.0),
}


@dataclass
class Templates:
    """KINDS as tensors; K kinds, P parts."""
    ranges: Tensor  # [K,DIMENSIONS-1,2]
    place: Tensor  # [K,P,6,DIMENSIONS]: position, size
    shape: Tensor  # [K,P] int64, -1: no such part
    material: Tensor  # [K,P]
    turn: Tensor  # [K,P,3,3], of the part's axis
    tilt: Tensor  # [K,P]


@cache
def templates(device: torch.device) -> Templates:
    rows = []
    for kind in KINDS.values():
        missing = Part("box", (0, 0, 0), (0, 0, 0))
        parts = kind.parts + [missing] * (MAX_PARTS - len(kind.parts))
        shapes = [-1 if part is missing else (*SHAPES, "any").index(part.shape) for part in parts]
        places = [[_linear(x).weights for x in (*part.at, *part.size)] for part in parts]
        turns = rotation_from_quaternion(torch.tensor([part.axis for part in parts])).tolist()
        rows.append((kind.ranges, places, shapes, [part.material for part in parts], turns,
                     [part.tilt for part in parts]))
    return Templates(*(torch.tensor(column, device=device) for column in zip(*rows)))
