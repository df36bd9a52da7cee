"""Who may include whom: ROOMS lists every folder of sources, each with the folders that it may include beside its own.

A room only names rooms above it in the list, so no arrow runs back up and there are no circles. Headers in FLOOR lie
in a top folder (the room's public face) but count as a room of their own, "<folder>:floor", which the sub-rooms stand
on; the rest of that folder is the ceiling.
"""

import re
import sys
from pathlib import Path

FLOOR = {
    "attention": "attention_types.h out_of_memory.h packed_offsets.h params.h reference.h result.h state.h variant.h",
    "model": "config.h frame_provider.h merge_options.h model_options.h observer.h overlap.h precision.h predictions.h schedule.h",
}

ROOMS = {
    "io/files": "",
    "io/tensors": "io/files",
    "io/archives": "io/files io/tensors",
    "io/weights": "io/files io/tensors io/archives",
    "io/frames": "io/files io/tensors",
    "io/scene": "io/files io/tensors io/frames",
    "attention:floor": "",
    "attention/cpu": "attention:floor",
    "attention/cuda": "attention:floor",
    "attention/cuda/hopper": "attention:floor attention/cuda",
    "attention/tune": "attention:floor attention/cuda",
    "attention": "attention:floor attention/cpu attention/cuda attention/cuda/hopper attention/tune",
    "attention/stream": "attention:floor attention/cpu attention/cuda attention",
    "attention/bench/scan": "attention:floor",
    "attention/bench": "attention:floor attention/cpu attention/cuda attention/tune attention attention/stream attention/bench/scan",
    "model:floor": "attention:floor",
    "model/state": "model:floor",
    "model/layers": "io/files model:floor model/state attention:floor attention/cuda attention/cuda/hopper attention",
    "model/ranks": "",
    "model/trunk": "io/files model:floor model/state model/layers model/ranks attention:floor attention attention/stream",
    "model/heads": "model:floor model/state model/layers attention",
    "model/refine": "io/files model:floor model/state model/layers",
    "model": "io/files model:floor model/state model/layers model/ranks model/trunk model/heads model/refine attention:floor "
             "attention/cpu attention/cuda attention/stream",
    "model/bench": "model:floor model/state model/layers model/heads model attention:floor attention/bench",
    "app/events": "",
    "app/options": "io/files",
    "app/scene": "io/files io/scene io/frames",
    "app/adjust": "app/events app/scene io/files io/scene io/frames",
    "app/eval": "app/events app/scene io/files io/frames io/scene",
    "app/health": "app/scene io/files io/frames io/scene",
    "app/report": "app/options app/scene app/health io/files io/frames io/scene",
    "app/export": "app/options app/scene app/report io/files io/frames io/scene",
    "app/run": "app/events app/options app/scene app/adjust app/health app/report app/export io/files io/frames io/scene io/weights "
               "attention:floor attention/tune model:floor model/state model/ranks model/refine model",
    "app/batch": "app/events app/options app/report app/run io/files io/frames model",
    "app/cli": "app/events app/options app/scene app/eval app/report app/run app/batch io/files io/frames io/weights model:floor "
               "model/ranks model model/bench attention/bench",
    "app/api": "app/options app/events app/run app/cli io/files io/frames io/scene io/weights",
    "app/python": "app/api",
    "app": "app/cli app/run io/frames",
}


def room_of(path):
    folder, _, name = path.rpartition("/")
    return f"{folder}:floor" if name in FLOOR.get(folder, "").split() else folder


def main(root):
    problems = []
    seen = []
    for room, others in ROOMS.items():
        problems += [f"{room} names {other}, which is not above it in the list" for other in others.split()
                     if other not in seen]
        seen.append(room)
    files = [f for top in ("app", "io", "model", "attention") for f in sorted((root / top).rglob("*"))
             if f.suffix in (".h", ".cpp", ".cu", ".cuh")]
    for file in files:
        path = file.relative_to(root).as_posix()
        room = room_of(path)
        if room not in ROOMS:
            problems.append(f"{path}: its room is not in the list")
            continue
        for header in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE):
            if not (root / header).exists():
                problems.append(f"{path}: {header} does not exist")
            elif room_of(header) != room and room_of(header) not in ROOMS[room].split():
                problems.append(f"{path} ({room}) may not include {header} ({room_of(header)})")
    headers = {f.relative_to(root).with_suffix("").as_posix() for f in files if f.suffix in (".h", ".cuh")}
    for file in files:
        stem = file.relative_to(root).with_suffix("").as_posix()
        folder, _, name = stem.rpartition("/")
        words = name.split("_")
        names = ["_".join(words[:n]) for n in range(1, len(words) + 1)] + ["_".join(words[n:]) for n in range(len(words))]
        if file.suffix == ".cpp" and stem not in ("app/launch", "app/python/core") and not any(f"{folder}/{n}" in headers for n in names):
            problems.append(f"{stem}.cpp has no header of its name, nor one that its name begins or ends with")
    print("\n".join(problems) or f"{len(files)} files in {len(ROOMS)} rooms: every include is allowed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
