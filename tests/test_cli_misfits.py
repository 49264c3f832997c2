"""A schema that refuses much of a source says so before that is lost: by `kbdisk train` and `kbdisk complete`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from models import run_file

from kbdisk.cli.drift import misfit_lines
from kbdisk.loaders import load
from kbdisk.schemas.kinds import Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class

SCHEMA = 'kbdisk: 1\nclasses: {"": {properties: {make: number, price: {kind: number, max: 20}, x: number}}}\n'
TOLD = (
    "cars.json: 60 values of make do not fit the schema (expected a number): they are left out\n"
    "cars.json: 1 value of price does not fit the schema (expected a number of at most 20): it is left out\n"
    "kbdisk schema check lists all that does not fit\n"
)


@pytest.fixture
def cars(tmp_path, monkeypatch) -> None:
    """Cars, of which a schema takes the makes for numbers, and one of the prices for too high."""
    some = [{"id": f"c{n}", "make": "VW", "price": 20 + n // 59, "x": n % 7} for n in range(60)]
    (tmp_path / "cars.json").write_text(json.dumps(some))
    (tmp_path / "bad.yaml").write_text(SCHEMA)
    (tmp_path / "run.toml").write_text(run_file(4))
    monkeypatch.chdir(tmp_path)


def test_values_that_do_not_fit_are_told_before_training_and_by_completing_with_the_model(cars, run):
    train = ["train", "cars.json", "--schema", "bad.yaml", "--config", "run.toml", "--out", "m.kbdisk"]
    status, _, err = run(*train)
    assert status == 0
    assert TOLD in err
    assert TOLD not in run(*train, "--force", "-q")[2]
    status, _, err = run("complete", "cars.json", "--model", "m.kbdisk", "--out", "done.json")
    assert status == 0
    table = [line.split() for line in err.splitlines() if " misfit " in line]
    assert [(line[0], line[2:5]) for line in table] == [("make", ["60", "of", "60"]), ("price", ["1", "of", "60"])]
    assert json.loads(Path("done.json").read_text())[0]["make"] == "VW"


def test_values_that_do_not_fit_are_told_where_completing_trains(cars, run):
    Path("bad.yaml").write_text(SCHEMA.replace(", x: number", ""))  # nothing is left to learn
    cut = [{"id": f"c{n}", "make": "VW", "price": 20 + n // 19} for n in range(20)]
    Path("cars.json").write_text(json.dumps(cut))
    _, _, err = run("complete", "cars.json", "--schema", "bad.yaml", "--out", "done.json")
    assert TOLD.replace("60", "20") in err


def test_of_many_properties_five_are_told_and_the_rest_counted():
    names = [f"p{n}" for n in range(7)]
    schema = of_one_class({(name,): Property(Number(), role="value") for name in names})
    lines = list(misfit_lines(schema, load([dict.fromkeys(names[n:], "no number") for n in range(7)]), "kb"))
    assert [line.split(" value")[0] for line in lines[:5]] == [f"kb: {count}" for count in (7, 6, 5, 4, 3)]
    assert lines[5] == "kb: and values of 2 more properties"
    assert len(lines) == 7


def test_what_is_ignored_or_fits_is_no_misfit():
    schema = of_one_class({("a",): Property(Number(), role="ignore"), ("b",): Property(Number())})
    assert list(misfit_lines(schema, load([{"a": "no number", "b": 1, "c": "unknown"}]), "kb")) == []
