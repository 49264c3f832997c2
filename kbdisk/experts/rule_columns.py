"""From entities to columns in which rules are searched for, and the rules of a source.

A property is one column across all classes that have it. A date is a day number with its year, month and day beside it;
a quantity is its number where it is in the most frequent unit; a list of parts is its series of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np

from kbdisk.data.parse import Reading, read_all
from kbdisk.entity import Coordinate, Date, Entity, Link, Path, Quantity, Text
from kbdisk.entity import Known as Marked
from kbdisk.experts.rules import MIN_SUPPORT, SECONDS, SIGNIFICANCE, Array, Column, Derived, Links, Match, Table, search
from kbdisk.schemas.infer import Inference
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.rules import DATED, SERIES, Rule, by_date, number_of, of_series, order_of, plain, series_at, text_of
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.calendars import day_number  # fmt: skip
from kbdisk.schemas.text.numerals import as_decimal

MAX_ROWS = 20_000  # entities that are searched; of more a sample
MAX_DECIMALS = 8  # of numbers with a fixed last digit; others are floating-point numbers
MAX_CLASSES = 10  # searched by themselves, the largest
MIN_CLASS = 3 * MIN_SUPPORT  # entities
MAX_FIELDS = 12  # of the parts of a list
MAX_EXAMPLES = 3
YEARS = (1000, 2200)  # whole numbers among which a list's parts may be ordered in time


@dataclass(frozen=True)
class Offered:
    """A rule of a source, with the ids of some entities that are exceptions."""

    rule: Rule
    examples: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The exceptions that are named."""
        return f"not of {', '.join(self.examples)}" if self.examples else ""


def find_rules(schema: Schema, entities: Iterable[Entity | Reading], seconds: float = SECONDS) -> list[Offered]:
    """The rules that hold in a source, and beside them those that hold in a class alone."""
    rows = Rows.of(schema, entities)
    sizes = Counter(rows.classes)
    large = [name for name, count in sizes.most_common(MAX_CLASSES) if count >= MIN_CLASS] if len(sizes) > 1 else []
    significance = SIGNIFICANCE / (1 + len(large))
    table = rows.table()
    of_all_classes = search(table, seconds / (2 if large else 1), significance=significance)
    offered = [_offered(match, rows.ids) for match in of_all_classes]
    known = {_key(offer.rule) for offer in offered}
    for name in large:
        at = np.array([row for row, class_name in enumerate(rows.classes) if class_name == name])
        class_table = _without_ruled(table.at(at), of_all_classes, at)
        for match in search(class_table, seconds / 2 / len(large), significance=significance, thorough=False):
            if _key(match.rule) not in known:
                ids = [rows.ids[row] for row in at]
                offered.append(_offered(replace(match, rule=replace(match.rule, class_name=name)), ids))
    order = {path: place for place, path in enumerate(rows.paths)}
    return sorted(offered, key=lambda offer: order.get(offer.rule.target, len(order)))


def inference_with_rules(inference: Inference, entities: Iterable[Entity], seconds: float = SECONDS) -> Inference:
    """An inferred schema with the rules that hold in its source, and some exceptions of each."""
    offered = find_rules(inference.schema, entities, seconds)
    schema = replace(inference.schema, rules=tuple(offer.rule for offer in offered))
    return replace(inference, schema=schema, rule_notes=tuple(offer.note for offer in offered))


def _without_ruled(table: Table, of_all_classes: Sequence[Match], at: Array) -> Table:
    """A class's rows, where a property is no target that rules of all classes give for one of its entities."""
    ruled = {match.rule.target for match in of_all_classes if np.isin(match.applies, at).any()}
    columns = [replace(column, is_target=column.is_target and column.path not in ruled) for column in table.columns]
    return replace(table, columns=columns)


def _offered(match: Match, ids: Sequence[str]) -> Offered:
    return Offered(match.rule, tuple(dict.fromkeys(ids[row] for row in match.examples))[:MAX_EXAMPLES])


def _key(rule: Rule) -> tuple[Path, str, tuple[Path, ...]]:
    return rule.target, rule.kind, rule.of


