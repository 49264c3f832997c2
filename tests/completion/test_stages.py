"""The stages of completing: a plan, predictions that can be kept, and decisions that need no network."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import calibrated
from tables import for_each
from things import entities, thing

from kbdisk.completion import complete, predict
from kbdisk.completion import plan as plans
from kbdisk.completion.complete import Completing, predicting_writable_gaps
from kbdisk.completion.config import FILLS, CompletionConfig
from kbdisk.completion.gaps import Gap
from kbdisk.completion.plan import Plan
from kbdisk.completion.predict import GapPredictor, Predicting
from kbdisk.completion.predictions import Prediction, Predictions, read_line
from kbdisk.entity import Date, Link, Quantity, Text
from kbdisk.errors import LoadError
from kbdisk.evaluation.calibration import Line
from kbdisk.model.estimates import Estimate

COUNT = 12  # entities with gaps
THRESHOLDS = [
    {},
    {"fill": "all"},
    {"fill": "asked"},
    {"min_confidence": 0.99},
    {"min_confidence": 0.1},
    {"precision": 0.9},
    {"fill": "all", "min_confidence": 0.3},
]


@pytest.fixture(scope="module")
def model(model):
    """A model that is sure of some values, and of others not."""
    return calibrated(model, presence=Line(0.4, 1.0), correctness=Line(0.6, 1.0))


@pytest.fixture(scope="module")
def gaps():
    """Things that lack something of each kind, some with a place for it and some without; read them, never change them."""
    things = [thing(i) for i in range(COUNT)]
    for i, one in enumerate(things):
        for key in list(one)[1 + i % 5 :: 5]:
            if i % 2:
                one[key] = None
            else:
                del one[key]
    things[3]["born"] = {"year": 1950, "month": None}
    things[4]["mass"] = {"value": None, "unit": "kg"}
    things[5]["parts"] = [{"kind": "leg"}, {"length": 3.5}]
    return entities(*things)


@pytest.fixture(scope="module")
def plan(model, gaps):
    return Plan(model, gaps, CompletionConfig())


def test_a_batch_asks_few_questions_that_many_labels_may_answer(model, plan, monkeypatch):
    monkeypatch.setattr(predict, "LABELS_PER_COST", 1)
    monkeypatch.setattr(predict, "MAX_TOKENS", 40)
    monkeypatch.setattr(predict, "GIVEN_COST", 0.0)
    predicting = Predicting(plan.with_config(CompletionConfig(draws=0)))
    asked = list(predicting._asked(plan))
    batches = list(predicting._batches(asked))
    assert [entity for _, in_batch in batches for entity in in_batch] == asked
    assert len(batches) > 1
    for batch, in_batch in batches:
        labels = [len(model.codec.slots[slot].labels) for slot in batch.slot[batch.asked].tolist()]
        assert sum(max(count, 1) for count in labels) <= 40 or len(in_batch) == 1


def test_the_gaps_of_the_last_entities_are_kept_and_others_found_again(plan, monkeypatch):
    every = [[(gap.path, gap.asked, gap.parts) for gap in planned.gaps] for planned in plan]
    assert any(every)
    assert plan.planned(7) is plan.planned(7)
    monkeypatch.setattr(plans, "MAX_KEPT", 5)
    few = plan.with_config(plan.config)
    again = [[(gap.path, gap.asked, gap.parts) for gap in planned.gaps] for planned in [*few, *few]]
    assert again == 2 * every
    last = few.planned(few.total - 1)
    assert few.planned(few.total - 1) is last
    assert [few.planned(row).row for row in range(6)] == list(range(6))
    assert few.planned(few.total - 1) is not last


@pytest.fixture(scope="module")
def predictions(plan):
    """The predictions for all gaps."""
    return predicted(plan)


def predicted(plan: Plan, **how) -> Predictions:
    return table_of(Predicting(plan), **how)


def table_of(predicting: Predicting, **how) -> Predictions:
    lines = (lines for _, lines in predicting.lines())
    predictions = Predictions(predicting.about, predicting.covers_all_gaps, lines, **how)
    predictions.finish()
    return predictions


def decided(plan: Plan, predictions: Predictions, **how) -> tuple[list, dict]:
    """What is filled in and held back of each entity, and the summary."""
    completing = Completing(plan, predictions.beside(plan), **how)
    return [(one.filled, one.held_back) for one in completing], completing.summary.to_json()


def anew(model, gaps, **choices) -> tuple[list, dict]:
    completing = complete(model, gaps, **choices)
    return [(one.filled, one.held_back) for one in completing], completing.summary.to_json()


def is_same_but_for_rounding(left: Any, right: Any) -> bool:
    """Whether two results are equal but for the rounding of numbers: fewer gaps at once are other sums of the same terms."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-7)
    if type(left) is not type(right):
        return False
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(is_same_but_for_rounding(left[key], right[key]) for key in left)
    if is_dataclass(left):
        names = [field.name for field in fields(left)]
        return all(is_same_but_for_rounding(getattr(left, name), getattr(right, name)) for name in names)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(is_same_but_for_rounding, left, right))
    return left == right


