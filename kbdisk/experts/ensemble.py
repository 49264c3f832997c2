"""An ensemble: networks that were trained alike from different initial weights, with the mean of their beliefs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.leaves.belief import SupportsAveraging
from kbdisk.model.beliefs import Asked, Beliefs, Memo
from kbdisk.model.diffusion import Model


class Ensemble:
    """The mean of several models; beliefs about sets, texts and links with many targets are those of the first."""

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = members

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        memos = [None if memo is None else memo.setdefault(f"member {n}", {}) for n in range(len(self.members))]
        return mean_of([model(batch, visible, asked, own) for model, own in zip(self.members, memos, strict=True)])


def mean_of(members: Sequence[Beliefs]) -> Beliefs:
    """The mean of several models' beliefs about the same tokens."""
    first, *others = members
    kinds = {kind: _mean(asked, [beliefs.kinds[kind] for beliefs in others]) for kind, asked in first.kinds.items()}
    presence = first.presence
    if presence is not None:
        logits = torch.stack([beliefs.presence["logits"] for beliefs in members if beliefs.presence is not None])
        presence = {**presence, "logits": logits.sigmoid().mean(0).logit()}
    return replace(first, kinds=kinds, presence=presence)


def _mean(asked: Asked, others: Sequence[Asked]) -> Asked:
    if not isinstance(asked.belief, SupportsAveraging):
        return asked
    return replace(asked, belief=asked.belief.averaged([other.belief for other in others]))
