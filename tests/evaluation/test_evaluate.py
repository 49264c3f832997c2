"""An evaluation hides what it asks for, gives all else, and finds what a loop over one value at a time finds."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from models import calibrated, tiny
from worlds import WORLD, world

from kbdisk.data.graph import Graph, targets
from kbdisk.data.parse import read
from kbdisk.entity import Entity, Link
from kbdisk.errors import SchemaError
from kbdisk.evaluation.evaluate import (
    Evaluation,
    QuestionBatch,
    Scope,
    SourcePartition,
    evaluate,
    question_batch,
    summary,
)
from kbdisk.evaluation.intervals import Levels
from kbdisk.metrics import Case, overlapping
from kbdisk.model.diffusion import beliefs
from kbdisk.schemas.composites.listed import COUNT
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class


@pytest.fixture(scope="module")
def places():
    entities = world()
    return tiny(WORLD, entities, validation=0.0), entities


def batches_of(exam: Evaluation) -> Iterator[QuestionBatch]:
    return (batch for batch, _ in exam.batches())


def asked(trained, entities, given: float | None = None, **scope) -> dict[tuple[str, int], Case]:
    exam = Evaluation.of(trained, entities, None, Scope(**scope))
    found = {(exam.readings[case.entity].id, case.slot): case for case in exam.cases(given)}
    assert len(found) == len(exam.chosen.values) + len(exam.chosen.unread)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")
def test_other_processes_answer_as_this_one_does(monkeypatch, places):
    trained, entities = places
    answers = []
    for processes in (1, 3):
        monkeypatch.setattr("kbdisk.evaluation.evaluate.CHUNK", 64)
        monkeypatch.setattr("kbdisk.evaluation.evaluate.usable_processes", lambda device, count=processes: count)
        exam = Evaluation.of(trained, entities, None, Scope())
        answers.append((list(exam.cases()), [case for case in exam.cases(seconds=1e-9) if case.prediction is not None]))
    assert answers[1] == answers[0]
    assert 0 < len(answers[0][1]) < len(answers[0][0])


# ---------------------------------------------------------------- the same as one value at a time


def one_at_a_time(trained, entities, every):
    """The answer to each value, by taking it out of its entity and asking for it."""
    schema, codec = trained.schema, trained.codec
    whole = Graph.read(schema, entities)
    for entity in entities[::every]:
        reading = read(schema, entity)
        for path in reading.leaves:
            number = codec.slot(reading.class_name, path)
            if number is None or codec.slots[number].role != "value":
                continue
            length = path[-1:] == COUNT
            rest = {
                other: value
                for other, value in reading.leaves.items()
                if other != path and not (length and other[: len(path) - 1] == path[:-1])
            }
            bare = Entity(entity.id, schema.tree(rest, reading.class_name), entity.classes, entity.label)
            if read(schema, bare).leaves != rest:
                continue  # a list whose last place is gone is shorter
            is_link = trained.codec.index.is_link[number]
            graph = unanswered(schema, entities, reading, path) if is_link else whole
            tokens = trained.encode([bare], [path], graph)
            batch = tokens.batch(torch.tensor([0]))
            with torch.no_grad():
                found = beliefs(trained.network, batch).pick(batch.slot == number)
            ((kind, one),) = ((kind, one) for kind, one in found.kinds.items() if len(one.rows))
            yield (reading.id, number), reading.leaves[path], kind, one.belief


def unanswered(schema, entities, reading, path):
    """The graph in which nothing that a link leads to links back: that would tell the link."""
    there, back = targets(reading.leaves[path]), Link(reading.id)

    def without(value):
        return [one for one in value if one != back] if isinstance(value, list) else value

    rest = [
        replace(one, tree={name: without(value) for name, value in one.tree.items() if value != back})
        if one.id in there
        else one
        for one in entities
    ]
    return Graph.read(schema, rest)


def said_of(kind, belief, codec):
    if kind == "text":
        return overlapping(belief)[0]
    return codec.decode(belief.codes(belief.median()) if kind == "number" else belief.mode())[0]


@pytest.mark.parametrize(("which", "every"), [pytest.param("handsets", 11, marks=pytest.mark.slow), ("places", 3)])
def test_it_finds_what_asking_for_one_value_at_a_time_finds(which, every, request):
    trained, entities = request.getfixturevalue(which)
    found = asked(trained, entities)
    seen = 0
    for key, truth, kind, belief in one_at_a_time(trained, entities, every):
        case, codec = found[key], trained.codec.slots[key[1]].codec
        with torch.no_grad():
            said = said_of(kind, belief, codec)
            nats = -float(belief.log_prob(codec.encode([truth])))
        assert case.truth == truth
        assert case.prediction == (pytest.approx(said, rel=1e-4) if kind == "number" else said)
        assert case.nats == pytest.approx(nats, rel=1e-3, abs=1e-3)
        if kind == "number":
            assert case.mean == pytest.approx(float(belief.expected()), rel=1e-3)
            assert case.interval == pytest.approx([float(end) for end in belief.interval(0.9)], rel=1e-3, abs=1e-3)
        seen += 1
    assert seen > 0.8 * len(found) / every


@pytest.mark.slow
@pytest.mark.parametrize("which", ["handsets", "places"])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_hidden_changes_no_answer(which, whole, request):
    trained, entities = request.getfixturevalue(which)
    exam = Evaluation.of(trained, entities, None, Scope(whole=whole))
    assert exam.questions
    for posed in batches_of(exam):
        unseen = ~posed.batch.seen(posed.visible())
        assert bool((unseen & ~posed.hidden).any()) == (which == "places" and len(posed.batch.needs) > 0)
        blank = {
            kind: codes.masked_fill(unseen[start:end].view(-1, *[1] * (codes.dim() - 1)), 0)
            for kind, codes in posed.batch.values.items()
            for start, end in [posed.batch.spans[kind]]
        }
        with torch.no_grad():
            before, after = (
                beliefs(trained.network, batch, posed.asked, posed.visible())
                for batch in (posed.batch, replace(posed.batch, values=blank))
            )
        for kind in before.kinds:
            codes = posed.batch.values[kind][before.kinds[kind].rows]
            assert torch.equal(before.kinds[kind].belief.log_prob(codes), after.kinds[kind].belief.log_prob(codes))


# ---------------------------------------------------------------- what is hidden with what


def test_parts_are_hidden_one_by_one_or_as_a_whole(handsets):
    trained, entities = handsets
    codec = trained.codec
    month, day, year = (codec.slot("Phone", ("launch", part)) for part in ("month", "day", "year"))
    for whole, expected in ((False, {month}), (True, {month, day, year})):
        exam = Evaluation.of(trained, entities, None, Scope(whole=whole))
        hidden = [one.hidden for one in exam.questions if month in one.asked]
        assert hidden
        assert all(set(one) == expected for one in hidden)


def test_the_length_of_a_list_is_asked_for_without_its_places(handsets):
    trained, entities = handsets
    codec = trained.codec
    count = codec.slot("Phone", ("cameras", *COUNT))
    exam = Evaluation.of(trained, entities, None, Scope())
    under = {number for number, slot in enumerate(codec.slots) if slot.path[0] == "cameras"}
    assert all(set(one.hidden) == under for one in exam.questions if count in one.asked)
    batch = question_batch(exam.tokens, exam.questions)
    for number, question in enumerate(batch.questions):
        own = batch.batch.entity == number
        assert set(batch.batch.slot[own & batch.asked].tolist()) == set(question.asked)
        assert set(batch.batch.slot[own & batch.hidden].tolist()) <= set(question.hidden)


def test_given_properties_are_seen_and_never_asked_for(handsets):
    trained, entities = handsets
    row = trained.codec.slot("Phone", ("row",))
    exam = Evaluation.of(trained, entities, None, Scope())
    assert all(row not in one.asked for one in exam.questions)
    for posed in batches_of(exam):
        assert bool(posed.visible(0.0)[posed.batch.slot == row].all())


# ---------------------------------------------------------------- hiding is real, and seeing too

COPIES = of_one_class(
    {
        ("a",): Property(Category(("p", "q", "r", "s"), closed=True)),
        ("b",): Property(Category(("p", "q", "r", "s"), closed=True)),
        ("x",): Property(Number()),
    }
)


@pytest.fixture(scope="module")
def copies():
    draw = random.Random(3)
    values = [draw.choice("pqrs") for _ in range(200)]
    entities = [Entity(f"e{n}", {"a": one, "b": one, "x": draw.random()}) for n, one in enumerate(values)]
    return tiny(COPIES, entities, nearest=8, steps=80, batch=32, rate=2e-2, warmup=10, smoothing=0.9), entities


@pytest.mark.slow
def test_a_value_that_stands_twice_is_told_and_one_that_stands_alone_is_not(copies):
    trained, entities = copies
    rows = {row["path"]: row for row in evaluate(trained, SourcePartition.of(trained, entities).fair)}
    assert rows["a"]["n"] == 20
    assert rows["a"]["better"] == rows["b"]["better"] == 1.0
    assert rows["x"]["better"] < 0.2
    blind = {row["path"]: row for row in evaluate(trained, entities, given=0.0)}
    assert blind["a"]["better"] < 0.15  # one label of four is right by chance


# ---------------------------------------------------------------- which values


@pytest.mark.slow
def test_at_most_so_many_values_of_each_property_are_asked_for_always_the_same(handsets):
    trained, entities = handsets
    rows = evaluate(trained, entities, scope=Scope(limit=7, texts=3))
    assert {row["n"] for row in rows if row["of"] >= 7 and row["kind"] != "text"} == {7}
    assert {row["n"] for row in rows if row["kind"] == "text"} == {3}
    assert any(row["of"] > 30 for row in rows)
    assert rows == evaluate(trained, entities, scope=Scope(limit=7, texts=3))
    other = asked(trained, entities, limit=7, seed=1)
    assert other.keys() != asked(trained, entities, limit=7).keys()


def test_of_texts_at_most_so_many_of_all_properties_are_asked_for(handsets):
    trained, entities = handsets
    exams = [Evaluation.of(trained, entities, None, Scope(limit=7, texts=3, texts_in_all=most)) for most in (None, 1)]
    asked_for = [Counter(trained.codec.slots[slot].kind for _, slot in exam.chosen.values) for exam in exams]
    assert asked_for[0]["text"] > 1
    assert asked_for[1] == {**asked_for[0], "text": 1}


def test_where_the_time_ends_a_random_part_was_asked_for(handsets, monkeypatch):
    monkeypatch.setattr("kbdisk.evaluation.evaluate.QUESTIONS_PER_BLOCK", 60)
    trained, entities = handsets
    exam = Evaluation.of(trained, entities, None, Scope(texts=1))
    whole, part = list(exam.cases()), list(exam.cases(seconds=0.0))
    assert 0 < len(part) < len(whole) / 2
    assert {(case.entity, case.slot) for case in part} <= {(case.entity, case.slot) for case in whole}
    assert len({case.slot for case in part}) > 3
    ample = list(exam.cases(seconds=1e9))
    assert sorted((case.entity, case.slot) for case in ample) == sorted((case.entity, case.slot) for case in whole)


def test_paths_and_classes_choose(handsets):
    trained, entities = handsets

    def paths(**scope) -> set[str]:
        return {row["path"] for row in evaluate(trained, entities, scope=Scope(limit=2, **scope))}

    assert paths(only=(("launch",),)) == {"launch.year", "launch.month", "launch.day"}
    assert paths(only=(("cameras", -1, "kind"), ("oem",))) == {"cameras[].kind", "oem"}
    assert paths(classes=("Maker",)) == {"name", "founded", "country"}
    with pytest.raises(SchemaError, match=r"launched: expected a path that the model predicts.*Did you mean 'launch"):
        paths(only=(("launched",),))
    with pytest.raises(SchemaError, match=r"Phon: expected one of Phone, Maker\. Did you mean 'Phone'"):
        paths(classes=("Phon",))


def test_values_that_the_schema_does_not_allow_are_wrong(copies):
    trained, _ = copies
    odd = [Entity("new1", {"a": "t", "b": "p", "x": "soon"}), Entity("new2", {"a": "q", "b": "q", "x": 0.5})]
    rows = {row["path"]: row for row in evaluate(trained, odd)}
    assert (rows["a"]["n"], rows["a"]["unread"], rows["a"]["of"]) == (2, 1, 2)
    assert rows["a"]["ours"] == 0.5
    assert rows["a"]["constant"] >= 0.5
    assert (rows["x"]["n"], rows["x"]["unread"]) == (1, 1)


def test_a_label_that_training_never_had_is_wrong_but_has_its_nats():
    schema = of_one_class({("a",): Property(Category()), ("b",): Property(Category())})
    draw = random.Random(1)
    entities = [Entity(f"e{n}", {"a": draw.choice("pq"), "b": draw.choice("rs")}) for n in range(20)]
    trained = tiny(schema, entities)
    (a, _) = evaluate(trained, [Entity("new", {"a": "never met", "b": "r"})])
    assert (a["ours"], a["constant"], a["unread"]) == (1.0, 1.0, 0)
    assert 0 < a["nats"] < 10


def test_a_misfit_composite_counts_for_each_of_its_parts(handsets):
    trained, entities = handsets
    odd = replace(entities[0], id="odd", tree={**entities[0].tree, "launch": "whenever"})
    rows = {row["path"]: row for row in evaluate(trained, [odd])}
    assert {rows[f"launch.{part}"]["unread"] for part in ("year", "month", "day")} == {1}


def test_progress_is_told(handsets):
    trained, entities = handsets
    told = []
    evaluate(trained, entities, scope=Scope(limit=20), watch=lambda done, whole: told.append((done, whole)))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1][0] == told[-1][1]


# ---------------------------------------------------------------- which entities, and all in one


def test_entities_are_sorted_by_what_the_model_knows_of_them(handsets):
    trained, entities = handsets
    stranger, new = Entity("s", {}, ("Car",)), Entity("n", {"oem": "Nokia"}, ("Phone",))
    sides = SourcePartition.of(trained, [*entities, stranger, new])
    assert {one.id for one in sides.held_out} == set(trained.record.validation)
    assert {one.id for one in sides.trained_on} == set(trained.record.training)
    assert (sides.new, len(sides.without_class)) == ([new], 1)
    assert {one.id for one in sides.fair} == {*trained.record.validation, "n"}
    known = [one for one in entities if one.id in trained.record.training]
    assert SourcePartition.of(trained, known).fair == known


def test_held_out_entities_stand_for_those_that_a_model_of_a_sample_left_out(handsets):
    trained, entities = handsets
    new = Entity("new", {"oem": "Nokia"}, ("Phone",))
    facts = {**trained.record.facts, "left_out": 1}
    sampled = replace(trained, record=replace(trained.record, facts=facts))
    sides = SourcePartition.of(sampled, [*entities, new])
    assert sides.new == [new]
    assert sides.fair == sides.held_out
    assert new in SourcePartition.of(sampled, [*entities, new], is_same_source=False).fair


def test_an_id_that_is_a_place_in_another_source_says_nothing(handsets):
    trained, _ = handsets
    trained = replace(trained, record=replace(trained.record, training=["1", "a"], validation=[]))
    rows = [
        Entity("1", {"oem": "Nokia"}, ("Phone",), position=1, nameless=True),
        Entity("a", {"oem": "Nokia"}, ("Phone",), position=2),
    ]
    assert SourcePartition.of(trained, rows).new == []
    assert SourcePartition.of(trained, rows, is_same_source=False).new == rows[:1]
    named = replace(rows[0], nameless=False)  # an id that happens to be a number
    assert SourcePartition.of(trained, [named], is_same_source=False).new == []


def test_a_summary_is_of_what_can_be_compared():
    rows = [
        {"better": 0.5, "nats": 1.0, "constant_nats": 2.0, "n": 3},
        {"better": -0.1, "nats": 4.0, "constant_nats": 3.0, "n": 1},
        {"better": None, "nats": None, "constant_nats": None, "n": 5},
    ]
    found = summary(rows)
    assert (found.properties, found.better) == (2, 1)
    assert found.ratio == pytest.approx((0.5 + 1.1) / 2)
    assert found.nats == pytest.approx((3 * 1.0 - 1.0) / 4)
    assert summary([]).ratio is None


def test_intervals_are_as_wide_as_held_out_values_say(handsets):
    model, entities = handsets
    narrow, wide = (
        asked(calibrated(model, levels=Levels(of_all=(level,) * 3)), entities[:20]) for level in (0.2, 0.99)
    )
    intervals = [(case.interval, wide[place].interval) for place, case in narrow.items() if case.interval is not None]
    assert intervals
    assert all(low[0] >= high[0] and low[1] <= high[1] for low, high in intervals)
    assert any(low != high for low, high in intervals)
