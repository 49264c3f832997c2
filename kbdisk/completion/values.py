"""Values: from a prediction to the values that are written in the entity.

A value is built from its leaves, in the form that the knowledge base has for such values, or the reason is given why it has no
place. A value that breaks the schema is not filled in, and no given value is changed. With a new part come the type, unit or
currency that all such parts share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from kbdisk.completion.decide import Decision
from kbdisk.completion.fields import overlaps
from kbdisk.completion.gaps import Gap
from kbdisk.completion.predict import EMPTY
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.provenance import MEMBER, Provenance
from kbdisk.data.graph import pattern
from kbdisk.entity import CLASSES, Entity, Filled, Link, Path, Tree, at, is_fillable, walk, with_values
from kbdisk.entity import Quantity as Amount
from kbdisk.model.estimates import Estimate
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.amounts import map_amounts
from kbdisk.schemas.composites.base import apply_kind, join_kind
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.composites.quantity import UNIT, VALUE, Quantity
from kbdisk.schemas.schema import Schema
from kbdisk.schemas.text.names import last_word

OCCUPIED = "something stands there already, and given values are never changed"
UNSEEN = "most likely a value that no training entity has"
WITHOUT_PARTS = "nothing of its parts can be predicted"

PlaceValue = Callable[
    [Entity, Path, Any], dict[Path, Any]
]  # (entity, property, value) -> the values that have to stand where


class Member(NamedTuple):
    """A further member of a set."""

    value: Any
    presence: float  # the probability that there is a further member
    correctness: float  # the probability that it is this one, if so
    calibrated: bool
    rule: str = ""  # that gives it


class Placer:
    """Places values in entities, in the form of their properties."""

    def __init__(self, schema: Schema, place_value: PlaceValue, estimate: str) -> None:
        self.schema, self.place_value, self.estimate = schema, place_value, estimate

    def place(
        self, entity: Entity, decision: Decision, given: Mapping[Path, Any], *, calibrated: bool
    ) -> dict[Path, Filled]:
        """The values that have to stand in an entity, by their paths; ValueError, with the reason, where there is no place.

        `given` are the entity's leaves.
        """
        prediction = decision.prediction
        gap_field = prediction.gap.field
        value = self.value_of(prediction, prediction.leaves, given)
        by_path = self.put(entity, gap_field.top, value)
        drawn = [
            placed for leaves in prediction.draws if (placed := self._place_draw(entity, prediction, leaves, given))
        ]
        answers = in_written_units(gap_field.schema_property.kind, gap_field.top, value, prediction.answers)
        return {
            path: self._filled(decision, answers, path, placed, drawn, calibrated) for path, placed in by_path.items()
        }

    def place_members(self, entity: Entity, gap: Gap, new: Sequence[Member]) -> dict[Path, Filled]:
        """Further members of a set behind the others, or further classes; ValueError where they have no place."""
        values = [member.value for member in new]
        by_path = {(*CLASSES, place): value for place, value in enumerate(values, len(gap.members))}
        if gap.path != CLASSES:
            by_path = self.put(entity, gap.path, apply_kind(gap.field.schema_property.kind, [*gap.members, *values]))
        filled: dict[Path, Filled] = {}
        for (path, value), member in zip(by_path.items(), new, strict=True):
            provenance = Provenance(
                gap.field.class_name,
                gap.path,
                gap.path,
                member.presence,
                member.correctness,
                estimate=MEMBER,
                rule=member.rule,
                calibrated=member.calibrated,
            )
            filled[path] = Filled(value, member.presence * member.correctness, provenance)
        return filled

    def put(self, entity: Entity, property_path: Path, value: Any) -> dict[Path, Any]:
        """The paths and values that state a property's value; ValueError where they would change what is given."""
        by_path = self.place_value(entity, property_path, value)
        if not by_path or not all(
            is_fillable(entity.tree, path, placed, blank=True) for path, placed in by_path.items()
        ):
            raise ValueError(OCCUPIED)
        return by_path

    def _place_draw(
        self, entity: Entity, prediction: Prediction, leaves: Mapping[Path, Any], given: Mapping[Path, Any]
    ) -> Any:
        """The paths and values that state a draw; None where it is no valid value."""
        try:
            value = self.value_of(prediction, leaves, given)
            return self.place_value(entity, prediction.gap.field.top, value)
        except ValueError:
            return None

    def value_of(self, prediction: Prediction, leaves: Mapping[Path, Any], given: Mapping[Path, Any]) -> Any:
        """The value of the whole property, with the given parts; ValueError where it is not a valid value."""
        gap, top = prediction.gap, prediction.gap.field.top
        kind = gap.field.schema_property.kind
        if not leaves or not _is_complete(prediction, leaves):
            raise ValueError(UNSEEN)
        if all(leaf in ([], ()) for leaf in leaves.values()):
            raise ValueError(EMPTY)
        parts = {path[len(top) :]: leaf for path, leaf in given.items() if path[: len(top)] == top}
        parts |= {path[len(top) :]: leaf for path, leaf in leaves.items()}
        if gap.field.is_list and isinstance(gap.field.kind, Mapped) and gap.path == top:
            parts = _with_distinct_keys(parts)
        value = join_kind(kind, parts)
        if gap.field.is_list and not any(_items(value)):
            raise ValueError(WITHOUT_PARTS)
        new = {path[len(top) :] for path in leaves}
        value = map_amounts(
            kind,
            value,
            lambda path, amount_kind, amount: amount_kind.resolved(amount) if (*path, *VALUE) in new else amount,
        )
        return apply_kind(kind, value)

    def _filled(
        self,
        decision: Decision,
        answers: Mapping[Path, Estimate],
        path: Path,
        value: Any,
        drawn: Collection[Mapping[Path, Any]],
        calibrated: bool,
    ) -> Filled:
        """A value at one of its places, with the confidence of the statement as a whole."""
        gap = decision.prediction.gap
        below = {leaf: answer for leaf, answer in answers.items() if leaf[: len(path)] == path} or answers
        provenance = Provenance(
            class_name=gap.field.class_name,
            field=gap.field.path,
            gap=gap.path,
            presence=decision.presence,
            correctness=decision.correctness,
            interval=by_name(below, "interval", len(path)),
            within=by_name(below, "within", len(path)),
            draws=tuple(placed[path] for placed in drawn if path in placed),
            estimate=self.estimate,
            calibrated=calibrated,
        )
        return Filled(value, decision.confidence, provenance, blank=True)


