"""Triple terms of RDF 1.2: their blank nodes are those outside them, wherever a source is read, converted or completed."""

from __future__ import annotations

import warnings

import pyoxigraph
import pytest
import rdflib
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isomorphism import blank_nodes, isomorphic
from judges import FORMATS, by_rdflib, canonical, quads
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Triple
from pyoxigraph import Literal as LiteralTerm

import kbdisk
from kbdisk.entity import Completion, Filled, Link, Text
from kbdisk.errors import LoadError, WriteError
from kbdisk.loaders import together

pytestmark = pytest.mark.filterwarnings("ignore:.* a triple within a triple, kept as text")

E = "http://e/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
HEAD = f"@prefix : <{E}> . @prefix rdf: <{RDF}> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
SUFFIX = {
    "turtle": "ttl",
    "n3": "n3",
    "ntriples": "nt",
    "nquads": "nq",
    "trig": "trig",
    "rdfxml": "rdf",
    "jsonld": "jsonld",
}
GRAPHS = ("nquads", "trig", "jsonld")

SHAPES = {
    "an annotation of an annotation": ":s :p :o {| :a :b {| :a2 :b2 |} |} .",
    "a reifier with a label": ":s :p :o ~ _:r . _:r :a _:x . _:x :b :s .",
    "several annotations of one triple": ":s :p :o {| :a 1 |} {| :a 2 |} , [ :q 1 ] ~ _:r {| :a 3 |} .",
    "reified triples as subject and object": "<< :s :p [] >> :a << _:x :p << _:x :q 1 ~ _:x >> >> .",
    "one node within and outside": ":s :p [ :q <<( _:n :p [] )>> ] . _:n :says <<( :s :p <<( _:n :q _:m )>> )>> .",
    "a node of which nothing else is said": ":s :p <<( [] :q _:lone )>> .",
    "nodes that are told apart by triple terms alone": ":s :p <<( _:a :q _:b )>> , <<( _:b :q _:a )>> , <<( _:b :q _:b )>> .",
    "a collection that is annotated": ":s :p ( 1 [] ) {| :a ( <<( :s :p _:x )>> _:x ) |} .",
    "labels that conversions give": ":s :p [] , <<( _:b1 :q _:kbdisk1 )>> , <<( _:b2 :q [] )>> .",
    "labels that XML has no place for": "_:1 :p <<( _:2 :q _:b1 )>> . _:2 :p _:1 .",
    "literals within": ":s :p <<( :a :b \"x\\r\\ny\"@en )>> , <<( :a :b 05 )>> , <<( :a :b '<&\"'^^:t )>> , <<( :a a 'x'@ar--rtl )>> .",
    "a base direction": ":s :p 'x'@ar--rtl , 'x'@ar--ltr , 'x'@ar .",
    "relative IRIs": "@base <http://base/d/> . :s :p <<( <a> <b> <#c> )>> , <<( <> :q <../x> )>> .",
}


def source_in(format, document):
    """A document in another syntax, by somebody else; None where that cannot say it."""
    if format in ("turtle", "trig", "n3"):
        return document.encode()
    found = quads(document.encode(), "trig")
    try:
        text = pyoxigraph.serialize(
            found if format in GRAPHS else [quad.triple for quad in found], format=FORMATS[format]
        )
        text = text.replace(b"\r", b"&#13;") if format == "rdfxml" else text
        return text if isomorphic(quads(text, format), found) else None
    except (OSError, SyntaxError):  # labels that XML has no place for
        return None


def triples_in(found):
    """All triples, those within triple terms too."""
    for one in found:
        yield one
        if type(one.object) is Triple:
            yield from triples_in([one.object])


def refusal(found, target):
    """Why no document of a format says these quads; or nothing."""
    if target not in GRAPHS and any(not isinstance(quad.graph_name, DefaultGraph) for quad in found):
        return "expected the default graph"
    if target == "jsonld" and any(type(quad.object) is Triple for quad in found):
        return "expected no triple term, got <<("
    return ""


def check(document, source, target, folder):
    """Convert, and compare with what the document says."""
    text = source_in(source, document)
    if text is None:
        return
    found, out = quads(document.encode(), "trig"), folder / f"out.{SUFFIX[target]}"
    reason = refusal(found, target)
    if reason:
        with pytest.raises(WriteError) as refused:
            kbdisk.write(kbdisk.load(text, format=source), out, force=True)
        assert reason in str(refused.value)
        assert "\n" not in str(refused.value)
        return
    kbdisk.write(kbdisk.load(text, format=source), out, force=True)
    assert isomorphic(quads(out.read_bytes(), target), found), (source, target)


