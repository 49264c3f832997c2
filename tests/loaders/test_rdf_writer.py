"""Writing completions into RDF: nothing that was there changes, and what is new looks like what was there."""

from __future__ import annotations

import gzip

import pytest
from fillings import SUFFIX, E, completions, filled
from judges import graph, says
from tables import for_each

import kbdisk
from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Link, Quantity, Text
from kbdisk.errors import WriteError
from kbdisk.loaders.rdf.value_nodes import recognised

HEAD = """@prefix : <http://ex.org/> .
@prefix ex: <http://ex.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix schema: <http://schema.org/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix om: <http://www.ontology-of-units-of-measure.org/resource/om-2/> .
@prefix cdt: <https://w3id.org/cdt/> .
@prefix dt: <http://dbpedia.org/datatype/> .
@prefix geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
@prefix gsp: <http://www.opengis.net/ont/geosparql#> .
"""


def check(folder, document, values, new, format="turtle", base=None, **how):
    """Fill values, and check what was added, whoever reads it; returns the new bytes."""
    data = document if isinstance(document, bytes) else document.encode()
    out, report = filled(folder, data, values, format, base, **how)
    assert report.unwritable == []
    assert report.written == sum(len(paths) for paths in values.values())
    assert out.startswith(data)
    own = {"base": base} if base else {}
    says(out, data + b"\n" + new.encode(), format, folder, **own)
    again, report = filled(folder, out, values, format, base, **how)
    assert again == out, "written twice, something changed"
    assert report.written == 0
    assert len(report.unwritable) == sum(len(paths) for paths in values.values())
    return out[len(data) :].decode()


# ---------------------------------------------------------------- the document stays


DOCUMENTS = {  # a document, what is filled, what is new
    "prefixes redefined halfway": (
        "@prefix a: <http://one/> . a:x a:size 5 .\n@prefix a: <http://two/> . a:y a:size 6 . a:z a:name 'z' .\n",
        {"http://two/z": {E + "size": 1}, "http://one/x": {"name": "n"}},
        f"<http://two/z> <{E}size> 1 . <http://one/x> <http://two/name> 'n' .",
    ),
    "a base redefined halfway": (
        "@base <http://one/> . <x> <size> 5 .\n@base <http://two/> . <y> <size> 6 . <z> <name> 'z' .",
        {"http://one/x": {"name": "n"}, "http://two/z": {"size": 7}},
        "<http://one/x> <http://two/name> 'n' . <http://two/z> <http://one/size> 7 .",
    ),
    "no newline at the end": (HEAD + ":a :size 5 . :b :name 'b' .", {"b": {"size": 7}}, ":b :size 7 ."),
    "a comment at the end": (HEAD + ":a :size 5 . :b :name 'b' . # the end", {"b": {"size": 7}}, ":b :size 7 ."),
    "carriage returns": (
        (HEAD + ":a :size 5 .\n:b :name 'b' .\n").replace("\n", "\r\n"),
        {"b": {"size": 7}},
        ":b :size 7 .",
    ),
    "our labels": (
        HEAD + ":a :part _:kbdisk1 , _:kbdisk2 . _:kbdisk1 :size 5 . _:kbdisk2 :size 6 . :b :name 'b' .",
        {"b": {("part", "size"): 7}},
        ":b :part [ :size 7 ] .",
    ),
    "our labels within a string": (
        HEAD + ":a :part [ :size 5 ] ; :name '_:kbdisk1' . :b :name '''\n_:kbdisk2''' .",
        {"b": {("part", "size"): 7}},
        ":b :part [ :size 7 ] .",
    ),
    "blank nodes with labels": (
        HEAD + ":a :part _:b0 . _:b0 :name 'b0' . :b :part _:b1 . _:b1 :size 5 ; :name 'b1' .",
        {"a": {("part", "size"): 7}},
        "_:b0 :size 7 .",
    ),
    "a blank node as entity": (
        HEAD + "_:b0 :name 'b0' . _:a1b2c3d4e5f60718 :name 'x' . :b :size 5 .",
        {"_:b0": {"size": 7}, "_:a1b2c3d4e5f60718": {"size": 8}},
        "_:b0 :size 7 . _:a1b2c3d4e5f60718 :size 8 .",
    ),
    "no prefix at all": ("<http://ex.org/a> <http://ex.org/p> 5 , 6 .", {"a": {("p", 2): 7}}, f"<{E}a> <{E}p> 7 ."),
    "prefixes as SPARQL has them": (
        "PREFIX x: <http://ex.org/>\nx:a x:size 5 . x:b x:name 'b' .",
        {"b": {"size": 7}},
        "x:b x:size 7 .",
    ),
    "a block of ours in the middle": (
        HEAD + ":a :size 5 .\n# kbdisk: begin - values filled in by kbdisk, not given\n:b :size 6 .\n# kbdisk: end\n"
        ":b :name 'b' . :c :name 'c' .\n",
        {"c": {"size": 7}},
        ":c :size 7 .",
    ),
    "an IRI that looks like a string": (
        HEAD + ":a :size 5 . <http://ex.org/%22> :name 'q' .",
        {"%22": {"size": 7}},
        "<http://ex.org/%22> :size 7 .",
    ),
}


