"""Screening of features: which explain a property at all, by the share of its variance that each explains by itself.

Each feature is cut into at most `BINS` bins with about as many rows, and one more for missing values. Its gain is the
variance between bins, less what as many bins explain by chance (Fisher's one-way analysis of variance).

n rows   F features   K targets
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BINS = 16
FEWEST_COLUMNS = 24  # that are kept, however much they cost
MAX_ROWS = 4096  # that gains are measured on
COLUMNS_AT_ONCE = 256  # that are sorted
MIN_GAIN = 1e-9  # a smaller one is rounding


def varying(x: Tensor) -> Tensor:
    """(F,) whether a feature (n, F) has several values; to be unknown is one of them."""
    known = x.nan_to_num(torch.inf)
    return (known != known[:1]).any(0)


def best_columns(
    x: Tensor, targets: Tensor, most: int, costs: Tensor | None = None, affordable: float = math.inf
) -> Tensor:
    """(f,) ascending, the features (n, F) with the greatest gain for targets (n, K), and with any at all; f <= most.

    Their `costs` (F,) add up to no more than `affordable`, but the best `FEWEST_COLUMNS` are kept in any case.
    """
    costs = x.new_zeros(x.shape[1]) if costs is None else costs
    if x.shape[1] <= most and (x.shape[1] <= FEWEST_COLUMNS or float(costs.sum()) <= affordable):
        return torch.arange(x.shape[1], device=x.device)
    step = max(len(x) // MAX_ROWS, 1)
    gain = gains(x[::step], targets[::step])
    order = gain.argsort(descending=True, stable=True)[:most]
    is_affordable = costs[order].cumsum(0) <= affordable
    is_affordable[:FEWEST_COLUMNS] = True
    kept = order[is_affordable & (gain[order] > MIN_GAIN)]
    return (kept if len(kept) else order[:1]).sort().values


def gains(x: Tensor, targets: Tensor) -> Tensor:
    """(F,) the share of the variance of targets (n, K) that each column (n, F) explains by itself, beyond chance."""
    y = (targets - targets.mean(0)).double()
    variation = y.square().sum().clamp(min=torch.finfo(torch.float64).tiny)
    is_flag = (x.isnan() | (x == 0) | (x == 1)).all(0)
    between, groups = (torch.zeros(x.shape[1], dtype=torch.float64, device=x.device) for _ in range(2))
    for columns, between_groups in ((is_flag, _between_flags), (~is_flag, _between_bins)):
        if bool(columns.any()):
            between[columns], groups[columns] = between_groups(x[:, columns], y)
    return between / variation - (groups - 1) / max(len(x) - 1, 1)


def _between_flags(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(F,) the variation of y (n, K) between rows of 1, of 0, and where nothing is known, and how many of these there are."""
    known = ~x.isnan()
    ones = (x == 1).double().T  # (F, n)
    every = known.double().T
    count, sums = torch.stack([ones.sum(1), every.sum(1)]), torch.stack([ones @ y, every @ y])
    counts = torch.stack([count[0], count[1] - count[0], len(x) - count[1]])  # (3, F)
    parts = torch.stack([sums[0], sums[1] - sums[0], y.sum(0) - sums[1]])  # (3, F, K)
    return (parts.square().sum(2) / counts.clamp(min=1)).sum(0), (counts > 0).sum(0).double()


def _between_bins(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The same of rows whose values are in one bin."""
    bins = binned(x)  # (n, F)
    counts = torch.zeros(BINS + 1, x.shape[1], dtype=torch.float64, device=x.device)
    counts.scatter_add_(0, bins, torch.ones_like(bins, dtype=torch.float64))
    between = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device)
    for target in y.unbind(1):
        sums = torch.zeros_like(counts).scatter_add_(0, bins, target[:, None].expand(-1, x.shape[1]).contiguous())
        between += (sums.square() / counts.clamp(min=1)).sum(0)
    return between, (counts > 0).sum(0).double()


def binned(x: Tensor) -> Tensor:
    """(n, F) the bin of each value; the last bin is for unknown values. Up to `BINS` distinct values have a bin each."""
    return torch.cat([_binned(columns) for columns in x.split(COLUMNS_AT_ONCE, 1)], 1)


def _binned(x: Tensor) -> Tensor:
    """(n, F) the bin of each value, by sorting all columns at once."""
    values, order = x.double().where(x.isfinite(), torch.nan).sort(0)  # unknown values come last
    known = ~values.isnan()
    distinct = torch.zeros_like(order)  # the number of smaller distinct values
    distinct[1:] = ((values[1:] != values[:-1]) & known[1:]).cumsum(0)
    are_few = distinct.max(0).values < BINS
    place = (known.sum(0) - 1).clamp(min=0) * _levels(x)  # (BINS - 1, F)
    low, high = (values.gather(0, at.long()) for at in (place.floor(), place.ceil()))
    edges = low + (high - low) * place.frac()
    is_new = torch.ones_like(edges, dtype=torch.bool)
    is_new[1:] = edges[1:] != edges[:-1]
    bins = torch.zeros_like(order)
    for edge, counts in zip(edges, is_new, strict=True):
        bins += (values >= edge) & counts
    bins = torch.where(are_few, distinct, bins).where(known, BINS)
    return torch.zeros_like(order).scatter_(0, order, bins)


def _levels(x: Tensor) -> Tensor:
    """(BINS - 1, 1) the shares of the values below each edge between bins."""
    return torch.linspace(0, 1, BINS + 1, dtype=torch.float64, device=x.device)[1:-1, None]
