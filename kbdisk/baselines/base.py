"""What every baseline does: it learns from entities, tells a leaf from an entity's others, and fills what is absent.

A new one says how it learns (`learn`) and tells (`tell`). Both see entities leaf by leaf, as `Reading`s; what is asked for
never stands in those that `tell` gets, nor may `learn` tell a leaf by what is hidden with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from kbdisk.data.graph import Graph, pattern
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import Place, Source, counts_of, places_of
from kbdisk.entity import Completion, Entity, Filled, Path
from kbdisk.leaves.registry import KINDS
from kbdisk.schemas.composites.base import apply_kind, join_kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.leaf import Number, Text
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.values import nearest

ENTITIES = 500  # completed at once

Leaf: TypeAlias = tuple[str, Path]  # a class, and where a leaf of its entities stands
Hidden: TypeAlias = Mapping[Leaf, frozenset[Path]]  # leaves, each with all that is hidden when it is asked for
Watch: TypeAlias = Callable[[int, int], None]  # how much is done, of how much
Estimate: TypeAlias = Literal["mean", "median"]


class Answer(NamedTuple):
    """What is said of a leaf."""

    value: Any  # of a number its median, as near as the baseline comes to it; None: nothing can be said
    mean: float | None = None  # of a number


NOTHING = Answer(None)


class Baseline(ABC):
    """A way to tell a leaf from the others of its entity."""

    schema: Schema
    places: Mapping[Source, Place]
    hidden: Hidden  # the leaves that were learnt, but for those left out
    left_out: dict[Leaf, str]  # what it can say nothing of: why

    def fit(
        self,
        schema: Schema,
        entities: Iterable[Entity],
        graph: Graph | None = None,
        *,
        asked: Hidden | None = None,
        seed: int = 0,
        watch: Watch | None = None,
    ) -> Self:
        """Learn to tell the leaves that are `asked` for, or all that these entities have; the graph has their links."""
        self.schema, self.places, self.left_out = schema, places_of(schema), {}
        readings = [one for entity in entities if (one := read(schema, entity)) is not None]
        self.hidden = self._all(readings) if asked is None else asked
        self.learn(readings, graph, seed, watch)
        return self

    @abstractmethod
    def learn(self, readings: Sequence[Reading], graph: Graph | None, seed: int, watch: Watch | None) -> None:
        """Learn to tell every leaf of `hidden`, without what is hidden with it; say in `left_out` why not."""

    @abstractmethod
    def tell(self, leaf: Leaf, readings: Sequence[Reading]) -> list[Answer]:
        """What is said of a leaf of each of some entities of its class, which do not have it."""

    # ------------------------------------------------------------ entities

    def predict(self, of: str, path: Path, entities: Iterable[Entity], estimate: Estimate = "median") -> list[Any]:
        """The value of a leaf of each entity from all of its others, whether or not it has one; None: nothing is said."""
        leaf = (of, path)
        readings = [read(self.schema, entity) for entity in entities]
        own = [self._without(leaf, one) for one in readings if one is not None and one.of == of]
        said = iter(self.tell(leaf, own) if leaf in self.hidden else [NOTHING] * len(own))
        answers = [next(said) if one is not None and one.of == of else NOTHING for one in readings]
        return [one.mean if estimate == "mean" and one.mean is not None else one.value for one in answers]

    def complete(self, entities: Iterable[Entity]) -> Iterator[Completion]:
        """Each entity with what it lacks filled in, but for text, lists, and what is known not to be."""
        rest = iter(entities)
        while some := list(islice(rest, ENTITIES)):
            readings = [read(self.schema, entity) for entity in some]
            told: list[dict[Path, Any]] = [{} for _ in some]
            for leaf in self.hidden:
                lacking = [n for n, one in enumerate(readings) if one is not None and self._lacks(one, leaf)]
                answers = self.tell(leaf, [one for n in lacking if (one := readings[n]) is not None])
                for n, answer in zip(lacking, answers, strict=True):
                    if answer.value is not None:
                        told[n][leaf[1]] = fitting(self.leaf(leaf), answer.value)
            for entity, reading, leaves in zip(some, readings, told, strict=True):
                yield Completion(entity, {} if reading is None else dict(self._whole(reading, leaves)))

    def leaf(self, leaf: Leaf) -> Any:
        """What kind of value stands there, as the schema says it."""
        return self.places[Source(leaf[0], pattern(leaf[1]))].leaf

    def kind(self, leaf: Leaf) -> str:
        """What its kind is called: number, category, link, set, text."""
        return KINDS[type(self.leaf(leaf))].name

    # ------------------------------------------------------------ leaves

    def _all(self, readings: Collection[Reading]) -> Hidden:
        there: dict[str, dict[Path, None]] = {}
        for one in readings:
            there.setdefault(one.of, {}).update(dict.fromkeys(one.leaves))
        return {
            (of, path): told_by(path, paths)
            for of, paths in there.items()
            for path in paths
            if (place := self.places.get(Source(of, pattern(path)))) is not None and not place.given
        }

    def _without(self, leaf: Leaf, reading: Reading) -> Reading:
        hidden = self.hidden.get(leaf, frozenset([leaf[1]]))
        return reading._replace(leaves={path: one for path, one in reading.leaves.items() if path not in hidden})

    def _lacks(self, reading: Reading, leaf: Leaf) -> bool:
        """Whether an entity lacks a leaf that is filled."""
        of, path = leaf
        if reading.of != of or path in reading.leaves or isinstance(self.leaf(leaf), Text):
            return False
        property = self.places[Source(of, pattern(path))].property
        kind = self.schema.classes[of].properties[property].kind
        return not isinstance(kind, Listed | Mapped) and property not in {*reading.said, *reading.none}

    def _whole(self, reading: Reading, leaves: Mapping[Path, Any]) -> Iterator[tuple[Path, Filled]]:
        """What was told as whole properties, with what was known of them; not what is none, such as 30 February."""
        properties = self.schema.classes[reading.of].properties
        for at in dict.fromkeys(self.places[Source(reading.of, pattern(path))].property for path in leaves):
            known = {path: one for path, one in reading.leaves.items() if path[: len(at)] == at}
            parts = {path[len(at) :]: one for path, one in {**known, **leaves}.items() if path[: len(at)] == at}
            try:
                value = apply_kind(properties[at].kind, join_kind(properties[at].kind, parts))
            except ValueError:
                continue
            yield at, Filled(value)


def told_by(path: Path, paths: Collection[Path]) -> frozenset[Path]:
    """A leaf itself, and those of others that would tell it: of the length of a list its places."""
    return frozenset([path, *(other for other in paths if any(count == path for count, _ in counts_of(other)))])


def fitting(leaf: Any, value: Any) -> Any:
    """A number that was told as the schema has numbers there: whole, with so many decimals, within its bounds."""
    return nearest(leaf, float(value)) if isinstance(leaf, Number) else value
