"""Entities: what has a value, what is asked for, and paths as text."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.entity import (
    NOVALUE,
    SOMEVALUE,
    Completion,
    Date,
    Entity,
    Filled,
    Link,
    Quantity,
    at,
    is_fillable,
    read_path,
    show,
    walk,
    with_values,
)

PHONE = {
    "name": "3310",
    "launch": {"@id": "_:b0", "year": 2000, "month": None},
    "cameras": [{"aperture": 2.2}, {"aperture": None}],
    "colours": ["blue", "grey"],
    "successor": SOMEVALUE,
    "weight": Quantity(133, "g"),
    "empty": {},
    "none": [],
}

KEYS = st.text() | st.integers(0, 20)
PATHS = st.lists(KEYS, min_size=1, max_size=6).filter(lambda keys: isinstance(keys[0], str)).map(tuple)


def test_properties_are_the_values_and_asked_are_the_gaps():
    entity = Entity("n1", PHONE)
    assert dict(entity.properties()) == {
        ("name",): "3310",
        ("launch", "year"): 2000,
        ("cameras", 0, "aperture"): 2.2,
        ("colours", 0): "blue",
        ("colours", 1): "grey",
        ("successor",): SOMEVALUE,
        ("weight",): Quantity(133, "g"),
    }
    assert list(entity.asked()) == [("launch", "month"), ("cameras", 1, "aperture")]


def test_a_quantity_without_its_number_is_a_gap():
    assert list(Entity("At", {"melts": Quantity(None, "K"), "boils": Quantity(610, None)}).asked()) == [("melts",)]


def test_neither_somevalue_nor_novalue_is_a_gap():
    entity = Entity("q1", {"a": SOMEVALUE, "b": NOVALUE})
    assert [value for _, value in entity.properties()] == [SOMEVALUE, NOVALUE]
    assert not list(entity.asked())


def test_a_tree_deeper_than_python_recurses_is_walked():
    tree: dict = {"leaf": 1}
    for _ in range(5_000):
        tree = {"a": tree}
    ((path, value),) = walk(tree)
    assert (len(path), value) == (5_001, 1)


def test_a_value_is_found_by_its_path():
    entity = Entity("n1", PHONE)
    assert entity.get(("cameras", 0, "aperture")) == 2.2
    for path in [("launch", "day"), ("cameras", 2), ("name", "x"), ("colours", "x"), ("launch", 0)]:
        with pytest.raises(KeyError):
            entity.get(path)


def test_a_completion_leaves_its_entity_as_it_was():
    completion = Completion(
        Entity("n1", PHONE), {("launch", "month"): Filled(9), ("cameras", 1, "aperture"): Filled(1.8)}
    )
    tree = completion.tree()
    assert tree["launch"] == {"@id": "_:b0", "year": 2000, "month": 9}
    assert tree["cameras"][1] == {"aperture": 1.8}
    assert PHONE["launch"]["month"] is None
    assert tree["cameras"] is not PHONE["cameras"]


def test_setting_a_value_makes_the_parts_and_lists_on_its_way():
    assert with_values({}, {("a", "b", 1, "c"): 5}) == {"a": {"b": [None, {"c": 5}]}}
    assert with_values({"a": None}, {("a", "b"): 5}) == {"a": {"b": 5}}
    assert with_values({"a": [1]}, {("a", 3): 4}) == {"a": [1, None, None, 4]}


@given(PATHS, st.integers())
def test_a_value_that_was_set_stands_at_its_path(path, value):
    tree = with_values({}, {path: value})
    assert at(tree, path) == value


def test_paths_are_shown_and_read_the_same_way():
    for text in [
        "launch.year",
        "prizes[0].share",
        "a[0][1]",
        'translations."a.b"',
        '"http://a.b/c#d"',
        '"with \\"quotes\\""',
        '" "',
    ]:
        assert show(read_path(text)) == text
    assert read_path("prizes[0].share") == ("prizes", 0, "share")


@given(PATHS)
def test_every_path_survives_being_shown(path):
    assert read_path(show(path)) == path


@for_each("text", ["", ".year", "a..b", "a.", "a[", "a[x]", "a]", 'a"', '"', "a[0]b", '"a"b', 'a."b', "[0]"])
def test_what_is_no_path_is_refused(text):
    with pytest.raises(ValueError, match="expected a path such as"):
        read_path(text)


def test_numbers_that_are_equal_are_equal_whatever_their_kind():
    assert Quantity(Decimal("1.5"), "g") == Quantity(1.5, "g")
    assert Date(2000, 1) != Date(2000)
    assert {Link("a"), Link("a")} == {Link("a")}


def test_a_value_beside_another_makes_a_list_of_both():
    tree = {"size": 5}
    assert with_values(tree, {("size", 1): 6}) == {"size": [5, 6]}
    assert tree == {"size": 5}


def test_a_value_fills_a_gap_and_never_replaces_one_that_is_given():
    tree = {"size": 1, "name": "", "mass": Quantity(None, "kg"), "empty": None}
    assert is_fillable(tree, ("empty",), 1)
    assert is_fillable(tree, ("absent",), 1)
    assert is_fillable(tree, ("mass",), Quantity(2, "kg"))
    assert not is_fillable(tree, ("mass",), Quantity(2, "g"))
    for blank in (False, True):
        assert not is_fillable(tree, ("size",), 2, blank)
        assert is_fillable(tree, ("name",), "a name", blank) is blank
