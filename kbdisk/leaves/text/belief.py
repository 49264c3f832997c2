"""A belief about texts: how likely each is, what it would be, how unsure.

n rows   k beams   L tokens of a text at most   D width
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from kbdisk.leaves.text.config import TextConfig
from kbdisk.leaves.text.decoding import Beams, Beginnings, Choose, Said, Shortest, at_levels, drawing, greedy, say
from kbdisk.leaves.text.following import Others
from kbdisk.leaves.text.writer import Writer
from kbdisk.leaves.words import PAD, Words

TOGETHER = 2048  # texts that are written at once


@dataclass(frozen=True)
class TextBelief:
    """A distribution over the text of each of n rows, by the token: what cannot be foreseen is one of many spellings.

    Probabilities are of token ids as the codec spells texts. The same text in other tokens counts apart, except in
    `beam`; a text that was cut counts as all that begin so.
    """

    writer: Writer
    h: Tensor  # (n, D)
    config: TextConfig
    words: Words
    least: Tensor | None = None  # (n,) characters that what is written has at least; what is scored may have fewer
    others: Others | None = None  # whose texts may be followed
    kernels: ClassVar[int] = 1

    def log_prob(self, codes: Tensor) -> Tensor:
        """(n, L) -> (n,)"""
        return self._by_token(codes).sum(1)

    def _by_token(self, codes: Tensor) -> Tensor:
        own = self.writer.by_token(self.h, codes)
        return own if self.others is None else self.others.told(codes, own)

    def steps(self, codes: Tensor) -> Tensor:
        """(s,) log p of each token of some texts (n, L), after those before it."""
        return self._by_token(codes)[codes != PAD]

    def steps_interpolated(self, codes: Tensor, own: Tensor, others: Tensor, weights: Tensor) -> Tensor:
        """(s,) the same if it was `own` (s,) until so much (n, 1, K) of the mass went to others' texts (n, K, L)."""
        there = codes != PAD
        by_token = own.new_zeros(codes.shape).index_put((there,), own)
        return Others(others, weights[:, 0]).told(codes, by_token)[there]

    def interpolated(self, codes: Tensor, weights: Tensor, said: Tensor | None = None) -> TextBelief:
        """Itself where others' texts may be followed: codes (n, K, L), each with so much (n, 1, K) of the mass."""
        return replace(self, others=Others(codes, weights[:, 0].float()))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        """(n, L), a draw each; the temperature is that of each token."""
        return self.draw(temperature, generator).codes

    def draw(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Said:
        """A draw each, with its log-probability."""
        return self._say(drawing(temperature * self.config.temperature, generator))

    def several(self, count: int) -> list[list[str]]:
        """For each row some draws of its text, at most `TOGETHER`: the same each time, whatever other rows there are."""
        generator = torch.Generator(self.h.device).manual_seed(0)
        levels = torch.rand(count, self.config.most, generator=generator, device=self.h.device)
        texts: list[list[str]] = []
        for part in self._chunks(max(TOGETHER // count, 1)):
            rows = torch.arange(len(part.h), device=self.h.device).repeat_interleave(count)
            drawn = self.words.decode(part.pick(rows)._say(at_levels(levels.repeat(len(part.h), 1))).codes)
            texts += (drawn[start : start + count] for start in range(0, len(drawn), count))
        return texts

    def greedy(self) -> Said:
        """The text of the likeliest token each time, with its log-probability."""
        return self._say(greedy)

    def mode(self) -> Tensor:
        """(n, L), the likeliest text of each that was found."""
        if self.config.decoding == "greedy":
            return self.greedy().codes
        return self.beams(self.config.beams, best=1)[0][:, 0]

    def entropy(self) -> Tensor:
        """(n,) an estimate, unbiased: the entropies of the tokens' beliefs along some draws, the same each time."""
        generator = torch.Generator(self.h.device).manual_seed(0)
        rows = torch.arange(len(self.h), device=self.h.device).repeat(self.config.draws)
        return (
            replace(self, least=None)
            .pick(rows)
            ._say(drawing(1.0, generator))
            .entropy.view(self.config.draws, -1)
            .mean(0)
        )

    def pick(self, rows: Tensor) -> TextBelief:
        """The beliefs about some of the rows."""
        least, others = self.least, self.others
        return replace(
            self,
            h=self.h[rows],
            least=None if least is None else least[rows],
            others=None if others is None else others.pick(rows),
        )

    def beam(self, k: int) -> list[list[tuple[str, float]]]:
        """For each row the likeliest texts, at most k, with their log-probabilities; spellings of one text are added."""
        codes, log_prob = self.beams(k)
        texts = iter(self.words.decode(codes.flatten(0, 1)))
        found = []
        for row in log_prob.tolist():
            own: dict[str, float] = {}
            for new in row:
                text = next(texts)
                if new > -math.inf:
                    own[text] = _sum(own[text], new) if text in own else new
            found.append(sorted(own.items(), key=lambda pair: -pair[1]))
        return found

    @torch.no_grad()
    def beams(self, k: int, best: int | None = None) -> tuple[Tensor, Tensor]:
        """The k likeliest token rows found, best first: (n, k, L), and their log-probabilities (n, k).

        Where only the `best` ones are wanted the others may not have ended yet. Where there are fewer, the rest has -inf.
        """
        parts = [
            Beams(part._begun(), len(part.h), self.config.most, k, part._shortest(), part.h.device).search(best or k)
            for part in self._chunks(max(TOGETHER // k, 1))
        ]
        codes, log_prob = zip(*parts, strict=True)
        return torch.cat(codes), torch.cat(log_prob)

    @torch.no_grad()
    def _say(self, choose: Choose) -> Said:
        parts = [
            say(part._begun(), len(part.h), self.config.most, choose, part._shortest(), part.h.device)
            for part in self._chunks(TOGETHER)
        ]
        return Said(
            *(torch.cat(each) for each in zip(*((one.codes, one.log_prob, one.entropy) for one in parts), strict=True))
        )

    def _chunks(self, rows: int) -> Iterator[TextBelief]:
        """What is written at once."""
        if len(self.h) <= rows:
            return iter([self])
        return map(self.pick, torch.arange(len(self.h), device=self.h.device).split(rows))

    def _begun(self) -> Beginnings:
        """Texts of which nothing has been said."""
        texts = self.writer.begin(self.h)
        return texts if self.others is None else self.others.begun(texts)

    def _shortest(self) -> Shortest | None:
        if self.least is None:
            return None
        return Shortest(self.least, *(each.to(self.h.device) for each in (self.words.lengths, self.words.begins)))


def _sum(one: float, other: float) -> float:
    """The logarithm of two probabilities' sum, of their logarithms."""
    low, high = sorted((one, other))
    return high + math.log1p(math.exp(low - high))
