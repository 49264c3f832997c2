"""Sampling: entities drawn from a model, with or without given values.

    class       by its frequency, or as chosen
    pattern     the set of properties: that of a training entity which has all given properties
    network     one network of the ensemble, each as often, so that samples are from their mixture
    values      property by property, in random order or in that of training (Hiding.ordered), each given those before it
                (diffusion.reveal); first values outside of lists, with the lengths of lists, then as many items; no number
                beyond the range of its training values
    formulas    derived properties are computed from drawn values, where these suffice
    tree        by the schema: units, valid dates, decimals, bounds

Properties with the role `given` are never drawn, and free text only on demand: an invented name is worse than none. Values
are drawn without knowledge of the properties that are drawn later: the presence of a property determines the pattern, not
the values.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch

from kbdisk.data import Codec
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import Slot, counts_of
from kbdisk.entity import Entity, Path, Tree, read_path, show, with_values
from kbdisk.errors import ConfigError, SchemaError
from kbdisk.model.beliefs import Beliefs
from kbdisk.model.diffusion import Model, at_once, reveal
from kbdisk.schemas.composites import Composite
from kbdisk.schemas.composites.base import split_kind
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.kinds import Boolean, Category, Number, Set
from kbdisk.schemas.schema import Class, Misfit, derived_values, unknown_to
from kbdisk.schemas.text.names import no_class
from kbdisk.training.optimizer import autocast
from kbdisk.training.trained import Trained

NEW_ID = "new-"  # begins the ids of drawn entities
MIN_SHARE = 1e-9  # of the entities of a class: where no training entity has the given values
SET_SYNTAX = """A set is given as a list, such as '["a", "b"]'."""

Report = Callable[[int, int], None]  # the number of drawn entities, of how many


def sample(
    trained: Trained,
    n: int,
    given: Mapping[Any, Any] | None = None,
    *,
    class_name: str | None = None,
    seed: int = 0,
    leap: int = 1,
    text: bool = False,
    watch: Report | None = None,
) -> Iterator[Entity]:
    """`n` entities, all with the given values by path; the same for the same seed and `n`. Free text only with `text`."""
    if n < 0:
        raise ConfigError("-n", f"expected how many entities to draw, got {n}.")
    if leap < 1:
        raise ConfigError("--leap", f"expected at least 1, got {leap}.")
    trained.refuse_links_alone()
    starts = starts_of(trained, given or {}, class_name, text)
    return _sample(trained, n, starts, seed, leap, text, watch)


def _sample(
    trained: Trained, n: int, starts: list[Start], seed: int, leap: int, text: bool, watch: Report | None
) -> Iterator[Entity]:
    longest = max(len(slots) for start in starts for slots in start.patterns)
    networks = [member.network for member in trained.members]
    rounds = math.ceil(n / at_once(longest) / len(networks)) * len(networks)  # each network draws equally often
    batch = max(math.ceil(n / max(rounds, 1)), 1)
    first = random.Random(f"{seed}").randrange(len(networks))
    for turn, begin in enumerate(range(0, n, batch)):
        draw = random.Random(f"{seed} {turn}")
        generator = torch.Generator(trained.device).manual_seed(draw.getrandbits(62))
        places = range(begin, min(begin + batch, n))
        chosen = draw.choices(starts, [start.entities for start in starts], k=len(places))
        patterns = [set(draw.choices(start.patterns, start.weights)[0]) for start in chosen]
        entities = [
            Entity(f"{NEW_ID}{place + 1}", start.tree, start.classes)
            for place, start in zip(places, chosen, strict=True)
        ]
        network = networks[(first + turn) % len(networks)]
        yield from Drawing(trained, network, draw, generator, leap, text).draw_values(entities, patterns)
        if watch is not None:
            watch(places.stop, n)


# ---------------------------------------------------------------- classes, given values, patterns


@dataclass(frozen=True)
class Start:
    """The start of entities of one class: the given values, and the patterns that they may have."""

    classes: tuple[str, ...]
    tree: Tree  # of given values
    entities: float  # training entities of the class with the given values
    patterns: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]


def starts_of(trained: Trained, given: Mapping[Any, Any], class_name: str | None, text: bool) -> list[Start]:
    """The starts of the classes that can have the given values."""
    values = {path_of(path): value for path, value in given.items()}
    classes = _classes(trained, class_name)
    starts, problems = [], []
    for schema_class in classes:
        try:
            starts.append(_start(trained, schema_class, values, text))
        except SchemaError as error:
            known = sum(any(_overlap(path, property) for property in schema_class.properties) for path in values)
            problems.append((known, error))
    if not starts:
        raise max(problems, key=lambda pair: pair[0])[1]
    return starts


def _classes(trained: Trained, class_name: str | None) -> list[Class]:
    schema, patterns = trained.schema, trained.codec.patterns
    if class_name is None:
        return [schema.classes[name] for name in patterns]
    named = schema.class_of(Entity("", {}, (class_name,))) if class_name else schema.classes.get("")
    if named is None or (named.name != class_name and class_name not in (named.iri, named.name)):
        raise no_class(class_name, schema.classes)
    if named.name not in patterns:
        raise ConfigError("--class", f"no entity that the model was trained on is of the class {class_name!r}.")
    return [named]


def _start(trained: Trained, schema_class: Class, values: Mapping[Path, Any], text: bool) -> Start:
    """The start of entities of a class; SchemaError where they cannot have the given values."""
    codec, name = trained.codec, schema_class.iri or schema_class.name
    leaves = _leaves(trained, schema_class, values)
    slots = {codec.slot(schema_class.name, leaf) for leaf in leaves if not counts_of(leaf)}
    wanted = {number for number in slots if number is not None and codec.slots[number].role == "value"}
    patterns = codec.patterns[schema_class.name]
    fitting = {slots: count for slots, count in patterns.items() if wanted <= set(slots)}
    share = sum(fitting.values()) / sum(patterns.values())
    drawn: Counter[tuple[int, ...]] = Counter()
    for pattern_slots, count in (fitting or patterns).items():
        drawn[tuple(number for number in pattern_slots if text or codec.slots[number].kind != "text")] += count
    if trained.only_draws:
        given = {number for leaf in leaves if (number := codec.slot(schema_class.name, leaf)) is not None}
        _warn_of_order(trained, given, {number for pattern_slots in drawn for number in pattern_slots})
    entities = float(codec.entities[schema_class.name]) * max(share, MIN_SHARE)
    tree = trained.schema.tree(leaves, schema_class.name)
    return Start((name,) if name else (), tree, entities, tuple(drawn), tuple(drawn.values()))


def _warn_of_order(trained: Trained, given: set[int], drawn: set[int]) -> None:
    """Warns where a given property comes after one that is to be drawn."""
    codec = trained.codec
    place = codec.index.layout.order.tolist()
    first = min((place[number] for number in drawn - given), default=len(place))
    late = [show(codec.slots[number].path) for number in sorted(given) if place[number] > first]
    if late:
        advice = "Put it first in the schema, or train with --preset default."
        trained.warn_of_order(f", and {late[0]} comes after what is to be drawn. {advice}", stacklevel=6)


def _leaves(trained: Trained, schema_class: Class, values: Mapping[Path, Any]) -> dict[Path, Any]:
    """The given values, leaf by leaf."""
    schema, codec = trained.schema, trained.codec
    name = schema_class.iri or schema_class.name
    learnt = [path for path, property in schema_class.properties.items() if property.role != "ignore"]
    for path in values:
        if not any(_overlap(path, property) for property in learnt):
            raise SchemaError(f"--given {show(path)}", unknown_to(schema_class, path))
    entity = Entity("", with_values({}, values), (name,) if name else ())
    misfits: list[Misfit] = []
    list(schema.applied(schema_class, entity, misfits))
    for misfit in misfits:
        paths = ", ".join(show(path) for path in values if _overlap(path, misfit.path))
        raise SchemaError(f"--given {paths}", f"{misfit.problem}.")
    leaves = schema.leaves(entity)
    for path, value in values.items():
        if path in schema_class.properties and not any(leaf[: len(path)] == path for leaf in leaves):
            raise SchemaError(f"--given {show(path)}", f"expected a value, got {value!r}, which stands for none.")
        if not any(leaf[: len(path)] == path for leaf in leaves):
            raise SchemaError(f"--given {show(path)}", unknown_to(schema_class, path))
    for path in values:
        leaves_of_path = [leaf for leaf in leaves if leaf[: len(path)] == path]
        if all(codec.slot(schema_class.name, leaf) is None for leaf in leaves_of_path):
            why = codec.left_out.get((schema_class.name, leaves_of_path[0]), "it is no part of what the model learnt")
            raise SchemaError(f"--given {show(path)}", f"nothing is known of it: {why}.")
    return leaves


def _overlap(path: Path, other: Path) -> bool:
    """Whether either path is a prefix of the other."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def path_of(path: Path | str) -> Path:
    """A path, or a path as text."""
    if not isinstance(path, str):
        return path
    try:
        return read_path(path)
    except ValueError as error:
        raise ConfigError("--given", f"{error}.") from None


