"""Wikibase in RDF, truthy and full, folds into entities, whatever its base IRI."""

from __future__ import annotations

import json
from decimal import Decimal

import pyoxigraph
import pytest
from tables import for_each

import kbdisk
from kbdisk import NOVALUE, SOMEVALUE, Coordinate, Date, Link, Quantity, Text
from kbdisk.errors import KBDiskWarning
from kbdisk.loaders.rdf import stream, wikibase

WIKIBASE = "http://wikiba.se/ontology#"
PREFIXES = """
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix schema: <http://schema.org/> .
@prefix geo: <http://www.opengis.net/ont/geosparql#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix wd: <https://wiki.example/entity/> .
@prefix s: <https://wiki.example/entity/statement/> .
@prefix v: <https://wiki.example/value/> .
@prefix ref: <https://wiki.example/reference/> .
@prefix wdt: <https://wiki.example/prop/direct/> .
@prefix wdtn: <https://wiki.example/prop/direct-normalized/> .
@prefix p: <https://wiki.example/prop/> .
@prefix ps: <https://wiki.example/prop/statement/> .
@prefix psv: <https://wiki.example/prop/statement/value/> .
@prefix pq: <https://wiki.example/prop/qualifier/> .
@prefix pqv: <https://wiki.example/prop/qualifier/value/> .
@prefix pr: <https://wiki.example/prop/reference/> .
@prefix wdno: <https://wiki.example/prop/novalue/> .
"""
ITEM = "https://wiki.example/entity/"
UNIT = ITEM + "Q11573"
JULIAN = "http://www.wikidata.org/entity/Q1985786"


def entities(folder, turtle, **options):
    path = folder / "wiki.ttl"
    path.write_text(PREFIXES + turtle)
    return [one for one in kbdisk.load(path, **options)]  # noqa: C416 (list() would ask for the length first)


def tree(folder, turtle):
    [found] = entities(folder, turtle)
    assert found.id == ITEM + "Q1"
    return found.tree


def test_a_statement_says_what_its_value_node_says_wherever_that_stands(tmp_path):
    turtle = """
    v:1 a wikibase:QuantityValue ; wikibase:quantityAmount "+1.96"^^xsd:decimal ; wikibase:quantityUnit wd:Q11573 .
    wd:Q1 a wikibase:Item ; wdt:P1 "+1.96"^^xsd:decimal ; p:P1 s:1 ; p:P2 s:2 .
    s:1 a wikibase:Statement, wikibase:BestRank ; wikibase:rank wikibase:NormalRank ; ps:P1 "+1.96"^^xsd:decimal ; psv:P1 v:1 .
    s:2 a wikibase:Statement, wikibase:BestRank ; ps:P2 "1970-01-01T00:00:00Z"^^xsd:dateTime ; psv:P2 v:2 .
    wd:Q2 a wikibase:Item ; p:P1 s:3 .
    s:3 a wikibase:Statement, wikibase:BestRank ; ps:P1 "+1.96"^^xsd:decimal ; psv:P1 v:1 .
    v:2 a wikibase:TimeValue ; wikibase:timeValue "1970-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 8 ;
        wikibase:timeTimezone 0 ; wikibase:timeCalendarModel <http://www.wikidata.org/entity/Q1985727> .
    """
    first, second = entities(tmp_path, turtle)
    assert first.tree == {"P1": Quantity(1.96, UNIT), "P2": Date(1970, precision="decade")}
    assert second.tree == {"P1": Quantity(1.96, UNIT)}


def test_a_number_without_a_unit_is_a_number_and_places_know_their_globe(tmp_path):
    turtle = """
    wd:Q1 p:P1 s:1 ; p:P2 s:2 ; p:P3 s:3 ; wdt:P4 "<http://www.wikidata.org/entity/Q405> Point(2.5 -1)"^^geo:wktLiteral .
    s:1 a wikibase:BestRank ; psv:P1 [ wikibase:quantityAmount "+3"^^xsd:decimal ; wikibase:quantityUnit <http://www.wikidata.org/entity/Q199> ] .
    s:2 a wikibase:BestRank ; psv:P2 [ wikibase:geoLatitude 12.125e0 ; wikibase:geoLongitude 67.25e0 ; wikibase:geoGlobe <http://www.wikidata.org/entity/Q2> ] .
    s:3 a wikibase:BestRank ; psv:P3 [ wikibase:geoLatitude 1e0 ; wikibase:geoLongitude 2e0 ; wikibase:geoGlobe <http://www.wikidata.org/entity/Q405> ] .
    """
    found = tree(tmp_path, turtle)
    assert found["P1"] == 3
    assert found["P2"] == Coordinate(12.125, 67.25)
    assert found["P3"] == Coordinate(1, 2, "http://www.wikidata.org/entity/Q405")
    assert found["P4"] == Coordinate(-1, 2.5, "http://www.wikidata.org/entity/Q405")


