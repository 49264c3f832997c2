"""`kbdisk schema` as a user meets it: schemas and tables on standard output, findings with status 1, errors in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from tables import for_each

from kbdisk.cli import main
from kbdisk.cli.schema_tables import property_text
from kbdisk.schemas import library
from kbdisk.schemas.composites import COMPOSITES, kind_name
from kbdisk.schemas.kinds import KINDS
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema

EXAMPLES = Path(__file__).parents[1] / "examples"
PHONES, PHONES_SCHEMA, ELEMENTS = (str(EXAMPLES / name) for name in ("phones.jsonl", "phones.yaml", "elements.ttl"))
COMMANDS = sorted(main.commands["schema"].commands)
KBDISK = [sys.executable, "-m", "kbdisk"]


@pytest.fixture
def run(run):
    """Run `kbdisk schema ...`; returns its exit status, standard output and standard error."""
    return partial(run, "schema")


@pytest.fixture
def wrong(tmp_path) -> Path:
    """The phones, one of them launched in month 13, one written before the others were asked."""
    file = tmp_path / "wrong.jsonl"
    text = Path(PHONES).read_text().replace('"year": 2000, "month": 9', '"year": 2000, "month": 13')
    file.write_text(text.replace('"brand": "Apple"', '"brnad": "Apple"'))
    return file


# ---------------------------------------------------------------- every command


@for_each("command", COMMANDS)
def test_every_command_and_option_has_help_with_an_example(command, run):
    for parameter in main.commands["schema"].commands[command].params:
        assert parameter.param_type_name == "argument" or parameter.help, parameter.name
    status, out, _ = run(command, "--help")
    assert status == 0
    assert re.search(rf"^ *kbdisk schema {command}\b", out, re.MULTILINE)


@for_each("columns", [80, 120])
@for_each(
    "arguments",
    [
        *([command, "--help"] for command in COMMANDS),
        ["infer", PHONES, "--explain"],
        ["infer", ELEMENTS, "--explain"],
        ["show", PHONES_SCHEMA],
        *(["show", name] for name in library.names()),
        ["library"],
    ],
)
def test_what_is_printed_fits_the_terminal(arguments, columns, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= columns


@for_each(
    ("arguments", "complaint"),
    [
        (["show", "fone"], "fone: unknown schema. Did you mean 'phone'? The library has country, element, "),
        (["show", "phone.yaml"], "phone.yaml: no such file. The library has 'phone': say that name alone."),
        (["check", "none.yaml", PHONES], "none.yaml: no such file. "),
        (["check", PHONES_SCHEMA, "none.jsonl"], "none.jsonl: no such file."),
        (["infer", "none.jsonl"], "none.jsonl: no such file."),
        (["export", "fone"], "fone: unknown schema."),
        (["import", "none.ttl"], "none.ttl: no such file."),
        (["import", PHONES_SCHEMA], f"{PHONES_SCHEMA}: is a schema of kbdisk's already. Use it as it is."),
        (["import", str(EXAMPLES / "demo.sh")], f"{EXAMPLES}/demo.sh: expected SHACL, JSON Schema, LinkML, got none"),
        (["check", "nuclide", PHONES], "nuclide: expected one of z, n, binding, "),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, complaint, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith(f"error: {complaint}")


@for_each(
    "arguments",
    [["infer", PHONES, "--explain", "--json"], ["check", "-", "-"], ["show"], ["import", "a", "--from", "xml"]],
)
def test_a_wrong_call_exits_with_2(arguments, run):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "Error" in err


# ---------------------------------------------------------------- infer


def test_what_is_inferred_is_a_schema_with_its_reasons_that_the_source_fits(run, tmp_path):
    status, out, err = run("infer", PHONES)
    assert (status, err) == (0, "")
    file = tmp_path / "phone.yaml"
    file.write_text(out)
    assert kind_name(Schema.read(file).classes[""].properties["launch",].kind) == "date"
    assert "# 100 % filled" in out
    assert run("check", file, PHONES, "--strict")[0] == 0


def test_explain_is_a_table_of_the_same_decisions(run):
    _, out, _ = run("infer", PHONES, "--explain")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line and line[0] != " "}
    assert rows["launch"][:3] == ["date", "100", "%"]
    assert rows["weight"][0] == "quantity"
    assert "kbdisk: 1" not in out


def test_infer_as_json_has_the_schema_and_each_reason(run):
    found = json.loads(run("infer", PHONES, "--json")[1])
    assert list(found) == ["source", "schema", "reasons", "left_out"]
    assert found["schema"] == _of_yaml(run("infer", PHONES)[1])
    assert {one["path"] for one in found["reasons"]} == set(found["schema"]["classes"][""]["properties"])


def _of_yaml(text: str) -> dict:
    return json.loads(json.dumps(yaml.safe_load(text)))


def test_rules_are_offered_with_their_support_and_exceptions_and_the_file_is_a_schema(run, tmp_path):
    file = tmp_path / "houses.csv"
    rows = [(50 + n * n % 97, n * 7 % 31, "abc"[n % 3]) for n in range(60)]
    file.write_text("above,below,living,kind\n" + "".join(f"{a},{b},{a + b + (a == 50)},{k}\n" for a, b, k in rows))
    _, out, _ = run("infer", str(file), "--rules")
    wrong = sum(above == 50 for above, _, _ in rows)
    line = f"{{target: living, rule: sum, of: [above, below], decimals: 0, support: {60 - wrong}, exceptions: {wrong}}}"
    assert f"# living = above + below; not of 1\n  - {line}" in out
    (tmp_path / "house.yaml").write_text(out)
    assert run("check", str(tmp_path / "house.yaml"), str(file))[0] == 0
    assert _of_yaml(out)["rules"] == json.loads(run("infer", str(file), "--rules", "--json")[1])["schema"]["rules"]
    assert "rules" not in _of_yaml(run("infer", str(file))[1])
    for table in (run("infer", str(file), "--rules", "--explain")[1], run("show", str(tmp_path / "house.yaml"))[1]):
        assert re.search(rf"living = above \+ below +{60 - wrong} +{wrong}", table)


def test_only_the_classes_that_are_named_are_inferred(run):
    tree = _of_yaml(run("infer", ELEMENTS, "--class", "Chemist", "--class", "Country")[1])
    assert set(tree["classes"]) == {"Chemist", "Country"}


@for_each(
    ("name", "text"),
    [
        ("kb.csv", "id,x\na,{}\nb,3\n"),
        ("kb.jsonl", '{{"id": {0}, "x": {0}}}\n{{"id": 2, "x": 3}}\n'),
        ("kb.ttl", "<http://e/a> <http://e/x> {} . <http://e/b> <http://e/x> 3 ."),
    ],
)
def test_numbers_of_any_length_are_inferred_and_checked(name, text, run, tmp_path):
    (tmp_path / name).write_text(text.format("9" * 5000))
    status, out, _ = run("infer", str(tmp_path / name))
    assert (status, "very many digits" in out) == (0, True)
    (tmp_path / "kb.yaml").write_text(out)
    _, out, _ = run("check", str(tmp_path / "kb.yaml"), str(tmp_path / name))
    assert "one of 5,000 digits" in out


def test_infer_skips_and_says_so_by_its_status(run, tmp_path):
    (tmp_path / "kb.jsonl").write_text('{"n": 1}\n{"n": \n')
    assert run("infer", tmp_path / "kb.jsonl")[0] == 2
    status, out, _ = run("infer", tmp_path / "kb.jsonl", "--skip-errors")
    assert (status, "n: " in out) == (1, True)


# ---------------------------------------------------------------- show, library


def test_a_schema_is_shown_with_kinds_constraints_and_leaves(run):
    _, out, _ = run("show", PHONES_SCHEMA)
    assert "Phones  17 properties" in out
    assert re.search(r"^weight +quantity +in g, oz \(28.3495\), turned into g, from$", out, re.MULTILINE)
    assert re.search(r"^launch +date +from 1983 to 2100, required$", out, re.MULTILINE)
    assert ".year number, .month number, .day number" in out
    assert re.search(r"^size.unit +category +ignored$", out, re.MULTILINE)


def test_show_as_json_has_what_the_file_says_and_every_leaf(run):
    found = json.loads(run("show", PHONES_SCHEMA, "--json")[1])
    assert found["schema"]["classes"][""]["properties"]["brand"] == "category"
    leaves = found["leaves"][""]
    assert (leaves["launch.month"], leaves["weight.value"], leaves["networks"]) == ("number", "number", "set")
    assert "size.unit" not in leaves  # ignored


@for_each("kind", [*(row.example for row in KINDS.values()), *(row.example for row in COMPOSITES.values())])
def test_every_kind_has_a_name_and_says_what_holds_of_it(kind):
    assert kind_name(kind).split()[0] in {*KINDS, *COMPOSITES}
    assert "<" not in property_text(Property(kind)).replace(" < ", "")  # no repr of an object


def test_the_library_lists_every_schema(run):
    assert set(json.loads(run("library", "--json")[1])) == set(library.names())
    _, out, _ = run("library")
    assert re.search(r"^phone +Phones \(GSMArena\) +Phone$", out, re.MULTILINE)


# ---------------------------------------------------------------- check


def test_what_fits_is_said_so_and_the_status_is_0(run):
    status, out, err = run("check", PHONES_SCHEMA, PHONES)
    assert (status, err) == (0, "")
    assert out == f"{PHONES}  63 entities against {PHONES_SCHEMA}: all values fit\n"


def test_what_does_not_fit_is_told_with_its_line_and_the_status_is_1(run, wrong):
    status, out, err = run("check", PHONES_SCHEMA, wrong)
    assert (status, err) == (1, "")
    assert "63 entities against" in out
    assert "1 misfit\n" in out
    assert f"launch  expected a month from 1 to 12  1\n    {wrong}:9  nokia-3310: got 13\n" in out
    assert re.search(r"^brnad +\d+ +brand$", out, re.MULTILINE)


def test_paths_that_only_one_side_knows_are_findings_on_request_alone(run, tmp_path):
    (tmp_path / "kb.jsonl").write_text(Path(PHONES).read_text().replace('"os"', '"system"'))
    status, out, _ = run("check", PHONES_SCHEMA, tmp_path / "kb.jsonl")
    assert status == 0
    assert "only in the schema\nos\n" in out
    assert "only in the source  entities\nsystem " in out
    assert run("check", PHONES_SCHEMA, tmp_path / "kb.jsonl", "--strict")[0] == 1
    assert run("check", PHONES_SCHEMA, PHONES, "--strict")[0] == 0


def test_a_path_of_the_schema_that_looks_misspelt_is_a_finding(run, tmp_path):
    (tmp_path / "s.yaml").write_text(Path(PHONES_SCHEMA).read_text().replace("battery:", "battry:"))
    status, out, _ = run("check", tmp_path / "s.yaml", PHONES)
    assert status == 1
    assert "1 path looks misspelt" in out
    assert re.search(r"^battry +battery$", out, re.MULTILINE)


def test_check_as_json_has_its_documented_keys(run, wrong):
    status, out, _ = run("check", PHONES_SCHEMA, wrong, "--json")
    found = json.loads(out)
    assert status == 1
    assert set(found) == {
        "schema", "source", "format", "entities", "classes", "strange", "misfits", "unknown", "absent", "skipped", "fits",
    }  # fmt: skip
    assert found["fits"] is False
    (misfit,) = found["misfits"]
    assert misfit == {
        "of": "",
        "path": "launch",
        "problem": "expected a month from 1 to 12",
        "count": 1,
        "examples": [{"id": "nokia-3310", "place": f"{wrong}:9", "problem": "expected a month from 1 to 12, got 13"}],
    }


def test_classes_that_the_schema_does_not_know_are_told(run):
    status, out, _ = run("check", "element", ELEMENTS)
    assert status == 0
    assert "class that the schema does not know  entities\n(no class)                                  3\n" in out


def test_long_lists_of_findings_are_cut_and_say_so(run, tmp_path):
    (tmp_path / "wide.jsonl").write_text(json.dumps({"name": "x", "launch": 1999, **{f"p{n}": n for n in range(50)}}))
    _, out, _ = run("check", PHONES_SCHEMA, tmp_path / "wide.jsonl")
    assert "and 30 more paths: --all shows them, --json has them" in out
    assert "p49" not in out
    assert "p49" in run("check", PHONES_SCHEMA, tmp_path / "wide.jsonl", "--all")[1]


def test_what_is_skipped_is_named_and_the_status_is_1(run, tmp_path):
    (tmp_path / "kb.jsonl").write_text('{"name": "a", "launch": 1999}\n{"n": \n')
    status, out, _ = run("check", PHONES_SCHEMA, tmp_path / "kb.jsonl", "--skip-errors")
    assert (status, "skipped  " in out) == (1, True)


@pytest.mark.slow
def test_a_schema_can_come_by_standard_input():
    shell = f"{' '.join(KBDISK)} schema infer {PHONES} | {' '.join(KBDISK)} schema check - {PHONES} --strict"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "against the schema: all values fit" in done.stdout
    done = subprocess.run([*KBDISK, "schema", "show", "-"], input="kbdisk: 2\n", capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: <stdin>:1: ")


# ---------------------------------------------------------------- import, export, format

SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix : <http://ex.org/> .
:CityShape a sh:NodeShape ; sh:targetClass :City ;
    sh:property [ sh:path :population ; sh:datatype xsd:integer ; sh:minInclusive 0 ; sh:maxCount 1 ] ,
                [ sh:path :name ; sh:datatype xsd:string ; sh:pattern "^[A-Z]" ; sh:sparql :Query ; sh:minCount 1 ; sh:maxCount 1 ] .
"""
JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "City",
    "type": "object",
    "properties": {"population": {"type": "integer", "minimum": 0}, "name": {"type": "string", "pattern": "^[A-Z]"}},
    "required": ["name"],
}


