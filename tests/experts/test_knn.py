"""Nearest neighbours in feature space, stacked on networks that have had no time to learn."""

from __future__ import annotations

import random
from dataclasses import replace

import guided
import pytest
import safetensors.torch
import torch
from guided import held_out, slot_of
from models import tiny_run

from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.errors import ConfigError
from kbdisk.experts import EXPERTS, knn, serialize
from kbdisk.experts.base import LITTLE_VISIBLE, USUALLY_VISIBLE, Inputs, LabelMasses, Sides
from kbdisk.experts.config import BoostedTreesConfig, KNNConfig
from kbdisk.schemas.kinds import Category, Number, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training.reserve import without_reserved
from kbdisk.training.run import Run
from kbdisk.training.train import network_runs, train
from kbdisk.training.trained import Trained
from kbdisk.training.validation import Progress

CPU = torch.device("cpu")
LEAVES = {("x",): Number(), ("y",): Number(), ("kind",): Category(), ("name",): Text(), ("noise",): Number()}


def things(n: int = 200) -> tuple[Schema, list[Entity]]:
    """A name's first word tells the kind, it and x tell y; nothing tells the noise; some lack y."""
    rng, known = random.Random(0), []
    levels = {f"{first}{second}": rng.randrange(200) for first in "abcdef" for second in "xyz"}
    for number in range(n):
        kind, x = rng.choice(list(levels)), round(rng.uniform(0, 4), 2)
        tree = {"x": x, "kind": kind, "y": round(levels[kind] + 3 * x, 2), "name": f"{kind.upper()} {number}"}
        tree["noise"] = round(rng.gauss(0, 1), 2)
        if number % 9 == 0:
            del tree["y"]
        known.append(Entity(f"t{number}", tree))
    return of_one_class({path: Property(leaf) for path, leaf in LEAVES.items()}), known


def run(**choices) -> Run:
    return tiny_run(steps=5, batch=64, validation=0.3).with_experts(knn=KNNConfig(share=0.5, **choices))


@pytest.fixture(scope="module")
def model() -> Trained:
    return train(*things(), run(), CPU, lambda progress: None)


def asked(model: Trained, name: str):
    """The held-out part with one property hidden: the batch, and its tokens where it is known."""
    return held_out(model, things()[1], name)


def nats(model: Trained, believer, name: str) -> float:
    return guided.nats(believer, *asked(model, name))


def off(model: Trained, believer) -> float:
    """How far off y is told, on average."""
    return guided.off(believer, *asked(model, "y"))


def test_numbers_are_predicted_by_similar_entities(model):
    assert off(model, model.network) > 20
    assert off(model, model.full_model) < 4
    assert nats(model, model.full_model, "y") < nats(model, model.network, "y") - 1


def test_labels_are_predicted_by_entities_with_similar_names(model):
    assert nats(model, model.network, "kind") > 2.5
    assert nats(model, model.full_model, "kind") < 1


def test_noise_has_no_weight_and_texts_have_no_neighbours(model):
    assert slot_of(model, "name") not in model.experts["knn"].slots
    places = model.experts["knn"].experts
    noise = [float(places[at].weight) for at in places if at[0] == slot_of(model, "noise")]
    assert nats(model, model.full_model, "noise") < nats(model, model.network, "noise") + 0.05, noise


def test_where_little_is_visible_the_metric_is_another(model):
    y = slot_of(model, "y")
    assert {(y, USUALLY_VISIBLE), (y, LITTLE_VISIBLE)} <= set(model.experts["knn"].experts)
    usual, little = (
        model.experts["knn"].experts[y, level].expert.weights for level in (USUALLY_VISIBLE, LITTLE_VISIBLE)
    )
    assert not torch.equal(usual, little)


def test_no_entity_is_its_own_neighbour_and_no_held_out_one_that_of_another(model):
    neighbours = model.experts["knn"].experts[slot_of(model, "y"), USUALLY_VISIBLE].expert
    assert neighbours.known.held_out.sum() == len(model.record.validation)
    assert len(neighbours.known.entities) == len(model.record.validation) + len(model.record.training)
    for rows in (neighbours.known.held_out.nonzero()[:9, 0], (~neighbours.known.held_out).nonzero()[:9, 0]):
        near = neighbours.neighbours(Inputs(neighbours.known.features[rows].float(), neighbours.known.entities[rows]))
        whose = neighbours.known.entities[neighbours.rows[near.rows]]
        assert not (whose == neighbours.known.entities[rows, None])[near.square.isfinite()].any()
        of_held = neighbours.known.held_out[neighbours.rows[near.rows]][near.square.isfinite()]
        assert of_held.any() != bool(neighbours.known.held_out[rows[0]])


