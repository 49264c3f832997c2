"""Why a value was, or would be, filled in: what its confidence is made of, and what it rests on.

One property of one entity is asked about, a composite as a whole. A value that stands there is hidden, with all that
would give it away, as in an evaluation. Where a rule of the schema gives the value, the rule is the reason, and no model
is asked. Otherwise:

    predictors   what the network and each expert predict on their own, and their weights in the stack
    similar      the nearest entities of the source that have the property, in the network's latent space
    influences   the given properties, each left out in turn, by how far the belief moves: Hellinger's distance

Hellinger's distance of two distributions p and q is sqrt(1 - sum(sqrt(p q))): 0 where they are the same, 1 where they
have nothing in common. Numbers are compared on the cells between the quantiles of both beliefs. The parts of a composite
count as independent, given all that is visible. Of a text only the value that is written is told from all others.

T tokens   R beliefs, the first with all that is given, each other without a property   V labels   D width
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from kbdisk.completion.choices import Choices
from kbdisk.completion.completing import GUESS, GUESSED
from kbdisk.completion.fields import Fields, fields_of, kind_at
from kbdisk.completion.filling import Filler, Filling
from kbdisk.completion.gaps import Gap, gaps_of
from kbdisk.completion.keys import Keys, Known, labels_of
from kbdisk.completion.placing import Placing, by_name, in_units
from kbdisk.completion.rules import RuleFiller
from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import CHUNK, batches
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import Graph, pattern
from kbdisk.data.links import Evidence
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import CLASSES, Slot
from kbdisk.diffusion import beliefs
from kbdisk.entity import Entity, Path, Tree, show, with_values
from kbdisk.errors import SchemaError
from kbdisk.estimates import answers, decoded, estimated, shortened
from kbdisk.experts.base import (
    SET,
    ExpertGroup,
    Inputs,
    LabelMasses,
    Stacked,
    WeightedExpert,
    visibility_levels,
    with_labels,
)
from kbdisk.experts.latent_knn import OWN_ANSWERS
from kbdisk.experts.rule_columns import values_of
from kbdisk.leaves.base import Recalling
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.loaders.tagged import encode
from kbdisk.network.beliefs import Asked, Beliefs
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.base import join_kind, split_kind
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.derived import computed
from kbdisk.schemas.schema import Class, Property, Schema
from kbdisk.schemas.suggest import unknown_to
from kbdisk.scoring import unit_of
from kbdisk.training.trained import Trained

MAX_SIMILAR = 3
MAX_INFLUENCES = 5
MIN_INFLUENCE = 0.005  # of a distance: what moves the belief less is not shown
SEARCHED = 20_000  # entities that are searched for similar ones, at most
ENCODED = 500  # entities that are encoded at once
GRID = 64  # quantiles of each of two beliefs in a number, by which they are compared
DIGITS = 6  # of what is printed
EXPERTS = {  # the attributes of a trained model, in the order in which experts are stacked
    "knn": "nearest neighbours",
    "gaussian_process": "Gaussian process",
    "label_regression": "label regression",
    "boosted_trees": "boosted trees",
    "given_only": "given-only",
}

Watch: TypeAlias = Callable[[int, int], None]  # how much is done, of how much


# ---------------------------------------------------------------- the result


@dataclass(frozen=True)
class RuleReason:
    """The rule or the formula of the schema that gives a value."""

    text: str
    kind: str
    support: int  # known values that agree; 0 where the schema states none
    exceptions: int

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"text": self.text, "kind": self.kind, "support": self.support, "exceptions": self.exceptions}


@dataclass(frozen=True)
class Predictor:
    """What the network, or an expert, predicts on its own."""

    path: Path  # of the leaf
    name: str
    weight: float  # in the stack; those of a leaf sum to 1
    value: Any
    probability: float | None = None  # of a label, or of the set or the text that is the likeliest
    latent_weight: float = 0.0  # of the network: the part of its belief that neighbours in its latent space have

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data = {"path": show(self.path), "name": self.name, "weight": self.weight, "value": encode(self.value)}
        data |= {} if self.probability is None else {"probability": self.probability}
        return data | ({"latent_weight": self.latent_weight} if self.latent_weight else {})


@dataclass(frozen=True)
class Unused:
    """An expert without a say, and why."""

    path: Path
    name: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"path": show(self.path), "name": self.name, "reason": self.reason}


@dataclass(frozen=True)
class Shrinkage:
    """How far a prediction is shrunk to the constant, by held-out errors."""

    path: Path
    trust: float  # the part of the prediction; the rest is the constant's
    constant: Any

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"path": show(self.path), "trust": self.trust, "constant": encode(self.constant)}


@dataclass(frozen=True)
class Limit:
    """The weighted mean of predicted numbers, where the stack does not take it as it is.

    A number that is written stays within the middle fifth of the mass of the whole belief, and a repeated number with much
    of the mass is written as it is.
    """

    path: Path
    weighted: Any  # the mean of the predictions by their weights
    kept: Any  # what is taken in its place

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"path": show(self.path), "weighted": self.weighted, "kept": self.kept}


@dataclass(frozen=True)
class Similar:
    """An entity of the source that has the property."""

    id: str
    label: str
    value: Any
    similarity: float  # the cosine of standardised latent vectors

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"id": self.id, "label": self.label, "value": encode(self.value), "similarity": self.similarity}


@dataclass(frozen=True)
class MovedLabel:
    """A label that is not written, and whose probability changes."""

    label: Any
    probability: float  # without a property
    probability_before: float

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        shares = {"probability": self.probability, "probability_before": self.probability_before}
        return {"label": encode(self.label), **shares}


@dataclass(frozen=True)
class Influence:
    """A given property, and what the model would believe without it."""

    name: str  # a path, or which links
    distance: float  # Hellinger's, between the beliefs with and without it
    leaf: Path  # of the asked property: the one that moves most
    value: Any  # without it
    value_before: Any
    label: Any = None  # the label that is written; of a set the one that moves most
    probability: float | None = None  # of this label, without it
    probability_before: float | None = None
    moved: MovedLabel | None = None  # where it is another one: the label that moves most
    interval: tuple[float, float] | None = None  # of a number, without it
    interval_before: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data = {"without": self.name, "distance": self.distance, "path": show(self.leaf)}
        data |= {"value": encode(self.value), "value_before": encode(self.value_before)}
        if self.probability is None:
            return data | {"interval": self.interval, "interval_before": self.interval_before}
        return data | {
            "label": encode(self.label),
            "probability": self.probability,
            "probability_before": self.probability_before,
            "moved": None if self.moved is None else self.moved.to_json(),
        }


@dataclass(frozen=True)
class Why:
    """The reasons for a value."""

    entity: str  # its id
    label: str
    class_name: str
    path: Path
    kind: str
    unit: str | None  # in which predictions and influences of an amount are stated
    value: Any  # that would be written; None where none would be
    presence: float | None  # the probability that the entity has the property; None where the model does not tell
    correctness: float | None  # the probability that the value is right, given that it has one
    interval: Any = None  # of a number, with 90 % probability; of several numbers by their names
    within: Any = None  # how far off a number may be and still count as right
    given: Any = None  # the value that stands there
    given_by: str = ""  # `source`, or `kbdisk` where an earlier completion wrote it
    is_hidden: bool = (
        False  # whether the given value is hidden; else it is a part of a value, and the rest is asked for
    )
    held_back: str = ""  # why completing would not write the value
    note: str = ""
    rule: RuleReason | None = None
    predictors: tuple[Predictor, ...] = ()
    unused: tuple[Unused, ...] = ()
    limits: tuple[Limit, ...] = ()
    shrinkages: tuple[Shrinkage, ...] = ()
    similar: tuple[Similar, ...] = ()
    influences: tuple[Influence, ...] = ()

    def _given_to_json(self) -> dict[str, Any]:
        return {"value": encode(self.given), "by": self.given_by, "hidden": self.is_hidden}

    @property
    def confidence(self) -> float | None:
        """The probability that the statement is right: presence times correctness."""
        if self.correctness is None:
            return None
        return self.correctness if self.presence is None else self.presence * self.correctness

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "id": self.entity,
            "label": self.label,
            "class": self.class_name,
            "path": show(self.path),
            "kind": self.kind,
            "unit": self.unit,
            "value": encode(self.value),
            "presence": self.presence,
            "correctness": self.correctness,
            "confidence": self.confidence,
            "interval": self.interval,
            "within": self.within,
            "given": None if not self.given_by else self._given_to_json(),
            "held_back": self.held_back or None,
            "note": self.note or None,
            "rule": None if self.rule is None else self.rule.to_json(),
            "predictors": [predictor.to_json() for predictor in self.predictors],
            "unused": [expert.to_json() for expert in self.unused],
            "limits": [limit.to_json() for limit in self.limits],
            "shrinkage": [shrinkage.to_json() for shrinkage in self.shrinkages],
            "similar": [similar.to_json() for similar in self.similar],
            "influences": [influence.to_json() for influence in self.influences],
        }


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
    question = _Question(trained, entity, path, entities, graph)
    return question.by_rule() or question.by_model(watch)


# ---------------------------------------------------------------- what is asked


class _Question:
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
        return _part(self.known.kind, self.given, path[len(self.property) :])

    @property
    def is_closed(self) -> bool:
        """Whether what stands at the property has no place for a value, such as `novalue`."""
        return self.property in {*self.reading.said, *self.reading.none}

    def _given(self) -> tuple[Any, str]:
        """The value that stands at the property, and from whom it is."""
        value = values_of(self.schema, self.entity).get(self.property)
        if value is not None and any(_is_below(leaf, self.property) for leaf in self.reading.leaves):
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
        for ruled in filler.filled(hidden, self.of.name, gaps, closed):
            if ruled.path == self.property:
                rule = ruled.rule
                reason = RuleReason(rule.text, rule.kind, rule.support, rule.exceptions)
                return self._exact(ruled.value, filler.presence(rule, self.of.name), ruled.confidence, reason)
        return None

    def _by_formula(self) -> Why | None:
        hidden = self._without_value()
        for path, known, value in computed(self.of, self.schema.leaves(hidden, ignored=True), ()):
            if path == self.property and known.formula is not None:
                return self._exact(value, 1.0, 1.0, RuleReason(known.formula.text, "formula", 0, 0))
        raise SchemaError(show(self.path), "computed by a formula, and a value that the formula needs is missing.")

    def _exact(self, value: Any, presence: float, correctness: float, reason: RuleReason) -> Why:
        return replace(
            self._head(),
            value=value,
            presence=_short(presence),
            correctness=_short(correctness),
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
        judged = judgement(filler, batch, self.reading.id, gap)
        filling = judged.filling
        tokens = self._tokens(batch, filling)
        lead = max(tokens.values(), key=lambda token: self._slot(int(batch.slot[token])).fill)
        predictors, unused, limits = _predictors(trained, batch, tokens)
        value, interval, within = self._value(filling)
        held_back = "" if is_hidden else self._held_back(gap, judged, value)
        return replace(
            self._head(),
            path=gap.path,
            given=self._given_at(gap.path),
            value=value,
            presence=_short(judged.presence),
            correctness=_short(judged.correctness),
            interval=interval,
            within=within,
            is_hidden=is_hidden,
            held_back=held_back,
            note=self._note(gap) if is_hidden else "",
            predictors=tuple(predictors),
            unused=tuple(unused),
            limits=tuple(limits),
            shrinkages=tuple(self._shrinkages(filler, batch, tokens)),
            similar=tuple(_similar(self, batch, lead, gap, watch)),
            influences=tuple(_influences(self, filler, batch, tokens)),
        )

    def _gap(self, fields: Fields) -> tuple[Gap, bool]:
        """What is filled as one, and whether a value that stands there is hidden for that."""
        target, table = self._target(fields), self.codec.index.tables[self.of.name]
        opened = _opened(self.reading, self.property)
        gaps = {gap.path: gap for gap in gaps_of(fields, self.reading, table, None)}
        if target in gaps and self.path not in self.reading.leaves:
            return gaps[target], False
        leaves = {leaf: value for leaf, value in opened.leaves.items() if not _is_below(leaf, target)}
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
        hidden = {leaf for leaf in reading.leaves if _is_below(leaf, gap.path) and (leaf in slots.values())}
        batch = self._encoded(reading, [slot for slot, path in slots.items() if path not in hidden])
        there = set(batch.slot.tolist())
        if uncoded := {path for slot, path in slots.items() if path in hidden and slot not in there}:
            leaves = {leaf: value for leaf, value in reading.leaves.items() if leaf not in uncoded}
            asked = [slot for slot, path in slots.items() if path not in leaves]
            batch = self._encoded(reading._replace(leaves=leaves), asked)
        target = (
            torch.tensor([_is_below(self._slot(n).path, gap.path) for n in batch.slot.tolist()]) & ~batch.fixed.cpu()
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
        return Filler(trained, choices, most, Keys(self.codec, self._labels()))

    def _labels(self) -> Iterator[Known]:
        """What keys are learnt from."""
        wanted = labels_of(self.codec)
        for entity in self.entities if self.of.name in wanted else ():
            of = self.schema.class_of(entity)
            if of is not None and of.name in wanted and entity.id != self.entity.id:
                labels = {path: leaf for path, leaf in self.schema.leaves(entity).items() if path in wanted[of.name]}
                yield Known(self.schema.id_of(entity), of.name, labels, entity.made or {})

    def _value(self, filling: Filling) -> tuple[Any, Any, Any]:
        """The value as a whole, in the form of its kind; the interval and the tolerance of its numbers."""
        placing = Placing(self.schema, lambda entity, path, value: {}, "median")
        given = {} if not filling.gap.parts else self.reading.leaves
        if filling.gap.path != self.property:  # a part of a list whose other parts are given
            given = {leaf: value for leaf, value in self.schema.leaves(self.entity).items() if not _is_below(leaf, filling.gap.path)}  # fmt: skip
        try:
            whole = placing.value_of(filling, filling.leaves, given)
        except ValueError:
            return None, None, None
        written = in_units(self.known.kind, self.property, whole, filling.answers)
        interval, within = (by_name(written, name, len(self.property)) for name in ("interval", "within"))
        value = _part(self.known.kind, whole, filling.gap.path[len(self.property) :])
        return value, _rounded(interval), _rounded(within)

    def _held_back(self, gap: Gap, judged: Judgement, value: Any) -> str:
        """Why completing would leave the gap alone, as far as this is known of one gap by itself."""
        field = fields_of(self.codec, Choices())[self.of.name].fields.get(pattern(gap.path))
        if field is not None and field.held:
            return field.held
        if judged.held_back:
            return judged.held_back
        if value is None:
            return "no value of the schema's form can be made of the predictions"
        return GUESSED if not gap.asked and judged.correctness is not None and judged.correctness < GUESS else ""

    def _note(self, gap: Gap) -> str:
        """What a reader has to know of a hidden value."""
        id, record = self.reading.id, self.trained.record
        reserved = self.trained.reserved.get(id, ())
        if self.entity.nameless or id not in record.training or all(spot.slot in reserved for spot in gap.spots):
            return ""
        return "the model was trained on this entity, and may know the value by heart"

    def _tokens(self, batch: Batch, filling: Filling) -> dict[Path, int]:
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
        below = [show(other) for other in of.properties if _is_below(other, path)]
        if below:
            raise SchemaError(show(path), f"expected one property, got several. Say one of {', '.join(below)}.")
        raise SchemaError(show(path), unknown_to(of, path))
    known = of.properties[property]
    if known.role == "ignore" and known.formula is None:
        raise SchemaError(show(path), unknown_to(of, path))
    if known.role == "given" and known.formula is None:
        raise SchemaError(show(path), "expected a property that is predicted, got one that is only given.")
    if path != property and not any(_is_below(leaf, pattern(path)) for leaf in of.leaves()):
        raise SchemaError(show(path), unknown_to(of, path, of.leaves()))
    return property


def _opened(reading: Reading, property: Path) -> Reading:
    """A reading of which nothing is said of a property that is no value."""
    said, none = ([path for path in paths if path != property] for paths in (reading.said, reading.none))
    return reading._replace(said=said, none=none)


def _is_below(path: Path, beginning: Path) -> bool:
    return path[: len(beginning)] == beginning


def _meet(one: Path, other: Path) -> bool:
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _part(kind: Kind, value: Any, within: Path) -> Any:
    """What stands within a value of a kind; None where nothing does."""
    if not within or value is None:
        return value
    parts = {leaf[len(within) :]: part for leaf, part in split_kind(kind, value).items() if _is_below(leaf, within)}
    return join_kind(kind_at(kind, pattern(within)), parts) if parts else None


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

    filling: Filling
    presence: float | None
    correctness: float | None
    held_back: str


def judgement(filler: Filler, batch: Batch, id: str, gap: Gap) -> Judgement:
    """The value of one gap of one entity as completing would have it, given what is given alone."""
    held_back = filler.fill(batch, [id], [[gap]], 0)[0][0].why_not
    [[filling]] = filler.fill(batch, [id], [[replace(gap, asked=True)]], 0)
    correctness = math.prod(answer.confidence for answer in filling.answers.values()) if filling.answers else None
    return Judgement(filling, filling.presence, correctness, held_back)


# ---------------------------------------------------------------- predictors


def _predictors(
    trained: Trained, batch: Batch, tokens: Mapping[Path, int]
) -> tuple[list[Predictor], list[Unused], list[Limit]]:
    """What the network and the experts predict of each asked token on their own, which experts have no say, and where the
    stack does not take the weighted mean."""
    asked = torch.zeros_like(batch.known)
    asked[list(tokens.values())] = True
    without_experts: dict[str, Any] = dict.fromkeys(EXPERTS)
    network = replace(trained, **without_experts)
    network_beliefs = beliefs(network.believer, batch, asked)
    groups = dict(_groups(trained))
    seen = {name: group.seen(batch, batch.known) for name, group in groups.items()}
    stacked_beliefs = beliefs(trained.believer, batch, asked)
    predictors, unused, limits = list[Predictor](), list[Unused](), list[Limit]()
    for path, token in tokens.items():
        kind, of_kind, row = _row_of(network_beliefs, token)
        belief, slot = of_kind.belief.pick(row), int(batch.slot[token])
        shares, of_experts = [], []
        for name in EXPERTS.values():
            weighted, reason = _expert_of(groups.get(name), seen.get(name), slot)
            predicted = None
            if weighted is not None:
                inputs = Inputs(seen[name][1], batch.who)
                predicted = _prediction(
                    trained.codec, kind, belief, batch.slot[[token]], weighted.expert.predict(inputs)
                )
                reason = "no prediction"
            if weighted is None or predicted is None:
                unused.append(Unused(path, name, reason))
                continue
            shares.append(float(weighted.weight))
            of_experts.append(Predictor(path, name, 0.0, *predicted))
        first, *weights = map(_short, stacked_weights(shares))
        count = len(trained.members)
        value, probability = _prediction(trained.codec, kind, belief, batch.slot[[token]], None) or (None, None)
        latent = _latent_weight(network, batch, of_kind, row)
        name = "network" if count == 1 else f"{count} networks"
        predictors.append(Predictor(path, name, first, value, probability, latent))
        predictors += [replace(expert, weight=weight) for expert, weight in zip(of_experts, weights, strict=True)]
        _, stacked, row = _row_of(stacked_beliefs, token)
        if weights and isinstance(stacked.belief, NumberBelief):
            limits += _limit(trained.codec.slots[slot], path, stacked.belief.pick(row))
    return predictors, unused, limits


def _limit(slot: Slot, path: Path, stacked: NumberBelief) -> Iterator[Limit]:
    """The limit that a stacked belief puts on the weighted mean, where it puts any."""
    if stacked.estimate is not None:
        weighted, kept = (
            _plain_number(slot, stacked, float(each[0])) for each in (stacked.estimate, stacked.typical())
        )
        if weighted != kept:
            yield Limit(path, weighted, kept)


def stacked_weights(parts: Sequence[float]) -> list[float]:
    """The weight of a model, then those of the experts that are stacked on it, by the part of each of what it and those
    below it have: they sum to 1."""
    weights, left = [], 1.0
    for part in reversed(parts):
        weights.append(part * left)
        left *= 1 - part
    return [left, *reversed(weights)]


def _groups(trained: Trained) -> Iterator[tuple[str, ExpertGroup]]:
    """The experts of a model by the names of their kinds, in the order in which they are stacked."""
    for attribute, name in EXPERTS.items():
        experts = getattr(trained, attribute)
        if attribute == "given_only" and experts is not None:
            stacked: Stacked = experts.beside(replace(trained, given_only=None).believer)
            [experts] = stacked.groups
        if experts is not None:
            yield name, experts


def _expert_of(
    group: ExpertGroup | None, seen: tuple[Tensor, Tensor] | None, slot: int
) -> tuple[WeightedExpert | None, str]:
    """The expert that has a weight for a slot at the level of the only entity; why there is none."""
    if group is None or seen is None:
        return None, "no weight"
    level = int(seen[0][0])
    weighted = group.experts.get((slot, level))
    if weighted is not None:
        return weighted, ""
    elsewhere = (slot, 1 - level) in group.experts
    return None, "no weight where so little is given" if elsewhere and level else "no weight"


def _prediction(
    codec: Codec, kind: str, belief: Any, slot: Tensor, prediction: Tensor | LabelMasses | None
) -> tuple[Any, float | None] | None:
    """A number, or the likeliest label or set with its probability; None for no prediction.

    Of the network, where no `prediction` of an expert is given, it is that of its belief. The labels that an expert does not
    know share what it leaves of 1 as they do in the network's belief.
    """
    if isinstance(belief, NumberBelief):
        numbers = belief.typical() if prediction is None else prediction
        assert isinstance(numbers, Tensor)
        number = float(numbers[0])
        return None if math.isnan(number) else (_plain_number(codec.slots[int(slot)], belief, number), None)
    if prediction is not None:
        is_mixed = kind == SET or isinstance(belief, Recalling)
        if not is_mixed or not isinstance(prediction, LabelMasses) or float(prediction.mass.sum()) <= 0:
            return None
        row, alone = torch.zeros(1, dtype=torch.long, device=slot.device), prediction.mass.new_ones(())
        belief = with_labels(kind, belief, [(row, alone, prediction)])
    codes = belief.mode()
    return decoded(codec, slot, codes)[0], _short(float(belief.log_prob(codes).exp()[0]))


def _plain_number(slot: Slot, belief: NumberBelief, number: float) -> Any:
    """A number with the digits that mean something beside the belief's interval; whole where its property is."""
    low, high = (float(bound[0]) for bound in belief.interval(0.9))
    if slot.codec.decode(belief.codes(torch.tensor([number], dtype=torch.float64)))[0].__class__ is int:
        return round(number)
    return shortened(number, (low, high))


