"""Why a value is filled in: the parts of its confidence, and reasons that hold where they are checked another way."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from models import tiny, tiny_run
from things import entities, schema, thing

from kbdisk.api.model import Model
from kbdisk.api.source import LoadedSource
from kbdisk.completion import CompletionConfig
from kbdisk.completion.attribution import _given_properties, stacked_weights
from kbdisk.completion.fields import fields_of
from kbdisk.completion.why import Question
from kbdisk.entity import NOVALUE, Entity, Link
from kbdisk.errors import SchemaError
from kbdisk.experts.base import Stacked
from kbdisk.experts.config import BoostedTreesConfig, KNNConfig
from kbdisk.jsonio import dump_json
from kbdisk.model.diffusion import beliefs
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.kinds import Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.schemas.yaml import loads
from kbdisk.training.train import train

NAMES = [path for path in schema().classes[""].properties if path != ("id",)]
PAIRS = 200
SOME = 30  # things that completions and similar entities are of
NOISE = [f"noise{n}" for n in range(6)]


# ---------------------------------------------------------------- every kind of property


@pytest.fixture(scope="module")
def knowledge():
    """Some of the things; the first lacks every property but two."""
    trees = [thing(i) for i in range(SOME)]
    trees[0] = {key: trees[0][key] for key in ("id", "colour", "size")}
    return LoadedSource.of(trees)


@pytest.fixture(scope="module")
def asked(model):
    return Model(model)


PREDICTED = [path for path in NAMES if path not in {("weather",), ("area",)}]


@pytest.mark.parametrize("entity", ["t0", pytest.param("t7", marks=pytest.mark.slow)])
def test_every_kind_of_property_has_reasons_whose_parts_multiply_and_similar_entities_that_have_it(
    asked, knowledge, entity
):
    by_id = knowledge.by_own_id(asked.schema)
    for path in PREDICTED:
        found = asked.why(entity, path, knowledge)
        data = json.loads(dump_json(found.to_json()))
        if data["correctness"] is not None:
            assert data["confidence"] == data["presence"] * data["correctness"], path
            assert 0 <= data["confidence"] <= 1
        assert (data["given"] is None) == (by_id[entity].tree.get(path[0]) is None), path
        assert all(0 <= influence["distance"] <= 1 for influence in data["influences"])
        assert len(found.similar) == 3
        for similar in found.similar:
            assert similar.id != entity
            assert by_id[similar.id].tree.get(path[0]) is not None
            assert -1 <= similar.similarity <= 1


def test_the_value_is_what_completing_that_property_writes(asked, knowledge):
    names = ["colour", "size", "near", "new", "code"]
    for name in names:
        trees = [dict(entity.tree) for entity in knowledge.entities]
        trees[7].pop(name)
        lacking = LoadedSource.of(trees)
        [filled] = [
            one.filled for one in asked.complete(lacking, only=(name,), fill="all") if one.entity.tree["id"] == "t7"
        ]
        found = asked.why("t7", name, lacking)
        expected = filled[(name,)]
        assert found.value == (Link(expected.value) if name == "near" else expected.value)
        assert found.correctness == pytest.approx(expected.belief.correctness, rel=1e-4)
        assert found.confidence == pytest.approx(expected.confidence, rel=1e-4)


def test_a_hidden_value_says_nothing_to_its_own_reasons(asked, knowledge):
    for path, other in (("colour", "green"), ("size", 3.5), ("born", {"year": 1999, "month": 9, "day": 9})):
        changed = [dict(entity.tree) for entity in knowledge.entities]
        changed[8][path] = other
        before, after = (asked.why("t8", path, source) for source in (knowledge, LoadedSource.of(changed)))
        assert before.given != after.given
        assert before.value == after.value
        assert before.confidence == pytest.approx(after.confidence, rel=1e-4)


def test_a_date_of_which_a_part_is_given_is_asked_for_the_rest(asked, knowledge):
    trees = [dict(entity.tree) for entity in knowledge.entities]
    trees[5]["born"] = {"year": 1905}
    source = LoadedSource.of(trees)
    partly = asked.why("t5", "born", source)
    assert partly.value.year == 1905
    assert partly.value.month is not None
    assert not partly.is_hidden
    assert "other parts of born" in _given_names(asked, source)
    hidden = asked.why("t5", "born.year", source)
    assert hidden.is_hidden
    assert hidden.path == ("born",)


def _given_names(asked, source):
    """What may be left out for the date of t5."""
    entity, graph = asked._entity_and_graph("t5", source)
    question = Question(asked.trained, entity, ("born",), source.entities, graph)
    fields = fields_of(question.codec, CompletionConfig(only=(("born",),), least=1))[question.schema_class.name]
    return _given_properties(question, question._batch(question._gap(fields)[0]))


def test_a_part_of_a_list_is_asked_about_by_its_place(asked, knowledge):
    found = asked.why("t7", "parts[0].kind", knowledge)
    assert found.path == ("parts", 0, "kind")
    assert found.given == "wheel"
    length = asked.why("t7", "parts[0].length", knowledge)
    assert (length.given.value, length.value.unit) == (5.0, "mm")
    assert all(similar.value.unit == "mm" for similar in length.similar)
    assert isinstance(asked.why("t7", "prices[0].value", knowledge).value, float)
    assert found.value in {"wheel", "leg"}
    with pytest.raises(SchemaError, match=r"got several\. Say one of parts\[0\]\.kind, parts\[0\]\.length"):
        asked.why("t7", "parts[0]", knowledge)


def test_of_a_list_that_is_likeliest_empty_the_length_is_explained():
    own = of_one_class({("kind",): Property(Category()), ("parts",): Property(Listed({"name": Category()}))})
    trees = [{"kind": "ab"[n % 2], "parts": [] if n % 9 else [{"name": "p"}]} for n in range(90)]
    model = Model(tiny(own, entities(*trees)))
    found = model.why({"kind": "a"}, "parts")
    assert found.value is None
    assert found.held_back == "likeliest to be empty"
    assert [predictor.path for predictor in found.predictors] == [("parts", "count")]
    assert found.predictors[0].value == 0


def test_what_is_known_not_to_exist_is_said_and_asked_all_the_same(asked, knowledge):
    trees = [dict(entity.tree) for entity in knowledge.entities]
    trees[3]["colour"] = NOVALUE
    found = asked.why("t3", "colour", LoadedSource.of(trees))
    assert found.given is NOVALUE
    assert found.value in {"red", "green", "blue"}


def test_what_an_earlier_completion_wrote_is_no_evidence_and_is_named(asked, knowledge):
    entity = knowledge.by_own_id(asked.schema)["t9"]
    tree = {key: value for key, value in entity.tree.items() if key != "colour"}
    made = replace(entity, tree=tree, made={("colour",): "red"})
    others = [other for other in knowledge.entities if other is not entity]
    found = asked.why(made, "colour", LoadedSource((), [made, *others]))
    assert (found.given, found.given_by, found.is_hidden) == ("red", "kbdisk", False)
    assert found.value == asked.why(replace(made, made=None), "colour", LoadedSource((), [made, *others])).value


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("colur", "expected a property that the model knows. Did you mean 'colour'?"),
        ("weather", "expected a property that is predicted, got one that is only given."),
        ("id", "got one that its schema leaves out (role: ignore)"),
        ("born.yaer", "Did you mean 'born.year'?"),
    ],
)
def test_a_path_that_is_not_predicted_is_refused(asked, knowledge, path, complaint):
    with pytest.raises(SchemaError) as error:
        asked.why("t7", path, knowledge)
    assert complaint in str(error.value)


def test_the_distance_is_that_to_the_belief_about_the_entity_without_the_property(asked, knowledge):
    entity = knowledge.by_own_id(asked.schema)["t6"]
    for path in ("colour", "size"):
        tree = {key: value for key, value in entity.tree.items() if key != path}
        lacking = replace(entity, tree=tree)
        found = asked.why(lacking, path, LoadedSource((), [lacking]))
        whole = asked.belief(lacking, path)
        for influence in found.influences:
            without = {key: value for key, value in tree.items() if key != influence.name}
            belief = asked.belief(replace(lacking, tree=without), path)
            assert influence.distance == pytest.approx(distance(whole, belief), abs=0.02)
        assert [*found.influences] == sorted(found.influences, key=lambda influence: -influence.distance)


def test_the_search_for_similar_entities_says_how_far_it_is(asked, knowledge):
    reports = []
    asked.why("t7", "colour", knowledge, watch=lambda done, total: reports.append((done, total)))
    having = sum("colour" in entity.tree for entity in knowledge.entities) - 1
    assert reports[-1] == (having, having)


# ---------------------------------------------------------------- rules

RULED = """
kbdisk: 1
classes:
  House:
    properties:
      above: {kind: number, integer: true}
      below: {kind: number, integer: true}
      living: {kind: number, integer: true}
      area: {kind: number, formula: above ** 2}
