"""How texts are said token by token: the likeliest token each time, one that is drawn, or several texts at once.

A text ends with the end token, or where it has as many tokens as a text may have. Its log-probability is that of the
belief, whatever the way it was found: bounds and temperature change what is said, not how likely it is.

n texts   m of them not ended yet   k beams   V tokens there are   L tokens of a text at most
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from kbdisk.leaves.words import BOS, EOS


class Beginnings(Protocol):
    """Texts of which something has been said."""

    def next(self, last: Tensor) -> Tensor:
        """(m,) the last token of each -> (m, V) log-probabilities of the next; those before the end are never said."""

    def pick(self, rows: Tensor) -> Self:
        """Some of them, in any order, also several times."""


@dataclass(frozen=True)
class Said:
    """Texts as they were said."""

    codes: Tensor  # (n, L)
    log_prob: Tensor  # (n,)
    entropy: Tensor  # (n,) of the tokens' beliefs on the way, added up


@dataclass
class Shortest:
    """How many characters each text still lacks before it may end; bytes that make none may count as some."""

    lacking: Tensor  # (m,)
    lengths: Tensor  # (V,) characters of each token
    begins: Tensor  # (V,) which tokens begin with the space that is none of the text's where it comes first

    def bound(self, log_p: Tensor) -> Tensor:
        """(m, V) without the ends that come too early."""
        early = (self.lacking > 0)[:, None] & (torch.arange(log_p.shape[1], device=log_p.device) == EOS)
        return log_p.masked_fill(early, -torch.inf)

    def after(self, rows: Tensor, said: Tensor, first: bool) -> Shortest:
        """What the texts of some rows lack once this has been said."""
        gone = self.lengths[said] - (self.begins[said].long() if first else 0)
        return Shortest(self.lacking[rows] - gone, self.lengths, self.begins)


Choose = Callable[[Tensor, int, Tensor], Tensor]  # (m, V), the place in the text and which texts (m,) these are -> (m,)


def greedy(log_p: Tensor, place: int, texts: Tensor) -> Tensor:
    """The likeliest token of each: (m, V) -> (m,)."""
    return log_p.argmax(1)


def drawing(temperature: float, generator: torch.Generator | None) -> Choose:
    """One token of each, drawn: (m, V) -> (m,)."""

    def draw(log_p: Tensor, place: int, texts: Tensor) -> Tensor:
        level = torch.rand(len(log_p), 1, generator=generator, device=log_p.device)
        return _at(level, log_p / temperature)

    return draw


def at_levels(levels: Tensor) -> Choose:
    """The token at a level (n, L) of each text's distribution at each place: a draw that hangs on nothing beside it."""
    return lambda log_p, place, texts: _at(levels[texts, place, None], log_p)


def _at(level: Tensor, log_p: Tensor) -> Tensor:
    """The token (m,) at a level (m, 1), 0 to 1, of the cumulated probabilities."""
    below = log_p.softmax(1).cumsum(1)  # (m, V)
    return torch.searchsorted(below, level * below[:, -1:], right=True)[:, 0].clamp(max=log_p.shape[1] - 1)


def say(
    texts: Beginnings,
    n: int,
    most: int,
    choose: Choose,
    shortest: Shortest | None,
    device: torch.device,
) -> Said:
    """Each of n texts by one token after the other; those that have ended cost nothing any more."""
    codes = torch.zeros(n, most, dtype=torch.long, device=device)
    log_prob, entropy = torch.zeros(2, n, device=device)
    rows = torch.arange(n, device=device)
    last = torch.full_like(rows, BOS)
    for place in range(most):
        if len(rows) == 0:
            break
        log_p = texts.next(last)  # (m, V)
        last = choose(shortest.bound(log_p) if shortest else log_p, place, rows)
        codes[rows, place] = last
        log_prob[rows] += log_p.gather(1, last[:, None])[:, 0]
        entropy[rows] += torch.special.entr(log_p.exp()).sum(1)
        going = (last != EOS).nonzero()[:, 0]
        rows, last = rows[going], last[going]
        shortest = shortest and shortest.after(going, last, place == 0)
        texts = texts.pick(going)
    return Said(codes, log_prob, entropy)


class Beams:
    """The k likeliest beginnings of each of n texts. One that has ended stays while no k others are likelier."""

    def __init__(
        self, texts: Beginnings, n: int, most: int, k: int, shortest: Shortest | None, device: torch.device
    ) -> None:
        self.codes = torch.zeros(n, k, most, dtype=torch.long, device=device)
        self.score = torch.full((n, k), -torch.inf, device=device)  # best first
        self.score[:, 0] = 0
        self.ended = torch.zeros(n, k, dtype=torch.bool, device=device)
        self.live = torch.arange(n, device=device) * k  # (m,) which of the n * k go on
        self.last = torch.full_like(self.live, BOS)  # (m,)
        self.texts, self.shortest = texts, shortest

    def search(self, best: int) -> tuple[Tensor, Tensor]:
        """Go on until the best ones of each are certain: codes (n, k, L), log-probabilities (n, k)."""
        for place in range(self.codes.shape[2]):
            if len(self.live) == 0:
                break
            parent, said = self._extend()
            self.codes = self.codes.gather(1, parent[:, :, None].expand_as(self.codes))
            self.codes[:, :, place] = said
            self.ended = self.ended.gather(1, parent) | (said == EOS)
            going = ~self.ended & (self.score > -torch.inf) & ~self.ended[:, :best].all(1, keepdim=True)
            self._keep(going.flatten().nonzero()[:, 0], parent, said, place == 0)
        return self.codes, self.score

    def _extend(self) -> tuple[Tensor, Tensor]:
        """Each by one token: of the k that are now the likeliest, which it was made of (n, k), and the token (n, k)."""
        n, k = self.score.shape
        log_p = self.texts.next(self.last)  # (m, V)
        log_p, token = (self.shortest.bound(log_p) if self.shortest else log_p).topk(min(k, log_p.shape[1]))  # (m, c)
        score, c = self.score.flatten(), log_p.shape[1]
        scores = score.new_full((n * k, c), -torch.inf)
        scores[:, 0] = score.where(self.ended.flatten(), -torch.inf)
        scores[self.live] = score[self.live, None] + log_p
        tokens = torch.zeros_like(scores, dtype=torch.long).index_copy(0, self.live, token)
        self.score, chosen = scores.view(n, -1).topk(k)  # (n, k)
        return chosen // c, tokens.view(n, -1).gather(1, chosen)

    def _keep(self, going: Tensor, parent: Tensor, said: Tensor, first: bool) -> None:
        """Go on with these of the n * k."""
        n, k = parent.shape
        where = torch.zeros(n * k, dtype=torch.long, device=going.device)
        where[self.live] = torch.arange(len(self.live), device=going.device)
        origin = where[going - going % k + parent.flatten()[going]]
        self.live, self.last = going, said.flatten()[going]
        self.shortest = self.shortest and self.shortest.after(origin, self.last, first)
        self.texts = self.texts.pick(origin)
