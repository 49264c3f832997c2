"""Attribution of a value: what the network and each expert predict, similar entities, and the given properties that move it.

predictors   what the network and each expert predict on their own, and their weights in the stack
similar      the nearest entities of the source that have the property, in the network's latent space
influences   the given properties, each left out in turn, by how far the belief moves: Hellinger's distance

Hellinger's distance of two distributions p and q is sqrt(1 - sum(sqrt(p q))): 0 where they are the same, 1 where they
have nothing in common. Numbers are compared on the cells between the quantiles of both beliefs. The parts of a composite
count as independent, given all that is visible. Of a text only two outcomes count: the value that is written, and any other.

T tokens   R beliefs, the first with all that is given, each of the others without one property   V labels   D width
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from kbdisk.completion.fields import kind_at
from kbdisk.completion.gaps import Gap
from kbdisk.completion.predict import GapPredictor, Watch
from kbdisk.completion.reasons import (
    Influence,
    Limit,
    MovedLabel,
    Predictor,
    Similar,
    Unused,
    brief,
    rounded,
)
from kbdisk.data import Codec
from kbdisk.data.dataset import CHUNK, Batch, batches
from kbdisk.data.encode import Encoding
from kbdisk.data.graph import pattern
from kbdisk.data.links import Evidence
from kbdisk.data.parse import Reading, read
from kbdisk.data.slots import CLASSES, Slot
from kbdisk.entity import Entity, Path, show
from kbdisk.experts import experts_of
from kbdisk.experts.base import (
    SET,
    ExpertGroup,
    LabelMasses,
    Seen,
    WeightedExpert,
    visibility_levels,
    with_labels,
)
from kbdisk.experts.latent_knn import OWN_ANSWERS
from kbdisk.experts.rule_columns import values_in
from kbdisk.leaves.belief import SupportsInterpolation
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.model.beliefs import Asked, Beliefs
from kbdisk.model.diffusion import beliefs
from kbdisk.model.estimates import decode_codes, estimate_codes, estimate_values, round_to_interval
from kbdisk.schemas.composites import Kind
from kbdisk.schemas.composites.base import join_kind, split_kind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.training.trained import Trained

MAX_SIMILAR = 3
MAX_INFLUENCES = 5
MIN_INFLUENCE = 0.005  # the distance of an influence that is shown
MAX_SEARCHED = 20_000  # entities that are searched for similar ones
ENCODED_AT_ONCE = 500  # entities
QUANTILES_COMPARED = 64  # of each of two beliefs in a number


class Explained(Protocol):
    """The property of an entity whose value is explained, as `kbdisk.completion.why.Question` has it."""

    trained: Trained
    codec: Codec
    schema: Schema
    entities: Sequence[Entity]  # of the source
    entity: Entity
    reading: Reading
    schema_class: Class
    property_path: Path
    schema_property: Property

    @property
    def evidence(self) -> Evidence | None:
        """The features that come over links, where the model has any."""


# ---------------------------------------------------------------- predictors


def predictors_of(
    trained: Trained, batch: Batch, tokens: Mapping[Path, int]
) -> tuple[list[Predictor], list[Unused], list[Limit]]:
    """The prediction of the network and of each expert alone for each asked token, the experts without weight, and the limits of
    the weighted mean."""
    asked = torch.zeros_like(batch.known)
    asked[list(tokens.values())] = True
    kinds = experts_of("stack", "answer")
    network = trained.with_experts(**dict.fromkeys(kinds))
    network_beliefs = beliefs(network.full_model, batch, asked)
    groups = dict(_groups(trained))
    seen = {name: group.seen(batch, batch.known) for name, group in groups.items()}
    stacked_beliefs = beliefs(trained.full_model, batch, asked)
    predictors, unused, limits = list[Predictor](), list[Unused](), list[Limit]()
    for path, token in tokens.items():
        kind, asked_beliefs, row = _row_of(network_beliefs, token)
        belief, slot = asked_beliefs.belief.pick(row), int(batch.slot[token])
        shares, expert_predictors = [], []
        for name in (kind.title for kind in kinds.values()):
            weighted, reason = _expert_of(groups.get(name), seen.get(name), slot)
            predicted = None
            if weighted is not None:
                inputs = seen[name].inputs(torch.arange(batch.size, device=batch.slot.device))
                predicted = _prediction(
                    trained.codec, kind, belief, batch.slot[[token]], weighted.expert.predict(inputs)
                )
                reason = "no prediction"
            if weighted is None or predicted is None:
                unused.append(Unused(path, name, reason))
                continue
            shares.append(float(weighted.weight))
            expert_predictors.append(Predictor(path, name, 0.0, *predicted))
        first, *weights = map(brief, stacked_weights(shares))
        count = len(trained.members)
        value, probability = _prediction(trained.codec, kind, belief, batch.slot[[token]], None) or (None, None)
        latent = _latent_weight(network, batch, asked_beliefs, row)
        name = "network" if count == 1 else f"{count} networks"
        predictors.append(Predictor(path, name, first, value, probability, latent))
        predictors += [
            replace(expert, weight=weight) for expert, weight in zip(expert_predictors, weights, strict=True)
        ]
        _, stacked, row = _row_of(stacked_beliefs, token)
        if weights and isinstance(stacked.belief, NumberBelief):
            limits += _limit(trained.codec.slots[slot], path, stacked.belief.pick(row))
    return predictors, unused, limits


def _limit(slot: Slot, path: Path, stacked: NumberBelief) -> Iterator[Limit]:
    """The limit that a stacked belief puts on the weighted mean, where it puts any."""
    if stacked.estimate is not None:
        weighted, kept = (
            _plain_number(slot, stacked, float(number[0])) for number in (stacked.estimate, stacked.typical())
        )
        if weighted != kept:
            yield Limit(path, weighted, kept)


def stacked_weights(parts: Sequence[float]) -> list[float]:
    """The weight of a model, then those of the experts that are stacked on it; they sum to 1.

    A part is the weight of an expert beside all that it is stacked on.
    """
    weights, remaining = [], 1.0
    for part in reversed(parts):
        weights.append(part * remaining)
        remaining *= 1 - part
    return [remaining, *reversed(weights)]


def _groups(trained: Trained) -> Iterator[tuple[str, ExpertGroup]]:
    """The experts of a model by the titles of their kinds, in the order in which they are stacked."""
    for name, kind in experts_of("stack").items():
        if name in trained.experts:
            yield kind.title, trained.experts[name]
    model: Any = trained.with_experts(**dict.fromkeys(experts_of("answer"))).full_model
    for name, kind in experts_of("answer").items():
        if name in trained.experts:
            model = trained.experts[name].beside(model)
            [group] = model.groups
            yield kind.title, group


def _expert_of(group: ExpertGroup | None, seen: Seen | None, slot: int) -> tuple[WeightedExpert | None, str]:
    """The expert that has a weight for a slot at the level of the only entity; why there is none."""
    if group is None or seen is None:
        return None, "no weight"
    level = int(seen.levels[0])
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
        is_mixed = kind == SET or isinstance(belief, SupportsInterpolation)
        if not is_mixed or not isinstance(prediction, LabelMasses) or float(prediction.mass.sum()) <= 0:
            return None
        row, alone = torch.zeros(1, dtype=torch.long, device=slot.device), prediction.mass.new_ones(())
        belief = with_labels(kind, belief, [(row, alone, prediction)])
    codes = belief.mode()
    return decode_codes(codec, slot, codes)[0], brief(float(belief.log_prob(codes).exp()[0]))


def _plain_number(slot: Slot, belief: NumberBelief, number: float) -> Any:
    """A number without digits that are insignificant beside the belief's interval; an integer where its property has integers."""
    low, high = (float(bound[0]) for bound in belief.interval(0.9))
    if slot.codec.decode(belief.codes(torch.tensor([number], dtype=torch.float64)))[0].__class__ is int:
        return round(number)
    return round_to_interval(number, (low, high))


