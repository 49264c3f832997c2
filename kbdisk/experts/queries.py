"""How a memory is made: values of known entities are hidden and looked up; held-out ones tell what that is worth.

Each value is hidden alone, as it is in an entity that lacks it, and so is each composite; then some rounds hide many at
once. What is held out is asked likewise, and tells what all of this is worth (kbdisk.experts.latent_knn_weights).

T tokens   n hidden values of one slot
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from kbdisk.data.batch import Batch
from kbdisk.data.dataset import CHUNK, Layout, Tokens
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.kriging import SURFACES, counts
from kbdisk.experts.latent_knn import LESS, Memory, Place, amount, by_place, levels
from kbdisk.experts.latent_knn_index import Shelf, Values
from kbdisk.experts.latent_knn_weights import Heard, weighed
from kbdisk.hiding import Hidden, Hiding, hide, shuffled
from kbdisk.leaves.base import Recalling
from kbdisk.network.disk import DiSK

KINDS = ("number", "category", "link", "text")  # whose beliefs can recall
JUDGED = 1 << 14  # values of what is held out that tell what neighbours are worth, at most
PART, LEAST = 8, 2000  # or a part of as many as are remembered, where time lets few be: but no fewer than so many
USUAL = 0.1  # of the entities of a class have less to be seen than is usual
PASSES = 2.0  # for each value, as many are hidden alone and with others
WEIGHING, FITTING = 8.0, 0.1  # times as long as its surfaces for each value that judges; seconds for each property
PROBED = 64  # places whose surfaces are timed

Told = Callable[[int, int], None]  # how many entities were looked at, of how many
Question = tuple[Batch, Hidden, Tensor]  # what is hidden in some entities, and (B,) which shelf each belongs to


@torch.no_grad()
def remember(
    network: DiSK, tokens: Tokens, held_out: Tokens, config: LatentKNNConfig, seed: int, told: Told | None = None
) -> Memory | None:
    """What is worth remembering of all these, judged by how well `tokens` tell what is held out; None if nothing is."""
    if not config.neighbours or not len(held_out):
        return None
    network.eval()
    generator = Generator(tokens.slot.device).manual_seed(seed)
    enough, most = usual(tokens), config.values
    sides = some(tokens, most, generator), some(held_out, _judged(most), generator)
    done, total = 0, sum(map(len, sides))

    def looked(count: int) -> None:
        nonlocal done
        done += count
        if told is not None:
            told(done, total)

    heap: dict[Place, list[Values]] = defaultdict(list)
    for question in asked(tokens, sides[0], enough, config.rounds, generator, looked):
        for place, values in _found(network, question):
            heap[place].append(values)
    shelves = {place: Shelf.of(Values.joined(several).shuffled(generator)) for place, several in heap.items()}
    heap.clear()
    heard: dict[tuple[str, int], dict[Place, Heard]] = defaultdict(lambda: defaultdict(Heard))
    for question in asked(held_out, sides[1], enough, config.rounds, generator, looked):
        for kind, place, values, belief in _told(network, question):
            heard[kind, place[1]][place].take(values, belief)
    kept: dict[Place, Shelf] = {}
    for own in heard.values():
        kept |= weighed(shelves, own, config)
    return Memory(kept, enough, held_out.who.sort().values, config.neighbours) if kept else None


class Glance(NamedTuple):
    """How long things take here, about."""

    passing: float  # seconds of a pass for each entity in which a value is hidden
    weighing: float  # of each value that tells what neighbours are worth


@torch.no_grad()
def glance(network: DiSK, tokens: Tokens, nearest: int) -> Glance:
    """A pass is timed, and surfaces through so many neighbours: a machine that is slow in one need not be in the other."""
    network.eval()
    batch = tokens.batch(next(parts(tokens, torch.arange(len(tokens), device=tokens.slot.device))))
    free = batch.known & ~batch.fixed
    asked = free & (shuffled(batch, free)[0] == 0)
    begun = time.monotonic()
    vectors = network.vectors(batch, batch.known & ~asked, asked)
    passing = (time.monotonic() - begun) / batch.size
    return Glance(passing, WEIGHING * _surfaces(vectors.shape[1], nearest, vectors.device) if nearest else 0.0)


def _surfaces(width: int, nearest: int, device: torch.device) -> float:
    """The seconds that surfaces through so many neighbours take for each place."""
    keys = torch.rand(nearest, width, generator=Generator(device).manual_seed(0), device=device)
    rows = torch.arange(nearest, device=device).expand(PROBED, nearest)
    every, wanted = torch.ones_like(rows, dtype=torch.bool), torch.ones(len(SURFACES), dtype=torch.bool, device=device)
    begun = time.monotonic()
    counts(keys[:1].expand(PROBED, width), keys, rows, every, every[:, :1].double(), wanted).sum().item()
    return (time.monotonic() - begun) / PROBED


def seconds(once: Glance, tokens: Tokens, held_out: Tokens, most: int) -> float:
    """How long it takes to remember so many values, by what a glance told, about."""
    asked, judged = min(most, len(tokens.slot)), min(_judged(most), len(held_out.slot))
    return PASSES * once.passing * (asked + judged) + once.weighing * judged + FITTING * len(tokens.layout.fixed)


def _judged(most: int) -> int:
    """How many held-out values tell what so many are worth: each takes longer than what it is judged by."""
    return min(most, JUDGED, max(most // PART, LEAST))


# ---------------------------------------------------------------- what is asked


def usual(tokens: Tokens) -> Tensor:
    """(C,) how much of an entity of each class is visible where a value is hidden alone, but for where little is."""
    sizes = amount(tokens.owner, tokens.units, tokens.free, len(tokens))  # (N,)
    found = torch.zeros(len(tokens.layout.offsets) - 1, dtype=torch.long, device=sizes.device)
    for one in tokens.classes.unique().tolist():
        own = sizes[tokens.classes == one].sort().values
        found[one] = own[int(USUAL * len(own))] - 1
    return found


def some(tokens: Tokens, most: int, generator: Generator) -> Tensor:
    """Entities that have about so many values at most, drawn; the smallest first."""
    order = torch.randperm(len(tokens), generator=generator, device=tokens.slot.device)
    order = order[tokens.sizes[order] <= most]  # or one large entity would leave no room for any other
    drawn = order[tokens.sizes[order].cumsum(0) <= most]
    return drawn[tokens.sizes[drawn].argsort(stable=True)]


def parts(tokens: Tokens, chosen: Tensor) -> Iterator[Tensor]:
    """Entities in parts of some `CHUNK` tokens."""
    part = tokens.sizes[chosen].cumsum(0) // CHUNK
    yield from chosen.split(part.unique_consecutive(return_counts=True)[1].tolist())


def asked(
    tokens: Tokens,
    chosen: Tensor,
    enough: Tensor,
    rounds: int,
    generator: Generator,
    looked: Callable[[int], None] = lambda count: None,
) -> Iterator[Question]:
    """The `questions` of some entities, part by part; `looked` hears how many entities each part has, once it is done."""
    for part in parts(tokens, chosen):
        yield from questions(tokens.batch(part), tokens.layout, enough, rounds, generator)
        looked(len(part))


def questions(batch: Batch, layout: Layout, enough: Tensor, rounds: int, generator: Generator) -> Iterator[Question]:
    """Every value of some entities hidden alone, every composite hidden as a whole, and so many rounds of many at once.

    With the length of a list its places are hidden: nobody who asks for it has them. Each question is for the shelf that
    it will be asked of, once a model is asked (`levels`); the rounds are for those of whom little is visible.
    """

    def left(asked: Tensor) -> tuple[Tensor, Tensor]:
        """(T,) what is visible then, and (B,) how much that is."""
        visible = batch.seen(batch.known & ~asked & ~layout.places(batch, asked))
        return visible, levels(batch, visible, enough)

    free = batch.known & ~batch.fixed
    unit, count = batch.unit.unique(return_inverse=True)[1], batch.unit.new_zeros(len(batch))
    shared = count.index_add(0, unit, free.long())[unit] > 1
    for among, whole in ((free, torch.arange(len(batch), device=free.device)), (free & shared, batch.unit)):
        place, size = shuffled(batch, among, generator, whole)
        for turn in range(int(size.max()) if len(size) else 0):
            asked = among & (place == turn)
            visible, level = left(asked)
            yield batch, Hidden(visible, asked, asked.float()), level
    for turn in range(rounds):  # everything once
        hiding = Hiding(rate="count", everything=float(turn == 0))
        hidden = hide(batch, hiding, generator)
        visible, level = left(hidden.asked)
        little = (level == LESS)[batch.entity]  # of others every value is found when it is hidden alone
        yield batch, Hidden(visible, hidden.asked & little, hidden.weight * little), level


def reserved(training: Tokens, whole: Tokens, enough: Tensor) -> Iterator[Question]:
    """The values of entities that training lacks, each entity's asked for at once, given all that training has."""
    entities = whole.owner[whole.known & ~training.known].unique()
    for few in parts(whole, entities[whole.sizes[entities].argsort(stable=True)]):
        batch, known = whole.batch(few), training.batch(few).known
        asked, visible = batch.known & ~known & ~batch.fixed, batch.seen(known)
        yield batch, Hidden(visible, asked, asked.float()), levels(batch, visible, enough)


