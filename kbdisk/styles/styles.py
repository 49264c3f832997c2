"""Styles: the habits of a knowledge base, learnt from its values, and new values written the same way.

Sets, lists and maps are walked through here; a single value has a row in `kinds`. Paths of habits are those of the schema, with
EACH for any place in a list or map. Where a value is given in part, the given part stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

from kbdisk.entity import NOVALUE, Coordinate, Entity, Known, Link, Path, Tree, at, show, with_values
from kbdisk.schemas.composites import EACH, Kind
from kbdisk.schemas.composites.base import apply_kind, split_kind
from kbdisk.schemas.composites.coordinate import Coordinate as CoordinateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Set
from kbdisk.schemas.property import Property, apply_property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.styles import kinds
from kbdisk.styles.habits import Habit
from kbdisk.styles.kinds import is_same, no_place, style_of, tolerance

MAX_OBSERVED_VALUES = 2000  # of a property that is filled in its own source
MAX_CACHED = 1 << 16  # written values
MAX_OBSERVED_OF_ALL = 500  # of each property of a model, which fills other sources in the form of most values
NO_HABIT = Habit()

Put: TypeAlias = dict[Path, Any]  # raw values by their paths within a value; () is the value itself


@dataclass(frozen=True)
class Styles:
    """The habits of each class. Their size is bounded by the schema, however many entities there are."""

    schema: Schema
    habits: dict[str, ClassHabits] = field(default_factory=dict)  # by class

    @classmethod
    def learn(cls, schema: Schema, entities: Iterable[Entity], most: int = MAX_OBSERVED_OF_ALL) -> Styles:
        """Observe the first values of every property, as they were read, in one pass over the entities."""
        by_kind = ClassHabits().by_kind
        habits = {name: ClassHabits(by_kind=by_kind) for name in schema.classes}
        counts: Counter[tuple[str, Path]] = Counter()
        for entity in entities:
            entity_class = schema.class_of(entity)
            if entity_class is None:
                continue
            name = entity_class.name
            for path, property in entity_class.beginning(entity.tree):
                if counts[name, path] < most and _has_value(schema, property, entity, path):
                    counts[name, path] += 1
                    habits[name].observe(path, property.kind, at(entity.tree, path))
        return cls(schema, habits)

    @classmethod
    def learn_property(cls, schema: Schema, entity_class: Class, path: Path, entities: Iterable[Entity]) -> Styles:
        """Observe the first values of one property, as they were read, in entities of its class."""
        property, habits = entity_class.properties[path], ClassHabits()
        having = (
            entity for entity in entities if path[0] in entity.tree and _has_value(schema, property, entity, path)
        )
        for entity in islice(having, MAX_OBSERVED_VALUES):
            habits.observe(path, property.kind, at(entity.tree, path))
        return cls(schema, {entity_class.name: habits})

    def place(self, entity: Entity, path: Path, value: Any) -> Put:
        """Raw values by their paths in an entity as it was read, which give a property a value in the form of its siblings.

        For a value that is given in part these are the missing parts; for a value that is given there are none. ValueError,
        with the reason, where given values would have to change, or where no form of the siblings can express the value. An
        empty string that is no value by the schema is replaced.
        """
        entity_class, property = self._property(entity, path)
        raw = _raw_at(entity.tree, path)
        if raw is not None and self._is_blank(property, raw):
            raw = None
        beside = bool(getattr(entity.source, "adds_beside", False))
        put = fill(self.habits[entity_class.name], path, property.kind, raw, value, beside=beside)
        self._check_read_back(property, raw, put, value)
        return {(*path, *within): raw_value for within, raw_value in put.items()}

    def restyled(self, entity: Entity) -> Entity:
        """An entity whose values, in the schema's form, are written as their siblings are, wherever that is possible."""
        entity_class = self.schema.class_of(entity)
        tree = entity.tree
        for path, property in entity_class.beginning(tree) if entity_class else ():
            value = _raw_at(tree, path)
            if value is None or property.role == "ignore":
                continue
            without = replace(entity, tree=with_values(tree, {path: None}))
            with suppress(ValueError):
                tree = with_values(tree, self.place(without, path, value))
        return replace(entity, tree=tree)

    def to_json(self) -> dict[str, Any]:
        """The habits of every class as plain data, and those of every kind, which all classes share."""
        by_kind = next((class_habits.by_kind for class_habits in self.habits.values()), {})
        classes = {
            name: [[list(path), habit.to_json()] for path, habit in class_habits.by_path.items()]
            for name, class_habits in self.habits.items()
        }
        return {"classes": classes, "usual": {kind: habit.to_json() for kind, habit in by_kind.items()}}

    @classmethod
    def from_json(cls, schema: Schema, data: Mapping[str, Any]) -> Styles:
        """The styles of plain data, for the same schema; an error of some kind where the data is malformed."""
        by_kind = {str(kind): Habit.from_json(habit) for kind, habit in data["usual"].items()}
        habits = {name: ClassHabits() for name in schema.classes}
        for name, rows in data["classes"].items():
            by_path = {
                tuple(key if type(key) is int else str(key) for key in path): Habit.from_json(habit)
                for path, habit in rows
            }
            habits[str(name)] = ClassHabits(by_path, by_kind)
        return cls(schema, habits)

    def _property(self, entity: Entity, path: Path) -> tuple[Class, Property]:
        entity_class = self.schema.class_of(entity)
        property = entity_class.properties.get(path) if entity_class else None
        if entity_class is None or property is None:
            raise ValueError(f"the schema has no property {show(path)} for it")
        return entity_class, property

    def _is_blank(self, property: Property, raw: Any) -> bool:
        """Whether an empty string stands for no value. Other spellings of a gap, and values that do not fit, are a ValueError."""
        try:
            applied = apply_property(property, raw, self.schema.missing)
        except ValueError as error:
            raise ValueError(f"what stands there does not fit: {error}") from None
        if isinstance(applied, Known):
            known = "there is none" if applied is NOVALUE else "there is one, and not which"
            raise ValueError(f"it is known that {known}")
        if applied is None and raw != "" and not isinstance(raw, dict | list):
            raise ValueError(f"{raw!r} stands there for a gap, and would have to go")
        return applied is None and raw == ""

    def _check_read_back(self, property: Property, raw: Any, put: Put, value: Any) -> None:
        """ValueError for a value that would be read as another, such as a label that is spelt like a gap."""
        after = with_values({"": raw}, {("", *within): raw_value for within, raw_value in put.items()})[""]
        read = apply_property(property, after, self.schema.missing)
        if read is None or isinstance(read, Known):
            raise ValueError(f"{after!r} would be read as a gap")
        if not holds(property.kind, read, value):
            raise ValueError(f"{after!r} would be read as something else")


