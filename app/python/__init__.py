"""vggt-recon in Python: frames in, cameras, depth and a cloud of points out.

    import vggt_recon
    scene = vggt_recon.Reconstructor().run("photos/", conf_percentile=20)
    scene.cameras[0].intrinsics, scene.depth, scene.points
    scene.save("scene.ply")
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from . import _check_host

_core = _check_host.load()

from .arrays import images_of, is_path, path_bytes

__all__ = ["Camera", "Option", "Reconstruction", "ReconstructionWarning", "Reconstructor", "Track", "Tracks", "options"]
__version__ = _core.version

_log = logging.getLogger(__name__)
_KEEP = {"maps": _core.MAPS, "points": _core.POINTS}


class ReconstructionWarning(UserWarning):
    """What a run warns of: frames that were skipped, frames without a camera, and so on."""


@dataclass(frozen=True)
class Option:
    """An option of a run: `kind` is flag, whole number, number, text or list; `default` its value as text."""

    name: str
    kind: str
    choices: tuple[str, ...]
    default: str
    help: str


def options() -> list[Option]:
    """The options of Reconstructor and run(), which are the program's, with _ for -."""
    return [Option(name.replace("-", "_"), kind, tuple(choices.split(",")) if choices else (), default, text)
            for name, kind, choices, default, text in _core.options()]


@dataclass(frozen=True, eq=False)
class Camera:
    """The camera of a frame. OpenCV axes: x right, y down, z ahead. Pixel centres lie at whole numbers."""

    name: str
    model: str  # COLMAP's: SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL or RADIAL
    time: float  # seconds in a video, else the frame's number
    valid: bool  # False: the frame has no camera, and the rest means nothing
    width: int  # of the upright original, pixels
    height: int
    intrinsics: np.ndarray  # [3,3], of the original
    distortion: np.ndarray  # [2]: k1, k2
    cam_from_world: np.ndarray  # [4,4]
    network_width: int  # of depth and confidence, pixels
    network_height: int
    network_intrinsics: np.ndarray  # [3,3], of depth and confidence
    mean_confidence: float

    @property
    def world_from_cam(self) -> np.ndarray:
        return np.linalg.inv(self.cam_from_world)

    @property
    def center(self) -> np.ndarray:
        """Where the camera stood, world coordinates."""
        return self.world_from_cam[:3, 3]


@dataclass(frozen=True, eq=False)
class Track:
    """A point that was found in several frames."""

    point: np.ndarray  # [3], world
    color: np.ndarray  # [3], rgb
    error: float  # mean distance from where the cameras show it, pixels
    frames: np.ndarray  # [M]
    pixels: np.ndarray  # [M,2], of the upright originals


@dataclass(frozen=True, eq=False)
class Tracks:
    """All tracks as columns; tracks[i] is one of them. Track i has the observations first[i] to first[i] + counts[i]."""

    points: np.ndarray  # [T,3]
    colors: np.ndarray  # [T,3]
    errors: np.ndarray  # [T]
    first: np.ndarray  # [T]
    counts: np.ndarray  # [T]
    frames: np.ndarray  # [M], of the observations
    pixels: np.ndarray  # [M,2]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Track]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> Track:
        seen = slice(self.first[i], self.first[i] + self.counts[i])
        return Track(self.points[i], self.colors[i], float(self.errors[i]), self.frames[seen], self.pixels[seen])


class Reconstruction:
    """What a run made. Arrays are the library's own memory, without copies; each keeps it alive, and what is written to
    them is what save() writes."""

    def __init__(self, scene, kept: int):
        self._scene = scene
        self._kept = kept

    def __setattr__(self, name, value):
        if hasattr(type(self), name):  # a cached property would take it without a word
            raise AttributeError(f"{name} is read-only")
        super().__setattr__(name, value)

    @cached_property
    def cameras(self) -> list[Camera]:
        """One for each frame; none without the camera head."""
        return [Camera(**fields) for fields in self._scene.cameras]

    @cached_property
    def depth(self) -> np.ndarray | None:
        """[frames,height,width], along the cameras' axes; None without the depth head, or where it was not kept."""
        return self._scene.depth

    @cached_property
    def confidence(self) -> np.ndarray | None:
        """[frames,height,width], of the depth."""
        return self._scene.confidence

    @cached_property
    def points(self) -> np.ndarray | None:
        """[N,3], world coordinates; None where they were not kept."""
        return self._scene.points if self._kept & _core.POINTS else None

    @cached_property
    def colors(self) -> np.ndarray | None:
        """[N,3], rgb from 0 to 255."""
        return self._scene.colors if self._kept & _core.POINTS else None

    @cached_property
    def normals(self) -> np.ndarray | None:
        """[N,3]; None unless the run had export="normals"."""
        normals = self._scene.normals if self._kept & _core.POINTS else None
        return normals if normals is not None and len(normals) else None

    @cached_property
    def tracks(self) -> Tracks:
        """Points that the adjustment of the cameras found in several frames."""
        return Tracks(**self._scene.tracks)

    @cached_property
    def report(self) -> dict:
        """What the program writes as scene.report.json."""
        return json.loads(self._scene.report)

    @property
    def written(self) -> list[Path]:
        """The files and folders that the run itself wrote."""
        return [Path(path) for path in self._scene.written]

    def save(self, path: str | bytes | os.PathLike) -> None:
        """Writes the scene as the program does: x.ply and its siblings, or scene.ply and so on in a folder; or its
        arrays as x.npz. All of it, or nothing."""
        encoded, name = path_bytes(path), os.fsdecode(path)
        if name.rstrip("/").endswith(".npz"):
            if name.endswith("/"):
                raise ValueError(f"{name}: names a folder, and .npz is a file")
            self._save_arrays(Path(name))
        else:
            self._scene.save(encoded)

    def _save_arrays(self, path: Path) -> None:
        columns = {name: getattr(self, name) for name in ("depth", "confidence", "points", "colors", "normals")}
        columns["names"] = np.array([camera.name for camera in self.cameras], dtype=str)
        columns["valid"] = np.array([camera.valid for camera in self.cameras], dtype=bool)
        for name in ("intrinsics", "distortion", "cam_from_world", "network_intrinsics"):
            columns[name] = np.array([getattr(camera, name) for camera in self.cameras])
        columns.update({f"tracks_{name}": values for name, values in vars(self.tracks).items()})
        part = path.with_name(path.name + f".{os.getpid()}.part")
        try:
            with suppress(FileExistsError):  # of a file: opening says that it is no folder
                path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(part, "wb") as file:
                    np.savez(file, **{name: values for name, values in columns.items() if values is not None})
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:  # which is about the part
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error

    def __repr__(self) -> str:
        points = "no points kept" if self.points is None else f"{len(self.points)} points"
        return f"<vggt_recon.Reconstruction: {len(self.cameras)} cameras, {points}, {len(self.tracks)} tracks>"


