"""Folding: what becomes a part of its owner, and what stays an entity of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each

from kbdisk.entity import SOMEVALUE, Coordinate, Date, Link, Quantity, Text, walk
from kbdisk.loaders import load
from kbdisk.loaders.rdf.fold import MAX_FOLD_DEPTH, label_of

E = """
@prefix : <http://e/> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix s: <http://schema.org/> .
@prefix ss: <https://schema.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
@prefix gsp: <http://www.opengis.net/ont/geosparql#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix om: <http://www.ontology-of-units-of-measure.org/resource/om-2/> .
@prefix time: <http://www.w3.org/2006/time#> .
@prefix cdt: <https://w3id.org/cdt/> .
@prefix dbt: <http://dbpedia.org/datatype/> .
@prefix edtf: <http://id.loc.gov/datatypes/edtf/> .
@prefix wikibase: <http://wikiba.se/ontology#> .
"""
KM = "http://qudt.org/vocab/unit/KiloM"


def read(text, **options):
    """Entities by the last word of their id."""
    return {
        entity.id.removeprefix("http://e/"): entity for entity in load((E + text).encode(), format="turtle", **options)
    }


def trees(text):
    return {id: entity.tree for id, entity in read(text).items()}


def bare(value):
    """A tree without the ids of its parts."""
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key != "@id"}
    return [bare(one) for one in value] if isinstance(value, list) else value


# ---------------------------------------------------------------- parts


def test_a_blank_node_of_one_owner_is_a_part_of_it():
    found = trees(":a :p [ :q 1 ; :r [ a :T ; :s 2 ] ] .")
    assert found == {"a": {"p": {"@id": "_:[0]", "q": 1, "r": {"@id": "_:[1]", "@type": ["http://e/T"], "s": 2}}}}


def test_several_parts_are_a_list_of_them():
    assert bare(trees(":a :p [ :q 1 ], [ :q 2 ], 3 .")) == {"a": {"p": [{"q": 1}, {"q": 2}, 3]}}


def test_a_labelled_blank_node_folds_wherever_it_stands():
    assert trees("_:x :q 1 . :b :r 2 . :a :p _:x .") == {"b": {"r": 2}, "a": {"p": {"@id": "_:x", "q": 1}}}


def test_a_blank_node_that_nobody_points_to_is_an_entity():
    assert trees("[] :p 1 . [ :q 2 ] :p 3 . _:x :p 4 .") == {
        "_:[0]": {"p": 1},
        "_:[1]": {"q": 2, "p": 3},
        "_:x": {"p": 4},
    }


def test_a_blank_node_of_two_owners_is_an_entity():
    assert trees(":a :p _:x . :b :p _:x . _:x :q 1 .") == {
        "a": {"p": Link("_:x")},
        "b": {"p": Link("_:x")},
        "_:x": {"q": 1},
    }


def test_a_blank_node_under_two_properties_of_one_owner_is_an_entity():
    assert trees(":a :p _:x ; :q _:x . _:x :r 1 .")["a"] == {"p": Link("_:x"), "q": Link("_:x")}


def test_a_triple_told_twice_shares_nothing():
    assert bare(trees(":a :p _:x . _:x :r 1 . :a :p _:x .")) == {"a": {"p": {"r": 1}}}


@for_each(
    "text",
    ["_:x :p _:x .", "_:x :p _:y . _:y :p _:x .", "_:x :p _:y . _:y :p _:z . _:z :p _:x ."],
)
def test_blank_nodes_on_a_circle_are_entities(text):
    found = trees(text)
    assert len(found) == text.count(".")
    assert all(isinstance(tree["p"], Link) for tree in found.values())


def test_what_hangs_from_a_circle_folds():
    assert trees("_:x :p _:y . _:y :p _:x ; :q _:z . _:z :r 1 .")["_:y"] == {
        "p": Link("_:x"),
        "q": {"@id": "_:z", "r": 1},
    }


def test_a_blank_node_of_which_nothing_is_told_is_known_to_be_something():
    assert trees(":a :p [] ; :q [], 1 . :b :p _:x .") == {
        "a": {"p": SOMEVALUE, "q": [SOMEVALUE, 1]},
        "b": {"p": SOMEVALUE},
    }


def test_a_shared_blank_node_of_which_nothing_is_told_stays_a_link():
    assert trees(":a :p _:x . :b :p _:x .") == {"a": {"p": Link("_:x")}, "b": {"p": Link("_:x")}}


@for_each("depth", [MAX_FOLD_DEPTH - 1, MAX_FOLD_DEPTH, MAX_FOLD_DEPTH + 1, 3 * MAX_FOLD_DEPTH, 20_000])
def test_brackets_nest_as_deep_as_they_like(depth):
    found = trees(":a :p " + "[ :p " * depth + "'in'" + "]" * depth + " .")
    assert len(found) == 1 + max(0, -(-(depth - MAX_FOLD_DEPTH) // (MAX_FOLD_DEPTH + 1)))
    values = [value for tree in found.values() for _, value in walk(tree)]
    assert values.count("in") == 1
    linked = {value.id for value in values if isinstance(value, Link)}
    assert linked == found.keys() - {"a"}


def test_a_long_circle_and_a_long_chain_crash_nothing():
    chain = "".join(f"_:n{i} :p _:n{i + 1} .\n" for i in range(20_000))
    assert len(trees(chain + "_:n20000 :p _:n0 .")) == 20_001
    assert len(trees(chain)) < 1000


# ---------------------------------------------------------------- collections


@for_each(
    ("text", "value"),
    [
        ("()", []),
        ("(1)", [1]),
        ("(1 'x' :b true)", [1, "x", Link("http://e/b"), True]),
        ("(1 1 1)", [1, 1, 1]),
        ("((1) (2 3) () ((4)))", [[1], [2, 3], [], [[4]]]),
        ("([ :q 1 ] [ :q (2) ])", [{"q": 1}, {"q": [2]}]),
        ("( [] )", [SOMEVALUE]),
        ("(1), (2)", [[1], [2]]),
        ("(1), 5", [[1], 5]),
        ("[ a rdf:List ; rdf:first 1 ; rdf:rest [ a rdf:List ; rdf:first 2 ; rdf:rest () ] ]", [1, 2]),
    ],
)
def test_a_collection_is_a_list(text, value):
    assert bare(trees(f":a :p {text} .")) == {"a": {"p": value}}


def test_a_long_collection_is_one_list():
    assert trees(":a :p (" + " ".join(map(str, range(20_000))) + ") .") == {"a": {"p": list(range(20_000))}}


def test_collections_in_collections_nest_as_deep_as_they_like():
    found = trees(":a :p " + "(" * 30_000 + ")" * 30_000 + " .")
    assert len(found) > 100
    assert all(isinstance(value, Link | list) or value == [] for tree in found.values() for value in tree.values())


MALFORMED = [
    "_:l rdf:first 1 .",
    "_:l rdf:first 1 ; rdf:rest :b .",
    "_:l rdf:first 1 ; rdf:rest 5 .",
    "_:l rdf:first 1, 2 ; rdf:rest () .",
    "_:l rdf:first 1 ; rdf:rest (), (2) .",
    "_:l rdf:first 1 ; rdf:rest _:l .",
    "_:l rdf:first 1 ; rdf:rest _:m . _:m rdf:first 2 ; rdf:rest _:l .",
    "_:l rdf:first 1 ; rdf:rest () ; :more 2 .",
    "_:l a :T ; rdf:first 1 ; rdf:rest () .",
    "_:l rdf:first 1 ; rdf:rest () . :b :p _:l .",
    "_:l rdf:first 1 ; rdf:rest _:m . _:m rdf:first 2 ; rdf:rest () . :b :p _:m .",
]


@for_each("text", MALFORMED)
def test_a_collection_that_is_not_well_formed_loses_nothing(text):
    found = trees(":a :p _:l . " + text)
    assert found["a"] == {"p": Link("_:l")}
    assert {"rdf:first"} <= found["_:l"].keys()
    assert not any(key in ("@first", "@rest") for tree in found.values() for key in tree)


def test_a_rest_without_a_first_is_a_part_with_a_property():
    assert trees(":a :p [ rdf:rest () ] .") == {"a": {"p": {"@id": "_:[0]", "rdf:rest": []}}}


def test_collections_that_share_a_tail_are_entities():
    text = ":a :p _:l . :b :p _:k . _:l rdf:first 1 ; rdf:rest _:t . _:k rdf:first 0 ; rdf:rest _:t . _:t rdf:first 2 ; rdf:rest () ."
    assert trees(text)["_:t"] == {"rdf:first": 2, "rdf:rest": []}
    assert trees(text)["_:k"] == {"rdf:first": 0, "rdf:rest": Link("_:t")}


def test_a_collection_with_an_iri_is_an_entity():
    assert trees(":l rdf:first 1 ; rdf:rest () . :a :p :l .")["l"] == {"rdf:first": 1, "rdf:rest": []}


def test_a_collection_that_an_entity_has_first_is_a_list():
    assert trees(":l rdf:first ( 1 2 ) ; rdf:rest () .")["l"] == {"rdf:first": [1, 2], "rdf:rest": []}
    shared = ":a :p _:x . :b :p _:x . _:x rdf:first ( 1 2 ) ; rdf:rest () ."
    assert trees(shared)["_:x"] == {"rdf:first": [1, 2], "rdf:rest": []}


def test_predicates_named_first_are_no_collections():
    assert trees(":a :first 1 ; :rest [ :first 2 ] .") == {"a": {"first": 1, "rest": {"@id": "_:[0]", "first": 2}}}


# ---------------------------------------------------------------- ids and values


def test_ids_of_anonymous_nodes_are_the_same_at_each_reading():
    text = E + ":a :p [ :q 1 ], [ :q 2 ] . [] :r 3 . _:[ :s 4 ] .".replace("_:[", "[")
    first, second = (list(load(text.encode(), format="turtle")) for _ in range(2))
    assert first == second
    kb = load(text.encode(), format="turtle")
    assert list(kb) == list(kb) == first


def test_a_label_that_looks_like_an_anonymous_id_is_a_label():
    found = trees(":a :p _:deadbeefdeadbeef . _:deadbeefdeadbeef :q [ :r 1 ] .")
    assert found == {"a": {"p": {"@id": "_:deadbeefdeadbeef", "q": {"@id": "_:[0]", "r": 1}}}}


def test_values_told_twice_are_told_once_and_kinds_are_kept_apart():
    values = trees(":a :p 1, 1, '1', true, 1.0, 'true', '1'@en, 'x', 'x' .")["a"]["p"]
    assert [(type(value), value) for value in values] == [
        (int, 1), (str, "1"), (bool, True), (float, 1.0), (str, "true"), (Text, Text("1", "en")), (str, "x"),
    ]  # fmt: skip


# ---------------------------------------------------------------- composites, end to end

QUANTITIES = [
    ("[ a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM ]", Quantity(1.5, KM)),
    ("[ qudt:value 2 ; qudt:unit unit:KiloM ]", Quantity(2, KM)),
    ("[ a s:QuantitativeValue ; s:value 140 ; s:unitCode 'GRM' ]", Quantity(140, "GRM")),
    ("[ a ss:QuantitativeValue ; ss:value 140 ; ss:unitText 'g' ]", Quantity(140, "g")),
    ("[ a s:MonetaryAmount ; s:value 9.5 ; s:currency 'EUR' ]", Quantity(9.5, "EUR")),
    ("[ a om:Measure ; om:hasNumericalValue 3 ; om:hasUnit :u ]", Quantity(3, "http://e/u")),
    ("'1.2 km'^^cdt:length", Quantity(1.2, "km")),
    ("'1.2 km'^^cdt:ucum", Quantity(1.2, "km")),
    ("'5'^^dbt:kilometre", Quantity(5, "kilometre")),
    ("[ a qudt:QuantityValue ; qudt:unit unit:KiloM ]", Quantity(None, KM)),
]
DATES = [
    ("'1912-11-28'^^xsd:date", Date(1912, 11, 28)),
    ("'-0044-03-15'^^xsd:date", Date(-44, 3, 15)),
    ("'1912'^^xsd:gYear", Date(1912)),
    ("'1912-11'^^xsd:gYearMonth", Date(1912, 11)),
    ("'--11-28'^^xsd:gMonthDay", Date(None, 11, 28)),
    ("'1912-11-28T12:00:00Z'^^xsd:dateTime", Date(1912, 11, 28, time="T12:00:00Z")),
    ("[ a time:Instant ; time:inXSDDate '1912-11-28'^^xsd:date ]", Date(1912, 11, 28)),
    ("[ a time:Instant ; time:inDateTime [ a time:DateTimeDescription ; time:year '1912'^^xsd:gYear ] ]", Date(1912)),
    ("'198X'^^edtf:EDTF", Date(1980, precision="decade")),
]
PLACES = [
    ("[ a geo:Point ; geo:lat 41.3 ; geo:long 19.8 ]", Coordinate(41.3, 19.8)),
    ("[ a s:GeoCoordinates ; s:latitude 41.3 ; s:longitude 19.8 ]", Coordinate(41.3, 19.8)),
    ("'POINT(19.8 41.3)'^^gsp:wktLiteral", Coordinate(41.3, 19.8)),
    ("[ a gsp:Geometry ; gsp:asWKT 'POINT(19.8 41.3)'^^gsp:wktLiteral ]", Coordinate(41.3, 19.8)),
]


@for_each(("text", "value"), [*QUANTITIES, *DATES, *PLACES])
def test_what_spells_out_one_value_is_that_value(text, value):
    assert trees(f":a :p {text} .") == {"a": {"p": value}}
    assert bare(trees(f":a :p [ :q {text} ] .")) == {"a": {"p": {"q": value}}}
    assert trees(f":a :p ( {text} {text} ) .") == {"a": {"p": [value, value]}}
    assert trees(f":a :p {text}, 'other' .")["a"] == {"p": [value, "other"]}


def test_value_nodes_that_entities_share_are_in_each_of_them():
    text = ":a :p {0} . {0} a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM . :b :q {0} ."
    for node in (":v", "_:v"):
        assert trees(text.format(node)) == {"a": {"p": Quantity(1.5, KM)}, "b": {"q": Quantity(1.5, KM)}}


def test_a_value_node_that_nobody_uses_is_an_entity():
    found = read(":v a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM .")
    assert found["v"].tree == {"numericValue": 1.5, "unit": Link(KM)}


def test_a_node_that_says_more_than_its_value_stays_a_part():
    text = ":a :p [ a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit unit:KiloM ; :by :me ] ."
    assert trees(text)["a"]["p"] == {
        "@id": "_:[0]", "@type": ["http://qudt.org/schema/qudt/QuantityValue"],
        "numericValue": 1.5, "unit": Link(KM), "by": Link("http://e/me"),
    }  # fmt: skip


def test_a_thing_with_latitude_and_longitude_has_a_coordinate():
    assert trees(":a geo:lat 41.3 ; geo:long 19.8 ; :n 1 . :b geo:lat 41.3 .") == {
        "a": {"n": 1, "coordinate": Coordinate(41.3, 19.8)},
        "b": {"lat": 41.3},
    }


@for_each("text", ["geo:lat 'north' ; geo:long 1", "geo:lat 1, 2 ; geo:long 1", "geo:lat 91 ; geo:long 1"])
def test_a_pair_that_is_no_place_stays_a_pair(text):
    assert trees(f":a {text} .")["a"].keys() == {"lat", "long"}


def test_a_property_called_coordinate_is_not_hidden_by_a_pair():
    assert trees(":a geo:lat 41.3 ; geo:long 19.8 ; :coordinate 'x' .")["a"] == {
        "lat": 41.3,
        "long": 19.8,
        "coordinate": "x",
    }


# ---------------------------------------------------------------- labels


@for_each("predicate", ["rdfs:label", "skos:prefLabel", "s:name", "ss:name"])
def test_a_label_is_a_label_by_whichever_predicate(predicate):
    assert read(f":a {predicate} 'Ann' ; :name 'no' .")["a"].label == "Ann"


@for_each(
    ("names", "language", "label"),
    [
        ("'Albanien'@de, 'Albania'@en, 'x'", "en", "Albania"),
        ("'Albanien'@de, 'Albania'@en, 'x'", "de", "Albanien"),
        ("'Albanien'@de, 'Albania'@en, 'x'", "fr", "x"),
        ("'Albania'@en-GB, 'Albanien'@de-AT", "de", "Albanien"),
        ("'one'@pt, 'two'@pt-BR", "pt-BR", "two"),
        ("'Albanien'@de, 'Shqipëria'@sq", "en", "Albanien"),
        ("'de'@de, 'every'@mul", "en", "every"),
        ("'first'@en, 'second'@en", "en", "first"),
        ("5", "en", ""),
        ("5, 'x'@fr", "en", "x"),
        ("[ :q 1 ]", "en", ""),
    ],
)
def test_a_label_is_in_the_wanted_language_or_the_nearest_to_it(names, language, label):
    assert read(f":a rdfs:label {names} .", language=language)["a"].label == label


def test_the_wanted_language_counts_more_than_the_predicate():
    assert read(":a s:name 'Y'@en ; rdfs:label 'X'@fr .")["a"].label == "Y"
    assert read(":a s:name 'Y' ; rdfs:label 'X' .")["a"].label == "X"


def test_the_tree_keeps_every_name():
    assert read(":a rdfs:label 'X'@fr, 'Y'@en .")["a"].tree == {"label": [Text("X", "fr"), Text("Y", "en")]}


def test_nothing_has_no_label():
    assert label_of([], "en") == ""


# ---------------------------------------------------------------- any graph

NODES = [":a", ":b", "_:x", "_:y", "_:z"]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(NODES), st.sampled_from([":p", ":q", "rdf:first", "rdf:rest"]), st.sampled_from([*NODES, "1", "'x'", "()"])
        ),
        min_size=1,
        max_size=12,
        unique=True,
    )
)  # fmt: skip
def test_folding_loses_no_literal_and_invents_none(triples):
    found = read(" ".join(f"{subject} {predicate} {object} ." for subject, predicate, object in triples))
    values = [value for entity in found.values() for _, value in walk(entity.tree)]
    assert sum(value in (1, "x") for value in values) == sum(object in ("1", "'x'") for _, _, object in triples)
    subjects = {triple[0] for triple in triples}
    iris = {entity.id for entity in found.values() if not entity.id.startswith("_:")}
    assert iris == {"http://e/" + subject[1:] for subject in subjects if subject.startswith(":")}