# ---------------------------------------------------------------- values


class Drawing:
    """Draws the values of some entities in rounds: the items of a list follow its length.

    In between values are leaves, as a map without keys is no tree.
    """

    def __init__(
        self,
        trained: Trained,
        network: Model,
        draw: random.Random,
        generator: torch.Generator,
        leap: int,
        text: bool,
    ) -> None:
        self.trained, self.codec, self.schema = trained, trained.codec, trained.schema
        self.network, self.draw, self.generator, self.leap, self.text = network, draw, generator, leap, text

    def draw_values(self, entities: Sequence[Entity], patterns: Sequence[Iterable[int]]) -> list[Entity]:
        """The entities with their values."""
        readings = [self._read(entity) for entity in entities]
        given = [set(reading.leaves) for reading in readings]
        asks = [self._lacking(reading, slots) for reading, slots in zip(readings, patterns, strict=True)]
        last = [ask & self._last for ask in asks]
        asks = [ask - later for ask, later in zip(asks, last, strict=True)]
        decided: list[set[int]] = [set() for _ in entities]
        while any(asks):
            self._draw(readings, asks)
            asks = [self._items(reading, slots) for reading, slots in zip(readings, decided, strict=True)]
        self._draw(readings, last)
        return [self._entity(*drawn) for drawn in zip(entities, readings, given, strict=True)]

    @property
    def _last(self) -> set[int]:
        """The slots that are drawn after all others: texts, where drawing is in the order of the schema."""
        in_order = self.trained.run.hiding.is_in_order
        return {number for number, slot in enumerate(self.codec.slots) if in_order and slot.kind == "text"}

    def _draw(self, readings: Sequence[Reading], asks: Sequence[set[int]]) -> None:
        """Draw the slots that each entity is asked for, and add their values to its leaves."""
        asked = [reading for reading, ask in zip(readings, asks, strict=True) if ask]
        if not asked:
            return
        slots = iter(filter(None, asks))
        encoding = Encoding(self.codec.index, lambda reading, table: next(slots), None)
        for reading in asked:
            encoding.add(reading)
        tokens, run = encoding.tokens().to(self.trained.device), self.trained.run
        batch = tokens.batch(torch.arange(len(asked)))
        order = tokens.layout.order if run.hiding.is_in_order else "random"
        with autocast(run.train.precision, self.trained.device, run.model.width):  # as in training
            sampled = partial(Beliefs.sample_within_training, generator=self.generator)
            drawn = reveal(self.network, batch, order=order, leap=self.leap, generator=self.generator, say=sampled)
        for reading, leaves in zip(asked, self.codec.leaves(drawn, batch.asked), strict=True):
            longest = _max_lengths(self.codec, reading.class_name)
            for path, value in leaves.items():
                reading.leaves[path] = min(value, longest[path]) if path in longest else value

    def _read(self, entity: Entity) -> Reading:
        reading = read(self.schema, entity)
        assert reading is not None
        return reading

    def _lacking(self, reading: Reading, slots: Iterable[int]) -> set[int]:
        return {number for number in slots if self.codec.slots[number].path not in reading.leaves}

    def _items(self, reading: Reading, decided: set[int]) -> set[int]:
        """The slots of the items of an entity's lists that are asked for; each is decided once.

        A field of an item is asked for as often as items of training entities had it; the parts of a composite together.
        """
        leaves = reading.leaves
        chance: dict[Path, float] = {}
        asked = set()
        for path, number, share in _list_slots(self.codec, reading.class_name):
            if number in decided or not all(leaves.get(count, 0) > place for count, place in counts_of(path)):
                continue
            decided.add(number)
            if path not in leaves and (self.text or self.codec.slots[number].kind != "text"):
                part = path[: _start_of_field(path) + 1]
                if chance.setdefault(part, self.draw.random()) < share:
                    asked.add(number)
        return asked

    def _entity(self, entity: Entity, reading: Reading, given: AbstractSet[Path]) -> Entity:
        """The entity with the tree of its leaves: maps have distinct keys, and its id is where its class has it."""
        schema_class, leaves = self.schema.classes[reading.class_name], dict(reading.leaves)
        for prefix in sorted(maps(schema_class, leaves), key=len, reverse=True):
            drop_repeated_keys(leaves, prefix)
        tree = self.schema.tree(_with_derived(schema_class, leaves, given), reading.class_name)
        if schema_class.id is not None:
            tree = with_values({str(schema_class.id[0]): None} | tree, {schema_class.id: entity.id})
        return replace(entity, tree=tree)


