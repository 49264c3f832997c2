"""Why a value was, or would be, filled in: the parts of its confidence, and its attribution.

The question is about one property of one entity, a composite as a whole. A given value is hidden, with everything that would
reveal it, as in an evaluation. Where a rule of the schema gives the value, the rule is the reason, and no model predicts the
value. Otherwise the value is predicted as in completing, and attributed by `attribution`. `decide` has the way of its confidence,
from the model's probabilities to the number that is shown.

T tokens
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from kbdisk.completion.attribution import influences_on, is_below, part_of, predictors_of, similar_entities
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.decide import Decider, Decision, calibration_of
from kbdisk.completion.fields import Fields, fields_of
from kbdisk.completion.gaps import Gap, are_nested, gaps_of
from kbdisk.completion.member_reasons import is_about_member, why_member
from kbdisk.completion.predict import GapPredictor, Watch
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
from kbdisk.completion.trial import calibrations_of
from kbdisk.completion.unique_pairs import UniquePairs, label_slots
from kbdisk.completion.values import Placer, by_name, in_written_units
from kbdisk.data.dataset import Batch
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.links import Evidence
from kbdisk.data.parse import Reading, read, read_all
from kbdisk.data.slots import Slot
from kbdisk.entity import Entity, Path, Tree, at, show, with_values
from kbdisk.errors import SchemaError
from kbdisk.evaluation.calibration import THRESHOLD
from kbdisk.evaluation.drift import Drift
from kbdisk.experts.rule_columns import values_in, values_of
from kbdisk.metrics import unit_of
from kbdisk.model.estimates import decode_codes
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
    """The reasons for a property of an entity. `entities` and `graph` are those of its source.

    SchemaError where the schema has no class for the entity, or nothing can be predicted at the path.
    """
    if is_about_member(trained, entity, path):
        return why_member(trained, entity, path, entities)
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
        self.schema_class: Class = self.schema.classes[reading.class_name]
        self.property_path = property_at(self.schema, reading.class_name, path)
        self.schema_property: Property = self.schema_class.properties[self.property_path]
        self.given, self.given_by = self._given()

    @cached_property
    def decider(self) -> Decider:
        """Decides as completing the source would: entities unlike the training data have a calibration of their own."""
        config = CompletionConfig()
        if not self.entities:
            return Decider(self.trained, config)
        calibrations = calibrations_of(self.trained, self.entities, config)
        drift = Drift(self.schema, self.codec, self.trained.record.unlike_level)
        is_unlike = bool(drift.unlike(self.entity, self.reading))
        return Decider(self.trained, config, calibrations.unlike if is_unlike else calibrations.like)

    def _given_at(self, path: Path) -> Any:
        """The given value at the path of a field."""
        return part_of(self.schema_property.kind, self.given, path[len(self.property_path) :])

    @property
    def is_closed(self) -> bool:
        """Whether the property is declared absent, as by `novalue`, so that it has no place for a value."""
        return self.property_path in {*self.reading.occupied, *self.reading.absent}

    def _given(self) -> tuple[Any, str]:
        """The value that stands at the property, and its origin: `source` or `kbdisk`."""
        value = values_in(self.schema, self.reading).get(self.property_path)
        if value is not None and any(is_below(leaf, self.property_path) for leaf in self.reading.leaves):
            return value, "source"
        if self.is_closed:
            return at(self.entity.tree, self.property_path), "source"
        made = {path: value for path, value in (self.entity.made or {}).items() if are_nested(path, self.property_path)}
        if made:
            earlier = replace(self.entity, tree=with_values(self.entity.tree, made))
            return values_of(self.schema, earlier).get(self.property_path), "kbdisk"
        return None, ""

    # ------------------------------------------------------------ by a rule

    def by_rule(self) -> Why | None:
        """The reason where a rule or a formula gives the value."""
        if self.schema_property.formula is not None:
            return self._by_formula()
        if not any(rule.target == self.property_path for rule in self.schema.rules or ()):
            return None
        hidden = self._without_value()
        reading = read(self.schema, hidden)
        assert reading is not None
        source_entities = (hidden if other.id == self.entity.id else other for other in self.entities or [hidden])
        rule_filler = RuleFiller(self.schema, read_all(self.schema, source_entities), "likely")
        is_asked = bool(self.given_by) or self.property_path in self.reading.gaps
        made = {path[:length] for path in hidden.made or () for length in range(1, len(path) + 1)}
        closed = {*self.reading.occupied, *self.reading.absent, *made} - {self.property_path}
        gaps = [*self.reading.gaps, *([self.property_path] if is_asked else [])]
        for ruled in rule_filler.filled(reading, gaps, closed, partial(self._presence_at, reading)):
            if ruled.path == self.property_path:
                rule = ruled.rule
                reason = RuleReason(rule.text, rule.kind, rule.support, rule.exceptions)
                exact = self._exact(ruled.value, ruled.presence, ruled.correctness, reason)
                return replace(exact, held_back=ruled.why_not(THRESHOLD))
        return None

    def _presence_at(self, hidden: Reading, path: Path) -> float | None:
        """The model's presence of a property of the entity without the property that is asked; None where it predicts none."""
        fields = fields_of(self.codec, CompletionConfig())[self.schema_class.name]
        gaps = gaps_of(fields, hidden, self.codec.index.tables[self.schema_class.name], None)
        gap = next((gap for gap in gaps if gap.path == path and gap.field.top == path), None)
        if gap is None:
            return None
        [[prediction]] = self._predictor(self.trained, fields).predict(self._batch(gap), [self.reading.id], [[gap]], 0)
        return None if prediction.presence is None else self.decider.presence(gap, prediction.presence)

    def _by_formula(self) -> Why | None:
        hidden = self._without_value()
        for path, known, value in derived_values(self.schema_class, self.schema.leaves(hidden, ignored=True), ()):
            if path == self.property_path and known.formula is not None:
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
        kind = type(self.schema_property.kind).__name__.lower()
        unit = unit_of(self.schema, self.schema_class.name, (*self.property_path, "value"))
        given, by = (self.given, self.given_by)
        return Why(
            self.reading.id, self.entity.label, self.schema_class.name, self.property_path, kind, unit, None, None, None,
            given=given, given_by=by,
        )  # fmt: skip

    def _without_value(self) -> Entity:
        """The entity without the property."""
        made = {
            path: value for path, value in (self.entity.made or {}).items() if not are_nested(path, self.property_path)
        }
        return replace(self.entity, tree=_without(self.entity.tree, self.property_path), made=made)

    # ------------------------------------------------------------ by the model

    @torch.no_grad()
    def by_model(self, watch: Watch | None) -> Why:
        """The reasons of the model."""
        self.trained.warn_of_order(": what it fills in is a rough guess.", stacklevel=5)
        fields = fields_of(self.codec, CompletionConfig(only=(self.property_path,), least=1))[self.schema_class.name]
        gap, is_hidden = self._gap(fields)
        trained = self.trained.before_refit if is_hidden else self.trained
        batch = self._batch(gap)
        predictor = self._predictor(trained, fields)
        [[predicted]] = predictor.predict(
            batch, [self.reading.id], [[gap]], 0
        )  # as in completing, by the given values alone
        decision = self.decider.decided(predicted)
        prediction = decision.prediction
        tokens = self._tokens(batch, prediction)
        lead = max(tokens.values(), key=lambda token: self._slot(int(batch.slot[token])).fill)
        predictors, unused, limits = predictors_of(trained, batch, tokens)
        value, interval, within = self._value(prediction)
        held_back = "" if is_hidden else self._held_back(gap, decision, value)
        return replace(
            self._head(),
            path=gap.path,
            given=self._given_at(gap.path),
            value=value,
            presence=brief(decision.presence),
            correctness=brief(decision.correctness),
            interval=interval,
            within=within,
            is_hidden=is_hidden,
            held_back=held_back,
            note=self._note(gap) if is_hidden else "",
            predictors=tuple(predictors),
            unused=tuple(unused),
            limits=tuple(limits),
            shrinkages=tuple(self._shrinkages(predictor, batch, tokens)),
            similar=tuple(similar_entities(self, batch, lead, gap, watch)),
            influences=tuple(influences_on(self, predictor, batch, tokens)),
            presence_parts=_presence_parts(trained, prediction),
        )

    def _gap(self, fields: Fields) -> tuple[Gap, bool]:
        """The gap, and whether a value that stands there is hidden for it."""
        target, table = self._target(fields), self.codec.index.tables[self.schema_class.name]
        opened = _opened(self.reading, self.property_path)
        gaps = {gap.path: gap for gap in gaps_of(fields, self.reading, table, None)}
        if target in gaps and self.path not in self.reading.leaves:
            return gaps[target], False
        leaves = {leaf: value for leaf, value in opened.leaves.items() if not is_below(leaf, target)}
        hidden = {gap.path: gap for gap in gaps_of(fields, opened._replace(leaves=leaves), table, None)}
        if target not in hidden:
            raise SchemaError(show(self.path), f"nothing is predicted there: {self._why_none(fields, target)}.")
        return hidden[target], True

    def _target(self, fields: Fields) -> Path:
        """The path that is filled as one: that of the property, or of a field of a part of a list whose length is known."""
        kind, place = self.schema_property.kind, self.path[len(self.property_path) : len(self.property_path) + 1]
        count = self.reading.leaves.get((*self.property_path, *COUNT), 0)
        if not isinstance(kind, Listed | Mapped) or not place or not isinstance(place[0], int) or place[0] >= count:
            return self.property_path
        spots = [spot for spot in fields.spots if are_nested(spot.path, self.path) and spot.path[-1:] != COUNT]
        targets = sorted({spot.path[: spot.length] for spot in spots}, key=show)
        if not targets:
            raise SchemaError(
                show(self.path),
                unknown_to(self.schema_class, self.path, self.codec.index.tables[self.schema_class.name].slot),
            )
        if len(targets) > 1:
            paths = ", ".join(map(show, targets))
            raise SchemaError(show(self.path), f"expected the path of one value, got several. Say one of {paths}.")
        return targets[0]

    def _why_none(self, fields: Fields, target: Path) -> str:
        field, left_out = fields.fields.get(pattern(target)), self.codec.left_out.items()
        reasons = (
            reason
            for (class_name, path), reason in left_out
            if class_name == self.schema_class.name and are_nested(path, target)
        )
        return (field.why_not if field is not None else "") or next(reasons, "no value to learn from")

    def _batch(self, gap: Gap) -> Batch:
        """The entity with the gap asked for, and without the values that are hidden with it."""
        reading = _opened(self.reading, self.property_path)
        slots = {spot.slot: spot.path for spot in gap.spots}
        hidden = {leaf for leaf in reading.leaves if is_below(leaf, gap.path) and (leaf in slots.values())}
        batch = self._encoded(reading, [slot for slot, path in slots.items() if path not in hidden])
        encoded_slots = set(batch.slot.tolist())
        if uncoded := {path for slot, path in slots.items() if path in hidden and slot not in encoded_slots}:
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

    @cached_property
    def evidence(self) -> Evidence | None:
        """The features that come over links, where the model has any."""
        if not self.codec.index.over:
            return None
        graph = self.graph if self.graph is not None else Graph.read(self.schema, [self.reading])
        return self.codec.evidence(graph)

    def _predictor(self, trained: Trained, fields: Fields) -> GapPredictor:
        max_leaves = max(len({spot.path for spot in fields.spots}), 1)
        config = CompletionConfig(only=(self.property_path,), least=1)
        may_have_key = self.schema_class.name in label_slots(self.codec)
        others = (entity for entity in self.entities if may_have_key and entity.id != self.entity.id)
        unique_pairs = UniquePairs(self.codec, read_all(self.schema, others))
        return GapPredictor(trained, config, max_leaves, unique_pairs, levels=calibration_of(trained).levels)

    def _value(self, prediction: Prediction) -> tuple[Any, Any, Any]:
        """The value in the form of its kind; the interval and the tolerance of its numbers."""
        placer = Placer(self.schema, lambda entity, path, value: {}, "median")
        given = {} if not prediction.gap.parts else self.reading.leaves
        if prediction.gap.path != self.property_path:  # a part of a list whose other parts are given
            given = {leaf: value for leaf, value in self.schema.leaves(self.entity).items() if not is_below(leaf, prediction.gap.path)}  # fmt: skip
        try:
            property_value = placer.value_of(prediction, prediction.leaves, given)
        except ValueError:
            return None, None, None
        written = in_written_units(self.schema_property.kind, self.property_path, property_value, prediction.answers)
        interval, within = (by_name(written, name, len(self.property_path)) for name in ("interval", "within"))
        value = part_of(self.schema_property.kind, property_value, prediction.gap.path[len(self.property_path) :])
        return value, rounded(interval), rounded(within)

    def _held_back(self, gap: Gap, decision: Decision, value: Any) -> str:
        """Why completing would not write a value, as far as this is known of one gap by itself."""
        field = fields_of(self.codec, CompletionConfig())[self.schema_class.name].fields.get(pattern(gap.path))
        if field is not None and field.why_not:
            return field.why_not
        if decision.why_not:
            return decision.why_not
        if value is None:
            return "no value of the schema's form can be made of the predictions"
        return ""

    def _note(self, gap: Gap) -> str:
        """The warning that the model was trained on the hidden value; empty where it was not."""
        id, record = self.reading.id, self.trained.record
        reserved = self.trained.reserved.get(id, ())
        if self.entity.nameless or id not in record.training or all(spot.slot in reserved for spot in gap.spots):
            return ""
        return "the model was trained on this entity, and may know the value by heart"

    def _tokens(self, batch: Batch, prediction: Prediction) -> dict[Path, int]:
        """The tokens of the leaves that are explained, in the order of the schema; the length of a list comes first."""
        order = self.codec.index.layout.order
        tokens = {path: token for path, token in prediction.tokens.items() if bool(batch.asked[token])}
        count = (*prediction.gap.path, *COUNT)
        for token in batch.asked.nonzero()[:, 0].tolist() if prediction.gap.field.is_list else ():
            if self._slot(int(batch.slot[token])).path == count:
                tokens[count] = token
        if not tokens:
            raise SchemaError(
                show(self.path), f"nothing is predicted there: {prediction.why_not or 'no value to learn from'}."
            )
        return dict(sorted(tokens.items(), key=lambda pair: (pair[0] != count, int(order[int(batch.slot[pair[1]])]))))

    def _shrinkages(self, predictor: GapPredictor, batch: Batch, tokens: Mapping[Path, int]) -> Iterator[Shrinkage]:
        for path, token in tokens.items():
            slot = int(batch.slot[token])
            if slot in predictor.shrinker.weights:
                constant = predictor.shrinker.constants[slot]
                value = (
                    decode_codes(self.codec, batch.slot[[token]], constant)[0]
                    if isinstance(constant, Tensor)
                    else constant
                )
                yield Shrinkage(path, predictor.shrinker.weights[slot], value)