def test_the_best_rank_wins_and_a_deprecated_statement_never_shows(tmp_path):
    turtle = """
    wd:Q1 p:P1 s:1, s:2, s:3 ; p:P2 s:4, s:5 ; p:P3 s:6 ; p:P4 s:7, s:8 .
    s:1 wikibase:rank wikibase:PreferredRank ; ps:P1 "a" .
    s:2 wikibase:rank wikibase:PreferredRank ; ps:P1 "b" .
    s:3 wikibase:rank wikibase:NormalRank ; ps:P1 "c" .
    s:4 wikibase:rank wikibase:NormalRank ; ps:P2 "d" .
    s:5 wikibase:rank wikibase:DeprecatedRank ; ps:P2 "e" .
    s:6 wikibase:rank wikibase:DeprecatedRank ; ps:P3 "f" .
    s:7 a wikibase:BestRank ; wikibase:rank wikibase:PreferredRank ; ps:P4 "g" .
    s:8 wikibase:rank wikibase:NormalRank ; ps:P4 "h" .
    """
    assert tree(tmp_path, turtle) == {"P1": ["a", "b"], "P2": "d", "P4": "g"}


def test_truthy_values_stand_in_where_there_are_no_statements(tmp_path):
    turtle = """
    wd:Q1 wdt:P1 wd:Q5, wd:Q6 ; wdt:P2 "2001-05-11T00:00:00Z"^^xsd:dateTime ; wdt:P3 "only here" ; p:P3 s:missing ;
        wdtn:P3 <http://ex.org/only-here> ; wdt:P4 "+1.50"^^xsd:decimal ; wdt:P5 "-0043-03-15T00:00:00Z"^^xsd:dateTime .
    """
    found = tree(tmp_path, turtle)
    assert found == {
        "P1": [Link(ITEM + "Q5"), Link(ITEM + "Q6")],
        "P2": Date(2001, 5, 11),
        "P3": "only here",
        "P4": 1.5,
        "P5": Date(-43, 3, 15),
    }


def test_somevalue_and_novalue_are_values_of_entities_and_of_statements(tmp_path):
    turtle = """
    wd:Q1 a wikibase:Item, wdno:P1 ; wdt:P2 _:some ; wdt:P3 <https://wiki.example/.well-known/genid/4f> ; p:P4 s:1 ; p:P5 s:2, s:3 ; p:P6 s:4 .
    s:1 a wikibase:BestRank, wdno:P4 ; pq:P9 "a qualifier" .
    s:2 a wikibase:BestRank ; ps:P5 [] .
    s:3 a wikibase:BestRank ; ps:P5 "known" .
    s:4 a wikibase:BestRank, wdno:P7 ; ps:P6 "its qualifier has no value" .
    """
    expected = {
        "P2": SOMEVALUE,
        "P3": SOMEVALUE,
        "P4": NOVALUE,
        "P5": [SOMEVALUE, "known"],
        "P6": "its qualifier has no value",
        "P1": NOVALUE,
    }
    [found] = entities(tmp_path, turtle)
    assert found.tree == expected
    assert list(found.asked()) == []


def test_a_day_in_the_julian_calendar_is_told_in_it_and_a_coarser_date_keeps_its_name(tmp_path):
    turtle = f"""
    wd:Q1 a wikibase:Item ; p:P1 s:1 ; p:P2 s:2 .
    s:1 wikibase:rank wikibase:NormalRank ; psv:P1 [ wikibase:timeValue "1564-05-06T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 11 ; wikibase:timeCalendarModel <{JULIAN}> ] .
    s:2 a wikibase:BestRank ; psv:P2 [ wikibase:timeValue "-0043-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 ; wikibase:timeCalendarModel <{JULIAN}> ] .
    """
    assert tree(tmp_path, turtle) == {"P1": Date(1564, 4, 26, calendar=JULIAN), "P2": Date(-43, calendar=JULIAN)}


