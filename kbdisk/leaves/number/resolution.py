"""How fine a property is: the decimals its values are written with, and the bounds on that grid.

One step of the resolution is 10 ** -decimals. Values are written with as many decimals as nearly all of them have;
noise of floating point (0.30000000000000004) is none, and few values of full precision are left out. Where many have
full precision, decimals mean nothing: the step is a millionth of the middle half's spread. Where values span more orders
of magnitude than a float has digits, it is a millionth of the small ones: a step of the large ones would be all others.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import numpy as np

from kbdisk.leaves.number.maps import Floats
from kbdisk.schemas.kinds import Number

DIGITS = 14  # what a float has beyond these is noise
FULL = 12  # who needs so many digits was not written by hand
SOME = 0.1  # so many of full precision are not a few any more
NEARLY = 0.99  # all but the oddest
FINEST = 290  # decimals: floats end there
LOOK = 20_000  # values looked at


def decimals_of(leaf: Number, values: Floats, whole: bool) -> int:
    """How many decimals a property's values have; below 0 where even whole numbers are too fine for a float."""
    if leaf.decimals is not None:
        return leaf.decimals
    if len(values) == 0:
        return 0 if whole else 2
    size = float(np.quantile(np.abs(values), NEARLY, method="lower"))
    if (small := _small(values)) < size * 10.0**-DIGITS:
        return min(0 if whole else FINEST, 6 - math.floor(math.log10(small)))
    coarsest = 15 - math.ceil(math.log10(size)) if size > 1e-275 else FINEST  # of a float's digits at that size
    seen = 0 if whole else _seen(values)
    return min(seen, coarsest, FINEST)


def _small(values: Floats) -> float:
    """The size that a tenth of the values is below, zeros aside; infinite where all are zeros."""
    sizes = np.abs(values[values != 0])
    return float(np.quantile(sizes, 0.1, method="lower")) if len(sizes) else math.inf


def _seen(values: Floats) -> int:
    looked = values[:: 1 + len(values) // LOOK]
    written = [_written(value) for value in looked.tolist()]
    plain = Counter(decimals for decimals, digits in written if digits < FULL)
    if plain.total() < (1 - SOME) * len(written):
        quarter, three = np.quantile(values, [0.25, 0.75])
        spread = float(three - quarter) or float(values.max() - values.min())
        return 6 - math.floor(math.log10(spread)) if spread > 1e-275 else max(decimals for decimals, _ in written)
    decimals, covered = 0, 0
    for decimals in sorted(plain):
        covered += plain[decimals]
        if covered >= NEARLY * plain.total():
            break
    return max(decimals, 0)


def _written(value: float) -> tuple[int, int]:
    """How many decimals, and how many digits in all."""
    mantissa, exponent = f"{value:.{DIGITS - 1}e}".split("e")
    digits = len(mantissa.replace("-", "").replace(".", "").rstrip("0"))
    return (digits - 1 - int(exponent) if digits else 0), digits


def bounds_of(leaf: Number, decimals: int) -> tuple[float, float]:
    """The least and the greatest value that may be written: on the grid where a step of it lies within."""
    low, high = _inward(leaf.minimum, leaf.above, decimals, 1), _inward(leaf.maximum, leaf.below, decimals, -1)
    if low > high:  # no step of the grid lies within
        ends = [end for end in (leaf.minimum, leaf.maximum) if end is not None]
        low = high = float(ends[0]) if ends else (float(leaf.above or 0) + float(leaf.below or 0)) / 2
    return low, high


def _inward(reached: float | None, passed: float | None, decimals: int, way: int) -> float:
    """The first step of the grid at a bound or beyond it, going in."""
    ends = [way * math.inf * -1]
    with localcontext(prec=1000):
        step = Decimal(1).scaleb(-decimals)
        for bound, strict in ((reached, False), (passed, True)):
            if bound is None:
                continue
            exact = Decimal(str(bound))
            end = exact.quantize(step, ROUND_CEILING if way > 0 else ROUND_FLOOR)
            ends.append(float(end + way * step if strict and end == exact else end))
    return max(ends) if way > 0 else min(ends)
