"""Entities of any source as RDF, from their trees alone: what is read back is the same."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from judges import by_rdflib, graph
from strategies import trees
from tables import for_each

import kbdisk
from kbdisk.entity import SOMEVALUE, Completion, Coordinate, Entity, Filled, Link, Quantity, Text
from kbdisk.errors import WriteError
from kbdisk.loaders.rdf import write

ids = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["_:b0", "_:b1", "_:[0]", "http://ex.org/a", "a b", "urn:x:y", "http://no good/"]
)
PARTS = ("value", "unitText", "latitude", "longitude")  # last words of what quantities and places are written with


def anew(entities, format="turtle", only_new=False):
    out = io.BytesIO()
    report = write(entities, out, format, only_new)
    return out.getvalue(), report


def read(data, format="turtle"):
    return {entity.id: entity for entity in kbdisk.load(data, format=format)}


def plain(value):
    """A value without metadata and the order of keys; numbers as RDF has them, whose decimals are the shortest."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value) if key[:1] != "@"}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, Quantity):
        return Quantity(plain(value.value), value.unit)
    if isinstance(value, Coordinate):
        halves = (None if half is None else plain(half) or 0 for half in (value.latitude, value.longitude))  # no -0.0
        return Coordinate(*halves, value.globe)
    if isinstance(value, Text):
        return Text(value.text, value.language.lower())
    return as_read(value) if isinstance(value, Decimal) else value


def as_read(number):
    """A Decimal is one only where an int or a float would lose digits."""
    if number == number.to_integral_value():
        return int(number)
    try:
        return float(number) if Decimal(repr(float(number))) == number else number.normalize()
    except OverflowError:
        return number


@given(st.dictionaries(ids, trees(), min_size=1, max_size=3), st.sampled_from(["turtle", "ntriples", "trig", "nquads"]))
def test_any_tree_survives(known, format):
    assume(not any("rdf:" in str(tree) for tree in known.values()))  # what collections that are none are read as
    assume(not any(f"'{key}':" in str(tree) for tree in known.values() for key in PARTS))  # who comes first has the key
    entities = [Entity(id, tree, ("Thing", "http://ex.org/C")[:i]) for i, (id, tree) in enumerate(known.items())]
    entities[0].tree["to"] = [Link(id) for id in known]
    data, report = anew(entities, format)
    assert report.unwritable == []
    again = read(data, format)
    assert list(again) == list(known)
    for entity in entities:
        assert repr(plain(again[entity.id].tree)) == repr(plain(entity.tree))
        assert again[entity.id].classes == entity.classes


def test_a_part_keeps_its_classes_and_its_id():
    shared = {"@id": "http://x/9", "@type": ["Brand", ""], "name": "N"}
    tree = {"offer": {"@type": "Offer", "price": 3}, "brand": shared, "none": [{"@type": None, "z": 1}, {"@type": [1]}]}
    data, report = anew([Entity("http://x/1", tree), Entity("http://x/2", {"brand": shared, "to": {"@id": "b"}})])
    assert report.unwritable == []
    again = read(data)
    assert set(again) == {"http://x/1", "http://x/2", "http://x/9"}
    assert (again["http://x/9"].classes, again["http://x/9"].tree) == (("Brand",), {"name": "N"})
    assert again["http://x/1"].tree["offer"].items() >= {"@type": ["Offer"], "price": 3}.items()
    assert again["http://x/1"].tree["brand"] == again["http://x/2"].tree["brand"] == Link("http://x/9")
    assert plain(again["http://x/1"].tree["none"]) == [{"z": 1}, {}]
    assert again["http://x/2"].tree["to"] == Link("b")


@for_each("key", ["size (cm)", "share %", "http://e/p/1", "x 9"])
def test_a_key_that_xml_has_no_name_for_is_refused(key):
    with pytest.raises(WriteError, match="cannot be written as RDF/XML: expected a predicate that ends in a name"):
        anew([Entity("a", {key: 1})], "rdfxml")
    assert read(anew([Entity("a", {key: 1})])[0])["a"].tree == {key.rpartition("/")[2]: 1}


def test_any_key_that_is_written_as_xml_others_read():
    data, _ = anew([Entity("a", {"größe": 1, "p1-b.c": 2, "size (cm)x": 3})], "rdfxml")
    assert len(by_rdflib(data, "rdfxml")) == 3


@for_each("format", ["turtle", "trig", "sparql-update", "rdfxml"])
def test_keys_are_written_short(format):
    data, _ = anew([Entity("http://ex.org/a", {"size": 5, "a b": {"http://ex.org/p": "x"}})], format)
    text = data.decode()
    assert "k:size" in text
    assert text.count("<urn:kbdisk:key:") == (format != "rdfxml"), text
    if format != "sparql-update":
        assert read(data, format)["http://ex.org/a"].tree["size"] == 5


