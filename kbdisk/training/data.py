"""What a run is trained on: entities split in two, the codec fitted to one side, both sides as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbdisk.data import Codec
from kbdisk.data.dataset import Tokens
from kbdisk.data.graph import Graph
from kbdisk.data.parse import read_all
from kbdisk.data.scales import with_scales
from kbdisk.data.superclasses import hierarchy_of
from kbdisk.entity import Entity, show
from kbdisk.errors import SchemaError
from kbdisk.schemas.schema import Schema
from kbdisk.training.reserve import without_reserved
from kbdisk.training.run import STACKED, Run
from kbdisk.training.splits import split

LEAST = 2  # entities that can be learnt from
SHOWN = 1000  # entities whose classes are told where none fits


@dataclass(frozen=True)
class Data:
    """Training and held-out entities, as a network sees them."""

    codec: Codec
    training: Tokens
    validation: Tokens
    whole: Tokens | None = None  # of training, with values that were reserved for judging experts; None: there are none

    @classmethod
    def prepare(cls, schema: Schema, entities: Sequence[Entity], run: Run, held_out: Sequence[Entity] = ()) -> Data:
        """Split, fit and encode; where others are `held_out` already, with ids of their own, nothing is split off.

        What is held out is no evidence for what is trained on, but the other way round.
        """
        readings = list(read_all(schema, entities))
        parts = split(schema, readings, 0 if held_out else run.train.validation, run.seed)
        if len(parts.training) < LEAST:
            raise SchemaError("the entities", _too_few(schema, entities, len(parts.training)))
        training, validation = ([readings[place] for place in side] for side in (parts.training, parts.validation))
        validation += read_all(schema, held_out)
        schema, training, validation = with_scales(schema, training, validation)
        known = Graph.read(schema, training)
        unseen = {id(readings[place].entity) for place in parts.validation}
        hierarchy = hierarchy_of(entity for entity in entities if id(entity) not in unseen)
        codec = Codec.fit(schema, training, run.codec, known, hierarchy).beside(validation)
        if all(slot.fixed for slot in codec.slots):
            raise SchemaError("the schema", _nothing_to_learn(codec))
        whole = codec.encode(training, graph=known)
        # Without links entities that are held out tell the same, and nothing need be kept from training.
        reserves = any(getattr(run, name).share for name in STACKED) and len(validation) and len(whole.needs)
        return cls(
            codec,
            without_reserved(whole, run.seed) if reserves else whole,
            codec.encode(validation, graph=Graph.read(schema, [*training, *validation])),
            whole if reserves else None,
        )


def _too_few(schema: Schema, entities: Sequence[Entity], found: int) -> str:
    classes = ", ".join(name or "no name" for name in schema.classes) or "none"
    met = ", ".join(dict.fromkeys(name for one in entities[:SHOWN] for name in one.classes)) or "none"
    of = f" Their classes are: {met}." if entities and not found else ""
    return f"expected at least {LEAST} of the schema's classes ({classes}), got {found} of {len(entities)}.{of}"


def _nothing_to_learn(codec: Codec) -> str:
    told = [f"{show(path)} ({why})" for (_, path), why in list(codec.left_out.items())[:3]]
    told += [f"{show(slot.path)} (role: {slot.role})" for slot in codec.slots if slot.role == "given"][:3]
    return f"expected a property that can be predicted, got {', '.join(told) or 'no property'}."
