"""What a scalar of a schema file means, by the type that its place declares.

YAML hands over text (see text.py). Each type here reads that text by its own grammar, or takes the Python value that
stands for it. A ValueError `expected ..., got ...` where it is none; pydantic adds the place.
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
from kbdisk.schemas.yamlfile.text import Scalar

LONGEST_NUMBER = 4000  # characters
MAX_WHOLE = 10**18  # years, lengths, counts and decimals are below


@dataclass(frozen=True)
class As:
    """How a value is read, and what the JSON Schema of the format says of it."""

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
    """Any scalar is text, whatever YAML would make of it."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {got(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("expected text, got half of a surrogate pair") from None
    return str(value)


def words(value: Any) -> str:
    """Text that is not left out."""
    if nothing(value):
        raise ValueError("expected text, got nothing")
    return text(value)


def title(value: Any) -> str:
    """Text that may be left out, or said to be null."""
    return text(value) if not nothing(value) else ""


def nothing(value: Any) -> bool:
    """Whether a scalar says that there is nothing, without quotes."""
    return value is None or (isinstance(value, Scalar) and value.plain and value in ("", "null"))


def real(value: Any) -> float:
    """A finite number: 5, -0.5, 1e3."""
    try:
        number = float(numerals.number(value)) if isinstance(value, str) else value
        if not isinstance(number, bool) and isinstance(number, int | float) and math.isfinite(number):
            return float(number)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"expected a number, got {got(value)}")


def whole(value: Any) -> int:
    """A whole number of a size that something may have: a year, a length, a count."""
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
    """A whole number, not below another."""

    def read(value: Any) -> int:
        if (number := whole(value)) < low:
            raise ValueError(f"expected a whole number of at least {low}, got {number}")
        return number

    return read


def tolerance(value: Any) -> Tolerance:
    """A distance, or a share of the number: 0.5, 5 %."""
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return Tolerance(relative=float(Decimal(repr(not_negative(value.rstrip()[:-1].rstrip()))) / 100))
    return Tolerance(not_negative(value))


def not_negative(value: Any) -> float:
    """A finite number of at least 0."""
    if (number := real(value)) < 0:
        raise ValueError(f"expected a number of at least 0, got {number:g}")
    return number


def written_tolerance(tolerance: Tolerance) -> float | str:
    """A tolerance as a schema file has it."""
    if tolerance.relative:
        return f"{(Decimal(repr(tolerance.relative)) * 100).normalize():f} %"
    return tolerance.absolute


def factor(value: Any) -> float:
    """How many of one unit another is."""
    if (number := real(value)) <= 0:
        raise ValueError(f"expected a number above 0, got {number:g}")
    return number


def truth(value: Any) -> bool:
    """True or false, and no other words for it."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    raise ValueError(f"expected true or false, got {got(value)}")


def label(value: Any) -> str | int | float | bool:
    """A label of a category. Text, but for what JSON would write so without quotes: 3, 1.5, true."""
    if isinstance(value, Scalar) and value.plain:
        return _of_json(str(value))
    if isinstance(value, str):
        return text(value)
    if not isinstance(value, int | float) or value != value or value in (math.inf, -math.inf):
        raise ValueError(f"expected a label, got {got(value)}")
    return value


def _of_json(written: str) -> str | int | float | bool:
    """`3` is a number, since a number is written so; `03`, `3.10`, `1e3` and `0x1F` are text."""
    if written in ("true", "false"):
        return written == "true"
    if len(written) > LONGEST_NUMBER or written[:1] not in "-0123456789":
        return written
    try:
        value = json.loads(written)
    except ValueError:
        return written
    return value if isinstance(value, int | float) and json.dumps(value) == written else written


def choice(*names: str) -> As:
    """One of a few words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in names:
            return str(value)
        guess = did_you_mean(value, names) if isinstance(value, str) else ""
        raise ValueError(f"expected one of {', '.join(names)}, got {got(value)}.{guess}")

    return As(read, {"enum": list(names)})


def maybe(one: As) -> As:
    """What may be left out may be said to be null, too."""

    def read(value: Any) -> Any:
        return None if nothing(value) else one.read(value)

    types = one.schema["type"]
    return As(read, {**one.schema, "type": [*([types] if isinstance(types, str) else types), "null"]})


def or_default(one: As, default: Any) -> As:
    """What may be said to be null, which is the default."""
    may_be_null = maybe(one)

    def read(value: Any) -> Any:
        found = may_be_null.read(value)
        return default if found is None else found

    return As(read, may_be_null.schema)


WORDS = As(words, {"type": ["string", "number", "boolean"]})
REAL = As(real, {"type": "number"})
WHOLE = As(whole, {"type": "integer"})
COUNT = As(at_least(0), {"type": "integer", "minimum": 0})
POSITIVE = As(at_least(1), {"type": "integer", "minimum": 1})
FACTOR = As(factor, {"type": "number", "exclusiveMinimum": 0})
TOLERANCE = As(tolerance, {"type": ["number", "string"], "minimum": 0, "pattern": r"^\s*\+?[0-9.eE+-]+\s*%?\s*$"})

Words: TypeAlias = Annotated[str, WORDS]
Title: TypeAlias = Annotated[str, As(title, maybe(WORDS).schema)]
Spelling: TypeAlias = Annotated[str, As(text, {"type": [*WORDS.schema["type"], "null"]})]
Label: TypeAlias = Annotated[Any, As(label, {"type": [*WORDS.schema["type"], "null"]})]
Truth: TypeAlias = Annotated[bool, As(truth, {"type": "boolean"})]
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
