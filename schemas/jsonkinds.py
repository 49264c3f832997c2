"""What a value of each kind looks like in plain JSON, as a JSON Schema. Patterns keep to what ECMAScript and Python share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from kbdisk.schemas.composites import COMPOSITES, Kind
from kbdisk.schemas.composites.coordinate import NAMES, PAIR, Coordinate
from kbdisk.schemas.composites.date import CARRIED, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.imported import composite_of
from kbdisk.schemas.jsonhints import GAP, HINT, PART, hint
from kbdisk.schemas.kinds import KINDS, Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.text import dates
from kbdisk.schemas.text.numerals import MONEY

Json: TypeAlias = dict[str, Any]

ASIDE: Json = {"^@": True}  # keys that are no properties
ASIDE_NAME: Json = {"pattern": "^@"}
NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
INTEGER = r"^\s*[-+]?([0-9]+(\.0*)?|([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+)\s*$"
SPELT_NUMBER = r"([0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?)"
WITH_COMMA = r"([0-9]*,?[0-9]+([eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]+)?)"
NO_VALUES: Json = {"type": "array", "maxItems": 0}
IN_ORDER = {"d": "0*([1-9]|[12][0-9]|3[01])", "m": "0*([1-9]|1[0-2])", "y": "[0-9]{3,4}"}
BETWEEN = r"\s*[-/. ]\s*"
NO_DAY = "-(02-3[01]|(04|06|09|11)-31)"


def any_of(choices: list[Json]) -> Json:
    """One of these; in short where that is possible."""
    flat = [each for choice in choices for each in (choice["anyOf"] if choice.keys() == {"anyOf"} else [choice])]
    distinct = [each for number, each in enumerate(flat) if each not in flat[:number]]
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def of_kind(kind: Kind) -> Json:
    """What a value of a kind looks like in JSON; anything, where the kind is somebody else's."""
    known = WAYS.get(type(kind))
    if known is not None:
        return known(kind)
    rows: Mapping[str, Any] = {**KINDS, **COMPOSITES}
    name = next((name for name, row in rows.items() if row[0] is type(kind)), type(kind).__name__)
    return {"$comment": f"not said here: kind {name}", **hint(kind)}


def gap_of(spelt: Iterable[Any]) -> Json:
    """No value: null, or a spelling of it."""
    spellings = [*spelt]
    return {"enum": [None, *spellings], **({HINT: {"kind": GAP}} if spellings else {})}


def _number(kind: Number) -> Json:
    bounds = {
        "minimum": kind.minimum,
        "maximum": kind.maximum,
        "exclusiveMinimum": kind.above,
        "exclusiveMaximum": kind.below,
    }
    known = {key: bound for key, bound in bounds.items() if bound is not None}
    return {"type": "integer" if kind.integer else "number", **known, **hint(kind)}


def _spelt_number(kind: Number) -> Json:
    """JSON has many a number as a string."""
    return {"anyOf": [_number(kind), {"type": "string", "pattern": INTEGER if kind.integer else NUMBER}]}


def _category(kind: Category) -> Json:
    told: Json = {"enum": [*kind.values]} if kind.closed else {"type": ["string", "number", "boolean"]}
    return {**told, **hint(kind)}


def _text(kind: Text) -> Json:
    bounds = {"minLength": kind.min_length or None, "maxLength": kind.max_length}
    return {"type": "string", **{key: bound for key, bound in bounds.items() if bound is not None}, **hint(kind)}


def _link(kind: Link) -> Json:
    id: Json = {"enum": [*kind.values]} if kind.values else {"type": "string"}
    node: Json = {"type": "object", "properties": {"@id": id}, "required": ["@id"]}
    return {"anyOf": [{**id, **hint(kind)}, node]}


def set_of(kind: Set, spelt: Iterable[str] = ()) -> Json:
    """Labels or links; gaps in between are not counted."""
    of, gap = of_kind(kind.of), gap_of(spelt)
    most = (
        {}
        if kind.most is None
        else {"contains": {"allOf": [of], "not": gap}, "minContains": 0, "maxContains": kind.most}
    )
    return any_of([of, {"type": "array", "items": any_of([of, gap, NO_VALUES]), **most, **hint(kind)}])


def _quantity(kind: Quantity) -> Json:
    number, names = _number(kind.value), kind.names
    parts = [_measured(names, number, {"enum": [kind.unit, None]})]
    if kind.any_unit:  # what bounds are in a unit that nobody named is not known
        parts = [_measured(names, {"type": "number"}, {"type": ["string", "null"]})]
    elif kind.unit is None:
        parts = [_measured(names, number, {"enum": [*kind.units(), None]})]
    else:
        factors = {unit: factor for unit, factor in kind.factors.items() if unit != kind.unit}
        for unit, factor in factors.items():
            parts += [_measured(names, _scaled(number, factor), {"enum": [unit]}, names[1])] if factor else []
        unknown = [unit for unit, factor in factors.items() if not factor]
        parts += (
            [_measured(names, {"type": "number"}, {"enum": unknown}, names[1])] if unknown and not kind.normal else []
        )
    spelt = r"[^0-9\s.,].*" if kind.any_unit else "|".join(map(literal, kind.units())) or "(?!)"
    money = MONEY if kind.any_unit else "|".join(literal(unit) for unit in kind.units() if re.fullmatch(MONEY, unit))
    digits = WITH_COMMA if kind.comma else SPELT_NUMBER
    before = rf"|[-+]?({money})\s*{digits}" if money else ""
    text = {"type": "string", "pattern": rf"^\s*([-+]?{digits}\s*({spelt})?{before})\s*$"}
    return {"anyOf": [number, *(part | hint(kind) for part in parts), text]}


