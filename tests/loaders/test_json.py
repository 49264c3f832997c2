"""JSON documents: what is an entity in them, every fault in one line, new values in the manner of the text."""

from __future__ import annotations

import io
import itertools
import json
import tracemalloc
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import trees
from tables import for_each

import kbdisk
from kbdisk.entity import Completion, Coordinate, Date, Entity, Filled, Link, Quantity, Text, walk, with_values
from kbdisk.errors import KBDiskError, KBDiskWarning, LoadError
from kbdisk.loaders.json import text as json_text
from kbdisk.loaders.json.read import write

FIXTURES = Path(__file__).parent / "fixtures"
REAL = ["countries.json", "nobel_laureates.json", "nobel_prizes.json"]


def load(data, **options):
    return kbdisk.load(data, format="json", **options)


def filled(entity, values):
    return Completion(entity, {path: Filled(value) for path, value in values.items()})


def spliced(data, *values, **options):
    """The bytes with values filled into the first entities, and the report."""
    kb = load(data, **options)
    out = io.BytesIO()
    report = kb.splice([filled(e, some) for e, some in zip(kb, values, strict=False) if some], out)
    return out.getvalue(), report


# ---------------------------------------------------------------- what is an entity


@for_each(
    ("text", "ids"),
    [
        ('[{"a": 1}, {"a": 2}]', ["1", "2"]),
        ('[{"id": "x"}, {"id": "y"}]', ["x", "y"]),
        ('{"results": [{"id": "x"}, {"id": "y"}]}', ["x", "y"]),
        ('{"results": [{"id": "x"}]}', ["x"]),
        ('{"Q1": {"a": 1}, "Q2": {}}', ["Q1", "Q2"]),
        ('{"Q1": {"a": 1}}', ["1"]),
        ('{"Q1": {"a": 1}, "Q2": 5}', ["1"]),
        ('{"results": [{"id": "x"}], "count": 1}', ["1"]),
        ('{"results": [{"id": "x"}, 1]}', ["1"]),
        ('{"results": []}', ["1"]),
        ('{"results": [1, 2]}', ["1"]),
        ('{"id": 5, "a": [{"b": 1}]}', ["5"]),
        ("{}", ["1"]),
        ('\ufeff [ { } ] \r\n', ["1"]),
    ],
)  # fmt: skip
def test_objects_in_a_list_under_one_key_by_their_keys_or_alone_are_entities(text, ids):
    assert [entity.id for entity in load(text.encode())] == ids


def test_an_id_at_a_told_path_counts_more_than_the_key():
    assert [e.id for e in load(b'{"a": {"n": 1}, "b": {"n": 2}}', id="n")] == ["1", "2"]


def test_positions_count_entities_and_all_is_read_again():
    kb = load(b'[{"a": 1}, {"a": 2}, {"a": 3}]')
    assert [e.position for e in kb] == [e.position for e in kb] == [1, 2, 3]
    assert all(e.source is kb for e in kb)


def test_numbers_are_exact():
    (entity,) = load(
        b'{"a": 123456789012345678901234567890, "b": 0.10000000000000000001, "c": 1.50, "d": 1E3, "e": 1e400}'
    )
    assert repr(entity.tree) == repr(
        {
            "a": 123456789012345678901234567890,
            "b": Decimal("0.10000000000000000001"),
            "c": 1.5,
            "d": 1000.0,
            "e": Decimal("1E400"),
        }
    )


def test_a_key_that_stands_twice_is_noted_and_the_last_counts():
    with pytest.warns(KBDiskWarning, match=r"<memory>:3: the key 'a' stands twice"):
        assert [e.tree for e in load(b'[\n{"a": 1},\n{"a": 1, "a": 2}\n]')] == [{"a": 1}, {"a": 2}]
    kb = load(b'{"Q1": {"a": 1},\n"Q1": {"a": 2}, "Q2": {}}')
    with pytest.warns(KBDiskWarning, match=r"<memory>:1: a key stands twice in the object of entities"):
        assert [(e.id, e.tree) for e in kb] == [("Q1", {"a": 2}), ("Q2", {})]


