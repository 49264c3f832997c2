"""Trees of presence: which entities have a property at all, beside networks that have had no time to learn."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import safetensors.torch
import torch
from models import tiny_run
from villages import SCHEMA, world

from kbdisk import Model
from kbdisk.api.train import presence_trees_of, train
from kbdisk.completion.config import CompletionConfig
from kbdisk.completion.fields import fields_of
from kbdisk.completion.predict import leading_slots
from kbdisk.data import Codec
from kbdisk.data.graph import Graph
from kbdisk.data.parse import read_all
from kbdisk.entity import Entity, show
from kbdisk.experts import presence_trees, serialize
from kbdisk.experts.config import PresenceTreesConfig
from kbdisk.experts.examples import evidence_over
from kbdisk.experts.presence_trees import PresenceTrees, weight_of_trees
from kbdisk.schemas.composites import Date
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training.run import Run

CPU = torch.device("cpu")
LEAVES = {"kind": Category(), "size": Number(), "spouse": Category(), "coin": Category(), "born": Date()}
SHARE = 0.6  # of entities that have a coin


def things(n: int = 300) -> tuple[Schema, list[Entity]]:
    """Persons alone have a spouse, always the same; a coin is there at random."""
    rng, known = random.Random(0), []
    for number in range(n):
        tree = {"kind": rng.choice(["person", "island", "town"]), "size": rng.randrange(50)}
        if tree["kind"] == "person":
            tree["spouse"] = "yes"
        if rng.random() < SHARE:
            tree["coin"] = rng.choice(["head", "tail"])
        if rng.random() < 0.5:
            tree["born"] = f"{rng.randrange(1900, 2000)}-{rng.randrange(1, 13):02}"
        known.append(Entity(f"t{number}", tree))
    return of_one_class({(name,): Property(kind) for name, kind in LEAVES.items()}), known


def run(**choices) -> Run:
    trees = PresenceTreesConfig(share=0.1)
    return tiny_run(**{"steps": 5, "batch": 64, "validation": 0.3, **choices}).with_experts(presence_trees=trees)


@pytest.fixture(scope="module")
def model() -> Model:
    schema, known = things()
    return train(known, schema, run=run(), device="cpu")


def fitted(schema: Schema, known: list[Entity], **options) -> tuple[Codec, PresenceTrees | None]:
    codec = Codec.fit(schema, known)
    leading = leading_slots(fields_of(codec, CompletionConfig(fill="all")), codec.slots)
    config = options.pop("config", PresenceTreesConfig(share=0.1))
    return codec, presence_trees.fit(codec, codec.encode(known), leading, config=config, seed=0, **options)


def presence_of(codec: Codec, trees: PresenceTrees, known: list[Entity], name: str) -> list[float]:
    """By the trees alone, with the property hidden where it is there."""
    slot = codec.slot("", (name,))
    batch = codec.encode(known, [(name,)]).batch(torch.arange(len(known)))
    tokens = (batch.slot == slot).nonzero()[:, 0]
    odds = trees.log_odds(batch, batch.known & (batch.slot != slot), tokens).sigmoid()
    return odds[batch.entity[tokens].argsort()].tolist()


def test_the_kind_of_an_entity_tells_which_property_it_has(model):
    _, known = things()
    held_out = set(model.record.validation)
    for entity in [*known[:40], *(entity for entity in known if entity.id in held_out)]:
        presence = model.belief(entity, "spouse").recorded
        assert presence > 0.9 if "spouse" in entity.tree else presence < 0.1


def test_what_completing_writes_has_the_same_presence_as_why_tells(model):
    _, known = things()
    lacking = next(entity for entity in known if entity.tree["kind"] == "person")
    tree = {name: value for name, value in lacking.tree.items() if name != "spouse"}
    [completion] = model.complete([Entity("new", tree)], fill="all")
    presence = model.why(Entity("new", tree), "spouse").presence
    assert completion.filled["spouse",].belief.presence == pytest.approx(presence, abs=1e-4)
    assert presence > 0.9
    assert model.why(Entity("other", tree | {"kind": "town"}), "spouse").presence < 0.1


def test_of_what_is_there_at_random_known_entities_have_the_share():
    schema, known = things()
    codec, trees = fitted(schema, known)
    presence = presence_of(codec, trees, known, "coin")
    assert abs(sum(presence) / len(presence) - SHARE) < 3 * (SHARE * (1 - SHARE) / len(known)) ** 0.5
    assert min(presence) > 0.2
    assert max(presence) < 0.95


def test_an_entity_that_was_learnt_from_does_not_tell_its_own_presence():
    rng, known = random.Random(4), []
    for number in range(600):
        tree: dict = {name: rng.random() for name in "abcdef"}
        tree["kind"] = rng.choice(["person", "island"])
        if rng.random() < (0.85 if tree["kind"] == "person" else 0.15):
            tree["coin"] = "head"
        known.append(Entity(f"t{number}", tree))
    numbers = {(name,): Property(Number()) for name in "abcdef"}
    schema = of_one_class(numbers | {("kind",): Property(Category()), ("coin",): Property(Category())})
    codec, trees = fitted(schema, known)
    presence = presence_of(codec, trees, known, "coin")
    sides: dict[bool, list[float]] = {True: [], False: []}
    for entity, chance in zip(known, presence, strict=True):
        if entity.tree["kind"] == "person":
            sides["coin" in entity.tree].append(chance)
    having, lacking = (torch.tensor(sides[side]) for side in (True, False))
    error = (having.var() / len(having) + lacking.var() / len(lacking)).sqrt()
    assert having.mean() - lacking.mean() < 3 * error


def test_parts_of_a_property_do_not_tell_that_it_is_there():
    schema, known = things()
    codec, trees = fitted(schema, known)
    parts = [slot for slot, one in enumerate(codec.slots) if one.path[:1] == ("born",)]
    assert len(parts) > 1
    [place] = [place for place, slot in enumerate(trees.slots.tolist()) if slot in parts]
    used = trees.column[place][trees.border[place] < torch.inf]
    assert not torch.isin(trees.features.slot[used], torch.tensor(parts)).any()


def test_what_lacks_together_is_taken_for_a_fact():
    rng, known = random.Random(1), []
    for number in range(400):
        tree = {"kind": (kind := rng.choice("ab")), "size": rng.randrange(9)}
        if rng.random() < (0.9 if kind == "a" else 0.1):
            tree |= {"population": rng.randrange(9), "census": rng.randrange(9)}
        known.append(Entity(f"t{number}", tree))
    schema = of_one_class({(name,): Property(Number()) for name in ("size", "population", "census")} | {("kind",): Property(Category())})  # fmt: skip
    codec, trees = fitted(schema, known)
    fresh = [Entity("n0", {"kind": "a", "size": 4}), Entity("n1", {"kind": "a", "size": 4, "census": 5})]
    without_census, with_census = presence_of(codec, trees, fresh, "population")
    assert without_census < 0.2
    assert with_census > 0.8


def test_what_comes_over_a_link_does_not_tell_that_the_link_is_there():
    rng = random.Random(2)
    known = [Entity(f"o{n}", {"n": n}) for n in range(5)]
    for number in range(200):
        link = {"at": {"@id": f"o{rng.randrange(5)}"}} if rng.random() < 0.5 else {}
        known.append(Entity(f"t{number}", {"n": rng.randrange(9), **link}))
    schema = of_one_class({("n",): Property(Number()), ("at",): Property(LinkKind())})
    codec, trees = fitted(schema, known)
    presence = presence_of(codec, trees, known[5:], "at")
    assert min(presence) > 0.15
    assert max(presence) < 0.85


def test_a_number_that_is_propagated_over_a_link_is_no_feature_of_its_presence():
    rng, known = random.Random(3), []
    for entity in world():
        lacks = {"county"} if "county" in entity.tree and rng.random() < 0.5 else set()
        lacks |= {"people"} if rng.random() < 0.3 else set()
        known.append(replace(entity, tree={name: value for name, value in entity.tree.items() if name not in lacks}))
    codec, trees = fitted(SCHEMA, known)
    tokens = codec.encode(known)
    [county] = [number for number, slot in enumerate(codec.slots) if slot.path == ("county",)]
    hidden = evidence_over(tokens, torch.arange(len(tokens)))[county]
    names = {show(codec.slots[slot].path) for slot in hidden.tolist()}
    assert any(name.startswith("~propagated") for name in names)
    place = trees.slots.tolist().index(county)
    split = trees.border[place].isfinite()
    assert split.any()
    assert not torch.isin(trees.features.slot[trees.column[place][split]], hidden).any()


def test_an_opened_model_has_the_same_presence(model, tmp_path):
    _, known = things()
    trained = model.trained
    save(trained, tmp_path / "m.kbdisk")
    again = Model(open_folder(tmp_path / "m.kbdisk", CPU))
    for entity in known[:10]:
        assert again.belief(entity, "spouse").recorded == model.belief(entity, "spouse").recorded
    assert "presence_trees.safetensors" in {file.name for file in (tmp_path / "m.kbdisk").iterdir()}
    card = (tmp_path / "m.kbdisk" / "README.md").read_text()
    assert f"| trees of presence | for {len(trained.presence_trees)} properties |" in card


@pytest.mark.parametrize("name", ["column", "leaves", "border", "start", "weight", "slots", "entities", "classes"])
def test_trees_that_do_not_fit_are_refused(model, tmp_path, name):
    trees = model.trained.presence_trees
    tensors = safetensors.torch.load(serialize.to_bytes(serialize.PRESENCE_TREES, trees))
    key = name if name in tensors else f"{int(trees.slots[0])}.0.{name}"
    broken = {
        "leaves": lambda tensor: tensor[:, :, :3],
        "border": lambda tensor: tensor[:, :2],
        "start": lambda tensor: tensor + torch.inf,
        "slots": lambda tensor: torch.tensor([10_000]),
        "entities": lambda tensor: tensor.flip(0),
        "classes": lambda tensor: torch.tensor([7]),
    }
    tensors[key] = broken.get(name, lambda tensor: tensor + 10_000)(tensors[key]).contiguous()
    (tmp_path / "trees.safetensors").write_bytes(safetensors.torch.save(tensors))
    with pytest.raises(ValueError, match=r"."):
        serialize.read(serialize.PRESENCE_TREES, tmp_path / "trees.safetensors", model.trained.codec, CPU)


def test_trees_have_a_weight_as_far_as_they_lower_the_log_loss():
    generator = torch.Generator().manual_seed(0)
    truth = (torch.rand(500, generator=generator) < 0.5).double()
    weights, noise = torch.ones(500), torch.randn(500, generator=generator)
    right = 3 * (2 * truth - 1) + noise
    assert weight_of_trees(noise, right, truth, weights) > 0.7
    assert weight_of_trees(right, noise, truth, weights) < 0.1
    assert weight_of_trees(torch.zeros(500), noise, truth, weights) == 0
    assert weight_of_trees(noise[:0], noise[:0], truth[:0], weights[:0]) == 0


def test_trees_without_a_weight_are_no_part_of_the_model():
    rng = random.Random(3)
    known = [Entity(f"t{n}", {"x": rng.random(), **({"coin": "head"} if rng.random() < 0.5 else {})}) for n in range(200)]  # fmt: skip
    schema = of_one_class({("x",): Property(Number()), ("coin",): Property(Category())})
    assert train(known, schema, run=run(), device="cpu").trained.presence_trees is None


def test_without_time_presence_is_that_of_the_network(model):
    _, known = things()
    graph = Graph(model.schema)
    readings = list(read_all(model.schema, known))
    assert presence_trees_of(model.trained, readings, graph, run(), 1e-3, lambda done, total: None) is None
    network = Model(model.trained.with_experts(presence_trees=None))
    assert 0.1 < network.belief(known[0], "spouse").recorded < 0.9


def test_time_goes_to_the_properties_that_most_entities_have(monkeypatch):
    schema, known = things()
    clock = iter(range(100))
    monkeypatch.setattr(presence_trees.time, "monotonic", lambda: next(clock))
    codec, trees = fitted(schema, known, seconds=3)
    assert [codec.slots[slot].path for slot in trees.slots.tolist()] == [("coin",)]


def test_the_same_seed_grows_the_same_trees():
    schema, known = things(120)
    (_, one), (_, other) = fitted(schema, known), fitted(schema, known)
    assert torch.equal(one.leaves, other.leaves)
    assert torch.equal(one.column, other.column)


def test_only_properties_that_enough_entities_have_and_lack_have_trees():
    schema, known = things(120)
    for entity in known[:115]:
        entity.tree["coin"] = "head"
    codec, trees = fitted(schema, known)
    paths = {codec.slots[slot].path[0] for slot in trees.slots.tolist()}
    assert paths == {"spouse", "born"}


def test_a_feature_that_varies_in_one_half_alone_is_no_feature():
    """Else a booster would have nothing but constants, which CatBoost refuses."""
    known = [Entity(f"t{n}", {"a": 1.0} if n % 4 < 2 else {}) for n in range(80)]
    known[0] = Entity("t0", {"a": 1.0, "b": 3.0})
    schema = of_one_class({("a",): Property(Number()), ("b",): Property(Number())})
    _, trees = fitted(schema, known)
    assert trees is None


@pytest.mark.parametrize("wrong", [{"share": 1.0}, {"share": -0.1}, {"entities": 0}, {"columns": 0}, {"screened": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PresenceTreesConfig(**wrong)
