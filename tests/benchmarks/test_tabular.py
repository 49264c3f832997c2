"""Tabular sets become entities and rows again, judges score as scikit-learn does, and a whole run on a set made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score, r2_score

from benchmarks import tabular
from benchmarks.base import PAPERS, RANDOM, Options
from benchmarks.cli import main
from benchmarks.judge import macro_f1, parameters, r2, scores
from benchmarks.peers.environments import missing
from benchmarks.progress import Progress
from benchmarks.results import Result, Row
from benchmarks.row_scores import TREES
from benchmarks.tabular import PUBLISHED, by_column, table_of_rows, table_of_runs, table_of_scores
from benchmarks.tabular_sets import chosen_sets, read_set, sets, snapped
from kbdisk.errors import ConfigError, LoadError

TUNED = {"learning_rate": 0.3, "depth": 3, "iterations": 40, "early_stopping_rounds": 10, "od_pval": 0.001}
SIZES = {"train": 200, "val": 60, "test": 100}


def arrays(task, size, seed):
    """Rows whose target hangs on all of a whole number, a 32-bit float and a label."""
    draw = np.random.default_rng(seed)
    few, fine = draw.integers(0, 4, size) * 2.0, (draw.random(size) * 5).round(2)
    labels = draw.choice(["red", "green", "blue"], size)
    value = few + fine + 4 * (labels == "red")
    target = {"regression": value.round(1), "binclass": (value > 6) * 1, "multiclass": (value // 4).clip(0, 2)}[task]
    y = target.astype(np.float32) if task == "regression" else target.astype(np.int64)
    return {"X_num": np.stack([few, fine], 1).astype(np.float32), "X_cat": labels[:, None], "y": y}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setitem(TREES, "iterations", 20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of data with a set of each task, and one that lacks an array."""
    data = tmp_path_factory.mktemp("data")
    (data / "tabular" / "eval").mkdir(parents=True)
    names = {"price": "regression", "dear": "binclass", "sort": "multiclass", "torn": "binclass"}
    for name, task in names.items():
        found = {
            f"{key}_{part}": one
            for seed, (part, size) in enumerate(SIZES.items())
            for key, one in arrays(task, size, seed).items()
        }
        if name == "torn":
            del found["X_num_train"]
        np.savez(data / "tabular" / f"{name}.npz", **found)
        (data / "tabular" / name).mkdir()
        info = {"name": name, "task_type": task, "n_num_features": 2, "n_cat_features": 1}
        info |= {"n_classes": 3} if task == "multiclass" else {}
        (data / "tabular" / name / "info.json").write_text(json.dumps(info))
    evaluations = {name: {"catboost_params_cv": {**TUNED, "cat_features": [2], "thread_count": 4}} for name in names}
    (data / "tabular/eval/catboost_params_and_published_eval.json").write_text(json.dumps(evaluations))
    return data


# ---------------------------------------------------------------- sets


def test_only_sets_that_are_whole_can_be_asked_for(folder):
    assert sets(folder) == ["dear", "price", "sort"]
    assert chosen_sets(folder, ()) == ["dear", "price", "sort"]
    assert chosen_sets(folder, ("sort", "dear")) == ["sort", "dear"]
    with pytest.raises(ConfigError, match=r"--only: no whole tabular set 'torn'\. There are dear, price, sort\."):
        chosen_sets(folder, ("dear", "torn"))


def test_a_folder_without_sets_and_a_file_that_is_no_arrays_are_said(tmp_path):
    with pytest.raises(LoadError, match="tabular: expected the arrays of a set, got none"):
        chosen_sets(tmp_path, ())
    (tmp_path / "tabular").mkdir()
    (tmp_path / "tabular" / "far.npz").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(LoadError, match=r"far\.npz: expected arrays of numpy, got none: "):
        chosen_sets(tmp_path, ())