@for_each("size", [1, 2, 3, 7, 64])
def test_wherever_the_file_is_cut_into_chunks_the_same_is_read(size, monkeypatch):
    text = '[\n {"a": "ü\\"}{][", "b": [1.5, {"c": "\\\\"}]}, {"é": true} , {"n": 12345}\n]\n'.encode()
    monkeypatch.setattr(json_text, "CHUNK", size)
    kb = load(text)
    assert [e.tree for e in kb] == json.loads(text)
    assert b"".join(piece.before + piece.text for piece in kb.pieces()) == text
    assert [piece.line for piece in kb.pieces()][:3] == [2, 2, 2]


@pytest.mark.slow
def test_a_long_list_takes_no_more_memory_than_a_short_one(tmp_path):
    file = tmp_path / "long.json"
    row = json.dumps({"name": "x" * 100, "list": list(range(50))})
    file.write_text("[" + ",\n".join(itertools.repeat(row, 40_000)) + "]")
    tracemalloc.start()
    assert len(kbdisk.load(file)) == 40_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert file.stat().st_size > 10_000_000
    assert peak < 4_000_000


# ---------------------------------------------------------------- what is wrong

WRONG = [
    (b"[]", "<memory>:1: expected a list of JSON objects, got an empty list"),
    (b"[1, 2]", "<memory>:1: expected a list of JSON objects, got a list without any object (a number in it)"),
    (b'"x"', "<memory>:1: expected JSON objects, got a string: there is no entity in it"),
    (b"12", "<memory>:1: expected JSON objects, got a number: there is no entity in it"),
    (b"null", "<memory>:1: expected JSON objects, got null"),
    (b"  \n", "<memory>:2: expected a value, got the end of the file"),
    (b'[{"a": 1},\n 3]', "<memory>:2: expected a JSON object, got a number"),
    (b'[{"a": 1},\n [{}]]', "<memory>:2: expected a JSON object, got a list"),
    (b'[{"a": 1}\n {"a": 2}]', "<memory>:2: expected a comma or the closing bracket, got '{\"a\": 2}]'"),
    (b'[{"a": 1},\n]', "<memory>:2: expected a value, got ']'"),
    (b'[\n{"a": 1,\n"b": nan}]', "<memory>:3: expected a number, got 'nan'. Write null for a missing value"),
    (b'[{"a": 1}', "<memory>:1: expected a comma or the closing bracket, got the end of the file"),
    (b'[{"a": 1', "<memory>:1: expected a closing bracket, got the end of the file"),
    (b'[{"a": "x}]', "<memory>:1: expected a closing bracket, got '\"x}]'"),
    (b'[\n{"a": "x},\n{"b": 2}]', "<memory>:2: expected a closing quote for the string, got '\"x},'"),
    (b'{"a": 1}\n{"a": 2}\n', "<memory>:2: expected the end of the file, got '{\"a\": 2}'. If every line is an object, say format='jsonl'"),
    (b"[{}] x", "<memory>:1: expected the end of the file, got 'x'"),
    (b"[{}]]", "<memory>:1: expected the end of the file, got ']'"),
    (b'{"r": [{}]', "<memory>:1: expected a closing bracket, got the end of the file"),
    (b'{"r" [{}]}', "<memory>:1: expected a colon after the key, got '[{}]}'"),
    (b'{r: [{}]}', "<memory>:1: expected a key in double quotes, got 'r: [{}]}'"),
    (b'{"a": {}, "b": {},}', "<memory>:1: expected a key in double quotes, got '}'"),
    (b'{"\\ud800": {}, "b": {}}', "<memory>:1: expected a key that is text"),
    (b'[{"a": "\\ud800"}]', "<memory>:1: expected a whole character, got one half of a surrogate pair"),
    (b'[\n{"a": "\xff"}]', "<memory>:2: expected UTF-8, got the byte 0xff"),
    (b"[" * 100_000, "<memory>:1: expected at most 200 levels of brackets"),
    (b"[" * 100_000 + b"]" * 100_000, "<memory>:1: expected a list of JSON objects, got a list without any object"),
    (b'[{"a":' * 100_000, "<memory>:1: expected at most 200 levels of brackets"),
    (b'[{"a":' * 300 + b"1" + b"}]" * 300, "<memory>:1: expected at most 200 levels of brackets, got more"),
    ('[{"a": 1}]'.encode("utf-16"), "<memory>: expected UTF-8, got UTF-16. Convert it: iconv"),
    ('[{"a": 1}]'.encode("utf-32-be"), "<memory>: expected UTF-8, got UTF-32. Convert it: iconv"),
]  # fmt: skip