# ---------------------------------------------------------------- conversions


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_the_same_graph_in_every_format(shape, tmp_path):
    document = HEAD + SHAPES[shape]
    for source in SUFFIX:
        for target in SUFFIX:
            check(document, source, target, tmp_path)


iris = st.sampled_from([":a", ":b", "<http://e/d/c>", "rdf:nil"])
labels = st.sampled_from(["_:x", "_:b1", "_:kbdisk1", "_:y.z", "_:1"])
predicates = st.sampled_from([":p", ":q", "rdf:type", "rdf:value", "rdf:reifies", "rdf:first", "rdf:rest"])
literals = st.sampled_from(
    ['"x"', '"y"@en', '"z"@ar--rtl', "5", '"05"^^xsd:integer', r'"q\"\r\n\t<&"', "1.50", '"t"^^:t', '""']
)
terms = st.recursive(
    iris | labels | literals | st.just("[]"),
    lambda inner: st.builds("<<( {} {} {} )>>".format, iris | labels | st.just("[]"), predicates, inner),
    max_leaves=3,
)
reified = st.builds(
    "<< {} {} {}{} >>".format,
    iris | labels,
    predicates,
    iris | labels | literals,
    st.just("") | st.builds(" ~ {}".format, labels),
)
objects = st.recursive(
    terms | reified,
    lambda inner: st.builds("[ {} {} ]".format, predicates, inner) | st.builds("( {} {} )".format, inner, inner),
    max_leaves=3,
)
annotations = st.recursive(
    st.sampled_from(["", " ~", " ~ _:x"]),
    lambda inner: st.builds(" {{| {} {}{} |}}{}".format, predicates, objects, inner, inner),
    max_leaves=3,
)
statements = st.builds("{} {} {}{} .".format, iris | labels | st.just("[]"), predicates, objects, annotations)
named = st.builds("{} {{ {} }}".format, iris | labels | st.just("[]"), statements)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    rows=st.lists(statements, min_size=1, max_size=4) | st.lists(statements | named, min_size=1, max_size=4),
    source=st.sampled_from(list(SUFFIX)),
    target=st.sampled_from(list(SUFFIX)),
)
def test_any_graph_is_the_same_in_every_format_or_refused(rows, source, target, tmp_path):
    document = HEAD + "\n".join(rows)
    if source not in GRAPHS and any("{ " in row.replace("{|", "") for row in rows):
        source = "trig"
    with warnings.catch_warnings(action="ignore"):
        check(document, source, target, tmp_path)


def test_the_command_keeps_the_nodes_of_annotations(run, tmp_path):
    document = HEAD + ":s :p :o {| :a :b {| :a2 :b2 |} |} ."
    (tmp_path / "x.ttl").write_text(document)
    for target in ("nt", "nq", "rdf", "trig", "ttl"):
        out = tmp_path / f"y.{target}"
        assert run("write", tmp_path / "x.ttl", "--out", out, "--force")[0] == 0
        format = next(name for name, suffix in SUFFIX.items() if suffix == target)
        assert isomorphic(quads(out.read_bytes(), format), quads(document.encode())), target
    status, _, err = run("write", tmp_path / "x.ttl", "--out", tmp_path / "y.jsonld")
    assert status == 2
    assert "cannot be written as JSON-LD: expected no triple term, got <<( <http://e/s>" in " ".join(err.split())
    assert not (tmp_path / "y.jsonld").exists()


def test_the_judge_tells_graphs_apart_that_differ_within_triple_terms_alone():
    def graph(text):
        return quads((HEAD + text).encode())

    assert isomorphic(graph("_:a :p <<( _:a :q _:b )>> ."), graph("_:c :p <<( _:c :q _:d )>> ."))
    assert not isomorphic(graph("_:a :p <<( _:a :q _:b )>> ."), graph("_:c :p <<( _:d :q _:c )>> ."))
    assert not isomorphic(graph("_:a :p <<( :s :q _:a )>> ."), graph("_:a :p <<( :s :q _:b )>> ."))
    ring, rings = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)), ((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3))
    one, two = (graph("".join(f":s :p <<( _:n{a} :q _:n{b} )>> . " for a, b in pairs)) for pairs in (ring, rings))
    assert not isomorphic(one, two)
    assert isomorphic(one, one[::-1])