def test_qualifiers_and_references_and_what_they_point_to_are_no_part_of_the_tree(tmp_path):
    turtle = """
    wd:Q1 p:P1 s:1 .
    s:1 a wikibase:Statement, wikibase:BestRank ; wikibase:rank wikibase:NormalRank ; ps:P1 "a" ; pq:P2 "q" ; pqv:P3 v:1 ; prov:wasDerivedFrom ref:1 .
    v:1 a wikibase:TimeValue ; wikibase:timeValue "1970-01-01T00:00:00Z"^^xsd:dateTime .
    ref:1 a wikibase:Reference ; pr:P4 "r" .
    """
    assert tree(tmp_path, turtle) == {"P1": "a"}


def test_a_large_file_of_lines_finds_its_value_nodes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "LARGE_FILE", 1000)
    monkeypatch.setattr(stream, "BLOCK_SIZE", 4000)
    items = "".join(
        f"wd:Q{i} p:P1 s:{i} . s:{i} wikibase:rank wikibase:NormalRank ; ps:P1 3 ; psv:P1 v:{i % 7} .\n"
        for i in range(1, 200)
    )
    nodes = "".join(f"v:{i} wikibase:quantityAmount 3 ; wikibase:quantityUnit wd:Q11573 .\n" for i in range(7))
    quads = pyoxigraph.parse((PREFIXES + items + nodes).encode(), pyoxigraph.RdfFormat.TURTLE)
    pyoxigraph.serialize(quads, str(tmp_path / "wiki.nt"), pyoxigraph.RdfFormat.N_TRIPLES)
    found = {one.id: one.tree for one in kbdisk.load(tmp_path / "wiki.nt")}
    assert found == {f"{ITEM}Q{i}": {"P1": Quantity(3, UNIT)} for i in range(1, 200)}


def test_labels_descriptions_and_aliases_stand_once_in_every_language(tmp_path):
    turtle = """
    wd:Q1 a wikibase:Item ; wikibase:statements 0 ; rdfs:label "Earth"@en, "Erde"@de ; skos:prefLabel "Earth"@en, "Erde"@de ; schema:name "Earth"@en ;
        schema:description "a planet"@en ; skos:altLabel "Terra"@en, "the world"@en .
    """
    [found] = entities(tmp_path, turtle, language="de")
    assert found.label == "Erde"
    assert found.tree == {
        "label": [Text("Earth", "en"), Text("Erde", "de")],
        "description": Text("a planet", "en"),
        "alias": [Text("Terra", "en"), Text("the world", "en")],
    }


def test_classes_are_what_a_thing_is_an_instance_of_by_whatever_property_is_called_so(tmp_path):
    plain = "wd:Q1 a wikibase:Item ; wdt:P31 wd:Q5 . wd:Q2 a wikibase:Item ; wdt:P1 wd:Q6 ."
    renamed = (
        plain
        + ' wd:P1 a wikibase:Property ; wikibase:propertyType wikibase:WikibaseItem ; rdfs:label "instance of"@en .'
    )
    item = (WIKIBASE + "Item",)
    assert [one.classes for one in entities(tmp_path, plain)] == [(ITEM + "Q5",), item]
    assert [one.classes for one in entities(tmp_path, renamed) if "Q" in one.id] == [item, (ITEM + "Q6",)]


def test_a_wikibase_may_call_its_predicates_anything_that_it_declares(tmp_path):
    turtle = """
    wd:P7 a wikibase:Property ; wikibase:propertyType wikibase:String ; wikibase:directClaim <urn:t7> ; wikibase:claim <urn:c7> ;
        wikibase:statementProperty <urn:s7> ; wikibase:statementValue <urn:v7> ; wikibase:novalue <urn:n7> .
    wd:Q1 <urn:c7> <urn:1>, <urn:2> ; <urn:t7> "a" .
    <urn:1> a wikibase:BestRank ; <urn:s7> "a" .
    <urn:2> a wikibase:BestRank, <urn:n7> .
    """
    assert tree(tmp_path, turtle) == {"P7": ["a", NOVALUE]}


