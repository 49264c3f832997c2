"""What functions are learnt of: known values, each with what is visible beside it, as columns.

n known values of one slot   F columns   P knots   t numbers that are told: 1, or one for each label
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.estimates import decoded
from kbdisk.experts.config import GaussianProcessConfig
from kbdisk.experts.features import BLOCKS, SIGN, Features, fullest, named
from kbdisk.experts.latent_knn import ENOUGH, by_place
from kbdisk.experts.queries import asked, some, usual

NUMBER = "number"
KINDS = {NUMBER, "category"}  # that functions tell
TWICE = 2  # an entity may be asked for: alone, and with the rest of a composite


@dataclass
class Known:
    """Known values of one slot, each as often as it was hidden."""

    columns: list[Tensor] = field(default_factory=list)  # (n, F) of what is visible beside each
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    whose: list[Tensor] = field(default_factory=list)  # (n,)
    count: int = 0

    def take(self, columns: Tensor, codes: Tensor, whose: Tensor) -> None:
        """Some more."""
        self.columns.append(columns)
        self.codes.append(codes)
        self.whose.append(whose)
        self.count += len(whose)

    def once(self) -> tuple[Tensor, Tensor, Tensor]:
        """(n, F), (n, ...) and (n,): of each entity what was hidden first, which is the value alone."""
        columns, codes, whose = (torch.cat(one) for one in (self.columns, self.codes, self.whose))
        every, place = whose.unique(return_inverse=True)
        order = torch.arange(len(whose), device=whose.device)
        first = torch.full_like(every, len(whose)).scatter_reduce_(0, place, order, "amin").sort().values
        return columns[first], codes[first], whose[first]


@dataclass(frozen=True)
class Values:
    """Known values of one slot, as a function goes by them."""

    columns: Tensor  # (n, F) NaN where hidden
    whose: Tensor  # (n,)
    y: Tensor  # (n, t) float64

    def first(self, most: int) -> Values:
        """So many of them at most."""
        return Values(*(getattr(self, one.name)[:most] for one in fields(Values)))

    def and_others(self, others: Values, most: int) -> Values:
        """Both, these first; so many at most."""
        both = ([getattr(each, one.name) for each in (self, others)] for one in fields(Values))
        return Values(*map(torch.cat, both)).first(most)


class Teacher:
    """What functions are learnt of, and with."""

    def __init__(self, codec: Codec, tokens: Tokens, config: GaussianProcessConfig, generator: Generator) -> None:
        self.codec, self.config, self.generator = codec, config, generator
        self.features = Features.of(codec, fullest(codec, config.properties)).to(tokens.slot.device)
        self.enough = usual(tokens)

    def known(self, tokens: Tokens, seconds: float | None = None) -> Mapping[int, Known]:
        """Values that functions can tell, by their slots, each hidden alone where enough is visible then; as time permits."""
        chosen = some(tokens, self.config.values, self.generator)
        chosen = chosen[torch.randperm(len(chosen), generator=self.generator, device=chosen.device)]
        found: dict[int, Known] = defaultdict(Known)
        begun = time.monotonic()
        for batch, hidden, level in asked(tokens, chosen, self.enough, 0, self.generator):
            table = self.features.table(batch, hidden.visible)
            for kind in batch.spans.keys() & KINDS:
                start, end = batch.spans[kind]
                own = named(batch, kind, hidden.asked[start:end])
                entity, codes = batch.entity[start + own], batch.values[kind][own]
                for (slot, at), rows in by_place(batch.slot[start + own], level[entity]):
                    if at == ENOUGH and found[slot].count < TWICE * self.config.points:
                        found[slot].take(table[entity[rows]], codes[rows], batch.who[entity[rows]])
            if seconds is not None and time.monotonic() - begun > seconds:
                break
        return found

    def labels(self, slot: int, known: Known) -> Tensor:
        """(t,) the labels that there are; none of numbers."""
        codes = torch.cat(known.codes)
        return codes.unique() if self.codec.slots[slot].kind != NUMBER else codes.new_zeros(0, dtype=torch.long)

    def values(self, slot: int, known: Known, labels: Tensor) -> Values:
        """What a function goes by, of these labels if of any."""
        columns, codes, whose = known.once()
        if len(labels):
            there = torch.isin(codes, labels)
            y = F.one_hot(torch.searchsorted(labels, codes[there]), len(labels)).double()
            return Values(columns[there], whose[there], y)
        told = decoded(self.codec, torch.full((len(codes),), slot, device=codes.device), codes)
        y = torch.tensor(list(map(float, told)), dtype=torch.float64, device=codes.device)[:, None]
        return Values(columns, whose, y)

    def knots(self, slot: int) -> list[Tensor]:
        """(2, P) numbers and their codes, where these are not all on one line."""
        x, z, _ = self.codec.slots[slot].codec.map.knots
        knots = torch.tensor([list(x), list(z)], dtype=torch.float64)
        rising = (knots.diff(dim=1) > 0).all(0)
        knots = torch.cat([knots[:, :1], knots[:, 1:][:, rising]], 1)
        return [knots.to(self.enough.device)] if knots.shape[1] > 2 else []

    def block(self, slot: int, values: Values) -> Tensor:
        """(F,) which block each column is of; -1: of none, as it is always hidden, or only says which number is the same."""
        of = self.codec.together(slot)
        found = self.features.block(self.codec, slot)
        for number, one in enumerate(self.codec.slots):
            start = int(self.features.start[number])
            if self.codec.together(number) == of and one.kind == NUMBER and start >= 0:
                begin = start + sum(BLOCKS[NUMBER]) - SIGN
                found[begin : begin + SIGN] = -1
        return torch.where((~values.columns.isnan()).any(0), found.to(values.columns.device), -1)
