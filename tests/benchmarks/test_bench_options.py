"""Every option of `python -m benchmarks` has a row here that sees what it does; those of tabular alone are in test_tabular.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rich_click as click
from benchdata import RUN, write_gsm

from benchmarks.cli import main
from benchmarks.render import BEGIN, END
from benchmarks.results import Result, Row, append

ELSEWHERE = {"--samples", "--draws", "--judges", "--real"}
DATA = ("--data", "data", "--out", "r")
BASE = ("gsm", *DATA, "--config", "run.toml", "--seeds", "1", "--validation", "-q")
BRIEF = (*BASE[:-1],)


def stored(name: str = "gsm", out: str = "r") -> list[dict]:
    return [json.loads(line) for line in Path(out, f"{name}.jsonl").read_text().splitlines()]


ROWS = [  # the option, how the command is called, what is seen then of (status, out, err)
    ("--data", ("gsm", "--data", "nowhere"), lambda outcome: outcome[0] == 2 and "nowhere" in outcome[2]),
    ("--preset", (*BASE, "--preset", "best"), lambda outcome: stored()[0]["preset"] == stored()[0]["run"]["preset"] == "best"),
    ("--budget", (*BASE, "--budget", "2m"), lambda outcome: stored()[0]["run"]["train"]["seconds"] == 120),
    ("--config", (*BASE, "--config", "other.toml"), lambda outcome: stored()[0]["steps"] == 2),
    ("--seeds", (*BASE, "--seeds", "2"), lambda outcome: [one["seed"] for one in stored()] == [0, 1]),
    ("--seed", (*BASE, "--seed", "5"), lambda outcome: stored()[0]["seed"] == stored()[0]["run"]["seed"] == 5),
    ("--split", (*BASE, "--split", "names"), lambda outcome: stored()[0]["split"] == "names"),
    ("--validation", BASE, lambda outcome: stored()[0]["part"] == "validation"),
    ("--methods", (*BASE, "--methods", "constant,neighbours"), lambda outcome: [result["method"] for result in stored()] == ["constant", "neighbours"]),
    ("--only", ("ablation", *BASE[1:], "--only", "no atoms"), lambda outcome: [one["setting"] for one in stored("ablation")] == ["no atoms"]),
    ("--out", (*BASE, "--out", "elsewhere"), lambda outcome: len(stored(out="elsewhere")) == 1),
    ("--page", ("render", "--page", "page.md"), lambda outcome: outcome[0] == 0 and "| weight | 18.2 |" in Path("page.md").read_text()),
    ("--device", (*BASE, "--device", "tpu"), lambda outcome: outcome[0] == 2 and "tpu" in outcome[2]),
    ("--quiet", BASE, lambda outcome: (outcome[0], outcome[2]) == (0, "")),
    ("--verbose", (*BRIEF, "--verbose"), lambda outcome: any(line.startswith("step ") for line in outcome[2].splitlines())),
]  # fmt: skip


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    write_gsm(tmp_path / "data")
    (tmp_path / "run.toml").write_text(RUN)
    (tmp_path / "other.toml").write_text(RUN.replace("steps = 3", "steps = 2"))
    (tmp_path / "page.md").write_text(f"# Page\n{BEGIN}\n{END}\n")
    append(tmp_path / "results" / "gsm.jsonl", Result("gsm", "ours", [Row("weight", 18.25)], split="paper"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("option", "call", "is_seen"), ROWS, ids=[one[0] for one in ROWS])
@pytest.mark.slow
def test_an_option_does_what_it_says(option, call, is_seen, place, run):
    outcome = run(*call)
    assert is_seen(outcome), outcome


def test_every_option_has_a_row():
    own = {max(one.opts, key=len) for one in main.commands["gsm"].params if isinstance(one, click.Option)}
    assert own - {"--help"} - ELSEWHERE == {option for option, *_ in ROWS}