def _row_of(asked: Beliefs, token: int) -> tuple[str, Asked, Tensor]:
    """The kind of an asked token, the beliefs of that kind, and the row (1,) of the token."""
    for kind, of_kind in asked.kinds.items():
        rows = (of_kind.tokens == token).nonzero()[:, 0]
        if len(rows):
            return kind, of_kind, rows
    raise KeyError(token)


def _latent_weight(network: Trained, batch: Batch, asked: Asked, row: Tensor) -> float:
    """The part of the networks' belief that neighbours in their latent spaces have, about."""
    if not isinstance(asked.belief, Recalling):
        return 0.0
    token = asked.tokens[row]
    weights = []
    for member in network.members:
        latent, weight = member.latent_knn, 0.0
        if latent is not None:
            level = int(visibility_levels(batch, batch.known, latent.usual_amount)[0])
            index = latent.indices.get((int(batch.slot[token]), level))
            if index is not None:
                is_asked = torch.zeros_like(batch.known).index_fill(0, token, True)
                vectors = member.network.vectors(batch, batch.known, is_asked)
                near = index.neighbours(vectors, batch.who, torch.isin(batch.who, latent.held_out), latent.neighbours)
                is_number = isinstance(asked.belief, NumberBelief)
                own = (
                    index.weights_of_answers(near)[0, :OWN_ANSWERS].sum()
                    if is_number
                    else 1 - index.belief_mass(near).sum()
                )
                weight = 1 - float(own)
        weights.append(weight)
    return float(_short(sum(weights) / len(weights)))


