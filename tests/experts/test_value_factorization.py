"""Labels and links by the factorisation of what tokens say: an expert of the stack."""

from __future__ import annotations

import random

import guided
import pytest
import safetensors.torch
import torch
from guided import held_out
from models import tiny_run
from tables import for_each

from kbdisk.data.graph import Graph
from kbdisk.entity import Entity, Link
from kbdisk.experts import serialize
from kbdisk.experts.base import Sides
from kbdisk.experts.config import LinkFactorizationConfig
from kbdisk.experts.value_factorization import FactorFeatures, TripleSides
from kbdisk.schemas.kinds import Category, Number, Set
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training.data import Data
from kbdisk.training.train import train
from kbdisk.training.trained import Trained

CPU = torch.device("cpu")
NAME = "value_factorization"
CONFIG = LinkFactorizationConfig(share=0.5, rank=16, max_scored=64, queries=50)
RUN = tiny_run(steps=5, batch=64, validation=0.3).with_experts(value_factorization=CONFIG)
PLACES = 24
SCHEMA = Schema(
    {
        "Person": Class(
            "Person",
            {
                ("town",): Property(LinkKind("Town")),
                ("land",): Property(LinkKind("")),
                ("tongues",): Property(Set(LinkKind(""))),
                ("trade",): Property(Category()),
                ("year",): Property(Number()),
            },
        ),
        "Town": Class("Town", {("mayor",): Property(LinkKind("Person")), ("people",): Property(Number())}),
    }
)


def people(n: int = 300) -> list[Entity]:
    """The town determines the land and the language, the trade nothing."""
    draw, entities = random.Random(0), []
    for number in range(n):
        place = draw.randrange(PLACES)
        tree = {
            "town": Link(f"town{place}"),
            "land": Link(f"land{place // 4}"),
            "tongues": [Link(f"tongue{place // 8}"), *([Link("latin")] if number % 3 else [])],
            "trade": f"trade {draw.randrange(3)}",
            "year": 1900 + 10 * (place // 4) + draw.random(),
        }
        if number % 5 == 0:
            del tree["land"]
        entities.append(Entity(f"p{number}", tree, ("Person",)))
    towns = [Entity(f"town{place}", {"people": 1000 + place}, ("Town",)) for place in range(PLACES)]
    return [*entities, *towns]


@pytest.fixture(scope="module")
def model() -> Trained:
    return train(SCHEMA, people(), RUN, CPU, lambda progress: None)


def nats(model: Trained, believer, name: str) -> float:
    """Of the held-out values of a property, each hidden with all else visible."""
    return guided.nats(believer, *held_out(model, people(), name))


def test_it_predicts_links_and_sets_that_networks_have_not_learnt(model):
    for name in ("land", "tongues"):
        assert nats(model, model.full_model, name) < nats(model, model.network, name) - 0.3
    assert {model.codec.slots[slot].path for slot in model.experts[NAME].slots} >= {("land",), ("tongues",)}


def placed(model: Trained, tree: dict, hidden: tuple[str, ...]) -> torch.Tensor:
    """The vector of a person, with some properties hidden."""
    tokens = model.encode([Entity("new", tree, ("Person",))], graph=Graph.read(SCHEMA, people()))
    batch = tokens.batch(torch.zeros(1, dtype=torch.long))
    is_hidden = torch.tensor([model.codec.slots[slot].path[0] in hidden for slot in batch.slot.tolist()])
    features = model.experts[NAME].featurizer
    return features.table(batch, batch.seen(batch.known & ~(is_hidden & ~batch.fixed)))[0]


def test_a_hidden_value_does_not_place_its_entity(model):
    tree = people()[1].tree
    same = placed(model, tree, ("land",))
    for other in ("land0", "land5"):
        assert torch.equal(placed(model, {**tree, "land": Link(other)}, ("land",)), same)
    assert not torch.equal(placed(model, tree, ()), same)


def test_what_says_the_same_as_a_reserved_link_is_not_learnt():
    """Of mayors and their towns, each said in both directions, either is reserved with the other."""
    entities = []
    for number in range(200):
        entities.append(Entity(f"m{number}", {"town": Link(f"t{number}"), "trade": f"trade {number % 3}"}, ("Person",)))
        entities.append(Entity(f"t{number}", {"mayor": Link(f"m{number}"), "people": number}, ("Town",)))
    data = Data.prepare(SCHEMA, entities, RUN)
    assert data.complete is not None
    triples = TripleSides.of(data.codec, Sides(data.training, data.validation, data.complete))
    pairs = {frozenset((head, tail)) for head, _, tail in triples.training.links.tolist()}
    ids = triples.complete.entities
    reserved = (data.complete.free & ~data.training.known).nonzero()[:, 0]
    links = [
        data.complete.ids[data.complete.owner[token]]
        for token in reserved.tolist()
        if data.codec.slots[int(data.complete.slot[token])].path in {("town",), ("mayor",)}
    ]
    assert links
    number = {id: place for place, id in enumerate(ids)}
    for id in links:
        other = ("t" if id[0] == "m" else "m") + id[1:]
        assert frozenset((number[id], number[other])) not in pairs


def test_entities_are_placed_alike_one_by_one_and_together(model):
    tokens = model.encode(people()[:40], graph=Graph.read(SCHEMA, people()))
    features: FactorFeatures = model.experts[NAME].featurizer
    whole = tokens.batch(torch.arange(40))
    together = features.table(whole, whole.known)
    for place in (0, 7, 39):
        batch = tokens.batch(torch.tensor([place]))
        assert torch.allclose(features.table(batch, batch.known)[0], together[place], atol=1e-4)


def test_an_opened_model_has_the_same_beliefs(model, tmp_path):
    save(model, tmp_path / "model")
    again = open_folder(tmp_path / "model", CPU)
    assert again.experts.keys() == model.experts.keys()
    assert again.experts_before_refit.keys() == model.experts_before_refit.keys()
    for name in ("land", "tongues"):
        assert nats(again, again.full_model, name) == nats(model, model.full_model, name)


@for_each("name", ["nodes", "relations", "link_candidates"])
def test_a_file_that_makes_no_sense_is_refused(name, model, tmp_path):
    save(model, tmp_path / "model")
    file = tmp_path / "model" / f"{NAME}.safetensors"
    tensors = safetensors.torch.load_file(file)
    tensors[name] = tensors[name] + 99_999 if name == "link_candidates" else tensors[name][1:].contiguous()
    safetensors.torch.save_file(tensors, file)
    with pytest.raises(ValueError, match=r"candidates|nodes"):
        serialize.read(serialize.VALUE_FACTORIZATION, file, model.codec, CPU)


def test_numbers_alone_leave_it_no_time():
    schema = of_one_class({("x",): Property(Number()), ("y",): Property(Number())})
    entities = [Entity(f"e{number}", {"x": number, "y": 2 * number}) for number in range(60)]
    assert train(schema, entities, RUN, CPU, lambda progress: None).run.experts[NAME].share == 0
