"""What a run is trained on: entities split in two, the codec fitted to one side, both sides as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbdisk.codec import Codec
from kbdisk.entity import Entity
from kbdisk.graph import Graph
from kbdisk.schemas.schema import Schema
from kbdisk.tokens import Tokens
from kbdisk.training.run import Run
from kbdisk.training.splits import split

LEAST = 2  # entities that can be learnt from


@dataclass(frozen=True)
class Data:
    """Training and held-out entities, as a network sees them."""

    codec: Codec
    training: Tokens
    validation: Tokens

    @classmethod
    def prepare(cls, schema: Schema, entities: Sequence[Entity], run: Run) -> Data:
        """Split, fit and encode. What is held out is no evidence for what is trained on, but the other way round."""
        parts = split(schema, entities, run.train.validation, run.seed)
        if len(parts.training) < LEAST:
            raise ValueError(f"expected at least {LEAST} entities of the schema's classes, got {len(parts.training)}")
        training, validation = ([entities[place] for place in side] for side in (parts.training, parts.validation))
        known = Graph.read(schema, training)
        codec = Codec.fit(schema, training, run.codec, known)
        return cls(
            codec,
            codec.encode(training, graph=known),
            codec.encode(validation, graph=Graph.read(schema, [*training, *validation])),
        )
