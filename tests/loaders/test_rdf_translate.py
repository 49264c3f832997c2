"""From one RDF syntax to another, to an update or into an rdflib graph: every triple is kept, and the manner of the source."""

from __future__ import annotations

import warnings

import pyoxigraph
import pytest
import rdflib
from judges import FORMATS, canonical, graph, of_graph, quads, says
from tables import for_each

import kbdisk
from kbdisk.entity import Completion, Filled, Link, Quantity
from kbdisk.errors import WriteError

E = "http://ex.org/"
DOCUMENT = """@prefix : <http://ex.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix b: <http://b.org/> .
@prefix schema: <http://schema.org/> . @prefix geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> .
:a a :Thing , :Other ; :size "+05.50"^^xsd:decimal , 7 ; :born "1950"^^xsd:gYear ; :near :b , _:x ; b:size "odd"^^b:type ;
  :part [ a :Part ; :size 5 ; :sub [ :name "deep"@de ] ] ; :list ( 1 2 ) ; :name 'it"s\\n' .
:b :mass [ a schema:QuantitativeValue ; schema:value 5 ; schema:unitText 'kg' ] ; geo:lat 1.50 ; geo:long 2.5 .
_:x :name "x" ; :near _:x . [] :name "nobody" .
"""
NAMED = DOCUMENT + ":g { :c :size 5 ; :part [ :name 'p' ] . } _:h { :d :size 6 }\n"
SUFFIX = {
    "turtle": "ttl",
    "n3": "n3",
    "ntriples": "nt",
    "nquads": "nq",
    "trig": "trig",
    "rdfxml": "rdf",
    "jsonld": "jsonld",
}
FLAT = ["turtle", "n3", "ntriples", "rdfxml"]


def with_values(kb, values):
    return [
        Completion(entity, {path: Filled(value) for path, value in values[entity.id].items()})
        for entity in kb
        if entity.id in values
    ]


def written(items, folder, suffix, **how):
    target = folder / f"out.{suffix}"
    report = kbdisk.write(items, target, force=True, **how)
    return target.read_bytes(), report


def stored(found):
    """What a store makes of quads: it rewrites literals."""
    store = pyoxigraph.Store()
    store.extend(found)
    return canonical(list(store))


