"""Completing: decides on predicted values, entity by entity in the order of the source, and puts accepted ones in their place.

Rules, thresholds, groups of properties, constraints, unique values, answers of people and formulas decide. Nothing here asks
the network: the same predictions can be decided on again with other thresholds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kbdisk.completion.answers import Answers
from kbdisk.completion.choices import Choices
from kbdisk.completion.consistency import Consistency
from kbdisk.completion.decide import Decider, Decision, below
from kbdisk.completion.fields import AXIOM, LABEL, Field, meets
from kbdisk.completion.filling import NOT_LEARNT
from kbdisk.completion.gaps import Gap, known_properties, passed_over
from kbdisk.completion.groups import HALF_MADE, Groups
from kbdisk.completion.placing import Placing, Told
from kbdisk.completion.plan import Plan, Planned
from kbdisk.completion.predicting import Predicting, Watch
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.recalibration import Calibrations, calibrations_of
from kbdisk.completion.rules import RuleFiller, by_rule
from kbdisk.completion.siblings import Siblings
from kbdisk.completion.summary import Summary
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.entity import Completion, Entity, Filled, Path, at, is_gap, with_values
from kbdisk.evaluation.drift import Drift
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.composites.base import split_kind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, derived_values
from kbdisk.styles import Styles
from kbdisk.training.trained import Trained


@dataclass(eq=False)
class Asked:
    """An entity, what it says, and what it lacks."""

    entity: Entity
    reading: Reading
    gaps: Sequence[Gap]
    decider: Decider  # for entities that are like the training data, or for those that are not
    filled: dict[Path, Filled] = field(default_factory=dict)
    held_back: dict[Path, tuple[Filled, str]] = field(default_factory=dict)  # where these are kept
    leaves: dict[Path, Any] = field(default_factory=dict)  # what was filled in, leaf by leaf
    sure: dict[Path, float] = field(default_factory=dict)  # of each of these leaves
    ruled: set[Path] = field(default_factory=set)  # the properties that rules filled


class Completing(Iterator[Completion]):
    """The completions of the entities of a plan, one by one, by the predictions for each.

    Of those that came out by now `summary` tells what was filled, and `drift` what is unlike what the model learnt from.
    """

    def __init__(
        self,
        plan: Plan,
        predicted: Iterable[tuple[Planned, Sequence[Prediction]]],
        shapes: Schema | None = None,
        answers: Answers | None = None,
        keeps_held_back: bool = False,
        calibrations: Calibrations | None = None,
    ) -> None:
        """`calibrations` of confidence for entities like the training data and for others; None: these are the training data."""
        self.plan, self.predicted, self.choices = plan, predicted, plan.choices
        self.answers = answers or Answers()
        self.keeps_held_back = keeps_held_back
        self.entities, self.fields = plan.entities, plan.fields
        self.schema, self.codec = plan.schema, plan.codec
        self.is_own = calibrations is None
        like, unlike = calibrations or (None, None)
        self.decider = Decider(plan.trained, plan.choices, like)
        self.decider_of_unlike = Decider(plan.trained, plan.choices, unlike)
        self.summary = Summary.of(plan.trained.record.quality, self.codec.learnt_as)
        self.drift = Drift(self.schema, self.codec, plan.trained.record.unlike_level)
        fillable = {
            name: {path for path, field in each.fields.items() if not field.held} for name, each in self.fields.items()
        }
        self.groups = Groups(self.schema, fillable)
        self.shapes = shapes
        self.siblings = Siblings(self.schema, self.choices.only, self.decider.minimum)
        self._lay_rows()
        self._known: dict[str, Counter[Path]] = {name: Counter() for name in self.fields}
        self._met: Counter[str] = Counter()
        self._unique: dict[tuple[str, Path], set[str]] = {}
        self._completions = self._all()

    def __next__(self) -> Completion:
        return next(self._completions)

    # ------------------------------------------------------------ the way through

    def _all(self) -> Iterator[Completion]:
        styles = Styles.learn(self.schema, self._seen())
        placing = Placing(self.schema, styles.place, self.choices.estimate)
        self.rules = RuleFiller(self.schema, self.entities, self.choices.fill)
        self._learn_unique()
        self.consistency = Consistency(self.schema, self.shapes, self.entities)
        for planned, predictions in self.predicted:
            yield self._completed(planned, predictions, placing)
        self._count_held()
        are_mostly_unlike = 2 * self.summary.unlike > self.summary.entities + self.summary.strangers
        self.summary.measured = (self.decider_of_unlike if are_mostly_unlike else self.decider).measured()

    def _completed(self, planned: Planned, predictions: Sequence[Prediction], placing: Placing) -> Completion:
        """The completion of an entity."""
        entity, reading = planned.entity, planned.reading
        self.summary.entities += 1
        unlike: tuple[str, ...] = ()
        if planned.is_chosen:
            self.drift.take(entity, reading)
            unlike = () if self.is_own else self.drift.unlike(entity, reading)
            if unlike:
                self.summary.add_unlike(unlike)
        if reading is None or not planned.is_chosen:
            self.summary.strangers += 1
            return Completion(entity, unlike=unlike)
        one = Asked(entity, reading, [], self.decider_of_unlike if unlike else self.decider)
        self._apply_rules(one, predictions, placing)
        one.gaps = self._gaps(one, planned)
        if one.gaps:
            self._take(one, [each for each in predictions if each.gap.of.top not in one.ruled], placing)
        self._compute(one, placing)
        filled = self.siblings.beside(reading.of, entity, one.filled)
        return Completion(entity, self._consistent(entity, filled, one.held_back), one.held_back, unlike)

    def _consistent(
        self, entity: Entity, filled: dict[Path, Filled], held_back: dict[Path, tuple[Filled, str]]
    ) -> dict[Path, Filled]:
        """What is filled without what would break a constraint, which is held back."""
        refused = self.consistency.refused(entity, filled)
        if self.keeps_held_back:
            held_back |= {path: (filled[path], why) for path, why in refused.items()}
        gaps: dict[tuple[str, Path, Path], str] = {}
        for path, why in refused.items():
            told = filled[path].belief
            if isinstance(told, Told) and told.estimate != "shared":
                gaps[told.of, told.field, told.gap] = why
        for (of, field_path, _), why in gaps.items():
            self.summary.unwritten(of, show_pattern(field_path), why)
        return {path: one for path, one in filled.items() if path not in refused}

    def _seen(self) -> Iterator[Entity]:
        """The entities, once it is noted what they show of properties that belong together."""
        for entity in self.entities:
            of = self.schema.class_of(entity)
            if of is not None:
                self.siblings.see(of.name, entity.tree)
                self.groups.see(of.name, {path for path in self.groups.paths(of.name) if _has(entity, path)})
            yield entity

    def _gaps(self, one: Asked, planned: Planned) -> list[Gap]:
        """What the model is asked for: what no rule has filled."""
        entity, reading = one.entity, one.reading
        fields = self.fields[reading.of]
        self._met[reading.of] += 1
        self._known[reading.of].update({*known_properties(fields, reading, entity.made), *one.ruled})
        gaps = [gap for gap in planned.gaps if gap.of.top not in one.ruled]
        for gap in gaps:
            self.summary.row(gap.of).missing += 1
        if not self.choices.only:
            for path, is_ignored in passed_over(fields.of, entity):
                (self.summary.ignored if is_ignored else self.summary.left_out)[path] += 1
        return gaps

    # ------------------------------------------------------------ what is taken

    def _apply_rules(self, one: Asked, predictions: Sequence[Prediction], placing: Placing) -> None:
        """Fill in what follows exactly from other values; where that has no place the model is asked.

        Whether the entity has a property at all that a rule presumes, the model's predictions tell.
        """
        of = self.schema.classes[one.reading.of]
        made = {path[:length] for path in one.entity.made or () for length in range(1, len(path) + 1)}
        closed = {*one.reading.said, *one.reading.none, *made}
        presences = {
            prediction.gap.path: one.decider.presence(prediction.gap, prediction.presence)
            for prediction in predictions
            if prediction.presence is not None and prediction.gap.path == prediction.gap.of.top
        }
        for ruled in self.rules.filled(one.entity, of.name, one.reading.gaps, closed, presences.get):
            path, sure = ruled.path, ruled.confidence
            if self.choices.only and not any(meets(each, path) for each in self.choices.only):
                continue
            field = self._field(of.name, path, ruled.known)
            if field.held in (AXIOM, LABEL):
                continue
            row = self.summary.row(field)
            if sure < self.decider.minimum:
                continue
            told = Told(
                of.name,
                path,
                path,
                estimate="rule",
                rule=by_rule(ruled.rule),
                presence=ruled.presence,
                correctness=ruled.correctness,
            )
            try:
                raws = placing.put(one.entity, path, ruled.value)
                filled = {at: Filled(raw, sure, told, blank=True) for at, raw in raws.items()}
                self.answers.refuse_rejected(one.entity, filled)
            except ValueError:
                continue
            one.filled |= filled
            leaves = {(*path, *within): leaf for within, leaf in split_kind(ruled.known.kind, ruled.value).items()}
            one.leaves |= leaves
            one.sure |= dict.fromkeys(leaves, sure)
            one.ruled.add(path)
            row.missing += 1
            row.filled += 1
            row.sure += sure
            self.summary.add_derived(sure)
            row.by_rule[by_rule(ruled.rule)] += 1

    def _field(self, of: str, path: Path, known: Property) -> Field:
        """The field of a whole property."""
        found = self.fields[of].fields.get(path)
        return found if found is not None else Field(of, path, path, known, known.kind)

    def _take(self, one: Asked, several: Sequence[Prediction], placing: Placing) -> None:
        """Take what was said for the gaps of an entity, or count why not."""
        given: Mapping[Path, Any] = one.reading.leaves
        if any(filling.gap.parts or filling.gap.path != filling.gap.of.top for filling in several):
            given = self.schema.leaves(one.entity)  # of a list longer than is learnt all of it
        self.summary.askable += len(several)
        decisions = [self._decided(one.decider, filling) for filling in several]
        written = {decision.filling.gap.of.top for decision in decisions if not decision.why_not}
        half_made = self.groups.half_made(one.reading.of, (filling.gap.of.top for filling in several), written)
        for filling, decision in zip(several, decisions, strict=True):
            row = self.summary.row(filling.gap.of)
            if filling.gap.of.top in half_made and self.choices.fill != "all" and not decision.why_not:
                row.held[HALF_MADE] += 1
                self._keep_held_back(one, decision, HALF_MADE, given, placing)
                continue
            key = one.decider.key(decision.filling)
            if not filling.why_not and not one.decider.why_not(key):
                self.summary.add(decision.confidence)
                self.decider.keys.add(key)
                self.decider_of_unlike.keys.add(key)
            try:
                filled = self._placed(one, decision, given, placing)
            except ValueError as error:
                row.held[str(error)] += 1
                self._keep_held_back(one, decision, str(error), given, placing)
                continue
            leaves = decision.filling.leaves
            row.filled += 1
            row.sure += decision.confidence
            row.leaves.update(map(pattern, leaves))
            one.filled |= filled
            one.leaves |= leaves
            one.sure |= dict.fromkeys(leaves, decision.confidence)

    def _decided(self, decider: Decider, prediction: Prediction) -> Decision:
        """What becomes of a prediction. Without a review, what could not be written anyway is not weighed."""
        gap, is_reviewed = prediction.gap, self.keeps_held_back
        why_not = decider.not_asked(gap) if is_reviewed else decider.skips(gap, prediction.presence)
        if why_not and prediction.why_not != NOT_LEARNT:
            prediction = replace(prediction, why_not=why_not)
        return decider.decided(prediction)

    def _keep_held_back(
        self, one: Asked, decision: Decision, why: str, given: Mapping[Path, Any], placing: Placing
    ) -> None:
        """Keep a value that is not written for a review, where there is one."""
        if not self.keeps_held_back or decision.filling.why_not:
            return
        try:
            filled = placing.placed(one.entity, decision, given, calibrated=one.decider.calibration.is_known)
            self.answers.refuse_rejected(one.entity, filled)
        except ValueError:  # it has no place, or a person has rejected it
            return
        one.held_back |= {path: (each, why) for path, each in filled.items()}

    def _placed(
        self, one: Asked, decision: Decision, given: Mapping[Path, Any], placing: Placing
    ) -> dict[Path, Filled]:
        """What is to stand where; ValueError where a gap stays one."""
        filling = decision.filling
        if decision.why_not:
            raise ValueError(decision.why_not)
        filled = placing.placed(one.entity, decision, given, calibrated=one.decider.calibration.is_known)
        self.answers.refuse_rejected(one.entity, filled)
        met = self._unique.get((filling.gap.of.of, filling.gap.of.top))
        if met is not None:
            told = repr(sorted((path, repr(leaf)) for path, leaf in filling.leaves.items()))
            if told in met:
                raise ValueError("unique, and another entity has the likeliest value")
            met.add(told)
        return filled

    def _compute(self, one: Asked, placing: Placing) -> None:
        """Fill in what has a formula."""
        of = self.fields[one.reading.of].of
        if not self._has_formulas(of.name) or (self.choices.fill == "asked" and not one.reading.gaps):
            return
        leaves = {**self.schema.leaves(one.entity, ignored=True), **one.leaves}
        made = {path[:length] for path in one.entity.made or () for length in range(1, len(path) + 1)}
        closed = {*one.reading.said, *one.reading.none, *made}
        for path, known, value in derived_values(of, leaves, closed):
            needed = known.formula.paths if known.formula else ()
            sure = math.prod(one.sure.get(leaf, 1.0) for leaf in needed)
            one.sure |= {path: sure, (*path, "value"): sure}  # as others are computed of it
            if self.choices.fill == "asked" and path not in one.reading.gaps:
                continue
            row = self.summary.row(Field(of.name, path, path, known, known.kind))
            row.missing += 1
            self.summary.add_derived(sure)
            if sure < self.decider.minimum:
                row.held[below(self.decider.minimum)] += 1
                continue
            told = Told(of.name, path, path, estimate="formula", formula=known.formula.text if known.formula else "")
            try:
                raws = placing.put(one.entity, path, value)
                filled = {at: Filled(raw, sure, told, blank=True) for at, raw in raws.items()}
                self.answers.refuse_rejected(one.entity, filled)
            except ValueError as error:
                row.held[str(error)] += 1
                continue
            one.filled |= filled
            row.filled += 1
            row.sure += sure

    # ------------------------------------------------------------ who, and what is known of all

    def _lay_rows(self) -> None:
        """The summary's rows, in the order of the schema."""
        for one in self.fields.values():
            for each in sorted(one.fields.values(), key=lambda each: (one.order[each.top], len(each.path))):
                self.summary.row(each)

    def _has_formulas(self, of: str) -> bool:
        return any(one.formula is not None for one in self.schema.classes[of].properties.values())

    def _learn_unique(self) -> None:
        """Which values unique properties have, where they are to be filled."""
        self._unique = {
            (one.of, one.top): set()
            for each in self.fields.values()
            for one in each.fields.values()
            if one.one.unique and not one.held
        }
        for entity in self.entities if self._unique else ():
            found = self.schema.class_of(entity)
            wanted = {path: met for (of, path), met in self._unique.items() if found is not None and of == found.name}
            if not wanted:
                continue
            whole = with_values(entity.tree, entity.made or {})  # what was filled in is taken, too
            leaves = self.schema.leaves(replace(entity, tree=whole))
            for path, met in wanted.items():
                own = ((leaf, repr(value)) for leaf, value in leaves.items() if leaf[: len(path)] == path)
                met.add(repr(sorted(own)))

    def _count_held(self) -> None:
        """What is never filled, now that it is known how many have it."""
        for name, fields in self.fields.items():
            for one in fields.fields.values():
                lacking = self._met[name] - self._known[name][one.top]
                if one.held and one.path == one.top and one.one.role != "ignore" and lacking:
                    row = self.summary.row(one)
                    row.missing += lacking
                    row.held[one.held] += lacking


