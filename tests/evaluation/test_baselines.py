"""Every baseline keeps the same promises: it tells a leaf from the others alone, and fills what is absent."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from worlds import PHONES, WORLD, phones, world

from kbdisk import evaluation
from kbdisk.data import Codec
from kbdisk.data.parse import read
from kbdisk.entity import Date, Entity, Link, Quantity
from kbdisk.errors import ConfigError
from kbdisk.evaluation import BASELINES, baseline
from kbdisk.evaluation.baselines import (
    NO_PREDICTION,
    Baseline,
    ConstantBaseline,
    Prediction,
    leaves_hidden_with,
    nearest_valid,
)
from kbdisk.evaluation.catboost import GBDT
from kbdisk.metrics import Constants
from kbdisk.schemas.composites import Date as DateKind
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

KINDS = [
    ConstantBaseline,
    lambda: GBDT(trees=3),
    lambda: GBDT(trees=3, filled=True),
    lambda: GBDT(trees=3, estimate="median"),
]
NAMES = ["constant", "gbdt", "filled", "median"]


@pytest.fixture(scope="module", params=KINDS, ids=NAMES)
def fitted(request) -> Baseline:
    return request.param().fit(PHONES, phones(), seed=1)


class First(Baseline):
    """The first value that was met, and nothing of makers: what somebody may have written in an afternoon."""

    def learn(self, readings, graph, seed, watch):
        self.first = {
            (reading.class_name, path): value
            for reading in reversed(readings)
            for path, value in reading.leaves.items()
        }
        self.left_out = {leaf: "a maker" for leaf in self.hidden if leaf[0] == "Maker"}

    def predict_leaf(self, leaf, readings):
        return [NO_PREDICTION if leaf in self.left_out else Prediction(self.first[leaf])] * len(readings)


# ---------------------------------------------------------------- what all promise


@pytest.mark.slow
def test_what_is_asked_for_is_never_looked_at(fitted):
    """An entity that has a value, one that has another, and one that has none are told the same."""
    entities = phones()
    for of, path in fitted.hidden:
        own = [one for one in entities if one.classes == (of,)]
        if path[0] == "cameras":
            continue  # a list whose last place is gone is shorter
        bare = [without(one, path) for one in own]
        assert any(one != other for one, other in zip(own, bare, strict=True))
        assert fitted.predict(of, path, own) == fitted.predict(of, path, bare), path
        assert fitted.predict(of, path, own, "mean") == fitted.predict(of, path, bare, "mean"), path


def test_what_stands_at_a_place_of_a_list_is_never_looked_at(fitted):
    two = [Entity("x", {"cameras": [{"aperture": one, "kind": "wide"}]}, ("Phone",)) for one in (1.8, 2.2)]
    assert len(set(fitted.predict("Phone", ("cameras", 0, "aperture"), two))) == 1
    other = fitted.predict("Phone", ("cameras", 0, "kind"), two)
    assert None not in other


def without(entity: Entity, path) -> Entity:
    reading = read(PHONES, entity)
    left = {other: value for other, value in reading.leaves.items() if other != path}
    return replace(entity, tree=PHONES.tree(left, reading.class_name))


def test_the_length_of_a_list_is_told_without_its_places(fitted):
    counts = {read(PHONES, one).leaves.get(("cameras", "count")) for one in phones()}
    assert counts >= {0, 1, 2, 3}
    parts = [{"aperture": 1.8, "kind": "wide"}]
    several = [
        Entity("x", {"oem": "Nokia"} | ({} if n is None else {"cameras": parts * n}), ("Phone",)) for n in (0, 3, None)
    ]
    assert len(set(fitted.predict("Phone", ("cameras", "count"), several))) == 1
    assert leaves_hidden_with(("a", "count"), [("a", "count"), ("a", 0, "b"), ("a", 1), ("b", 0)]) == {
        ("a", "count"), ("a", 0, "b"), ("a", 1),
    }  # fmt: skip


def test_an_answer_is_given_for_each_entity_in_order_and_none_to_those_of_another_class(fitted):
    entities = phones()
    found = fitted.predict("Phone", ("oem",), [entities[-1], *entities[:3], Entity("x", {}, ("Car",))])
    assert [one is None for one in found] == [True, False, False, False, True]
    assert found[1:4] == fitted.predict("Phone", ("oem",), entities[:3])


def test_the_same_seed_says_the_same():
    one, other, third = (GBDT(trees=3).fit(PHONES, phones(), seed=seed) for seed in (1, 1, 2))
    said = [each.predict("Phone", ("body", "height"), phones()) for each in (one, other, third)]
    assert said[0] == said[1]
    assert said[0] != said[2]


def test_what_is_absent_is_filled_and_what_is_given_stays(fitted):
    entities = phones()
    filled = list(fitted.complete(iter(entities)))
    assert [one.entity for one in filled] == entities
    for entity, one in zip(entities, filled, strict=True):
        before, after = PHONES.leaves(entity), PHONES.leaves(replace(entity, tree=one.tree()))
        assert before.items() <= after.items()
        lacking = (
            {("oem",), ("colours",), ("body", "height"), ("body", "folds")} if entity.classes == ("Phone",) else set()
        )
        assert lacking <= after.keys()
        assert not {("model",), ("cameras", "count"), ("row",), ("note",)} & (after.keys() - before.keys())
    assert any(one.filled for one in filled)


def test_a_composite_is_completed_with_what_is_known_of_it():
    entities = phones()
    partly = Entity("x", {"launch": Date(2001, 5), "weight": Quantity(None, "oz")}, ("Phone",))
    (one,) = ConstantBaseline().fit(PHONES, entities).complete([partly])
    date, weight = one.filled["launch",].value, one.filled["weight",].value
    assert (date.year, date.month) == (2001, 5)
    assert 1 <= date.day <= 28
    assert weight.unit == "oz"
    assert 80 / 28.4 <= weight.value <= 250  # of which some are grams, and some ounces


def test_a_day_that_there_is_not_is_left_out():
    schema = of_one_class({("day",): Property(DateKind()), ("x",): Property(Number(integer=True))})
    known = [Entity(f"e{n}", {"day": Date(2000, 1, 31), "x": 1}) for n in range(5)]
    (one,) = ConstantBaseline().fit(schema, known).complete([Entity("x", {"day": Date(2001, 2)})])
    assert set(one.filled) == {("x",)}


def test_a_number_that_is_filled_is_one_that_may_stand_there():
    assert nearest_valid(Number(integer=True, minimum=3), 1.2) == 3
    assert isinstance(nearest_valid(Number(integer=True), 2.6), int)
    assert nearest_valid(Number(decimals=1, maximum=2.0), 1.25001) == pytest.approx(1.3)
    assert nearest_valid(Number(maximum=2.0), 7) == 2.0
    assert nearest_valid(PHONES.classes["Phone"].leaves()["oem",], "Nokia") == "Nokia"


def test_only_what_is_asked_for_is_learnt():
    told = []
    asked = {("Phone", ("oem",)): frozenset({("oem",), ("model",)})}
    one = GBDT(trees=2).fit(PHONES, phones(), asked=asked, watch=lambda done, total: told.append((done, total)))
    assert list(one.models) == [("Phone", ("oem",))]
    assert told == [(1, 1)]
    assert one.predict("Phone", ("launch", "year"), phones()[:2]) == [None, None]


# ---------------------------------------------------------------- the constant


@pytest.mark.parametrize(("schema", "entities"), [(PHONES, phones()), (WORLD, world())], ids=["phones", "world"])
def test_constants_are_those_that_scores_stand_beside(schema, entities):
    codec = Codec.fit(schema, entities)
    constants = Constants.fit(codec, codec.encode(entities))
    one = ConstantBaseline().fit(schema, entities)
    assert len(constants.slots) >= 9
    for number, wanted in constants.slots.items():
        slot = codec.slots[number]
        own = [entity for entity in entities if schema.class_of(entity).name == slot.class_name]
        ours, mean = one.predict(slot.class_name, slot.path, own), one.predict(slot.class_name, slot.path, own, "mean")
        assert ours[0] == (pytest.approx(wanted.value) if slot.kind == "number" else wanted.value), slot.path
        assert mean[0] == (pytest.approx(wanted.mean) if slot.kind == "number" else wanted.value), slot.path


# ---------------------------------------------------------------- which there are


def test_another_baseline_is_an_entry(monkeypatch):
    monkeypatch.setitem(BASELINES, "first", First)
    one = baseline("first").fit(WORLD, world())
    assert one.predict("Country", ("capital",), world()[:2]) == [Link("paris"), Link("paris")]
    assert one.predict("Country", ("population",), world()[:1], "mean") == [67_000_000]


@pytest.mark.parametrize("name", BASELINES)
def test_each_has_a_name_that_makes_it(name):
    assert isinstance(baseline(name), Baseline)


def test_the_names_of_gbdt_are_its_options():
    made = [baseline(name) for name in ("gbdt", "gbdt-median", "gbdt-filled", "gbdt-grid")]
    assert [(one.estimate, one.filled, one.grid) for one in made] == [
        ("mean", False, False), ("median", False, False), ("mean", True, False), ("mean", False, True),
    ]  # fmt: skip


def test_a_name_that_nothing_has_is_told_with_those_there_are():
    with pytest.raises(ConfigError) as caught:
        baseline("gdbt")
    assert str(caught.value) == (
        "against: expected some of constant, gbdt, gbdt-median, gbdt-filled, gbdt-grid, got 'gdbt'. Did you mean 'gbdt'?"
    )


def test_what_is_heavy_is_imported_only_to_learn():
    code = "import sys, kbdisk.evaluation; print({'torch', 'pandas', 'catboost'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
    for name in ("__init__", "baselines", "catboost"):
        file = Path(evaluation.__file__).with_name(f"{name}.py")
        first = [one for one in ast.parse(file.read_text()).body if isinstance(one, ast.Import | ast.ImportFrom)]
        assert not {"pandas", "catboost", "numpy"} & {getattr(one, "module", "") or one.names[0].name for one in first}
