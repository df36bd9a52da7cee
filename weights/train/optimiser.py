"""Muon for the matrices of the blocks, AdamW for all else, and a moving average of both."""

import copy

import torch
from torch import Tensor, nn

from .settings import Optimiser

# Five quintic steps towards the nearest orthogonal matrix, from the widest spread of singular values on.
ORTHOGONALISE = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
MOMENTUM, EARLY_MOMENTUM, EARLY_STEPS = 0.95, 0.85, 300


def orthogonalise(x: Tensor) -> Tensor:
    """Matrices [M,rows,columns] with singular values near 1 and x's singular vectors."""
    wide = x.shape[-2] <= x.shape[-1]
    y = (x if wide else x.mT).to(torch.bfloat16 if x.is_cuda else x.dtype)
    y = y / (y.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for a, b, c in ORTHOGONALISE:
        gram = y @ y.mT
        y = a * y + (b * gram + c * (gram @ gram)) @ y
    return (y if wide else y.mT).to(x.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum steps of orthogonal matrices (K. Jordan). A group's `parts`: how many matrices a weight stacks."""

    def __init__(self, groups: list[dict], rate: float, decay: float):
        super().__init__(groups, {"lr": rate, "weight_decay": decay, "parts": 1})

    @torch.no_grad()
    def step(self, number: int) -> None:
        early = min(number / EARLY_STEPS, 1)
        momentum = EARLY_MOMENTUM + (MOMENTUM - EARLY_MOMENTUM) * early
        for group in self.param_groups:
            updates = self._updates(group["params"], momentum)
            by_shape: dict[torch.Size, list[int]] = {}
            for i, update in enumerate(updates):
                by_shape.setdefault(update.shape, []).append(i)
            for shape, members in by_shape.items():
                self._apply(group, [group["params"][i] for i in members], [updates[i] for i in members])

    def _updates(self, params: list[Tensor], momentum: float) -> list[Tensor]:
        buffers = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in params]
        gradients = [p.grad for p in params]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        return torch._foreach_lerp(gradients, buffers, momentum)  # Nesterov

    @staticmethod
    def _apply(group: dict, params: list[Tensor], updates: list[Tensor]) -> None:
        rows, columns = updates[0].shape
        parts = group["parts"]
        stacked = torch.cat([u.view(parts, rows // parts, columns) for u in updates])
        # A tall matrix moves its outputs less per unit of norm.
        steps = orthogonalise(stacked) * max(1, rows // parts / columns) ** 0.5
        torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        steps = [step.reshape(rows, columns) for step in steps.split(parts)]
        torch._foreach_add_(params, steps, alpha=-group["lr"])


class Optimisers:
    """Both optimisers and the moving average of `module`, which is what is evaluated and exported."""

    def __init__(self, module: nn.Module, settings: Optimiser):
        self.settings = settings
        self.params = [p for p in module.parameters() if p.requires_grad]
        joined, matrices, weights, others = [], [], [], []
        for name, p in module.named_parameters():
            if not p.requires_grad:
                continue
            if p.ndim == 2 and ("blocks." in name or "trunk." in name):
                (joined if "qkv" in name else matrices).append(p)
            else:
                plain = p.ndim >= 2 and "token" not in name and "pos_embed" not in name
                (weights if plain else others).append(p)
        self.rest = weights + others
        groups = [{"params": matrices}, {"params": joined, "parts": 3}]
        self.muon = Muon(groups, settings.muon_rate, settings.muon_decay)
        self.adam = torch.optim.AdamW(
            [
                {"params": weights, "weight_decay": settings.adam_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=settings.adam_rate,
            betas=(0.9, 0.98),
            fused=self.params[0].is_cuda,
        )
        self.average = copy.deepcopy(module).eval().requires_grad_(False)
        with_gradient = {name for name, p in module.named_parameters() if p.requires_grad}
        self.age = 0  # steps that the average has seen; a young one forgets faster
        self.averaged = [p for name, p in self.average.named_parameters() if name in with_gradient]

    def step(self, number: int, rate: float) -> None:
        """One step with `rate` times the full rates."""
        torch.nn.utils.clip_grad_norm_(self.rest, self.settings.clip)
        for group in self.adam.param_groups:
            group["lr"] = self.settings.adam_rate * rate
        for group in self.muon.param_groups:
            group["lr"] = self.settings.muon_rate * rate
        self.adam.step()
        self.muon.step(number)
        keep = min(self.settings.ema, (1 + self.age) / (10 + self.age))
        self.age += 1
        with torch.no_grad():
            torch._foreach_lerp_(self.averaged, self.params, 1 - keep)

    def state(self) -> dict:
        return {
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "average": self.average.state_dict(),
            "age": self.age,
        }

    def load(self, state: dict) -> None:
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.take_average(state["average"], state["age"])

    def take_average(self, average: dict[str, Tensor], age: int = 1 << 20) -> None:
        """By default one so old that it forgets no faster than the settings say."""
        self.average.load_state_dict(average)
        self.age = age