def _measured(names: tuple[str, str], number: Json, units: Json, *needed: str) -> Json:
    """A part with value and unit."""
    return _part(dict(zip(names, (number, units), strict=True))) | ({"required": [*needed]} if needed else {})


def _scaled(number: Json, factor: float) -> Json:
    """A number's bounds in a unit of which one is so many of the main one."""
    return {"type": "number"} | {key: bound / factor for key, bound in number.items() if key not in ("type", HINT)}


def _part(fields: Json) -> Json:
    """An object with no other fields, any of which may be a gap."""
    return {
        "type": "object",
        "properties": {name: any_of([field, {"type": "null"}]) for name, field in fields.items()},
        "patternProperties": ASIDE,
        "additionalProperties": False,
    }


def _date(kind: Date) -> Json:
    year = _number(Number(True, kind.minimum, kind.maximum))
    fields = {
        "year": year,
        "month": {"type": "integer", "minimum": 1, "maximum": 24, "not": {"minimum": 13, "maximum": 20}},
        "day": {"type": "integer", "minimum": 1, "maximum": 31},
    }
    part = _part(fields | {name: {"type": "string"} for name in CARRIED}) | hint(kind)
    if kind.order == "iso":
        ways = "|".join(map(_pattern, (dates.ISO, dates.EDTF_DATE, dates.FORMS["gMonthDay"].pattern)))
        text: Json = {"type": "string", "pattern": f"^({ways})$", "not": {"pattern": NO_DAY}}
    else:
        text = {"type": "string", "pattern": rf"^\s*{BETWEEN.join(IN_ORDER[letter] for letter in kind.order)}\s*$"}
    return {"anyOf": [text, year, part]}


def _coordinate(kind: Coordinate) -> Json:
    bounds = {str(path[0]): _number(leaf) for path, leaf in kind.leaves().items()}
    part = _part({name: bounds[full] for name, full in NAMES.items()}) | hint(kind)
    pair = [bounds["longitude"], bounds["latitude"]] if kind.longitude_first else [*bounds.values()]
    halves = [any_of([bound, {"type": "null"}]) for bound in pair]
    listed = {"type": "array", "prefixItems": halves, "minItems": 2, "maxItems": 2, "contains": {"type": "number"}}
    return {"anyOf": [part, listed, {"type": "string", "pattern": f"^{_pattern(PAIR)}$"}]}


def _fields(fields: Mapping[str, Kind]) -> Json:
    """A part of a list or a map."""
    if "" in fields:
        return of_kind(fields[""])
    known = {name: any_of([of_kind(kind), *_gap_in(kind)]) for name, kind in fields.items()}
    return {"type": "object", "properties": known, **part_hint(fields)}


def _gap_in(kind: Kind | None) -> list[Json]:
    """No value of a kind, within a list or a map: null, or no values where a list is none."""
    return [{"type": "null"}, *([] if isinstance(kind, Listed | Set) else [NO_VALUES])]


def part_hint(fields: Mapping[str, Kind]) -> Json:
    """The keyword for parts that look like a date, a place or a quantity, and are none."""
    return {HINT: {"kind": PART}} if composite_of(fields) is not None else {}


def list_of(kind: Listed, spelt: Iterable[Any] = ()) -> Json:
    """Values or parts; gaps in between keep their places."""
    item = _fields(kind.fields)
    empty = _gap_in(kind.fields.get(""))
    gaps = [gap_of(spelt)] if spelt and "" in kind.fields else []
    return any_of([{"type": "array", "items": any_of([item, *empty, *gaps]), **hint(kind)}, item])


def _mapped(kind: Mapped) -> Json:
    entry = any_of([_fields(kind.fields), *(_gap_in(kind.fields[""]) if "" in kind.fields else [{"type": "null"}])])
    told: Json = {"type": "object", "patternProperties": ASIDE, "additionalProperties": entry, **hint(kind)}
    if isinstance(kind.key, Category) and kind.key.closed:
        told["propertyNames"] = any_of([{"enum": [*map(str, kind.key.values)], **hint(kind.key)}, ASIDE_NAME])
    elif kind.key != Category():
        told["propertyNames"] = any_of([of_kind(kind.key), ASIDE_NAME])
    return told


def _pattern(pattern: re.Pattern[str]) -> str:
    """A pattern as JSON Schema writes it: groups without names, digits and spaces that are ASCII."""
    return (
        "(" + re.sub(r"[(][?]P<[^<>]*>", "(", pattern.pattern).replace(r"\d", "[0-9]").replace("[[0-9]", "[0-9") + ")"
    )


def literal(text: str) -> str:
    """A pattern that this text alone fits."""
    return re.sub(r"[\^$\\.*+?()\[\]{}|/]", r"\\\g<0>", text)


WAYS: dict[type[Any], Callable[[Any], Json]] = {
    Number: _spelt_number,
    Category: _category,
    Boolean: lambda kind: {"type": "boolean"},
    Text: _text,
    Link: _link,
    Set: set_of,
    Quantity: _quantity,
    Date: _date,
    Coordinate: _coordinate,
    Listed: list_of,
    Mapped: _mapped,
}