# ---------------------------------------------------------------- similar entities


def _similar(question: _Question, batch: Batch, token: int, gap: Gap, watch: Watch | None) -> Iterator[Similar]:
    """The nearest entities that have the property, by what the network makes of them where it is asked for the property.

    Each has the value hidden, as the entity itself has. Vectors are standardised over all entities that are searched.
    """
    trained, network, slot = question.trained, question.trained.network, int(batch.slot[token])
    having = list(_having(question, slot))
    if not having:
        return
    is_asked = torch.zeros_like(batch.known).index_fill(0, torch.tensor([token], device=batch.known.device), True)
    own = network.vectors(batch, batch.known, is_asked).float()
    parts = torch.tensor([spot.slot for spot in gap.spots], device=trained.device)
    vectors: list[Tensor] = []
    evidence = question.evidence
    for start in range(0, len(having), ENCODED):
        encoding = Encoding(question.codec.index, lambda reading, table: (), evidence)
        for reading in having[start : start + ENCODED]:
            encoding.add(reading)
        for places, some in batches(encoding.tokens().to(trained.device)):
            hidden = some.known & ~some.fixed & torch.isin(some.slot, parts)
            asked = some.known & (some.slot == slot)
            made = torch.zeros(some.size, own.shape[1], device=own.device)
            made[some.entity[asked]] = network.vectors(some, some.seen(some.known & ~hidden), asked).float()
            vectors.append(made)
            if watch is not None:
                watch(start + places.stop, len(having))
    every = torch.cat(vectors)
    mean, deviation = every.mean(0), every.std(0, correction=0).clamp(min=1e-6)
    similarity = torch.cosine_similarity((every - mean) / deviation, (own - mean) / deviation)
    for row in similarity.topk(min(MAX_SIMILAR, len(having))).indices.tolist():
        reading = having[row]
        yield Similar(
            reading.id, reading.entity.label, _value_at(question, reading, gap.path), _short(float(similarity[row]))
        )


