"""Builds a predicted value from its leaves and puts it where the knowledge base has such values, or says why it has no place.

A value that breaks the schema is not filled in, and no given value is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kbdisk.completion.decide import Decision
from kbdisk.completion.filling import EMPTY
from kbdisk.completion.predictions import Prediction
from kbdisk.entity import Entity, Filled, Path, is_fillable
from kbdisk.entity import Quantity as Amount
from kbdisk.estimates import Answer
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.amounts import map_amounts
from kbdisk.schemas.composites.base import apply_kind, join_kind
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.composites.mapped import KEY, Mapped
from kbdisk.schemas.composites.quantity import UNIT, VALUE, Quantity
from kbdisk.schemas.schema import Schema

GIVEN = "something stands there already, and given values are never changed"
UNNAMED = "likeliest is a value that was never met"
PARTLESS = "nothing of its parts can be predicted"

Place = Callable[[Entity, Path, Any], dict[Path, Any]]  # (entity, property, value) -> what has to stand where
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Told:
    """What is known of a value that was filled in, beside how sure it is."""

    of: str  # the class
    field: Path  # EACH for any place of a list
    gap: Path  # what was filled as one: of a date whose month and day are missing, the date
    presence: float | None = None  # the probability that the entity has such a value
    correctness: float | None = None  # the probability that this value is right, given that the entity has one
    interval: Bounds | Mapping[str, Bounds] | None = None  # of a number; of several, each by its name
    within: float | Mapping[str, float] | None = None  # how far off a number may be and still count as right
    draws: tuple[Any, ...] = ()
    estimate: str = ""  # or `formula`, `rule`, or `shared`
    formula: str = ""
    rule: str = ""
    calibrated: bool = False


class Placing:
    """Puts predictions into entities."""

    def __init__(self, schema: Schema, place: Place, estimate: str) -> None:
        self.schema, self.place, self.estimate = schema, place, estimate

    def placed(
        self, entity: Entity, decision: Decision, given: Mapping[Path, Any], *, calibrated: bool
    ) -> dict[Path, Filled]:
        """What has to stand where; ValueError, with the reason, where nothing can. `given` are the entity's leaves."""
        one = decision.filling
        gap = one.gap
        value = self.value_of(one, one.leaves, given)
        raws = self.put(entity, gap.of.top, value)
        drawn = [raw for leaves in one.draws if (raw := self._raws(entity, one, leaves, given))]
        answers = in_units(gap.of.one.kind, gap.of.top, value, one.answers)
        return {path: self._filled(decision, answers, path, raw, drawn, calibrated) for path, raw in raws.items()}

    def put(self, entity: Entity, property: Path, value: Any) -> dict[Path, Any]:
        """The paths and values that say this; ValueError where that is nothing, or would change what is given."""
        raws = self.place(entity, property, value)
        if not raws or not all(is_fillable(entity.tree, path, raw, blank=True) for path, raw in raws.items()):
            raise ValueError(GIVEN)
        return raws

    def _raws(self, entity: Entity, one: Prediction, leaves: Mapping[Path, Any], given: Mapping[Path, Any]) -> Any:
        """Where a draw would stand; None where it is none."""
        try:
            return self.place(entity, one.gap.of.top, self.value_of(one, leaves, given))
        except ValueError:
            return None

    def value_of(self, one: Prediction, leaves: Mapping[Path, Any], given: Mapping[Path, Any]) -> Any:
        """The whole property, with what is given of it."""
        gap, at = one.gap, one.gap.of.top
        if not leaves or not _is_whole(one, leaves):
            raise ValueError(UNNAMED)
        if all(leaf in ([], ()) for leaf in leaves.values()):
            raise ValueError(EMPTY)
        parts = {path[len(at) :]: leaf for path, leaf in given.items() if path[: len(at)] == at}
        parts |= {path[len(at) :]: leaf for path, leaf in leaves.items()}
        if gap.of.is_list and isinstance(gap.of.kind, Mapped) and gap.path == at:
            parts = _singular(parts)
        value = join_kind(gap.of.one.kind, parts)
        if gap.of.is_list and not any(_items(value)):
            raise ValueError(PARTLESS)
        new = {path[len(at) :] for path in leaves}
        value = map_amounts(
            gap.of.one.kind,
            value,
            lambda path, kind, amount: kind.resolved(amount) if (*path, *VALUE) in new else amount,
        )
        return apply_kind(gap.of.one.kind, value)

    def _filled(
        self,
        decision: Decision,
        answers: Mapping[Path, Answer],
        path: Path,
        raw: Any,
        drawn: Collection[Mapping[Path, Any]],
        calibrated: bool,
    ) -> Filled:
        """What stands at one of the places: it is as sure as all that is stated with it."""
        one = decision.filling
        under = {leaf: answer for leaf, answer in answers.items() if leaf[: len(path)] == path} or answers
        told = Told(
            of=one.gap.of.of,
            field=one.gap.of.path,
            gap=one.gap.path,
            presence=decision.presence,
            correctness=decision.correctness,
            interval=by_name(under, "interval", len(path)),
            within=by_name(under, "within", len(path)),
            draws=tuple(each[path] for each in drawn if path in each),
            estimate=self.estimate,
            calibrated=calibrated,
        )
        return Filled(raw, decision.confidence, told, blank=True)


