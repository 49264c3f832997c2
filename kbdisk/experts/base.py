"""Guides, and models that they guide: what networks believe of a number or a label, and what experts say, as one.

Experts know one property each, where as much of an entity is visible as is usual or where less is; how much they count
was learnt from what is held out (kbdisk.experts.stacking). Of a number they move what is answered, and some of the belief
is around that.

B entities   T tokens   q asked tokens of one kind   m of one slot   F columns   K labels   W widths
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.diffusion import Model
from kbdisk.experts.latent_knn import Place, by_place, levels
from kbdisk.leaves.base import Belief, Recalling
from kbdisk.leaves.mixed import mixed
from kbdisk.leaves.number.around import WIDTHS, centred
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.setbelief import BlendedSets
from kbdisk.network.beliefs import Asked, Beliefs, Memo

SET = "set"  # the kind whose beliefs experts blend into, instead of moving an answer or some mass


class Seen(NamedTuple):
    """What there is to look at of m entities."""

    columns: Tensor  # (m, F) NaN where hidden
    who: Tensor  # (m,)


class Labels(NamedTuple):
    """What an expert says of labels: the same one may come several times."""

    codes: Tensor  # (m, K)
    mass: Tensor  # (m, K) float64; rows add up to 1 at most


Said: TypeAlias = Tensor | Labels  # numbers (m,) float64, or labels


class Sight(Protocol):
    """How what is visible of entities becomes columns."""

    def table(self, batch: Batch, visible: Tensor) -> Tensor:
        """(B, F) of what is visible (T,); NaN elsewhere."""


class Expert(Protocol):
    """Who knows one property."""

    def tell(self, seen: Seen) -> Said:
        """What it is, of m entities; a number may be NaN, where nothing is said."""


@dataclass(frozen=True)
class Guiding:
    """An expert, and what it is worth."""

    expert: Expert
    share: Tensor  # () float64, of an answer or of the mass
    around: Tensor  # (W,) float64, of the mass of a belief in numbers that has this answer: for what is around that

    @classmethod
    def unweighed(cls, expert: Expert) -> Guiding:
        """One of whom nobody knows yet what he is worth."""
        return cls(expert, torch.ones((), dtype=torch.float64), torch.zeros(len(WIDTHS), dtype=torch.float64))


@dataclass(frozen=True)
class Guide:
    """Experts that see alike."""

    sight: Sight
    enough: Tensor  # (C,) how much of an entity of each class is visible where that is as much as usual (memory.amount)
    places: Mapping[Place, Guiding]

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def slots(self) -> set[int]:
        """Of which properties there are experts."""
        return {slot for slot, _ in self.places}

    def join(self, told: Beliefs, batch: Batch, visible: Tensor) -> Beliefs:
        """Beliefs, given what is visible (T,), with what experts say in them."""
        level = levels(batch, visible, self.enough)
        table = self.sight.table(batch, visible)
        kinds = {kind: self._joined(kind, one, batch, level, table) for kind, one in told.kinds.items()}
        return replace(told, kinds=kinds)

    def _joined(self, kind: str, asked: Asked, batch: Batch, level: Tensor, table: Tensor) -> Asked:
        entity, belief = batch.entity[asked.tokens], asked.belief
        heard = []
        for at, rows in by_place(batch.slot[asked.tokens], level[entity]):
            if at in self.places:
                whose, one = entity[rows], self.places[at]
                said, there = spoken(one.expert.tell(Seen(table[whose], batch.who[whose])), rows)
                heard.append((there, one, said))
        if heard and isinstance(belief, NumberBelief):
            return replace(asked, belief=_answering(belief, heard))
        if heard and kind == SET:
            return replace(asked, belief=blended(belief, [(rows, one.share, said) for rows, one, said in heard]))
        if heard and isinstance(belief, Recalling):
            return replace(asked, belief=_labelled(belief, heard, len(entity)))
        return asked


def spoken(said: Said, rows: Tensor) -> tuple[Said, Tensor]:
    """What is said, and the rows (m,) of which anything is."""
    if isinstance(said, Labels):
        return said, rows
    there = ~said.isnan()
    return said[there], rows[there]


Sayings: TypeAlias = list[tuple[Tensor, Guiding, Said]]  # of which rows, by whom, what


def _answering(belief: NumberBelief, heard: Sayings) -> NumberBelief:
    answer = belief.expected().clone()
    around = answer.new_zeros(len(answer), len(WIDTHS))
    for rows, one, said in heard:
        assert not isinstance(said, Labels)
        answer[rows] = belief.between(rows, answer[rows], said, one.share)
        around[rows] = one.around
    return centred(belief.answering(answer), around)


def _labelled(belief: Recalling, heard: Sayings, count: int) -> Belief:
    told = [(rows, one.share, said) for rows, one, said in heard if isinstance(said, Labels)]
    most = max(said.codes.shape[1] for _, _, said in told)
    codes = torch.zeros(count, most, dtype=torch.long, device=told[0][0].device)
    weights = torch.zeros(count, 1, most, dtype=torch.float64, device=codes.device)
    for rows, share, said in told:
        codes[rows, : said.codes.shape[1]] = said.codes
        weights[rows, 0, : said.codes.shape[1]] = share * said.mass
    return belief.recalled(codes, weights)


def blended(belief: Any, heard: Sequence[tuple[Tensor, Tensor, Said]]) -> Any:
    """Mixes beliefs about sets with those of experts, each given by its rows (m,), its weight () and its label masses."""
    rest = torch.ones(len(belief), dtype=torch.bool, device=heard[0][0].device)
    parts: list[tuple[Tensor, Any]] = []
    for rows, share, said in heard:
        assert isinstance(said, Labels)
        own = belief.pick(rows)
        parts.append((rows, BlendedSets(own, own.weighted(said.codes, said.mass), share.expand(len(rows)))))
        rest[rows] = False
    others = rest.nonzero()[:, 0]
    return mixed([*parts, *([(others, belief.pick(others))] if len(others) else [])])


class Guided:
    """A model, and experts that have a say: a model."""

    def __init__(self, model: Model, guide: Guide) -> None:
        self.model, self.guide = model, guide

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        return self.guide.join(self.model(batch, visible, asked, memo), batch, visible)
