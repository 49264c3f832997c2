"""New values set into JSON-LD: what the text becomes, and that it says what it did and no more."""

import json
import warnings

import pytest
from fillings import E, before_and_after, filled
from hypothesis import assume, given
from hypothesis import strategies as st
from judges import says
from tables import for_each

from kbdisk.entity import Date, Link, Text
from kbdisk.errors import KBDiskWarning, LoadError
from kbdisk.loaders.rdf.jsonld import Spelling

XSD = "http://www.w3.org/2001/XMLSchema#"
VOCAB = '"@vocab":"http://ex.org/","@base":"http://ex.org/"'


CASES = {  # a document with what is new between « and », and what is filled
    "members of one line": (
        '{"@context":{%s},"@graph":[{"@id":"a","size":1},{"@id":"b",  "n":2«,  "size":7»}]}',
        {"b": {"size": 7}},
    ),
    "members of many lines": (
        '{\n  "@context": {%s},\n  "@graph": [\n    {\n      "@id": "a",\n      "size": 1\n    },\n'
        '    {\n      "@id": "b",\n      "n": 2«,\n      "size": 7»\n    }\n  ]\n}\n',
        {"b": {"size": 7}},
    ),
    "a list of objects, each with its context": (
        '[{"@context":{%s},"@id":"a","size":1},\r\n{"@context":{%s},"@id":"b","n":2«,"size":7»}]',
        {"b": {"size": 7}},
    ),
    "other names of keywords": (
        '{"@context":{%s,"id":"@id","is":"@type","all":"@graph"},"all":[{"id":"a","is":"T","p":{"is":"P","x":1}},'
        '{"id":"b","n":2«,"p":{"is":"P","x":2}»}]}',
        {"b": {("p", "x"): 2}},
    ),
    "an anonymous part": (
        '{"@context":{%s},"@graph":[{"@id":"a","p":{"x":1,"y":2}},{"@id":"b","p":{"y":3«,"x":4»}}]}',
        {"b": {("p", "x"): 4}},
    ),
    "an anonymous entity": (
        '{"@context":{%s},"@graph":[{"@id":"a","x":1},{"y":3«,"x":4»}]}',
        {"_:[0]": {"x": 4}},
    ),
    "a node with a label, and a link to it": (
        '{"@context":{%s},"@graph":[{"@id":"a","to":{"@id":"_:x"},"n":1},{"@id":"b","n":2«,"to":{"@id":"_:x"}»},'
        '{"@id":"_:x","m":1«,"n":3»}]}',
        {"b": {"to": Link("_:x")}, "a": {("to", "n"): 3}},
    ),
    "a null": (
        '{"@context":{%s},"@graph":[{"@id":"a","x":1},{"@id":"b","y":3,"x":«4|null»}]}',
        {"b": {"x": 4}},
    ),
    "texts of languages": (
        '{"@context":{%s,"t":{"@container":"@language"}},"@graph":[{"@id":"a","t":{"en":"x"},"s":{"@value":"u","@language":"de"}},'
        '{"@id":"b","n":2«,"t":{"en":"z"}»«,"s":{"@value":"v","@language":"de"}»}]}',
        {"b": {"t": Text("z", "en"), "s": Text("v", "de")}},
    ),
    "a default language": (
        '{"@context":{%s,"@language":"en"},"@graph":[{"@id":"a","t":"x","s":{"@value":"u"}},'
        '{"@id":"b","n":2«,"t":"z"»«,"s":{"@value":"v"}»}]}',
        {"b": {"t": Text("z", "en"), "s": "v"}},
    ),
    "terms with a type": (
        '{"@context":{%s,"xsd":"http://www.w3.org/2001/XMLSchema#","d":{"@type":"xsd:date"},"w":{"@type":"xsd:decimal"},'
        '"l":{"@type":"@id"},"x":"ex:x","ex":"http://ex.org/"},'
        '"@graph":[{"@id":"ex:a","d":"2001-02-03","w":"1.5","l":"ex:a","x":1},'
        '{"@id":"ex:b","n":2«,"d":"2004-05-06"»«,"w":"2.5"»«,"l":"ex:a"»«,"x":4»}]}',
        {"b": {"d": Date(2004, 5, 6), "w": 2.5, "l": Link(E + "a"), "x": 4}},
    ),
    "numbers, truths and strings": (
        '{"@context":{%s},"@graph":[{"@id":"a","i":1,"f":1.5,"t":true,"s":"x"},{"@id":"b","n":0«,"i":2»«,"f":2.25»«,"t":false»«,"s":"5"»}]}',
        {"b": {"i": 2, "f": 2.25, "t": False, "s": "5"}},
    ),
    "several values": (
        '{"@context":{%s},"@graph":[{"@id":"a","s":["x","y"]},{"@id":"c","s":["x"]},{"@id":"b","n":0«,"s":["x","y"]»},{"@id":"d","n":0«,"s":["y"]»}]}',
        {"b": {("s", 0): "x", ("s", 1): "y"}, "d": {("s", 0): "y"}},
    ),
    "a collection": (
        '{"@context":{%s,"l":{"@container":"@list"}},"@graph":[{"@id":"a","l":[1,2],"m":{"@list":[3]}},{"@id":"b","n":0«,"l":[7,8]»«,"m":{"@list":[9]}»}]}',
        {"b": {"l": [7, 8], "m": [9]}},
    ),
    "backward links and named graphs": (
        '{"@context":{%s,"children":{"@reverse":"parent"}},"@graph":[{"@id":"a","children":[{"@id":"c","age":3},{"@id":"d"«,"age":5»}],"x":1},'
        '{"@id":"g","@graph":[{"@id":"f","age":4},{"@id":"e","n":0«,"age":6»}]}]}',
        {"d": {"age": 5}, "e": {"age": 6}},
    ),
    "maps by index": (
        '{"@context":{%s,"by":{"@container":"@index"}},"@graph":[{"@id":"a","by":{"k":{"@id":"b","n":0«,"x":2»},"l":{"@id":"c","x":1}}}]}',
        {"b": {"x": 2}},
    ),
    "what a context of a class would change": (
        '{"@context":{%s,"T":{"@id":"T","@context":{"x":"y"}}},"@graph":[{"@id":"a","x":1},{"@id":"b","@type":"T","n":0«,"http://ex.org/x":2»}]}',
        {"b": {"x": 2}},
    ),
    "one more value of a property": (
        '{"@context":{%s},"@graph":[{"@id":"a","s":["x","y"]},{"@id":"b","s":«[»"x"«,"y"]»},{"@id":"c","n":0«,"s":"1"»}]}',
        {"b": {("s", 1): "y"}, "c": {"s": "1"}},
    ),
    "one more value of a property under its whole name": (
        '{"@context":{},"@graph":[{"@id":"http://ex.org/a","http://ex.org/l":[{"@id":"http://ex.org/a"},{"@id":"http://ex.org/c"}]},'
        '{"@id":"http://ex.org/b","http://ex.org/l":«[»{"@id":"http://ex.org/a"}«,{"@id":"http://ex.org/c"}]»}]}',
        {"b": {("l", 1): Link(E + "c")}},
    ),
    "a language that a context of a class sets": (
        '{"@context":{%s,"T":{"@id":"T","@context":{"@language":"de"}},"p":{"@id":"p","@context":{"@language":"de"}}},'
        '"@graph":[{"@id":"a","x":"u"},{"@type":"T","@id":"b","y":1«,"x":{"@value":"v"}»}]}',
        {"b": {"x": "v"}},
    ),
    "a language that a context of a property sets": (
        '{"@context":{%s,"p":{"@id":"p","@context":{"@language":"de"}}},'
        '"@graph":[{"@id":"a","x":"u"},{"@id":"d","p":{"@id":"b","y":1«,"http://ex.org/x":{"@value":"v"}»}}]}',
        {"b": {"x": "v"}},
    ),
    "terms of a class": (
        '{"@context":{"T":{"@id":"http://ex.org/T","@context":{"w":{"@id":"http://ex.org/w","@type":"http://www.w3.org/2001/XMLSchema#decimal"}}},'
        '"n":"http://ex.org/n"},"@graph":[{"@id":"http://ex.org/a","@type":"T","w":"1.5"},{"@id":"http://ex.org/b","@type":["T"],"n":1«,"w":"2.5"»},'
        '{"@id":"http://ex.org/c","@type":"http://ex.org/U","http://ex.org/w":3«,"n":4»}]}',
        {"b": {"w": 2.5}, "c": {"n": 4}},
    ),
    "two languages of one map": (
        '{"@context":{%s,"t":{"@container":"@language"}},"@graph":[{"@id":"a","t":{"en":"x","de":"y"}},{"@id":"b","n":0«,"t":{"en":"z","de":"w"}»}]}',
        {"b": {("t", 0): Text("z", "en"), ("t", 1): Text("w", "de")}},
    ),
    "numbers as strings": (
        '{"@context":{%s,"i":{"@type":"http://www.w3.org/2001/XMLSchema#integer"}},"@graph":[{"@id":"a","i":"1"},{"@id":"b","n":0«,"i":"5"»}]}',
        {"b": {"i": 5}},
    ),
    "a link as most are": (
        '{"@context":{%s,"m":{"@id":"l","@type":"@id"}},"@graph":[{"@id":"a","l":{"@id":"b"}},{"@id":"c","l":{"@id":"a"}},{"@id":"d","m":"a"},'
        '{"@id":"b","n":0«,"l":{"@id":"c"}»}]}',
        {"b": {"l": Link(E + "c")}},
    ),
    "literals of JSON": (
        '{"@context":{%s,"j":{"@type":"@json"}},"@graph":[{"@id":"a","j":{"@id":"b","x":1},"x":1},{"@id":"b","j":{"k":[{"x":2}]}«,"x":3»}]}',
        {"b": {"x": 3}},
    ),
    "a negative zero": (
        '{"@context":{%s},"@graph":[{"@id":"a","d":1.5},{"@id":"b","n":0«,"d":{"@value":"-0.0E0","@type":"http://www.w3.org/2001/XMLSchema#double"}»}]}',
        {"b": {"d": -0.0}},
    ),
    "escapes": (
        '{"@context":{%s},"@graph":[{"@id":"a","s":"\\u00e9"},{"@id":"b","n":0«,"s":"\\u00fc"»}]}',
        {"b": {"s": "ü"}},
    ),
}


