"""What a caller gives as frames, as the library takes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import numpy as np


def is_path(value) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def path_bytes(value) -> bytes:
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError("a path, name or option holds a null character")
    return encoded


def is_pillow(image) -> bool:
    module = sys.modules.get("PIL.Image")  # there where anybody has such an image
    return module is not None and isinstance(image, module.Image)


def pillow_array(image) -> np.ndarray:
    """What the library reads from a file of the image: upright, transparent parts on white where the mode is RGBA, gray
    beyond 8 bits cut off at 255."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return np.nan_to_num(np.clip(np.asarray(image), 0, 255)).astype(np.uint8)
    if image.mode in ("RGBA", "RGBa"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"))


def has_clear_strides(array: np.ndarray) -> bool:
    """Whether each stride steps over all that the smaller ones span, as the library wants it. To it 0 means densely
    packed; to NumPy the same value again."""
    span = 1
    for stride, size in sorted((abs(stride), size) for stride, size in zip(array.strides, array.shape) if size > 1):
        if stride < span:
            return False
        span += stride * (size - 1)
    return True


def image_array(image, number: int) -> np.ndarray:
    """The image as an array [height,width,3], of its own memory where the library can read that."""
    where = f"image {number}"
    try:
        if is_pillow(image):
            array = pillow_array(image)
        elif isinstance(image, np.ndarray):
            array = image
        elif hasattr(image, "__dlpack__"):
            array = np.from_dlpack(image)
        else:
            array = np.asarray(image)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(f"{where}: cannot be read as an array in the CPU's memory: {error}") from error
    except ValueError as error:  # a mode of Pillow's that it does not convert, a list of rows of several lengths
        raise ValueError(f"{where}: {error}") from error
    if array.dtype != np.uint8:
        raise TypeError(f"{where}: has values of type {array.dtype}, not 8-bit ones (uint8)")
    if array.ndim == 2:
        array = np.broadcast_to(array[..., None], (*array.shape, 3))
    if array.ndim != 3 or array.shape[2] != 3:
        hint = "; permute it to [height,width,3]" if array.ndim == 3 and array.shape[0] == 3 else ""
        raise ValueError(f"{where}: has the shape {list(array.shape)}, not [height,width,3]{hint}")
    if array.size == 0:
        raise ValueError(f"{where}: is empty")
    return array if has_clear_strides(array) else np.ascontiguousarray(array)


def images_of(frames) -> tuple[list[bytes], list[np.ndarray]]:
    """Paths or images of a sequence, or of an array with a dimension in front."""
    if is_pillow(frames) or getattr(frames, "ndim", 4) in (2, 3):
        frames = [frames]  # one image
    try:
        if isinstance(frames, (Mapping, set, frozenset)):
            raise TypeError
        entries = iter(frames)
    except TypeError:
        kind = type(frames).__name__
        raise TypeError(f"frames: takes a path, an image or a sequence of them, not {kind}") from None
    entries = list(entries)
    if not entries:
        raise ValueError("frames: there are none")
    if all(is_path(entry) for entry in entries):
        return [path_bytes(entry) for entry in entries], []
    if any(is_path(entry) for entry in entries):
        raise TypeError("frames: give paths or images, not both")
    return [], [image_array(entry, number) for number, entry in enumerate(entries)]
