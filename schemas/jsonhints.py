"""What JSON Schema has no word for, told beside a value under a keyword of our own: that text names an entity, which unit is the main one.

    {"type": "string", "x-kbdisk": {"kind": "link", "to": "City"}}

Only what the schema around it cannot say stands here, spelt as in a schema file, so that nothing is told twice: whoever
changes a bound or a label in the JSON Schema changes the schema that is read from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.quantity import Quantity

HINT = "x-kbdisk"
GAP, NOVALUE, SEVERAL, PART = "gap", "novalue", "several", "part"  # what is no kind, but has a hint all the same

BOUNDS = {"integer", "min", "max", "above", "below"}
SAID: dict[str, set[str]] = {  # keys of a kind that its JSON Schema says itself
    "number": BOUNDS,
    "category": {"closed"},
    "text": {"min_length", "max_length"},
    "link": {"values"},
    "set": {"of", "to", "values", "closed", "ordered", "most"},  # by its items
    "quantity": {*BOUNDS, "decimals", "transform", "any_unit"},
    "date": {"min", "max"},
    "list": {"of"},
    "map": {"of", "key"},
}
UNTOLD = {"link", "set", "list"}  # kinds that look like others


def hint(kind: Kind) -> dict[str, Any]:
    """The keyword for a kind; nothing where all is said without."""
    from kbdisk.schemas.yaml.kind_keys import write_kind  # loads pydantic

    written = write_kind(kind)
    told = {"kind": written} if isinstance(written, str) else dict(written)
    said = set(SAID.get(told["kind"], ()))
    if told["kind"] == "category" and told.get("closed"):
        said.add("values")
    rest = {key: value for key, value in told.items() if key not in said}
    alike = all(isinstance(value, bool) for value in told.get("values", (0,)))  # they look like a boolean
    return {HINT: rest} if len(rest) > 1 or rest["kind"] in UNTOLD or alike else {}


def kind_told(told: Mapping[str, Any]) -> str:
    """The kind that the keyword of a schema names; empty where it names none."""
    named = told.get(HINT, {}).get("kind", "")
    return named if isinstance(named, str) else ""


def refined(kind: Kind | None, told: Mapping[str, Any]) -> Kind | None:
    """A kind with what the keyword tells of it, too; as it is, where it has become another since. ValueError where
    the keyword is wrong."""
    name = kind_told(told)
    if not name or name in (GAP, NOVALUE, SEVERAL, PART):
        return kind
    from kbdisk.schemas.yaml.kind_keys import keys_of, known_kind, name_of_kind, read_kind, write_kind

    known_kind(name)
    if kind is None:
        return None if name in SAID or name in ("boolean", "coordinate") else read_kind(told[HINT])
    if name_of_kind(kind) != name:
        return kind
    written = write_kind(kind)
    known = {key: value for key, value in told[HINT].items() if key in keys_of(name).names()}
    if isinstance(kind, Quantity):
        known |= _units(kind, known)
    return read_kind({**(written if isinstance(written, dict) else {}), **known, "kind": name})


def _units(kind: Quantity, known: Mapping[str, Any]) -> dict[str, Any]:
    """The units that the schema itself names: which of them is the main one, and what the others are in it."""
    main, others = known.get("unit"), known.get("units", {})
    if not isinstance(others, dict):
        return {}
    unsaid = [unit for unit, factor in others.items() if kind.any_unit or (known.get("normal") and not factor)]
    there = dict.fromkeys([*kind.units(), *unsaid])
    main = main if kind.any_unit or main in there else None
    return {"unit": main, "units": {unit: others.get(unit) for unit in there if unit != main}}


def problem_of(error: ValueError) -> str:
    """What is wrong under the keyword."""
    from pydantic import ValidationError

    from kbdisk.schemas.yaml.kind_keys import problems_of

    if not isinstance(error, ValidationError):
        return f"{error}."
    place, problem = next(iter(problems_of(error).items()))
    return f"{'.'.join(map(str, place))}: {problem}".strip(": ").rstrip(".") + "."