@dataclass
class Rows:
    """The values of entities by property, in the form of their kinds."""

    ids: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    values: list[Mapping[Path, Any]] = field(default_factory=list)
    paths: dict[Path, bool] = field(default_factory=dict)  # whether the property may be filled

    @classmethod
    def of(cls, schema: Schema, entities: Iterable[Entity | Reading]) -> Rows:
        """The entities that the schema has a class for, or a random sample of them."""
        rows = cls()
        for of_class in schema.classes.values():
            for path, property in of_class.properties.items():
                fills = property.role == "value" and property.formula is None
                rows.paths[path] = rows.paths.get(path, False) or fills
        sequence = entities if isinstance(entities, Sequence) else list(entities)
        has_class = (isinstance(entity, Reading) or schema.class_of(entity) is not None for entity in sequence)
        places = np.flatnonzero(np.fromiter(has_class, bool, len(sequence)))
        if len(places) > MAX_ROWS:
            places = places[np.sort(np.random.default_rng(0).permutation(len(places))[:MAX_ROWS])]
        for reading in read_all(schema, (sequence[place] for place in places.tolist())):
            rows.ids.append(reading.id)
            rows.classes.append(reading.class_name)
            rows.values.append(values_in(schema, reading))
        return rows

    def table(self) -> Table:
        """Columns, series and links."""
        coder = _Coder()
        ids = np.array([coder.code(Link(id)) for id in self.ids], dtype=np.int64)
        columns: list[Column] = []
        derived: list[Derived] = []
        links: dict[Path, Links] = {}
        row_of = {int(code): row for row, code in enumerate(ids)}
        size = len(self.ids)
        for path, fills in self.paths.items():
            places = np.array([row for row, values in enumerate(self.values) if path in values])
            if len(places) < MIN_SUPPORT:
                continue
            cells = [self.values[row][path] for row in places]
            columns += [_scattered(column, places, size) for column in coder.columns(path, cells, fills)]
            if (edges := _edges(cells, places, coder, row_of)) is not None:
                links[path] = edges
            for series in coder.series(path, cells):
                derived.append(replace(series, column=_scattered(series.column, places, size)))
        return Table(size, columns, derived, links, ids)


def values_of(schema: Schema, entity: Entity) -> dict[Path, Any]:
    """An entity's values by property, without gaps and values that are marked as unknown or absent."""
    entity_class = schema.class_of(entity)
    if entity_class is None:
        return {}
    return {
        path: _linked(property.kind, value)
        for path, property, value in schema.applied(entity_class, entity)
        if value is not None and not isinstance(value, Marked)
    }


def values_in(schema: Schema, reading: Reading) -> dict[Path, Any]:
    """The values of `values_of`, of an entity that was read."""
    properties = schema.classes[reading.class_name].properties
    return {path: _linked(properties[path].kind, value) for path, value in reading.values.items()}


def _linked(kind: Any, value: Any) -> Any:
    """A value with links as links, where they were read as ids."""
    inner = kind.of if isinstance(kind, Set) else kind
    if not isinstance(inner, LinkKind):
        return value
    if isinstance(value, list):
        return [Link(item) if isinstance(item, str) else item for item in value]
    return Link(value) if isinstance(value, str) else value


def _edges(cells: Sequence[Any], places: Array, coder: _Coder, row_of: Mapping[int, int]) -> Links | None:
    sources, codes = [], []
    for row, cell in zip(places, cells, strict=True):
        for link in cell if isinstance(cell, list) else (cell,):
            if isinstance(link, Link):
                sources.append(row)
                codes.append(coder.code(link))
    if not sources:
        return None
    targets = [row_of.get(code, -1) for code in codes]
    return Links(*(np.array(part, dtype=np.int64) for part in (sources, codes, targets)))