# ---------------------------------------------------------------- what RDF/XML cannot say


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (r':s :p "a\u0001b" .', "XML has no character U+0001"),
        (r':s :p <<( :a :b "\uFFFE" )>> .', "XML has no character U+FFFE"),
        (":s <http://e/1> 1 .", "expected a predicate that ends in a name, got <http://e/1>"),
        (":s :p <<( :a <http://e/²> 1 )>> .", "expected a predicate that ends in a name, got <http://e/²>"),
        (":s rdf:li 1 .", "expected a predicate that is no word of RDF/XML itself"),
        (":s :p <<( :a rdf:aboutEach 1 )>> .", "expected a predicate that is no word of RDF/XML itself"),
    ],
)
def test_what_rdf_xml_cannot_say_is_refused_by_name(said, why, tmp_path):
    with pytest.raises(WriteError) as refused:
        kbdisk.write(kbdisk.load((HEAD + said).encode(), format="turtle"), tmp_path / "out.rdf")
    assert why in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_line_ends_and_prefixes_of_rdf_xml_are_read_alike_by_others(tmp_path):
    document = "@prefix rdf: <http://other/> . @prefix its: <http://o/> . @prefix xmlx: <http://x/> . @prefix é: <http://a/> . "
    document += r'rdf:s rdf:p "a\r\nb\rc" ; its:p 1 ; xmlx:p 2 ; é:p 3 .'
    kbdisk.write(kbdisk.load(document.encode(), format="turtle"), tmp_path / "out.rdf")
    data = (tmp_path / "out.rdf").read_bytes()
    assert by_rdflib(data, "rdfxml") == canonical(quads(data, "rdfxml")) == canonical(quads(document.encode()))


def test_a_line_end_within_rdf_xml_is_a_line_feed_as_every_xml_parser_reads_it():
    data = f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:e="{E}"><rdf:Description rdf:about="{E}s"><e:p>a\r\nb\rc&#13;d</e:p></rdf:Description></rdf:RDF>'
    assert kbdisk.load(data.encode(), format="rdfxml")[E + "s"].tree == {"p": "a\nb\nc\rd"}


def test_triples_that_nest_too_deep_in_rdf_xml_are_refused():
    def nested(depth):
        opened = f'<rdf:Description rdf:about="{E}s"><e:p rdf:parseType="Triple">' * depth
        inner = f'<rdf:Description rdf:about="{E}s"><e:p>x</e:p></rdf:Description>'
        closed = "</e:p></rdf:Description>" * depth
        return f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:e="{E}" rdf:version="1.2">{opened}{inner}{closed}{opened}{inner}{closed}</rdf:RDF>'.encode()

    assert kbdisk.load(nested(100), format="rdfxml")[E + "s"].tree["p"].count("<<(") == 100
    with pytest.raises(LoadError, match="at most 100 triples within triples"):
        list(kbdisk.load(nested(101), format="rdfxml"))


def test_a_datatype_of_json_ld_that_is_relative_is_refused_without_a_base():
    with pytest.raises(LoadError, match="'rel' without a base"):
        list(kbdisk.load(b'{"@id": "http://e/a", "http://e/p": {"@value": "x", "@type": "rel"}}', format="jsonld"))


# ---------------------------------------------------------------- entities

ANNOTATED = (
    HEAD
    + """:s a :T ; :p [ :x 1 ] {| :a :b {| :a2 "t"@ar--rtl |} |} ; :part [ :x 2 ] ; :name "n"@ar--rtl , "m" .
_:k :says <<( :s :p <<( _:k :q [] )>> )>> . :l :list ( <<( :a :b _:k )>> 2 ) . [] :x 3 ."""
)


def test_entities_and_triple_terms_call_a_node_alike_and_none_is_folded_away():
    entities = {entity.id: entity.tree for entity in kbdisk.load(ANNOTATED.encode(), format="turtle")}
    assert entities[E + "s"]["p"] == Link("_:[0]"), "a triple term speaks of it"
    assert entities["_:[1]"]["reifies"] == "<<( <http://e/s> <http://e/p> _:[0] )>>"
    assert entities["_:[2]"]["reifies"] == "<<( _:[1] <http://e/a> <http://e/b> )>>"
    assert entities["_:k"]["says"] == "<<( <http://e/s> <http://e/p> <<( _:k <http://e/q> _:[4] )>> )>>"
    assert entities[E + "s"]["part"] == {"@id": "_:[3]", "x": 2}
    assert entities[E + "s"]["name"] == [Text("n", "ar--rtl"), "m"]
    assert entities["_:[7]"] == {"x": 3}, "the links of the collection come before"


@pytest.mark.parametrize("target", ["turtle", "nquads", "rdfxml"])
def test_entities_that_are_written_anew_keep_their_triple_terms(target, tmp_path):
    out = tmp_path / f"out.{SUFFIX[target]}"
    report = kbdisk.write(list(kbdisk.load(ANNOTATED.encode(), format="turtle")), out)
    assert report.unwritable == []
    assert isomorphic(quads(out.read_bytes(), target), quads(ANNOTATED.encode()))


