"""The pass over entities: their statistics by class and path, the class that counts of several, the targets of links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from kbdisk.entity import Entity
from kbdisk.schemas.infer.decision import MIN_FIT_SHARE, percent
from kbdisk.schemas.infer.statistics import HASH_SPAN, Budget, Node, ValueSketch, hash_of
from kbdisk.schemas.text.names import last_word
from kbdisk.schemas.text.numerals import show

BATCH_SIZE = 128  # entities, few enough for the processor's cache
MANY_KEYS = 64  # of a tree on average, from which batches are smaller
SAMPLED_EVERY = 32  # one batch in so many is sampled by every path
MAX_WAITING = 500  # entities of several classes, kept until the classes are ranked
MAX_PROPERTY_LABELS = 20_000  # in a Wikibase
IDS_PER_BATCH = 4  # entities of a batch whose id is compared with their values

_classes = attrgetter("classes")
_tree = attrgetter("tree")
_id = attrgetter("id")


class EntityReader:
    """Reads entities into the statistics of each class."""

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        self.wanted = set(wanted)
        self.budget = Budget()
        self.nodes: dict[str, Node] = {}
        self.choice = ClassRanking()
        self.settled = False
        self.classes_found: dict[str, None] = {}  # only where some classes are wanted
        self.waiting: list[Entity] = []
        self.combinations: Counter[Classes] = Counter()
        self.targets = LinkTargets()
        self.ids: dict[str, Counter[str]] = {}  # class -> keys whose value is the id
        self.labels: dict[str, str] = {}  # of the properties of a Wikibase: P31 -> instance of
        self.batches = 0

    def read(self, entities: Iterable[Entity]) -> None:
        """Read all entities."""
        stream = iter(entities)
        size = BATCH_SIZE // 4
        while batch := list(islice(stream, size)):
            self._take(batch)
            size = BATCH_SIZE if sum(map(len, map(_tree, batch))) < MANY_KEYS * len(batch) else BATCH_SIZE // 4
        self._settle()

    def _take(self, batch: list[Entity]) -> None:
        if set(map(_classes, batch)) == {()}:
            self._of_class("", batch)
            return
        groups: dict[str, list[Entity]] = {}
        for entity in batch:
            classes = self._counting(entity)
            if len(classes) > 1 and not self.settled:
                self.waiting.append(entity)
            else:
                groups.setdefault(self.choice.of(classes) if len(classes) > 1 else "".join(classes), []).append(entity)
            if not self.settled:
                self.combinations[classes] += 1
            if entity.label:
                self._property_label(entity)
        for name, group in groups.items():
            self._of_class(name, group)
        if len(self.waiting) >= MAX_WAITING:
            self._settle()

    def _counting(self, entity: Entity) -> Classes:
        """The classes of an entity of which one counts: the wanted ones, if it is of any of them."""
        if not self.wanted:
            return entity.classes
        self.classes_found |= dict.fromkeys(entity.classes)
        return tuple(name for name in entity.classes if self.wanted & {name, last_word(name)}) or entity.classes

    def _settle(self) -> None:
        """Rank the classes, and add the entities that waited for that."""
        if self.settled:
            return
        self.settled = True
        self.choice.settle(self.combinations)
        self.combinations.clear()
        groups: dict[str, list[Entity]] = {}
        for entity in self.waiting:
            groups.setdefault(self.choice.of(self._counting(entity)), []).append(entity)
        self.waiting.clear()
        for name, group in groups.items():
            self._of_class(name, group)

    def _of_class(self, name: str, entities: list[Entity]) -> None:
        self.targets.add(map(_id, entities), name)
        if self.wanted and not self.wanted & {name, last_word(name)}:
            return
        self.batches += 1
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(self.budget)
        node.take_parts(list(map(_tree, entities)), self.batches % SAMPLED_EVERY == 0)
        self._look_for_ids(name, entities[:IDS_PER_BATCH])

    def _look_for_ids(self, name: str, entities: Iterable[Entity]) -> None:
        counts = self.ids.setdefault(name, Counter())
        for entity in entities:
            counts[""] += 1
            counts.update(key for key, value in entity.tree.items() if _is_id(value, entity.id))

    def _property_label(self, entity: Entity) -> None:
        word = last_word(entity.id)
        if word[:1] == "P" and word[1:].isdigit() and len(self.labels) < MAX_PROPERTY_LABELS:
            self.labels[word] = entity.label

    def id_key(self, name: str) -> str | None:
        """The key whose value is the id of every entity of a class, as far as they were compared."""
        counts = self.ids.get(name, Counter[str]())
        return next((key for key, count in counts.items() if key and count == counts[""]), None)

    def classes(self) -> Iterator[tuple[str, Node]]:
        """The classes with their statistics, by rank."""
        for name in self.choice.order(self.nodes):
            yield name, self.nodes[name]


def _is_id(value: Any, id: str) -> bool:
    return value == id if isinstance(value, str) else type(value) is int and show(value) == id


# ---------------------------------------------------------------- the class of an entity with several


Classes = tuple[str, ...]

ROOT_CLASSES = frozenset(
    {
        "http://www.w3.org/2002/07/owl#Thing",
        "http://www.w3.org/2002/07/owl#NamedIndividual",
        "http://www.w3.org/2000/01/rdf-schema#Resource",
        "http://www.w3.org/ns/prov#Entity",
        "https://schema.org/Thing",
        "http://schema.org/Thing",
    }
)
LAST_RANK = 1 << 40
MAX_CACHED_COMBINATIONS = 10_000  # combinations
MAX_CLASSES = 100  # of an entity that are compared
UMBRELLA_SHARE = 0.9  # of the entities of an umbrella class, at least, that are of smaller classes, too
RARE, RARE_SHARE = 20, 0.02  # a rare class has fewer entities than this number, and than this share of all


def ranked(combinations: Mapping[Classes, int]) -> list[str]:
    """All classes by rank: of the classes of an entity the first one counts.

    It is the most frequent class, unless that is an umbrella class: nine in ten of its entities are of one of at least two
    smaller classes, too. Of (Agent, Person) Person counts, of (Mountain, Volcano) Mountain. Rare classes are ranked last:
    of (City, Capital of Rajasthan) City counts.
    """
    sizes: Counter[str] = Counter()
    for classes, count in combinations.items():
        sizes.update(dict.fromkeys(classes, count))
    min_size = min(RARE, RARE_SHARE * sum(combinations.values()))
    rare = {name for name, size in sizes.items() if size < min_size}
    common: Counter[Classes] = Counter()
    for classes, count in combinations.items():
        common[tuple(name for name in classes[:MAX_CLASSES] if name not in rare)] += count
    umbrellas = {
        name for name in sizes if name in ROOT_CLASSES or (name not in rare and _is_umbrella(name, sizes, common))
    }

    def rank(name: str) -> tuple[bool, bool, bool, int, str]:
        is_umbrella = name in umbrellas
        return name in ROOT_CLASSES, name in rare, is_umbrella, sizes[name] if is_umbrella else -sizes[name], name

    return sorted(sizes, key=rank)


def _is_umbrella(name: str, sizes: Mapping[str, int], combinations: Mapping[Classes, int]) -> bool:
    """Whether nearly all entities of a class are also of one of several smaller classes."""
    covered, smaller = 0, Counter[str]()
    for classes, count in combinations.items():
        smaller_classes = (
            [other for other in classes if other != name and sizes[other] < sizes[name]] if name in classes else []
        )
        smaller.update(dict.fromkeys(smaller_classes, count))
        covered += count if smaller_classes else 0
    largest = max(smaller.values(), default=0)
    return covered >= UMBRELLA_SHARE * sizes[name] and len(smaller) > 1 and largest < UMBRELLA_SHARE * sizes[name]


class ClassRanking:
    """The rank of each class, from the first entities with several classes. Classes that appear later are ranked last."""

    def __init__(self) -> None:
        self.rank: dict[str, int] = {}
        self.chosen: dict[Classes, str] = {}

    def settle(self, combinations: Mapping[Classes, int]) -> None:
        """Rank the classes by how often they occur together."""
        self.rank = {name: place for place, name in enumerate(ranked(combinations))}
        self.chosen.clear()

    def of(self, classes: Classes) -> str:
        """The class that counts among these; empty where there is none."""
        name_of_class = self.chosen.get(classes)
        if name_of_class is None:
            for name in classes:
                self.rank.setdefault(name, len(self.rank) + (name in ROOT_CLASSES) * LAST_RANK)
            if len(self.chosen) > MAX_CACHED_COMBINATIONS:
                self.chosen.clear()
            name_of_class = self.chosen[classes] = min(classes, key=self.rank.__getitem__, default="")
        return name_of_class

    def order(self, names: Iterable[str]) -> list[str]:
        """Classes by their rank."""
        return sorted(names, key=lambda name: (not name, self.rank.get(name, len(self.rank))))


# ---------------------------------------------------------------- targets of links


MAX_KEPT = 1 << 16  # entities whose class is kept


class LinkTargets:
    """The classes of entities by id, of a sample with small hashes; links to entities of the sample are looked up."""

    def __init__(self) -> None:
        self.below = HASH_SPAN
        self.classes: dict[str, str] = {}
        self.names: Mapping[str, str] = {}  # of classes in the schema

    def add(self, ids: Iterable[str], class_name: str) -> None:
        """Add entities of a class."""
        if self.below == HASH_SPAN:
            self.classes.update(dict.fromkeys(ids, class_name))
        else:
            self.classes.update((id, class_name) for id in ids if hash_of(id) < self.below)
        while len(self.classes) > MAX_KEPT:
            self.below //= 2
            self.classes = {id: name for id, name in self.classes.items() if hash_of(id) < self.below}

    def of(self, sketch: ValueSketch) -> tuple[str | None, str]:
        """The class of nearly all targets of links, or None; and the reason in words."""
        looked_up = 0
        counts: Counter[str] = Counter()
        for id, count in sketch.weighted():
            if self.below == HASH_SPAN or hash_of(id) < self.below:
                looked_up += count
                if id in self.classes:
                    counts[self.classes[id]] += count
        without_class = counts.pop("", 0)
        known = counts.total()
        if not known:
            share = f"{percent(without_class / looked_up)} of them " if without_class else ""
            return None, f"{share}to entities {'of' if without_class else 'that are not in'} this source"
        name, count_of_most = counts.most_common(1)[0]
        if count_of_most >= MIN_FIT_SHARE * known and known >= looked_up / 2 and name in self.names:
            return self.names[name], f"{percent(count_of_most / looked_up)} of them to {self.names[name]}"
        shares = ", ".join(
            f"{self.names.get(class_name, class_name)} {percent(count / known)}"
            for class_name, count in counts.most_common(4)
        )
        missing = looked_up - known - without_class
        return None, f"to {shares}" + (f"; {percent(missing / looked_up)} not in this source" if missing else "")
