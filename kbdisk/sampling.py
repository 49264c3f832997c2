"""Entities that might be, drawn from a model.

    class       by how frequent it is, or as told
    pattern     which properties it has: those of some training entity that has all that is given, too
    network     one of those that were trained, each as often: so all together are what is drawn from
    values      property by property, in random order or as it was learnt (Hiding.ordered), each given all before it
                (diffusion.reveal); first what stands in no list, the lengths of lists among them, then as many places
                as were drawn; no number beyond all that training had of its property
    formulas    what is derived is computed of what was drawn, where that has all it takes
    tree        by the schema: units, dates that there are, decimals, bounds

What a property's role makes evidence alone is never drawn, and free text only where it is wanted: a made-up name is
worse than none. Values are drawn without knowing which properties are still to come, so what a property's mere presence
says of others is in its pattern, not in them.
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

NAME = "new-"  # begins the ids of what is drawn
RARE = 1e-9  # of a class's entities: where none in training had what is given
SEVERAL = """A set is given as a list, such as '["a", "b"]'."""

Told = Callable[[int, int], None]  # how many are drawn, of how many


def sample(
    trained: Trained,
    n: int,
    given: Mapping[Any, Any] | None = None,
    *,
    of: str | None = None,
    seed: int = 0,
    leap: int = 1,
    text: bool = False,
    watch: Told | None = None,
) -> Iterator[Entity]:
    """So many entities, all with what is given by path; the same for the same seed and `n`. Free text only with `text`."""
    if n < 0:
        raise ConfigError("-n", f"expected how many entities to draw, got {n}.")
    if leap < 1:
        raise ConfigError("--leap", f"expected at least 1, got {leap}.")
    starts = starts_of(trained, given or {}, of, text)
    return _sample(trained, n, starts, seed, leap, text, watch)


def _sample(
    trained: Trained, n: int, starts: list[Start], seed: int, leap: int, text: bool, watch: Told | None
) -> Iterator[Entity]:
    longest = max(len(pattern) for one in starts for pattern in one.patterns)
    networks = [one.network for one in trained.members]
    together = at_once(longest)
    rounds = math.ceil(n / together / len(networks)) * len(networks)  # each network draws as often as any other
    together = max(math.ceil(n / max(rounds, 1)), 1)
    first = random.Random(f"{seed}").randrange(len(networks))
    for turn, begin in enumerate(range(0, n, together)):
        draw = random.Random(f"{seed} {turn}")
        generator = torch.Generator(trained.device).manual_seed(draw.getrandbits(62))
        places = range(begin, min(begin + together, n))
        chosen = draw.choices(starts, [one.entities for one in starts], k=len(places))
        patterns = [set(draw.choices(one.patterns, one.weights)[0]) for one in chosen]
        some = [Entity(f"{NAME}{place + 1}", one.tree, one.classes) for place, one in zip(places, chosen, strict=True)]
        network = networks[(first + turn) % len(networks)]
        yield from Drawing(trained, network, draw, generator, leap, text).drawn(some, patterns)
        if watch is not None:
            watch(places.stop, n)


# ---------------------------------------------------------------- what entities begin as


@dataclass(frozen=True)
class Start:
    """What entities of one class begin as: what is given, and which properties they may have."""

    classes: tuple[str, ...]
    tree: Tree  # of what is given
    entities: float  # that training had of it, with what is given
    patterns: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]


def starts_of(trained: Trained, given: Mapping[Any, Any], of: str | None, text: bool) -> list[Start]:
    """What may be drawn: entities of the classes that can have what is given."""
    values = {path_of(path): value for path, value in given.items()}
    classes = _classes(trained, of)
    starts, problems = [], []
    for found in classes:
        try:
            starts.append(_start(trained, found, values, text))
        except SchemaError as error:
            known = sum(any(one[: len(path)] == path[: len(one)] for one in found.properties) for path in values)
            problems.append((known, error))
    if not starts:
        raise max(problems, key=lambda pair: pair[0])[1]
    return starts


def _classes(trained: Trained, of: str | None) -> list[Class]:
    schema, met = trained.schema, trained.codec.patterns
    if of is None:
        return [schema.classes[name] for name in met]
    named = schema.class_of(Entity("", {}, (of,))) if of else schema.classes.get("")
    if named is None or (named.name != of and of not in (named.iri, named.name)):
        raise no_class(of, schema.classes)
    if named.name not in met:
        raise ConfigError("--class", f"no entity that the model was trained on is of the class {of!r}.")
    return [named]


def _start(trained: Trained, found: Class, values: Mapping[Path, Any], text: bool) -> Start:
    """What an entity of a class begins as; SchemaError where it cannot have what is given."""
    codec, name = trained.codec, found.iri or found.name
    leaves = _leaves(trained, found, values)
    slots = {codec.slot(found.name, leaf) for leaf in leaves if not counts_of(leaf)}
    wanted = {number for number in slots if number is not None and codec.slots[number].role == "value"}
    own = codec.patterns[found.name]
    fitting = {one: count for one, count in own.items() if wanted <= set(one)}
    share = sum(fitting.values()) / sum(own.values())
    drawn: Counter[tuple[int, ...]] = Counter()
    for one, count in (fitting or own).items():
        drawn[tuple(number for number in one if text or codec.slots[number].kind != "text")] += count
    if trained.only_draws:
        given = {number for leaf in leaves if (number := codec.slot(found.name, leaf)) is not None}
        _warn_of_order(trained, given, {number for one in drawn for number in one})
    entities = _size(codec, found.name) * max(share, RARE)
    tree = trained.schema.tree(leaves, found.name)
    return Start((name,) if name else (), tree, entities, tuple(drawn), tuple(drawn.values()))


def _warn_of_order(trained: Trained, given: set[int], drawn: set[int]) -> None:
    """Say so where what is given comes after something that is to be drawn."""
    codec = trained.codec
    place = codec.index.layout.order.tolist()
    first = min((place[number] for number in drawn - given), default=len(place))
    late = [show(codec.slots[number].path) for number in sorted(given) if place[number] > first]
    if late:
        advice = "Put it first in the schema, or train with --preset default."
        trained.warn_of_order(f", and {late[0]} comes after what is to be drawn. {advice}", stacklevel=6)


def _leaves(trained: Trained, found: Class, values: Mapping[Path, Any]) -> dict[Path, Any]:
    """What is given, leaf by leaf."""
    schema, codec = trained.schema, trained.codec
    name = found.iri or found.name
    for path in values:
        if not any(_meets(path, one) for one, told in found.properties.items() if told.role != "ignore"):
            raise SchemaError(f"--given {show(path)}", unknown_to(found, path))
    entity = Entity("", with_values({}, values), (name,) if name else ())
    misfits: list[Misfit] = []
    list(schema.applied(found, entity, misfits))
    for misfit in misfits:
        told = ", ".join(show(path) for path in values if _meets(path, misfit.path))
        raise SchemaError(f"--given {told}", f"{misfit.problem}.")
    leaves = schema.leaves(entity)
    for path, value in values.items():
        if path in found.properties and not any(leaf[: len(path)] == path for leaf in leaves):
            raise SchemaError(f"--given {show(path)}", f"expected a value, got {value!r}, which stands for none.")
        if not any(leaf[: len(path)] == path for leaf in leaves):
            raise SchemaError(f"--given {show(path)}", unknown_to(found, path))
    for path in values:
        own = [leaf for leaf in leaves if leaf[: len(path)] == path]
        if all(codec.slot(found.name, leaf) is None for leaf in own):
            why = codec.left_out.get((found.name, own[0]), "it is no part of what the model learnt")
            raise SchemaError(f"--given {show(path)}", f"nothing is known of it: {why}.")
    return leaves


def _meets(path: Path, other: Path) -> bool:
    """Whether one of two paths leads to the other, or further into it."""
    least = min(len(path), len(other))
    return path[:least] == other[:least]


def _size(codec: Codec, of: str) -> float:
    """How many entities of a class training had."""
    return float(codec.entities[of])


def path_of(path: Path | str) -> Path:
    """A path, or a path as text."""
    if not isinstance(path, str):
        return path
    try:
        return read_path(path)
    except ValueError as error:
        raise ConfigError("--given", f"{error}.") from None


# ---------------------------------------------------------------- their values


class Drawing:
    """The values of some entities, drawn round by round: a list's places once it is known how many there are.

    On the way they are leaves: a map whose keys are still to come is no tree.
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

    def drawn(self, entities: Sequence[Entity], patterns: Sequence[Iterable[int]]) -> list[Entity]:
        """The entities with their values."""
        known = [self._begun(entity) for entity in entities]
        given = [set(one.leaves) for one in known]
        asks = [self._lacking(one, pattern) for one, pattern in zip(known, patterns, strict=True)]
        last = [ask & self._last for ask in asks]
        asks = [ask - own for ask, own in zip(asks, last, strict=True)]
        decided: list[set[int]] = [set() for _ in entities]
        while any(asks):
            self._draw(known, asks)
            asks = [self._places(one, own) for one, own in zip(known, decided, strict=True)]
        self._draw(known, last)
        return [self._entity(*one) for one in zip(entities, known, given, strict=True)]

    @property
    def _last(self) -> set[int]:
        """The slots that are drawn once all else is: texts, in the order that the schema's is learnt in."""
        in_order = self.trained.run.hiding.is_in_order
        return {number for number, slot in enumerate(self.codec.slots) if in_order and slot.kind == "text"}

    def _draw(self, known: Sequence[Reading], asks: Sequence[set[int]]) -> None:
        """Draw what each is asked for, and know it."""
        going = [place for place, ask in enumerate(asks) if ask]
        revealed = self._revealed([known[place] for place in going], [asks[place] for place in going]) if going else []
        for place, leaves in zip(going, revealed, strict=True):
            known[place].leaves.update(leaves)

    def _begun(self, entity: Entity) -> Reading:
        reading = read(self.schema, entity)
        assert reading is not None
        return reading

    def _revealed(self, readings: Sequence[Reading], asks: Sequence[set[int]]) -> list[dict[Path, Any]]:
        """What each is asked for."""
        own = iter(asks)
        encoding = Encoding(self.codec.index, lambda reading, table: next(own), None)
        for reading in readings:
            encoding.add(reading)
        tokens, run = encoding.tokens().to(self.trained.device), self.trained.run
        batch, order = (
            tokens.batch(torch.arange(len(readings))),
            tokens.layout.order if run.hiding.is_in_order else "random",
        )
        with autocast(run.train.precision, self.trained.device, run.model.width):  # as in training
            met = partial(Beliefs.met, generator=self.generator)
            drawn = reveal(self.network, batch, order=order, leap=self.leap, generator=self.generator, say=met)
        found = self.codec.leaves(drawn, batch.asked)
        for reading, leaves in zip(readings, found, strict=True):
            room = _room(self.codec, reading.class_name)
            for path in leaves.keys() & room.keys():
                leaves[path] = min(leaves[path], room[path])
        return found

    def _lacking(self, reading: Reading, pattern: Iterable[int]) -> set[int]:
        return {number for number in pattern if self.codec.slots[number].path not in reading.leaves}

    def _places(self, reading: Reading, decided: set[int]) -> set[int]:
        """Which fields the places of an entity's lists have; each is decided upon once.

        A field is there as often as in training, where there was such a place; those of one composite together.
        """
        leaves = reading.leaves
        chance: dict[Path, float] = {}
        asked = set()
        for path, number, share in _listed(self.codec, reading.class_name):
            if number in decided or not all(leaves.get(count, 0) > at for count, at in counts_of(path)):
                continue
            decided.add(number)
            if path not in leaves and (self.text or self.codec.slots[number].kind != "text"):
                part = path[: _place(path) + 1]
                if chance.setdefault(part, self.draw.random()) < share:
                    asked.add(number)
        return asked

    def _entity(self, entity: Entity, reading: Reading, given: AbstractSet[Path]) -> Entity:
        """The entity with the tree of its leaves: no key of a map twice; its id where its class has one in the tree."""
        found, leaves = self.schema.classes[reading.class_name], dict(reading.leaves)
        for prefix in sorted(maps(found, leaves), key=len, reverse=True):
            distinct(leaves, prefix)
        tree = self.schema.tree(_with_derived(found, leaves, given), reading.class_name)
        if found.id is not None:
            tree = with_values({str(found.id[0]): None} | tree, {found.id: entity.id})
        return replace(entity, tree=tree)