def in_written_units(kind: Kind, top: Path, value: Any, answers: Mapping[Path, Estimate]) -> Mapping[Path, Estimate]:
    """The answers by the keys that parts are written under, with the intervals of amounts in the units that are written.

    Intervals are learnt in one unit for all amounts of a property.
    """
    converted = dict(answers)

    def convert(path: Path, kind: Quantity, amount: Amount) -> Amount:
        leaf = (*top, *path, *VALUE)
        answer, conversion = answers.get(leaf), kind.conversion(amount.unit)
        if answer is not None and conversion is not None and not conversion.is_identity:
            interval = answer.interval
            interval = interval and (conversion.back(interval[0]), conversion.back(interval[1]))
            within = answer.within / conversion.factor if answer.within is not None else None
            converted[leaf] = replace(answer, interval=interval, within=within)
        for name, written in zip((VALUE, UNIT), kind.names, strict=True):
            part = converted.pop((*top, *path, *name), None)
            if part is not None:
                converted[(*top, *path, written)] = part
        return amount

    map_amounts(kind, value, convert)
    return converted


def _is_complete(prediction: Prediction, leaves: Mapping[Path, Any]) -> bool:
    """Whether a value has every required part. No part of a list is required."""
    return prediction.gap.field.is_list or prediction.tokens.keys() <= leaves.keys()


def _with_distinct_keys(parts: Mapping[Path, Any]) -> dict[Path, Any]:
    """The leaves of a map without entries whose key an earlier entry has."""
    keys = {path[0]: key for path, key in parts.items() if path[1:] == (KEY,)}
    first = {key: place for place, key in sorted(keys.items(), reverse=True)}
    new_places = {place: number for number, place in enumerate(sorted(first.values()))}
    within = {(new_places[path[0]], *path[1:]): leaf for path, leaf in parts.items() if path[0] in new_places}
    return {**within, COUNT: len(new_places)}


def _items(value: Any) -> Iterator[Any]:
    """The parts of a list or a map."""
    yield from value.values() if isinstance(value, dict) else value


def by_name(answers: Mapping[Path, Estimate], attribute: str, length: int) -> Any:
    """An attribute of the answers of numbers: of a number that stands alone itself, of several by their names.

    `length` is that of the path that the answers are below.
    """
    known = {leaf: value for leaf, answer in answers.items() if (value := getattr(answer, attribute)) is not None}
    if len(known) == 1 and len(answers) <= 2:  # a number, or a number and its unit
        return next(iter(known.values()))
    return {".".join(map(str, leaf[length:])) or str(leaf[-1]): value for leaf, value in known.items()} or None


# ---------------------------------------------------------------- types, units and currencies that all parts share

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
MEANING = re.compile(
    r"type|(.* )?(units?|currency|language|calendar|crs|datatype|encoding)"
    r"( (code|text|name|symbol|id|model|format|of measure|of measurement))?"
)
MIN_PARTS = 5  # that share a word
MAX_PLACES = 10_000  # that are counted: keys of maps may make more of them than share anything


