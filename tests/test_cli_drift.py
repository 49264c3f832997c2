"""What is unlike what a model learnt from is told by `complete` and `evaluate`, in --json, in Python; --strict fails by it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from models import EXAMPLES

import kbdisk
from kbdisk.api.model import Model

TITLE = "unlike what the model learnt from"


@pytest.fixture
def phones(tmp_path, monkeypatch, tiny_folder) -> list[dict[str, Any]]:
    """Ten phones that the model was trained on, with gaps, as new.jsonl; `write` puts others there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").symlink_to(tiny_folder)
    trained = set(json.loads((tiny_folder / "split.json").read_text())["training"])
    lines = (EXAMPLES / "phones.jsonl").read_text().splitlines()
    known = [one for one in map(json.loads, lines) if one["id"] in trained][:10]
    for one in known:
        one["os"] = None
    write(known)
    return known


def write(trees: list[dict[str, Any]]) -> None:
    Path("new.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trees))


def changed(trees: list[dict[str, Any]]) -> None:
    """Two unseen labels, one number far outside, a property that is unknown, one that is renamed."""
    for one in trees[:2]:
        one["brand"] = "No Such Brand"
    trees[3]["launch"] = {"year": 2099}
    for one in trees:
        one["colour"] = "black"
        one["brnad"] = one.pop("brand") if one is trees[9] else "x"
    write(trees)


COMPLETE = ("complete", "new.jsonl", "--model", "m", "--only", "os")
EVALUATE = ("evaluate", "m", "new.jsonl", "--only", "brand")


def test_nothing_is_told_of_what_the_model_was_trained_on(phones, run):
    for command in ((*COMPLETE, "--out", "done.jsonl"), (*EVALUATE, "--all")):
        status, out, err = run(*command, "--strict")
        assert status == 0, err
        assert TITLE not in out + err


def test_completing_tells_in_a_table_and_writes_all_the_same(phones, run):
    changed(phones)
    status, _, err = run(*COMPLETE, "--out", "done.jsonl")
    assert status == 0, err
    table = err.partition(f"{TITLE}\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split("  ")[0] for line in table[1:]] == ["brnad", "colour", "brand", "launch.year"]
    assert "10 of 10" in table[2]
    assert "2 of 9" in table[3]
    assert "No Such Brand" in table[3]
    assert "2099" in table[4]
    assert all(len(line) <= 80 for line in table)
    plain = Path("done.jsonl").read_bytes()
    status, _, err = run(*COMPLETE, "--out", "strict.jsonl", "--strict")
    assert (status, TITLE in err) == (1, True)
    assert Path("strict.jsonl").read_bytes() == plain


def test_json_has_every_row_with_count_and_examples(phones, run):
    changed(phones)
    status, out, _ = run(*COMPLETE, "--out", "done.jsonl", "--json")
    assert status == 0
    rows = json.loads(out)["drift"]
    assert {(row["path"], row["what"]): (row["count"], row["of"]) for row in rows} == {
        ("brnad", "unknown property"): (10, 10),
        ("colour", "unknown property"): (10, 10),
        ("brand", "unseen label"): (2, 9),
        ("launch.year", "outside range"): (1, 10),
    }
    [brand] = [row for row in rows if row["path"] == "brand"]
    assert brand["examples"] == [{"id": phones[0]["id"], "value": "No Such Brand"}]
    status, out, _ = run(*EVALUATE, "--all", "--json", "--strict")
    assert (status, json.loads(out)["drift"]) == (1, rows)


def test_evaluating_tells_in_a_table_also_of_a_curve(phones, run):
    changed(phones)
    for more in ((), ("--curve",)):
        status, out, _ = run(*EVALUATE, "--all", *more)
        assert status == 0
        assert f"\n{TITLE}\n" in out
        assert "unseen label" in out


def test_python_tells_the_same(phones, tiny_model):
    changed(phones)
    model = Model(tiny_model)
    rows = model.drift("new.jsonl").to_json()
    completing = model.complete("new.jsonl", only=["os"])
    list(completing)
    assert completing.drift.to_json() == rows
    with pytest.warns(kbdisk.KBDiskWarning, match="trained on all"):
        scores = model.evaluate("new.jsonl", only=["brand"])
    assert scores.attrs["drift"] == rows
    assert len(rows) == 4
    assert not model.drift(kbdisk.load("new.jsonl"), classes=["Tablet"])


def test_entities_of_an_unseen_class_are_told_by_both(phones, run, tmp_path):
    lines = [json.dumps({"id": f"c{n}", "@type": "Car" if n % 5 else "Bus", "x": n, "y": n % 3}) for n in range(40)]
    Path("kb.jsonl").write_text("\n".join(lines))
    Path("run.toml").write_text(
        "[model]\nwidth = 16\nlayers = 1\nheads = 2\nbase = 16\n[latent_knn]\nneighbours = 0\n[train]\nmembers = 1\nsteps = 3\nbatch = 16\n"
    )
    assert run("train", "kb.jsonl", "--class", "Car", "--config", "run.toml", "--out", "cars", "-q")[0] == 0
    status, out, _ = run("evaluate", "cars", "kb.jsonl", "--json", "--strict")
    assert status == 1
    expected = [("Bus", "", "unseen class", 8)]
    assert [(row["class"], row["path"], row["what"], row["count"]) for row in json.loads(out)["drift"]] == expected
    status, _, err = run("complete", "kb.jsonl", "--model", "cars", "--dry-run", "--fill", "asked", "--strict")
    assert (status, "unseen class" in err) == (1, True)
    chosen = ("--class", "Car", "--dry-run", "--fill", "asked", "--strict")
    assert run("complete", "kb.jsonl", "--model", "cars", *chosen)[0] == 0


def test_strict_without_a_model_is_refused_as_there_is_nothing_to_compare_with(phones, run):
    status, _, err = run("complete", "new.jsonl", "--out", "done.jsonl", "--strict")
    assert status == 2
    assert err == "error: --strict: compares SOURCE with what a model learnt from. Say --model, or leave it out.\n"


def test_entities_that_are_unlike_are_counted_in_one_line_in_json_and_in_the_provenance(phones, run):
    for tree in phones[:3]:
        tree["launch"] = {"year": 2099}
    write(phones)
    line = "3 of 10 entities are unlike those that the model learnt from (launch.year above "
    everything = ("complete", "new.jsonl", "--model", "m", "--out", "done.jsonl", "--fill", "all", "--force")
    status, _, err = run(*everything)
    assert status == 0, err
    assert line in err
    assert "): confidence is less reliable there.\n" in err
    rows = [json.loads(row) for row in Path("done.jsonl.provenance.jsonl").read_text().splitlines()]
    flagged = {row["id"] for row in rows if "unlike" in row}
    assert flagged
    assert flagged <= {tree["id"] for tree in phones[:3]}
    assert all(reason.startswith("launch.year above ") for row in rows for reason in row.get("unlike", []))
    status, out, _ = run(*everything, "--json")
    told = json.loads(out)["unlike"]
    assert (status, told["entities"], list(told["reasons"].values())) == (0, 3, [3])


def test_the_level_of_a_model_is_that_of_its_folder(phones, tiny_model, tmp_path):
    tiny_model = replace(tiny_model, record=replace(tiny_model.record, unlike_level=1e-30))
    Model(tiny_model).save(tmp_path / "strict")
    opened = kbdisk.open(str(tmp_path / "strict"))
    assert opened.trained.record.unlike_level == 1e-30
    phones[0]["launch"] = {"year": 2013}
    write(phones)
    assert not any(completion.unlike for completion in opened.complete("new.jsonl"))
