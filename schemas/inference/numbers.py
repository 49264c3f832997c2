"""What numbers are: whole or not, never negative, skewed, truths in disguise, or ids."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kbdisk.schemas.composites.coordinate import NAMES
from kbdisk.schemas.inference.decision import NOTHING_TO_LEARN, Decision, counted
from kbdisk.schemas.inference.sketch import Labels
from kbdisk.schemas.kinds import MAX_EXACT, Category, Number
from kbdisk.schemas.text.numerals import MAX_DIGITS

ENOUGH = 20  # values before one says that all differ, or that there is but one
MOST_DECIMALS = 6
SENTINELS = (-1, -99, -999, -9999)
FIRST_DAY, LAST_DAY = 1000_01_01, 2999_12_31  # as whole numbers
ID_NAME = re.compile(r"(?i:^(.*[_ .-])?(id|uuid|guid|key|rowid|idx)$)|.*[a-z](Id|ID|Key)$")


def number_decision(name: str, low: Any, high: Any, whole: bool, labels: Labels) -> Decision:
    """The kind of numbers with this range."""
    reason = f"{'whole numbers' if whole else 'numbers'} from {_plain(low)} to {_plain(high)}"
    reason = f"the number {_plain(low)} alone" if low == high else reason
    distinct, seen = labels.distinct(), labels.seen
    leaf = _in_degrees(name, number_leaf(low, whole, labels), low, high)
    if labels.exact and distinct == 1 and seen >= ENOUGH:
        return Decision(
            leaf, f"{_plain(low)} in all {counted(seen, 'value')}{NOTHING_TO_LEARN}", "ignore", is_constant=True
        )
    if whole and labels.exact and distinct == 2 and seen >= ENOUGH and high - low <= 2:
        values = tuple(sorted(int(one) for one in labels.counts))
        return Decision(Category(values, closed=True), f"only {values[0]} and {values[1]} in {counted(seen, 'value')}")
    if whole and ID_NAME.fullmatch(name) and all_differ(labels):
        return Decision(leaf, f"{reason}; all differ, and it is called {name}: an id", "ignore", unique=labels.exact)
    if whole and ID_NAME.fullmatch(name) and seen >= ENOUGH:
        return Decision(
            Category(),
            f"{reason}, {counted(distinct, 'different one')}; it is called {name}: what it names is no amount",
        )
    if whole and (days := days_decision(leaf, low, high, labels)):
        return days
    if whole and low >= 1000 and high <= 2100 and distinct > 2:
        reason += ", such as years"
    if leaf.decimals is not None and not whole:
        reason += f", {counted(leaf.decimals, 'decimal')} at most"
    return Decision(
        leaf, reason + (", most of them small: learnt by their logarithm" if leaf.transform == "log" else "")
    )


def days_decision(leaf: Number, low: Any, high: Any, labels: Labels) -> Decision | None:
    """Days that are written as whole numbers, such as 20121102: they can be looked at, but what lies between two may be none."""
    if labels.seen < ENOUGH or not (low >= FIRST_DAY and high <= LAST_DAY and all(map(_is_day, labels.counts))):
        return None
    return Decision(leaf, f"days as whole numbers, such as {_plain(low)}: evidence alone", "given")


def _is_day(value: Any) -> bool:
    try:
        datetime.date(int(value) // 10000, int(value) // 100 % 100, int(value) % 100)
    except (ValueError, OverflowError):
        return False
    return True


def number_leaf(low: Any, whole: bool, labels: Labels) -> Number:
    """Numbers with this range: 0 is the least where none is negative."""
    sample = [value for value, _ in labels.weighted()]
    skewed = low is not None and low > 0 and _skewed(sample)
    return Number(
        integer=whole,
        minimum=0 if low is not None and low >= 0 else None,
        transform="log" if skewed else "auto",
        decimals=None if whole else _decimals(sample),
    )


def _in_degrees(name: str, leaf: Number, low: Any, high: Any) -> Number:
    """Degrees of latitude and longitude may be negative, even where none is so far."""
    bounds = {"latitude": (-90, 90), "longitude": (-180, 360)}.get(NAMES.get(name.lower(), ""))
    if bounds is None or low < bounds[0] or high > bounds[1]:
        return leaf
    return replace(leaf, minimum=bounds[0], maximum=bounds[1], transform="auto")


def all_differ(labels: Labels) -> bool:
    """Whether no value comes twice; where it is estimated, hardly any."""
    if labels.exact:
        return labels.seen >= ENOUGH and labels.distinct() == labels.seen
    return labels.distinct() >= 0.85 * labels.seen and not _repeated(labels)


def _repeated(labels: Labels) -> bool:
    return any(count > 1 for _, count in labels.counts.most_common(1))


def sentinel(low: Any, high: Any, labels: Labels) -> str | None:
    """The one negative number among others that are none, where it is one by which people say that there is no value."""
    if low not in SENTINELS or not labels.exact or labels.seen < ENOUGH or high < (1000 if low == -1 else -low):
        return None
    below = [value for value, _ in labels.weighted() if value < 0]
    alone = set(below) == {low} and labels.distinct() > ENOUGH // 2 and labels.counts[low] < labels.seen / 2
    return str(int(low)) if alone else None


def _decimals(sample: Iterable[Any]) -> int | None:
    most = 0
    for value in sample:
        if not isinstance(value, int):
            exponent = Decimal(repr(value) if isinstance(value, float) else value).as_tuple().exponent
            most = max(most, -int(exponent))
            if not -MAX_EXACT < value < MAX_EXACT:
                return None
        if most > MOST_DECIMALS:
            return None
    return most


def _skewed(sample: Iterable[Any]) -> bool:
    """Whether positive numbers span orders of magnitude, and lie evener by their logarithm."""
    try:
        values = sorted(float(value) for value in sample)
    except OverflowError:
        return False
    if len(values) < ENOUGH or values[0] <= 0 or not math.isfinite(values[-1]):
        return False
    low, middle, high = (values[int(place * (len(values) - 1))] for place in (0.05, 0.5, 0.95))
    if high < 20 * low or middle == low or high == middle:
        return False
    bent = math.log((high - middle) / (middle - low))
    straight = math.log(math.log(high / middle) / math.log(middle / low))
    return bent > 1.5 and abs(straight) < abs(bent) / 2


def _plain(value: Any) -> str:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e15):
        whole = int(value)
        return str(whole) if whole.bit_length() < 100 else "a number of very many digits"
    if isinstance(value, Decimal) and abs(value.adjusted()) > MAX_DIGITS:
        return str(value)  # formatting rounds, and fails for an exponent beyond 999,999
    return f"{value:.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
