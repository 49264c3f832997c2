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
    """How many characters each text still lacks before it may end."""

    lacking: Tensor  # (m,) 1 more before anything is said: the space that a text begins with is none of it
    lengths: Tensor  # (V,) characters of each token
    begins: Tensor  # (V,) which tokens begin with that space

    def bound(self, log_p: Tensor) -> Tensor:
        """(m, V) without the ends that come too early."""
        early = (self.lacking > 0)[:, None] & (torch.arange(log_p.shape[1], device=log_p.device) == EOS)
        return log_p.masked_fill(early, -torch.inf)

    def after(self, rows: Tensor, said: Tensor, first: bool) -> Shortest:
        """What the texts of some rows lack once this has been said."""
        gone = self.lengths[said] - (self.begins[said].long() if first else 0)
        return Shortest(self.lacking[rows] - gone, self.lengths, self.begins)


def greedy(log_p: Tensor) -> Tensor:
    """The likeliest token of each: (m, V) -> (m,)."""
    return log_p.argmax(1)


def drawing(temperature: float, generator: torch.Generator | None) -> Callable[[Tensor], Tensor]:
    """One token of each, drawn: (m, V) -> (m,)."""

    def draw(log_p: Tensor) -> Tensor:
        return torch.multinomial((log_p / temperature).softmax(1), 1, generator=generator)[:, 0]

    return draw


def say(
    texts: Beginnings,
    n: int,
    most: int,
    choose: Callable[[Tensor], Tensor],
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
        last = choose(shortest.bound(log_p) if shortest else log_p)
        codes[rows, place] = last
        log_prob[rows] += log_p.gather(1, last[:, None])[:, 0]
        entropy[rows] += torch.special.entr(log_p.exp()).sum(1)
        going = (last != EOS).nonzero()[:, 0]
        rows, last = rows[going], last[going]
        shortest = shortest and shortest.after(going, last, place == 0)
        texts = texts.pick(going)
    return Said(codes, log_prob, entropy)


def beam(
    texts: Beginnings, n: int, most: int, k: int, shortest: Shortest | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The k likeliest texts of each that the search comes by, best first: codes (n, k, L), log-probabilities (n, k).

    A text that has ended stays among the k for as long as no k others are likelier. Where there are fewer than k, the
    rest has -inf.
    """
    codes = torch.zeros(n, k, most, dtype=torch.long, device=device)
    score = torch.full((n, k), -torch.inf, device=device)
    score[:, 0] = 0
    ended = torch.zeros(n, k, dtype=torch.bool, device=device)
    live = torch.arange(n, device=device) * k  # (m,) which of the n * k go on
    last = torch.full_like(live, BOS)
    for place in range(most):
        if len(live) == 0:
            break
        log_p = texts.next(last)  # (m, V)
        best, token = (shortest.bound(log_p) if shortest else log_p).topk(min(k, log_p.shape[1]))  # (m, k)
        scores = torch.full((n * k, best.shape[1]), -torch.inf, device=device)
        scores[:, 0] = score.flatten().masked_fill(~ended.flatten(), -torch.inf)
        scores[live] = score.flatten()[live, None] + best
        tokens = torch.zeros_like(scores, dtype=torch.long).index_copy(0, live, token)

        score, chosen = scores.view(n, -1).topk(k)  # (n, k)
        parent = chosen // best.shape[1]  # (n, k) which beam each comes from
        said = tokens.view(n, -1).gather(1, chosen)
        codes = codes.gather(1, parent[:, :, None].expand(-1, -1, most))
        codes[:, :, place] = said
        ended = ended.gather(1, parent) | (said == EOS)

        going = (~ended & (score > -torch.inf)).flatten().nonzero()[:, 0]
        where = torch.zeros(n * k, dtype=torch.long, device=device)
        where[live] = torch.arange(len(live), device=device)
        origin = where[(parent + torch.arange(n, device=device)[:, None] * k).flatten()[going]]
        live, last = going, said.flatten()[going]
        shortest = shortest and shortest.after(origin, last, place == 0)
        texts = texts.pick(origin)
    return codes, score
