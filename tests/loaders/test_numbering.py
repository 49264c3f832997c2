"""Entities without an id count from 1 in every format, and what was filled in them is found again by these numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kbdisk
from kbdisk.api.source import named_by_schema
from kbdisk.completion.sidecar import CarriedRows, given_entities
from kbdisk.entity import Entity
from kbdisk.errors import KBDiskError
from kbdisk.loaders.naming import Identifiers, identifiers, tells_apart

TREES = [{"x": 5, "y": "a"}, {"x": 6, "y": "b"}, {"x": 7, "y": "c"}]
CSV = "x,y\n5,a\n\n6,b\n7,c\n"


def a_file(folder: Path, format: str) -> Any:
    """The three trees in a format, blank lines where it may have some."""
    path = folder / f"a.{format}"
    lines = [json.dumps(tree) for tree in TREES]
    match format:
        case "json":
            path.write_text("[\n\n" + ",\n".join(lines) + "]")
        case "jsonl":
            path.write_text("\n" + "\n\n".join(lines))
        case "csv":
            path.write_text(CSV)
        case "tsv":
            path.write_text(CSV.replace(",", "\t"))
        case "parquet":
            pq.write_table(pa.Table.from_pylist(TREES), path)
        case "arrow":
            return pa.Table.from_pylist(TREES)
        case "list":
            return TREES
    return path


@pytest.mark.parametrize("format", ["json", "jsonl", "csv", "tsv", "parquet", "arrow", "list"])
def test_entities_without_an_id_count_from_1_whatever_the_format(tmp_path, format):
    assert [(one.id, one.tree["y"], one.nameless) for one in kbdisk.load(a_file(tmp_path, format))] == [
        ("1", "a", True),
        ("2", "b", True),
        ("3", "c", True),
    ]


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 2))
def test_blank_lines_do_not_count_whichever_block_they_stand_in(blank, size):
    lines = [b"" if is_blank else json.dumps({"x": " " * 400 * size}).encode() for is_blank in [*blank, False]]
    ids = [one.id for one in kbdisk.load(b"\n".join(lines), format="jsonl")]
    assert ids == [str(number) for number in range(1, 1 + len(lines) - sum(blank))]


def test_what_is_skipped_counts_so_that_numbers_stay_when_it_is_mended(tmp_path):
    for name, text in {
        "a.csv": "x,y\n5,a\n6\n7,c\n",
        "a.jsonl": '{"x": 1}\n{"x": \n{"x": 3}\n',
        "a.json": '[{"x": 1}, 5, {"x": 3}]',
    }.items():
        (tmp_path / name).write_text(text)
        assert [one.id for one in kbdisk.load(tmp_path / name, skip_errors=True)] == ["1", "3"]


def test_rows_of_a_frame_go_by_its_index_and_so_do_those_of_a_part_of_it():
    frame = pandas.DataFrame(TREES)
    assert [one.id for one in kbdisk.load(frame)] == ["0", "1", "2"]
    assert [one.id for one in kbdisk.load(frame.iloc[1:])] == ["1", "2"]


# ---------------------------------------------------------------- which key would do


def hint(*trees: dict[str, Any]) -> str | None:
    return identifiers(kbdisk.load(list(trees))).best


def test_the_key_that_would_do_is_one_that_all_have_and_that_tells_all_apart():
    assert hint({"name": "x", "sku": 1}, {"name": "y", "sku": 2}) == "sku"
    assert hint({"name": "x y", "kind": "a"}, {"name": "y z", "kind": "b"}) == "kind"
    assert hint({"name": "x y", "kind": "a"}, {"name": "y z", "kind": "a"}) == "name"
    assert hint({"code": "a"}, {"code": "a"}) is None
    assert hint({"code": "a"}, {"code": None}, {"code": "b"}) is None
    assert hint({"x": 1, "y": 1.5, "z": "some words"}, {"x": 2, "y": 2.5, "z": "other words"}) is None
    assert hint({"item no": 7}, {"item no": 8}) == "item no"
    assert hint({"code": "a"}) is None  # one alone tells nothing
    named = identifiers(kbdisk.load([{"id": "a", "sku": "b"}, {"id": "c", "sku": "d"}]))
    assert (named.hint, named.best) == (None, None)


def test_few_keys_are_kept_of_many():
    found = Identifiers()
    found.take(Entity("1", {f"key{n}": f"v{n}" for n in range(1000)} | {"sku": "a"}, nameless=True))
    assert len(found._hashes) == 16
    assert next(iter(found._hashes)) == "sku"


def test_inspect_says_it_in_one_line_and_in_json(tmp_path, run):
    (tmp_path / "a.csv").write_text("sku,x\nA1,5\nA2,5\n")
    assert "no id: items are numbered from 1; --id sku would name them\n" in run("inspect", tmp_path / "a.csv")[1]
    data = json.loads(run("inspect", tmp_path / "a.csv", "--json")[1])
    assert (data["numbered"], data["would_name"]) == (2, "sku")
    assert "no id" not in run("inspect", tmp_path / "a.csv", "--id", "sku")[1]


# ---------------------------------------------------------------- by the schema


def test_a_schema_that_says_what_the_id_is_names_the_entities_where_all_have_it(tmp_path):
    schema = kbdisk.Schema.read("kbdisk: 1\nclasses: {'': {id: meta.sku, properties: {x: number}}}\n")
    for format, text in {
        "csv": "meta.sku,x\nA1,5\nA2,6\n",
        "jsonl": '{"meta": {"sku": "A1"}}\n{"meta": {"sku": "A2"}}\n',
    }.items():
        (tmp_path / f"a.{format}").write_text(text)
        assert [one.id for one in named_by_schema(kbdisk.load(tmp_path / f"a.{format}"), schema)] == ["A1", "A2"]
        (tmp_path / f"a.{format}").write_text(text.replace("A2", "A1"))
        assert [one.id for one in named_by_schema(kbdisk.load(tmp_path / f"a.{format}"), schema)] == ["1", "2"]
    assert not tells_apart(kbdisk.load([{"x": "a"}, {}]), ("x",))
    assert not tells_apart(kbdisk.load([{"x": "a", "id": "b"}]), ("x",))


# ---------------------------------------------------------------- what was filled in is found again


def sidecar(path: Path, **row: Any) -> None:
    row = {"id": "2", "path": "y", "value": "b"} | row
    Path(f"{path}.provenance.jsonl").write_text(json.dumps(row) + "\n")


def made(path: Path, **options: Any) -> list[tuple[str, Any]]:
    """Whose values count as filled in."""
    return [(one.id, dict(one.made)) for one in given_entities(kbdisk.load(path, **options)) if one.made]


@pytest.mark.parametrize("format", ["json", "jsonl", "csv", "tsv", "parquet"])
def test_a_value_that_was_filled_in_is_found_by_its_number_and_by_the_path_of_an_id(tmp_path, format):
    path = a_file(tmp_path, format)
    sidecar(path, numbered=True)
    assert made(path) == [("2", {("y",): "b"})]
    sidecar(path, id="6", id_path="x")
    assert made(path) == [("2", {("y",): "b"})]
    assert made(path, id="x") == [("6", {("y",): "b"})]
    carried = CarriedRows([kbdisk.load(path)], "csv")
    [line] = [json.loads(line) for one in given_entities(kbdisk.load(path)) for line in carried.of(one)]
    assert line == {"id": "2", "path": "y", "value": "b", "numbered": True}


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_numbers_are_understood_where_the_entities_are_named_later(tmp_path, format):
    path = a_file(tmp_path, format)
    sidecar(path, numbered=True)
    assert made(path, id="x") == [("6", {("y",): "b"})]


def test_where_numbers_cannot_be_understood_that_is_said(tmp_path):
    path = a_file(tmp_path, "jsonl")  # its positions are lines
    sidecar(path, numbered=True)
    with pytest.raises(
        KBDiskError, match=r"a\.jsonl\.provenance\.jsonl: expected the ids that --id names, got numbers"
    ):
        made(path, id="x")


@pytest.mark.parametrize("id", ["0", "2"])
def test_numbers_of_an_older_kbdisk_are_refused_and_never_taken_for_others(tmp_path, id):
    path = a_file(tmp_path, "csv")
    sidecar(path, id=id)
    with pytest.raises(KBDiskError, match=r"a\.csv\.provenance\.jsonl: expected rows that say `numbered`, .* from 0"):
        made(path)


def test_new_values_for_a_row_0_are_refused_with_how_rows_count(tmp_path, run):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n5,\n")
    (tmp_path / "v.jsonl").write_text('{"id": "0", "path": "y", "value": 1}\n')
    status, _, err = run("write", path, "--values", tmp_path / "v.jsonl", "--out", tmp_path / "b.csv")
    assert (status, err.count("\n")) == (2, 1)
    assert "got '0'. Entities without an id count from 1." in err
    (tmp_path / "v.jsonl").write_text('{"id": "1", "path": "y", "value": 1}\n')
    assert run("write", path, "--values", tmp_path / "v.jsonl", "--out", tmp_path / "b.csv")[0] == 0
    assert (tmp_path / "b.csv").read_text() == "x,y\n5,1\n"
