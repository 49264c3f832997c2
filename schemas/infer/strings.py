"""The kind of strings: dates, numbers, quantities, coordinates, web addresses, ids, labels, or text.

Each detector returns a decision, or None, perhaps after it added a remark to the reason. The first decision counts. The last
detector, which decides between labels and text, always has one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kbdisk.plugins import load_part
from kbdisk.schemas.composites import kind_rows
from kbdisk.schemas.composites.coordinate import PAIR, Coordinate
from kbdisk.schemas.composites.date import NUMERIC_DATE, Date
from kbdisk.schemas.composites.quantity import SWAP_POINT_AND_COMMA, Quantity
from kbdisk.schemas.infer.decision import (
    MIN_DATE_SHARE,
    MIN_FIT_SHARE,
    NOTHING_TO_LEARN,
    Decision,
    counted,
    percent,
    shown,
    times,
)
from kbdisk.schemas.infer.numbers import (
    ID_NAME,
    MIN_VALUES,
    all_differ,
    days_decision,
    number_leaf,
    quantity_in,
    unit_remark,
)
from kbdisk.schemas.infer.statistics import MAX_TEXT_LENGTH, Budget, ValueSketch
from kbdisk.schemas.kinds import Category, Number, Text
from kbdisk.schemas.property import GAP_SPELLINGS
from kbdisk.schemas.text.numerals import Measure, is_whole, measure, number

PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
GROUPED = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[-+]?0,\d+", re.ASCII)  # no comma parts thousands there
ZERO_FILLED = re.compile(r"0\d+", re.ASCII)
AMOUNT = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?", re.ASCII)
UNIT = re.compile(r"[^\W\d_][^\d]{0,14}[23]?|[%°‰$€£¥₹₽₩₺'\"]|°[CF]")
ISO = re.compile(r"[-+]?\d{4,}-(?:\d\d|XX).*", re.ASCII)
NO_DATE = re.compile(r"0000(?:-00){0,2}", re.ASCII)
WEB = re.compile(r"(?:https?|ftp)://\S+")
PLACE_NAME = re.compile(r"lat|geo|coord|loc|pos|point|gps|place", re.IGNORECASE)
ORDERS = {"dmy": "day, month, year", "mdy": "month, day, year", "ymd": "year, month, day"}
MAX_UNITS = 20
MAX_NUMERAL_LABELS = 12


@dataclass
class Strings:
    """The strings at one path, without the spellings of gaps."""

    name: str
    sketch: ValueSketch
    texts: list[tuple[str, int]]
    seen: int
    distinct: int
    remarks: list[str] = field(default_factory=list)

    def share(self, fits: Callable[[str], Any]) -> float:
        """The share of values for which a test holds."""
        total = sum(count for _, count in self.texts)
        return sum(count for text, count in self.texts if fits(text)) / total

    @property
    def all_differ(self) -> bool:
        """Whether all strings differ; where their number is an estimate, whether nearly all do."""
        return self.seen >= MIN_VALUES and self.distinct == self.seen if self.sketch.exact else all_differ(self.sketch)

    def with_commas(self) -> Strings:
        """The strings with commas for points, and points for commas."""
        return replace(self, texts=[(text.translate(SWAP_POINT_AND_COMMA), count) for text, count in self.texts])

    def first(self, fits: Callable[[str], Any] = bool) -> str:
        """The first string for which a test holds; empty where there is none."""
        return next((text for text, _ in self.texts if fits(text)), "")


def string_decision(name: str, sketch: ValueSketch, gaps: bool) -> Decision:
    """The decision on the strings at a path with this last key; `gaps`: whether the usual spellings of a gap are gaps."""
    missing = tuple(sorted(text for text in sketch.counts if text.strip() in GAP_SPELLINGS)) if gaps else ()
    texts = [(text, count) for text, count in sketch.weighted() if text not in missing]
    if not texts:
        return Decision(None, f"nothing but {', '.join(map(repr, missing))}", missing=missing)
    gap_count = sum(sketch.counts[text] for text in missing)
    strings = Strings(name, sketch, texts, sketch.seen - gap_count, sketch.distinct() - len(missing))
    if missing:
        strings.remarks.append(f"{', '.join(map(repr, missing))} stands for no value {times(gap_count)}")
    decisions = (look(strings) for look in DETECTORS)
    decision = next(decision_ for decision_ in decisions if decision_ is not None)
    return replace(decision.because(*strings.remarks), missing=missing, gaps=gap_count)


def _registered(strings: Strings) -> Decision | None:
    """The kind whose row recognises its texts, the latest row first."""
    for name, row in reversed(kind_rows().items()):
        kind = None if row.of_texts is None else load_part(row.of_texts)([text for text, _ in strings.texts])
        if kind is not None:
            return Decision(kind, f"{name} such as {shown(strings.first())}")
    return None


def _constant(strings: Strings) -> Decision | None:
    if strings.distinct > 1 or strings.seen < MIN_VALUES:
        return None
    only = strings.texts[0][0]
    return Decision(
        Category(),
        f"{shown(only)} in all {counted(strings.seen, 'value')}{NOTHING_TO_LEARN}",
        "ignore",
        is_constant=True,
    )


def _iso_dates(strings: Strings) -> Decision | None:
    dated = [(text, count) for text, count in strings.texts if not NO_DATE.fullmatch(text)]
    if not dated or sum(count for text, count in dated if ISO.fullmatch(text)) < 0.5 * sum(count for _, count in dated):
        return None
    dates = [(_iso(text), count) for text, count in dated]
    share = sum(count for date, count in dates if date) / sum(count for _, count in dates)
    if share < MIN_DATE_SHARE:
        return None
    novalue = tuple(sorted({text for text, _ in strings.texts if NO_DATE.fullmatch(text)}))
    parts = tuple(
        part for part in ("year", "month", "day") if any(getattr(date, part) is not None for date, _ in dates if date)
    )
    reason = f"dates such as {dated[0][0]}" + (f"; {', '.join(novalue)} says that there is none" if novalue else "")
    return Decision(Date(parts=parts), reason + _other_share(share, "dates"), novalue=novalue)


def _iso(text: str) -> Any:
    try:
        return Date().apply(text)
    except ValueError:
        return None


def _ordered_dates(strings: Strings) -> Decision | None:
    if (
        strings.share(NUMERIC_DATE.fullmatch) < MIN_DATE_SHARE
        or strings.share(lambda text: re.search(r"\d{4}", text)) < MIN_DATE_SHARE
    ):
        return None
    fitting = [order for order in ORDERS if strings.share(partial(_in_order, order=order)) >= MIN_FIT_SHARE]
    if len(fitting) == 1:
        kind = Date(order=fitting[0])  # type: ignore[arg-type]
        return Decision(kind, f"dates in the one order {ORDERS[fitting[0]]}, such as {strings.first()}")
    if fitting:
        strings.remarks.append(f"dates such as {strings.first()}, but none tells which is the day and which the month")
        return None
    first = strings.first(lambda text: _in_order(text, "dmy") and not _in_order(text, "mdy"))
    second = strings.first(lambda text: _in_order(text, "mdy") and not _in_order(text, "dmy"))
    if first and second:
        strings.remarks.append(f"dates in both orders ({first}, {second}): the order is ambiguous")
    return None


def _in_order(text: str, order: str) -> bool:
    match = NUMERIC_DATE.fullmatch(text)
    try:
        Date(order=order).apply(text)  # type: ignore[arg-type]
    except ValueError:
        return False
    return bool(match) and len(match[1 + order.index("y")]) > 2  # type: ignore[index]


def _places(strings: Strings) -> Decision | None:
    if not PLACE_NAME.search(strings.name) or strings.share(PAIR.fullmatch) < MIN_FIT_SHARE:
        return None
    for longitude_first in (False, True):
        kind = Coordinate(longitude_first)
        if strings.share(partial(_applies, kind)) >= MIN_FIT_SHARE:
            return Decision(kind, f"pairs of degrees such as {strings.first()}")
    return None


def _digits(strings: Strings) -> Decision | None:
    numeral_share = strings.share(_is_numeral)
    if numeral_share >= MIN_FIT_SHARE and not strings.first(DECIMAL_COMMA.fullmatch):
        leaf = _numerals(strings)
        if leaf is None:
            return None
        sketch, low, high, are_integers = _numbers(strings)
        if are_integers and (days := days_decision(leaf, low, high, sketch)):
            return days
        if grouped := strings.first(GROUPED.fullmatch):
            return Decision(Quantity(value=leaf), f"numbers with commas, such as {grouped}")
        return Decision(leaf, f"numbers, written as strings such as {shown(strings.first())}")
    turned = strings.with_commas()
    if (
        strings.distinct > MAX_NUMERAL_LABELS
        and turned.share(_is_numeral) >= MIN_FIT_SHARE
        and (leaf := _numerals(turned))
    ):
        example = strings.first(lambda text: not _is_numeral(text))  # 1,3 of few may be two labels
        return Decision(Quantity(value=leaf, comma=True), f"numbers with commas before decimals, such as {example}")
    if numeral_share > 0.5:
        other = shown(strings.first(lambda text: not _is_numeral(text)))
        strings.remarks.append(f"{percent(numeral_share)} are numbers, but {other} is none")
    return None


def _numerals(strings: Strings) -> Number | None:
    """The leaf of numbers as strings; None where they are codes, names or labels."""
    zero_filled = strings.first(ZERO_FILLED.fullmatch)
    if zero_filled:
        strings.remarks.append(f"digits with zeros in front, such as {zero_filled}: codes")
        return None
    if ID_NAME.fullmatch(strings.name):
        strings.remarks.append(f"digits, but it is called {strings.name}: an id, not an amount")
        return None
    sketch, low, high, are_integers = _numbers(strings)
    if (
        are_integers
        and strings.distinct <= MAX_NUMERAL_LABELS
        and low >= 0
        and high < 100
        and strings.seen >= 4 * strings.distinct
    ):
        strings.remarks.append("digits, written as strings")
        return None
    return number_leaf(low, are_integers, sketch)


def _is_numeral(text: str) -> bool:
    return bool(PLAIN.fullmatch(text) or GROUPED.fullmatch(text) or ZERO_FILLED.fullmatch(text))


def _numbers(strings: Strings) -> tuple[ValueSketch, Any, Any, bool]:
    values = [_number(text) for text, _ in strings.texts if PLAIN.fullmatch(text) or GROUPED.fullmatch(text)]
    sketch = ValueSketch(Budget())
    sketch.take(values)
    return sketch, min(values), max(values), all(map(is_whole, values))


def _number(text: str) -> Any:
    return number(text.replace(",", "").lstrip("+"))


def _quantities(strings: Strings) -> Decision | None:
    decimal_comma = strings.first(lambda text: (amount := measure(text)) and DECIMAL_COMMA.fullmatch(amount.number))
    for comma in (True,) if decimal_comma else (False, True):
        measured = [(amount, count) for text, count in strings.texts if (amount := _measured(text, comma))]
        if sum(count for _, count in measured) >= MIN_FIT_SHARE * sum(count for _, count in strings.texts):
            return _measures(strings, measured, comma)
    return None


def _measures(strings: Strings, measured: list[tuple[Measure, int]], comma: bool) -> Decision | None:
    """The decision on amounts; None where they are more likely labels."""
    units: Counter[str] = Counter()
    for amount, count in measured:
        units[amount.unit] += count
    has_sign = any(amount.gap or amount.before or amount.unit in "%°" for amount, _ in measured)
    if len(units) > MAX_UNITS or (not has_sign and strings.distinct <= MAX_NUMERAL_LABELS):
        return None
    values = ValueSketch(Budget())
    values.take([_number(amount.number) for amount, _ in measured])
    low, are_integers = min(values.counts), all(map(is_whole, values.counts))
    kind = quantity_in(units, number_leaf(low, are_integers, values), bare=False, comma=comma)
    units_reason = (
        f"all in {kind.unit}" if len(units) == 1 else f"in {counted(len(units), 'unit')}, most in {kind.unit}"
    )
    units_reason += unit_remark(kind.factors, kind.unit)
    example = strings.first(lambda text: _measured(text, comma) and not (comma and _measured(text, False)))
    decimals = "commas before decimals and " if comma else ""
    return Decision(kind, f"numbers with {decimals}a unit such as {shown(example)}, {units_reason}")


def _measured(text: str, comma: bool) -> Measure | None:
    """The amount of a text, with a point before decimals; None of a model's name, or a sentence with a number in front.

    `comma`: whether the text has a comma before decimals.
    """
    amount = measure(text)
    if amount and comma:
        amount = replace(amount, number=amount.number.translate(SWAP_POINT_AND_COMMA))
    is_amount = (
        amount is not None and AMOUNT.fullmatch(amount.number) and (amount.before or UNIT.fullmatch(amount.unit))
    )
    return amount if is_amount else None


def _addresses(strings: Strings) -> Decision | None:
    if strings.share(WEB.fullmatch) < MIN_FIT_SHARE or strings.distinct * 2 < strings.seen:
        return None
    return Decision(Text(), f"addresses on the web, {counted(strings.distinct, 'different one')}")


def _ids(strings: Strings) -> Decision | None:
    if not strings.all_differ or strings.share(lambda text: len(text) <= 40 and not re.search(r"\s", text)) < 1:
        return None
    has_id_name = ID_NAME.fullmatch(strings.name)
    are_codes = strings.share(_is_code) >= MIN_FIT_SHARE
    if not has_id_name and not are_codes:
        return None
    reason = f"it is called {strings.name}" if has_id_name else f"they look like codes ({shown(strings.first())})"
    return Decision(Text(), f"all differ, and {reason}: an id", "ignore", unique=strings.sketch.exact)


def _is_code(text: str) -> bool:
    return bool(re.search(r"\d", text)) or (text.isupper() and len(text) <= 6)


def _vocabulary(strings: Strings) -> Decision:
    return vocabulary(strings.texts, strings.seen, strings.distinct, strings.sketch.exact)


def _applies(kind: Any, text: str) -> bool:
    try:
        kind.apply(text)
    except ValueError:
        return False
    return True


def _other_share(share: float, noun: str) -> str:
    return "" if share == 1 else f"; {100 * (1 - share):.1f} % are no {noun}"


DETECTORS: tuple[Callable[[Strings], Decision | None], ...] = (
    _registered, _constant, _iso_dates, _ordered_dates, _places, _digits, _quantities, _addresses, _ids, _vocabulary,
)  # fmt: skip


# ---------------------------------------------------------------- labels or text


MIN_REPEATS = 2  # of a label, on average
MIN_REPEATS_OF_MANY = 20  # of a label, on average, where there are more than MANY_LABELS
MANY_LABELS = 5000
MAX_LABEL_LENGTH = 50  # characters on average
MAX_LABEL_WORDS = 6  # on average
MAX_CLOSED_LABELS = 30  # of a category where no others are expected
MAX_CHANCE_OF_NEW_LABEL = 0.001  # at the next value, for a closed category
MIN_VALUES_OF_LABELS = 10  # fewer different values are text


def vocabulary(texts: Sequence[tuple[str, int]], seen: int, distinct: int, exact: bool) -> Decision:
    """The decision between a category and text, by how often the same strings are repeated, and how long they are."""
    total = sum(count for _, count in texts)
    length = sum(min(len(text), MAX_TEXT_LENGTH) * count for text, count in texts) / total
    is_cut = any(len(text) > MAX_TEXT_LENGTH for text, _ in texts)  # some are shortened
    words = sum((text.count(" ") + 1) * count for text, count in texts) / total
    reason = f"{counted(distinct, 'label')} in {counted(seen, 'value')}"
    if not exact:
        reason = "about " + reason
    long = length > MAX_LABEL_LENGTH or words > MAX_LABEL_WORDS
    repeated = seen / max(distinct, 1)
    rare = repeated < (MIN_REPEATS if distinct <= MANY_LABELS else MIN_REPEATS_OF_MANY) or (
        long and (repeated < 6 * MIN_REPEATS or distinct > 4 * MAX_CLOSED_LABELS)
    )
    if rare or (seen < MIN_VALUES_OF_LABELS and distinct > 1):
        lengths = f"{'at least ' if is_cut else ''}{counted(round(length), 'character')}, {words:.1f} words on average"
        return Decision(Text(), f"{reason}: too few come again; {lengths}")
    single = sum(count == 1 for _, count in texts)
    if (
        exact
        and not is_cut
        and distinct <= MAX_CLOSED_LABELS
        and single <= MAX_CHANCE_OF_NEW_LABEL * seen
        and seen >= 3 * MIN_VALUES_OF_LABELS
    ):
        ordered = tuple(text for text, _ in sorted(texts, key=lambda item: (-item[1], item[0])))
        return Decision(Category(ordered, closed=True), f"{reason}, and hardly a new one is to come")
    first, count = max(texts, key=lambda item: item[1])
    share_reason = f"; {shown(first)} is {percent(count / total)} of them" if exact else ""
    return Decision(Category(), reason + share_reason)
