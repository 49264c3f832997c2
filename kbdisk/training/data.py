"""The data of a run: the training and validation split, the fitted codec, and both sides encoded.

Of more entities than a time budget has time for, a sample of each class is learnt from. The others of the training side are evidence,
if there is time to read them.

S slots
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import numpy as np
from torch import Tensor

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.data.graph import Graph, has_links
from kbdisk.data.parse import Reading, Unlearnt, read_all
from kbdisk.data.propagation import ChainSearch
from kbdisk.data.scales import with_scales
from kbdisk.data.spool import Selection, Spool, selected, spooled_readings
from kbdisk.data.superclasses import hierarchy_of
from kbdisk.entity import Entity, show
from kbdisk.errors import SchemaError
from kbdisk.experts.base import Report, ignored
from kbdisk.schemas.schema import Schema
from kbdisk.training.reserve import without_reserved, without_slots
from kbdisk.training.run import Run
from kbdisk.training.split import sampled_entities, split
from kbdisk.training.trained import Trained

MIN_ENTITIES = 2  # entities of a training set
CHAIN_GROUPS_PER_SECOND = 120_000  # of a time budget: groups of far ends that chains of links are fitted to
VALUES_PER_SECOND = 4000  # of a time budget: values of entities that are learnt from and held out
MIN_VALUES_SAMPLED = 300_000  # that are learnt from in any case, if there are so many
READ_PER_SECOND = (
    10_000  # of a time budget: values up to which all entities of a source with links are read, as evidence
)
MAX_LINKED_VALUES = 1_000_000  # that are learnt from where others are not read: each node of the factorised links has a vector in memory
MIN_LEARNT = 1000  # entities, however many values each has
MAX_SAMPLE = 0.8  # of the entities; where there is time for more, all are learnt from
MAX_ENTITIES_NAMED = 1000  # entities whose classes an error names


@dataclass(frozen=True)
class Data:
    """The codec, and training and validation entities encoded with it."""

    codec: Codec
    training: Tokens
    validation: Tokens
    complete: Tokens | None = None  # training with its reserved values; None: none are reserved
    left_out: int = 0  # the number of entities that are neither learnt from nor held out
    unread: int = 0  # the number of these that are no evidence either, as the entities here are a part of the source

    @property
    def missing(self) -> int:
        """The number of values that the entities lack, of those that can be predicted; where some are left out, about.

        Each part of a property counts.
        """
        sides = (self.training if self.complete is None else self.complete, self.validation)
        return round(sum(int(tokens.lacks.sum()) for tokens in sides) * self._times_learnt(self.left_out))

    @property
    def times_read(self) -> float:
        """How many times as many entities the source has as are here."""
        return self._times_learnt(self.left_out) / self._times_learnt(self.left_out - self.unread)

    def _times_learnt(self, others: int) -> float:
        learnt = len(self.training) + len(self.validation)
        return (learnt + others) / max(learnt, 1)

    @property
    def held_out_values(self) -> Tensor:
        """(S,) the number of known values in each slot that no network and no expert learns from at first."""
        slots = len(self.codec.slots)
        held_out = self.validation.slot[self.validation.free].bincount(minlength=slots)
        if self.complete is None:
            return held_out
        reserved = self.complete.free & ~self.training.known
        return held_out + self.complete.slot[reserved].bincount(minlength=slots)

    @classmethod
    def prepare(
        cls,
        schema: Schema,
        entities: Sequence[Entity],
        run: Run,
        held_out: Sequence[Entity] = (),
        report: Report = ignored,
        readings: Sequence[Reading] | None = None,
        folder: FilePath | None = None,
    ) -> Data:
        """Split, fit and encode. With `held_out` entities, which have other ids, nothing is split off.

        `readings` are those of the entities by the schema, if the caller has them; `folder` is for files of encoded entities.
        Training entities are evidence for validation entities, but not the other way round.
        """
        readings = spooled_readings(schema, entities, folder) if readings is None else readings
        parts = split(schema, readings, 0 if held_out else run.train.validation, run.seed)
        learnt = parts.sampled(max_learnt(len(parts), parts.values, run), run.seed)
        if len(learnt.training) < MIN_ENTITIES:
            raise SchemaError("the entities", _too_few(schema, entities, len(learnt.training)))
        training: Sequence[Reading] = Selection(readings, parts.training)
        validation = selected(readings, learnt.validation, folder)
        if held_out:
            validation = [*validation, *read_all(schema, held_out)]
        unseen, finder = {reading.id for reading in validation}, Unlearnt(schema)
        hierarchy = hierarchy_of(entity for entity in finder.noting(entities) if schema.id_of(entity) not in unseen)
        for entity in held_out:
            finder.note(entity)
        schema, training, validation = with_scales(schema, training, validation, folder)
        known = Graph.read(schema, training)
        if len(learnt.training) < len(parts.training):
            training = selected(training, np.searchsorted(parts.training, learnt.training).tolist(), folder)
        chain_search = ChainSearch(
            None if run.train.seconds is None else int(CHAIN_GROUPS_PER_SECOND * run.train.seconds), report
        )
        codec = Codec.fit(schema, training, run.codec, known, hierarchy, chain_search, finder.noted)
        codec = codec.with_held_out(validation, finder.noted)
        if all(slot.fixed for slot in codec.slots):
            raise SchemaError("the schema", _nothing_to_learn(codec))
        complete = codec.encode(training, graph=known, folder=folder)
        # Without links held-out entities measure experts as well, and no values need be reserved.
        reserves = run.experts_share > 0 and len(validation) and len(complete.needs)
        known.add_all(validation)  # after the training entities are encoded
        return cls(
            codec,
            without_reserved(complete, run.seed) if reserves else complete,
            codec.encode(validation, graph=known, folder=folder),
            complete if reserves else None,
            left_out=len(parts) - len(learnt),
        )

    @classmethod
    def continuing(cls, start: Trained, entities: Sequence[Entity], folder: FilePath | None = None) -> Data:
        """Encode with the codec of a model of nearly the same entities. Its held-out entities and values stay held out."""
        codec = replace(start.codec, schema=replace(start.schema, rules=None))
        readings = spooled_readings(codec.schema, entities, folder)
        held_out = frozenset(start.record.validation)
        ids = [reading.id for reading in readings]
        training = Selection(readings, [place for place, id in enumerate(ids) if id not in held_out])
        validation = selected(readings, [place for place, id in enumerate(ids) if id in held_out], folder)
        codec = codec.with_held_out(validation)
        complete = codec.encode(training, graph=codec.graph(training), folder=folder)
        return cls(
            codec,
            without_slots(complete, start.reserved) if start.reserved else complete,
            codec.encode(validation, graph=codec.graph(readings), folder=folder),
            complete if start.reserved else None,
        )


def part_with_time_for(schema: Schema, entities: Sequence[Entity], run: Run) -> tuple[list[int], int] | None:
    """The places of the entities that a run has time to read and to learn from, and how many others there are; None: all.

    The others are no evidence either. Where there is time, all entities of a source with links are read, as they are evidence.
    """
    seconds = run.train.seconds
    if seconds is None or not isinstance(entities, Spool):
        return None
    is_linked = has_links(schema)

    def most(count: int, values: int) -> int:
        if is_linked and values <= READ_PER_SECOND * seconds:
            return count
        return max_learnt(count, values, run, MAX_LINKED_VALUES if is_linked else math.inf)

    return sampled_entities(schema, entities, most, run.seed)


def max_learnt(count: int, values: int, run: Run, most: float = math.inf) -> int:
    """Of so many entities with so many values, those that a run learns from and holds out: all, where a budget leaves few of them out.

    They have at most so many values, unless the run says how many entities they are.
    """
    if run.train.entities is not None or run.train.seconds is None:
        return run.train.entities or count
    share = min(max(VALUES_PER_SECOND * run.train.seconds, MIN_VALUES_SAMPLED), most) / max(values, 1)
    return count if share > MAX_SAMPLE else max(int(share * count), MIN_LEARNT)


def _too_few(schema: Schema, entities: Sequence[Entity], usable: int) -> str:
    classes = ", ".join(name or "no name" for name in schema.classes) or "none"
    seen = (
        ", ".join(dict.fromkeys(name for entity in entities[:MAX_ENTITIES_NAMED] for name in entity.classes)) or "none"
    )
    advice = f" Their classes are: {seen}." if entities and not usable else ""
    return f"expected at least {MIN_ENTITIES} of the schema's classes ({classes}), got {usable} of {len(entities)}.{advice}"


def _nothing_to_learn(codec: Codec) -> str:
    fixed = [f"{show(path)} ({why})" for (_, path), why in list(codec.left_out.items())[:3]]
    fixed += [f"{show(slot.path)} (role: {slot.role})" for slot in codec.slots if slot.role == "given"][:3]
    return f"expected a property that can be predicted, got {', '.join(fixed) or 'no property'}."
