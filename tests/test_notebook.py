"""Public objects show themselves in a line and, in a notebook, as a table; for that nothing large or remote is read."""

from __future__ import annotations

import importlib
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from models import EXAMPLES, calibrated
from tables import for_each

import kbdisk
from kbdisk import notebook
from kbdisk.api.model import Model
from kbdisk.loaders import kb as kb_module
from kbdisk.loaders.kb import Options
from kbdisk.loaders.sparql import load_endpoint

PHONES = str(EXAMPLES / "phones.jsonl")
HOSTILE = "<script>alert('&')</script>"


class Table(HTMLParser):
    """The cells of a table by rows, and the tags of the whole text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.open_tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open_tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag

    def handle_data(self, data):
        if self.open_tags[-1] in ("th", "td"):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def model(tiny_model) -> Model:
    return Model(calibrated(tiny_model))


# ---------------------------------------------------------------- the public names


def test_the_package_lists_what_is_public_and_nothing_else():
    assert dir(kbdisk) == [
        "Completed", "Completion", "Coordinate", "Date", "Entity", "Filled", "KB", "KBDiskError", "KBDiskWarning", "Link",
        "Model", "NOVALUE", "Quantity", "Run", "SOMEVALUE", "Schema", "Text", "complete", "complete_shards", "infer", "load",
        "locked", "open", "train", "write",
    ]  # fmt: skip
    assert all(hasattr(kbdisk, name) for name in dir(kbdisk))
    assert sorted(kbdisk.__all__) == dir(kbdisk)


@for_each("name", ["completion", "evaluation", "extend", "loaders", "schemas", "sklearn"])
def test_public_modules_can_be_imported(name):
    assert importlib.import_module(f"kbdisk.{name}").__doc__


# ---------------------------------------------------------------- tables


def test_a_table_escapes_all_of_its_text():
    table = Table(notebook.html_table(HOSTILE, [HOSTILE, ">n"], [[HOSTILE, 1]], HOSTILE))
    assert table.rows == [[HOSTILE, "n"], [HOSTILE, "1"]]
    assert "script" not in table.tags
    assert not table.open_tags


def test_a_long_table_ends_with_the_number_of_rows_that_it_leaves_out():
    html = notebook.html_table("many", ["n"], [[n] for n in range(notebook.MAX_ROWS_SHOWN + 7)])
    assert len(Table(html).rows) == 1 + notebook.MAX_ROWS_SHOWN
    assert "and 7 more" in html


# ---------------------------------------------------------------- knowledge bases


def test_a_knowledge_base_says_its_name_and_format_without_being_read(tmp_path):
    file = tmp_path / "kb.jsonl"
    file.write_text('{"id": 1}\n{"id": 2}\n')
    kb = kbdisk.load(file)
    assert repr(kb) == f"<KB {file}: jsonl>"
    assert len(kb) == 2
    file.unlink()
    assert repr(kb) == f"<KB {file}: jsonl, 2 entities>"


def test_a_knowledge_base_shows_its_classes_with_their_entities_and_properties():
    kb = kbdisk.load(
        [{"@type": "City", "name": "A", "area": 3}, {"@type": "City", "size": 1}, {"@type": "Lake", "name": "B"}]
    )
    assert Table(kb._repr_html_()).rows[1:] == [["City", "2", "3", "name, area, size"], ["Lake", "1", "1", "name"]]


def test_names_of_a_source_are_escaped():
    kb = kbdisk.load([{"@type": HOSTILE, HOSTILE: 1}])
    assert Table(kb._repr_html_()).rows[1] == [HOSTILE, "1", "1", HOSTILE]


def test_showing_a_knowledge_base_keeps_the_errors_of_its_latest_reading(tmp_path):
    file = tmp_path / "kb.jsonl"
    file.write_text('{"id": 1}\nnot json\n')
    kb = kbdisk.load(file, skip_errors=True)
    list(kb)
    before = list(map(str, kb.skipped))
    assert len(before) == 1
    assert Table(kb._repr_html_()).rows[1][1] == "1"
    assert list(map(str, kb.skipped)) == before


def test_a_knowledge_base_that_is_malformed_shows_the_error(tmp_path):
    file = tmp_path / "kb.jsonl"
    file.write_text('{"id": 1}\n<b>\n')
    html = kbdisk.load(file)._repr_html_()
    assert "kb.jsonl:2: expected a value" in html
    assert Table(html).tags == {"div"}


def test_a_large_file_is_not_read_to_be_shown(monkeypatch):
    monkeypatch.setattr(kb_module, "MAX_BYTES_SHOWN", 10)
    kb = kbdisk.load(PHONES)
    monkeypatch.setattr(kb, "read", None)
    assert "too large or remote" in kb._repr_html_()


def test_an_endpoint_is_not_asked_to_be_shown():
    kb = load_endpoint("http://127.0.0.1:1/sparql", Options())
    assert repr(kb) == "<KB http://127.0.0.1:1/sparql: sparql>"
    assert "too large or remote" in kb._repr_html_()


def test_a_graph_in_memory_is_shown_and_one_in_another_store_is_not_read():
    rdflib = pytest.importorskip("rdflib")
    graph = rdflib.Graph().parse(str(EXAMPLES / "elements.ttl"))
    assert "Element" in kbdisk.load(graph)._repr_html_()
    remote = rdflib.Graph(store="SPARQLStore")
    assert not kbdisk.load(remote).is_quickly_read


# ---------------------------------------------------------------- schemas and models


def test_a_schema_shows_its_properties_by_class():
    schema = kbdisk.Schema.read(EXAMPLES / "phones.yaml")
    assert repr(schema) == "<Schema: one class with 17 properties>"
    rows = Table(schema._repr_html_()).rows
    assert rows[0] == ["class", "property", "kind", "role"]
    assert ["", "networks", "set of category", "value"] in rows


def test_an_inferred_schema_shows_the_reason_for_each_property():
    inference = kbdisk.infer(PHONES)
    assert repr(inference) == f"<Inference of {repr(inference.schema)[1:-1]}>"
    rows = {row[1]: row for row in Table(inference._repr_html_()).rows}
    assert rows["weight"][2] == "quantity"
    assert all(row[3] for row in rows.values())


def test_a_model_shows_the_error_of_each_property_beside_the_constants(model):
    quality = {
        "class": "",
        "path": "weight.value",
        "kind": "number",
        "known": 50,
        "n": 12,
        "metric": "MAE",
        "unit": "g",
    }
    quality |= {"constant": 55.25, "ours": 43.5, "better": 0.21}
    measured = Model(replace(model.trained, record=replace(model.record, quality=[quality])))
    assert Table(measured._repr_html_()).rows == [
        ["property", "kind", "trained on", "n", "metric", "constant", "ours", "better"],
        ["weight.value", "number", "50", "12", "MAE g", "55.25", "43.5", "21 %"],
    ]
    assert "\n" not in repr(model)


def test_a_model_without_held_out_values_says_so(model):
    unmeasured = Model(replace(model.trained, record=replace(model.record, quality=[])))
    assert "nothing was held out" in unmeasured._repr_html_()


# ---------------------------------------------------------------- completions


@pytest.fixture
def completed(model) -> kbdisk.Completed:
    return kbdisk.complete(PHONES, model=model, fill="all")


def test_a_completed_source_shows_the_summary_of_its_decisions(completed):
    assert repr(completed) == f"<Completed {PHONES}: {completed.predictions.count} gaps predicted>"
    rows = Table(completed._repr_html_()).rows
    of_gaps = [row for row in completed.summary.to_json()["properties"] if row["missing"]]
    assert [row[1] for row in rows[1:]] == [row["path"] for row in of_gaps]
    assert sum(int(row[3]) for row in rows[1:]) == completed.summary.filled
    assert repr(completed).endswith(f", {completed.summary.filled} filled>")


def test_a_completed_source_with_many_predictions_is_not_decided_on_to_be_shown(completed, monkeypatch):
    monkeypatch.setattr("kbdisk.api.complete.MAX_DECIDED_TO_SHOW", 0)
    assert ".summary decides" in completed._repr_html_()
    assert "filled" not in repr(completed)


def test_a_completion_shows_its_values_with_their_confidence(completed):
    completion = next(iter(completed))
    assert repr(completion).startswith("<Completion of 'motorola-dynatac-8000x': ")
    rows = Table(completion._repr_html_()).rows
    assert [row[0] for row in rows[1:]] == [".".join(map(str, path)) for path in completion.filled]
    assert repr(kbdisk.Completion(completion.entity)).endswith(": nothing filled>")


def test_each_stage_is_one_line(completed):
    for stage in completed.plan, completed.predictions, completed.summary, completed.source.model.schema:
        assert repr(stage).startswith(f"<{type(stage).__name__}: ")
        assert "\n" not in repr(stage)
