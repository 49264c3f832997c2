"""How far entities are from each other, for one property: what each block of columns counts, learnt from known values.

Each is told by a mean of all others, who count the more the nearer they are; what blocks count is moved such that this
comes out right. Distances are squared and add up, block by block; a block that is hidden counts nothing.

n queries   M keys   F columns   G blocks   t targets
"""

from __future__ import annotations

import torch
from torch import Tensor

from kbdisk.experts.falling_rate import falling
from kbdisk.network.adamw import AdamW

STEPS, RATE = 80, 0.15  # of Adam
QUERIES, KEYS = 256, 2048  # of a step
FURTHEST = 9.0  # a squared error, in deviations, counts as at most
FAR = 8.0  # how far others are at the start, about
UNMET = 1e-3  # the chance of a label that no other has


def distances(weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """(F,), (n, F) and (M, F), NaN where hidden -> (n, M)"""
    seen, at, to = (~queries.isnan()) * weights, queries.nan_to_num(), keys.nan_to_num()
    weighed = at * weights
    return (weighed * at).sum(1, keepdim=True) - 2 * weighed @ to.T + seen @ to.square().T


def learnt(
    block: Tensor,
    queries: Tensor,
    own: Tensor,
    keys: Tensor,
    targets: Tensor,
    generator: torch.Generator,
    seconds: float | None = None,
) -> Tensor:
    """(F,) what columns count. `own` (n,): which key each query is itself; targets (M, t) numbers, or (M,) labels.

    The rate falls with the steps, or with the time where that is the shorter.
    """
    device, count = keys.device, int(block.max()) + 1
    logs = torch.full((count,), FAR / count, device=device).log().requires_grad_()
    optimizer = AdamW([{"params": [logs], "lr": RATE, "weight_decay": 0.0}])
    with torch.enable_grad():
        for _ in falling(optimizer, RATE, STEPS, seconds):
            some = torch.randint(len(queries), (QUERIES,), generator=generator, device=device)
            others = torch.randperm(len(keys), generator=generator, device=device)[:KEYS]
            weights = _weights(logs, block)
            near = (-distances(weights, queries[some].float(), keys[others].float())).masked_fill(
                own[some, None] == others, -torch.inf
            )
            cost = _cost(near.softmax(1), targets[others], targets[own[some]])
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
    return _weights(logs.detach(), block)


def _weights(logs: Tensor, block: Tensor) -> Tensor:
    return logs.exp()[block.clamp(min=0)] * (block >= 0)


def _cost(shares: Tensor, targets: Tensor, truth: Tensor) -> Tensor:
    if targets.is_floating_point():
        return (shares @ targets - truth).square().clamp(max=FURTHEST).mean()
    right = (shares * (targets == truth[:, None])).sum(1)
    return -(right + UNMET).log().mean()