@for_each(("data", "problem"), WRONG, ids=lambda value: str(value)[:30])
def test_what_is_wrong_is_said_in_one_line_with_its_place(data, problem):
    with pytest.raises(LoadError) as caught:
        list(load(data))
    assert str(caught.value).startswith(problem)
    assert len(str(caught.value)) < 200


def test_faulty_entities_are_skipped_on_request():
    kb = load(b'[{"a": 1},\n{"a": nan},\n3, {"a": 1e},\n{"a": {"b": ]}},\n{"a": 2}]', skip_errors=True)
    with pytest.raises(LoadError):  # after a bracket too many nothing can be told apart
        list(kb)
    kb = load(b'[{"a": 1},\n{"a": nan},\n3, {"a": 1e},\n{"a": 2}]', skip_errors=True)
    assert [(e.id, e.tree) for e in kb] == [("1", {"a": 1}), ("5", {"a": 2})]
    assert [error.line for error in kb.skipped] == [2, 3, 3]


NO_JSON = [  # after the categories of JSONTestSuite; each must fail, and cleanly
    b'[1 true]', b'[a\xe5]', b'["": 1]', b'[""],', b'[1,,2]', b'[,1]', b'["x"]]', b'["",]', b'["x"', b'[x', b'[3[4]]', b'[1:2]', b'[-]',
    b'[++1234]', b'[+1]', b'[.123]', b'[0.e1]', b'[0x1]', b'[1_000]', b'[-01]', b'[1.]', b'[Infinity]', b'[-NaN]', b'{"x"::"b"}',
    b'{"a":"a" 123}', b'{key: "v"}', b'{"a" b}', b'{"x", null}', b'{[: "x"}', b'{1:1}', b'{9999E9999:1}', b'{null:null}', b'{"id":0,,,,,}',
    b"{'a':0}", b'{"id":0,}', b'{"a":"b"}/**/', b'{"a":"b"}//', b'{"a":"b",,"c":"d"}', b'{"a": "b"} #', b'{"a": true} "x"', b'{"a', b'{"a":', b'{"a"',
    b'["\\uD800\\"]', b'["\\x00"]', b'["\\\\\\"]', b'["\\u00A"]', b'["new\nline"]', b'["\t"]', b'["\x00"]', b'\\u0020', b'"', b'abc',
    b'<.>', b'[<null>]', b'[True]', b'{"a":"b"', b'[1]x', b'[\xe2\x81\xa0]', b'\xe2\x81\xa0', b'\xef\xbb\xbf', b'\xef\xbb{}', b'*', b'{"a": [}',
    b'{,', b'{}}', b'{"":', b'2@', b'[]]', b'[\x0c]', b'["a\x00a"]', b'{"a": 1e}', b'{"a": 0e+}', b'{"a": 2.e+3}', b'{"a": --2.}', b'{"a": 1ea}',
    b'{"a": "\\u\xe5"}', b'{"a": "\\a"}', b'{"a": "\\\xf0\x9f\x8c\x80"}', b'{"a": \'x\'}', b'{"a": fals}', b'{"a": nul}', b'{"a": "\\ud834\\udd"}',
]  # fmt: skip


@for_each("data", NO_JSON, ids=str)
@for_each("format", ["json", "jsonl"])
def test_what_is_no_json_is_a_load_error_and_nothing_else(data, format):
    with pytest.raises(LoadError):
        list(kbdisk.load(data, format=format))


