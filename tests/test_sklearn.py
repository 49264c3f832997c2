"""KBImputer: what scikit-learn expects of a transformer, and that it fills what is missing by what there is."""

from __future__ import annotations

import warnings

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from kbdisk.sklearn import KBImputer

SMALL = {"steps": 3, "width": 16, "device": "cpu", "random_state": 0}
QUICK = {  # checks of the suite that train little
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_n_features_in_after_fitting",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_dataframe_column_names_consistency",
    "check_transformers_unfitted",
    "check_estimators_nan_inf",
    "check_estimator_sparse_array",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_complex_data",
    "check_fit_check_is_fitted",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_estimators_pickle",
    "check_transformer_preserve_dtypes",
}


def table(rows: int = 120) -> pandas.DataFrame:
    """Columns of every kind that tell each other, with gaps."""
    draw = np.random.default_rng(0)
    label = draw.choice(["low", "high"], rows, p=[0.3, 0.7])
    number = np.where(label == "low", 0.0, 10.0) + draw.normal(0, 0.5, rows)
    frame = pandas.DataFrame(
        {
            "label": pandas.Series(label, dtype=object),
            "number": number,
            "whole": pandas.array(np.round(number), dtype="Int64"),
            "truth": pandas.array(label == "high", dtype="boolean"),
            "sort": pandas.Categorical(np.where(label == "low", 1, 2)),
        }
    )
    for column in frame:
        frame.loc[draw.random(rows) < 0.2, column] = None
    return frame


@pytest.fixture(scope="module")
def filled() -> tuple[pandas.DataFrame, pandas.DataFrame, KBImputer]:
    frame = table()
    imputer = KBImputer(steps=80, width=16, device="cpu", random_state=0)
    return frame, imputer.fit_transform(frame), imputer


def checks(wanted):
    found = estimator_checks_generator(KBImputer(**{**SMALL, "random_state": None}))
    return [(name, check, one) for one, check in found if wanted(name := check.func.__name__)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "check"), [pytest.param(one, check, id=name) for name, check, one in checks(QUICK.__contains__)]
)
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_the_quick_checks_are_there():
    assert len({name for name, _, _ in checks(QUICK.__contains__)}) > 12  # names change from version to version


@pytest.mark.slow
def test_the_whole_suite_of_scikit_learn_passes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in check_estimator(KBImputer(steps=3, width=16, device="cpu"), on_fail=None):
            assert one["status"] in ("passed", "skipped"), (one["check_name"], one["exception"])


# ---------------------------------------------------------------- frames


def test_a_frame_is_filled_and_what_was_there_stays(filled):
    frame, whole, _ = filled
    assert not whole.isna().any().any()
    for column in frame:
        there = frame[column].notna()
        assert (whole[column][there] == frame[column][there]).all()


def test_the_kinds_of_columns_stay(filled):
    frame, whole, _ = filled
    assert list(whole.dtypes) == list(frame.dtypes)
    assert list(whole.index) == list(frame.index)


def test_what_is_filled_is_told_by_the_rest_of_the_row(filled):
    frame, whole, _ = filled
    asked = frame["label"].isna() & frame["number"].notna()
    assert ((whole["label"] == "high") == (frame["number"] > 5))[asked].mean() > 0.9
    asked = frame["number"].isna() & frame["label"].notna()
    wrong = (whole["number"] - np.where(frame["label"] == "low", 0, 10))[asked].abs()
    assert wrong.mean() < 2.5


@pytest.mark.slow
def test_a_row_is_not_taken_for_that_of_training_which_stood_in_its_place():
    draw = np.random.default_rng(0)
    families = [(draw.uniform(0, 1000), draw.uniform(1, 9), f"maker {draw.integers(30)}") for _ in range(50)]
    rows = [(mark + draw.uniform(0, 0.01), round(size, 3), maker) for mark, size, maker in families * 4]
    frame = pandas.DataFrame(rows, columns=["mark", "size", "maker"])
    imputer = KBImputer(steps=60, width=16, device="cpu", random_state=0, estimate="mean").fit(frame)
    lacking = frame.assign(size=np.nan)  # of each size all four of a family are remembered, also him who stood here
    one, other = imputer.transform(lacking)["size"], imputer.transform(lacking[::-1])["size"][::-1]
    np.testing.assert_allclose(one, other, rtol=1e-3)  # a family member's own size is off by far more


def test_columns_keep_their_names(filled):
    frame, whole, imputer = filled
    assert list(imputer.get_feature_names_out()) == list(frame.columns) == list(whole.columns)


def test_columns_may_have_odd_names():
    frame = pandas.DataFrame({"@id": [1.0, None] * 10, "a.b[0]": [None, 2.0] * 10, "": ["x", "y"] * 10})
    whole = KBImputer(**SMALL).fit_transform(frame)
    assert list(whole.columns) == list(frame.columns)
    assert not whole.isna().any().any()


def test_labels_that_training_never_had_are_read_as_unknown():
    imputer = KBImputer(**SMALL).fit(pandas.DataFrame({"a": ["x", "y"] * 10, "b": [1.0, 2.0] * 10}))
    whole = imputer.transform(pandas.DataFrame({"a": ["new", None], "b": [np.nan, 1.0]}))
    assert whole["a"][0] == "new"
    assert whole.notna().all().all()


