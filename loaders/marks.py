"""Points, commas and what else stands between the digits of a column's numbers: one is decimal, another parts thousands.

A point is decimal, and where commas do not part the cells, a comma may be that of a whole column; points in groups
of three digits part thousands beside it. `1.234` and `1,234` do not tell by themselves: `1.234,5`, `1.234.567` and `0,5`
do, for the other columns of a file, too. Apostrophes and unbreakable spaces part thousands wherever they stand so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kbdisk.loaders.numberhabit import NumberHabit, rounded
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import Number

NUMBER = re.compile(r"[ \t]*-?(?:(0|[1-9][0-9]*)(?:\.([0-9]*))?|\.([0-9]+))([eE][+-]?[0-9]{1,4})?[ \t]*")
THREE = re.compile(r"[ \t]*-?[1-9][0-9]{0,2}\.[0-9]{3}[ \t]*")  # what may be whole
PARTED = re.compile(r"[ \t]*-?[1-9][0-9]{0,2}([.'\u2019\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*(?:([.,])([0-9]+))?[ \t]*")
SAMPLES = 20  # kept of numbers with exponents
FEW = 3  # numbers in groups of three digits that make one wonder


@dataclass(slots=True)
class Marks:
    """What the marks in the numbers of one column are."""

    comma: bool = False  # whether one may be decimal
    told: bool = False  # whether other columns tell that it is
    seen: Counter[str] = field(default_factory=Counter)  # numbers by their mark: a point, a comma, none
    threes: Counter[str] = field(
        default_factory=Counter
    )  # of these, those that may be whole, in groups of three digits
    groups: Counter[str] = field(default_factory=Counter)  # numbers by what certainly parts their thousands
    long: int = 0  # numbers of a thousand or more with nothing between these
    exponents: int = 0  # numbers with one
    samples: list[str] = field(default_factory=list)  # some of these, with decimal points
    digits: dict[str, tuple[int, int]] = field(default_factory=dict)  # the fewest and the most after each mark

    def see(self, cell: str, count: int) -> bool:
        """Take note of a cell if it is a number."""
        pointed = self._pointed(cell)
        if found := NUMBER.fullmatch(pointed):
            whole, after, only, exponent = found.groups()
            mark = "" if "." not in pointed else "." if pointed == cell else ","
            self.threes[mark] += count * bool(THREE.fullmatch(pointed))
            self.long += count * (whole is not None and len(whole) > 3)
            if exponent is not None:
                self.exponents += count
                self.samples += [pointed.strip(" \t")] * (len(self.samples) < SAMPLES)
        elif (found := PARTED.fullmatch(cell)) and self._parts(found):
            group, mark, after = found[1], found[2] or "", found[3]
            only = exponent = None
            self.groups[group] += count
        else:
            return False
        self.seen[mark] += count
        if exponent is None:
            decimals = len(after or only or "")
            fewest, most = self.digits.get(mark, (decimals, decimals))
            self.digits[mark] = min(fewest, decimals), max(most, decimals)
        return True

    @property
    def decimal(self) -> str | None:
        """The decimal point; None where that cannot be told, or numbers do not agree on it."""
        sure = {mark for mark in ".," if self.seen[mark] > self.threes[mark]}
        if self.told or self.groups["."]:
            sure.add(",")
        point = "," if "," in sure else "."
        if len(sure) > 1 or len(self._parting(point)) > 1:
            return None
        if point == "." and self.seen[","]:
            return None
        return None if point == "," and self.seen["."] and self.long and not self.groups["."] else point

    @property
    def has_commas(self) -> bool:
        """Whether a comma stands in any."""
        return self.seen[","] > 0

    @property
    def tells_commas(self) -> bool:
        """Whether it tells other columns that a comma is decimal."""
        return self.decimal == "," and (self.seen[","] > self.threes[","] or self.groups["."] > 0)

    @property
    def tells_points(self) -> bool:
        """Whether it tells other columns that a point is decimal."""
        return self.seen["."] > self.threes["."]

    @property
    def at_odds(self) -> bool:
        """Whether it has points that it is not told what they are; of commas alone, the text will tell."""
        return self.decimal is None and self.seen["."] > 0

    @property
    def doubtful(self) -> bool:
        """Whether points that are taken for decimal may well part thousands: three digits follow, or there is none."""
        three = self.threes["."] == self.seen["."] >= FEW and self.seen[""] > 0
        return self.comma and self.decimal == "." and three and not self.long and not self.exponents

    @property
    def decimals(self) -> tuple[int, int] | None:
        """The fewest and the most decimals of its numbers, if any has none of an exponent."""
        point = self.decimal
        told = [few_most if mark == point else (0, 0) for mark, few_most in self.digits.items()]
        return (min(few for few, _ in told), max(most for _, most in told)) if told else None

    def reader(self) -> Callable[[str], Number]:
        """What a cell says; ValueError where it is no number like the others."""
        point = self.decimal
        parting = "".join(self._parting(point or "."))
        if not parting:
            return lambda cell: numerals.number(self._pointed(cell).strip())
        other = re.escape(point or ".")
        fitting = re.compile(
            rf"-?(?:[0-9]*|[0-9]{{1,3}}(?:{re.escape(parting)}[0-9]{{3}})+)(?:{other}[0-9]*)?(?:[eE].+)?"
        )

        def read(cell: str) -> Number:
            cell = cell.strip(" \t")
            if not fitting.fullmatch(cell):
                raise ValueError
            return numerals.number(cell.replace(parting, "").replace(",", "."))

        return read

    def spell(self, number: str) -> str:
        """A number with these marks, decimals, exponents; with its thousands parted if most of these are."""
        if self.exponents * 2 > self.seen.total():
            number = NumberHabit.of(self.samples).show(numerals.number(number.strip()))
        elif not self.exponents and (decimals := self.decimals):
            number = rounded(number, *decimals)
        whole, point, rest = number.partition(".")
        mark = self.decimal or "."
        parting = self._parting(mark)
        group = next(iter(parting), "")
        if parting[group] > self.long and whole.removeprefix("-").isdigit():
            sign, digits = whole[: whole.startswith("-")], whole.removeprefix("-")
            first = (len(digits) - 1) % 3 + 1
            whole = sign + group.join([digits[:first], *(digits[n : n + 3] for n in range(first, len(digits), 3))])
        return whole + (mark if point else "") + rest

    def _pointed(self, cell: str) -> str:
        """A cell with a point where it has a comma that may be decimal; any other as it is."""
        return cell.replace(",", ".") if self.comma and "." not in cell else cell

    def _parts(self, found: re.Match[str]) -> bool:
        """Whether marks that were found are two of a kind that may be."""
        group, mark, _ = found.groups()
        return group != mark and (self.comma or (mark != "," and group != "."))

    def _parting(self, point: str) -> Counter[str]:
        """What parts thousands, and in how many numbers, if that is the decimal point."""
        between = +self.groups
        if point == "," and self.threes["."]:
            between["."] += self.threes["."]
        return between