@pytest.mark.parametrize("name", ["price", "dear", "sort"])
def test_rows_become_entities_that_fit_the_schema_and_rows_again(folder, name):
    table = read_set(folder, name)
    entities = table.entities(table.train, "train")
    assert not any(table.schema.check(one) for one in entities)
    again = table.rows(entities)
    for one, other in ((again.numbers, table.train.numbers), (again.target, table.train.target)):
        assert np.array_equal(one, other)
    assert again.categories.tolist() == table.train.categories.tolist()


def test_whole_numbers_are_whole_and_others_as_short_as_they_were(folder):
    table = read_set(folder, "price")
    tree = table.entities(table.train, "train")[0].tree
    assert type(tree["num_0"]) is int
    assert tree["num_1"] == round(tree["num_1"], 2)
    assert tree["target"] == round(tree["target"], 1)


def test_validation_leaves_test_alone_and_splits_train(folder):
    table, own = read_set(folder, "price"), read_set(folder, "price", validation=True)
    assert (len(own.train), len(own.stop), len(own.judged)) == (160, 40, 60)
    assert np.array_equal(own.judged.target, table.stop.target)
    parts = np.concatenate([own.train.numbers[:, 1], own.stop.numbers[:, 1]])
    assert np.array_equal(np.sort(parts), np.sort(table.train.numbers[:, 1]))


def test_a_random_split_deals_out_all_rows_anew_by_its_seed(folder):
    published, (one, same, other) = (
        read_set(folder, "price"),
        (read_set(folder, "price", split=RANDOM, seed=seed) for seed in (1, 1, 2)),
    )
    assert [len(part) for part in (one.train, one.stop, one.judged)] == list(SIZES.values())
    assert np.array_equal(one.train.target, same.train.target)
    assert not np.array_equal(one.train.target, other.train.target)
    every = [
        sorted(
            (*row, label, target)
            for part in (own.train, own.stop, own.judged)
            for row, label, target in zip(
                part.numbers.tolist(), part.categories[:, 0].tolist(), part.target.tolist(), strict=True
            )
        )
        for own in (published, one)
    ]
    assert every[0] == every[1]


def test_a_split_that_is_not_there_is_said(folder):
    with pytest.raises(ConfigError, match="--split: expected one of paper, random, got 'names'"):
        read_set(folder, "price", split="names")


def test_gaps_in_numbers_are_refused(folder, tmp_path):
    (tmp_path / "tabular" / "price").mkdir(parents=True)
    (tmp_path / "tabular/price/info.json").write_bytes((folder / "tabular/price/info.json").read_bytes())
    with np.load(folder / "tabular/price.npz") as found:
        broken = dict(found)
    broken["X_num_val"][3, 0] = np.nan
    np.savez(tmp_path / "tabular/price.npz", **broken)
    with pytest.raises(LoadError, match="expected numbers everywhere in X_num_val, got gaps"):
        read_set(tmp_path, "price")


def test_few_whole_numbers_are_snapped_to_real_ones_and_others_are_not():
    many = np.arange(40.0)
    real = np.stack([np.resize([1.0, 2, 8], 40), many, many / 2, np.full(40, 7.0)], 1)
    drawn = np.array([[4.9, 3.3, 1.2, 9], [5.1, 50, -1, 7], [-3, 0.5, 0.25, 0], [100, 2, 3, 8]])
    assert snapped(drawn, real).tolist() == [[2, 3.3, 1.2, 7], [8, 50, -1, 7], [1, 0.5, 0.25, 7], [8, 2, 3, 7]]


# ---------------------------------------------------------------- judges


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_macro_f1_is_scikit_learns(classes):
    draw = np.random.default_rng(classes)
    truth, answers = draw.integers(0, classes, 80), draw.integers(0, 2, 80)  # most classes are never answered
    assert macro_f1(truth, answers) == pytest.approx(f1_score(truth, answers, average="macro"), abs=1e-12)


