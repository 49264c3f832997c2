"""The keys that each kind of leaf has in a schema file, and what they make."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.yamlfile.keys import KindKeys, Written
from kbdisk.schemas.yamlfile.told import (
    COUNT,
    Label,
    MaybeCount,
    MaybePositive,
    MaybeReal,
    MaybeTolerance,
    MaybeWords,
    Spelling,
    Truth,
    choice,
    written_tolerance,
)


class BoundedKeys(KindKeys):
    """Keys with a min and a max."""

    @field_validator("max", check_fields=False)
    @classmethod
    def _above_min(cls, value: float | None, info: ValidationInfo) -> float | None:
        low = info.data.get("min")
        if value is not None and low is not None and value < low:
            raise ValueError(f"expected at least the min, {low:g}, got {value:g}")
        return value

    @field_validator("below", check_fields=False)
    @classmethod
    def _below_above(cls, value: float | None, info: ValidationInfo) -> float | None:
        low = info.data.get("above")
        if value is not None and low is not None and value <= low:
            raise ValueError(f"expected more than `above`, {low:g}, got {value:g}")
        return value


class LabelledKeys(KindKeys):
    """Keys with labels."""

    @field_validator("values", check_fields=False)
    @classmethod
    def _some_and_none_twice(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values:
            raise ValueError("expected at least one value. Leave the key out where any may come.")
        seen: set[tuple[type[Any], Any]] = set()
        for value in values:
            if (type(value), value) in seen:
                raise ValueError(f"expected each value once, got {value!r} twice")
            seen.add((type(value), value))
        return values

    @field_validator("closed", check_fields=False)
    @classmethod
    def _closed_over_values(cls, closed: bool, info: ValidationInfo) -> bool:
        if closed and not info.data.get("values", True):
            raise ValueError("expected values that there can be, got none. Add the key values.")
        return closed


INTEGER = Field(False, description="Whole numbers alone.")
MIN = Field(None, description="The least value there can be.")
MAX = Field(None, description="The greatest value there can be.")
ABOVE = Field(None, description="A bound below all values, not reached itself.")
BELOW = Field(None, description="A bound above all values, not reached itself.")
DECIMALS = Field(None, description="To how many decimals values are rounded.")
VALUES = Field(
    (), description="The labels there are, in their order where they are ordered. 3 is a number, '3' is text."
)
CLOSED = Field(False, description="No other labels than the values can come.")
ORDERED = Field(False, description="The values go from least to most.")
TO = Field(None, description="The class of the entity that is linked to.")
Transform: TypeAlias = Annotated[str, choice("auto", "none", "log", "quantile", "standard")]
TOLERANCE = Field(
    None,
    description="How far a predicted number may be off and still count as right: a distance (0.5) or a share (5 %).",
)
TRANSFORM = Field("auto", description="How numbers are scaled before they are learnt.")


class NumberKeys(BoundedKeys):
    """A quantity on a real scale without a unit, such as a year or a count."""

    makes: ClassVar[type[Any]] = Number
    integer: Truth = INTEGER
    min: MaybeReal = MIN
    max: MaybeReal = MAX
    above: MaybeReal = ABOVE
    below: MaybeReal = BELOW
    decimals: MaybeCount = DECIMALS
    transform: Transform = TRANSFORM
    tolerance: MaybeTolerance = TOLERANCE

    @classmethod
    def written(cls, kind: Any) -> Written:
        keys = super().written(kind)
        return keys if kind.tolerance is None else keys | {"tolerance": written_tolerance(kind.tolerance)}


class CategoryKeys(LabelledKeys):
    """One label out of a few, such as a maker."""

    makes = Category
    values: tuple[Label, ...] = VALUES
    closed: Truth = CLOSED
    ordered: Truth = ORDERED


class BooleanKeys(KindKeys):
    """True or false."""

    makes = Boolean


class TextKeys(KindKeys):
    """Free text, such as a name."""

    makes = Text
    language: MaybeWords = Field(None, description="The language it is in, such as en.")
    max_length: MaybePositive = Field(None, description="The most characters there can be.")
    min_length: Annotated[int, COUNT] = Field(0, description="The fewest characters there can be.")

    @field_validator("min_length")
    @classmethod
    def _within_max(cls, value: int, info: ValidationInfo) -> int:
        longest = info.data.get("max_length")
        if longest is not None and value > longest:
            raise ValueError(f"expected at most the max_length, {longest}, got {value}")
        return value


class LinkKeys(LabelledKeys):
    """Another entity."""

    makes = Link
    to: MaybeWords = TO
    values: tuple[Spelling, ...] = Field((), description="The ids that there can be; any where they are left out.")


class SetKeys(LabelledKeys):
    """Several labels or links, in no order."""

    makes = Set
    of: Annotated[str, choice("category", "link")] = Field("category", description="Labels or links.")
    values: tuple[Label, ...] = VALUES
    closed: Truth = CLOSED
    ordered: Truth = ORDERED
    to: MaybeWords = TO
    most: MaybePositive = Field(None, description="The most there can be.")

    @field_validator("closed", "ordered", "to")
    @classmethod
    def _of_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        wanted = "link" if info.field_name == "to" else "category"
        if value and info.data.get("of", wanted) != wanted:
            raise ValueError(f"{info.field_name} is for a set of {wanted}, this is one of {info.data['of']}")
        return value

    def made(self) -> Set:
        if self.of == "category":
            return Set(Category(self.values, self.closed, self.ordered), self.most)
        ids = tuple(value if isinstance(value, str) else json.dumps(value) for value in self.values)
        return Set(Link(self.to, ids), self.most)

    @classmethod
    def written(cls, kind: Set) -> Written:
        most = {} if kind.most is None else {"most": kind.most}
        if isinstance(kind.of, Link):
            return {"of": "link", **LinkKeys.written(kind.of), **most}
        return CategoryKeys.written(kind.of) | most


LEAVES: dict[str, type[KindKeys]] = {
    "number": NumberKeys,
    "category": CategoryKeys,
    "boolean": BooleanKeys,
    "text": TextKeys,
    "link": LinkKeys,
    "set": SetKeys,
}
