"""A look at the held-out part: what it costs, and how wrong each property is told. The same questions at each look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kbdisk.codec import Codec
from kbdisk.diffusion import Model, beliefs, score
from kbdisk.hiding import Hiding, hide
from kbdisk.marginals import Marginals
from kbdisk.scoring import Constants, cases, score_rows
from kbdisk.tokens import Tokens
from kbdisk.training.trained import batches

MOST = 2000  # held-out entities in a look
FEW = 200  # of which answers are measured: finding them takes longer than finding what they cost


@dataclass(frozen=True)
class Look:
    """What the held-out part costs."""

    step: int
    nats: float  # per entity, the bound
    by_slot: dict[int, tuple[float, int]]  # slot -> mean -log p where hidden, and how often it was


@torch.no_grad()
def look(model: Model, tokens: Tokens, slots: int, seed: int, step: int) -> Look:
    """Score the held-out entities, hidden as the bound wants, always in the same way."""
    device = tokens.slot.device
    generator = torch.Generator(device).manual_seed(seed)
    total, sums, counts = 0.0, torch.zeros(slots), torch.zeros(slots)
    seen = 0
    for numbers, batch in batches(tokens):
        if seen >= MOST:
            break
        one = score(model, batch, hide(batch, Hiding(), generator), presence=0.0)
        total += float(one.nats) * len(numbers)
        seen += len(numbers)
        for whole, part in zip((sums, counts), one.by_slot(batch, slots), strict=True):
            whole += part.float().cpu()
    found = counts.nonzero()[:, 0].tolist()
    by_slot = {slot: (float(sums[slot] / counts[slot]), int(counts[slot])) for slot in found}
    return Look(step, total / max(seen, 1), by_slot)


@torch.no_grad()
def measured(model: Model, codec: Codec, constants: Constants, tokens: Tokens, seed: int) -> list[dict[str, Any]]:
    """Rows as `scoring` has them: how wrong answers are where some of the other properties are hidden, too; no texts."""
    generator = torch.Generator(tokens.slot.device).manual_seed(seed)
    batch = tokens.batch(torch.arange(min(len(tokens), FEW)))
    hidden = hide(batch, Hiding(), generator)
    asked = hidden.asked.clone()
    start, end = batch.spans.get("text", (0, 0))
    asked[start:end] = False
    found = cases(codec, Marginals(codec), batch, beliefs(model, batch, asked, hidden.visible))
    return score_rows(codec, constants, found)
