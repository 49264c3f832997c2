"""Labels and links by the factorisation of triples: an expert of the stack.

The factors are those of `link_factorization`, of the triples that tokens say: links, classes, labels and ranges of numbers. The
labels of a property are scored by the vector of the entity, which is found by its visible triples alone, of known entities too: so
a masked value never places the entity that it is asked of. What says the same as a reserved link is not learnt from before the
weights are fitted.

B entities   T tokens   S slots   n triples   K labels   N nodes   P relations   2R numbers of a vector
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Batch, Tokens
from kbdisk.data.graph import pattern
from kbdisk.data.slots import CLASSES, Slot
from kbdisk.data.triples import MAX_RANGES, Relation, Triples, leaks
from kbdisk.entity import Path
from kbdisk.experts.base import (
    SET,
    USUALLY_VISIBLE,
    Candidates,
    ExpertGroup,
    Inputs,
    LabelMasses,
    Report,
    Sides,
    WeightedExpert,
    ignored,
)
from kbdisk.experts.config import LinkFactorizationConfig
from kbdisk.experts.features import ONE_HOT_KINDS
from kbdisk.experts.link_factorization import Factors, FactorTrainer, times
from kbdisk.experts.queries import chunks, usual_amounts

NUMBER, LINK = "number", "link"
STRENGTH = 0.03  # of N3: stronger than for links alone, as vectors that few values place are asked
EPOCHS, REFIT_EPOCHS = 12, 4  # where there is no time limit
RANGES = (MAX_RANGES, MAX_RANGES // 4)  # of the numbers of one property, of equal frequency
CANDIDATES = 128  # nodes that the answers of a placed entity are told from: half of them the most frequent answers
MAX_SCORES = 1 << 24  # that are computed at once
MAX_LABELS_PREDICTED = 100  # of one value: the likeliest
MAX_LABELS = 4096  # of a slot that is predicted
MAX_NODES = 1 << 18  # of which all are in memory


# ---------------------------------------------------------------- tokens as triples


class TokenTriples(NamedTuple):
    """The triples of the tokens of some entities."""

    owner: Tensor  # (n,) the entity, by its place in the batch
    relation: Tensor  # (n,) + P: the inverse
    node: Tensor  # (n,) at the other end

    def only(self, kept: Tensor) -> TokenTriples:
        """Some of them (n,)."""
        return TokenTriples(*(part[kept] for part in self))


@dataclass(frozen=True)
class TripleLayout:
    """What the tokens of a codec say as triples."""

    relations: tuple[Relation, ...]  # (P,) links first
    ids: tuple[str, ...]  # of the nodes of entities that links lead to or come from, by their numbers
    values: tuple[tuple[int, Hashable], ...]  # of the nodes of values, which follow: relation and label
    relation: Tensor  # (S,) of each slot, -1: none; + P: the slot has incoming links
    start: Tensor  # (S,) of the slot's labels in `nodes`; of its ranges among all nodes
    nodes: Tensor  # (L,) the node of each label of each codec
    edges: tuple[Tensor, ...]  # of the ranges of a number's code

    @classmethod
    def of(cls, codec: Codec) -> TripleLayout:
        """The triples of a codec."""
        slots = codec.slots
        keys = [_relation_of(slot) for slot in slots]
        distinct = sorted({key for key in keys if key is not None}, key=lambda key: (not key[2], key[0], repr(key[1])))
        number = {key: place for place, key in enumerate(distinct)}
        relation = torch.full((len(slots),), -1)
        for place, (slot, key) in enumerate(zip(slots, keys, strict=True)):
            if key is not None:
                relation[place] = number[key] + len(distinct) * _is_incoming(slot)
        ids: dict[str, int] = {}
        for slot, key in zip(slots, keys, strict=True):
            if key is not None and key[2]:
                for target in slot.labels.values:
                    ids.setdefault(str(target), len(ids))
        values: dict[tuple[int, Hashable], int] = {}
        starts: dict[tuple[int, int], int] = {}
        start, nodes = torch.full((len(slots),), -1), list[int]()
        for place, (slot, key) in enumerate(zip(slots, keys, strict=True)):
            if key is None:
                continue
            own = number[key]
            if slot.kind == NUMBER:
                of_ranges = [
                    values.setdefault((own, (level, at)), len(values)) for level in RANGES for at in range(level)
                ]
                start[place] = len(ids) + of_ranges[0]
                continue
            if (own, id(slot.codec)) not in starts:
                starts[own, id(slot.codec)] = len(nodes)
                if key[2]:
                    nodes += [ids[str(label)] for label in slot.labels.values]
                else:
                    keyed = ((own, (isinstance(label, bool), label)) for label in slot.labels.values)
                    nodes += [len(ids) + values.setdefault(label, len(values)) for label in keyed]
            start[place] = starts[own, id(slot.codec)]
        edges = tuple(torch.special.ndtri(torch.arange(1, level) / level) for level in RANGES)
        relations = tuple(Relation(path, is_link) for _, path, is_link in distinct)
        return cls(relations, tuple(ids), tuple(values), relation, start, torch.tensor(nodes, dtype=torch.long), edges)

    @property
    def size(self) -> int:
        """N"""
        return len(self.ids) + len(self.values)

    def to(self, device: torch.device) -> TripleLayout:
        """The same on a device."""
        parts = {name: getattr(self, name).to(device) for name in ("relation", "start", "nodes")}
        return replace(self, **parts, edges=tuple(edges.to(device) for edges in self.edges))

    def triples(self, batch: Batch, some: Tensor) -> TokenTriples:
        """Those of some of a batch's tokens (T,)."""
        parts = [TokenTriples(*(batch.entity.new_zeros(0) for _ in TokenTriples._fields))]
        for kind in batch.spans.keys() & ONE_HOT_KINDS:
            begin, end = batch.spans[kind]
            tokens = (some[begin:end] & (self.relation[batch.slot[begin:end]] >= 0)).nonzero()[:, 0]
            codes, token = batch.values[kind][tokens], tokens + begin
            if kind == NUMBER:
                first = self.start[batch.slot[token]]
                for edges in self.edges:
                    node = first + torch.bucketize(codes[:, 0].contiguous(), edges)
                    parts.append(self._of(batch, token, node))
                    first = first + len(edges) + 1
                continue
            codes = codes if kind == SET else codes[:, None]
            row, member = (codes >= 0).nonzero().unbind(1)
            label = codes[row, member]
            parts.append(self._of(batch, token[row], self.nodes[self.start[batch.slot[token[row]]] + label]))
        return TokenTriples(*(torch.cat(side) for side in zip(*parts, strict=True)))

    def _of(self, batch: Batch, token: Tensor, node: Tensor) -> TokenTriples:
        return TokenTriples(batch.entity[token], self.relation[batch.slot[token]], node)