def test_r2_is_scikit_learns():
    draw = np.random.default_rng(0)
    truth = draw.normal(3, 2, 50)
    answers = truth + draw.normal(0, 1, 50)
    assert r2(truth, answers) == pytest.approx(r2_score(truth, answers), abs=1e-12)


@pytest.mark.parametrize(("name", "least"), [("price", 0.97), ("dear", 0.85), ("sort", 0.85)])
def test_judges_learn_real_rows_and_nothing_of_shuffled_ones(folder, name, least):
    table, tuned = read_set(folder, name), parameters(folder, name)
    found = scores(table, table.train, tuned, range(2))
    assert min(found) > least
    order = np.random.default_rng(1).permutation(len(table.train))
    mixed = replace(table.train, target=table.train.target[order])
    assert max(scores(table, mixed, tuned, [0])) < 0.7


def test_the_same_seed_is_the_same_judge(folder):
    table, tuned = read_set(folder, "dear"), parameters(folder, "dear")
    assert scores(table, table.train, tuned, [3]) == scores(table, table.train, tuned, [3])


def test_labels_that_drawn_rows_lack_are_one_more_to_the_judge(folder):
    table, tuned = read_set(folder, "price"), parameters(folder, "price")
    fewer = table.train.pick(np.flatnonzero(table.train.categories[:, 0] != "red"))
    judged = table.judged.categories
    other = replace(table, judged=replace(table.judged, categories=np.where(judged == "red", "pink", judged)))
    as_green = replace(table, judged=replace(table.judged, categories=np.where(judged == "red", "green", judged)))
    found, same, another = (scores(one, fewer, tuned, [0]) for one in (table, other, as_green))
    assert found == same
    assert found != another


def test_rows_of_one_class_are_judged_as_a_constant(folder):
    table, tuned = read_set(folder, "dear"), parameters(folder, "dear")
    rows = replace(table.train, target=np.ones(len(table.train), dtype=np.int64))
    alone = f1_score(table.judged.target, np.ones(len(table.judged)), average="macro")
    assert scores(table, rows, tuned, [0, 1]) == pytest.approx([alone, alone])


def test_the_help_tells_how_many_rows_are_drawn():
    help_text = next(one for one in main.commands["tabular"].params if one.name == "samples").help
    assert f"{tabular.DRAWN_PER_ROW} times those of train, {tabular.MIN_DRAWN:,} to {tabular.MAX_DRAWN:,}" in help_text


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", ["diabetes", "abalone"])
def test_the_judge_of_real_rows_reproduces_what_is_published(data, name):
    table = read_set(data, name)
    found = scores(table, table.train, parameters(data, name), range(10))
    assert np.mean(found) == pytest.approx(PUBLISHED[name].real, abs=0.01)


@pytest.mark.shared
def test_what_is_published_of_real_rows_is_what_the_data_has(data):
    file = data / "tabular/eval/catboost_params_and_published_eval.json"
    evaluations = json.loads(file.read_text())
    assert sets(data) == list(PUBLISHED)
    for name, known in PUBLISHED.items():
        tests = {part: evaluations[name]["eval_catboost/ddpm_cb_best"][part]["test"] for part in ("real", "synthetic")}
        real, drawn = (one.get("r2-mean", one.get("f1-mean")) for one in tests.values())
        assert (known.real, known.tabddpm) == (pytest.approx(real, abs=6e-4), pytest.approx(drawn, abs=6e-4))


# ---------------------------------------------------------------- the bench


def options(folder, tmp_path, **others):
    run = tmp_path / "run.toml"
    run.write_text("[train]\nsteps = 60\nbatch = 64\nseconds = 120\n[model]\nwidth = 16\n")
    return Options(folder, preset="fast", config=str(run), seeds=(4,), samples=90, draws=2, judges=2, **others)


