"""The scale of each unit, from training entities: amounts of one property are learnt in one unit.

Where the schema or the table of common units says what one unit is in another, that is its factor. Currencies, and units
that nobody knows, get a factor from the data: the ratio of typical amounts, given the entity's class, as far as it is
significant; else 1, so that their amounts are learnt together. All classes that have a property learn it in the same unit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np

from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading, read_all
from kbdisk.entity import Entity, Path
from kbdisk.entity import Quantity as Amount
from kbdisk.schemas.composites.amounts import map_amounts, map_quantities
from kbdisk.schemas.composites.quantity import Quantity, Scale
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.units import Conversion, conversion

MIN_AMOUNTS = 5  # of a unit, by which its level is estimated
SIGNIFICANT = 3.0  # standard errors by which two levels differ
MEDIAN = math.sqrt(math.pi / 2)  # the standard error of a median over that of a mean
PRIOR = 3.0  # the standard deviation of log factors: rates of currencies span e^-10 to e
ROUNDS = 10  # of fitting classes and units in turn
MOST_AMOUNTS = 20_000  # of a property: more tell no more


@dataclass
class Amounts:
    """The amounts at one place, of all classes."""

    units: Counter[str] = field(default_factory=Counter)
    decimals: dict[str, int] = field(default_factory=dict)  # the most that an amount of a unit has
    logs: list[tuple[str, str, float]] = field(default_factory=list)  # unit, class, log of the amount

    def see(self, of: str, unit: str, amount: Any) -> None:
        """Take note of an amount."""
        self.units[unit] += 1
        self.decimals[unit] = max(self.decimals.get(unit, 0), _decimals(amount))
        if amount > 0 and len(self.logs) < MOST_AMOUNTS:
            self.logs.append((unit, of, math.log(amount)))


def with_scales(
    schema: Schema, training: Sequence[Reading], validation: Sequence[Reading] = ()
) -> tuple[Schema, list[Reading], list[Reading]]:
    """The schema whose quantities in several units know what each is learnt as, and all entities as that reads them."""
    scaled = scaled_schema(schema, (reading.entity for reading in training))
    if scaled is schema:
        return schema, list(training), list(validation)
    anew = [list(read_all(scaled, (reading.entity for reading in side))) for side in (training, validation)]
    return scaled, anew[0], anew[1]


def scaled_schema(schema: Schema, entities: Iterable[Entity]) -> Schema:
    """The schema with the scales of these entities; itself where all quantities have one unit."""
    wanted: dict[Path, list[Quantity]] = {}

    def found(path: Path, kind: Quantity) -> Quantity:
        wanted.setdefault(path, []).append(kind)
        return kind

    _changed(schema, found)
    needed = _needed_by_formulas(schema)
    seen = {
        place: Amounts()
        for place, kinds in wanted.items()
        if _is_mixed(kinds) and (len({kind.learnt_in for kind in kinds}) == 1 or place not in needed)
    }
    if not seen:
        return schema
    _gather(schema, entities, seen)
    scales = {place: scales_of(wanted[place], amounts) for place, amounts in seen.items()}
    return _changed(schema, lambda path, kind: replace(kind, scales=scales[path]) if path in scales else kind)


def _needed_by_formulas(schema: Schema) -> set[Path]:
    """Where formulas take amounts from, which are in the unit of each class."""
    formulas = (one.formula for of in schema.classes.values() for one in of.properties.values() if one.formula)
    paths = {pattern(path) for formula in formulas for path in formula.paths}
    return {*paths, *(path[:-1] for path in paths)}


def without_scales(schema: Schema) -> Schema:
    """The schema as it was before training."""
    return _changed(schema, lambda path, kind: replace(kind, scales={}) if kind.scales else kind)


def _changed(schema: Schema, change: Callable[[Path, Quantity], Quantity]) -> Schema:
    """The schema with each quantity that is learnt replaced."""

    def changed(properties: Mapping[Path, Property]) -> dict[Path, Property]:
        return {
            path: one if one.role == "ignore" else replace(one, kind=map_quantities(one.kind, change, path))
            for path, one in properties.items()
        }

    classes = {name: replace(of, properties=changed(of.properties)) for name, of in schema.classes.items()}
    return replace(
        schema, classes=classes, properties=None if schema.properties is None else changed(schema.properties)
    )


def _gather(schema: Schema, entities: Iterable[Entity], seen: Mapping[Path, Amounts]) -> None:
    """Take note of the amounts of entities."""
    tops = {place[:length] for place in seen for length in range(1, len(place) + 1)}
    for entity in entities:
        of = schema.class_of(entity)
        for path, one, value in schema.applied(of, entity) if of is not None else ():
            if path not in tops:
                continue

            def see(within: Path, kind: Quantity, amount: Amount, name: str = of.name, path: Path = path) -> Amount:  # type: ignore[union-attr]
                found = seen.get(pattern((*path, *within)))
                if found is not None and amount.unit is not None and amount.value is not None:
                    found.see(name, amount.unit, amount.value)
                return amount

            map_amounts(one.kind, value, see)


def scales_of(kinds: list[Quantity], amounts: Amounts) -> dict[str, Scale]:
    """The scale of each unit of a property; the unit that it is learnt in comes first."""
    units = {unit: amounts.units[unit] for kind in kinds for unit in kind.units()} | amounts.units
    if not units:
        return {}
    main = _main(kinds, units)
    known = {unit: told for unit in units if (told := _known(kinds, unit, main)) is not None}
    every = {**known, **_estimated(main, known, units, amounts)}
    order = sorted(every, key=lambda unit: (unit != main, -units[unit], unit))
    return {unit: Scale(*every[unit], amounts.decimals.get(unit)) for unit in order}


def _main(kinds: list[Quantity], units: Mapping[str, int]) -> str:
    """The unit that all classes learn in: their own where they have one and the same, else the most frequent."""
    told = {kind.unit for kind in kinds}
    if len(told) == 1 and (unit := next(iter(told))) is not None:
        return unit
    ones = {unit for kind in kinds if kind.unit is None for unit, factor in kind.factors.items() if factor == 1}
    return next(iter(ones)) if len(ones) == 1 and told == {None} else max(units, key=lambda unit: (units[unit], unit))


def _known(kinds: list[Quantity], unit: str, main: str) -> Conversion | None:
    """How amounts of a unit become amounts of the main one, by a schema or by the table of common units."""
    for kind in kinds:
        one, other = kind.conversion(unit), kind.conversion(main)
        if unit in kind.units() and main in kind.units() and one is not None and other is not None:
            return Conversion(one.factor / other.factor, (one.offset - other.offset) / other.factor)
    return conversion(unit, main)


def _estimated(
    main: str, known: Mapping[str, Conversion], units: Mapping[str, int], amounts: Amounts
) -> dict[str, Conversion]:
    """Factors of units by their amounts, beside those of units that are known."""
    rest = [unit for unit in units if unit not in known]
    if not rest:
        return {}
    rows = [(unit if unit in rest else main, of, log + math.log(known[unit].factor) if unit in known else log) for unit, of, log in amounts.logs]  # fmt: skip
    levels, spread, counts = levels_of(rows)
    found = {}
    for unit in rest:
        few = min(counts[unit], counts[main])
        if few < MIN_AMOUNTS:
            found[unit] = Conversion()
            continue
        error = MEDIAN * spread * math.sqrt(1 / counts[unit] + 1 / counts[main])
        difference = levels[main] - levels[unit]
        shrunk = difference * PRIOR**2 / (PRIOR**2 + error**2)
        found[unit] = (
            Conversion(float(f"{math.exp(shrunk):.4g}")) if abs(difference) > SIGNIFICANT * error else Conversion()
        )
    return found


def levels_of(rows: list[tuple[str, str, float]]) -> tuple[dict[str, float], float, Counter[str]]:
    """The level of each unit: medians of classes and of units are fitted in turn. The spread of the rest; how many there are."""
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
    rest = logs - offset - effect
    spread = float(np.median(np.abs(rest))) / 0.6745 if len(rest) else 0.0
    return level, max(spread, 1e-3), Counter(units)


def _groups(names: list[str]) -> dict[str, Any]:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return {name: np.array(own) for name, own in places.items()}


def _is_mixed(kinds: list[Quantity]) -> bool:
    """Whether amounts come in several units, of which not all become the main one anyway."""
    units = {unit for kind in kinds for unit in kind.units()}
    return (len(units) > 1 or any(kind.any_unit for kind in kinds)) and not any(kind.normal for kind in kinds)


def _decimals(amount: Any) -> int:
    """How many decimals an amount is written with."""
    exponent = Decimal(repr(amount) if isinstance(amount, float) else amount).normalize().as_tuple().exponent
    return max(0, -int(exponent)) if isinstance(exponent, int) else 0
