"""How likeness is learnt: known entities as columns, what columns count for each property, and what all of it is worth.

Values are hidden as they are for memories and trees; so what came with a value is hidden with it.

N known entities   n queries of one place   F columns
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import Tokens
from kbdisk.diffusion import Model
from kbdisk.estimates import decoded
from kbdisk.experts.base import Guide, Guiding, Seen
from kbdisk.experts.config import KNNConfig
from kbdisk.experts.features import Features, fullest, named
from kbdisk.experts.knn import STEEP, TOLD, WAYS, Kin, Known, counts
from kbdisk.experts.knn_metric import learnt
from kbdisk.experts.latent_knn import ENOUGH, Place, by_place
from kbdisk.experts.queries import parts, questions, some, usual
from kbdisk.experts.stacking import judged
from kbdisk.experts.weights import least, masses, squares
from kbdisk.hiding import Hidden

FEW = 50  # who have a property: fewer are asked about nothing, nor are fewer queries learnt from
CHECKED = 1024  # queries that tell what each way of telling is worth, at most
TOGETHER = 128  # of them at once, at most
PRIOR = 1.0  # queries that each way has to itself
ASKING = 0.2  # of the time, at most: for hiding known values
JUDGING = 0.4  # of the time: for telling what kin are worth
METRIC = 0.7  # of a place's time: for what columns count

Told = Callable[[int, int], None]  # how many places are learnt, of how many


@dataclass
class Queries:
    """Known values of one place, as they are asked for."""

    columns: list[Tensor] = field(default_factory=list)  # (n, F) float16 of what is visible beside each
    whose: list[Tensor] = field(default_factory=list)  # (n,) which of the known entities

    def __len__(self) -> int:
        return sum(map(len, self.whose))


@torch.no_grad()
def learn(
    model: Model,
    codec: Codec,
    tokens: Tokens,
    held_out: Tokens,
    config: KNNConfig,
    *,
    seed: int,
    seconds: float | None = None,
    told: Told | None = None,
) -> Guide | None:
    """Kin whose word is worth it beside a model's, as what is held out has it; None if nobody's is."""
    begun, generator = time.monotonic(), Generator(tokens.slot.device).manual_seed(seed)
    chosen = some(tokens, config.values, generator)
    if not len(held_out) or not len(chosen):
        return None
    chosen = chosen[torch.randperm(len(chosen), generator=generator, device=chosen.device)]  # of equals nobody is first
    features = Features.of(codec, fullest(codec, config.properties)).to(tokens.slot.device)
    known, values = _known(codec, features, tokens, chosen, held=False)
    enough, asking = usual(tokens), None if seconds is None else ASKING * seconds
    queries = _queries(features, tokens, chosen, enough, config, generator, asking)
    order = _order(codec, queries, values)
    found: dict[Place, Guiding] = {}
    for done, (slot, level) in enumerate(order):
        left = None if seconds is None else _left((1 - JUDGING) * seconds, begun) / (len(order) - done)
        if left is None or left > 0:  # else there is no time for those that are left
            block = features.block(codec, slot).to(known.who.device)
            kin = _kin(known, values[slot], queries[slot, level], block, config.neighbours, generator, left)
            if kin is not None:
                found[slot, level] = Guiding.unweighed(kin)
        if told is not None:
            told(done + 1, len(order))
    left = None if seconds is None else _left(seconds, begun)
    guide = judged(Guide(features, enough, found), model, held_out, config.rounds, generator, left)
    if guide is None:
        return None
    others = some(held_out, config.values, generator).sort().values
    return _with_held_out(guide, known, codec, features, held_out, others)


def _order(codec: Codec, queries: Mapping[Place, Queries], values: Mapping[int, Values]) -> list[Place]:
    """The places that enough is known of, the usual ones first."""
    told_of = {number for number, slot in enumerate(codec.slots) if not getattr(slot.codec, "many", False)}
    enough = (
        place
        for place, own in queries.items()
        if place[0] in told_of and len(own) >= FEW and len(values.get(place[0], ())) >= FEW
    )
    return sorted(enough, key=lambda place: (place[1] != ENOUGH, place))


def _left(seconds: float, begun: float) -> float:
    return seconds - (time.monotonic() - begun)


# ---------------------------------------------------------------- who is known, and who is asked for


@dataclass(frozen=True)
class Values:
    """Known values of one slot."""

    rows: Tensor  # (M,) whose, ascending
    values: Tensor  # (M,) numbers, or labels
    targets: Tensor  # (M, 2) float32 what is learnt to be told of numbers; (M,) labels

    def __len__(self) -> int:
        return len(self.rows)


def _known(
    codec: Codec, features: Features, tokens: Tokens, chosen: Tensor, *, held: bool
) -> tuple[Known, Mapping[int, Values]]:
    """Entities, and which of them have which value of each slot."""
    tables, who = [], []
    rows: dict[int, list[Tensor]] = defaultdict(list)
    codes: dict[int, list[Tensor]] = defaultdict(list)
    begin = 0
    for part in parts(tokens, chosen):
        batch = tokens.batch(part)
        tables.append(features.table(batch, batch.known).half())
        who.append(batch.who)
        for kind in batch.spans.keys() & set(TOLD):
            start, end = batch.spans[kind]
            own = named(batch, kind, (batch.known & ~batch.fixed)[start:end])
            found, many = batch.slot[start + own].unique_consecutive(return_counts=True)
            for slot, of_slot in zip(found.tolist(), own.split(many.tolist()), strict=True):
                rows[slot].append(begin + batch.entity[start + of_slot])
                codes[slot].append(batch.values[kind][of_slot])
        begin += len(part)
    whose = torch.cat(who)
    known = Known(torch.cat(tables), whose, torch.full_like(whose, held, dtype=torch.bool))
    return known, {slot: _values(codec, slot, torch.cat(own), torch.cat(codes[slot])) for slot, own in rows.items()}


def _values(codec: Codec, slot: int, rows: Tensor, codes: Tensor) -> Values:
    if codec.slots[slot].kind != "number":
        return Values(rows, codes, codes)
    told = decoded(codec, torch.full((len(codes),), slot, device=codes.device), codes)
    numbers = torch.tensor(list(map(float, told)), dtype=torch.float64, device=codes.device)
    mean, deviation = codec.slots[slot].codec.moments
    return Values(rows, numbers, torch.stack([((numbers - mean) / deviation).float(), codes[:, 0]], 1))


def _queries(
    features: Features,
    tokens: Tokens,
    chosen: Tensor,
    enough: Tensor,
    config: KNNConfig,
    generator: Generator,
    seconds: float | None,
) -> Mapping[Place, Queries]:
    """Some of the known entities with values hidden, as they are hidden in those that lack them; as time permits."""
    drawn = torch.randperm(len(chosen), generator=generator, device=chosen.device)[: config.queries]
    found: dict[Place, Queries] = defaultdict(Queries)
    begin, begun = 0, time.monotonic()
    for part in parts(tokens, chosen[drawn]):
        for batch, hidden, level in questions(tokens.batch(part), tokens.layout, enough, config.rounds, generator):
            table = features.table(batch, hidden.visible).half()
            for place, entity in _asked(batch, hidden, level):
                if len(found[place]) < config.queries:
                    found[place].columns.append(table[entity])
                    found[place].whose.append(drawn[begin + entity])
        begin += len(part)
        if seconds is not None and time.monotonic() - begun > seconds:
            break
    return found


def _asked(batch: Batch, hidden: Hidden, level: Tensor) -> Iterator[tuple[Place, Tensor]]:
    """Places of values that are asked for, each with (n,) whose values these are."""
    for kind in batch.spans.keys() & set(TOLD):
        start, end = batch.spans[kind]
        own = start + named(batch, kind, hidden.asked[start:end])
        entity = batch.entity[own]
        for place, rows in by_place(batch.slot[own], level[entity]):
            yield place, entity[rows]


# ---------------------------------------------------------------- what is learnt


def _kin(
    known: Known,
    values: Values,
    queries: Queries,
    block: Tensor,
    nearest: int,
    generator: Generator,
    seconds: float | None,
) -> Kin | None:
    """Who tells one property; None where there is nothing to tell, or nothing to tell it by."""
    columns, whose = torch.cat(queries.columns), torch.cat(queries.whose)
    if len(values.values.unique()) < 2 or bool(columns.isnan().all()):
        return None
    own, begun = torch.searchsorted(values.rows, whose), time.monotonic()
    weights = learnt(
        block,
        columns,
        own,
        known.columns[values.rows],
        values.targets,
        generator,
        None if seconds is None else METRIC * seconds,
    )
    kin = Kin(known, values.rows, values.values, weights, weights.new_zeros(0, dtype=torch.float64), nearest)
    drawn = torch.randperm(len(whose), generator=generator, device=whose.device)[:CHECKED]
    seen = Seen(columns[drawn].float(), known.who[whose[drawn]])
    return replace(
        kin, ways=_ways(kin, seen, values.values[own[drawn]], None if seconds is None else _left(seconds, begun))
    )


def _ways(kin: Kin, seen: Seen, truth: Tensor, seconds: float | None) -> Tensor:
    """(E,) what each way of telling is worth, by as many queries as there is time for."""
    told: list[Tensor] = []
    begun = time.monotonic()
    for some_seen, right in _parts(seen, truth, min(kin.part, TOGETHER)):
        if told and seconds is not None and time.monotonic() - begun > seconds:
            break
        near = kin.near(some_seen)
        if kin.is_number:
            every = torch.ones(WAYS, dtype=torch.bool, device=right.device)
            told.append(kin.answers(some_seen, near, every) - right[:, None])
        else:
            told.append((counts(near) * (kin.values[near.rows] == right[:, None])[:, None]).sum(2))
    found = torch.cat(told)
    if kin.is_number:
        return least(squares(found))
    return masses(found, torch.full((len(STEEP),), PRIOR, dtype=torch.float64, device=found.device))


def _parts(seen: Seen, truth: Tensor, size: int) -> Iterator[tuple[Seen, Tensor]]:
    for columns, who, right in zip(*(one.split(size) for one in (*seen, truth)), strict=True):
        yield Seen(columns, who), right


def _with_held_out(
    guide: Guide, known: Known, codec: Codec, features: Features, held_out: Tokens, others: Tensor
) -> Guide:
    """Some of what is held out is known, too, once it has told what everybody's word is worth."""
    more, values = _known(codec, features, held_out, others, held=True)
    whole, places = known.and_others(more), {}
    for (slot, level), one in guide.places.items():
        kin = one.expert
        assert isinstance(kin, Kin)
        own = values.get(slot)
        rows, found = (kin.rows[:0], kin.values[:0]) if own is None else (len(known.who) + own.rows, own.values)
        places[slot, level] = replace(one, expert=kin.among(whole, rows, found))
    return replace(guide, places=places)
