"""Links to one of many entities: a query scored against a table of entities, by their ids and what they are called.

In training the softmax is taken over a sample: each target that was not linked to is in it by a known chance, and
counts as often as it would have had to be drawn (minus the log of its chance). So the sum under the fraction is right
on average, and exact where all are in it. Elsewhere every target is scored.

n rows   V targets of a slot   N of all slots   E entities   m of them scored   D width
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kbdisk.blocks import GroupedLinear, Readout, scored
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.category import CategoryBelief, ranks, unsure
from kbdisk.leaves.labels import OTHER, Labels
from kbdisk.leaves.reading import TextVectors, starts
from kbdisk.leaves.scoring import marginal, present
from kbdisk.rng import thread_generator

ROOM = 1 << 24  # scores at once
MAX_LABELS = (
    4096  # targets of a slot, up to which the scores of all are kept, so that experts can be combined with them
)


class Entities(nn.Module):
    """Vectors of the entities that slots may link to: one for each id, whatever the slot, and what its name means."""

    entity: Tensor
    starts: Tensor

    def __init__(self, targets: Sequence[Labels], setting: Setting, table: Callable[[int, int], nn.Parameter]) -> None:
        super().__init__()
        ids = dict.fromkeys(id for own in targets for id in own.values)
        place = {id: row for row, id in enumerate(ids)}
        numbers = torch.tensor([place[id] for own in targets for id in own.values], dtype=torch.long)
        self.register_buffer("entity", numbers, persistent=False)  # (N,)
        self.register_buffer("starts", starts(targets), persistent=False)  # (S,)
        self.table = table(len(ids), setting.width)  # (E, D)
        names = {id: name for own in targets for id, name in zip(own.values, own.names, strict=False) if name}
        read = setting.config.text and setting.reader is not None and names
        self.texts = TextVectors([names.get(id, "") for id in ids], setting) if read else None

    def forward(self, which: Tensor, scale: float = 1.0) -> Tensor:
        """(m,) numbers of targets -> (m, D); `scale`: how much a name's vector counts beside the id's"""
        entity = self.entity[which]
        vectors = F.embedding(entity, self.table)
        return vectors if self.texts is None else vectors + scale * self.texts(entity)


@dataclass(frozen=True)
class Targets:
    """The targets of one slot, as the table has them."""

    entities: Entities
    start: int  # the number of the first
    bias: Tensor  # (V,)
    chance: Tensor  # (V,) how likely each is in the sample
    scale: float

    def vectors(self, which: Tensor) -> Tensor:
        """(m,) codes -> (m, D)"""
        vectors: Tensor = self.entities(which + self.start, self.scale)
        return vectors


@dataclass(frozen=True)
class PointerBelief:
    """How likely each target is: the softmax of its scores, less the mass that is kept for those never met."""

    query: Tensor  # (n, D)
    targets: Targets
    unseen: float
    sampled: bool = False  # whether `log_prob` is that over a sample

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        log_prob = self._sampled(codes.clamp(min=0)) if self.sampled else self._full(codes.clamp(min=0))
        rest = torch.tensor([self.unseen, 1 - self.unseen], device=codes.device).clamp(min=1e-30).log()
        return torch.where(codes == OTHER, rest[0], log_prob + rest[1])

    def _full(self, codes: Tensor) -> Tensor:
        def score(scores: Tensor, codes: Tensor) -> Tensor:
            return -F.cross_entropy(scores, codes, reduction="none")

        return self._by_rows(score, codes)

    def _sampled(self, codes: Tensor) -> Tensor:
        often = self.targets.chance
        drawn = (torch.rand(often.shape, generator=thread_generator(), device=often.device) < often).nonzero()[:, 0]
        which, place = torch.cat([drawn, codes]).unique(return_inverse=True)  # (m,)
        scores = F.linear(self.query, self.targets.vectors(which), self.targets.bias[which]).float()  # (n, m)
        weight = torch.full_like(scores[:1], -torch.inf)  # those here as another row's target only do not count
        weight[0, place[: len(drawn)]] = -often[drawn].log()
        own = place[len(drawn) :, None]  # (n, 1)
        target = scores.gather(1, own)
        return target[:, 0] - (scores + weight).scatter(1, own, target).logsumexp(1)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n,) always a target that was met"""

        def draw(scores: Tensor) -> Tensor:
            return torch.multinomial((scores / temperature).softmax(1), 1, generator=generator)[:, 0]

        return self._by_rows(draw)

    def mode(self) -> Tensor:
        """(n,)"""
        return self._by_rows(lambda scores: scores.argmax(1))

    def entropy(self) -> Tensor:
        """(n,) targets never met count as one."""
        entropy = self._by_rows(lambda scores: unsure(scores.softmax(1)).sum(1))
        rest = torch.tensor([self.unseen, 1 - self.unseen], device=entropy.device)
        return entropy * rest[1] + unsure(rest).sum()

    @property
    def probs(self) -> Tensor:
        """(n, V)"""
        return self._by_rows(lambda scores: scores.softmax(1)) * (1 - self.unseen)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """(n, k) the likeliest targets, best first, and (n, k) their probabilities"""
        k = min(k, len(self.targets.bias))
        best = self._parts(lambda scores: scores.softmax(1).topk(k, 1))
        probs, codes = (torch.cat(each) for each in zip(*best, strict=True))
        return codes, probs * (1 - self.unseen)

    def ranks(self, codes: Tensor) -> Tensor:
        """(n,) the place of each target among all, 1 the best"""
        return self._by_rows(ranks, codes)

    def pick(self, rows: Tensor) -> PointerBelief:
        """Those of some rows."""
        return PointerBelief(self.query[rows], self.targets, self.unseen, self.sampled)

    def over_labels(self) -> CategoryBelief:
        """The same with the scores of all targets."""
        unseen = torch.full((len(self.query),), self.unseen, device=self.query.device)
        return CategoryBelief(self._by_rows(lambda scores: scores), unseen)

    @cached_property
    def _vectors(self) -> Tensor:
        return self.targets.vectors(torch.arange(len(self.targets.bias), device=self.query.device))  # (V, D)

    def _by_rows(self, ask: Callable[..., Tensor], *given: Tensor) -> Tensor:
        """Ask of the scores of all targets (n, V)."""
        return torch.cat(self._parts(ask, *given))

    def _parts(self, ask: Callable[..., Any], *given: Tensor) -> list[Any]:
        """The same, part by part: no more scores at a time than there is room for."""
        rows = max(ROOM // max(len(self.targets.bias), 1), 1)
        parts = zip(*(each.split(rows) for each in (self.query, *given)), strict=True)
        return [ask(F.linear(query, self._vectors, self.targets.bias).float(), *own) for query, *own in parts]


def uniform(labels: Labels) -> Tensor:
    """(V,) every target as likely."""
    return torch.full((len(labels),), 1 / len(labels))


def unigram(labels: Labels) -> Tensor:
    """(V,) targets as likely as they are common in training."""
    return marginal(labels).exp()


DRAWS: dict[str, Callable[[Labels], Tensor]] = {"uniform": uniform, "unigram": unigram}


class Pointers(Readout):
    """The queries of rows, and what they are scored against; only of the slots that have many targets."""

    multiplied: ClassVar[tuple[str, ...]] = ("query.weight", "query.bias")
    chance: Tensor

    def __init__(self, many: Mapping[int, Labels], setting: Setting) -> None:
        super().__init__()
        labels, draw = list(many.values()), DRAWS[setting.config.draw]
        self.place = {slot: place for place, slot in enumerate(many)}
        self.sizes, self.unseen = [len(own) for own in labels], [own.unseen for own in labels]
        self.query = GroupedLinear(setting.sets, setting.width, setting.width)
        self.entities = Entities(labels, setting, scored)
        self.bias = nn.Parameter(torch.cat([marginal(own) for own in labels]))  # (N,)
        chance = torch.cat([(setting.config.negatives * draw(own)).clamp(max=1) for own in labels])
        self.register_buffer("chance", chance, persistent=False)  # (N,)
        self.scale = setting.base**0.5 / setting.width  # of names; muP: 1 / D, and 1 / sqrt(D) at the base width

    def forward(self, h: Tensor, rows: Rows) -> Iterator[tuple[Tensor, PointerBelief | CategoryBelief]]:
        """(n, D) -> for each slot of many targets its rows, and a belief about them"""
        slots, counts = present(rows.slot)
        queries = self.query(h, rows.counts).split(counts.tolist())
        of = torch.arange(len(rows), device=h.device).split(counts.tolist())
        biases, chances, starts = (
            self.bias.split(self.sizes),
            self.chance.split(self.sizes),
            self.entities.starts.tolist(),
        )
        for slot, own, query in zip(slots.tolist(), of, queries, strict=True):
            if slot in self.place:
                at = self.place[slot]
                targets = Targets(self.entities, starts[at], biases[at], chances[at], self.scale)
                belief = PointerBelief(query, targets, self.unseen[at], self.training)
                yield own, belief if self.training or self.sizes[at] > MAX_LABELS else belief.over_labels()