def _with_derived(schema_class: Class, leaves: Mapping[Path, Any], given: AbstractSet[Path]) -> dict[Path, Any]:
    """The leaves of a drawn entity. A drawn property with a formula gets the formula's value, if it has one."""
    paths = [path for path, property in schema_class.properties.items() if property.formula is not None]
    leaves_of = {path: [leaf for leaf in leaves if leaf[: len(path)] == path] for path in paths}
    drawn = {path: parts for path, parts in leaves_of.items() if parts and given.isdisjoint(parts)}
    others = {leaf: value for leaf, value in leaves.items() if not any(leaf in parts for parts in drawn.values())}
    derived = derived_values(schema_class, others) if drawn else ()
    parts_of = {path: split_kind(property.kind, value) for path, property, value in derived}
    for path, parts in drawn.items():
        as_drawn = {leaf[len(path) :]: leaves[leaf] for leaf in parts}
        others |= {(*path, *within): value for within, value in parts_of.get(path, as_drawn).items()}
    return others


@lru_cache(maxsize=64)
def _room(codec: Codec, of: str) -> dict[Path, int]:
    """How many places there can be values in, by where the length of a list of a class stands."""
    room: dict[Path, int] = {}
    for path, _, _ in _listed(codec, of):
        for count, at in counts_of(path):
            room[count] = max(room.get(count, 0), at + 1)
    return room


