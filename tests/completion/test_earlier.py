"""What an earlier completion filled in is told from what is given by the file that it left beside its target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbdisk.api.reading import Reading
from kbdisk.completion.earlier import given
from kbdisk.entity import Entity, Quantity, with_values
from kbdisk.errors import LoadError
from kbdisk.loaders import load


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(tree: dict, *rows: tuple[str, object], name: str = "kb.jsonl") -> Entity:
    """An entity of a completed source, as it is given."""
    Path(name).write_text(json.dumps({"id": "a", **tree}) + "\n")
    lines = [json.dumps({"id": "a", "path": path, "value": value}) for path, value in rows]
    Path(f"{name}.provenance.jsonl").write_text("\n".join(lines) + "\n")
    [entity] = given(load(name))
    return entity


CASES = [  # what stands there, what was filled in, what is given, what is made
    ({"x": 1, "y": 2}, [("y", 2)], {"x": 1}, {("y",): 2}),
    ({"x": 1, "y": 2}, [("y", 3)], {"x": 1, "y": 2}, {}),
    ({"x": 1, "y": True}, [("y", 1)], {"x": 1, "y": True}, {}),
    ({"x": 1}, [("y", 2)], {"x": 1}, {}),
    ({"d": {"year": 2011, "month": 3}}, [("d.month", 3)], {"d": {"year": 2011}}, {("d", "month"): 3}),
    ({"d": {"year": 2011, "month": 3}}, [("d", {"year": 2011, "month": 3})], {}, {("d", "year"): 2011, ("d", "month"): 3}),
    ({"d": {"year": 2011, "month": 4}}, [("d", {"year": 2011, "month": 3})], {"d": {"year": 2011, "month": 4}}, {}),
    ({"d": {"year": 2011, "day": 3}}, [("d", {"year": 2011})], {"d": {"year": 2011, "day": 3}}, {}),
    ({"a": {"b": {"c": 5}}, "x": 1}, [("a.b.c", 5)], {"x": 1}, {("a", "b", "c"): 5}),
    ({"l": ["r", "g", "b"]}, [("l[1]", "g"), ("l[2]", "b")], {"l": ["r"]}, {("l", 1): "g", ("l", 2): "b"}),
    ({"l": ["r", "g", "b"]}, [("l[1]", "g")], {"l": ["r", None, "b"]}, {("l", 1): "g"}),
    ({"w": {"@quantity": 5, "@unit": "g"}}, [("w", {"@quantity": 5, "@unit": "g"})], {}, {("w",): Quantity(5, "g")}),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "rows", "rest", "made"), CASES)
def test_a_value_is_made_while_it_stands_as_it_was_filled_in(place, tree, rows, rest, made):
    entity = completed(tree, *rows)
    assert {key: value for key, value in entity.tree.items() if key != "id"} == rest
    assert (entity.made or {}) == made
    assert with_values(entity.tree, entity.made or {}) == load("kb.jsonl")["a"].tree


def test_a_table_has_blank_cells_beside_what_was_filled_in(place):
    Path("t.csv").write_text("id,d.year,d.month,x\na,2011,,1\nb,2012,5,2\n")
    Path("t.csv.provenance.jsonl").write_text('{"id": "a", "path": "d", "value": {"year": 2011}}\n')
    first, second = given(load("t.csv"))
    assert (first.tree.get("d"), first.made) == (None, {("d", "year"): 2011})
    assert (second.tree["d"], second.made) == ({"year": 2012, "month": 5}, None)


def test_rdf_tells_it_itself_and_what_has_nothing_beside_it_is_all_given(place):
    Path("kb.ttl").write_text("<a:a> <a:x> 1 .")
    Path("kb.ttl.provenance.jsonl").write_text('{"id": "a:a", "path": "x", "value": 1}\n')
    Path("kb.jsonl").write_text('{"id": "a", "x": 1}\n')
    for name in ("kb.ttl", "kb.jsonl"):
        kb = load(name)
        assert given(kb) is kb


def test_of_several_sources_each_keeps_what_is_given_in_any(place):
    completed({"x": 1, "y": 2}, ("y", 2), name="one.jsonl")
    completed({"y": 3, "z": 4}, ("z", 4), name="two.jsonl")
    reading = Reading.of([load("one.jsonl"), load("two.jsonl")])
    [entity] = reading.entities
    assert (entity.tree, entity.made, reading.made) == ({"id": "a", "x": 1, "y": 3}, {("z",): 4}, 1)


@pytest.mark.parametrize(
    "line", ["", "no JSON", "[]", '{"id": "a", "path": "x"}', '{"id": "a", "path": "", "value": 1}']
)
def test_a_file_that_is_no_sidecar_is_one_line(place, line):
    completed({"x": 1}, ("x", 1))
    Path("kb.jsonl.provenance.jsonl").write_text(f'{{"id": "a", "path": "x", "value": 1}}\n{line}\n')
    with pytest.raises(LoadError) as error:
        given(load("kb.jsonl"))
    assert str(error.value).startswith("kb.jsonl.provenance.jsonl:2: expected a value that kbdisk complete filled in")
