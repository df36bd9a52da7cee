"""Makes tests/fixtures/heif by heif-enc (Debian's libheif-examples), pillow-heif and ffmpeg.

    python3 heif_fixtures.py FOLDER

heif-enc writes neither grids nor rotations. So these files are put together of items that it has encoded, as
telephones do it: HEVC tiles, a grid item of them, `irot` and `imir`, EXIF with an orientation of its own.
"""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pillow_heif
from PIL import Image


def position_picture(width: int, height: int) -> np.ndarray:
    """As tests/support/media.h: red grows with x, green with y."""
    picture = np.full((height, width, 3), 60, np.uint8)
    picture[..., 0] = np.rint(255 * np.arange(width) / max(1, width - 1))
    picture[..., 1] = np.rint(255 * np.arange(height) / max(1, height - 1))[:, None]
    return picture


def encode(pixels: np.ndarray, path: Path, *options: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".png") as png:
        Image.fromarray(pixels).save(png.name)
        subprocess.run(["heif-enc", "-q", "80", *options, "-o", path, png.name], check=True, capture_output=True)
    return path.read_bytes()


def encode_deep(pixels: np.ndarray, path: Path) -> None:
    """As 10 bits a colour, by programs that do; heif-enc 1.15 dies of it."""
    height, width, _ = pixels.shape
    if path.suffix == ".heic":
        pillow_heif.from_bytes("RGB;16", (width, height), pixels.astype("<u2").tobytes()).save(path, quality=80)
        return
    size = ["-f", "rawvideo", "-pix_fmt", "rgb48le", "-s", f"{width}x{height}", "-i", "-"]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *size, "-pix_fmt", "yuv420p10le", "-colorspace", "smpte170m", "-crf",
                    "20", "-still-picture", "1", path], input=pixels.astype("<u2").tobytes(), check=True)


def boxes(data: bytes):
    at = 0
    while at + 8 <= len(data):
        size = struct.unpack_from(">I", data, at)[0] or len(data) - at
        yield data[at + 4:at + 8], data[at + 8:at + size]
        at += size


def inside(data: bytes, *path: bytes) -> bytes:
    for name in path:
        data = next(body for kind, body in boxes(data) if kind == name)
        if name == b"meta":
            data = data[4:]
    return data


def hevc_item(pixels: np.ndarray, folder: Path) -> tuple[bytes, bytes]:
    """(the decoder's configuration, the coded picture) of an image that heif-enc encodes."""
    data = encode(pixels, folder / "tile.heic")
    config = next(body for kind, body in boxes(inside(data, b"meta", b"iprp", b"ipco")) if kind == b"hvcC")
    return config, inside(data, b"mdat")


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + kind + body


def full_box(kind: bytes, version: int, body: bytes, flags: int = 0) -> bytes:
    return box(kind, struct.pack(">I", version << 24 | flags) + body)


class File:
    """Items with properties and references, written as a HEIC file."""

    def __init__(self) -> None:
        self.items: list[tuple[bytes, bytes, list[int]]] = []  # kind, data, properties from 1
        self.properties: list[bytes] = []
        self.references: list[tuple[bytes, int, list[int]]] = []
        self.hidden: set[int] = set()  # items from 0

    def property(self, kind: bytes, body: bytes) -> int:
        self.properties.append(box(kind, body))
        return len(self.properties)

    def size(self, width: int, height: int) -> int:
        self.properties.append(full_box(b"ispe", 0, struct.pack(">II", width, height)))
        return len(self.properties)

    def item(self, kind: bytes, data: bytes, properties: list[int] = ()) -> int:
        self.items.append((kind, data, list(properties)))
        return len(self.items)

    def write(self, primary: int) -> bytes:
        count = len(self.items)
        infos = b"".join(full_box(b"infe", 2, struct.pack(">HH4s", i + 1, 0, kind) + b"\0", int(i in self.hidden))
                         for i, (kind, _, _) in enumerate(self.items))
        ipma = b"".join(struct.pack(">HB", i + 1, len(own)) + bytes(0x80 | p for p in own)
                        for i, (_, _, own) in enumerate(self.items) if own)
        associated = sum(1 for _, _, own in self.items if own)
        iref = b"".join(box(kind, struct.pack(">HH", source, len(to)) + b"".join(struct.pack(">H", t) for t in to))
                        for kind, source, to in self.references)
        ftyp = box(b"ftyp", b"heic" + struct.pack(">I", 0) + b"mif1heic")

        def meta(offset: int) -> bytes:
            places = b""
            for i, (_, data, _) in enumerate(self.items):
                places += struct.pack(">HHHII", i + 1, 0, 1, offset, len(data))
                offset += len(data)
            body = full_box(b"hdlr", 0, struct.pack(">I4s12x", 0, b"pict") + b"\0")
            body += full_box(b"pitm", 0, struct.pack(">H", primary))
            body += full_box(b"iloc", 0, struct.pack(">BBH", 0x44, 0, count) + places)
            body += full_box(b"iinf", 0, struct.pack(">H", count) + infos)
            if iref:
                body += full_box(b"iref", 0, iref)
            body += box(b"iprp", box(b"ipco", b"".join(self.properties)) +
                        full_box(b"ipma", 0, struct.pack(">I", associated) + ipma))
            return full_box(b"meta", 0, body)

        offset = len(ftyp) + len(meta(0)) + 8
        return ftyp + meta(offset) + box(b"mdat", b"".join(data for _, data, _ in self.items))