@lru_cache(maxsize=64)
def _listed(codec: Codec, of: str) -> list[tuple[Path, int, float]]:
    table = codec.index.tables[of]
    own = [(path, table.slot[path]) for path in table.askable if counts_of(path)]
    most: dict[Path, int] = {}
    for path, number in own:
        within = path[: _place(path)]
        most[within] = max(most.get(within, 0), codec.slots[number].count)
    return [(path, number, codec.slots[number].count / most[path[: _place(path)]]) for path, number in own]


def _place(path: Path) -> int:
    """Where the fields of the innermost place begin."""
    return max(at for at, key in enumerate(path) if isinstance(key, int)) + 1


# ---------------------------------------------------------------- maps: each entry has a key, and no two have the same


def maps(found: Class, leaves: Mapping[Path, Any]) -> set[Path]:
    """Where an entity has maps."""
    within = {
        path[:at] for path in leaves for at in range(len(path)) if isinstance(path[at], int) or path[at:] == COUNT
    }
    if not within:  # as most have none, which takes no looking at every kind
        return within
    kinds = {at for path, one in found.properties.items() for at in _mapped(path, one.kind)}
    return {prefix for prefix in within if pattern(prefix) in kinds}


def _mapped(path: Path, kind: Any) -> Iterator[Path]:
    if isinstance(kind, Mapped):
        yield path
    if isinstance(kind, Composite):
        for within, inner in kind.leaves().items():
            yield from _mapped((*path, *within), inner)