@for_each("name", CASES)
def test_what_is_new_is_set_into_the_text(name, tmp_path):
    written, values = CASES[name]
    before, after = before_and_after(written.replace("%s", VOCAB))
    out, report = filled(tmp_path, before, values, "jsonld")
    assert report.unwritable == []
    assert out.decode() == after


def test_a_byte_order_mark_stays(tmp_path):
    document = f'\ufeff{{"@context":{{{VOCAB}}},"@graph":[{{"@id":"a","x":1}},{{"@id":"b","y":3}}]}}'
    assert filled(tmp_path, document, {"b": {"x": 4}}, "jsonld")[0].decode() == document.replace('"y":3', '"y":3,"x":4')


def test_a_context_that_is_a_file_stays_a_name(tmp_path):
    document = '{"@context":"http://c.org/","@graph":[{"id":"ex:a","size":1},{"id":"ex:b","n":2}]}'
    context = {"http://c.org/": json.dumps({"@context": {"@vocab": E, "ex": E, "id": "@id"}}).encode()}
    out, _ = filled(tmp_path, document, {"b": {"size": 7}}, "jsonld", context=context)
    assert out.decode() == document.replace('"n":2', '"n":2,"size":7')


def test_what_no_object_speaks_of_has_all_serialised_anew(tmp_path):
    document = (
        f'{{"@context":{{{VOCAB},"of":{{"@reverse":"to","@type":"@id"}}}},"@graph":[{{"@id":"a","x":1,"of":"b"}}]}}'
    )
    with pytest.warns(KBDiskWarning, match="serialised anew"):
        out, report = filled(tmp_path, document, {"b": {"x": 4}}, "jsonld")
    assert report.written == 1
    says(out, document.replace('[{"@id":"a"', '[{"@id":"b","x":4},{"@id":"a"').encode(), "jsonld", tmp_path)