def _is_incoming(slot: Slot) -> bool:
    return slot.over is not None and slot.over.incoming and not slot.over.aggregate


def _relation_of(slot: Slot) -> tuple[str, Path, bool] | None:
    """The class and path of a slot's relation, and whether its values are links; None where the slot says no triple."""
    if slot.kind not in ONE_HOT_KINDS:
        return None
    if _is_incoming(slot):
        assert slot.over is not None
        return slot.over.class_name, pattern(slot.over.link), True
    if slot.role == "evidence" and slot.path != CLASSES:
        return None
    return slot.class_name, pattern(slot.path), slot.kind == LINK or (slot.kind == SET and slot.codec.links)


# ---------------------------------------------------------------- the vectors of entities


class NodeSample(NamedTuple):
    """Nodes that the answers of an entity are told from: the most frequent ones, and a random part of the others."""

    nodes: Tensor  # (C,)
    log_weights: Tensor  # (C,) of as many nodes as each stands for

    @classmethod
    def of(cls, counts: Tensor, first: int, last: int) -> NodeSample:
        """A sample of the nodes from `first` to `last`, by how often each is an answer (N,)."""
        nodes = first + counts[first:last].argsort(descending=True, stable=True)
        if len(nodes) <= CANDIDATES:
            return cls(nodes, torch.zeros(len(nodes)))
        half = CANDIDATES // 2
        others = nodes[half:][torch.randperm(len(nodes) - half, generator=torch.Generator().manual_seed(0))[:half]]
        weight = torch.tensor((len(nodes) - half) / half).log()
        return cls(torch.cat([nodes[:half], others]), torch.cat([torch.zeros(half), weight.expand(half)]))

    def to(self, device: torch.device) -> NodeSample:
        """The same on a device."""
        return NodeSample(*(part.to(device) for part in self))


