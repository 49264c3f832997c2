"""Several sources of RDF as one: nothing of any is lost or called otherwise, and nobody's blank node is another's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rdflib
from judges import by_rdflib, canonical, graph, of_graph, quads
from pyoxigraph import Literal, NamedNode, Quad
from tables import for_each

import kbdisk
from kbdisk.api.source import LoadedSource
from kbdisk.api.train import schema_of
from kbdisk.completion.sidecar import CarriedRows, given_entities
from kbdisk.entity import Completion, Filled, Link
from kbdisk.errors import ConfigError, LoadError, WriteError
from kbdisk.loaders import together

E = "http://ex.org/"
ONE = """@prefix : <http://ex.org/> . @prefix b: <http://b.org/> .
:a a :Thing ; :size "05"^^<http://www.w3.org/2001/XMLSchema#integer> ; :kind "x"@de ; :near _:n ; :part [ :size 1 ] .
_:n :size 2 . :c :kind "jazz" . [] :name "nobody" .
"""
TWO = """@prefix : <http://other.org/> . @prefix e: <http://ex.org/> . @prefix c: <http://c.org/> .
e:d :size 6.0 ; c:size 7 ; e:near _:n ; e:part [ e:size 3 ] .
_:n e:size 4 . e:c e:kind "rock" ; e:size 8 . [] e:name "somebody" .
"""
SUFFIX = {"turtle": "ttl", "trig": "trig", "ntriples": "nt", "nquads": "nq", "rdfxml": "rdf", "jsonld": "jsonld"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def union(**documents):
    """These documents as one knowledge base."""
    for name, text in documents.items():
        Path(name.replace("_", ".")).write_text(text)
    [found] = together(kbdisk.load(name.replace("_", ".")) for name in documents)
    return found


def all_of(*new):
    """All that both documents say, and what is new, in canonical form."""
    statements = [Quad(NamedNode(E + subject), NamedNode(E + key), Literal(value)) for subject, key, value in new]
    return canonical([*quads(ONE.encode()), *quads(TWO.replace("_:n", "_:other").encode()), *statements])


def test_a_predicate_is_called_alike_in_all_and_like_no_other():
    kb = union(one_ttl=ONE, two_ttl=TWO)
    known = {entity.id: entity.tree for entity in kb}
    assert known[E + "a"]["size"] == 5
    assert {key: known[E + "d"][key] for key in ("http://other.org/size", "c:size")} == {
        "http://other.org/size": 6,  # its prefix is no word
        "c:size": 7,
    }
    assert known[E + "c"] == {"kind": ["jazz", "rock"], "size": 8}
    assert {key: kb.names.iris[key] for key in ("size", "c:size")} == {
        "size": E + "size",
        "c:size": "http://c.org/size",
    }
    assert [entity.tree for entity in kb] == list(known.values())  # at the next reading, too


def test_a_blank_node_is_that_of_one_source():
    known = {entity.id: entity.tree for entity in union(one_ttl=ONE, two_ttl=TWO)}
    assert [known[E + name]["near"] for name in "ad"] == [{"@id": "_:s1.n", "size": 2}, {"@id": "_:s2.n", "size": 4}]
    assert [known[E + name]["part"]["size"] for name in "ad"] == [1, 3]


@for_each("format", SUFFIX)
@for_each("other", ["ttl", "rdf"])
def test_all_that_any_says_is_in_the_target_with_what_is_new(format, other):
    flat = rdflib.Graph().parse(data=TWO, format="turtle").serialize(format="xml")
    kb = union(one_ttl=ONE, **{f"two_{other}": TWO if other == "ttl" else flat})
    new = [Completion(one, {("kind",): Filled("new")}) for one in kb if one.id == E + "d"]
    report = kbdisk.write(new, f"out.{SUFFIX[format]}")
    assert (report.written, report.unwritable) == (1, [])
    data = Path(f"out.{SUFFIX[format]}").read_bytes()
    assert graph(data, format) == by_rdflib(data, format) == all_of(("d", "kind", "new"))


def test_graphs_keep_their_names_and_those_without_are_not_one():
    text = "@prefix : <http://ex.org/> . :g { :%s :size 1 . } [] { :%s :size 2 . } _:h { :%s :size 3 . }"
    kb = union(one_trig=text % ("a", "b", "c"), two_trig=text % ("d", "e", "f"))
    kbdisk.write(kb, "out.nq")
    found = quads(Path("out.nq").read_bytes(), "nquads")
    names = {quad.subject.value[-1]: quad.graph_name for quad in found}
    assert names["a"] == names["d"] == NamedNode(E + "g")
    assert len({names[one] for one in "abcdef"}) == 5


def test_graphs_in_memory_join_files():
    one, two = rdflib.Graph().parse(data=ONE), rdflib.Graph().parse(data=TWO)
    Path("two.ttl").write_text(TWO)
    into = rdflib.Graph()
    [kb] = together([kbdisk.load(one), kbdisk.load("two.ttl")])
    kbdisk.write(kb, into)
    assert of_graph(into) == of_graph(one + two)
    assert LoadedSource.of([one, two]).sha256 != LoadedSource.of([one, one]).sha256


def test_what_is_no_rdf_stays_apart():
    Path("one.ttl").write_text(ONE)
    Path("two.ttl").write_text(TWO)
    Path("three.jsonl").write_text('{"@id": "http://ex.org/d", "colour": "red"}')
    found = together(kbdisk.load(name) for name in ("three.jsonl", "one.ttl", "two.ttl"))
    assert [kb.name for kb in found] == ["three.jsonl", "one.ttl, two.ttl"]
    [kb] = together([kbdisk.load("three.jsonl")])
    assert kb.parts == (kb,)


def test_a_source_is_no_target():
    kb = union(one_ttl=ONE, two_ttl=TWO)
    for in_place in (True, False):
        with pytest.raises(WriteError, match=r"two\.ttl: is one of several sources"):
            kbdisk.write(kb, "two.ttl", force=True, in_place=in_place)
    assert Path("two.ttl").read_text() == TWO


def test_what_cannot_be_read_is_told_of_its_file():
    kb = union(one_ttl=ONE, two_ttl=TWO + "oh no")
    with pytest.raises(LoadError, match=r"^two\.ttl:4:"):
        list(kb)
    several = [kbdisk.load(name, skip_errors=True) for name in ("one.nt", "two.nt") if lines(name)]
    [kb] = together(several)
    assert len(list(kb)) == 2
    assert [str(error).partition(": ")[0] for error in kb.skipped] == ["one.nt:2", "two.nt:2"]


def lines(name):
    return Path(name).write_text(f'<http://ex.org/{name}> <http://ex.org/x> "1" .\noh no\n')


# ---------------------------------------------------------------- what was filled in before


def filled(name):
    """A document in which kbdisk filled the kind of one thing; it says so in a block, or a sidecar alone."""
    start = f"@prefix : <http://ex.org/> . :{name[:-4]} :size 1 . _:n :size 2 . :other :near _:n ; :kind 'old' ."
    source = Path(f"plain-{name}")
    source.write_bytes(
        rdflib.Graph().parse(data=start).serialize(format="xml" if name.endswith("rdf") else "turtle").encode()
    )
    kb = kbdisk.load(str(source))
    new = [Completion(one, {("kind",): Filled("new")}) for one in kb if one.id == E + name[:-4]]
    assert kbdisk.write(new, name).written == 1
    row = {"id": E + name[:-4], "path": "kind", "value": "new"}
    Path(f"{name}.provenance.jsonl").write_text(json.dumps(row) + "\n")


@for_each("names", [("one.ttl", "two.ttl"), ("one.rdf", "two.rdf"), ("one.ttl", "two.rdf")])
@for_each("target", ["out.ttl", "out.rdf", "out.jsonl"])
def test_what_was_filled_in_is_no_evidence_and_is_told_of_the_target_too(names, target):
    for name in names:
        filled(name)
    reading = LoadedSource.of([kbdisk.load(name) for name in names])
    known = {one.id: one for one in reading.entities}
    for name in ("one", "two"):
        assert "kind" not in known[E + name].tree
        assert known[E + name].made == {("kind",): "new"}
    format = {"ttl": "turtle", "rdf": "rdfxml", "jsonl": "jsonl"}[target[4:]]
    carried = CarriedRows(reading.kbs, format)
    rows = [line for one in reading.entities for line in carried.of(one)]
    kbdisk.write((Completion(one, {}) for one in reading.entities), target)
    Path(f"{target}.provenance.jsonl").write_bytes(b"".join(rows))
    again = {one.id: one for one in given_entities(kbdisk.load(target))}
    for name in ("one", "two"):
        assert "kind" not in again[E + name].tree
        assert again[E + name].made == {("kind",): "new"}


@for_each("format", SUFFIX)
def test_a_prefix_that_means_another_thing_in_each_means_in_all_keys_what_the_target_has(format):
    one = "@prefix x: <http://one.org/> . x:e a x:T ; x:len 1 ; x:size 2 ."
    two = "@prefix x: <http://two.org/> . x:f a x:T ; x:len 3 ; x:size 4 ; x:new 5 ."
    both = union(one_ttl=one, two_ttl=two)
    trees = {entity.id: entity.tree for entity in both}
    assert trees["http://two.org/f"] == {"http://two.org/len": 3, "http://two.org/size": 4, "new": 5}
    kbdisk.write(both, f"all.{SUFFIX[format]}")
    assert {entity.id: entity.tree for entity in kbdisk.load(f"all.{SUFFIX[format]}")} == trees


def test_the_same_source_twice_is_two():
    Path("one.ttl").write_text(ONE)
    one = kbdisk.load("one.ttl")
    [both] = together([one, one])
    assert [part is one for part in both.parts] == [True, True]
    assert len({entity.id for entity in both}) == len(list(both))


def test_a_whole_in_a_whole_has_all_files():
    [two] = together([union(one_ttl=ONE, two_ttl=TWO)])
    Path("three.ttl").write_text(TWO)
    [three] = together([two, kbdisk.load("three.ttl")])
    assert [file.name for file in three.files] == ["one.ttl", "two.ttl", "three.ttl"]
    with pytest.raises(WriteError, match="one of several sources"):
        kbdisk.write(three, "two.ttl", force=True)
    assert Path("two.ttl").read_text() == TWO


@for_each("format", ["turtle", "trig", "ntriples", "nquads"])
def test_what_is_said_of_a_statement_is_written(format):
    said = "@prefix : <http://ex.org/> . :b :says <<( :a :size <<( _:n a :x )>> )>> ."
    target = Path(f"all.{SUFFIX[format]}")
    kbdisk.write(union(one_ttl=said, two_ttl="@prefix : <http://ex.org/> . :a :size 1 ."), target)
    more = quads(b"<http://ex.org/a> <http://ex.org/size> 1 .")
    assert canonical(quads(target.read_bytes(), format)) == canonical([*quads(said.encode()), *more])


def beside(name: str, *rows: dict) -> None:
    Path(f"{name}.provenance.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@for_each(("name", "block"), [("two.rdf", {}), ("two.ttl", {"block": False})])
def test_what_a_sidecar_tells_is_found_by_the_predicate_and_not_by_what_that_is_called_elsewhere(name, block):
    Path("one.ttl").write_text("@prefix o: <http://one.org/> . o:a o:size 1 . <http://two.org/b> o:size 3 .")
    text = "@prefix t: <http://two.org/> . t:b t:size 2 ; t:k 1 ."
    if name.endswith("rdf"):
        text = rdflib.Graph().parse(data=text, format="turtle").serialize(format="xml")
    Path(name).write_text(text)
    row = {"id": "http://two.org/b", "path": "size", "value": 2, "confidence": 0.5, **block}
    beside(name, row)
    reading = LoadedSource.of(["one.ttl", name])
    [b] = [one for one in reading.entities if one.id == row["id"]]
    assert (b.tree, b.made) == ({"size": 3, "k": 1}, {("t:size",): 2})
    [line] = CarriedRows(reading.kbs, "rdfxml").of(b)
    assert json.loads(line)["confidence"] == 0.5


def test_a_link_to_a_blank_node_that_was_filled_in_is_found_again():
    text = "@prefix : <http://ex.org/> . :a :size 1 ; :near _:n . :c :near _:n . _:n :size 2 ."
    Path("one.ttl").write_text(text)
    Path("two.ttl").write_text("@prefix : <http://ex.org/> . :b :size 1 .")
    beside(
        "one.ttl", {"id": "http://ex.org/a", "path": "near", "value": {"@id": "_:n"}, "confidence": 1, "block": False}
    )
    [a] = [one for one in LoadedSource.of(["one.ttl", "two.ttl"]).entities if one.id.endswith("a")]
    assert (a.tree, a.made) == ({"size": 1}, {("near",): Link("_:s1.n")})


def test_only_what_stands_outside_of_blocks_is_told_to():
    begin = "# kbdisk: begin - values filled in by kbdisk, not given: to make one yours, move it out of here"
    Path("one.ttl").write_text(f"@prefix : <http://ex.org/> .\n:a :size 1 .\n{begin}\n:a :kind 2 .\n# kbdisk: end\n")
    beside("one.ttl", {"id": "http://ex.org/a", "path": "kind", "value": 2, "confidence": 0.5})
    Path("two.ttl").write_text("@prefix : <http://ex.org/> . :b :size 1 ; :kind 3 .")
    beside("two.ttl", {"id": "http://ex.org/b", "path": "kind", "value": 3, "confidence": 0.5, "block": False})
    reading = LoadedSource.of(["one.ttl", "two.ttl"])
    carried = CarriedRows(reading.kbs, "turtle")
    rows = {row["id"][-1]: row for one in reading.entities for row in map(json.loads, carried.of(one))}
    assert ("block" in rows["a"], rows["b"]["block"]) == (False, False)
    kbdisk.write([Completion(one) for one in reading.entities], "all.ttl")
    assert kbdisk.load("all.ttl").is_completed


def test_what_two_say_is_written_once():
    text = "@prefix : <http://ex.org/> . :a :size 1 ."
    kbdisk.write(union(one_ttl=text, two_ttl=text), "all.ttl")
    assert Path("all.ttl").read_text().count(":size 1") == 1


def rdfxml(text):
    return rdflib.Graph().parse(data=f"@prefix : <{E}> . {text}", format="turtle").serialize(format="xml")


@for_each("names", [("new.ttl", "old.rdf"), ("old.rdf", "new.ttl")])
def test_what_was_filled_in_stays_so_beside_what_another_source_says(names):
    Path("old.rdf").write_text(rdfxml(":x :size 5 ; :kind 'a' ."))
    row = {"id": E + "x", "path": "size", "value": 5, "confidence": 0.5}
    Path("old.rdf.provenance.jsonl").write_text(json.dumps(row) + "\n")
    Path("new.ttl").write_text(f"@prefix : <{E}> . :x :size 6 .")
    reading = LoadedSource.of(list(names))
    [entity] = reading.entities
    assert entity.tree == {"size": 6, "kind": "a"}
    assert entity.made == {("size", 1): 5}
    [line] = CarriedRows(reading.kbs, "rdfxml").of(entity)
    assert json.loads(line)["value"] == 5
    assert json.loads(line)["confidence"] == 0.5


def test_a_schema_is_inferred_without_what_a_sidecar_alone_tells_to_be_filled_in():
    Path("old.rdf").write_text(rdfxml(" ".join(f":o{n} :size {n} ; :guess {n % 2} ." for n in range(40))))
    rows = [{"id": f"{E}o{n}", "path": "guess", "value": n % 2} for n in range(40)]
    Path("old.rdf.provenance.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    filled = "# kbdisk: begin - values filled in by kbdisk, not given: to make one yours, move it out of here\n"
    new = " ".join(f":n{n} :size {n} ." for n in range(40))
    Path("new.ttl").write_text(f"@prefix : <{E}> . {new}\n{filled}:n0 :other 5 .\n# kbdisk: end\n")
    reading = LoadedSource.of(["old.rdf", "new.ttl"])
    assert reading.made == 41
    [of] = schema_of(None, reading).classes.values()
    assert set(of.properties) == {("size",)}


def test_sources_that_are_read_otherwise_are_not_read_as_one():
    Path("one.ttl").write_text(ONE)
    Path("two.ttl").write_text(TWO)
    some = {"size": "kg"}
    assert together([kbdisk.load("one.ttl"), kbdisk.load("two.ttl", units=some)])[0].options.units == {("size",): "kg"}
    with pytest.raises(
        ConfigError, match=r"^two.ttl: expected language as for one.ttl, 'de', with which it is read as"
    ):
        together([kbdisk.load("one.ttl", language="de"), kbdisk.load("two.ttl", language="fr")])