@for_each("name", DOCUMENTS)
def test_every_byte_stays_and_what_is_new_stands_in_one_block_at_the_end(name, tmp_path):
    document, values, new = DOCUMENTS[name]
    block = check(tmp_path, document, values, new)
    assert block.count("# kbdisk: begin") == block.count("# kbdisk: end") == 1
    assert block.lstrip("\r\n").startswith("# kbdisk: begin")


def test_the_block_ends_its_lines_as_the_document_does(tmp_path):
    out, _ = filled(tmp_path, (HEAD + ":a :size 5 .\n:b :name 'b' .").replace("\n", "\r\n"), {"b": {"size": 7}})
    assert b"\n" not in out.replace(b"\r\n", b"")


def test_a_byte_order_mark_stays(tmp_path):
    document = b"\xef\xbb\xbf" + (HEAD + ":a :size 5 . :b :name 'b' .").encode()
    check(tmp_path, document, {"b": {"size": 7}}, ":b :size 7 .")


def test_relative_iris_with_a_base_from_outside(tmp_path):
    document = "<a> <size> 5 . <b> <name> 'b' ."
    base = "http://my.example/kb/"
    block = check(tmp_path, document, {base + "b": {"size": 7}}, f"<{base}b> <{base}size> 7 .", base=base)
    assert "<b> <size> 7" in block


def test_a_value_that_was_refused_leaves_the_document_as_it_was(tmp_path):
    document = HEAD + ":a :size 5 ."
    out, report = filled(tmp_path, document, {"a": {"size": 7}})
    assert out == document.encode()
    assert report.written == 0
    assert report.unwritable == [(E + "a", ("size",), "has a value already, and given values are never changed")]


GRAPHS = {
    "trig": (
        HEAD + ":g { :a :size 5 . :b :name 'b' } :c :name 'c' . GRAPH _:h { :d :name 'd' }",
        "GRAPH :g { :b :size 7 } :c :size 8 . GRAPH _:h { :d :size 9 }",
    ),
    "nquads": (
        f'<{E}a> <{E}size> "5"^^<http://www.w3.org/2001/XMLSchema#integer> <{E}g> .\n<{E}b> <{E}name> "b" <{E}g> .\n'
        f'<{E}c> <{E}name> "c" .\n<{E}d> <{E}name> "d" _:h .',
        f'<{E}b> <{E}size> "7"^^<http://www.w3.org/2001/XMLSchema#integer> <{E}g> .\n'
        f'<{E}c> <{E}size> "8"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
        f'<{E}d> <{E}size> "9"^^<http://www.w3.org/2001/XMLSchema#integer> _:h .',
    ),
}


@for_each("format", GRAPHS)
def test_a_new_value_stands_in_the_graph_of_its_entity(format, tmp_path):
    document, new = GRAPHS[format]
    check(tmp_path, document, {"b": {"size": 7}, "c": {"size": 8}, "d": {"size": 9}}, new, format)


def test_a_part_keeps_to_its_own_graph(tmp_path):
    document = HEAD + ":a :size 5 ; :part _:p . GRAPH :g { _:p :name 'p' }"
    check(tmp_path, document, {"a": {("part", "size"): 7}}, "GRAPH :g { _:p :size 7 }", "trig")


def test_a_graph_without_a_name_cannot_be_reached(tmp_path):
    document = HEAD + "[] { :a :size 5 . :b :name 'b' }"
    out, report = filled(tmp_path, document, {"b": {"size": 7}}, "trig")
    assert out == document.encode()
    assert "a graph without a name" in report.unwritable[0][2]


