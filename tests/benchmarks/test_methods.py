"""The names of `--methods`: which a benchmark measures, and what `all` leaves out."""

from __future__ import annotations

import json

import pytest
from benchdata import RUN, write_gsm

from benchmarks import BENCHES, methods
from benchmarks.methods import METHODS, SINGLE_STEP
from benchmarks.peers import environments
from benchmarks.results import OURS
from kbdisk.errors import ConfigError
from kbdisk.evaluation import BASELINES


def test_the_benchmarks_with_the_option_are_those_with_methods():
    assert METHODS.keys() == {name for name, bench in BENCHES.items() if "methods" in bench.options}


def test_all_leaves_out_what_is_not_installed_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.delenv("KBDISK_LLM", raising=False)
    lines: list[str] = []
    chosen = methods.predicting().chosen("all", lines.append)
    assert {OURS, "diskpaper", "constant", "gbdt", "gbdt-filled", "catboost", "tabddpm", "lm-scratch"} <= {*chosen}
    left_out = {line.partition(":")[0].removeprefix("without ") for line in lines}
    assert left_out >= {"llm", "miceforest", "gbdt-grid", SINGLE_STEP}
    assert not left_out & {*chosen}
    assert all(len(line.splitlines()) == 1 and line.endswith(".") for line in lines)


def test_a_method_is_named_once_and_in_the_order_that_was_given():
    assert methods.predicting().chosen("gbdt, ours,gbdt", print) == ("gbdt", OURS)


def test_what_all_leaves_out_for_its_time_can_be_named():
    assert methods.predicting().chosen("gbdt-grid", print) == ("gbdt-grid",)


def test_a_method_that_cannot_run_here_is_refused_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    with pytest.raises(ConfigError, match=r"--methods: llm: .* Say python -m benchmarks peers install llm\."):
        methods.predicting().chosen("constant,llm", print)


def test_every_baseline_predicts_and_no_name_is_of_two_methods():
    names = methods.predicting().names
    assert {*BASELINES} <= {*names}
    assert len(names) == len({*names})


@pytest.mark.slow
def test_the_papers_preset_and_peers_have_columns_of_their_own_and_stored_lines_are_rendered_alike(run, tmp_path):
    write_gsm(tmp_path)
    (tmp_path / "run.toml").write_text(RUN)
    call = ("gsm", "--data", tmp_path, "--out", tmp_path / "out", "--config", tmp_path / "run.toml", "--seeds", 2, "-q")
    status, out, err = run(*call, "--methods", "ours,diskpaper,constant,neighbours,iterative", "--budget", "60s")
    assert (status, err) == (0, "")
    lines = [json.loads(line) for line in (tmp_path / "out" / "gsm.jsonl").read_text().splitlines()]
    assert len(lines) == 10
    assert {line["method"]: line["preset"] for line in lines} == {
        "ours": "default", "diskpaper": "paper", "constant": "", "neighbours": "", "iterative": "",
    }  # fmt: skip
    columns = ["ours, default + 60s + run.toml", "diskpaper + 60s + run.toml", "constant", "neighbours + 60s"]
    assert all(column in out.splitlines()[1] for column in columns)
    assert " ± " in out
    page = tmp_path / "page.md"
    from benchmarks.render import BEGIN, END

    page.write_text(f"{BEGIN}\n{END}\n")
    run("render", "--out", tmp_path / "out", "--page", page, "-q")
    assert "| property | ours, default + 60s + run.toml | diskpaper + 60s + run.toml |" in page.read_text()
