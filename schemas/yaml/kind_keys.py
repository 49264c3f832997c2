"""The keys of kinds in a schema file: of each leaf and composite that names its keys in its row.

The keys of any other kind are the fields of its dataclass.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from kbdisk.plugins import load_part
from kbdisk.schemas.composites import kind_rows, name_of
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import NAMES, Quantity, Scale
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yaml.parse import Place
from kbdisk.schemas.yaml.scalars import (
    COUNT,
    WORDS,
    Label,
    MaybeCount,
    MaybeFactor,
    MaybePositive,
    MaybeReal,
    MaybeTolerance,
    MaybeWhole,
    MaybeWords,
    Numbers,
    Real,
    ScalarType,
    Spelling,
    Truth,
    Whole,
    Words,
    choice,
    got,
    or_default,
    written_tolerance,
)

Written: TypeAlias = dict[str, Any]  # keys and plain values, as a file has them

FIELD_OF_KEY = {"min": "minimum", "max": "maximum"}  # keys that differ from the names of their fields
SCALAR_TYPES: dict[Any, Any] = {bool: Truth, int: Whole, float: Real, str: Words}
MAX_PLAIN_WHOLE = 10**15  # whole numbers below are written without an exponent
SHAPE_NAMES = {"tuple_type": "a list", "list_type": "a list", "dict_type": "a mapping"}


class Keys(BaseModel):
    """A mapping with certain keys, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _known(cls, keys: Any) -> Any:
        known_keys = cls.names()
        refuse({(key,): unknown_key(key, known_keys) for key in mapping(keys) if key not in known_keys})
        return keys

    @classmethod
    def names(cls) -> list[str]:
        """The keys as a file spells them, in order."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class KindKeys(Keys):
    """The keys of a kind, without `kind` itself. They have the names of the dataclass's fields, except FIELD_OF_KEY."""

    makes: ClassVar[type[Any]]

    def to_kind(self) -> Kind:
        """The kind with these keys."""
        values = {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}
        return self.makes(**{FIELD_OF_KEY.get(key, key): value for key, value in values.items()})

    @classmethod
    def written(cls, kind: Kind) -> Written:
        """The keys of a kind, without those that have their default."""
        defaults = {field.alias or name: field.default for name, field in cls.model_fields.items()}
        values = {key: getattr(kind, FIELD_OF_KEY.get(key, key)) for key in defaults}
        return {key: value for key, value in values.items() if value != defaults[key]}


# ---------------------------------------------------------------- kinds by their names


def kinds() -> list[str]:
    """Every kind that a file may name."""
    return [*kind_rows()]


def keys_of(name: str) -> type[KindKeys]:
    """The keys of a kind by its name."""
    row = kind_rows()[name]
    keys: type[KindKeys] = _keys_like(row.type) if row.keys is None else load_part(row.keys)
    return keys


def read_kind(written: Any) -> Kind:
    """A kind by its name alone, or as a mapping with `kind`."""
    name, other_keys = named(written)
    keys = keys_of(name)
    refuse({(key,): unknown_key(key, ["kind", *keys.names()], name) for key in other_keys if key not in keys.names()})
    return keys.model_validate(other_keys).to_kind()


def write_kind(kind: Kind) -> str | Written:
    """A kind as a file has it: by its name alone, where all keys have their default."""
    name = name_of(kind)
    other_keys = keys_of(name).written(kind)
    return {"kind": name, **_with_whole_numbers(other_keys)} if other_keys else name