class SourceStyles:
    """The styles of a source. It places values as the result of `Styles.learn` does.

    A property's style is learnt when a value is first placed there: most completions write values of few properties. Of entities
    in a scratch file all styles are learnt at once, as each pass reads the whole file. The written form of a value is cached, as
    many entities get the same label.
    """

    def __init__(self, schema: Schema, entities: Sequence[Entity]) -> None:
        self.schema, self.entities = schema, entities
        self._of_property: dict[tuple[str, Path], Styles] = {}  # by class and path
        self._written: dict[tuple[str, Path, bool, str], Put] = {}  # by class, path, source and value

    def place(self, entity: Entity, path: Path, value: Any) -> Put:
        """Raw values by their paths in an entity as it was read; see `Styles.place`."""
        entity_class = self.schema.class_of(entity)
        if entity_class is None or path not in entity_class.properties:
            return self._of_all.place(entity, path, value)
        key = entity_class.name, path
        if key not in self._of_property:
            self._of_property[key] = self._learn(entity_class, path)
        place = self._of_property[key].place
        if _raw_at(entity.tree, path) is not None:
            return place(entity, path, value)
        known = *key, bool(getattr(entity.source, "adds_beside", False)), repr(value)
        put = self._written.get(known)
        if put is None:
            put = place(entity, path, value)
            is_single = not any(isinstance(raw, list | dict) for raw in put.values())
            if is_single and len(self._written) < MAX_CACHED:
                self._written[known] = put
        return dict(put)

    def _learn(self, entity_class: Class, path: Path) -> Styles:
        """The styles of one property, or of all.

        Where it has no observed value, its values are written as others of their kind, which needs the styles of all properties.
        """
        if not isinstance(self.entities, list):
            return self._of_all
        styles = Styles.learn_property(self.schema, entity_class, path, self._entities_of[entity_class.name])
        habits = styles.habits[entity_class.name]
        inner_kinds = _single_kinds(path, entity_class.properties[path].kind)
        is_complete = all(habits.at(inner).forms or not style_of(kind).shared for inner, kind in inner_kinds)
        return styles if is_complete else self._of_all

    @cached_property
    def _of_all(self) -> Styles:
        most = MAX_OBSERVED_OF_ALL if isinstance(self.entities, list) else MAX_OBSERVED_VALUES
        return Styles.learn(self.schema, self.entities, most)

    @cached_property
    def _entities_of(self) -> Mapping[str, Sequence[Entity]]:
        """The entities of each class."""
        by_class: dict[str, list[Entity]] = {name: [] for name in self.schema.classes}
        for entity in self.entities:
            if (entity_class := self.schema.class_of(entity)) is not None:
                by_class[entity_class.name].append(entity)
        return by_class