@cache
def _known_options() -> dict[str, Option]:
    return {option.name: option for option in options()}


@cache
def _dashed_names() -> re.Pattern:
    names = "|".join(name.replace("_", "-") for name in _known_options())
    return re.compile(rf"^(?:{names})(?=:)|(?<![^\s(])--(?:{names})(?![\w-])")


def _with_keywords(text: str) -> str:
    """A message of the library, in which options are called as Python's keywords. The module calls it for errors."""
    if text.startswith("unknown option '") or ": is no option of" in text:
        return text.replace("-", "_")
    return _dashed_names().sub(lambda found: found[0].removeprefix("--").replace("-", "_"), text)


_SEVERAL_NUMBERS = {"outliers", "picture_size", "intrinsics"}


def _value_text(name: str, value) -> bytes:
    """A value of an option, or one of a list's."""
    if isinstance(value, (bool, np.bool_)):
        option = _known_options().get(name)
        yes, no = ("on", "off") if option and "on" in option.choices else ("true", "false")
        return (yes if value else no).encode()
    if isinstance(value, (int, float, np.integer, np.floating)):
        return str(value).encode()
    if not is_path(value):
        raise TypeError(f"{name}: a value of type {type(value).__name__} is no option's")
    return path_bytes(value)


def _option_bytes(name: str, value) -> tuple[str, bytes | None]:
    """An option as the library takes it; a value None or () sets it back to its default."""
    name = name.replace("-", "_")
    if value is None or (isinstance(value, (list, tuple, set)) and not value):
        return name.replace("_", "-"), None
    if isinstance(value, (list, tuple, set)):
        option = _known_options().get(name)
        is_one = name not in _SEVERAL_NUMBERS or any(is_path(entry) for entry in value)
        if option and option.kind != "list" and is_one:
            raise TypeError(f"{name}: takes one value, not a {type(value).__name__} of them")
        text = (b"x" if name == "picture_size" else b",").join(_value_text(name, entry) for entry in value)
    else:
        text = _value_text(name, value)
    if not text:
        raise ValueError(f"{name}: is empty; None sets it back to its default")
    return name.replace("_", "-"), text


def _tell(kind: int, text: str) -> None:
    text = _with_keywords(text)
    if kind == 2:
        warnings.warn(text, ReconstructionWarning, stacklevel=3)
    else:
        _log.log(logging.INFO if kind == 1 else logging.DEBUG, text)


def _existing(path) -> bytes:
    encoded = path_bytes(path)
    if not os.path.exists(encoded):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    return encoded


class Reconstructor:
    """A network with options, for any number of runs, on any threads. Weights are loaded by the first run and stay."""

    def __init__(self, weights: str | bytes | os.PathLike | None = None, **options):
        """weights: a .safetensors, .pt or .ts file; None: the small model. options: of all runs, see options()."""
        self._context = _core.Context(None if weights is None else _existing(weights))
        self.set_options(**options)

    def set_options(self, **options) -> None:
        """Sets options of all runs that begin afterwards; None sets one back to its default."""
        for name, value in options.items():
            self._context.set_option(*_option_bytes(name, value))

    def run(self, frames, *, names=None, keep=("maps", "points"), progress=None, **options) -> Reconstruction:
        """Reconstructs.

        frames: a folder of images, a video, a list or a .safetensors file; or a sequence of paths; or a sequence of
        8-bit RGB images [height,width,3] (NumPy, or of any library with DLPack, on the CPU), which are not copied where
        each pixel has a place of its own; or of gray ones [height,width]; or of Pillow's images of any mode, which give
        what their files do; or one image.
        names: of images. keep: what the result holds in memory of "maps" and "points". progress(stage, done, total,
        unit): called by this thread; total 0 is not known, and of a stage done / total never falls. What it throws ends
        the run, as Ctrl-C does. Files are written where options name them, such as out="scene/".
        """
        source, paths, images = None, [], []
        if is_path(frames):
            source = _existing(frames)
        else:
            paths, images = images_of(frames)
        if names is not None and (not images or len(names) != len(images)):
            raise ValueError(f"names: {len(names)} for {len(images)} images in memory")
        name_bytes = [path_bytes(name) for name in names] if names is not None else [b""] * len(images)
        unknown = set(keep) - set(_KEEP)
        if unknown or isinstance(keep, str):
            raise ValueError(f'keep: takes "maps" and "points", not {keep!r}')
        kept = sum(_KEEP[part] for part in set(keep))
        settings = [_option_bytes(name, value) for name, value in options.items()]
        return Reconstruction(
            self._context.run(source, paths, images, name_bytes, settings, kept, progress, _tell), kept)
