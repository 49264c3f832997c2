"""The second answer from given properties alone has a weight where it is more accurate."""

from __future__ import annotations

import math
import random
from dataclasses import fields, replace

import guided
import pytest
import safetensors.torch
import torch
from guided import held_out
from models import tiny_run

from kbdisk.api.model import Model
from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.errors import CheckpointError, ConfigError
from kbdisk.experts import EXPERTS, serialize
from kbdisk.experts.base import LITTLE_VISIBLE, USUALLY_VISIBLE, WeightedExpert
from kbdisk.experts.config import BoostedTreesConfig, GivenOnlyConfig, KNNConfig
from kbdisk.experts.given_only import GivenOnlyFeatures, GivenProperties
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training.run import Run
from kbdisk.training.train import train
from kbdisk.training.trained import Trained

CPU = torch.device("cpu")


def things(n: int = 140, role: str = "given") -> tuple[Schema, list[Entity]]:
    """x tells y; what else there is tells nothing."""
    rng, known = random.Random(0), []
    for number in range(n):
        x = round(rng.uniform(0, 40), 2)
        tree = {"x": x, "y": round(100 * math.sin(x / 5) + x, 2), "kind": rng.choice("pq")}
        known.append(Entity(f"t{number}", tree | {f"noise{n}": round(rng.gauss(0, 1), 2) for n in range(4)}))
    leaves = {"y": Number(), "kind": Category(), **{f"noise{n}": Number() for n in range(4)}}
    given = {("x",): Property(Number(), role=role)}
    return of_one_class(given | {(name,): Property(leaf) for name, leaf in leaves.items()}), known


def run() -> Run:
    """Kin find who is near where x alone is visible; with all that tells nothing beside it they have hardly learnt to."""
    return tiny_run(steps=5, batch=64, validation=0.3).with_experts(
        knn=KNNConfig(share=0.5, rounds=1),
        given_only=GivenOnlyConfig(share=0.1),
    )


@pytest.fixture(scope="module")
def model() -> Trained:
    return train(*things(), run(), CPU, lambda progress: None)


def asked(model: Trained, name: str):
    return held_out(model, things()[1], name)


@pytest.mark.slow
def test_the_answer_moves_towards_the_second_one(model):
    batch, hidden = asked(model, "y")
    slot = int(batch.slot[hidden][0])
    first = model.with_experts(given_only=None).full_model
    features = GivenOnlyFeatures(first, model.experts["given_only"].given, torch.tensor([slot]))
    alone = features.table(batch, batch.known & ~hidden)
    assert alone.isnan().sum() == alone.numel() - int(hidden.sum())
    told = {
        name: model(batch, visible, hidden).kinds["number"].belief.expected()
        for name, model, visible in (
            ("first", first, batch.known & ~hidden),
            ("second", first, batch.known & batch.fixed),
            ("both", model.full_model, batch.known & ~hidden),
        )
    }
    assert torch.equal(alone[:, slot], told["second"])
    share = model.experts["given_only"].experts[slot, USUALLY_VISIBLE].answer_weight
    assert share > 0
    assert torch.allclose(told["both"], told["first"] + share * (told["second"] - told["first"]))


def test_an_entity_that_lacks_a_required_property_has_no_second_answer(model):
    entities = [
        Entity(one.id, {key: value for key, value in one.tree.items() if key != "x"}) for one in things()[1][:9]
    ]
    batch = model.encode(entities).batch(torch.arange(9))
    hidden = batch.slot == model.codec.slot(model.codec.classes[0], ("y",))
    first = model.with_experts(given_only=None).full_model
    assert (
        GivenOnlyFeatures(first, model.experts["given_only"].given, hidden.nonzero()[:1])
        .table(batch, ~hidden)
        .isnan()
        .all()
    )
    logs = [one(batch, batch.known & ~hidden, hidden).log_prob(batch) for one in (model.full_model, first)]
    assert torch.equal(*logs)


def test_classes_without_given_properties_have_no_second_answers():
    told = "kbdisk: 1\nclasses:\n  A:\n    properties: {x: {kind: number, role: given}, y: number, c: category}\n"
    schema = Schema.read(told + "  B:\n    properties: {x: number, y: number, z: {kind: number, role: given}}\n")
    trees = [{"x": n, "y": 2 * n, "c": "pq"[n % 2]} for n in range(60)]
    entities = [Entity(f"{of}{n}", tree, (of,)) for of in "AB" for n, tree in enumerate(trees)]
    entities[100].tree["z"] = 1  # of one alone: who lacks it is like most
    codec = Codec.fit(schema, entities)
    given = GivenProperties.of(codec)
    assert [(codec.slots[n].class_name, codec.slots[n].path) for n in given.numbers] == [("A", ("y",))]
    assert given.count.tolist() == [1, 0]


def test_it_lowers_the_error(model):
    assert guided.off(model.full_model, *asked(model, "y")) <= guided.off(
        model.with_experts(given_only=None).full_model, *asked(model, "y")
    )


def test_given_properties_and_labels_have_no_second_answers(model):
    paths = {model.codec.slots[slot].path for slot, _ in model.experts["given_only"].experts}
    assert ("x",) not in paths
    assert ("kind",) not in paths
    assert {level for _, level in model.experts["given_only"].experts} <= {USUALLY_VISIBLE, LITTLE_VISIBLE}


