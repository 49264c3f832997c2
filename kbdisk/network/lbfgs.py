"""L-BFGS without torch's compiler, as importing that takes two seconds."""

from __future__ import annotations

from typing import Any

import torch


class LBFGS(torch.optim.LBFGS):
    """The method of torch that adds a group imports the compiler: here it does not."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """The only group."""
        self.param_groups.append({**self.defaults, **param_group})