def test_pages_sitelinks_declarations_and_mentioned_things_are_no_entities(tmp_path):
    turtle = """
    <https://wiki.example/data/Q1> a schema:Dataset ; schema:about wd:Q1 ; schema:version 7 .
    wd:Q1 a wikibase:Item ; wdt:P1 wd:Q2 ; wikibase:statements 1 ; schema:version 7 .
    wd:Q2 a wikibase:Item ; rdfs:label "mentioned"@en .
    wd:P1 a wikibase:Property ; rdfs:label "mentioned too"@en ; wikibase:propertyType wikibase:WikibaseItem ; wikibase:directClaim wdt:P1 .
    wdno:P1 a owl:Class ; owl:complementOf [ a owl:Restriction ; owl:onProperty wdt:P1 ; owl:someValuesFrom owl:Thing ] .
    wdt:P1 a owl:ObjectProperty .
    <https://en.wikipedia.org/wiki/One> a schema:Article ; schema:about wd:Q1 ; schema:isPartOf <https://en.wikipedia.org/> ; schema:name "One"@en .
    <https://en.wikipedia.org/> wikibase:wikiGroup "wikipedia" .
    """
    assert tree(tmp_path, turtle) == {"P1": Link(ITEM + "Q2")}


def test_what_a_thing_says_beyond_its_statements_is_kept(tmp_path):
    turtle = "@prefix dct: <http://purl.org/dc/terms/> . wd:Q1 a wikibase:Item ; owl:sameAs wd:Q2 ; dct:language wd:Q3 ; wdt:P1 1 ."
    assert tree(tmp_path, turtle) == {"sameAs": Link(ITEM + "Q2"), "language": Link(ITEM + "Q3"), "P1": 1}


def test_properties_of_two_wikibases_keep_apart(tmp_path):
    turtle = 'wd:Q1 wdt:P1 "ours" ; <http://other.example/prop/direct/P1> "theirs" .'
    assert tree(tmp_path, turtle) == {"P1": "ours", "http://other.example/P1": "theirs"}


def test_what_else_stands_in_the_file_is_an_entity_too_but_no_redirect(tmp_path):
    turtle = "wd:Q1 wdt:P1 1 . wd:Q7 owl:sameAs wd:Q1 . <http://ex.org/thing> a <http://ex.org/Tool> ; <http://ex.org/size> 3 ."
    first, second = entities(tmp_path, turtle)
    assert (first.id, second.id, second.classes, second.tree) == (
        ITEM + "Q1",
        "http://ex.org/thing",
        ("http://ex.org/Tool",),
        {"size": 3},
    )


def test_a_new_truthy_value_goes_where_the_others_are():
    direct = "https://wiki.example/prop/direct/"
    assert wikibase.truthy_predicate([WIKIBASE + "rank", direct + "P31"], "P7") == direct + "P7"
    assert wikibase.truthy_predicate([WIKIBASE + "rank", "https://wiki.example/prop/P31"], "P7") is None
    assert wikibase.truthy_predicate([direct + "P31"], "label") is None


@for_each(
    "spelt",
    [
        '"+1.96"^^xsd:decimal',
        '"-5"^^xsd:decimal',
        '"2001-05-11T00:00:00Z"^^xsd:dateTime',
        '"-0043-03-15T00:00:00Z"^^xsd:dateTime',
        '"Point(67.25 12.125)"^^geo:wktLiteral',
        '"Erde"@de',
        '"plain"',
        "wd:Q5",
    ],
)
def test_a_truthy_value_read_and_written_is_the_same_term(tmp_path, spelt):
    turtle = f"wd:Q1 wdt:P1 {spelt} ."
    [quad] = pyoxigraph.parse((PREFIXES + turtle).encode(), pyoxigraph.RdfFormat.TURTLE)
    assert wikibase.truthy_term(tree(tmp_path, turtle)["P1"]) == quad.object


@for_each(
    "value",
    [True, None, SOMEVALUE, NOVALUE, Quantity(None, UNIT), Coordinate(1, None), Link("_:b0"), Date(None, 3), {}, []],
)
def test_what_a_truthy_triple_cannot_say_is_refused(value):
    with pytest.raises(ValueError, match=r"\w"):
        wikibase.truthy_term(value)


# ---------------------------------------------------------------- real data


def fixture(data, name):
    [found] = [one for one in kbdisk.load(data / "rdf/wikibase_fixtures" / name)]  # noqa: C416
    return found


