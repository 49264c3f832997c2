"""Links to other entities: categories over ids where there are few targets, pointers into a table of entities where many.

Codes (n,) count a slot's targets from 0; -1 is an entity that training never linked to. However they are predicted, links
are read out of one table of entities: an entity has the same vector whichever property leads to it. Where there are very
many, those that most links lead to have vectors of their own, and all others share a fixed number, so that the table stops
growing.

A pointer is a query scored against the vectors of entities, by their ids and their names. In training the softmax is
sampled: each target that no row links to is in the sample with a known probability, and is weighted by its inverse. So the
denominator is right on average, and exact where all targets are in it. In evaluation every target is scored.

n rows   V targets of a slot   N of all slots   E entities   m of them scored   T vectors   D width   S slots   C columns
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.entity import Link as LinkValue
from kbdisk.leaves.base import UNSEEN_LABEL, Rows, Setting, check_choice
from kbdisk.leaves.belief import join_beliefs
from kbdisk.leaves.category import MIN_PROBABILITY, CategoryBelief, entropy_terms, ranks
from kbdisk.leaves.embeddings import LearntScores, TextVectors, slots_of_rows, starts_of
from kbdisk.leaves.labels import UNKNOWN_LABEL, Columns, Labels, distinct, log_frequencies, with_placeholder
from kbdisk.leaves.layers import GroupedLinear, Readout, lookup_table, residual_blocks, score_table
from kbdisk.rng import thread_generator
from kbdisk.schemas.kinds import Link

MAX_SCORES = 1 << 24  # that are computed at once
# Models are stored without the row of each entity: other numbers need a new format of models.
MAX_OWN_VECTORS = 1 << 15  # of the entities that most links lead to
SHARED_VECTORS = 1 << 12  # of all others
MAX_DENSE_TARGETS = 4096  # of a slot, up to which the scores of all are kept, so that experts can be combined with them


def uniform(labels: Labels) -> Tensor:
    """(V,) equal probabilities."""
    return torch.full((len(labels),), 1 / len(labels))


def unigram(labels: Labels) -> Tensor:
    """(V,) the targets' frequencies in training."""
    return log_frequencies(labels).exp()


SAMPLING: dict[str, Callable[[Labels], Tensor]] = {"uniform": uniform, "unigram": unigram}


@dataclass(frozen=True)
class LinkConfig:
    """The settings of links."""

    few: int = 128  # targets of a slot, at most, to predict them as categories
    text: bool = True  # whether entities are embedded by their names, too, where the network reads text
    negatives: int = 512  # targets, about, that a training step scores of each slot, beside the right ones
    draw: str = "unigram"  # or "uniform": the distribution of the negatives
    unread: float = 0.01  # the share of links that training replaces by an unknown one, so that its vector is learnt

    def __post_init__(self) -> None:
        check_choice("draw", self.draw, SAMPLING)
        if self.negatives < 1:
            raise ValueError(f"expected at least 1 for negatives, got {self.negatives}")
        if not 0 <= self.unread < 1:
            raise ValueError(f"expected a share of links for unread, got {self.unread}")


@dataclass(frozen=True)
class LinkCodec:
    """The targets of one slot: codes (n,) count them from 0, -1 is any other entity."""

    difference: ClassVar[str] = UNSEEN_LABEL
    targets: Labels  # ids
    many: bool  # whether they are predicted by pointers; else they are categories

    @classmethod
    def fit(cls, leaf: Link, values: Sequence[Any], config: LinkConfig | None = None, tokenizer: Any = None) -> Self:
        """The targets that the leaf lists, or those of the values."""
        targets = Labels.fit(leaf.values, ids_of(values), open=not leaf.values)
        return cls(targets, not leaf.values and len(targets) > (config or LinkConfig()).few)

    def with_names(self, names: Mapping[str, str]) -> LinkCodec:
        """The codec with the names of its targets, by their ids."""
        return replace(self, targets=self.targets.with_names(names))

    def encode(self, values: Sequence[Any]) -> Tensor:
        """(n,)"""
        return torch.from_numpy(self.targets.encode(ids_of(values)))

    def decode(self, codes: Tensor) -> list[Any]:
        """Links; None for the code of any other entity."""
        ids = self.targets.values
        return [LinkValue(str(ids[code])) if 0 <= code < len(ids) else None for code in codes.tolist()]

    def unlike(self, value: Any) -> Sequence[Any]:
        """The id of the entity that is linked to, if training never linked to it."""
        return self.targets.unseen_values(ids_of((value,)))

    def p_values(self, value: Any) -> Sequence[float]:
        """The probability that the next link is to an entity that training never linked to; 1 for one that it linked to."""
        return self.targets.p_values(ids_of((value,)))

    def learnt(self) -> dict[str, Any]:
        """How many entities training linked to."""
        return self.targets.learnt()

    def to_json(self) -> dict[str, Any]:
        """The codec as plain data."""
        return {**self.targets.to_json(), "many": self.many}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], tokenizer: Any = None) -> Self:
        """The codec of plain data."""
        return cls(Labels.from_json(data), data["many"])


