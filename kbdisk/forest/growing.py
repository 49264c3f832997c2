"""How forests grow: CatBoost learns each property from all others, and held-out values tell what its trees are worth.

Every value is hidden alone once, and every composite as a whole. The first trees of a property learn from the training
entities, and are judged by what is held out. Where they are worth it further trees learn from all entities but one fold
each, as time allows; what each says of the fold that it has not seen tells how far off they are, and all are averaged.

n values of one slot   F columns   K labels
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from kbdisk.codec import Codec
from kbdisk.diffusion import Model
from kbdisk.estimates import decoded
from kbdisk.forest.columns import KINDS, NUMBER, Columns
from kbdisk.forest.config import MANY_LABELS, ForestConfig, settings_for, unattended
from kbdisk.forest.grown import Grown
from kbdisk.forest.screening import best_columns
from kbdisk.forest.trees import Trees
from kbdisk.forest.units import Units
from kbdisk.guides import Guide, Guiding, judged, weighed_by
from kbdisk.guides.guide import SET
from kbdisk.memory.learning import asked, reserved, some, usual
from kbdisk.memory.memory import ENOUGH, Place, by_place
from kbdisk.tokens import Tokens

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

FEW = 20  # known values of a slot: of fewer there are no trees
FIRST = 0.4  # of the time: for the trees that are judged
JUDGING = 0.3  # of the time: in which held-out values tell what trees are worth
STOPPING = 5  # one of so many values tells when trees are enough; of many values one of twice as many
MANY_VALUES = 1000
RARE = 2  # times that a label is met at least, to be told from others
LARGE = 50_000  # values times labels, from which on trees are timed before they grow
MOST = 60_000  # values times labels that trees of many labels learn from, about
PROBED = 10  # trees whose time tells how many there is time for
FEWEST = 40  # trees, however little time there is
LENIENT = 2.0  # times its even share of the time, that one slot may take
SPEED, FASTEST = 0.6, 0.3  # how much the learning rate grows as trees get fewer, and how far

Told = Callable[[int, int], None]  # how many properties have their trees, of how many


@dataclass
class Known:
    """Known values of one slot, with what was visible beside each, and whose they are."""

    rows: list[Tensor] = field(default_factory=list)  # (n, F)
    codes: list[Tensor] = field(default_factory=list)  # (n, ...)
    who: list[Tensor] = field(default_factory=list)  # (n,)

    def __len__(self) -> int:
        return sum(map(len, self.codes))


@torch.no_grad()
def grow(
    model: Model,
    codec: Codec,
    tokens: Tokens,
    held_out: Tokens,
    whole: Tokens | None = None,
    *,
    config: ForestConfig,
    seed: int,
    seconds: float | None = None,
    told: Told | None = None,
) -> Guide | None:
    """The trees that are worth it beside a model, by what is known in the whole of `tokens` alone; None if none are.

    Where there is no more than these, what is held out tells.
    """
    if not len(held_out):
        return None
    begun = time.monotonic()
    generator = Generator(tokens.slot.device).manual_seed(seed)
    chosen = some(tokens, config.values, generator)
    columns = Columns.fitted(tokens.batch(chosen), config.columns)
    anyone = torch.zeros_like(usual(tokens))  # trees are for entities of which little is known, too
    known = _known(tokens, chosen, anyone, columns, generator)
    made = (Plan.of(codec, slot, own, columns, config) for slot, own in sorted(known.items()) if len(own) >= FEW)
    plans = sorted((plan for plan in made if plan is not None), key=lambda plan: plan.cost)
    learning = Learning({plan.slot: plan for plan in plans}, seed, told or _untold)
    first = learning.first(None if seconds is None else FIRST * seconds - (time.monotonic() - begun))
    unjudged = Guide(columns, anyone, first)
    if whole is None:
        guide = judged(unjudged, model, held_out, 0, generator, seconds and JUDGING * seconds)
    else:
        guide = weighed_by(unjudged, model, reserved(tokens, whole, anyone), sure=0.0)
    if guide is None:
        learning.end()
        return None
    every = [known] if whole is None else []
    for side in [held_out] if whole is None else [whole, held_out]:
        every.append(_known(side, some(side, config.values, generator), anyone, columns, generator))
    end = None if seconds is None else begun + seconds
    return replace(guide, places=learning.more(guide.places, every, config.folds, end))


def _untold(done: int, total: int) -> None:
    pass


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
                seen, labels, who = table[entity[rows]], codes[rows], batch.who[entity[rows]]
                if kind == SET:  # each member is a value
                    row, member = (labels >= 0).nonzero().unbind(1)
                    seen, labels, who = seen[row], labels[row, member], who[row]
                found[slot].rows.append(seen)
                found[slot].codes.append(labels)
                found[slot].who.append(who)
    return found


@dataclass(frozen=True)
class Plan:
    """What the trees of one slot learn, and from which columns."""

    codec: Codec
    slot: int
    columns: Tensor  # (f,)
    labels: Tensor  # (K,) ascending; none of a number
    units: Units | None  # of a number
    kept: float  # the share of all values that are one of the labels
    x: Tensor  # (n, f)
    truth: Tensor  # (n,) in units; of labels their places among these
    who: Tensor  # (n,)

    @classmethod
    def of(cls, codec: Codec, slot: int, known: Known, columns: Columns, config: ForestConfig) -> Plan | None:
        """None where there is nothing to learn."""
        codes, who = torch.cat(known.codes), torch.cat(known.who)
        labels, units = codes.new_zeros(0, dtype=torch.long), None
        if codec.slots[slot].kind == NUMBER:
            units = Units.fitting(_numbers(codec, slot, codes))
        else:
            labels = _common(codes, config.labels)
        if units is None and len(labels) < RARE:
            return None
        seen = columns.but(slot)
        whole = cls(
            codec, slot, seen, labels, units, 1.0, torch.cat([rows[:, seen] for rows in known.rows]), codes, who
        )
        return whole._screened(config.screened)

    def _screened(self, most: int) -> Plan | None:
        """With the columns that tell something, and without the values that are none of the labels."""
        truth, there = self.told(self.truth)
        x, who = self.x[there], self.who[there]
        differs = (x.nan_to_num(torch.inf) != x[:1].nan_to_num(torch.inf)).any(0)
        if not bool(differs.any()) or len(truth.unique()) < RARE:
            return None
        seen, x = self.columns[differs], x[:, differs]
        targets = F.one_hot(truth, len(self.labels)).double() if len(self.labels) else truth[:, None]
        best = best_columns(x, targets, most)
        kept = float(there.double().mean())
        return replace(self, columns=seen[best], x=x[:, best], truth=truth, who=who, kept=kept)

    def told(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """(m,) what trees learn of codes (n, ...), and (n,) of which of them."""
        if self.units is not None:
            numbers = _numbers(self.codec, self.slot, codes)
            return torch.tensor(self.units.told(numbers), dtype=torch.float64), torch.ones(len(codes), dtype=torch.bool)
        there = torch.isin(codes, self.labels)
        return torch.searchsorted(self.labels, codes[there]), there

    @property
    def cost(self) -> int:
        """About how long trees take: what is soon done comes first."""
        return self.x.numel() * max(len(self.labels), 1)

    def learning(self, several: Sequence[Known]) -> Plan:
        """The same with these values."""
        truth, there = self.told(torch.cat([codes for known in several for codes in known.codes]))
        x = torch.cat([rows[:, self.columns] for known in several for rows in known.rows])
        who = torch.cat([who for known in several for who in known.who])
        return replace(self, x=x[there], truth=truth, who=who[there])

    def grown(self, boosted: Sequence[Trees]) -> Grown:
        """What these trees say on average."""
        trees = Trees.averaged(boosted)
        kept = torch.tensor(self.kept, dtype=torch.float64)
        return Grown(trees, self.columns, self.labels, kept, self.units)

    def can_learn(self, learnt: Tensor) -> bool:
        """Whether some of the values (n,) differ, and what is seen beside them; and whether others are left."""
        x = self.x[learnt].nan_to_num(torch.inf)
        varies = len(x) > 0 and bool((x != x[:1]).any()) and len(self.truth[learnt].unique()) >= RARE
        return varies and not bool(learnt.all())

    def boosted(self, learnt: Tensor, seed: int, seconds: float | None) -> Trees:
        """Trees of some of the values (n,); the rest tell when there are enough. Labels met in the rest alone are learnt, too."""
        K = len(self.labels)
        if K > MANY_LABELS:
            learnt = learnt & (torch.arange(len(learnt)) % max(len(learnt) * K // MOST, 1) == 0)
        if K:
            learnt = learnt | ~torch.isin(self.truth, self.truth[learnt])
        loss = {"loss_function": "MultiClass", "classes_count": K} if K else {"loss_function": "RMSE"}
        settings = {**settings_for(len(self.truth), K), **unattended(seed % (1 << 31)), **loss}
        own, rest = (self._pool(rows) for rows in (learnt, ~learnt if not bool(learnt.all()) else learnt))
        callbacks = []
        if seconds is not None:
            end = time.monotonic() + seconds
            callbacks = [_Until(end)]
            if len(self.truth) * max(K, 1) >= LARGE:
                settings |= _hurried(settings, _iterations_until(end, settings, own))
        return Trees.of(_fit(settings, own, rest, callbacks))

    def _pool(self, rows: Tensor) -> Pool:
        from catboost import Pool

        return Pool(self.x[rows].cpu().numpy(), self.truth[rows].cpu().numpy())


def _fit(settings: Mapping[str, Any], own: Pool, rest: Pool, callbacks: Sequence[Any]) -> CatBoost:
    """Trees that have learnt `own`, as many as tell `rest` best."""
    from catboost import CatBoost

    return CatBoost(dict(settings)).fit(own, eval_set=rest, use_best_model=True, callbacks=list(callbacks))


def _numbers(codec: Codec, slot: int, codes: Tensor) -> list[float]:
    return list(map(float, decoded(codec, torch.full((len(codes),), slot, device=codes.device), codes)))


def _common(codes: Tensor, most: int) -> Tensor:
    """(K,) the commonest labels, ascending."""
    labels, counts = codes[codes >= 0].unique(return_counts=True)
    common = counts.argsort(descending=True, stable=True)[:most]
    kept: Tensor = labels[common[counts[common] >= RARE]].sort().values
    return kept


def folds_of(who: Tensor, count: int, seed: int) -> Tensor:
    """(n,) the fold of each value: all values of an entity are in one."""
    every, place = who.unique(return_inverse=True)
    order = torch.randperm(len(every), generator=Generator().manual_seed(seed)).to(who.device)
    return (order % count)[place]


# ---------------------------------------------------------------- how long


@dataclass
class Learning:
    """The trees of all slots, on their way."""

    plans: Mapping[int, Plan]
    seed: int
    told: Told
    boosted: dict[int, list[Trees]] = field(default_factory=dict)
    took: dict[int, float] = field(default_factory=dict)  # seconds for the first trees of each slot

    def first(self, seconds: float | None) -> dict[Place, Guiding]:
        """Trees of training entities for each slot; nobody knows yet what they are worth."""
        end = None if seconds is None else time.monotonic() + seconds
        grown: dict[Place, Guiding] = {}
        for done, (slot, plan) in enumerate(self.plans.items()):
            parts = STOPPING if len(plan.truth) < MANY_VALUES else 2 * STOPPING
            learnt = folds_of(plan.who, parts, self.seed) > 0
            if not plan.can_learn(learnt):
                continue
            begun = time.monotonic()
            share = None if end is None else LENIENT * max(end - begun, 0) / (len(self.plans) - done)
            self.boosted[slot] = [plan.boosted(learnt, self.seed, share)]
            self.took[slot] = time.monotonic() - begun
            grown[slot, ENOUGH] = Guiding.unweighed(plan.grown(self.boosted[slot]))
            self.told(done + 1, 2 * len(self.plans))
        return grown

    def end(self) -> None:
        """There will be no more."""
        self.told(2 * len(self.plans), 2 * len(self.plans))

    def more(
        self, places: Mapping[Place, Guiding], every: Sequence[Mapping[int, Known]], folds: int, end: float | None
    ) -> dict[Place, Guiding]:
        """The same with further trees of all entities, a fold of all slots at a time, as far as there is time."""
        slots = [slot for slot, _ in places]
        plans = {slot: self.plans[slot].learning([side[slot] for side in every if slot in side]) for slot in slots}
        total, done = len(self.plans), 0
        for fold in range(folds):
            for slot in slots:
                done += 1
                left = math.inf if end is None else end - time.monotonic()
                learnt = folds_of(plans[slot].who, folds, self.seed + 1) != fold
                if left < self.took[slot] or not plans[slot].can_learn(learnt):
                    continue
                self.boosted[slot].append(plans[slot].boosted(learnt, self.seed + fold, None if end is None else left))
                self.told(total + done * total // (folds * len(slots)), 2 * total)
        self.end()
        return {
            place: replace(one, expert=self.plans[place[0]].grown(self.boosted[place[0]]))
            for place, one in places.items()
        }


def _iterations_until(end: float, settings: Mapping[str, Any], pool: Pool) -> int:
    """The number of trees that fit before `end`, extrapolated from a few timed ones."""
    begun = time.monotonic()
    _fit({**settings, "iterations": PROBED}, pool, pool, ())
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