def _single_kinds(path: Path, kind: Kind) -> Iterator[tuple[Path, Kind]]:
    """The kinds of single values in a value of a kind, with the paths of their habits."""
    match kind:
        case Set():
            yield from _single_kinds((*path, EACH), kind.of)
        case Listed() | Mapped():
            for name, inner in kind.fields.items():
                yield from _single_kinds((*path, EACH, name) if name else (*path, EACH), inner)
        case _:
            yield path, kind


def _has_value(schema: Schema, property: Property, entity: Entity, path: Path) -> bool:
    """Whether an entity has a value at a path, which fits the property."""
    try:
        value = apply_property(property, at(entity.tree, path), schema.missing)
    except (KeyError, ValueError):
        return False
    return value is not None and not isinstance(value, Known)


def _raw_at(tree: Tree, path: Path) -> Any:
    """The value at a path as it was read; None where there is none, and ValueError where there can be none."""
    node: Any = tree
    for length, key in enumerate(path):
        if isinstance(node, list) and isinstance(key, int):
            node = node[key] if key < len(node) else None
        elif isinstance(node, dict) and isinstance(key, str):
            node = node.get(key)
        else:
            raise ValueError(f"{show(path[:length])} is {node!r}, and has no place for {show(path)}")
        if node is None:
            return None
    return node


# ---------------------------------------------------------------- observing


@dataclass(frozen=True, slots=True)
class ClassHabits:
    """The habits of one class by their paths, and those of all values of a kind, which all classes share."""

    by_path: dict[Path, Habit] = field(default_factory=dict)
    by_kind: dict[str, Habit] = field(default_factory=dict)

    def at(self, path: Path) -> Habit:
        """The habit at a path; an empty one where no value was observed."""
        return self.by_path.get(path, NO_HABIT)

    def of_value(self, path: Path, kind: Kind) -> Habit:
        """The habit at a path; that of the kind where no value was observed at the path."""
        habit = self.at(path)
        is_shared = not habit.forms and style_of(kind).shared
        return self.by_kind.get(type(kind).__name__, habit) if is_shared else habit

    def observe(self, path: Path, kind: Kind, raw: Any) -> None:
        """Observe a value that fits, and all values within it."""
        match kind:
            case Set():
                for member in self._known_items(path, raw):
                    self.observe((*path, EACH), kind.of, member)
            case Listed():
                for item in self._known_items(path, raw):
                    self._observe_item((*path, EACH), kind, item)
            case Mapped():
                for key, entry in raw.items():
                    if key[:1] != "@" and entry is not None:
                        self._observe_item((*path, EACH), kind, entry)
            case _:
                is_alone = not isinstance(raw, list) or is_pair(kind, raw)
                for value in self._known_items(path, [raw] if is_alone else raw, is_alone):
                    if _fits(kind, value):
                        self._observe_value(path, kind, value)

    def _observe_item(self, path: Path, kind: Listed | Mapped, item: Any) -> None:
        if "" in kind.fields:
            self.observe(path, kind.fields[""], item)
        elif item == []:
            self._habit(path).empty += 1  # an empty part, as PHP writes it
        elif isinstance(item, dict):
            self._habit(path).observe_keys(tuple(key for key in item if key in kind.fields))
            for key, inner in item.items():
                if key in kind.fields and not (inner is None or inner == [] or isinstance(inner, Known)):
                    self.observe((*path, key), kind.fields[key], inner)

    def _observe_value(self, path: Path, kind: Kind, raw: Any) -> None:
        style = style_of(kind)
        style.observe(kind, raw, self._habit(path))
        if style.shared:
            style.observe(kind, raw, self.by_kind.setdefault(type(kind).__name__, Habit()))

    def _known_items(self, path: Path, raw: Any, is_alone: bool = False) -> list[Any]:
        """The items of a list, or a value that stands for a list of one. Counts single values and empty lists."""
        habit, items = self._habit(path), raw if isinstance(raw, list) else [raw]
        if len(items) == 1 and (is_alone or items is not raw):
            habit.alone += 1
        elif len(items) == 1:
            habit.listed += 1
        habit.empty += not items
        return [item for item in items if not (item is None or isinstance(item, Known))]

    def _habit(self, path: Path) -> Habit:
        return self.by_path.setdefault(path, Habit())