def property_at(schema: Schema, class_name: str, path: Path) -> Path:
    """The property that a path is of, or leads into. SchemaError where there is none, or several, or it is not predicted."""
    schema_class = schema.classes[class_name]
    property_path = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in schema_class.properties), None)
    if property_path is None:
        below = [show(other) for other in schema_class.properties if is_below(other, path)]
        if below:
            raise SchemaError(show(path), f"expected one property, got several. Say one of {', '.join(below)}.")
        raise SchemaError(show(path), unknown_to(schema_class, path))
    known = schema_class.properties[property_path]
    if known.role == "ignore" and known.formula is None:
        raise SchemaError(show(path), unknown_to(schema_class, path))
    if known.role == "given" and known.formula is None:
        raise SchemaError(show(path), "expected a property that is predicted, got one that is only given.")
    if path != property_path and not any(is_below(leaf, pattern(path)) for leaf in schema_class.leaves()):
        raise SchemaError(show(path), unknown_to(schema_class, path, schema_class.leaves()))
    return property_path


def _opened(reading: Reading, property_path: Path) -> Reading:
    """A reading in which a property is not declared absent."""
    occupied, absent = (
        [path for path in paths if path != property_path] for paths in (reading.occupied, reading.absent)
    )
    return reading._replace(occupied=occupied, absent=absent)


def _without(tree: Tree, path: Path) -> Tree:
    """A copy of a tree without what stands at a path."""
    key, *rest = path
    copy = dict(tree)
    if not rest:
        copy.pop(key, None)  # type: ignore[arg-type]
    elif isinstance(copy.get(key), dict):  # type: ignore[arg-type]
        copy[key] = _without(copy[key], tuple(rest))  # type: ignore[index]
    return copy


def _presence_parts(trained: Trained, prediction: Prediction) -> PresenceParts | None:
    if trained.presence_trees is None or prediction.presence_parts is None:
        return None
    return PresenceParts(*map(brief, (*prediction.presence_parts, float(trained.presence_trees.weight))))
