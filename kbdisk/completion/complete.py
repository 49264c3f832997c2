"""Complete: decides on the predictions for a plan, entity by entity in the order of the source, and places accepted values.

Rules, thresholds, groups of properties, constraints, unique values, answers of people and formulas decide. Nothing here asks
the network: the same predictions can be decided on again with other thresholds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from kbdisk.completion.answers import Answers
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.constraints import Consistency
from kbdisk.completion.decide import (
    ABSENT,
    INCOMPLETE_GROUP,
    Decider,
    Decision,
    Groups,
    MemberDecider,
    below,
    why_unnamed,
)
from kbdisk.completion.fields import AXIOM, LABEL, Field, overlaps
from kbdisk.completion.gaps import Gap, known_properties, unlearnt_gaps
from kbdisk.completion.plan import Plan, Planned
from kbdisk.completion.predict import NOT_LEARNT, Predicting, Watch, further_member
from kbdisk.completion.predictions import Prediction
from kbdisk.completion.provenance import MEMBER, Provenance
from kbdisk.completion.rules import RuleFiller, by_rule, confidence_of
from kbdisk.completion.summary import Summary
from kbdisk.completion.trial import Calibrations, calibrations_of
from kbdisk.completion.values import Member, Placer, SharedWords
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.entity import CLASSES, Completion, Entity, Filled, Path, at, is_gap, with_values
from kbdisk.evaluation.drift import Drift
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.composites.base import split_kind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, derived_values
from kbdisk.styles.styles import SourceStyles
from kbdisk.training.trained import Trained

MIN_CONFIDENCE_OF_REVIEW = 0.1  # of a further member that is not written: less likely ones are in no review
REPEATED = "unique, and another entity has the likeliest value"


@dataclass(eq=False)
class Draft:
    """The unfinished completion of an entity."""

    entity: Entity
    reading: Reading
    decider: Decider  # that for entities like the training data, or that for the others
    filled: dict[Path, Filled] = field(default_factory=dict)
    held_back: dict[Path, tuple[Filled, str]] = field(default_factory=dict)  # with the reasons, where these are kept
    leaves: dict[Path, Any] = field(default_factory=dict)  # of the filled values
    confidences: dict[Path, float] = field(default_factory=dict)  # of these leaves
    ruled: set[Path] = field(default_factory=set)  # the properties that rules filled
    improbable: set[Path] = field(default_factory=set)  # properties with a rule, which the entity probably lacks

    @property
    def closed(self) -> set[Path]:
        """The paths that neither rules nor formulas fill: those declared absent, and those filled in earlier."""
        filled_before = {path[:length] for path in self.entity.made or () for length in range(1, len(path) + 1)}
        return {*self.reading.occupied, *self.reading.absent, *filled_before}


class Completing(Iterator[Completion]):
    """The completions of the entities of a plan, one by one, by the predictions for each.

    `summary` counts the filled values of the completions so far, and `drift` what is unlike the training data in their entities.
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
        self.plan, self.predicted, self.config = plan, predicted, plan.config
        self.answers = answers or Answers()
        self.keeps_held_back = keeps_held_back
        self.entities, self.fields = plan.entities, plan.fields
        self.schema, self.codec = plan.schema, plan.codec
        self.is_own = calibrations is None
        like, unlike = calibrations or (None, None)
        self.decider = Decider(plan.trained, plan.config, like)
        self.decider_of_unlike = Decider(plan.trained, plan.config, unlike)
        self.summary = Summary.of(plan.trained.record.quality, self.codec.learnt_as)
        self.drift = Drift(self.schema, self.codec, plan.trained.record.unlike_level)
        fillable = {
            name: {path for path, class_field in fields.fields.items() if not class_field.why_not}
            for name, fields in self.fields.items()
        }
        self.groups = Groups(self.schema, fillable)
        self.shapes = shapes
        self.shared_words = SharedWords(self.schema, self.config.only, self.decider.minimum)
        self.adds_predicted_members = False  # whether a predicted member was written so far
        self._add_summary_rows()
        self._known: dict[str, Counter[Path]] = {
            name: Counter() for name in self.fields
        }  # entities by class and property
        self._entities: Counter[str] = Counter()  # by class
        self._unique: dict[tuple[str, Path], set[str]] = {}  # the values of unique properties, by class and property
        self._completions = self._complete_all()

    def __next__(self) -> Completion:
        return next(self._completions)

    # ------------------------------------------------------------ entity by entity

    def _complete_all(self) -> Iterator[Completion]:
        self._count_shared()
        placer = Placer(self.schema, SourceStyles(self.schema, self.entities).place, self.config.estimate)
        self.rules = RuleFiller(self.schema, self.plan.known_readings, self.config.fill)
        self._learn_unique()
        self.consistency = Consistency(self.schema, self.shapes, self.entities)
        for planned, predictions in self.predicted:
            yield self._complete(planned, predictions, placer)
        self._count_never_filled()
        are_mostly_unlike = 2 * self.summary.unlike > self.summary.entities + self.summary.strangers
        self.summary.measured = (self.decider_of_unlike if are_mostly_unlike else self.decider).measured()
        if self.adds_predicted_members and (measured := self.member_decider.measured()):
            self.summary.members_measured = measured.written

    def _complete(self, planned: Planned, predictions: Sequence[Prediction], placer: Placer) -> Completion:
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
        draft = Draft(entity, reading, self.decider_of_unlike if unlike else self.decider)
        members = [prediction for prediction in predictions if prediction.gap.is_member]
        predictions = [prediction for prediction in predictions if not prediction.gap.is_member]
        self._apply_rules(draft, predictions, placer)
        if self._count_gaps(draft, planned):
            not_ruled = [prediction for prediction in predictions if prediction.gap.field.top not in draft.ruled]
            self._decide(draft, not_ruled, placer)
        self._compute(draft, placer)
        self._add_members(draft, members, placer)
        filled = self.shared_words.with_shared(reading.class_name, entity, draft.filled)
        return Completion(entity, self._consistent(entity, filled, draft.held_back), draft.held_back, unlike)

    def _consistent(
        self, entity: Entity, filled: dict[Path, Filled], held_back: dict[Path, tuple[Filled, str]]
    ) -> dict[Path, Filled]:
        """The filled values without those that would violate a constraint, which are held back."""
        refused = self.consistency.refused(
            entity, {path: value for path, value in filled.items() if path[:1] != CLASSES}
        )
        if self.keeps_held_back:
            held_back |= {path: (filled[path], why_not) for path, why_not in refused.items()}
        gaps: dict[tuple[str, Path, Path], str] = {}
        for path, why_not in refused.items():
            provenance = filled[path].belief
            if isinstance(provenance, Provenance) and provenance.estimate == MEMBER:
                self.summary.unwritten_member(provenance.class_name, show_pattern(provenance.field), why_not)
            elif isinstance(provenance, Provenance) and provenance.estimate != "shared":
                gaps[provenance.class_name, provenance.field, provenance.gap] = why_not
        for (class_name, field_path, _), why_not in gaps.items():
            self.summary.unwritten(class_name, show_pattern(field_path), why_not)
        return {path: value for path, value in filled.items() if path not in refused}

    def _count_gaps(self, draft: Draft, planned: Planned) -> list[Gap]:
        """Count the known properties and the gaps of an entity; returns the gaps that no rule has filled."""
        entity, reading = draft.entity, draft.reading
        fields = self.fields[reading.class_name]
        self._entities[reading.class_name] += 1
        self._known[reading.class_name].update({*known_properties(fields, reading, entity.made), *draft.ruled})
        gaps = [gap for gap in planned.gaps if gap.field.top not in draft.ruled]
        for gap in gaps:
            self.summary.row(gap.field).missing += 1
        if not self.config.only:
            for path, is_ignored in unlearnt_gaps(fields.schema_class, entity):
                (self.summary.ignored if is_ignored else self.summary.left_out)[path] += 1
        return gaps

    # ------------------------------------------------------------ rules

    def _apply_rules(self, draft: Draft, predictions: Sequence[Prediction], placer: Placer) -> None:
        """Fill in values that rules give. Where such a value has no place, that of the model is used.

        A rule may presume that the entity has the property: then its presence is that of the model.
        """
        reading, class_name = draft.reading, draft.reading.class_name
        of_properties = {
            prediction.gap.path: prediction
            for prediction in predictions
            if prediction.gap.path == prediction.gap.field.top
        }

        def presence_at(path: Path) -> float | None:
            prediction = of_properties.get(path)
            if prediction is None or prediction.presence is None:
                return None
            return draft.decider.presence(prediction.gap, prediction.presence)

        for ruled in self.rules.filled(reading, reading.gaps, draft.closed, presence_at):
            path, confidence = ruled.path, ruled.confidence
            if self.config.only and not any(overlaps(named, path) for named in self.config.only):
                continue
            ruled_field = self._field(class_name, path, ruled.known)
            if ruled_field.why_not in (AXIOM, LABEL):
                continue
            row = self.summary.row(ruled_field)
            if why_not := ruled.why_not(self.decider.minimum):
                if why_not == ABSENT:
                    draft.improbable.add(path)
                continue
            provenance = Provenance(
                class_name,
                path,
                path,
                estimate="rule",
                rule=by_rule(ruled.rule),
                presence=ruled.presence,
                correctness=ruled.correctness,
            )
            try:
                filled = self._put(draft.entity, path, ruled.value, confidence, provenance, placer)
            except ValueError:
                continue
            draft.filled |= filled
            leaves = {(*path, *within): leaf for within, leaf in split_kind(ruled.known.kind, ruled.value).items()}
            draft.leaves |= leaves
            draft.confidences |= dict.fromkeys(leaves, confidence)
            draft.ruled.add(path)
            row.missing += 1
            row.filled += 1
            row.confidence_sum += confidence
            self.summary.add_derived(confidence)
            row.by_rule[by_rule(ruled.rule)] += 1

    def _field(self, class_name: str, path: Path, known: Property) -> Field:
        """The field of a property as a whole."""
        learnt = self.fields[class_name].fields.get(path)
        return learnt if learnt is not None else Field(class_name, path, path, known, known.kind)

    def _put(
        self, entity: Entity, path: Path, value: Any, confidence: float, provenance: Provenance, placer: Placer
    ) -> dict[Path, Filled]:
        """Place an exact value; ValueError where it has no place, or a person has rejected it."""
        by_path = placer.put(entity, path, value)
        filled = {
            value_path: Filled(placed, confidence, provenance, blank=True) for value_path, placed in by_path.items()
        }
        self.answers.refuse_rejected(entity, filled)
        return filled

    # ------------------------------------------------------------ predictions

    def _decide(self, draft: Draft, predictions: Sequence[Prediction], placer: Placer) -> None:
        """Fill in the predicted values of an entity, or count why not."""
        self.summary.askable += len(predictions)
        decisions = [self._decision(draft.decider, prediction) for prediction in predictions]
        given: Mapping[Path, Any] = draft.reading.leaves
        placed = [decision.prediction.gap for decision in decisions if not decision.prediction.why_not]
        if any(gap.parts or gap.path != gap.field.top for gap in placed):
            given = self.schema.leaves(draft.entity)  # with all parts of lists that are longer than is learnt
        written = {decision.prediction.gap.field.top for decision in decisions if not decision.why_not}
        missing = (prediction.gap.field.top for prediction in predictions)
        incomplete = self.groups.incomplete(draft.reading.class_name, missing, written)
        for prediction, decision in zip(predictions, decisions, strict=True):
            row = self.summary.row(prediction.gap.field)
            if prediction.gap.field.top in incomplete and self.config.fill != "all" and not decision.why_not:
                row.held_back[INCOMPLETE_GROUP] += 1
                self._keep_held_back(draft, decision, INCOMPLETE_GROUP, given, placer)
                continue
            key = draft.decider.key(decision.prediction)
            if not prediction.why_not and not draft.decider.why_not(key):
                self.summary.add(decision.confidence, draft.decider.raised(key))
                self.decider.keys.add(key)
                self.decider_of_unlike.keys.add(key)
            try:
                filled = self._place(draft, decision, given, placer)
            except ValueError as error:
                why_not = ABSENT if prediction.gap.field.top in draft.improbable else str(error)
                row.held_back[why_not] += 1
                self._keep_held_back(draft, decision, why_not, given, placer)
                continue
            leaves = decision.prediction.leaves
            row.filled += 1
            row.confidence_sum += decision.confidence
            row.leaves.update(map(pattern, leaves))
            draft.filled |= filled
            draft.leaves |= leaves
            draft.confidences |= dict.fromkeys(leaves, decision.confidence)

    def _decision(self, decider: Decider, prediction: Prediction) -> Decision:
        """The decision on a prediction. Without a review, predictions that could not be written are not evaluated."""
        gap = prediction.gap
        why_not = decider.not_asked(gap) if self.keeps_held_back else decider.skips(gap, prediction.presence)
        if why_not and prediction.why_not != NOT_LEARNT:
            unwritable = prediction if prediction.why_not == why_not else replace(prediction, why_not=why_not)
            return Decision(unwritable, 0.0, 0.0, why_not)
        return decider.decided(prediction)

    def _keep_held_back(
        self, draft: Draft, decision: Decision, why_not: str, given: Mapping[Path, Any], placer: Placer
    ) -> None:
        """Keep a value that is not written, if there is a review."""
        if not self.keeps_held_back or decision.prediction.why_not:
            return
        try:
            filled = placer.place(draft.entity, decision, given, calibrated=draft.decider.calibration.is_known)
            self.answers.refuse_rejected(draft.entity, filled)
        except ValueError:  # it has no place, or a person has rejected it
            return
        draft.held_back |= {path: (value, why_not) for path, value in filled.items()}

    def _place(self, draft: Draft, decision: Decision, given: Mapping[Path, Any], placer: Placer) -> dict[Path, Filled]:
        """Place the values of a decision; ValueError, with the reason, where the gap stays."""
        prediction = decision.prediction
        if decision.why_not:
            raise ValueError(decision.why_not)
        filled = placer.place(draft.entity, decision, given, calibrated=draft.decider.calibration.is_known)
        self.answers.refuse_rejected(draft.entity, filled)
        taken = self._unique.get((prediction.gap.field.class_name, prediction.gap.field.top))
        if taken is not None:
            value = repr(sorted((path, repr(leaf)) for path, leaf in prediction.leaves.items()))
            if value in taken:
                raise ValueError(REPEATED)
            taken.add(value)
        return filled

    # ------------------------------------------------------------ further members of sets

    @cached_property
    def member_decider(self) -> MemberDecider:
        """Decides on predicted members. Its calibration is fitted to all sets of the source, which takes some seconds."""
        return MemberDecider(self.plan.trained, self.config, self.plan.further_members.calibration)

    def _add_members(self, draft: Draft, predictions: Sequence[Prediction], placer: Placer) -> None:
        """Add members to sets that have some: those that rules give, and a predicted one."""
        for prediction in predictions:
            gap = prediction.gap
            row = self.summary.row(gap.field)
            new = list(self._members_by_rule(draft, gap))
            if new and (problem := self._put_members(draft, gap, new, placer)):
                row.members_held_back[problem] += 1
                continue
            row.members += len(new)
            row.members_by_rule.update(member.rule for member in new)
            why_not = self._add_predicted_member(draft, prediction, new, placer)
            if unnamed := why_unnamed(gap, self.config):  # the reason of all such members, predicted or not
                why_not = "" if new else unnamed
            if why_not:
                row.members_held_back[why_not] += 1

    def _add_predicted_member(self, draft: Draft, prediction: Prediction, new: Sequence[Member], placer: Placer) -> str:
        """Add a predicted member behind those of rules. Returns the reason that is counted where it is not written."""
        gap = prediction.gap
        is_skipped = bool(prediction.why_not) and prediction.why_not == why_unnamed(gap, self.config)
        if is_skipped and self.keeps_held_back:  # a review shows what was not predicted, too
            prediction = further_member(self.plan, self.answers, draft.reading, gap)
        if prediction.why_not:
            return "" if new else prediction.why_not
        decider = self.member_decider
        decision = decider.decided(prediction)
        why_not = decision.why_not or decider.not_asked(gap) or gap.field.why_not
        given = [member.value for member in new]
        members = [value for value in decision.prediction.leaves.values() if value not in given]
        if not members or (why_not and decision.confidence < MIN_CONFIDENCE_OF_REVIEW):
            return "" if new else why_not
        [value] = members
        member = Member(value, decision.presence, decision.correctness, decider.calibration.is_known)
        problem = self._put_members(draft, gap, [*new, member], placer, why_not)
        if not problem:
            self.summary.row(gap.field).members += 1
            decider.keys.add(decider.key(prediction))
            self.adds_predicted_members = True
        return problem

    def _members_by_rule(self, draft: Draft, gap: Gap) -> Iterator[Member]:
        """The members that inverse links give."""
        if self.decider.not_asked(gap) or gap.field.why_not:
            return
        rejected = self.answers.rejected_members(draft.entity.id, gap.path)
        class_name, id = draft.reading.class_name, draft.reading.id
        for value, rule in self.rules.members(id, class_name, gap.path, gap.members):
            correctness = confidence_of(rule)
            if correctness >= self.decider.minimum and value not in rejected:
                yield Member(value, 1.0, correctness, False, by_rule(rule))

    def _put_members(self, draft: Draft, gap: Gap, new: Sequence[Member], placer: Placer, why_not: str = "") -> str:
        """Put further members behind the given ones; with `why_not` hold them back. Returns why the last is not written, if so."""
        try:
            filled = placer.place_members(draft.entity, gap, new)
            self.answers.refuse_rejected(draft.entity, filled)
        except ValueError as error:  # it has no place, or a person has rejected it
            return str(error)
        if not why_not:
            draft.filled |= filled
        elif self.keeps_held_back:
            path, value = list(filled.items())[-1]
            draft.held_back[path] = value, why_not
        return why_not

    # ------------------------------------------------------------ formulas

    def _compute(self, draft: Draft, placer: Placer) -> None:
        """Fill in the values of formulas."""
        schema_class = self.fields[draft.reading.class_name].schema_class
        gaps = draft.reading.gaps
        if not self._has_formulas(schema_class.name) or (self.config.fill == "asked" and not gaps):
            return
        leaves = {**self.schema.leaves(draft.entity, ignored=True), **draft.leaves}
        for path, known, value in derived_values(schema_class, leaves, draft.closed):
            needed = known.formula.paths if known.formula else ()
            confidence = math.prod(draft.confidences.get(leaf, 1.0) for leaf in needed)
            draft.confidences |= {path: confidence, (*path, "value"): confidence}  # other formulas may need it
            if self.config.fill == "asked" and path not in gaps:
                continue
            row = self.summary.row(Field(schema_class.name, path, path, known, known.kind))
            row.missing += 1
            self.summary.add_derived(confidence)
            if confidence < self.decider.minimum:
                row.held_back[below(self.decider.minimum)] += 1
                continue
            formula = known.formula.text if known.formula else ""
            provenance = Provenance(schema_class.name, path, path, estimate="formula", formula=formula)
            try:
                filled = self._put(draft.entity, path, value, confidence, provenance, placer)
            except ValueError as error:
                row.held_back[str(error)] += 1
                continue
            draft.filled |= filled
            row.filled += 1
            row.confidence_sum += confidence

    def _has_formulas(self, class_name: str) -> bool:
        return any(known.formula is not None for known in self.schema.classes[class_name].properties.values())

    # ------------------------------------------------------------ counts over all entities

    def _count_shared(self) -> None:
        """Count the shared words and the groups of properties of all entities."""
        for reading in self.plan.known_readings:
            class_name, entity = reading.class_name, reading.entity
            self.shared_words.add(class_name, entity.tree)
            self.groups.count(class_name, {path for path in self.groups.paths(class_name) if _has(entity, path)})

    def _add_summary_rows(self) -> None:
        """Add the rows of the summary in the order of the schema."""
        for fields in self.fields.values():
            for summary_field in sorted(
                fields.fields.values(),
                key=lambda summary_field: (fields.order[summary_field.top], len(summary_field.path)),
            ):
                self.summary.row(summary_field)

    def _learn_unique(self) -> None:
        """Learn the values of unique properties that are to be filled."""
        self._unique = {
            (class_field.class_name, class_field.top): set()
            for fields in self.fields.values()
            for class_field in fields.fields.values()
            if class_field.schema_property.unique and not class_field.why_not
        }
        for entity in self.entities if self._unique else ():
            known = self.schema.class_of(entity)
            entity_unique = {
                path: taken
                for (class_name, path), taken in self._unique.items()
                if known is not None and class_name == known.name
            }
            if not entity_unique:
                continue
            tree = with_values(entity.tree, entity.made or {})  # values that were filled in are taken, too
            leaves = self.schema.leaves(replace(entity, tree=tree))
            for path, taken in entity_unique.items():
                below_path = ((leaf, repr(value)) for leaf, value in leaves.items() if leaf[: len(path)] == path)
                taken.add(repr(sorted(below_path)))

    def _count_never_filled(self) -> None:
        """Count the gaps of properties that are never filled, once it is known how many entities have them."""
        for name, fields in self.fields.items():
            for class_field in fields.fields.values():
                is_property = class_field.path == class_field.top and class_field.schema_property.role != "ignore"
                missing = self._entities[name] - self._known[name][class_field.top]
                if class_field.why_not and is_property and missing:
                    row = self.summary.row(class_field)
                    row.missing += missing
                    row.held_back[class_field.why_not] += missing