@pytest.mark.filterwarnings("default::kbdisk.errors.KBDiskWarning")
@for_each("depth", [300, *range(800, 1000, 5)])
def test_however_deep_it_is_written_or_refused(depth, tmp_path):
    inner = '{"@id":"end","y":1}'
    for i in range(depth):
        inner = f'{{"@id":"d{i}","n":{inner}}}'
    document = f'{{"@context":{{{VOCAB}}},"@graph":[{{"@id":"z","x":1}},{inner}]}}'
    refused = ""
    try:
        out, report = filled(tmp_path, document, {"end": {"x": 2}}, "jsonld")
    except LoadError as error:
        refused = str(error)
    else:
        assert report.written == 1
        assert depth > 300 or out.decode() == document.replace('"y":1', '"y":1,"x":2')
    assert not refused or "nest too deep" in refused
    assert not refused or depth > 300


def test_objects_that_each_have_the_same_context_are_looked_at_together(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(Spelling, "learn", lambda self, pairs, learn=Spelling.learn: tried.append(learn(self, pairs)))
    written = ",".join(f'{{"@context":{{{VOCAB}}},"@id":"a{i}","n":{i}«,"x":{i}»}}' for i in range(9))
    before, after = before_and_after(f'[{{"@context":{{{VOCAB}}},"@id":"a","x":1}},{written}]')
    assert filled(tmp_path, before, {f"a{i}": {"x": i} for i in range(9)}, "jsonld")[0].decode() == after
    assert len(tried) == 1


def test_nodes_that_are_all_alike_take_no_long_time(tmp_path):
    every = [f"_:n{i}" for i in range(40)]
    clique = ",".join(f'{{"@id":"{one}","l":{json.dumps([{"@id": other} for other in every])}}}' for one in every)
    document = f'{{"@context":{{{VOCAB}}},"@graph":[{{"@id":"a","x":1}},{{"@id":"b","y":3}},{clique}]}}'
    assert filled(tmp_path, document, {"b": {"x": 4}}, "jsonld")[0].decode() == document.replace('"y":3', '"y":3,"x":4')


WAYS = {  # a context, and how keys, ids and dates are spelt under it
    "a vocabulary": ({"@vocab": E, "@base": E}, "", "", {"@type": XSD + "date"}),
    "a prefix": ({"ex": E}, "ex:", "ex:", {"@type": XSD + "date"}),
    "whole": ({}, E, E, {"@type": XSD + "date"}),
    "terms": (
        {"@vocab": E, "e": E, "d": {"@type": XSD + "date"}, "l": {"@type": "@id"}, "@language": "en"},
        "",
        "e:",
        None,
    ),
}
VALUES = {
    "i": st.integers(-(10**9), 10**9),
    "f": st.floats(-1e6, 1e6).map(lambda one: round(one, 3) + 0.0004),
    "s": st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1),
    "t": st.booleans(),
    "l": st.sampled_from("abc").map(lambda id: Link(E + id)),
    "d": st.dates().map(lambda day: Date(day.year, day.month, day.day)),
}


