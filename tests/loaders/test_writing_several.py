"""What is of several sources is written whole: none is taken for the others, and none is written over."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import rdflib
from tables import for_each

import kbdisk
from kbdisk.api.source import LoadedSource
from kbdisk.entity import Completion, Entity, Filled
from kbdisk.errors import WriteError
from kbdisk.loaders import together

TURTLE = "@prefix : <http://ex.org/> . :a a :T ; :size 1 ; :part [ :k 2 ] ."
LINE = {"@id": "http://ex.org/j", "size": 4}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.ttl").write_text(TURTLE)
    Path("j.jsonl").write_text(json.dumps(LINE) + "\n")
    Path("k.jsonl").write_text('{"@id": "http://ex.org/k", "size": 5}\n')


def completed(*names: str) -> list[Completion]:
    return [
        Completion(one, {("new",): Filled(7, 0.5)} if one.id.endswith("j") else {})
        for one in LoadedSource.of(list(names)).entities
    ]


@for_each("names", [("a.ttl", "j.jsonl"), ("j.jsonl", "a.ttl"), ("k.jsonl", "j.jsonl")])
@for_each("target", ["out.ttl", "out.jsonl"])
def test_all_of_all_is_there(names, target):
    report = kbdisk.write(completed(*names), target)
    assert (report.written, report.unwritable) == (1, [])
    known = {entity.id: entity.tree for entity in kbdisk.load(target)}
    for name in names:
        for entity in kbdisk.load(name):
            assert entity.tree["size"] in known[entity.id].values()
    assert 7 in known["http://ex.org/j"].values()


@for_each("target", ["a.ttl", "j.jsonl"])
def test_none_of_them_is_written_over(target):
    before = Path(target).read_bytes()
    with pytest.raises(WriteError, match="one of several sources"):
        kbdisk.write(completed("a.ttl", "j.jsonl"), target, force=True, in_place=True)
    assert Path(target).read_bytes() == before


def test_what_comes_one_by_one_is_to_be_of_one_source():
    with pytest.raises(WriteError, match=r"of one source, got some of another\. Pass them as a list"):
        kbdisk.write(iter(completed("a.ttl", "j.jsonl")), "out.jsonl")
    assert not Path("out.jsonl").exists()


def test_a_graph_that_is_one_of_them_is_not_written_to():
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    [both] = together([kbdisk.load(graph), kbdisk.load("a.ttl")])
    before = len(graph)
    with pytest.raises(WriteError, match="one of several sources"):
        kbdisk.write(both, graph, in_place=True)
    assert len(graph) == before


@for_each("names", [("e.jsonl", "a.ttl"), ("a.ttl", "e.jsonl")])
def test_what_is_in_rdf_and_elsewhere_is_said_in_the_words_of_rdf_whichever_comes_first(names):
    Path("e.jsonl").write_text('{"@id": "http://ex.org/a", "colour": "red"}\n')
    kbdisk.write(completed(*names), "out.ttl")
    said = rdflib.Graph().parse("out.ttl")
    assert rdflib.URIRef("http://ex.org/size") in set(said.predicates())
    assert len(said) == len(rdflib.Graph().parse("a.ttl")) + 1


def test_blank_nodes_of_sources_that_were_read_apart_are_not_taken_for_one():
    Path("b.ttl").write_text(TURTLE.replace(":a", ":b").replace("2", "3"))
    apart = [kbdisk.load("a.ttl"), kbdisk.load("b.ttl")]
    for items in ([*apart[0], *apart[1]], [Completion(entity, {}) for kb in apart for entity in kb]):
        with pytest.raises(WriteError, match=r"blank nodes of several sources are called _:\[0\]"):
            kbdisk.write(items, "out.jsonl")
    assert not Path("out.jsonl").exists()
    [whole] = together(apart)
    kbdisk.write([Completion(entity, {}) for entity in whole], "out.ttl")
    assert sorted(entity.tree["part"]["k"] for entity in kbdisk.load("out.ttl")) == [2, 3]


def test_a_source_is_not_written_over_for_something_new_beside_its_entities():
    with pytest.raises(WriteError, match="is the source itself"):
        kbdisk.write([*kbdisk.load("a.ttl"), Entity("http://ex.org/z", {"size": 3})], "a.ttl", force=True)
    assert Path("a.ttl").read_text() == TURTLE
    assert kbdisk.write([*kbdisk.load("a.ttl"), Entity("http://ex.org/z", {"size": 3})], "z.ttl").unwritable == []
    assert {entity.id for entity in kbdisk.load("z.ttl")} == {"http://ex.org/a", "http://ex.org/z"}


@for_each("names", [("tags.ttl", "more.jsonl"), ("more.jsonl", "tags.ttl")])
@for_each("only_new", [False, True])
def test_what_is_beside_rdf_is_said_in_its_words(names, only_new):
    Path("tags.ttl").write_text("@prefix : <http://ex.org/> . :a :size 1 ; :tag 'x', 'y' ; :part [ :k 2 ] ; :new 1 .")
    Path("more.jsonl").write_text('{"@id": "j", "size": 4, "tag": ["x", "z"], "part": {"k": 3}, "own": 5}\n')
    entities = LoadedSource.of(list(names)).entities
    items = [Completion(one, {("new",): Filled(7, 0.5)} if one.id == "j" else {}) for one in entities]
    assert kbdisk.write(items, "out.ttl", only_new=only_new).unwritable == []
    said = {str(one) for one in rdflib.Graph().parse("out.ttl").predicates()} - {str(rdflib.RDF.type)}
    words = ("new",) if only_new else ("size", "tag", "part", "k", "new")
    assert said == {f"http://ex.org/{word}" for word in words} | (set() if only_new else {"urn:kbdisk:key:own"})
    tree = {entity.id: entity.tree for entity in kbdisk.load("out.ttl")}["j"]
    more = {} if only_new else {"size": 4, "tag": ["x", "z"], "own": 5}
    assert {key: one for key, one in tree.items() if key != "part"} == {"new": 7} | more


@for_each("target", [None, 5, io.BytesIO(), []])
def test_what_is_neither_a_path_nor_a_graph_is_not_written_to(target):
    with pytest.raises(WriteError, match=f"expected a path or an rdflib Graph, got a {type(target).__name__}"):
        kbdisk.write([Entity("a", {"size": 1})], target)
