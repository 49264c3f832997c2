"""Why a value was, or would be, filled in: what its confidence is made of, and what it rests on.

One property of one entity is asked about, a composite as a whole. A value that stands there is hidden, with all that
would give it away, as in an evaluation. Where a rule of the schema gives the value, the rule is the reason, and no
model predicts the value. Otherwise the value comes from the filler of completing, and what it rests on from `attribution`.

T tokens
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kbdisk.completion.attribution import Watch, influences_on, is_below, part_of, predictors_of, similar_entities
from kbdisk.completion.choices import Choices
from kbdisk.completion.decide import Decider, below, calibration_of
from kbdisk.completion.fields import Fields, fields_of
from kbdisk.completion.filling import Filler
from kbdisk.completion.gaps import Gap, gaps_of
from kbdisk.completion.keys import Keys, Known, labels_of
from kbdisk.completion.placing import Placing, by_name, in_units
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.reasons import (
    PresenceParts,
    RuleReason,
    Shrinkage,
    Why,
    brief,
    rounded,
)
from kbdisk.completion.rules import RuleFiller
from kbdisk.data.batch import Batch
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.links import Evidence
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import Slot
from kbdisk.entity import Entity, Path, Tree, show, with_values
from kbdisk.errors import SchemaError
from kbdisk.estimates import decoded
from kbdisk.evaluation.calibration import THRESHOLD
from kbdisk.experts.rule_columns import values_of
from kbdisk.metrics import unit_of
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, derived_values, unknown_to
from kbdisk.training.trained import Trained


def why(
    trained: Trained,
    entity: Entity,
    path: Path,
    entities: Sequence[Entity] = (),
    graph: Graph | None = None,
    watch: Watch | None = None,
) -> Why:
    """The reasons for a property of an entity. `entities` are those of its source, `graph` what its links bring.

    SchemaError where the schema has no class for the entity, or nothing can be predicted at the path.
    """
    question = Question(trained, entity, path, entities, graph)
    by_rule = question.by_rule()
    if by_rule is not None and not by_rule.held_back:
        return by_rule
    try:
        return question.by_model(watch)
    except SchemaError:
        if by_rule is None:
            raise
        return by_rule


# ---------------------------------------------------------------- what is asked


class Question:
    """One property of one entity, its value hidden."""

    def __init__(
        self, trained: Trained, entity: Entity, path: Path, entities: Sequence[Entity], graph: Graph | None
    ) -> None:
        self.trained, self.entities, self.graph = trained, entities, graph
        self.schema, self.codec = trained.schema, trained.codec
        self.entity, self.path = entity, path
        reading = read(self.schema, entity)
        if reading is None:
            got, known = ", ".join(entity.classes) or "none", ", ".join(self.schema.classes)
            raise SchemaError(entity.id, f"expected a class of {known}, got {got}.")
        self.reading = reading
        self.of: Class = self.schema.classes[reading.of]
        self.property = property_at(self.schema, reading.of, path)
        self.known: Property = self.of.properties[self.property]
        self.given, self.given_by = self._given()

    def _given_at(self, path: Path) -> Any:
        """What is given of what is filled as one."""
        return part_of(self.known.kind, self.given, path[len(self.property) :])

    @property
    def is_closed(self) -> bool:
        """Whether what stands at the property has no place for a value, such as `novalue`."""
        return self.property in {*self.reading.said, *self.reading.none}

    def _given(self) -> tuple[Any, str]:
        """The value that stands at the property, and from whom it is."""
        value = values_of(self.schema, self.entity).get(self.property)
        if value is not None and any(is_below(leaf, self.property) for leaf in self.reading.leaves):
            return value, "source"
        if self.is_closed:
            return _at(self.entity.tree, self.property), "source"
        made = {path: value for path, value in (self.entity.made or {}).items() if _meet(path, self.property)}
        if made:
            earlier = replace(self.entity, tree=with_values(self.entity.tree, made))
            return values_of(self.schema, earlier).get(self.property), "kbdisk"
        return None, ""

    # ------------------------------------------------------------ by a rule

    def by_rule(self) -> Why | None:
        """The reason where a rule or a formula gives the value."""
        if self.known.formula is not None:
            return self._by_formula()
        if not any(rule.target == self.property for rule in self.schema.rules or ()):
            return None
        hidden = self._without_value()
        others = (hidden if other.id == self.entity.id else other for other in self.entities or [hidden])
        filler = RuleFiller(self.schema, others, "likely")
        is_asked = bool(self.given_by) or self.property in self.reading.gaps
        made = {path[:length] for path in hidden.made or () for length in range(1, len(path) + 1)}
        closed = {*self.reading.said, *self.reading.none, *made} - {self.property}
        gaps = [*self.reading.gaps, *([self.property] if is_asked else [])]
        for ruled in filler.filled(hidden, self.of.name, gaps, closed, partial(self._presence_at, hidden)):
            if ruled.path == self.property:
                rule = ruled.rule
                reason = RuleReason(rule.text, rule.kind, rule.support, rule.exceptions)
                held_back = below(THRESHOLD) if ruled.confidence < THRESHOLD else ""
                return replace(self._exact(ruled.value, ruled.presence, ruled.correctness, reason), held_back=held_back)
        return None

    def _presence_at(self, hidden: Entity, path: Path) -> float | None:
        """The model's presence of a property of the entity without the property that is asked; None where it predicts none."""
        fields, reading = fields_of(self.codec, Choices())[self.of.name], read(self.schema, hidden)
        assert reading is not None
        gaps = gaps_of(fields, reading, self.codec.index.tables[self.of.name], None)
        gap = next((gap for gap in gaps if gap.path == path and gap.of.top == path), None)
        if gap is None:
            return None
        [[prediction]] = self._filler(self.trained, fields).fill(self._batch(gap), [self.reading.id], [[gap]], 0)
        return (
            None if prediction.presence is None else Decider(self.trained, Choices()).presence(gap, prediction.presence)
        )

    def _by_formula(self) -> Why | None:
        hidden = self._without_value()
        for path, known, value in derived_values(self.of, self.schema.leaves(hidden, ignored=True), ()):
            if path == self.property and known.formula is not None:
                return self._exact(value, 1.0, 1.0, RuleReason(known.formula.text, "formula", 0, 0))
        raise SchemaError(show(self.path), "computed by a formula, and a value that the formula needs is missing.")

    def _exact(self, value: Any, presence: float, correctness: float, reason: RuleReason) -> Why:
        return replace(
            self._head(),
            value=value,
            presence=brief(presence),
            correctness=brief(correctness),
            is_hidden=self.given_by == "source",
            rule=reason,
        )

    def _head(self) -> Why:
        kind = type(self.known.kind).__name__.lower()
        unit = unit_of(self.schema, self.of.name, (*self.property, "value"))
        given, by = (self.given, self.given_by)
        return Why(
            self.reading.id, self.entity.label, self.of.name, self.property, kind, unit, None, None, None,
            given=given, given_by=by,
        )  # fmt: skip

    def _without_value(self) -> Entity:
        """The entity without the property."""
        made = {path: value for path, value in (self.entity.made or {}).items() if not _meet(path, self.property)}
        return replace(self.entity, tree=_without(self.entity.tree, self.property), made=made)

    # ------------------------------------------------------------ by the model

    @torch.no_grad()
    def by_model(self, watch: Watch | None) -> Why:
        """The reasons of the model."""
        self.trained.warn_of_order(": what it fills in is a rough guess.", stacklevel=5)
        fields = fields_of(self.codec, Choices(only=(self.property,), least=1))[self.of.name]
        gap, is_hidden = self._gap(fields)
        trained = self.trained.as_judged if is_hidden else self.trained
        batch = self._batch(gap)
        filler = self._filler(trained, fields)
        judged = judgement(trained, filler, batch, self.reading.id, gap)
        filling = judged.filling
        tokens = self._tokens(batch, filling)
        lead = max(tokens.values(), key=lambda token: self._slot(int(batch.slot[token])).fill)
        predictors, unused, limits = predictors_of(trained, batch, tokens)
        value, interval, within = self._value(filling)
        held_back = "" if is_hidden else self._held_back(gap, judged, value)
        return replace(
            self._head(),
            path=gap.path,
            given=self._given_at(gap.path),
            value=value,
            presence=brief(judged.presence),
            correctness=brief(judged.correctness),
            interval=interval,
            within=within,
            is_hidden=is_hidden,
            held_back=held_back,
            note=self._note(gap) if is_hidden else "",
            predictors=tuple(predictors),
            unused=tuple(unused),
            limits=tuple(limits),
            shrinkages=tuple(self._shrinkages(filler, batch, tokens)),
            similar=tuple(similar_entities(self, batch, lead, gap, watch)),
            influences=tuple(influences_on(self, filler, batch, tokens)),
            presence_parts=_presence_parts(trained, filling),
        )

    def _gap(self, fields: Fields) -> tuple[Gap, bool]:
        """What is filled as one, and whether a value that stands there is hidden for that."""
        target, table = self._target(fields), self.codec.index.tables[self.of.name]
        opened = _opened(self.reading, self.property)
        gaps = {gap.path: gap for gap in gaps_of(fields, self.reading, table, None)}
        if target in gaps and self.path not in self.reading.leaves:
            return gaps[target], False
        leaves = {leaf: value for leaf, value in opened.leaves.items() if not is_below(leaf, target)}
        hidden = {gap.path: gap for gap in gaps_of(fields, opened._replace(leaves=leaves), table, None)}
        if target not in hidden:
            raise SchemaError(show(self.path), f"nothing is predicted there: {self._why_none(fields, target)}.")
        return hidden[target], True

    def _target(self, fields: Fields) -> Path:
        """The path of what is filled as one: the property, or a field of a part of a list whose length is known."""
        kind, place = self.known.kind, self.path[len(self.property) : len(self.property) + 1]
        count = self.reading.leaves.get((*self.property, *COUNT), 0)
        if not isinstance(kind, Listed | Mapped) or not place or not isinstance(place[0], int) or place[0] >= count:
            return self.property
        spots = [spot for spot in fields.spots if _meet(spot.path, self.path) and spot.path[-1:] != COUNT]
        targets = sorted({spot.path[: spot.length] for spot in spots}, key=show)
        if not targets:
            raise SchemaError(
                show(self.path), unknown_to(self.of, self.path, self.codec.index.tables[self.of.name].slot)
            )
        if len(targets) > 1:
            several = ", ".join(map(show, targets))
            raise SchemaError(show(self.path), f"expected the path of one value, got several. Say one of {several}.")
        return targets[0]

    def _why_none(self, fields: Fields, target: Path) -> str:
        field, left_out = fields.fields.get(pattern(target)), self.codec.left_out.items()
        reasons = (reason for (of, path), reason in left_out if of == self.of.name and _meet(path, target))
        return (field.held if field is not None else "") or next(reasons, "no value to learn from")

    def _batch(self, gap: Gap) -> Batch:
        """The entity, with the gap asked for, and without all that is hidden with it."""
        reading = _opened(self.reading, self.property)
        slots = {spot.slot: spot.path for spot in gap.spots}
        hidden = {leaf for leaf in reading.leaves if is_below(leaf, gap.path) and (leaf in slots.values())}
        batch = self._encoded(reading, [slot for slot, path in slots.items() if path not in hidden])
        there = set(batch.slot.tolist())
        if uncoded := {path for slot, path in slots.items() if path in hidden and slot not in there}:
            leaves = {leaf: value for leaf, value in reading.leaves.items() if leaf not in uncoded}
            asked = [slot for slot, path in slots.items() if path not in leaves]
            batch = self._encoded(reading._replace(leaves=leaves), asked)
        target = (
            torch.tensor([is_below(self._slot(n).path, gap.path) for n in batch.slot.tolist()]) & ~batch.fixed.cpu()
        )
        given_part = gap.parts and not hidden
        is_hidden = torch.zeros_like(batch.known) if given_part else target.to(batch.known.device) & batch.known
        wanted = torch.isin(batch.slot, torch.tensor(sorted(slots), device=batch.slot.device)) & ~batch.fixed
        visible = batch.seen(batch.known & ~is_hidden)
        return replace(batch, known=batch.known & ~is_hidden).only(visible | (is_hidden & wanted) | batch.asked)

    def _slot(self, number: int) -> Slot:
        return self.codec.slots[number]

    def _encoded(self, reading: Reading, asked: Iterable[int]) -> Batch:
        encoding = Encoding(self.codec.index, lambda reading, table: asked, self.evidence)
        encoding.add(reading)
        return encoding.tokens().to(self.trained.device).batch(torch.zeros(1, dtype=torch.long))

    @property
    def evidence(self) -> Evidence | None:
        """What links bring, where the model looks at any."""
        if not self.codec.index.over:
            return None
        graph = self.graph if self.graph is not None else Graph.read(self.schema, [self.reading])
        return self.codec.evidence(graph)

    def _filler(self, trained: Trained, fields: Fields) -> Filler:
        most = max(len({spot.path for spot in fields.spots}), 1)
        choices = Choices(only=(self.property,), least=1)
        levels = calibration_of(trained).levels
        return Filler(trained, choices, most, Keys(self.codec, self._labels()), levels=levels)

    def _labels(self) -> Iterator[Known]:
        """What keys are learnt from."""
        wanted = labels_of(self.codec)
        for entity in self.entities if self.of.name in wanted else ():
            of = self.schema.class_of(entity)
            if of is not None and of.name in wanted and entity.id != self.entity.id:
                labels = {path: leaf for path, leaf in self.schema.leaves(entity).items() if path in wanted[of.name]}
                yield Known(self.schema.id_of(entity), of.name, labels, entity.made or {})

    def _value(self, filling: Prediction) -> tuple[Any, Any, Any]:
        """The value as a whole, in the form of its kind; the interval and the tolerance of its numbers."""
        placing = Placing(self.schema, lambda entity, path, value: {}, "median")
        given = {} if not filling.gap.parts else self.reading.leaves
        if filling.gap.path != self.property:  # a part of a list whose other parts are given
            given = {leaf: value for leaf, value in self.schema.leaves(self.entity).items() if not is_below(leaf, filling.gap.path)}  # fmt: skip
        try:
            whole = placing.value_of(filling, filling.leaves, given)
        except ValueError:
            return None, None, None
        written = in_units(self.known.kind, self.property, whole, filling.answers)
        interval, within = (by_name(written, name, len(self.property)) for name in ("interval", "within"))
        value = part_of(self.known.kind, whole, filling.gap.path[len(self.property) :])
        return value, rounded(interval), rounded(within)

    def _held_back(self, gap: Gap, judged: Judgement, value: Any) -> str:
        """Why completing would leave the gap alone, as far as this is known of one gap by itself."""
        field = fields_of(self.codec, Choices())[self.of.name].fields.get(pattern(gap.path))
        if field is not None and field.held:
            return field.held
        if judged.held_back:
            return judged.held_back
        if value is None:
            return "no value of the schema's form can be made of the predictions"
        return ""

    def _note(self, gap: Gap) -> str:
        """What a reader has to know of a hidden value."""
        id, record = self.reading.id, self.trained.record
        reserved = self.trained.reserved.get(id, ())
        if self.entity.nameless or id not in record.training or all(spot.slot in reserved for spot in gap.spots):
            return ""
        return "the model was trained on this entity, and may know the value by heart"

    def _tokens(self, batch: Batch, filling: Prediction) -> dict[Path, int]:
        """The tokens of the leaves that are explained, in the order of the schema; of a list its length is the first."""
        order = self.codec.index.layout.order
        tokens = {path: token for path, token in filling.tokens.items() if bool(batch.asked[token])}
        count = (*filling.gap.path, *COUNT)
        for token in batch.asked.nonzero()[:, 0].tolist() if filling.gap.of.is_list else ():
            if self._slot(int(batch.slot[token])).path == count:
                tokens[count] = token
        if not tokens:
            raise SchemaError(
                show(self.path), f"nothing is predicted there: {filling.why_not or 'no value to learn from'}."
            )
        return dict(sorted(tokens.items(), key=lambda pair: (pair[0] != count, int(order[int(batch.slot[pair[1]])]))))

    def _shrinkages(self, filler: Filler, batch: Batch, tokens: Mapping[Path, int]) -> Iterator[Shrinkage]:
        for path, token in tokens.items():
            slot = int(batch.slot[token])
            if slot in filler.trusting.weights:
                constant = filler.trusting.constants[slot]
                value = (
                    decoded(self.codec, batch.slot[[token]], constant)[0] if isinstance(constant, Tensor) else constant
                )
                yield Shrinkage(path, filler.trusting.weights[slot], value)


