"""How a memory is made: values of known entities are hidden and looked up; held-out ones tell what that is worth.

Each value is hidden alone, as it is in an entity that lacks it, and so is each composite; then some rounds hide many at
once. A held-out value is believed by several experts: the network, and its neighbours within each reach by each kernel.
Slots with few held-out values go by what all of their kind have in common.

T tokens   n hidden values of one slot   E experts, the network first   R reaches   G surfaces   P kernels
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor

from kbdisk.batch import Batch
from kbdisk.hiding import Hidden, Hiding, hide, shuffled
from kbdisk.leaves.base import Recalling
from kbdisk.leaves.number.belief import NumberBelief
from kbdisk.memory.config import MemoryConfig
from kbdisk.memory.memory import ENOUGH, LESS, Memory, Place, by_place
from kbdisk.memory.shelf import OWN, Shelf, Values
from kbdisk.memory.weighing import least, masses, squares
from kbdisk.network.disk import DiSK
from kbdisk.tokens import CHUNK, Tokens

KINDS = ("number", "category", "link", "text")  # whose beliefs can recall
FEW = 50  # held-out values of a kind: of fewer nothing is learnt
USUAL = 0.1  # of the times that a value of a class is hidden alone, less is visible than is usual
WORTH = 0.02  # of the mass, or of an answer: what neighbours are worth at least, or a slot is not remembered
BESIDES = 3.0  # times what the network takes for the values
LOWEST = -1e4  # nats below the best expert

Told = Callable[[int, int], None]  # how many entities were looked at, of how many
Question = tuple[Batch, Hidden, Tensor]  # what is hidden in some entities, and (B,) which shelf each belongs to


@dataclass
class Heard:
    """Held-out values of one shelf, and what the network said of them."""

    values: list[Values] = field(default_factory=list)
    logs: list[Tensor] = field(default_factory=list)  # (s,) log p of each step in which they were told
    answers: list[Tensor] = field(default_factory=list)  # (n, OWN) of numbers
    belief: Recalling | None = None  # about the first of them

    def take(self, values: Values, belief: Recalling) -> None:
        """Some more of them."""
        self.values.append(values)
        self.logs.append(belief.steps(values.codes))
        if isinstance(belief, NumberBelief):
            self.answers.append(belief.answers())
        self.belief = self.belief or belief


@torch.no_grad()
def remember(
    network: DiSK, tokens: Tokens, held_out: Tokens, config: MemoryConfig, seed: int, told: Told | None = None
) -> Memory | None:
    """What is worth remembering of all these, judged by how well `tokens` tell what is held out; None if nothing is."""
    if not config.nearest or not len(held_out):
        return None
    network.eval()
    generator = Generator(tokens.slot.device).manual_seed(seed)
    enough, sides = usual(tokens), [some(one, config.values, generator) for one in (tokens, held_out)]
    done, total = 0, sum(map(len, sides))

    def looked(count: int) -> None:
        nonlocal done
        done += count
        if told is not None:
            told(done, total)

    heap: dict[Place, list[Values]] = defaultdict(list)
    for question in asked(tokens, sides[0], config.rounds, generator, looked):
        for place, values in _found(network, question):
            heap[place].append(values)
    shelves = {place: Shelf.of(Values.joined(several).shuffled(generator)) for place, several in heap.items()}
    heap.clear()
    heard: dict[tuple[str, int], dict[Place, Heard]] = defaultdict(lambda: defaultdict(Heard))
    for question in asked(held_out, sides[1], config.rounds, generator, looked):
        for kind, place, values, belief in _told(network, question):
            heard[kind, place[1]][place].take(values, belief)
    kept: dict[Place, Shelf] = {}
    for own in heard.values():
        kept |= _weighed(shelves, own, config)
    return Memory(kept, enough, held_out.who.sort().values, config.nearest) if kept else None


@torch.no_grad()
def seconds(network: DiSK, tokens: Tokens) -> float:
    """How long it takes to look one value up, about, with all that remembering it takes besides."""
    network.eval()
    batch = tokens.batch(next(parts(tokens, torch.arange(len(tokens), device=tokens.slot.device))))
    free = batch.known & ~batch.fixed
    asked = free & (shuffled(batch, free)[0] == 0)
    begun = time.monotonic()
    network.vectors(batch, batch.known & ~asked, asked)
    return BESIDES * (time.monotonic() - begun) / batch.size


# ---------------------------------------------------------------- what is asked


def usual(tokens: Tokens) -> Tensor:
    """(C,) how many values of an entity of each class are visible where one is hidden alone, but for where few are."""
    owner = torch.arange(len(tokens), device=tokens.slot.device).repeat_interleave(tokens.sizes)
    sizes = torch.zeros_like(tokens.classes).index_add_(0, owner, tokens.known.long())  # (N,)
    found = torch.zeros(len(tokens.layout.offsets) - 1, dtype=torch.long, device=sizes.device)
    for one in tokens.classes.unique().tolist():
        own = sizes[tokens.classes == one].sort().values
        found[one] = own[int(USUAL * len(own))] - 1
    return found


def some(tokens: Tokens, most: int, generator: Generator) -> Tensor:
    """Entities that have about so many values at most, drawn; the smallest first."""
    order = torch.randperm(len(tokens), generator=generator, device=tokens.slot.device)
    drawn = order[tokens.sizes[order].cumsum(0) <= most]
    return drawn[tokens.sizes[drawn].argsort(stable=True)]


def parts(tokens: Tokens, chosen: Tensor) -> Iterator[Tensor]:
    """Entities in parts of some `CHUNK` tokens."""
    part = tokens.sizes[chosen].cumsum(0) // CHUNK
    yield from chosen.split(part.unique_consecutive(return_counts=True)[1].tolist())


def asked(
    tokens: Tokens,
    chosen: Tensor,
    rounds: int,
    generator: Generator,
    looked: Callable[[int], None] = lambda count: None,
) -> Iterator[Question]:
    """The `questions` of some entities, part by part; `looked` hears how many entities each part has, once it is done."""
    for part in parts(tokens, chosen):
        yield from questions(tokens.batch(part), rounds, generator)
        looked(len(part))


def questions(batch: Batch, rounds: int, generator: Generator) -> Iterator[Question]:
    """Every value of some entities hidden alone, every composite hidden as a whole, and so many rounds of many at once."""
    free = batch.known & ~batch.fixed
    unit, count = batch.unit.unique(return_inverse=True)[1], batch.unit.new_zeros(len(batch))
    shared = count.index_add(0, unit, free.long())[unit] > 1
    for among, whole in ((free, torch.arange(len(batch), device=free.device)), (free & shared, batch.unit)):
        place, size = shuffled(batch, among, generator, whole)
        for turn in range(int(size.max()) if len(size) else 0):
            asked = among & (place == turn)
            hidden = Hidden(batch.seen(batch.known & ~asked), asked, asked.float())
            yield batch, hidden, torch.full_like(batch.classes, ENOUGH)
    for turn in range(rounds):  # everything once
        hiding = Hiding(rate="count", everything=float(turn == 0))
        yield batch, hide(batch, hiding, generator), torch.full_like(batch.classes, LESS)


# ---------------------------------------------------------------- what is heard


def _found(network: DiSK, question: Question) -> Iterator[tuple[Place, Values]]:
    """Hidden values, found by what the network makes of the rest."""
    batch, hidden, level = question
    asked = hidden.asked.nonzero()[:, 0]
    vectors = network.vectors(batch, hidden.visible, hidden.asked)
    for kind in batch.spans.keys() & set(KINDS):
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


# ---------------------------------------------------------------- what it is worth


def _weighed(shelves: Mapping[Place, Shelf], heard: Mapping[Place, Heard], config: MemoryConfig) -> dict[Place, Shelf]:
    """The shelves of one kind that are worth it, with what they are worth; the held-out values are put there, too."""
    both = {place: (shelves[place], one) for place, one in heard.items() if place in shelves}
    told = {place: _experts(shelf, one, config.nearest) for place, (shelf, one) in both.items()}
    if sum(len(chances) for chances, _ in told.values()) < FEW:
        return {}
    every = torch.cat([chances for chances, _ in told.values()])
    common = masses(every, torch.ones_like(every[0]))
    forms = {place: squares(errors) for place, (_, errors) in told.items() if errors is not None}
    mean = torch.stack(list(forms.values())).mean(0) if forms else None
    kept = {}
    for place, (chances, _) in told.items():
        shelf, one = both[place]
        mass = masses(chances, config.prior * common)[1:]
        said = shelf.said if mean is None else least(len(chances) * forms[place] + config.prior * mean)
        if mass.sum() > WORTH or said[OWN:].sum() > WORTH:
            shelf = replace(shelf, mass=mass.view(len(shelf.mass), -1), said=said)
            kept[place] = shelf.with_values(Values.joined(one.values), held=True)
    return kept


def _experts(shelf: Shelf, heard: Heard, nearest: int) -> tuple[Tensor, Tensor | None]:
    """(s, E) the chance that each expert gave to each step, in parts of the best; (n, OWN + R + G) how wrong, of numbers."""
    values, own, belief = Values.joined(heard.values), torch.cat(heard.logs), heard.belief
    assert belief is not None
    near = shelf.nearest(values.vectors, values.who, torch.zeros_like(values.who, dtype=torch.bool), nearest)
    logs = [own]
    for reach in near.counts.unbind(1):  # (n, K)
        for kernel in range(belief.kernels):
            mass = reach.new_zeros(len(reach), belief.kernels, reach.shape[1])
            mass[:, kernel] = reach
            logs.append(belief.steps_recalled(values.codes, own, near.codes, mass))
    told = torch.stack(logs, 1).double()
    chances = (told - told.amax(1, keepdim=True)).clamp(min=LOWEST).nan_to_num().exp()
    if not isinstance(belief, NumberBelief):
        return chances, None
    belief = belief.pick(torch.zeros_like(values.who))  # it is only asked for what stands in the tables of its slot
    others = torch.einsum("nrk,nk->nr", shelf.says(near), belief.numbers(near.codes))
    truth = belief.numbers(values.codes[:, None])
    return chances, torch.cat([torch.cat(heard.answers), others], 1) - truth