YES_JSON = [
    b'{"asd":"sdf", "dfg":"fgh"}', b'{"":0}', b'{"foo\\u0000bar": 42}', b'{ "min": -1.0e+28, "max": 1.0e+28 }', b'{"a":[]}', b'{\n"a": "b"\n}',
    b'{"a": "\\u0060\\u012a\\u12AB", "b": "\\ud801\\udc37", "c": "\\"\\\\\\/\\b\\f\\n\\r\\t"}', b'{"a": "\xf4\x8f\xbf\xbf", "b": "\xe2\x80\xa8"}',
    b'{"a": [0e+1, 0E1, -0, 1E22, 123.456e78, 20e1, 1e-2]}', b'{"title":"\\u041f\\u043e"}', b' [{}] ', b'[{"a":[[],{},null,true,false]}]', b'{"a": "\x7f"}',
]  # fmt: skip


@for_each("data", YES_JSON, ids=str)
def test_what_is_json_with_an_object_is_read_as_the_standard_library_reads_it(data):
    expected = json.loads(data)
    assert [e.tree for e in load(data)] == (expected if type(expected) is list else [expected])


@given(
    st.binary(max_size=40)
    | st.text(st.sampled_from('{}[]:,"\\ \n1-e.tnu\ud800a'), max_size=40).map(lambda t: t.encode("utf-8", "replace"))
)
def test_whatever_the_bytes_only_our_own_errors_come_out(data):
    for format in ("json", "jsonl"):
        try:
            read = [e.tree for e in kbdisk.load(b"{" + data, format=format)]
        except KBDiskError:
            continue
        except KBDiskWarning:
            continue
        assert read == [{}] or all(type(tree) is dict for tree in read)


# ---------------------------------------------------------------- writing back


