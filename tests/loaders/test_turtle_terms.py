"""Terms as text: never an invalid one, never another one."""

from __future__ import annotations

import io

import pytest
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, RdfFormat, Triple, parse
from tables import for_each

from kbdisk.loaders.rdf import turtle
from kbdisk.loaders.rdf.turtle import SHORTHAND, TermWriter

XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = {"ex": "http://e/", "": "http://e/x#", "mid": "http://e/na", "xsd": XSD}


@for_each(
    ("iri", "text"),
    [
        ("http://e/a", "ex:a"),
        ("http://e/name", "mid:me"),
        ("http://e/na", "mid:"),
        ("http://e/x#a.b", ":a.b"),
        ("http://e/x#", ":"),
        ("http://e/a:b", "ex:a:b"),
        ("http://e/1", "ex:1"),
        ("http://e/a%20b", "ex:a%20b"),
        ("http://e/%C3%A9", "ex:%C3%A9"),
        ("http://e/é", "ex:é"),
        ("http://e/\U00010400", "ex:\U00010400"),
        ("http://e/a.", "<http://e/a.>"),
        ("http://e/.a", "<http://e/.a>"),
        ("http://e/-a", "<http://e/-a>"),
        ("http://e/a/b", "<http://e/a/b>"),
        ("http://e/a(b)", "<http://e/a(b)>"),
        ("http://e/a'b", "<http://e/a'b>"),
        ("http://e/a,b;c", "<http://e/a,b;c>"),
        ("http://e/a#b", "<http://e/a#b>"),
        ("http://e/×", "<http://e/×>"),
        ("http://f/a", "<http://f/a>"),
        ("urn:x", "<urn:x>"),
    ],
)
def test_an_iri_is_shortened_only_where_the_name_is_valid(iri, text):
    assert TermWriter(PREFIXES).iri(iri) == text


def test_a_longer_namespace_that_does_not_fit_gives_way_to_a_shorter_one():
    assert TermWriter({"a": "http://e/x", "b": "http://e/x."}).iri("http://e/x.-y") == "<http://e/x.-y>"
    assert TermWriter({"a": "http://e/", "b": "http://e/x"}).iri("http://e/x-y") == "a:x-y"


@for_each("name", ["_", "a b", "1a", "a.", "a:b", "<"])
def test_a_prefix_that_is_no_name_is_not_used(name):
    assert TermWriter({name: "http://e/"}).iri("http://e/a") == "<http://e/a>"


def test_a_namespace_that_is_no_iri_is_not_used():
    assert TermWriter({"": "", "a": "rel/"}).prefixes == {}


@for_each("iri", ["a", "http://e/a b", "http://e/<", "http://e/\\u0020", "", "http://e/\n"])
def test_what_is_no_absolute_iri_is_refused(iri):
    with pytest.raises(ValueError, match="expected an absolute IRI, got"):
        TermWriter({"": "http://e/"}).iri(iri)


@for_each(
    ("base", "iri", "text"),
    [
        ("http://b/c/d", "http://b/c/e", "<e>"),
        ("http://b/c/d", "http://b/c/e/f.g/", "<e/f.g/>"),
        ("http://b/c/d#old", "http://b/c/d#new", "<#new>"),
        ("http://b/c/d", "http://b/c/d", "<>"),
        ("http://b/c/d?q=a/b", "http://b/c/e", "<e>"),
        ("http://b/c/d?q=a/b", "http://b/c/d?q=a/b#e", "<#e>"),
        ("urn:x:y", "urn:x:y#e", "<#e>"),
        ("http://b/c/d", "http://b/e", "<http://b/e>"),
        ("http://b/c/d", "http://b/c//e", "<http://b/c//e>"),
        ("http://b/c/d", "http://b/c/../e", "<http://b/c/../e>"),
        ("http://b/c/d", "http://b/c/e:f", "<http://b/c/e:f>"),
        ("http://b/c/d", "http://b/c/e?f", "<http://b/c/e?f>"),
        ("http://b", "http://b/e", "<http://b/e>"),
        ("http://b/a/../d", "http://b/a/../e", "<http://b/a/../e>"),
        ("urn:x:y", "urn:x:z", "<urn:x:z>"),
    ],
)
def test_an_iri_is_relative_only_where_it_surely_resolves_back(base, iri, text):
    assert TermWriter(base=base).iri(iri) == text
    [quad] = parse(f"<urn:s> <urn:p> {text} .".encode(), RdfFormat.TURTLE, base_iri=base)
    if ".." not in iri:  # a parser takes the dots out of absolute IRIs too, or leaves them in
        assert quad.object.value == iri


