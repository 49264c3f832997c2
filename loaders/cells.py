"""What the cells of a column mean, and how a new one is spelt as the others are.

A column is read as numbers, or as truths, only if all of its cells are (but for missing ones): `12` is text where `A3`
stands below it, and postcodes stay text for the sake of `01067`. `NA` and the like are missing in such a column, and a
word in one of words. A number is -?digits, maybe a decimal point, maybe an exponent, maybe thousands that are parted
(marks.py); `+49`, `007`, `inf` are text, `1,234` mostly. A truth is true or false, also True or TRUE. Spaces around a
number are nothing; text is kept as it stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kbdisk.entity import Quantity
from kbdisk.loaders import formulas
from kbdisk.loaders.flat import text_of
from kbdisk.loaders.marks import NUMBER, Marks
from kbdisk.loaders.options import BESIDE_NUMBERS
from kbdisk.schemas.text.numerals import Measure, Number, is_number, measured_as

Kind = Literal["number", "truth", "text", "blank"]

STYLES: tuple[Callable[[str], str], ...] = (str.lower, str.title, str.upper)
TRUTHS = {style(word): word == "true" for word in ("true", "false") for style in STYLES}
EXAMPLES = 20  # texts kept of each column
KEPT = 10_000  # cells of a column whose values are remembered: columns repeat themselves


class Cells(dict[str, Any]):
    """Cells and the values they say, filled as they are looked up."""

    def __init__(self, missing: frozenset[str], read: Callable[[str], Any]) -> None:
        super().__init__(dict.fromkeys(missing))
        self.missing = missing
        self.read = read

    def __missing__(self, cell: str) -> Any:
        value = None if cell.strip() in self.missing else self.read(cell)
        if len(self) < KEPT:
            self[cell] = value
        return value


@dataclass(slots=True)
class Column:
    """What the cells of one column have in common."""

    name: str
    unit: str | None = None  # of its numbers, where the user has said so
    marks: Marks = field(default_factory=Marks)  # of its numbers
    cells: int = 0  # that no spelling of nothing takes; those that may be one are in `nothings`, too
    empty: int = 0
    nothings: Counter[str] = field(default_factory=Counter)
    numbers: int = 0
    truths: int = 0
    texts: int = 0
    quoted: int = 0
    style: Callable[[str], str] = str.lower  # of its truths
    examples: list[str] = field(default_factory=list)  # of its texts
    starts: set[str] = field(default_factory=set)  # by which a spreadsheet would run some of its cells

    @property
    def kind(self) -> Kind:
        """How the column is read."""
        if not self.cells:
            return "blank"
        rest = self.cells - self.nothings.total()
        if self.numbers == rest > 0:
            return "text" if self.marks.decimal is None else "number"
        return "truth" if self.truths == rest > 0 else "text"

    @property
    def spelt(self) -> frozenset[str]:
        """What stands for no value in this column beyond what always does."""
        return frozenset(self.nothings) if self.kind in ("number", "truth") else frozenset()

    @property
    def filled(self) -> int:
        """Its cells with a value."""
        return self.cells - (self.nothings.total() if self.spelt else 0)

    @property
    def blank(self) -> int:
        """Its cells without one."""
        return self.empty + self.cells - self.filled

    @property
    def doubt(self) -> str:
        """What is odd about a column of numbers with a few words in it, such as `n.a.`, or torn; else an empty string."""
        if self.numbers == self.cells - self.nothings.total() > 0:
            return self._doubtful_marks()
        word = self.examples[0] if self.examples else ""
        if self.texts * 20 > self.numbers or not word or re.search(r"\d", word):
            return ""
        return f"column {self.name!r} holds numbers but for {word!r} and is read as text: say --missing {word!r} if that is no value"

    def see(self, cells: Mapping[str, int], missing: frozenset[str]) -> None:
        """Take note of cells, and how often each stands there."""
        for cell, count in cells.items():
            if cell.strip() in missing:
                self.empty += count
                continue
            self.cells += count
            if start := formulas.start_of(cell):
                self.starts.add(start)
            if self.texts <= 1000 + self.numbers:  # beyond, it is text for certain
                self._judge(cell, count)

    def _judge(self, cell: str, count: int) -> None:
        if self.marks.see(cell, count):
            self.numbers += count
        elif cell in TRUTHS:
            self.truths += count
            self.style = next(style for style in STYLES if style(cell) == cell)
        elif cell.strip() in BESIDE_NUMBERS:
            self.nothings[cell.strip()] += count
        else:
            self.texts += count
            if len(self.examples) < EXAMPLES:
                self.examples.append(cell)

    def reader(self, missing: frozenset[str]) -> Cells:
        """What its cells say; a missing one says None."""
        match self.kind:
            case "number":
                return Cells(missing | self.spelt, self._number(self.marks.reader()))
            case "truth":
                return Cells(missing | self.spelt, lambda cell: TRUTHS.get(cell, cell))
            case _:
                return Cells(missing, lambda cell: cell)

    def _number(self, read: Callable[[str], Number]) -> Callable[[str], Any]:
        def number(cell: str) -> Any:
            try:
                value = read(cell)
            except ValueError:  # the file has changed since the column was judged
                return cell
            return value if self.unit is None else Quantity(value, self.unit)

        return number

    def _doubtful_marks(self) -> str:
        if self.marks.at_odds:
            odd = "with commas and with points" if self.marks.has_commas else "whose points may part thousands or not"
            return f"column {self.name!r} holds numbers {odd} and is read as text: write them alike"
        if self.marks.doubtful:
            return f"column {self.name!r} is read with decimal points: if they part thousands, take them out"
        return ""

    def spell(self, value: Any) -> str:
        """A new value as the column would have it; ValueError where it does not go with the others."""
        if isinstance(value, Quantity):
            return self._spell_quantity(value)
        if isinstance(value, bool):
            if self.kind == "number":
                raise ValueError(f"expected a number as in the rest of the column, got {value!r}")
            return self.style(text_of(value))
        if self.kind == "truth":
            raise ValueError(f"expected true or false as in the rest of the column, got {text_of(value)!r}")
        text = text_of(value)
        if self.kind == "number" and not NUMBER.fullmatch(text):
            raise ValueError(f"expected a number as in the rest of the column, got {text!r}")
        return self.marks.spell(text) if self.kind == "number" or (self.kind == "blank" and is_number(value)) else text

    def _spell_quantity(self, quantity: Quantity) -> str:
        if quantity.value is None:
            raise ValueError("expected a number of some unit, got the unit alone")
        if self.unit is not None and quantity.unit not in (self.unit, None):
            raise ValueError(f"expected a value in {self.unit!r} as in the rest of the column, got {quantity.unit!r}")
        if self.kind == "number" or self.unit is not None or quantity.unit is None:
            return self.spell(quantity.value)
        habit = measured_as(self.examples, quantity.unit) or Measure("", gap=" ")
        return habit.like(text_of(quantity.value), quantity.unit)