def test_without_neighbours_the_mean_is_predicted_and_no_label(model):
    """Everything hidden and everybody left out: nobody is near."""
    for name in ("y", "kind"):
        neighbours = model.experts["knn"].experts[slot_of(model, name), USUALLY_VISIBLE].expert
        alone = replace(
            neighbours, known=replace(neighbours.known, entities=torch.full_like(neighbours.known.entities, 7))
        )
        said = alone.predict(Inputs(torch.full((2, len(neighbours.weights)), torch.nan), torch.tensor([7, 7])))
        if isinstance(said, LabelMasses):
            assert said.mass.sum() == 0
        else:
            torch.testing.assert_close(said, neighbours.values.mean().expand(2))


def test_the_mean_leaves_out_the_query_s_own_value(model):
    neighbours = model.experts["knn"].experts[slot_of(model, "y"), USUALLY_VISIBLE].expert
    own = int(neighbours.rows[0])
    wild = replace(
        neighbours,
        values=neighbours.values.index_fill(0, torch.tensor([0]), 1e9),
        mixture=torch.eye(len(neighbours.mixture))[-1].double(),
    )
    said = wild.predict(
        Inputs(torch.full((1, len(neighbours.weights)), torch.nan), neighbours.known.entities[own : own + 1])
    )
    assert abs(float(said)) < 1e6


def test_queries_in_chunks_have_the_same_predictions(model, monkeypatch):
    for name in ("y", "kind"):
        neighbours = model.experts["knn"].experts[slot_of(model, name), USUALLY_VISIBLE].expert
        seen = Inputs(neighbours.known.features[:40].float(), neighbours.known.entities[:40])
        whole = neighbours.predict(seen)
        monkeypatch.setattr("kbdisk.experts.knn.MAX_DISTANCES", 4000)
        torch.testing.assert_close(neighbours.predict(seen), whole, rtol=1e-3, atol=1e-3)
        monkeypatch.undo()


def test_an_opened_model_has_the_same_beliefs(model, tmp_path):
    save(model, tmp_path / "m.kbdisk")
    again = open_folder(tmp_path / "m.kbdisk", CPU)
    assert off(again, again.full_model) == off(model, model.full_model)
    assert nats(again, again.full_model, "kind") == nats(model, model.full_model, "kind")
    card = (tmp_path / "m.kbdisk" / "README.md").read_text()
    assert card.startswith("# m.kbdisk\n")
    assert f"| nearest neighbours | for {len(model.experts['knn'])} properties |" in card


WRONG = {  # what a file may say of each
    "features": lambda one: one[:, :-1],
    "entities": lambda one: one[:-1],
    "held_out": lambda one: one[:-1],
    "slots": lambda one: one + 1000,
    "usual_amount": lambda one: one[:0],
    "neighbours": lambda one: one * 0,
    "rows": lambda one: one + 100_000,
    "values": lambda one: one[:-1],
    "weights": lambda one: -one - 1,
    "mixture": lambda one: one[:-1],
    "weight": lambda one: one + torch.nan,
    "around": lambda one: one + 1,
}
WRONG_TOO = {
    "rows": lambda one: one.float(),
    "values": lambda one: one + (10**6 if not one.is_floating_point() else torch.nan),
    "weights": lambda one: one + torch.inf,
    "mixture": lambda one: one * 5 + 1,
    "weight": lambda one: one + 7,
    "held_out": lambda one: one.float(),
    "entities": lambda one: one[:, None],
    "neighbours": lambda one: one + 10**9,
}


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["y", "kind"])
@pytest.mark.parametrize(("name", "change"), [*WRONG.items(), *WRONG_TOO.items()])
def test_tensors_that_do_not_fit_are_refused(model, tmp_path, whose, name, change):
    file, tensors = (
        tmp_path / "knn.safetensors",
        safetensors.torch.load(serialize.to_bytes(serialize.KNN, model.experts["knn"])),
    )
    key = name if name in tensors else f"{slot_of(model, whose)}.{USUALLY_VISIBLE}.{name}"
    file.write_bytes(safetensors.torch.save({**tensors, key: change(tensors[key]).contiguous()}))
    with pytest.raises(ValueError, match=r"expected|another model|makes no sense"):
        serialize.read(serialize.KNN, file, model.codec, CPU)


