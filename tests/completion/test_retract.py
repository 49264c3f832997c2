"""A file that was completed and retracted is what it was, to the byte; what a person changed since stays."""

from __future__ import annotations

import bz2
import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from completed import complete, rows
from hypothesis import given as examples
from hypothesis import strategies as st

import kbdisk
from kbdisk.completion.retract import Retractable, retract, retractable
from kbdisk.entity import Date, Link, Quantity, read_path, show, walk
from kbdisk.errors import ConfigError, LoadError

pytestmark = pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def taken_back(target: str, *only: str) -> Retractable:
    """Retract a file, and tell what was found in it."""
    found = retractable(kbdisk.load(target), [read_path(path) for path in only])
    assert not retract(found)
    return found


# ---------------------------------------------------------------- JSON

SCALARS = st.one_of(st.none(), st.integers(-9, 99), st.text('ab€"\\', max_size=3), st.booleans(), st.just(""))
KEYS = st.sampled_from(["a", "b", "c d", "é", "x.y"])
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
    ),
    max_size=4,
)
LAYOUTS = [
    {},
    {"indent": 2},
    {"indent": "\t", "ensure_ascii": False},
    {"separators": (",", ":")},
    {"separators": (" , ", " : ")},
]


@st.composite
def filled_trees(draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tree, and values for some of its gaps, its empty parts, and places that it does not have."""
    tree = draw(TREES)
    gaps = [path for path, value in walk(tree) if value is None or value == ""]
    holders: list[tuple] = [(), *(path[:length] for path, _ in walk(tree) for length in range(1, len(path)))]
    gaps += [(*path, key) for path in holders for key in ("new", "newer")]
    gaps += [(*path, "part", key) for path in holders for key in ("x", "y")]
    gaps += [("list", 0, "x"), ("list", 2, "x"), ("far", "within", "it")]
    empty = [path for path in _containers(tree) if path]
    gaps += [(*path, "first") for path in empty]
    chosen = draw(st.lists(st.sampled_from(gaps), max_size=5, unique=True))
    return tree, {show(path): draw(st.sampled_from([7, "text", 1.5, True])) for path in chosen}


def _containers(value: Any, path: tuple = ()) -> Iterator[tuple]:
    if isinstance(value, dict):
        if not value:
            yield path
        for key, inner in value.items():
            yield from _containers(inner, (*path, key))


def written(trees: list[dict[str, Any]], format: str, layout: dict[str, Any]) -> str:
    named = [{"id": f"e{n}", **tree} for n, tree in enumerate(trees)]
    if format == "json":
        return json.dumps(named, **layout) + "\n"
    layout = {key: value for key, value in layout.items() if key != "indent"}
    return "".join(json.dumps(one, **layout) + "\n" for one in named)


@examples(
    st.lists(filled_trees(), min_size=1, max_size=3), st.sampled_from(["json", "jsonl"]), st.sampled_from(LAYOUTS)
)
def test_json_comes_back_as_it_was_in_any_layout(several, format, layout):
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/kb.{format}", f"{folder}/done.{format}"
        Path(source).write_text(written([tree for tree, _ in several], format, layout))
        values = {f"e{n}": filled for n, (_, filled) in enumerate(several)}
        report = complete(source, target, values)
        if report.written:
            assert len(taken_back(target).fillings) <= report.written
        assert Path(target).read_bytes() == Path(source).read_bytes()
        assert not rows(target)


@examples(filled_trees(), filled_trees(), st.sampled_from(LAYOUTS))
def test_json_completed_in_place_twice_comes_back_as_it_was(first, second, layout):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kb.json")
        before = written([first[0]], "json", layout).encode()
        file.write_bytes(before)
        written_in_all = 0
        for values in (first[1], second[1]):
            written_in_all += complete(str(file), str(file), {"e0": values}, in_place=True).written
        if written_in_all:
            taken_back(str(file))
        assert file.read_bytes() == before


@examples(filled_trees(), st.sampled_from(LAYOUTS), st.data())
def test_json_loses_a_property_at_a_time_and_then_is_what_it_was(filled, layout, data):
    tree, values = filled
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/kb.json", f"{folder}/done.json"
        Path(source).write_text(written([tree], "json", layout))
        complete(source, target, {"e0": values})
        while left := rows(target):
            path = data.draw(st.sampled_from([row["path"] for row in left]))
            taken_back(target, path)
            assert len(rows(target)) < len(left)
            json.loads(Path(target).read_bytes())
        assert kbdisk.load(target)["e0"].tree == kbdisk.load(source)["e0"].tree


@pytest.mark.parametrize(
    "text", [' {"id": "e0"}\n', '{"id":"e0","specs":{ } ,"l":[ ]}', '{"id": "e0", "specs": {"a": NaN}}\n']
)
def test_odd_gaps_of_json_come_back_as_they_were(text):
    Path("kb.jsonl").write_text(text)
    complete("kb.jsonl", "done.jsonl", {"e0": {"specs.a": 1.5, "specs.b": 2, "l[1]": 3}})
    taken_back("done.jsonl")
    assert Path("done.jsonl").read_text() == text


def test_what_a_person_changed_or_added_since_stays_and_is_named():
    Path("kb.jsonl").write_text('{"id": "a", "x": null, "y": null}\n{"id": "b"}\n')
    complete("kb.jsonl", "kb.jsonl", {"a": {"x": 1, "y": 2}, "b": {"part.z": 3}}, in_place=True)
    text = Path("kb.jsonl").read_text()
    Path("kb.jsonl").write_text(text.replace('"x": 1', '"x": 10').replace('"z": 3', '"z": 3, "mine": 4'))
    found = taken_back("kb.jsonl")
    assert [(one.id, one.value, one.now) for one in found.changed] == [("a", 1, 10)]
    assert Path("kb.jsonl").read_text() == '{"id": "a", "x": 10, "y": null}\n{"id": "b", "part": {"mine": 4}}\n'
    assert not rows("kb.jsonl")


def test_a_part_that_was_given_stays_where_a_person_took_out_what_it_had():
    Path("kb.jsonl").write_text('{"id": "a", "part": {"given": 1}}\n')
    complete("kb.jsonl", "kb.jsonl", {"a": {"part.x": 5}}, in_place=True)
    Path("kb.jsonl").write_text(Path("kb.jsonl").read_text().replace('"given": 1, ', ""))
    taken_back("kb.jsonl")
    assert Path("kb.jsonl").read_text() == '{"id": "a", "part": {}}\n'


def test_rows_of_an_older_kbdisk_leave_a_null_and_keep_what_may_be_half_given():
    Path("kb.jsonl").write_text('{"id": "a", "x": 1, "weight": {"value": 5, "unit": "g"}}\n')
    old = [{"id": "a", "path": "x", "value": 1}, {"id": "a", "path": "weight", "value": {"value": 5, "unit": "g"}}]
    Path("kb.jsonl.provenance.jsonl").write_text("".join(json.dumps(row) + "\n" for row in old))
    [(id, path, why)] = retract(retractable(kbdisk.load("kb.jsonl")))
    assert (id, path, why) == ("a", ("weight",), "an older kbdisk did not note what stood there")
    assert Path("kb.jsonl").read_text() == '{"id": "a", "x": null, "weight": {"value": 5, "unit": "g"}}\n'
    assert [row["path"] for row in rows("kb.jsonl")] == ["weight"]


# ---------------------------------------------------------------- tables

CELLS = st.sampled_from(["", '""', "NA", "7", "1.50", " ", "two words", '"a, b"', "null"])


@examples(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.data(),
)
def test_tables_come_back_as_they_were_with_their_quotes_and_line_ends(cells, delimiter, end, mark, data):
    text = end.join(
        delimiter.join(row) for row in [("id", "a", "b", "c.unit"), *((f"e{n}", *row) for n, row in enumerate(cells))]
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kb.tsv" if delimiter == "\t" else "kb.csv")
        before = b"\xef\xbb\xbf" * mark + text.encode() + end.encode() * data.draw(st.booleans())
        file.write_bytes(before)
        places = st.sampled_from([(f"e{n}", path) for n in range(len(cells)) for path in ("a", "b", "c.unit")])
        values: dict[str, dict[str, Any]] = {}
        for id, path in data.draw(st.lists(places, unique=True)):
            values.setdefault(id, {})[path] = data.draw(st.sampled_from([5, 2.5, "word", 'in "quotes", and more']))
        written = complete(str(file), str(file), values, in_place=True).written
        if written:
            found = taken_back(str(file))
            assert len(found.fillings) == written
        assert file.read_bytes() == before


def test_an_amount_in_two_cells_leaves_the_unit_that_was_given():
    before = "id,weight.value,weight.unit\na,,g\nb,5,kg\nc,NA,\n"
    Path("kb.csv").write_text(before)
    complete("kb.csv", "done.csv", {"a": {"weight": Quantity(3, "g")}, "c": {"weight": Quantity(4, "kg")}})
    assert Path("done.csv").read_text() == "id,weight.value,weight.unit\na,3,g\nb,5,kg\nc,4,kg\n"
    taken_back("done.csv")
    assert Path("done.csv").read_text() == before


def test_parquet_says_again_what_it_said():
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    table = pa.table(
        {
            "id": ["x", "y", "z"],
            "n": pa.array([1, None, None], pa.int32()),
            "t": ["NA", None, "word"],
            "s": pa.array([None, {"a": 1, "b": None}, None], inner),
        }
    )
    pq.write_table(table, "kb.parquet")
    values = {
        "x": {"t": "text", "s.a": 5, "s.b": "new"},
        "y": {"n": 3, "t": "more", "s.b": "b"},
        "z": {"n": 4, "s.a": 6},
    }
    assert complete("kb.parquet", "done.parquet", values).written == 7
    assert not pq.read_table("done.parquet").equals(table)
    taken_back("done.parquet", "n")
    taken_back("done.parquet")
    assert pq.read_table("done.parquet").equals(table)


# ---------------------------------------------------------------- RDF

HEAD = """@prefix : <http://ex.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:z :size 1 ; :mass 2 ; :born "1990"^^xsd:gYear ; :to :y ; :part [ :x 1 ; :y 2 ; :new 3 ; :newer 4 ] .
"""
NUMBERS = st.integers(0, 99)
E = "http://ex.org/"


@examples(
    st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.sampled_from(["size", "mass"]), NUMBERS, min_size=1)),
    st.sampled_from(["ttl", "nt", "nq", "trig"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(["", ".gz", ".bz2"]),
)
def test_documents_of_rdf_come_back_as_they_were_stored(values, suffix, end, ended, compressed):
    number = '"5"^^<http://www.w3.org/2001/XMLSchema#integer> .'
    lines = [f'<{E}{id}> <{E}name> "{id}" .' for id in "abcd"]
    lines += [f"<{E}e> <{E}{name}> {number}" for name in ("size", "mass")]
    before = (end.join(lines) + end * ended).encode()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"kb.{suffix}{compressed}")
        stored = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[compressed](before)
        file.write_bytes(stored)
        written = complete(str(file), str(file), {E + id: one for id, one in values.items()}, in_place=True).written
        if written:
            assert len(taken_back(str(file)).fillings) == written
        assert file.read_bytes() == stored


BRACKETS = [
    ":a :part [ :x 1 ] .",
    ":a :part [ :x 1\n] .",
    ":a :part [\n  :x 1 ;\n  :in [ ]\n  ] ; :y 2 .\n",
    ":a :part [\r\n\t:x 1\r\n\t] .\r\n",
    ":a :part [:x 1;] .",
    ":a :part [ :x 1 ], [\n   :x 2\n] .",
]


@pytest.mark.parametrize("text", BRACKETS)
def test_brackets_that_took_values_come_back_as_they_were(text):
    Path("kb.ttl").write_bytes((HEAD + text).encode())
    values = {E + "a": dict.fromkeys(("part.new", "part.newer", "size"), 7)}
    if "]," in text:
        values = {E + "a": {"part[0].new": 7, "part[1].newer": 8}}
    written = complete("kb.ttl", "kb.ttl", values, in_place=True, insert=True).written
    assert written == len(values[E + "a"])
    completed = Path("kb.ttl").read_bytes()
    assert len(taken_back("kb.ttl", "part.new" if "]," not in text else "part[0].new").fillings) == 1
    assert kbdisk.load("kb.ttl").is_completed
    Path("kb.ttl").write_bytes(completed)
    Path("kb.ttl.provenance.jsonl").unlink()
    assert len(taken_back("kb.ttl").fillings) == written
    assert Path("kb.ttl").read_bytes() == (HEAD + text).encode()


def test_two_completions_of_a_document_without_a_last_line_end_come_back():
    Path("kb.ttl").write_text(f"{HEAD}:a :n 1 . :b :n 2 .")
    before = Path("kb.ttl").read_bytes()
    for name in ("size", "mass"):
        complete("kb.ttl", "kb.ttl", {E + "a": {name: 5}}, in_place=True)
    assert len(taken_back("kb.ttl").fillings) == 2
    assert Path("kb.ttl").read_bytes() == before


def test_some_properties_go_from_a_block_and_the_others_stay():
    Path("kb.ttl").write_text(f"{HEAD}:a :n 1 . :b :n 2 .\n")
    filled = {"size": 5, "born": Date(1990), "part.x": 1, "part.y": 2, "to": Link(E + "b")}
    complete("kb.ttl", "done.ttl", {E + "a": filled, E + "b": {"size": 6}})
    assert len(taken_back("done.ttl", "size").fillings) == 2
    assert len(taken_back("done.ttl", "part.x").fillings) == 1
    left = {show(path): one for path, one in kbdisk.load("done.ttl")[E + "a"].made.items()}
    assert left == {"born": Date(1990), "part.y": 2, "to": Link(E + "b")}
    assert {row["path"] for row in rows("done.ttl")} == left.keys()
    taken_back("done.ttl")
    assert Path("done.ttl").read_bytes() == Path("kb.ttl").read_bytes()


def test_a_number_that_a_person_corrected_in_a_block_stays_there():
    Path("kb.ttl").write_text(f"{HEAD}:a :n 1 . :b :n 2 .\n")
    complete("kb.ttl", "done.ttl", {E + "a": {"size": 5, "mass": 6}, E + "b": {"size": 7}})
    text = Path("done.ttl").read_text()
    assert text.count(" 5 ") == 1
    Path("done.ttl").write_text(text.replace(" 5 ", " 5.50 "))
    found = taken_back("done.ttl")
    assert [(one.value, one.now) for one in found.changed] == [(5, 5.5)]
    after = Path("done.ttl").read_text()
    assert ":size 5.50" in after
    assert (after.count(":size"), after.count(":mass")) == (2, 1)
    assert not rows("done.ttl")


def test_a_value_moved_out_of_a_block_is_given_and_stays():
    Path("kb.ttl").write_text(f"{HEAD}:a :n 1 .\n")
    complete("kb.ttl", "done.ttl", {E + "a": {"size": 5, "mass": 6}})
    Path("done.ttl").write_text(f"{HEAD}:a :n 1 .\n:a :size 5 .\n# kbdisk: begin\n:a :mass 6 .\n# kbdisk: end\n")
    taken_back("done.ttl")
    assert Path("done.ttl").read_text() == f"{HEAD}:a :n 1 .\n:a :size 5 .\n"


def test_a_block_without_an_end_is_refused_and_nothing_changed():
    text = f"{HEAD}:a :n 1 .\n# kbdisk: begin\n:a :size 5 .\n:b :n 2 .\n"
    line = text[: text.index("# kbdisk")].count("\n") + 1
    Path("kb.ttl").write_text(text)
    with pytest.warns(), pytest.raises(LoadError, match=rf'^kb\.ttl:{line}: expected the line "# kbdisk: end"'):
        retract(retractable(kbdisk.load("kb.ttl")))
    assert Path("kb.ttl").read_text() == text


AT_ONCE = {
    "jsonld": json.dumps(
        [
            {"@id": E + "a", E + "n": 1, E + "m": {"@value": "x"}},
            {"@id": E + "b", E + "n": 2},
            {"@id": E + "c", E + "s": "s", E + "t": "t"},
        ],
        indent=1,
    ),
    "rdf": f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="{E}" xmlns:e="{E}">
  <rdf:Description rdf:about="{E}a">
    <n>ä</n>
  </rdf:Description>
  <rdf:Description rdf:about="{E}b" e:n="2"  />
  <rdf:Description rdf:about="{E}c" e:s="s" e:t="t"/>
</rdf:RDF>
""",
}