@for_each(
    ("name", "text"),
    [("shapes.ttl", SHAPES), ("city.json", json.dumps(JSON_SCHEMA)), ("city.txt", json.dumps(JSON_SCHEMA))],
)
def test_a_schema_of_another_language_is_told_by_its_content_and_what_is_left_out_is_said(name, text, run, tmp_path):
    (tmp_path / name).write_text(text)
    status, out, err = run("import", tmp_path / name)
    assert status == 0
    city = _of_yaml(out)["classes"]["City"]["properties"]
    assert (city["population"]["kind"], city["population"]["integer"], city["population"]["min"]) == ("number", True, 0)
    assert city["name"]["required"] is True
    assert err.startswith("left out: ")
    assert "pattern" in err or "left out: City.name: sh:sparql is not checked\n" in err
    assert run("import", tmp_path / name, "-q")[1:] == (out, "")


def test_linkml_is_told_by_its_content_too(run, tmp_path):
    pytest.importorskip("linkml_runtime")
    text = "id: http://ex.org/city\nname: city\nimports: [linkml:types]\nprefixes: {linkml: https://w3id.org/linkml/}\n"
    classes = "classes:\n  City:\n    attributes:\n      population: {range: integer, minimum_value: 0}\n"
    (tmp_path / "model.yaml").write_text(text + classes)
    status, out, _ = run("import", tmp_path / "model.yaml")
    assert status == 0
    assert _of_yaml(out)["classes"]["City"]["properties"]["population"]["min"] == 0