def _with_whole_numbers(value: Any) -> Any:
    """Bounds and factors without a point where they are whole. Labels, which stand in lists, stay: 1.0 is not 1."""
    if isinstance(value, dict):
        return {key: _with_whole_numbers(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MAX_PLAIN_WHOLE else value


def named(written: Any) -> tuple[str, Written]:
    """The name of the kind, and the other keys."""
    if isinstance(written, str) and written:
        return known_kind(written), {}
    if not isinstance(written, dict):
        raise ValueError(f"expected a kind such as category, or a mapping with kind, got {got(written)}")
    if "kind" not in written:
        refuse(
            {("kind",): f"expected a kind, got none.{_hint_without_kind(written)} Known kinds: {', '.join(kinds())}."}
        )
    try:
        name = known_kind(written["kind"])
    except ValueError as error:
        refuse({("kind",): str(error)})
    return name, {key: value for key, value in written.items() if key != "kind"}


def _hint_without_kind(written: Written) -> str:
    """A hint for a mapping without a kind."""
    near = next((key for key in written if did_you_mean(key, ["kind"])), None)
    if near is not None:
        return f" Did you mean 'kind' for {near!r}?"
    parts = written and all(isinstance(value, dict) or value in kinds() for value in written.values())
    return " Properties of a part are written with their paths, such as launch.year." if parts else ""


def known_kind(name: Any) -> str:
    """The name of a known kind; ValueError for any other."""
    if isinstance(name, str) and name in kinds():
        return str(name)
    guess = did_you_mean(name, kinds()) if isinstance(name, str) else ""
    raise ValueError(f"expected a kind, got {got(name)}.{guess} Known kinds: {', '.join(kinds())}.")


@functools.cache
def _keys_like(type_: type[Any]) -> type[KindKeys]:
    """The keys of a kind of another package: the fields of its dataclass."""
    hints = get_type_hints(type_)
    fields: dict[str, Any] = {}
    for n, field in enumerate(dataclasses.fields(type_)):
        default = ... if field.default is dataclasses.MISSING else field.default
        factory = None if field.default_factory is dataclasses.MISSING else field.default_factory
        field_ = Field(default_factory=factory, alias=field.name) if factory else Field(default, alias=field.name)
        fields[f"key{n}"] = (_typed(hints[field.name]), field_)
    model = create_model(f"{type_.__name__}Keys", __base__=KindKeys, __doc__=type_.__doc__, **fields)
    model.makes = type_
    return model


def _typed(hint: Any) -> Any:
    """A type whose scalars are read as those of a schema file."""
    origin, args = get_origin(hint), get_args(hint)
    if not args or origin is Literal:
        return SCALAR_TYPES.get(hint, hint)
    typed = tuple(_typed(arg) for arg in args)
    return Union[typed] if origin in (Union, types.UnionType) else origin[typed]  # noqa: UP007


# ---------------------------------------------------------------- problems and their places


def mapping(value: Any) -> dict[str, Any]:
    """A mapping; ValueError for any other value."""
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, got {got(value)}")
    return value


def is_key(key: str) -> bool:
    """Whether some kind has a key."""
    return any(key in keys_of(name).names() for name in kinds())


def unknown_key(key: str, known: Iterable[str], kind: str = "") -> str:
    """The message for an unknown key."""
    known = list(known)
    kinds_with_key = [name for name in kinds() if kind and key in keys_of(name).names()]
    problem = (
        f"{key} is for {' and '.join(kinds_with_key)}." if kinds_with_key else f"unknown key.{did_you_mean(key, known)}"
    )
    return f"{problem} Known keys{f' of {kind}' if kind else ''}: {', '.join(known)}."


def refuse(problems: Mapping[Place, str]) -> None:
    """Raise a ValidationError with the problems by their places, if there are any."""
    if problems:
        raise ValidationError.from_exception_data("schema", [_detail(*problem) for problem in problems.items()])


def problems_of(error: ValidationError) -> dict[Place, str]:
    """The problems of a ValidationError by their places, in the words of kbdisk."""
    return {problem["loc"]: _message_of(problem) for problem in error.errors(include_url=False)}


def _message_of(problem: Any) -> str:
    if problem["type"] in SHAPE_NAMES:
        return f"expected {SHAPE_NAMES[problem['type']]}, got {got(problem['input'])}"
    if problem["type"] == "missing":
        begins = problem["loc"] == ("kbdisk",)
        return "expected `kbdisk: 1`, with which a schema begins, got none" if begins else "expected a value, got none"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return str(problem["msg"])


def _detail(place: Place, problem: str) -> InitErrorDetails:
    wrong = PydanticCustomError("wrong", "{problem}", {"problem": problem})
    return InitErrorDetails(type=wrong, loc=place, input=None)


# ---------------------------------------------------------------- kinds of leaf


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
    given: Truth = Field(False, description="Whether it is learnt from and never predicted, as a text in a list.")

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

    def to_kind(self) -> Set:
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


# ---------------------------------------------------------------- composites


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

    def to_kind(self) -> Quantity:
        value = NumberKeys.model_construct(**{name: getattr(self, name) for name in NumberKeys.model_fields}).to_kind()
        scales = {unit: _scale(*numbers) for unit, numbers in self.scales.items()}
        names = (self.value_key, self.unit_key)
        return Quantity(self.unit, self.units, value, self.normal, self.any_unit, self.comma, names, scales)

    @classmethod
    def written(cls, kind: Quantity) -> Written:
        units = {"unit": kind.unit, "units": dict(kind.factors)}
        flags = {"normal": kind.normal, "any_unit": kind.any_unit, "comma": kind.comma}
        names = {"value_key": kind.names[0], "unit_key": kind.names[1]}
        scales = {unit: [number for number in scale if number is not None] for unit, scale in kind.scales.items()}
        keys = {**units, **NumberKeys.written(kind.value), **flags, **names, "scales": scales}
        return {key: value for key, value in keys.items() if value != cls.model_fields[key].default}


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
    """Fields by their names, or one kind, of values without fields. `kind: text` is a kind, and `kind: {kind: text}` a
    field of that name."""
    if isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("kind"), str)):
        return {"": read_kind(value)}
    if not mapping(value):
        raise ValueError("expected a kind, or fields and their kinds, got none")
    stray_keys = [
        key for key in value if not isinstance(value[key], dict) and value[key] not in kinds() and is_key(key)
    ]
    if stray_keys and "kind" not in value:  # a kind is meant, and `kind` misspelt or forgotten
        refuse({("kind",): f"expected a kind beside {stray_keys[0]}, got none. Known kinds: {', '.join(kinds())}."})
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


