"""What the fuzzer met, each with the least that shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fuzz import cases


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sparql_update_is_refused_as_a_source(here, run):
    Path("kb.ru").write_text("INSERT DATA { <a:a> <a:p> 1 }")
    status, out, err = run("inspect", "kb.ru")
    assert (status, out) == (2, "")
    assert err.startswith("error: kb.ru: expected a knowledge base, got sparql-update, which is only written.")


def test_a_variable_without_a_name_is_told_as_what_is_wrong_with_n3(here, run):
    Path("kb.n3").write_text("@prefix : <http://e/> .\n{ :a :p ? } => { :b :q 1 } .\n")
    status, _, err = run("inspect", "kb.n3")
    assert status == 2
    assert err.startswith("error: kb.n3:2: expected N3, got an error")


def test_new_values_go_into_true_n3_where_anonymous_nodes_are_to_be_filled_too(here, run):
    text = "@prefix : <http://e/> .\n@prefix r: <http://e/> .\n:a = :b ; :q [ :q 1 ] .\n:c :p 1 .\n"
    Path("kb.n3").write_text(text)
    Path("new.jsonl").write_text('{"id": "http://e/a", "path": "p", "value": 5}\n')
    status, _, err = run("write", "kb.n3", "--values", "new.jsonl", "--in-place", "--insert", "--out", "kb.n3")
    assert status == 0, err
    assert Path("kb.n3").read_text().startswith(text)


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        ("x", "x.y", "2: x.y of 'a' and x in line 1 cannot both be"),
        ("x.y", "x", "1: x.y of 'a' and x in line 2 cannot both be"),
        ("x[0]", "x.y", "2: x.y of 'a' and x[0] in line 1 cannot both be"),
    ],
)
def test_new_values_that_cannot_stand_together_are_refused(here, run, first, second, shown):
    Path("kb.jsonl").write_text('{"id": "a"}\n')
    Path("new.jsonl").write_text("".join(f'{{"id": "a", "path": "{path}", "value": 1}}\n' for path in (first, second)))
    status, _, err = run("write", "kb.jsonl", "--values", "new.jsonl", "--out", "out.ttl")
    assert status == 2
    assert err == f"error: new.jsonl:{shown}. Leave one out.\n"
    assert not Path("out.ttl").exists()


@pytest.mark.parametrize("path", ["tags[99999999]", "new[99999999]", "x.y[2][99999999]"])
def test_a_new_value_far_behind_the_end_of_its_list_is_refused(here, run, path):
    Path("kb.jsonl").write_text('{"id": "a", "tags": ["x"]}\n')
    Path("new.jsonl").write_text(f'{{"id": "a", "path": "{path}", "value": 1}}\n')
    status, _, err = run("write", "kb.jsonl", "--values", "new.jsonl", "--out", "out.jsonl")
    assert status == 2
    assert err.startswith(f"error: new.jsonl:1: {path}: expected an index near the end of ")


@pytest.mark.parametrize("object", ["<http://a b/>", '"1952-02-30"^^<http://www.w3.org/2001/XMLSchema#date>'])
def test_what_rdflib_does_not_like_in_n3_is_no_line_of_a_log(here, run, caplog, object):
    Path("kb.n3").write_text(f"@prefix : <http://e/> .\n:a = {object} ; :p 1 .\n")
    status, _, err = run("inspect", "-q", "kb.n3")
    assert status in (0, 2)
    assert all(line.startswith(("error: ", "warning: ")) for line in err.splitlines()), err
    assert caplog.records == []


@pytest.mark.parametrize("date", ["1952-02-31", "1952-21-03", "1952-XX-03"])
def test_a_date_that_the_calendar_does_not_have_is_no_day_of_a_parquet_column(here, run, date):
    Path("kb.jsonl").write_text(
        f'{{"id": "a", "day": {{"@date": "{date}"}}}}\n{{"id": "b", "day": {{"@date": "2001-01-01"}}}}\n'
    )
    status, _, err = run("write", "kb.jsonl", "--out", "out.parquet")
    assert status == 1
    assert "a day: expected a date that ISO 8601 can say" in err
    assert run("write", "out.parquet", "--out", "-", "--to", "jsonl")[1].count("2001-01-01") == 1


def test_a_day_that_the_calendar_does_not_have_fills_no_cell_of_days(here, run):
    Path("kb.jsonl").write_text('{"id": "a", "day": {"@date": "2001-01-01"}}\n{"id": "b"}\n')
    assert run("write", "kb.jsonl", "--out", "kb.parquet")[0] == 0
    Path("new.jsonl").write_text('{"id": "b", "path": "day", "value": {"@date": "1952-02-31"}}\n')
    status, _, err = run("write", "kb.parquet", "--values", "new.jsonl", "--out", "out.parquet")
    assert status == 1
    assert "b day: " in err


@pytest.mark.parametrize(
    ("type", "value", "status"),
    [
        ({}, "x", 2),
        ("wikibase-entityid", "x", 0),
        ("time", "x", 0),
        ("monolingualtext", {"text": {}, "language": []}, 0),
        ("quantity", {"amount": "1", "unit": {}}, 0),
        ("time", {"time": "+1952-03-11T00:00:00Z", "precision": 11, "calendarmodel": {}}, 0),
        ("time", {"time": "+1952-03-11T00:00:00Z", "precision": [], "timezone": {}}, 0),
        ("globecoordinate", {"latitude": 1, "longitude": 2, "globe": {"a": 1}}, 0),
        ("wikibase-entityid", {"entity-type": "item", "numeric-id": 1e999}, 2),
    ],
)
def test_a_value_of_a_wikibase_of_another_form_is_kept_as_text_or_refused(here, run, type, value, status):
    snak = {"snaktype": "value", "property": "P1", "datavalue": {"type": type, "value": value}}
    item = {"type": "item", "id": "Q1", "labels": {}, "claims": {"P1": [{"mainsnak": snak, "rank": "normal"}]}}
    Path("kb.json").write_text(json.dumps(item).replace("Infinity", "1e999"))
    ended, _, err = run("schema", "infer", "kb.json", "--from", "wikibase-json")
    assert ended == status
    assert err.startswith("error: kb.json") is (status == 2)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("constants", lambda constants: constants | {"0": constants["0"][:2]}),
        ("constants", lambda constants: constants | {"0": 5}),
        ("constants", lambda constants: constants | {"0": [{"a": 1}, None, None]}),
        ("constants", lambda constants: constants | {"9999": constants["0"]}),
        ("quality", lambda rows: [rows[0] | {"trust": "x"}, *rows[1:]] if rows else [{"class": 5, "path": "x"}]),
    ],
)
def test_measures_of_another_form_are_refused_when_a_model_is_opened(here, run, tiny_folder, key, change):
    shutil.copytree(tiny_folder, "m.kbdisk")
    metrics = json.loads(Path("m.kbdisk/metrics.json").read_text())
    Path("m.kbdisk/metrics.json").write_text(json.dumps(metrics | {key: change(metrics[key])}))
    cases.mend_checksums("metrics.json")
    Path("kb.jsonl").write_text('{"id": "a", "brand": "Nokia", "weight": null}\n')
    status, _, err = run("complete", "-q", "kb.jsonl", "--model", "m.kbdisk", "--dry-run")
    assert status == 2
    assert err.startswith("error: m.kbdisk/metrics.json: expected content that kbdisk ")


def test_a_label_of_a_category_may_be_a_number_beyond_any_float(here, run):
    digits = "9" * 400
    Path("shapes.ttl").write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> .\n@prefix : <http://e/> .\n"
        f":S a sh:NodeShape ; sh:targetClass :C ; sh:property [ sh:path :p ; sh:in ( 1 {digits} ) ] .\n"
    )
    status, out, err = run("schema", "import", "-q", "shapes.ttl")
    assert (status, err) == (0, "")
    assert digits in out


def test_times_beyond_those_of_python_are_no_index_of_a_parquet_file(here, run):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"": pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))}), "kb.parquet")
    status, _, err = run("inspect", "-q", "kb.parquet")
    assert status == 0 or err.startswith("error: kb.parquet: "), err


def test_half_a_character_in_a_json_schema_is_refused(here, run):
    Path("schema.json").write_text('{"properties": {"x": {"enum": ["\\ud800", "b"]}}}')
    status, out, err = run("schema", "import", "schema.json")
    assert (status, out) == (2, "")
    assert err.startswith("error: schema.json: expected whole characters, got one half of a surrogate pair, \\ud800.")


def test_a_wikibase_s_amounts_and_degrees_that_are_no_numbers_are_kept_as_text(here, run):
    Path("kb.ttl").write_text(
        "@prefix w: <http://wikiba.se/ontology#> . @prefix wd: <http://e/entity/> . @prefix p: <http://e/prop/> .\n"
        "@prefix v: <http://e/prop/statement/value/> . @prefix s: <http://e/entity/statement/> .\n"
        "wd:Q1 a w:Item ; p:P1 s:1 ; p:P2 s:2 .\n"
        's:1 v:P1 <http://e/v1> . <http://e/v1> w:quantityAmount "+x" ; w:quantityUnit wd:Q2 .\n'
        's:2 v:P2 <http://e/v2> . <http://e/v2> w:geoLatitude "a" ; w:geoLongitude 1 .\n'
    )
    assert run("schema", "infer", "kb.ttl")[0] == 0
    out = run("write", "kb.ttl", "--out", "-", "--to", "jsonl")[1]
    assert '"P1":"+x"' in out
    assert '"P2":"a, 1"' in out


def test_a_column_whose_name_has_a_nul_is_refused_in_a_table(here, run):
    Path("kb.jsonl").write_text('{"id": "a", "x\\u0000": 1}\n')
    status, _, err = run("write", "kb.jsonl", "--out", "out.csv")
    assert status == 2
    assert err.startswith("error: csv: a NUL character has no place in a table")
    assert not Path("out.csv").exists()


def test_a_parquet_file_whose_names_are_no_text_is_refused(here, run):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"name": ["a"]}), "kb.parquet", store_schema=False)
    Path("kb.parquet").write_bytes(Path("kb.parquet").read_bytes().replace(b"name", b"na\xf5e"))
    status, _, err = run("inspect", "-q", "kb.parquet")
    assert status == 2
    assert err.startswith("error: kb.parquet: expected a Parquet file, got something else or a damaged one: ")


def test_a_parquet_file_whose_columns_have_no_readable_names_is_not_written(here, run):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"id": ["a"], "name": ["b"], "note": pa.array([None], pa.string())}), "kb.parquet")
    data = Path("kb.parquet").read_bytes()
    at = data.rindex(b"name", 0, data.index(b"ARROW:schema"))  # in the metadata of its chunk
    Path("kb.parquet").write_bytes(data[:at] + b"na\xa8e" + data[at + 4 :])
    Path("values.jsonl").write_text('{"id": "a", "path": "note", "value": "new"}\n')
    status, _, err = run("write", "kb.parquet", "--id", "id", "--values", "values.jsonl", "--out", "out.parquet")
    assert status == 2
    assert err.startswith("error: kb.parquet: expected a Parquet file, got something else or a damaged one: ")
    assert not Path("out.parquet").exists()


@pytest.mark.parametrize("line", ["[model]\nbase = 1{}", "[train]\nrate = 1{}", "seed = 1{}"])
def test_a_number_of_a_run_file_beyond_64_bits_is_refused(here, run, line):
    Path("kb.jsonl").write_text('{"id": "a", "x": 1}\n')
    Path("run.toml").write_text(line.format("0" * 400))
    status, _, err = run("train", "-q", "kb.jsonl", "--config", "run.toml")
    assert status == 2
    assert ": expected a number of at most 64 bits, got one of 1,329.\n" in err


def test_a_run_file_of_brackets_without_end_is_refused(here, run):
    Path("kb.jsonl").write_text('{"id": "a", "x": 1}\n')
    Path("run.toml").write_text("seed = " + 5000 * "[")
    status, _, err = run("train", "-q", "kb.jsonl", "--config", "run.toml")
    assert (status, err) == (2, "error: run.toml: expected TOML, got brackets nested too deeply to be read.\n")


@pytest.mark.parametrize("knots", [(1.0, 1.0), (2.0, 1.0)])
def test_a_map_of_numbers_whose_knots_do_not_rise_is_refused(knots):
    from kbdisk.leaves.number.transforms import CodeMap

    with pytest.raises(ValueError, match="expected a map whose knots rise"):
        CodeMap(knots, (0.0, 1.0), 1.0, 1.0).refuse_falling()