@pytest.mark.slow
def test_a_run_trains_draws_and_judges_each_set(folder, tmp_path):
    real, ours = tabular.run(options(folder, tmp_path, only=("price",)), Progress())
    assert (real.method, ours.method, ours.seed, ours.setting) == ("real", "ours", 4, "price")
    assert [len(one) for one in ours.details["scores"]] == [2, 2]
    assert ours.rows[0].value == pytest.approx(np.mean(ours.details["scores"]), abs=1e-4)
    assert ours.rows[0].n == 4
    assert ours.details["samples"] == 90
    assert ours.details["per_second"] > 0
    assert ours.details["scores"][0] != ours.details["scores"][1]
    assert ours.steps == 60
    assert real.rows[0].value > 0.9


def test_real_rows_are_judged_once_on_the_published_parts_and_for_each_seed_on_random_ones(folder, tmp_path):
    own = replace(options(folder, tmp_path, real=True, only=("dear",)), seeds=(4, 5))
    assert [one.seed for one in tabular.run(own, Progress())] == [0]
    found = list(tabular.run(replace(own, split=RANDOM), Progress()))
    assert [(one.seed, one.split) for one in found] == [(4, RANDOM), (5, RANDOM)]
    assert found[0].rows != found[1].rows


def test_real_rows_alone_train_nothing(folder, tmp_path):
    found = list(tabular.run(options(folder, tmp_path, real=True, validation=True), Progress()))
    assert [(one.setting, one.method, one.part) for one in found] == [
        (name, "real", "validation") for name in ("dear", "price", "sort")
    ]


