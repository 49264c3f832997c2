"""Cells that a spreadsheet runs as formulas: kept where they are given, never filled in by a model."""

from __future__ import annotations

import pytest

import kbdisk
from kbdisk.cli.sample import without_formulas
from kbdisk.entity import Completion, Entity, Filled, Text
from kbdisk.errors import KBDiskWarning
from kbdisk.loaders.values.formulas import start_of

RUN = [
    "=1+1",
    "+A1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r1",
    "\n=1",
    "=",
    "-1 SUM(A1)",
    "-1A1",
    "-1!A",
    "+49-30",
    "-0043-03-15",
]
RUN += ["-5/2", "-5\n", "-5 x|y", "-A", "\uff1d1", '=HYPERLINK("http://e/?"&A1)', "+1*2"]
PLAIN = [
    "-5",
    "+5",
    "-0043",
    "-.5",
    "-,5",
    "-1,234.50",
    "-1'000",
    "+1.5e3",
    "-1E-5",
    "-5%",
    "-5 %",
    "-$5",
    "-5 kg",
    "-7 km/h",
]
PLAIN += ["-5 °C", "-5 m²", "-12.5, 13.4", "-12.5, -13.4", "+49 30 123", "a=1", " =1", "", "x@y"]

TABLE = b"id,name,note,tel\na,x,,\nb,=y,n,+49-1\nc,,-5,\n"
WARNED = "cells that a spreadsheet would run as formulas, kept as they are given: {}$"
REASON = "begins as a formula does, and no given cell of its column does: a spreadsheet would run it"


def filled(kb, values, confidence):
    return [
        Completion(one, {path: Filled(value, confidence) for path, value in values[one.id].items()})
        for one in kb
        if one.id in values
    ]


def test_what_a_spreadsheet_runs_is_told_from_numbers_and_amounts():
    assert [text for text in RUN if start_of(text) != text[0]] == []
    assert [text for text in PLAIN if start_of(text)] == []


@pytest.mark.parametrize("start", list("=+-@\t\r\n"))
def test_a_model_fills_no_cell_that_a_spreadsheet_would_run(start, tmp_path):
    kb = kbdisk.load(TABLE, format="csv")
    text = f"{start}A1+1"
    report = kbdisk.write(filled(kb, {"a": {("note",): text}, "c": {("tel",): "123"}}, 0.9), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == TABLE.replace(b"-5,\n", b"-5,123\n")
    assert report.written == 1
    assert [(id, path) for id, path, _ in report.unwritable] == [("a", ("note",))]
    assert report.unwritable[0][2] == f"{text!r} {REASON}"


def test_a_column_whose_given_cells_begin_so_may_be_filled_so_by_the_same_character(tmp_path):
    kb = kbdisk.load(TABLE, format="csv")
    values = {"a": {("tel",): "+49-2"}, "c": {("name",): "=z", ("tel",): "=z"}}
    report = kbdisk.write(filled(kb, values, 0.9), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == TABLE.replace(b"a,x,,", b"a,x,,+49-2").replace(b"c,,", b"c,=z,")
    assert [(id, path) for id, path, _ in report.unwritable] == [("c", ("tel",))]


def test_plain_numbers_are_filled_in_whatever_their_sign(tmp_path):
    kb = kbdisk.load(b"id,x,t\na,1.5,u\nb,,\n", format="csv")
    report = kbdisk.write(filled(kb, {"b": {("x",): -2.5, ("t",): "-5 kg"}}, 0.9), tmp_path / "out.csv")
    assert report.unwritable == []
    assert (tmp_path / "out.csv").read_bytes() == b"id,x,t\na,1.5,u\nb,-2.5,-5 kg\n"


def test_what_a_person_tells_is_written_and_warned_of(run, tmp_path):
    (tmp_path / "x.csv").write_bytes(TABLE)
    (tmp_path / "values.jsonl").write_text('{"id": "a", "path": "note", "value": "=1+1"}\n')
    status, _, err = run(
        "write", tmp_path / "x.csv", "--values", tmp_path / "values.jsonl", "--out", tmp_path / "y.csv"
    )
    assert status == 0
    assert "cells that a spreadsheet would run as formulas, kept as they are given: 1" in " ".join(err.split())
    assert (tmp_path / "y.csv").read_bytes() == TABLE.replace(b"a,x,,", b"a,x,=1+1,")


JSON = b"""{"id": "a", "=h": 1, "n": {"@value": "=x", "@language": "en"}, "m": "-5"}
{"id": "b", "l": ["+a", "b"]}
"""


@pytest.mark.parametrize(("name", "cut"), [("z.csv", ","), ("z.tsv", "\t")])
def test_another_format_becomes_a_table_with_its_values_and_headers_and_a_warning(name, cut, tmp_path):
    with pytest.warns(KBDiskWarning, match=WARNED.format(3)):
        kbdisk.write(kbdisk.load(JSON, format="jsonl"), tmp_path / name)
    rows = [["id", "=h", "n@en", "m", "l[0]", "l[1]"], ["a", "1", "=x", "-5", "", ""], ["b", "", "", "", "+a", "b"]]
    assert (tmp_path / name).read_text() == "".join(cut.join(row) + "\n" for row in rows)


def test_what_a_model_filled_before_it_becomes_a_table_is_left_out_by_column(tmp_path):
    kb = kbdisk.load(JSON, format="jsonl")
    values = {"a": {("l",): ["+c", "=d"]}, "b": {("n",): Text("=q", "en"), ("m",): "-1+2"}}
    with pytest.warns(KBDiskWarning, match=WARNED.format(3)):
        report = kbdisk.write(filled(kb, values, 0.9), tmp_path / "z.csv")
    assert (tmp_path / "z.csv").read_text() == "id,=h,n@en,m,l[0],l[1]\na,1,=x,-5,+c,\nb,,=q,,+a,b\n"
    assert sorted((id, path) for id, path, _ in report.unwritable) == [("a", ("l",)), ("b", ("m",))]
    assert report.written == 1, "a list that is written in part is reported"


def test_a_table_of_what_is_new_alone_has_no_given_cells(tmp_path):
    kb = kbdisk.load(TABLE, format="csv")
    report = kbdisk.write(filled(kb, {"c": {("name",): "=z", ("tel",): "1"}}, 0.9), tmp_path / "new.csv", only_new=True)
    assert (report.written, [path for _, path, _ in report.unwritable]) == (1, [("name",)])
    assert "=z" not in (tmp_path / "new.csv").read_text()


def test_made_up_texts_that_a_spreadsheet_would_run_are_not_drawn_into_a_table():
    drawn = [Entity("new-1", {"note": "=1", "label": "=1", "part": {"texts": ["-1+1", "b"]}, "said": Text("@x", "en")})]
    with pytest.warns(KBDiskWarning, match="left out: 3$"):
        [entity] = without_formulas(drawn, {("note",), ("part", "texts"), ("said",)})
    assert entity.tree == {"note": None, "label": "=1", "part": {"texts": [None, "b"]}, "said": None}