# ---------------------------------------------------------------- deciding meanwhile


def test_gaps_are_decided_on_as_their_predictions_come(plan, predictions):
    predicting = Predicting(plan)
    given = []

    def lines():
        for planned, of_entity in predicting.lines():
            given.append(planned.row)
            yield of_entity

    coming = Predictions(predicting.about, predicting.covers_all_gaps, lines())
    completing = Completing(plan, coming.beside(plan))
    first = next(iter(completing))
    assert len(given) < len(plan.entities)
    completions = [first, *completing]
    assert [completion.filled for completion in completions] == [filled for filled, _ in decided(plan, predictions)[0]]
    assert list(coming.rows) == list(predictions.rows)


def test_several_readers_get_all_that_comes(plan, predictions):
    coming = Predictions(Predicting(plan).about, True, (lines for _, lines in Predicting(plan).lines()))
    pairs = list(zip(coming.rows, coming.rows, strict=True))
    assert [row for row, _ in pairs] == [row for _, row in pairs] == list(predictions.rows)
    assert coming.count == len(pairs) == predictions.count


def test_the_number_of_predictions_is_known_once_all_have_come(plan, predictions):
    coming = Predictions(Predicting(plan).about, True, (lines for _, lines in Predicting(plan).lines()))
    assert len(coming) == predictions.count


# ---------------------------------------------------------------- deciding again


@pytest.mark.parametrize("thresholds", THRESHOLDS, ids=str)
def test_other_thresholds_decide_on_the_same_predictions_as_if_all_was_predicted_anew(
    model, gaps, plan, predictions, thresholds, monkeypatch
):
    wanted = anew(model, gaps, **thresholds)
    usual = decided(plan, predictions)
    monkeypatch.setattr(GapPredictor, "predict", None)  # the network is asked by this alone
    again = decided(plan.with_config(CompletionConfig(**thresholds)), predictions)
    assert is_same_but_for_rounding(again, wanted)
    assert is_same_but_for_rounding(wanted, usual) == (not thresholds)


def test_the_same_predictions_tell_a_review_what_is_held_back(model, gaps, plan, predictions):
    wanted = anew(model, gaps, keeps_held_back=True)
    assert any(held for _, held in wanted[0])
    assert is_same_but_for_rounding(decided(plan, predictions, keeps_held_back=True), wanted)


@for_each("draws", [0, 2])
def test_predictions_that_are_saved_and_read_again_or_on_disk_give_the_same(model, gaps, draws, tmp_path):
    plan = Plan(model, gaps, CompletionConfig(fill="all", draws=draws))
    kept = predicted(plan)
    wanted = decided(plan, kept)
    assert any(filled for filled, _ in wanted[0])
    on_disk = predicted(plan, max_bytes_in_memory=1)
    assert (kept._lines._rolled, on_disk._lines._rolled) == (False, True)
    assert decided(plan, on_disk) == wanted
    kept.save(tmp_path / "kept.jsonl")
    again = Predictions.read(tmp_path / "kept.jsonl")
    assert decided(plan, again) == wanted
    again.save(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "kept.jsonl").read_bytes()
    assert list(again.rows) == list(kept.rows) == list(on_disk.rows)


