"""The graph of entities: links by their paths, values as columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PHONES, WORLD, city, country, phones, world

from kbdisk.data.graph import Column, Graph, Nodes
from kbdisk.entity import Entity, Link, Path

LABELS = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(
    st.floats(allow_nan=False),
    st.integers(),
    st.booleans(),
    st.decimals(allow_nan=False),
    LABELS,
    LABELS.map(Link),
    st.lists(LABELS),
    st.frozensets(LABELS.map(Link)),
)


@pytest.fixture
def graph() -> Graph:
    return Graph.read(WORLD, world())


def links(graph: Graph) -> set[tuple[str, str, Path]]:
    arrays = graph.arrays()
    names, paths = arrays.names, list(arrays.paths)
    numbers = zip(arrays.source.tolist(), arrays.target.tolist(), arrays.path.tolist(), strict=True)
    return {(names[source], names[target], paths[path]) for source, target, path in numbers}


def entities(graph: Graph) -> list[str]:
    arrays = graph.arrays()
    return [name for name, number in zip(arrays.names, arrays.class_of.tolist(), strict=True) if number >= 0]


def value(graph: Graph, id: str, path: Path) -> Any:
    return graph.values(np.array([graph.arrays().ids[id]]), path)[0]


def test_a_link_has_the_path_by_which_it_leads(graph):
    assert {link for link in links(graph) if link[0] == "france"} == {
        ("france", "paris", ("capital",)),
        ("france", "paris", ("cities",)),
        ("france", "lyon", ("cities",)),
    }


def test_a_node_that_is_merely_linked_to_is_no_entity():
    graph = Graph.read(WORLD, [country("peru", "America", "lima", 34_000_000)])
    assert entities(graph) == ["peru"]
    assert graph.size == 2
    assert all(graph.arrays().ids["lima"] not in nodes for nodes in graph.holders()["City"].values())
    graph.add("callao", "City", {("twin",): "lima"})
    assert ("callao", "lima", ("twin",)) in links(graph)


def test_entities_without_links_or_without_a_class_have_no_edges():
    graph = Graph.read(PHONES, [*phones(), Entity("x", {"oem": "y"}, ("Ship",))])
    assert links(graph) == set()
    assert "x" not in entities(graph)


def test_values_of_an_entity_that_is_added_twice_add_up():
    graph = Graph.read(WORLD, [city("rome", None, -753, None, 2_800_000), city("rome", "italy", None, None, 2_900_000)])
    assert value(graph, "rome", ("founded", "year")) == -753
    assert value(graph, "rome", ("population",)) == 2_900_000
    assert links(graph) == {("rome", "italy", ("country",))}


def test_a_link_that_is_added_twice_is_one():
    graph = Graph(WORLD)
    for _ in range(2):
        graph.add("paris", "City", {("twin",): "rome"})
    assert len(graph.arrays().source) == 1


def test_the_holders_of_a_value_are_those_of_their_class(graph):
    holders, arrays = graph.holders(), graph.arrays()
    names = {arrays.names[node] for node in holders["City"][("country",)].tolist()}
    assert names == {"paris", "tokyo", "nairobi"}
    assert ("country",) not in holders["Country"]


@given(st.lists(st.tuples(st.integers(0, 8), VALUES), min_size=1))
def test_a_column_has_the_latest_value_of_each_node_as_it_was_given(added):
    column, latest = Column(Nodes()), dict(added)
    for node, of_node in added:
        column.append(node, of_node, is_link=True)
    nodes = column.nodes
    assert nodes.tolist() == sorted(latest)
    values = column.values(nodes.astype(np.int64))
    assert list(map(type, values)) == [type(latest[node]) for node in nodes.tolist()]
    assert list(values) == [latest[node] for node in nodes.tolist()]


def test_a_column_that_was_read_takes_more_values():
    column = Column(Nodes())
    for node, of_node in [(2, 1.5), (0, 2.5)]:
        column.append(node, of_node, is_link=True)
    assert column.nodes.tolist() == [0, 2]
    column.append(1, "x", is_link=True)
    column.append(0, 3.5, is_link=True)
    assert column.nodes.tolist() == [0, 1, 2]
    assert column.values(np.arange(3)) == [3.5, "x", 1.5]


def test_whole_numbers_of_any_size_are_kept():
    column = Column(Nodes())
    for node, number in enumerate([1, 1 << 70, -(1 << 80)]):
        column.append(node, number, is_link=False)
    assert column.values(np.arange(3)) == [1, 1 << 70, -(1 << 80)]


def test_equal_labels_are_in_memory_once():
    column = Column(Nodes())
    for node in range(3):
        column.append(node, [Link("".join(["x", "y"])), str(Decimal(1))], is_link=True)
    first, *others = column.values(np.arange(3))
    assert all(label is same for other in others for label, same in zip(first, other, strict=True))


def test_a_column_of_links_has_their_nodes_and_another_one_has_none():
    nodes = Nodes()
    links, others = Column(nodes), Column(nodes)
    for node, target in enumerate(["x", "y", "x"]):
        links.append(node, Link(target), is_link=True)
        others.append(node, Link("z"), is_link=False)
    assert links.values(np.array([2, 1])) == [Link("x"), Link("y")]
    assert others.values(np.array([0])) == [Link("z")]
    assert nodes.names == ["x", "y"]
