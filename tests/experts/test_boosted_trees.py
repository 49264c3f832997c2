"""Boosted trees stacked on networks that have had no time to learn."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from dataclasses import replace

import guided
import pytest
import safetensors.torch
import torch
from guided import held_out
from models import tiny_run

from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.entity import Link as Ref
from kbdisk.errors import CheckpointError
from kbdisk.experts import boosted_trees, feature_screening, serialize
from kbdisk.experts.base import Sides
from kbdisk.experts.boosted_trees import Task, TreeGroup
from kbdisk.experts.boosting_time import Timing
from kbdisk.experts.config import BoostedTreesConfig
from kbdisk.experts.examples import FEWEST_OF_SLOT, OneHotExamples
from kbdisk.experts.features import SIZE_COLUMN, OneHotFeatures
from kbdisk.experts.filled_columns import EstimatedTable
from kbdisk.experts.queries import reserved_questions
from kbdisk.model.diffusion import beliefs
from kbdisk.schemas.kinds import Category, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class
from kbdisk.store.folder import open_folder, save
from kbdisk.training.reserve import without_reserved
from kbdisk.training.run import Run
from kbdisk.training.train import network_runs, train
from kbdisk.training.trained import Trained
from kbdisk.training.validation import Progress

CPU = torch.device("cpu")
LEAVES = {("x",): Number(), ("y",): Number(), ("side",): Category(), ("name",): Text(), ("noise",): Number()}


def things(n: int = 600) -> tuple[Schema, list[Entity]]:
    """x and the side tell y by steps, x tells the side; some have no y."""
    rng, known = random.Random(0), []
    for number in range(n):
        x = round(rng.uniform(0, 8), 2)
        side = "left" if x % 4 < 2 else "right"
        y = 10 * int(x) + (500 if side == "left" else 0)
        tree = {"x": x, "side": side, "y": y, "name": f"thing {number}", "noise": round(rng.gauss(0, 1), 2)}
        if number % 7 == 0:
            del tree["y"]
        known.append(Entity(f"t{number}", tree))
    return of_one_class({path: Property(leaf) for path, leaf in LEAVES.items()}), known


def run(**choices) -> Run:
    return tiny_run(steps=5, batch=64, validation=0.3).with_experts(
        boosted_trees=BoostedTreesConfig(share=0.5, **choices)
    )


@pytest.fixture(scope="module")
def model() -> Trained:
    return train(*things(), run(), CPU, lambda progress: None)


def asked(model: Trained, name: str):
    """The held-out part with one property hidden: the batch, and its tokens."""
    return held_out(model, things()[1], name)


def off(model: Trained, believer, visible=None) -> float:
    """How far off y is told, on average, with all else visible or some of it."""
    return guided.off(believer, *asked(model, "y"), visible)


def test_trees_predict_numbers_that_the_network_does_not(model):
    assert "boosted_trees" in model.experts
    assert off(model, model.network) > 100
    assert off(model, model.full_model) < 20


def test_the_belief_is_centred_on_the_stacked_answer(model):
    batch, hidden = asked(model, "y")
    hidden = hidden & batch.known
    told = [
        beliefs(predictor, batch, hidden, batch.known & ~hidden).kinds["number"]
        for predictor in (model.network, model.full_model)
    ]
    plain, guided = (one.belief for one in told)
    codes = batch.values["number"][told[0].rows]
    assert guided.log_prob(codes).mean() > plain.log_prob(codes).mean() + 0.5
    assert (
        (guided.median() - guided.expected()).abs().median() < 5 < (plain.median() - guided.expected()).abs().median()
    )


def test_labels_have_trees_and_texts_have_none(model):
    batch, hidden = asked(model, "side")
    nats = [guided.nats(predictor, batch, hidden) for predictor in (model.network, model.full_model)]
    assert nats[0] > 0.4
    assert nats[1] < 0.2
    kept = {model.codec.slots[slot].path for slot in model.experts["boosted_trees"].slots}
    assert ("y",) in kept
    assert ("name",) not in kept


def test_many_labels_of_few_entities_have_no_trees():
    def slots(entities: int, labels: int) -> set[str]:
        known = [Entity(f"t{n}", {"x": n % labels, "kind": f"k{n % labels}"}) for n in range(entities)]
        schema = of_one_class({("x",): Property(Number()), ("kind",): Property(Category())})
        codec = Codec.fit(schema, known)
        sides = Sides(codec.encode(known), codec.encode(known[:20]))
        group = boosted_trees.fit(codec, sides, config=BoostedTreesConfig(share=0.3), seed=0, seconds=2).group
        return {codec.slots[slot].path[0] for slot in group.slots}

    assert slots(200, 12) == {"x"}
    assert slots(200, 4) == slots(700, 12) == {"x", "kind"}


def test_trees_have_a_weight_however_little_is_visible(model):
    assert (model.experts["boosted_trees"].usual_amount == 0).all()
    batch, _ = asked(model, "y")
    nothing = torch.zeros_like(batch.known)
    assert off(model, model.full_model, nothing) != off(model, model.network, nothing)


def linked(count: int = 400) -> tuple[Schema, list[Entity]]:
    """People whose place has a number, which the places have as well."""
    kinds = {"Person": {("at",): Property(Link()), ("n",): Property(Number())}, "Org": {("n",): Property(Number())}}
    schema = Schema({name: Class(name, own) for name, own in kinds.items()})
    people = [Entity(f"p{n}", {"at": Ref(f"o{n % 8}"), "n": 3 * (n % 8)}, ("Person",)) for n in range(count)]
    return schema, [*people, *(Entity(f"o{n}", {"n": n}, ("Org",)) for n in range(8))]


def test_a_share_of_each_propertys_values_is_reserved_and_asked_for_together():
    tokens = Codec.fit(*linked()).encode(linked()[1])
    part = without_reserved(tokens, 0)
    gone = tokens.known & ~part.known & ~tokens.layout.fixed[tokens.slot]
    counts = {
        int(slot): (int((tokens.slot == slot).sum()), int((gone & (tokens.slot == slot)).sum()))
        for slot in tokens.slot.unique()
    }
    assert sorted(own for own in counts.values() if own[1]) == [(400, 40), (400, 40)]
    (batch, hidden, _), *others = reserved_questions(part, tokens, torch.zeros(2, dtype=torch.long))
    assert not others
    assert int(hidden.asked.sum()) == 80
    assert not bool((hidden.visible & hidden.asked).any())
    lost = batch.known & ~hidden.visible & ~hidden.asked  # what came over links that are asked for
    assert bool(batch.fixed[lost].all())


def test_reserved_values_are_asked_for_only_in_the_given_slots():
    codec = Codec.fit(*linked())
    tokens = codec.encode(linked()[1])
    part, usual = without_reserved(tokens, 0), torch.zeros(2, dtype=torch.long)
    (number,) = (n for n, slot in enumerate(codec.slots) if slot.class_name == "Person" and slot.path == ("n",))
    ((batch, hidden, _),) = reserved_questions(part, tokens, usual, slots={number})
    ((every, every_hidden, _),) = reserved_questions(part, tokens, usual)
    assert int(hidden.asked.sum()) == 40
    assert set(batch.slot[hidden.asked].tolist()) == {number}
    assert set(batch.entity[hidden.asked].tolist()) == set(range(batch.size))
    assert batch.size < every.size
    asked_there = every_hidden.asked & (every.slot == number)
    assert sorted(batch.id_hash[batch.entity[hidden.asked]].tolist()) == sorted(
        every.id_hash[every.entity[asked_there]].tolist()
    )


def test_where_there_are_links_reserved_values_give_the_weights():
    model = train(*linked(120), run(folds=2), CPU, lambda progress: None)
    assert {model.codec.slots[slot].path for slot in model.experts["boosted_trees"].slots} >= {("n",)}


def test_evidence_over_a_reserved_link_is_reserved_as_well():
    tokens = Codec.fit(*linked()).encode(linked()[1])
    part = without_reserved(tokens, 0)
    owner = torch.arange(len(tokens)).repeat_interleave(tokens.need_offsets.diff())
    token, link = (tokens.needs + tokens.offsets[owner][:, None]).unbind(1)
    assert len(token)
    assert bool((~part.known[link]).any())
    assert not bool((part.known[token] & ~part.known[link]).any())


def test_an_opened_model_has_the_same_beliefs(model, tmp_path):
    save(model, tmp_path / "m.kbdisk")
    again = open_folder(tmp_path / "m.kbdisk", CPU)
    assert off(again, again.full_model) == off(model, model.full_model)
    assert "boosted_trees.safetensors" in {one.name for one in (tmp_path / "m.kbdisk").iterdir()}
    assert (
        f"| boosted trees | for {len(model.experts['boosted_trees'])} properties |"
        in (tmp_path / "m.kbdisk" / "README.md").read_text()
    )


def weighted_trees(model: Trained) -> list:
    """The slot and the trees of each property."""
    return [(slot, weighted) for (slot, _), weighted in sorted(model.experts["boosted_trees"].experts.items())]


def test_an_opened_model_fills_the_same_hidden_numbers(model, tmp_path):
    save(model, tmp_path / "m.kbdisk")
    again = open_folder(tmp_path / "m.kbdisk", CPU)
    table = torch.full((50, len(model.experts["boosted_trees"].featurizer)), torch.nan)
    table[:, ::2] = torch.randn(50, (table.shape[1] + 1) // 2, generator=torch.Generator().manual_seed(0))
    columns = 0
    for (slot, weighted), (same, opened) in zip(weighted_trees(model), weighted_trees(again), strict=True):
        assert slot == same
        assert weighted.expert.columns.places == opened.expert.columns.places
        filled, again_filled = (
            trees.expert.columns(table, EstimatedTable(table, group.rounds).rows(torch.arange(50)))
            for trees, group in ((weighted, model.experts["boosted_trees"]), (opened, again.experts["boosted_trees"]))
        )
        torch.testing.assert_close(again_filled, filled, equal_nan=True)
        columns += len(opened.expert.columns.places)
    assert columns


def test_trees_without_those_that_fill_their_numbers_are_refused(model, tmp_path):
    tensors = safetensors.torch.load(serialize.to_bytes(serialize.BOOSTED_TREES, model.experts["boosted_trees"]))
    without = {name: tensor for name, tensor in tensors.items() if name.split(".")[1:2] != [str(serialize.ESTIMATES)]}
    assert len(without) < len(tensors)
    (tmp_path / "boosted_trees.safetensors").write_bytes(safetensors.torch.save(without))
    with pytest.raises(ValueError, match="makes no sense"):
        serialize.read(serialize.BOOSTED_TREES, tmp_path / "boosted_trees.safetensors", model.codec, CPU)


def test_estimates_that_read_each_other_in_a_circle_are_refused(model, tmp_path):
    group = model.experts["boosted_trees"]
    assert isinstance(group, TreeGroup)
    tensors = safetensors.torch.load(serialize.to_bytes(serialize.BOOSTED_TREES, group))
    column = next(iter(group.estimates))
    name = f"{int(group.featurizer.slot[column])}.{serialize.ESTIMATES}"
    tensors[f"{name}.columns"][0], tensors[f"{name}.filled"] = column, torch.tensor([0])  # it reads itself
    (tmp_path / "boosted_trees.safetensors").write_bytes(safetensors.torch.save(tensors))
    with pytest.raises(ValueError, match="got a circle"):
        serialize.read(serialize.BOOSTED_TREES, tmp_path / "boosted_trees.safetensors", model.codec, CPU)


@pytest.mark.parametrize("name", ["columns", "column", "left", "filled", "leaves", "border", "start", "around"])
def test_trees_that_do_not_fit_are_refused(model, tmp_path, name):
    tensors = safetensors.torch.load(serialize.to_bytes(serialize.BOOSTED_TREES, model.experts["boosted_trees"]))
    slot = next(
        slot
        for slot, weighted in weighted_trees(model)
        if weighted.expert.columns.places and len(weighted.expert.trees.column)
    )
    tensors[f"{slot}.0.{name}"] = (
        tensors[f"{slot}.0.{name}"][:1]
        if name in ("border", "leaves")
        else (tensors[f"{slot}.0.{name}"] + (1 << 40 if name != "start" else torch.inf))
    )
    (tmp_path / "boosted_trees.safetensors").write_bytes(safetensors.torch.save(tensors))
    with pytest.raises((ValueError, CheckpointError)):
        serialize.read(serialize.BOOSTED_TREES, tmp_path / "boosted_trees.safetensors", model.codec, CPU)


@pytest.mark.slow
def test_without_a_share_or_held_out_entities_there_are_no_trees():
    own, known = things(60)
    without = run().with_experts(boosted_trees=BoostedTreesConfig())
    assert "boosted_trees" not in train(own, known, without, CPU, lambda progress: None).experts
    alone = replace(run(), train=replace(run().train, validation=0.0))
    assert "boosted_trees" not in train(own, known, alone, CPU, lambda progress: None).experts


@pytest.mark.slow
def test_a_time_budget_is_shared_and_kept(model):
    timed = replace(run(), train=replace(run().train, seconds=10.0))
    assert network_runs(timed)[0].train.seconds == 5.0
    seen: list[Progress] = []
    train(*things(), replace(run(), train=replace(run().train, seconds=1e-3, steps=5)), CPU, seen.append)
    tasks = [
        step.final_task for step in seen if step.final_task is not None and step.final_task.doing == "growing trees"
    ]
    done = [task.done for task in tasks]
    assert done == sorted(done)
    assert done[-1] == tasks[-1].total


def test_features_have_only_what_is_visible(model):
    _, known = things(6)
    batch = model.encode(known).batch(torch.arange(6))
    columns = OneHotFeatures.fit(batch, 100)
    y = model.codec.slot(model.codec.slots[0].class_name, ("y",))
    side = model.codec.slot(model.codec.slots[0].class_name, ("side",))
    table = columns.table(batch, batch.known & (batch.slot != y))
    assert table[:, columns.slot == y].isnan().all()
    assert table[:, columns.slot == side].sum(1).eq(1).all()
    x = table[:, columns.slot == model.codec.slot(model.codec.slots[0].class_name, ("x",))][:, 0]
    truth = torch.tensor([one.tree["x"] for one in known])
    assert torch.equal(x.argsort(), truth.argsort())
    assert len(OneHotFeatures.fit(batch, 2)) == 2


def test_without_other_properties_or_with_constant_ones_there_are_no_trees():
    rng = random.Random(0)
    known = [Entity(f"t{number}", {"x": 1.0, "y": rng.random()}) for number in range(200)]
    own = of_one_class({("x",): Property(Number()), ("y",): Property(Number())})
    assert "boosted_trees" not in train(own, known, run(), CPU, lambda progress: None).experts


@pytest.mark.parametrize("wrong", [{"share": 1.0}, {"share": -0.1}, {"values": 0}, {"labels": 0}, {"columns": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BoostedTreesConfig(**wrong)


@pytest.mark.slow
def test_large_numbers_that_differ_little_have_trees():
    rng = random.Random(0)
    known = [Entity(f"t{n}", {"x": (x := rng.randrange(40)), "t": 1_700_000_000 + x // 4}) for n in range(400)]
    schema = of_one_class({("x",): Property(Number()), ("t",): Property(Number())})
    model = train(schema, known, run(), CPU, lambda progress: None)
    with_trees, alone = (
        guided.off(predictor, *held_out(model, known, "t"), None) for predictor in (model.full_model, model.network)
    )
    assert with_trees < 0.6 * alone


def test_each_of_several_incoming_links_has_its_column():
    kinds = {"Person": {("at",): Property(Link())}, "Org": {("n",): Property(Number())}}
    schema = Schema({name: Class(name, own) for name, own in kinds.items()})
    people = [Entity(f"p{n}", {"at": Ref("o0" if n < 3 else "o1")}, ("Person",)) for n in range(5)]
    known = [*people, *(Entity(f"o{n}", {"n": n}, ("Org",)) for n in range(2))]
    codec = Codec.fit(schema, known)
    batch = codec.encode(known).batch(torch.tensor([5, 6]))
    columns = OneHotFeatures.fit(batch, 100)
    table = columns.table(batch, batch.known)
    of = [codec.slots[slot].path for slot in columns.slot.tolist()]
    of_links, are_sizes = torch.tensor([path != ("n",) for path in of]), columns.label == SIZE_COLUMN
    assert int((of_links & ~are_sizes).sum()) == 5
    assert table[:, of_links & ~are_sizes].sum(1).tolist() == [3, 2]
    assert table[:, are_sizes].tolist() == [[3], [2]]


def test_how_many_members_a_set_has_is_a_feature_where_it_differs():
    rng = random.Random(1)
    sizes = [rng.randrange(1, 6) for _ in range(300)]
    known = [Entity(f"t{n}", {"tags": rng.sample("abcdefgh", size), "x": size}) for n, size in enumerate(sizes)]
    codec = Codec.fit(of_one_class({("tags",): Property(Set(Category())), ("x",): Property(Number())}), known)
    batch = codec.encode(known).batch(torch.arange(300))
    columns = OneHotFeatures.fit(batch, 100)
    [size] = (columns.label == SIZE_COLUMN).nonzero()[:, 0].tolist()
    assert columns.table(batch, batch.known)[:, size].tolist() == sizes
    hidden = batch.slot == columns.slot[size]
    assert columns.table(batch, batch.known & ~hidden)[:, size].isnan().all()
    alike = [Entity(f"t{n}", {"tags": rng.sample("abcdefgh", 2)}) for n in range(50)]
    codec = Codec.fit(of_one_class({("tags",): Property(Set(Category()))}), alike)
    assert not (OneHotFeatures.fit(codec.encode(alike).batch(torch.arange(50)), 100).label == SIZE_COLUMN).any()


def test_members_of_sets_are_predicted_by_trees_and_are_features():
    rng, known = random.Random(1), []
    for number in range(300):
        tags = ["red"] if number % 3 == 0 else ["blue", "green"] if number % 3 == 1 else ["green"]
        known.append(Entity(f"t{number}", {"x": number % 3 + rng.random() / 2, "tags": tags}))
    schema = of_one_class({("x",): Property(Number()), ("tags",): Property(Set(Category()))})
    model = train(schema, known, run(), CPU, lambda progress: None)
    slots = {model.codec.slots[slot].path for slot, _ in model.experts["boosted_trees"].experts}
    assert slots == {("x",), ("tags",)}
    batch, hidden = held_out(model, known, "tags")
    nats = []
    for one in (model.network, model.full_model):
        told = beliefs(one, batch, hidden, batch.known & ~hidden).kinds["set"]
        nats.append(float(-told.belief.log_prob(batch.values["set"][told.rows]).mean()))
    assert nats[1] < 0.7 * nats[0]
    assert torch.isfinite(told.belief.log_prob(told.belief.mode())).all()
    row = told.belief.pick(torch.tensor([0]))
    assert row.probs.shape[0] == 1


def task_of(codec: Codec, slot: int, examples: OneHotExamples) -> Task:
    """The trees of a slot."""
    used, config = examples.columns_beside(slot), BoostedTreesConfig(share=0.3)
    return Task.build(codec, slot, examples.training[slot], examples.features, used, config, {})


def label_task(entities: int, labels: int, numbers: int) -> Task:
    """The trees of labels beside a number."""
    known = [Entity(f"t{n}", {"x": n % numbers, "kind": f"k{n % labels}"}) for n in range(entities)]
    codec = Codec.fit(of_one_class({("x",): Property(Number()), ("kind",): Property(Category())}), known)
    tokens = codec.encode(known)
    examples = OneHotExamples(Sides(tokens, tokens), 10_000, 100, 0)
    place = next(number for number, slot in enumerate(codec.slots) if slot.path == ("kind",))
    return task_of(codec, place, examples)


def test_in_a_short_time_every_slot_has_trees_which_learn_from_a_sample_of_its_values(monkeypatch):
    known = [Entity(f"t{n}", {"x": n % 7, "y": 2 * (n % 7) + 1, "z": n % 3}) for n in range(1000)]
    codec = Codec.fit(of_one_class({(name,): Property(Number()) for name in "xyz"}), known)
    tokens = codec.encode(known)
    sizes = []
    build = boosted_trees.Task.build

    def counted(codec, slot, examples, *rest):
        sizes.append(len(examples))
        return build(codec, slot, examples, *rest)

    monkeypatch.setattr(boosted_trees.Task, "build", counted)
    monkeypatch.setattr(boosted_trees, "VALUES_PER_SECOND_OF_SLOT", 1e-9)
    config = BoostedTreesConfig(share=0.3)
    fitted = boosted_trees.fit(codec, Sides(tokens, tokens), config=config, seed=0, seconds=600.0)
    assert set(sizes) == {FEWEST_OF_SLOT}
    assert len(fitted.group.experts) == 3
    sizes.clear()
    boosted_trees.fit(codec, Sides(tokens, tokens), config=config, seed=0)
    assert set(sizes) == {1000}


def test_in_a_short_time_trees_read_fewer_columns(monkeypatch):
    monkeypatch.setattr(feature_screening, "FEWEST_COLUMNS", 2)
    numbers = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    known = [Entity(f"t{n}", {"y": float(row[0]), **{f"x{at}": float(x) for at, x in enumerate(row)}}) for n, row in enumerate(numbers)]  # fmt: skip
    names = ("y", *(f"x{at}" for at in range(5)))
    codec = Codec.fit(of_one_class({(name,): Property(Number()) for name in names}), known)
    tokens = codec.encode(known)
    examples = OneHotExamples(Sides(tokens, tokens), 10_000, 100, 0)
    place = next(number for number, slot in enumerate(codec.slots) if slot.path == ("y",))
    used, config = examples.columns_beside(place), BoostedTreesConfig(share=0.3)

    def columns(seconds: float) -> set[str]:
        task = Task.build(
            codec, place, examples.training[place], examples.features, used, config, {}, Timing(), seconds
        )
        return {str(codec.slots[slot].path[0]) for slot in examples.features.slot[task.columns.columns].tolist()}

    assert columns(math.inf) == set(names) - {"y"}
    assert len(columns(0.0)) == 2
    assert "x0" in columns(0.0)  # it is y


def test_a_few_outliers_do_not_lead_trees_of_numbers_astray():
    known = [Entity(f"t{n}", {"x": n % 4, "y": n % 4 - 2.0 + 40 * (n % 50 == 0)}) for n in range(400)]
    codec = Codec.fit(of_one_class({("x",): Property(Number()), ("y",): Property(Number())}), known)
    tokens = codec.encode(known)
    examples = OneHotExamples(Sides(tokens, tokens), 10_000, 100, 0)
    place = next(number for number, slot in enumerate(codec.slots) if slot.path == ("y",))
    task = task_of(codec, place, examples)
    trees = task.fit(torch.arange(len(task.target)) % 5 > 0, 0, Timing())
    numbers = task.scale.unscaled(trees(task.features)[:, 0].numpy())
    truth = task.scale.unscaled(task.target.numpy())
    errors = abs(numbers - truth)[abs(truth) < 30]
    assert errors.mean() < 0.2  # by squared errors a number is 0.8 too large, as the mean is


def test_labels_that_a_part_of_the_values_lacks_keep_their_place():
    task = label_task(400, labels=4, numbers=4)
    kept = task.target != 1
    of_kept = {name: getattr(task, name)[kept] for name in ("features", "target", "entities", "weights")}
    part = replace(task, **of_kept)
    trees = part.fit(torch.arange(len(part.target)) % 5 > 0, 0, Timing())
    probs = trees(task.features).softmax(1)
    assert (probs.argmax(1) == task.target)[kept].all()
    assert (probs[:, 1] < 0.01).all()


def test_many_labels_are_fitted_to_all_values_where_features_of_fewer_do_not_differ():
    labels = 20
    task = label_task(1200, labels, numbers=7)
    repeats = 10
    features = torch.zeros(repeats * len(task.features), 1)
    features[1::4001] = 1.0
    repeated = {name: getattr(task, name).repeat(repeats) for name in ("target", "entities", "weights")}
    task = replace(task, features=features, **repeated)
    training = torch.arange(len(task.target)) % 5 != 2
    assert task.can_learn(training)
    assert len(task.fit(training, 0, Timing()).start) == labels


@pytest.mark.parametrize(("kinds", "loaded"), [(["number"], ["sklearn"]), (["category"], ["catboost"]), ([], [])])
def test_only_libraries_for_the_kinds_that_there_are_are_imported(kinds, loaded):
    code = (
        "import sys; from types import SimpleNamespace as Of; from kbdisk.experts.boosted_trees import load_libraries; "
        f"load_libraries(Of(slots=[Of(kind=kind) for kind in {kinds}])); "
        "print(sorted({'catboost', 'sklearn'} & sys.modules.keys()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == f"{loaded}\n"
