"""Quads to trees: keys of predicates, values of literals, classes, and what is odd."""

from __future__ import annotations

import pytest
from tables import for_each

from kbdisk.entity import NOVALUE, SOMEVALUE, Date, Link, Text
from kbdisk.errors import KBDiskWarning
from kbdisk.loaders import load
from kbdisk.loaders.rdf.terms import Names, id_of_iri, iri_of_id, iri_of_key

E = "@prefix : <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n"
XSD = "http://www.w3.org/2001/XMLSchema#"


def kb_of(text, format="turtle", **options):
    return load((E + text).encode() if format in ("turtle", "trig") else text.encode(), format=format, **options)


def tree_of(text, **options):
    (entity,) = kb_of(text, **options)
    return entity.tree


# ---------------------------------------------------------------- keys


@for_each(
    ("predicates", "keys"),
    [
        (["http://x/name"], ["name"]),
        (["http://x/a#name", "http://x/b"], ["name", "b"]),
        (["urn:x:name"], ["name"]),
        (["http://x/name", "http://y/name"], ["name", "http://y/name"]),
        (
            ["http://x/name", "http://xmlns.com/foaf/0.1/name", "http://schema.org/name"],
            ["name", "foaf:name", "schema:name"],
        ),
        (["http://schema.org/name", "https://schema.org/name"], ["name", "schema:name"]),
        (["http://x/p", "http://schema.org/p", "https://schema.org/p"], ["p", "schema:p", "https://schema.org/p"]),
        (["http://x/", "http://x#", "http://y/"], ["http://x/", "http://x#", "http://y/"]),
        (["http://x/@first", "http://x/@id", "http://x/@type"], ["http://x/@first", "http://x/@id", "http://x/@type"]),
        (["http://x/naïve", "http://x/%20", "http://x/a.b", "http://x/a?b=c"], ["naïve", "%20", "a.b", "a?b=c"]),
    ],
)
def test_a_key_is_the_last_word_of_its_predicate_unless_that_is_taken(predicates, keys):
    text = "".join(f'<http://e/a> <{predicate}> "{n}" .\n' for n, predicate in enumerate(predicates))
    (entity,) = kb_of(text, "ntriples")
    assert entity.tree == {key: str(n) for n, key in enumerate(keys)}


def test_a_predicate_whose_word_is_taken_is_called_by_the_prefix_of_its_source():
    text = "@prefix one: <http://one/> . @prefix two: <http://two/> . :a one:p 1 ; two:p 2 ."
    assert tree_of(text) == {"p": 1, "two:p": 2}


def test_keys_are_the_same_at_each_reading():
    kb = kb_of(":a <http://one/p> 1 . :b <http://two/p> 2 ; <http://one/p> 3 .")
    first = [entity.tree for entity in kb]
    assert first == [{"p": 1}, {"http://two/p": 2, "p": 3}]
    assert [entity.tree for entity in kb] == first


def test_every_key_tells_its_predicate():
    kb = kb_of(":a <http://one/p> 1 ; <http://two/p> 2 ; :l [ rdf:first 1 ] .")
    list(kb)
    assert {kb.names.iris[key] for key in ("p", "http://two/p", "l", "rdf:first")} == {
        "http://one/p",
        "http://two/p",
        "http://e/l",
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#first",
    }


def test_names_of_other_formats_survive_as_iris():
    names = Names()
    for key in ("plain", "with space", "@odd", "a/b", "", "ünï", "http://e/p", "urn:kbdisk:key:x"):
        assert names.key(iri_of_key(key)) == {"http://e/p": "p"}.get(key, key)
        assert id_of_iri(iri_of_id(key)) == key


# ---------------------------------------------------------------- values


@for_each(
    ("literal", "value"),
    [
        ("'x'", "x"),
        ("'x'@en", Text("x", "en")),
        ("'x'@EN-gb", Text("x", "en-gb")),
        ("1", 1),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("'+007'^^xsd:integer", 7),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("'0'^^xsd:boolean", False),
        ("'1912'^^xsd:gYear", Date(1912)),
        ("'x'^^xsd:anyURI", "x"),
        ("'x'^^:unknown", "x"),
        ("'<b/>'^^rdf:XMLLiteral", "<b/>"),
        ("'P1Y'^^xsd:duration", "P1Y"),
        ("'aGk='^^xsd:base64Binary", "aGk="),
        (":b", Link("http://e/b")),
        ("()", []),
        ("<urn:kbdisk:somevalue>", SOMEVALUE),
        ("<urn:kbdisk:novalue>", NOVALUE),
        ("<urn:kbdisk:asked>", None),
        ("''", ""),
    ],
)
def test_a_literal_is_the_value_it_says(literal, value):
    found = tree_of(f":a :p {literal} .")["p"]
    assert found == value
    assert type(found) is type(value)


