"""The log of the mass of an interval under a mixture of Gaussians, and its gradient; accurate in float32 at any width.

With t = (x - mean) / std, an interval [lo, hi] of width w around m, mirrored where m < 0, has the mass

    narrow          phi(m) w (1 + (m^2 - 1) w^2 / 24)               where w (1 + |m|) is small
    on one side     phi(lo) (R(lo) - R(hi) phi(hi) / phi(lo))       R = (1 - Phi) / phi, Mills' ratio: never underflows
    around 0        1 - phi(lo) R(-lo) - phi(hi) R(hi)              nothing cancels

The forward pass computes the mass and its derivatives, and the backward pass is a product: autograd takes several
times as long, and branches that are not taken give NaN gradients. Branches are chosen by weights of 0 and 1, and are
finite where they are not chosen: `where` is slow on a CPU, as is `erfcx`.

n rows   K components
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

MAX_NARROW = 0.2  # of w (1 + |m|)
MAX_DEVIATIONS = 1e12  # whose square still fits a float32
ALL_MASS_WITHIN = 9.0  # standard deviations, to float32
LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
# erfcx(x) = t exp(P(t)), t = 1 / (1 + x / 2), to 1.2e-7: Numerical Recipes, 6.2
MILLS = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368)
MILLS_0 = -1.26551223 + 0.5 * math.log(math.pi / 2)


def log_mass(logits: Tensor, mean: Tensor, std: Tensor, codes: Tensor) -> Tensor:
    """(n,) log of the mass of the step around each code (n, 4), under mixtures (n, K)."""
    mass: Tensor = LogMass.apply(logits, mean, std, *codes[:, :3].unbind(1))  # type: ignore[no-untyped-call]
    return mass


class LogMass(torch.autograd.Function):
    """(n,) log of the mass between code - below and code + above."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, mean: Tensor, std: Tensor, code: Tensor, below: Tensor, above: Tensor) -> Any:
        inverse = 1 / std  # (n, K)
        centre = ((code[:, None] - mean) * inverse).clamp_(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        log_mass, by_mean, by_std = interval(centre, below[:, None] * inverse, above[:, None] * inverse)
        responsibility, mass = normalised(log_mass.add_(logits))  # (n, K)
        weight, total = normalised(logits)
        inverse.mul_(responsibility)
        ctx.save_for_backward(responsibility.sub_(weight), by_mean.mul_(inverse), by_std.mul_(inverse))
        return mass - total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        return *(grad[:, None] * derivative for derivative in ctx.saved_tensors), None, None, None


def normalised(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax (n, K) and logsumexp (n,), with a single exponential."""
    largest = logits.amax(1, keepdim=True)
    powers = (logits - largest).exp_()
    total = powers.sum(1, keepdim=True)
    return powers.div_(total), (largest + total.log()).squeeze(1)


def interval(centre: Tensor, below: Tensor, above: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The log mass of [centre - below, centre + above] under the standard normal, and std times its derivatives."""
    low, high, width = centre - below, centre + above, below + above
    middle = centre + (above - below).clamp_(-1, 1) / 2
    narrow = (middle.abs().add_(1).mul_(width) < MAX_NARROW).float()
    wide = 1 - narrow
    parts = zip(_narrow(middle, width.clamp(max=1)), _wide(low, high, width), strict=True)
    log_mass, by_mean, by_std = (
        narrow_part.mul_(narrow).add_(wide_part.mul_(wide)) for narrow_part, wide_part in parts
    )
    return log_mass, by_mean, by_std


def _narrow(middle: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    square, flat = middle * middle, (width * width).div_(12)
    log_mass = (square - 1).mul_(flat).sub_(square).mul_(0.5).add_(width.log()).sub_(LOG_ROOT_2PI)
    return log_mass, middle * (1 - flat), square.mul_(1 - 2 * flat).add_(flat).sub_(1)


def _wide(low: Tensor, high: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mirrored = torch.copysign(torch.ones_like(low), low + high)
    near, far = torch.maximum(low, -high).clamp_(min=-ALL_MASS_WITHIN), torch.maximum(high, -low)  # |near| <= far
    side = torch.copysign(torch.ones_like(near), near)  # -1 around 0
    around, gap = (1 - side).mul_(0.5), (far - near)
    gap = gap.mul_(around).add_(width * (1 + side).mul_(0.5))  # far out the width is lost between far and near
    ratio = gap.mul_(near + far).mul_(-0.5).exp_()  # phi(far) / phi(near)
    total = near.clamp(max=0).square_().mul_(0.5).add_(LOG_ROOT_2PI).exp_().mul_(around)  # 1 / phi(near)
    mass = _mills(near.abs()).mul_(side).sub_(_mills(far).mul_(ratio)).add_(total).clamp_(min=1e-20)  # over phi(near)
    log_mass = mass.log().sub_((near * near).mul_(0.5)).sub_(LOG_ROOT_2PI)
    at_near, at_far = 1 / mass, ratio / mass  # the densities at the ends, over the mass
    return log_mass, (at_near - at_far).mul_(mirrored), near * at_near - far * at_far


def _mills(t: Tensor) -> Tensor:
    """(1 - Phi(t)) / phi(t) for t >= 0."""
    t = (t * math.sqrt(1 / 8)).add_(1).reciprocal_()
    power = t * MILLS[0]
    for coefficient in MILLS[1:]:
        power.add_(coefficient).mul_(t)
    return power.add_(MILLS_0).exp_().mul_(t)
