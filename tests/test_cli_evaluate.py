"""`kbdisk evaluate`: says which entities it scores, and what the figures are, as tables, JSON and a picture."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from kbdisk.cli.evaluate import (
    MAX_CURVE_TEXTS,
    MAX_CURVE_VALUES,
    MAX_TEXTS,
    MAX_VALUES,
    describe_summary,
    error_text,
    evaluate,
)
from kbdisk.evaluation import BASELINES
from kbdisk.evaluation.curve import LIMIT as OF_CURVE
from kbdisk.evaluation.curve import SHARES
from kbdisk.evaluation.curve import TEXTS as TEXTS_OF_CURVE
from kbdisk.evaluation.evaluate import Scope, Summary

ROOT = Path(__file__).parents[1]
PHONES = ROOT / "examples" / "phones.jsonl"
FAST = ("--limit", 5, "--only", "launch", "--only", "os", "--only", "networks")


def test_held_out_entities_are_scored_where_the_model_was_trained_on_the_source(run, tiny_folder):
    status, out, err = run("evaluate", tiny_folder, PHONES, *FAST)
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0] == f"{PHONES}: 6 entities scored with {tiny_folder}"
    assert lines[1] == "6 were held out in training; 57 entities that it was trained on are left out (--all)."
    assert lines[3].split() == ["path", "known", "n", "metric", "constant", "ours", "better", "within", "nats"]
    first = [line.split()[0] for line in lines[4:9]]
    assert first == ["launch.year", "launch.month", "launch.day", "networks", "os"]
    year = lines[4].split()
    assert year[1:4] == ["57", "5", "MAE"]
    assert len(year) == 11  # two percent signs stand apart
    assert any(
        line.startswith("Not all values were scored (--limit), but a random sample of n of them: launch.year (6)")
        for line in lines
    )
    assert lines[-1].startswith("Better than the constant on ")


def test_it_fits_eighty_columns(run, tiny_folder):
    _, out, _ = run("evaluate", tiny_folder, PHONES, "--limit", 1)
    table = out.splitlines()[3:21]
    assert max(map(len, table)) <= 80
    assert any(line.startswith("display.pixels.width ") for line in table)


def test_it_says_plainly_where_the_model_was_trained_on_what_it_scores(run, tiny_folder, tiny_model, tmp_path):
    _, out, _ = run("evaluate", tiny_folder, PHONES, *FAST, "--all")
    assert "The model was trained on 57 of these: its true errors are larger." in out
    known = set(tiny_model.record.training)
    lines = [line for line in PHONES.read_text().splitlines() if json.loads(line)["id"] in known]
    (tmp_path / "seen.jsonl").write_text("\n".join(lines))
    status, out, _ = run("evaluate", tiny_folder, tmp_path / "seen.jsonl", *FAST)
    assert status == 0
    assert "57 entities scored" in out
    assert "The model was trained on all of these: its true errors are larger." in out


def test_entities_that_the_model_never_met_are_scored_without_a_word(run, tiny_folder, tmp_path):
    phone = {"id": "new", "brand": "Nokia", "launch": {"year": 2024, "month": 5}, "os": "Android"}
    (tmp_path / "new.jsonl").write_text(json.dumps(phone))
    status, out, _ = run("evaluate", tiny_folder, tmp_path / "new.jsonl", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["entities"] == {"asked": 1, "held_out": 0, "new": 1, "trained_on": 0}
    assert [row["path"] for row in found["rows"]] == ["brand", "launch.year", "launch.month", "os"]
    assert found["summary"]["properties"] <= 4
    assert found["limit"] == MAX_VALUES
    row = found["rows"][1]
    assert row["n"] == row["of"] == 1
    assert row["mae"] == pytest.approx(row["rmse"], abs=5)
    assert {"coverage", "nats", "constant_nats", "constant_rmse", "stderr"} <= row.keys()


def test_values_that_do_not_fit_are_told(run, tiny_folder, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"id": "new", "os": "Android", "launch": "whenever"}')
    _, out, _ = run("evaluate", tiny_folder, tmp_path / "new.jsonl")
    assert "count as wrong (numbers are left out): 1 of launch.year, 1 of launch.month, 1 of launch.day." in out


def test_the_reliability_of_confidence_is_a_line_and_a_picture(run, tiny_folder, tmp_path):
    status, out, err = run("evaluate", tiny_folder, PHONES, *FAST, "--plot", tmp_path / "confidence.png")
    assert (status, err) == (0, "")
    assert re.search(r"^confidence: calibration error 0\.\d{3} over [\d,]+ statements$", out, re.M)
    assert (tmp_path / "confidence.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(run("evaluate", tiny_folder, PHONES, *FAST, "--json")[1])["confidence"]
    assert 0 <= found["calibration_error"] <= 1
    assert all(0 <= one["right"] <= 1 for one in found["bins"])


@pytest.mark.slow
def test_a_curve_is_a_table_and_a_picture(run, tiny_folder, tmp_path):
    status, out, err = run("evaluate", tiny_folder, PHONES, *FAST, "--curve", "--plot", tmp_path / "curve.png")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[3].split() == ["path", "n", "constant", "0", "%", "20", "%", "50", "%", "80", "%", "all"]
    assert lines[9].split()[:2] == ["mean", "1.00"]
    assert max(map(len, lines[3:])) <= 80
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    _, out, _ = run("evaluate", tiny_folder, PHONES, "--limit", 1, "--only", "os", "--curve", "--json")
    found = json.loads(out)["curve"]
    assert found["shares"] == list(SHARES)
    assert all(len(one["ours"]) == len(found["shares"]) for one in found["properties"])


def test_baselines_stand_beside_the_model(run, tiny_folder):
    few = ("--only", "weight", "--only", "os", "--only", "name", "--against", "gbdt, constant")
    status, out, err = run("evaluate", tiny_folder, PHONES, *few)
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[3].split() == ["path", "n", "metric", "constant", "gbdt", "ours", "better"]
    assert max(map(len, lines[3:7])) <= 80
    rows = {line.split()[0]: line.split() for line in lines[4:7]}
    assert rows["name"][5] == "–"
    assert rows["os"][5:7] == ["0.0", "%"]  # it follows from the brand
    assert "gbdt cannot predict name (text, which trees cannot tell)." in lines
    assert lines[-1].startswith("Better than gbdt on ")
    assert lines[-2].startswith("Better than the constant on ")
    _, out, _ = run(
        "evaluate", tiny_folder, PHONES, "--only", "os", "--only", "name", "--against", "gbdt, constant", "--json"
    )
    found = json.loads(out)
    row = next(row for row in found["rows"] if row["path"] == "os")
    assert row["against"]["gbdt"]["theirs"] == row["against"]["gbdt"]["error"] == 0.0
    assert row["against"]["constant"]["theirs"] == pytest.approx(row["constant"])
    assert found["against"]["gbdt"]["left_out"] == {"name": "text, which trees cannot tell"}
    assert found["against"]["gbdt"]["properties"] == 1
    assert found["against"]["gbdt"]["seconds"] > 0


def test_a_wide_terminal_has_room_for_all(run, tiny_folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    _, out, _ = run("evaluate", tiny_folder, PHONES, "--only", "os", "--against", "gbdt")
    assert out.splitlines()[3].split() == [
        "path", "known", "n", "metric", "constant", "gbdt", "ours", "better", "within", "nats",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_curve_has_a_line_for_each_baseline(run, tiny_folder):
    _, out, _ = run("evaluate", tiny_folder, PHONES, "--only", "os", "--only", "name", "--curve", "--against", "gbdt")
    lines = [line.split() for line in out.splitlines()[4:10]]
    assert [line[0] for line in lines] == ["name", "gbdt", "os", "gbdt", "mean", "gbdt"]
    assert lines[1][1:] == ["–"] * 5
    assert lines[3][-2:] == ["0.0", "%"]


def test_baselines_need_what_the_model_was_trained_on(run, tiny_folder, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"id": "new", "os": "Android"}')
    status, out, err = run("evaluate", tiny_folder, tmp_path / "new.jsonl", "--against", "constant")
    assert (status, out) == (2, "")
    assert err == (
        f"error: {tmp_path / 'new.jsonl'}: expected the 57 entities that the model was trained on, which baselines learn "
        "from, got 0 of them. Give the source that it was trained on (examples/phones.jsonl).\n"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--against", "gbd,constant"],
            "--against: expected some of constant, gbdt, gbdt-median, gbdt-filled, gbdt-grid, got 'gbd'. Did you mean 'gbdt'?",
        ),
        (["--plot", "curve.gif"], "--plot: expected a name that ends in .png, .svg, .pdf, got 'curve.gif'."),
        (["--only", "lunch"], "lunch: expected a path that the model predicts, got another. Did you mean 'launch"),
        (
            ["--only", "a..b"],
            "--only: expected a path such as launch.year, prizes[0].share or \"odd (name)\", got 'a..b'.",
        ),
        (["--class", "Car"], "Car: expected none, as the model's schema names no class."),
        (["--device", "gpu7"], "--device: expected auto, cpu or a device that is there, got 'gpu7'"),
    ],
)
def test_a_mistake_is_one_line(run, tiny_folder, arguments, complaint):
    status, out, err = run("evaluate", tiny_folder, PHONES, *arguments)
    assert (status, out) == (2, "")
    assert complaint in err
    assert len(err.splitlines()) == 1


def test_a_source_without_anything_to_ask_for_is_a_mistake(run, tiny_folder, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"id": "new", "other": 3}')
    status, _, err = run("evaluate", tiny_folder, tmp_path / "new.jsonl")
    assert (status, err) == (
        2,
        f"error: {tmp_path / 'new.jsonl'}: its entities have no value that the model predicts.\n",
    )


def test_skipped_lines_are_a_finding(run, tiny_folder, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"id": "new", "os": "Android"}\n{"id": \n')
    status, out, _ = run("evaluate", tiny_folder, tmp_path / "new.jsonl", "--skip-errors")
    assert status == 1
    assert "1 entity scored" in out


def test_a_limit_that_is_told_holds_for_texts_too(run, tiny_folder, monkeypatch):
    monkeypatch.setattr(sys.modules["kbdisk.cli.evaluate"], "MAX_TEXTS", 3)
    for told, wanted in ((), 3), (("--limit", 5), 5):
        _, out, _ = run("evaluate", tiny_folder, PHONES, "--only", "name", "--json", *told)
        assert [row["n"] for row in json.loads(out)["rows"]] == [wanted]


def test_the_limits_in_the_help_are_those_of_the_library():
    assert Scope().limit == MAX_VALUES
    assert Scope().texts == MAX_TEXTS

    assert (OF_CURVE, TEXTS_OF_CURVE) == (MAX_CURVE_VALUES, MAX_CURVE_TEXTS)


def test_the_help_names_every_baseline():
    told = next(one.help for one in evaluate.params if one.name == "against")
    assert re.findall(r"[\w-]+", told.split(":")[1].split(";")[0]) == list(BASELINES)


def test_errors_are_shown_in_few_digits():
    assert [error_text("MAE", one) for one in (None, 0.0, 0.12345, 12.345, 999.9, 1234.5, 123456.7)] == [
        "–", "0", "0.123", "12.3", "1,000", "1,234", "123,457",
    ]  # fmt: skip
    assert [error_text("error rate", one) for one in (0.0, 0.123, 1.0)] == ["0.0 %", "12.3 %", "100.0 %"]


def test_the_last_line_tells_it_all():
    assert describe_summary(Summary(17, 15, 0.532, 0.781)) == (
        "Better than the constant on 15 of 17 properties; its error is 0.53 of the constant's on average; "
        "a value costs 0.78 nats less."
    )
    assert describe_summary(Summary(1, 0, 1.5, -0.1)).endswith("a value costs 0.10 nats more.")
    assert describe_summary(Summary(0, 0, None, None)).startswith("Nothing to compare")