@for_each("format", ["turtle", "ntriples", "nquads", "trig"])
def test_of_a_gzip_file_the_stored_bytes_stay_and_one_more_member_follows(format, tmp_path):
    text = f'<{E}a> <{E}size> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .\n<{E}b> <{E}name> "b" .'
    stored = gzip.compress(text.encode())
    source = tmp_path / f"in.{SUFFIX[format]}.gz"
    source.write_bytes(stored)
    kb = kbdisk.load(source)
    target = tmp_path / f"out.{SUFFIX[format]}.gz"
    assert kbdisk.write(kb, target).written == 0
    assert target.read_bytes() == stored
    kbdisk.write(completions(kb, {"b": {"size": 7}}), target, force=True)
    assert target.read_bytes().startswith(stored)
    new = f'\n<{E}b> <{E}size> "7"^^<http://www.w3.org/2001/XMLSchema#integer> .'
    assert graph(gzip.decompress(target.read_bytes()), format) == graph(text.encode() + new.encode(), format)
    again = tmp_path / f"again.{SUFFIX[format]}.gz"
    assert kbdisk.write(completions(kbdisk.load(target), {"b": {"size": 7}}), again).written == 0
    assert again.read_bytes() == target.read_bytes()


# ---------------------------------------------------------------- the shape of what is new


SHAPES = {  # what other entities have, a value, how it is written
    "a sign and three decimals": (':a :size "+965.465" , "+7.125" .', "size", 3.5, ':b :size "+3.500" .'),
    "decimals": (":a :size 965.465 , 7.125 .", "size", 3.5, ":b :size 3.500 ."),
    "exponents": (":a :size 9.5E2 , 1.0E3 .", "size", 3000.0, ":b :size 3.0E3 ."),
    "a datatype": (':a :size "5"^^xsd:int .', "size", 7, ':b :size "7"^^xsd:int .'),
    "a year": (':a :born "1950"^^xsd:gYear .', "born", Date(1990), ':b :born "1990"^^xsd:gYear .'),
    "a year that is a number": (":a :born 1950 .", "born", Date(1990), ":b :born 1990 ."),
    "a day": (':a :born "1950-01-01"^^xsd:date .', "born", Date(1990, 5, 3), ':b :born "1990-05-03"^^xsd:date .'),
    "a language": (":a :title 'A'@de .", "title", "B", ":b :title 'B'@de ."),
    "its own language": (":a :title 'A'@de , 'A'@en .", "title", Text("B", "en"), ":b :title 'B'@en ."),
    "a link": (":a :near :c .", "near", Link(E + "a"), ":b :near :a ."),
    "several": (":a :near :c .", "near", [Link(E + "a"), Link(E + "c")], ":b :near :a , :c ."),
    "a point": (
        ':a :at "Point(1.5 2)"^^gsp:wktLiteral .',
        "at",
        Coordinate(4, 3),
        ':b :at "Point(3 4)"^^gsp:wktLiteral .',
    ),
    "schema.org": (
        ":a :size [ a schema:QuantitativeValue ; schema:value 5 ; schema:unitCode 'KGM' ] .",
        "size",
        Quantity(7, "KGM"),
        ":b :size [ a schema:QuantitativeValue ; schema:value 7 ; schema:unitCode 'KGM' ] .",
    ),
    "QUDT": (
        ":a :size [ a qudt:QuantityValue ; qudt:numericValue 5.5 ; qudt:unit unit:M ] .",
        "size",
        Quantity(7.25, "http://qudt.org/vocab/unit/KiloM"),
        ":b :size [ a qudt:QuantityValue ; qudt:numericValue 7.25 ; qudt:unit unit:KiloM ] .",
    ),
    "OM": (
        ":a :size [ a om:Measure ; om:hasNumericalValue '5'^^xsd:float ; om:hasUnit om:metre ] .",
        "size",
        Quantity(7, "http://www.ontology-of-units-of-measure.org/resource/om-2/metre"),
        ":b :size [ a om:Measure ; om:hasNumericalValue '7'^^xsd:float ; om:hasUnit om:metre ] .",
    ),
    "UCUM": (':a :size "5 kg"^^cdt:mass .', "size", Quantity(7, "kg"), ':b :size "7 kg"^^cdt:mass .'),
    "DBpedia": (':a :size "5"^^dt:kilogram .', "size", Quantity(7, "kilogram"), ':b :size "7"^^dt:kilogram .'),
    "a quantity by its parts": (
        ":a :size [ a schema:QuantitativeValue ; schema:value 5 ; schema:unitCode 'KGM' ] .",
        "size",
        {"value": 7, "unit": "KGM"},
        ":b :size [ a schema:QuantitativeValue ; schema:value 7 ; schema:unitCode 'KGM' ] .",
    ),
    "a part": (
        ":a :part [ a :Part ; :size 5 ; :year '1950'^^xsd:gYear ] .",
        "part",
        {"size": 7, "year": Date(1990)},
        ":b :part [ a :Part ; :size 7 ; :year '1990'^^xsd:gYear ] .",
    ),
    "a collection": (":a :list ( 1.50 2.25 ) .", "list", [3.5, 4.0], ":b :list ( 3.50 4.00 ) ."),
    "a place": (
        ":a geo:lat 1.50 ; geo:long 2.50 .",
        "coordinate",
        Coordinate(3.5, 4),
        ":b geo:lat 3.50 ; geo:long 4.00 .",
    ),
    "known to exist": (":a :near :c .", "near", SOMEVALUE, ":b :near [] ."),
    "a new property by its short form": (":a :size 5 .", "ex:weight", 7.5, ":b :weight 7.5 ."),
    "a new property by its IRI": (":a :size 5 .", "http://new.org/weight", 7, ":b <http://new.org/weight> 7 ."),
    "a property by its IRI": (":a :size '5'^^xsd:int .", E + "size", 7, ":b :size '7'^^xsd:int ."),
}


