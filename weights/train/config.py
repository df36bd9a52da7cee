"""The sizes of a VGGT; the fields are the keys of config.json, as the C++ program reads them."""

import dataclasses
import json
import zipfile
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Config:
    img_size: int = 224  # side of the square that the position embedding is learned on, pixels
    patch_size: int = 14
    embed_dim: int = 256  # C
    num_heads: int = 4  # A
    depth: int = 4  # pairs of frame and global blocks
    vit_depth: int = 1
    vit_num_heads: int = 4
    num_register_tokens: int = 4
    rope_freq: float = 100
    camera_num_heads: int = 8
    camera_trunk_depth: int = 0
    dpt_features: int = 64
    dpt_out_channels: tuple[int, ...] = (32, 64, 96, 96)
    intermediate_layers: tuple[int, ...] = (0, 1, 2, 3)
    input_width: int = 224  # what the program makes of --width when it is not given
    bundle_adjust: bool = False  # likewise of --bundle-adjust
    fit: str = "whole"  # likewise of --fit: training crops nothing

    @property
    def special_tokens(self) -> int:
        return 1 + self.num_register_tokens

    def fitted(self, size: tuple[int, int]) -> tuple[int, int]:
        """(H, W) of an image whose longer side becomes `input_width`, as the program does by --fit whole."""
        scale = self.input_width / max(size) / self.patch_size
        height, width = (max(1, round(n * scale)) * self.patch_size for n in size)
        return height, width

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> "Config":
        """The config of a config.json; its keys for heads that are not built here are left out."""
        return cls._parse(path.read_text())

    @classmethod
    def of_weights(cls, path: Path) -> "Config":
        """That in a TorchScript archive, or the config.json beside other weights; without either VGGT-1B's sizes."""
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith("/extra/config.json"):
                        return cls._parse(archive.read(name).decode())
        beside = path.with_name("config.json")
        return cls.read(beside) if beside.exists() else cls(img_size=518, input_width=518)

    @classmethod
    def _parse(cls, text: str) -> "Config":
        known = {field.name for field in dataclasses.fields(cls)}
        values = {key: value for key, value in json.loads(text).items() if key in known}
        if not {"input_width", "img_size"} & values.keys():
            raise ValueError("config.json: without input_width and img_size the size of frames is not known")
        values = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**({"input_width": values.get("img_size")} | values))
