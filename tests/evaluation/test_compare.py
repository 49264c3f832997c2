"""Rivals learn from what the model was trained on, and are asked what it is asked: nothing more is given to them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from worlds import PHONES

from kbdisk.entity import Entity
from kbdisk.errors import LoadError, SchemaError
from kbdisk.evaluation import BASELINES
from kbdisk.evaluation.baselines import NO_PREDICTION, Baseline, ConstantBaseline, Prediction
from kbdisk.evaluation.catboost import GBDT
from kbdisk.evaluation.compare import FittedBaselines, training_entities
from kbdisk.evaluation.curve import curve
from kbdisk.evaluation.evaluate import Evaluation, Scope, SourcePartition, evaluate
from kbdisk.metrics import metric_of

SCOPE = Scope(limit=8, texts=3)


class Witness(Baseline):
    """Says what it was never told, and keeps what it was shown."""

    def learn(self, readings, graph, seed, watch):
        self.seen, self.graph, self.shown = readings, graph, []

    def predict_leaf(self, leaf, readings):
        self.shown += [(leaf, one) for one in readings]
        return [Prediction(1.0) if self.kind(leaf) == "number" else NO_PREDICTION] * len(readings)


@pytest.fixture(scope="module")
def handsets(handsets):
    trained, entities = handsets
    return trained, SourcePartition.of(trained, entities)


@pytest.fixture(autouse=True)
def entries(monkeypatch):
    monkeypatch.setitem(BASELINES, "witness", Witness)
    monkeypatch.setitem(BASELINES, "trees", lambda: GBDT(trees=3))


def rivals(handsets, *names: str, scope: Scope = SCOPE) -> FittedBaselines:
    trained, sides = handsets
    return FittedBaselines.fit(names, trained, sides.trained_on, sides.fair, scope)


def test_they_learn_from_what_the_model_was_trained_on_and_no_more(handsets):
    trained, sides = handsets
    witness = rivals(handsets, "witness").fitted["witness"]
    assert sorted(one.id for one in witness.seen) == sorted(trained.record.training)
    arrays = witness.graph.arrays()
    known = [name for name, number in zip(arrays.names, arrays.class_of.tolist(), strict=True) if number >= 0]
    assert sorted(known) == sorted(trained.record.training)
    assert len(witness.seen) == len(sides.trained_on) == 39
    asked = {path for one in sides.fair for path in PHONES.leaves(one)}
    assert {path for _, path in witness.hidden} <= asked
    assert ("row",) not in {path for _, path in witness.hidden}


@pytest.mark.parametrize("whole", [False, True])
def test_they_are_shown_all_but_what_is_hidden_with_what_is_asked_for(handsets, whole):
    trained, sides = handsets
    scope = replace(SCOPE, whole=whole)
    found = rivals(handsets, "witness", scope=scope)
    exam = Evaluation.of(trained, sides.fair, None, scope)
    found.scores(exam)
    witness = found.fitted["witness"]
    assert len(witness.shown) == len(exam.chosen.values)
    leaves = {one.id: PHONES.leaves(one) for one in sides.fair}
    for (of, path), one in witness.shown:
        hidden = leaves[one.id].keys() - one.leaves.keys()
        assert path in hidden
        assert one.leaves.items() <= leaves[one.id].items()
        assert hidden <= witness.hidden[of, path]
        if path == ("launch", "year"):
            assert (("launch", "month") in hidden) is whole
        if path == ("cameras", "count"):
            assert not any(other[0] == "cameras" for other in one.leaves)


def test_they_are_given_no_more_than_the_model_is(handsets):
    trained, sides = handsets
    found = rivals(handsets, "witness")
    exam = Evaluation.of(trained, sides.fair, None, SCOPE)
    found.scores(exam, 0.0)
    assert {path for _, one in found.fitted["witness"].shown for path in one.leaves} <= {("row",)}
    shown = []
    for share in (0.3, 0.6):
        found.fitted["witness"].shown.clear()
        found.scores(exam, share)
        shown.append({(leaf, one.id): set(one.leaves) for leaf, one in found.fitted["witness"].shown})
    assert all(shown[0][one] <= shown[1][one] for one in shown[0])
    assert shown[0] != shown[1]


def test_the_constant_is_the_constant(handsets):
    trained, sides = handsets
    rows = evaluate(trained, sides.fair, scope=SCOPE, against=rivals(handsets, "constant"))
    compared = [(row, row["against"]["constant"]) for row in rows]
    assert len(compared) >= 10
    for row, cell in compared:
        assert cell["theirs"] == pytest.approx(row["constant"]), row["path"]
        for name in ("mae", "rmse", "error", "iou"):
            assert cell[name] == (None if row[f"constant_{name}"] is None else pytest.approx(row[f"constant_{name}"]))


def test_their_scores_are_those_of_their_answers(handsets):
    """Asked with all else given, they say what `predict` says of the entity itself."""
    trained, sides = handsets
    found = rivals(handsets, "trees", scope=Scope())
    rows = evaluate(trained, sides.fair, scope=Scope(), against=found)
    for name in ("oem", "body.height"):
        path = tuple(name.split("."))
        own = [one for one in sides.fair if path in PHONES.leaves(one)]
        said = found.fitted["trees"].predict("Phone", path, own)
        (row,) = [one for one in rows if one["path"] == name]
        kind = metric_of("category" if name == "oem" else "number")
        wanted = [kind.error(PHONES.leaves(one)[path], answer) for one, answer in zip(own, said, strict=True)]
        assert row["n"] == len(own)
        assert row["against"]["trees"]["theirs"] == pytest.approx(sum(wanted) / len(wanted))


def test_what_a_rival_cannot_tell_has_no_score(handsets):
    trained, sides = handsets
    found = rivals(handsets, "witness", "trees")
    rows = evaluate(trained, sides.fair, scope=SCOPE, against=found)
    cells = {row["path"]: row["against"] for row in rows}
    assert cells["oem"]["witness"] is None
    assert cells["body.height"]["witness"]["rmse"] > 10  # of the value, as it tells no mean
    assert cells["model"]["trees"] is None
    assert cells["oem"]["trees"]["error"] == cells["oem"]["trees"]["theirs"]
    told = found.to_json(rows)
    assert json.loads(json.dumps(told)) == told
    assert told["trees"]["left_out"] == {"Phone.model": "text, which trees cannot tell"}
    assert told["trees"]["properties"] == len(rows) - 1
    assert told["witness"]["better"] <= told["witness"]["properties"]


def test_how_a_model_does_beside_a_rival_is_counted(handsets):
    found = FittedBaselines({"x": ConstantBaseline()}, {"x": 1.0})
    found.fitted["x"].left_out = {}
    cells = [
        (1.0, {"theirs": 2.0}),
        (3.0, {"theirs": 2.0}),
        (1.0, None),
        (0.0, {"theirs": 0.0}),
        (None, {"theirs": None}),
    ]
    told = found.to_json([{"ours": ours, "against": {"x": cell}} for ours, cell in cells])["x"]
    assert told == {"properties": 3, "better": 1, "ratio": 1.0, "seconds": 1.0, "left_out": {}}


def test_a_value_without_a_code_is_a_wrong_answer_of_theirs_too(handsets):
    trained, _ = handsets
    odd = [Entity("odd", {"oem": "Nokia", "body": {"folds": "perhaps"}}, ("Phone",))]
    rows = evaluate(trained, odd, scope=Scope(only=(("body",),)), against=rivals(handsets, "trees", "constant"))
    assert [(row["path"], row["unread"], row["n"]) for row in rows] == [("body.folds", 1, 1)]
    assert [cell["theirs"] for cell in rows[0]["against"].values()] == [1.0, 1.0]


@pytest.mark.slow
def test_a_curve_has_a_line_for_each(handsets):
    trained, sides = handsets
    scope = Scope(limit=5, only=(("oem",), ("body",), ("model",)))
    found = rivals(handsets, "trees", scope=scope)
    curved = curve(trained, sides.fair, scope=scope, shares=(0.0, 1.0), against=found)
    rows = evaluate(trained, sides.fair, scope=scope, against=found)
    assert [line.against["trees"][1] for line in curved.lines] == [
        row["against"]["trees"] and row["against"]["trees"]["theirs"] for row in rows
    ]
    lines = {line.path: line for line in curved.lines}
    assert lines["model"].against["trees"] == [None, None]
    assert lines["body.height"].against["trees"][0] != lines["body.height"].against["trees"][1]
    told = [line.ratios_of(line.against["trees"])[1] for line in curved.lines if line.path != "model" and line.constant]
    assert curved.mean_of("trees")[1] == pytest.approx(sum(told) / len(told))
    assert {"against"} <= curved.to_json()["properties"][0].keys()


def test_progress_runs_through_all_of_them(handsets):
    trained, sides = handsets
    told = []
    scope = Scope(only=(("oem",), ("body",)))
    watch = lambda done, total: told.append((done, total))  # noqa: E731
    FittedBaselines.fit(["trees", "trees", "constant"], trained, sides.trained_on, sides.fair, scope, watch)
    assert told == [(1, 6), (2, 6), (3, 6), (6, 6)]


def test_a_source_without_the_training_entities_is_told_plainly(handsets):
    trained, sides = handsets
    assert training_entities(trained, sides, "phones.jsonl") is sides.trained_on
    with pytest.raises(
        LoadError, match=r"^some.jsonl: expected the 39 entities .* got 5 of them\. Give the source that it"
    ):
        training_entities(trained, replace(sides, trained_on=sides.trained_on[:5]), "some.jsonl")
    with pytest.raises(SchemaError):
        rivals(handsets, "trees", scope=Scope(only=(("lunch",),)))