def _has(entity: Entity, path: Path) -> bool:
    """Whether anything stands at a path."""
    try:
        value = at(entity.tree, path)
    except KeyError:
        return False
    return not is_gap(value)


def predicting_what_may_be_written(
    plan: Plan,
    shapes: Schema | None = None,
    *,
    calibrations: Calibrations | None = None,
    answers: Answers | None = None,
    watch: Watch | None = None,
) -> Predicting:
    """Predicting for the gaps that the plan's thresholds may write, which takes less time than for all.

    Some may be written where the entity is unlike the training data, and others where it is like it.
    """
    like, unlike = (Decider(plan.trained, plan.choices, calibration) for calibration in calibrations or (None, None))

    def why_not(gap: Gap, presence: float | None) -> str:
        return unlike.skips(gap, presence) and like.skips(gap, presence)

    return Predicting(plan, shapes, why_not=why_not, answers=answers, watch=watch)


def complete(
    trained: Trained,
    entities: Iterable[Entity],
    *,
    watch: Watch | None = None,
    shapes: Schema | None = None,
    answers: Answers | None = None,
    keeps_held_back: bool = False,
    **choices: Any,
) -> Completing:
    """Each entity with what it lacks filled in, in order; options are those of Choices. What was rejected stays a gap.

    With `keeps_held_back` each completion has the values that are not written, too, with the reason.
    What is written satisfies the constraints of the model's schema, and those of `shapes`, together with what is given.

    The result is an iterator, and has a `summary`. Entities are gone through more than once, and predicted for as they come
    out. `kbdisk.complete` has each stage as a value.
    """
    advice = "what it fills in is a rough guess. Train with --preset default."
    trained.warn_of_order(f", not to complete any: {advice}", stacklevel=3)
    choices |= {name: tuple(choices[name]) for name in ("only", "classes") if name in choices}
    plan = Plan(trained, entities, Choices(**choices))
    calibrations = calibrations_of(trained, plan.entities, plan.choices)
    predicting = (
        Predicting(plan, shapes, answers=answers, watch=watch)
        if keeps_held_back
        else predicting_what_may_be_written(plan, shapes, calibrations=calibrations, answers=answers, watch=watch)
    )
    return Completing(plan, predicting, shapes, answers, keeps_held_back, calibrations)
