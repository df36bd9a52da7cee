"""Everything a run can be told, in one YAML file: sections below, keys as the fields are named."""

import dataclasses
import difflib
import typing
from pathlib import Path

import yaml

from .config import Config


@dataclasses.dataclass(frozen=True)
class Data:
    seed: int = 0  # of scenes.TRAIN
    sizes: dict[str, float] = dataclasses.field(default_factory=lambda: {"168x224": 1.0})  # HxW[>HxW]: weight
    frames: dict[int, float] = dataclasses.field(default_factory=lambda: {8: 1.0})  # per scene: weight
    pixels: int = 19267584  # a step and GPU sees about as many (512 frames of 168×224)
    group: int = 4  # steps of one shape whose scenes are drawn together: drawing is bound by launches
    samples: int = 2  # per pixel
    scenes: int = 0  # if not 0: only so many, again and again
    blank: bool = False  # grey images: what can be learned without looking


@dataclasses.dataclass(frozen=True)
class Loss:
    pose: float = 5.0
    pairs: float = 0.0  # relative motions of all pairs of frames
    depth: float = 1.0
    points: float = 0.5
    auxiliary: float = 1.0
    sightings: float = 0.0  # where patches are seen in the first frame
    auxiliary_layers: tuple[int, ...] = (2, 3)
    match: float = 0.3
    match_layers: tuple[int, ...] = (1, 2)  # global blocks
    match_heads: int = 2  # the first looks for the first frame, each other one for another frame
    match_until: float = 0.7  # of the run; its weight falls to 0 there
    dense_share: float = 0.25  # of the frames get depth maps
    point_share: float = 0.0625  # of the frames get point maps too
    sky: float = 0.02  # on the confidence where there is no depth


@dataclasses.dataclass(frozen=True)
class Optimiser:
    muon_rate: float = 0.006
    muon_decay: float = 0.03
    adam_rate: float = 1.5e-3
    adam_decay: float = 0.02
    clip: float = 4.0  # norm of the gradients that AdamW sees
    ema: float = 0.999


@dataclasses.dataclass(frozen=True)
class Schedule:
    minutes: float = 27.0  # of training; compiling and evaluating do not count
    steps: int = 0  # if not 0: the length in steps, whatever they take
    pause_at: float = 1.0  # of the schedule: stop there, to go on from the checkpoint later
    warmup_steps: int = 400
    checkpoint_minutes: float = 3.0
    log_steps: int = 100


@dataclasses.dataclass(frozen=True)
class Evaluation:
    minutes: float = 2.0  # of training between two
    scenes: int = 256
    frames: int = 8
    sizes: tuple[str, ...] = ("168x224",)
    batch_frames: int = 128


@dataclasses.dataclass(frozen=True)
class Settings:
    model: Config = Config()
    points: bool = True  # with point head
    bf16: bool = True
    compile: bool = True  # and on a GPU, record the steps
    data: Data = Data()
    loss: Loss = Loss()
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    evaluation: Evaluation = Evaluation()


def _build(kind: type, values: typing.Any, path: str) -> typing.Any:
    if not isinstance(values, dict):
        raise ValueError(f"{path or 'the settings'}: expected keys and values, got {values!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    result = {}
    for key, value in values.items():
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, 1, 0)
            raise ValueError(f"{path}{key}: unknown key; the nearest is {path}{near[0]}")
        result[key] = _value(fields[key].type, value, f"{path}{key}")
    return kind(**result)


def _value(kind: type, value: typing.Any, path: str) -> typing.Any:
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, path + ".")
    outer = typing.get_origin(kind) or kind
    if outer is tuple and isinstance(value, list):
        return tuple(_value(typing.get_args(kind)[0], entry, path) for entry in value)
    if outer is dict and isinstance(value, dict):
        key_kind, value_kind = typing.get_args(kind)
        return {_value(key_kind, k, path): _value(value_kind, v, path) for k, v in value.items()}
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not outer:
        raise ValueError(f"{path}: expected {kind}, got {value!r}")
    return value


def read(path: Path, changes: list[str] = ()) -> Settings:
    """The settings of a YAML file, with changes such as "optimiser.muon_rate=0.004".

    Throws ValueError that names the key: unknown keys (with the nearest known one), wrong types.
    """
    values = yaml.safe_load(path.read_text()) or {}
    for change in changes:
        name, _, text = change.partition("=")
        *sections, key = name.split(".")
        inner = values
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[key] = yaml.safe_load(text)
    try:
        return _build(Settings, values, "")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def dump(settings: Settings) -> str:
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(entry) for key, entry in value.items()}
        return [plain(entry) for entry in value] if isinstance(value, tuple) else value

    return yaml.safe_dump(plain(dataclasses.asdict(settings)), sort_keys=False)


def parse_size(text: str) -> tuple[int, int]:
    """(H, W) of "HxW"."""
    height, width = text.split("x")
    return int(height), int(width)


def parse_sizes(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The size to render and the one to resize to, of "HxW>HxW"; one alone is both."""
    rendered, _, size = text.partition(">")
    return parse_size(rendered), parse_size(size or rendered)
