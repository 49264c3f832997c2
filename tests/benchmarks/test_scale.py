"""The benchmark of scale: its fit, its measurements in processes of their own, its tables, and runs that go on."""

from __future__ import annotations

import sys

import pytest

from benchmarks.results import Result, Row, StoredRun, read
from benchmarks.scale import MEGABYTE, STAGES, Fit, Line, Measured, Measurement, bars, measure, plan_rows, run, tables
from kbdisk.errors import ConfigError


def stored(stage: str, size: int, told: str = "60s", method: str = "ours", **figures: float) -> Result:
    rows = [Row(name, value) for name, value in figures.items()]
    return Result("scale", method, rows, setting=stage, split=str(size), told=told)


def test_a_fit_of_costs_that_are_a_line_is_that_line():
    fit = Fit.of({size: 3 + 0.002 * size for size in (1_000, 10_000, 100_000)})
    assert (fit.fixed, fit.each) == pytest.approx((3, 0.002))
    assert fit.at(1_000_000) == pytest.approx(2003)


def test_neither_part_of_a_fit_is_below_zero():
    assert Fit.of({1_000: 1.0, 10_000: 20.0}).fixed == 0
    assert Fit.of({1_000: 5.0, 10_000: 4.0}).each == 0
    assert Fit.of({1_000: 5.0}) is None


def test_a_measurement_has_the_lines_of_a_process_and_what_it_printed():
    took = measure([sys.executable, "-c", "import sys; print('figures'); print('a line', file=sys.stderr)"])
    assert took.output == "figures\n"
    assert [line.text for line in took.lines] == ["a line"]
    assert took.peak_bytes > MEGABYTE


def test_a_measurement_until_a_line_ends_there():
    code = "import sys, time; print('plan: 2 s', file=sys.stderr, flush=True); time.sleep(600)"
    assert measure([sys.executable, "-c", code], until="plan: ").lines[-1].text == "plan: 2 s"


@pytest.mark.parametrize("until", [None, "plan: "])
def test_a_process_that_fails_is_an_error_with_its_last_line(until):
    with pytest.raises(SystemExit, match=r"exit status 3 of .*: no model$"):
        measure([sys.executable, "-c", "import sys; print('no model', file=sys.stderr); sys.exit(3)"], until)


def test_a_plan_is_compared_with_what_follows_it():
    plan = "plan: 1,012 s before training, 40 s of training, 14 s of measuring the model, about 6 s for 63,640 gaps"
    took = Measurement(1100, 0, 0, "", [Line(1, "training on a.jsonl"), Line(1010, plan)])
    assert plan_rows(took) == [Row("planned", 60), Row("came", 90)]
    assert plan_rows(Measurement(1, 0, 0, "", [])) == []


def test_bars_are_met_or_missed_by_ratios_within_the_run():
    results = [
        stored("inspect", 100_000, told="", cpu_seconds=15),
        stored("set-up", 100_000, cpu_seconds=50.1, megabytes=900),
        stored("train", 100_000, seconds=69, cpu_seconds=60, megabytes=1001, planned=40, came=51),
        stored("complete", 100_000, seconds=70, planned=0, came=20),  # a plan in which set-up takes all of the budget
        stored("filling", 100_000, cpu_seconds=30, megabytes=500, gaps=100_000, filled=99_000),
        stored("train", 100_000, told="5m", seconds=900, megabytes=9000),  # of another budget
    ]
    verdicts = {bar.name: bar.is_met for bar in bars(Measured(results, "60s"))}
    assert verdicts == {
        "set-up": False,
        "train: budget": True,
        "train: plan": True,
        "complete: budget": False,
        "complete: plan": False,
        "filling, a gap": True,
        "memory of set-up": True,
        "memory of train": False,
        "memory of filling": True,
    }


def results_of_all() -> list[Result]:
    costs = {
        size: {"seconds": size / 500, "cpu_seconds": 1 + size / 1000, "megabytes": 40 + size / 100}
        for size in (100, 1000)
    }
    results = [
        stored(stage, size, told=told, **costs[size])
        for size in costs
        for stage, told in (("reading", ""), ("inspect", ""), ("set-up", "60s"))
    ]
    quality = {
        "entities": 100,
        "cells": 300,
        "properties": 15.5,
        "numbers": 0.5,
        "labels": 0.75,
        "constant_labels": 0.4,
    }
    results += [stored("quality", 100, method=method, **quality) for method in ("catboost", "ours")]
    return results


def test_there_is_a_table_for_each_question_that_was_measured():
    seconds, memory, quality, verdicts = tables(results_of_all(), "60s")
    assert seconds.rows[0] == ["reading", "1.1 (0.2)", "2.0 (2.0)", "2.000", "1.00", "1.000"]
    assert memory.rows[2] == ["set-up", "41", "50", "40", "10.00"]
    assert [row[1] for row in quality.rows] == ["ours", "catboost"]
    assert quality.rows[0] == ["100", "ours", "100", "300", "0.500", "0.750", "0.400"]
    assert {row[-1] for row in verdicts.rows} == {"met"}
    assert tables([], "60s") == []


def test_the_plot_needs_two_sizes(tmp_path):
    from benchmarks.scale import plot

    assert plot(results_of_all(), "60s", tmp_path / "scale.png")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
    assert not plot([result for result in results_of_all() if result.split == "100"], "60s", tmp_path / "none.png")


def test_a_run_that_was_stopped_goes_on_with_what_is_missing(tmp_path):
    before = StoredRun.of(tmp_path, "scale", ("60s",)).add(stored("reading", 60, told="", seconds=7))
    run([60], ["reading", "holding"], "60s", tmp_path)
    results = read(tmp_path / "scale.jsonl")
    assert results[0].rows == before.rows
    assert [(result.setting, result.split) for result in results] == [("reading", "60"), ("holding", "60")]
    assert [file.name for file in tmp_path.iterdir()] == ["scale.jsonl"]


def test_filling_is_refused_without_the_model_that_it_fills_by(tmp_path):
    with pytest.raises(ConfigError, match="Name train, too"):
        run([60], ["filling"], "60s", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", [("--sizes", "1000,many"), ("--sizes", "9"), ("--only", "sleeping")])
def test_a_wrong_option_is_one_line(option, tmp_path, run):
    status, _, error = run("scale", *option, "--out", tmp_path)
    assert status == 2
    assert error.startswith(f"error: {option[0]}: expected ")


@pytest.mark.slow
def test_all_stages_are_measured_of_a_small_world(tmp_path):
    run([60], list(STAGES), "0.3s", tmp_path)
    results = read(tmp_path / "scale.jsonl")
    assert [result.setting for result in results] == [*STAGES, "quality"]
    assert results[-1].method == "catboost"
    titles = [table.title for table in tables(results, "0.3s")]
    assert len(titles) == 5
