"""SHACL shapes become a schema that agrees with pyshacl on which entities conform; what it cannot say is listed."""

from __future__ import annotations

import warnings

import pytest
from tables import for_each

import kbdisk
from kbdisk.errors import KBDiskWarning, SchemaError
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.constraints import Constraint
from kbdisk.schemas.importers import shacl
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.schema import Schema

PREFIXES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix schema: <http://schema.org/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
@prefix other: <http://other.example.org/> .
@prefix ex: <http://example.org/> .
"""

SHAPES = """
ex:PhoneShape a sh:NodeShape ; sh:targetClass ex:Phone ;
    sh:property [ sh:path ex:model ; sh:datatype xsd:string ; sh:minCount 1 ; sh:maxCount 1 ; sh:minLength 1 ; sh:maxLength 12 ] ;
    sh:property [ sh:path ex:oem ; sh:in ( "Nokia" "HTC" ) ; sh:maxCount 1 ] ;
    sh:property [ sh:path ex:cores ; sh:datatype xsd:integer ; sh:minInclusive 1 ; sh:maxInclusive 64 ; sh:maxCount 1 ] ;
    sh:property [ sh:path ex:price ; sh:datatype xsd:decimal ; sh:minExclusive 0 ; sh:maxExclusive 5000 ; sh:maxCount 1 ] ;
    sh:property [ sh:path ex:dual ; sh:datatype xsd:boolean ; sh:maxCount 1 ] ;
    sh:property [ sh:path ex:launch ; sh:datatype xsd:date ; sh:minInclusive "1983-01-01"^^xsd:date ; sh:maxCount 1 ] ;
    sh:property [ sh:path ex:colour ; sh:in ( "red" "blue" "black" ) ; sh:maxCount 2 ] ;
    sh:property [ sh:path ex:weight ; sh:maxCount 1 ; sh:node [
        sh:property [ sh:path schema:value ; sh:datatype xsd:decimal ; sh:minInclusive 0 ; sh:minCount 1 ; sh:maxCount 1 ] ;
        sh:property [ sh:path schema:unitCode ; sh:in ( "GRM" "KGM" ) ; sh:maxCount 1 ] ] ] ;
    sh:property [ sh:path ex:camera ; sh:nodeKind sh:BlankNode ; sh:node [
        sh:property [ sh:path ex:aperture ; sh:datatype xsd:decimal ; sh:maxInclusive 32 ; sh:maxCount 1 ] ] ] ;
    sh:property [ sh:path ex:made ; sh:nodeKind sh:IRI ] .

ex:Place a rdfs:Class, sh:NodeShape ;
    sh:property [ sh:path ex:population ; sh:datatype xsd:integer ; sh:minInclusive 0 ; sh:maxCount 1 ] .
ex:City a rdfs:Class, sh:NodeShape ; rdfs:subClassOf ex:Place ;
    sh:property [ sh:path ex:name ; sh:languageIn ( "en" ) ; sh:minCount 1 ] ;
    sh:property [ sh:path ex:status ; sh:in ( ex:capital ex:free ) ; sh:maxCount 1 ] ;
    sh:property [ sh:path ex:kind ; sh:hasValue "city" ; sh:maxCount 1 ] .