def exif(orientation: int) -> bytes:
    """Maker, model and orientation, behind the offset that HEIF has in front."""
    texts = [(0x010F, b"Maker\0"), (0x0110, b"Model 7\0")]
    start = 8 + 2 + 12 * 3 + 4
    entries, values = b"", b""
    for tag, text in texts:
        entries += struct.pack(">HHII", tag, 2, len(text), start + len(values))
        values += text
    entries += struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
    return struct.pack(">I", 6) + b"Exif\0\0" + b"MM\0*" + struct.pack(">IH", 8, 3) + entries + bytes(4) + values


def telephone(folder: Path) -> bytes:
    """Upright 88x120: four tiles of 64x64, cut to a grid of 120x88 that `irot` turns, as EXIF says once more."""
    upright = position_picture(88, 120)
    stored = np.rot90(upright)  # a quarter turn counterclockwise
    stored = np.pad(stored, ((0, 128 - 88), (0, 128 - 120), (0, 0)), mode="edge")
    file = File()
    tiles = []
    for y in (0, 64):
        for x in (0, 64):
            config, data = hevc_item(np.ascontiguousarray(stored[y:y + 64, x:x + 64]), folder)
            tiles.append(file.item(b"hvc1", data, [file.property(b"hvcC", config), file.size(64, 64)]))
    turn = file.property(b"irot", b"\3")  # three quarter turns counterclockwise
    grid = file.item(b"grid", struct.pack(">BBBBHH", 0, 0, 1, 1, 120, 88), [file.size(120, 88), turn])
    file.hidden = {tile - 1 for tile in tiles}
    file.references.append((b"dimg", grid, tiles))
    file.references.append((b"cdsc", file.item(b"Exif", exif(6)), [grid]))
    return file.write(grid)


def single(folder: Path, upright: np.ndarray, stored: np.ndarray, *transforms: tuple[bytes, bytes]) -> bytes:
    file = File()
    config, data = hevc_item(np.ascontiguousarray(stored), folder)
    height, width, _ = stored.shape
    own = [file.property(b"hvcC", config), file.size(width, height)]
    return file.write(file.item(b"hvc1", data, own + [file.property(*t) for t in transforms]))


def several(folder: Path) -> bytes:
    """Two images; the second, of 120x88, is the primary one."""
    file = File()
    for picture in (np.full((64, 64, 3), 200, np.uint8), position_picture(120, 88)):
        config, data = hevc_item(picture, folder)
        height, width, _ = picture.shape
        last = file.item(b"hvc1", data, [file.property(b"hvcC", config), file.size(width, height)])
    return file.write(last)


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    picture = position_picture(120, 88)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (target / "telephone.heic").write_bytes(telephone(folder))
        # Turned a quarter counterclockwise and then mirrored left to right by the reader, in this order.
        stored = np.rot90(picture[:, ::-1], -1)
        (target / "mirrored.heic").write_bytes(single(folder, picture, stored, (b"irot", b"\1"), (b"imir", b"\1")))
        (target / "several.heic").write_bytes(several(folder))
        alpha = np.dstack([picture, np.where(np.arange(120) < 60, 255, 64)[None].repeat(88, 0).astype(np.uint8)])
        encode(alpha, target / "alpha.heic")
        encode(alpha, target / "alpha.avif", "-A")
        encode(picture, target / "plain.avif", "-A")
        deep = picture.astype(np.uint16) * 257
        encode_deep(deep, target / "deep.avif")
        encode_deep(deep, target / "deep.heic")
        encode(np.ascontiguousarray(picture[:, :, 0]), target / "gray.heic")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
