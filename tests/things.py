"""A world of things with every kind of property, and knowledge of it: `from things import entities, schema, thing`."""

from __future__ import annotations

import random

from kbdisk.entity import Entity
from kbdisk.loaders import load
from kbdisk.schemas.composites import Coordinate, Date, Listed, Mapped, Quantity
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class

COUNT = 80


def schema() -> Schema:
    listed = Listed({"kind": Category(), "length": Quantity(unit="mm", value=Number(minimum=0)), "note": Text()})
    return of_one_class(
        {
            ("id",): Property(Text(), role="ignore"),
            ("name",): Property(Text(max_length=20)),
            ("size",): Property(Number(minimum=0, maximum=100)),
            ("rank",): Property(Number(integer=True), unique=True),
            ("area",): Property(Number(decimals=1), formula=Formula.read("size ** 2")),
            ("mass",): Property(Quantity(unit="g", factors={"kg": 1000.0})),
            ("born",): Property(Date(minimum=1900, maximum=2000), required=True),
            ("at",): Property(Coordinate()),
            ("colour",): Property(Category(("red", "green", "blue"), closed=True)),
            ("code",): Property(Category()),
            ("new",): Property(Boolean()),
            ("tags",): Property(Set(Category())),
            ("parts",): Property(listed),
            ("prices",): Property(Mapped({"": Number(minimum=0)}, key=Category())),
            ("near",): Property(Link()),
            ("weather",): Property(Category(), role="given"),
            ("rare",): Property(Number()),
        }
    )


def thing(i: int) -> dict:
    rng = random.Random(i)
    size = round(rng.uniform(1, 50), 1)
    return {
        "id": f"t{i}",
        "name": f"Thing {i}",
        "size": size,
        "rank": i,
        "area": round(size**2, 1),
        "mass": {"value": round(10 * size), "unit": "g"} if i % 3 else {"value": round(size / 100, 3), "unit": "kg"},
        "born": {"year": 1900 + i, "month": 1 + i % 12, "day": 1 + i % 28},
        "at": {"lat": round(rng.uniform(-60, 60), 2), "lon": round(rng.uniform(-180, 180), 2)},
        "colour": ["red", "green", "blue"][i % 3],
        "code": f"X{i}",
        "new": i > 40,
        "tags": rng.sample(["a", "b", "c"], 1 + i % 3),
        "parts": [{"kind": "wheel" if i % 2 else "leg", "length": 5.0 + j} for j in range(1 + i % 3)],
        "prices": dict.fromkeys(("EUR", "USD")[: 1 + i % 2], 2.5 * i),
        "near": f"t{i % 5}",
        "weather": "fine" if i % 2 else "bad",
        **({"rare": i} if i < 10 else {}),
    }


def entities(*trees: dict) -> list[Entity]:
    return list(load([dict(tree) for tree in trees]))