rules:
  - {target: living, rule: sum, of: [above, below], support: 97, exceptions: 1}
"""


@pytest.fixture(scope="module")
def houses():
    draw = random.Random(0)
    entities = []
    for number in range(60):
        above, below = draw.randint(50, 200), draw.randint(0, 50)
        entities.append(Entity(f"h{number}", {"above": above, "below": below, "living": above + below}, ("House",)))
    return entities


def test_a_rule_that_gives_the_value_is_the_reason(houses):
    model = Model(tiny(loads(RULED), houses))
    lacking = replace(houses[0], tree={"above": 120, "below": 30})
    for entity in (lacking, houses[1]):
        found = model.why(entity, "living", LoadedSource((), [entity, *houses[2:]]))
        assert found.value == entity.tree["above"] + entity.tree["below"]
        assert (found.rule.text, found.rule.support, found.rule.exceptions) == ("living = above + below", 97, 1)
        assert (found.presence, found.correctness) == (1.0, pytest.approx(98 / 100))
        assert found.confidence == found.presence * found.correctness
        assert found.predictors == found.similar == found.influences == ()
    formula = model.why(lacking, "area")
    assert (formula.value, formula.rule.kind) == (14400, "formula")


def test_where_a_rule_lacks_a_value_the_model_is_the_reason(houses):
    model = Model(tiny(loads(RULED), houses))
    found = model.why(replace(houses[0], tree={"above": 120}), "living", LoadedSource((), houses[1:]))
    assert found.rule is None
    assert found.predictors[0].name == "network"


# ---------------------------------------------------------------- what moves the answer, and who says what


def planted() -> tuple[Schema, list[Entity]]:
    """b follows a, and y is 2 x; of the rest nothing says anything about anything else. A seventh of all is missing."""
    draw = random.Random(1)
    entities = []
    for number in range(300):
        a, x = draw.randrange(4), draw.uniform(1, 100)
        tree = {"a": f"a{a}", "b": f"b{a}", "x": round(x, 2), "y": round(2 * x, 2)}
        tree |= {name: f"{draw.randrange(3)}" for name in NOISE}
        entities.append(Entity(f"e{number}", {key: value for key, value in tree.items() if draw.random() > 1 / 7}))
    properties = {(name,): Property(Category()) for name in ("a", "b", *NOISE)}
    return of_one_class(properties | {("x",): Property(Number()), ("y",): Property(Number())}), entities


@pytest.fixture(scope="module")
def stack():
    """A model of the planted data with nearest neighbours and trees."""
    own, entities = planted()
    run = tiny_run(nearest=8, steps=150, batch=64, validation=0.25).with_experts(
        knn=KNNConfig(share=0.3, rounds=1),
        boosted_trees=BoostedTreesConfig(share=0.3),
    )
    trained = train(own, entities, run, torch.device("cpu"), lambda progress: None)
    return Model(trained), LoadedSource((), entities)


def distance(one, other) -> float:
    """Hellinger's distance between two beliefs about one property, as they are told in plain Python."""
    if one.kind == "number":
        points = sorted({point for each in (one, other) for point in each.quantiles([n / 100 for n in range(1, 100)])})
        shares = []
        for each in (one, other):
            up_to = [0.0, *each.row.cdf(torch.tensor([points], dtype=torch.float64))[0].tolist(), 1.0]
            shares.append([max(above - below, 0) for below, above in pairwise(up_to)])
    else:
        labels = [*{**one.probabilities, **other.probabilities}]
        shares = [[each.probabilities.get(label, 0.0) for label in labels] for each in (one, other)]
        shares = [[*each, max(1 - sum(each), 0)] for each in shares]
    return math.sqrt(max(1 - sum(math.sqrt(p * q) for p, q in zip(*shares, strict=True)), 0))


