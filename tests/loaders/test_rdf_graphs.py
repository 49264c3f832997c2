"""rdflib's Graph and Dataset as knowledge bases: the same entities as from the file, literals as they were."""

from __future__ import annotations

import subprocess
import sys

import pyoxigraph
import pytest
import rdflib

from kbdisk.entity import Link, Quantity, Text
from kbdisk.errors import KBDiskWarning, LoadError
from kbdisk.loaders import load
from kbdisk.loaders.kb import Options
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.graph import add_quads, lexical_forms

TURTLE = """
@prefix : <http://e/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix qudt: <http://qudt.org/schema/qudt/> .
:a a :T ; rdfs:label "Ann"@en ; :p 1, +1.50, "x" ; :q ( 1 [ :r 2 ] ) ; :knows :b ;
   :w [ a qudt:QuantityValue ; qudt:numericValue 1.5 ; qudt:unit :g ] .
:b :p "c"@de ; :on "2012-02-29"^^xsd:date .
:T rdfs:subClassOf :U .
"""


class Quads(RdfKB):
    """Entities of quads or triples in memory."""

    def __init__(self, quads, name, options):
        super().__init__(name, "quads", options)
        self.quads = [
            quad if isinstance(quad, pyoxigraph.Quad) else pyoxigraph.Quad(quad.subject, quad.predicate, quad.object)
            for quad in quads
        ]

    def observe(self, take):
        take(self.quads)


def graph_of(text, kind=rdflib.Graph, format="turtle"):
    graph = kind()
    with lexical_forms():
        graph.parse(data=text, format=format)
    return graph


def bare(value):
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key != "@id"}
    return sorted(map(bare, value), key=str) if isinstance(value, list) else value


def test_a_graph_gives_the_entities_of_its_file():
    from_graph = {one.id: (bare(one.tree), one.classes, one.label) for one in load(graph_of(TURTLE))}
    from_file = {one.id: (bare(one.tree), one.classes, one.label) for one in load(TURTLE.encode(), format="turtle")}
    assert from_graph == from_file
    assert from_graph["http://e/a"][0]["w"] == Quantity(1.5, "http://e/g")


def test_the_hierarchy_and_the_prefixes_of_a_graph_are_kept():
    kb = load(graph_of(TURTLE))
    assert len(list(kb)) == 3
    assert kb.hierarchy == {"http://e/T": {"http://e/U"}}
    assert kb.prefixes["rdfs"] == "http://www.w3.org/2000/01/rdf-schema#"


def test_named_graphs_of_a_dataset_are_kept():
    dataset = graph_of("@prefix : <http://e/> . :g { :a :p 1 } _:h { :b :p 2 } :c :p 3 .", rdflib.Dataset, "trig")
    found = {one.id[-1]: one.graph for one in load(dataset)}
    assert found["a"] == "http://e/g"
    assert found["b"].startswith("_:")
    assert found["c"] == ""


def test_a_graph_is_read_in_the_same_order_each_time():
    triples = [f"<http://e/{n}> <http://{n % 3}/p> '{n}' ." for n in range(30)]
    code = (
        "import rdflib; from kbdisk.loaders import load\n"
        f"graph = rdflib.Graph(); graph.parse(data={' '.join(triples)!r}, format='turtle')\n"
        "print([(one.id, one.tree) for one in load(graph)])"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(shown) == 1


def test_a_graph_can_be_read_again_and_is_not_changed():
    graph = graph_of(TURTLE)
    before = set(graph)
    kb = load(graph)
    assert list(kb) == list(kb)
    assert set(graph) == before


def test_an_empty_graph_has_no_entities():
    assert list(load(rdflib.Graph())) == list(load(rdflib.Dataset())) == []


def test_names_of_blank_nodes_that_no_file_allows_are_read():
    graph = rdflib.Graph()
    graph.add((rdflib.BNode("a b"), rdflib.URIRef("http://e/p"), rdflib.Literal("x")))
    (entity,) = load(graph)
    assert entity.id.startswith("_:x")
    assert entity.tree == {"p": "x"}


def test_a_term_that_is_not_valid_is_named():
    graph = rdflib.Graph()
    graph.add((rdflib.URIRef("http://e/a b"), rdflib.URIRef("http://e/p"), rdflib.Literal("x")))
    with pytest.raises(LoadError, match=r"<graph>: expected a valid term, got 'http://e/a b' .*Mend it in the graph\."):
        list(load(graph))


def test_what_only_n3_can_say_is_left_out_and_noted():
    graph = rdflib.Graph()
    graph.add((rdflib.Literal("x"), rdflib.URIRef("http://e/p"), rdflib.Literal("y")))
    graph.add((rdflib.URIRef("http://e/a"), rdflib.URIRef("http://e/p"), rdflib.Literal("y")))
    with pytest.warns(KBDiskWarning, match="only N3 can say"):
        assert [one.id for one in load(graph)] == ["http://e/a"]


def test_literals_go_to_rdflib_and_back_as_they_were():
    lexical = ["+965.465", "170.0", "1E3", "INF", "-0044-03-15", "01"]
    kinds = ["decimal", "decimal", "double", "double", "date", "integer"]
    xsd = "http://www.w3.org/2001/XMLSchema#"
    subject, predicate = pyoxigraph.NamedNode("http://e/a"), pyoxigraph.NamedNode("http://e/p")
    quads = [
        pyoxigraph.Quad(subject, predicate, pyoxigraph.Literal(text, datatype=pyoxigraph.NamedNode(xsd + kind)))
        for text, kind in zip(lexical, kinds, strict=True)
    ]
    quads.append(pyoxigraph.Quad(subject, predicate, pyoxigraph.Literal("x", language="en")))
    dataset = rdflib.Dataset()
    add_quads(dataset, quads)
    assert sorted(str(object) for _, _, object, _ in dataset.quads()) == sorted([*lexical, "x"])
    kb = load(dataset)
    seen = []
    kb.observe(seen.extend)
    assert set(seen) == set(quads)


def test_rdflibs_own_setting_is_put_back():
    before = rdflib.NORMALIZE_LITERALS
    with lexical_forms():
        assert rdflib.NORMALIZE_LITERALS is False
    with pytest.raises(LoadError):
        list(load(b"{} => {} . :a", format="n3"))
    assert rdflib.NORMALIZE_LITERALS is before


def test_quads_in_memory_are_entities():
    node = pyoxigraph.NamedNode
    triples = [
        pyoxigraph.Triple(node("http://e/a"), node("http://e/p"), pyoxigraph.Literal("x", language="en")),
        pyoxigraph.Quad(node("http://e/a"), node("http://e/q"), node("http://e/b"), node("http://g")),
    ]
    (entity,) = Quads(triples, "here", Options())
    assert (entity.id, entity.tree) == ("http://e/a", {"p": Text("x", "en"), "q": Link("http://e/b")})
    kb = Quads(iter(triples), "here", Options())
    assert list(kb) == list(kb) == [entity]


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_a_graph_of_mondial_gives_what_its_file_gives(data):
    path = data / "rdf" / "mondial" / "mondial-meta.n3"
    from_graph = {one.id: bare(one.tree) for one in load(graph_of(path.read_text())) if not one.id.startswith("_:")}
    from_file = {one.id: bare(one.tree) for one in load(path) if not one.id.startswith("_:")}
    assert from_graph.keys() == from_file.keys()
    assert len(from_file) > 50
