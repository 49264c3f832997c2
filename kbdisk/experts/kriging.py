"""Kriging: weights of neighbours for the value at a point among them.

Between neighbours a number rises and falls as they do: a nucleus with one neutron more than those around it is not their
mean. The covariance of two values is a Gaussian of their distance, and each has some noise. Of all weights that sum to 1
(some may be below 0), ordinary kriging takes those with the least expected squared error.

m rows   K neighbours   M known values   D width   G settings
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

SETTINGS = (  # (reach of the covariance, in squared distances to a near neighbour; variance of the noise)
    (4.0, 1e-2),
    (16.0, 1e-3),
    (64.0, 1e-4),
    (16.0, 1e-1),
    (64.0, 1e-2),
)
MAX_SQUARED_WEIGHTS = 2.0  # their sum: the variance of the noise that a prediction takes from its neighbours
MAX_DISTANCES = 1 << 21  # between neighbours, computed at once
EPSILON = 1e-12


def weights(
    at: Tensor,
    keys: Tensor,
    rows: Tensor,
    exists: Tensor,
    scale: Tensor,
    wanted: Tensor,
    visible: Tensor | None = None,
) -> Tensor:
    """(m, G, K) at points (m, D), of neighbours that are rows (m, K) of keys (M, D); 0 where none exists (m, K).

    Squared distances are in parts of a scale (m, 1); where a query has dimensions that are not `visible` (m, D), in the others
    alone. Settings that are not `wanted` (G,) have weights of 0.
    """
    result = scale.new_zeros(len(rows), len(SETTINGS), rows.shape[1])
    settings = [setting for setting, is_wanted in zip(SETTINGS, wanted.tolist(), strict=True) if is_wanted]
    if not settings:
        return result
    if visible is not None:
        columns = visible.any(0)
        at, keys, visible = at[:, columns], keys[:, columns], visible[:, columns]
    at, keys = at.double(), keys.double()
    neighbours, width = rows.shape[1], keys.shape[1]
    chunk = max(MAX_DISTANCES // (neighbours * max(neighbours, width)), 1)
    for part in torch.arange(len(rows), device=rows.device).split(chunk):
        points = keys[rows[part]].sub_(at[part, None])  # (m, K, D) from the query, where distances are to be exact
        if visible is not None:
            points.mul_(visible[part, None].double())
        between, to_query = (lengths / scale[part, :, None] for lengths in _squared_distances(points))
        some = _weights(between, to_query[:, :, 0], exists[part], settings)
        result[part[:, None], wanted.nonzero()[:, 0]] = some
    return result


def _weights(between: Tensor, to_query: Tensor, exists: Tensor, settings: Sequence[tuple[float, float]]) -> Tensor:
    """(m, G, K) by the distances between neighbours (m, K, K) and to the query (m, K)."""
    between = between.masked_fill(~(exists[:, :, None] & exists[:, None]), torch.inf)
    to_query = to_query.masked_fill(~exists, torch.inf)
    identity = torch.eye(between.shape[1], dtype=torch.float64, device=between.device)
    of_settings = []
    for reach, noise in settings:
        covariance = (-between / reach).exp() * (1 - identity) + (1 + noise) * identity  # (m, K, K)
        right = torch.stack([(-to_query / reach).exp(), exists.double()], 2)
        simple, ones = torch.cholesky_solve(right, torch.linalg.cholesky(covariance)).unbind(2)  # (m, K)
        missing = 1 - simple.sum(1, keepdim=True)
        unbiased = simple + ones * missing / ones.sum(1, keepdim=True).clamp(min=EPSILON)
        of_settings.append(_limited(unbiased, exists))
    return torch.stack(of_settings, 1)


def _squared_distances(points: Tensor) -> tuple[Tensor, Tensor]:
    """Points (m, K, D) around the origin -> (m, K, K) between them, and (m, K, 1) to the origin."""
    products = points @ points.transpose(1, 2)
    squares = products.diagonal(dim1=1, dim2=2)[:, :, None]
    return (squares + squares.transpose(1, 2) - 2 * products).clamp(min=0), squares


def _limited(weights: Tensor, exists: Tensor) -> Tensor:
    """(m, K) weights moved towards equal ones until their squares sum to MAX_SQUARED_WEIGHTS at most; 0 where none exists."""
    equal = exists / exists.sum(1, keepdim=True).clamp(min=1)
    difference = (weights - equal) * exists
    room = MAX_SQUARED_WEIGHTS - equal.square().sum(1, keepdim=True)
    return equal + difference * (room / difference.square().sum(1, keepdim=True).clamp(min=EPSILON)).sqrt().clamp(max=1)