def _row_of(asked: Beliefs, token: int) -> tuple[str, Asked, Tensor]:
    """The kind of an asked token, the beliefs of that kind, and the row (1,) of the token."""
    for kind, kind_beliefs in asked.kinds.items():
        rows = (kind_beliefs.tokens == token).nonzero()[:, 0]
        if len(rows):
            return kind, kind_beliefs, rows
    raise KeyError(token)


def _latent_weight(network: Trained, batch: Batch, asked: Asked, row: Tensor) -> float:
    """The approximate weight of neighbours in the latent spaces in the networks' belief."""
    if not isinstance(asked.belief, SupportsInterpolation):
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
                vectors = member.network.encode_asked(batch, batch.known, is_asked)
                near = index.neighbours(
                    vectors, batch.id_hash, torch.isin(batch.id_hash, latent.held_out), latent.neighbours
                )
                is_number = isinstance(asked.belief, NumberBelief)
                network_weight = (
                    index.weights_of_answers(near)[0, :OWN_ANSWERS].sum()
                    if is_number
                    else 1 - index.belief_mass(near).sum()
                )
                weight = 1 - float(network_weight)
        weights.append(weight)
    return float(brief(sum(weights) / len(weights)))


# ---------------------------------------------------------------- similar entities


def similar_entities(question: Explained, batch: Batch, token: int, gap: Gap, watch: Watch | None) -> Iterator[Similar]:
    """The nearest entities that have the property, in the network's latent space where it is asked for the property.

    The value is hidden in each, as in the entity itself. Vectors are standardised over all entities that are searched.
    """
    trained, network, slot = question.trained, question.trained.network, int(batch.slot[token])
    having = list(_having(question, slot))
    if not having:
        return
    is_asked = torch.zeros_like(batch.known).index_fill(0, torch.tensor([token], device=batch.known.device), True)
    entity_vector = network.encode_asked(batch, batch.known, is_asked).float()  # (1, D)
    parts = torch.tensor([spot.slot for spot in gap.spots], device=trained.device)
    vectors: list[Tensor] = []
    evidence = question.evidence
    for start in range(0, len(having), ENCODED_AT_ONCE):
        encoding = Encoding(question.codec.index, lambda reading, table: (), evidence)
        for reading in having[start : start + ENCODED_AT_ONCE]:
            encoding.add(reading)
        for places, batch_of_others in batches(encoding.tokens().to(trained.device)):
            hidden = batch_of_others.known & ~batch_of_others.fixed & torch.isin(batch_of_others.slot, parts)
            asked = batch_of_others.known & (batch_of_others.slot == slot)
            other_vectors = torch.zeros(batch_of_others.size, entity_vector.shape[1], device=entity_vector.device)
            other_vectors[batch_of_others.entity[asked]] = network.encode_asked(
                batch_of_others, batch_of_others.seen(batch_of_others.known & ~hidden), asked
            ).float()
            vectors.append(other_vectors)
            if watch is not None:
                watch(start + places.stop, len(having))
    searched = torch.cat(vectors)
    mean, deviation = searched.mean(0), searched.std(0, correction=0).clamp(min=1e-6)
    similarity = torch.cosine_similarity((searched - mean) / deviation, (entity_vector - mean) / deviation)
    for row in similarity.topk(min(MAX_SIMILAR, len(having))).indices.tolist():
        reading = having[row]
        yield Similar(
            reading.id, reading.entity.label, _value_at(question, reading, gap.path), brief(float(similarity[row]))
        )


