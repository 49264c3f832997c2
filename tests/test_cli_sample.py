"""kbdisk sample: what it writes, what it says, and every option."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import pytest
from models import tiny

import kbdisk
from kbdisk.schemas.schema import Schema
from kbdisk.store.folder import save

CARS = """
kbdisk: 1
missing: [NA]
classes:
  "":
    id: id
    properties:
      id: {kind: text, role: ignore, unique: true}
      make: {kind: category, values: [Kia, Audi, Fiat], closed: true}
      options: {kind: set, of: category}
      electric: {kind: boolean, role: ignore}
      price: number
"""


@pytest.fixture(scope="module")
def cars(tmp_path_factory):
    """A model of cars, of one of three makes each; it has not learnt which are electric."""
    folder = tmp_path_factory.mktemp("cars") / "cars.kbdisk"
    trees = [
        {"id": f"c{i}", "make": ("Kia", "Audi", "Fiat")[i % 3], "options": ["gps", "abs"][: i % 3], "electric": i % 2 > 0, "price": i}
        for i in range(60)
    ]  # fmt: skip
    save(tiny(Schema.read(CARS), list(kbdisk.load(trees))), folder)
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "new.jsonl"


def lines(file) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_entities_are_drawn_into_a_file(tiny_folder, out, run):
    status, said, told = run("sample", tiny_folder, "-n", 30, "--out", out)
    assert (status, said) == (0, "")
    assert told.startswith(f"wrote {out}, 30 entities, ")
    assert told.endswith(" a second\n")
    drawn = lines(out)
    assert [one["id"] for one in drawn] == [f"new-{i + 1}" for i in range(30)]
    assert all("name" not in one for one in drawn)  # free text
    schema = kbdisk.open(tiny_folder).schema
    assert all(schema.check(one) == [] for one in kbdisk.load(str(out)))


def test_what_is_given_all_have(tiny_folder, out, run):
    arguments = ["--given", "brand=Nokia", "--given", "launch.year=2005", "--given", "weight=150 g"]
    assert run("sample", tiny_folder, "-n", 5, *arguments, "--out", out)[0] == 0
    for one in kbdisk.load(str(out)):
        assert one.tree["brand"] == "Nokia"
        assert one.tree["launch"]["year"] == 2005
        assert one.tree["weight"] == {"value": 150, "unit": "g"}


def test_values_are_written_as_those_of_the_source_are(tmp_path, run):
    source = [
        {
            "id": f"e{i}",
            "day": f"{1 + i % 28:02}.{1 + i % 12:02}.{1990 + i % 9}",
            "mass": f"{i % 7 + 1}.5 kg",
            "tags": ["a"],
        }
        for i in range(60)
    ]
    forms = {"id": r"new-\d+", "day": r"\d\d\.\d\d\.\d{4}", "mass": r"[\d.]+ kg", "tags": r"\['a'\]"}
    kb = kbdisk.load(source)
    trained = tiny(kbdisk.infer(kb).schema, list(kb))
    save(trained, tmp_path / "m")
    assert run("sample", tmp_path / "m", "-n", 9, "--out", tmp_path / "new.jsonl")[0] == 0
    for one in lines(tmp_path / "new.jsonl"):
        assert list(one) == [key for key in forms if key in one]
        assert all(re.fullmatch(forms[key], str(value)) for key, value in one.items()), one
    save(replace(trained, styles=None), tmp_path / "older")
    for folder, form, typed in (("older", "jsonl", '{"@date"'), ("m", "ntriples", "XMLSchema#date>")):
        assert typed in run("sample", tmp_path / folder, "--out", "-", "--to", form)[1]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "json", "turtle", "ntriples", "jsonl"])
def test_any_format_goes_to_standard_output(tiny_folder, format, run):
    status, said, told = run("sample", tiny_folder, "-n", 3, "--out", "-", "--to", format)
    assert status == 0
    assert said.count("new-") >= 3
    assert told.startswith("wrote standard output, 3 entities, ")


def test_the_suffix_tells_the_format(tiny_folder, tmp_path, run):
    run("sample", tiny_folder, "-n", 3, "--out", tmp_path / "new.csv.gz")
    assert len(list(kbdisk.load(str(tmp_path / "new.csv.gz")))) == 3
    run("sample", tiny_folder, "-n", 3, "--out", tmp_path / "new.csv")
    with (tmp_path / "new.csv").open() as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["new-1", "new-2", "new-3"]


def test_the_same_seed_writes_the_same_bytes(tiny_folder, tmp_path, run):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("sample", tiny_folder, "-n", 10, "--seed", seed, "--out", tmp_path / f"{name}.jsonl")
    one, same, other = ((tmp_path / f"{name}.jsonl").read_bytes() for name in "abc")
    assert one == same != other


def test_free_text_is_made_up_where_it_is_wanted(tiny_folder, out, run):
    run("sample", tiny_folder, "-n", 10, "--text", "--out", out)
    assert any("name" in one for one in lines(out))


def test_leaps_are_taken(tiny_folder, out, run):
    assert run("sample", tiny_folder, "-n", 10, "--leap", 50, "--out", out)[0] == 0
    assert len(lines(out)) == 10


def test_the_summary_is_json_where_it_is_wanted(tiny_folder, out, run):
    status, said, told = run("sample", tiny_folder, "-n", 4, "--seed", 3, "--out", out, "--json")
    found = json.loads(said)
    assert (status, told) == (0, "")
    assert (found["target"], found["entities"], found["seed"]) == (str(out), 4, 3)
    assert found["per_second"] > 0


def test_quiet_says_nothing(tiny_folder, out, run):
    assert run("sample", tiny_folder, "-n", 2, "--out", out, "--quiet") == (0, "", "")


def test_a_target_is_not_replaced_unasked(tiny_folder, out, run):
    out.write_text("mine\n")
    status, _, told = run("sample", tiny_folder, "-n", 2, "--out", out)
    assert status == 2
    assert "--force" in told
    assert out.read_text() == "mine\n"
    assert run("sample", tiny_folder, "-n", 2, "--out", out, "--force", "-q")[0] == 0
    assert len(lines(out)) == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--given", "brand"], "error: --given: expected PATH=VALUE, such as brand=Nokia, got 'brand'."),
        (["--given", "brnd=Nokia"], "error: --given brnd: expected a property that the model knows. Did you mean 'brand'?"),
        (["--given", "weight=heavy"], "error: --given weight: "),
        (["--given", "brand[=x"], "error: --given: expected a path such as launch.year"),
        (["--class", "Phone"], "error: --class: the model has no class 'Phone'; its one class has no name: leave --class out."),
        (["--device", "abacus"], "error: --device: expected auto, cpu or a device that is there, got 'abacus'"),
        (["--to", "doc"], "error: --to: unknown format 'doc'."),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(tiny_folder, out, run, arguments, complaint):
    status, said, told = run("sample", tiny_folder, "-n", 2, *arguments, "--out", out)
    assert (status, said) == (2, "")
    assert told.startswith(complaint)
    assert told.count("\n") == 1
    assert not out.exists()


def test_a_set_is_given_as_a_list(cars, out, run):
    assert run("sample", cars, "-n", 3, "--given", 'options=["gps","abs"]', "--out", out)[0] == 0
    assert all(set(one["options"]) == {"gps", "abs"} for one in lines(out))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--given", "make=Tesla"], "--given make: expected one of Kia, Audi, Fiat, got 'Tesla'."),
        (["--given", "electric=true"], "--given electric: expected a property that the model learnt, got one that its schema leaves out (role: ignore)."),
        (["--given", "id=c1"], "--given id: expected a property that the model learnt, got the id of entities."),
        (["--given", "elektric=true"], "--given elektric: expected a property that the model knows."),
        (["--given", "options=gps,abs"], """--given options: expected a set, got 'gps,abs'. Say '["gps", "abs"]'."""),
        (["--given", "price=1", "--given", "price=2"], """--given price: expected one value, got another: '2'. A set is given as a list, such as '["a", "b"]'."""),
        (["--given", "price="], "--given price: expected a number, got ''."),
        (["--given", "make=NA"], "--given make: expected a value, got 'NA', which stands for none."),
    ],
)  # fmt: skip
def test_what_no_car_of_the_model_has_cannot_be_given(cars, run, arguments, complaint):
    assert run("sample", cars, "-n", 3, *arguments, "--out", "-") == (2, "", f"error: {complaint}\n")


def test_standard_output_is_wanted_once(tiny_folder, run):
    status, _, told = run("sample", tiny_folder, "--out", "-", "--json")
    assert status == 2
    assert "both want standard output" in told


def test_what_is_no_model_is_told(tmp_path, out, run):
    status, _, told = run("sample", tmp_path / "none.kbdisk", "--out", out)
    assert status == 2
    assert told.startswith(f"error: {tmp_path / 'none.kbdisk'}: ")
