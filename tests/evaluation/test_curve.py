"""The curve asks the same values at every share; at all that may be given it is the evaluation itself."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from kbdisk.evaluation.curve import LIMIT, SHARES, TEXTS, Curve, Line, curve
from kbdisk.evaluation.evaluate import Evaluation, Scope, evaluate


def line(ours, constant=2.0, path="x") -> Line:
    return Line("", path, "number", "MAE", 5, constant, ours)


def test_what_is_given_at_one_share_is_given_at_each_larger_one(handsets):
    trained, entities = handsets
    exam = Evaluation.of(trained, entities, None, Scope())
    for one, _ in exam.batches():
        open = one.batch.known & ~one.hidden & ~one.batch.fixed
        shown = [one.visible(share, seed=5) for share in SHARES]
        assert all(bool((more | ~less).all()) for less, more in pairwise(shown))
        assert not bool((shown[0] & open).any())
        assert bool((shown[-1] == one.visible()).all())
        assert not any(bool((each & one.hidden).any()) for each in shown)
        half = (shown[5] & open).sum() / open.sum()
        assert 0.4 < float(half) < 0.6


@pytest.mark.slow
def test_with_all_others_given_it_is_the_evaluation(handsets):
    trained, entities = handsets
    scope = Scope(limit=10, texts=2)
    found = curve(trained, entities, scope=scope, shares=(0.0, 1.0))
    rows = evaluate(trained, entities, scope=scope)
    assert [(line.class_name, line.path, line.n, line.constant) for line in found.lines] == [
        (row["class"], row["path"], row["n"], row["constant"]) for row in rows
    ]
    assert [line.ours[-1] for line in found.lines] == [row["ours"] for row in rows]
    assert any(line.ours[0] != line.ours[-1] for line in found.lines)


def test_the_mean_is_over_properties_that_can_be_compared():
    found = Curve([0.0, 1.0], [line([2.0, 1.0]), line([4.0, 0.0]), line([1.0, 1.0], 0.0), line([None, None], None)])
    assert found.mean == [1.5, 0.25]
    assert found.lines[2].ratios is None
    assert Curve([0.0, 1.0], []).mean == [None, None]


def test_it_is_plain_data():
    found = Curve([0.0, 1.0], [line([2.0, 1.0])])
    assert json.loads(json.dumps(found.to_json())) == {
        "shares": [0.0, 1.0],
        "mean": [1.0, 0.5],
        "properties": [
            {"class": "", "path": "x", "kind": "number", "metric": "MAE", "n": 5, "constant": 2.0, "ours": [2.0, 1.0]}
        ],
    }


def test_shares_must_be_shares(handsets):
    with pytest.raises(ValueError, match="expected shares from 0 to 1"):
        curve(*handsets, shares=(0.5, 2))


@pytest.mark.slow
def test_progress_runs_through_all_shares(handsets):
    trained, entities = handsets
    told = []
    curve(trained, entities[:5], shares=(0.0, 1.0), watch=lambda done, whole: told.append((done, whole)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]
    assert LIMIT > TEXTS
