"""What a run is trained on, also where there is hardly anything, and a clear word where there is nothing."""

from __future__ import annotations

import pytest
import torch
from models import phones, tiny, tiny_run

from kbdisk.api.train import limits_after_training
from kbdisk.data.spool import Spool
from kbdisk.entity import Entity, Link
from kbdisk.errors import SchemaError
from kbdisk.experts.config import BoostedTreesConfig
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema
from kbdisk.training import data as data_module
from kbdisk.training.clock import CALIBRATION, EVALUATION
from kbdisk.training.data import Data, max_learnt, part_with_time_for
from kbdisk.training.run import Run

SCHEMA = Schema(
    {
        "A": Class("A", {("x",): Property(Number()), ("c",): Property(Category())}),
        "B": Class("B", {("y",): Property(Number()), ("to",): Property(LinkLeaf("A"))}),
    }
)


def some(a: int, b: int) -> list[Entity]:
    return [
        *(Entity(f"a{n}", {"x": n / 2, "c": "uv"[n % 2]}, ("A",)) for n in range(a)),
        *(Entity(f"b{n}", {"y": n * 2, "to": Link("a0")}, ("B",)) for n in range(b)),
    ]


def test_the_codec_knows_training_entities_alone():
    entities = [*some(40, 0), Entity("far", {"x": 1e6, "c": "w"}, ("A",))]
    for seed in range(40):
        data = Data.prepare(SCHEMA, entities, tiny_run(seed=seed))
        if "far" in data.validation.ids:
            break
    assert data.codec.slots[data.codec.slot("A", ("x",))].codec.training_range[1] < 100
    assert not set(data.training.ids) & set(data.validation.ids)


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(2, 0), (1, 1), (3, 1), (20, 1), (5, 12)])
def test_a_few_entities_can_be_trained_on(a, b):
    trained = tiny(SCHEMA, some(a, b), batch=64)
    assert trained.record.facts["steps"] == 5
    assert len(trained.record.training) + len(trained.record.validation) == a + b
    assert bool(trained.record.validation) == (max(a, b) >= 10)
    assert all(one.isfinite().all() for one in trained.network.parameters())


def test_where_nothing_is_held_out_the_last_weights_are_kept():
    trained = tiny(SCHEMA, some(6, 0))
    assert trained.record.facts["best_step"] == 5
    assert trained.record.history == []


@pytest.mark.parametrize(
    ("entities", "complaint"),
    [
        ([], r"expected at least 2 of the schema's classes \(A, B\), got 0 of 0\."),
        (some(1, 0), r"expected at least 2 of the schema's classes \(A, B\), got 1 of 1\."),
        ([Entity("s", {}, ("Strange",))], r"got 0 of 1\. Their classes are: Strange\."),
    ],
)
def test_too_few_entities_are_told(entities, complaint):
    with pytest.raises(SchemaError, match=complaint):
        Data.prepare(SCHEMA, entities, tiny_run())


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({("x",): Property(Number(), role="given")}, r"got x \(role: given\)"),
        ({("q",): Property(Category())}, r"got q \(no training entity has a value\)"),
        ({("x",): Property(Number(), role="ignore")}, "got no property"),
        ({}, "got no property"),
    ],
)
def test_a_schema_without_anything_to_predict_is_told(properties, complaint):
    with pytest.raises(SchemaError, match=f"expected a property that can be predicted, {complaint}"):
        Data.prepare(Schema({"A": Class("A", properties)}), some(5, 0), tiny_run())


def test_preparing_twice_makes_the_same():
    one, other = (Data.prepare(*phones(), tiny_run()) for _ in range(2))
    assert one.training.ids == other.training.ids
    assert one.codec.to_json() == other.codec.to_json()
    assert torch.equal(one.training.row, other.training.row)


def test_what_is_held_out_already_is_all_that_is():
    others = [Entity(f"other{n}", {"x": n, "c": "w"}, ("A",)) for n in range(3)]
    data = Data.prepare(SCHEMA, some(40, 0), tiny_run(), others)
    assert len(data.training) == 40
    assert data.validation.ids == ("other0", "other1", "other2")
    assert "w" not in data.codec.slots[data.codec.slot("A", ("c",))].codec.labels.values


def test_held_out_values_are_those_of_held_out_entities_and_the_reserved_ones():
    run = tiny_run().with_experts(boosted_trees=BoostedTreesConfig(share=0.2))
    unlinked, linked = Data.prepare(SCHEMA, some(60, 0), run), Data.prepare(SCHEMA, some(60, 40), run)
    assert unlinked.complete is None
    slots = [unlinked.codec.slot("A", path) for path in (("x",), ("c",))]
    assert unlinked.held_out_values[slots].tolist() == [len(unlinked.validation)] * 2
    assert linked.complete is not None
    known = sum(int(side.free.sum()) for side in (linked.complete, linked.validation))
    assert int(linked.held_out_values.sum()) == known - int(linked.training.free.sum())


