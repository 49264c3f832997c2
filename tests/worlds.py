"""Two small knowledge bases that tests of the codec share: phones and their makers, countries and their cities.

`from worlds import phones, PHONES, world, WORLD`
"""

from __future__ import annotations

import random

from kbdisk.entity import Date, Entity, Link, Quantity
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.kinds import Boolean, Category, Number, Set, Text
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

PHONES = Schema(
    {
        "Phone": Class(
            "Phone",
            {
                ("oem",): Property(Category()),
                ("model",): Property(Text()),
                ("weight",): Property(QuantityKind("g", {"oz": None})),
                ("launch",): Property(DateKind()),
                ("body", "height"): Property(Number(decimals=1), required=True),
                ("body", "folds"): Property(Boolean()),
                ("cameras",): Property(Listed({"aperture": Number(), "kind": Category()})),
                ("colours",): Property(Set(Category())),
                ("row",): Property(Number(integer=True), role="given"),
                ("note",): Property(Text(), role="ignore"),
                ("never",): Property(Category()),
            },
        ),
        "Maker": Class(
            "Maker",
            {
                ("name",): Property(Text()),
                ("founded",): Property(Number(integer=True)),
                ("country",): Property(Category()),
            },
        ),
    }
)

WORLD = Schema(
    {
        "Country": Class(
            "Country",
            {
                ("capital",): Property(LinkLeaf("City")),
                ("cities",): Property(Set(LinkLeaf("City"))),
                ("continent",): Property(Category()),
                ("population",): Property(Number(integer=True)),
            },
        ),
        "City": Class(
            "City",
            {
                ("country",): Property(LinkLeaf("Country")),
                ("twin",): Property(LinkLeaf("City")),
                ("founded",): Property(DateKind(parts=("year",))),
                ("motto",): Property(Text()),
                ("population",): Property(Number(integer=True)),
            },
        ),
    }
)


def phones(count: int = 40) -> list[Entity]:
    """Phones, each with some of what phones have, and three makers."""
    draw = random.Random(7)
    found = []
    for number in range(count):
        tree = {
            "oem": draw.choice(["Nokia", "Samsung", "Apple"]),
            "model": f"{draw.choice(['Galaxy', 'Lumia', 'iPhone'])} {number}",
            "weight": Quantity(draw.randint(80, 250), draw.choice(["g", "g", "oz"])),
            "launch": Date(draw.randint(1998, 2020), draw.randint(1, 12), draw.randint(1, 28)),
            "body": {"height": draw.randint(1000, 1700) / 10, "folds": draw.random() < 0.2},
            "cameras": [{"aperture": draw.choice([1.8, 2.2]), "kind": "wide"} for _ in range(draw.randint(0, 3))],
            "colours": sorted(draw.sample(["red", "blue", "black"], draw.randint(0, 3))),
            "row": number,
            "note": "seen",
        }
        kept = {key: value for key, value in tree.items() if draw.random() < 0.8}
        found.append(Entity(f"phone{number}", kept, ("Phone",)))
    makers = [("Nokia", 1865, "FI"), ("Samsung", 1938, "KR"), ("Apple", 1976, "US")]
    return found + [
        Entity(name, {"name": name, "founded": founded, "country": country}, ("Maker",))
        for name, founded, country in makers
    ]


def world() -> list[Entity]:
    """Three countries and five cities; lyon is told of by its country alone, and osaka by nobody."""
    return [
        country("france", "Europe", "paris", 67_000_000, ["paris", "lyon"]),
        country("japan", "Asia", "tokyo", 125_000_000),
        country("kenya", "Africa", "nairobi", 53_000_000, ["nairobi"]),
        city("paris", "france", -250, "Fluctuat nec mergitur", 2_100_000, twin="tokyo"),
        city("tokyo", "japan", 1457, None, 14_000_000),
        city("nairobi", "kenya", 1899, "The green city in the sun", 4_400_000),
        city("lyon", None, -43, "Avant, avant, lion le melhor", 520_000),
        city("osaka", None, None, None, 2_700_000),
    ]


def country(id, continent, capital, population, cities=()) -> Entity:
    tree = {"continent": continent, "capital": Link(capital), "population": population}
    return Entity(id, tree | ({"cities": [Link(one) for one in cities]} if cities else {}), ("Country",), id.title())


def city(id, country, founded, motto, population, twin=None) -> Entity:
    tree = {
        "country": country and Link(country),
        "founded": founded and Date(founded),
        "motto": motto,
        "population": population,
        "twin": twin and Link(twin),
    }
    return Entity(id, {key: value for key, value in tree.items() if value is not None}, ("City",), id.title())
