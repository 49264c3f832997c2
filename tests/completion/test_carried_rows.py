"""What an earlier completion filled in is told beside every file that it goes to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kbdisk
from kbdisk.api.source import LoadedSource
from kbdisk.completion.sidecar import CarriedRows, given_entities
from kbdisk.entity import Entity, show
from kbdisk.loaders import format_named, load

TURTLE = """@prefix : <a:> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:a :n 1 ; :size 5 . :b :n 2 .
# kbdisk: begin
:a :size 6 ; :link :b ; :born "1990"^^xsd:gYear ; :weight 2.5 .
:b :label "Bee"@en ; :alive true .
# kbdisk: end
"""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sidecar(name: str, *rows: dict) -> None:
    Path(f"{name}.provenance.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def carried(source: str, target: str) -> list[dict]:
    """Write a source anew with the rows that go along; returns these."""
    kb = load(source)
    entities = list(given_entities(kb))
    kbdisk.write([Entity(one.id, one.tree, made=one.made) for one in entities], target)
    carried_rows = CarriedRows([kb], format_named(target.rpartition(".")[2]))
    lines = [line for entity in entities for line in carried_rows.of(entity)]
    Path(f"{target}.provenance.jsonl").write_bytes(b"".join(lines))
    return [json.loads(line) for line in lines]


def made(file: str) -> set[tuple[str, str]]:
    return {(entity.id, show(path)) for entity in given_entities(load(file)) for path in entity.made or ()}


def test_what_was_filled_in_a_line_that_is_broken_for_now_is_told_in_place_all_the_same(place):
    Path("kb.jsonl").write_text('{"id": "a", "x": 1}\n{"id": "b", "x": 2\n')
    sidecar("kb.jsonl", {"id": "a", "path": "x", "value": 1}, {"id": "b", "path": "x", "value": 2})
    for in_place, ids in (True, ["a", "b"]), (False, ["a"]):
        kb = load("kb.jsonl", skip_errors=True)
        carried_rows = CarriedRows([kb], "jsonl", in_place=in_place)
        lines = [line for entity in given_entities(kb) for line in carried_rows.of(entity)]
        assert kb.skipped
        assert [json.loads(line)["id"] for line in [*lines, *carried_rows.rest()]] == ids


@pytest.mark.parametrize("target", ["out.json", "out.jsonl", "out.csv", "out.tsv", "out.parquet"])
def test_what_a_block_told_is_told_beside_a_file_without_blocks(place, target):
    Path("kb.ttl").write_text(TURTLE)
    sidecar("kb.ttl", {"id": "a:a", "path": "weight", "value": 2.5, "confidence": 0.5})
    rows = carried("kb.ttl", target)
    assert rows[0] == {"id": "a:a", "path": "weight", "value": 2.5, "confidence": 0.5}
    assert {(row["id"], row["path"]) for row in rows} == made("kb.ttl")
    assert len(made(target)) == 6
    assert {entity.id: entity.tree.get("n") for entity in given_entities(load(target))} == {"a:a": 1, "a:b": 2}


VALUES = [
    1990,
    2.5,
    True,
    "red",
    {"@date": "1990-05"},
    {"@id": "a:b"},
    {"@quantity": 5.0, "@unit": "g"},
    {"@latitude": 1.5, "@longitude": 2},
    {"@value": "rot", "@language": "de"},
    {"year": 1990, "month": 5},
    {"n": 1, "name": {"@value": "rot", "@language": "de"}},
    ["GSM", "LTE"],
]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("target", ["out.csv", "out.parquet", "out.json"])
def test_a_row_goes_along_in_whatever_form_its_value_is_written(place, target, value):
    Path("kb.jsonl").write_text(json.dumps({"id": "a", "n": 1, "x": value}) + '\n{"id": "b", "n": 2}\n')
    sidecar("kb.jsonl", {"id": "a", "path": "x", "value": value, "class": ""})
    assert carried("kb.jsonl", target) == [{"id": "a", "path": "x", "value": value, "class": ""}]
    assert [(one.id, bool(one.made)) for one in given_entities(load(target))] == [("a", True), ("b", False)]
    [again] = carried(target, "again.csv")
    assert again["class"] == ""
    assert [(one.id, bool(one.made)) for one in given_entities(load("again.csv"))] == [("a", True), ("b", False)]


def test_a_cell_that_somebody_changed_or_added_to_is_theirs(place):
    for row in "a,6,g,", "a,5,oz,", "a,5,g,x":
        Path("kb.csv").write_text(f"id,x.value,x.unit,x.note\n{row}\n")
        sidecar("kb.csv", {"id": "a", "path": "x", "value": {"@quantity": 5, "@unit": "g"}})
        assert made("kb.csv") == set()


def test_what_is_one_value_here_and_a_list_elsewhere_is_the_first_of_one(place):
    Path("kb.csv").write_text("id,x[0],x[1]\na,5,\nb,1,2\n")
    sidecar("kb.csv", {"id": "a", "path": "x", "value": 5}, {"id": "b", "path": "x", "value": 1})
    assert made("kb.csv") == {("a", "x[0]")}


def test_a_row_goes_along_while_its_value_stands_and_the_last_of_a_place_tells(place):
    Path("kb.jsonl").write_text('{"id": "a", "x": 1, "y": 2}\n')
    rows = [{"id": "a", "path": path, "value": value} for path, value in (("x", 3), ("y", 2), ("z", 4))]
    sidecar("kb.jsonl", *rows, {**rows[1], "time": "later"})
    assert carried("kb.jsonl", "out.json") == [{**rows[1], "time": "later"}]


def test_beside_blocks_and_in_place_all_rows_stay_as_they_are(place):
    Path("kb.ttl").write_text(TURTLE)
    sidecar("kb.ttl", {"id": "a:a", "path": "link", "value": {"@id": "a:c"}}, {"id": "a:b", "path": "gone", "value": 1})
    before = Path("kb.ttl.provenance.jsonl").read_bytes()
    kb = load("kb.ttl")
    for carried_rows in (CarriedRows([kb], "ntriples"), CarriedRows([kb], "json", in_place=True)):
        assert b"".join(line for entity in given_entities(kb) for line in carried_rows.of(entity)) == before


@pytest.mark.parametrize("target", ["out.ttl", "out.nt"])
def test_what_is_written_outside_of_a_block_is_told_by_its_row_while_it_stands(place, target):
    Path("kb.jsonl").write_text('{"id": "a:a", "n": 1, "x": 2, "y": "red"}\n')
    sidecar("kb.jsonl", {"id": "a:a", "path": "x", "value": 2}, {"id": "a:a", "path": "y", "value": "red"})
    assert [row["block"] for row in carried("kb.jsonl", target)] == [False, False]
    assert made(target) == {("a:a", "x"), ("a:a", "y")}
    Path(target).write_text(Path(target).read_text().replace('"red"', '"blue"'))
    assert made(target) == {("a:a", "x")}
    again = Path(target).suffix.replace(".ttl", ".nt") + ".json"
    assert ["block" in row for row in carried(target, f"back{again}")] == [False]


def test_of_several_sources_a_row_has_the_id_that_its_entity_has_in_the_whole(place):
    for name in ("one.csv", "two.csv"):
        Path(name).write_text("x,y\n1,2\n3,4\n")
        sidecar(name, {"id": "2", "path": "y", "value": 4, "numbered": True})
    reading = LoadedSource.of([load("one.csv"), load("two.csv")])
    carried_rows = CarriedRows(reading.kbs, "csv")
    rows = [json.loads(line) for entity in reading.entities for line in carried_rows.of(entity)]
    assert [(row["id"], row["path"]) for row in rows] == [("one.csv#2", "y"), ("two.csv#2", "y")]
