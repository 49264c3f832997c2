"""What is asked in an evaluation: known values, each hidden in turn, all else that its entity has being given.

What would tell a value is hidden with it: of the length of a list its places, and what came over a link with the link.

S slots   T tokens of a batch
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.batch import Batch
from kbdisk.data.dataset import CHUNK, Tokens
from kbdisk.data.graph import pattern
from kbdisk.data.parse import Reading
from kbdisk.data.slots import counts_of
from kbdisk.entity import Entity, Path
from kbdisk.errors import SchemaError
from kbdisk.hiding import shuffled
from kbdisk.metrics import property_of
from kbdisk.schemas.composites import show_pattern
from kbdisk.schemas.suggest import did_you_mean

Value = tuple[int, int]  # the number of an entity, and a slot
Property = tuple[str, Path]


@dataclass(frozen=True)
class Question:
    """Some values of one entity that are hidden at once, and those of them that are asked for."""

    entity: int
    hidden: tuple[int, ...]  # slots
    asked: tuple[int, ...]  # slots


@dataclass(frozen=True)
class Choice:
    """The values that are asked for, and how many there would have been."""

    values: Sequence[Value]
    unread: Sequence[Value]  # those that have no code, so that nothing can be asked
    totals: Mapping[Property, int]


@dataclass(frozen=True)
class Posed:
    """Some questions as a batch, a question for each of its entities."""

    questions: Sequence[Question]
    batch: Batch
    hidden: Tensor  # (T,)
    asked: Tensor  # (T,)

    def visible(self, given: float | None = None, seed: int = 0, order: Tensor | None = None) -> Tensor:
        """(T,) all that is not hidden, or of what may be hidden at all a share, drawn; the same, and more, of a larger one.

        With the `order` (S,) of slots nothing that comes after what is hidden.
        """
        open = self.batch.known & ~self.hidden
        if order is not None:
            place = order[self.batch.slot]
            first = torch.full_like(self.batch.classes, len(order))
            first.scatter_reduce_(0, self.batch.entity[self.hidden], place[self.hidden], "amin")
            open &= self.batch.fixed | (place < first[self.batch.entity])
        if given is None:
            return open
        others = open & ~self.batch.fixed
        generator = torch.Generator(others.device).manual_seed(seed)
        place, count = shuffled(self.batch, others, generator)
        shown = (given * count).round().long()  # (B,)
        return open & (self.batch.fixed | (place < shown[self.batch.entity]))


def askable(codec: Codec, only: Collection[Path] = (), classes: Collection[str] = ()) -> set[int]:
    """The slots that may be asked for: those at some paths or below, of some classes. SchemaError where there is none."""
    own = {number: slot for number, slot in enumerate(codec.slots) if slot.role == "value"}
    chosen = {number for name in classes for number in codec.index.tables[_class_named(codec, name)].slot.values()}
    for path in only:
        if not any(_meets(path, slot.path) for slot in own.values()):
            names = {show_pattern(pattern(slot.path)) for slot in own.values()}
            name = show_pattern(path)
            raise SchemaError(name, f"expected a path that the model predicts, got another.{did_you_mean(name, names)}")
    return {
        number
        for number, slot in own.items()
        if (not chosen or number in chosen) and (not only or any(_meets(path, slot.path) for path in only))
    }


def _class_named(codec: Codec, name: str) -> str:
    """A class of the schema by its name, its IRI, or the last word of that."""
    found = codec.schema.class_of(Entity(name, classes=(name,)))
    if found is None or (found.name != name and not found.iri and not found.name):
        known = [one for one in codec.schema.classes if one]
        told = f"one of {', '.join(known)}" if known else "none, as the model's schema names no class"
        raise SchemaError(name, f"expected {told}.{did_you_mean(name, known)}")
    return found.name


def _meets(wanted: Path, path: Path) -> bool:
    """Whether a path is at another, or below it; that may say any place of a list."""
    return wanted in (path[: len(wanted)], pattern(path)[: len(wanted)])


def chosen(
    codec: Codec,
    tokens: Tokens,
    readings: Sequence[Reading],
    misfits: Collection[Value],
    slots: Collection[int],
    limits: Mapping[str, int],
    texts_in_all: int | None,
    seed: int,
    reserved: Mapping[str, Collection[int]],
) -> Choice:
    """At most so many values of each property, by its kind, drawn from all that are known and from the misfits.

    Of texts at most so many of all properties together. Of an entity with `reserved` slots these alone.
    """
    own = tokens.free.cpu()
    owner = tokens.owner.cpu()
    there = set(zip(owner[own].tolist(), tokens.slot.cpu()[own].tolist(), strict=True))
    unread = {*misfits, *(_told(codec, readings) if tokens.unread else ())} - there
    by_property: dict[Property, list[Value]] = {}
    for value in sorted(there | unread):
        if value[1] in slots and value[1] in reserved.get(readings[value[0]].id, slots):
            by_property.setdefault(property_of(codec.slots[value[1]]), []).append(value)
    kept: list[Value] = []
    for key, values in by_property.items():
        most = limits[codec.slots[values[0][1]].kind]
        kept.extend(values if len(values) <= most else random.Random(f"{seed} {key}").sample(values, most))
    texts = [value for value in kept if codec.slots[value[1]].kind == "text"]
    if texts_in_all is not None and len(texts) > texts_in_all:
        left_out = set(random.Random(seed).sample(texts, len(texts) - texts_in_all))
        kept = [value for value in kept if value not in left_out]
    totals = {key: len(values) for key, values in by_property.items()}
    return Choice([one for one in kept if one in there], [one for one in kept if one in unread], totals)


def _told(codec: Codec, readings: Sequence[Reading]) -> Iterator[Value]:
    """Every value that entities have, whether it can be coded or not."""
    for entity, reading in enumerate(readings):
        for path in reading.leaves:
            slot = codec.slot(reading.of, path)
            if slot is not None:
                yield entity, slot


def questions(codec: Codec, values: Collection[Value], *, whole: bool = False) -> list[Question]:
    """One for each value; with `whole` for each composite, all parts of which are hidden at once."""
    hidden = hidden_with(codec, whole)
    asked: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for entity, slot in sorted(values):
        asked.setdefault((entity, hidden[slot]), []).append(slot)
    return [Question(entity, slots, tuple(own)) for (entity, slots), own in asked.items()]


def hidden_with(codec: Codec, whole: bool) -> list[tuple[int, ...]]:
    """(S) what is hidden with each slot, itself included."""
    units: dict[int, list[int]] = {}
    places: dict[Property, list[int]] = {}  # by where the length of a list stands
    for number, slot in enumerate(codec.slots):
        units.setdefault(slot.unit, []).append(number)
        for count, _ in counts_of(slot.path):
            places.setdefault((slot.of, count), []).append(number)
    if whole:
        return [tuple(units[slot.unit]) for slot in codec.slots]
    return [(number, *places.get((slot.of, slot.path), ())) for number, slot in enumerate(codec.slots)]


def posed(tokens: Tokens, several: Sequence[Question], size: int = CHUNK) -> Iterator[Posed]:
    """The questions in batches of some `size` tokens, those about the same property together, so that its experts are asked once.

    Those about small entities come first among these.
    """
    sizes = tokens.sizes.tolist()
    order = sorted(several, key=lambda one: (one.hidden, sizes[one.entity]))
    start = 0
    while start < len(order):
        end, room = start + 1, size - sizes[order[start].entity]
        while end < len(order) and room >= sizes[order[end].entity]:
            room -= sizes[order[end].entity]
            end += 1
        yield _posed(tokens, order[start:end])
        start = end


def _posed(tokens: Tokens, several: Sequence[Question]) -> Posed:
    batch = tokens.batch(torch.tensor([one.entity for one in several]))
    slots = len(tokens.layout.fixed)
    keys = batch.entity * slots + batch.slot  # (T,)

    def meant(each: Sequence[tuple[int, ...]]) -> Tensor:
        wanted = [number * slots + slot for number, own in enumerate(each) for slot in own]
        return torch.isin(keys, torch.tensor(wanted, device=keys.device)) & batch.known & ~batch.fixed

    return Posed(several, batch, meant([one.hidden for one in several]), meant([one.asked for one in several]))
