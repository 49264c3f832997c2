"""JSON Lines: read fast, read exactly, written back to the byte."""

from __future__ import annotations

import gzip
import io
import json
import re
from decimal import Decimal
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import trees
from tables import for_each

import kbdisk
from kbdisk.entity import Completion, Date, Entity, Filled, Link, Quantity
from kbdisk.errors import KBDiskWarning, LoadError, WriteError
from kbdisk.loaders import Source
from kbdisk.loaders.json.read import BLOCK_SIZE, write

FIXTURES = Path(__file__).parent / "fixtures"
PLAIN = b'{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n'


def read(data, **options):
    return list(kbdisk.load(data, format="jsonl", **options))


def spliced(kb, *completions):
    out = io.BytesIO()
    report = kb.splice(list(completions), out)
    return out.getvalue(), report


def filled(entity, values):
    return Completion(entity, {path: Filled(value) for path, value in values.items()})


def padded(line, before=200, after=200):
    """The line in the midst of so many plain ones that it shares its block with many."""
    plain = [b'{"p": %d}' % i for i in range(before + after)]
    return b"\n".join([*plain[:before], line, *plain[before:]]) + b"\n"


# ---------------------------------------------------------------- reading


def test_a_line_is_an_entity_with_id_label_tree_and_position():
    with pytest.warns(KBDiskWarning, match="'maker' stands twice"):
        entities = list(kbdisk.load(FIXTURES / "phones.jsonl"))
    assert [(e.id, e.label, e.position) for e in entities] == [
        ("3310", "Nokia 3310", 1),
        ("3210", "Nokia 3210", 2),
        ("iphone", "iPhone", 4),
        ("xs", "Galaxy XS – größer", 5),
    ]
    assert entities[0].tree["launch"] == {"year": 2000, "month": 9}
    assert list(entities[1].asked()) == [("launch", "month")]
    assert entities[2].tree["serial"] == 123456789012345678901234567890
    assert entities[2].tree["maker"] == "Apple Inc."


def test_byte_order_mark_carriage_returns_and_a_missing_last_newline_are_read():
    assert [e.id for e in kbdisk.load(FIXTURES / "windows.jsonl")] == ["1", "2", "3"]


def test_it_is_read_again_and_again_and_compressed():
    kb = kbdisk.load(gzip.compress(PLAIN), format="jsonl")
    assert [e.id for e in kb] == [e.id for e in kb] == ["a", "b"]
    assert len(kb) == 2
    assert kb["b"].tree["n"] == 2


@for_each(
    ("first", "id"),
    [
        (b'{"@id": "x", "id": "y"}', "x"),
        (b'{"id": 7, "_id": "y"}', "7"),
        (b'{"_id": "y"}', "y"),
        (b'{"id": {"a": 1}, "_id": "y"}', "y"),
        (b'{"id": null}', "1"),
        (b'{"id": true}', "1"),
        (b'{"n": 5}', "1"),
    ],
)
def test_the_id_is_the_first_of_the_usual_keys_or_the_line(first, id):
    assert read(first)[0].id == id


def test_the_first_line_settles_where_ids_stand():
    data = b'{"_id": "x"}\n{"id": 5, "_id": "y"}\n{"@id": "z", "_id": "w"}\n'
    assert [e.id for e in read(data)] == ["x", "y", "z"]


def test_a_line_without_the_id_that_others_have_is_called_by_its_number_with_a_warning():
    with pytest.warns(KBDiskWarning, match="<memory>:2: an entity without an id"):
        assert [e.id for e in read(b'{"id": "a"}\n{"n": 1}\n')] == ["a", "2"]


def test_without_ids_lines_are_called_by_their_numbers_blank_ones_not_counted():
    assert [e.id for e in read(b'{"a": 1}\n\n{"a": 2}\n' + b'{"a": 3}\n' * 2000)][:3] == ["1", "2", "3"]


def test_an_id_may_be_a_number_of_any_length():
    kb = kbdisk.load(b'{"id": %s, "n": 1}' % (b"9" * 5000), format="jsonl")
    assert next(iter(kb)).id == "9" * 5000
    assert kbdisk.infer(kb).schema.classes[""].id == ("id",)


def test_ids_stand_where_one_says():
    data = b'{"meta": {"key": 5}, "id": "no"}\n'
    assert read(data, id="meta.key")[0].id == "5"
    with pytest.raises(LoadError, match=r"<memory>:1: expected an id at meta.nokey, got nothing"):
        read(data, id="meta.nokey")
    with pytest.raises(LoadError, match=r"expected an id at meta, got \{'key': 5\}"):
        read(data, id="meta")


