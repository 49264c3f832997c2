"""How forests grow: CatBoost learns each property from all others, and held-out values tell what its trees are worth.

Every value is hidden alone once, and every composite as a whole; so trees are asked, and judged, where as much is
visible as is usual. They learn from those of whom less is known, too.

n values of one slot   F columns   K labels
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.codec import Codec
from kbdisk.diffusion import Model
from kbdisk.estimates import decoded
from kbdisk.forest.columns import KINDS, NUMBER, Columns
from kbdisk.forest.config import ForestConfig, by_size, unattended
from kbdisk.forest.grown import Grown
from kbdisk.forest.screening import best_columns
from kbdisk.forest.trees import Trees
from kbdisk.forest.units import Units
from kbdisk.guides import Guide, Guiding, judged
from kbdisk.guides.guide import SET
from kbdisk.memory.learning import asked, some, usual
from kbdisk.memory.memory import ENOUGH, Place, by_place
from kbdisk.tokens import Tokens

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

FEW = 20  # known values of a slot: of fewer there are no trees
PROBED = 10  # trees whose time tells how many there is time for
FEWEST = 40  # trees, however little time there is
SPEED, FASTEST = 0.6, 0.15  # how much the learning rate grows as trees get fewer, and how far

Told = Callable[[int, int], None]  # how many properties have their trees, of how many


@dataclass
class Known:
    """Known values of one slot, with what was visible beside each."""

    rows: list[Tensor] = field(default_factory=list)  # (n, F)
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)


@torch.no_grad()
def grow(
    model: Model,
    codec: Codec,
    tokens: Tokens,
    held_out: Tokens,
    config: ForestConfig,
    *,
    seed: int,
    seconds: float | None = None,
    told: Told | None = None,
) -> Guide | None:
    """The trees that are worth it beside a model, as what is held out has it; None if none are."""
    if not len(held_out):
        return None
    generator = Generator(tokens.slot.device).manual_seed(seed)
    chosen = some(tokens, config.values, generator)
    columns = Columns.fitted(tokens.batch(chosen), config.columns)
    enough = usual(tokens)
    known = _known(tokens, chosen, enough, columns, generator)
    grown: dict[Place, Guiding] = {}
    begun, total = time.monotonic(), len(known)
    for done, (slot, own) in enumerate(sorted(known.items())):
        left = None if seconds is None else (seconds - (time.monotonic() - begun)) / (total - done)
        one = _grown(codec, slot, own, columns, config, seed, left)
        if one is not None:
            grown[slot, ENOUGH] = Guiding.unweighed(one)
        own.rows.clear()
        if told is not None:
            told(done + 1, total)
    return judged(Guide(columns, enough, grown), model, held_out, 0, generator)


# ---------------------------------------------------------------- what is learnt


def _known(
    tokens: Tokens, chosen: Tensor, enough: Tensor, columns: Columns, generator: Generator
) -> Mapping[int, Known]:
    """Every value of these entities that trees can tell, by its slot."""
    found: dict[int, Known] = defaultdict(Known)
    for batch, hidden, level in asked(tokens, chosen, enough, 0, generator):
        table = columns.table(batch, hidden.visible)
        for kind in batch.spans.keys() & KINDS:
            start, end = batch.spans[kind]
            own = hidden.asked[start:end].nonzero()[:, 0]
            entity, codes = batch.entity[start + own], batch.values[kind][own]
            for (slot, _), rows in by_place(batch.slot[start + own], level[entity]):
                seen, labels = table[entity[rows]], codes[rows]
                if kind == SET:  # each member is a value
                    row, member = (labels >= 0).nonzero().unbind(1)
                    seen, labels = seen[row], labels[row, member]
                found[slot].rows.append(seen)
                found[slot].codes.append(labels)
    return {slot: one for slot, one in found.items() if sum(map(len, one.codes)) >= FEW}


def _grown(
    codec: Codec, slot: int, known: Known, columns: Columns, config: ForestConfig, seed: int, seconds: float | None
) -> Grown | None:
    """The trees of one slot, on their way for so long; nobody knows yet what they are worth."""
    codes = torch.cat(known.codes)
    truth, labels, units = _truth(codec, slot, codes, config.labels)
    if len(truth.unique()) < 2:
        return None
    seen = columns.but(slot)
    x = torch.cat([rows[:, seen] for rows in known.rows])
    kept = 1.0
    if len(labels):
        there = torch.isin(codes, labels)
        kept = float(there.double().mean())
        x, truth = x[there], torch.searchsorted(labels, codes[there])
    differs = (x.nan_to_num(torch.inf) != x[:1].nan_to_num(torch.inf)).any(0)
    x, seen = x[:, differs], seen[differs]
    if not len(seen) or len(truth.unique()) < 2:
        return None
    targets = F.one_hot(truth, len(labels)).double() if len(labels) else truth[:, None]
    best = best_columns(x, targets, config.screened)
    x, seen = x[:, best], seen[best]
    trees = Trees.of(_boosted(x, truth, len(labels), seed, seconds))
    trees = trees.in_units(units.mean, units.deviation) if units else trees
    return Grown(trees.to(codes.device), seen, labels, torch.tensor(kept, dtype=torch.float64, device=codes.device))


def _truth(codec: Codec, slot: int, codes: Tensor, most: int) -> tuple[Tensor, Tensor, Units | None]:
    """What trees learn: (n,) numbers, in units; or codes, and (K,) the commonest. Of numbers all alike there are none."""
    if codec.slots[slot].kind != NUMBER:
        labels, counts = codes[codes >= 0].unique(return_counts=True)
        return codes, labels[counts.argsort(descending=True, stable=True)[:most]].sort().values, None
    told = decoded(codec, torch.full((len(codes),), slot, device=codes.device), codes)
    numbers = list(map(float, told))
    units = Units.of(numbers)
    truth = torch.tensor(units.told(numbers) if units else [], dtype=torch.float64)
    return truth, codes.new_zeros(0, dtype=torch.long), units


def _boosted(x: Tensor, truth: Tensor, labels: int, seed: int, seconds: float | None) -> CatBoost:
    from catboost import CatBoost, Pool

    loss = "MultiClass" if labels else "RMSE"
    settings = {**by_size(len(truth)), **unattended(seed % (1 << 31)), "loss_function": loss}
    pool = Pool(x.cpu().numpy(), truth.cpu().numpy())
    if seconds is None:
        return CatBoost(settings).fit(pool)
    end = time.monotonic() + seconds
    settings |= _hurried(settings, _iterations_until(end, settings, pool))
    return CatBoost(settings).fit(pool, callbacks=[_Until(end)])


def _iterations_until(end: float, settings: Mapping[str, Any], pool: Pool) -> int:
    """The number of trees that fit before `end`, extrapolated from a few timed ones."""
    from catboost import CatBoost

    begun = time.monotonic()
    CatBoost({**settings, "iterations": PROBED}).fit(pool)
    now = time.monotonic()
    return int(PROBED * max(end - now, 0) / max(now - begun, 1e-9))


def _hurried(settings: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """Settings with as many trees as time allows, and a larger learning rate in return."""
    wanted = settings["iterations"]
    fewer = min(max(iterations, FEWEST), wanted)
    rate = min(settings["learning_rate"] * (wanted / fewer) ** SPEED, max(FASTEST, settings["learning_rate"]))
    return {"iterations": fewer, "learning_rate": rate}


@dataclass(frozen=True)
class _Until:
    """CatBoost asks it after each tree whether to go on."""

    end: float

    def after_iteration(self, info: Any) -> bool:
        return time.monotonic() < self.end
