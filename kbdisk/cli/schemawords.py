"""A property of a schema in few words, for people: its kind, what must hold of it, and the leaves it is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from kbdisk.cli.tables import counted
from kbdisk.entity import Path, show
from kbdisk.schemas.composites import EACH, leaves_of, name_of, show_pattern
from kbdisk.schemas.composites.base import Kind
from kbdisk.schemas.composites.date import NUMBERS, Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import VALUE, Quantity
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property

SHOWN = 4  # labels named


def kind_name(kind: Kind) -> str:
    """What a kind is called, of a leaf or a composite: `set of link`, `list of date`."""
    name = name_of(kind)
    if isinstance(kind, Set):
        return f"set of {kind_name(kind.of)}"
    if isinstance(kind, Listed | Mapped):
        return f"{name} of {kind_name(kind.fields['']) if '' in kind.fields else 'parts'}"
    return name


def constraints(one: Property) -> str:
    """What must hold of a property, and what it is for."""
    return ", ".join([*_of_kind(one.kind), *_of_property(one)])


def leaves(one: Property) -> dict[str, str]:
    """The leaves of a composite by their paths within it; none for what is a leaf itself, or has only its number."""
    found: dict[Path, Kind] = {} if one.role == "ignore" else dict(leaves_of((), one.kind))
    return {_dotted(path): kind_name(kind) for path, kind in found.items() if path and found.keys() != {VALUE}}


def _dotted(path: Path) -> str:
    text = show_pattern(path)
    return text if path[0] == EACH else f".{text}"


def _of_kind(kind: Kind) -> Iterator[str]:
    match kind:
        case Number():
            yield from _of_number(kind)
        case Category():
            yield from _of_labels(kind)
        case Text():
            yield from _of_text(kind)
        case Date():
            yield from [f"{kind.order}"] if kind.order != "iso" else []
            yield from [" ".join(kind.parts)] if kind.parts != NUMBERS else []
            yield from _bounds(kind.minimum, kind.maximum, "g")
            yield from ["decades and centuries as such"] if kind.coarse else []
        case Link(to):
            yield from [f"to {to}"] if to else []
            yield from [f"{len(kind.values):,} of them"] if kind.values else []
        case Set():
            yield from _of_kind(kind.of)
            yield from [f"at most {kind.most:,}"] if kind.most is not None else []
        case Quantity():
            others = [f"{unit} ({'?' if factor is None else f'{factor:g}'})" for unit, factor in kind.factors.items()]
            yield from [", ".join(["in " + (kind.unit or "no unit"), *others])]
            yield from ["or any unit"] if kind.any_unit else []
            yield from ["turned into " + str(kind.unit)] if kind.normal else []
            yield from ["decimal commas"] if kind.comma else []
            yield from _of_number(kind.value)
        case Listed(fields, most) | Mapped(fields=fields, most=most):
            yield from _of_kind(fields[""]) if "" in fields else ["of " + ", ".join(fields)]
            yield from [f"at most {most:,}"] if most is not None else []
        case _:
            yield from _of_fields(kind)


def _of_number(kind: Number) -> Iterator[str]:
    if kind.integer:
        yield "whole"
    yield from _bounds(kind.minimum, kind.maximum)
    yield from [f"above {kind.above:,g}"] if kind.above is not None else []
    yield from [f"below {kind.below:,g}"] if kind.below is not None else []
    yield from [counted(kind.decimals, "decimal", "decimals")] if kind.decimals is not None else []
    yield from [f"scale: {kind.transform}"] if kind.transform != "auto" else []


def _bounds(low: float | None, high: float | None, form: str = ",g") -> Iterator[str]:
    if low is not None or high is not None:
        said = [("from", low), ("to", high)]
        yield " ".join(f"{word} {format(bound, form)}" for word, bound in said if bound is not None)


def _of_text(kind: Text) -> Iterator[str]:
    yield from [f"in {kind.language}" if kind.language else "in no language"] if kind.language is not None else []
    low, high = kind.min_length, kind.max_length
    if high is not None:
        yield counted(high, "character", "characters") if low == high else f"{low} to {high} characters"
    elif low:
        yield f"at least {counted(low, 'character', 'characters')}"


def _of_labels(kind: Category) -> Iterator[str]:
    if kind.values:
        more = f", … ({len(kind.values):,})" if len(kind.values) > SHOWN else ""
        sign = " < " if kind.ordered else " | " if kind.closed else ", "
        yield sign.join(map(_label, kind.values[:SHOWN])) + more
        if not kind.closed:
            yield "or others"


def _label(label: Any) -> str:
    text = str(label).lower() if isinstance(label, bool) else str(label)
    return text if len(text) <= 24 else text[:23] + "…"


def _of_fields(kind: Kind) -> Iterator[str]:
    """What a dataclass says that does not go without saying; a third party's kind, too."""
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        value = getattr(kind, field.name)
        if value != field.default and value is not None:
            told = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            yield field.name.replace("_", " ") if value is True else f"{field.name.replace('_', ' ')} {told}"


def _of_property(one: Property) -> Iterator[str]:
    yield from [{"given": "given: never predicted", "ignore": "ignored"}[one.role]] if one.role != "value" else []
    yield from (name for name in ("required", "unique") if getattr(one, name))
    yield from [f"of several: {one.many}"] if one.many else []
    yield from [f"missing: {' '.join(map(repr, one.missing))}"] if one.missing else []
    yield from [f"no value: {' '.join(map(repr, one.novalue))}"] if one.novalue else []
    yield from [f"= {one.formula.text}"] if one.formula else []
    yield from [f"depends on {' and '.join(map(show, one.depends))}"] if one.depends else []
