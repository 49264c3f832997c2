"""Villages, counties and rivers whose numbers go along with those of their neighbours."""

from __future__ import annotations

import random

from kbdisk.entity import Entity, Link
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Number, Set
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

SCHEMA = Schema(
    {
        "Village": Class(
            "Village",
            {
                ("county",): Property(LinkLeaf("County")),
                ("east",): Property(Number(minimum=0)),
                ("people",): Property(Number(integer=True, minimum=0)),
                ("noise",): Property(Number()),
            },
        ),
        "County": Class("County", {("neighbours",): Property(Set(LinkLeaf("County"))), ("east",): Property(Number())}),
        "River": Class("River", {("through",): Property(Set(LinkLeaf("Village"))), ("people",): Property(Number())}),
    }
)
COUNTIES, VILLAGES = 60, 4  # villages of a county
OFFSET = 7.0  # of counties to their villages


def world() -> list[Entity]:
    """Counties in a row, each a step further east; a third of them have no number. Sizes are alike along rivers."""
    draw = random.Random(0)
    entities = []
    for i in range(COUNTIES):
        near = [Link(f"c{i + step}") for step in (-1, 1) if 0 <= i + step < COUNTIES]
        tree = {"neighbours": near} | ({} if i % 3 == 0 else {"east": 100.0 * i})
        entities.append(Entity(f"c{i}", tree, ("County",)))
        for j in range(VILLAGES):
            east = 100 * i + OFFSET + draw.uniform(0, 1)
            tree = {"county": Link(f"c{i}"), "east": east, "noise": draw.random()}
            tree["people"] = round(2 ** (2 * (i // 5) + draw.uniform(0, 1)))
            entities.append(Entity(f"v{i}.{j}", tree, ("Village",)))
    for k in range(COUNTIES // 5):
        villages = [Link(f"v{i}.{j}") for i in range(5 * k, 5 * k + 5) for j in range(VILLAGES)]
        entities.append(Entity(f"r{k}", {"through": villages}, ("River",)))
    return entities
