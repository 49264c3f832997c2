"""A small knowledge base with every kind of value, of two classes that link to each other; a model of it."""

from __future__ import annotations

import pytest
import torch

from kbdisk.data import Codec, CodecConfig
from kbdisk.entity import Entity, Link
from kbdisk.model.network import DiSK, ModelConfig
from kbdisk.schemas.kinds import Boolean, Category, Number, Set, Text
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

CITY = {
    ("name",): Property(Text(max_length=30)),
    ("population",): Property(Number(integer=True, minimum=0)),
    ("height", "metres"): Property(Number()),
    ("country",): Property(LinkLeaf("Country")),
    ("port",): Property(Boolean()),
}
COUNTRY = {
    ("name",): Property(Text(max_length=30)),
    ("area",): Property(Number()),
    ("continent",): Property(Category()),
    ("capital",): Property(LinkLeaf("City")),
    ("languages",): Property(Set(Category())),
}
SCHEMA = Schema({"City": Class("City", CITY), "Country": Class("Country", COUNTRY)})
COUNTRIES = ["Austria", "Belgium", "Chile", "Denmark", "Egypt", "France", "Ghana", "Haiti"]


def knowledge() -> list[Entity]:
    """Eight countries and their capitals, each with something missing."""
    entities = []
    for place, name in enumerate(COUNTRIES):
        country = {
            "name": name,
            "area": 1000.5 * (place + 1),
            "continent": ["Europe", "Africa", "America"][place % 3],
            "capital": Link(f"city{place}"),
            "languages": ["one", "two", "three"][: place % 4],
        }
        city = {
            "name": f"{name} City",
            "population": 10_000 * place + 7,
            "height": {"metres": 12.5 * place},
            "country": Link(f"country{place}"),
            "port": place % 2 == 0,
        }
        for tree in (country, city):
            tree.pop([*tree][place % 5])
        entities.append(Entity(f"country{place}", country, classes=("Country",)))
        entities.append(Entity(f"city{place}", city, classes=("City",)))
    return entities


@pytest.fixture(scope="session")
def entities() -> list[Entity]:
    return knowledge()


def made(schema: Schema, entities: list[Entity], sharing: str = "disjoint", **sizes) -> tuple[Codec, DiSK]:
    """A codec and an untrained model, the same each time."""
    codec = Codec.fit(schema, entities, CodecConfig(sharing=sharing))
    torch.manual_seed(0)
    model = DiSK(codec, ModelConfig(**{"width": 16, "heads": 2, "dropout": 0.0, **sizes}))
    return codec, model.eval()


@pytest.fixture(params=["disjoint", "tied"])
def learnt(request, entities) -> tuple[Codec, DiSK]:
    return made(SCHEMA, entities, request.param)


@pytest.fixture
def one_thread():
    """One thread: small tensors are slower with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
