"""Several models that were taught the same from different beginnings, asked as one: each errs in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kbdisk.data.batch import Batch
from kbdisk.diffusion import Model
from kbdisk.leaves.base import Averaging
from kbdisk.network.beliefs import Asked, Beliefs, Memo


class Council:
    """Models whose beliefs are averaged; sets, texts and links to one of many are told by the first alone."""

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = members

    def __call__(self, batch: Batch, visible: Tensor, asked: Tensor, memo: Memo | None = None) -> Beliefs:
        """Beliefs about the asked tokens (T,), given the visible ones (T,) alone."""
        memos = [None if memo is None else memo.setdefault(f"member {n}", {}) for n in range(len(self.members))]
        return averaged([one(batch, visible, asked, own) for one, own in zip(self.members, memos, strict=True)])


def averaged(several: Sequence[Beliefs]) -> Beliefs:
    """What several believe of the same tokens, as one."""
    first, *others = several
    kinds = {kind: _averaged(one, [other.kinds[kind] for other in others]) for kind, one in first.kinds.items()}
    presence = first.presence
    if presence is not None:
        logits = torch.stack([one.presence["logits"] for one in several if one.presence is not None])
        presence = {**presence, "logits": logits.sigmoid().mean(0).logit()}
    return replace(first, kinds=kinds, presence=presence)


def _averaged(asked: Asked, others: Sequence[Asked]) -> Asked:
    if not isinstance(asked.belief, Averaging):
        return asked
    return replace(asked, belief=asked.belief.averaged([one.belief for one in others]))
