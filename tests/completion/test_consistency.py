"""What is written satisfies the constraints of the schema and of a shapes file, together with the given values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from models import calibrated, tiny

from kbdisk.completion import complete
from kbdisk.completion.consistency import Consistency, renamed
from kbdisk.entity import Entity, Filled
from kbdisk.schemas import importers
from kbdisk.schemas.yaml import loads

SCHEMA = """
kbdisk: 1
classes:
  '':
    properties: {low: number, high: number, name: category}
    constraints: [low <= high]
"""
SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix ex: <http://ex.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:RangeShape a sh:NodeShape ; sh:targetClass ex:Range ;
    sh:property [ sh:path ex:low ; sh:lessThan ex:high ; sh:maxInclusive 40 ; sh:minCount 0 ] ;
    sh:property [ sh:path ex:high ; sh:datatype xsd:decimal ] ;
    sh:sparql [ sh:select "SELECT $this WHERE { }" ] .
"""


def ranges(count: int) -> list[Entity]:
    return [Entity(f"e{n}", {"low": n % 50, "high": n % 50 + 5, "name": "ab"[n % 2]}) for n in range(count)]


@pytest.fixture(scope="module")
def model():
    return calibrated(tiny(loads(SCHEMA), ranges(80)))


def test_a_prediction_that_breaks_a_constraint_with_a_given_value_is_held_back(model):
    some = [*ranges(6), *(Entity(f"n{n}", {"low": n, "name": "a"}) for n in (0, 1000)), Entity("m", {"high": -1000})]
    completing = complete(model, some, fill="all")
    small, large, other = list(completing)[6:]
    assert small.filled["high",].value >= 0
    assert ("high",) not in large.filled
    assert ("low",) not in other.filled
    [why] = next(row for row in completing.summary.shown() if row.path == ("high",)).held
    assert why.startswith("breaks a constraint: expected ")
    for row in completing.summary.shown():
        assert row.missing == row.filled + sum(row.held.values())


def test_of_two_predictions_that_break_a_constraint_the_surer_is_kept(model):
    consistency = Consistency(model.schema, None, ranges(3))
    values = {("low",): Filled(9, 0.6), ("high",): Filled(5, 0.8)}
    assert set(consistency.refused(Entity("n", {}), values)) == {("low",)}
    surer = {("low",): Filled(9, 0.9), ("high",): Filled(5, 0.8)}
    assert set(consistency.refused(Entity("n", {}), surer)) == {("high",)}


def test_shapes_of_a_file_hold_for_entities_of_their_classes(tmp_path, model):
    (tmp_path / "shapes.ttl").write_text(SHAPES)
    shapes = importers.read(tmp_path / "shapes.ttl").schema
    plain = replace(model.schema, classes={"Range": replace(model.schema.classes[""], name="Range", constraints=())})
    consistency = Consistency(plain, shapes, [])
    of_it, other = (Entity("n", {"high": 30}, (name,)) for name in ("http://ex.org/Range", "http://ex.org/Other"))
    assert set(consistency.refused(of_it, {("low",): Filled(30, 0.9)})) == {("low",)}  # lessThan
    assert consistency.refused(of_it, {("low",): Filled(29, 0.9)}) == {}
    assert set(consistency.refused(Entity("m", {}, ("http://ex.org/Range",)), {("low",): Filled(41, 0.9)})) == {
        ("low",)
    }
    assert consistency.refused(other, {("low",): Filled(30, 0.9)}) == {}


def test_a_value_that_is_unique_is_written_once(tmp_path):
    schema = loads(
        "kbdisk: 1\nclasses:\n  '':\n    properties: {code: category, x: number}\n    constraints: [code unique]\n"
    )
    consistency = Consistency(schema, None, [Entity("a", {"code": "A"})])
    assert set(consistency.refused(Entity("b", {}), {("code",): Filled("A", 0.9)})) == {("code",)}
    assert consistency.refused(Entity("b", {}), {("code",): Filled("B", 0.9)}) == {}
    assert set(consistency.refused(Entity("c", {}), {("code",): Filled("B", 0.9)})) == {("code",)}


def test_shapes_have_the_paths_of_the_schema_with_the_same_iris(model):
    iri = "http://ex.org/low"
    shapes = loads(
        f"kbdisk: 1\nclasses:\n  '':\n    properties: {{least: {{kind: number, iri: '{iri}'}}, high: number}}\n"
        "    constraints: [least < high]\n"
    )
    known = model.schema.classes[""].properties
    named = replace(
        model.schema,
        classes={
            "": replace(model.schema.classes[""], properties={**known, ("low",): replace(known["low",], iri=iri)})
        },
    )
    [constraint] = renamed(shapes, named).classes[""].constraints
    assert (constraint.path, constraint.other) == (("low",), ("high",))
