"""Kinds, a format and a baseline from outside the package go from schema to file: infer, train, evaluate, complete, write, read back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from models import tiny_run

import kbdisk
from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.experts.features import HashedFeatures, most_frequent_slots
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class

SCHEMA = """\
kbdisk: 1
classes:
  "":
    id: id
    properties:
      id: {kind: text, role: ignore}
      genre: category
      length: {kind: duration, units: [min, h]}
      cost: money
      actors: {kind: count, at_most: 40}
      score: number
"""
LENGTHS = {"drama": (120.0, "min"), "series": (1.5, "h"), "clip": (9.0, "min")}


def films(count: int = 60) -> list[dict[str, Any]]:
    """Films with gaps in each property; the genre tells all others."""
    dice = random.Random(0)
    found = []
    for number in range(count):
        genre = dice.choice([*LENGTHS])
        amount, unit = LENGTHS[genre]
        film = {
            "id": f"f{number}",
            "genre": genre,
            "length": f"{amount:g} {unit}",
            "cost": {"amount": 2 * amount, "currency": "EUR" if unit == "min" else "USD"},
            "actors": len(genre),
            "score": amount,
        }
        gap = ["length", "cost", "actors", "score", "genre"][number % 5]
        found.append(film | ({} if number % 10 > 4 else {gap: None}))
    found[6]["cost"] = {"amount": None, "currency": "EUR"}
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("films") / "films.jsonl"
    file.write_text("".join(json.dumps(film) + "\n" for film in films()))
    return file


@pytest.fixture(scope="module")
def folder(extended, source) -> Path:
    """The folder of a model of some steps."""
    folder, schema_file = source.with_suffix(".kbdisk"), source.with_suffix(".yaml")
    schema_file.write_text(SCHEMA)
    kbdisk.train(source, schema_file, run=tiny_run(steps=20, nearest=2), out=folder)
    return folder


def test_the_schema_file_spells_them_and_is_written_back(extended):
    schema = kbdisk.Schema.read(SCHEMA)
    properties = schema.classes[""].properties
    assert properties["length",].kind == extended.durations.Duration(("min", "h"))
    assert properties["actors",].kind == extended.counts_of_things.Count(40)
    assert Schema.read(schema.to_yaml()) == schema
    with pytest.raises(kbdisk.KBDiskError, match="Did you mean 'units'"):
        kbdisk.Schema.read(SCHEMA.replace("units:", "untis:"))


def test_composites_are_inferred_from_texts_and_from_parts(extended, source):
    kinds = {path: property.kind for path, property in kbdisk.infer(source).schema.classes[""].properties.items()}
    assert kinds["length",] == extended.durations.Duration()
    assert type(kinds["cost",]).__name__ == "Money"


def test_values_that_do_not_fit_are_told(extended, tmp_path):
    file = tmp_path / "wrong.jsonl"
    file.write_text('{"id": "a", "length": "ninety minutes", "actors": -1, "cost": 3}\n')
    from kbdisk.inspection import check

    problems = str(check(kbdisk.Schema.read(SCHEMA), kbdisk.load(str(file))))
    for expected in ("a duration such as 90 min", "a count from 0 to 40", "an amount of money"):
        assert expected in problems


def test_kinds_from_outside_go_from_training_to_a_file_and_back(extended, source, folder, tmp_path):
    model = kbdisk.open(folder)
    assert {slot.kind for slot in model.trained.codec.slots} >= {"count", "number", "category"}

    scores = model.evaluate(source, against=["most-similar", "constant"], whole=True)
    rows = {(row["path"], row["kind"]): row for row in scores.reset_index().to_dict("records")}
    assert {("length.amount", "number"), ("length.unit", "category"), ("actors", "count")} <= rows.keys()
    actors = rows["actors", "count"]
    assert actors["metric"] == "off by"
    assert actors["off_by"] == actors["ours"]
    assert actors["most-similar"] < actors["constant"]  # the genre tells the number

    belief = model.belief("f0", "actors", source)
    assert belief.value == belief.mode
    assert belief.confidence == pytest.approx(sum(belief.probabilities.values()))
    assert all(0 <= value <= 40 for value in belief.sample(20))
    assert "actors" in str(model.why("f0", "actors", source))

    target = tmp_path / "out.jsonl"
    kbdisk.complete(source, target, model=model, fill="all")
    given, written = (list(map(json.loads, file.read_text().splitlines())) for file in (source, target))
    for before, after in zip(given, written, strict=True):
        assert extended.durations.TEXT.fullmatch(after["length"])  # as the others are written
        assert after["cost"].keys() == {"amount", "currency"}
        assert None not in after["cost"].values()
        assert type(after["actors"]) is int
        assert {
            key: value for key, value in before.items() if value is not None and key != "cost"
        }.items() <= after.items()
    schema = model.schema
    assert all(not schema.check(entity) for entity in kbdisk.load(str(target)))


def test_the_features_of_a_leaf_are_columns_for_neighbours(extended):
    schema = of_one_class({("actors",): Property(extended.counts_of_things.Count())})
    entities = [Entity(f"{n}", {"actors": n}) for n in range(9)]
    codec = Codec.fit(schema, entities)
    features = HashedFeatures.of(codec, most_frequent_slots(codec, 8))
    batch = codec.encode(entities).batch(torch.arange(9))
    assert features.table(batch, batch.known)[:, 0].expm1().round().tolist() == list(range(9))


def test_completed_values_can_be_taken_out_again(source, folder, tmp_path, run):
    target = tmp_path / "out.jsonl"
    kbdisk.complete(source, target, model=folder, fill="all")
    assert target.read_text() != source.read_text()
    status, _, error = run("retract", target)
    assert (status, error[:4]) == (0, "took")
    assert target.read_text() == source.read_text()


def test_a_format_from_outside_is_read_and_written(extended, tmp_path):
    flat = [{key: value for key, value in film.items() if key != "cost"} for film in films()]
    source = tmp_path / "films.kv"
    kbdisk.write((Entity(film["id"], film) for film in flat), source)
    assert "length = 1.5 h\n" in source.read_text()
    kb = kbdisk.load(source)
    assert kb.format == "kv"
    assert [entity.tree for entity in kb] == flat

    model = kbdisk.train(kb, kbdisk.Schema.read(SCHEMA.replace("      cost: money\n", "")), run=tiny_run(steps=5))
    target = tmp_path / "out.kv"
    kbdisk.complete(source, target, model=model, fill="all")
    completed = list(kbdisk.load(target))
    assert [entity.id for entity in completed] == [film["id"] for film in flat]
    assert all(value is not None for entity in completed for value in entity.tree.values())
    assert (tmp_path / "out.kv.provenance.jsonl").exists()

    kbdisk.write(kbdisk.load(target), tmp_path / "out.csv")
    assert [e.tree["length"] for e in kbdisk.load(tmp_path / "out.csv")] == [e.tree["length"] for e in completed]


def test_turtle_has_them_as_literals_and_as_parts(extended, tmp_path):
    lines = [
        f'ex:{film["id"]} a ex:Film ; ex:genre "{film["genre"] or "clip"}"'
        + (f' ; ex:length "{film["length"]}"' if film["length"] else "")
        + (f" ; ex:actors {film['actors']}" if film["actors"] else "")
        + " .\n"
        for film in films()
    ]
    source, target = tmp_path / "films.ttl", tmp_path / "out.ttl"
    source.write_text("@prefix ex: <http://ex.org/> .\n" + "".join(lines))
    schema = SCHEMA.replace('"":', "Film:\n    iri: http://ex.org/Film").replace("    id: id\n", "")
    schema = "".join(line for line in schema.splitlines(True) if not re_matches(line))
    model = kbdisk.train(source, kbdisk.Schema.read(schema), run=tiny_run(steps=5))
    kbdisk.complete(source, target, model=model, fill="all")
    assert target.read_text().startswith(source.read_text())
    new = target.read_text()[len(source.read_text()) :]
    assert ' ex:length "' in new
    read = [
        {**entity.tree, **{path[0]: value for path, value in (entity.made or {}).items()}}
        for entity in kbdisk.load(target)
    ]
    assert all(tree.keys() >= {"length", "actors"} for tree in read)


def re_matches(line: str) -> bool:
    """Whether a line of the schema is of a property that the films in Turtle do not have."""
    return line.lstrip().split(":")[0] in ("id", "cost", "score")
