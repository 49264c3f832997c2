"""What beliefs have in common that tell a value in one step.

n rows   P kernels   K values of others
"""

from __future__ import annotations

import torch
from torch import Tensor

from kbdisk.leaves.base import Recalling

TINY = 1e-12


class Whole:
    """For `Recalling`: each value is a step."""

    def steps(self: Recalling, codes: Tensor) -> Tensor:
        """(n,) log p of each value."""
        return self.log_prob(codes)

    def steps_recalled(self: Recalling, codes: Tensor, own: Tensor, others: Tensor, weights: Tensor) -> Tensor:
        """(n,) log p of each value if it was `own` (n,) until so much (n, P, K) of the mass went to others (n, K, ...)."""
        mass = weights.sum((1, 2)).clamp(max=1)  # (n,)
        anybody = self.pick(torch.zeros(len(codes), dtype=torch.long, device=codes.device))  # of it nothing is left
        recalled = anybody.recalled(others, weights / mass.clamp(min=TINY)[:, None, None])
        return torch.logaddexp(own + (1 - mass).log(), recalled.log_prob(codes) + mass.log())
