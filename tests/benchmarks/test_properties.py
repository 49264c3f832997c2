"""One property is hidden, others are given: ours and baselines are asked for the same, and scored by the same lines."""

from __future__ import annotations

import math

import pytest
from benchdata import write_gsm, write_nuclear
from models import tiny

from benchmarks import gsm, nuclear, properties
from benchmarks.base import Options
from benchmarks.peers.protocol import Filled, PeerError
from benchmarks.progress import Progress
from benchmarks.properties import Target, Task, evaluate_baseline, evaluate_peer, predictions, scores
from kbdisk.api.model import Model
from kbdisk.entity import Entity
from kbdisk.evaluation.evaluate import Scope, evaluate
from kbdisk.schemas.kinds import Category, Number, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

SCHEMA = of_one_class(
    {("x",): Property(Number()), ("kind",): Property(Category()), ("name",): Property(Text())},
    "Thing",
)
TARGETS = [
    Target("x", ("x",)),
    Target("scaled", ("x",), lambda one: one.tree["by"]),
    Target("kind", ("kind",)),
    Target("name", ("name",)),
]


def test_numbers_are_scored_by_their_mean_square_labels_by_mistakes_texts_by_words():
    things = [
        Entity("0", {"x": 3.0, "kind": "a", "name": "one two", "by": 10}),
        Entity("1", {"x": 0.0, "kind": "b", "name": "one", "by": 1}),
        Entity("2", {"kind": "c", "by": 1}),
    ]
    predicted = {("x",): [0.0, 4.0, 9.0], ("kind",): ["a", None, "c"], ("name",): ["one", "one", "none"]}
    rows = scores(Task("t", SCHEMA, TARGETS, [], things, "", "test"), predicted.__getitem__)
    assert [(row.name, row.n) for row in rows] == [("x", 2), ("scaled", 2), ("kind", 3), ("name", 2)]
    expected = [math.sqrt((9 + 16) / 2), math.sqrt((900 + 16) / 2), 1 / 3, 0.25]
    assert [row.value for row in rows] == pytest.approx(expected)


@pytest.fixture
def phones(tmp_path):
    """Hand-made phones as the bench splits them, and a model of some."""
    options = Options(write_gsm(tmp_path))
    task = gsm.task(*gsm.read(options.data), options, 0)
    return task, Model(tiny(task.schema, list(task.train)))


@pytest.mark.slow
def test_ours_is_scored_as_evaluate_scores_it(phones):
    task, model = phones
    nats: dict = {}
    ours = {row.name: row for row in scores(task, predictions(model, task, nats=nats))}
    paths = {target.name: ".".join(map(str, target.path)) for target in gsm.TARGETS}
    rows = {
        row["path"]: row for row in evaluate(model.trained, list(task.scored), None, Scope(limit=10**6, texts=10**6))
    }
    for name, one in ours.items():
        row = rows[paths[name]]
        wanted = row["rmse"] if row["kind"] == "number" else row["ours"]
        assert (one.value, one.n) == (pytest.approx(wanted), row["n"])
        own = nats[next(target.path for target in gsm.TARGETS if target.name == name)]
        assert sum(own) / len(own) == pytest.approx(row["nats"])
    assert set(paths.values()) == set(rows)


def test_z_and_n_alone_means_that_nothing_else_is_seen(tmp_path):
    options = Options(write_nuclear(tmp_path))
    given, alone = nuclear.tasks(*nuclear.read(options.data), options, 0)
    model = Model(tiny(given.schema, list(given.train)))
    blank = [Entity(one.id, {"z": one.tree["z"], "n": one.tree["n"], "qa": one.tree["qa"]}) for one in alone.scored]
    predicted = predictions(model, Task("t", alone.schema, alone.targets, [], blank, "", "test", given=0))(("qa",))
    assert predictions(model, alone)(("qa",)) == pytest.approx(predicted, rel=1e-4)
    assert predictions(model, given)(("qa",)) != pytest.approx(predicted, rel=1e-4)


def test_a_baseline_of_z_and_n_alone_learns_from_these_only(tmp_path):
    pytest.importorskip("catboost")
    options = Options(write_nuclear(tmp_path))
    given, alone = nuclear.tasks(*nuclear.read(options.data), options, 0)
    targets = [one for one in nuclear.TARGETS if one.name == "Qa"]
    given, alone = (
        Task("t", one.schema, targets, one.train, one.scored, "", "test", given=one.given) for one in (given, alone)
    )
    errors = {one.given: evaluate_baseline("gbdt", one, 0, Progress()).values["Qa"] for one in (given, alone)}
    bare = [Entity(one.id, {key: one.tree[key] for key in ("z", "n", "qa")}) for one in alone.train]
    again = evaluate_baseline(
        "gbdt", Task("t", alone.schema, targets, bare, alone.scored, "", "test", given=0), 0, Progress()
    ).values["Qa"]
    assert errors[0] == pytest.approx(again)
    assert errors[0] != errors[None]


# ---------------------------------------------------------------- peers


def answering(monkeypatch, answer):
    """Peers answer each hidden cell by a function of it; the imputations that they got, as a list."""
    imputations = []

    def fill(name, imputation):
        imputations.append(imputation)
        cells = enumerate(imputation.masked.cells)
        answers = {place: value for place, cell in cells if (value := answer(imputation, cell)) is not None}
        return Filled(answers, {"fit": 1.0, "fill": 0.5}, {"rounds": 3})

    monkeypatch.setattr(properties.registry, "fill", fill)
    return imputations


def true_answer(imputation, cell):
    return float(cell.truth) if cell.property[2] == "number" else str(cell.truth)


def shown(entity: Entity, path) -> bool:
    part = entity.tree
    for key in path:
        if key not in part:
            return False
        part = part[key]
    return True


