"""Baselines: simple predictors of a leaf from the other leaves of its entity. The protocol, and the constant predictor.

A baseline implements `learn` and `predict_leaf`. Both see entities leaf by leaf, as `Reading`s. The readings that `predict_leaf`
gets lack the leaf and all leaves hidden with it, and `learn` may not use the leaves hidden with a leaf to predict it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from kbdisk.data.graph import Graph, pattern
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import LeafSpec, Source, counts_of, places_of
from kbdisk.entity import Completion, Entity, Filled, Path
from kbdisk.leaves.registry import learnt_kind
from kbdisk.metrics import fit_constant
from kbdisk.schemas.composites.base import apply_kind, join_kind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.kinds import Number, Text, nearest
from kbdisk.schemas.schema import Schema

COMPLETED_AT_ONCE = 500  # entities

Leaf: TypeAlias = tuple[str, Path]  # a class, and the path of a leaf of its entities
HiddenLeaves: TypeAlias = Mapping[Leaf, frozenset[Path]]  # leaves, each with all paths that are hidden with it
Progress: TypeAlias = Callable[[int, int], None]  # how much is done, of how much
Estimate: TypeAlias = Literal["mean", "median"]


class Prediction(NamedTuple):
    """A predicted value of a leaf."""

    value: Any  # of a number an estimate of the median; None where the baseline has no prediction
    mean: float | None = None  # of a number


NO_PREDICTION = Prediction(None)


class Baseline(ABC):
    """A predictor of a leaf from the other leaves of its entity."""

    schema: Schema
    places: Mapping[Source, LeafSpec]
    hidden: HiddenLeaves  # the leaves to learn
    left_out: dict[Leaf, str]  # those that it cannot predict, with the reasons

    def fit(
        self,
        schema: Schema,
        entities: Iterable[Entity],
        graph: Graph | None = None,
        *,
        asked: HiddenLeaves | None = None,
        seed: int = 0,
        watch: Progress | None = None,
    ) -> Self:
        """Learn to predict the `asked` leaves, or all that these entities have; the graph has their links."""
        self.schema, self.places, self.left_out = schema, places_of(schema), {}
        readings = [reading for entity in entities if (reading := read(schema, entity)) is not None]
        self.hidden = self._all_leaves(readings) if asked is None else asked
        self.learn(readings, graph, seed, watch)
        return self

    @abstractmethod
    def learn(self, readings: Sequence[Reading], graph: Graph | None, seed: int, watch: Progress | None) -> None:
        """Learn to predict each leaf of `hidden` without the leaves hidden with it; leaves that it cannot predict go to `left_out`."""

    @abstractmethod
    def predict_leaf(self, leaf: Leaf, readings: Sequence[Reading]) -> list[Prediction]:
        """The predictions of a leaf for some entities of its class, which do not have it."""

    # ------------------------------------------------------------ entities

    def predict(self, of: str, path: Path, entities: Iterable[Entity], estimate: Estimate = "median") -> list[Any]:
        """The predicted value of a leaf of each entity from all of its others, whether or not it has one; None: no prediction."""
        leaf = (of, path)
        readings = [read(self.schema, entity) for entity in entities]
        chosen = [
            self._without(leaf, reading) for reading in readings if reading is not None and reading.class_name == of
        ]
        leaf_predictions = iter(
            self.predict_leaf(leaf, chosen) if leaf in self.hidden else [NO_PREDICTION] * len(chosen)
        )
        predictions = [
            next(leaf_predictions) if reading is not None and reading.class_name == of else NO_PREDICTION
            for reading in readings
        ]
        return [
            prediction.mean if estimate == "mean" and prediction.mean is not None else prediction.value
            for prediction in predictions
        ]

    def complete(self, entities: Iterable[Entity]) -> Iterator[Completion]:
        """Each entity with its gaps filled, except text, lists, and values that are known to be absent."""
        remaining = iter(entities)
        while batch := list(islice(remaining, COMPLETED_AT_ONCE)):
            readings = [read(self.schema, entity) for entity in batch]
            predicted: list[dict[Path, Any]] = [{} for _ in batch]
            for leaf in self.hidden:
                lacking = [
                    number
                    for number, reading in enumerate(readings)
                    if reading is not None and self._lacks(reading, leaf)
                ]
                lacking_readings = [reading for number in lacking if (reading := readings[number]) is not None]
                for number, prediction in zip(lacking, self.predict_leaf(leaf, lacking_readings), strict=True):
                    if prediction.value is not None:
                        predicted[number][leaf[1]] = nearest_valid(self.leaf(leaf), prediction.value)
            for entity, reading, leaves in zip(batch, readings, predicted, strict=True):
                yield Completion(entity, {} if reading is None else dict(self._filled(reading, leaves)))

    def leaf(self, leaf: Leaf) -> Any:
        """The kind of a leaf in the schema."""
        return self.places[Source(leaf[0], pattern(leaf[1]))].leaf

    def kind(self, leaf: Leaf) -> str:
        """The name of the kind of a leaf: number, category, link, set, text."""
        return learnt_kind(self.leaf(leaf))

    # ------------------------------------------------------------ leaves

    def _all_leaves(self, readings: Collection[Reading]) -> HiddenLeaves:
        by_class: dict[str, dict[Path, None]] = {}
        for reading in readings:
            by_class.setdefault(reading.class_name, {}).update(dict.fromkeys(reading.leaves))
        return {
            (class_name, path): leaves_hidden_with(path, paths)
            for class_name, paths in by_class.items()
            for path in paths
            if (place := self.places.get(Source(class_name, pattern(path)))) is not None and not place.given
        }

    def _without(self, leaf: Leaf, reading: Reading) -> Reading:
        hidden = self.hidden.get(leaf, frozenset([leaf[1]]))
        return reading._replace(leaves={path: value for path, value in reading.leaves.items() if path not in hidden})

    def _lacks(self, reading: Reading, leaf: Leaf) -> bool:
        """Whether an entity lacks a leaf that is to be filled."""
        class_name, path = leaf
        if reading.class_name != class_name or path in reading.leaves or isinstance(self.leaf(leaf), Text):
            return False
        property = self.places[Source(class_name, pattern(path))].property
        kind = self.schema.classes[class_name].properties[property].kind
        return not isinstance(kind, Listed | Mapped) and property not in {*reading.occupied, *reading.absent}

    def _filled(self, reading: Reading, leaves: Mapping[Path, Any]) -> Iterator[tuple[Path, Filled]]:
        """Predicted leaves as whole properties, with their known parts; invalid values such as 30 February are left out."""
        properties = self.schema.classes[reading.class_name].properties
        for property_path in dict.fromkeys(
            self.places[Source(reading.class_name, pattern(path))].property for path in leaves
        ):
            known = {
                path: value for path, value in reading.leaves.items() if path[: len(property_path)] == property_path
            }
            parts = {
                path[len(property_path) :]: value
                for path, value in {**known, **leaves}.items()
                if path[: len(property_path)] == property_path
            }
            try:
                value = apply_kind(properties[property_path].kind, join_kind(properties[property_path].kind, parts))
            except ValueError:
                continue
            yield property_path, Filled(value)


class ConstantBaseline(Baseline):
    """The constant predictor: the median and the mean, the commonest label, as `metrics` has them."""

    def learn(self, readings: Sequence[Reading], graph: Graph | None, seed: int, watch: Progress | None) -> None:
        """Find the constant of every leaf."""
        values: dict[Leaf, list[Any]] = {leaf: [] for leaf in self.hidden}
        for reading in readings:
            for path, value in reading.leaves.items():
                if (reading.class_name, path) in values:
                    values[reading.class_name, path].append(value)
        self.left_out |= {leaf: "no value to learn from" for leaf, leaf_values in values.items() if not leaf_values}
        constants = {
            leaf: fit_constant(self.kind(leaf), leaf_values) for leaf, leaf_values in values.items() if leaf_values
        }
        self.predictions = {leaf: Prediction(constant.value, constant.mean) for leaf, constant in constants.items()}
        if watch is not None:
            watch(len(values), len(values))

    def predict_leaf(self, leaf: Leaf, readings: Sequence[Reading]) -> list[Prediction]:
        """The same for each entity."""
        return [self.predictions.get(leaf, NO_PREDICTION)] * len(readings)


def leaves_hidden_with(path: Path, paths: Collection[Path]) -> frozenset[Path]:
    """A leaf itself, and the other leaves that would give it away: for the length of a list, its places."""
    return frozenset([path, *(other for other in paths if any(count == path for count, _ in counts_of(other)))])


def nearest_valid(leaf: Any, value: Any) -> Any:
    """The number nearest to a predicted one that the schema allows: an integer, with so many decimals, within its bounds."""
    return nearest(leaf, float(value)) if isinstance(leaf, Number) else value
