"""Texts that follow others: as long as what has been said is how another's text begins, this one may go on as that does.

So a name that nobody has is told by its parts: a brand and a series as its neighbours have them, then a number of its own.

n rows   K texts of others   L tokens of a text   m texts not ended yet   V tokens there are
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from kbdisk.leaves.text.decoding import Beginnings
from kbdisk.leaves.words import PAD


@dataclass(frozen=True)
class Others:
    """What others have, and how much of the mass of each token each of them has as long as it is followed."""

    codes: Tensor  # (n, K, L)
    weights: Tensor  # (n, K)

    def pick(self, rows: Tensor) -> Others:
        """Those of some of the rows."""
        return Others(self.codes[rows], self.weights[rows])

    def told(self, codes: Tensor, own: Tensor) -> Tensor:
        """(n, L) tokens, and their log-probabilities where nobody is followed -> these where the others are."""
        width = max(codes.shape[1], self.codes.shape[2])
        text = F.pad(codes, (0, width - codes.shape[1]), value=PAD)[:, None]
        same = F.pad(self.codes, (0, width - self.codes.shape[2]), value=PAD) == text  # (n, K, L)
        followed = F.pad(same[:, :, :-1], (1, 0), value=True).cumprod(2).to(self.weights.dtype)
        left = 1 - torch.einsum("nk,nkl->nl", self.weights, followed).clamp(max=1)
        agree = torch.einsum("nk,nkl->nl", self.weights, followed * same)
        told = torch.logaddexp(own + left[:, : own.shape[1]].log(), agree[:, : own.shape[1]].log())
        return told.where(codes != PAD, own).to(own.dtype)

    def begun(self, texts: Beginnings) -> Following:
        """Texts that are to follow them, of which nothing has been said."""
        return Following(texts, self, torch.arange(len(self.codes), device=self.codes.device), self.weights)


@dataclass
class Following:
    """The beginnings of some texts that may follow others'."""

    texts: Beginnings
    others: Others
    rows: Tensor  # (m,) whose each text is
    weights: Tensor  # (m, K) of those that are followed so far; 0 of the others
    place: int = 0  # how many tokens have been said

    def next(self, last: Tensor) -> Tensor:
        """(m,) the last token of each -> (m, V) log-probabilities of the next."""
        log_p = self.texts.next(last)
        codes, place = self.others.codes, self.place
        self.place += 1
        if place >= codes.shape[2]:  # all others have ended
            return log_p
        if place:
            self.weights = self.weights * (codes[self.rows, :, place - 1] == last[:, None])
        left = (1 - self.weights.sum(1, keepdim=True)).clamp(min=0)
        return (log_p.exp() * left).scatter_add(1, codes[self.rows, :, place], self.weights).log()

    def pick(self, rows: Tensor) -> Following:
        """Some of them, in any order, also several times."""
        return replace(self, texts=self.texts.pick(rows), rows=self.rows[rows], weights=self.weights[rows])