def test_several_can_read_the_same_predictions_side_by_side(predictions):
    for one, other in zip(predictions.rows, predictions.rows, strict=True):
        assert one == other


VALUES = st.one_of(
    st.none(), st.booleans(), st.text(), st.integers(), st.floats(allow_nan=False), st.decimals(allow_nan=False, allow_infinity=False),
    st.builds(Link, st.text()), st.builds(Text, st.text(), st.text()), st.just(Date(1912, 11)), st.just(Quantity(3, "g")),
    st.just(10**400), st.lists(st.text()), st.tuples(st.text(), st.integers()), st.sampled_from(["\ud800", "a\udfff b"]),
)  # fmt: skip


@given(
    leaf=VALUES,
    chance=st.floats(0, 1),
    between=st.none() | st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)),
)
def test_a_prediction_is_the_same_when_it_is_read_again(leaf, chance, between):
    path = ("a", 0, "b c")
    gap = Gap(None, path)
    within = (*path, "value")
    prediction = Prediction(
        gap, "", chance, {within: leaf}, {within: Estimate(0, 7, 0, leaf, chance, between, math.inf)}
    )
    prediction.tokens[within] = 0
    prediction.draws = [{within: leaf}]
    again = Prediction.of(read_line(prediction.line(0, "t0")), gap)
    assert vars(again) == vars(prediction)
    assert type(again.leaves[within]) is type(leaf)


def test_numbers_are_read_to_the_last_digit():
    gap = Gap(None, ("a",))
    for number in (Decimal("0.10"), Decimal("1e30"), 0.1 + 0.2, 5e-324, -0.0, 2**63, -(2**63), 2**64):
        line = Prediction(gap, leaves={("a",): number}).line(0, "")
        again = Prediction.of(read_line(line), gap).leaves["a",]
        assert (repr(again), type(again)) == (repr(number), type(number))


# ---------------------------------------------------------------- what does not fit


def test_predictions_of_another_source_model_or_choice_are_refused(model, gaps, plan, predictions, tmp_path):
    predictions.save(tmp_path / "p.jsonl")
    predictions = Predictions.read(tmp_path / "p.jsonl")
    predictions.refuse_other(Predicting(plan.with_config(CompletionConfig(min_confidence=0.3, fill="all"))).about())
    others = {
        "of this source": Plan(model, gaps[:-1], CompletionConfig()),
        "with seed 1": Plan(model, gaps, CompletionConfig(seed=1)),
        "with estimate mean": Plan(model, gaps, CompletionConfig(estimate="mean")),
        "with only size": Plan(model, gaps, CompletionConfig(only=(("size",),))),
    }
    for what, other in others.items():
        with pytest.raises(LoadError, match=f"p.jsonl: expected predictions {what}, got those ") as error:
            predictions.refuse_other(Predicting(other).about())
        assert "\n" not in str(error.value)
    with pytest.raises(LoadError, match="expected predictions by this model, got those by another"):
        predictions.refuse_other(Predicting(plan).about() | {"model": "0123456789ab"})
    with pytest.raises(LoadError, match="with these shapes"):
        predictions.refuse_other(Predicting(plan, model.schema).about())


def test_several_processes_predict_the_same(monkeypatch, plan):
    monkeypatch.setattr(predict, "CHUNK_ENTITIES", 3)
    tables = []
    for processes in (1, 2):
        monkeypatch.setattr(predict, "usable_processes", lambda device, count=processes: count)
        tables.append([[read_line(line) for line in lines] for _, lines in Predicting(plan).lines()])
    alone, divided = tables
    assert sum(map(len, alone)) > COUNT
    assert is_same_but_for_rounding(alone, divided)