# ---------------------------------------------------------------- what is heard


def _found(network: DiSK, question: Question) -> Iterator[tuple[Place, Values]]:
    """Hidden values, found by what the network makes of the rest."""
    batch, hidden, level = question
    asked = hidden.asked.nonzero()[:, 0]
    vectors = network.vectors(batch, hidden.visible, hidden.asked)
    for kind in (one for one in KINDS if one in batch.spans):  # in an order that is always the same
        start, end = batch.spans[kind]
        own = ((asked >= start) & (asked < end)).nonzero()[:, 0]
        for place, values, _ in _placed(batch, kind, asked[own], vectors[own], level):
            yield place, values


def _told(network: DiSK, question: Question) -> Iterator[tuple[str, Place, Values, Recalling]]:
    """Held-out values by their kinds, what they are found by, and what the network believes of them."""
    batch, hidden, level = question
    for kind, one in network(batch, hidden.visible, hidden.asked).kinds.items():
        for place, values, rows in _placed(batch, kind, one.tokens, one.vectors, level) if kind in KINDS else ():
            belief = one.belief.pick(rows)
            if isinstance(belief, Recalling):
                yield kind, place, values, belief


def _placed(
    batch: Batch, kind: str, tokens: Tensor, vectors: Tensor, level: Tensor
) -> Iterator[tuple[Place, Values, Tensor]]:
    """Asked tokens of one kind by where they belong, and which of them these are."""
    entity = batch.entity[tokens]
    codes, who = batch.values[kind][tokens - batch.spans[kind][0]], batch.who[entity]
    for place, rows in by_place(batch.slot[tokens], level[entity]):
        yield place, Values(vectors[rows], codes[rows], who[rows]), rows
