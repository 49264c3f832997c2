"""How forests grow: CatBoost learns each property from all others, and held-out values tell what its trees are worth.

Every value is hidden alone once, and every composite as a whole, as it is when a model is asked for it.

n values of one slot   F columns   K labels
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from kbdisk.codec import Codec
from kbdisk.diffusion import Model
from kbdisk.estimates import decoded
from kbdisk.forest.columns import KINDS, NUMBER, Columns
from kbdisk.forest.config import ForestConfig, by_size, unattended
from kbdisk.forest.forest import Forest, Grown
from kbdisk.forest.trees import Trees
from kbdisk.leaves.base import Belief, Recalling
from kbdisk.leaves.number.around import WIDTHS, log_masses
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.memory.learning import asked, some, usual
from kbdisk.memory.memory import by_place
from kbdisk.memory.weighing import chances, least, masses, squares
from kbdisk.tokens import Tokens

if TYPE_CHECKING:
    from catboost import CatBoost

FEW = 50  # known values of a slot: of fewer there are no trees, nor are they judged by fewer held-out ones
WORTH = 0.02  # of an answer, or of the mass: what trees are worth at least, or they are not kept
PRIOR = 1.0  # held-out values that each expert has to itself
TINY = 1e-30  # of a chance, whose log is taken

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
) -> Forest | None:
    """The trees that are worth it beside a model, as what is held out has it; None if none are."""
    if not len(held_out):
        return None
    generator = Generator(tokens.slot.device).manual_seed(seed)
    chosen = some(tokens, config.values, generator)
    columns = Columns.fitted(tokens.batch(chosen), config.columns)
    known = _known(tokens, chosen, columns, generator)
    grown: dict[int, Grown] = {}
    begun, total = time.monotonic(), len(known)
    for done, (slot, own) in enumerate(sorted(known.items())):
        left = None if seconds is None else (seconds - (time.monotonic() - begun)) / (total - done)
        one = _grown(codec, slot, own, columns, config, seed, left)
        if one is not None:
            grown[slot] = one
        own.rows.clear()
        if told is not None:
            told(done + 1, total)
    forest = _judged(Forest(columns, usual(tokens), grown), model, held_out, generator)
    return forest if forest.slots else None


# ---------------------------------------------------------------- what is learnt


def _known(tokens: Tokens, chosen: Tensor, columns: Columns, generator: Generator) -> Mapping[int, Known]:
    """Every value of these entities that trees can tell, by its slot."""
    found: dict[int, Known] = defaultdict(Known)
    for batch, hidden, level in asked(tokens, chosen, 0, generator):
        table = columns.table(batch, hidden.visible)
        for kind in batch.spans.keys() & KINDS:
            start, end = batch.spans[kind]
            own = hidden.asked[start:end].nonzero()[:, 0]
            entity, codes = batch.entity[start + own], batch.values[kind][own]
            for (slot, _), rows in by_place(batch.slot[start + own], level[entity]):
                found[slot].rows.append(table[entity[rows]])
                found[slot].codes.append(codes[rows])
    return {slot: one for slot, one in found.items() if sum(map(len, one.codes)) >= FEW}


def _grown(
    codec: Codec, slot: int, known: Known, columns: Columns, config: ForestConfig, seed: int, seconds: float | None
) -> Grown | None:
    """The trees of one slot, on their way for so long; nobody knows yet what they are worth."""
    codes = torch.cat(known.codes)
    if codec.slots[slot].kind == NUMBER:
        numbers = decoded(codec, torch.full((len(codes),), slot, device=codes.device), codes)
        truth, labels = (
            torch.tensor(list(map(float, numbers)), dtype=torch.float64),
            codes.new_zeros(0, dtype=torch.long),
        )
    else:
        truth, labels = codes, codes[codes >= 0].unique()
    if len(truth.unique()) < 2 or len(labels) > config.labels:
        return None
    same = torch.tensor([n for n, one in enumerate(codec.slots) if one.of == codec.slots[slot].of])
    seen = columns.of(same.to(codes.device), but=slot)
    x = torch.cat([rows[:, seen] for rows in known.rows])
    if len(labels):
        there = codes >= 0
        x, truth = x[there], torch.searchsorted(labels, codes[there])
    differs = (x.nan_to_num(torch.inf) != x[:1].nan_to_num(torch.inf)).any(0)
    x, seen = x[:, differs], seen[differs]
    if not len(seen):
        return None
    trees = Trees.of(_boosted(x, truth, len(labels), seed, seconds)).to(codes.device)
    share = torch.ones((), dtype=torch.float64, device=codes.device)
    return Grown(trees, seen, labels, share, share.new_zeros(len(WIDTHS)))


def _boosted(x: Tensor, truth: Tensor, labels: int, seed: int, seconds: float | None) -> CatBoost:
    from catboost import CatBoost, Pool

    loss = "MultiClass" if labels else "RMSE"
    settings = {**by_size(len(truth)), **unattended(seed % (1 << 31)), "loss_function": loss}
    watched = {} if seconds is None else {"callbacks": [_Until(time.monotonic() + seconds)]}
    return CatBoost(settings).fit(Pool(x.cpu().numpy(), truth.cpu().numpy()), **watched)


@dataclass(frozen=True)
class _Until:
    """CatBoost asks it after each tree whether to go on."""

    end: float

    def after_iteration(self, info: Any) -> bool:
        return time.monotonic() < self.end


# ---------------------------------------------------------------- what it is worth


@dataclass
class Heard:
    """Held-out values of one slot, and what was said of them by the model and by the trees."""

    logs: list[Tensor] = field(default_factory=list)  # (n, 2) log p of the truth by both; by the model alone of numbers
    said: list[Tensor] = field(default_factory=list)  # (n, 2) numbers
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    belief: NumberBelief | None = None  # about the first of them

    def __len__(self) -> int:
        return sum(map(len, self.codes))

    def take(self, codes: Tensor, belief: Belief, said: Tensor, grown: Grown) -> None:
        """Some more of them; none of a belief that trees cannot join."""
        logs = belief.log_prob(codes).double()[:, None]
        if isinstance(belief, NumberBelief):
            self.said.append(torch.stack([belief.expected(), said], 1))
            self.belief = self.belief or belief
        elif isinstance(belief, Recalling):
            of_trees = (said * (codes[:, None] == grown.labels)).sum(1, keepdim=True)
            logs = torch.cat([logs, of_trees.clamp(min=TINY).log()], 1)
        else:
            return
        self.logs.append(logs)
        self.codes.append(codes)

    def weighed(self, grown: Grown) -> Grown:
        """Trees with what they are worth."""
        logs, codes = torch.cat(self.logs), torch.cat(self.codes)
        if self.belief is None:
            return replace(grown, share=_shares(logs)[1])
        belief = self.belief.pick(torch.zeros(len(codes), dtype=torch.long, device=codes.device))
        said = torch.cat(self.said)
        shares = least(squares(said - belief.numbers(codes[:, None])))
        near = log_masses(belief.answering(said @ shares), codes).double()
        return replace(grown, share=shares[1], around=_shares(torch.cat([logs, near], 1))[1:])


def _shares(logs: Tensor) -> Tensor:
    """(n, E) -> (E,) what each of several is worth."""
    told = chances(logs)
    return masses(told, torch.full_like(told[0], PRIOR))


def _judged(forest: Forest, model: Model, held_out: Tokens, generator: Generator) -> Forest:
    """The trees that are worth it, with what they are worth."""
    heard: dict[int, Heard] = defaultdict(Heard)
    every = torch.arange(len(held_out), device=held_out.slot.device)
    for batch, hidden, level in asked(held_out, every, 0, generator):
        table = forest.columns.table(batch, hidden.visible)
        for kind, one in model(batch, hidden.visible, hidden.asked).kinds.items():
            entity = batch.entity[one.tokens]
            for (slot, _), rows in by_place(batch.slot[one.tokens], level[entity]):
                if slot in forest.slots:
                    grown, codes = forest.slots[slot], batch.values[kind][one.rows[rows]]
                    heard[slot].take(codes, one.belief.pick(rows), grown.tell(table[entity[rows]]), grown)
    weighed = {slot: own.weighed(forest.slots[slot]) for slot, own in heard.items() if len(own) >= FEW}
    return replace(forest, slots={slot: one for slot, one in weighed.items() if one.share > WORTH})
