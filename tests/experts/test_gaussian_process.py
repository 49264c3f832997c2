"""Gaussian processes stacked on networks: they predict from few known values."""

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
from kbdisk.errors import CheckpointError
from kbdisk.experts import EXPERTS, gaussian_process, serialize
from kbdisk.experts.base import LITTLE_VISIBLE, USUALLY_VISIBLE, Inputs, LabelMasses, Sides
from kbdisk.experts.config import GaussianProcessConfig
from kbdisk.experts.gaussian_process import ExampleMaker, GaussianProcess, interpolate
from kbdisk.model.diffusion import beliefs
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
LEAVES = {
    ("x",): Number(),
    ("z",): Number(),
    ("y",): Number(),
    ("side",): Category(),
    ("name",): Text(),
    ("noise",): Number(),
}


def things(n: int = 200) -> tuple[Schema, list[Entity]]:
    """y is straight in x and z, the side is that of y; nothing tells the noise; some have no y."""
    rng, known = random.Random(0), []
    for number in range(n):
        x, z = round(rng.gauss(0, 3), 3), round(rng.gauss(5, 2), 3)
        y = round(2 * x - 3 * z + rng.gauss(0, 0.1), 2)
        tree = {"x": x, "z": z, "y": y, "side": "over" if y > -15 else "under", "name": f"thing {number}"}
        tree["noise"] = round(rng.gauss(0, 1), 2)
        if number % 9 == 0:
            del tree["y"]
        known.append(Entity(f"t{number}", tree))
    return of_one_class({path: Property(leaf) for path, leaf in LEAVES.items()}), known


def run(**choices) -> Run:
    return tiny_run(steps=5, batch=64, validation=0.3).with_experts(
        gaussian_process=GaussianProcessConfig(share=0.5, **choices)
    )


@pytest.fixture(scope="module")
def model() -> Trained:
    return train(*things(), run(), CPU, lambda progress: None)


def asked(model: Trained, name: str):
    """The held-out part with one property hidden: the batch, and its tokens where it is known."""
    return held_out(model, things()[1], name)


def function_of(model: Trained, name: str) -> GaussianProcess:
    return model.experts["gaussian_process"].experts[slot_of(model, name), USUALLY_VISIBLE].expert


def off(model: Trained, believer, visible=None) -> float:
    """How far off y is told, on average, with all else visible or some of it."""
    return guided.off(believer, *asked(model, "y"), visible)


def test_numbers_are_predicted_from_the_other_properties(model):
    assert off(model, model.network) > 4
    assert off(model, model.full_model) < 0.3


def test_labels_are_predicted_too(model):
    batch, hidden = asked(model, "side")
    nats = [guided.nats(predictor, batch, hidden) for predictor in (model.network, model.full_model)]
    assert nats[0] > 0.6 > 0.4 > nats[1]


def test_texts_have_no_process_and_of_noise_the_mean_is_predicted(model):
    assert slot_of(model, "name") not in model.experts["gaussian_process"].slots
    function = function_of(model, "noise")
    told = function.predict(Inputs(function.points.features[:99], function.points.entities[:99]))
    assert told.std() < 0.3


@pytest.mark.slow
def test_a_process_of_skewed_numbers_predicts_their_codes():
    rng, known = random.Random(0), []
    for number in range(200):
        x, z = rng.gauss(0, 1), rng.gauss(0, 1)
        price = round(100 * 10 ** (x + z / 2 + rng.gauss(0, 0.1)), 3)
        known.append(Entity(f"t{number}", {"x": x, "z": z, "price": price}))
    schema = of_one_class({(name,): Property(Number()) for name in ("x", "z", "price")})
    found = train(schema, known, run(), CPU, lambda progress: None)
    function = found.experts["gaussian_process"].experts[found.codec.slot("", ("price",)), USUALLY_VISIBLE].expert
    assert function.knots.shape[1] > 2
    told = function.predict(Inputs(function.points.features[function.rows], function.points.entities[function.rows]))
    truth = {found.encode([one]).batch(torch.tensor([0])).id_hash.item(): one.tree["price"] for one in known}
    price = torch.tensor([truth[who] for who in function.points.entities[function.rows].tolist()])
    assert (told.clamp(min=1).log10() - price.log10()).abs().median() < 0.2


