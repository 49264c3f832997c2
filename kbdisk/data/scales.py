"""The scale of each unit, from training entities: amounts of one property are learnt in one unit.

The schema or the table of common units gives the factor of a unit. Currencies and unknown units get a factor from the data:
the ratio of typical amounts, given the entity's class, as far as it is significant; else 1, so that their amounts are learnt
together. All classes that have a property learn it in the same unit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading, read_all
from kbdisk.data.spool import spooled
from kbdisk.entity import Entity, Path
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.amounts import map_amounts, map_quantities
from kbdisk.schemas.composites.quantity import Quantity, Scale
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.units import Conversion, conversion

MIN_AMOUNTS = 5  # of a unit, by which its level is estimated
MIN_STANDARD_ERRORS = 3.0  # by which two levels differ significantly
MEDIAN_ERROR_RATIO = math.sqrt(math.pi / 2)  # the standard error of a median over that of a mean
PRIOR_DEVIATION = 3.0  # of log factors: rates of currencies span e^-10 to e
ROUNDS = 10  # of fitting classes and units in turn
MAX_AMOUNTS = 20_000  # of a property, at most, by which levels are estimated


@dataclass
class Amounts:
    """The amounts at one path, of all classes."""

    units: Counter[str] = field(default_factory=Counter)
    decimals: dict[str, int] = field(default_factory=dict)  # the most that an amount of a unit has
    logs: list[tuple[str, str, float]] = field(default_factory=list)  # unit, class, log of the amount

    def add(self, class_name: str, unit: str, amount: Any) -> None:
        """Add an amount."""
        self.units[unit] += 1
        self.decimals[unit] = max(self.decimals.get(unit, 0), _decimals(amount))
        if amount > 0 and len(self.logs) < MAX_AMOUNTS:
            self.logs.append((unit, class_name, math.log(amount)))


def with_scales(
    schema: Schema,
    training: Sequence[Reading],
    validation: Sequence[Reading] = (),
    folder: FilePath | None = None,
) -> tuple[Schema, Sequence[Reading], Sequence[Reading]]:
    """The schema whose quantities have scales of their units, and the readings of all entities by it; `folder` is for many."""
    scaled = scaled_schema(schema, (reading.entity for reading in training))
    if scaled is schema:
        return schema, training, validation
    read_again = [
        spooled(read_all(scaled, (reading.entity for reading in side)), folder) for side in (training, validation)
    ]
    return scaled, read_again[0], read_again[1]


def scaled_schema(schema: Schema, entities: Iterable[Entity]) -> Schema:
    """The schema with the scales of these entities; itself where all quantities have one unit."""
    quantities: dict[Path, list[Quantity]] = {}

    def collect(path: Path, kind: Quantity) -> Quantity:
        quantities.setdefault(path, []).append(kind)
        return kind

    _with_quantities(schema, collect)
    needed = _needed_by_formulas(schema)
    amounts_at = {
        place: Amounts()
        for place, kinds in quantities.items()
        if _is_mixed(kinds) and (len({kind.learnt_in for kind in kinds}) == 1 or place not in needed)
    }
    if not amounts_at:
        return schema
    _gather(schema, entities, amounts_at)
    scales = {place: scales_of(quantities[place], amounts) for place, amounts in amounts_at.items()}
    return _with_quantities(schema, lambda path, kind: replace(kind, scales=scales[path]) if path in scales else kind)


def _needed_by_formulas(schema: Schema) -> set[Path]:
    """The paths of amounts that formulas use, which are in the unit of each class."""
    properties = (property for schema_class in schema.classes.values() for property in schema_class.properties.values())
    formulas = (property.formula for property in properties if property.formula)
    paths = {pattern(path) for formula in formulas for path in formula.paths}
    return {*paths, *(path[:-1] for path in paths)}


def without_scales(schema: Schema) -> Schema:
    """The schema as it was before training."""
    return _with_quantities(schema, lambda path, kind: replace(kind, scales={}) if kind.scales else kind)


def _with_quantities(schema: Schema, change: Callable[[Path, Quantity], Quantity]) -> Schema:
    """The schema with each quantity that is learnt changed."""

    def changed(properties: Mapping[Path, Property]) -> dict[Path, Property]:
        return {
            path: property
            if property.role == "ignore"
            else replace(property, kind=map_quantities(property.kind, change, path))
            for path, property in properties.items()
        }

    classes = {
        name: replace(schema_class, properties=changed(schema_class.properties))
        for name, schema_class in schema.classes.items()
    }
    return replace(
        schema, classes=classes, properties=None if schema.properties is None else changed(schema.properties)
    )


def _gather(schema: Schema, entities: Iterable[Entity], amounts_at: Mapping[Path, Amounts]) -> None:
    """Add the amounts of entities."""
    tops = {place[:length] for place in amounts_at for length in range(1, len(place) + 1)}
    for entity in entities:
        schema_class = schema.class_of(entity)
        if schema_class is None:
            continue
        for path, property, value in schema.applied(schema_class, entity):
            if path not in tops:
                continue

            def add(
                within: Path, kind: Quantity, amount: Amount, name: str = schema_class.name, path: Path = path
            ) -> Amount:
                amounts = amounts_at.get(pattern((*path, *within)))
                if amounts is not None and amount.unit is not None and amount.value is not None:
                    amounts.add(name, amount.unit, amount.value)
                return amount

            map_amounts(property.kind, value, add)


def scales_of(kinds: list[Quantity], amounts: Amounts) -> dict[str, Scale]:
    """The scale of each unit of a property; the unit that it is learnt in comes first."""
    units = {unit: amounts.units[unit] for kind in kinds for unit in kind.units()} | amounts.units
    if not units:
        return {}
    main = _main(kinds, units)
    known = {unit: to_main for unit in units if (to_main := _known(kinds, unit, main)) is not None}
    conversions = {**known, **_estimated(main, known, units, amounts)}
    order = sorted(conversions, key=lambda unit: (unit != main, -units[unit], unit))
    return {unit: Scale(*conversions[unit], amounts.decimals.get(unit)) for unit in order}


def _main(kinds: list[Quantity], units: Mapping[str, int]) -> str:
    """The unit that all classes learn in: that of the schema where all classes have the same, else the most frequent."""
    stated = {kind.unit for kind in kinds}
    if len(stated) == 1 and (unit := next(iter(stated))) is not None:
        return unit
    base = {unit for kind in kinds if kind.unit is None for unit, factor in kind.factors.items() if factor == 1}
    return next(iter(base)) if len(base) == 1 and stated == {None} else max(units, key=lambda unit: (units[unit], unit))


def _known(kinds: list[Quantity], unit: str, main: str) -> Conversion | None:
    """The conversion of a unit to the main one, by a schema or by the table of common units."""
    for kind in kinds:
        of_unit, of_main = kind.conversion(unit), kind.conversion(main)
        if unit in kind.units() and main in kind.units() and of_unit is not None and of_main is not None:
            return Conversion(of_unit.factor / of_main.factor, (of_unit.offset - of_main.offset) / of_main.factor)
    return conversion(unit, main)


def _estimated(
    main: str, known: Mapping[str, Conversion], units: Mapping[str, int], amounts: Amounts
) -> dict[str, Conversion]:
    """The conversions of units that are not known, by their amounts."""
    unknown = [unit for unit in units if unit not in known]
    if not unknown:
        return {}
    rows = [
        (unit if unit in unknown else main, class_name, log + math.log(known[unit].factor) if unit in known else log)
        for unit, class_name, log in amounts.logs
    ]
    levels, spread, counts = levels_of(rows)
    conversions = {}
    for unit in unknown:
        if min(counts[unit], counts[main]) < MIN_AMOUNTS:
            conversions[unit] = Conversion()
            continue
        error = MEDIAN_ERROR_RATIO * spread * math.sqrt(1 / counts[unit] + 1 / counts[main])
        difference = levels[main] - levels[unit]
        shrunk = difference * PRIOR_DEVIATION**2 / (PRIOR_DEVIATION**2 + error**2)
        conversions[unit] = (
            Conversion(float(f"{math.exp(shrunk):.4g}"))
            if abs(difference) > MIN_STANDARD_ERRORS * error
            else Conversion()
        )
    return conversions


def levels_of(rows: list[tuple[str, str, float]]) -> tuple[dict[str, float], float, Counter[str]]:
    """The level of each unit, the spread of the residuals, and the count of each unit; medians of classes and units in turn."""
    units, classes = [row[0] for row in rows], [row[1] for row in rows]
    logs = np.array([row[2] for row in rows])
    by_unit, by_class = _groups(units), _groups(classes)
    level, effect = dict.fromkeys(by_unit, 0.0), np.zeros(len(rows))
    offset = np.zeros(len(rows))
    for _ in range(ROUNDS):
        for unit, places in by_unit.items():
            level[unit] = float(np.median(logs[places] - effect[places]))
            offset[places] = level[unit]
        for places in by_class.values():
            effect[places] = np.median(logs[places] - offset[places]) if len(places) >= MIN_AMOUNTS else 0.0
    residuals = logs - offset - effect
    spread = float(np.median(np.abs(residuals))) / 0.6745 if len(residuals) else 0.0
    return level, max(spread, 1e-3), Counter(units)


def _groups(names: list[str]) -> dict[str, Any]:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return {name: np.array(own) for name, own in places.items()}


def _is_mixed(kinds: list[Quantity]) -> bool:
    """Whether amounts come in several units, and are not converted to one in any case."""
    units = {unit for kind in kinds for unit in kind.units()}
    return (len(units) > 1 or any(kind.any_unit for kind in kinds)) and not any(kind.normal for kind in kinds)


def _decimals(amount: Any) -> int:
    """The number of decimals of an amount."""
    exponent = Decimal(repr(amount) if isinstance(amount, float) else amount).normalize().as_tuple().exponent
    return max(0, -int(exponent)) if isinstance(exponent, int) else 0
