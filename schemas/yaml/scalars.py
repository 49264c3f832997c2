"""The types of scalars in a schema file: each place declares one.

YAML is parsed to plain text (parse.py). Each type reads that text by its own grammar, or takes the Python value itself. It
raises a ValueError `expected ..., got ...`, to which pydantic adds the place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from kbdisk.schemas.kinds import Tolerance
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.names import did_you_mean
from kbdisk.schemas.yaml.parse import Scalar

MAX_NUMBER_LENGTH = 4000  # characters
MAX_WHOLE = 10**18  # above all years, lengths, counts and decimals


@dataclass(frozen=True)
class ScalarType:
    """A type: its reader, and its JSON Schema."""

    read: Callable[[Any], Any]
    schema: dict[str, Any] = field(hash=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self.schema)


def got(value: Any) -> str:
    """A value as an error shows it."""
    if nothing(value):
        return "nothing"
    if isinstance(value, str):
        return repr(value[:60] + "..." if len(value) > 60 else str(value))
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else repr(value)


def text(value: Any) -> str:
    """Any scalar as text, however YAML would resolve it."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {got(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("expected text, got half of a surrogate pair") from None
    return str(value)


def words(value: Any) -> str:
    """Text that is not null."""
    if nothing(value):
        raise ValueError("expected text, got nothing")
    return text(value)


def title(value: Any) -> str:
    """Text; of null the empty text."""
    return text(value) if not nothing(value) else ""


def nothing(value: Any) -> bool:
    """Whether a value is null: no value, or `null` or nothing without quotes."""
    return value is None or (isinstance(value, Scalar) and value.plain and value in ("", "null"))


def real_number(value: Any) -> float:
    """A finite number: 5, -0.5, 1e3."""
    try:
        number = float(numerals.number(value)) if isinstance(value, str) else value
        if not isinstance(number, bool) and isinstance(number, int | float) and math.isfinite(number):
            return float(number)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"expected a number, got {got(value)}")


def whole_number(value: Any) -> int:
    """A whole number below MAX_WHOLE: a year, a length, a count."""
    try:
        number = numerals.number(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not numerals.is_number(number) or not numerals.is_finite(number) or not numerals.is_whole(number):
        raise ValueError(f"expected a whole number, got {got(value)}")
    if not -MAX_WHOLE < number < MAX_WHOLE:
        raise ValueError(f"expected a whole number of at most 18 digits, got {got(value)}")
    return int(number)


def at_least(low: int) -> Callable[[Any], int]:
    """The reader of whole numbers with a lower bound."""

    def read(value: Any) -> int:
        if (number := whole_number(value)) < low:
            raise ValueError(f"expected a whole number of at least {low}, got {number}")
        return number

    return read


def tolerance(value: Any) -> Tolerance:
    """A tolerance, absolute or relative: 0.5, 5 %."""
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return Tolerance(relative=float(Decimal(repr(not_negative(value.rstrip()[:-1].rstrip()))) / 100))
    return Tolerance(not_negative(value))


def not_negative(value: Any) -> float:
    """A finite number of at least 0."""
    if (number := real_number(value)) < 0:
        raise ValueError(f"expected a number of at least 0, got {number:g}")
    return number


def written_tolerance(tolerance: Tolerance) -> float | str:
    """A tolerance as a schema file has it."""
    if tolerance.relative:
        return f"{(Decimal(repr(tolerance.relative)) * 100).normalize():f} %"
    return tolerance.absolute


def factor(value: Any) -> float:
    """The factor of a unit to the main one."""
    if (number := real_number(value)) <= 0:
        raise ValueError(f"expected a number above 0, got {number:g}")
    return number


def truth(value: Any) -> bool:
    """A boolean, spelt true or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    raise ValueError(f"expected true or false, got {got(value)}")


def label(value: Any) -> str | int | float | bool:
    """A label of a category. Scalars without quotes are numbers and booleans where they are as JSON writes them: 3, 1.5, true."""
    if isinstance(value, Scalar) and value.plain:
        return _json_scalar(str(value))
    if isinstance(value, str):
        return text(value)
    if not isinstance(value, int | float) or value != value or value in (math.inf, -math.inf):
        raise ValueError(f"expected a label, got {got(value)}")
    return value


def _json_scalar(written: str) -> str | int | float | bool:
    """The value of a text that JSON would write in the same way, such as `3`; `03`, `3.10`, `1e3` and `0x1F` are text."""
    if written in ("true", "false"):
        return written == "true"
    if len(written) > MAX_NUMBER_LENGTH or written[:1] not in "-0123456789":
        return written
    try:
        value = json.loads(written)
    except ValueError:
        return written
    return value if isinstance(value, int | float) and json.dumps(value) == written else written


def choice(*names: str) -> ScalarType:
    """The type of one of several words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in names:
            return str(value)
        guess = did_you_mean(value, names) if isinstance(value, str) else ""
        raise ValueError(f"expected one of {', '.join(names)}, got {got(value)}.{guess}")

    return ScalarType(read, {"enum": list(names)})


def maybe(type_: ScalarType) -> ScalarType:
    """A type, or null."""

    def read(value: Any) -> Any:
        return None if nothing(value) else type_.read(value)

    types = type_.schema["type"]
    return ScalarType(read, {**type_.schema, "type": [*([types] if isinstance(types, str) else types), "null"]})


def or_default(type_: ScalarType, default: Any) -> ScalarType:
    """A type, or null for the default."""
    may_be_null = maybe(type_)

    def read(value: Any) -> Any:
        parsed = may_be_null.read(value)
        return default if parsed is None else parsed

    return ScalarType(read, may_be_null.schema)


WORDS = ScalarType(words, {"type": ["string", "number", "boolean"]})
REAL = ScalarType(real_number, {"type": "number"})
WHOLE = ScalarType(whole_number, {"type": "integer"})
COUNT = ScalarType(at_least(0), {"type": "integer", "minimum": 0})
POSITIVE = ScalarType(at_least(1), {"type": "integer", "minimum": 1})
FACTOR = ScalarType(factor, {"type": "number", "exclusiveMinimum": 0})
TOLERANCE = ScalarType(
    tolerance, {"type": ["number", "string"], "minimum": 0, "pattern": r"^\s*\+?[0-9.eE+-]+\s*%?\s*$"}
)

Words: TypeAlias = Annotated[str, WORDS]
Title: TypeAlias = Annotated[str, ScalarType(title, maybe(WORDS).schema)]
Spelling: TypeAlias = Annotated[str, ScalarType(text, {"type": [*WORDS.schema["type"], "null"]})]
Label: TypeAlias = Annotated[Any, ScalarType(label, {"type": [*WORDS.schema["type"], "null"]})]
Truth: TypeAlias = Annotated[bool, ScalarType(truth, {"type": "boolean"})]
Real: TypeAlias = Annotated[float, REAL]
Whole: TypeAlias = Annotated[int, WHOLE]
Numbers: TypeAlias = tuple[Real, ...]
MaybeWords: TypeAlias = Annotated[str | None, maybe(WORDS)]
MaybeReal: TypeAlias = Annotated[float | None, maybe(REAL)]
MaybeWhole: TypeAlias = Annotated[int | None, maybe(WHOLE)]
MaybeCount: TypeAlias = Annotated[int | None, maybe(COUNT)]
MaybePositive: TypeAlias = Annotated[int | None, maybe(POSITIVE)]
MaybeTolerance: TypeAlias = Annotated[Tolerance | None, maybe(TOLERANCE)]
MaybeFactor: TypeAlias = Annotated[float | None, maybe(FACTOR)]
