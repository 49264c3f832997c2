"""Latent nearest neighbours: every value is masked alone once; weights, and which neighbours are excluded."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from models import tiny_run
from things import entities, schema, thing

from kbdisk.entity import Entity
from kbdisk.experts import latent_knn
from kbdisk.experts.base import LITTLE_VISIBLE, USUALLY_VISIBLE, visibility_levels
from kbdisk.experts.config import LatentKNNConfig
from kbdisk.experts.latent_knn import PASSES_PER_VALUE, LatentKNN, Timing, WithLatentKNN, measure, seconds
from kbdisk.experts.queries import Question, chunks, draw_entities, questions, usual_amounts
from kbdisk.leaves.number.belief import AROUND_WIDTHS
from kbdisk.model.diffusion import beliefs
from kbdisk.model.masking import Hidden
from kbdisk.schemas.composites import Coordinate
from kbdisk.schemas.composites.listed import COUNT, Listed
from kbdisk.schemas.kinds import Category, Link, Number, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema, of_one_class
from kbdisk.training.data import Data
from kbdisk.training.loop import build, shapes_at_any_width
from kbdisk.training.train import train
from kbdisk.training.trained import Trained
from kbdisk.training.validation import Progress

CPU = torch.device("cpu")
PAIRS = 400


class Enough(Exception):
    """Ends what has told all that is asked."""


def twins() -> tuple[Schema, list[Entity]]:
    """Phones in families of four: a family's mark tells the size, to the last digit, and the maker; nothing else does."""
    rng = random.Random(0)
    families = [(rng.uniform(0, 1000), rng.uniform(1, 9), f"maker {rng.randrange(30)}") for _ in range(PAIRS // 4)]
    known = []
    for number in range(PAIRS):
        mark, size, maker = families[number % len(families)]
        tree = {"mark": round(mark + rng.uniform(0, 0.01), 3), "size": round(size, 3), "maker": maker}
        known.append(Entity(f"p{number}", tree))
    leaves = {("mark",): Number(), ("size",): Number(), ("maker",): Category(), ("id",): Text()}
    return of_one_class({path: Property(leaf) for path, leaf in leaves.items() if path != ("id",)}), known


@pytest.fixture(scope="module")
def model() -> Trained:
    own, known = twins()
    return train(own, known, tiny_run(nearest=8, steps=60, batch=64), CPU, lambda progress: None)


def test_a_measurement_says_how_long_so_many_values_take(tokens):
    data, network = tokens
    without, once = (measure(network, data.training, nearest) for nearest in (0, 8))
    assert without.weights == 0 < min(without.forward, once.forward, once.weights)
    few, many = (seconds(Timing(1.0, 0.0), data.training, data.validation, most) for most in (10, 20))
    assert many - few == pytest.approx(PASSES_PER_VALUE * 20)  # ten more that are remembered, and ten that judge
    both = seconds(Timing(1.0, 3.0), data.training, data.validation, 10)
    assert both - few == pytest.approx(3.0 * 10)


@pytest.fixture(scope="module")
def tokens():
    known = entities(*(thing(i) for i in range(30)))
    run = tiny_run(nearest=8)
    data = Data.prepare(schema(), known, run)
    return data, build(data.codec, run, shapes_at_any_width(data.codec, run.model))


def asked(data, batch, rounds: int = 0) -> list[Hidden]:
    return [hidden for _, hidden, _ in every_question(data, batch, rounds)]


def every_question(data, batch, rounds: int = 0) -> list[Question]:
    generator = torch.Generator().manual_seed(0)
    return list(questions(batch, data.training.layout, usual_amounts(data.training), rounds, generator))


def test_every_value_is_masked_alone_once_and_every_composite_whole_once(tokens):
    data, _ = tokens
    batch = data.training.batch(torch.arange(len(data.training)))
    free = batch.known & ~batch.fixed
    alone = torch.zeros(len(batch), dtype=torch.long)
    whole = torch.zeros_like(alone)
    for hidden in asked(data, batch):
        assert (hidden.asked <= free).all()
        assert not (hidden.visible & hidden.asked).any()
        units = torch.stack([batch.entity, batch.unit], 1)[hidden.asked]
        many = len(units) > len(units.unique(dim=0))
        owners = units if many else batch.entity[hidden.asked]
        assert len(owners.unique(dim=0)) <= batch.size
        if many:
            whole += hidden.asked
        else:
            assert len(batch.entity[hidden.asked].unique()) == int(hidden.asked.sum())  # one of each entity at most
            alone += hidden.asked
    shared = batch.unit.bincount(weights=free.double(), minlength=len(batch))[batch.unit] > 1
    assert (alone + whole)[free & ~shared].eq(1).all()
    assert (alone + whole)[free & shared].eq(2).all()
    assert not (alone + whole)[~free].any()


def test_masking_one_value_leaves_the_usual_amount_and_masking_all_leaves_little(tokens):
    data, _ = tokens
    batch, enough = data.training.batch(torch.arange(20)), usual_amounts(data.training)
    *alone, everything, one, two = every_question(data, batch, 3)
    assert everything[2].unique().tolist() == [LITTLE_VISIBLE]
    for _, hidden, level in (*alone, everything, one, two):
        assert level.equal(visibility_levels(batch, hidden.visible, enough))  # as it will be when the model is asked
    assert torch.stack([(level == USUALLY_VISIBLE).float().mean() for _, _, level in alone]).mean() > 0.8
    for _, hidden, level in (everything, one, two):
        assert hidden.asked.any()
        assert (level[batch.entity[hidden.asked]] == LITTLE_VISIBLE).all()
        assert not hidden.weight[~hidden.asked].any()


def test_a_composite_and_a_link_with_what_came_over_it_are_one_value_each():
    of_city = {("of",): Link(), ("at",): Coordinate(), ("size",): Number()}
    city = Class("city", {path: Property(leaf) for path, leaf in of_city.items()})
    country = Class("country", {(name,): Property(Number()) for name in "abcd"})
    known = [
        Entity(f"c{i}", {"of": f"k{i % 4}", "at": {"lat": float(i), "lon": float(-i)}, "size": i}, ("city",))
        for i in range(40)
    ]
    known += [Entity(f"k{i}", dict.fromkeys("abcd", i), ("country",)) for i in range(4)]
    data = Data.prepare(Schema({"city": city, "country": country}), known, tiny_run(validation=0.0))
    cities = data.training.classes == data.codec.classes.index("city")
    batch = data.training.batch(cities.nonzero()[:, 0])
    several = every_question(data, batch)
    gone = {
        count
        for _, hidden, _ in several
        for count in batch.entity[batch.known & ~hidden.visible].bincount(minlength=batch.size).tolist()
    }
    assert {1, 2} < gone, "a number, a coordinate, a link with what the country has"
    assert max(gone) > 4
    assert all(level.unique().tolist() == [USUALLY_VISIBLE] for _, _, level in several)


def test_with_the_length_of_a_list_its_items_are_masked():
    kind = Listed({"year": Number(), "with": Listed({"": Category()})})
    known = [
        Entity(str(i), {"x": i, "prizes": [{"year": 1900 + n, "with": ["a", "b"][: n % 3]} for n in range(i % 4)]})
        for i in range(40)
    ]
    data = Data.prepare(of_one_class({("x",): Property(Number()), ("prizes",): Property(kind)}), known, tiny_run())
    batch, slots = data.training.batch(torch.arange(len(data.training))), data.codec.slots
    lengths = {
        number: slot.path[:-1] for number, slot in enumerate(slots) if slot.kind == "number" and slot.path[-1:] == COUNT
    }
    assert len(lengths) >= 3
    met = 0
    for hidden in asked(data, batch, 2):
        visible = [
            (entity, slots[slot].path)
            for entity, slot in zip(
                batch.entity[hidden.visible].tolist(), batch.slot[hidden.visible].tolist(), strict=True
            )
        ]
        for entity, slot in zip(batch.entity[hidden.asked].tolist(), batch.slot[hidden.asked].tolist(), strict=True):
            if slot in lengths:
                within = lengths[slot]
                met += 1
                assert not [path for one, path in visible if one == entity and path[: len(within)] == within]
    assert met > 100
    alone = [hidden for hidden in asked(data, batch) if not {*batch.slot[hidden.asked].tolist()} & {*lengths}]
    assert any(len(slots[slot].path) > 2 for hidden in alone for slot in batch.slot[hidden.visible].tolist())


def test_one_large_entity_leaves_room_for_the_others():
    known = [Entity(str(i), {"x": list(range(300 if i == 3 else 2))}) for i in range(40)]
    data = Data.prepare(of_one_class({("x",): Property(Listed({"": Number()}))}), known, tiny_run(validation=0.0))
    for seed in range(20):
        assert len(draw_entities(data.training, 100, torch.Generator().manual_seed(seed))) > 20


def test_chunks_hold_every_entity_once_and_drawn_entities_have_no_more_values_than_wanted(tokens):
    data, _ = tokens
    every = draw_entities(data.training, 1 << 40, torch.Generator())
    assert sorted(torch.cat(list(chunks(data.training, every))).tolist()) == list(range(len(data.training)))
    few = draw_entities(data.training, 200, torch.Generator())
    assert 0 < int(data.training.sizes[few].sum()) <= 200


def test_the_usual_amount_is_what_nine_of_ten_entities_have_without_one_value(tokens):
    data, _ = tokens
    every = [data.training.batch(torch.tensor([i])) for i in range(len(data.training))]
    free = [batch.known & ~batch.fixed for batch in every]
    sizes = torch.tensor([len(batch.unit[own].unique()) for batch, own in zip(every, free, strict=True)])
    assert all(size < own.sum() for size, own in zip(sizes, free, strict=True))  # some are composites
    (found,) = usual_amounts(data.training).tolist()
    assert (sizes - 1 >= found).float().mean() >= 0.9


@pytest.mark.slow
def test_members_of_families_are_predicted_by_the_others_to_the_last_digit(model):
    own, known = twins()
    held = set(model.record.validation)
    tokens = model.encode([one for one in known if own.id_of(one) in held])
    batch = tokens.batch(torch.arange(len(tokens)))
    size = batch.slot == next(n for n, slot in enumerate(model.codec.slots) if slot.path == ("size",))
    nats = []
    for believer in (model.network, model.full_model):
        told = beliefs(believer, batch, size, batch.known & ~size)
        nats.append(float(-told.log_prob(batch)[size].mean()))
    assert model.latent_knn is not None
    assert nats[1] < nats[0] - 0.5


def test_no_entity_is_its_own_neighbour(model):
    _, known = twins()
    mark = model.codec.slot(model.codec.slots[0].class_name, ("mark",))
    tokens = model.encode(known[:20])
    batch = tokens.batch(torch.arange(20))
    hidden = batch.slot == mark
    latent = only(model.latent_knn, batch.id_hash)
    alone = beliefs(
        WithLatentKNN(model.network, latent), replace(batch, id_hash=batch.id_hash * 0 - 1), hidden, ~hidden
    )
    own = beliefs(WithLatentKNN(model.network, only(model.latent_knn, batch.id_hash[:1])), batch, hidden, ~hidden)
    plain = beliefs(model.network, batch, hidden, ~hidden)
    first = hidden.nonzero()[0]
    assert own.log_prob(batch)[first] == pytest.approx(float(plain.log_prob(batch)[first]), abs=1e-4)
    assert alone.log_prob(batch)[first] > plain.log_prob(batch)[first] + 0.5  # as a stranger he would have been


def test_the_belief_is_centred_on_the_answer(model):
    """With all mass around answers, medians are answers; slots of which nothing is remembered keep their own."""
    _, known = twins()
    batch = model.encode(known[:20]).batch(torch.arange(20))
    size = batch.slot == model.codec.slot(model.codec.slots[0].class_name, ("size",))
    around = torch.zeros(len(AROUND_WIDTHS), dtype=torch.float64)
    around[0] = 1
    indices = {place: replace(one, around=around.clone()) for place, one in model.latent_knn.indices.items()}
    believer = WithLatentKNN(model.network, replace(model.latent_knn, indices=indices))
    told = beliefs(believer, batch, size, batch.known & ~size).kinds["number"].belief
    assert told.median().tolist() == pytest.approx(told.expected().tolist(), abs=0.05)
    plain = beliefs(model.network, batch, size, batch.known & ~size).kinds["number"].belief
    assert (plain.median() - plain.expected()).abs().mean() > 0.1


def only(latent: LatentKNN | None, who: torch.Tensor) -> LatentKNN:
    """What is remembered of some alone."""
    assert latent is not None
    indices = {}
    for place, index in latent.indices.items():
        mine = torch.isin(index.entities, who)
        several = {name: getattr(index, name)[mine] for name in ("keys", "codes", "entities", "held_out")}
        if mine.any():
            indices[place] = replace(index, **several)
    return replace(latent, indices=indices)


def test_held_out_entities_are_neighbours_of_new_ones_and_not_of_each_other(model):
    own, known = twins()
    latent = model.latent_knn
    held = [one for one in known if own.id_of(one) in set(model.record.validation)]
    batch = model.encode(held).batch(torch.arange(len(held)))
    assert torch.isin(batch.id_hash, latent.held_out).all()
    mine = only(latent, latent.held_out)
    assert len(mine) > 0
    size = batch.slot == model.codec.slot(model.codec.slots[0].class_name, ("size",))
    told = beliefs(WithLatentKNN(model.network, mine), batch, size, batch.known & ~size)
    plain = beliefs(model.network, batch, size, batch.known & ~size)
    torch.testing.assert_close(told.log_prob(batch), plain.log_prob(batch), atol=1e-4, rtol=1e-4)


def test_fitting_is_deterministic(model):
    data, run = Data.prepare(*twins(), model.run), model.run
    again = latent_knn.fit(model.network, data.training, data.validation, run.experts["latent_knn"], run.seed)
    assert again.indices.keys() == model.latent_knn.indices.keys() != set()
    for place, index in model.latent_knn.indices.items():
        assert torch.equal(index.mass, again.indices[place].mass)
        assert torch.equal(index.keys, again.indices[place].keys)


@pytest.mark.parametrize(("choice", "held"), [(LatentKNNConfig(neighbours=0), True), (LatentKNNConfig(), False)])
def test_without_neighbours_or_held_out_entities_there_is_no_index(tokens, choice, held):
    data, network = tokens
    beside = (
        data.validation
        if held
        else data.validation.__class__(**{**vars(data.validation), "classes": data.validation.classes[:0]})
    )
    assert latent_knn.fit(network, data.training, beside, choice, 0) is None


def test_progress_is_reported():
    own, known = twins()
    seen: list[Progress] = []
    train(own, known, tiny_run(nearest=8), CPU, seen.append)
    tasks = [step.final_task for step in seen if step.final_task is not None and step.final_task.doing == "indexing"]
    assert tasks == sorted(tasks)
    assert tasks[-1] == ("indexing", PAIRS, PAIRS)


@pytest.mark.parametrize("name", ["neighbours", "values", "rounds", "prior"])
def test_settings_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}: expected at least 0, got -1"):
        LatentKNNConfig(**{name: -1})
    with pytest.raises(ValueError, match="prior: expected more than 0, got 0"):
        LatentKNNConfig(prior=0)


@pytest.mark.slow
def test_a_small_index_is_judged_by_fewer_held_out_values(tokens, monkeypatch):
    monkeypatch.setattr("kbdisk.experts.latent_knn.MIN_HELD_OUT_VALUES", 20)
    data, network = tokens
    seen: list[int] = []

    def first(done: int, of: int) -> None:
        raise Enough(of)

    for values in (80, 240, 1 << 17):
        config = LatentKNNConfig(values=values, rounds=0)
        with pytest.raises(Enough) as told:
            latent_knn.fit(network, data.validation, data.training, config, 0, first)
        seen.append(told.value.args[0])
        generator = torch.Generator().manual_seed(0)
        sides = (
            draw_entities(data.validation, values, generator),
            draw_entities(data.training, max(values // 8, 20), generator),
        )
        assert seen[-1] == sum(map(len, sides))
    assert seen[0] < seen[-1] == len(data.validation) + len(data.training)


def test_the_answer_for_a_number_without_an_index_does_not_depend_on_what_else_is_asked(model):
    slots = {path: model.codec.slot("", (path,)) for path in ("mark", "size")}
    assert model.latent_knn is not None
    of_size = next(index for key, index in model.latent_knn.indices.items() if key[0] == slots["size"])
    indices = {(slots["size"], level): of_size for level in (USUALLY_VISIBLE, LITTLE_VISIBLE)}
    partly = WithLatentKNN(model.network, replace(model.latent_knn, indices=indices))
    batch = model.encode([Entity("x", {"maker": "maker 1"})], "all").batch(torch.arange(1))
    mark = batch.slot == slots["mark"]
    alone, among = (beliefs(partly, batch, asked).pick(mark).kinds["number"].belief for asked in (mark, batch.asked))
    assert alone.typical().item() == pytest.approx(among.typical().item(), rel=1e-4)
    assert alone.expected().item() == pytest.approx(among.expected().item(), rel=1e-4)
