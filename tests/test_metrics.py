"""Errors are those that one would work out by hand, ours and the constant's; the constants are what training says is best."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest
import torch
from models import tiny
from tables import for_each
from worlds import PHONES, phones

from kbdisk.data import Codec
from kbdisk.entity import Entity, Link, Text
from kbdisk.leaves.set import PADDING
from kbdisk.metrics import Case, Constant, Constants, Marginals, collect_cases, error, score_rows
from kbdisk.model.diffusion import beliefs
from kbdisk.model.masking import Hiding, hide
from kbdisk.schemas.kinds import Boolean, Category, Number, Set
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Text as TextLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

SCHEMA = of_one_class(
    {
        ("x",): Property(Number(decimals=1)),
        ("colour",): Property(Category()),
        ("folds",): Property(Boolean()),
        ("maker",): Property(LinkLeaf()),
        ("nets",): Property(Set(Category())),
        ("name",): Property(TextLeaf()),
        ("row",): Property(Number(), role="given"),
    },
    "Thing",
)
THINGS = [
    {"x": 1.0, "colour": "red", "folds": True, "maker": Link("a"), "nets": ["2G"], "name": "Nokia One", "row": 1},
    {"x": 2.0, "colour": "red", "folds": True, "maker": Link("b"), "nets": ["2G", "3G"], "name": "Nokia Two", "row": 2},
    {"x": 9.0, "colour": "blue", "folds": False, "maker": Link("b"), "nets": ["2G", "3G"], "name": "Galaxy", "row": 3},
]


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.fit(SCHEMA, things())


def things() -> list[Entity]:
    return [Entity(f"t{number}", tree, ("Thing",)) for number, tree in enumerate(THINGS)]


def constants(codec) -> dict[str, Constant]:
    found = Constants.fit(codec, codec.encode(things()))
    return {codec.slots[slot].path[0]: one for slot, one in found.slots.items()}


# ---------------------------------------------------------------- one answer


@for_each(
    ("kind", "truth", "said", "cost"),
    [
        ("number", 3, 5.5, 2.5),
        ("number", Decimal("0.3"), 0.3, 0.0),
        ("category", "red", "red", 0.0),
        ("category", "red", "blue", 1.0),
        ("category", True, 1, 1.0),  # true is not 1
        ("category", Decimal("1.0"), 1, 0.0),
        ("link", Link("a"), Link("a"), 0.0),
        ("link", "a", Link("a"), 0.0),
        ("link", Link("a"), Link("b"), 1.0),
        ("set", ["a", "b"], ["b", "a", "a"], 0.0),
        ("set", ["a", "b"], ["b", "c"], 2 / 3),
        ("set", [Link("a")], [Link("a"), Link("b")], 0.5),
        ("set", [], [], 0.0),
        ("set", [], ["a"], 1.0),
        ("text", "the red one", "the blue one", 0.5),
        ("text", Text("rot", "de"), "rot", 0.0),
        ("category", None, "red", 1.0),
        ("category", "red", None, 1.0),
    ],
)
def test_what_an_answer_costs(kind, truth, said, cost):
    assert error(kind, truth, said) == pytest.approx(cost)


# ---------------------------------------------------------------- constants


def test_constants_are_the_best_of_training(codec):
    found = constants(codec)
    assert found["x"] == Constant(2.0, 4.0, (pytest.approx(1.1), pytest.approx(8.3)))
    assert found["colour"].value == "red"
    assert found["folds"].value is True
    assert found["maker"].value == Link("b")
    assert found["nets"].value == ["2G", "3G"]
    assert found["name"].value == "Nokia One"  # 0, 2/3 and 1 off; "Nokia" alone is 1/2, 1/2 and 1
    assert "row" not in found  # given properties are never asked for


def test_the_constant_of_a_set_is_as_near_as_any_subset_of_its_labels():
    values = [["a"], ["a", "b"], ["a", "c"], ["d"], ["a"]]
    schema = of_one_class({("s",): Property(Set(Category()))})
    entities = [Entity(str(place), {"s": value}) for place, value in enumerate(values)]
    codec = Codec.fit(schema, entities)
    (found,) = Constants.fit(codec, codec.encode(entities)).slots.values()
    labels = ["a", "b", "c", "d"]
    subsets = [[label for bit, label in enumerate(labels) if which >> bit & 1] for which in range(16)]

    def cost(said):
        return sum(error("set", truth, said) for truth in values)

    assert cost(found.value) == min(map(cost, subsets))


def test_constants_survive_json(codec):
    found = Constants.fit(codec, codec.encode(things()))
    assert Constants.from_json(json.loads(json.dumps(found.to_json()))) == found


# ---------------------------------------------------------------- rows


def test_rows_have_the_scores_worked_out_by_hand(codec):
    slot = codec.slot("Thing", ("x",))
    told = [(1.0, 2.0, 2.5, (0.0, 1.5)), (5.0, 4.0, 6.0, (4.0, 4.5)), (8.0, 8.0, 7.0, (8.0, 9.0))]
    all_cases = [
        Case(number, slot, truth, said, mean, interval, nats=float(number), constant_nats=2.0)
        for number, (truth, said, mean, interval) in enumerate(told)
    ]
    constant = Constants({slot: Constant(4.0, 5.0, (1.0, 6.0))})
    (row,) = score_rows(codec, constant, all_cases)
    assert (row["class"], row["path"], row["kind"], row["known"], row["n"]) == ("Thing", "x", "number", 3, 3)
    assert row["metric"] == "MAE"
    assert row["ours"] == row["mae"] == pytest.approx((1 + 1 + 0) / 3)
    assert row["constant"] == row["constant_mae"] == pytest.approx((3 + 1 + 4) / 3)
    assert row["better"] == pytest.approx(1 - 2 / 8)
    assert row["rmse"] == pytest.approx(math.sqrt((1.5**2 + 1 + 1) / 3))
    assert row["constant_rmse"] == pytest.approx(math.sqrt((16 + 0 + 9) / 3))
    assert row["coverage"] == pytest.approx(2 / 3)
    assert row["constant_coverage"] == pytest.approx(2 / 3)
    assert (row["nats"], row["constant_nats"]) == (1.0, 2.0)
    # paired: the constant's errors less ours are 2, 0 and 4, whose standard deviation is 2
    assert row["stderr"] == pytest.approx(2 / math.sqrt(3))
    assert row["error"] is row["iou"] is None


def test_a_sets_row_has_iou_and_its_metric_the_rest(codec):
    slot = codec.slot("Thing", ("nets",))
    all_cases = [Case(0, slot, ["2G"], ["2G"]), Case(1, slot, ["2G", "3G"], ["3G", "4G"])]
    (row,) = score_rows(codec, Constants({slot: Constant(["2G"])}), all_cases)
    assert row["ours"] == pytest.approx((0 + 2 / 3) / 2)
    assert row["iou"] == pytest.approx((1 + 1 / 3) / 2)
    assert row["constant_iou"] == pytest.approx((1 + 1 / 2) / 2)
    assert (row["mae"], row["rmse"], row["coverage"], row["nats"]) == (None, None, None, None)


def test_what_could_not_be_asked_is_wrong_and_of_a_number_counted_alone(codec):
    colour, x = codec.slot("Thing", ("colour",)), codec.slot("Thing", ("x",))
    known = Constants({colour: Constant("red"), x: Constant(1.0, 1.0, (0.0, 2.0))})
    all_cases = [
        Case(0, colour, "red", "red"),
        Case(1, colour, "mauve", None),
        Case(0, x, 1.0, 1.0, 1.0, (0.0, 2.0)),
        Case(1, x, None, None),
    ]
    number, category = score_rows(codec, known, all_cases)
    assert (category["n"], category["unread"], category["ours"], category["constant"]) == (2, 1, 0.5, 0.5)
    assert (number["n"], number["unread"], number["ours"], number["better"]) == (1, 1, 0.0, None)


def test_nothing_is_better_than_a_constant_that_is_always_right(codec):
    slot = codec.slot("Thing", ("colour",))
    (row,) = score_rows(codec, Constants({slot: Constant("red")}), [Case(0, slot, "red", "blue")])
    assert (row["ours"], row["constant"], row["better"], row["stderr"]) == (1.0, 0.0, None, None)


def test_rows_stand_in_the_schemas_order_and_places_of_a_list_are_one():
    entities = phones()
    codec = Codec.fit(PHONES, entities)
    known = Constants.fit(codec, codec.encode(entities))
    first, second = (codec.slot("Phone", ("cameras", place, "kind")) for place in (0, 1))
    founded, oem = codec.slot("Maker", ("founded",)), codec.slot("Phone", ("oem",))
    numbers = {"mean": 1900.0, "interval": (1800.0, 2000.0)}
    all_cases = [
        Case(0, founded, 1865, 1900, **numbers),
        Case(1, second, "wide", "wide"),
        Case(2, oem, "Nokia", "Apple"),
        Case(1, first, "wide", "wide"),
    ]
    rows = score_rows(codec, known, all_cases)
    assert [(row["class"], row["path"], row["n"]) for row in rows] == [
        ("Phone", "oem", 1),
        ("Phone", "cameras[].kind", 2),
        ("Maker", "founded", 1),
    ]
    assert rows[1]["known"] == sum(slot.count for slot in codec.slots if slot.path[::2] == ("cameras", "kind"))


# ---------------------------------------------------------------- nats of the constant


@for_each("name", ["x", "colour", "folds", "maker", "nets"])
def test_what_the_constant_believes_adds_up_to_at_most_one(codec, name):
    slot = codec.slots[codec.slot("Thing", (name,))]
    every = {
        "x": torch.cat([slot.codec.encode([place / 10]) for place in range(-500, 700)]) if name == "x" else None,
        "colour": torch.tensor([0, 1, -1]),
        "folds": torch.tensor([0, 1]),
        "maker": torch.tensor([0, 1, -1]),
        "nets": torch.tensor([[PADDING, PADDING], [0, PADDING], [1, PADDING], [0, 1], [-2, PADDING], [-2, 0], [-2, 1]]),
    }[name]
    nats = Marginals(codec).nats(codec.slot("Thing", (name,)), every)
    assert 0.8 < float((-nats).exp().sum()) <= 1.001


def test_the_constant_belief_is_what_training_has(codec):
    marginals = Marginals(codec)
    folds = marginals.nats(codec.slot("Thing", ("folds",)), torch.tensor([0, 1]))
    assert (-folds).exp().tolist() == pytest.approx([1.5 / 4, 2.5 / 4])  # 1 and 2 of 3, and half a one each
    name = codec.slots[codec.slot("Thing", ("name",))]
    assert marginals.nats(codec.slot("Thing", ("name",)), name.codec.encode(["One"])).item() == pytest.approx(
        name.entropy
    )


# ---------------------------------------------------------------- cases


@pytest.mark.slow
def test_cases_have_the_truth_the_answer_and_what_it_costs():
    entities = phones()
    trained = tiny(PHONES, entities)
    batch = trained.encode(entities).batch(torch.arange(len(entities)))
    hidden = hide(batch, Hiding(), torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = beliefs(trained.network, batch, hidden.asked, hidden.visible)
        told = collect_cases(trained.codec, Marginals(trained.codec), batch, found)
        nats = -found.log_prob(batch)
    assert len(told) == int(hidden.asked.sum())
    places = {(int(batch.entity[token]), int(batch.slot[token])): token for token in hidden.asked.nonzero()[:, 0]}
    leaves = [trained.schema.leaves(entity) for entity in entities]
    for case in told:
        slot = trained.codec.slots[case.slot]
        assert case.nats == pytest.approx(float(nats[places[case.entity, case.slot]]), abs=1e-5)
        assert (case.mean is not None) == (case.interval is not None) == (slot.kind == "number")
        leaf = leaves[case.entity][slot.path]
        if slot.path == ("weight", "value"):  # pounds as grams have more digits than a code
            leaf = slot.codec.decode(slot.codec.encode([leaf]))[0]
        assert error(slot.kind, leaf, case.truth) == pytest.approx(0, abs=1e-6)
        assert case.constant_nats is not None
        assert math.isfinite(case.constant_nats)


@pytest.mark.slow
def test_a_record_keeps_the_constants_of_what_was_trained_on():
    entities = phones()
    trained = tiny(PHONES, entities)
    known = set(trained.record.training)
    tokens = trained.encode([one for one in entities if one.id in known])
    assert Constants.from_json(trained.record.constants) == Constants.fit(trained.codec, tokens)