@dataclass(slots=True)
class PartsAtPlace:
    """The keys and the shared words of all parts at one place."""

    count: int = 0
    keys: dict[str, None] = field(default_factory=dict)  # in the order of the part with most keys
    words: dict[str, Any] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # of parts that have the word of a key
    differing: set[str] = field(default_factory=set)  # keys with different words

    def add(self, part: Tree) -> None:
        """Count a part, unless it is blank."""
        if all(value is None for key, value in part.items() if key[:1] != "@"):
            return
        self.count += 1
        if len(part) > len(self.keys):
            self.keys = dict.fromkeys([*part, *self.keys])
        for key, value in part.items():
            if key not in self.differing and _states_meaning(key):
                if value == self.words.setdefault(key, value) and type(value) in (str, Link) and value:
                    self.counts[key] += 1
                elif value is not None:
                    self.differing.add(key)

    def shared(self) -> Iterator[tuple[str, Any]]:
        """The words that all parts have, with their keys."""
        for key, word in self.words.items():
            if self.counts[key] == self.count >= MIN_PARTS and key not in self.differing:
                yield key, word


class SharedWords:
    """Types, units and currencies that all parts at one place share: a new part there gets the same one.

    The model learns nothing about a constant word; but the amount in a new part is of no use without its currency.
    """

    def __init__(self, schema: Schema, only: Collection[Path] = (), min_confidence: float | None = None) -> None:
        self.schema, self.only, self.min_confidence = schema, only, min_confidence
        self._parts: dict[tuple[str, Path], PartsAtPlace] = {}  # by class and place

    def add(self, class_name: str, tree: Tree) -> None:
        """Count the parts of an entity."""
        waiting = _parts_and_lists((), tree.items())
        while waiting:
            path, value = waiting.pop()
            if type(value) is list:
                waiting += _parts_and_lists(path, enumerate(value))
                continue
            place = class_name, pattern(path)
            if place in self._parts or len(self._parts) < MAX_PLACES:
                self._parts.setdefault(place, PartsAtPlace()).add(value)
            waiting += _parts_and_lists(path, value.items())

    def with_shared(self, class_name: str, entity: Entity, filled: Mapping[Path, Filled]) -> dict[Path, Filled]:
        """The filled values of an entity, with the shared words of new parts, in the order of other parts."""
        places = dict.fromkeys(path[:length] for path in filled for length in range(1, len(path)))
        tree = with_values(entity.tree, entity.made) if places and entity.made else entity.tree
        new = {
            path: word
            for place in places
            if (parts := self._parts.get((class_name, pattern(place)))) and _is_blank(tree, place)
            for path, word in self._shared(class_name, place, parts)
            if path not in filled and _is_blank(tree, path)
        }
        if not new:
            return dict(filled)
        tops = {path[0]: n for n, path in reversed([*enumerate(filled)])}
        ranks = {
            path: [tops[path[0]], *(self._rank(class_name, path[:i], path[i]) for i in range(1, len(path)))]
            for path in (*filled, *new)
        }
        return dict(sorted({**filled, **new}.items(), key=lambda at_path: ranks[at_path[0]]))

    def _shared(self, class_name: str, place: Path, parts: PartsAtPlace) -> Iterator[tuple[Path, Filled]]:
        confidence = (parts.count + 1) / (parts.count + 2)
        if self.min_confidence is not None and confidence < self.min_confidence:
            return
        for key, word in parts.shared():
            path = (*place, key)
            known = self.schema.classes[class_name].properties.get(pattern(path))
            is_unlearnt = known is None or known.role == "ignore"  # others are predicted
            if is_unlearnt and (not self.only or any(overlaps(named, path) for named in self.only)):
                yield path, Filled(word, confidence, Provenance(class_name, pattern(path), path, estimate="shared"))

    def _rank(self, class_name: str, place: Path, key: str | int) -> int:
        """The place of a key among those of other parts; behind them where they do not have it."""
        parts = self._parts.get((class_name, pattern(place)))
        keys = [] if parts is None else list(parts.keys)
        return key if isinstance(key, int) else keys.index(key) if key in keys else len(keys)


@lru_cache(4096)
def _states_meaning(key: str) -> bool:
    """Whether the name of a key says that it holds a type, unit or currency: priceCurrency and unit_code, not unitPrice."""
    words = WORD.findall(last_word(key))
    return MEANING.fullmatch(" ".join(words).lower()) is not None


def _parts_and_lists(path: Path, items: Iterable[tuple[Any, Any]]) -> list[tuple[Path, Any]]:
    return [((*path, key), value) for key, value in items if type(value) in (dict, list)]


def _is_blank(tree: Tree, place: Path) -> bool:
    """Whether a place has no value."""
    try:
        value = at(tree, place)
    except KeyError:
        return True
    return all(leaf is None for _, leaf in walk({"": value}))