@for_each("name", SHAPES)
def test_a_new_value_takes_the_shape_that_its_property_has(name, tmp_path):
    given, key, value, new = SHAPES[name]
    check(tmp_path, f"{HEAD}{given}\n:b :name 'b' .\n", {"b": {key: value}}, new)


def test_new_values_are_spelt_with_the_prefixes_and_the_shorthand_of_the_document(tmp_path):
    block = check(tmp_path, HEAD + ":a :size 5 . :b :name 'b' .\n", {"b": {"size": 7}}, ":b :size 7 .")
    assert block.splitlines()[1] == ":b :size 7 ."


def test_several_values_of_one_part_make_one_part(tmp_path):
    document = HEAD + ":a :part [ :size 5 ; :year 1950 ] . :b :name 'b' ."
    values = {("part", "size"): 7, ("part", "year"): 1990}
    check(tmp_path, document, {"b": values}, ":b :part [ :size 7 ; :year 1990 ] .")


def test_parts_are_recognised_once_however_many_are_written(tmp_path, monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return recognised(*arguments)

    monkeypatch.setattr("kbdisk.loaders.rdf.styles.recognised", counted)
    document = HEAD + "".join(f":a{n} :part [ :size {n} ] . " for n in range(5)) + ":b :name 'b' . :c :name 'c' ."
    counts = []
    for ids in ["b"], ["b", "c"]:
        calls.clear()
        filled(tmp_path, document, {id: {("part", "size"): 7} for id in ids})
        counts.append(len(calls))
    assert counts[0] == counts[1] > 0


def test_parts_of_a_list_by_their_indices(tmp_path):
    document = HEAD + ":a :part [ :size 5 ; :year 1950 ] . :b :name 'b' ."
    values = {("part", 0, "size"): 7, ("part", 1, "size"): 8, ("part", 0, "year"): 1990}
    check(tmp_path, document, {"b": values}, ":b :part [ :size 7 ; :year 1990 ] , [ :size 8 ] .")


def test_one_more_value_beside_those_that_are_given(tmp_path):
    document = HEAD + ":a :near :b . :b :near :a , :c ."
    check(
        tmp_path,
        document,
        {"a": {("near", 1): Link(E + "c")}, "b": {("near", 2): Link(E + "d")}},
        ":a :near :c . :b :near :d .",
    )


HALVES = {  # an entity that lacks something of a value, a path, the missing half, what is new
    "a unit": (
        ":a :size _:q . _:q a schema:QuantitativeValue ; schema:value 5 . :b :size [ a schema:QuantitativeValue ;"
        " schema:value 5 ; schema:unitText 'kg' ] .",
        ("size", "unit"),
        "kg",
        "_:q schema:unitText 'kg' .",
    ),
    "a unit, as a whole": (
        ":a :size _:q . _:q a schema:QuantitativeValue ; schema:value 5 .",
        ("size",),
        Quantity(5, "KGM"),
        "_:q schema:unitCode 'KGM' .",
    ),
    "a number": (
        ":a :size _:q . _:q a qudt:QuantityValue ; qudt:unit unit:M . :b :size [ a qudt:QuantityValue ; qudt:unit unit:M ;"
        " qudt:numericValue 1.50 ] .",
        ("size", "value"),
        3,
        "_:q qudt:numericValue 3.00 .",
    ),
    "the second of two": (
        ":a :size _:q , _:r . _:q a schema:QuantitativeValue ; schema:value 5 ; schema:unitText 'kg' ."
        "_:r a schema:QuantitativeValue ; schema:value 6 .",
        ("size", 1, "unit"),
        "g",
        "_:r schema:unitText 'g' .",
    ),
    "a longitude": (":a geo:lat 1.50 . :b geo:lat 1.25 ; geo:long 2.25 .", ("long",), 3, ":a geo:long 3.00 ."),
    "a longitude of a place": (
        ":a geo:lat 1.50 . :b geo:lat 1.25 ; geo:long 2.25 .",
        ("coordinate", "longitude"),
        3,
        ":a geo:long 3.00 .",
    ),
    "a place": (
        ":a geo:lat 1.50 . :b geo:lat 1.25 ; geo:long 2.25 .",
        ("coordinate",),
        Coordinate(1.5, 3),
        ":a geo:long 3.00 .",
    ),
    "a latitude of a node": (
        ":a :at _:p . _:p a geo:Point ; geo:long 2.25 . :b :at [ a geo:Point ; geo:lat 1.25 ; geo:long 2 ] .",
        ("at", "latitude"),
        3,
        "_:p geo:lat 3.00 .",
    ),
}


@for_each("name", HALVES)
def test_the_missing_half_of_a_value_is_added_to_its_node(name, tmp_path):
    given, path, value, new = HALVES[name]
    check(tmp_path, HEAD + given, {"a": {path: value}}, new)


def test_a_node_that_two_entities_share_is_completed_once(tmp_path):
    document = HEAD + ":a :size :q . :b :size :q . :q a schema:QuantitativeValue ; schema:value 5 ."
    check(
        tmp_path, document, {"a": {("size", "unit"): "kg"}, "b": {("size", "unit"): "kg"}}, ":q schema:unitCode 'kg' ."
    )
    _, report = filled(tmp_path, document, {"a": {("size", "unit"): "kg"}, "b": {("size", "unit"): "g"}})
    assert report.written == 1
    assert "shares its node" in report.unwritable[0][2]


# ---------------------------------------------------------------- what is refused


REFUSED = {
    "a given value": (":b :size 5 .", "size", 7, "has a value already"),
    "the same value again": (":b :size 5 .", ("size", 1), 5, "has a value already"),
    "one of several": (":b :size 5 , 6 .", "size", 7, "has a value already"),
    "which of several parts": (
        ":b :part [ :size 5 ] , [ :size 6 ] .",
        ("part", "year"),
        7,
        "say which, such as part[0]",
    ),
    "a unit that is there": (
        ":b :size [ a schema:QuantitativeValue ; schema:value 5 ; schema:unitText 'kg' ] .",
        ("size", "unit"),
        "g",
        "has a value already",
    ),
    "a number where a part of a quantity is given": (
        ":b :size [ a schema:QuantitativeValue ; schema:unitText 'kg' ] . :a :size 5 .",
        "size",
        5,
        "expected a quantity, as a part of one is given, got 5",
    ),
    "half of a place that differs": (
        ":b geo:lat 1 . :a geo:lat 1 ; geo:long 2 .",
        "coordinate",
        Coordinate(2, 3),
        "has a value",
    ),
    "a collection": (":b :list ( 1 2 ) .", ("list", 2), 3, "is a collection"),
    "an empty collection": (":b :list () .", ("list", 0), 3, "is a collection"),
    "an unknown key": (":b :size 5 .", "weight", 7, "no predicate is called 'weight' here; say its whole IRI"),
    "an unknown prefix": (":b :size 5 .", "exx:weight", 7, "no predicate is called 'exx:weight'"),
    "metadata": (":b a :Thing .", "@type", Link(E + "c"), "is no property"),
    "the class": (":b :size 5 .", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", Link(E + "c"), "is the class"),
    "nothing": (":a :size 5 . :b :name 'b' .", "size", None, "there is nothing to write"),
    "no values": (":a :size 5 . :b :name 'b' .", "size", [], "there is nothing to write"),
    "known not to exist": (":a :size 5 . :b :name 'b' .", "size", NOVALUE, "known not to exist"),
    "a year where days are": (":a :born '1950-01-01'^^xsd:date . :b :name 'b' .", "born", Date(1990), ""),
    "a word where numbers are": (":a :size 5 . :b :name 'b' .", "size", "big", "expected a number"),
    "a part where values are": (":a :size 5 . :b :name 'b' .", ("size", "x"), 1, "got a part"),
    "a lone surrogate": (":a :size 'x' . :b :name 'b' .", "size", "\ud800", "UTF-8"),
    "an anonymous bracket": (":b :part [ :name 'p' ] . :a :size 5 .", ("part", "size"), 1, "only insert=True reaches"),
    "a link to an anonymous bracket": (":b :name 'b' . :a :near [ :near :a ] .", "near", Link("_:[0]"), "anonymous"),
    "no bracket in a place that is given": (":b :size 5 .", ("size", "value", "x"), 1, "has a value already"),
    "a fraction where whole numbers are": (":a :n '5'^^xsd:int . :b :name 'b' .", "n", 5.5, "whole number"),
}


@for_each("name", REFUSED)
def test_what_has_no_place_is_reported_and_nothing_is_written(name, tmp_path):
    given, path, value, reason = REFUSED[name]
    document = HEAD + given
    out, report = filled(tmp_path, document, {"b": {path: value}})
    assert out == document.encode()
    assert report.written == 0
    [(id, where, why)] = report.unwritable
    assert (id, where) == (E + "b", path if isinstance(path, tuple) else (path,))
    assert reason in why


def test_a_value_that_has_a_place_is_written_beside_one_that_has_none(tmp_path):
    out, report = filled(
        tmp_path, HEAD + ":a :size 5 . :b :name 'b' .", {"b": {"size": 7, "name": "c"}, "a": {"name": "a"}}
    )
    assert report.written == 2
    assert [path for _, path, _ in report.unwritable] == [("name",)]
    assert out.decode().endswith(':b :size 7 .\n:a :name "a" .\n# kbdisk: end\n') or b":a :name" in out


def test_another_value_for_what_was_filled_before_is_refused(tmp_path):
    document = HEAD + ":a :size 5 ; :part [ :size 1 ; :year 2 ] . :b :name 'b' ."
    out, _ = filled(tmp_path, document, {"b": {"size": 7, ("part", "size"): 1}, "a": {("size", 1): 6}})
    again, report = filled(tmp_path, out, {"b": {"size": 8, ("part", "year"): 1}, "a": {("size", 1): 7}})
    assert again == out
    assert {why for _, _, why in report.unwritable} == {
        "was filled before; take that block out of the source to fill it again"
    }


def test_given_beside_what_was_filled_stays_given(tmp_path):
    document = HEAD + ":a :size 5 ; :part _:p . _:p :size 1 . :b :part _:q . _:q :size 2 ; :year 3 ."
    out, _ = filled(tmp_path, document, {"a": {("size", 1): 6, ("part", "year"): 4}})
    kb = kbdisk.load(out, format="turtle")
    assert kb[E + "a"].tree["size"] == 5
    assert dict(kb[E + "a"].made) == {("size", 1): 6, ("part", "year"): 4}
    assert kb[E + "b"].made is None


# ---------------------------------------------------------------- brackets


BRACKETS = {  # a document, a path, a value, the document as it shall say
    "one": (
        ":a :part [ :name 'p' ] . :b :size 5 .",
        ("part", "size"),
        7,
        ":a :part [ :name 'p' ; :size 7 ] . :b :size 5 .",
    ),
    "nested": (
        ":a :part [ :part [ :name 'q' ] ; :name 'p' ] . :b :size 5 .",
        ("part", "part", "size"),
        7,
        ":a :part [ :part [ :name 'q' ; :size 7 ] ; :name 'p' ] . :b :size 5 .",
    ),
    "the second of two": (
        ":a :part [ :name 'p' ] , [ :name 'q' ] . :b :size 5 .",
        ("part", 1, "size"),
        7,
        ":a :part [ :name 'p' ] , [ :name 'q' ; :size 7 ] . :b :size 5 .",
    ),
    "a semicolon at its end": (
        ":a :part [ :name 'p' ; ] . :b :size 5 .",
        ("part", "size"),
        7,
        ":a :part [ :name 'p' ; :size 7 ] . :b :size 5 .",
    ),
    "a missing unit": (
        ":a :size [ a schema:QuantitativeValue ; schema:value 5 ] .",
        ("size", "unit"),
        "KGM",
        ":a :size [ a schema:QuantitativeValue ; schema:value 5 ; schema:unitCode 'KGM' ] .",
    ),
    "a missing unit as others have it": (
        ":a :size [ a schema:QuantitativeValue ; schema:value 5 ] . :b :size [ a schema:QuantitativeValue ; schema:value 5 ;"
        " schema:unitText 'kg' ] .",
        ("size", "unit"),
        "kg",
        ":a :size [ a schema:QuantitativeValue ; schema:value 5 ; schema:unitText 'kg' ] . :b :size"
        " [ a schema:QuantitativeValue ; schema:value 5 ; schema:unitText 'kg' ] .",
    ),
    "a new part within": (
        ":a :part [ :name 'p' ] . :b :size 5 ; :sub [ :size 6 ] .",
        ("part", "sub", "size"),
        7,
        ":a :part [ :name 'p' ; :sub [ :size 7 ] ] . :b :size 5 ; :sub [ :size 6 ] .",
    ),
    "an entity of its own": ("[ :name 'x' ] . :b :size 5 .", None, 7, "[ :name 'x' ; :size 7 ] . :b :size 5 ."),
    "an entity of its own, and what it says": (
        "[ :name 'x' ] :near :b . :b :size 5 .",
        None,
        7,
        "[ :name 'x' ; :size 7 ] :near :b . :b :size 5 .",
    ),
    "in a collection": (
        ":a :list ( [ :name 'p' ] 2 ) . :b :size 5 .",
        ("list", 0, "size"),
        7,
        ":a :list ( [ :name 'p' ; :size 7 ] 2 ) . :b :size 5 .",
    ),
}


@for_each("name", BRACKETS)
@for_each("format", ["turtle", "trig"])
def test_with_insert_a_gap_within_a_bracket_is_filled_in_its_place(name, format, tmp_path):
    given, path, value, expected = BRACKETS[name]
    document = HEAD + given
    values = {"_:[0]" if path is None else "a": {path or "size": value}}
    _, refused = filled(tmp_path, document, values, format)
    assert "insert=True" in refused.unwritable[0][2]
    out, report = filled(tmp_path, document, values, format, insert=True)
    assert (report.written, report.unwritable) == (1, [])
    says(out, (HEAD + expected).encode(), format, tmp_path)
    at = next(i for i, (a, b) in enumerate(zip(out, document.encode(), strict=False)) if a != b)
    assert all(line in out.decode() for line in HEAD.splitlines())
    assert out[:at] == document.encode()[:at]
    again, report = filled(tmp_path, out, values, format, insert=True)
    assert again == out
    assert "was filled before" in report.unwritable[0][2]


def test_what_is_outside_of_brackets_goes_to_the_end_as_ever(tmp_path):
    document = HEAD + ":a :part [ :name 'p' ] . :b :size 5 ."
    values = {"a": {("part", "size"): 7, "size": 8}, "b": {"name": "b"}}
    out, report = filled(tmp_path, document, values, insert=True)
    assert report.written == 3
    says(
        out,
        (HEAD + ":a :part [ :name 'p' ; :size 7 ] ; :size 8 . :b :size 5 ; :name 'b' .").encode(),
        "turtle",
        tmp_path,
    )


def test_an_anonymous_node_without_anything_is_known_to_exist(tmp_path):
    out, report = filled(tmp_path, HEAD + ":a :part [] . :b :size 5 .", {"a": {("part", "size"): 7}}, insert=True)
    assert out.decode() == HEAD + ":a :part [] . :b :size 5 ."
    assert len(report.unwritable) == 1


# ---------------------------------------------------------------- RDF/XML and JSON-LD


RDFXML = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://ex.org/">
  <rdf:Description rdf:about="http://ex.org/a">
    <size rdf:datatype="http://www.w3.org/2001/XMLSchema#integer">5</size>
    <part><rdf:Description><name>p</name></rdf:Description></part>
  </rdf:Description>
  <Thing rdf:about="http://ex.org/b"/>
</rdf:RDF>
"""
JSONLD = """{"@context": {"@vocab": "http://ex.org/"}, "@graph": [
 {"@id": "http://ex.org/a", "size": 5, "part": {"name": "p"}},
 {"@id": "http://ex.org/b", "@type": "Thing"}]}
"""
SAME = "@prefix : <http://ex.org/> . :a :size 5 ; :part [ :name 'p' ; :size 8 ] . :b a :Thing ; :size 7 ."


@for_each(("format", "document"), [("rdfxml", RDFXML), ("jsonld", JSONLD)])
def test_rdf_xml_and_json_ld_take_in_what_is_new(format, document, tmp_path):
    values = {"b": {"size": 7}, "a": {("part", "size"): 8}}
    out, report = filled(tmp_path, document, values, format)
    assert (report.written, report.unwritable) == (2, [])
    says(out, SAME.encode(), format, tmp_path, expected_format="turtle")
    assert filled(tmp_path, document, values, format)[0] == out, "the same every time"
    again, report = filled(tmp_path, out, values, format)
    assert again == out
    assert report.written == 0


@for_each(("format", "document"), [("rdfxml", RDFXML), ("jsonld", JSONLD)])
def test_rdf_xml_and_json_ld_stay_to_the_byte_where_nothing_is_new(format, document, tmp_path):
    assert filled(tmp_path, document, {}, format)[0] == document.encode()
    out, report = filled(tmp_path, document, {"a": {"size": 7}}, format)
    assert out == document.encode()
    assert len(report.unwritable) == 1


# ---------------------------------------------------------------- a Wikibase


TRUTHY = """@prefix wd: <http://wb.org/entity/> . @prefix wdt: <http://wb.org/prop/direct/> .
@prefix wikibase: <http://wikiba.se/ontology#> . @prefix p: <http://wb.org/prop/> . @prefix ps: <http://wb.org/prop/statement/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix s: <http://wb.org/entity/statement/> .
wd:Q1 a wikibase:Item ; wdt:P1 "+5"^^xsd:decimal ; p:P3 s:1 . wd:Q2 a wikibase:Item ; wdt:P2 wd:Q1 .
s:1 a wikibase:Statement ; wikibase:rank wikibase:DeprecatedRank ; ps:P3 "x" .
"""


def test_a_wikibase_gets_truthy_triples(tmp_path):
    values = {
        "http://wb.org/entity/Q2": {"P1": 7.5},
        "http://wb.org/entity/Q1": {("P2", 0): Link("http://wb.org/entity/Q2")},
    }
    check(tmp_path, TRUTHY, values, 'wd:Q2 wdt:P1 "+7.5"^^xsd:decimal . wd:Q1 wdt:P2 wd:Q2 .')


def test_beside_statements_of_a_wikibase_no_truthy_triple_is_written(tmp_path):
    out, report = filled(tmp_path, TRUTHY, {"http://wb.org/entity/Q1": {"P3": "y"}})
    assert out == TRUTHY.encode()
    assert "QuickStatements" in report.unwritable[0][2]


# ---------------------------------------------------------------- failure


def test_a_target_that_exists_and_the_source_itself_are_safe(tmp_path):
    source = tmp_path / "kb.ttl"
    source.write_text(HEAD + ":a :size 5 . :b :name 'b' .")
    before = source.read_bytes()
    kb = kbdisk.load(source)
    with pytest.raises(WriteError, match="in_place=True"):
        kbdisk.write(completions(kb, {"b": {"size": 7}}), source)
    assert source.read_bytes() == before
    assert kbdisk.write(completions(kb, {"b": {"size": 7}}), source, in_place=True).written == 1
    assert source.read_bytes().startswith(before)
    assert kbdisk.load(source)[E + "b"].made == {("size",): 7}


def test_completions_that_fail_midway_leave_nothing_behind(tmp_path):
    kb = kbdisk.load((HEAD + ":a :size 5 . :b :name 'b' .").encode(), format="turtle")

    def some():
        yield from completions(kb, {"b": {"size": 7}})
        raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match="no space left"):
        kbdisk.write(some(), tmp_path / "out.ttl")
    assert list(tmp_path.iterdir()) == []
