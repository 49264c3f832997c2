"""JSON as programs write it: NaN and Infinity, entities deep inside a document, JSON Lines under the other name."""

from __future__ import annotations

import io
import json
import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kbdisk
from kbdisk.entity import Completion, Filled
from kbdisk.errors import KBDiskWarning, LoadError

ODD = b"""[
  {"id": "a", "x": NaN, "y": {"z": [1, -Infinity, "NaN"]}},
  {"id": "b", "x": Infinity, "y": {"z": [2]}}
]
"""
NESTED = b"""{"meta": {"pages": 1, "note": "items"},
 "data": {"total": 3, "items": [
   {"id": "a", "x": 1},
   {"id": "b", "x": null} , {"id": "c"}
 ], "more": false},
 "end": {"x": 1} }
"""


def read(data, **options) -> tuple[list, list[str]]:
    """The entities, and the warnings of reading them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KBDiskWarning)
        found = list(kbdisk.load(data, **options))
    return found, [str(one.message) for one in caught]


@pytest.fixture
def filled(tmp_path):
    """Write a file, fill values into entities by id and path, and return the bytes that come out."""

    def fill(name: str, data: bytes, values: dict, **options) -> bytes:
        (tmp_path / name).write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KBDiskWarning)
            kb = kbdisk.load(tmp_path / name, **options)
            new = [
                Completion(entity, {path: Filled(values[entity.id, path])})
                for entity in kb
                for id, path in values
                if id == entity.id
            ]
            kbdisk.write(new or kb, tmp_path / f"out-{name}")
        return (tmp_path / f"out-{name}").read_bytes()

    return fill  # fmt: skip


# ---------------------------------------------------------------- NaN


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_nan_and_infinity_are_gaps_with_one_warning_that_counts_them(format):
    data = ODD if format == "json" else b"".join(ODD.strip(b"[]\n").split(b"\n")).replace(b"},  {", b"}\n{")
    (a, b), told = read(data, format=format)
    assert (a.tree["x"], a.tree["y"], b.tree["x"]) == (None, {"z": [1, None, "NaN"]}, None)
    assert list(a.asked()) == [("x",), ("y", "z", 1)]
    assert [one.partition(": ")[2] for one in told] == ["NaN or Infinity, which JSON does not have: a gap (3 in all)"]


def test_nan_that_is_filled_gives_way_and_all_other_stays_as_it_stood(filled):
    assert filled("a.json", ODD, {}) == ODD
    assert filled("b.json", ODD, {("a", ("x",)): 5, ("b", ("x",)): 7}) == ODD.replace(b"NaN,", b"5,").replace(
        b" Infinity", b" 7"
    )
    assert filled("c.json", ODD, {("a", ("y", "z", 1)): 3}) == ODD.replace(b"-Infinity", b"3")


def test_nan_is_null_in_another_format(filled, tmp_path):
    filled("a.json", ODD, {})
    with pytest.warns(KBDiskWarning, match="NaN"):
        kbdisk.write(list(kbdisk.load(tmp_path / "a.json")), tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text().splitlines()[0])["x"] is None


data = st.recursive(
    st.none() | st.floats() | st.text("NaN-Infity \\\"{}", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\"\\N", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text("abc", min_size=1), data, min_size=1, max_size=4))
def test_whatever_python_writes_is_read_with_gaps_for_what_is_not_finite(tree):
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    text = json.dumps(tree).encode()
    for format in ("json", "jsonl"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KBDiskWarning)
            kb = kbdisk.load(b"[%b]" % text if format == "json" else text, format=format)
            [entity] = kb
            out = io.BytesIO()
            kb.splice([], out)
        assert entity.tree == plain(tree)
        assert out.getvalue() in (text, b"[%b]" % text)


def test_nan_is_no_new_value(tmp_path, run):
    (tmp_path / "a.json").write_bytes(ODD)
    (tmp_path / "new.jsonl").write_text('{"id": "a", "path": "x", "value": NaN}\n')
    status, _, errors = run(
        "write", tmp_path / "a.json", "--values", tmp_path / "new.jsonl", "--out", tmp_path / "b.json"
    )
    assert status == 2
    assert "new.jsonl:1: expected a value, got none. Leave the line out." in errors
    assert not (tmp_path / "b.json").exists()


# ---------------------------------------------------------------- entities within


def test_entities_stand_where_items_says():
    found, told = read(NESTED, format="json", items="data.items")
    assert [(one.id, one.position, one.tree.get("x")) for one in found] == [("a", 1, 1), ("b", 2, None), ("c", 3, None)]
    assert told == []


def test_values_are_filled_within_and_every_other_byte_stays(filled):
    assert filled("a.json", NESTED, {}, items="data.items") == NESTED
    expected = NESTED.replace(b"null", b"5").replace(b'{"id": "c"}', b'{"id": "c", "x": 6}')
    assert filled("b.json", NESTED, {("b", ("x",)): 5, ("c", ("x",)): 6}, items="data.items") == expected


def test_items_may_be_an_object_of_objects_or_one():
    assert [one.id for one in read(b'{"a": {"b": {"p": {}, "q": {}}}}', format="json", items="a.b")[0]] == ["p", "q"]
    assert [one.tree for one in read(b'{"a": {"b": {"p": 1}}}', format="json", items="a.b")[0]] == [{"p": 1}]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ("data.rows", "expected a key 'rows' at data, got none. Mend --items"),
        ("data.more", "expected JSON objects at data.more, got true or false"),
        ("data.total.x", "expected an object at data.total, got none"),
        ("nothing", "expected a key 'nothing' at its top, got none"),
        ("data[0]", "--items: expected keys of objects such as data.items, got data[0]."),
    ],
)
def test_a_path_without_entities_is_refused_in_one_line(items, problem, tmp_path, run):
    (tmp_path / "a.json").write_bytes(NESTED)
    status, out, errors = run("inspect", tmp_path / "a.json", "--items", items)
    assert (status, out, errors.count("\n")) == (2, "", 1)
    assert problem in errors


def test_a_list_deep_inside_is_proposed():
    items = [{"id": n} for n in range(500)]
    found, told = read(json.dumps({"meta": {"n": 1}, "data": {"items": items}}).encode(), format="json")
    assert len(found) == 2
    assert told == ["<memory>: 2 entities; data.items holds 500 objects: say --items data.items"]
    assert read(json.dumps({"data": {"items": items}}).encode(), format="json")[1] == [
        "<memory>: 1 entity; data.items holds 500 objects: say --items data.items"
    ]


# ---------------------------------------------------------------- the other name


LINES = b'\xef\xbb\xbf{"id": "a", "x": null}\n\n{"id": "b", "x": NaN}\n'


def test_lines_under_the_name_of_a_document_are_read_and_written_as_lines(filled):
    assert filled("a.json", LINES, {}) == LINES
    assert filled("b.json", LINES, {("a", ("x",)): 1, ("b", ("x",)): 2}) == LINES.replace(b"null", b"1").replace(
        b"NaN", b"2"
    )


def test_a_list_under_the_name_of_lines_is_read_and_written_as_a_list(filled):
    assert filled("a.jsonl", ODD, {}) == ODD
    assert filled("b.jsonl", ODD, {("b", ("x",)): 2}) == ODD.replace(b" Infinity", b" 2")


@pytest.mark.parametrize(
    "text", [b'{"a": 1}\n', b'{\n"a": {"b": 1}\n}\n', b'{"a": 1}\n]', b"{\n{", b'{"a": \n{"b": 1}}']
)
def test_what_is_no_lines_stays_a_document(text, tmp_path):
    (tmp_path / "a.json").write_bytes(text)
    assert kbdisk.load(tmp_path / "a.json").format == "json"


def test_a_format_that_is_said_is_not_guessed(tmp_path):
    (tmp_path / "a.json").write_bytes(LINES)
    with pytest.raises(LoadError, match="expected the end of the file"):
        list(kbdisk.load(tmp_path / "a.json", format="json"))