def test_predictions_for_some_gaps_alone_fit_their_own_thresholds(model, gaps):
    plan = Plan(model, gaps, CompletionConfig(min_confidence=0.4))
    predicting = predicting_writable_gaps(plan)
    predictions = table_of(predicting)
    assert not predictions.covers_all_gaps
    assert is_same_but_for_rounding(decided(plan, predictions), anew(model, gaps, min_confidence=0.4))
    predictions.refuse_other(predicting.about())
    lower = predicting_writable_gaps(plan.with_config(CompletionConfig(min_confidence=0.3)))
    with pytest.raises(LoadError, match=r"with fill likely min_confidence 0.3 .*, got those with .* 0.4 "):
        predictions.refuse_other(lower.about())


@for_each(
    "broken",
    ["empty", "json", "model", "format", "short", "long", "cover", "row", "path", "leaf", "confidence", "order"],
)
def test_a_file_that_is_none_or_was_changed_is_refused_in_a_line(plan, predictions, broken, tmp_path):
    file = tmp_path / "p.jsonl"
    predictions.save(file)
    head, *lines = file.read_bytes().splitlines(keepends=True)
    first, last = json.loads(lines[0]), lines[-1]
    changed = {
        "empty": [],
        "json": [b"[]\n"],
        "model": [b'{"kbdisk": "model"}\n', *lines],
        "format": [head.replace(b'"format":1', b'"format":2'), *lines],
        "short": [head, *lines[:-1]],
        "long": [head, *lines, last],
        "cover": [head.replace(b'"covers_all_gaps":true', b'"covers_all_gaps":1'), *lines],
        "row": [head, json.dumps(first | {"row": "0"}).encode() + b"\n", *lines[1:]],
        "path": [head, json.dumps(first | {"path": ["nowhere"]}).encode() + b"\n", *lines[1:]],
        "leaf": [head, json.dumps(first | {"leaves": [5]}).encode() + b"\n", *lines[1:]],
        "confidence": [head, *(line.replace(b'"answers":[[[', b'"answers":[["x",') for line in lines)],
        "order": [head, last, *lines[:-1]],
    }[broken]
    file.write_bytes(b"".join(changed))
    with pytest.raises(LoadError) as error:
        decided(plan, Predictions.read(file))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(file))


# ---------------------------------------------------------------- inspection


def test_a_plan_tells_what_is_there_what_lacks_and_what_may_be_filled(gaps, plan, tmp_path):
    rows = list(plan.rows)
    assert {row["gap"] for row in rows} == {"blank", "part", "absent", "member"}
    assert {(row["id"], row["path"]) for row in rows} >= {("t3", "born"), ("t4", "mass"), ("t5", "parts[1].kind")}
    properties = {row["path"]: row for row in plan.properties}
    assert all(row["known"] + row["missing"] == len(gaps) for row in properties.values())
    assert properties["name"]["reason"]
    assert not properties["size"]["reason"]
    whole = Counter(row["path"] for row in rows if row["path"] == row["property"])
    assert all(whole[path] == row["missing"] for path, row in properties.items() if path in ("size", "colour", "near"))
    assert not {row["property"] for row in rows} & {show for show, row in properties.items() if row["reason"]}
    plan.save(tmp_path / "plan.jsonl")
    assert [json.loads(line) for line in Path(tmp_path / "plan.jsonl").read_bytes().splitlines()] == rows


def test_predictions_tell_value_presence_correctness_interval_and_reason_of_each_gap(plan, predictions):
    rows = list(predictions.rows)
    assert [(row["row"], row["id"], row["path"]) for row in rows] == [
        (row["row"], row["id"], row["path"]) for row in plan.rows
    ]
    assert len(rows) == len(predictions)
    for row in rows:
        assert (row["value"] is None) == bool(row["reason"])
        assert row["presence"] is None or 0 <= row["presence"] <= 1
        assert row["reason"] or 0 <= row["correctness"] <= 1
    size = next(row for row in rows if row["path"] == "size")
    assert size["interval"][0] < size["value"] < size["interval"][1]


@for_each("fill", FILLS)
def test_every_gap_is_written_or_held_back_once(model, gaps, fill):
    plan = Plan(model, gaps, CompletionConfig(fill=fill))
    _, summary = decided(plan, predicted(plan))
    for row in summary["properties"]:
        assert row["missing"] == row["filled"] + sum(row["held_back"].values())