def _with_derived(schema_class: Class, leaves: Mapping[Path, Any], given: AbstractSet[Path]) -> dict[Path, Any]:
    """The leaves of a drawn entity. A drawn property with a formula gets the formula's value, if it has one."""
    paths = [path for path, property in schema_class.properties.items() if property.formula is not None]
    property_leaves = {path: [leaf for leaf in leaves if leaf[: len(path)] == path] for path in paths}
    drawn = {path: parts for path, parts in property_leaves.items() if parts and given.isdisjoint(parts)}
    result = {leaf: value for leaf, value in leaves.items() if not any(leaf in parts for parts in drawn.values())}
    derived = derived_values(schema_class, result) if drawn else ()
    derived_parts = {path: split_kind(property.kind, value) for path, property, value in derived}
    for path, parts in drawn.items():
        as_drawn = {leaf[len(path) :]: leaves[leaf] for leaf in parts}
        result |= {(*path, *within): value for within, value in derived_parts.get(path, as_drawn).items()}
    return result


@lru_cache(maxsize=64)
def _max_lengths(codec: Codec, class_name: str) -> dict[Path, int]:
    """The greatest length of each list of a class that has slots, by the path of the length."""
    longest: dict[Path, int] = {}
    for path, _, _ in _list_slots(codec, class_name):
        for count, place in counts_of(path):
            longest[count] = max(longest.get(count, 0), place + 1)
    return longest


