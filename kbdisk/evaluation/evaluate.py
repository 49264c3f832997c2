"""How well each property is told from the others: known values are hidden in turn, asked for, and scored.

Everything else that the entity has is given: the paper's property prediction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kbdisk.data.graph import Graph
from kbdisk.entity import Entity
from kbdisk.evaluation.against import Rivals
from kbdisk.evaluation.exam import Exam, Scope, Told
from kbdisk.training.trained import Trained


def evaluate(
    trained: Trained,
    entities: Collection[Entity],
    graph: Graph | None = None,
    scope: Scope | None = None,
    *,
    given: float | None = None,
    against: Rivals | None = None,
    watch: Told | None = None,
    reserved: Mapping[str, Collection[int]] = MappingProxyType({}),
    seconds: float | None = None,
) -> list[dict[str, Any]]:
    """A row for each property, in the schema's order: see `scoring`.

    The graph is what links bring; without one, what these entities know of each other. `given` a share of its other
    properties, drawn, an entity shows no more than these. Rivals are asked the same: what each scores stands under
    `against` in a row. Of entities that the model was trained on only their `reserved` slots are asked for.
    Where the `seconds` end earlier, a random part of the values is asked for.
    """
    exam = Exam.of(trained, entities, graph, scope or Scope(), reserved)
    rows = exam.rows(list(exam.cases(given, watch, seconds)))
    return rows if against is None else against.joined(exam, rows, given)


@dataclass(frozen=True)
class Sides:
    """The entities of a source by what the model knows of them."""

    held_out: list[Entity]
    trained_on: list[Entity]
    new: list[Entity]  # that it never met
    strangers: list[Entity]  # that the schema has no class for

    @classmethod
    def of(cls, trained: Trained, entities: Collection[Entity], same: bool = True) -> Sides:
        """Sort entities by their ids, as the model's record has them.

        Where they are not of the `same` source, an id that is but a place in the source says nothing.
        """
        schema, record = trained.schema, trained.record
        held_out, known = set(record.validation), set(record.training)
        sides = cls([], [], [], [])
        for one in entities:
            if schema.class_of(one) is None:
                sides.strangers.append(one)
                continue
            id = schema.id_of(one)
            if not same and one.nameless and id == one.id:
                sides.new.append(one)
                continue
            (sides.held_out if id in held_out else sides.trained_on if id in known else sides.new).append(one)
        return sides

    @property
    def compared(self) -> list[Entity]:
        """Those that may be unlike what it was trained on: what it is asked about, and those of no class that it knows."""
        return [*self.fair, *self.strangers]

    @property
    def fair(self) -> list[Entity]:
        """Those that it was not trained on; where it was on all, these."""
        return [*self.held_out, *self.new] or self.trained_on


@dataclass(frozen=True)
class Summary:
    """All rows in one line."""

    properties: int  # whose constant is wrong at all
    better: int  # of them those that beat it
    ratio: float | None  # the mean of ours / constant
    nats: float | None  # how many fewer a value costs than by the constant belief, on average


def summary(rows: Collection[dict[str, Any]]) -> Summary:
    """How good a model is on the whole."""
    told = [row for row in rows if row["better"] is not None]
    nats = [(row["constant_nats"] - row["nats"], row["n"]) for row in rows if row["nats"] is not None]
    whole = sum(n for _, n in nats)
    return Summary(
        properties=len(told),
        better=sum(row["better"] > 0 for row in told),
        ratio=sum(1 - row["better"] for row in told) / len(told) if told else None,
        nats=sum(gain * n for gain, n in nats) / whole if whole else None,
    )
