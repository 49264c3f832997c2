"""The graph of entities: links by their paths, inverse pairs, groups that no link crosses."""

from __future__ import annotations

import pytest
from worlds import PHONES, WORLD, city, country, phones, world

from kbdisk.data.graph import Graph, Inverse, hierarchy
from kbdisk.entity import Entity


@pytest.fixture
def graph() -> Graph:
    return Graph.read(WORLD, world())


def test_an_edge_says_by_which_path_it_came(graph):
    assert {edge for edge in graph.edges() if edge[0] == "france"} == {
        ("france", "paris", ("capital",)),
        ("france", "paris", ("cities",)),
        ("france", "lyon", ("cities",)),
    }
    assert {(edge.source, edge.class_name, edge.path) for edge in graph.incoming("tokyo")} == {
        ("japan", "Country", ("capital",)),
        ("paris", "City", ("twin",)),
    }


def test_neighbours_are_both_ways(graph):
    assert graph.neighbours("paris") == {"france", "tokyo"}
    assert graph.neighbours("osaka") == graph.neighbours("nowhere") == set()


def test_what_is_merely_linked_to_is_no_entity():
    graph = Graph.read(WORLD, [country("peru", "America", "lima", 34_000_000)])
    assert list(graph.entities()) == ["peru"]
    assert graph.of("lima") is None
    assert graph.leaves("lima") == {}
    assert [edge.source for edge in graph.incoming("lima")] == ["peru"]
    graph.add("callao", "City", {("twin",): "lima"})
    assert [edge.source for edge in graph.incoming("lima")] == ["peru", "callao"]


def test_entities_without_links_or_without_a_class_make_no_edges():
    graph = Graph.read(PHONES, [*phones(), Entity("x", {"oem": "y"}, ("Ship",))])
    assert list(graph.edges()) == []
    assert graph.of("x") is None


def test_what_is_told_twice_of_one_id_adds_up():
    graph = Graph.read(WORLD, [city("rome", None, -753, None, 2_800_000), city("rome", "italy", None, None, 2_800_000)])
    assert graph.leaves("rome")[("founded", "year")] == -753
    assert graph.neighbours("rome") == {"italy"}


def test_inverse_pairs_are_found_with_how_often_they_hold():
    found = Graph.read(WORLD, world()).inverses(share=0.7, least=3)
    capital = Inverse("Country", ("capital",), "City", ("country",), 3, 1.0)
    country = Inverse("City", ("country",), "Country", ("capital",), 3, 1.0)
    assert capital in found
    assert country in found
    assert Inverse("City", ("country",), "Country", ("cities",), 3, 2 / 3) not in found
    assert not any(one.path == ("twin",) for one in found)


def test_no_link_crosses_from_group_to_group(graph):
    assert graph.groups() == [["france", "japan", "lyon", "paris", "tokyo"], ["kenya", "nairobi"], ["osaka"]]


def test_a_graph_of_some_entities_knows_nothing_of_others(graph):
    some = graph.only({"france", "lyon"})
    assert some.leaves("paris") == {}
    assert some.of("paris") is None
    assert list(some.incoming("tokyo")) == []
    assert some.leaves("france") == graph.leaves("france")


def test_links_by_one_path_are_a_graph_of_their_own(graph):
    assert set(graph.along(("twin",)).edges) == {("paris", "tokyo")}


def test_classes_stand_below_the_classes_that_hold_all_their_entities():
    entities = [Entity("1", classes=("Dog", "Mammal", "Animal")), Entity("2", classes=("Cat", "Mammal", "Animal"))]
    entities += [Entity("3", classes=("Bird", "Animal")), Entity("4", classes=("Stone",))]
    found = hierarchy(entities)
    assert set(found.edges) == {("Dog", "Mammal"), ("Cat", "Mammal"), ("Mammal", "Animal"), ("Bird", "Animal")}
    assert "Stone" in found