@pytest.mark.parametrize("suffix", AT_ONCE)
def test_json_ld_and_rdf_xml_come_back_after_one_completion_or_two(suffix):
    file = Path(f"kb.{suffix}")
    before = AT_ONCE[suffix].encode()
    file.write_bytes(before)
    assert complete(str(file), "done." + suffix, {E + "a": {"s": "text"}, E + "b": {"s": "more"}}).written == 2
    taken_back("done." + suffix)
    assert Path("done." + suffix).read_bytes() == before
    complete(str(file), str(file), {E + "a": {"s": "text"}, E + "b": {"s": "more"}}, in_place=True)
    complete(str(file), str(file), {E + "a": {"t": "text"}}, in_place=True)
    with pytest.raises(ConfigError, match="gives all values back at once"):
        retractable(kbdisk.load(str(file)), [("s",)])
    assert len(taken_back(str(file)).fillings) == 3
    assert file.read_bytes() == before


@pytest.mark.parametrize("suffix", AT_ONCE)
def test_json_ld_and_rdf_xml_that_a_person_edited_are_left_alone(suffix):
    Path(f"kb.{suffix}").write_text(AT_ONCE[suffix])
    complete(f"kb.{suffix}", f"done.{suffix}", {E + "a": {"s": "text"}})
    edited = Path(f"done.{suffix}").read_text().replace("text", "other text")
    Path(f"done.{suffix}").write_text(edited)
    with pytest.raises(LoadError, match="expected the text that kbdisk complete wrote"):
        retract(retractable(kbdisk.load(f"done.{suffix}")))
    assert Path(f"done.{suffix}").read_text() == edited
    assert rows(f"done.{suffix}")