def in_syntax(document, format):
    """A document in another syntax, by somebody else."""
    found = quads(document.encode(), "trig")
    flat = format in FLAT
    prefixes = {"e": E, "b": "http://b.org/"}
    text = pyoxigraph.serialize(
        [quad.triple if flat else quad for quad in found], format=FORMATS[format], prefixes=prefixes
    )
    return text.replace(
        b" +05.50", b' "+05.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    )  # bare, rdflib rewrites it


# ---------------------------------------------------------------- whole sources


@for_each("target", SUFFIX)
@for_each("source", SUFFIX)
def test_from_any_syntax_to_any_other_the_graph_is_the_same(source, target, tmp_path):
    text = in_syntax(DOCUMENT, source)
    kb = kbdisk.load(text, format=source)
    out, report = written(kb, tmp_path, SUFFIX[target])
    assert (report.written, report.unwritable) == (0, [])
    says(out, text, target, tmp_path, expected_format=source)
    assert written(kbdisk.load(text, format=source), tmp_path, SUFFIX[target])[0] == out, "the same every time"


@for_each("target", ["nquads", "trig", "jsonld"])
@for_each("source", ["nquads", "trig", "jsonld"])
def test_named_graphs_are_kept(source, target, tmp_path):
    text = in_syntax(NAMED, source)
    out, _ = written(kbdisk.load(text, format=source), tmp_path, SUFFIX[target])
    assert graph(out, target) == graph(NAMED.encode(), "trig")


@for_each("target", FLAT)
def test_named_graphs_are_never_lost_in_silence(target, tmp_path):
    with pytest.raises(WriteError, match=r"TriG \(\.trig\)"):
        written(kbdisk.load(NAMED.encode(), format="trig"), tmp_path, SUFFIX[target])
    assert list(tmp_path.iterdir()) == []


@for_each("target", ["turtle", "ntriples", "trig", "rdfxml", "jsonld"])
@for_each("source", ["turtle", "nquads", "jsonld"])
def test_what_is_new_comes_along_as_the_source_would_say_it(source, target, tmp_path):
    text = in_syntax(DOCUMENT, source)
    kb = kbdisk.load(text, format=source)
    values = {
        E + "b": {("born",): kbdisk.Date(1990)},
        E + "a": {("part", "sub", "size"): 6, ("mass",): Quantity(7, "g")},
    }
    out, report = written(with_values(kb, values), tmp_path, SUFFIX[target])
    assert (report.written, report.unwritable) == (3, [])
    expected = DOCUMENT.replace('"deep"@de', '"deep"@de ; :size 6') + ":b :born '1990'^^xsd:gYear ."
    expected += " :a :mass [ a schema:QuantitativeValue ; schema:value 7 ; schema:unitText 'g' ] ."
    says(out, in_syntax(expected, "ntriples"), target, tmp_path, expected_format="ntriples")
    if target in ("turtle", "ntriples", "trig"):
        again = {entity.id: entity for entity in kbdisk.load(out, format=target)}
        assert again[E + "b"].made == {("born",): kbdisk.Date(1990)}
        assert "born" not in again[E + "b"].tree


@for_each("target", ["ntriples", "trig", "jsonld"])
def test_what_was_filled_before_comes_along_too(target, tmp_path):
    kb = kbdisk.load(DOCUMENT.encode(), format="turtle")
    values = {E + "b": {("born",): kbdisk.Date(1990)}, E + "a": {("part", "sub", "size"): 6}}
    out, _ = written(with_values(kb, values), tmp_path, "ttl", insert=True)
    other, _ = written(kbdisk.load(out, format="turtle"), tmp_path, SUFFIX[target])
    assert graph(other, target) == graph(out)
    if target != "jsonld":
        assert {entity.id: entity.made for entity in kbdisk.load(other, format=target)}[E + "b"] == {
            ("born",): kbdisk.Date(1990)
        }


@for_each("again", [False, True])
@for_each("target", ["jsonl", "csv"])
def test_what_was_filled_before_is_there_in_a_target_of_another_kind(target, again, tmp_path):
    kb = kbdisk.load(DOCUMENT.encode(), format="turtle")
    out, _ = written(with_values(kb, {E + "b": {("born",): kbdisk.Date(1990)}}), tmp_path, "ttl")
    completed = kbdisk.load(out, format="turtle")
    items = with_values(completed, {E + "a": {("age",): 6}, E + "b": {("born",): kbdisk.Date(1991)}})
    other, report = written(items if again else completed, tmp_path, target)
    found = {entity.id: entity.tree for entity in kbdisk.load(other, format=target)}
    assert found[E + "b"]["born"] in (kbdisk.Date(1990), "1990", 1990)
    assert (found[E + "a"].get("age"), [one[:2] for one in report.unwritable]) == (
        (6, [(E + "b", ("born",))]) if again else (None, [])
    )


def test_prefixes_come_along(tmp_path):
    out, _ = written(kbdisk.load(DOCUMENT.encode(), format="turtle"), tmp_path, "trig")
    assert b"@prefix b: <http://b.org/> ." in out
    assert b":a a :Thing" in out


def test_what_was_skipped_is_counted_once(tmp_path):
    text = f'<{E}a> <{E}size> "5" .\n<{E}a> broken .\n<{E}b> <{E}name> "b" .\n'.encode()
    kb = kbdisk.load(text, format="ntriples", skip_errors=True)
    items = with_values(kb, {E + "b": {("size",): "7"}})
    written(items, tmp_path, "nt")
    written(items, tmp_path, "ttl")
    assert len(kb.skipped) == 1
    assert [entity.id for entity in kbdisk.load(tmp_path / "out.ttl")] == [E + "a", E + "b"]


# ---------------------------------------------------------------- only what is new, and updates


NEW = {
    E + "b": {("born",): kbdisk.Date(1990), ("near",): Link(E + "a"), ("part", "size"): 6},
    E + "a": {("mass",): Quantity(7, "g")},
}
SAID = """@prefix : <http://ex.org/> . @prefix schema: <http://schema.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:b :born "1990"^^xsd:gYear ; :near :a ; :part [ a :Part ; :size 6 ] .
:a :mass [ a schema:QuantitativeValue ; schema:value 7 ; schema:unitText 'g' ] .
"""


@for_each("target", SUFFIX)
def test_only_what_is_new_as_a_document_of_its_own(target, tmp_path):
    kb = kbdisk.load(DOCUMENT.encode(), format="turtle")
    out, report = written(with_values(kb, NEW), tmp_path, SUFFIX[target], only_new=True)
    assert (report.written, report.unwritable) == (4, [])
    says(out, in_syntax(SAID, "ntriples"), target, tmp_path, expected_format="ntriples")


@for_each("target", ["ttl", "ru"])
def test_a_document_of_its_own_cannot_speak_of_the_blank_nodes_of_another(target, tmp_path):
    kb = kbdisk.load(DOCUMENT.encode(), format="turtle")
    values = {"_:x": {("size",): 1}, E + "a": {("part", "near"): Link(E + "b")}, E + "b": {("near",): Link("_:x")}}
    out, report = written(with_values(kb, values), tmp_path, target, only_new=True)
    assert out == b""
    assert (report.written, len(report.unwritable)) == (0, 3)
    assert {why for _, _, why in report.unwritable} == {"stands at a blank node, which only the source itself can name"}


@for_each("document", [DOCUMENT, NAMED])
@for_each("only_new", [True, False])
def test_an_update_makes_of_the_source_what_was_written(only_new, document, tmp_path):
    kb = kbdisk.load(document.encode(), format="trig")
    values = NEW | ({E + "c": {("born",): kbdisk.Date(1990)}} if document is NAMED else {})
    update, report = written(with_values(kb, values), tmp_path, "ru", only_new=only_new)
    assert (report.written, report.unwritable) == (sum(map(len, values.values())), [])
    store = pyoxigraph.Store()
    store.extend(quads(document.encode(), "trig"))
    store.update(update.decode())
    spliced, _ = written(with_values(kb, values), tmp_path, "trig")
    assert canonical(list(store)) == stored(quads(spliced, "trig"))
    if document is DOCUMENT:  # rdflib stumbles over updates of a Dataset
        other = rdflib.Graph()
        other.update(update.decode())
        assert len(other) == len(store) - len(quads(document.encode(), "trig"))


def test_an_update_of_a_whole_source_inserts_all_of_it(tmp_path):
    update, _ = written(kbdisk.load(NAMED.replace("_:h {", ":h {").encode(), format="trig"), tmp_path, "ru")
    store = pyoxigraph.Store()
    store.update(update.decode())
    assert canonical(list(store)) == stored(quads(NAMED.replace("_:h {", ":h {").encode(), "trig"))


# ---------------------------------------------------------------- some entities


@for_each("target", ["turtle", "nquads", "jsonld"])
def test_some_entities_are_said_in_the_words_of_their_source(target, tmp_path):
    kb = kbdisk.load(DOCUMENT.encode(), format="turtle")
    out, report = written([entity for entity in kb if entity.id == E + "a"], tmp_path, SUFFIX[target])
    assert report.unwritable == []
    told = {str(quad.predicate.value) for quad in quads(out, target)}
    assert {E + "size", "http://b.org/size", E + "born"} < told
    again = kbdisk.load(out, format=target)[E + "a"]
    first = kb[E + "a"]
    assert set(again.classes) == set(first.classes)
    assert again.tree["born"] == first.tree["born"]
    assert sorted(again.tree["size"]) == sorted(first.tree["size"])
    assert again.tree["list"] == [1, 2]
    assert again.tree["part"]["sub"]["name"] == first.tree["part"]["sub"]["name"]


def test_every_entity_by_its_tree_is_the_same_entity_again(tmp_path):
    kb = kbdisk.load(DOCUMENT.encode(), format="turtle")
    out, _ = written(list(kb), tmp_path, "ttl")
    assert len(quads(out)) == len(quads(DOCUMENT.encode()))
    names = [entity.label or entity.tree.get("name") for entity in kbdisk.load(out, format="turtle")]
    assert names == [entity.label or entity.tree.get("name") for entity in kb]


def test_entities_keep_their_named_graphs(tmp_path):
    kb = kbdisk.load(NAMED.encode(), format="trig")
    out, _ = written([entity for entity in kb if entity.graph == E + "g"], tmp_path, "trig")
    assert graph(out, "trig") == graph(b"@prefix : <http://ex.org/> . :g { :c :size 5 ; :part [ :name 'p' ] }", "trig")
    with pytest.raises(WriteError, match="TriG"):
        written([entity for entity in kb if entity.graph], tmp_path, "ttl")


def test_graphs_without_a_name_stay_graphs(tmp_path):
    document = b"@prefix : <http://ex.org/> . [] { :a :size 5 . :b :name 'b' } [] { :c :name 'c' }"
    kb = kbdisk.load(document, format="trig")
    assert graph(written(list(kb), tmp_path, "trig")[0], "trig") == graph(document, "trig")
    out, report = written(with_values(kb, {E + "b": {("size",): 7}}), tmp_path, "nq")
    assert (report.written, report.unwritable) == (1, [])
    assert graph(out, "nquads") == graph(document.replace(b"'b'", b"'b' ; :size 7"), "trig")


def test_entities_with_what_was_filled_in_them(tmp_path):
    kb = kbdisk.load(b"@prefix : <http://ex.org/> . :a :size 1.50 . :b :name 'b' .", format="turtle")
    [completion] = with_values(kb, {E + "b": {("size",): 2.5}})
    out, report = written([kb[E + "a"], completion], tmp_path, "ttl")
    assert report.written == 1
    assert graph(out) == graph(b"@prefix : <http://ex.org/> . :a :size 1.50 . :b :name 'b' ; :size 2.50 .")


# ---------------------------------------------------------------- rdflib


def parsed(text, kind=rdflib.Graph, format="turtle"):
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return kind().parse(data=text, format=format)


PLAIN = "@prefix : <http://ex.org/> . :a :size 5 ; :part [ :size 1 ] . :b :name 'b' . _:x :name 'x' ."


def test_a_graph_in_memory_goes_to_a_file(tmp_path):
    source = parsed(PLAIN)
    kb = kbdisk.load(source)
    for suffix, format in (("ttl", "turtle"), ("nq", "nquads"), ("jsonld", "jsonld")):
        out, report = written(with_values(kb, {E + "b": {("size",): 7}}), tmp_path, suffix)
        assert report.written == 1
        says(out, (PLAIN + " :b :size 7 .").encode(), format, tmp_path, expected_format="turtle")


def test_a_graph_in_memory_goes_to_another(tmp_path):
    source, target = parsed(PLAIN), rdflib.Graph()
    kb = kbdisk.load(source)
    blank = next(entity.id for entity in kb if entity.id.startswith("_:"))
    values = {E + "b": {("size",): 7}, blank: {("size",): 8}, E + "a": {("part", "name"): "p"}}
    report = kbdisk.write(with_values(kb, values), target)
    assert (report.written, report.unwritable) == (3, [])
    expected = "@prefix : <http://ex.org/> . :a :size 5 ; :part [ :size 1 ; :name 'p' ] . :b :name 'b' ; :size 7 . _:x :name 'x' ; :size 8 ."
    assert of_graph(target) == graph(expected.encode())
    assert of_graph(source) == graph(PLAIN.encode()), "the source is as it was"
    assert dict(target.namespaces())[""] == rdflib.URIRef(E)


def test_a_graph_is_added_to_in_place_only_on_request():
    source = parsed(PLAIN)
    kb = kbdisk.load(source)
    blank = next(entity.id for entity in kb if entity.id.startswith("_:"))
    items = with_values(kb, {blank: {("size",): 8}})
    with pytest.raises(WriteError, match="in_place"):
        kbdisk.write(items, source)
    kbdisk.write(items, source, in_place=True)
    assert of_graph(source) == graph(PLAIN.replace("_:x :name 'x'", "_:x :name 'x' ; :size 8").encode())


def test_labels_of_a_graph_in_memory_are_not_taken_for_ours():
    source = rdflib.Graph()
    source.add((rdflib.URIRef(E + "a"), rdflib.URIRef(E + "part"), rdflib.BNode("kbdisk1")))
    source.add((rdflib.BNode("kbdisk1"), rdflib.URIRef(E + "size"), rdflib.Literal(5)))
    source.add((rdflib.URIRef(E + "b"), rdflib.URIRef(E + "name"), rdflib.Literal("b")))
    target = rdflib.Graph()
    kbdisk.write(with_values(kbdisk.load(source), {E + "b": {("part", "size"): 7}}), target)
    expected = "@prefix : <http://ex.org/> . :a :part [ :size 5 ] . :b :name 'b' ; :part [ :size 7 ] ."
    assert of_graph(target) == graph(expected.encode())


def test_a_dataset_keeps_its_named_graphs():
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        source, target = (
            parsed("@prefix : <http://ex.org/> . :g { :a :size 5 . :b :name 'b' }", rdflib.Dataset, "trig"),
            rdflib.Dataset(),
        )
        items = with_values(kbdisk.load(source), {E + "b": {("size",): 7}})
        kbdisk.write(items, target)
        assert of_graph(target) == graph(
            b"@prefix : <http://ex.org/> . :g { :a :size 5 . :b :name 'b' ; :size 7 }", "trig"
        )
        with pytest.raises(WriteError, match="Dataset"):
            kbdisk.write(items, rdflib.Graph())


def test_only_what_is_new_into_a_graph():
    target = rdflib.Graph()
    kbdisk.write(with_values(kbdisk.load(parsed(PLAIN)), {E + "b": {("size",): 7}}), target, only_new=True)
    assert of_graph(target) == graph(b"@prefix : <http://ex.org/> . :b :size 7 .")


def test_entities_of_json_into_a_graph():
    target = rdflib.Graph()
    kbdisk.write(kbdisk.load(b'{"id": "http://ex.org/a", "http://ex.org/size": 5}', format="jsonl"), target)
    assert rdflib.URIRef(E + "a"), rdflib.URIRef(E + "size") in target.subject_predicates()


def test_true_n3_stays_to_the_byte_as_n3_and_becomes_turtle_on_request(tmp_path):
    document = b'@prefix : <http://ex.org/> . :a :size 5 . :a = :b . :b :name "b" .'
    kb = kbdisk.load(document, format="n3")
    items = with_values(kb, {E + "b": {("size",): 7}})
    out, report = written(items, tmp_path, "n3")
    assert report.written == 1
    assert out.startswith(document)
    same = b"@prefix : <http://ex.org/> . :a :size 5 ; <http://www.w3.org/2002/07/owl#sameAs> :b . :b :name 'b' ; :size 7 ."
    assert graph(written(items, tmp_path, "ttl")[0]) == graph(same)
    assert [entity.made for entity in kbdisk.load(out, format="n3")] == [None, {("size",): 7}]
