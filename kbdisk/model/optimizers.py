"""AdamW and L-BFGS without torch's compiler, and the linear decay of a learning rate.

The first use of any torch.optim.Optimizer imports the compiler, which takes two seconds of every process that trains.
AdamW takes the same steps as torch.optim.AdamW(fused=True), to the last bit.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

EPSILON = 1e-8
ADAGRAD_EPSILON = 1e-10
FIRST, SECOND, STEP = MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 faster than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    cpu = torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else ""
    return cpu.startswith("AVX512") and bool(torch.cpu._is_avx512_bf16_supported())


def adagrad(values: Tensor, squares: Tensor, gradient: Tensor, rate: float) -> None:
    """One step of Adagrad, in place: `squares` are the sums of the squared gradients."""
    torch._fused_adagrad_(
        [values],
        [gradient],
        [squares],
        [torch.ones(())],  # the step, which counts only where the rate decays
        lr=rate,
        lr_decay=0.0,
        weight_decay=0.0,
        eps=ADAGRAD_EPSILON,
        maximize=False,
    )


class AdamW:
    """AdamW. Groups have `params`, `lr` and `weight_decay`; parameters without a gradient are not updated."""

    def __init__(self, groups: Iterable[dict[str, Any]], betas: tuple[float, float] = (0.9, 0.999)) -> None:
        self.param_groups = list(groups)
        self.betas = betas
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @torch.no_grad()
    def step(self) -> None:
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            self._update(group)

    def zero_grad(self) -> None:
        """Remove all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _update(self, group: dict[str, Any]) -> None:
        updated = [parameter for parameter in group["params"] if parameter.grad is not None]
        if not updated:
            return
        states = [self._state(parameter) for parameter in updated]
        first, second, steps = ([state[key] for state in states] for key in MOMENTS)
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            updated,
            [parameter.grad for parameter in updated],
            first,
            second,
            [],
            steps,
            lr=group["lr"],
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=group["weight_decay"],
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            state |= {key: torch.zeros_like(parameter) for key in (FIRST, SECOND)}
            state[STEP] = torch.zeros((), dtype=torch.float32, device=parameter.device)
        return state


class LBFGS(torch.optim.LBFGS):
    """L-BFGS of torch, but for the method that adds a group, which imports the compiler there."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add the only group, without checks."""
        self.param_groups.append({**self.defaults, **param_group})


def linear_decay(optimizer: AdamW, rate: float, steps: int, seconds: float | None = None) -> Iterator[int]:
    """Yields each step after setting its learning rate, which falls from `rate` to 0 over the steps or the time, if shorter."""
    begun = time.monotonic()
    for step in range(steps):
        spent = 0.0 if seconds is None else (time.monotonic() - begun) / max(seconds, 1e-9)
        done = max(step / steps, spent)
        if done >= 1:
            return
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - done)
        yield step