def distinct(leaves: dict[Path, Any], prefix: Path) -> None:
    """Leave out the entries of a map without a key, or with one that another has."""
    at = len(prefix)
    entries: dict[Any, dict[Path, Any]] = {}
    for path in [path for path in leaves if path[:at] == prefix and isinstance(path[at], int)]:
        entries.setdefault(path[at], {})[path[at + 1 :]] = leaves.pop(path)
    kept = {entry[KEY,]: entry for place, entry in sorted(entries.items(), reverse=True) if (KEY,) in entry}
    for place, entry in enumerate(reversed(kept.values())):
        leaves |= {(*prefix, place, *rest): value for rest, value in entry.items()}
    leaves[*prefix, *COUNT] = len(kept)


# ---------------------------------------------------------------- given values as a command line spells them: labels and texts as they stand; numbers and truths as in JSON


def spelt(trained: Trained, given: Iterable[tuple[str, str]]) -> dict[Path, Any]:
    """What is given, each value as the property at its path takes it; ConfigError where a path has two."""
    found: dict[Path, Any] = {}
    for at, text in given:
        path = path_of(at)
        if path in found:
            raise ConfigError(f"--given {at}", f"expected one value, got another: {text!r}. {SEVERAL}")
        found[path] = _value(trained, path, text)
    return found


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
    """Whether some of these are labels, or links, of the slot's sets."""
    return any(part in slot.codec.labels for part in parts)


def _is_known(slot: Slot, value: Any) -> bool:
    """Whether a value is a number, a truth or a label where a slot has such."""
    if isinstance(slot.leaf, Number):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(slot.leaf, Boolean):
        return isinstance(value, bool)
    if not isinstance(slot.leaf, Category) or isinstance(value, list | dict):
        return False
    return value in slot.codec.labels