def _has(entity: Entity, path: Path) -> bool:
    """Whether an entity has a value at a path."""
    try:
        value = at(entity.tree, path)
    except KeyError:
        return False
    return not is_gap(value)


def predicting_writable_gaps(
    plan: Plan,
    shapes: Schema | None = None,
    *,
    calibrations: Calibrations | None = None,
    answers: Answers | None = None,
    watch: Watch | None = None,
) -> Predicting:
    """Predicting for the gaps that the plan's thresholds may write, which takes less time than for all.

    Some may be written where the entity is unlike the training data, and others where it is like it. Rules need the presence
    of their properties in any case.
    """
    like, unlike = (Decider(plan.trained, plan.config, calibration) for calibration in calibrations or (None, None))
    ruled = {rule.target for rule in plan.schema.rules or ()}

    def why_never(gap: Gap) -> str:
        return "" if gap.path in ruled else unlike.never(gap) and like.never(gap)

    def why_not(gap: Gap, presence: float | None) -> str:
        return unlike.skips(gap, presence) and like.skips(gap, presence)

    by_presence = why_not if like.skips_by_presence else None
    return Predicting(plan, shapes, why_never=why_never, why_not=by_presence, answers=answers, watch=watch)


def complete(
    trained: Trained,
    entities: Iterable[Entity],
    *,
    watch: Watch | None = None,
    shapes: Schema | None = None,
    answers: Answers | None = None,
    keeps_held_back: bool = False,
    **options: Any,
) -> Completing:
    """Each entity with its gaps filled in, in order; options are those of CompletionConfig. A rejected value stays a gap.

    With `keeps_held_back` each completion has the values that are not written, too, with the reason.
    Together with the given values, the written ones satisfy the constraints of the model's schema and of `shapes`.

    The result is an iterator, and has a `summary`. All entities are in memory, and are predicted as they come out.
    `kbdisk.complete` has each stage as a value.
    """
    advice = "what it fills in is a rough guess. Train with --preset default."
    trained.warn_of_order(f", not to complete any: {advice}", stacklevel=3)
    options |= {name: tuple(options[name]) for name in ("only", "classes") if name in options}
    plan = Plan(trained, entities, CompletionConfig(**options))
    calibrations = calibrations_of(trained, plan.entities, plan.config)
    predicting = (
        Predicting(plan, shapes, answers=answers, watch=watch)
        if keeps_held_back
        else predicting_writable_gaps(plan, shapes, calibrations=calibrations, answers=answers, watch=watch)
    )
    return Completing(plan, predicting, shapes, answers, keeps_held_back, calibrations)