def in_units(kind: Kind, top: Path, value: Any, answers: Mapping[Path, Answer]) -> Mapping[Path, Answer]:
    """The answers by the keys that parts are written under; with intervals of amounts in the units that these are
    written in, as they were learnt in another."""
    converted = dict(answers)

    def convert(path: Path, kind: Quantity, amount: Amount) -> Amount:
        leaf = (*top, *path, *VALUE)
        answer, found = answers.get(leaf), kind.conversion(amount.unit)
        if answer is not None and found is not None and not found.is_identity:
            low_high = answer.interval and (found.back(answer.interval[0]), found.back(answer.interval[1]))
            within = answer.within / found.factor if answer.within is not None else None
            converted[leaf] = replace(answer, interval=low_high, within=within)
        for name, written in zip((VALUE, UNIT), kind.names, strict=True):
            part = converted.pop((*top, *path, *name), None)
            if part is not None:
                converted[(*top, *path, written)] = part
        return amount

    map_amounts(kind, value, convert)
    return converted


def _is_whole(one: Prediction, leaves: Mapping[Path, Any]) -> bool:
    """Whether all that a value cannot do without is there: every part, but for those of a list."""
    return one.gap.of.is_list or one.tokens.keys() <= leaves.keys()


def _singular(parts: Mapping[Path, Any]) -> dict[Path, Any]:
    """The leaves of a map without those of entries whose key an earlier one has."""
    keys = {path[0]: key for path, key in parts.items() if path[1:] == (KEY,)}
    first = {key: place for place, key in sorted(keys.items(), reverse=True)}
    kept = {place: turn for turn, place in enumerate(sorted(first.values()))}
    within = {(kept[path[0]], *path[1:]): leaf for path, leaf in parts.items() if path[0] in kept}
    return {**within, COUNT: len(kept)}


def _items(value: Any) -> Iterator[Any]:
    """The parts of a list or a map."""
    yield from value.values() if isinstance(value, dict) else value


def by_name(under: Mapping[Path, Answer], what: str, length: int) -> Any:
    """What there is to tell of numbers: of one that stands alone itself, of several by their names."""
    told = {leaf: value for leaf, answer in under.items() if (value := getattr(answer, what)) is not None}
    if len(told) == 1 and len(under) <= 2:  # a number, or a number and its unit
        return next(iter(told.values()))
    return {".".join(map(str, leaf[length:])) or str(leaf[-1]): value for leaf, value in told.items()} or None