def is_pair(kind: Kind, raw: list[Any]) -> bool:
    """Whether a list is a single value: the two numbers of a coordinate."""
    numbers = len(raw) == 2 and raw != [None, None] and not any(isinstance(item, list | dict) for item in raw)
    return isinstance(kind, CoordinateKind) and numbers


def _fits(kind: Kind, raw: Any) -> bool:
    try:
        apply_kind(kind, raw)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- writing a value of which nothing is given


def write(habits: ClassHabits, path: Path, kind: Kind, value: Any) -> Any:
    """A value as those at its path are written; ValueError where none of their forms can express it."""
    match kind:
        case Set():
            return _as_list(
                [write(habits, (*path, EACH), kind.of, member) for member in members(value)], habits.at(path)
            )
        case Listed():
            return _as_list([write_item(habits, (*path, EACH), kind, item) for item in value], habits.at(path))
        case Mapped():
            return {str(key): write_item(habits, (*path, EACH), kind, entry) for key, entry in value.items()}
    return habits.at(path).wrapped(kinds.write_value(kind, value, habits.of_value(path, kind)))


def write_item(habits: ClassHabits, path: Path, kind: Listed | Mapped, item: Any) -> Any:
    """An item of a list or an entry of a map: a part with its fields, or a value of the one kind."""
    if item is None:
        return None
    if "" in kind.fields:
        return write(habits, path, kind.fields[""], item)
    if item == {} and habits.at(path).empty:
        return []
    if not isinstance(item, dict):
        return item
    known = {key: write_field(habits, path, kind, key, inner) for key, inner in item.items() if inner is not None}
    return habits.at(path).ordered(known)


def write_field(habits: ClassHabits, path: Path, kind: Listed | Mapped, key: str, value: Any) -> Any:
    """The value of a field; the value of an unknown field as it is."""
    return write(habits, (*path, key), kind.fields[key], value) if key in kind.fields else value


