"""Beliefs over sets: one Bernoulli per label, with their number or without.

n rows   V labels   M members, at most   C counts
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.leaves.category import unsure
from kbdisk.leaves.subsets import Subsets, draw, expected, included, subsets, total

PADDING, UNMET = -1, -2
LEAST_SHARE = 1e-6  # of the mass, that what is told of least has
MOST_CERTAIN = 0.999  # that a label with all of an expert's mass is a member
LONGER = 8  # members beyond the largest number with a probability of its own that are ever drawn


@dataclass(frozen=True)
class CountedSets:
    """How many members there are, and which ones given how many: in proportion to the product of their odds.

    Numbers up to `top` have their own probabilities; what is left for more halves with each further member.
    """

    logits: Tensor  # (n, V) log odds, -inf where a row's slot has fewer labels
    counts: Tensor  # (n, C) log probabilities of 0, 1, ... top members and, where more may be, of more
    top: Tensor  # (n,)
    most: Tensor  # (n,) members that are allowed
    unmet: Tensor  # (n,) how likely there are members never met

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def longest(self) -> int:
        """The largest number of members that is drawn."""
        return int(torch.minimum(self.top + LONGER, torch.minimum(self.most, self._size)).max()) if len(self.top) else 0

    @property
    def _size(self) -> Tensor:
        return (self.logits > -torch.inf).sum(1)  # (n,)

    @cached_property
    def _sums(self) -> Subsets:
        return subsets(self.logits, self.longest)

    def numbers(self, most: int) -> Tensor:
        """(n, most + 1) log probabilities of 0, 1, ... members"""
        size, top = self._size[:, None], self.top[:, None]
        k = torch.arange(most + 1, device=self.counts.device)
        own = F.pad(self.counts, (0, 1), value=-torch.inf)
        own = own.gather(1, k.clamp(max=own.shape[1] - 1).expand(len(own), -1))  # (n, most + 1)
        more = F.pad(self.counts, (0, 2), value=-torch.inf).gather(1, top + 1)  # (n, 1)
        room = (size - top).clamp(min=1).double()
        tail = (more - (k - top) * math.log(2) - torch.log1p(-(0.5**room))).to(own.dtype)
        return torch.where(k <= top, own, tail.masked_fill(k > size, -torch.inf))

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        named = codes >= 0  # (n, M)
        odds = F.pad(self.logits, (0, 1)).gather(1, codes.where(named, self.logits.shape[1]))  # (n, M), 0 for none
        number = named.sum(1, keepdim=True)  # (n, 1)
        most = int(number.max()) if len(codes) else 0
        which = odds.sum(1) - total(self.logits, number[:, 0])
        return self.numbers(most).gather(1, number)[:, 0] + which + _unmet(self.unmet, codes)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n, M)"""
        numbers, sums = self.numbers(self.longest), self._sums
        if temperature != 1:  # that of whole sets
            sums = subsets(self.logits / temperature, self.longest)
            numbers = (numbers - self._sums.total) / temperature + sums.total
        if len(numbers) == 0:
            return self.mode()
        number = torch.multinomial(numbers.softmax(1), 1, generator=generator)[:, 0]
        return codes_of(draw(sums, number, generator))

    def mode(self) -> Tensor:
        """(n, M)"""
        best, order = self.logits.sort(dim=1, descending=True)
        longest = self.longest
        most = F.pad(best[:, :longest].cumsum(1), (1, 0))  # (n, longest + 1), the likeliest set of each number
        number = (self.numbers(longest) + most - self._sums.total).argmax(1)
        rank = torch.arange(best.shape[1], device=best.device)
        chosen = torch.zeros_like(best, dtype=torch.bool).scatter(1, order, rank < number[:, None])
        return codes_of(chosen)

    def entropy(self) -> Tensor:
        """(n,) over the sets that are drawn"""
        numbers = self.numbers(self.longest).log_softmax(1)
        chance = numbers.exp()
        within = self._sums.total - expected(self.logits, self._sums)
        whole = unsure(chance) + torch.where(chance > 0, chance * within, 0)
        return whole.sum(1) + _unsure(self.unmet)

    @property
    def probs(self) -> Tensor:
        """(n, V) how likely each label is in the set"""
        return included(self.logits, self._sums, self.numbers(self.longest).log_softmax(1))

    def member_logs(self, codes: Tensor) -> Tensor:
        """(n, M) how likely each member is, if there is one alone; NaN for what is no label."""
        return _member_logs(self.logits.log_softmax(1), codes)

    def blended(self, codes: Tensor, mass: Tensor, weight: Tensor) -> CountedSets:
        """The same numbers of members, with the odds of labels mixed with masses (n, K) of so much weight (n,)."""
        own, other = self.logits.softmax(1), _shared(self.logits, codes, mass)
        return replace(self, logits=torch.lerp(own, other, weight[:, None].to(own.dtype)).log())

    def pick(self, rows: Tensor) -> CountedSets:
        """Those of some rows."""
        return CountedSets(self.logits[rows], self.counts[rows], self.top[rows], self.most[rows], self.unmet[rows])


