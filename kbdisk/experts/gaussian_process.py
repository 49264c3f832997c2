"""Gaussian processes: what is believed of a function after its values at some points are known, with noise.

Two points are alike as a straight function has it, and as one that bends does: each block of columns counts something in
either. What, is learnt: the known values are to be as likely as can be (their marginal likelihood).

n points   F columns   G blocks   t functions of the same points
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kbdisk.experts.falling_rate import falling
from kbdisk.network.adamw import AdamW

STEPS, RATE = 60, 0.15  # of Adam
SOME = 160  # points of a step
WIDE = 2.0  # deviations of the log of what a block counts, about what it counts at first
NOISE = 0.1  # of a value's variance, at first
LEAST = 1e-6  # of what varies: noise that there always is


class Kernel(NamedTuple):
    """How alike points are, all in float64."""

    straight: Tensor  # (F,)
    bent: Tensor  # (F,)
    height: Tensor  # () of what bends
    noise: Tensor  # () of each value by itself

    def between(self, some: Tensor, others: Tensor) -> Tensor:
        """(m, F) and (n, F) -> (m, n)"""
        at, to = some * self.bent, others * self.bent
        square = (at * some).sum(1, keepdim=True) - 2 * at @ others.T + (to * others).sum(1)
        return self.height * (-0.5 * square.clamp(min=0)).exp() + (some * self.straight) @ others.T


class Fitted(NamedTuple):
    """A function that goes by known values."""

    counts: Tensor  # (n, t) what each point counts in it
    apart: Tensor  # (n, t) what it would be at each point, were the value there not known


def fitted(kernel: Kernel, x: Tensor, y: Tensor) -> Fitted:
    """By (n, F) points and (n, t) values about 0."""
    found = inverse(kernel, x)
    counts = found @ y
    return Fitted(counts, y - counts / found.diagonal()[:, None])


def inverse(kernel: Kernel, x: Tensor) -> Tensor:
    """(n, n) of how alike known values are, noise and all."""
    return torch.cholesky_inverse(torch.linalg.cholesky(_known(kernel, x)))


def learnt(block: Tensor, x: Tensor, y: Tensor, generator: torch.Generator, seconds: float | None = None) -> Kernel:
    """What the blocks (F,) of columns count, -1 nothing, for (n, t) values about 0 and of variance 1.

    The rate falls with the steps, or with the time where that is the shorter.
    """
    count = int(block.max()) + 1
    first = torch.full((2 * count + 2,), -math.log(count), dtype=x.dtype, device=x.device)
    first[-2:] = torch.tensor([0.5, NOISE], dtype=x.dtype).log()
    logs = first.clone().requires_grad_()
    optimizer, good = AdamW([{"params": [logs], "lr": RATE, "weight_decay": 0.0}]), first
    with torch.enable_grad():
        for _ in falling(optimizer, RATE, STEPS, seconds):
            some = torch.randperm(len(x), generator=generator, device=x.device)[:SOME]
            odd = ((logs - first) / WIDE).square().sum() / 2
            cost = (_unlikely(_kernel(logs, block), x[some], y[some]) + odd) / len(some)
            if not cost.isfinite():  # what was learnt before it is good
                break
            good = logs.detach().clone()
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
    return _kernel(good, block)


def _kernel(logs: Tensor, block: Tensor) -> Kernel:
    told = logs.exp()
    straight, bent = (one[block.clamp(min=0)] * (block >= 0) for one in told[:-2].chunk(2))
    return Kernel(straight, bent, told[-2], told[-1])


def _known(kernel: Kernel, x: Tensor) -> Tensor:
    between = kernel.between(x, x)
    noise = kernel.noise + LEAST * between.diagonal().mean()  # or rounding may leave nothing to factor
    return between + noise * torch.eye(len(x), dtype=x.dtype, device=x.device)


def _unlikely(kernel: Kernel, x: Tensor, y: Tensor) -> Tensor:
    """-log p of the values, but for what is the same of any kernel."""
    root, failed = torch.linalg.cholesky_ex(_known(kernel, x))
    if failed:
        return torch.full_like(kernel.noise, math.nan)
    half = torch.linalg.solve_triangular(root, y, upper=False)
    found: Tensor = half.square().sum() / 2 + y.shape[1] * root.diagonal().log().sum()
    return found
