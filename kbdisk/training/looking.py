"""A look at the held-out part: what it costs, and how wrong each property is told. The same questions at each look."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import Tokens, batches, by_chance
from kbdisk.metrics import Constants, Marginals, collect_cases, score_rows
from kbdisk.model.diffusion import Model, beliefs, score
from kbdisk.model.masking import Hidden, Hiding, hide, in_turn

MOST = 2000  # held-out entities in a look
READ = 1 << 17  # tokens in a look at drawing, each counted as often as it is read
FEW = 200  # of which answers are measured: finding them takes longer than finding what they cost


@dataclass(frozen=True)
class Look:
    """What the held-out part costs."""

    step: int
    nats: float  # per entity: the bound, or where entities are drawn in order what drawing them costs, but for texts
    by_slot: dict[int, tuple[float, int]]  # slot -> mean -log p where hidden, and how often it was

    def cost(self, constant: Mapping[int, float]) -> float:
        """A value's nats on average, where no property counts as worse than its constant belief: what is to get less.

        What cannot be told from the rest gets worse the longer the rest is learnt; it must not end that.
        """
        count = sum(often for _, often in self.by_slot.values())
        return sum(
            min(nats, constant.get(slot, math.inf)) * often for slot, (nats, often) in self.by_slot.items()
        ) / max(count, 1)


@torch.no_grad()
def look(model: Model, tokens: Tokens, hiding: Hiding, slots: int, seed: int, step: int) -> Look:
    """Score the held-out entities, hidden as those of training are, or as in drawing them; always in the same way."""
    total, sums, counts = 0.0, torch.zeros(slots), torch.zeros(slots)
    seen = 0
    for batch, several in _questions(tokens, hiding, seed):
        seen += batch.size
        for hidden in several:
            one = score(model, batch, hidden, presence=0.0)
            total += float(one.nats) * batch.size
            for whole, part in zip((sums, counts), one.by_slot(batch, slots), strict=True):
                whole += part.float().cpu()
    found = counts.nonzero()[:, 0].tolist()
    by_slot = {slot: (float(sums[slot] / counts[slot]), int(counts[slot])) for slot in found}
    return Look(step, total / max(seen, 1), by_slot)


def constant_nats(codec: Codec, tokens: Tokens, hiding: Hiding, seed: int) -> dict[int, float]:
    """slot -> mean -log p by the constant belief, of what a look asks for."""
    marginals, nats = Marginals(codec), defaultdict[int, list[Tensor]](list)
    for batch, several in _questions(tokens, hiding, seed):
        for hidden in several:
            for kind, (start, end) in batch.spans.items():
                asked, slots = hidden.asked[start:end], batch.slot[start:end]
                for slot in slots[asked].unique().tolist():
                    nats[slot].append(marginals.nats(slot, batch.values[kind][asked & (slots == slot)]))
    return {slot: float(torch.cat(several).mean()) for slot, several in nats.items()}


def _questions(tokens: Tokens, hiding: Hiding, seed: int) -> Iterator[tuple[Batch, Iterable[Hidden]]]:
    """What is hidden of the held-out entities, or of some from all over them: the same at each look."""
    generator, order = torch.Generator(tokens.slot.device).manual_seed(seed), tokens.layout.order
    asked = by_chance(len(tokens), MOST, seed)
    passes = max(READ * len(tokens) // max(len(asked) * len(tokens.slot), 1), 1)
    for _, batch in batches(tokens, places=asked):
        if hiding.is_in_order:
            yield batch, in_turn(batch, drawn(batch), order, passes, generator)
        else:
            yield batch, [hide(batch, hiding, generator, order)]


def drawn(batch: Batch) -> Tensor:
    """(T,) what is drawn of entities: no texts, which come last and only where they are wanted, unless there is nothing else."""
    free = batch.known & ~batch.fixed
    others = batch.without("text", free)
    return others if others.any() else free


@torch.no_grad()
def measured(
    model: Model, codec: Codec, constants: Constants, tokens: Tokens, hiding: Hiding, seed: int
) -> list[dict[str, Any]]:
    """Rows as `metrics` has them: how wrong answers are where some of the other properties are hidden, too; no texts."""
    generator = torch.Generator(tokens.slot.device).manual_seed(seed)
    batch = tokens.batch(by_chance(len(tokens), FEW, seed))
    hidden = hide(batch, Hiding(ordered=hiding.ordered), generator, tokens.layout.order)
    asked = batch.without("text", hidden.asked)
    found = collect_cases(codec, Marginals(codec), batch, beliefs(model, batch, asked, hidden.visible))
    return score_rows(codec, constants, found)