@pytest.mark.parametrize("name", ["neighbours", "lm-scratch"])
def test_a_peer_gets_each_scored_entity_once_for_each_known_value_without_that_value(name, tmp_path, monkeypatch):
    options = Options(write_gsm(tmp_path), budget="90s")
    task = gsm.task(*gsm.read(options.data), options, 0)
    imputations = answering(monkeypatch, true_answer)
    result = evaluate_peer(name, task, options, 7, Progress())
    (imputation,) = imputations
    assert (imputation.seconds, imputation.seed, imputation.train_count) == (90.0, 7, len(task.train))
    asked = [target for target in gsm.TARGETS if target.name != "model" or name == "lm-scratch"]
    known = sum(target.path in leaves for leaves in map(task.schema.leaves, task.scored) for target in asked)
    assert len(imputation.masked.cells) == len(imputation.masked.entities) - len(task.train) == known
    for cell in imputation.masked.cells:
        entity = imputation.masked.entities[cell.entity]
        assert cell.entity >= len(task.train)
        assert not shown(entity, cell.path)
        assert sum(shown(entity, target.path) for target in gsm.TARGETS) >= len(gsm.TARGETS) - 2  # the day may lack
    assert result.values == {target.name: 0.0 for target in asked}
    assert result.details["took"] == {"rounds": 3, "answered": 1.0, "fit": 1.0, "fill": 0.5}


def test_of_z_and_n_alone_a_peer_learns_each_property_from_these_only_and_shares_its_time_among_them(
    tmp_path, monkeypatch
):
    options = Options(write_nuclear(tmp_path), budget="32s")
    _, alone = nuclear.tasks(*nuclear.read(options.data), options, 0)
    imputations = answering(monkeypatch, true_answer)
    result = evaluate_peer("neighbours", alone, options, 0, Progress())
    assert [imputation.masked.cells[0].path for imputation in imputations] == [target.path for target in alone.targets]
    for imputation in imputations:
        assert imputation.seconds == 2.0
        (path,) = {cell.path for cell in imputation.masked.cells}
        training = imputation.masked.entities[: imputation.train_count]
        assert {key for entity in training for key in entity.tree} == {"z", "n", *path}
        assert all(entity.tree.keys() == {"z", "n"} for entity in imputation.masked.entities[imputation.train_count :])
    assert set(result.values.values()) == {0.0}


def test_values_that_a_peer_leaves_out_are_the_constants(tmp_path, monkeypatch):
    options = Options(write_nuclear(tmp_path))
    given, _ = nuclear.tasks(*nuclear.read(options.data), options, 0)
    answering(monkeypatch, lambda imputation, cell: None)
    result = evaluate_peer("neighbours", given, options, 0, Progress())
    assert result.values == pytest.approx(evaluate_baseline("constant", given, 0, Progress()).values)
    assert result.details["took"]["answered"] == 0


def test_what_a_peer_cannot_do_is_stored_and_stands_beneath_the_table(tmp_path, monkeypatch):
    def refuse(name, imputation):
        raise PeerError(name, "expected labels, got none.")

    monkeypatch.setattr(properties.registry, "fill", refuse)
    options = Options(write_gsm(tmp_path), budget="5s")
    task = gsm.task(*gsm.read(options.data), options, 0)
    result = evaluate_peer("neighbours", task, options, 0, Progress())
    assert (result.rows, result.details["took"]) == ([], {"cannot": "expected labels, got none."})
    (table,) = gsm.tables([result, evaluate_baseline("constant", task, 0, Progress())])
    assert "neighbours + 5s cannot: expected labels, got none." in table.notes


# ---------------------------------------------------------------- what is on which side


@pytest.fixture(scope="module")
def real_phones(data) -> list[Entity]:
    return gsm.read(data)[1]


@pytest.mark.shared
@pytest.mark.parametrize("split", gsm.SPLITS)
@pytest.mark.parametrize("validation", [False, True])
def test_no_phone_is_on_both_sides_and_validation_is_of_train_alone(split, validation, data, real_phones):
    entities = real_phones
    test = gsm.split(entities, Options(data, split=split), 1)
    sides = gsm.split(entities, Options(data, split=split, validation=validation), 1)
    names = [{(one.tree["oem"], one.tree["model"]) for one in (entities[place] for place in side)} for side in sides]
    assert not names[0] & names[1]
    if validation:
        assert sorted([*sides.train, *sides.scored]) == sorted(test.train)
        assert 0.07 < len(sides.scored) / len(test.train) < 0.13
    else:
        assert sorted([*sides.train, *sides.scored]) == list(range(len(entities)))
        assert 0.15 < len(sides.scored) / len(entities) < 0.22


@pytest.mark.shared
@pytest.mark.parametrize("split", nuclear.SPLITS)
def test_no_nucleus_is_on_both_sides_and_validation_is_of_train_alone(split, data):
    _, entities = nuclear.read(data)
    test, sides = (nuclear.split(entities, Options(data, split=split, validation=one), 1) for one in (False, True))
    assert sorted([*sides.train, *sides.scored]) == sorted(test.train)
    assert not {*sides.scored} & {*test.scored}
    assert 0.07 < len(sides.scored) / len(test.train) < 0.13
    assert 0.15 < len(test.scored) / len(entities) < 0.25


@pytest.mark.shared
def test_by_names_no_phone_has_its_like_on_the_other_side(data, real_phones):
    entities = real_phones
    sides = gsm.split(entities, Options(data, split="names"), 0)
    bodies = [
        {repr({key: value for key, value in entities[place].tree.items() if key != "model"}) for place in side}
        for side in sides
    ]
    assert not bodies[0] & bodies[1]