@pytest.mark.parametrize("place", [("name", USUALLY_VISIBLE), ("y", 2)])
def test_neighbours_of_a_property_that_cannot_have_them_are_refused(model, tmp_path, place):
    file, tensors = (
        tmp_path / "knn.safetensors",
        safetensors.torch.load(serialize.to_bytes(serialize.KNN, model.experts["knn"])),
    )
    own = f"{slot_of(model, 'y')}.{USUALLY_VISIBLE}."
    moved = f"{slot_of(model, place[0])}.{place[1]}."
    file.write_bytes(safetensors.torch.save({name.replace(own, moved): one for name, one in tensors.items()}))
    with pytest.raises(ValueError, match=r"expected|another model|makes no sense"):
        serialize.read(serialize.KNN, file, model.codec, CPU)


def test_without_a_share_or_held_out_entities_there_are_no_neighbours():
    own, known = things(80)
    assert "knn" not in train(own, known, run().with_experts(knn=KNNConfig()), CPU, lambda progress: None).experts
    alone = replace(run(), train=replace(run().train, validation=0.0))
    assert "knn" not in train(own, known, alone, CPU, lambda progress: None).experts


def test_a_time_budget_is_shared_and_kept(monkeypatch):
    unhurried = replace(EXPERTS["knn"], values_per_second=None)  # fitted, within no time
    monkeypatch.setitem(EXPERTS, "knn", unhurried)
    timed = replace(run(), train=replace(run().train, seconds=10.0))
    assert network_runs(timed)[0].train.seconds == 5.0
    seen: list[Progress] = []
    train(*things(), replace(run(), train=replace(run().train, seconds=1e-3, steps=5)), CPU, seen.append)
    tasks = [step.final_task for step in seen if step.final_task is not None and step.final_task.doing == "comparing"]
    assert [task.done for task in tasks] == list(range(1, len(tasks) + 1))
    assert tasks[-1].done == tasks[-1].total


def test_shares_of_a_budget_leave_some_of_it():
    with pytest.raises(ConfigError, match=r"expected less than 1 in all, got 1\.1\."):
        Run().with_experts(knn=KNNConfig(share=0.6), boosted_trees=BoostedTreesConfig(share=0.5))


def test_with_a_weight_they_have_reserved_and_held_out_values_too():
    schema, known = things()
    codec = Codec.fit(schema, known[:150])
    complete, held_out_part = codec.encode(known[:150]), codec.encode(known[150:])
    training = without_reserved(complete, 0)
    candidates = knn.fit(codec, Sides(training, held_out_part, complete), config=KNNConfig(share=0.5), seed=0)
    y = codec.slot("", ("y",))

    def values(group) -> int:
        one = group.experts[y, USUALLY_VISIBLE]
        return len(one.expert.values)

    def there(*sides) -> int:
        return sum(int((side.known & (side.slot == y)).sum()) for side in sides)

    assert values(candidates.group) <= there(training) < there(complete)
    assert values(candidates.refitted(candidates.group)) > there(complete)


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 1.0},
        {"share": -0.1},
        {"neighbours": 0},
        {"values": 0},
        {"queries": 0},
        {"rounds": -1},
        {"properties": 0},
        {"neighbours": 5000},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        KNNConfig(**wrong)


def test_no_number_beyond_the_known_ones_is_predicted(model):
    expert = next(weighted.expert for weighted in model.experts["knn"].experts.values() if weighted.expert.is_number)
    features = 30 * torch.randn(64, expert.known.features.shape[1], generator=torch.Generator().manual_seed(0))
    inputs = Inputs(features, torch.full((64,), -1))
    every = torch.ones_like(expert.mixture, dtype=torch.bool)
    predictions = expert.predictions(inputs, expert.neighbours(inputs), every)
    assert float(predictions.min()) >= float(expert.values.min())
    assert float(predictions.max()) <= float(expert.values.max())
