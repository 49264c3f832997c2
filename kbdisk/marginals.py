"""What a value costs in nats when nothing is known of its entity: the log-probability that a constant belief gives it.

Numbers have the bins and the atoms of their codec, labels their counts, sets one Bernoulli per label, texts the nats
that their tokens cost on average. The counts are those of the codec, which serves all places of a list.

n rows of one slot   V labels   C codecs of one kind
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.leaves.number.codec import CodecTables, padded
from kbdisk.leaves.number.densities import Binned, Bins
from kbdisk.leaves.set import UNKNOWN_MEMBER, SetCodec

NEVER = -1e30


class Marginals:
    """The constant beliefs of all slots of a codec."""

    def __init__(self, codec: Codec) -> None:
        self.slots = codec.slots
        self._made: dict[int, Callable[[Tensor], Tensor]] = {}

    def nats(self, slot: int, codes: Tensor) -> Tensor:
        """(n,) -log p of some codes (n, ...) of one slot, on the CPU."""
        one = self.slots[slot]
        if one.kind == "text":
            return torch.full((len(codes),), one.entropy)
        key = id(one.codec)
        if key not in self._made:
            self._made[key] = MARGINALS[one.kind](one.codec)
        return -self._made[key](codes.cpu()).float()


def _numbers(codec: Any) -> Callable[[Tensor], Tensor]:
    """The log mass of a number's step, by the shares of the training values."""
    bins, tables = Bins([codec]), CodecTables([codec])
    rest = [max(1 - sum(codec.shares), 0) + 1 / (codec.count + 1), *codec.shares]
    shares = padded([rest]).log().clamp(min=NEVER).log_softmax(1).float()  # (1, 1 + A)

    def log_prob(codes: Tensor) -> Tensor:
        slot = torch.zeros(len(codes), dtype=torch.long)
        density = Binned(bins.prior[slot], bins.edges[slot], bins.inverse_width[slot], bins.tail[slot])
        return NumberBelief(density, shares[slot], slot, tables).log_prob(codes)

    return log_prob


def _labels(labels: Labels) -> Callable[[Tensor], Tensor]:
    """Each label's share of the training values, none of them 0, beside what is kept for labels never met."""
    counts = torch.tensor([*labels.counts], dtype=torch.float64) + 1 / max(len(labels), 1)  # (V,)
    unseen = min(max(labels.unseen, 1e-30), 1.0)
    known = (counts / counts.sum()).log() + math.log(max(1 - labels.unseen, 1e-30))
    table = torch.cat([known, torch.tensor([math.log(unseen)], dtype=torch.float64)])  # (V + 1,) the last for -1

    def log_prob(codes: Tensor) -> Tensor:
        return table[codes]

    return log_prob


def _sets(codec: SetCodec) -> Callable[[Tensor], Tensor]:
    """Each label is in or out by itself."""
    whole = sum(codec.sizes)
    share = (torch.tensor([*codec.labels.counts], dtype=torch.float64) + 0.5) / (whole + 1)  # (V,)
    share = share.clamp(max=(whole + 0.5) / (whole + 1))
    out, odds = torch.log1p(-share).sum(), torch.cat([share.logit(), torch.zeros(1, dtype=torch.float64)])
    met, unmet = math.log1p(-codec.unseen), math.log(max(codec.unseen, 1e-30))

    def log_prob(codes: Tensor) -> Tensor:
        strange = (codes == UNKNOWN_MEMBER).any(1)
        return out + odds[codes.clamp(min=-1)].sum(1) + torch.where(strange, unmet, met)

    return log_prob


MARGINALS: Mapping[str, Callable[[Any], Callable[[Tensor], Tensor]]] = {
    "number": _numbers,
    "category": lambda codec: _labels(codec.labels),
    "link": lambda codec: _labels(codec.targets),
    "set": _sets,
}