@lru_cache(maxsize=64)
def _list_slots(codec: Codec, class_name: str) -> list[tuple[Path, int, float]]:
    """The slots of a class within lists: path, number, and the share of the items that have the field."""
    table = codec.index.tables[class_name]
    slots = [(path, table.slot[path]) for path in table.askable if counts_of(path)]
    max_counts: dict[Path, int] = {}
    for path, number in slots:
        item = path[: _start_of_field(path)]
        max_counts[item] = max(max_counts.get(item, 0), codec.slots[number].count)
    return [
        (path, number, codec.slots[number].count / max_counts[path[: _start_of_field(path)]]) for path, number in slots
    ]


def _start_of_field(path: Path) -> int:
    """The index in a path at which the field of the innermost list item begins."""
    return max(place for place, key in enumerate(path) if isinstance(key, int)) + 1


# ---------------------------------------------------------------- maps


def maps(schema_class: Class, leaves: Mapping[Path, Any]) -> set[Path]:
    """The paths of an entity's maps."""
    within = {
        path[:place]
        for path in leaves
        for place in range(len(path))
        if isinstance(path[place], int) or path[place:] == COUNT
    }
    if not within:  # most entities have no lists or maps, and kinds need no search
        return within
    kinds = {place for path, property in schema_class.properties.items() for place in _mapped(path, property.kind)}
    return {prefix for prefix in within if pattern(prefix) in kinds}


def _mapped(path: Path, kind: Any) -> Iterator[Path]:
    if isinstance(kind, Mapped):
        yield path
    if isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _mapped((*path, *within), inner)


def drop_repeated_keys(leaves: dict[Path, Any], prefix: Path) -> None:
    """Remove the entries of a map that have no key, or that of an earlier entry."""
    length = len(prefix)
    entries: dict[Any, dict[Path, Any]] = {}
    for path in [path for path in leaves if path[:length] == prefix and isinstance(path[length], int)]:
        entries.setdefault(path[length], {})[path[length + 1 :]] = leaves.pop(path)
    entries_by_key = {entry[KEY,]: entry for place, entry in sorted(entries.items(), reverse=True) if (KEY,) in entry}
    for place, entry in enumerate(reversed(entries_by_key.values())):
        leaves |= {(*prefix, place, *within): value for within, value in entry.items()}
    leaves[*prefix, *COUNT] = len(entries_by_key)


# ---------------------------------------------------------------- given values on a command line


def parse_given(trained: Trained, given: Iterable[tuple[str, str]]) -> dict[Path, Any]:
    """Given values by path, parsed for their properties: labels and texts as they are, numbers and booleans as in JSON.

    ConfigError where a path has two values.
    """
    values: dict[Path, Any] = {}
    for given_path, text in given:
        path = path_of(given_path)
        if path in values:
            raise ConfigError(f"--given {given_path}", f"expected one value, got another: {text!r}. {SET_SYNTAX}")
        values[path] = _value(trained, path, text)
    return values


def _value(trained: Trained, path: Path, text: str) -> Any:
    slots = [slot for slot in trained.codec.slots if slot.path == path and slot.role != "evidence"]
    if any(_is_known(slot, text) for slot in slots):
        return text
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and any(isinstance(slot.leaf, Set) and _has_some(slot, parts) for slot in slots):
        raise ConfigError(f"--given {show(path)}", f"expected a set, got {text!r}. Say '{json.dumps(parts)}'.")
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if any(_is_known(slot, value) for slot in slots) or isinstance(value, list) else text


def _has_some(slot: Slot, parts: Iterable[str]) -> bool:
    """Whether some texts are labels, or links, of the slot's sets."""
    return any(part in slot.codec.labels for part in parts)


def _is_known(slot: Slot, value: Any) -> bool:
    """Whether a value is one of a slot's kind: a number, a boolean or a known label."""
    if isinstance(slot.leaf, Number):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(slot.leaf, Boolean):
        return isinstance(value, bool)
    if not isinstance(slot.leaf, Category) or isinstance(value, list | dict):
        return False
    return value in slot.codec.labels