@pytest.mark.slow
def test_leaving_out_what_is_named_first_moves_the_answer_more_than_what_is_not_named(stack):
    model, knowledge = stack
    draw = random.Random(0)
    first_is_planted = {"b": [], "y": []}
    for _ in range(PAIRS):
        entity, path = draw.choice(knowledge.entities), draw.choice(["a", "b", "x", "y", "noise0"])
        tree = {key: value for key, value in entity.tree.items() if key != path}
        lacking = replace(entity, tree=tree)  # by itself, so that it is asked alike in both ways
        found = model.why(lacking, path, LoadedSource((), [lacking]))
        whole = model.belief(lacking, path)
        moved = {
            key: distance(
                whole,
                model.belief(replace(entity, tree={name: value for name, value in tree.items() if name != key}), path),
            )
            for key in tree
        }
        named = [influence.name for influence in found.influences]
        for influence in found.influences:
            assert influence.distance == pytest.approx(moved[influence.name], abs=0.03)
        unnamed = [moved[key] for key in tree if key not in named]
        if named and unnamed:
            assert moved[named[0]] >= max(unnamed) - 0.01
        elif unnamed:
            assert max(unnamed) < 0.02
        for target, source in (("b", "a"), ("y", "x")):
            if path == target and source in tree:
                first_is_planted[target].append(named[:1] == [source])
    assert all(len(right) > 20 and sum(right) / len(right) > 0.95 for right in first_is_planted.values())


