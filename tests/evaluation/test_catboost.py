"""CatBoost learns what there is to learn, of every kind of leaf, from what is given and from what is missing."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from kbdisk.data.parse import read
from kbdisk.entity import Entity, Link
from kbdisk.evaluation.catboost import (
    GBDT,
    MANY_LABELS,
    MAX_LABELS,
    MISSING_LABEL,
    BoostingTask,
    Columns,
    draw_settings,
    label_text,
    likely_members,
    predict_trees,
    settings_for,
    threads,
)
from kbdisk.schemas.kinds import Boolean, Category, Number, Set, Text
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

SCHEMA = of_one_class(
    {
        ("x",): Property(Number()),
        ("near",): Property(LinkLeaf()),
        ("colour",): Property(Category()),
        ("height",): Property(Number()),
        ("large",): Property(Boolean()),
        ("size",): Property(Category()),
        ("tags",): Property(Set(Category())),
        ("best",): Property(LinkLeaf()),
        ("name",): Property(Text()),
    }
)


def thing(number: int) -> Entity:
    """All is a function of x, near and colour."""
    draw = random.Random(number)
    x, near, colour = draw.uniform(0, 10), draw.choice("abc"), draw.choice(["red", "blue"])
    tree = {
        "x": x,
        "near": Link(near),
        "colour": colour,
        "height": 10 * (x > 5) + {"a": 1, "b": 2, "c": 3}[near],
        "large": x > 5,
        "size": "L" if x > 5 else "M" if colour == "red" else "S",
        "tags": ["all", *["big"] * (x > 5), *["warm"] * (colour == "red")],
        "best": Link(near + near),
        "name": f"Thing {number}",
    }
    return Entity(f"t{number}", tree)


SEEN, NEW = [thing(n) for n in range(150)], [thing(n) for n in range(1000, 1030)]


@pytest.fixture(scope="module")
def learnt() -> GBDT:
    return GBDT(estimate="median", trees=120).fit(SCHEMA, SEEN)


@pytest.mark.parametrize("name", ["colour", "large", "size", "best", "near"])
def test_labels_that_follow_from_others_are_told(learnt, name):
    assert learnt.predict("", (name,), NEW) == [one.tree[name] for one in NEW]


def test_numbers_that_follow_from_others_are_told(learnt):
    truth = [one.tree["height"] for one in NEW]
    for estimate in ("mean", "median"):
        assert learnt.predict("", ("height",), NEW, estimate) == pytest.approx(truth, abs=0.6)


def test_members_that_follow_from_others_are_told(learnt):
    assert [set(one) for one in learnt.predict("", ("tags",), NEW)] == [set(one.tree["tags"]) for one in NEW]


def test_text_is_left_out_and_so_are_links_to_more_than_can_be_told_apart():
    many = of_one_class({("near",): Property(LinkLeaf()), ("name",): Property(Text()), ("x",): Property(Number())})
    things = [Entity(f"t{n}", {"near": Link(f"t{n}"), "name": "A", "x": n % 2}) for n in range(MAX_LABELS + 1)]
    one = GBDT(trees=1).fit(many, things)
    assert one.left_out == {
        ("", ("near",)): f"{MAX_LABELS + 1} labels, more than {MAX_LABELS}",
        ("", ("name",)): "text, which trees cannot tell",
    }
    assert one.predict("", ("near",), things[:2]) == [None, None]
    assert all(one.filled.keys() <= {("x",)} for one in one.complete([Entity("new", {})]))


def test_that_a_value_is_missing_tells_something_unless_it_is_filled():
    schema = of_one_class({("x",): Property(Number()), ("y",): Property(Number())})
    values = [[None, 0.0, 1.0, 2.0][n % 4] for n in range(120)]  # the mean is 1: missing is taken for that
    things = [Entity(f"t{n}", {"y": 5.0 * (x is None)} | ({} if x is None else {"x": x})) for n, x in enumerate(values)]
    asked = [Entity("a", {}), Entity("b", {"x": 1.0}), Entity("c", {"x": 2.0})]
    native, filled = (GBDT(filled=one).fit(schema, things).predict("", ("y",), asked) for one in (False, True))
    assert native == pytest.approx([5, 0, 0], abs=0.1)
    assert filled == pytest.approx([2.5, 2.5, 0], abs=0.1)


def test_what_is_filled_in_is_the_constant_of_training():
    columns = Columns.fit({("x",): "number", ("c",): "category", ("s",): "set"}, readings(), filled=True)
    (row,) = columns.table([read(KINDS, Entity("none", {}))]).to_dict("records")
    assert list(row.values()) == [3.0, label_text("b"), 1.0, 0.0]
    native = Columns.fit({("x",): "number", ("c",): "category", ("s",): "set"}, readings())
    (row,) = native.table([read(KINDS, Entity("none", {}))]).to_dict("records")
    assert [str(one) for one in row.values()] == ["nan", MISSING_LABEL, "nan", "nan"]


KINDS = of_one_class({("x",): Property(Number()), ("c",): Property(Category()), ("s",): Property(Set(Category()))})


def readings():
    trees = [{"x": 1, "c": "a", "s": ["p"]}, {"x": 2, "c": "b", "s": ["p"]}, {"x": 6, "c": "b", "s": ["q", "p"]}]
    return [read(KINDS, Entity(f"e{n}", tree)) for n, tree in enumerate(trees)]


def test_labels_are_not_confused_with_each_other_nor_with_what_is_missing():
    several = [True, 1, "1", "True", "missing", "b'", Link("b")]
    assert len({label_text(one) for one in several} | {MISSING_LABEL}) == len(several) + 1
    assert label_text(Link("b")) == label_text("b")


def test_what_is_the_same_for_all_is_told_without_trees():
    schema = of_one_class({("x",): Property(Number()), ("c",): Property(Category()), ("s",): Property(Set(Category()))})
    same = [Entity(f"e{n}", {"x": 3.0, "c": "a", "s": ["p"]} | ({"d": 1} if n else {})) for n in range(4)]
    one = GBDT().fit(schema, same)
    assert [one.predict("", (name,), same[:1])[0] for name in "xcs"] == [3.0, "a", ["p"]]
    alone = of_one_class({("x",): Property(Number())})
    told = GBDT().fit(alone, [Entity(f"e{n}", {"x": float(n * n)}) for n in range(3)])
    new = [Entity("new", {})]
    assert (told.predict("", ("x",), new), told.predict("", ("x",), new, "mean")) == ([1.0], [pytest.approx(5 / 3)])


def test_nothing_is_written_where_one_stands(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    GBDT(trees=2, grid=True, trials=1).fit(SCHEMA, SEEN[:20])
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_many_labels_are_told_apart_by_categories_as_they_are():
    schema = of_one_class({("near",): Property(Category()), ("best",): Property(Category())})
    things = [Entity(f"t{n}", {"near": f"n{n % 30}", "best": f"b{n % 30}"}) for n in range(240)]
    assert len({one.tree["best"] for one in things}) > MANY_LABELS
    one = GBDT(trees=40).fit(schema, things)
    assert one.models["", ("best",)].booster.get_params()["simple_ctr"] == ["Counter"]
    assert one.predict("", ("best",), things[:30]) == [f"b{n}" for n in range(30)]


# ---------------------------------------------------------------- settings


def test_more_values_have_more_trees_and_more_labels_have_fewer():
    sizes = [settings_for(n) for n in (10, 500, 2000, 8800)]
    assert all(
        one["iterations"] < more["iterations"] and one["depth"] <= more["depth"] for one, more in pairwise(sizes)
    )
    assert sizes[-1] == {"iterations": 2000, "depth": 7, "learning_rate": 0.06}
    some, many = settings_for(8800, 20), settings_for(8800, 100)
    assert some == {"iterations": 1000, "depth": 7, "learning_rate": 0.12}
    assert many == settings_for(8800, 300) == {"iterations": 300, "depth": 6, "learning_rate": 0.2, "l2_leaf_reg": 0.3}
    assert settings_for(50, 30)["depth"] == 4


def test_the_best_of_what_is_drawn_is_taken():
    """One trial is what is draw_settings first; of several the one with the least loss on the held-out part."""
    columns = Columns.fit({("x",): "number"}, [read(SCHEMA, one) for one in SEEN])
    table = columns.table([read(SCHEMA, one) for one in SEEN])
    task = BoostingTask(table, (table["0"] > 5).to_numpy(float), "RMSE")
    several, one = task.search_settings(trees=20, trials=4), task.search_settings(trees=20, trials=1)
    order = list(range(len(table)))
    random.Random(0).shuffle(order)
    first = draw_settings(after(order), "RMSE")
    assert {name: one[name] for name in first} == first
    assert 1 <= several["iterations"] <= 20

    def loss(settings):
        booster = task._fitted(settings, order[30:])
        held_out = table.iloc[order[:30]]
        said = predict_trees(booster, held_out, "RawFormulaVal")
        return float(((said - (held_out["0"] > 5)) ** 2).mean())

    assert loss(several) <= loss(one)


def after(order) -> random.Random:
    draw = random.Random(0)
    draw.shuffle(list(range(len(order))))
    return draw


def test_settings_are_drawn_as_the_paper_says():
    several = [draw_settings(random.Random(seed), "RMSE") for seed in range(200)]
    bounds = {
        "learning_rate": (0.001, 1.0),
        "depth": (3, 10),
        "l2_leaf_reg": (0.1, 10),
        "bagging_temperature": (0, 1),
        "leaf_estimation_iterations": (1, 10),
    }
    for name, (low, high) in bounds.items():
        values = sorted(one[name] for one in several)
        assert low <= values[0] < values[-1] <= high
    assert {one["depth"] for one in several} == set(range(3, 11))
    middle = sorted(one["learning_rate"] for one in several)[100]
    assert 0.01 < middle < 0.1  # of a log-uniform distribution .03
    assert "leaf_estimation_iterations" not in draw_settings(random.Random(0), "MAE")


def test_threads_are_as_many_as_are_allowed(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads() >= 1


@pytest.mark.parametrize(
    ("probabilities", "places"),
    [
        ([0.9, 0.8, 0.1], [0, 1]),
        ([0.1, 0.2], []),
        ([0.6], [0]),
        ([0.3, 1.0], [1]),
        ([], []),
        ([0.5, 0.5, 0.5], [0, 1, 2]),
    ],
)
def test_as_many_members_are_told_as_make_the_most_of_it(probabilities, places):
    assert likely_members(probabilities) == places
