"""The kind of numbers, from their range and distribution: whole numbers, skewed ones, labels, days, ids; and of quantities."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kbdisk.schemas.composites.coordinate import NAMES
from kbdisk.schemas.composites.quantity import NAMES as QUANTITY_KEYS
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.infer.decision import NOTHING_TO_LEARN, Decision, counted
from kbdisk.schemas.infer.statistics import ValueSketch
from kbdisk.schemas.kinds import MAX_EXACT, Category, Number
from kbdisk.schemas.text.numerals import MAX_DIGITS
from kbdisk.schemas.text.units import conversion, is_currency

MIN_VALUES = 20  # fewer values do not show whether all differ, or all are the same
MAX_DECIMALS = 6
SENTINELS = (-1, -99, -999, -9999)
FIRST_DAY, LAST_DAY = 1000_01_01, 2999_12_31  # as whole numbers
ID_NAME = re.compile(r"(?i:^(.*[_ .-])?(id|uuid|guid|key|rowid|idx)$)|.*[a-z](Id|ID|Key)$")


def number_decision(name: str, low: Any, high: Any, are_integers: bool, sketch: ValueSketch) -> Decision:
    """The decision on numbers with this range."""
    reason = f"{'whole numbers' if are_integers else 'numbers'} from {_shown_number(low)} to {_shown_number(high)}"
    reason = f"the number {_shown_number(low)} alone" if low == high else reason
    distinct, seen = sketch.distinct(), sketch.seen
    leaf = _in_degrees(name, number_leaf(low, are_integers, sketch), low, high)
    if sketch.exact and distinct == 1 and seen >= MIN_VALUES:
        return Decision(
            leaf, f"{_shown_number(low)} in all {counted(seen, 'value')}{NOTHING_TO_LEARN}", "ignore", is_constant=True
        )
    if are_integers and sketch.exact and distinct == 2 and seen >= MIN_VALUES and high - low <= 2:
        values = tuple(sorted(int(value) for value in sketch.counts))
        return Decision(Category(values, closed=True), f"only {values[0]} and {values[1]} in {counted(seen, 'value')}")
    if are_integers and ID_NAME.fullmatch(name) and all_differ(sketch):
        return Decision(leaf, f"{reason}; all differ, and it is called {name}: an id", "ignore", unique=sketch.exact)
    if are_integers and ID_NAME.fullmatch(name) and seen >= MIN_VALUES:
        return Decision(
            Category(),
            f"{reason}, {counted(distinct, 'different one')}; it is called {name}: an id, not an amount",
        )
    if are_integers and (days := days_decision(leaf, low, high, sketch)):
        return days
    if are_integers and low >= 1000 and high <= 2100 and distinct > 2:
        reason += ", such as years"
    if leaf.decimals is not None and not are_integers:
        reason += f", {counted(leaf.decimals, 'decimal')} at most"
    return Decision(
        leaf, reason + (", most of them small: learnt by their logarithm" if leaf.transform == "log" else "")
    )


def days_decision(leaf: Number, low: Any, high: Any, sketch: ValueSketch) -> Decision | None:
    """The decision on days as whole numbers, such as 20121102: an input, but not predicted, as not every number is a day."""
    if sketch.seen < MIN_VALUES or not (low >= FIRST_DAY and high <= LAST_DAY and all(map(_is_day, sketch.counts))):
        return None
    return Decision(leaf, f"days as whole numbers, such as {_shown_number(low)}: an input alone", "given")


def _is_day(value: Any) -> bool:
    try:
        datetime.date(int(value) // 10000, int(value) // 100 % 100, int(value) % 100)
    except (ValueError, OverflowError):
        return False
    return True


def number_leaf(low: Any, are_integers: bool, sketch: ValueSketch) -> Number:
    """The leaf of numbers with this range; 0 is the minimum where none is negative."""
    values = [value for value, _ in sketch.weighted()]
    skewed = low is not None and low > 0 and _skewed(values)
    return Number(
        integer=are_integers,
        minimum=0 if low is not None and low >= 0 else None,
        transform="log" if skewed else "auto",
        decimals=None if are_integers else _decimals(values),
    )


def _in_degrees(name: str, leaf: Number, low: Any, high: Any) -> Number:
    """The leaf with bounds of -90 and 90 or -180 and 360 if the name is that of a latitude or longitude."""
    bounds = {"latitude": (-90, 90), "longitude": (-180, 360)}.get(NAMES.get(name.lower(), ""))
    if bounds is None or low < bounds[0] or high > bounds[1]:
        return leaf
    return replace(leaf, minimum=bounds[0], maximum=bounds[1], transform="auto")


def all_differ(sketch: ValueSketch) -> bool:
    """Whether all values differ; where their number is an estimate, whether nearly all do."""
    if sketch.exact:
        return sketch.seen >= MIN_VALUES and sketch.distinct() == sketch.seen
    return sketch.distinct() >= 0.85 * sketch.seen and not _repeated(sketch)


def _repeated(sketch: ValueSketch) -> bool:
    return any(count > 1 for _, count in sketch.counts.most_common(1))


def sentinel(low: Any, high: Any, sketch: ValueSketch) -> str | None:
    """The only negative number, as a text, where it is a usual spelling of a gap (-1, -999) among much larger numbers."""
    if low not in SENTINELS or not sketch.exact or sketch.seen < MIN_VALUES or high < (1000 if low == -1 else -low):
        return None
    below = [value for value, _ in sketch.weighted() if value < 0]
    is_sentinel = set(below) == {low} and sketch.distinct() > MIN_VALUES // 2 and sketch.counts[low] < sketch.seen / 2
    return str(int(low)) if is_sentinel else None


def _decimals(sample: Iterable[Any]) -> int | None:
    decimals = 0
    for value in sample:
        if not isinstance(value, int):
            exponent = Decimal(repr(value) if isinstance(value, float) else value).as_tuple().exponent
            decimals = max(decimals, -int(exponent))
            if not -MAX_EXACT < value < MAX_EXACT:
                return None
        if decimals > MAX_DECIMALS:
            return None
    return decimals


def _skewed(sample: Iterable[Any]) -> bool:
    """Whether positive numbers span orders of magnitude, and their logarithms are less skewed."""
    try:
        values = sorted(float(value) for value in sample)
    except OverflowError:
        return False
    if len(values) < MIN_VALUES or values[0] <= 0 or not math.isfinite(values[-1]):
        return False
    low, middle, high = (values[int(place * (len(values) - 1))] for place in (0.05, 0.5, 0.95))
    if high < 20 * low or middle == low or high == middle:
        return False
    skew = math.log((high - middle) / (middle - low))
    log_skew = math.log(math.log(high / middle) / math.log(middle / low))
    return skew > 1.5 and abs(log_skew) < abs(skew) / 2


def _shown_number(value: Any) -> str:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e15):
        integer = int(value)
        return str(integer) if integer.bit_length() < 100 else "a number of very many digits"
    if isinstance(value, Decimal) and abs(value.adjusted()) > MAX_DIGITS:
        return str(value)  # formatting rounds, and fails for an exponent beyond 999,999
    return f"{value:.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"


# ---------------------------------------------------------------- quantities


def quantity_in(
    units: Counter[str], number: Number, bare: bool, names: tuple[str, str] = QUANTITY_KEYS, comma: bool = False
) -> Quantity:
    """The quantity whose main unit is the most frequent one; it has no main unit if some amounts are `bare`, without a unit.

    Factors to the most frequent unit are those of the table of common units. The factor of an unknown unit, or of one with
    an offset, is None.
    """
    ordered = [unit for unit, _ in units.most_common()]
    if not ordered:
        return Quantity(value=number, comma=comma, names=names)
    main, *others = ordered
    factors = {unit: factor_of(unit, main) for unit in others}
    if not bare:
        return Quantity(main, factors, number, comma=comma, names=names)
    factors = {main: 1.0, **factors} if any(factors.values()) else dict.fromkeys(ordered)
    return Quantity(None, factors, number, comma=comma, names=names)


def factor_of(unit: str, main: str) -> float | None:
    """The factor of a unit to the main one; None where it is unknown, or where the conversion has an offset."""
    known = conversion(unit, main)
    return None if known is None or known.offset else known.factor


def unit_remark(factors: Mapping[str, float | None], main: str | None) -> str:
    """The words for units whose factors are unknown."""
    unknown = [
        unit for unit, factor in factors.items() if factor is None and (main is None or not conversion(unit, main))
    ]
    if not unknown or (main is None and len(factors) == 1):
        return ""
    money = all(map(is_currency, unknown))
    return (
        ", which training compares by their amounts"
        if money
        else f"; what {', '.join(unknown)} are is left to training"
    )