class _Coder:
    """Gives equal values equal codes, in all columns of a table."""

    def __init__(self) -> None:
        self.vocabulary: dict[Any, int] = {}

    def code(self, value: Any) -> int:
        """The code of a value; -1 of one that has none."""
        key = plain(value)
        return -1 if key is None else self.vocabulary.setdefault((type(key), key), len(self.vocabulary))

    def columns(self, path: Path, cells: Sequence[Any], fills: bool) -> list[Column]:
        """The column of a property, and those of the parts of a date or a coordinate."""
        if any(isinstance(cell, Date) for cell in cells):
            return self._dates(path, cells, fills)
        columns = [self.column(path, cells, fills)]
        if any(isinstance(cell, Coordinate) for cell in cells):
            for part in ("latitude", "longitude"):
                inner = [getattr(cell, part, None) for cell in cells]
                columns.append(self.column((*path, part), inner, False))
        return columns

    def column(self, path: Path, cells: Sequence[Any], fills: bool) -> Column:
        """A column of any values."""
        units = Counter(cell.unit for cell in cells if isinstance(cell, Quantity))
        unit = units.most_common(1)[0][0] if units else None
        numbers: list[Any] = [
            None if isinstance(cell, Quantity) and cell.unit != unit else number_of(cell) for cell in cells
        ]
        codes = np.array([self.code(cell) for cell in cells], dtype=np.int64)
        texts = _texts(cells)
        if sum(number is not None for number in numbers) < MIN_SUPPORT:
            return Column(path, codes, texts=texts, is_target=fills)
        values, tolerance, decimals = with_tolerance(numbers)
        return Column(path, codes, values, tolerance, decimals, "number", texts, fills)

    def _dates(self, path: Path, cells: Sequence[Any], fills: bool) -> list[Column]:
        codes = np.array([self.code(cell) for cell in cells], dtype=np.int64)
        none = np.zeros(len(cells))
        days = [day_number(cell) for cell in cells]
        years = [cell.year if isinstance(cell, Date) else None for cell in cells]
        if sum(day is not None for day in days) < MIN_SUPPORT:
            alone = [number_of(cell) if isinstance(cell, Date) else None for cell in cells]
            return [Column(path, codes, _floats(alone), none, 0, "year", _texts(cells), fills)]
        columns = [Column(path, codes, _floats(days), none, 0, "day", _texts(cells), fills, determines=False)]
        parts = [("year", years), *((part, [getattr(cell, part, None) for cell in cells]) for part in ("month", "day"))]
        for part, inner in parts:
            numbers = np.array([self.code(number) for number in inner], dtype=np.int64)
            columns.append(Column((*path, part), numbers, _floats(inner), none + 0.5, 0, is_target=False, determines=False))  # fmt: skip
        return columns

    def series(self, path: Path, cells: Sequence[Any]) -> list[Derived]:
        """The series of the lists at a path: by each field, and by each field in the order of each field of times."""
        places = np.array([row for row, cell in enumerate(cells) if isinstance(cell, list)])
        rows = [{path: cells[row]} for row in places]
        if len(rows) < MIN_SUPPORT:
            return []
        names: Counter[str] = Counter(
            key for row in rows for item in row[path] if isinstance(item, dict) for key in item
        )
        fields = [(*path, name) for name, _ in names.most_common(MAX_FIELDS) if name[:1] != "@"] or [path]
        items_of = {name_path: [series_at(row, name_path) for row in rows] for name_path in fields}
        derived = self._derived("count", (path,), [len(row[path]) for row in rows])
        for name_path in fields:
            for kind, choose in SERIES.items():
                if kind != "count":
                    derived += self._derived(
                        kind, (name_path,), [of_series(items, choose) for items in items_of[name_path]]
                    )
            for date in fields:
                if date != name_path and _is_time(items_of[date]):
                    for kind, choose in DATED.items():
                        inner = [
                            by_date(a, b, choose) for a, b in zip(items_of[name_path], items_of[date], strict=True)
                        ]
                        derived += self._derived(kind, (name_path, date), inner)
        return [replace(part, column=_scattered(part.column, places, len(cells))) for part in derived]

    def _derived(self, kind: str, paths: tuple[Path, ...], cells: Sequence[Any]) -> list[Derived]:
        if sum(cell is not None for cell in cells) < MIN_SUPPORT:
            return []
        return [Derived(kind, paths, self.columns(paths[0], cells, False)[0])]


def _scattered(column: Column, places: Array, size: int) -> Column:
    """A column of some rows as one of all."""
    parts: dict[str, Any] = {}
    for name, missing in (("codes", -1), ("numbers", np.nan), ("tolerance", 0.0), ("texts", None)):
        part = getattr(column, name)
        if part is not None:
            parts[name] = np.full(size, missing, dtype=part.dtype)
            parts[name][places] = part
    return replace(column, **parts)


def _is_time(column: Sequence[Sequence[Any]]) -> bool:
    """Whether a field of parts is a date, or a whole number such as a year."""
    some = [item for items in column for item in items if item is not None][:1000]
    return len(some) >= MIN_SUPPORT and all(
        isinstance(item, Date) or (number_of(item) is not None and YEARS[0] <= (order_of(item) or 0) <= YEARS[1])
        for item in some
    )


def _texts(cells: Sequence[Any]) -> Array | None:
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [text_of(cell) if not isinstance(cell, list | dict) else None for cell in cells]
    return texts if any(isinstance(cell, str | Text) or text is not None for cell, text in zip(cells, texts, strict=True)) else None  # fmt: skip


def _floats(numbers: Sequence[Any]) -> Array:
    return np.array([np.nan if number is None else float(number) for number in numbers])


def with_tolerance(numbers: Sequence[Any]) -> tuple[Array, Array, int | None]:
    """Numbers as floats, half of the last digit that each is written with, and their decimals where these are fixed."""
    values = _floats(numbers)
    written = [None if number is None else _last_digit(as_decimal(number)) for number in numbers]
    decimals = sorted(-last for last in written if last is not None)
    usual = max(decimals[min(int(0.95 * len(decimals)), len(decimals) - 1)], 0)
    if usual <= MAX_DECIMALS:
        places = np.array([usual if last is None else max(-last, usual) for last in written], dtype=float)
        return values, 0.5 * 10.0**-places, usual
    return values, 1e-9 * np.abs(np.nan_to_num(values)), None


def _last_digit(number: Decimal) -> int:
    """The power of ten of the last digit."""
    exponent = number.normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0
