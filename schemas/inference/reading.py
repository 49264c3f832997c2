"""One pass over entities: what stands at every path of every class, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from kbdisk.entity import Entity
from kbdisk.schemas.inference.classes import Choice, Classes
from kbdisk.schemas.inference.links import Targets
from kbdisk.schemas.inference.nodes import Node
from kbdisk.schemas.inference.sketch import Budget
from kbdisk.schemas.text.names import last_word
from kbdisk.schemas.text.numerals import show

BATCH = 128  # few enough to stay in the processor's cache
FAT = 64  # keys of a tree, from which there are fewer to a batch
EVERY = 32  # batches: one of so many is looked at closely once there was much already
WAITING = 500  # entities of several classes that are kept until it is decided which counts
LABELS = 20_000  # of properties, in a Wikibase
IDS = 4  # entities of a batch whose ids are looked for among their values

_classes = attrgetter("classes")
_tree = attrgetter("tree")
_id = attrgetter("id")


class Reading:
    """What was met."""

    def __init__(self, wanted: Sequence[str] = ()) -> None:
        self.wanted = set(wanted)
        self.budget = Budget()
        self.nodes: dict[str, Node] = {}
        self.choice = Choice()
        self.settled = False
        self.met: dict[str, None] = {}  # where classes were asked for
        self.waiting: list[Entity] = []
        self.combinations: Counter[Classes] = Counter()
        self.targets = Targets()
        self.ids: dict[str, Counter[str]] = {}  # class -> keys whose value is the id
        self.labels: dict[str, str] = {}  # of the properties of a Wikibase: P31 -> instance of
        self.batches = 0

    def read(self, entities: Iterable[Entity]) -> None:
        """Read all of them."""
        stream = iter(entities)
        size = BATCH // 4
        while batch := list(islice(stream, size)):
            self._take(batch)
            size = BATCH if sum(map(len, map(_tree, batch))) < FAT * len(batch) else BATCH // 4
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
        if len(self.waiting) >= WAITING:
            self._settle()

    def _counting(self, entity: Entity) -> Classes:
        """The classes one of which counts: those that were asked for, where it is of one of them."""
        if not self.wanted:
            return entity.classes
        self.met |= dict.fromkeys(entity.classes)
        return tuple(name for name in entity.classes if self.wanted & {name, last_word(name)}) or entity.classes

    def _settle(self) -> None:
        """Decide which of several classes counts, and take in those that waited for it."""
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
        if name:
            self.targets.add(map(_id, entities), name)
        if self.wanted and not self.wanted & {name, last_word(name)}:
            return
        self.batches += 1
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(self.budget)
        node.take_parts(list(map(_tree, entities)), self.batches % EVERY == 0)
        self._look_for_ids(name, entities[:IDS])

    def _look_for_ids(self, name: str, entities: Iterable[Entity]) -> None:
        counts = self.ids.setdefault(name, Counter())
        for entity in entities:
            counts[""] += 1
            counts.update(key for key, value in entity.tree.items() if _is_id(value, entity.id))

    def _property_label(self, entity: Entity) -> None:
        word = last_word(entity.id)
        if word[:1] == "P" and word[1:].isdigit() and len(self.labels) < LABELS:
            self.labels[word] = entity.label

    def id_key(self, name: str) -> str | None:
        """The key whose value is the id of every entity of a class that was asked."""
        counts = self.ids.get(name, Counter[str]())
        return next((key for key, count in counts.items() if key and count == counts[""]), None)

    def classes(self) -> Iterator[tuple[str, Node]]:
        """Classes and what they hold, in the order in which an entity's own class is looked for."""
        for name in self.choice.order(self.nodes):
            yield name, self.nodes[name]


def _is_id(value: Any, id: str) -> bool:
    return value == id if isinstance(value, str) else type(value) is int and show(value) == id