def test_errors_of_skewed_numbers_are_compared_as_logarithms():
    rng, known = random.Random(0), []
    for number in range(150):
        x = rng.gauss(0, 1)
        population = round(1e6 * 10 ** (x + rng.gauss(0, 0.3)))
        known.append(Entity(f"e{number}", {"x": round(x, 3), "y": population}))
    codec = Codec.fit(of_one_class({("x",): Property(Number()), ("y",): Property(Number())}), known)
    tokens, config = codec.encode(known), GaussianProcessConfig(share=0.5)
    group = gaussian_process.fit(codec, Sides(tokens, tokens), config=config, seed=0).group
    process = group.experts[codec.slot("", ("y",)), USUALLY_VISIBLE].expert
    assert (
        process.knots.shape[1] > 2
    )  # it predicts codes; errors of the populations themselves would select a linear scale


def test_values_are_interpolated_between_knots_and_extrapolated_beyond():
    knots = torch.tensor([[0.0, 1.0, 3.0], [0.0, 2.0, 3.0]], dtype=torch.float64)
    values = torch.tensor([-1.0, 0.5, 1.0, 2.0, 5.0], dtype=torch.float64)
    assert interpolate(knots, values).tolist() == [-2.0, 1.0, 2.0, 2.5, 4.0]
    torch.testing.assert_close(interpolate(knots.flip(0), interpolate(knots, values)), values)


def test_a_process_has_a_weight_of_its_own_where_little_is_visible(model):
    places = model.experts["gaussian_process"].experts
    both = [slot for slot, level in places if level == LITTLE_VISIBLE and (slot, USUALLY_VISIBLE) in places]
    assert both
    for slot in both:
        usual, little = places[slot, USUALLY_VISIBLE], places[slot, LITTLE_VISIBLE]
        assert torch.equal(usual.expert.coefficients, little.expert.coefficients)
        assert usual.weight != little.weight


def test_held_out_entities_are_points_and_no_entity_sees_its_own_value(model):
    function = function_of(model, "y")
    known = [one for one in things()[1] if "y" in one.tree]
    assert len(function.rows) == len(known)
    rows = function.rows[:7]
    seen = Inputs(function.points.features[rows], function.points.entities[rows])
    wild = replace(
        function, coefficients=function.coefficients + 1e3 * function._inverse[:, :1]
    )  # the first one's value is 1e3 more
    moved = (wild.predict(seen) - function.predict(seen)).abs()
    assert moved[0] < 1e-3 < 1e-2 < moved[1:].max()


@pytest.mark.parametrize("hides_more", [False, True])
def test_the_mean_without_an_own_value_needs_no_inverse_where_the_same_is_visible(model, monkeypatch, hides_more):
    function = function_of(model, "y")
    rows = function.rows[:7]
    features = function.points.features[rows].clone()
    if hides_more:
        features[3] = torch.nan
    seen = Inputs(features, function.points.entities[rows])
    with monkeypatch.context() as never_the_same:
        never_the_same.setattr(torch, "equal", lambda *tensors: False)
        exact = function.predict(seen)
    if not hides_more:
        monkeypatch.setattr("kbdisk.experts.gaussian_process.inverse_covariance", None)
    torch.testing.assert_close(replace(function).predict(seen), exact)


def test_queries_in_chunks_have_the_same_predictions(model, monkeypatch):
    for name in ("y", "side"):
        function = function_of(model, name)
        seen = Inputs(function.points.features[:40], function.points.entities[:40])
        whole = function.predict(seen)
        monkeypatch.setattr("kbdisk.experts.gaussian_process.MAX_COVARIANCES", 1000)
        torch.testing.assert_close(function.predict(seen), whole)
        monkeypatch.undo()


def test_predictions_are_clamped_to_about_the_known_range(model):
    function = function_of(model, "y")
    far = torch.full((1, function.points.features.shape[1]), 1e6)
    low, high = function.span.tolist()
    assert low - (high - low) / 2 <= float(function.predict(Inputs(far, torch.tensor([-1])))) <= high + (high - low) / 2


def test_probabilities_of_labels_sum_to_one(model):
    function = function_of(model, "side")
    said = function.predict(Inputs(function.points.features[:9], function.points.entities[:9]))
    assert isinstance(said, LabelMasses)
    torch.testing.assert_close(said.mass.sum(1), torch.ones(9, dtype=torch.float64))


def test_an_opened_model_has_the_same_beliefs(model, tmp_path):
    save(model, tmp_path / "m.kbdisk")
    again = open_folder(tmp_path / "m.kbdisk", CPU)
    assert off(again, again.full_model) == off(model, model.full_model)
    assert (
        f"| Gaussian process | for {len(model.experts['gaussian_process'])} properties |"
        in (tmp_path / "m.kbdisk" / "README.md").read_text()
    )