def spelt(value, way):
    """A value in JSON-LD."""
    context, _, ids, date = WAYS[way]
    if isinstance(value, Link):
        id = ids + value.id.removeprefix(E)
        return id if "l" in context else {"@id": id}
    if isinstance(value, Date):
        text = f"{value.year:04}-{value.month:02}-{value.day:02}"
        return {"@value": text, **date} if date else text
    return {"@value": value} if isinstance(value, str) and "@language" in context else value


@given(st.data(), st.sampled_from(list(WAYS)), st.sampled_from([None, 2]))
def test_any_way_of_saying_it(tmp_path_factory, data, way, indent):
    folder = tmp_path_factory.mktemp("jsonld")
    context, keys, ids, _ = WAYS[way]
    whole = {name: data.draw(one) for name, one in VALUES.items()}
    kept = {id: data.draw(st.sets(st.sampled_from(list(VALUES)), min_size=1)) for id in "bc"}
    drawn = {id: {name: data.draw(one) for name, one in VALUES.items()} for id in "bc"}

    def object_of(id, values):
        return {"@id": ids + id, **{keys + name: spelt(value, way) for name, value in values.items()}}

    given = [object_of("a", whole)]
    given += [object_of(id, {name: drawn[id][name] for name in sorted(names)}) for id, names in kept.items()]
    missing = {id: {n: v for n, v in drawn[id].items() if n not in kept[id]} for id in "bc"}
    assume(any(missing.values()))
    document = json.dumps({"@context": context, "@graph": given}, indent=indent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, report = filled(folder, document, {id: some for id, some in missing.items() if some}, "jsonld")
    assert report.unwritable == []
    both = [*given, *(object_of(id, some) for id, some in missing.items())]
    says(out, json.dumps({"@context": context, "@graph": both}).encode(), "jsonld", folder)
    after = json.loads(out)["@graph"]
    assert after == [
        object_of("a", whole),
        *({**old, **object_of(old["@id"][-1], missing[old["@id"][-1]])} for old in given[1:]),
    ]
