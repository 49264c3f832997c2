"""What the values at one place of a knowledge base look like: how often each form, and how numbers are spelt. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import Number, has_int

FORMS = 200  # kept of each place; by then the common ones are among them


class Form(NamedTuple):
    """How a value is written: the name of a way, and what there is to tell of it, such as "D.M.Y"."""

    name: str
    detail: str = ""


TYPED = Form("typed")  # as what it is: a Date, a Quantity, a Link


@dataclass(slots=True)
class Numbers:
    """How the numbers of one place are spelt: 5 or 5.0, and as text with which decimals, commas and zeros."""

    whole: int = 0  # whole numbers that are integers
    pointed: int = 0  # whole numbers that are none: 5.0
    fewest: int | None = None  # decimals of texts
    commas: int = 0  # texts of a thousand or more with commas, less those without
    shortest: int = 0  # digits of texts before the point
    longest: int = 0
    zeros: bool = False  # whether a text begins with one too many

    def see(self, value: Number) -> None:
        """A number that stands as one."""
        if isinstance(value, int):
            self.whole += 1
        elif has_int(value):
            self.pointed += 1

    def see_text(self, text: str) -> None:
        """A number that stands as text."""
        before, _, decimals = text.strip().lstrip("+-").partition(".")
        if "e" in text or "E" in text:
            return
        digits = before.replace(",", "")
        self.fewest = len(decimals) if self.fewest is None else min(self.fewest, len(decimals))
        self.shortest = min(self.shortest, len(digits)) if self.longest else len(digits)
        self.longest = max(self.longest, len(digits))
        self.zeros = self.zeros or (len(digits) > 1 and digits[0] == "0")
        if len(digits) > 3:
            self.commas += 1 if "," in before else -1

    def typed(self, value: Any) -> Any:
        """A number as one like the others."""
        if isinstance(value, bool) or not has_int(value):
            return value
        if not isinstance(value, int):
            return int(value) if self.whole > self.pointed else value
        return float(value) if self.pointed > self.whole and abs(value) < 1 << 53 else value

    def text(self, value: Any) -> str:
        """A number as text like the others."""
        exact = value if isinstance(value, Decimal) else Decimal(numerals.show(value))
        before, _, decimals = f"{exact.copy_abs():f}".partition(".")
        if self.zeros and self.shortest == self.longest:
            before = before.zfill(self.longest)
        if self.commas > 0:
            before = f"{int(before):,}"
        decimals = decimals.rstrip("0").ljust(self.fewest or 0, "0")
        return ("-" if exact < 0 else "") + before + ("." + decimals if decimals else "")


@dataclass(slots=True)
class Habit:
    """All that is learnt of one place."""

    forms: Counter[tuple[Form, str]] = field(
        default_factory=Counter
    )  # of values of a group: of one unit, with the same parts
    numbers: Numbers = field(default_factory=Numbers)
    padded: int = 0  # months and days such as 05, less those such as 5
    alone: int = 0  # one value that stands by itself
    listed: int = 0  # one value that stands in a list
    empty: int = 0  # lists without any
    keys: tuple[str, ...] = ()  # of the fullest part, in its order

    def saw(self, form: Form, group: str = "") -> None:
        """Take note of a value."""
        if (form, group) in self.forms or len(self.forms) < FORMS:
            self.forms[form, group] += 1

    def saw_keys(self, keys: tuple[str, ...]) -> None:
        """Take note of a part."""
        if len(keys) > len(self.keys):
            self.keys = keys

    def ordered(self, part: dict[str, Any]) -> dict[str, Any]:
        """A part with its keys in the order of the others; keys that these do not have come last."""
        return {key: part[key] for key in dict.fromkeys([*self.keys, *part]) if key in part}

    def ways(self, group: str = "") -> Iterator[Form]:
        """The forms of such a value, the most common first, then those of others."""
        own: Counter[Form] = Counter()
        rest: Counter[Form] = Counter()
        for (form, of), count in self.forms.items():
            (own if of == group else rest)[form] += count
        ranked = [form for each in (own, rest) for form, _ in sorted(each.items(), key=lambda one: -one[1])]
        return iter(dict.fromkeys(ranked))

    def with_one(self, raw: Any) -> Any:
        """What is one value where there may be several: in a list, if the others are."""
        return [raw] if self.listed > self.alone else raw