WRONG = {  # what a file may say of each
    "features": lambda one: one[:, :-1],
    "entities": lambda one: one[:-1],
    "slots": lambda one: one + 1000,
    "usual_amount": lambda one: one[:0],
    "rows": lambda one: one + 100_000,
    "coefficients": lambda one: one[:-1],
    "mean": lambda one: one + torch.nan,
    "scale": lambda one: one[:0],
    "span": lambda one: one + torch.inf,
    "knots": lambda one: torch.zeros(2, 3, dtype=torch.float64),
    "inverse_temperature": lambda one: one.float(),
    "linear": lambda one: -one - 1,
    "rbf": lambda one: one[:-1],
    "variance": lambda one: -one - 1,
    "noise": lambda one: one + torch.nan,
    "weight": lambda one: one + 7,
    "around": lambda one: one + 1,
}


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["y", "side"])
@pytest.mark.parametrize(
    ("name", "change"), [*WRONG.items(), ("labels", lambda one: torch.cat([one, one + 10**6])[:9])]
)
def test_tensors_that_do_not_fit_are_refused(model, tmp_path, whose, name, change):
    file, tensors = (
        tmp_path / "gaussian_process.safetensors",
        safetensors.torch.load(serialize.to_bytes(serialize.GAUSSIAN_PROCESS, model.experts["gaussian_process"])),
    )
    key = name if name in tensors else f"{slot_of(model, whose)}.{USUALLY_VISIBLE}.{name}"
    if key.endswith("labels") and whose == "y":
        change = lambda one: torch.zeros(1, dtype=torch.int64)  # noqa: E731
    file.write_bytes(safetensors.torch.save({**tensors, key: change(tensors[key]).contiguous()}))
    with pytest.raises((ValueError, CheckpointError)):
        serialize.read(serialize.GAUSSIAN_PROCESS, file, model.codec, CPU)


@pytest.mark.parametrize("place", [("name", USUALLY_VISIBLE), ("y", 2)])
def test_a_process_of_a_property_that_cannot_have_one_is_refused(model, tmp_path, place):
    file, tensors = (
        tmp_path / "gaussian_process.safetensors",
        safetensors.torch.load(serialize.to_bytes(serialize.GAUSSIAN_PROCESS, model.experts["gaussian_process"])),
    )
    own, moved = f"{slot_of(model, 'y')}.{USUALLY_VISIBLE}.", f"{slot_of(model, place[0])}.{place[1]}."
    file.write_bytes(safetensors.torch.save({name.replace(own, moved): one for name, one in tensors.items()}))
    with pytest.raises(ValueError, match=r"expected|another model|makes no sense"):
        serialize.read(serialize.GAUSSIAN_PROCESS, file, model.codec, CPU)


@pytest.mark.slow
def test_without_a_share_or_held_out_entities_there_are_no_processes():
    own, known = things(60)
    without = run().with_experts(gaussian_process=GaussianProcessConfig())
    assert "gaussian_process" not in train(own, known, without, CPU, lambda progress: None).experts
    alone = replace(run(), train=replace(run().train, validation=0.0))
    assert "gaussian_process" not in train(own, known, alone, CPU, lambda progress: None).experts


def test_a_label_that_no_point_has_is_no_error(model):
    tokens = model.encode(things()[1])
    maker = ExampleMaker(model.codec, tokens, GaussianProcessConfig(points=30), torch.Generator().manual_seed(0))
    slot = slot_of(model, "side")
    known = maker.known_values(tokens)[slot]
    examples = maker.examples(slot, known, maker.labels(slot, known))
    more = replace(examples, y=torch.nn.functional.pad(examples.y, (0, 1)))
    function = gaussian_process._fit_process(maker, slot, more, torch.tensor([0, 1, 2]), None)
    said = function.predict(Inputs(examples.features, examples.entities))
    assert len(function.rows) == 30
    assert said.mass.isfinite().all()
    assert said.mass[:, 2].mean() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-200, 1e200, 1.7e9])
def test_numbers_of_any_size_have_finite_predictions(size):
    rng, known = random.Random(0), []
    for number in range(120):
        x = rng.gauss(0, 1)
        known.append(Entity(f"t{number}", {"x": x, "y": size * (1 + x / 10)}))
    schema = of_one_class({("x",): Property(Number()), ("y",): Property(Number())})
    found = train(schema, known, run(), CPU, lambda progress: None)
    batch, hidden = held_out(found, known, "y")
    told = beliefs(found.full_model, batch, hidden, batch.known & ~hidden).kinds["number"].belief.expected()
    assert told.isfinite().all()