def test_an_opened_model_has_the_same_beliefs(model, tmp_path):
    save(model, tmp_path / "m")
    again = open_folder(tmp_path / "m", CPU)
    batch, hidden = asked(model, "y")
    saved, opened = (of.full_model(batch, batch.known & ~hidden, hidden) for of in (model, again))
    assert torch.equal(saved.log_prob(batch), opened.log_prob(batch))
    numbers, numbers_opened = saved.kinds["number"].belief, opened.kinds["number"].belief
    assert torch.equal(numbers.expected(), numbers_opened.expected())
    assert torch.equal(numbers.typical(), numbers_opened.typical())
    assert len(again.experts["given_only"]) == len(model.experts["given_only"]) > 0
    assert f"for {len(model.experts['given_only'])} properties" in (tmp_path / "m" / "README.md").read_text()


def test_stored_weights_are_in_the_order_of_their_class():
    assert list(serialize.WEIGHT) == [part.name for part in fields(WeightedExpert)][1:]


@pytest.mark.parametrize(
    "change",
    [
        {"0.0.weight": torch.tensor(1.5, dtype=torch.float64)},
        {"0.0.weight": torch.tensor([0.5], dtype=torch.float64)},
        {"0.0.weight": torch.tensor(0.5)},
        {"0.0.answer_weight": torch.tensor(1.5, dtype=torch.float64)},
        {"0.0.moved_share": torch.tensor(-0.1, dtype=torch.float64)},
        {"0.0.around": torch.ones(8, dtype=torch.float64)},
        {"0.0.factors": torch.tensor([99.0, 0.0, 0.0, 0.0], dtype=torch.float64)},
        {"0.0.factors": torch.tensor([0.5, 0.0, 0.0, 0.0], dtype=torch.float64)},
        {"0.0.factors": torch.zeros(3, dtype=torch.float64)},
        {"0.0.factors": torch.tensor([0.0, -1.0, 0.0, 0.0], dtype=torch.float64)},
        {"0.0.factors": torch.tensor([0.0, 1.0, 1e300, 0.0], dtype=torch.float64)},
        {"usual_amount": torch.tensor([1, 2])},
        {"99.0.weight": torch.tensor(0.5, dtype=torch.float64), "99.0.around": torch.zeros(8, dtype=torch.float64)},
        {"0.7.weight": torch.tensor(0.5, dtype=torch.float64), "0.7.around": torch.zeros(8, dtype=torch.float64)},
        None,
    ],
)
def test_tensors_that_do_not_fit_are_refused(model, tmp_path, change, monkeypatch):
    def forged(kind, experts):
        data = to_bytes(kind, experts)
        if kind is not serialize.GIVEN_ONLY:
            return data
        slot = next(slot for slot, level in experts.experts if level == USUALLY_VISIBLE)
        tensors = safetensors.torch.load(data)
        if change is None:
            return safetensors.torch.save({"usual_amount": tensors["usual_amount"]})
        return safetensors.torch.save(
            tensors | {name.replace("0.0.", f"{slot}.0."): new for name, new in change.items()}
        )

    to_bytes = serialize.to_bytes
    monkeypatch.setattr(serialize, "to_bytes", forged)
    save(model, tmp_path / "m")
    with pytest.raises(CheckpointError, match=r"given_only.safetensors: expected content that kbdisk"):
        open_folder(tmp_path / "m", CPU)


@pytest.mark.slow
def test_without_given_properties_held_out_entities_or_a_share_there_is_none():
    unwanted = run().with_experts(given_only=GivenOnlyConfig())
    for role, one in (("value", run()), ("given", run().with_train(validation=0.0)), ("given", unwanted)):
        assert "given_only" not in train(*things(60, role), one, CPU, lambda progress: None).experts


def test_it_is_weighed_by_experts_that_have_not_seen_the_held_out_values(monkeypatch):
    asked = []
    row = replace(EXPERTS["given_only"], fit=lambda model, *_, **__: asked.append(model))
    monkeypatch.setitem(EXPERTS, "given_only", row)
    trees = BoostedTreesConfig(share=0.3, folds=2)
    made = train(*things(60), run().with_experts(boosted_trees=trees), CPU, lambda progress: None)
    assert asked[0].groups[-1] is made.experts_before_refit["boosted_trees"]
    assert asked[0].groups[-1] is not made.experts["boosted_trees"]


@pytest.mark.slow
def test_without_given_properties_it_takes_no_time():
    made = [train(*things(60, role), run(), CPU, lambda progress: None) for role in ("value", "given")]
    assert [one.run.experts["given_only"].share for one in made] == [0, 0.1]


@pytest.mark.parametrize("wrong", [{"share": 1.0}, {"share": -0.1}, {"rounds": -1}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="expected at least 0"):
        GivenOnlyConfig(**wrong)


def test_shares_of_a_budget_leave_some_of_it():
    with pytest.raises(ConfigError, match="expected less than 1 in all"):
        Run().with_experts(knn=KNNConfig(share=0.9), given_only=GivenOnlyConfig(share=0.1))


def test_without_what_is_given_the_second_answer_is_another(model):
    known = things()[1]
    for entity in known[:3]:
        lacking = replace(entity, tree={name: value for name, value in entity.tree.items() if name != "y"})
        reasons = Model(model).why(lacking, "y")
        assert "given-only" in {predictor.name for predictor in reasons.predictors}
        assert reasons.influences[0].name == "x"
        assert reasons.influences[0].value != reasons.influences[0].value_before == reasons.value