@dataclass(frozen=True)
class FactorFeatures:
    """The vector of each entity, by its visible values."""

    layout: TripleLayout
    factors: Factors
    links: NodeSample
    values: NodeSample

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, 2R) by the visible tokens (T,); NaN where none says a triple."""
        triples = self.layout.triples(batch, visible)
        triples = triples.only(triples.owner.argsort(stable=True))
        counts = torch.bincount(triples.owner, minlength=batch.size)
        part = counts.cumsum(0) // max(MAX_SCORES // CANDIDATES, 1)
        sizes = part.unique_consecutive(return_counts=True)[1].tolist()
        parts = [self.factors.nodes.new_zeros(0, self.factors.nodes.shape[1], dtype=torch.float32)]
        first, begin = 0, 0
        for size, of_part in zip(sizes, counts.split(sizes), strict=True):
            end = begin + int(of_part.sum())
            parts.append(self._placed(TokenTriples(*(side[begin:end] for side in triples)), first, size))
            first, begin = first + size, end
        return torch.cat(parts).masked_fill((counts == 0)[:, None], torch.nan)

    def _placed(self, triples: TokenTriples, first: int, count: int) -> Tensor:
        """(count, 2R) the vectors of entities from the place `first` on, by all their triples."""
        is_value = triples.node >= len(self.layout.ids)
        sides = [
            (triples.owner[of_side] - first, triples.relation[of_side], triples.node[of_side], *sample)
            for of_side, sample in ((~is_value, self.links), (is_value, self.values))
        ]
        return self.factors.place_all(sides, count, STRENGTH)

    def to(self, device: torch.device) -> FactorFeatures:
        """The same on a device."""
        factors = Factors(self.factors.nodes.to(device), self.factors.relations.to(device))
        return FactorFeatures(self.layout.to(device), factors, self.links.to(device), self.values.to(device))


# ---------------------------------------------------------------- the expert


@dataclass(frozen=True)
class FactorizedLabels:
    """The labels of one slot, scored by the vector of the entity: an expert."""

    factors: Factors
    relation: int
    nodes: Tensor  # (K,) of each label
    known_share: float  # the probability that a value is one of them

    def predict(self, inputs: Inputs) -> LabelMasses:
        """The likeliest labels; without any mass where nothing is known of an entity."""
        is_placed = ~inputs.features[:, 0].isnan()
        relation = self.factors.relation_vectors(torch.tensor([self.relation], device=self.nodes.device))
        queries = times(inputs.features.nan_to_num(), relation.expand(len(inputs.features), -1))
        mass = self.factors.scores(queries, self.nodes).double().softmax(1)
        mass, codes = mass.topk(min(MAX_LABELS_PREDICTED, len(self.nodes)), 1)
        return LabelMasses(codes, self.known_share * mass * is_placed[:, None])


def unweighted_group(codec: Codec, features: FactorFeatures, usual_amount: Tensor) -> ExpertGroup:
    """The experts of all slots of labels.

    Every amount is usual (C,): they predict where little is visible, too.
    """
    layout, experts = features.layout, {}
    for number, slot in enumerate(codec.slots):
        if slot.fixed or slot.kind not in ONE_HOT_KINDS - {NUMBER} or not 2 <= len(slot.labels) <= MAX_LABELS:
            continue
        start = int(layout.start[number])
        nodes = layout.nodes[start : start + len(slot.labels)]
        expert = FactorizedLabels(features.factors, int(layout.relation[number]), nodes, 1 - slot.labels.unseen)
        experts[number, USUALLY_VISIBLE] = WeightedExpert.unweighted(expert)
    return ExpertGroup(features, torch.zeros_like(usual_amount), experts)


# ---------------------------------------------------------------- fit


def applies(codec: Codec, training: Tokens, held_out: Tokens, config: LinkFactorizationConfig) -> bool:
    """Whether there are links, values that are held out to weigh predictions, and room for the nodes.

    Without links logistic regression and trees know what there is to know of labels, in less time.
    """
    linked = any((key := _relation_of(slot)) is not None and key[2] for slot in codec.slots)
    return len(held_out) > 0 and len(training) <= MAX_NODES and linked


class TripleSides(NamedTuple):
    """The triples that are learnt from before and after the weights are fitted. Both have the same nodes."""

    layout: TripleLayout
    training: Triples  # heads that nothing links to are nodes between those of the layout's links and of its values
    complete: Triples

    @classmethod
    def of(cls, codec: Codec, sides: Sides) -> TripleSides:
        """The triples of training entities, without what says the same as reserved links; and those of all entities."""
        layout = TripleLayout.of(codec)
        number = {id: place for place, id in enumerate(layout.ids)}
        for id in (*sides.training.ids, *sides.held_out.ids):
            number.setdefault(id, len(number))
        complete = sides.training if sides.complete is None else sides.complete
        training = _numbered(layout, sides.training, number)
        if sides.complete is not None:
            training = _without_leaks(layout, training, _numbered(layout, complete, number, sides.training))
        whole = torch.cat([_numbered(layout, tokens, number) for tokens in (complete, sides.held_out)])
        triples = Triples(tuple(number), layout.relations, layout.values, whole.unique(dim=0).int())
        return cls(layout, replace(triples, numbered=training.unique(dim=0).int()), triples)

    def features(self, trainer: FactorTrainer) -> FactorFeatures:
        """Features by the factors as they are now, without further heads."""
        links, entities, nodes = len(self.layout.ids), len(self.complete.entities), self.complete.nodes
        kept = torch.cat([torch.arange(links), torch.arange(entities, nodes)])
        counts = torch.bincount(self.complete.numbered[:, 2], minlength=nodes)[kept]
        return FactorFeatures(
            self.layout,
            Factors(trainer.factors.nodes[kept], trainer.factors.relations).rounded(),
            NodeSample.of(counts, 0, links),
            NodeSample.of(counts, links, len(kept)),
        )


def _numbered(layout: TripleLayout, tokens: Tokens, number: Mapping[str, int], without: Tokens | None = None) -> Tensor:
    """The triples (n, 3) of the known own tokens of entities, but for those that are known in others."""
    heads = torch.tensor([number[id] for id in tokens.ids], dtype=torch.long)
    further = len(number) - len(layout.ids)
    parts = [torch.zeros(0, 3, dtype=torch.long)]
    for chunk in chunks(tokens, torch.arange(len(tokens))) if len(tokens) else ():
        batch = tokens.batch(chunk)
        known = batch.known if without is None else batch.known & ~without.batch(chunk).known
        triples = layout.triples(batch, known)
        triples = triples.only(triples.relation < len(layout.relations))  # incoming links are others' own
        node = torch.where(triples.node >= len(layout.ids), triples.node + further, triples.node)
        parts.append(torch.stack([heads[chunk][triples.owner], triples.relation, node], 1))
    return torch.cat(parts)


def _without_leaks(layout: TripleLayout, numbered: Tensor, reserved: Tensor) -> Tensor:
    """Triples (n, 3) without links that say the same as reserved ones, by the same relation or an inverse."""
    links = sum(relation.is_link for relation in layout.relations)
    is_link = numbered[:, 1] < links
    held_out = reserved[reserved[:, 1] < links]
    if not len(held_out) or not bool(is_link.any()):
        return numbered
    is_leak = is_link.clone()
    is_leak[is_link] = leaks(numbered[is_link], held_out, links)
    return numbered[~is_leak]


@torch.no_grad()
def fit(
    codec: Codec,
    sides: Sides,
    *,
    config: LinkFactorizationConfig,
    seed: int,
    seconds: float | None = None,
    report: Report = ignored,
) -> Candidates:
    """The experts of all slots of labels, by factors of the training side; fitted again, they continue with all entities."""
    begun = time.monotonic()
    device = sides.training.slot.device
    triples, usual_amount = TripleSides.of(codec, sides.to(torch.device("cpu"))), usual_amounts(sides.training)
    trainer = FactorTrainer(triples.training, config, STRENGTH, seed)
    left = None if seconds is None else max(seconds - (time.monotonic() - begun), 0.0)
    trainer.run(left, EPOCHS, partial(_report_part, report))

    def refitted(group: ExpertGroup, seconds: float | None = None, report: Report = ignored) -> ExpertGroup:
        trainer.learn_from(triples.complete)
        trainer.run(seconds, REFIT_EPOCHS, partial(_report_part, report))
        final = unweighted_group(codec, triples.features(trainer).to(device), usual_amount)
        experts = {key: replace(weighted, expert=final.experts[key].expert) for key, weighted in group.experts.items()}
        return replace(final, experts=experts)

    return Candidates(unweighted_group(codec, triples.features(trainer).to(device), usual_amount), refitted)


def _report_part(report: Report, done: float) -> None:
    report(int(1000 * min(done, 1.0)), 1000)