@pytest.mark.shared
def test_every_value_type_of_the_reference_fixtures_comes_out(data):
    found = fixture(data, "Q4_statements.nt")
    assert found.id == "http://acme.test/Q4"
    assert found.tree == {
        "P2": Link("http://acme.test/Q42"),
        "P3": [NOVALUE, Link("http://commons.wikimedia.org/wiki/Special:FilePath/Universe.svg")],
        "P4": Coordinate(12.125, 67.25),
        "P5": [SOMEVALUE, Text("превед", "ru")],
        "P6": Decimal("19.768000000000000682121026329696178436279296875"),
        "P7": "simplestring",
        "P8": Date(-199, 1, 1),
        "P9": Link("http://url.acme.test%5Cbadurl?chars=%5Cпривет%3C%20%3E%22"),
        "P10": Link("http://commons.wikimedia.org/data/main/Data:Berlin.map"),
        "P11": "test-external-identifier",
    }
    assert fixture(data, "Q4_values.nt").tree["P8"] == Date(-199)


@pytest.mark.shared
def test_the_bad_dates_of_the_reference_fixtures_are_dates_or_kept_as_text(data):
    with pytest.warns(KBDiskWarning, match="a date that cannot be"):
        found = fixture(data, "Q8_baddates.nt")
    dates = found.tree["P8"]
    assert [one for one in dates if isinstance(one, str)] == ["+2012-02-31T00:00:00Z", "+0000-02-29T00:00:00Z"]
    assert dates[0] == Date(-199)
    assert dates[3] == Date(200, 2, 28)
    assert dates[9] == Date(2000000200, precision="10ka")
    assert dates[10] == Date(-2009, calendar=JULIAN)


@pytest.mark.shared
@for_each("name", ["truthy-dump-entities.nt", "full-dump-entities.nt"])
def test_a_dump_of_three_entities_has_three(data, name):
    found = {one.id: one.label for one in kbdisk.load(data / "rdf/wikibase_fixtures" / name)}
    assert found == {f"http://acme.test/{id}": f"label:{id}" for id in ("P10", "Q30", "Q40")}


SHOWN = """
PREFIX wikibase: <http://wikiba.se/ontology#>
SELECT ?claim (COUNT(DISTINCT ?value) AS ?values) WHERE {
  <%s> ?p ?statement . ?statement a wikibase:BestRank ; ?ps ?value .
  FILTER(STRSTARTS(STR(?p), "http://www.wikidata.org/prop/P"))
  BIND(STRAFTER(STR(?p), "/prop/") AS ?claim)
  FILTER(STR(?ps) = CONCAT("http://www.wikidata.org/prop/statement/", ?claim))
} GROUP BY ?claim
"""


@pytest.mark.shared
@for_each("id", ["Q42", "Q24628793"])
def test_a_real_entity_has_as_many_values_as_sparql_counts(data, id):
    path = data / "rdf/wikidata" / f"{id}.ttl"
    iri = f"http://www.wikidata.org/entity/{id}"
    store = pyoxigraph.Store()
    store.bulk_load(path=str(path))
    counted = {row["claim"].value: int(row["values"].value) for row in store.query(SHOWN % iri)}
    [found] = [one for one in kbdisk.load(path)]  # noqa: C416
    assert found.id == iri
    lists = {key: held if isinstance(held, list) else [held] for key, held in found.tree.items() if key[0] == "P"}
    assert {key: len(held) for key, held in lists.items()} == counted
    labels = store.query(
        f"SELECT (COUNT(DISTINCT ?l) AS ?n) {{ <{iri}> <http://www.w3.org/2000/01/rdf-schema#label> ?l }}"
    )
    assert len(found.tree["label"]) == int(next(iter(labels))["n"].value)


@pytest.mark.shared
def test_douglas_adams_has_his_heights_dates_and_name(data):
    [adams] = [one for one in kbdisk.load(data / "rdf/wikidata/Q42.ttl")]  # noqa: C416
    assert (adams.label, adams.classes) == ("Douglas Adams", ("http://www.wikidata.org/entity/Q5",))
    assert adams.tree["P569"] == Date(1952, 3, 11)
    assert adams.tree["P2048"] == Quantity(1.96, "http://www.wikidata.org/entity/Q11573")
    by_api = json.loads((data / "wikidata_json/wbgetentities-Douglas-Adams.json").read_text())["entities"]["Q42"][
        "claims"
    ]
    assert len(adams.tree.keys() & by_api.keys()) > 50  # JSON and RDF call a property alike
