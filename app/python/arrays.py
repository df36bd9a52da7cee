"""What a caller gives as frames, as the library takes it."""

from __future__ import annotations

import os

import numpy as np


def is_path(value) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def path_bytes(value) -> bytes:
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError("a path, name or option holds a null character")
    return encoded


def image_array(image, number: int) -> np.ndarray:
    """The image as an array [height,width,3] of its own memory."""
    where = f"image {number}"
    try:
        if isinstance(image, np.ndarray):
            array = image
        elif hasattr(image, "__dlpack__"):
            array = np.from_dlpack(image)
        else:
            array = np.asarray(image)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(f"{where}: cannot be read as an array in the CPU's memory: {error}") from error
    if array.dtype != np.uint8:
        raise TypeError(f"{where}: has values of type {array.dtype}, not 8-bit ones (uint8)")
    if array.ndim == 2:
        array = np.broadcast_to(array[..., None], (*array.shape, 3))
    if array.ndim != 3 or array.shape[2] != 3:
        hint = "; permute it to [height,width,3]" if array.ndim == 3 and array.shape[0] == 3 else ""
        raise ValueError(f"{where}: has the shape {list(array.shape)}, not [height,width,3]{hint}")
    if array.size == 0:
        raise ValueError(f"{where}: is empty")
    # One value that is broadcast: strides that are all 0 mean dense rows to the library.
    return array if any(array.strides) else np.ascontiguousarray(array)


def images_of(frames) -> tuple[list[bytes], list[np.ndarray]]:
    """Paths or images of a sequence, or of an array with a dimension in front."""
    if getattr(frames, "ndim", 4) == 3:
        frames = [frames]  # one image
    entries = list(frames)
    if not entries:
        raise ValueError("frames: there are none")
    if all(is_path(entry) for entry in entries):
        return [path_bytes(entry) for entry in entries], []
    if any(is_path(entry) for entry in entries):
        raise TypeError("frames: give paths or images, not both")
    return [], [image_array(entry, number) for number, entry in enumerate(entries)]