def test_a_column_without_any_value_stays_as_it_is():
    frame = pandas.DataFrame({"a": [1.0, 2.0, None, 4.0] * 5, "b": [np.nan] * 20})
    whole = KBImputer(**SMALL).fit_transform(frame)
    assert whole["a"].notna().all()
    assert whole["b"].isna().all()


def test_whole_numbers_are_filled_by_whole_numbers():
    frame = pandas.DataFrame({"a": pandas.array([1, 2, None, 4] * 10, dtype="Int64"), "b": [1.0, 2.0, 3.0, 4.0] * 10})
    assert KBImputer(**SMALL).fit_transform(frame)["a"].dtype == "Int64"


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_keep_their_kind(kind):
    X = np.array([[1, 2], [3, np.nan], [np.nan, 6], [7, 8]] * 6, kind)
    whole = KBImputer(**SMALL).fit_transform(X)
    assert whole.dtype == kind
    assert np.isfinite(whole).all()
    assert (whole[~np.isnan(X)] == X[~np.isnan(X)]).all()


def test_an_array_may_have_labels():
    X = np.array([["a", 1], [None, 2], ["b", None], ["b", 3]] * 6, object)
    whole = KBImputer(**SMALL).fit_transform(X)
    assert set(whole[:, 0]) == {"a", "b"}
    assert all(isinstance(one, int | float) for one in whole[:, 1])


def test_one_row_is_enough_to_fill():
    imputer = KBImputer(**SMALL).fit(np.arange(40.0).reshape(20, 2))
    assert np.isfinite(imputer.transform([[np.nan, 3.0]])).all()
    assert (imputer.transform([[1.0, 3.0]]) == [[1.0, 3.0]]).all()


@pytest.mark.slow
def test_the_same_seed_fills_the_same():
    X = np.where(np.random.default_rng(0).random((30, 3)) < 0.3, np.nan, np.arange(90.0).reshape(30, 3))
    one, again, other = (KBImputer(**{**SMALL, "random_state": seed}).fit_transform(X) for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


def test_the_mean_is_another_estimate_than_the_median():
    X = np.array([[1.0], [1.0], [1.0], [100.0], [np.nan]] * 10)
    median, mean = (KBImputer(**SMALL, estimate=one).fit_transform(X)[4, 0] for one in ("median", "mean"))
    assert median < mean


def test_it_stands_in_a_pipeline_and_can_be_cloned():
    X = np.array([[1, 2], [3, np.nan], [np.nan, 6], [7, 8]] * 6)
    pipeline = make_pipeline(clone(KBImputer(**SMALL)), StandardScaler()).set_output(transform="pandas")
    assert list(pipeline.fit_transform(X).columns) == ["x0", "x1"]


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("X", "complaint"),
    [
        (pandas.DataFrame({"a": [1.0, np.inf]}), "infinity in column 'a'"),
        (pandas.DataFrame({"when": pandas.to_datetime(["2020", "2021"])}), "expected numbers, booleans or categories in column 'when'"),
        (np.array([["a", np.inf], ["b", 1.0]], object), "infinity"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(X, complaint):
    with pytest.raises(ValueError, match=complaint):
        KBImputer(**SMALL).fit(X)


def test_a_wrong_estimate_is_told():
    with pytest.raises(ValueError, match="expected median or mean for estimate, got 'mode'"):
        KBImputer(estimate="mode").fit([[1.0], [2.0]])


@pytest.mark.parametrize(("budget", "seconds"), [("1m", 60), (0.5, 0.5), (None, None)])
def test_a_budget_is_a_time_in_words_or_seconds_or_none(budget, seconds):
    imputer = KBImputer(**SMALL, budget=budget).fit([[1.0, 2.0], [2.0, 3.0], [3.0, np.nan]])
    assert imputer.model_.run.train.seconds == seconds


@pytest.mark.parametrize("budget", ["soon", 0, -1, "", True, float("nan")])
def test_a_wrong_budget_is_told(budget):
    with pytest.raises(ValueError, match="budget: expected a time such as 90s, 10m or 2h, got"):
        KBImputer(**SMALL, budget=budget).fit([[1.0], [2.0]])


def test_a_budget_ends_training_before_the_steps_do():
    frame = table()
    short = KBImputer(steps=100_000, width=16, budget="0.2s", validation=0.0, device="cpu", random_state=0).fit(frame)
    assert short.model_.record.facts["steps"] < 100_000


def test_labels_that_read_like_pandas_words_for_nothing_are_labels():
    frame = pandas.DataFrame({"a": ["NaT", "<NA>", "x", None] * 15, "b": [0.0, 5.0, 9.0, 5.0] * 15})
    filled = KBImputer(**SMALL).fit_transform(frame)
    given = frame["a"].notna()
    assert (filled["a"][given] == frame["a"][given]).all()
    assert filled["a"].notna().all()
    nothing = np.array([["y", 1.0], ["z", 2.0]] * 10 + [[pandas.NA, 3.0], [pandas.NaT, 4.0]], dtype=object)
    assert set(KBImputer(**SMALL).fit_transform(nothing)[:, 0]) == {"y", "z"}