@dataclass(frozen=True)
class FreeSets:
    """Whether each label is in the set, by itself."""

    logits: Tensor  # (n, V) log odds, -inf where a row's slot has fewer labels
    least: Tensor  # (n,) members of the likeliest set
    most: Tensor  # (n,) members that are drawn
    unmet: Tensor  # (n,) how likely there are members never met

    def __len__(self) -> int:
        return len(self.logits)

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n,)"""
        named = codes >= 0
        odds = F.pad(self.logits, (0, 1)).gather(1, codes.where(named, self.logits.shape[1]))  # (n, M), 0 for none
        return odds.sum(1) - F.softplus(self.logits).sum(1) + _unmet(self.unmet, codes)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n, M)"""
        probs = (self.logits / temperature).sigmoid()
        drawn = torch.rand(probs.shape, generator=generator, device=probs.device, dtype=probs.dtype) < probs
        return codes_of(self._allowed(drawn))

    def mode(self) -> Tensor:
        """(n, M)"""
        return codes_of(self._allowed((self.logits > 0) | (_ranks(self.logits) < self.least[:, None])))

    def _allowed(self, chosen: Tensor) -> Tensor:
        """The likeliest of those chosen, as many as may be."""
        if not bool((chosen.sum(1) > self.most).any()):
            return chosen
        return chosen & (_ranks(self.logits.masked_fill(~chosen, -torch.inf)) < self.most[:, None])

    def entropy(self) -> Tensor:
        """(n,)"""
        probs = self.probs
        return _unsure(probs).sum(1) + _unsure(self.unmet)

    @property
    def probs(self) -> Tensor:
        """(n, V)"""
        return self.logits.sigmoid()

    def member_logs(self, codes: Tensor) -> Tensor:
        """(n, M) how likely each member is, if there is one alone; NaN for what is no label."""
        return _member_logs(F.logsigmoid(self.logits).log_softmax(1), codes)

    def blended(self, codes: Tensor, mass: Tensor, weight: Tensor) -> FreeSets:
        """As many members on average, with labels' probabilities mixed with masses (n, K) of so much weight (n,)."""
        own = self.probs
        other = _shared(F.logsigmoid(self.logits), codes, mass) * own.sum(1, keepdim=True)
        both = torch.lerp(own, other.clamp(max=MOST_CERTAIN), weight[:, None].to(own.dtype))
        return replace(self, logits=both.logit())

    def pick(self, rows: Tensor) -> FreeSets:
        """Those of some rows."""
        return FreeSets(self.logits[rows], self.least[rows], self.most[rows], self.unmet[rows])


def _shared(logits: Tensor, codes: Tensor, mass: Tensor) -> Tensor:
    """(n, V) the masses (n, K) of labels; the other labels of each row share the rest of 1 in proportion to their odds."""
    left = (1 - mass.sum(1, keepdim=True)).clamp(min=LEAST_SHARE).to(logits.dtype)
    odds = logits.scatter(1, codes, -torch.inf)
    others = odds.softmax(1).nan_to_num()  # a row may have no other label
    whole = (left * others).scatter_add(1, codes, mass.clamp(min=LEAST_SHARE).to(logits.dtype))
    return whole.masked_fill(logits == -torch.inf, 0)


def _ranks(logits: Tensor) -> Tensor:
    """(n, V) the place of each label, 0 the likeliest."""
    return logits.argsort(1, descending=True).argsort(1)


def _member_logs(logs: Tensor, codes: Tensor) -> Tensor:
    """(n, V), (n, M) -> (n, M)"""
    return logs.gather(1, codes.clamp(min=0)).masked_fill(codes < 0, torch.nan)


def codes_of(chosen: Tensor) -> Tensor:
    """(n, V) whether each label is a member -> (n, M) the members, filled up"""
    counts = chosen.sum(1)
    row, label = chosen.nonzero().unbind(1)
    codes = label.new_full((len(chosen), max(int(counts.max()) if len(counts) else 0, 1)), PADDING)
    codes[row, torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]] = label
    return codes


def _unmet(chance: Tensor, codes: Tensor) -> Tensor:
    """(n,) of whether there are members never met; where none may be (0), there are none."""
    return torch.where((codes == UNMET).any(1), chance.clamp(min=1e-30).log(), torch.log1p(-chance))


def _unsure(chance: Tensor) -> Tensor:
    return unsure(chance) + unsure(1 - chance)