def _having(question: _Question, slot: int) -> Iterator[Reading]:
    """The other entities of the source that have a slot; of more than SEARCHED some, always the same."""
    count, others = 0, question.entities
    order: Iterable[int] = range(len(others))
    if len(others) > SEARCHED:
        order = torch.randperm(len(others), generator=torch.Generator().manual_seed(0)).tolist()
    tables = question.codec.index.tables
    for number in order:
        reading = None if others[number].id == question.entity.id else read(question.schema, others[number])
        if reading is None or reading.id == question.reading.id:
            continue
        if any(tables[reading.of].slot.get(leaf) == slot for leaf in reading.leaves):
            yield reading
            count += 1
            if count == SEARCHED:
                return


def _value_at(question: _Question, reading: Reading, path: Path) -> Any:
    """The value that an entity has of what is filled as one."""
    value = values_of(question.schema, reading.entity).get(question.property)
    return _part(question.known.kind, value, path[len(question.property) :])


# ---------------------------------------------------------------- influences


def _influences(question: _Question, filler: Filler, batch: Batch, tokens: Mapping[Path, int]) -> list[Influence]:
    """The given properties that move the belief most when they are left out, one at a time."""
    names = _given_properties(question, batch)
    left_out = list(names.values())
    variants = torch.stack([torch.zeros_like(batch.known), *left_out], 1) if left_out else batch.known[:, None][:, :0]
    paths = {token: path for path, token in tokens.items()}
    size = max(CHUNK // max(len(batch), 1), 2) - 1
    influences: list[Influence] = []
    for start in range(0, len(left_out), size):
        some = list(range(start + 1, min(start + size, len(left_out)) + 1))
        hidden = variants[:, [0, *some]]  # (T, R)
        for name, change in zip([*names][start : start + size], _changes(filler, batch, hidden, paths), strict=True):
            influences.append(replace(change, name=name))
    moved = (influence for influence in influences if influence.distance >= MIN_INFLUENCE)
    return sorted(moved, key=lambda influence: -influence.distance)[:MAX_INFLUENCES]


def _given_properties(question: _Question, batch: Batch) -> dict[str, Tensor]:
    """The visible tokens (T,) of each given property, by its path: of links with what comes over them.

    Links from other entities, and what comes over them, are named by their class and path.
    """
    slots, tokens = question.codec.slots, dict[str, Tensor]()
    table = question.codec.index.tables[question.of.name]
    for token in batch.known.nonzero()[:, 0].tolist():
        slot = slots[int(batch.slot[token])]
        if slot.path == CLASSES and slot.over is None:
            continue
        if slot.over is not None and slot.over.incoming:
            name = f"links from {slot.over.of or 'entities'} by {show(slot.over.link)}"
        else:
            path = slot.path if slot.over is None else slot.over.link
            property = table.property.get(path) or next((path[:n] for n in range(len(path), 0, -1) if path[:n] in question.of.properties), path)  # fmt: skip
            name = f"other parts of {show(property)}" if property == question.property else show(property)
        tokens.setdefault(name, torch.zeros_like(batch.known))[token] = True
    return tokens


def _changes(filler: Filler, batch: Batch, hidden: Tensor, paths: Mapping[int, Path]) -> Iterator[Influence]:
    """How the beliefs about some tokens, by their paths, change where some tokens (T, R) are hidden beside the first column."""
    count = hidden.shape[1]
    asked = torch.zeros_like(batch.known)
    asked[list(paths)] = True
    many = batch.repeat(count)
    many = replace(
        many, known=(batch.known[:, None] & ~hidden).flatten()
    )  # the given-only expert looks at what is known
    believed = beliefs(filler.model, many, asked.repeat_interleave(count))
    leaves = [_Leaf.of(filler, many, believed, token, paths[token], count) for token in paths]
    for number in range(1, count):
        overlaps = [leaf.overlaps[number] for leaf in leaves]
        distance = math.sqrt(max(1 - math.prod(overlaps), 0.0))
        yield min(zip(overlaps, leaves, strict=True), key=lambda pair: pair[0])[1].influence(number, _short(distance))


@dataclass(frozen=True, eq=False)
class _Leaf:
    """Beliefs about one leaf: the first with all that is given, each other without a property."""

    path: Path
    overlaps: Sequence[float]  # (R,) the Bhattacharyya coefficient of each with the first
    values: Sequence[Any]  # (R,) what would be predicted
    labels: Sequence[Any]  # (R,) the label that is written; of a set the one that moves most
    probabilities: Sequence[float]  # (R,) of these labels; none of a number
    before: Sequence[float]  # (R,) the same in the first
    intervals: Sequence[tuple[float, float] | None] = ()  # (R,) of numbers
    moved: Sequence[MovedLabel | None] = ()  # (R,) of a single label

    @classmethod
    def of(cls, filler: Filler, batch: Batch, believed: Beliefs, token: int, path: Path, count: int) -> _Leaf:
        """Of the beliefs about a token that was repeated so often."""
        kind, of_kind, first = _row_of(believed, token * count)
        rows = first + torch.arange(count, device=first.device)
        picked = Beliefs({kind: replace(of_kind, rows=of_kind.rows[rows], vectors=of_kind.vectors[rows], belief=of_kind.belief.pick(rows))}, believed.length)  # fmt: skip
        belief: Any = picked.kinds[kind].belief
        codes = filler.trusting.said(batch, picked, estimated(picked)) if kind != "text" else estimated(picked)
        predicted = answers(filler.codec, batch, picked, said=codes)
        values = [answer.value for answer in predicted]
        if kind == "number":
            slot = filler.codec.slots[predicted[0].slot]
            values = [_shortened(slot, answer.value, answer.interval) for answer in predicted]
            return cls(path, _number_overlaps(belief), values, [], [], [], [answer.interval for answer in predicted])
        if kind == SET:
            return cls._of_sets(filler.codec, path, batch.slot[picked.kinds[kind].tokens], belief, values)
        written = {
            kind: codes[kind][:1].expand_as(codes[kind]) if kind != "text" else codes[kind][:1].expand(count, -1)
        }
        sure = filler.trusting.sure(picked, batch, written)
        chances = [
            sure.get(answer.token, answer.confidence) for answer in answers(filler.codec, batch, picked, said=written)
        ]
        before = [chances[0]] * count
        if kind == "text":
            return cls(path, _overlaps(torch.tensor(chances)[:, None]), values, [values[0]] * count, chances, before)
        moved = _moved_labels(filler.codec, batch.slot[picked.kinds[kind].tokens], belief.probs, values[0])
        return cls(path, _overlaps(belief.probs), values, [values[0]] * count, chances, before, moved=moved)

    @classmethod
    def _of_sets(cls, codec: Codec, path: Path, slots: Tensor, belief: Any, values: list[Any]) -> _Leaf:
        """Members count as independent, so that the coefficient is a product over labels."""
        shares = belief.probs.double().clamp(0, 1)  # (R, V)
        overlaps = ((shares[:1] * shares).sqrt() + ((1 - shares[:1]) * (1 - shares)).sqrt()).clamp(max=1).prod(1)
        moved = (shares - shares[:1]).abs().argmax(1)  # (R,)
        members = [members[0] if members else None for members in decoded(codec, slots, moved[:, None])]
        now, before = (
            share.gather(1, moved[:, None])[:, 0].tolist() for share in (shares, shares[:1].expand_as(shares))
        )
        return cls(path, overlaps.tolist(), values, members, now, before)

    def influence(self, number: int, distance: float) -> Influence:
        """That of the property that is left out in a row, without its name."""
        if not self.labels:
            now, before = (_rounded(self.intervals[place]) for place in (number, 0))
            values = self.values[number], self.values[0]
            return Influence("", distance, self.path, *values, interval=now, interval_before=before)
        now, before = (_short(shares[number]) for shares in (self.probabilities, self.before))
        return Influence(
            "",
            distance,
            self.path,
            self.values[number],
            self.values[0],
            label=self.labels[number],
            probability=now,
            probability_before=before,
            moved=self.moved[number] if self.moved else None,
        )


def _moved_labels(codec: Codec, slots: Tensor, shares: Tensor, written: Any) -> list[MovedLabel | None]:
    """(R,) the label whose share (R, V) differs most from that in the first row; None where it is the written one."""
    codes = (shares - shares[:1]).abs().argmax(1)  # (R,)
    now, before = (share.gather(1, codes[:, None])[:, 0].tolist() for share in (shares, shares[:1].expand_as(shares)))
    labels = decoded(codec, slots, codes)
    return [
        None if label in (written, None) else MovedLabel(label, _short(share), _short(share_before))
        for label, share, share_before in zip(labels, now, before, strict=True)
    ]


def _overlaps(shares: Tensor) -> list[float]:
    """(R,) the Bhattacharyya coefficients of distributions of labels (R, V) with the first; the rest of 1 counts as one label."""
    shares = shares.double().clamp(min=0)
    shares = torch.cat([shares, (1 - shares.sum(1, keepdim=True)).clamp(min=0)], 1)
    shares = shares / shares.sum(1, keepdim=True)
    coefficients: list[float] = (shares[:1] * shares).sqrt().sum(1).clamp(max=1).tolist()
    return coefficients


def _number_overlaps(belief: NumberBelief) -> list[float]:
    """(R,) the same of beliefs in numbers, on the cells between the quantiles of each and of the first."""
    count = len(belief.slot)
    levels = (torch.arange(GRID, dtype=torch.float64, device=belief.slot.device) + 0.5) / GRID
    quantiles = belief.quantile(levels)  # (R, m)
    grid = torch.cat([quantiles[:1].expand(count, -1), quantiles], 1).sort(1).values
    first = belief.pick(torch.zeros(count, dtype=torch.long, device=belief.slot.device))
    masses = []
    for each in (first, belief):
        up_to = each.cdf(grid).double()
        ends = up_to.new_zeros(count, 1), up_to.new_ones(count, 1)
        masses.append(torch.cat([ends[0], up_to, ends[1]], 1).diff(dim=1).clamp(min=0))
    coefficients: list[float] = (masses[0] * masses[1]).sqrt().sum(1).clamp(max=1).tolist()
    return coefficients


# ---------------------------------------------------------------- digits


def _shortened(slot: Slot, value: Any, interval: tuple[float, float] | None) -> Any:
    """A number as completing writes it: without digits that say nothing, but as it is where it occurs again and again."""
    if interval is None or type(value) is not float or value in slot.codec.atoms:
        return value
    return shortened(value, interval)


def _short(number: float | None) -> Any:
    return None if number is None else float(f"{number:.{DIGITS}g}")


def _rounded(numbers: Any) -> Any:
    """Intervals and tolerances with as many digits as mean something."""
    if isinstance(numbers, Mapping):
        return {name: _rounded(number) for name, number in numbers.items()}
    if isinstance(numbers, tuple | list):
        return [_short(end) for end in numbers]
    return _short(numbers)
