"""Each bench from end to end, on a folder of hand-made data and with a few steps of training."""

from __future__ import annotations

import json

import pytest
from benchdata import RUN, write_gsm, write_nuclear

from benchmarks import BENCHES, curves, gsm, load_bench, nuclear, two_moons
from benchmarks.ablation import UNCHANGED, VARIANTS, mean_ratios, with_choice
from benchmarks.base import Options
from benchmarks.cli import main, stored_run
from benchmarks.progress import Progress
from benchmarks.properties import evaluate_baseline, train_model
from benchmarks.results import Result, Row
from kbdisk.training.run import PRESETS, Run


@pytest.fixture
def bench(run, tmp_path):
    """Run a bench on hand-made data; its exit status, its table, and the results that it stored."""
    write_gsm(tmp_path)
    write_nuclear(tmp_path)
    (tmp_path / "run.toml").write_text(RUN)

    def bench(name, *more):
        common = ("--data", tmp_path, "--out", tmp_path / "out", "--config", tmp_path / "run.toml", "--seeds", 1, "-q")
        status, out, err = run(name, *common, *more)
        assert err == "", err
        lines = (tmp_path / "out" / f"{name}.jsonl").read_text().splitlines()
        return status, out, [json.loads(line) for line in lines]

    return bench


@pytest.mark.slow
def test_gsm_tells_every_property_beside_the_paper_the_constant_and_the_bar(bench, tmp_path):
    status, out, results = bench("gsm", "--methods", "ours,constant")
    assert status == 0
    assert [one["method"] for one in results] == ["ours", "constant"]
    table = out.splitlines()
    assert table[1].split() == ["property", "ours,", "default", "+", "run.toml", "constant", "paper", "the", "bar"]
    assert [line.split()[0] for line in table[2:14]] == gsm.NAMES
    assert [row["name"] for row in results[0]["rows"]] == gsm.NAMES
    assert (tmp_path / "out" / "gsm.png").read_bytes()[:4] == b"\x89PNG"


def test_a_bench_that_was_stopped_goes_on_with_the_results_that_it_has(bench, tmp_path):
    data, config = tmp_path, str(tmp_path / "run.toml")
    options = Options(data, config=config, seeds=(0, 1), methods=("constant",))
    stored_run("gsm", tmp_path / "out", options).unfinished.add(
        Result("gsm", "constant", [Row("weight", 0.123, 1)], seed=0, split="paper")
    )
    _, out, stored = bench("gsm", "--methods", "constant", "--seeds", 2)
    assert [one["seed"] for one in stored] == [1]
    assert "±" in out  # of both seeds
    assert not list((tmp_path / "out").glob("*unfinished*"))


@pytest.mark.slow
def test_the_training_of_a_bench_that_was_stopped_is_not_repeated(tmp_path):
    write_gsm(tmp_path)
    (tmp_path / "run.toml").write_text(RUN)
    options = Options(tmp_path, config=str(tmp_path / "run.toml"), kept=tmp_path / "kept")
    task = gsm.task(*gsm.read(tmp_path), options, 0)
    first = train_model(task, options, 0, Progress())
    (model,) = (tmp_path / "kept").iterdir()
    before = {file: file.stat().st_mtime_ns for file in model.rglob("*")}
    again = train_model(task, options, 0, Progress())
    assert {file: file.stat().st_mtime_ns for file in model.rglob("*")} == before
    assert again.record.facts["steps"] == first.record.facts["steps"]


@pytest.mark.slow
def test_a_result_says_all_that_is_needed_to_have_it_again(bench):
    _, _, (one,) = bench("gsm", "--validation", "--preset", "fast")
    assert (one["bench"], one["seed"], one["split"], one["part"], one["preset"]) == (
        "gsm",
        0,
        "paper",
        "validation",
        "fast",
    )
    assert one["steps"] == one["run"]["train"]["steps"] == 3
    assert one["seconds"] > 0
    assert list(one["details"]["nats"]) == gsm.NAMES
    assert one["facts"].keys() >= {"date", "commit", "machine", "python", "torch", "kbdisk", "device"}


@pytest.mark.slow
def test_nothing_of_the_paper_stands_beside_validation(bench):
    _, out, _ = bench("gsm", "--validation")
    assert "paper" not in out.splitlines()[1]


@pytest.mark.slow
def test_nuclei_are_asked_by_both_protocols_of_one_model(bench):
    status, _, results = bench("nuclear", "--methods", "ours,constant")
    assert status == 0
    assert [(one["method"], one["setting"]) for one in results] == [
        ("ours", "others given"),
        ("ours", "z and n alone"),
        ("constant", "others given"),
        ("constant", "z and n alone"),
    ]
    given, alone, *constants = ({row["name"]: row["value"] for row in one["rows"]} for one in results)
    assert list(given) == nuclear.NAMES
    assert given["Qa"] != alone["Qa"]
    assert constants[0] == constants[1]


@pytest.mark.slow
def test_the_curve_says_how_often_it_is_above_the_constant_or_rises(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "DRAWN", 20)
    status, _, (one,) = bench("curves", "--only", "gsm")
    assert status == 0
    rows = {row["name"]: row["value"] for row in one["rows"]}
    assert rows["points"] % 11 == 0
    assert 0 <= rows["points above the constant, beyond noise"] <= rows["points above the constant"] <= rows["points"]
    assert 0 <= rows["drawn one by one"] <= 1
    assert rows["real, of test: met in train"] > 0
    assert (tmp_path / "out" / "curves-gsm.png").exists()


