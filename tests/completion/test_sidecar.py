"""What an earlier completion filled in is told from what is given by the file that it left beside its target."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pandas
import pytest

from kbdisk.api.source import LoadedSource
from kbdisk.completion.sidecar import given_entities, sidecar_rows
from kbdisk.entity import Entity, Link, Quantity, with_values
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
    [entity] = given_entities(load(name))
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
    ({"x": 1, "y": 2}, [("y", 2), ("y", 2)], {"x": 1}, {("y",): 2}),  # filled in, taken out, filled in again
    ({"x": 1, "y": 2}, [("y", 3), ("y", 2)], {"x": 1}, {("y",): 2}),
    ({"d": {"year": 2011, "month": 3}}, [("d.month", 3), ("d", {"year": 2011, "month": 3})], {}, {("d", "year"): 2011, ("d", "month"): 3}),  # filled in, taken out, filled in with the rest
    ({"w": {"@quantity": 5, "@unit": "g"}}, [("w", {"@quantity": 5, "@unit": "g"})], {}, {("w",): Quantity(5, "g")}),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "rows", "rest", "made"), CASES)
def test_a_value_is_made_while_it_stands_as_it_was_filled_in(place, tree, rows, rest, made):
    entity = completed(tree, *rows)
    assert {key: value for key, value in entity.tree.items() if key != "id"} == rest
    assert (entity.made or {}) == made
    assert with_values(entity.tree, entity.made or {}) == load("kb.jsonl")["a"].tree


def test_what_is_told_beside_a_link_is_told_too_and_no_line_twice(place):
    completed({"x": 1, "y": 2, "z": 3}, ("x", 1), ("y", 2))
    told = [json.dumps({"id": "a", "path": path, "value": value}) for path, value in (("y", 2), ("z", 3))]
    Path("link.jsonl").symlink_to("kb.jsonl")
    Path("link.jsonl.provenance.jsonl").write_text("\n".join(told))
    [entity] = given_entities(load("link.jsonl"))
    assert entity.made == {("x",): 1, ("y",): 2, ("z",): 3}
    assert [len(rows) for rows in sidecar_rows(load("link.jsonl")).values()] == [3]


def test_a_decimal_of_parquet_is_the_number_that_was_filled_in(place):
    pandas.DataFrame({"id": ["a", "b"], "x": [Decimal("4.30"), Decimal("4.31")]}).to_parquet("t.parquet")
    lines = [f'{{"id": "{id}", "path": "x", "value": 4.3}}\n' for id in "ab"]
    Path("t.parquet.provenance.jsonl").write_text("".join(lines))
    first, second = given_entities(load("t.parquet"))
    assert (first.tree.get("x"), dict(first.made)) == (None, {("x",): Decimal("4.30")})
    assert (second.tree["x"], second.made) == (Decimal("4.31"), None)


def test_a_table_has_blank_cells_beside_what_was_filled_in(place):
    Path("t.csv").write_text("id,d.year,d.month,x\na,2011,,1\nb,2012,5,2\n")
    Path("t.csv.provenance.jsonl").write_text('{"id": "a", "path": "d", "value": {"year": 2011}}\n')
    first, second = given_entities(load("t.csv"))
    assert (first.tree.get("d"), first.made) == (None, {("d", "year"): 2011})
    assert (second.tree["d"], second.made) == ({"year": 2012, "month": 5}, None)


def test_what_has_nothing_beside_it_is_all_given_and_of_rdf_what_stands_in_no_block(place):
    Path("kb.jsonl").write_text('{"id": "a", "x": 1}\n')
    kb = load("kb.jsonl")
    assert given_entities(kb) is kb
    Path("kb.ttl").write_text("<a:a> <a:x> 1 .")
    Path("kb.ttl.provenance.jsonl").write_text('{"id": "a:a", "path": "x", "value": 1}\n')
    [entity] = given_entities(load("kb.ttl"))
    assert (entity.tree["x"], entity.made) == (1, None)


def block(statements: str, *rows: tuple[str, object]) -> Entity:
    """An entity of Turtle with a block of ours, of which these rows tell what was filled in."""
    Path("kb.ttl").write_text(f"@prefix : <a:> .\n:a :x 1 .\n# kbdisk: begin\n{statements}\n# kbdisk: end\n")
    lines = [json.dumps({"id": "a:a", "path": path, "value": value}) for path, value in rows]
    Path("kb.ttl.provenance.jsonl").write_text("\n".join(lines) + "\n")
    return next(iter(given_entities(load("kb.ttl"))))


B, C, D = ({"@id": f"a:{name}"} for name in "bcd")
BLOCKS = [  # what stands in the block, what was filled in, what of it is given, what is made
    (":a :y :b .", [("y", B)], {}, {("y",): Link("a:b")}),
    (":a :y :c .", [("y", B)], {"y": Link("a:c")}, {}),
    (":a :y :c ; :z 2 .", [("y", B), ("z", 2)], {"y": Link("a:c")}, {("z",): 2}),
    (":a :y 2.50 .", [("y", 2.5)], {}, {("y",): 2.5}),
    (":a :y 2.51 .", [("y", 2.5)], {"y": 2.51}, {}),
    (":a :y :c .", [("z", 2)], {}, {("y",): Link("a:c")}),  # a block of an earlier completion still
    (":a :y :c , :d .", [("y[0]", B), ("y[1]", C), ("y[2]", D)], {}, {("y", 0): Link("a:c"), ("y", 1): Link("a:d")}),
]


@pytest.mark.parametrize(("statements", "rows", "rest", "made"), BLOCKS)
def test_a_value_in_a_block_is_made_unless_the_sidecar_tells_another(place, statements, rows, rest, made):
    entity = block(statements, *rows)
    assert {key: value for key, value in entity.tree.items() if key[0] != "@" and key != "x"} == rest
    assert (entity.made or {}) == made


def test_of_several_sources_each_keeps_what_is_given_in_any(place):
    completed({"x": 1, "y": 2}, ("y", 2), name="one.jsonl")
    completed({"y": 3, "z": 4}, ("z", 4), name="two.jsonl")
    reading = LoadedSource.of([load("one.jsonl"), load("two.jsonl")])
    [entity] = reading.entities
    assert (entity.tree, entity.made, reading.made) == ({"id": "a", "x": 1, "y": 3}, {("z",): 4}, 1)


@pytest.mark.parametrize(
    "line", ["", "no JSON", "[]", '{"id": "a", "path": "x"}', '{"id": "a", "path": "", "value": 1}']
)
def test_a_file_that_is_no_sidecar_is_one_line(place, line):
    completed({"x": 1}, ("x", 1))
    Path("kb.jsonl.provenance.jsonl").write_text(f'{{"id": "a", "path": "x", "value": 1}}\n{line}\n')
    with pytest.raises(LoadError) as error:
        given_entities(load("kb.jsonl"))
    assert str(error.value).startswith("kb.jsonl.provenance.jsonl:2: expected a value that kbdisk complete filled in")
    assert "may count as given" in str(error.value)


def test_a_broken_sidecar_is_told_beside_turtle_as_beside_json(place):
    block(":a :y 2 .", ("y", 2))
    with Path("kb.ttl.provenance.jsonl").open("a") as file:
        file.write('{"id": broken')
    with pytest.raises(LoadError, match=r"^kb\.ttl\.provenance\.jsonl:2: expected a value that kbdisk complete"):
        given_entities(load("kb.ttl"))


@pytest.mark.parametrize(
    ("cells", "filled", "is_made"),
    [
        (["33.00", "4.50"], "33.00", True),
        (["33", "4"], "33.00", True),
        (["33.5", "4.50"], "33.00", False),
        (["1.234,50", "4,5"], "1.234,50", True),
        (["TRUE", "FALSE"], "True", True),
        (["TRUE", "FALSE"], "False", False),
        (["1", "0"], "true", False),
        (["007", "010"], "007", True),
        (["7", "10"], "007", False),
    ],
)
def test_a_text_that_a_column_reads_as_a_number_is_still_the_same(place, cells, filled, is_made):
    first, second = cells
    Path("t.csv").write_text(f"id;x\na;{first}\nb;{second}\n")
    Path("t.csv.provenance.jsonl").write_text(json.dumps({"id": "a", "path": "x", "value": filled}) + "\n")
    entity, _ = given_entities(load("t.csv"))
    assert bool(entity.made) == is_made
