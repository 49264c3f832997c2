"""What strings are: dates, numbers, quantities, places, addresses on the web, ids, labels, or text.

Each look either decides, or adds a remark to the reason, or says nothing. The first that decides counts; the last two
(a vocabulary of labels, or text) always do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kbdisk.schemas.composites.coordinate import PAIR, Coordinate
from kbdisk.schemas.composites.date import NUMERIC_DATE, Date
from kbdisk.schemas.composites.quantity import SWAP_POINT_AND_COMMA, Quantity
from kbdisk.schemas.inference.decision import FITS, MOSTLY, NOTHING_TO_LEARN, Decision, counted, percent, shown, times
from kbdisk.schemas.inference.numbers import ENOUGH, ID_NAME, all_differ, days_decision, number_leaf
from kbdisk.schemas.inference.sketch import Budget, Labels
from kbdisk.schemas.inference.units import quantity_in, remark
from kbdisk.schemas.inference.vocabulary import vocabulary
from kbdisk.schemas.kinds import Category, Number, Text
from kbdisk.schemas.text.numerals import Measure, is_whole, measure, number

GAPS = frozenset(
    {"", "nan", "NaN", "NAN", "null", "NULL", "None", "N/A", "n/a", "#N/A", "<NA>", "-", "--", "\u2013", "\u2014", "?"}
)
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
FEW_UNITS = 20
FEW_DIGITS = 12


@dataclass
class Strings:
    """The strings at one path, without those that stand for no value."""

    name: str
    labels: Labels
    texts: list[tuple[str, int]]
    seen: int
    distinct: int
    remarks: list[str] = field(default_factory=list)

    def share(self, fits: Callable[[str], Any]) -> float:
        """The share of values that a test holds for."""
        total = sum(count for _, count in self.texts)
        return sum(count for text, count in self.texts if fits(text)) / total

    @property
    def all_differ(self) -> bool:
        """Whether no string comes twice; where it is estimated, hardly any."""
        return self.seen >= ENOUGH and self.distinct == self.seen if self.labels.exact else all_differ(self.labels)

    def with_commas(self) -> Strings:
        """With commas for points, and points for commas."""
        return replace(self, texts=[(text.translate(SWAP_POINT_AND_COMMA), count) for text, count in self.texts])

    def first(self, fits: Callable[[str], Any] = bool) -> str:
        """The first that a test holds for."""
        return next((text for text, _ in self.texts if fits(text)), "")


def string_decision(name: str, labels: Labels, gaps: bool) -> Decision:
    """What the strings at a path of this name are; `gaps`: whether some spellings may stand for no value."""
    missing = tuple(sorted(text for text in labels.counts if text.strip() in GAPS)) if gaps else ()
    texts = [(text, count) for text, count in labels.weighted() if text not in missing]
    if not texts:
        return Decision(None, f"nothing but {', '.join(map(repr, missing))}", missing=missing)
    left_out = sum(labels.counts[text] for text in missing)
    strings = Strings(name, labels, texts, labels.seen - left_out, labels.distinct() - len(missing))
    if missing:
        strings.remarks.append(f"{', '.join(map(repr, missing))} stands for no value {times(left_out)}")
    decisions = (look(strings) for look in LOOKS)
    found = next(one for one in decisions if one is not None)
    return replace(found.because(*strings.remarks), missing=missing, gaps=left_out)


def _constant(strings: Strings) -> Decision | None:
    if strings.distinct > 1 or strings.seen < ENOUGH:
        return None
    only = strings.texts[0][0]
    return Decision(
        Category(),
        f"{shown(only)} in all {counted(strings.seen, 'value')}{NOTHING_TO_LEARN}",
        "ignore",
        is_constant=True,
    )


def _iso_dates(strings: Strings) -> Decision | None:
    real = [(text, count) for text, count in strings.texts if not NO_DATE.fullmatch(text)]
    if not real or sum(count for text, count in real if ISO.fullmatch(text)) < 0.5 * sum(count for _, count in real):
        return None
    read = [(_iso(text), count) for text, count in real]
    share = sum(count for date, count in read if date) / sum(count for _, count in read)
    if share < MOSTLY:
        return None
    novalue = tuple(sorted({text for text, _ in strings.texts if NO_DATE.fullmatch(text)}))
    parts = tuple(
        part for part in ("year", "month", "day") if any(getattr(date, part) is not None for date, _ in read if date)
    )
    reason = f"dates such as {real[0][0]}" + (f"; {', '.join(novalue)} says that there is none" if novalue else "")
    return Decision(Date(parts=parts), reason + _but(share, "dates"), novalue=novalue)


def _iso(text: str) -> Any:
    try:
        return Date().apply(text)
    except ValueError:
        return None


def _ordered_dates(strings: Strings) -> Decision | None:
    if strings.share(NUMERIC_DATE.fullmatch) < MOSTLY or strings.share(lambda text: re.search(r"\d{4}", text)) < MOSTLY:
        return None
    fitting = [order for order in ORDERS if strings.share(lambda text, order=order: _in_order(text, order)) >= FITS]  # type: ignore[misc]
    if len(fitting) == 1:
        kind = Date(order=fitting[0])  # type: ignore[arg-type]
        return Decision(kind, f"dates in the one order {ORDERS[fitting[0]]}, such as {strings.first()}")
    if fitting:
        strings.remarks.append(f"dates such as {strings.first()}, but none tells which is the day and which the month")
        return None
    first = strings.first(lambda text: _in_order(text, "dmy") and not _in_order(text, "mdy"))
    second = strings.first(lambda text: _in_order(text, "mdy") and not _in_order(text, "dmy"))
    if first and second:
        strings.remarks.append(f"dates in both orders ({first}, {second}): which is meant cannot be told")
    return None


def _in_order(text: str, order: str) -> bool:
    found = NUMERIC_DATE.fullmatch(text)
    try:
        Date(order=order).apply(text)  # type: ignore[arg-type]
    except ValueError:
        return False
    return bool(found) and len(found[1 + order.index("y")]) > 2  # type: ignore[index]


def _places(strings: Strings) -> Decision | None:
    if not PLACE_NAME.search(strings.name) or strings.share(PAIR.fullmatch) < FITS:
        return None
    for longitude_first in (False, True):
        kind = Coordinate(longitude_first)
        if strings.share(lambda text, kind=kind: _applies(kind, text)) >= FITS:  # type: ignore[misc]
            return Decision(kind, f"pairs of degrees such as {strings.first()}")
    return None


def _digits(strings: Strings) -> Decision | None:
    share = strings.share(_is_numeral)
    if share >= FITS and not strings.first(DECIMAL_COMMA.fullmatch):
        leaf = _numerals(strings)
        if leaf is None:
            return None
        labels, low, high, whole = _numbers(strings)
        if whole and (days := days_decision(leaf, low, high, labels)):
            return days
        if grouped := strings.first(GROUPED.fullmatch):
            return Decision(Quantity(value=leaf), f"numbers with commas, such as {grouped}")
        return Decision(leaf, f"numbers, written as strings such as {shown(strings.first())}")
    turned = strings.with_commas()
    if strings.distinct > FEW_DIGITS and turned.share(_is_numeral) >= FITS and (leaf := _numerals(turned)):
        such = strings.first(lambda text: not _is_numeral(text))  # 1,3 of few may be two labels
        return Decision(Quantity(value=leaf, comma=True), f"numbers with commas before decimals, such as {such}")
    if share > 0.5:
        odd = shown(strings.first(lambda text: not _is_numeral(text)))
        strings.remarks.append(f"{percent(share)} are numbers, but {odd} is none")
    return None


def _numerals(strings: Strings) -> Number | None:
    """The scale of what all but few spell as numbers, unless these are codes, names or labels."""
    filled = strings.first(ZERO_FILLED.fullmatch)
    if filled:
        strings.remarks.append(f"digits with zeros in front, such as {filled}: codes")
        return None
    if ID_NAME.fullmatch(strings.name):
        strings.remarks.append(f"digits, but it is called {strings.name}: what it names is no amount")
        return None
    labels, low, high, whole = _numbers(strings)
    if whole and strings.distinct <= FEW_DIGITS and low >= 0 and high < 100 and strings.seen >= 4 * strings.distinct:
        strings.remarks.append("digits, written as strings")
        return None
    return number_leaf(low, whole, labels)


def _is_numeral(text: str) -> bool:
    return bool(PLAIN.fullmatch(text) or GROUPED.fullmatch(text) or ZERO_FILLED.fullmatch(text))


def _numbers(strings: Strings) -> tuple[Labels, Any, Any, bool]:
    values = [_number(text) for text, _ in strings.texts if PLAIN.fullmatch(text) or GROUPED.fullmatch(text)]
    labels = Labels(Budget())
    labels.take(values)
    return labels, min(values), max(values), all(map(is_whole, values))


def _number(text: str) -> Any:
    return number(text.replace(",", "").lstrip("+"))


def _quantities(strings: Strings) -> Decision | None:
    tells = strings.first(lambda text: (found := measure(text)) and DECIMAL_COMMA.fullmatch(found.number))
    for comma in (True,) if tells else (False, True):
        measured = [(found, count) for text, count in strings.texts if (found := _measured(text, comma))]
        if sum(count for _, count in measured) >= FITS * sum(count for _, count in strings.texts):
            return _measures(strings, measured, comma)
    return None


def _measures(strings: Strings, measured: list[tuple[Measure, int]], comma: bool) -> Decision | None:
    """The quantity that amounts are, unless they are more likely labels."""
    units: Counter[str] = Counter()
    for found, count in measured:
        units[found.unit] += count
    apart = any(found.gap or found.before or found.unit in "%°" for found, _ in measured)
    if len(units) > FEW_UNITS or (not apart and strings.distinct <= FEW_DIGITS):
        return None
    values = Labels(Budget())
    values.take([_number(found.number) for found, _ in measured])
    low, whole = min(values.counts), all(map(is_whole, values.counts))
    kind = quantity_in(units, number_leaf(low, whole, values), bare=False, comma=comma)
    told = f"all in {kind.unit}" if len(units) == 1 else f"in {counted(len(units), 'unit')}, most in {kind.unit}"
    told += remark(kind.factors, kind.unit)
    such = strings.first(lambda text: _measured(text, comma) and not (comma and _measured(text, False)))
    decimals = "commas before decimals and " if comma else ""
    return Decision(kind, f"numbers with {decimals}a unit such as {shown(such)}, {told}")


def _measured(text: str, comma: bool) -> Measure | None:
    """A text that most likely is an amount of some unit, with a point before decimals: not a model's name, nor a
    sentence with a number in front. `comma`: whether it has a comma there."""
    found = measure(text)
    if found and comma:
        found = replace(found, number=found.number.translate(SWAP_POINT_AND_COMMA))
    likely = found is not None and AMOUNT.fullmatch(found.number) and (found.before or UNIT.fullmatch(found.unit))
    return found if likely else None


def _addresses(strings: Strings) -> Decision | None:
    if strings.share(WEB.fullmatch) < FITS or strings.distinct * 2 < strings.seen:
        return None
    return Decision(Text(), f"addresses on the web, {counted(strings.distinct, 'different one')}")


def _ids(strings: Strings) -> Decision | None:
    if not strings.all_differ or strings.share(lambda text: len(text) <= 40 and not re.search(r"\s", text)) < 1:
        return None
    named = ID_NAME.fullmatch(strings.name)
    coded = strings.share(_is_code) >= FITS
    if not named and not coded:
        return None
    why = f"it is called {strings.name}" if named else f"they look like codes ({shown(strings.first())})"
    return Decision(Text(), f"all differ, and {why}: an id", "ignore", unique=strings.labels.exact)


def _is_code(text: str) -> bool:
    return bool(re.search(r"\d", text)) or (text.isupper() and len(text) <= 6)


def _vocabulary(strings: Strings) -> Decision:
    return vocabulary(strings.texts, strings.seen, strings.distinct, strings.labels.exact)


def _applies(kind: Any, text: str) -> bool:
    try:
        kind.apply(text)
    except ValueError:
        return False
    return True


def _but(share: float, what: str) -> str:
    return "" if share == 1 else f"; {100 * (1 - share):.1f} % are no {what}"


LOOKS: tuple[Callable[[Strings], Decision | None], ...] = (
    _constant, _iso_dates, _ordered_dates, _places, _digits, _quantities, _addresses, _ids, _vocabulary,
)  # fmt: skip