def members(value: Any) -> list[Any]:
    """The members of a set, in an order that is always the same."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return list(value) if isinstance(value, list | tuple) else [value]


def _as_list(items: list[Any], habit: Habit) -> Any:
    """A list; a single item alone where most stand alone. ValueError for an empty list where none is empty."""
    if not items and not habit.empty:
        raise ValueError("the list is empty, and this knowledge base has no empty list there")
    return items[0] if len(items) == 1 and habit.alone > habit.listed else items


# ---------------------------------------------------------------- filling a value of which a part is given


def fill(habits: ClassHabits, path: Path, kind: Kind, raw: Any, value: Any, *, beside: bool = False) -> Put:
    """The missing parts of a value; ValueError where the given part differs from it, or has no place for the rest.

    With `beside` a new member of a set can stand beside a single one, as several statements of RDF can.
    """
    if raw is None:
        return {(): write(habits, path, kind, value)}
    if isinstance(raw, Known):
        raise ValueError("it is known only whether there is a value, and nothing can be added")
    match kind:
        case Set():
            return _fill_set(habits, path, kind, raw, members(value), beside=beside)
        case Listed():
            return _fill_list(habits, path, kind, raw, value)
        case Mapped():
            return _fill_map(habits, path, kind, raw, value)
    if isinstance(raw, list) and not is_pair(kind, raw):
        return _fill_wrapped(habits, path, kind, raw, value)
    return kinds.fill_value(kind, raw, value, habits.of_value(path, kind))


def _fill_set(habits: ClassHabits, path: Path, kind: Set, raw: Any, wanted: list[Any], *, beside: bool) -> Put:
    """New members take the blank places, and then follow the last one."""
    items = raw if isinstance(raw, list) else [raw]
    given = [item for item in items if not (item is None or isinstance(item, Known))]
    if any(not _is_among(item, wanted) for item in given):
        raise ValueError(f"{', '.join(map(_shown, given))} is given, and the new members do not include all of it")
    new_members = [member for member in wanted if not _is_among(member, given)]
    if new_members and not (beside or isinstance(raw, list)):
        raise no_place(raw)
    blank = [index for index, item in enumerate(items) if item is None]
    free = [*blank, *range(len(items), len(items) + len(new_members))]
    return {
        (index,): write(habits, (*path, EACH), kind.of, member)
        for index, member in zip(free, new_members, strict=False)
    }


def _fill_list(habits: ClassHabits, path: Path, kind: Listed, raw: Any, value: list[Any]) -> Put:
    """Item by item; new items follow the last one."""
    if not isinstance(raw, list):
        if len(value) != 1:
            raise no_place(raw)
        return _fill_item(habits, (*path, EACH), kind, raw, value[0])
    learnt = len(raw) if kind.most is None else min(len(raw), kind.most)  # no more items of a longer list are learnt
    if len(value) < learnt and raw != [None]:
        raise ValueError(f"{len(raw)} are given, which {len(value)} would change")
    put: Put = {}
    for index, item in enumerate(value):
        given = raw[index] if index < len(raw) else None
        if item is not None:
            put |= _under(index, _fill_item(habits, (*path, EACH), kind, given, item))
    return put


def _fill_map(habits: ClassHabits, path: Path, kind: Mapped, raw: Any, value: dict[str, Any]) -> Put:
    """Entry by entry, by their keys."""
    if not isinstance(raw, dict):
        raise no_place(raw)
    put: Put = {}
    for key, entry in value.items():
        if entry is not None:
            put |= _under(str(key), _fill_item(habits, (*path, EACH), kind, raw.get(str(key)), entry))
    return put


def _fill_item(habits: ClassHabits, path: Path, kind: Listed | Mapped, raw: Any, item: Any) -> Put:
    """An item of a list or an entry of a map, field by field."""
    if raw is None:
        return {(): write_item(habits, path, kind, item)}
    if "" in kind.fields:
        return fill(habits, path, kind.fields[""], raw, item)
    if not isinstance(raw, dict) or not isinstance(item, dict):
        if isinstance(raw, Link) and item == {"@id": raw.id}:
            return {}
        if raw == [] and not item:
            return {}
        raise no_place(raw)
    put: Put = {}
    for key, inner in item.items():
        if inner is None or isinstance(inner, Known):
            continue
        if raw.get(key) is None:
            put[key,] = write_field(habits, path, kind, key, inner)
        elif key in kind.fields:
            put |= _under(key, fill(habits, (*path, key), kind.fields[key], raw[key], inner))
    return put


def _fill_wrapped(habits: ClassHabits, path: Path, kind: Kind, raw: list[Any], value: Any) -> Put:
    """A single value in a list: in the blank place, or in the item that has some of its parts."""
    given = [index for index, item in enumerate(raw) if item is not None]
    if len(given) == 1 and isinstance(raw[given[0]], dict):
        return _under(given[0], fill(habits, path, kind, raw[given[0]], value))
    if given or not (raw or habits.at(path).listed):
        raise no_place(raw)
    written = write(habits, path, kind, value)
    if isinstance(value, Coordinate) and isinstance(written, list) and is_pair(kind, written):
        return {(index,): degrees for index, degrees in enumerate(written)}
    return {(0,): written[0] if isinstance(written, list) and not is_pair(kind, written) else written}


def _under(key: str | int, put: Put) -> Put:
    return {(key, *within): raw for within, raw in put.items()}


def _is_among(value: Any, others: list[Any]) -> bool:
    return any(is_same(value, other) for other in others)


def _shown(value: Any) -> str:
    return value.id if isinstance(value, Link) else str(value)


# ---------------------------------------------------------------- reading back


def holds(kind: Kind, read: Any, value: Any) -> bool:
    """Whether a value that was read contains all known parts of another; both are in the schema's form.

    A list may have more items than are learnt, and a map may have other keys.
    """
    if value is None or isinstance(value, Known):
        return True
    if read is None or isinstance(read, Known):
        return False
    match kind:
        case Set():
            return is_same(members(value), members(read))
        case Listed():
            return len(read) >= len(value) and all(_holds_item(kind, *pair) for pair in zip(read, value, strict=False))
        case Mapped():
            return all(str(key) in read and _holds_item(kind, read[str(key)], entry) for key, entry in value.items())
    parts, near = split_kind(kind, read), tolerance(kind)
    return all(path in parts and is_same(leaf, parts[path], near) for path, leaf in split_kind(kind, value).items())


def _holds_item(kind: Listed | Mapped, read: Any, item: Any) -> bool:
    if item is None:
        return True
    if "" in kind.fields:
        return holds(kind.fields[""], read, item)
    if not isinstance(item, dict) or not isinstance(read, dict):
        return bool(read == item)
    return all(
        holds(kind.fields[key], read.get(key), inner) if key in kind.fields else inner in (None, read.get(key))
        for key, inner in item.items()
    )
