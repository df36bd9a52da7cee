"""The log of a run: JSON, a line each; and its picture."""

import json
import time
from pathlib import Path

from .files import write_atomically


class Log:
    def __init__(self, path: Path, active: bool):
        self.path, self.active = path, active
        self.began = time.monotonic()

    def write(self, values: dict) -> None:
        if not self.active:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rounded = {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in values.items()}
        line = json.dumps(rounded | {"wall_minutes": round((time.monotonic() - self.began) / 60, 3)})
        with self.path.open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)

    def cut(self, step: int) -> None:
        """Drops what a run that goes on from this step will write again."""
        if self.active and self.path.exists():
            lines = self.path.read_text().splitlines(keepends=True)
            kept = [line for line in lines if json.loads(line).get("step", 0) <= step]
            write_atomically(self.path, lambda path: path.write_text("".join(kept)))


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]