@for_each(
    ("literal", "told"),
    [
        ("'INF'^^xsd:double", "infinite"),
        ("'-INF'^^xsd:double", "infinite"),
        ("'NaN'^^xsd:float", "no float"),
        ("1e400", "no double"),
        ("'many'^^xsd:integer", "no integer"),
        ("''^^xsd:integer", "no integer"),
        ("'1.5'^^xsd:integer", "no integer"),
        ("'300'^^xsd:byte", "no byte"),
        ("'-1'^^xsd:nonNegativeInteger", "no nonNegativeInteger"),
        ("'1,5'^^xsd:decimal", "no decimal"),
        ("'maybe'^^xsd:boolean", "no boolean"),
        ("'2012-02-30'^^xsd:date", "no date"),
        ("'0000-00-00'^^xsd:date", "no date"),
        ("'2012-13'^^xsd:gYearMonth", "no gYearMonth"),
        ("'yesterday'^^xsd:dateTime", "no dateTime"),
    ],
)
def test_a_literal_that_its_datatype_does_not_allow_is_kept_as_text_and_noted(literal, told):
    kb = kb_of(f":a :p {literal} .")
    with pytest.warns(KBDiskWarning, match=f"a value that is {told}, kept as text"):
        (entity,) = kb
    assert isinstance(entity.tree["p"], str)
    assert entity.tree["p"] in literal
    assert kb.odd.counts == {f"a value that is {told}, kept as text": 1}
    assert "http://e/a" in kb.odd.places[f"a value that is {told}, kept as text"][0]


def test_oddities_are_counted_and_the_first_of_a_kind_is_a_warning():
    kb = kb_of(" ".join(f":a{n} :p 'x'^^xsd:integer ." for n in range(8)))
    with pytest.warns(KBDiskWarning) as caught:
        list(kb)
    assert len(caught) == 1
    assert list(kb.odd.counts.values()) == [8]
    with pytest.warns(KBDiskWarning):
        list(kb)
    assert list(kb.odd.counts.values()) == [8]


# ---------------------------------------------------------------- classes, hierarchy, graphs


def test_classes_are_named_in_order_and_once():
    (entity,) = kb_of(":a a :T, :U, :T ; :p 1 .")
    assert (entity.classes, entity.tree) == (("http://e/T", "http://e/U"), {"p": 1})


@for_each("odd", ["'Person'", "[ :q 1 ]", "_:x", "5"])
def test_a_class_that_is_no_iri_is_left_out_and_noted(odd):
    with pytest.warns(KBDiskWarning, match="a class that is no IRI, left out"):
        found = {entity.id: entity for entity in kb_of(f":a a {odd}, :T .")}
    assert found["http://e/a"].classes == ("http://e/T",)


def test_anonymous_nodes_after_a_class_without_a_name_keep_their_numbers():
    with pytest.warns(KBDiskWarning):
        first, second = (list(kb_of(":a a [ :q 1 ] ; :p [ :r 2 ] .")) for _ in range(2))
    assert first == second


def test_a_thing_with_a_class_alone_is_an_entity():
    (entity,) = kb_of(":a a :T .")
    assert (entity.id, entity.classes, entity.tree) == ("http://e/a", ("http://e/T",), {})


def test_the_hierarchy_of_classes_is_kept():
    kb = kb_of(
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . :A rdfs:subClassOf :B, :C, [ :x 1 ] . :B rdfs:subClassOf :C . :x a :A ."
    )
    assert len(list(kb)) == 3
    assert kb.hierarchy == {"http://e/A": {"http://e/B", "http://e/C"}, "http://e/B": {"http://e/C"}}


def test_an_object_that_nothing_is_told_of_is_no_entity():
    assert [entity.id for entity in kb_of(":a :p :b, :c . :c :q 1 .")] == ["http://e/a", "http://e/c"]


def test_entities_come_in_the_order_of_the_source():
    kb = kb_of(":b :p 1 . :a :p 2 . :c :p 3 . :a :q 4 .")
    assert [(entity.id[-1], entity.position) for entity in kb] == [("b", 1), ("a", 2), ("c", 3)]
    assert {entity.source for entity in kb} == {kb}


@for_each("format", ["trig", "nquads"])
def test_named_graphs_are_kept(format):
    text = {
        "trig": ":g { :a :v 1 } :h { :a :v 2 . :b :v 3 } :c :v 4 . _:k { :d :v 5 }",
        "nquads": "\n".join(
            f'<http://e/{s}> <http://e/v> "{n}"^^<{XSD}integer> {g} .'
            for s, n, g in [("a", 1, "<http://e/g>"), ("a", 2, "<http://e/h>"), ("b", 3, "<http://e/h>"), ("c", 4, ""), ("d", 5, "_:k")]
        ),
    }[format]  # fmt: skip
    found = {entity.id[-1]: (entity.graph, entity.tree["v"]) for entity in kb_of(text, format)}
    assert found == {
        "a": ("http://e/g", [1, 2]),
        "b": ("http://e/h", 3),
        "c": ("", 4),
        "d": ("_:k", 5),
    }


def test_graphs_without_a_name_are_called_the_same_at_each_reading():
    text = "[] { :a :v [ :w 1 ] } [] { :b :v 2 } _:k { :c :v 3 }"
    first, second = (list(kb_of(text, "trig")) for _ in range(2))
    assert first == second
    assert len({entity.graph for entity in first}) == 3
    assert first[0].tree == {"v": {"@id": "_:[0]", "w": 1}}


def test_links_between_entities_make_a_graph():
    graph = kb_of(":a :knows :b ; :home [ :city :c ] . :b :p ( :c ) .").graph()
    assert set(graph.edges(keys=True)) == {
        ("http://e/a", "http://e/b", ("knows",)),
        ("http://e/a", "http://e/c", ("home", "city")),
        ("http://e/b", "http://e/c", ("p",)),
    }