ex:Old a sh:NodeShape ; sh:targetClass ex:City ; sh:deactivated true ; sh:property [ sh:path ex:never ; sh:minCount 1 ] .
"""

ENTITIES = """
ex:p1 a ex:Phone ; ex:model "3310" .
ex:p2 a ex:Phone .
ex:p3 a ex:Phone ; ex:model "" .
ex:p4 a ex:Phone ; ex:model "a name that is too long" .
ex:p5 a ex:Phone ; ex:model "a", "b" .
ex:p6 a ex:Phone ; ex:model "Galaxie"@fr .
ex:p7 a ex:Phone ; ex:model "3310" ; ex:oem "Nokia" ; ex:cores 8 ; ex:price 199.0 ; ex:dual true .
ex:p8 a ex:Phone ; ex:model "3310" ; ex:oem "nokia" .
ex:p9 a ex:Phone ; ex:model "3310" ; ex:oem ex:Nokia .
ex:p10 a ex:Phone ; ex:model "3310" ; ex:cores 0 .
ex:p11 a ex:Phone ; ex:model "3310" ; ex:cores 64 .
ex:p12 a ex:Phone ; ex:model "3310" ; ex:cores 1.5 .
ex:p13 a ex:Phone ; ex:model "3310" ; ex:cores "eight" .
ex:p14 a ex:Phone ; ex:model "3310" ; ex:cores "eight"^^xsd:integer .
ex:p15 a ex:Phone ; ex:model "3310" ; ex:price 0.0 .
ex:p16 a ex:Phone ; ex:model "3310" ; ex:price 0.01 .
ex:p17 a ex:Phone ; ex:model "3310" ; ex:price 5000.0 .
ex:p18 a ex:Phone ; ex:model "3310" ; ex:dual "maybe" .
ex:p19 a ex:Phone ; ex:model "3310" ; ex:dual 3 .
ex:p20 a ex:Phone ; ex:model "3310" ; ex:launch "2000-10-15"^^xsd:date .
ex:p21 a ex:Phone ; ex:model "3310" ; ex:launch "1982-12-31"^^xsd:date .
ex:p22 a ex:Phone ; ex:model "3310" ; ex:launch "2001-02-30"^^xsd:date .
ex:p23 a ex:Phone ; ex:model "3310" ; ex:launch true .
ex:p24 a ex:Phone ; ex:model "3310" ; ex:colour "red", "blue" .
ex:p25 a ex:Phone ; ex:model "3310" ; ex:colour "red", "blue", "black" .
ex:p26 a ex:Phone ; ex:model "3310" ; ex:colour "red", "green" .
ex:p27 a ex:Phone ; ex:model "3310" ; ex:weight [ schema:value 133.0 ; schema:unitCode "GRM" ] .
ex:p28 a ex:Phone ; ex:model "3310" ; ex:weight [ schema:value 133.0 ; schema:unitCode "ONZ" ] .
ex:p29 a ex:Phone ; ex:model "3310" ; ex:weight [ schema:value -1.0 ; schema:unitCode "GRM" ] .
ex:p30 a ex:Phone ; ex:model "3310" ; ex:weight [ schema:unitCode "GRM" ] .
ex:p31 a ex:Phone ; ex:model "3310" ; ex:weight [ schema:value 133.0 ] .
ex:p32 a ex:Phone ; ex:model "3310" ; ex:camera [ ex:aperture 1.8 ], [ ex:aperture 2.2 ] .
ex:p33 a ex:Phone ; ex:model "3310" ; ex:camera [ ex:aperture 1.8 ], [ ex:aperture 64.0 ] .
ex:p34 a ex:Phone ; ex:model "3310" ; ex:camera [ ex:aperture "wide" ] .
ex:p35 a ex:Phone ; ex:model "3310" ; ex:made ex:Finland, ex:China .
ex:p36 a ex:Phone ; ex:model "3310" ; ex:made ex:Finland, 3 .
ex:p37 a ex:Phone ; ex:model "3310" ; ex:unheard "of" .
ex:c1 a ex:City ; ex:name "Vienna"@en ; ex:population 1900000 ; ex:status ex:capital ; ex:kind "city" .
ex:c2 a ex:City ; ex:name "Wien"@de ; ex:kind "city" .
ex:c3 a ex:City ; ex:name "Vienna"@en-GB, "Vienna"@en ; ex:kind "city" .
ex:c4 a ex:City ; ex:name "Vienna"@en ; ex:kind "town" .
ex:c5 a ex:City ; ex:name "Vienna"@en .
ex:c6 a ex:City ; ex:name "Vienna"@en ; ex:status ex:lost ; ex:kind "city" .
ex:c7 a ex:City ; ex:name "Vienna"@en ; ex:status "capital" ; ex:kind "city" .
ex:c8 a ex:City ; ex:name "Vienna"@en ; ex:population -5 ; ex:kind "city" .
ex:c9 a ex:City ; ex:population 5 ; ex:kind "city" .
ex:c10 a ex:Place ; ex:population 5 .
ex:c11 a ex:Place ; ex:population 5.5 .
"""


@pytest.fixture
def read(tmp_path):
    def read(text, name="shapes.ttl"):
        path = tmp_path / name
        path.write_text(PREFIXES + text if name.endswith(".ttl") else text, encoding="utf-8")
        return shacl.read(path)

    return read


@pytest.fixture(scope="module")
def conforming():
    """What pyshacl says of each entity."""
    import pyshacl
    import rdflib

    graphs = [rdflib.Graph().parse(data=PREFIXES + text, format="turtle") for text in (SHAPES + ENTITIES, SHAPES)]
    names = [line.split()[0].removeprefix("ex:") for line in ENTITIES.split("\n") if line]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, results, _ = pyshacl.validate(graphs[0], shacl_graph=graphs[1])
    wrong = set(map(str, results.objects(predicate=rdflib.SH.focusNode)))
    return {name: "http://example.org/" + name not in wrong for name in names}


def only(imported):
    (found,) = imported.schema.classes.values()
    return {path[0] if len(path) == 1 else path: one for path, one in found.properties.items()}


def shape(properties):
    return f"ex:S a sh:NodeShape ; sh:targetClass ex:Thing ; {properties} ."


def test_it_agrees_with_pyshacl_on_which_entities_conform(conforming, read, tmp_path):
    path = tmp_path / "entities.ttl"
    path.write_text(PREFIXES + ENTITIES, encoding="utf-8")
    schema = read(SHAPES).schema
    with pytest.warns(KBDiskWarning):
        fitting = {entity.id.rpartition("/")[2]: not schema.check(entity) for entity in kbdisk.load(path)}
    assert {name: fitting[name] for name in conforming} == conforming
    assert 10 < sum(conforming.values()) < len(conforming) - 10


def test_it_survives_as_yaml(read):
    schema = read(SHAPES).schema
    assert schema.classes["City"].superclasses == ("http://example.org/Place",)
    assert Schema.read(schema.to_yaml()) == schema


@for_each(
    ("told", "kind"),
    [
        ("sh:datatype xsd:integer", Number(integer=True)),
        ("sh:datatype xsd:byte", Number(integer=True, minimum=-128, maximum=127)),
        ("sh:datatype xsd:double ; sh:minInclusive 0.5", Number(minimum=0.5)),
        ("sh:minExclusive 0", Number(above=0)),
        ("sh:datatype xsd:boolean", Boolean()),
        ("sh:in ( true false )", Boolean()),
        ("sh:datatype xsd:string", Text("")),
        ("sh:datatype rdf:langString", Text()),
        ("sh:datatype xsd:anyURI ; sh:maxLength 9", Text(max_length=9)),
        ('sh:languageIn ( "de" )', Text("de")),
        ('sh:datatype rdf:langString ; sh:languageIn ( "de" "en" )', Text()),
        ("sh:datatype xsd:gYear ; sh:maxExclusive '2000'^^xsd:gYear", Date(parts=("year",), maximum=1999)),
        ("sh:datatype xsd:date ; sh:maxInclusive '1999-12-31'^^xsd:date", Date(maximum=1999)),
        ("sh:in ( 1 2.5 )", Category((1, 2.5), closed=True)),
        ("sh:in ( 'a' 'b' 'c' ) ; sh:in ( 'b' 'c' 'd' )", Category(("b", "c"), closed=True)),
        ("sh:hasValue 'a'", Category(("a",), closed=True)),
        ("sh:hasValue ex:a", Link(values=("http://example.org/a",))),
        ("sh:nodeKind sh:IRI", Link()),
        ("sh:class ex:City", Link("City")),
        ("sh:class schema:QuantitativeValue", Quantity(any_unit=True)),
        ("sh:class schema:GeoCoordinates", Coordinate()),
        ("sh:or ( [ sh:datatype xsd:integer ] [ sh:datatype xsd:decimal ] )", Number()),
        ("sh:xone ( [ sh:datatype xsd:date ] [ sh:datatype xsd:gYear ] )", Date()),
        ("sh:or ( [ sh:class ex:Town ] [ sh:class ex:City ] )", Link()),
        ("sh:and ( [ sh:datatype xsd:integer ] [ sh:minInclusive 3 ] )", Number(integer=True, minimum=3)),
        ("sh:node [ sh:datatype xsd:integer ]", Number(integer=True)),
    ],
)
def test_a_value_is_of_the_kind_that_its_shape_tells(read, told, kind):
    assert only(read(shape(f"sh:property [ sh:path ex:x ; sh:maxCount 1 ; {told} ]")))["x"].kind == kind


def test_several_values_are_a_set_of_labels_or_links_and_one_that_counts_of_other_kinds(read):
    imported = read(
        shape(
            "sh:property [ sh:path ex:tag ; sh:datatype xsd:string ], [ sh:path ex:near ; sh:class ex:City ; sh:maxCount 3 ],"
            " [ sh:path ex:size ; sh:datatype xsd:integer ], [ sh:path ex:day ; sh:datatype xsd:date ]"
        )
    )
    found = only(imported)
    assert [found["tag"].kind, found["near"].kind] == [Set(Category()), Set(Link("City"), most=3)]
    assert [found["size"].many, found["day"].many] == ["median", "latest"]
    assert "Thing.size: several values are allowed: of several, median counts" in imported.left_out


def test_what_several_shapes_say_of_a_path_is_one_property(read):
    found = only(
        read(
            shape("sh:property [ sh:path ex:x ; sh:minCount 1 ; sh:maxCount 1 ]")
            + "ex:T a sh:NodeShape ; sh:targetClass ex:Thing ; sh:and ( [ sh:property ex:X ] ) . "
            "ex:X sh:path ex:x ; sh:datatype xsd:integer ; sh:name 'ics'@fr, 'exes'@en ; sh:description 'how many' ."
        )
    )
    assert (found["x"].kind, found["x"].required) == (Number(integer=True), True)
    assert (found["x"].iri, found["x"].label, found["x"].description) == ("http://example.org/x", "exes", "how many")


def test_properties_come_in_their_order(read):
    told = ", ".join(f"[ sh:path ex:{name} ; sh:nodeKind sh:IRI ; {order} ]" for name, order in ORDERED)
    assert list(only(read(shape(f"sh:property {told}")))) == ["b", "c", "a", "d"]


ORDERED = [("a", "sh:order 3"), ("b", "sh:order -1.5"), ("c", "sh:order 2"), ("d", "")]


def test_keys_are_last_words_and_where_one_is_taken_it_has_its_prefix(read):
    imported = read(
        shape("sh:property [ sh:path ex:name ; sh:nodeKind sh:IRI ], [ sh:path schema:name ; sh:nodeKind sh:IRI ]")
    )
    assert {key: one.iri for key, one in only(imported).items()} == {
        "name": "http://example.org/name",
        "schema:name": "http://schema.org/name",
    }
    assert imported.schema.prefixes == {"ex": "http://example.org/", "schema": "http://schema.org/"}


def test_a_part_that_there_is_once_has_paths_and_one_that_there_may_be_often_is_a_list(read):
    inner = "sh:node [ sh:property [ sh:path ex:street ; sh:datatype xsd:string ; sh:minCount 1 ; sh:maxCount 1 ] ]"
    once = only(read(shape(f"sh:property [ sh:path ex:address ; sh:minCount 1 ; sh:maxCount 1 ; {inner} ]")))
    assert once["address", "street"].kind == Text("")
    assert once["address", "street"].required
    maybe = read(shape(f"sh:property [ sh:path ex:address ; sh:maxCount 1 ; {inner} ]"))
    assert not only(maybe)["address", "street"].required
    assert maybe.schema.classes["Thing"].constraints == (
        Constraint("count", ("address", "street"), least=1),
        Constraint("count", ("address",), most=1),
    )
    often = read(shape(f"sh:property [ sh:path ex:address ; {inner} ]"))
    assert only(often)["address"].kind == Listed({"street": Text("")})
    assert often.schema.classes["Thing"].constraints == (Constraint("count", ("address", "street"), least=1),)


def test_parts_within_a_list_of_parts_are_lists_of_one(read):
    found = only(
        read(
            shape(
                "sh:property [ sh:path ex:a ; sh:property [ sh:path ex:b ; sh:maxCount 1 ; sh:property"
                " [ sh:path ex:c ; sh:datatype xsd:integer ], [ sh:path ex:d ; sh:datatype xsd:integer ; sh:maxCount 1 ] ] ]"
            )
        )
    )
    inner = Listed({"c": Listed({"": Number(integer=True)}), "d": Number(integer=True)}, 1)
    assert found["a"].kind == Listed({"b": inner})


def test_a_node_that_is_one_value_is_a_quantity_or_a_coordinate(read):
    found = only(
        read(
            shape(
                "sh:property [ sh:path ex:height ; sh:maxCount 1 ; sh:property [ sh:path qudt:numericValue ; sh:datatype"
                " xsd:decimal ; sh:minExclusive 0 ], [ sh:path qudt:unit ; sh:hasValue unit:M ; sh:maxCount 1 ] ],"
                " [ sh:path ex:place ; sh:maxCount 1 ; sh:property [ sh:path schema:latitude ; sh:datatype xsd:decimal ],"
                " [ sh:path schema:longitude ; sh:datatype xsd:decimal ] ],"
                " [ sh:path geo:lat ; sh:datatype xsd:decimal ], [ sh:path geo:long ; sh:datatype xsd:decimal ]"
            )
        )
    )
    assert found["height"].kind == Quantity("http://qudt.org/vocab/unit/M", value=Number(above=0))
    assert found["place"].kind == found["coordinate"].kind == Coordinate()
    assert "lat" not in found


def test_what_links_to_a_class_with_shapes_is_a_link_and_the_rest_is_left_to_that_class(read):
    imported = read(
        shape("sh:property [ sh:path ex:next ; sh:class ex:Thing ; sh:node ex:S ; sh:maxCount 1 ]")
        + "ex:S sh:property [ sh:path ex:n ; sh:datatype xsd:integer ; sh:maxCount 1 ] ."
    )
    assert only(imported)["next"].kind == Link("Thing")
    assert "Thing.next: what must hold of the entity that it links to is left to its class" in imported.left_out


def test_a_shape_within_itself_is_cut(read):
    imported = read(
        shape("sh:property [ sh:path ex:part ; sh:nodeKind sh:BlankNode ; sh:node ex:S ]")
        + "ex:S sh:property [ sh:path ex:n ; sh:datatype xsd:integer ; sh:maxCount 1 ] ."
    )
    assert only(imported)["n"].kind == Number(integer=True)
    assert any("a shape within itself: cut here" in line for line in imported.left_out)


@for_each(
    ("told", "note"),
    [
        (
            "sh:node [ sh:closed true ] ; sh:property [ sh:path ex:x ; sh:nodeKind sh:IRI ]",
            "Thing: sh:closed of a shape without properties is not checked",
        ),
        ("sh:sparql [ sh:select 'SELECT $this {}' ]", "Thing: sh:sparql of the whole entity is left out"),
        ("sh:not [ sh:property [ sh:path ex:x ; sh:minCount 1 ] ]", "Thing: sh:not of the whole entity is left out"),
        ("sh:nodeKind sh:IRI", "Thing: sh:nodeKind of the whole entity is left out"),
        ("sh:or ( [ sh:property ex:P ] )", "Thing: sh:or of the whole entity is left out"),
        ("sh:targetNode ex:a", "sh:targetNode names entities by no class"),
        (
            "sh:property [ sh:path [ sh:inversePath ex:p ] ]",
            "Thing: sh:inversePath: only paths of one predicate are read",
        ),
        ("sh:property [ sh:path ( ex:a ex:b ) ; sh:name 'ab' ]", "Thing: a sequence path (ab): only paths of one"),
        ("sh:property [ sh:path rdf:type ; sh:hasValue ex:a ]", "Thing: rdf:type is no property but the class"),
        ("sh:property [ sh:path ex:x ; sh:minCount 1 ]", "Thing.x: the kind of its values is not determined: left out"),
        ("sh:property [ sh:path ex:x ; sh:nodeKind sh:IRI ; sh:not ex:P ]", "Thing.x: sh:not is not checked"),
        (
            "sh:property [ sh:path ex:x ; sh:nodeKind sh:IRI ; sh:severity sh:Info ]",
            "Thing.x: sh:severity: what is but",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:or ( [ sh:datatype xsd:date ] [ sh:class ex:C ] ) ]",
            "Thing.x: sh:or is not",
        ),
        ("sh:property [ sh:path ex:x ; sh:nodeKind sh:IRI ; sh:sparql ex:P ]", "Thing.x: sh:sparql is not checked"),
        (
            r"sh:property [ sh:path ex:x ; sh:datatype xsd:string ; sh:pattern '\\p{L}' ]",
            "Thing.x: sh:pattern is not",
        ),
        ("sh:property [ sh:path ex:x ; sh:languageIn () ]", "Thing.x: sh:languageIn of no language is not checked"),
        (
            "sh:property [ sh:path ex:x ; sh:datatype xsd:gMonth ; sh:hasValue '--05'^^xsd:gMonth ]",
            "Thing.x: sh:hasValue of a blank node or of another datatype is not",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:nodeKind sh:IRI ; sh:equals [ sh:inversePath ex:y ] ]",
            "Thing.x: sh:equals of a path of several predicates is not checked",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:nodeKind sh:IRI ; sh:qualifiedMinCount 1 ;"
            " sh:qualifiedValueShape [ sh:minLength 5 ; sh:maxLength 2 ] ]",
            "Thing.x: sh:qualifiedValueShape is not checked",
        ),
        ("sh:property [ sh:path ex:x ; sh:in ( ex:a [] ) ]", "Thing.x: sh:in or sh:hasValue of blank nodes"),
        (
            "sh:property [ sh:path ex:x ; sh:or ( [ sh:class ex:A ] [ sh:class ex:B ] ) ]",
            "Thing.x: sh:or of classes: which class",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:datatype xsd:date ; sh:lessThan ex:y ]",
            "Thing.x: sh:lessThan y is not checked: the kind of y is not determined",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:qualifiedMinCount 1 ; sh:qualifiedValueShape"
            " [ sh:property [ sh:path ex:y ; sh:minCount 1 ] ] ]",
            "Thing.x: sh:qualifiedValueShape is not checked",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:nodeKind sh:IRI ; sh:qualifiedMinCount 1 ;"
            " sh:qualifiedValueShapesDisjoint true ; sh:qualifiedValueShape [ sh:class ex:A ] ]",
            "Thing.x: sh:qualifiedValueShape is not checked: it is disjoint",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:datatype xsd:string ; <http://datashapes.org/dash#singleLine> true ]",
            "Thing.x: dash:singleLine is not checked",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:datatype xsd:string, xsd:integer ]",
            "Thing.x: of several sh:datatype the first alone",
        ),
        (
            "sh:property [ sh:path ex:x ; sh:maxCount 1 ; sh:lessThan ex:y ; sh:node [ sh:property"
            " [ sh:path schema:value ; sh:datatype xsd:decimal ; sh:lessThan schema:maxValue ],"
            " [ sh:path schema:unitCode ; sh:datatype xsd:string ] ] ]",
            "Thing.x.value: sh:lessThan x.maxValue is not checked: x.maxValue is part",
        ),
        ("sh:property [ sh:path ex:x ; sh:datatype xsd:decimal ]", "values are distinguished by their kind alone"),
    ],
)
def test_what_a_schema_cannot_say_is_listed(read, told, note):
    imported = read(shape(told))
    assert any(note in line for line in imported.left_out)
    assert Schema.read(imported.schema.to_yaml()) == imported.schema


def test_what_is_switched_off_is_not_there(read):
    imported = read(shape("sh:property [ sh:path ex:x ; sh:datatype xsd:integer ; sh:deactivated true ]"))
    assert not only(imported)


def test_any_syntax_of_rdf_is_read(read):
    told = """{"@context": {"sh": "http://www.w3.org/ns/shacl#", "ex": "http://example.org/"}, "@id": "ex:S",
        "@type": "sh:NodeShape", "sh:targetClass": {"@id": "ex:Thing"},
        "sh:property": {"sh:path": {"@id": "ex:x"}, "sh:nodeKind": {"@id": "sh:IRI"}}}"""
    assert list(only(read(told, "shapes.jsonld"))) == ["x"]


@for_each(
    ("text", "complaint"),
    [
        ("ex:a ex:b [", r"shapes.ttl:\d+: expected Turtle"),
        ("ex:a ex:b ex:c .", "shapes.ttl: expected SHACL shapes with sh:targetClass, got none"),
        (shape("sh:property [ sh:name 'x' ]"), "shapes.ttl: Thing: expected one sh:path, got 0"),
        (shape("sh:property [ sh:path ex:x, ex:y ]"), "Thing: expected one sh:path, got 2"),
        (
            shape("sh:property [ sh:path ex:x ; sh:minCount 'many' ]"),
            "Thing.x: sh:minCount: expected a whole number, got",
        ),
        (shape("sh:property [ sh:path ex:x ; sh:maxCount 1.5 ]"), "Thing.x: sh:maxCount: expected a whole number, got"),
        (
            shape("sh:property [ sh:path ex:x ; sh:minLength -1 ]"),
            "Thing.x: sh:minLength: expected a whole number, got",
        ),
        (shape("sh:property [ sh:path ex:x ; sh:minInclusive 1e400 ]"), "Thing.x: sh:minInclusive: expected a number"),
        (shape("sh:property [ sh:path ex:x ; sh:minInclusive true ]"), "Thing.x: sh:minInclusive: expected a number"),
        (shape("sh:property [ sh:path ex:x ; sh:datatype 'integer' ]"), "Thing.x: sh:datatype: expected an IRI"),
        (shape("sh:property [ sh:path ex:x ; sh:in ex:a ]"), "Thing.x: sh:in: expected a collection such as"),
        (shape("sh:property [ sh:path ex:x ; sh:in 'a' ]"), "Thing.x: sh:in: expected a collection such as"),
        (shape("sh:property 5"), "Thing: expected one sh:path, got 0"),
    ],
)
def test_a_broken_file_is_one_line_with_its_place(read, text, complaint):
    with pytest.raises(SchemaError, match=complaint) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_rdf_is_one_line(tmp_path):
    with pytest.raises(SchemaError, match=r"gone.ttl: cannot be read: No such file"):
        shacl.read(tmp_path / "gone.ttl")
    with pytest.raises(SchemaError, match=r"shapes.yaml: expected RDF such as shapes.ttl"):
        shacl.read(tmp_path / "shapes.yaml")


def test_a_remote_context_is_never_fetched(read):
    with pytest.raises(SchemaError, match=r"shapes.jsonld"):
        read('{"@context": "http://example.org/context", "@id": "x"}', "shapes.jsonld")
