"""The keys that each composite has in a schema file, and what they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field, TypeAdapter, ValidationInfo, field_validator

from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import NAMES, Quantity, Scale
from kbdisk.schemas.kinds import Category
from kbdisk.schemas.yamlfile.keys import KindKeys, Written, is_key, kinds, mapping, read_kind, refuse, write_kind
from kbdisk.schemas.yamlfile.leafkeys import BoundedKeys, NumberKeys
from kbdisk.schemas.yamlfile.told import (
    WORDS,
    As,
    MaybeFactor,
    MaybePositive,
    MaybeWhole,
    MaybeWords,
    Numbers,
    Truth,
    choice,
    or_default,
)


class QuantityKeys(NumberKeys):
    """A number of some unit, such as a weight."""

    makes: ClassVar[type[Any]] = Quantity
    unit: MaybeWords = Field(None, description="The unit that a bare number is in.")
    units: dict[str, MaybeFactor] = Field(
        {},
        description="Other units that values come in, each with how many of `unit` one of it is (null: as common units "
        "are, else as the amounts tell). Without `unit`: how many of the unit of factor 1.",
    )
    normal: Truth = Field(False, description="Turn all values into `unit`.")
    any_unit: Truth = Field(False, description="Take units that are not named here, too.")
    comma: Truth = Field(False, description="In text a comma is before decimals, and points part thousands: 1.234,5.")
    value_key: Annotated[str, or_default(WORDS, NAMES[0])] = Field(
        NAMES[0], description="What the number of a part is called."
    )
    unit_key: Annotated[str, or_default(WORDS, NAMES[1])] = Field(
        NAMES[1], description="What the unit of a part is called."
    )
    scales: dict[str, Numbers] = Field(
        {}, description="Made by training: factor, offset and decimals of each unit as its amounts are learnt."
    )

    @field_validator("scales")
    @classmethod
    def _three_numbers(cls, scales: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        wrong = next((unit for unit, scale in scales.items() if not 1 <= len(scale) <= 3 or scale[0] <= 0), None)
        if wrong is not None:
            raise ValueError(
                f"expected a factor above 0, an offset and decimals of {wrong!r}. Leave scales to training."
            )
        return scales

    @field_validator("unit_key")
    @classmethod
    def _two_keys(cls, unit_key: str, info: ValidationInfo) -> str:
        if unit_key == info.data.get("value_key"):
            raise ValueError(f"expected another key than value_key, got {unit_key!r}")
        return unit_key

    @field_validator("normal")
    @classmethod
    def _into_a_unit(cls, normal: bool, info: ValidationInfo) -> bool:
        if normal and not info.data.get("unit", True):
            raise ValueError("expected a unit that values are turned into. Add the key unit.")
        return normal

    def made(self) -> Quantity:
        value = NumberKeys.model_construct(**{name: getattr(self, name) for name in NumberKeys.model_fields}).made()
        scales = {unit: _scale(*numbers) for unit, numbers in self.scales.items()}
        names = (self.value_key, self.unit_key)
        return Quantity(self.unit, self.units, value, self.normal, self.any_unit, self.comma, names, scales)

    @classmethod
    def written(cls, kind: Quantity) -> Written:
        first = {"unit": kind.unit, "units": dict(kind.factors)}
        last = {"normal": kind.normal, "any_unit": kind.any_unit, "comma": kind.comma}
        names = {"value_key": kind.names[0], "unit_key": kind.names[1]}
        scales = {unit: [number for number in scale if number is not None] for unit, scale in kind.scales.items()}
        said = {**first, **NumberKeys.written(kind.value), **last, **names, "scales": scales}
        return {key: value for key, value in said.items() if value != cls.model_fields[key].default}


def _scale(factor: float, offset: float = 0.0, decimals: float | None = None) -> Scale:
    return Scale(factor, offset, None if decimals is None else int(decimals))


class DateKeys(BoundedKeys):
    """A day, or as much of one as is known."""

    makes = Date
    order: Annotated[str, choice("iso", "dmy", "mdy", "ymd")] = Field(
        "iso", description="The order of day, month and year in text: dmy for 28/11/1912."
    )
    parts: tuple[Annotated[str, choice(*NUMBERS)], ...] = Field(NUMBERS, description="What is known of it at most.")
    min: MaybeWhole = Field(None, description="The first year there can be.")
    max: MaybeWhole = Field(None, description="The last year there can be.")
    coarse: Truth = Field(False, description="Learn decades, centuries and millennia as such.")

    @field_validator("parts")
    @classmethod
    def _some_parts(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        if not parts or len(set(parts)) < len(parts):
            raise ValueError(f"expected some of {', '.join(NUMBERS)}, each once, got {', '.join(parts) or 'none'}")
        return parts


class CoordinateKeys(KindKeys):
    """A place in degrees: latitude and longitude."""

    makes = Coordinate
    longitude_first: Truth = Field(False, description="In a pair without names the longitude is first, as in GeoJSON.")


def _fields(value: Any) -> dict[str, Kind]:
    """Fields by their names; or one kind alone, of values that have none. `kind: text` tells a kind, and
    `kind: {kind: text}` a field of that name."""
    if isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("kind"), str)):
        return {"": read_kind(value)}
    if not mapping(value):
        raise ValueError("expected a kind, or fields and their kinds, got none")
    bare = [key for key in value if not isinstance(value[key], dict) and value[key] not in kinds() and is_key(key)]
    if bare and "kind" not in value:  # a kind is meant, and `kind` misspelt or forgotten
        refuse({("kind",): f"expected a kind beside {bare[0]}, got none. Known kinds: {', '.join(kinds())}."})
    if "" in value:
        raise ValueError("expected a name for each field, got one without")
    return FIELDS.validate_python(value)


def _write_fields(fields: Mapping[str, Kind]) -> str | Written:
    if "" in fields:
        return write_kind(fields[""])
    written = {name: write_kind(kind) for name, kind in fields.items()}
    if isinstance(written.get("kind"), str):
        written["kind"] = {"kind": written["kind"]}
    return written


Inner: TypeAlias = Annotated[Any, As(read_kind, {"$kbdisk": "kind"})]
Fields: TypeAlias = Annotated[Any, As(_fields, {"$kbdisk": "fields"})]
FIELDS: TypeAdapter[dict[str, Kind]] = TypeAdapter(dict[str, Inner])
OF = Field(description="The kind of each value; or the fields of each part, and their kinds.")
MOST = Field(None, description="How many are learnt at most.")


class ListKeys(KindKeys):
    """Several parts or values, in their order."""

    makes = Listed
    of: Fields = OF
    most: MaybePositive = MOST

    def made(self) -> Listed:
        return Listed(self.of, self.most)

    @classmethod
    def written(cls, kind: Listed) -> Written:
        return {"of": _write_fields(kind.fields)} | ({} if kind.most is None else {"most": kind.most})


class MapKeys(KindKeys):
    """Parts or values by keys that are labels, such as currencies by their codes."""

    makes = Mapped
    of: Fields = OF
    key: Inner = Field(Category(), description="The kind of the keys: category where it is not told.")
    most: MaybePositive = MOST

    def made(self) -> Mapped:
        return Mapped(self.of, self.key, self.most)

    @classmethod
    def written(cls, kind: Mapped) -> Written:
        key = {} if kind.key == Category() else {"key": write_kind(kind.key)}
        return {**ListKeys.written(Listed(kind.fields, kind.most)), **key}


COMPOSITES: dict[str, type[KindKeys]] = {
    "quantity": QuantityKeys,
    "date": DateKeys,
    "coordinate": CoordinateKeys,
    "list": ListKeys,
    "map": MapKeys,
}
