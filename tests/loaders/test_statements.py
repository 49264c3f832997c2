"""Where a path leads in a graph: to a gap, into a part that is there, or nowhere."""

from __future__ import annotations

from tables import for_each

from kbdisk.entity import Completion, Coordinate, Entity, Filled, Quantity
from kbdisk.loaders.rdf.statements import gaps_of

TREE = {
    "size": 5,
    "mass": Quantity(5, None),
    "lengths": [Quantity(1, "m"), Quantity(2, None)],
    "at": Coordinate(None, 2.5),
    "part": {"@id": "_:p", "x": 1, "inner": {"@id": "_:q"}},
    "parts": [{"@id": "_:r", "x": 1}, {"@id": "_:s"}],
    "span": {"start": 1},
    "asked": None,
}


def gaps(values, made=None, key_of=str):
    filled = {path: Filled(value) for path, value in values.items()}
    found, refused = gaps_of(Completion(Entity("a", TREE, made=made), filled), key_of)
    return [(gap.node, gap.key, gap.value) for gap in found], refused


PLACES = {
    ("new",): ("a", "new", 7),
    ("asked",): ("a", "asked", 7),
    ("size", 1): ("a", "size", 7),
    ("mass", "unit"): ("a", "mass", Quantity(5, 7)),
    ("lengths", 1, "unit"): ("a", "lengths", Quantity(2, 7)),
    ("lengths", 2): ("a", "lengths", 7),
    ("at", "latitude"): ("a", "at", Coordinate(7, 2.5)),
    ("part", "new"): ("_:p", "new", 7),
    ("part", 0, "new"): ("_:p", "new", 7),
    ("part", "inner", "new"): ("_:q", "new", 7),
    ("parts", 1, "x"): ("_:s", "x", 7),
    ("parts", 2, "x"): ("a", "parts", {"x": 7}),
    ("new", "x", "y"): ("a", "new", {"x": {"y": 7}}),
    ("new", 0, "x"): ("a", "new", [{"x": 7}]),
}


@for_each("path", PLACES)
def test_a_path_leads_to_the_node_that_lacks_the_value(path):
    assert gaps({path: 7}) == ([PLACES[path]], [])


@for_each(
    ("path", "reason"),
    [
        (("size",), "never changed"),
        (("size", 0), "never changed"),
        (("size", "x"), "never changed"),
        (("mass",), "expected a quantity, as a part of one is given, got 7"),
        (("mass", "value"), "never changed"),
        (("mass", "x"), "expected one of value, unit"),
        (("lengths", 0, "unit"), "never changed"),
        (("lengths", "unit"), "say which, such as lengths[0]"),
        (("part",), "never changed"),
        (("span", "end"), "no node of its own"),
        ((0,), "name of a property"),
        ((), "name of a property"),
    ],
)
def test_a_path_that_leads_to_no_gap_is_refused(path, reason):
    found, [(where, why)] = gaps({path: 7})
    assert found == []
    assert where == path
    assert reason in why


def test_paths_into_the_same_new_part_are_one_gap():
    values = {
        ("new", "x"): 1,
        ("new", "y", "z"): 2,
        ("list", 1, "x"): 3,
        ("list", 0, "x"): 4,
        ("list", 1, "y"): 5,
        ("many", 0): 6,
    }
    found, _ = gaps(values)
    assert found == [
        ("a", "new", {"x": 1, "y": {"z": 2}}),
        ("a", "list", [{"x": 4}, {"x": 3, "y": 5}]),
        ("a", "many", [6]),
    ]


def test_both_halves_of_a_place_that_is_given_in_part_are_not_two_places():
    tree = {"at": Coordinate(None, None)}
    filled = {("at", "latitude"): Filled(1), ("at", "longitude"): Filled(2)}
    [gap], _ = gaps_of(Completion(Entity("a", tree), filled))
    assert gap.value == Coordinate(1, 2)
    assert gap.paths == list(filled)


def test_what_was_filled_before_is_refused_and_so_is_more_of_the_same_part():
    made = {("new", "x"): 1, ("size", 1): 6}
    found, refused = gaps({("new", "y"): 2, ("size", 1): 7, ("size", 2): 8}, made)
    assert found == [("a", "size", 8)]
    assert [path for path, _ in refused] == [("new", "y"), ("size", 1)]


def test_a_property_may_be_called_something_else():
    assert gaps({("http://ex.org/part", "http://ex.org/new"): 7}, key_of=lambda name: name.rpartition("/")[2]) == (
        [("_:p", "new", 7)],
        [],
    )
    assert gaps({("http://ex.org/size",): 7}, key_of=lambda name: name.rpartition("/")[2])[0] == []