def test_the_label_is_the_first_of_name_label_title_that_is_a_string():
    data = b'{"name": {"x": 1}, "label": "L", "title": "T"}\n{"title": "T"}\n{"name": "N", "label": "L"}\n{}\n'
    assert [e.label for e in read(data)] == ["L", "T", "N", ""]


def test_classes_are_read_and_choose():
    data = b'{"@id": "a", "@type": "Dog"}\n{"@id": "b", "@type": ["Cat", "Pet"]}\n{"@id": "c"}\n'
    assert [e.classes for e in read(data)] == [("Dog",), ("Cat", "Pet"), ()]
    assert [e.id for e in read(data, classes=["Pet"])] == ["b"]
    assert read(PLAIN, classes=["Pet"]) == []


LINES = [  # a line that needs care, and what it says
    (b'{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    (b'{"n": -9223372036854775809}', {"n": -9223372036854775809}),
    (b'{"n": 18446744073709551615}', {"n": 18446744073709551615}),
    (b'{"n": 18446744073709551616}', {"n": 18446744073709551616}),
    (b'{"n": 0.1000000000000000055}', {"n": Decimal("0.1000000000000000055")}),
    (b'{"n": 0.10000000000000001}', {"n": Decimal("0.10000000000000001")}),
    (b'{"n": 12345678.901234567890}', {"n": Decimal("12345678.901234567890")}),
    (b'{"n": 1234567890.1234567890123E5}', {"n": Decimal("1234567890.1234567890123E5")}),
    (b'{"n": 1e400, "m": -1E-400}', {"n": Decimal("1E+400"), "m": Decimal("-1E-400")}),
    (b'{"n": 0.8444218515250481}', {"n": 0.8444218515250481}),
    (b'{"n": 1.50, "m": 1E3, "o": -0.0}', {"n": 1.5, "m": 1000.0, "o": -0.0}),
    (b'{"n": "123456789012345678901234567890.5"}', {"n": "123456789012345678901234567890.5"}),
    (b'{"d": {"@date": "1912"}, "e": "a@b"}', {"d": Date(1912), "e": "a@b"}),
    (b'{"d": {"\\u0040id": "x"}}', {"d": Link("x")}),
    (b'{"a": "\\u00e9 \\ud83d\\ude00 \\\\ud800"}', {"a": "é 😀 \\ud800"}),
    (b'{"a\\u003a": 1}', {"a:": 1}),
    (b'{"a": ' + b"[" * 199 + b"]" * 199 + b"}", None),
    (b'\t{"a" : 1 }  \r', {"a": 1}),
]


@for_each(("line", "tree"), LINES, ids=lambda value: str(value)[:30])
def test_whatever_a_line_says_is_read_exactly_among_plain_lines(line, tree):
    entities = read(padded(line))
    assert len(entities) == 401
    assert tree is None or repr(entities[200].tree) == repr(tree)
    assert entities[400].position == 401


@for_each("line", [b'{"a":1,"b":{"c":2,"c":3}}', b'{"b":{"c":1,"\\u0063":3},"a":":\\u003a"}'])
def test_a_key_that_stands_twice_is_noted_and_the_last_counts(line):
    kb = kbdisk.load(padded(line), format="jsonl")
    with pytest.warns(KBDiskWarning, match="<memory>:201: the key 'c' stands twice in an object; the last one counts"):
        entities = list(kb)
    assert entities[200].tree["b"] == {"c": 3}
    assert list(kb.odd.counts.values()) == [1]


WRONG = [  # a line, what is said of it
    (b'{"a": nan}', "expected a number, got 'nan'. Write null for a missing value"),
    (b'{"a": [-inf]}', "expected a number, got '-inf'. Write null"),
    (b'{"a": "NaN", "b": -NaN}', "expected a number, got '-NaN'"),
    (b'{"a": 1,}', "expected a key in double quotes, got '}'"),
    (b'{"a" 1}', "expected a colon after the key, got '1'"),
    (b'{"a": 1 "b": 2}', "expected a comma or the closing bracket, got '\"b\"'"),
    (b"{'a': 1}", 'expected a key in double quotes, got "\'"'),
    (b'{"a": tru}', "expected a value, got 'tru'"),
    (b'{"a": 01}', "expected a comma or the closing bracket, got '1'"),
    (b'{"a": "x\ty"}', "expected no raw control character in a string"),
    (b'{"a": "\\x"}', "expected an escape such as"),
    (b'{"a": "\\u12"}', "expected four hexadecimal digits after"),
    (b'{"a": 1} x', "expected the end of the object, got 'x'"),
    (b'{"a": 1}{"b": 2}', "expected the end of the object, got '{'"),
    (b'{"a": 1},{"b": [{}\n{}]}', "expected the end of the object, got ','"),
    (b'{"a": "\\ud800"}', r"expected a whole character, got one half of a surrogate pair, \ud800"),
    (b'{"a": "\\udc00x", "b": 1e999}', r"expected a whole character, got one half of a surrogate pair, \udc00"),
    (b'{"\\ud800": 1}', "expected a whole character"),
    (b'{"a": "\xff"}', "expected UTF-8, got the byte 0xff"),
    (b'{"a": "\xed\xa0\x80"}', "expected UTF-8, got the byte 0xed"),
    (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "expected at most 200 levels of brackets"),
    (b"[" * 100_000, "expected at most 200 levels of brackets"),
    (b'{"a":' * 100_000, "expected at most 200 levels of brackets"),
    (b"[1, 2]", "expected a JSON object, got a list. If the file is one JSON document, say format='json'"),
    (b"[", "expected a JSON object, got '['. If the file is one JSON document, say format='json'"),
    (b"{", "expected a JSON object, got one that does not end in its line"),
    (b"3", "expected a JSON object, got a number"),
    (b'"x"', "expected a JSON object, got a string"),
    (b"null", "expected a JSON object, got null"),
    (b"true", "expected a JSON object, got true or false"),
    (b'{"n": 1e99999999999999999999}', "expected a number with an exponent of at most 18 digits"),
    (b'\xef\xbb\xbf{"a": 1}', "expected valid JSON, got '\\ufeff'"),
]


@for_each(("line", "problem"), WRONG, ids=lambda value: str(value)[:30])
def test_what_is_wrong_is_said_in_one_line_with_its_place_and_skipped_on_request(line, problem):
    data = padded(line, before=100)
    with pytest.raises(LoadError) as caught:
        read(data)
    assert str(caught.value).startswith(f"<memory>:101: {problem}")
    assert len(str(caught.value)) < 200
    kb = kbdisk.load(data, format="jsonl", skip_errors=True)
    assert [e.tree["p"] for e in kb] == list(range(300))
    assert {error.line for error in kb.skipped} <= {101, 102}


@for_each("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_named(encoding):
    name = encoding[:6].upper()
    with pytest.raises(LoadError, match=f"expected UTF-8, got {name}. Convert it: iconv -f {name} -t UTF-8"):
        read('{"a": 1}\n'.encode(encoding))


def test_blank_lines_alone_are_no_entities():
    with pytest.raises(LoadError, match="blank lines: there is no entity"):
        read(b"\n \n")


def test_a_line_longer_than_any_block_is_read():
    line = orjson.dumps({"id": "long", "text": "x" * (5 * BLOCK_SIZE), "list": list(range(BLOCK_SIZE))})
    assert [e.id for e in read(PLAIN + line + b"\n" + PLAIN)] == ["a", "b", "long", "a", "b"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
plain_lines = st.lists(st.dictionaries(st.text("abc:n", max_size=3), json_values, max_size=4), min_size=1, max_size=8)


@given(
    plain_lines.filter(lambda lines: "Infinity" not in json.dumps(lines) and '"@' not in json.dumps(lines)),
    st.booleans(),
)
def test_lines_say_what_the_standard_library_reads_in_them(lines, ascii):
    data = "\n".join(json.dumps(line, ensure_ascii=ascii) for line in lines).encode("utf-8", "surrogatepass")
    if re.search(r"\\ud[89a-f]", repr(lines)):  # half of a surrogate pair
        with pytest.raises(LoadError):
            read(data)
    else:
        assert repr([e.tree for e in read(data)]) == repr([json.loads(line) for line in data.decode().split("\n")])


# ---------------------------------------------------------------- writing back


@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
@for_each("name", ["phones.jsonl", "windows.jsonl"])
def test_with_nothing_filled_the_bytes_are_the_same(name, tmp_path):
    target = tmp_path / name
    kbdisk.write(kbdisk.load(FIXTURES / name), target)
    assert target.read_bytes() == (FIXTURES / name).read_bytes()


@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_values_are_spliced_in_where_they_belong_and_nothing_else_changes():
    kb = kbdisk.load(FIXTURES / "phones.jsonl")
    first, second, third, fourth = kb
    out, report = spliced(
        kb,
        filled(first, {("price",): Quantity(129, "EUR"), ("released",): Date(2000, 9, 1), ("colors", 2): "red"}),
        filled(second, {("launch", "month"): 3, ("colors", 0): "red"}),
        filled(third, {("maker",): "Nokia", ("launch", "year"): 2007}),
        filled(fourth, {("released",): Date(2018, 9, 21), ("launch", "year"): 2018, ("launch", "month"): 9}),
    )
    expected = (FIXTURES / "phones.jsonl").read_bytes()
    for old, new in [
        (
            b'"grey"], "price": null',
            b'"grey", "red"], "price": {"value": 129, "unit": "EUR"}, "released": "2000-09-01"',
        ),
        (b'"month": null}, "colors": []', b'"month": 3}, "colors": ["red"]'),
        (b'"maker": "Apple Inc."', b'"maker": "Apple Inc.", "launch": {"year": 2007}'),
        (
            b'"released" : null , "launch" : { }',
            b'"released" : "2018-09-21" , "launch" : {"year" : 2018 , "month" : 9 }',
        ),
    ]:
        assert old in expected
        expected = expected.replace(old, new)
    assert out == expected
    assert report.written == 9
    assert report.unwritable == [("iphone", ("maker",), "has a value already")]


def test_byte_order_mark_and_carriage_returns_stay_and_a_numeral_is_a_string_where_others_are():
    kb = kbdisk.load(FIXTURES / "windows.jsonl")
    out, _ = spliced(kb, *(filled(e, {("seen",): 1902}) for e in kb if e.position > 1))
    original = (FIXTURES / "windows.jsonl").read_bytes()
    assert out == original.replace(b"null", b'"1902"').replace(b'{"id":3}', b'{"id":3,"seen":"1902"}')


def test_written_twice_nothing_changes(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(PLAIN)
    kb = kbdisk.load(tmp_path / "a.jsonl")
    kbdisk.write([filled(next(iter(kb)), {("m",): 3})], tmp_path / "b.jsonl")
    kbdisk.write(kbdisk.load(tmp_path / "b.jsonl"), tmp_path / "c.jsonl")
    assert (
        (tmp_path / "b.jsonl").read_bytes()
        == (tmp_path / "c.jsonl").read_bytes()
        == PLAIN.replace(b"1}", b'1, "m": 3}')
    )


def test_completions_are_never_gathered():
    kb = kbdisk.load(PLAIN * 1000, format="jsonl")
    out = io.BytesIO()
    seen = []

    def completions():
        for entity in kb:
            seen.append(out.tell())
            yield filled(entity, {("m",): 1})

    assert kb.splice(completions(), out).written == 2000
    assert seen[1000] > 10_000  # much was written before all were made
    assert out.getvalue().count(b'"m": 1') == 2000


def test_completions_out_of_order_are_refused_with_the_way_out():
    kb = kbdisk.load(PLAIN, format="jsonl")
    first, second = kb
    with pytest.raises(WriteError, match=r"in the order of the source\. Pass a list"):
        kb.splice(iter([filled(second, {("m",): 1}), filled(first, {("m",): 1})]), io.BytesIO())


def test_a_completion_from_another_source_is_told_of():
    kb = kbdisk.load(PLAIN, format="jsonl")
    other = next(iter(kbdisk.load(Source(PLAIN, "other").read(), format="jsonl")))
    other.source.name = "other"
    out, report = spliced(kb, filled(other, {("m",): 1}))
    assert out == PLAIN
    assert report.unwritable == [("a", ("m",), "was read from another source")]


# ---------------------------------------------------------------- writing anew


def anew(items, only_new=False):
    out = io.BytesIO()
    report = write(items, out, "jsonl", only_new)
    return out.getvalue(), report


@given(st.lists(trees(), min_size=1, max_size=4))
def test_any_tree_survives_json_lines(several):
    entities = [Entity(f"e{i}", tree, ("Thing",) * i) for i, tree in enumerate(several)]
    again = read(anew(entities)[0])
    assert [(e.id, e.classes) for e in again] == [(e.id, e.classes) for e in entities]
    for one, other in zip(again, entities, strict=True):
        properties = {key: value for key, value in one.tree.items() if not key.startswith("@")}
        assert repr(properties) == repr(other.tree)


def test_an_id_that_the_tree_holds_is_not_written_again():
    assert anew(kbdisk.load(PLAIN, format="jsonl"))[0] == PLAIN.replace(b" ", b"")


def test_ids_and_classes_that_the_trees_do_not_hold_are_added():
    entities = [Entity("a", {"id": "a"}), Entity("b", {"id": "c"}), Entity("d", {}, ("X", "Y"))]
    out, _ = anew(entities)
    assert out == b'{"id":"a"}\n{"@id":"b","id":"c"}\n{"@id":"d","@type":["X","Y"]}\n'
    assert [(e.id, e.classes) for e in read(out)] == [("a", ()), ("b", ()), ("d", ("X", "Y"))]


def test_only_new_values_are_written_where_there_are_any():
    first, second = kbdisk.load(PLAIN, format="jsonl")
    out, report = anew([filled(first, {("launch", "year"): 2000}), filled(second, {}), second], only_new=True)
    assert out == b'{"@id":"a","launch":{"year":2000}}\n'
    assert report.written == 1


@for_each("value", [float("nan"), "\ud800", Decimal("Infinity")])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(WriteError, match=r"^e: "):
        anew([Entity("e", {"a": value})])