def test_stages_after_training_have_no_more_time_than_their_questions_can_use():
    run = Run.of("default").with_train(seconds=300.0)
    few, many = (
        limits_after_training(run, SCHEMA, 1, Data.prepare(SCHEMA, some(count, 0), run)) for count in (100, 20_000)
    )
    assert few[CALIBRATION].most == pytest.approx(3.0 + 0.009 * 2 * 20)  # two values of each of 20 entities
    assert few[EVALUATION].most == pytest.approx(1.0 + 0.003 * 2 * 20)
    assert few["presence_trees"].most == pytest.approx(2.0 + 0.00015 * 2 * 80)
    assert many[CALIBRATION].most > 10 * few[CALIBRATION].most
    assert [few[name].share for name in few] == [many[name].share for name in many]


def test_a_run_learns_from_a_sample_of_the_entities_and_all_are_evidence():
    entities = [
        *(Entity(f"a{n}", {"x": n / 2} | ({"c": "uv"[n % 2]} if n % 4 else {}), ("A",)) for n in range(200)),
        *(Entity(f"b{n}", {"y": n * 2, "to": Link(f"a{n}")}, ("B",)) for n in range(200)),
    ]
    run = tiny_run(validation=0.0)
    everything = Data.prepare(SCHEMA, entities, run)
    data = Data.prepare(SCHEMA, entities, run.with_train(entities=100))
    assert everything.left_out == 0
    assert 60 < len(data.training) < 140
    assert data.left_out == 400 - len(data.training)
    assert everything.missing == 50
    assert data.missing == pytest.approx(50, abs=20)
    of_link = next(place for place, slot in enumerate(data.codec.slots) if slot.over and slot.path == ("to", "x"))
    in_sample = sum(id.startswith("b") for id in data.training.ids)
    assert int((data.training.slot == of_link).sum()) == in_sample


@pytest.fixture
def little_time(monkeypatch):
    """A second has time for 400 values, and for reading 1,000."""
    monkeypatch.setattr(data_module, "VALUES_PER_SECOND", 400)
    monkeypatch.setattr(data_module, "MIN_VALUES_SAMPLED", 0)
    monkeypatch.setattr(data_module, "READ_PER_SECOND", 1000)
    monkeypatch.setattr(data_module, "MIN_LEARNT", 10)


@pytest.mark.parametrize(("seconds", "left_out"), [(0.5, True), (10.0, False)])
def test_a_budget_learns_from_what_it_has_time_for(little_time, seconds, left_out):
    data = Data.prepare(SCHEMA, some(300, 0), tiny_run().with_train(seconds=seconds))
    assert bool(data.left_out) == left_out
    if left_out:
        assert len(data.training) + len(data.validation) == pytest.approx(100, abs=30)


def test_a_sample_of_too_few_entities_is_told():
    with pytest.raises(SchemaError, match="expected at least 2 of the schema's classes"):
        Data.prepare(SCHEMA, some(300, 0), tiny_run(validation=0.9).with_train(entities=1))


@pytest.mark.parametrize(
    ("b", "seconds", "learnt"),
    [
        (0, 0.5, 100),  # of a table a sample is read
        (0, 5.0, None),
        (100, 0.5, 100),  # with links a sample, too, where there is no time to read all values as evidence
        (100, 0.8, None),
    ],
)
def test_a_part_of_a_large_source_is_read_where_there_is_no_time_for_all(little_time, b, seconds, learnt):
    schema = SCHEMA if b else Schema({"A": SCHEMA.classes["A"]})
    entities, run = some(400 - b, b), tiny_run().with_train(seconds=seconds)
    assert part_with_time_for(schema, entities, run) is None
    part = part_with_time_for(schema, Spool([*entities, Entity("c", {"x": 1}, ("C",))]), run)
    if learnt is None:
        assert part is None
    else:
        assert part is not None
        places, left_out = part
        assert len(places) == pytest.approx(learnt, abs=40)
        assert left_out == 400 - len(places)
        assert 400 not in places


def test_a_run_by_steps_reads_all(little_time):
    assert part_with_time_for(SCHEMA, Spool(some(400, 0)), tiny_run()) is None


def test_each_target_of_a_link_takes_memory_so_a_part_with_links_has_a_limit(little_time, monkeypatch):
    monkeypatch.setattr(data_module, "MAX_LINKED_VALUES", 100)
    run = tiny_run().with_train(seconds=0.7)
    linked, table = some(200, 200), [Entity(f"a{n}", {"x": n, "c": "u"}, ("A",)) for n in range(400)]
    [places, _] = part_with_time_for(SCHEMA, Spool(linked), run)
    assert len(places) == pytest.approx(50, abs=25)
    [places, _] = part_with_time_for(Schema({"A": SCHEMA.classes["A"]}), Spool(table), run)
    assert len(places) == pytest.approx(140, abs=40)


def test_wide_entities_are_a_thousand_at_least():
    assert max_learnt(1500, 1500 * 20_000, tiny_run().with_train(seconds=60.0)) == 1000
    assert max_learnt(500, 500 * 20_000, tiny_run().with_train(seconds=60.0)) >= 500
