"""One process, or one per GPU as torchrun starts them."""

import dataclasses
import os
import time

import torch
import torch.distributed as dist


@dataclasses.dataclass(frozen=True)
class Processes:
    rank: int
    count: int
    device: torch.device

    @classmethod
    def join(cls, device: str) -> "Processes":
        """Joins the others where torchrun says that there are any: NCCL on GPUs, Gloo on the CPU."""
        if "RANK" not in os.environ:
            return cls(0, 1, torch.device(device))
        if device == "cuda":
            device = f"cuda:{os.environ['LOCAL_RANK']}"
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), torch.device(device))

    @property
    def first(self) -> bool:
        return self.rank == 0

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def shared(self, value: float) -> float:
        """The first process's value, in all of them."""
        if self.count == 1:
            return value
        box = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(box, 0)
        return box.item()

    def gathered(self, value: object) -> list:
        """The values of all processes, in all of them."""
        if self.count == 1:
            return [value]
        values = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def average(self, tensor: torch.Tensor) -> None:
        """Makes the tensor, of one size in all processes, their mean."""
        if self.count > 1:
            dist.all_reduce(tensor)
            tensor /= self.count

    def leave(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()


@dataclasses.dataclass
class Clock:
    """Seconds of training, those of the first process in all."""

    processes: Processes
    seconds: float = 0.0
    started: float = 0.0

    def start(self) -> None:
        self.processes.synchronise()
        self.started = time.monotonic()

    def tick(self) -> None:
        """Adds the time since the start, which must be past in all processes."""
        self.processes.synchronise()
        now = time.monotonic()
        self.seconds = self.processes.shared(self.seconds + now - self.started)
        self.started = now
