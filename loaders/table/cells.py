"""Cells of a column as values, and new values spelt as the other cells are.

A column is read as numbers, or as truths, only if all of its cells are, missing ones aside: `12` is text where `A3` stands
below it, and postcodes stay text for the sake of `01067`. `NA` and the like are missing in such a column, and a word in one
of words. A number is -?digits, maybe a decimal point, maybe an exponent, maybe with thousands separators
(kbdisk/styles/numbers.py); `+49`, `007`, `inf` are text, `1,234` mostly. A truth is true or false, also True or TRUE. Spaces
around a number are ignored; text is kept as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kbdisk.entity import Quantity
from kbdisk.loaders.kb import MISSING_BESIDE_NUMBERS
from kbdisk.loaders.values import formulas
from kbdisk.loaders.values.columns import text_of
from kbdisk.schemas.text.numerals import Measure, Number, is_number
from kbdisk.styles.numbers import NUMBER, Separators, measured_as

Kind = Literal["number", "truth", "text", "blank"]

TRUTH_STYLES: tuple[Callable[[str], str], ...] = (str.lower, str.title, str.upper)
TRUTHS = {style(word): word == "true" for word in ("true", "false") for style in TRUTH_STYLES}
MAX_EXAMPLES = 20  # texts kept of each column
MAX_CELLS_CACHED = 10_000  # cells whose values are cached, as columns repeat themselves


class Cells(dict[str, Any]):
    """A cache of cells and their values, filled as they are looked up."""

    def __init__(self, missing: frozenset[str], read: Callable[[str], Any]) -> None:
        super().__init__(dict.fromkeys(missing))
        self.missing = missing
        self.read = read

    def __missing__(self, cell: str) -> Any:
        value = None if cell.strip() in self.missing else self.read(cell)
        if len(self) < MAX_CELLS_CACHED:
            self[cell] = value
        return value


@dataclass(slots=True)
class Column:
    """What the cells of one column have in common."""

    name: str
    unit: str | None = None  # of its numbers, where the user gave one
    separators: Separators = field(default_factory=Separators)  # of its numbers
    cells: int = 0  # all but missing ones; those that may be missing are in `missing_like`, too
    empty: int = 0
    missing_like: Counter[str] = field(default_factory=Counter)
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
        known_cells = self.cells - self.missing_like.total()
        if self.numbers == known_cells > 0:
            return "text" if self.separators.decimal is None else "number"
        return "truth" if self.truths == known_cells > 0 else "text"

    @property
    def missing_spellings(self) -> frozenset[str]:
        """The spellings that mean a missing value in this column, beyond those of every column."""
        return frozenset(self.missing_like) if self.kind in ("number", "truth") else frozenset()

    @property
    def filled(self) -> int:
        """The number of cells with a value."""
        return self.cells - (self.missing_like.total() if self.missing_spellings else 0)

    @property
    def blank(self) -> int:
        """The number of cells without a value."""
        return self.empty + self.cells - self.filled

    @property
    def doubt(self) -> str:
        """A remark on a column of numbers with a few words in it, such as `n.a.`, or with separators in doubt; else empty."""
        if self.numbers == self.cells - self.missing_like.total() > 0:
            return self._doubtful_marks()
        word = self.examples[0] if self.examples else ""
        if self.texts * 20 > self.numbers or not word or re.search(r"\d", word):
            return ""
        return f"column {self.name!r} holds numbers but for {word!r} and is read as text: say --missing {word!r} if that is no value"

    def observe(self, cells: Mapping[str, int], missing: frozenset[str]) -> None:
        """Take in cells, each with its count."""
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
        if self.separators.observe(cell, count):
            self.numbers += count
        elif cell in TRUTHS:
            self.truths += count
            self.style = next(style for style in TRUTH_STYLES if style(cell) == cell)
        elif cell.strip() in MISSING_BESIDE_NUMBERS:
            self.missing_like[cell.strip()] += count
        else:
            self.texts += count
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(cell)

    def reader(self, missing: frozenset[str]) -> Cells:
        """The values of its cells; None for a missing one."""
        match self.kind:
            case "number":
                return Cells(missing | self.missing_spellings, self._number(self.separators.reader()))
            case "truth":
                return Cells(missing | self.missing_spellings, lambda cell: TRUTHS.get(cell, cell))
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
        if self.separators.at_odds:
            odd = (
                "with commas and with points"
                if self.separators.has_commas
                else "whose points may part thousands or not"
            )
            return f"column {self.name!r} holds numbers {odd} and is read as text: write them alike"
        if self.separators.doubtful:
            return f"column {self.name!r} is read with decimal points: if they part thousands, take them out"
        return ""

    def write(self, value: Any) -> str:
        """A new value spelt as the column's are; ValueError where it does not go with the others."""
        if isinstance(value, Quantity):
            return self._write_quantity(value)
        if isinstance(value, bool):
            if self.kind == "number":
                raise ValueError(f"expected a number as in the rest of the column, got {value!r}")
            return self.style(text_of(value))
        if self.kind == "truth":
            raise ValueError(f"expected true or false as in the rest of the column, got {text_of(value)!r}")
        text = text_of(value)
        if self.kind == "number" and not NUMBER.fullmatch(text):
            raise ValueError(f"expected a number as in the rest of the column, got {text!r}")
        return (
            self.separators.write(text)
            if self.kind == "number" or (self.kind == "blank" and is_number(value))
            else text
        )

    def _write_quantity(self, quantity: Quantity) -> str:
        if quantity.value is None:
            raise ValueError("expected a number of some unit, got the unit alone")
        if self.unit is not None and quantity.unit not in (self.unit, None):
            raise ValueError(f"expected a value in {self.unit!r} as in the rest of the column, got {quantity.unit!r}")
        if self.kind == "number" or self.unit is not None or quantity.unit is None:
            return self.write(quantity.value)
        measure = measured_as(self.examples, quantity.unit) or Measure("", gap=" ")
        return measure.like(text_of(quantity.value), quantity.unit)