@pytest.mark.shared
@for_each("name", REAL)
def test_real_files_come_out_as_they_were_and_with_one_value_more_where_one_was_filled(name, data, tmp_path):
    original = (data / "json" / name).read_bytes()
    kb = kbdisk.load(data / "json" / name)
    entities = list(kb)
    assert [e.tree for e in entities] == json.loads(original)
    kbdisk.write(kb, tmp_path / "same.json")
    assert (tmp_path / "same.json").read_bytes() == original
    middle = entities[len(entities) // 2]
    values = {("made", "up"): ["ü", {"x": 1}], ("new",): "value"}
    kbdisk.write([filled(middle, values)], tmp_path / "more.json")
    out = (tmp_path / "more.json").read_bytes()
    expected = [with_values(e.tree, values) if e is middle else e.tree for e in entities]
    assert json.loads(out) == expected
    added = len(out) - len(original)
    assert any(out[:i] + out[i + added :] == original for i in places_of_difference(original, out))
    kbdisk.write(kbdisk.load(tmp_path / "more.json"), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == out


def places_of_difference(one, other):
    first = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return range(first, max(first - 50, 0), -1)


def test_a_new_member_is_indented_like_its_neighbours():
    text = b'[\n    {\n        "a": 1,\n        "p": {\n            "q": null\n        },\n        "l": []\n    },\n    {}\n]\n'
    out, report = spliced(
        text,
        {("p", "q"): {"x": 1}, ("p", "r"): "new", ("l", 0): 7, ("deep", "er"): True, ("many", 1): 5},
        {("a",): 2},
    )
    assert report.written == 6
    assert out.decode() == (
        '[\n    {\n        "a": 1,\n        "p": {\n            "q": {\n                "x": 1\n            },\n            "r": "new"\n'
        '        },\n        "l": [\n            7\n        ],\n        "deep": {\n            "er": true\n        },\n'
        '        "many": [\n            null,\n            5\n        ]\n    },\n    {"a": 2}\n]\n'
    )


@for_each(
    ("text", "out"),
    [
        (b'{"a":1}', b'{"a":1,"b":{"c":2}}'),
        (b'{"a": 1}', b'{"a": 1, "b": {"c": 2}}'),
        (b'{ "a" : 1 }', b'{ "a" : 1, "b" : {"c" : 2} }'),
        (b'{\r\n\t"a": 1\r\n}\r\n', b'{\r\n\t"a": 1,\r\n\t"b": {\r\n\t\t"c": 2\r\n\t}\r\n}\r\n'),
        (b'{\n"a": 1,\n"z": [1, 2]\n}', b'{\n"a": 1,\n"z": [1, 2],\n"b": {\n"c": 2\n}\n}'),
        (b'{\n  "a": 1\n, "z": 2\n}', b'{\n  "a": 1\n, "z": 2\n, "b": {\n   "c": 2\n }\n}'),
        (b"{}", b'{"b": {"c": 2}}'),
        (b"{ \n}", b'{"b": {"c": 2} \n}'),
        (b'\xef\xbb\xbf{"a": 1.50}  \n\n', b'\xef\xbb\xbf{"a": 1.50, "b": {"c": 2}}  \n\n'),
        (b'{"b": {"d": {"x":1,"y":2}}}', b'{"b": {"d": {"x":1,"y":2},"c": 2}}'),
        (b'{"b": null}', b'{"b": {"c": 2}}'),
    ],
)
def test_a_new_member_takes_the_manner_of_its_object(text, out):
    assert spliced(text, {("b", "c"): 2})[0] == out


def test_of_a_key_that_stands_twice_the_last_is_the_place():
    with pytest.warns(KBDiskWarning):
        out, report = spliced(b'{"a": null, "a": null, "b": {"x": 1}, "b": {"y": 2}}', {("a",): 5, ("b", "x"): 6})
    assert out == b'{"a": null, "a": 5, "b": {"x": 1}, "b": {"y": 2, "x": 6}}'
    assert report.written == 2


def test_numbers_stay_as_they_stand():
    text = b'{"a": 1.50, "b": 1E3, "c": 123456789012345678901234567890, "d": 0.10000000000000000001, "e": null}'
    assert spliced(text, {("e",): 1})[0] == text.replace(b"null", b"1")


@for_each(
    ("path", "value", "reason"),
    [
        (("a",), 2, "has a value already"),
        (("l",), [1], "has a value already"),
        (("p",), {"q": 2}, "has a value already"),
        (("p",), {"q": 1}, "has a value already"),
        (("a", "b"), 2, "would stand within a value that is no part"),
        (("l", "b"), 2, "would stand within a value that is no part"),
        (("p", 0), 2, "would stand within a value that is no part"),
        (("n",), None, "is no value"),
        (("n",), float("nan"), "cannot be written as JSON: expected a finite number, got nan"),
        (("n",), "\ud800", "cannot be written as JSON: str is not valid UTF-8"),
    ],
)
def test_what_has_no_place_is_told_and_nothing_changes(path, value, reason):
    text = b'{"id": "x", "a": 1, "l": [], "p": {"q": 1}}'
    out, report = spliced(text, {path: value})
    assert out == text
    ((id, where, why),) = report.unwritable
    assert (id, where, why[: len(reason)]) == ("x", path, reason)
    assert report.written == 0


def test_an_empty_string_gives_way_only_to_a_value_that_may_stand_there_instead():
    text = b'[{"a": ""}, {"a": ""}, {"a": "x"}, {"a": " "}, {"a": null}]'
    kb, out = load(text), io.BytesIO()
    blanks = (True, False, True, True, True)
    completions = [Completion(one, {("a",): Filled("b", blank=blank)}) for one, blank in zip(kb, blanks, strict=True)]
    report = kb.splice(completions, out)
    assert out.getvalue() == b'[{"a": "b"}, {"a": ""}, {"a": "x"}, {"a": " "}, {"a": "b"}]'
    assert [id for id, _, _ in report.unwritable] == ["2", "3", "4"]


def test_new_values_that_exclude_each_other_are_told():
    out, report = spliced(b'{"a": 1}', {("b",): 1, ("b", "c"): 2, ("d", 0): 3, ("d", "x"): 4, ("e", "f"): 5, ("e",): 6})
    assert out == b'{"a": 1, "b": 1, "d": [3], "e": {"f": 5}}'
    assert [path for _, path, _ in report.unwritable] == [("b", "c"), ("d", "x"), ("e",)]
    assert report.written == 3


def test_a_part_with_gaps_takes_what_is_missing_of_a_value():
    text = b'[{"w": {"value": 3, "unit": "g"}}, {"w": {"value": null, "unit": "g"}}, {"w": {"unit": "kg"}}, {"t": {"@quantity": null, "@unit": "g"}}]'
    quantity = {("w",): Quantity(5, "g")}
    out, report = spliced(text, quantity, quantity, quantity, {("t",): Quantity(5, "g")})
    assert out == text.replace(b"null", b"5")
    assert [(id, reason) for id, _, reason in report.unwritable] == [
        ("1", "has a value already"),
        ("3", "has a value already"),
    ]


HABITS = [  # what stands at "k" elsewhere, what is filled, what is written
    ('"1912-11-28"', Date(1845, 3, 27), '"1845-03-27"'),
    ('"1912-11-28"', Date(1845), '"1845"'),
    ('"1912-11-28T00:00:00Z"', Date(1845, 3, 27, time="T12:00:00Z"), '"1845-03-27T12:00:00Z"'),
    ('"28.11.1912"', Date(1845, 3, 27), '"27.03.1845"'),
    ('"1912/11/28"', Date(1845, 3, 27), '"1845/03/27"'),
    ('"19121128"', Date(1845, 3, 27), '"18450327"'),
    ("1912", Date(1845, 3, 27), "1845"),
    ('{"year": 1912, "month": 11}', Date(1845, 3), '{"year": 1845, "month": 3}'),
    ('{"@date": "1912"}', Date(1845, 3), '{"@date": "1845-03"}'),
    ("true", Date(1845, 3), '{"@date": "1845-03"}'),
    ("133", Quantity(151, "g"), "151"),
    ("133.5", Quantity(Decimal("1.50"), "g"), "1.50"),
    ('"133 g"', Quantity(151, "g"), '"151 g"'),
    ('"133g"', Quantity(1.5, "kg"), '"1.5kg"'),
    ('"133"', Quantity(151, "g"), '"151"'),
    ('{"value": 133, "unit": "g"}', Quantity(151, "g"), '{"value": 151, "unit": "g"}'),
    ('{"currency": "EUR", "amount": 1}', Quantity(2, "USD"), '{"amount": 2, "currency": "USD"}'),
    ('{"@quantity": 1, "@unit": "g"}', Quantity(2, "g"), '{"@quantity": 2, "@unit": "g"}'),
    ("[12.5, -69.9]", Coordinate(41.3, 19.8), "[41.3, 19.8]"),
    ('{"lat": 12.5, "lng": -69.9}', Coordinate(41.3, 19.8), '{"lat": 41.3, "lng": 19.8}'),
    ('"12.5, -69.9"', Coordinate(41.3, 19.8), '"41.3, 19.8"'),
    ("true", Coordinate(41.3, 19.8), '{"@latitude": 41.3, "@longitude": 19.8}'),
    ('"Q1"', Link("Q2"), '"Q2"'),
    ("1", Link("2"), "2"),
    ('{"id": "Q1", "label": "x"}', Link("Q2"), '{"id": "Q2"}'),
    ('{"@id": "Q1"}', Link("Q2"), '{"@id": "Q2"}'),
    ('"Albania"', Text("Albanien", "de"), '"Albanien"'),
    ('{"en": "Albania"}', Text("Albanien", "de"), '{"de": "Albanien"}'),
    ('{"@value": "Albania", "@language": "en"}', Text("Albanien", "de"), '{"@value": "Albanien", "@language": "de"}'),
    ('"1901"', 1902, '"1902"'),
    ('"1.5"', 2.25, '"2.25"'),
    ("1901", 1902.0, "1902"),
    ("1.5", Decimal("0.10000000000000000001"), "0.10000000000000000001"),
    ('"A3"', 4, "4"),
    ("true", "text", '"text"'),
]


@for_each(("usual", "value", "written"), HABITS, ids=str)
def test_a_new_value_takes_the_shape_that_its_property_has_here(usual, value, written):
    text = f'[{{"k": {usual}}}, {{"k": {usual}}}, {{"k": null}}, {{"a": {{"l": [{{"k": {usual}}}, {{"x": 1}}]}}}}]'
    out, _ = spliced(text.encode(), {}, {}, {("k",): value}, {("a", "l", 1, "k"): value})
    assert out.decode() == text.replace('{"k": null}', f'{{"k": {written}}}').replace(
        '"x": 1', f'"x": 1, "k": {written}'
    )


def test_characters_beyond_ascii_are_escaped_where_all_others_are():
    assert spliced(b'{"a": "\\u00e9"}', {("b",): "ü"})[0] == b'{"a": "\\u00e9", "b": "\\u00fc"}'
    assert spliced('{"a": "\\u00e9 é"}'.encode(), {("b",): "ü"})[0] == '{"a": "\\u00e9 é", "b": "ü"}'.encode()
    assert spliced(b'{"a": "e"}', {("b",): "ü"})[0] == '{"a": "e", "b": "ü"}'.encode()


blanks = st.text(st.sampled_from(" \t\n\r"), max_size=3)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(-1e9, 1e9),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
names = st.text(st.sampled_from('ab"\\é:,{'), max_size=3)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)  # fmt: skip


def laid_out(value, blank, nulls, path=()):
    """JSON text with odd blanks; each null is a mark of its own, kept in `nulls`."""
    if value is None:
        nulls[path] = chr(0xE000 + len(nulls))
        return nulls[path]
    if type(value) is dict:
        inner = [
            f"{blank()}{json.dumps(k)}{blank()}:{blank()}{laid_out(v, blank, nulls, (*path, k))}{blank()}"
            for k, v in value.items()
        ]
        return "{" + (",".join(inner) or blank()) + "}"
    if type(value) is list:
        inner = [f"{blank()}{laid_out(v, blank, nulls, (*path, i))}{blank()}" for i, v in enumerate(value)]
        return "[" + (",".join(inner) or blank()) + "]"
    return json.dumps(value, ensure_ascii=False)


@st.composite
def texts_and_fills(draw):
    tree = draw(st.dictionaries(names, documents, max_size=4))
    nulls: dict = {}
    text = laid_out(tree, lambda: draw(blanks), nulls)
    places = [((), tree)]
    for path, value in places:
        inner = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
        places.extend(((*path, key), one) for key, one in inner)
    ends = [
        (*path, "new") if type(value) is dict else (*path, len(value))
        for path, value in places
        if type(value) in (dict, list)
    ]
    further = [(*path, "x", 0) for path in ends] + [(*path, "deep") for path in nulls]
    paths = draw(st.lists(st.sampled_from(ends + further + list(nulls)), max_size=4, unique=True))
    return tree, text, nulls, {path: draw(st.sampled_from(["text", "ü", True, {"k": ["v"]}, ["v"]])) for path in paths}


@given(texts_and_fills(), st.sampled_from(["json", "jsonl"]))
def test_whatever_the_layout_only_what_was_filled_is_new(drawn, format):
    tree, marked, nulls, fills = drawn
    text = marked
    for mark in nulls.values():
        text = text.replace(mark, "null")
    if format == "jsonl":
        text, marked = (one.replace("\n", " ").replace("\r", "\t") for one in (text, marked))
    wrapped = f"[ {text}\n,{text}]\r\n" if format == "json" else f"{text}\n\n{text} \r\n"
    kb = kbdisk.load(b"\xef\xbb\xbf" + wrapped.encode(), format=format)
    entities = list(kb)
    out = io.BytesIO()
    report = kb.splice([filled(entities[1], fills)], out)
    head, tail = (f"[ {text}\n,", "]\r\n") if format == "json" else (f"{text}\n\n", " \r\n")
    result = out.getvalue().decode()
    assert result.startswith("\ufeff" + head)
    assert result.endswith(tail)
    result = result[1 + len(head) : len(result) - len(tail)]
    written = {
        path: value for path, value in fills.items() if path not in {refused[1] for refused in report.unwritable}
    }
    assert len(written) == report.written
    assert json.loads(result) == with_values(tree, written)
    touched = {path for path in nulls if any(new[: len(path)] == path for new in written)}
    for path, mark in nulls.items():
        marked = marked.replace(mark, "" if path in touched else "null")
    assert is_subsequence(marked, result)


def is_subsequence(few, many):
    rest = iter(many)
    return all(character in rest for character in few)


# ---------------------------------------------------------------- writing anew


@given(st.lists(trees(), min_size=1, max_size=3))
def test_any_tree_survives_a_list_of_json(several):
    out = io.BytesIO()
    write([Entity(f"e{i}", tree, ("Thing",)) for i, tree in enumerate(several)], out, "json", False)
    again = list(load(out.getvalue()))
    assert [(e.id, e.classes) for e in again] == [(f"e{i}", ("Thing",)) for i in range(len(several))]
    for one, tree in zip(again, several, strict=True):
        assert repr({key: value for key, value in one.tree.items() if key not in ("@id", "@type")}) == repr(tree)


def test_a_list_is_written_indented_with_what_was_filled():
    (entity,) = load(b'{"id": "x", "l": [1]}')
    out = io.BytesIO()
    report = write([filled(entity, {("d",): Date(1912)})], out, "json", False)
    assert out.getvalue().decode() == (
        '[\n  {\n    "id": "x",\n    "l": [\n      1\n    ],\n    "d": {\n      "@date": "1912"\n    }\n  }\n]\n'
    )
    assert report.written == 1
    out = io.BytesIO()
    write([], out, "json", True)
    assert json.loads(out.getvalue()) == []


def test_an_entity_by_its_key_is_written_with_its_id(tmp_path):
    kb = load(b'{"Q1": {"a": 1}, "Q2": {"a": {"@id": "Q1"}}}')
    kbdisk.write(list(kb), tmp_path / "new.json")
    again = list(kbdisk.load(tmp_path / "new.json"))
    assert [(e.id, e.tree["a"]) for e in again] == [("Q1", 1), ("Q2", Link("Q1"))]


def test_into_an_object_of_entities_and_a_wrapped_list_values_are_spliced_too():
    assert spliced(b'{"Q1": {"a": 1}, "Q2": {}}', {}, {("a",): 2})[0] == b'{"Q1": {"a": 1}, "Q2": {"a": 2}}'
    assert spliced(b'{ "r" : [{"a": 1}] }\n', {("b",): 2})[0] == b'{ "r" : [{"a": 1, "b": 2}] }\n'


def test_a_skipped_entity_stays_in_the_file():
    text = b'[{"a": nan}, 3, {"a": 1}]'
    assert spliced(text, {("b",): 2}, skip_errors=True)[0] == text.replace(b'"a": 1', b'"a": 1, "b": 2')


def test_an_entity_that_is_gone_since_it_was_read_is_an_error(tmp_path):
    file = tmp_path / "a.json"
    file.write_bytes(b'[{"a": 1}, {"a": 2}]')
    _, last = kbdisk.load(file)
    file.write_bytes(b'[{"a": 1}]')
    with pytest.raises(LoadError, match="changed since it was read; run again"):
        kbdisk.write([filled(last, {("b",): 1})], tmp_path / "b.json")
    assert not (tmp_path / "b.json").exists()


@pytest.mark.shared
def test_the_leaves_of_the_countries_are_those_that_plain_python_counts(data):
    def count(value):
        return (
            sum(map(count, value.values() if isinstance(value, dict) else value))
            if isinstance(value, dict | list)
            else 1
        )

    kb = kbdisk.load(data / "json" / "countries.json")
    assert sum(1 for e in kb for _ in walk(e.tree)) == count(
        json.loads((data / "json" / "countries.json").read_bytes())
    )
