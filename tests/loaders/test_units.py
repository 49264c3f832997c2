"""Bare numbers whose unit the user tells are quantities, in every format, and bare numbers again when written."""

from __future__ import annotations

import json

import pytest
from tables import for_each

from kbdisk.entity import Completion, Filled, Quantity
from kbdisk.errors import KBDiskWarning
from kbdisk.loaders import load, write

TTL = b"@prefix : <http://e/> . :a :weight 133 ; :size [ :height 1.50 ; :parts ( [ :w 1 ] [ :w 2 ] ) ] . :b :name 'b' ; :size [ :depth 2 ] ."
TREE = {"weight": 133, "size": {"height": 1.5, "parts": [{"w": 1}, {"w": 2}]}}
UNITS = {"weight": "g", "size.height": "cm", "size.parts[0].w": "mg"}


def sources(tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_text(json.dumps({"id": "a", **TREE}) + "\n")
    array = tmp_path / "a.json"
    array.write_text(json.dumps([{"id": "a", **TREE}]))
    turtle = tmp_path / "a.ttl"
    turtle.write_bytes(TTL)
    return {"jsonl": lines, "json": array, "turtle": turtle, "memory": [{"id": "a", **TREE}]}


@for_each("format", ["jsonl", "json", "turtle", "memory"])
def test_bare_numbers_of_a_told_path_are_quantities(format, tmp_path):
    entity = next(iter(load(sources(tmp_path)[format], units=UNITS)))
    assert entity.get(("weight",)) == Quantity(133, "g")
    assert entity.get(("size", "height")) == Quantity(1.5, "cm")
    assert [part["w"] for part in entity.get(("size", "parts"))] == [Quantity(1, "mg"), Quantity(2, "mg")]


def test_a_table_has_units_too():
    entity = next(iter(load(b"id,weight,size.height\na,133,1.50\n", format="csv", units={"weight": "g"})))
    assert entity.tree["weight"] == Quantity(133, "g")


def test_what_is_given_in_memory_is_not_changed():
    items = [{"id": "a", "weight": 133, "size": {"height": 1.5}}]
    assert next(iter(load(items, units={"weight": "g", "size.height": "cm"}))).tree["weight"] == Quantity(133, "g")
    assert items == [{"id": "a", "weight": 133, "size": {"height": 1.5}}]


def test_only_numbers_get_a_unit():
    data = b'[{"id": "a", "weight": "heavy"}, {"id": "b", "weight": true}, {"id": "c", "weight": null}, {"id": "d", "weight": [1, "x", [2]]}]'
    trees = [entity.tree["weight"] for entity in load(data, format="json", units={"weight": "g"})]
    assert trees == ["heavy", True, None, [Quantity(1, "g"), "x", [Quantity(2, "g")]]]


def test_a_path_without_any_number_is_said():
    with pytest.warns(KBDiskWarning, match="no number at wieght"):
        list(load(b'{"a": {"weight": 1}}', format="json", units={"wieght": "g"}))


def test_len_reads_them_too():
    kb = load(b'{"a": {"weight": 1}, "b": {"weight": 2}}', format="json", units={"weight": "g"})
    assert [entity.tree["weight"].unit for entity in list(kb)] == ["g", "g"]
    assert len(kb) == 2


@for_each(
    ("name", "content", "new"),
    [
        ("a.jsonl", b'{"id": "a", "weight": 133}\n{"id": "b", "weight": null}\n', b'"weight": 94'),
        ("a.json", b'[{"id": "a", "weight": 133}, {"id": "b", "weight": null}]', b'"weight": 94'),
        ("a.csv", b"id,weight\na,133\nb,\n", b"b,94\n"),
        ("a.ttl", b"@prefix : <http://e/> . :a :weight 133 . :b :name 'b' .\n", b":weight 94"),
    ],
)
def test_a_filled_quantity_is_written_as_the_bare_number_it_is(name, content, new, tmp_path):
    source, target = tmp_path / name, tmp_path / f"out-{name}"
    source.write_bytes(content)
    kb = load(source, units={"weight": "g"})
    entity = next(one for one in kb if one.id.endswith("b"))
    report = write([Completion(entity, {("weight",): Filled(Quantity(94, "g"))})], target)
    assert (report.written, report.unwritable) == (1, [])
    assert new in target.read_bytes()
    again = next(one for one in load(target, units={"weight": "g"}) if one.id.endswith("b"))
    assert Quantity(94, "g") in (again.tree.get("weight"), (again.made or {}).get(("weight",)))


def test_a_filled_quantity_of_another_unit_is_refused(tmp_path):
    source, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    source.write_bytes(b'{"id": "a", "weight": 133}\n{"id": "b", "weight": null}\n')
    entity = list(load(source, units={"weight": "g"}))[1]
    report = write([Completion(entity, {("weight",): Filled(Quantity(94, "kg"))})], target)
    assert report.written == 0
    assert report.unwritable == [("b", ("weight",), "is in 'kg', and the numbers of this property are in 'g'")]
    assert target.read_bytes() == source.read_bytes()