def property_at(schema: Schema, class_name: str, path: Path) -> Path:
    """The property that a path is of, or leads into. SchemaError where there is none, or several, or it is not predicted."""
    of = schema.classes[class_name]
    property = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in of.properties), None)
    if property is None:
        below = [show(other) for other in of.properties if is_below(other, path)]
        if below:
            raise SchemaError(show(path), f"expected one property, got several. Say one of {', '.join(below)}.")
        raise SchemaError(show(path), unknown_to(of, path))
    known = of.properties[property]
    if known.role == "ignore" and known.formula is None:
        raise SchemaError(show(path), unknown_to(of, path))
    if known.role == "given" and known.formula is None:
        raise SchemaError(show(path), "expected a property that is predicted, got one that is only given.")
    if path != property and not any(is_below(leaf, pattern(path)) for leaf in of.leaves()):
        raise SchemaError(show(path), unknown_to(of, path, of.leaves()))
    return property


def _opened(reading: Reading, property: Path) -> Reading:
    """A reading of which nothing is said of a property that is no value."""
    said, none = ([path for path in paths if path != property] for paths in (reading.said, reading.none))
    return reading._replace(said=said, none=none)


def _meet(one: Path, other: Path) -> bool:
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _without(tree: Tree, path: Path) -> Tree:
    """A copy of a tree without what stands at a path."""
    key, *rest = path
    copy = dict(tree)
    if not rest:
        copy.pop(key, None)  # type: ignore[arg-type]
    elif isinstance(copy.get(key), dict):  # type: ignore[arg-type]
        copy[key] = _without(copy[key], tuple(rest))  # type: ignore[index]
    return copy


# ---------------------------------------------------------------- presence and correctness


@dataclass(frozen=True, eq=False)
class Judgement:
    """A gap with the value for it, how likely the entity has the property, and how likely the value is right if so."""

    filling: Prediction
    presence: float | None
    correctness: float | None
    held_back: str


def _presence_parts(trained: Trained, filling: Prediction) -> PresenceParts | None:
    if trained.presence_trees is None or filling.presence_parts is None:
        return None
    return PresenceParts(*map(brief, (*filling.presence_parts, float(trained.presence_trees.weight))))


def judgement(trained: Trained, filler: Filler, batch: Batch, id: str, gap: Gap) -> Judgement:
    """The value of one gap of one entity as completing would have it, given what is given alone."""
    [[filling]] = filler.fill(batch, [id], [[gap]], 0)
    decision = Decider(trained, Choices()).decided(filling)
    return Judgement(decision.filling, decision.presence, decision.correctness, decision.why_not)