def test_from_overrules_what_the_content_says(run, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(JSON_SCHEMA))
    status, _, err = run("import", tmp_path / "a.json", "--from", "shacl")
    assert (status, err[:7]) == (2, "error: ")


def test_an_exported_schema_is_a_json_schema_of_the_data(run):
    exported = json.loads(run("export", PHONES_SCHEMA)[1])
    assert exported["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"brand", "launch", "weight", "size", "os"} <= set(exported["properties"])
    assert exported["properties"]["size"]["properties"].keys() >= {"height", "width", "depth"}


def test_the_format_is_a_json_schema_for_editors(run):
    found = json.loads(run("format")[1])
    assert found["$schema"].startswith("https://json-schema.org/")
    assert {"kbdisk", "classes", "prefixes", "missing"} <= set(found["properties"])


def test_data_in_the_place_of_a_schema_are_told_to_be_none(run):
    status, _, err = run("check", PHONES, PHONES_SCHEMA)
    assert (status, "A schema is a YAML file, and stands before SOURCE." in err) == (2, True)


def test_an_empty_file_is_no_schema_to_import(run, tmp_path):
    (tmp_path / "empty.json").write_text("\n")
    status, _, err = run("import", tmp_path / "empty.json")
    assert (status, "expected a schema, got an empty file." in err) == (2, True)


def test_a_row_that_has_no_id_is_named_once(run, tmp_path):
    (tmp_path / "x.csv").write_text("model,launch.month\na,1\nb,13\n")
    out = run("check", "phone", tmp_path / "x.csv")[1]
    assert out.count("x.csv, row 2: got 13") == 1  # rows are numbered from 1


def test_help_has_no_gaps_of_several_lines(run):
    for command in COMMANDS:
        lines = [line.strip() for line in run(command, "--help")[1].splitlines()]
        assert not any(lines[n : n + 3] == ["", "", ""] for n in range(len(lines))), command


def test_what_is_exported_is_imported_as_it_was(run, tmp_path):
    file = tmp_path / "phone.schema.json"
    file.write_text(run("export", PHONES_SCHEMA)[1])
    status, out, err = run("import", file)
    assert (status, err) == (0, "")
    assert Schema.read(out) == Schema.read(PHONES_SCHEMA)