def _having(question: Explained, slot: int) -> Iterator[Reading]:
    """The other entities of the source that have a slot; of more than MAX_SEARCHED a sample, always the same."""
    count, others = 0, question.entities
    order: Iterable[int] = range(len(others))
    if len(others) > MAX_SEARCHED:
        order = torch.randperm(len(others), generator=torch.Generator().manual_seed(0)).tolist()
    tables = question.codec.index.tables
    for number in order:
        reading = None if others[number].id == question.entity.id else read(question.schema, others[number])
        if reading is None or reading.id == question.reading.id:
            continue
        if any(tables[reading.class_name].slot.get(leaf) == slot for leaf in reading.leaves):
            yield reading
            count += 1
            if count == MAX_SEARCHED:
                return


def _value_at(question: Explained, reading: Reading, path: Path) -> Any:
    """The value of an entity at the path of a field."""
    value = values_in(question.schema, reading).get(question.property_path)
    return part_of(question.schema_property.kind, value, path[len(question.property_path) :])


# ---------------------------------------------------------------- influences


def influences_on(
    question: Explained, predictor: GapPredictor, batch: Batch, tokens: Mapping[Path, int]
) -> list[Influence]:
    """The given properties that move the belief most when they are left out, one at a time."""
    names = _given_properties(question, batch)
    property_tokens = list(names.values())
    variants = (
        torch.stack([torch.zeros_like(batch.known), *property_tokens], 1)
        if property_tokens
        else batch.known[:, None][:, :0]
    )
    paths = {token: path for path, token in tokens.items()}
    size = max(CHUNK // max(len(batch), 1), 2) - 1
    influences: list[Influence] = []
    for start in range(0, len(property_tokens), size):
        columns = list(range(start + 1, min(start + size, len(property_tokens)) + 1))
        hidden = variants[:, [0, *columns]]  # (T, R)
        for name, change in zip([*names][start : start + size], _changes(predictor, batch, hidden, paths), strict=True):
            influences.append(replace(change, name=name))
    moved = (influence for influence in influences if influence.distance >= MIN_INFLUENCE)
    return sorted(moved, key=lambda influence: -influence.distance)[:MAX_INFLUENCES]


def _given_properties(question: Explained, batch: Batch) -> dict[str, Tensor]:
    """The visible tokens (T,) of each given property, by its path: of links with the features that come over them.

    Links from other entities, and their features, are named by their class and path.
    """
    slots, tokens = question.codec.slots, dict[str, Tensor]()
    table = question.codec.index.tables[question.schema_class.name]
    for token in batch.known.nonzero()[:, 0].tolist():
        slot = slots[int(batch.slot[token])]
        if slot.path == CLASSES and slot.over is None:
            continue
        if slot.over is not None and slot.over.incoming:
            name = f"links from {slot.over.class_name or 'entities'} by {show(slot.over.link)}"
        elif slot.over is not None and not slot.over.link:
            name = f"{show(slot.over.read)} of linked entities"
        else:
            path = slot.path if slot.over is None else slot.over.link
            property = table.property.get(path) or next((path[:n] for n in range(len(path), 0, -1) if path[:n] in question.schema_class.properties), path)  # fmt: skip
            name = f"other parts of {show(property)}" if property == question.property_path else show(property)
        tokens.setdefault(name, torch.zeros_like(batch.known))[token] = True
    return tokens


def _changes(predictor: GapPredictor, batch: Batch, hidden: Tensor, paths: Mapping[int, Path]) -> Iterator[Influence]:
    """The changes of beliefs about tokens, by their paths, in each column of hidden tokens (T, R) beside the first."""
    count = hidden.shape[1]
    asked = torch.zeros_like(batch.known)
    asked[list(paths)] = True
    repeated = batch.repeat(count)
    # the given-only expert looks at known tokens
    repeated = replace(repeated, known=(batch.known[:, None] & ~hidden).flatten())
    believed = beliefs(predictor.model, repeated, asked.repeat_interleave(count))
    leaves = [_Leaf.of(predictor, repeated, believed, token, paths[token], count) for token in paths]
    for number in range(1, count):
        overlaps = [leaf.overlaps[number] for leaf in leaves]
        distance = math.sqrt(max(1 - math.prod(overlaps), 0.0))
        yield min(zip(overlaps, leaves, strict=True), key=lambda pair: pair[0])[1].influence(number, brief(distance))


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
    def of(cls, predictor: GapPredictor, batch: Batch, believed: Beliefs, token: int, path: Path, count: int) -> _Leaf:
        """The leaf of a token, from the beliefs about its `count` repetitions."""
        kind, asked, first = _row_of(believed, token * count)
        rows = first + torch.arange(count, device=first.device)
        picked = Beliefs({kind: replace(asked, rows=asked.rows[rows], vectors=asked.vectors[rows], belief=asked.belief.pick(rows))}, believed.length)  # fmt: skip
        belief: Any = picked.kinds[kind].belief
        codes = (
            predictor.shrinker.shrink(batch, picked, estimate_codes(picked))
            if kind != "text"
            else estimate_codes(picked)
        )
        predicted = estimate_values(predictor.codec, batch, picked, codes=codes)
        values = [answer.value for answer in predicted]
        if kind == "number":
            slot = predictor.codec.slots[predicted[0].slot]
            values = [_shortened(slot, answer.value, answer.interval) for answer in predicted]
            return cls(path, _number_overlaps(belief), values, [], [], [], [answer.interval for answer in predicted])
        if kind == SET:
            return cls._of_sets(predictor.codec, path, batch.slot[picked.kinds[kind].tokens], belief, values)
        written = {kind: codes[kind][:1].expand_as(codes[kind])}
        shrunk = predictor.shrinker.probabilities(picked, batch, written)
        chances = [
            shrunk.get(answer.token, answer.confidence)
            for answer in estimate_values(predictor.codec, batch, picked, codes=written)
        ]
        before = [chances[0]] * count
        if not hasattr(belief, "probs"):  # only the probability of the written value is known
            return cls(path, _overlaps(torch.tensor(chances)[:, None]), values, [values[0]] * count, chances, before)
        moved = _moved_labels(predictor.codec, batch.slot[picked.kinds[kind].tokens], belief.probs, values[0])
        return cls(path, _overlaps(belief.probs), values, [values[0]] * count, chances, before, moved=moved)

    @classmethod
    def _of_sets(cls, codec: Codec, path: Path, slots: Tensor, belief: Any, values: list[Any]) -> _Leaf:
        """Members count as independent, so that the coefficient is a product over labels."""
        shares = belief.probs.double().clamp(0, 1)  # (R, V)
        overlaps = ((shares[:1] * shares).sqrt() + ((1 - shares[:1]) * (1 - shares)).sqrt()).clamp(max=1).prod(1)
        moved = (shares - shares[:1]).abs().argmax(1)  # (R,)
        members = [members[0] if members else None for members in decode_codes(codec, slots, moved[:, None])]
        now, before = (
            share.gather(1, moved[:, None])[:, 0].tolist() for share in (shares, shares[:1].expand_as(shares))
        )
        return cls(path, overlaps.tolist(), values, members, now, before)

    def influence(self, number: int, distance: float) -> Influence:
        """The influence of the property that is left out in a row, without its name."""
        if not self.labels:
            now, before = (rounded(self.intervals[place]) for place in (number, 0))
            values = self.values[number], self.values[0]
            return Influence("", distance, self.path, *values, interval=now, interval_before=before)
        now, before = (brief(shares[number]) for shares in (self.probabilities, self.before))
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
    labels = decode_codes(codec, slots, codes)
    return [
        None if label in (written, None) else MovedLabel(label, brief(share), brief(share_before))
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
    """(R,) the Bhattacharyya coefficients of beliefs in numbers with the first, on the cells between the quantiles of both."""
    count = len(belief.slot)
    levels = (
        torch.arange(QUANTILES_COMPARED, dtype=torch.float64, device=belief.slot.device) + 0.5
    ) / QUANTILES_COMPARED
    quantiles = belief.quantile(levels)  # (R, m)
    grid = torch.cat([quantiles[:1].expand(count, -1), quantiles], 1).sort(1).values
    first = belief.pick(torch.zeros(count, dtype=torch.long, device=belief.slot.device))
    masses = []
    for compared in (first, belief):
        cumulated = compared.cdf(grid).double()
        ends = cumulated.new_zeros(count, 1), cumulated.new_ones(count, 1)
        masses.append(torch.cat([ends[0], cumulated, ends[1]], 1).diff(dim=1).clamp(min=0))
    coefficients: list[float] = (masses[0] * masses[1]).sqrt().sum(1).clamp(max=1).tolist()
    return coefficients


# ---------------------------------------------------------------- values


def is_below(path: Path, beginning: Path) -> bool:
    return path[: len(beginning)] == beginning


def part_of(kind: Kind, value: Any, within: Path) -> Any:
    """The part at a path within a value of a kind; None where there is none."""
    if not within or value is None:
        return value
    parts = {leaf[len(within) :]: part for leaf, part in split_kind(kind, value).items() if is_below(leaf, within)}
    return join_kind(kind_at(kind, pattern(within)), parts) if parts else None


def _shortened(slot: Slot, value: Any, interval: tuple[float, float] | None) -> Any:
    """A number as completing writes it: without insignificant digits; a number that many entities share as it is."""
    if interval is None or type(value) is not float or value in slot.codec.atoms:
        return value
    return round_to_interval(value, interval)
