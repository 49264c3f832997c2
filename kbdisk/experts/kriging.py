"""A surface through the values of neighbours: what each of them counts at a place among them.

Between neighbours a number rises and falls as they do: a nucleus with one neutron more than those around it is not what
they have on average. This is kriging: values are alike as a Gaussian of their distance, each has some noise to itself,
and of all means of them (counts may be below 0, and add up to 1) the one with the least expected squared error is taken.

m rows   K neighbours   M remembered values   D width   G surfaces
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SURFACES = (  # how far values are alike, in squared distances to a near one; their noise, in parts of how they vary
    (4.0, 1e-2),
    (16.0, 1e-3),
    (64.0, 1e-4),
    (16.0, 1e-1),
    (64.0, 1e-2),
)
MOST = 2.0  # sum of squared counts: how much of its neighbours' noise a surface may have, in that of one
ROOM = 1 << 21  # distances between neighbours at once
TINY = 1e-12


def counts(at: Tensor, keys: Tensor, rows: Tensor, there: Tensor, scale: Tensor, wanted: Tensor) -> Tensor:
    """(m, G, K) at places (m, D), of neighbours that are rows (m, K) of keys (M, D); 0 where none is there (m, K).

    Lengths are in parts of a scale (m, 1), squared. Nothing counts on surfaces that are not `wanted` (G,).
    """
    found = scale.new_zeros(len(rows), len(SURFACES), rows.shape[1])
    settings = [one for one, own in zip(SURFACES, wanted.tolist(), strict=True) if own]
    if not settings:
        return found
    neighbours, width = rows.shape[1], keys.shape[1]
    part_of = max(ROOM // (neighbours * max(neighbours, width)), 1)  # rows at once
    for part in torch.arange(len(rows), device=rows.device).split(part_of):
        some = _counts(at[part], keys[rows[part]], there[part], scale[part], settings)
        found[part[:, None], wanted.nonzero()[:, 0]] = some
    return found


def _counts(at: Tensor, keys: Tensor, there: Tensor, scale: Tensor, settings: Sequence[tuple[float, float]]) -> Tensor:
    points = torch.cat([keys.masked_fill(~there[:, :, None], 0), at[:, None]], 1).double()  # (m, K + 1, D)
    lengths = _between(points) / scale[:, :, None]
    between = lengths[:, :-1, :-1].masked_fill(~(there[:, :, None] & there[:, None]), torch.inf)
    toward = lengths[:, -1, :-1].masked_fill(~there, torch.inf)  # (m, K)
    own = torch.eye(keys.shape[1], dtype=torch.float64, device=keys.device)
    found = []
    for reach, noise in settings:
        alike = (-between / reach).exp() * (1 - own) + (1 + noise) * own  # (m, K, K)
        both = torch.stack([(-toward / reach).exp(), there.double()], 2)
        near, even = torch.cholesky_solve(both, torch.linalg.cholesky(alike)).unbind(2)  # (m, K)
        missing = 1 - near.sum(1, keepdim=True)
        found.append(_tamed(near + even * missing / even.sum(1, keepdim=True).clamp(min=TINY), there))
    return torch.stack(found, 1)


def _between(points: Tensor) -> Tensor:
    """(m, P, D) -> (m, P, P) squared distances."""
    points = points - points.mean(1, keepdim=True)
    lengths = points.square().sum(2)
    return (lengths[:, :, None] + lengths[:, None] - 2 * points @ points.transpose(1, 2)).clamp(min=0)


def _tamed(counts: Tensor, there: Tensor) -> Tensor:
    """(m, K) counts with no more noise than may be: as near to all the same as it takes. 0 where nothing is."""
    even = there / there.sum(1, keepdim=True).clamp(min=1)
    off = (counts - even) * there
    room = MOST - even.square().sum(1, keepdim=True)
    return even + off * (room / off.square().sum(1, keepdim=True).clamp(min=TINY)).sqrt().clamp(max=1)