def test_the_part_of_each_becomes_weights_that_sum_to_one():
    assert stacked_weights([]) == [1.0]
    assert stacked_weights([0.5, 0.2]) == pytest.approx([0.4, 0.4, 0.2])
    assert sum(stacked_weights([0.3, 0.0, 0.9])) == pytest.approx(1)


@pytest.mark.slow
def test_weights_and_predictions_make_what_stacking_makes(stack):
    model, knowledge = stack
    trained = model.trained
    assert isinstance(trained.full_model, Stacked)
    with_experts = 0
    for entity in knowledge.entities[:40]:
        for path in ("b", "y"):
            lacking = replace(entity, tree={key: value for key, value in entity.tree.items() if key != path})
            found = model.why(lacking, path, LoadedSource((), [lacking]))
            assert sum(predictor.weight for predictor in found.predictors) == pytest.approx(1, abs=1e-5)
            assert {expert.name for expert in found.unused}.isdisjoint(each.name for each in found.predictors)
            with_experts += len(found.predictors) > 1
            batch = trained.encode([lacking], [(path,)]).batch(torch.arange(1))
            [belief] = [of_kind.belief for of_kind in beliefs(trained.full_model, batch).kinds.values()]
            if path == "y" and belief.estimate is not None:
                scaled, weights = belief.tables.scaled, [predictor.weight for predictor in found.predictors]
                numbers = torch.tensor([[float(predictor.value) for predictor in found.predictors]]).double()
                mean = float((scaled(belief.slot, numbers)[0] * torch.tensor(weights).double()).sum())
                stacked = float(scaled(belief.slot, belief.estimate[:, None])[0, 0])
                assert mean == pytest.approx(stacked, abs=0.02 * float(belief.tables.scaled(belief.slot, torch.tensor([[200.0]]).double())))  # fmt: skip
    assert with_experts > 10