@for_each(
    ("lexical", "datatype", "text"),
    [
        ("5", "integer", "5"),
        ("-7", "integer", "-7"),
        ("-007", "integer", '"-007"^^xsd:integer'),  # rdflib would rewrite it
        ("+5.50", "decimal", '"+5.50"^^xsd:decimal'),
        ("5.", "decimal", '"5."^^xsd:decimal'),
        ("5", "decimal", '"5"^^xsd:decimal'),
        (".5", "decimal", '".5"^^xsd:decimal'),
        ("5.0", "integer", '"5.0"^^xsd:integer'),
        ("1E5", "double", "1E5"),
        ("1.", "double", '"1."^^xsd:double'),
        ("1.e5", "double", "1.e5"),
        ("INF", "double", '"INF"^^xsd:double'),
        ("true", "boolean", "true"),
        ("1", "boolean", '"1"^^xsd:boolean'),
        ("TRUE", "boolean", '"TRUE"^^xsd:boolean'),
        ("٣", "integer", '"٣"^^xsd:integer'),  # a digit, but not of Turtle
        ("5\n", "integer", '"5\\n"^^xsd:integer'),
        ("1999", "gYear", '"1999"^^xsd:gYear'),
    ],
)
def test_a_value_is_bare_only_where_it_reads_back_the_same(lexical, datatype, text):
    literal = Literal(lexical, datatype=NamedNode(XSD + datatype))
    assert TermWriter(PREFIXES, shorthand=SHORTHAND).literal(literal) == text
    [quad] = parse(f"@prefix xsd: <{XSD}> . <urn:s> <urn:p> {text} .".encode(), RdfFormat.TURTLE)
    assert quad.object == literal


def test_without_shorthand_every_value_is_quoted():
    literal = Literal("5", datatype=NamedNode(XSD + "integer"))
    assert TermWriter().literal(literal) == f'"5"^^<{XSD}integer>'


def test_strings_are_escaped_and_keep_their_language():
    assert TermWriter().literal(Literal('a"\\\n\r\t\x00\x7fé😀')) == '"a\\"\\\\\\n\\r\\t\\u0000\\u007Fé😀"'
    assert TermWriter().literal(Literal("a", language="en-gb")) == '"a"@en-gb'


def test_blank_nodes_keep_their_labels():
    assert TermWriter().term(BlankNode("b.1-x")) == "_:b.1-x"


def test_a_triple_is_a_value_and_holds_others():
    inside = Triple(NamedNode("http://e/é"), NamedNode("urn:p"), Literal("o"))
    triple = Triple(BlankNode("n"), NamedNode("urn:q"), inside)
    assert TermWriter(PREFIXES).term(triple) == '<<( _:n <urn:q> <<( ex:é <urn:p> "o" )>> )>>'


def test_what_is_no_value_is_refused():
    with pytest.raises(ValueError, match="expected an IRI, a blank node or a literal, got DEFAULT"):
        TermWriter().term(DefaultGraph())


def test_a_pair_is_what_goes_into_a_bracket():
    kind = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
    assert TermWriter(PREFIXES).pair(kind, NamedNode("http://e/é")) == "a ex:é".encode()


def test_ever_more_iris_are_not_all_remembered(monkeypatch):
    monkeypatch.setattr(turtle, "_MAX_CACHED_IRIS", 10)
    names = TermWriter(PREFIXES)
    assert [names.iri(f"http://e/{i}") for i in range(100)] == [f"ex:{i}" for i in range(100)]
    assert len(names._known) <= 10


@for_each(
    ("document", "relative"),
    [
        (b"<a> <http://p> 1 .", True),
        (b"@prefix : <#> .", True),
        (b"<http://a> <urn:p> <x:> . <<( <a:a> <a:b> <a:c> )>>", False),
        (b"<> <urn:p> 1 .", True),
    ],
)
def test_relative_iris_of_a_document_are_seen(document, relative):
    assert turtle.relative_iris(io.BytesIO(document)) == relative


def test_shorthand_is_what_the_document_does_not_quote():
    sample = f'ex:a ex:p "1"^^xsd:integer, "2"^^xsd:integer, 3, 1.5, "2"^^<{XSD}boolean> .'.encode()
    assert turtle.shorthand_of(sample) == {XSD + "decimal", XSD + "double"}