# ---------------------------------------------------------------- the command


def test_the_command_lists_takes_out_and_says_what_it_did(run):
    Path("kb.csv").write_text("id,x,y\na,,1\nb,2,\n")
    complete("kb.csv", "done.csv", {"a": {"x": 5}, "b": {"y": 6}})
    status, out, err = run("retract", "done.csv", "--dry-run")
    assert (status, out) == (0, "a  x  5\nb  y  6\n")
    assert err == "nothing was changed: 2 values of done.csv would be taken out\n"
    assert run("retract", "done.csv", "--only", "x") == (0, "", "took 1 value out of done.csv\n")
    status, out, _ = run("retract", "done.csv", "--json")
    assert (status, json.loads(out)["values"]) == (0, [{"id": "b", "path": "y", "value": 6}])
    assert Path("done.csv").read_bytes() == Path("kb.csv").read_bytes()
    assert not Path("done.csv.provenance.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["kb.csv"], "error: kb.csv: expected a block of kbdisk, or kb.csv.provenance.jsonl beside it, got neither"),
        (["no.csv"], "error: no.csv: expected a file, got none of this name."),
        (["-"], "error: -: expected a file, got standard input."),
        (["done.csv", "--only", "z"], "error: --only: expected properties that kbdisk filled in (x), got z."),
    ],
)
def test_a_call_that_makes_no_sense_gets_one_line_and_changes_nothing(run, arguments, told):
    Path("kb.csv").write_text("id,x\na,\nb,2\n")
    complete("kb.csv", "done.csv", {"a": {"x": 5}})
    before = Path("done.csv").read_bytes()
    status, out, err = run("retract", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(told)
    assert Path("done.csv").read_bytes() == before


# ---------------------------------------------------------------- files of another format, links


@pytest.mark.parametrize("target", ["done.json", "done.csv", "done.jsonl"])
def test_a_file_that_was_written_anew_says_again_what_was_given(target):
    Path("kb.csv").write_text("id,x,part.y,part.z\na,,1,\nb,2,,\nc,3,,4\n")
    complete("kb.csv", target, {"a": {"x": 5, "part.z": 6}, "b": {"part.y": 7, "new": 8}, "c": {"part.y": 9}})
    taken_back(target)
    kbdisk.write(kbdisk.load("kb.csv"), "anew.jsonl")
    left = {id: [pair for pair in one.properties() if pair[0][0] != "id"] for id, one in entities(target).items()}
    assert left == {
        id: [pair for pair in one.properties() if pair[0][0] != "id"] for id, one in entities("anew.jsonl").items()
    }
    assert not rows(target)


def entities(file: str) -> dict[str, Any]:
    return {entity.id: entity for entity in kbdisk.load(file)}


def test_what_was_written_into_another_format_of_rdf_has_no_block_and_stays(run):
    Path("kb.csv").write_text("id,x\na,\nb,2\n")
    complete("kb.csv", "done.ttl", {"a": {"x": 5}})
    before = Path("done.ttl").read_bytes()
    status, _, err = run("retract", "done.ttl")
    assert (status, Path("done.ttl").read_bytes()) == (1, before)
    assert "stays: a x stands outside of the blocks of kbdisk" in err


def test_a_link_stays_a_link_and_the_file_behind_it_is_what_it_was():
    Path("kb.csv").write_text("id,x\na,\nb,2\n")
    complete("kb.csv", "real.csv", {"a": {"x": 5}})
    Path("link.csv").symlink_to("real.csv")
    taken_back("link.csv")
    assert Path("link.csv").is_symlink()
    assert Path("real.csv").read_bytes() == Path("kb.csv").read_bytes()
    assert not Path("real.csv.provenance.jsonl").exists()


def test_only_the_entities_of_a_class_give_their_values_back(run):
    Path("kb.ttl").write_text(f"{HEAD}:a a :A ; :n 1 . :b a :B ; :n 2 .\n")
    complete("kb.ttl", "done.ttl", {E + "a": {"size": 5}, E + "b": {"size": 6}})
    assert run("retract", "done.ttl", "--class", "A") == (0, "", "took 1 value out of done.ttl\n")
    assert [(row["id"], row["value"]) for row in rows("done.ttl")] == [(E + "b", 6)]
    status, _, err = run("retract", "done.ttl", "--class", "C")
    assert (status, err.count("\n")) == (2, 1)
    assert run("retract", "done.ttl", "--class", "B")[0] == 0
    assert Path("done.ttl").read_bytes() == Path("kb.ttl").read_bytes()


@pytest.mark.parametrize("options", [[], ["--id", "sku"]])
def test_values_are_found_by_the_id_that_was_named_when_they_were_filled_in(run, options):
    Path("kb.csv").write_text("sku,x\nA1,5\nA2,2\n")
    row = {"id": "A1", "id_path": "sku", "path": "x", "value": 5, "was": {"x": "NA"}}
    Path("kb.csv.provenance.jsonl").write_text(json.dumps(row) + "\n")
    assert run("retract", "kb.csv", *options) == (0, "", "took 1 value out of kb.csv\n")
    assert Path("kb.csv").read_text() == "sku,x\nA1,NA\nA2,2\n"
