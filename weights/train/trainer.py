"""One run, from its settings to its snapshot and log."""

import math
from pathlib import Path

import torch
from torch import Tensor

from .data import Batches
from .evaluate import Case, evaluate
from .files import MODEL, read_snapshot, write_checkpoint, write_snapshot
from .gradients import Gradients
from .log import Log
from .objective import Objective
from .optimiser import Optimisers
from .processes import Clock, Processes
from .settings import Settings, parse_size

TICK_STEPS = 20  # between two looks at the clock; the host runs at most so far ahead


class Trainer:
    def __init__(self, settings: Settings, processes: Processes, out: Path, checkpoint: Path | None):
        self.settings, self.processes, self.out = settings, processes, out
        self.checkpoint = checkpoint or out / "checkpoint.pt"
        torch.manual_seed(settings.data.seed)
        self.objective = Objective(settings).to(processes.device)
        self.optimisers = Optimisers(self.objective, settings.optimiser)
        self.batches = Batches(settings, processes)
        self.gradients = Gradients(settings, self.objective, self.optimisers.params, processes)
        self.clock = Clock(processes)
        self.step = 0
        self.log = Log(out / "log.jsonl", processes.first)

    def restart(self, snapshot: Path) -> None:
        """Takes weights and average from a snapshot; optimiser, clock and scenes begin anew.

        So do parts that only training needs, where the snapshot's run had none; its own that this run lacks are
        left. Give the run another `data.seed` than the one it goes on from had.
        """
        own = self.objective.state_dict()
        anew = {k: v for k, v in own.items() if not k.startswith(MODEL)}

        def taken(given: dict[str, Tensor]) -> dict[str, Tensor]:
            return anew | {k: v for k, v in given.items() if k.startswith(MODEL) or k in own}

        weights, average = read_snapshot(snapshot)
        self.objective.load_state_dict(taken(weights))
        self.optimisers.take_average(taken(average))

    def resume(self) -> bool:
        """Goes on from the checkpoint, if there is one: the same run to the last bit, but for its clock."""
        if not self.checkpoint.exists():
            return False
        state = torch.load(self.checkpoint, map_location=self.processes.device, weights_only=True)
        self.objective.load_state_dict(state["objective"])
        self.optimisers.load(state["optimisers"])
        self.step = state["step"]
        self.clock.seconds = state["seconds"]
        self.log.cut(self.step)
        return True

    def save(self) -> None:
        if not self.processes.first:
            return
        state = {"objective": self.objective.state_dict(), "optimisers": self.optimisers.state()}
        write_checkpoint(self.checkpoint, state | {"step": self.step, "seconds": self.clock.seconds})
        average = self.optimisers.average
        write_snapshot(
            self.out, self.objective.state_dict(), average.state_dict(), self.settings.model, self.step
        )

    @property
    def progress(self) -> float:
        schedule = self.settings.schedule
        if schedule.steps:
            return self.step / schedule.steps
        return self.clock.seconds / (60 * schedule.minutes)

    def rate(self) -> float:
        """Of the full learning rates: a linear start, then linearly to 0."""
        warm = min(1.0, (self.step + 1) / self.settings.schedule.warmup_steps)
        return warm * (1 - min(self.progress, 1.0))

    def match_weight(self) -> float:
        loss = self.settings.loss
        done = self.progress / loss.match_until
        return loss.match * 0.5 * (1 + math.cos(math.pi * done)) if done < 1 else 0.0

    def run(self) -> dict[str, float]:
        """Trains to the end of the schedule, or to its pause; returns the last evaluation."""
        self.objective.train()
        if self.settings.compile:
            self.objective.compile()
        parts, saved, evaluated = [], self.clock.seconds, self.clock.seconds
        schedule = self.settings.schedule
        self.clock.start()
        while self.progress < min(schedule.pause_at, 1):
            rate = self.rate()
            parts.append(self._gradients())
            self.optimisers.step(self.step, rate)
            self.step += 1
            if self.step % TICK_STEPS == 0:
                self.clock.tick()
            if self.step % schedule.log_steps == 0:
                self._report(parts, rate)
                parts = []
            if self.step % TICK_STEPS:
                continue
            if self.clock.seconds - evaluated > 60 * self.settings.evaluation.minutes and self.progress < 1:
                self.evaluate()
                evaluated = self.clock.seconds
                self.clock.start()
            if self.clock.seconds - saved > 60 * schedule.checkpoint_minutes:
                self.save()
                saved = self.clock.seconds
                self.clock.start()
        self.clock.tick()
        self.save()
        return self.evaluate()

    def _gradients(self) -> dict[str, Tensor]:
        """Those of the next step; the clock stands still while a graph is compiled and recorded."""
        step, weight = self.step, self.match_weight()
        shape = self.batches.shape(step)
        new = self.gradients.is_new(shape, weight > 0)
        if new:
            self.clock.tick()
        parts = self.gradients(shape, self.batches.parameters(step), self.batches.chance(step), weight)
        if new:
            self.clock.start()
        return parts

    def _report(self, parts: list[dict], rate: float) -> None:
        names = {name for part in parts for name in part}
        means = {n: torch.stack([p[n] for p in parts if n in p]).float().mean().item() for n in sorted(names)}
        self.log.write(self._moment() | {"rate": rate} | means)
        if not all(math.isfinite(value) for value in means.values()):
            raise FloatingPointError(f"step {self.step}: the loss is not finite: {means}")

    def _moment(self) -> dict[str, float]:
        return {"step": self.step, "minutes": self.clock.seconds / 60}

    def evaluate(self) -> dict[str, float]:
        """The moving average on held-out scenes of each size; returns the first size's."""
        evaluation, results = self.settings.evaluation, []
        for size in evaluation.sizes:
            case = Case(
                parse_size(size), evaluation.frames, evaluation.scenes, evaluation.batch_frames
            )
            results.append(evaluate(self.optimisers.average.model, case, self.processes))
            self.log.write(self._moment() | {"evaluated": size} | results[-1])
        return results[0]