def test_a_property_without_others_has_no_process():
    rng = random.Random(0)
    known = [Entity(f"t{number}", {"y": rng.random()}) for number in range(200)]
    own = of_one_class({("y",): Property(Number())})
    assert "gaussian_process" not in train(own, known, run(), CPU, lambda progress: None).experts


@pytest.mark.slow
def test_labels_and_points_are_limited():
    few = train(*things(), run(labels=1, points=50), CPU, lambda progress: None)
    assert slot_of(few, "side") not in few.experts["gaussian_process"].slots
    assert len(function_of(few, "y").rows) == 50


def test_where_all_properties_have_many_values_there_are_no_processes_and_networks_have_the_time():
    made = train(*things(), run(max_values=100), CPU, lambda progress: None)
    assert "gaussian_process" not in made.experts
    assert made.run.experts_share == 0


def test_a_property_with_few_values_has_a_process_however_many_entities_there_are():
    schema, known = things(800)
    for place, entity in enumerate(known):
        if place % 4:
            entity.tree.pop("y", None)
    made = train(schema, known, run(max_values=200), CPU, lambda progress: None)
    assert {made.codec.slots[slot].path for slot in made.experts["gaussian_process"].slots} == {("y",)}


def test_a_time_budget_is_shared_and_kept(monkeypatch):
    unhurried = replace(EXPERTS["gaussian_process"], values_per_second=None)  # fitted, within no time
    monkeypatch.setitem(EXPERTS, "gaussian_process", unhurried)
    timed = replace(run(), train=replace(run().train, seconds=10.0))
    assert network_runs(timed)[0].train.seconds == 5.0
    seen: list[Progress] = []
    train(*things(), replace(run(), train=replace(run().train, seconds=1e-3, steps=5)), CPU, seen.append)
    told = [
        one.final_task for one in seen if one.final_task is not None and one.final_task.doing == "fitting functions"
    ]
    assert [one.done for one in told] == list(range(1, len(told) + 1))
    assert told[-1].done == told[-1].total


def test_with_a_weight_they_have_reserved_and_held_out_values_too():
    schema, known = things()
    codec = Codec.fit(schema, known[:150])
    complete, held_out_part = codec.encode(known[:150]), codec.encode(known[150:])
    training = without_reserved(complete, 0)
    candidates = gaussian_process.fit(
        codec, Sides(training, held_out_part, complete), config=GaussianProcessConfig(share=0.5), seed=0
    )
    y = codec.slot("", ("y",))

    def values(group) -> int:
        one = group.experts[y, USUALLY_VISIBLE]
        return len(one.expert.rows)

    def there(*sides) -> int:
        return sum(int((side.known & (side.slot == y)).sum()) for side in sides)

    assert values(candidates.group) <= there(training) < there(complete)
    assert values(candidates.refitted(candidates.group)) > there(complete)


def test_without_time_for_all_no_process_is_fitted_again(monkeypatch):
    schema, known = things()
    codec = Codec.fit(schema, known[:150])
    complete, held_out_part = codec.encode(known[:150]), codec.encode(known[150:])
    candidates = gaussian_process.fit(
        codec,
        Sides(without_reserved(complete, 0), held_out_part, complete),
        config=GaussianProcessConfig(share=0.5),
        seed=0,
    )
    before = {key: weighted.expert for key, weighted in candidates.group.experts.items()}
    assert len({slot for slot, _ in before}) > 1
    conditioned, monotonic, late = gaussian_process._conditioned, gaussian_process.time.monotonic, []

    def condition_slowly(*arguments):
        late.append(1e6)
        return conditioned(*arguments)

    monkeypatch.setattr(gaussian_process, "_conditioned", condition_slowly)
    monkeypatch.setattr(gaussian_process.time, "monotonic", lambda: monotonic() + sum(late))
    again = candidates.refitted(candidates.group, 1000.0)
    assert len(late) == 1  # the first took too long
    for key, weighted in again.experts.items():
        assert torch.equal(weighted.expert.coefficients, before[key].coefficients)
        assert torch.equal(weighted.expert.inverse_diagonal, before[key].inverse_diagonal)


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 1.0},
        {"share": -0.1},
        {"values": 0},
        {"points": 0},
        {"max_values": 0},
        {"points": 10**5},
        {"labels": 0},
        {"properties": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GaussianProcessConfig(**wrong)