def test_a_node_that_is_written_as_a_value_is_no_more_there_for_a_triple_term(tmp_path):
    document = (
        HEAD
        + "@prefix s: <http://schema.org/> . :a :mass [ a s:QuantitativeValue ; s:value 5 ; s:unitText 'kg' ] {| :b 1 |} . :c :b 2 ."
    )
    report = kbdisk.write(list(kbdisk.load(document.encode(), format="turtle")), tmp_path / "out.ttl")
    assert [(id, why) for id, _, why in report.unwritable] == [
        ("_:[1]", "a triple term speaks of a node that is written as a value; write the whole source instead")
    ]
    assert not any(
        blank.value.startswith("kbdisk2")
        for quad in quads((tmp_path / "out.ttl").read_bytes())
        for blank in blank_nodes(quad.object)
    )


def filled(kb, id, values):
    entity = next(entity for entity in kb if entity.id == id)
    return Completion(entity, {(key,): Filled(value) for key, value in values.items()})


def test_a_bracket_is_found_behind_nodes_within_triple_terms(tmp_path):
    document = HEAD + ":s :p <<( [] :q [] )>> . [] :x 1 ; :q <<( [] :q _:k )>> . [ :x 2 ] :q 4 ."
    kb = kbdisk.load(document.encode(), format="turtle")
    id = next(entity.id for entity in kb if entity.tree.get("x") == 2)
    report = kbdisk.write([filled(kb, id, {"size": 5, E + "size": 5})], tmp_path / "out.ttl", insert=True)
    assert report.written == 1
    expected = document.replace("[ :x 2 ]", "[ :x 2 ; :size 5 ]")
    assert isomorphic(quads((tmp_path / "out.ttl").read_bytes()), quads(expected.encode()))


def test_rdf_xml_with_triple_terms_takes_new_values_into_its_text(tmp_path):
    text = source_in(
        "rdfxml",
        HEAD + ":s :p [ :x 1 ] {| :a :b |} ; :x 2 . _:k :says <<( :s :p <<( _:k :q _:l )>> )>> . :t :x 3 ; :y 4 .",
    )
    kb = kbdisk.load(text, format="rdfxml")
    report = kbdisk.write([filled(kb, E + "s", {"y": 5})], tmp_path / "out.rdf")
    assert report.written == 1
    out = (tmp_path / "out.rdf").read_bytes()
    start = next(i for i, (a, b) in enumerate(zip(out, text, strict=False)) if a != b)
    assert out[start + len(out) - len(text) :] == text[start:], "all else is as it was"
    new = pyoxigraph.Quad(NamedNode(E + "s"), NamedNode(E + "y"), LiteralTerm(5), DefaultGraph())
    assert isomorphic(quads(out, "rdfxml"), [*quads(text, "rdfxml"), new])


def test_a_property_of_triple_terms_is_never_filled_with_text(tmp_path):
    kb = kbdisk.load((HEAD + ":a :says <<( :b :p 1 )>> . :b :p 1 .").encode(), format="turtle")
    report = kbdisk.write([filled(kb, E + "b", {"says": "<<( <http://e/a> <http://e/p> 1 )>>"})], tmp_path / "out.ttl")
    assert [why for *_, why in report.unwritable] == [
        "expected a triple term, as its other values are, which cannot be filled in"
    ]


def test_nodes_of_several_sources_stay_apart_within_triple_terms_too(tmp_path):
    both = [kbdisk.load(ANNOTATED.encode(), format="turtle") for _ in range(2)]
    [whole] = together(both)
    kbdisk.write(whole, tmp_path / "out.nq")
    [one, two] = [quads(ANNOTATED.encode()) for _ in range(2)]
    apart = [pyoxigraph.Quad(*(_marked(term) for term in (quad.subject, quad.predicate, quad.object))) for quad in two]
    assert isomorphic(quads((tmp_path / "out.nq").read_bytes(), "nquads"), [*one, *apart])
    assert next(entity.tree for entity in whole if entity.id == whole.id_here(1, "_:[7]")) == {"x": 3}


def _marked(term):
    if type(term) is BlankNode:
        return BlankNode("two" + term.value)
    return Triple(*map(_marked, term)) if type(term) is Triple else term


@pytest.mark.parametrize("said", [":s :p <<( :a :b _:x )>> .", ":s :p 'x'@ar--rtl ."])
def test_rdflib_which_knows_no_rdf_1_2_is_told_nothing_rather_than_a_part(said):
    graph = rdflib.Graph()
    with pytest.raises(WriteError, match=r"expected RDF 1\.1"):
        kbdisk.write(kbdisk.load((HEAD + ":s :q 1 . " + said).encode(), format="turtle"), graph)
    assert len(graph) == 0
