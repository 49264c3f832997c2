"""The log mass that a mixture of Gaussians gives to an interval, and its gradient, right in float32 at any width.

With t = (x - mean) / std, an interval [lo, hi] of width w around m, turned round where m < 0, has the mass

    narrow          phi(m) w (1 + (m^2 - 1) w^2 / 24)               where w (1 + |m|) is small
    on one side     phi(lo) (R(lo) - R(hi) phi(hi) / phi(lo))       R = (1 - Phi) / phi, Mills' ratio: never underflows
    around 0        1 - phi(lo) R(-lo) - phi(hi) R(hi)              nothing cancels

One pass finds the mass and its derivatives, and the backward pass is a product: through autograd it takes several
times as long, and the branches not taken give NaN gradients. A branch is taken by weights of 0 and 1, and is finite
where it is not taken: `where` is slow on a CPU, as is `erfcx`.

n rows   K components
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

NARROW = 0.2
FURTHEST = 1e12  # in standard deviations: squares still fit a float32
ZERO = 9.0  # nothing is left of the normal distribution so far out, next to 1
LOG_ROOT = 0.5 * math.log(2 * math.pi)
# erfcx(x) = t exp(P(t)), t = 1 / (1 + x / 2), to 1.2e-7: Numerical Recipes, 6.2
MILLS = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368)
MILLS_0 = -1.26551223 + 0.5 * math.log(math.pi / 2)


def log_mass(logits: Tensor, mean: Tensor, std: Tensor, codes: Tensor) -> Tensor:
    """(n,) of the step around each code (n, 4), for mixtures (n, K)."""
    mass: Tensor = LogMass.apply(logits, mean, std, *codes[:, :3].unbind(1))  # type: ignore[no-untyped-call]
    return mass


class LogMass(torch.autograd.Function):
    """(n,) log of the mass between code - below and code + above."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, mean: Tensor, std: Tensor, code: Tensor, below: Tensor, above: Tensor) -> Any:
        inverse = 1 / std  # (n, K)
        centre = ((code[:, None] - mean) * inverse).clamp_(-FURTHEST, FURTHEST)
        log_mass, by_mean, by_std = interval(centre, below[:, None] * inverse, above[:, None] * inverse)
        share, total = normalised(log_mass.add_(logits))  # (n, K) how much each component has to do with it
        weight, every = normalised(logits)
        inverse.mul_(share)
        ctx.save_for_backward(share.sub_(weight), by_mean.mul_(inverse), by_std.mul_(inverse))
        return total - every

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        return *(grad[:, None] * by for by in ctx.saved_tensors), None, None, None


def normalised(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax (n, K) and logsumexp (n,), by one exponential."""
    most = logits.amax(1, keepdim=True)
    powers = (logits - most).exp_()
    whole = powers.sum(1, keepdim=True)
    return powers.div_(whole), (most + whole.log()).squeeze(1)


def interval(centre: Tensor, below: Tensor, above: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The log mass of [centre - below, centre + above] under the standard normal, and std times its derivatives."""
    low, high, width = centre - below, centre + above, below + above
    middle = centre + (above - below).clamp_(-1, 1) / 2
    narrow = (middle.abs().add_(1).mul_(width) < NARROW).float()
    rest = 1 - narrow
    parts = zip(_narrow(middle, width.clamp(max=1)), _wide(low, high, width), strict=True)
    log_mass, by_mean, by_std = (one.mul_(narrow).add_(other.mul_(rest)) for one, other in parts)
    return log_mass, by_mean, by_std


def _narrow(middle: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    square, flat = middle * middle, (width * width).div_(12)
    log_mass = (square - 1).mul_(flat).sub_(square).mul_(0.5).add_(width.log()).sub_(LOG_ROOT)
    return log_mass, middle * (1 - flat), square.mul_(1 - 2 * flat).add_(flat).sub_(1)


def _wide(low: Tensor, high: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    turn = torch.copysign(torch.ones_like(low), low + high)
    near, far = torch.maximum(low, -high).clamp_(min=-ZERO), torch.maximum(high, -low)  # |near| <= far
    side = torch.copysign(torch.ones_like(near), near)  # -1 around 0
    around, gap = (1 - side).mul_(0.5), (far - near)
    gap = gap.mul_(around).add_(width * (1 + side).mul_(0.5))  # far out the width is lost between far and near
    falls = gap.mul_(near + far).mul_(-0.5).exp_()  # phi(far) / phi(near)
    whole = near.clamp(max=0).square_().mul_(0.5).add_(LOG_ROOT).exp_().mul_(around)  # 1 / phi(near)
    mass = _mills(near.abs()).mul_(side).sub_(_mills(far).mul_(falls)).add_(whole).clamp_(min=1e-20)  # over phi(near)
    log_mass = mass.log().sub_((near * near).mul_(0.5)).sub_(LOG_ROOT)
    at_near, at_far = 1 / mass, falls / mass  # the densities at the ends, over the mass
    return log_mass, (at_near - at_far).mul_(turn), near * at_near - far * at_far


def _mills(t: Tensor) -> Tensor:
    """(1 - Phi(t)) / phi(t) for t >= 0."""
    t = (t * math.sqrt(1 / 8)).add_(1).reciprocal_()
    power = t * MILLS[0]
    for coefficient in MILLS[1:]:
        power.add_(coefficient).mul_(t)
    return power.add_(MILLS_0).exp_().mul_(t)
