"""A surface through the values of neighbours: what each of them counts at a place among them.

Between neighbours a number rises and falls as they do: a nucleus with one neutron more than those around it is not what they
have on average. This is kriging: values are alike as a Gaussian of their distance, each has some noise to itself, and of
all means of them (counts may be below 0, and add up to 1) the one with the least expected squared error is taken.

m rows   K neighbours   M remembered values   D width   G surfaces
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SURFACES = (  # how far values are alike, in squared distances to a near neighbour; their noise, in parts of how they vary
    (4.0, 1e-2),
    (16.0, 1e-3),
    (64.0, 1e-4),
    (16.0, 1e-1),
    (64.0, 1e-2),
)
MOST = 2.0  # sum of squared counts: how much of its neighbours' noise a surface may have, in that of one
PART = 256  # rows at once
TINY = 1e-12


def counts(square: Tensor, scale: Tensor, rows: Tensor, keys: Tensor, wanted: Tensor) -> Tensor:
    """(m, G, K) by squared distances (m, K), infinite where nothing is, and their scale (m, 1); rows (m, K) of keys (M, D).

    Nothing counts on surfaces that are not `wanted` (G,).
    """
    parts = zip(square.split(PART), scale.split(PART), rows.split(PART), strict=True)
    found = square.new_zeros(len(square), len(SURFACES), square.shape[1])
    settings = [one for one, own in zip(SURFACES, wanted.tolist(), strict=True) if own]
    if settings:
        several = [_counts(far, one, which, keys, settings) for far, one, which in parts]
        found[:, wanted] = torch.cat(several)
    return found


def _counts(
    square: Tensor, scale: Tensor, rows: Tensor, keys: Tensor, settings: Sequence[tuple[float, float]]
) -> Tensor:
    there = square.isfinite()
    between = _between(keys[rows].double()) / scale[:, :, None]
    between = between.masked_fill(~(there[:, :, None] & there[:, None]), torch.inf)
    own = torch.eye(square.shape[1], dtype=torch.float64, device=square.device)
    found = []
    for reach, noise in settings:
        alike = (-between / reach).exp() * (1 - own) + (1 + noise) * own  # (m, K, K)
        here = (-square / scale / reach).exp()
        both = torch.stack([here, there.double()], 2)
        toward, even = torch.cholesky_solve(both, torch.linalg.cholesky(alike)).unbind(2)  # (m, K)
        missing = 1 - toward.sum(1, keepdim=True)
        found.append(_tamed(toward + even * missing / even.sum(1, keepdim=True).clamp(min=TINY), there))
    return torch.stack(found, 1)


def _between(keys: Tensor) -> Tensor:
    """(m, K, D) -> (m, K, K) squared distances."""
    keys = keys - keys.mean(1, keepdim=True)
    lengths = keys.square().sum(2)
    return (lengths[:, :, None] + lengths[:, None] - 2 * keys @ keys.transpose(1, 2)).clamp(min=0)


def _tamed(counts: Tensor, there: Tensor) -> Tensor:
    """(m, K) counts with no more noise than may be: as near to all the same as it takes. 0 where nothing is."""
    even = there / there.sum(1, keepdim=True).clamp(min=1)
    off = (counts - even) * there
    room = MOST - even.square().sum(1, keepdim=True)
    return even + off * (room / off.square().sum(1, keepdim=True).clamp(min=TINY)).sqrt().clamp(max=1)