def ids_of(values: Iterable[Any]) -> list[str]:
    """The ids of links; ValueError for a value that is no link."""
    ids = [value.id if isinstance(value, LinkValue) else value for value in values]
    for id in ids:
        if not isinstance(id, str):
            raise ValueError(f"expected a link to an entity, got {id!r}")
    return ids


# ---------------------------------------------------------------- entities and pointers


class EntityVectors(nn.Module):
    """The vectors of the entities that slots may link to: a learnt one for each id, whatever the slot, plus its name's.

    Of very many entities, those that the fewest links lead to share vectors.
    """

    entity: Tensor
    starts: Tensor
    row: Tensor

    def __init__(self, targets: Sequence[Labels], setting: Setting, table: Callable[[int, int], nn.Parameter]) -> None:
        super().__init__()
        ids = dict.fromkeys(id for labels in targets for id in labels.values)
        number_of = {id: number for number, id in enumerate(ids)}
        entity = torch.tensor([number_of[id] for labels in targets for id in labels.values], dtype=torch.long)
        counts = torch.tensor([count for labels in targets for count in labels.counts], dtype=torch.long)
        links = torch.zeros(len(ids), dtype=torch.long).index_add_(0, entity, counts)
        self.register_buffer("entity", entity, persistent=False)  # (N,)
        self.register_buffer("starts", starts_of(targets), persistent=False)  # (S,)
        self.register_buffer("row", vector_rows(links), persistent=False)  # (E,)
        self.table = table(min(len(ids), MAX_OWN_VECTORS + SHARED_VECTORS), setting.width)  # (T, D)
        names = {id: name for labels in targets for id, name in zip(labels.values, labels.names, strict=False) if name}
        has_texts = setting.config.text and setting.reader is not None and names
        self.texts = TextVectors([names.get(id, "") for id in ids], setting) if has_texts else None

    def __len__(self) -> int:
        return len(self.row)

    def forward(self, which: Tensor, scale: float = 1.0) -> Tensor:
        """(m,) numbers of targets -> (m, D); `scale` multiplies the vectors of names"""
        return self.of_entities(self.entity[which], scale)

    def of_entities(self, entity: Tensor, scale: float = 1.0) -> Tensor:
        """(m,) entities -> (m, D)"""
        vectors = F.embedding(self.row[entity], self.table)
        return vectors if self.texts is None else vectors + scale * self.texts(entity)


def vector_rows(links: Tensor) -> Tensor:
    """(E,) the row of each entity in the table of vectors, by how many links lead to it (E,)."""
    entities = torch.arange(len(links))
    if len(links) <= MAX_OWN_VECTORS + SHARED_VECTORS:
        return entities
    place = torch.empty_like(entities)
    place[links.argsort(descending=True, stable=True)] = entities
    return torch.where(place < MAX_OWN_VECTORS, place, MAX_OWN_VECTORS + place % SHARED_VECTORS)


@dataclass(frozen=True)
class SlotTargets:
    """The targets of one slot, within the table of entities."""

    entities: EntityVectors
    start: int  # the number of the first
    bias: Tensor  # (V,)
    sampled: Tensor  # (V,) the probability of each to be in the sample
    scale: float

    def vectors(self, which: Tensor) -> Tensor:
        """(m,) codes -> (m, D)"""
        vectors: Tensor = self.entities(which + self.start, self.scale)
        return vectors