@pytest.mark.slow
def test_an_ablation_never_looks_at_test(bench):
    status, out, results = bench("ablation", "--only", f"{UNCHANGED},no atoms")
    assert status == 0
    assert {one["part"] for one in results} == {"validation"}
    assert [one["run"]["codec"]["kinds"]["number"]["atoms"] for one in results] == [32, 0]
    assert out.splitlines()[2].split()[-1] == "1.000"


@pytest.mark.slow
def test_two_moons_stores_what_its_picture_needs(run, tmp_path, monkeypatch):
    monkeypatch.setattr(two_moons, "POINTS", 200)
    (tmp_path / "run.toml").write_text("[train]\nsteps = 3\n")
    arguments = ("--out", tmp_path, "--config", tmp_path / "run.toml", "--seeds", 1)
    status, out, err = run("two-moons", *arguments)
    assert status == 0, err
    assert "ours + run.toml" in out
    assert "256 Gaussians" in out
    assert (tmp_path / "two-moons.png").exists()


def test_two_moons_refuses_choices_that_it_does_not_heed(run, tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    status, _, err = run("two-moons", "--out", tmp_path, "--config", tmp_path / "run.toml")
    assert status == 2
    assert "run.toml: expected train.steps and nothing else" in err


def test_every_variant_can_be_named_on_the_command_line():
    assert not [one for one in VARIANTS if "," in one]


@pytest.mark.parametrize("variant", [one for one in VARIANTS if one != UNCHANGED])
def test_every_variant_changes_one_choice_of_the_default(variant):
    path, value = VARIANTS[variant]
    assert with_choice(Run.of("default"), path.split("."), value) != Run.of("default")


def test_the_mean_of_a_variant_is_in_parts_of_what_is_unchanged():
    assert mean_ratios({UNCHANGED: {"a": 2.0, "b": 4.0}, "other": {"a": 3.0, "b": 4.0}}) == {
        UNCHANGED: 1.0,
        "other": 1.25,
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("gsm", "--data", "nowhere"), "expected the folder of data"),
        (("gsm", "--split", "sideways"), "--split: expected one of paper, names, random"),
        (("nuclear", "--split", "names"), "--split: expected one of paper, random, got 'names'."),
        (("curves", "--split", "names"), "--split: expected one of paper, random, got 'names'."),
        (
            ("kb-numeric", "--split", "random"),
            "--split: it changes nothing of kb-numeric: it is for gsm, nuclear, tabular, curves.",
        ),
        (("gsm", "--samples", "9"), "--samples: it changes nothing of gsm: it is for tabular."),
        (
            ("curves", "--methods", "gbdt"),
            "--methods: it changes nothing of curves: it is for gsm, nuclear, tabular, kb-numeric.",
        ),
        (("render", "--preset", "best"), "--preset: it changes nothing of render"),
        (("gsm", "--methods", "gbtd"), "got 'gbtd'. Did you mean 'gbdt'?"),
        (("gsm", "--methods", ","), "--methods: expected all, or some of ours, "),
        (("gsm", "--methods", "single-step"), "--methods: single-step: expected a benchmark that draws rows"),
        (("kb-numeric", "--methods", "catboost"), "got 'catboost'"),
        (("curves", "--only", "phones"), "--only: expected some of gsm, nuclear"),
        (("ablation", "--only", "no atom"), "no atoms"),
        (("two-moons", "--budget", "1m"), "--budget: it changes nothing of two-moons"),
    ],
)
def test_a_mistake_is_one_line(arguments, complaint, run, tmp_path):
    data = () if {"--data", "render", "two-moons"} & {*arguments} else ("--data", write_nuclear(write_gsm(tmp_path)))
    status, _, err = run(*arguments, *data, "--out", tmp_path / "out")
    assert status == 2
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_what_is_not_there_is_said_with_where_it_is_from(run, tmp_path):
    status, _, err = run("gsm", "--data", tmp_path)
    assert status == 2
    assert "Disk-SNAKE" in err


def test_the_command_knows_every_bench_and_preset():
    commands = main.commands
    assert commands.keys() >= {*BENCHES, "render"}
    for name in BENCHES:
        (presets,) = (one.type.choices for one in commands[name].params if one.name == "preset")
        assert set(presets) == set(PRESETS)


def test_what_a_bench_takes_are_options_of_its_command():
    for name in BENCHES:
        assert {one.name for one in main.commands[name].params} >= BENCHES[name].options


def test_every_bench_can_be_loaded():
    for name in BENCHES:
        assert {"run", "tables", "figure"} <= set(dir(load_bench(name)))


# ---------------------------------------------------------------- the shared data


@pytest.mark.slow
@pytest.mark.shared
def test_the_constant_errs_as_it_is_known_to_on_the_papers_split(data):
    """Computed by others from the same files: the figures of PAPER-NOTES."""
    task = gsm.task(*gsm.read(data), Options(data), 0)
    found = evaluate_baseline("constant", task, 0, Progress()).values
    known = {"weight": 93.96, "height": 34.72, "depth": 4.69, "width": 25.15, "display": 5.02, "battery": 0.930}
    known |= {"day": 9.21, "month": 3.37, "year": 4.75, "oem": 0.872, "edge": 0.545}
    assert {name: found[name] for name in known} == pytest.approx(known, rel=0.002)
