"""The bins of a binned density, in code: edges at quantiles of the training values, half-way between neighbours."""

from __future__ import annotations

import numpy as np

from kbdisk.leaves.number.maps import CLOSE, CodeMap, Floats

FINE = 1e-6  # of an edge: what a float32 tells apart, and some


def bins_of(map: CodeMap, values: Floats, step: float, most: int) -> tuple[list[float], list[float]]:
    """Edges (B + 1,) in code, to float32, and the share of the values that each bin has (B,). `values` ascending."""
    x, counts = np.unique(values, return_counts=True)
    below = counts.cumsum() / len(values)  # (J,) share up to each distinct value
    chosen = np.unique(np.searchsorted(below, np.arange(1, most) / most).clip(0, max(len(x) - 2, 0)))[: len(x) - 1]
    middles = x[chosen] / 2 + x[chosen + 1] / 2 if len(x) > 1 else x[:0]
    ends = [[x[0] - step / 2], [x[-1] + step / 2]]
    edges = map.forward(np.concatenate([ends[0], middles, ends[1]])).astype(np.float32).astype(np.float64)
    if edges[-1] - edges[0] < 2 * CLOSE:  # a single value, whose step is narrow
        return [float(np.float32(edges[0] - CLOSE)), float(np.float32(edges[-1] + CLOSE))], [1.0]
    kept = [0]
    for place in range(1, len(edges)):
        if edges[place] - edges[kept[-1]] > CLOSE / 10 + abs(edges[place]) * FINE:
            kept.append(place)
    shares = np.diff([0.0, *below[chosen], 1.0])
    return edges[kept].tolist(), np.add.reduceat(shares, kept[:-1]).tolist()