@given(trees(), st.sampled_from(["nquads", "trig", "jsonld"]))
def test_named_graphs_survive(tree, format):
    data, _ = anew([Entity("a", tree, ("Thing",), graph="http://ex.org/g")], format)
    assert read(data, format)["a"].graph == "http://ex.org/g"


def test_what_rdf_cannot_say_is_reported_and_all_else_is_written():
    entities = [
        Entity("a", {"name": "\ud800"}),
        Entity("b", {"name": "b", "@value": 1, "x": {"@lang": "en", "@id": "c"}}),
    ]
    data, report = anew(entities)
    assert list(read(data)) == ["b"]
    told = {(id, path) for id, path, _ in report.unwritable}
    assert told == {("a", ()), ("b", ("@value",)), ("b", ("x", "@lang"))}


def test_numbers_are_written_bare_and_others_read_them():
    data, _ = anew(
        [
            Entity(
                "http://ex.org/a",
                {"http://ex.org/size": 5, "http://ex.org/price": Decimal("1.50"), "http://ex.org/x": True},
            )
        ]
    )
    assert (
        data
        == b"<http://ex.org/a> <http://ex.org/size> 5 ;\n    <http://ex.org/price> 1.50 ;\n    <http://ex.org/x> true .\n"
    )
    assert by_rdflib(data) == graph(data)


def test_only_what_is_new():
    entity = Entity("http://ex.org/a", {"size": 5, "part": {"x": 1}})
    completion = Completion(entity, {("weight",): Filled(7), ("part", "y"): Filled(2)})
    data, report = anew([entity, completion, Completion(entity)], only_new=True)
    assert report.written == 2
    assert read(data)["http://ex.org/a"].tree["weight"] == 7
    assert b"size" not in data


@for_each("suffix", ["ttl", "nt", "nq", "trig", "rdf", "jsonld"])
@for_each("source", ["json", "jsonl", "csv"])
def test_tables_and_json_go_to_any_syntax(source, suffix, tmp_path):
    text = {
        "json": '[{"id": "http://ex.org/a", "size": 5, "part": {"x": 1.5}}, {"id": "http://ex.org/b", "size": null, "part": {"x": 2}}]',
        "jsonl": '{"id": "http://ex.org/a", "size": 5, "part": {"x": 1.5}}\n{"id": "http://ex.org/b", "size": null, "part": {"x": 2}}\n',
        "csv": "id,size,part.x\nhttp://ex.org/a,5,1.5\nhttp://ex.org/b,,2\n",
    }[source]
    kb = kbdisk.load(text.encode(), format=source)
    target = tmp_path / f"out.{suffix}"
    completion = Completion(kb["http://ex.org/b"], {("size",): Filled(7)})
    report = kbdisk.write([kb["http://ex.org/a"], completion], target)
    assert (report.written, report.unwritable) == (1, [])
    again = {entity.id: entity for entity in kbdisk.load(target)}
    assert {id: entity.tree["size"] for id, entity in again.items()} == {"http://ex.org/a": 5, "http://ex.org/b": 7}
    assert [entity.tree["part"]["x"] for entity in again.values()] == [1.5, 2]


@for_each("suffix", ["json", "jsonl", "csv", "parquet"])
def test_rdf_goes_to_json_and_tables(suffix, tmp_path):
    document = b"@prefix : <http://ex.org/> . :a :size 5 ; :part [ :x 1 ] . :b :size 6 ; :part [ :x 2 ] . :c :part [ :x 3 ] ; :size 7 ."
    kb = kbdisk.load(document, format="turtle")
    target = tmp_path / f"out.{suffix}"
    kbdisk.write(kb, target)
    again = {entity.id: entity for entity in kbdisk.load(target)}
    assert list(again) == [f"http://ex.org/{name}" for name in "abc"]
    assert [entity.tree["size"] for entity in again.values()] == [5, 6, 7]
    assert [entity.tree["part"]["x"] for entity in again.values()] == [1, 2, 3]


def test_a_gap_that_was_asked_for_can_be_filled_in_the_rdf_it_became(tmp_path):
    source = tmp_path / "kb.ttl"
    kbdisk.write(kbdisk.load(b'{"id": "a", "size": null, "near": 1}\n{"id": "b", "size": 5}\n', format="jsonl"), source)
    kb = kbdisk.load(source)
    assert list(kb["a"].asked()) == [("size",)]
    completion = Completion(kb["a"], {("size",): Filled(7)})
    target = tmp_path / "out.ttl"
    assert kbdisk.write([completion], target).written == 1
    assert target.read_bytes().startswith(source.read_bytes())
    again = kbdisk.load(target)["a"]
    assert again.made == {("size",): 7}
    assert kbdisk.write([Completion(again, {("size",): Filled(7)})], tmp_path / "twice.ttl").written == 0
    assert (tmp_path / "twice.ttl").read_bytes() == target.read_bytes()


def test_a_value_known_to_exist_stays_so():
    data, _ = anew([Entity("a", {"near": SOMEVALUE})])
    assert read(data)["a"].tree == {"near": SOMEVALUE}
