"""Makes random images in a folder, and what Pillow and the reference's loader make of each.

For every image NAME there are NAME.rgb (planes [3,H,W], 8 bits) and a line of index.txt:
file, fit, width, H, W. Arguments: the folder, a seed, other images to take in.
"""
import random
import shutil
import struct
import sys
import zlib
from pathlib import Path

from PIL import Image, ImageOps

PATCH = 14


def resized(size, width, fit):
    w, h = size
    if fit == "pad" and w < h:
        return round(w * (width / h) / PATCH) * PATCH, width
    return width, round(h * (width / w) / PATCH) * PATCH


def reference(image, width, fit):
    """The loader's result, or None where a side rounds to 0."""
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    image = image.convert("RGB")
    w, h = resized(image.size, width, fit)
    if w == 0 or h == 0:
        return None
    # Pillow up to 12 filters the rows first, always; 13 begins with the cheaper side. The reference's results, and
    # the golden images, are made in the first order, so it is asked for here.
    image = image.resize((w, image.height), Image.Resampling.BICUBIC)
    image = image.resize((w, h), Image.Resampling.BICUBIC)
    if fit == "crop" and h > width:
        top = (h - width) // 2
        return image.crop((0, top, w, top + width))
    if fit == "pad":
        square = Image.new("RGB", (width, width), (255, 255, 255))
        square.paste(image, ((width - w) // 2, (width - h) // 2))
        return square
    return image


def noise(mode, size, rng):
    """Blocks and noise: flat parts, edges and overshoots."""
    bands = {"1": 1, "L": 1, "P": 1, "LA": 2, "RGB": 3, "RGBA": 4}[mode]
    w, h = size
    data = bytearray(rng.randbytes(w * h * bands))
    for _ in range(4):
        x, y, value = rng.randrange(w), rng.randrange(h), rng.choice((0, 255, 128))
        for row in range(y, min(h, y + h // 3)):
            begin, end = (row * w + x) * bands, (row * w + min(w, x + w // 3)) * bands
            data[begin:end] = bytes([value]) * (end - begin)
    if mode == "1":
        return Image.frombytes("L", size, bytes(data)).convert("1")
    image = Image.frombytes(mode, size, bytes(data))
    if mode == "P":
        image.putpalette(rng.randbytes(768))
    return image


def write_png16(path, color, size, rng):
    """A 16-bit PNG of a color type, which Pillow reads but does not write."""
    w, h = size
    samples = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    rows = b"".join(b"\0" + rng.randbytes(2 * w * samples) for _ in range(h))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", w, h, 16, color, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
                     chunk(b"IEND", b""))


def make_images(folder, rng):
    """Names of image files with the width and the fit to try them with."""
    sizes = [(1, 1), (1, 40), (2, 3), (7, 5), (13, 200), (14, 14), (28, 28), (97, 61), (98, 55), (140, 99), (61, 300),
             (300, 61), (518, 392), (521, 389), (640, 427), (999, 333), (1300, 975)]
    for i, size in enumerate(sizes):
        for width in (28, 98, 518):
            name = f"size_{i}_{width}.png"
            noise("RGB", size, rng).save(folder / name, compress_level=1)
            yield name, width, ("crop", "pad")[(i + width) % 2]
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        for kind in ("png", "tif"):
            image = noise(mode, (71, 53), rng)
            image.save(folder / f"mode_{mode}.{kind}")
            yield f"mode_{mode}.{kind}", 98, "crop"
    image = noise("P", (40, 50), rng)
    image.save(folder / "palette_clear.png", transparency=rng.randbytes(256))
    yield "palette_clear.png", 98, "pad"
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        noise(mode, (45, 61), rng).save(folder / f"mode_{mode}.bmp")
        yield f"mode_{mode}.bmp", 98, "crop"
    for mode in ("L", "RGB", "RGBA"):
        noise(mode, (50, 60), rng).save(folder / f"mode_{mode}.webp", lossless=True, exact=True)
        yield f"mode_{mode}.webp", 98, "pad"
    for color in (0, 2, 4, 6):
        write_png16(folder / f"deep_{color}.png", color, (33, 44), rng)
        yield f"deep_{color}.png", 98, "crop"
    deep = Image.frombytes("I;16", (20, 30), rng.randbytes(1200))
    deep.save(folder / "deep.tif")
    yield "deep.tif", 98, "crop"
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for kind in ("png", "webp", "tif"):
            name = f"turned_{orientation}.{kind}"
            options = {"lossless": True} if kind == "webp" else {}
            noise("RGB", (37, 61), rng).save(folder / name, exif=exif, **options)
            yield name, 98, "crop"


def make_jpegs(folder, rng):
    for i, (mode, subsampling, progressive) in enumerate([("RGB", 0, False), ("RGB", 1, False), ("RGB", 2, True),
                                                          ("RGB", 2, False), ("L", 0, False)]):
        # Enlarged: photographs have no noise of single pixels either.
        image = noise(mode, (90, 70), rng).resize((641, 427), Image.Resampling.BICUBIC)
        name = f"photo_{i}.jpg"
        image.save(folder / name, quality=90, subsampling=subsampling, progressive=progressive)
        yield name, 518, "crop"


def main():
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    images = [*make_images(folder, rng), *make_jpegs(folder, rng)]
    for other in sys.argv[3:]:
        shutil.copy(other, folder)
        images.append((Path(other).name, 518, "crop"))
    with open(folder / "index.txt", "w", encoding="utf-8") as index:
        for name, width, fit in images:
            with Image.open(folder / name) as image:
                image.load()
                # Pillow itself turns TIFF images when it loads them.
                image = image if image.format == "TIFF" else ImageOps.exif_transpose(image)
                result = reference(image, width, fit)
            if result is None:
                index.write(f"{name} {fit} {width} 0 0\n")
                continue
            planes = b"".join(band.tobytes() for band in result.split())
            (folder / f"{name}.rgb").write_bytes(planes)
            index.write(f"{name} {fit} {width} {result.height} {result.width}\n")


if __name__ == "__main__":
    main()