Inner: TypeAlias = Annotated[Any, ScalarType(read_kind, {"$kbdisk": "kind"})]
Fields: TypeAlias = Annotated[Any, ScalarType(_fields, {"$kbdisk": "fields"})]
FIELDS: TypeAdapter[dict[str, Kind]] = TypeAdapter(dict[str, Inner])
ITEM_FIELDS = Field(description="The kind of each value; or the fields of each part, and their kinds.")
MAX_LEARNT = Field(None, description="How many are learnt at most.")


class ListKeys(KindKeys):
    """Several parts or values, in their order."""

    makes = Listed
    of: Fields = ITEM_FIELDS
    most: MaybePositive = MAX_LEARNT

    def to_kind(self) -> Listed:
        return Listed(self.of, self.most)

    @classmethod
    def written(cls, kind: Listed) -> Written:
        return {"of": _write_fields(kind.fields)} | ({} if kind.most is None else {"most": kind.most})


class MapKeys(KindKeys):
    """Parts or values by keys that are labels, such as currencies by their codes."""

    makes = Mapped
    of: Fields = ITEM_FIELDS
    key: Inner = Field(Category(), description="The kind of the keys; category by default.")
    most: MaybePositive = MAX_LEARNT

    def to_kind(self) -> Mapped:
        return Mapped(self.of, self.key, self.most)

    @classmethod
    def written(cls, kind: Mapped) -> Written:
        key = {} if kind.key == Category() else {"key": write_kind(kind.key)}
        return {**ListKeys.written(Listed(kind.fields, kind.most)), **key}