@dataclass(frozen=True)
class PointerBelief:
    """A categorical distribution over targets: the softmax of scores, scaled down by the mass of unseen targets."""

    query: Tensor  # (n, D)
    targets: SlotTargets
    unseen: float

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        return with_unseen(self._full(codes.clamp(min=0)), codes, self.unseen)

    def _full(self, codes: Tensor) -> Tensor:
        def score(scores: Tensor, codes: Tensor) -> Tensor:
            return -F.cross_entropy(scores, codes, reduction="none")

        return self._by_rows(score, codes)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n,) always a known target"""

        def draw(scores: Tensor) -> Tensor:
            return torch.multinomial((scores / temperature).softmax(1), 1, generator=generator)[:, 0]

        return self._by_rows(draw)

    def mode(self) -> Tensor:
        """(n,)"""
        return self._by_rows(lambda scores: scores.argmax(1))

    def entropy(self) -> Tensor:
        """(n,) unseen targets count as a single one."""
        entropy = self._by_rows(lambda scores: entropy_terms(scores.softmax(1)).sum(1))
        masses = torch.tensor([self.unseen, 1 - self.unseen], device=entropy.device)
        return entropy * masses[1] + entropy_terms(masses).sum()

    @property
    def probs(self) -> Tensor:
        """(n, V)"""
        return self._by_rows(lambda scores: scores.softmax(1)) * (1 - self.unseen)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """(n, k) the likeliest targets, best first, and (n, k) their probabilities"""
        k = min(k, len(self.targets.bias))
        best = self._parts(lambda scores: scores.softmax(1).topk(k, 1))
        probs, codes = (torch.cat(parts) for parts in zip(*best, strict=True))
        return codes, probs * (1 - self.unseen)

    def ranks(self, codes: Tensor) -> Tensor:
        """(n,) the rank of each target among all, 1 the best"""
        return self._by_rows(ranks, codes)

    def pick(self, rows: Tensor) -> PointerBelief:
        """The beliefs about some of the rows."""
        return PointerBelief(self.query[rows], self.targets, self.unseen)

    def as_category(self) -> CategoryBelief:
        """The same belief, with the scores of all targets."""
        unseen = torch.full((len(self.query),), self.unseen, device=self.query.device)
        return CategoryBelief(self._by_rows(lambda scores: scores), unseen)

    @cached_property
    def _vectors(self) -> Tensor:
        return self.targets.vectors(torch.arange(len(self.targets.bias), device=self.query.device))  # (V, D)

    def _by_rows(self, function: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
        """A function of the scores of all targets (n, V), and of more tensors by row."""
        return torch.cat(self._parts(function, *arguments))

    def _parts(self, function: Callable[..., Any], *arguments: Tensor) -> list[Any]:
        """A function of the scores of all targets, computed in parts of at most `MAX_SCORES` scores."""
        rows = max(MAX_SCORES // max(len(self.targets.bias), 1), 1)
        parts = zip(*(tensor.split(rows) for tensor in (self.query, *arguments)), strict=True)
        return [
            function(F.linear(query, self._vectors, self.targets.bias).float(), *tensors) for query, *tensors in parts
        ]


def with_unseen(log_prob: Tensor, codes: Tensor, unseen: float) -> Tensor:
    """(n,) log p of codes, given that of known targets (n,) and the mass of unseen ones."""
    log_masses = torch.tensor([unseen, 1 - unseen], device=codes.device).clamp(min=MIN_PROBABILITY).log()
    return torch.where(codes == UNKNOWN_LABEL, log_masses[0], log_prob + log_masses[1])


@dataclass(frozen=True)
class SampledPointers:
    """In training: sampled softmaxes over the targets of several slots, whose entities are embedded once for all slots.

    An entity is drawn for all slots that it is a target of by one random number, so that the slots' samples overlap: each
    target is in the sample of its slot with its own probability, and few entities have to be embedded.
    """

    beliefs: Sequence[PointerBelief]  # of the slots, in the order of the rows

    def __len__(self) -> int:
        return sum(len(belief.query) for belief in self.beliefs)

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        entities = self.beliefs[0].targets.entities
        uniforms = torch.rand(len(entities), generator=thread_generator(), device=codes.device)  # (E,)
        samples = [
            _Sample.of(belief.targets, of_slot.clamp(min=0), uniforms)
            for belief, of_slot in zip(self.beliefs, self._by_slot(codes), strict=True)
        ]
        numbers = torch.cat([sample.which + sample.targets.start for sample in samples])
        embedded, place = entities.entity[numbers].unique(return_inverse=True)
        vectors = entities.of_entities(embedded, self.beliefs[0].targets.scale)  # (m, D)
        places = place.split([len(sample.which) for sample in samples])
        parts = [
            with_unseen(sample.log_prob(belief.query, vectors[of_sample]), of_slot, belief.unseen)
            for belief, sample, of_sample, of_slot in zip(
                self.beliefs, samples, places, self._by_slot(codes), strict=True
            )
        ]
        return torch.cat(parts)

    def _by_slot(self, codes: Tensor) -> Sequence[Tensor]:
        split: Sequence[Tensor] = codes.split([len(belief.query) for belief in self.beliefs])
        return split


class _Sample(NamedTuple):
    """The targets of a slot that its rows are scored against."""

    targets: SlotTargets
    which: Tensor  # (m,) the drawn targets and those of the rows, each once
    weight: Tensor  # (m,) the log of how many targets each stands for; -inf where it was not drawn
    own: Tensor  # (n,) the place of each row's target among them

    @classmethod
    def of(cls, targets: SlotTargets, codes: Tensor, uniforms: Tensor) -> _Sample:
        """The sample by the random numbers of all entities (E,)."""
        size = len(targets.sampled)
        is_drawn = uniforms[targets.entities.entity[targets.start : targets.start + size]] < targets.sampled  # (V,)
        drawn = is_drawn.nonzero()[:, 0]
        which, place = torch.cat([drawn, codes]).unique(return_inverse=True)
        weight = torch.full((len(which),), -torch.inf, device=codes.device)
        weight[place[: len(drawn)]] = -targets.sampled[drawn].log()
        return cls(targets, which, weight, place[len(drawn) :])

    def log_prob(self, query: Tensor, vectors: Tensor) -> Tensor:
        """(n,) of queries (n, D), by the vectors (m, D) of the sample."""
        scores = F.linear(query, vectors, self.targets.bias[self.which]).float()  # (n, m)
        own = self.own[:, None]  # (n, 1)
        target = scores.gather(1, own)
        return target[:, 0] - (scores + self.weight).scatter(1, own, target).logsumexp(1)


class PointerHead(Readout):
    """The queries of rows, and the entities that they are scored against; only for slots with many targets."""

    weight_names: ClassVar[tuple[str, ...]] = ("query.weight", "query.bias")
    sampled: Tensor

    def __init__(self, many: Mapping[int, Labels], setting: Setting) -> None:
        super().__init__()
        targets, distribution = list(many.values()), SAMPLING[setting.config.draw]
        self.number = {slot: number for number, slot in enumerate(many)}
        self.sizes, self.unseen = [len(labels) for labels in targets], [labels.unseen for labels in targets]
        self.query = GroupedLinear(setting.sets, setting.width, setting.width)
        self.entities = EntityVectors(targets, setting, score_table)
        self.bias = nn.Parameter(torch.cat([log_frequencies(labels) for labels in targets]))  # (N,)
        sampled = [(setting.config.negatives * distribution(labels)).clamp(max=1) for labels in targets]
        self.register_buffer("sampled", torch.cat(sampled), persistent=False)  # (N,)
        self.scale = setting.base**0.5 / setting.width  # of names; muP: 1 / D, and 1 / sqrt(D) at the base width

    def forward(
        self, h: Tensor, rows: Rows
    ) -> Iterator[tuple[Tensor, PointerBelief | CategoryBelief | SampledPointers]]:
        """(n, D) -> for each slot of many targets its rows, and a belief about them; in training one for all slots"""
        beliefs = list(self._by_slot(h, rows))
        if self.training and beliefs:
            yield torch.cat([of_slot for of_slot, _ in beliefs]), SampledPointers([belief for _, belief in beliefs])
            return
        for of_slot, belief in beliefs:
            yield of_slot, belief if len(belief.targets.bias) > MAX_DENSE_TARGETS else belief.as_category()

    def _by_slot(self, h: Tensor, rows: Rows) -> Iterator[tuple[Tensor, PointerBelief]]:
        slots, counts = slots_of_rows(rows.slot)
        queries = self.query(h, rows.counts).split(counts.tolist())
        rows_of_slots = torch.arange(len(rows), device=h.device).split(counts.tolist())
        biases, sampled, starts = (
            self.bias.split(self.sizes),
            self.sampled.split(self.sizes),
            self.entities.starts.tolist(),
        )
        for slot, of_slot, query in zip(slots.tolist(), rows_of_slots, queries, strict=True):
            if slot in self.number:
                number = self.number[slot]
                targets = SlotTargets(self.entities, starts[number], biases[number], sampled[number], self.scale)
                yield of_slot, PointerBelief(query, targets, self.unseen[number])


# ---------------------------------------------------------------- encoder and decoder


class LinkEncoder(nn.Module):
    """The vector of the entity that is linked to and the path, through the residual blocks."""

    def __init__(self, codecs: Sequence[LinkCodec], setting: Setting) -> None:
        super().__init__()
        self.unread = setting.config.unread if setting.dropout else 0.0
        self.columns, codecs = Columns(codecs), distinct(codecs)
        self.entities = EntityVectors([codec.targets for codec in codecs], setting, lookup_table)
        self.unknown = lookup_table(len(codecs), setting.width)  # (C, D)
        self.blocks = residual_blocks(setting)

    def forward(self, codes: Tensor, rows: Rows) -> Tensor:
        """(n,) -> (n, D)"""
        if self.training and self.unread:
            is_unread = torch.rand(codes.shape, generator=thread_generator(), device=codes.device) < self.unread
            codes = codes.masked_fill(is_unread, UNKNOWN_LABEL)
        known = (codes >= 0).nonzero()[:, 0]
        column = self.columns(rows.slot)
        x = F.embedding(column, self.unknown)  # (n, D)
        vectors = self.entities(self.entities.starts[column[known]] + codes[known])
        x = x.index_copy(0, known, vectors.to(x.dtype)) + rows.path
        for block in self.blocks:
            x = block(x, rows.counts)
        return x


class LinkDecoder(nn.Module):
    """Scores of the targets of each row's slot, to a belief."""

    unseen: Tensor

    def __init__(self, codecs: Sequence[LinkCodec], setting: Setting) -> None:
        super().__init__()
        self.columns, codecs = Columns(codecs), distinct(codecs)
        self.blocks = residual_blocks(setting)
        few_targets = [Labels((), ()) if codec.many else with_placeholder(codec.targets) for codec in codecs]
        self.scores = LearntScores(few_targets, setting)
        self.register_buffer(
            "unseen", torch.tensor([codec.targets.unseen for codec in codecs]), persistent=False
        )  # (C,)
        many_targets = {column: codec.targets for column, codec in enumerate(codecs) if codec.many}
        self.pointers = PointerHead(many_targets, setting) if many_targets else None

    def forward(self, h: Tensor, rows: Rows) -> Any:
        """(n, D) -> a CategoryBelief, a PointerBelief, or several joined where slots differ in how many targets they have"""
        h = h + rows.path
        for block in self.blocks:
            h = block(h, rows.counts)
        h, rows, order = self.columns.arrange(h, rows)
        parts: list[tuple[Tensor, Any]] = [
            (part.rows, CategoryBelief(part.values, self.unseen[rows.slot[part.rows]])) for part in self.scores(h, rows)
        ]
        if self.pointers is not None:
            parts.extend(self.pointers(h, rows))
        return join_beliefs(parts or [(rows.slot, CategoryBelief(h[:, :1]))], order)
