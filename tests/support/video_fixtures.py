"""Makes tests/fixtures/videos by ffmpeg with x264 and x265: python3 video_fixtures.py FOLDER."""

import subprocess
import sys
from pathlib import Path

import numpy as np

WIDTH, HEIGHT, BITS = 160, 96, 8


def numbered_pictures(count: int) -> np.ndarray:
    """As tests/io/test_video.cpp: frame i shows i in binary, as black and white bars."""
    bar = np.arange(WIDTH) * BITS // WIDTH
    frames = [np.where(i >> bar & 1, 255, 0).astype(np.uint8) for i in range(count)]
    return np.stack([np.broadcast_to(row[None, :, None], (HEIGHT, WIDTH, 3)) for row in frames])


def position_pictures(count: int) -> np.ndarray:
    """As tests/support/media.h: red grows with x, green with y."""
    picture = np.full((HEIGHT, WIDTH, 3), 60, np.uint8)
    picture[..., 0] = np.rint(255 * np.arange(WIDTH) / (WIDTH - 1))
    picture[..., 1] = np.rint(255 * np.arange(HEIGHT) / (HEIGHT - 1))[:, None]
    return np.stack([picture] * count)


def encode(path: Path, frames: np.ndarray, *options: str) -> None:
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}", "-r", "10", "-i", "-"]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *source, *options, path], input=frames.tobytes(), check=True)


HEVC = ["-c:v", "libx265", "-tag:v", "hvc1", "-x265-params", "log-level=none:info=0", "-crf", "20"]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Ten frames a second for two seconds, then two; stored in another order than shown.
    encode(folder / "variable.mp4", numbered_pictures(30), "-vf", "setpts='if(lt(N,20),N/10,2+(N-20)/2)/TB'", "-vsync",
           "vfr", "-video_track_timescale", "1000", "-c:v", "libx264", "-bf", "2", "-b_strategy", "0", "-g", "12",
           "-pix_fmt", "yuv420p")
    encode(folder / "hevc.mp4", numbered_pictures(30), *HEVC, "-pix_fmt", "yuv420p")
    encode(folder / "hevc10.mov", numbered_pictures(30), *HEVC, "-pix_fmt", "yuv420p10le")
    encode(folder / "stored.mp4", position_pictures(3), *HEVC, "-pix_fmt", "yuv420p")
    for degrees in (90, 180, 270):  # clockwise; ffmpeg 5.1 takes them counterclockwise
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", folder / "stored.mp4", "-c", "copy", "-metadata:s:v",
                        f"rotate={360 - degrees}", folder / f"turned{degrees}.mp4"], check=True)
    (folder / "stored.mp4").unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
