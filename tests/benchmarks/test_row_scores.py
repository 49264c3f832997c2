"""Scores of drawn rows: exact on tables whose scores are known, and as sdmetrics has them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.row_scores import (
    TREES,
    area_under_curve,
    closest_records,
    label_columns,
    number_columns,
    row_scores,
    trend,
    two_sample_auc,
)
from benchmarks.tabular_sets import Rows, TabularSet

SETS = {"price": {"task_type": "regression"}, "dear": {"task_type": "binclass"}}


@pytest.fixture
def few_trees(monkeypatch):
    monkeypatch.setitem(TREES, "iterations", 40)


def some_rows(draw: np.random.Generator, count: int, name: str = "dear") -> Rows:
    """Rows whose target follows from a whole number, a decimal and a label."""
    few, fine = draw.integers(0, 4, count) * 2.0, draw.random(count) * 5
    labels = draw.choice(["red", "green", "blue"], count)
    value = few + fine + 4 * (labels == "red")
    target = value if name == "price" else (value > 6).astype(np.int64)
    return Rows(np.stack([few, fine], 1), labels[:, None], target)


def some_set(name: str = "dear", count: int = 400) -> TabularSet:
    draw = np.random.default_rng(0)
    return TabularSet(name, SETS[name], *(some_rows(draw, count, name) for _ in range(3)))


def of_numbers(*columns: list[float]) -> TabularSet:
    """A regression whose three parts are the same few rows; the last column is the target."""
    *numbers, target = np.array(columns, dtype=float)
    rows = Rows(np.stack(numbers, 1), np.empty((len(target), 0), dtype=str), target)
    return TabularSet("made", SETS["price"], rows, rows, rows)


# ---------------------------------------------------------------- two-sample test


def test_the_area_under_the_curve_is_the_chance_of_the_right_order():
    truth = np.array([0, 0, 1, 1])
    assert area_under_curve(truth, np.array([1.0, 2.0, 3.0, 4.0])) == 1
    assert area_under_curve(truth, np.array([4.0, 3.0, 2.0, 1.0])) == 0
    assert area_under_curve(truth, np.array([1.0, 1.0, 1.0, 1.0])) == 0.5
    assert area_under_curve(truth, np.array([1.0, 3.0, 2.0, 4.0])) == 0.75


@pytest.mark.parametrize("name", SETS)
def test_rows_of_the_same_distribution_cannot_be_told_apart(name, few_trees):
    table = some_set(name)
    standard_error = math.sqrt(1 / (6 * len(table.judged)))
    assert abs(two_sample_auc(table, table.judged, table.stop, 0) - 0.5) < 3 * standard_error


def test_rows_whose_columns_do_not_belong_together_are_told_apart():
    table = some_set()
    shuffled = replace(table.stop, target=np.random.default_rng(1).permutation(table.stop.target))
    assert two_sample_auc(table, table.judged, shuffled, 0) > 0.7


# ---------------------------------------------------------------- trend


@pytest.mark.parametrize("name", SETS)
def test_the_trend_of_identical_tables_is_1(name):
    table = some_set(name)
    assert trend(table, table.train, table.train) == 1


def test_the_trend_of_two_numbers_is_by_how_much_their_correlations_differ():
    table = of_numbers([1, 2, 3], [2, 4, 6])
    turned = replace(table.train, target=table.train.target[::-1])
    assert trend(table, table.train, turned) == pytest.approx(0)
    assert trend(table, table.train, replace(table.train, target=np.array([6.0, 0, 6]))) == pytest.approx(0.5)


def test_pairs_with_a_constant_column_do_not_count():
    table = of_numbers([1, 2, 3], [2, 4, 6])
    assert trend(table, table.train, replace(table.train, target=np.ones(3))) is None


def test_the_trend_of_two_labels_is_the_share_of_common_pairs():
    rows = Rows(np.empty((4, 0)), np.array(["a", "a", "b", "b"])[:, None], np.array([0, 1, 0, 1]))
    table = TabularSet("made", SETS["dear"], rows, rows, rows)
    drawn = Rows(np.empty((2, 0)), np.array(["a", "c"])[:, None], np.array([0, 1]))
    assert trend(table, rows, drawn) == pytest.approx(0.25)


def test_the_trend_of_a_number_and_a_label_is_of_ten_bins():
    numbers = np.array([0.0, 0.4, 5.0, 10.0])
    rows = Rows(numbers[:, None], np.empty((4, 0), dtype=str), np.array([0, 0, 0, 1]))
    table = TabularSet("made", SETS["dear"], rows, rows, rows)
    in_the_same_bins = replace(rows, numbers=np.array([0.0, 0.9, 5.9, 10.0])[:, None])
    in_another_bin = replace(rows, numbers=np.array([0.0, 1.1, 5.9, 10.0])[:, None])
    assert trend(table, rows, in_the_same_bins) == 1
    assert trend(table, rows, in_another_bin) == pytest.approx(0.75)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SETS)
def test_the_trend_is_that_of_sdmetrics(name):
    reports = pytest.importorskip("sdmetrics.reports.single_table", reason="sdmetrics is not installed")
    import pandas

    table = some_set(name)
    draw = np.random.default_rng(1)
    noisy = replace(table.stop, numbers=table.stop.numbers + draw.normal(size=table.stop.numbers.shape))
    frames = []
    for rows in (table.train, noisy):
        columns = {f"n{place}": column for place, column in enumerate(number_columns(table, rows).T)}
        columns |= {f"c{place}": column for place, column in enumerate(label_columns(table, rows).T)}
        frames.append(pandas.DataFrame(columns))
    kinds = {column: "numerical" if column.startswith("n") else "categorical" for column in frames[0]}
    report = reports.QualityReport()
    report.real_correlation_threshold = report.real_association_threshold = 0
    report.generate(*frames, {"columns": {column: {"sdtype": kind} for column, kind in kinds.items()}}, verbose=False)
    properties = report.get_properties().set_index("Property")
    assert trend(table, table.train, noisy) == pytest.approx(properties.loc["Column Pair Trends", "Score"], abs=1e-6)


# ---------------------------------------------------------------- closest records


def test_copies_of_train_are_closest_to_train():
    table = some_set("price")
    scores = closest_records(table, table.train, 0)
    assert scores["distance"] == 0
    assert scores["closer"] == 1
    assert scores["distance_of_test"] > 0


def test_rows_of_the_same_distribution_are_as_often_closer_to_train_as_to_test():
    table = some_set("price")
    fresh = some_rows(np.random.default_rng(7), 400, "price")
    scores = closest_records(table, fresh, 0)
    assert abs(scores["closer"] - 0.5) < 3 * 0.5 / math.sqrt(len(fresh))


def test_a_distance_is_the_mean_over_columns_of_differences_over_ranges_and_of_other_labels():
    train = Rows(np.array([[0.0], [10.0]]), np.array([["a"], ["a"]]), np.array([0, 0]))
    test = Rows(np.array([[5.0], [5.0]]), np.array([["b"], ["b"]]), np.array([1, 1]))
    table = TabularSet("made", SETS["dear"], train, test, test)
    drawn = Rows(np.array([[1.0]]), np.array([["b"]]), np.array([0]))
    scores = closest_records(table, drawn, 0)
    assert scores["distance"] == pytest.approx((0.1 + 1 + 0) / 3)
    assert scores["distance_of_test"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert scores["closer"] == 1  # 1.1 to train, 1.4 to test


def test_rows_that_are_as_far_from_train_as_from_test_count_half():
    table = of_numbers([0, 1, 2], [0, 1, 2])
    assert closest_records(table, table.train, 0)["closer"] == 0.5


def test_the_seed_decides_all_scores_of_rows(few_trees):
    table = some_set(count=100)
    scores = row_scores(table, table.stop, 3)
    assert scores == row_scores(table, table.stop, 3)
    assert scores["c2st"] != row_scores(table, table.stop, 4)["c2st"]
    assert scores.keys() == {"c2st", "trend", "closer", "distance", "distance_of_test"}