@pytest.mark.slow
def test_rows_of_a_single_step_are_drawn_from_the_same_model_and_the_papers_preset_trains_another(folder, tmp_path):
    chosen = options(folder, tmp_path, only=("price",), methods=("single-step", "ours", "diskpaper"))
    real, ours, single, paper = tabular.run(chosen, Progress())
    assert [result.method for result in (real, ours, single, paper)] == ["real", "ours", "single-step", "diskpaper"]
    assert ours.run == single.run
    assert (ours.preset, paper.preset) == ("fast", "paper")
    assert ours.details["scores"] != single.details["scores"]
    assert [*by_column([ours, single, paper])] == [
        "ours, fast + run.toml", "single-step + run.toml", "diskpaper + run.toml",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_peer_draws_rows_that_are_judged_as_ours_are(folder, tmp_path):
    if problem := missing("smote"):
        pytest.skip(f"smote: {problem}")
    chosen = options(folder, tmp_path, only=("price",), methods=("smote",))
    real, smote = tabular.run(chosen, Progress())
    assert (real.method, smote.method, smote.seed, smote.setting) == ("real", "smote", 4, "price")
    assert [len(scores) for scores in smote.details["scores"]] == [2, 2]
    assert smote.details["samples"] == 90
    assert smote.details["took"]["versions"]
    assert smote.details["took"]["cpu"].keys() == {"fit", "fill"}
    assert len(smote.details["row_scores"]) == 2
    assert [row[1] for row in table_of_runs([real, smote], PAPERS, "test").rows] == ["real", "smote"]
    assert real.rows[0].value > smote.rows[0].value > 0.5


def test_a_method_that_draws_no_rows_is_refused(folder, tmp_path, run):
    status, _, err = run("tabular", "--methods", "gbdt", "--data", folder, "--out", tmp_path)
    assert status == 2
    assert err.startswith("error: --methods: expected some of ours, single-step, diskpaper, smote, ")


def result(method, name, scores, seed=0, part="test", **others):
    details = {"metric": "R2", "scores": scores, "samples": 5000, "per_second": 812.4}
    rows = [Row(name, float(np.mean(scores)))]
    return Result("tabular", method, rows, seed, part=part, setting=name, details=details, **others)


RESULTS = [
    result("real", "abalone", [[0.5561, 0.5563]]),
    result("ours", "abalone", [[0.55, 0.56], [0.57, 0.56]], preset="default", seconds=90),
    result("ours", "abalone", [[0.52, 0.51], [0.51, 0.52]], 1, preset="default", seconds=60),
    result("ours", "house", [[0.65, 0.66]], preset="default", seconds=600),
]


def test_a_table_pools_all_judges_and_tells_which_sets_are_below():
    table = table_of_scores(RESULTS, PAPERS, "test")
    assert table.header == ["set", "ours, default", "real", "real, published", "DiSK", "TabDDPM", "best"]
    assert table.rows == [
        ["abalone", "0.537 ± 0.025", "0.556 ± 0.000", "0.556", "0.550", "0.550", "0.550"],
        ["house", "0.655 ± 0.007", "", "0.662", "0.624", "0.677", "0.677"],
    ]
    assert table.notes[0] == "ours, default: at or above the best in 0 of 2; further below: abalone, house."
    assert table.notes[1] == "real: at most 0.0002 from the published figures."
    assert table.notes[2] == "± is the standard deviation over all judges of all drawn sets; more is better."


def test_scores_of_rows_are_means_over_sets_and_results_without_them_are_left_out():
    scores = {"c2st": 0.6, "trend": None, "closer": 0.5, "distance": 0.01, "distance_of_test": 0.02}
    drawn = [scores, scores | {"c2st": 0.7, "trend": 0.9}]
    took = {"cpu": {"fit": 60.0, "fill": 1.25}, "memory": {"fit": 500.0, "fill": 1600.0}}
    new = replace(
        RESULTS[1], method="smote", preset="", details=RESULTS[1].details | {"row_scores": drawn, "took": took}
    )
    table = table_of_rows([*RESULTS, new], PAPERS, "test")
    assert table.rows == [
        ["abalone", "smote", "0.650", "0.900", "0.500", "0.010, 0.020", "60.0", "1.2", "500", "1,600"]
    ]
    assert [shown.title for shown in tabular.tables(RESULTS)] == ["Synthetic tables", "Synthetic tables: how"]


def test_how_each_set_was_drawn_and_judged_is_told():
    stamps = {"date": "2026-11-23T10:00:00", "commit": "abc"}
    table = table_of_runs([replace(RESULTS[1], facts=stamps), *RESULTS[2:], RESULTS[0]], PAPERS, "test")
    assert table.title == "Synthetic tables: how"
    assert [row[:-1] for row in table.rows] == [
        ["abalone", "ours, default", "2", "2", "5,000", "812", "2", "1.5"],
        ["abalone", "real", "", "", "", "", "2", ""],
        ["house", "ours, default", "1", "1", "5,000", "812", "2", "10.0"],
    ]
    assert table.rows[0][-1] == "2026-11-23, abc (seed 0), unknown (seed 1)"


def test_of_random_splits_ours_stands_beside_the_real_rows_of_the_same():
    results = [
        result(method, name, [[score]], seed, split=RANDOM)
        for seed in (0, 1)
        for method, name, score in (
            ("real", "abalone", 0.55),
            ("ours", "abalone", 0.56),
            ("real", "house", 0.7),
            ("ours", "house", 0.6),
        )
    ]
    table, _ = tabular.tables(results)
    assert table.title == "Synthetic tables, fresh random splits"
    assert table.header == ["set", "ours", "real"]
    assert table.rows == [["abalone", "0.560 ± 0.000", "0.550 ± 0.000"], ["house", "0.600 ± 0.000", "0.700 ± 0.000"]]
    assert table.notes[0] == "ours: at or above the real rows in 1 of 2 (not house)."


def test_what_was_scored_on_validation_stands_beside_nothing_published():
    found = tabular.tables([*RESULTS, result("ours", "house", [[0.6]], part="validation", preset="fast")])
    names = "Synthetic tables", "Synthetic tables, validation"
    assert [table.title for table in found] == [one for name in names for one in (name, f"{name}: how")]
    assert found[2].header == ["set", "ours, fast"]
    assert found[2].rows == [["house", "0.600"]]


def test_the_latest_result_of_a_seed_counts():
    again = result("ours", "house", [[0.68, 0.68]], preset="default")
    assert by_column([*RESULTS, again])["ours, default"]["house"].mean == pytest.approx(0.68)
    assert table_of_scores([again], PAPERS, "test").notes[0] == "ours, default: at or above the best in 1 of 1."


def test_scores_of_other_methods_stand_beside_those_that_are_published_of_them():
    of_smote = [result("smote", "abalone", [[0.546]]), result("smote", "diabetes", [[0.773]])]
    notes = table_of_scores([*RESULTS, *of_smote], PAPERS, "test").notes
    assert (
        "smote, published, and how far the score here is from it: abalone 0.549 (-0.003), diabetes 0.683 (+0.090)."
        in notes
    )
    on_validation = [replace(score, part="validation") for score in of_smote]
    assert not any("how far" in note for note in table_of_scores(on_validation, PAPERS, "validation").notes)


def test_sets_with_budgets_of_their_own_share_a_column():
    results = [
        result("ours", name, [[0.5]], preset="default", told=f" + {budget} + x.toml")
        for name, budget in (("abalone", "4m"), ("house", "19m"), ("house", "20m"))
    ]
    assert {key: list(own) for key, own in by_column(results).items()} == {
        "ours, default + x.toml": ["abalone", "house"]
    }


def test_a_picture_is_drawn_of_scores_on_test(tmp_path):
    assert tabular.figure(RESULTS, tmp_path / "tabular.png")
    assert (tmp_path / "tabular.png").stat().st_size > 10_000
    assert not tabular.figure([replace(RESULTS[0], part="validation")], tmp_path / "none.png")
    assert not tabular.figure([replace(RESULTS[0], split=RANDOM)], tmp_path / "none.png")


def test_the_command_line_says_which_sets_how_many_judges_and_that_nothing_is_trained(folder, tmp_path, run):
    arguments = ("--only", "dear,sort", "--judges", 3, "--real", "--validation", "--data", folder, "--out", tmp_path)
    status, out, _ = run("tabular", *arguments)
    stored = [json.loads(line) for line in (tmp_path / "tabular.jsonl").read_text().splitlines()]
    assert status == 0
    assert [(one["setting"], one["rows"][0]["n"], one["part"]) for one in stored] == [
        ("dear", 3, "validation"),
        ("sort", 3, "validation"),
    ]
    assert out.splitlines()[0] == "Synthetic tables, validation"
    assert out.splitlines()[2].split()[:2] == ["dear", f"{stored[0]['rows'][0]['value']:.3f}"]


@pytest.mark.slow
def test_the_command_line_says_how_many_sets_are_drawn_and_of_how_many_rows(folder, tmp_path, run):
    config = options(folder, tmp_path).config
    arguments = ("--only", "price", "--samples", 40, "--draws", 3, "--judges", 1, "--seeds", 1, "--preset", "fast")
    status, out, err = run("tabular", *arguments, "--config", config, "--data", folder, "--out", tmp_path)
    ours = json.loads((tmp_path / "tabular.jsonl").read_text().splitlines()[1])
    assert status == 0, err
    assert (ours["details"]["samples"], len(ours["details"]["scores"]), ours["rows"][0]["n"]) == (40, 3, 3)
    assert "price ours, fast + run.toml 1 3 40 " in " ".join(out.split())


@pytest.mark.parametrize("wrong", [("--budget", "long"), ("--device", "tpu"), ("--only", "dear,prize")])
def test_what_cannot_be_is_said_before_anything_is_judged(wrong, folder, tmp_path, run):
    status, _, err = run("tabular", *wrong, "--data", folder, "--out", tmp_path)
    assert (status, len(err.splitlines())) == (2, 1)
    assert not list(tmp_path.iterdir())


def test_a_set_that_is_not_there_is_one_line(folder, run):
    status, _, err = run("tabular", "--only", "prize", "--data", folder)
    assert status == 2
    assert err == "error: --only: no whole tabular set 'prize'. Did you mean 'price'? There are dear, price, sort.\n"
