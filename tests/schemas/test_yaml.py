"""Schema files: scalars mean what their place declares, what is wrong is named with its place, and nothing is a traceback."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, fields

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_examples import PHONE, PHONE_SCHEMA
from tables import examples, for_each

from kbdisk.errors import SchemaError
from kbdisk.schemas.composites import COMPOSITES, CompositeKind
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.kinds import KINDS, Category, LeafKind, Link, Number, Set, Text
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.schemas.yaml import loads, parse
from kbdisk.schemas.yaml.kind_keys import FIELD_OF_KEY, keys_of


def properties(*lines: str) -> str:
    """A file of one class P with these properties."""
    return "\n".join(["kbdisk: 1", "classes:", "  P:", "    properties:", *("      " + line for line in lines)]) + "\n"


def only(line: str) -> Property:
    """The one property of a file."""
    (one,) = loads(properties(line)).classes["P"].properties.values()
    return one


def problem(source: str | bytes) -> str:
    """What is said of a wrong file."""
    with pytest.raises(SchemaError) as caught:
        loads(source, "p.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(params=["libyaml", "python"])
def parser(request, monkeypatch):
    """Both parsers that PyYAML has."""
    if request.param == "libyaml" and not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(parse, "LOADER", yaml.CSafeLoader if request.param == "libyaml" else yaml.SafeLoader)


# ---------------------------------------------------------------- reading


def test_the_example_of_the_format_is_read_as_it_is_meant(parser):
    read = loads(PHONE)
    assert read == PHONE_SCHEMA
    assert list(read.classes["Phone"].properties) == list(PHONE_SCHEMA.classes["Phone"].properties)


def test_every_kind_can_be_said_by_its_name_alone():
    for name in [*KINDS, *COMPOSITES]:
        if name in ("list", "map"):
            assert problem(properties(f"x: {name}")) == "p.yaml:5: P.properties.x.of: expected a value, got none."
        else:
            row = {**KINDS, **COMPOSITES}[name].type
            assert only(f"x: {name}") == Property(row())


@for_each(
    ("line", "found"),
    [
        ("x: {kind: category, values: [no, yes, on, off, NO, y, ~, null]}", Category(("no", "yes", "on", "off", "NO", "y", "~", "null"))),
        ("x: {kind: category, values: [12:30, 2001-01-01, 0x1F, 1_000, 1e3, 007, 1.50, .5, +1, 0b1]}", Category(("12:30", "2001-01-01", "0x1F", "1_000", "1e3", "007", "1.50", ".5", "+1", "0b1"))),
        ("x: {kind: category, values: [3, -1, 1.5, true, false]}", Category((3, -1, 1.5, True, False))),
        ("x: {kind: category, values: ['3', \"1.5\", 'true']}", Category(("3", "1.5", "true"))),
        ("x: {kind: number, min: 1e3, max: '5e3'}", Number(minimum=1000, maximum=5000)),
        ("x: {kind: number, min: null, max: }", Number()),
        ("x: {kind: quantity, unit: no, units: {on: 2, 12: 3}}", Quantity("no", {"on": 2.0, "12": 3.0})),
        ("x: {kind: text, language: no}", Text("no")),
        ("x: {kind: link, to: 007, values: [NO, 12]}", Link("007", ("NO", "12"))),
        ("x: {kind: set, of: link, values: [12, '13', true]}", Set(Link(None, ("12", "13", "true")))),
        ("x: {kind: date, order: ymd, min: -44}", Date("ymd", minimum=-44)),
        ("x: {kind: list, of: {no: number, 12: text}}", Listed({"no": Number(), "12": Text()})),
        ("x: {kind: list, of: {kind: {kind: text}, of: text}}", Listed({"kind": Text(), "of": Text()})),
        ("x: {kind: list, of: {kind: list, of: {kind: number, integer: true}}}", Listed({"": Listed({"": Number(True)})})),
    ],
)  # fmt: skip
def test_a_scalar_means_what_its_place_declares(parser, line, found):
    kind = only(line).kind
    assert kind == found
    if isinstance(found, Category):
        assert list(map(type, kind.values)) == list(map(type, found.values))


def test_spellings_names_and_classes_are_text(parser):
    source = "kbdisk: 1\nmissing: [no, ~, null, -1, 0x0, 1e3, 12:30, true]\nclasses:\n  NO: {label: 007, properties: {on: {kind: text, novalue: [off]}}}\n"
    read = loads(source)
    assert read.missing == ("no", "~", "null", "-1", "0x0", "1e3", "12:30", "true")
    assert read.classes["NO"].label == "007"
    assert read.classes["NO"].properties[("on",)].novalue == ("off",)


@for_each("word", ["yes", "True", "1", "on", "y"])
def test_there_is_one_word_for_true(word):
    assert problem(properties(f"x: {{kind: text, required: {word}}}")).endswith(
        f"expected true or false, got {word!r}."
    )


def test_iris_are_in_full_or_by_their_prefix():
    source = "kbdisk: 1\nprefixes: {s: 'http://s/', '': 'http://d/', urn: 'http://u/'}\nclasses:\n  A: {iri: %s}\n"
    for written, iri in [
        ("s:x", "http://s/x"),
        ("':x'", "http://d/x"),
        ("http://example.org/y", "http://example.org/y"),
        ("urn:isbn:1", "http://u/isbn:1"),
        ("<urn:isbn:1>", "urn:isbn:1"),
        ("tag:x", "tag:x"),
    ]:
        assert loads(source % written).classes["A"].iri == iri


def test_files_are_utf_8_or_utf_16_with_a_mark(parser):
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert (
            loads(PHONE.replace("[red", "[röt").encode(encoding))
            .classes["Phone"]
            .properties[("colours",)]
            .kind.of.values[0]
            == "röt"
        )


# ---------------------------------------------------------------- what is wrong, and where


@for_each(
    ("line", "said"),
    [
        ("x: {kind: quantity, unti: g}", ".unti: unknown key. Did you mean 'unit'? Known keys of quantity: kind, integer, min,"),
        ("x: {kind: category, unit: g}", ".unit: unit is for quantity. Known keys of category: kind, values, closed, ordered, role,"),
        ("x: {unit: g}", ".kind: expected a kind, got none. Known kinds: number, category,"),
        ("x: {knd: text}", ".kind: expected a kind, got none. Did you mean 'kind' for 'knd'? Known kinds: number,"),
        ("x: {a: number, b: {kind: text}}", ".kind: expected a kind, got none. Properties of a part are written with their paths, such as launch.year. Known kinds: number,"),
        ("x: quantty", ": expected a kind, got 'quantty'. Did you mean 'quantity'? Known kinds: number, category,"),
        ("x: {kind: Number}", ".kind: expected a kind, got 'Number'. Did you mean 'number'? Known kinds: number, category,"),
        ("x:", ": expected a kind such as category, or a mapping with kind, got nothing."),
        ("x: [text]", ": expected a kind such as category, or a mapping with kind, got a list."),
        ("x: {kind: number, min: soon}", ".min: expected a number, got 'soon'."),
        ("x: {kind: number, min: nan}", ".min: expected a number, got 'nan'."),
        ("x: {kind: number, min: 1e999}", ".min: expected a number, got '1e999'."),
        ("x: {kind: number, min: 1_000}", ".min: expected a number, got '1_000'."),
        ("x: {kind: number, min: 5, max: 3}", ".max: expected at least the min, 5, got 3."),
        ("x: {kind: number, above: 5, below: 5}", ".below: expected more than `above`, 5, got 5."),
        ("x: {kind: date, min: 2000, max: 1999}", ".max: expected at least the min, 2000, got 1999."),
        ("x: {kind: date, min: 2000.5}", ".min: expected a whole number, got '2000.5'."),
        ("x: {kind: date, parts: []}", ".parts: expected some of year, month, day, each once, got none."),
        ("x: {kind: date, parts: [yaer]}", ".parts[0]: expected one of year, month, day, got 'yaer'. Did you mean 'year'?"),
        ("x: {kind: number, decimals: -1}", ".decimals: expected a whole number of at least 0, got -1."),
        ("x: {kind: text, max_length: 0}", ".max_length: expected a whole number of at least 1, got 0."),
        ("x: {kind: text, max_length: 3, min_length: 4}", ".min_length: expected at most the max_length, 3, got 4."),
        ("x: {kind: category, values: []}", ".values: expected at least one value. Leave the key out where any may come."),
        ("x: {kind: category, values: [a, b, a]}", ".values: expected each value once, got 'a' twice."),
        ("x: {kind: category, values: a}", ".values: expected a list, got 'a'."),
        ("x: {kind: category, values: [[a]]}", ".values[0]: expected a label, got a list."),
        ("x: {kind: category, closed: true}", ".closed: expected values that there can be, got none. Add the key values."),
        ("x: {kind: set, of: link, values: [a], closed: true}", ".closed: closed is for a set of category, this is one of link."),
        ("x: {kind: set, to: City}", ".to: to is for a set of link, this is one of category."),
        ("x: {kind: set, of: number}", ".of: expected one of category, link, got 'number'."),
        ("x: {kind: quantity, units: {kg: 0}}", ".units.kg: expected a number above 0, got 0."),
        ("x: {kind: quantity, units: [kg]}", ".units: expected a mapping, got a list."),
        ("x: {kind: quantity, normal: true}", ".normal: expected a unit that values are turned into. Add the key unit."),
        ("x: {kind: list, of: {}}", ".of: expected a kind, or fields and their kinds, got none."),
        ("x: {kind: list, of: {a: {kind: number, mni: 1}}}", ".of.a.mni: unknown key. Did you mean 'min'? Known keys of number: kind, integer,"),
        ("x: {kind: list, of: {a: number, '': text}}", ".of: expected a name for each field, got one without."),
        ("x: {kind: list, of: {kind: number, mni: 1}}", ".of.mni: unknown key. Did you mean 'min'?"),
        ("x: {kind: list, of: text, most: 0}", ".most: expected a whole number of at least 1, got 0."),
        ("x: {kind: text, role: giver}", ".role: expected one of value, given, ignore, got 'giver'. Did you mean 'given'?"),
        ("x: {kind: text, label: [a]}", ".label: expected text, got a list."),
        ("x: {kind: text, iri: ex:name}", ".iri: unknown prefix 'ex'. Known prefixes: none. Add it to prefixes."),
        ("x: {kind: text, iri: name}", ".iri: expected an IRI such as http://example.org/Phone, got 'name'."),
        ("x: {kind: number, formula: y + 1}", ".formula: no property has the path y."),
        ("x: {kind: number, formula: 'y +'}", ".formula: expected a formula such as weight.value / height.value ** 2, got 'y +'."),
        ("x: {kind: number, formula: __import__('os')}", ".formula: expected numbers, paths, + - * / ** and abs,"),
        ("x: {kind: number, formula: x + 1}", ".formula: expected paths of other properties, got x."),
        ("x: {kind: number, depends: [y]}", ".depends[0]: no property has the path y."),
        ("x: {kind: number, depends: ['y[']}", ".depends[0]: expected a path such as launch.year, prizes[0].share or \"odd (name)\", got 'y['."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_property_is_said_with_its_place(parser, line, said):
    assert problem(properties(line)).startswith("p.yaml:5: P.properties.x" + said)


@for_each(
    ("lines", "said"),
    [
        (["weight: {kind: quantity, unit: g}", "x: {kind: number, formula: weight * 2}"], "p.yaml:6: P.properties.x.formula: weight is a quantity: say weight.value."),
        (["weight: number", "x: {kind: number, formula: wieght * 2}"], "p.yaml:6: P.properties.x.formula: no property has the path wieght. Did you mean 'weight'?"),
        (["a: {kind: list, of: number}", "x: {kind: number, formula: a.count}"], None),
        (["a: category", "a.b: text"], "p.yaml:6: P.properties.a.b: expected a path of its own, got one within a, a category. Leave one out."),
        (["a.b: text", "a: category"], "p.yaml:5: P.properties.a.b: expected a path of its own, got one within a, a category. Leave one out."),
        (["a: text", '"a": text'], "p.yaml:6: 'a' stands twice, in line 5 first."),
        (["a.b: text", 'a."b": text'], "p.yaml:6: P.properties.a.\"b\": a.b stands twice."),
        (["a[0]: text"], "p.yaml:5: P.properties.a[0]: expected names alone, got 'a[0]'. Several values at a path are of the kind list."),
        (["a..b: text"], "p.yaml:5: P.properties.a..b: expected a path such as launch.year, prizes[0].share or \"odd (name)\", got 'a..b'."),
        (["a: {kind: number, min: x, max: y, mni: 1}", "b: {}"], "p.yaml:5: P.properties.a.mni: unknown key. Did you mean 'min'? Known keys of number: kind, integer, min, max, above, below, decimals, transform, tolerance, role, required, unique, many, missing, novalue, formula, depends, iri, label, description. (And 3 more.)"),
    ],
)  # fmt: skip
def test_what_is_wrong_between_properties_is_said_too(lines, said):
    if said is None:
        assert loads(properties(*lines))
    else:
        assert problem(properties(*lines)) == said


@for_each(
    ("source", "said"),
    [
        ("", "p.yaml: expected a schema, a mapping that begins with `kbdisk: 1`, got nothing."),
        ("# nothing\n", "p.yaml: expected a schema, a mapping that begins with `kbdisk: 1`, got nothing."),
        ("- a\n", "p.yaml: expected a schema, a mapping that begins with `kbdisk: 1`, got a list."),
        ("phone\n", "p.yaml: expected a schema, a mapping that begins with `kbdisk: 1`, got text."),
        ("classes: {}\n", "p.yaml:1: kbdisk: expected `kbdisk: 1`, with which a schema begins, got none."),
        ("kbdisk: 1\n", "p.yaml:1: classes: expected a value, got none."),
        ("\nkbdisk: 2\nclasses: {}\n", "p.yaml:2: kbdisk: expected version 1 of the format, got '2'."),
        ("kbdisk:\nclasses: {}\n", "p.yaml:1: kbdisk: expected version 1 of the format, got nothing."),
        ("kbdisk: 1\nclases: {}\n", "p.yaml:2: clases: unknown key. Did you mean 'classes'? Known keys: kbdisk, label, description, missing, prefixes, properties, classes, rules."),
        ("kbdisk: 1\nclasses: [A]\n", "p.yaml:2: classes: expected a mapping, got a list."),
        ("kbdisk: 1\nclasses:\n  A:\n", "p.yaml:3: A: expected a mapping, got nothing."),
        ("kbdisk: 1\nclasses:\n  http://x.org/A: {propertys: {}}\n", "p.yaml:3: \"http://x.org/A\".propertys: unknown key. Did you mean 'properties'? Known keys: iri, id, label, description, superclasses, uses, properties, constraints."),
        ("kbdisk: 1\nclasses:\n  A: {id: 'x['}\n", "p.yaml:3: A.id: expected a path such as launch.year, prizes[0].share or \"odd (name)\", got 'x['."),
        ("kbdisk: 1\nmissing: nan\nclasses: {}\n", "p.yaml:2: missing: expected a list, got 'nan'."),
        ("kbdisk: 1\nprefixes: {a: b}\nclasses: {}\n", "p.yaml:2: prefixes.a: expected an IRI such as http://example.org/Phone, got 'b'."),
        ("kbdisk: 1\nprefixes: {schema: 'http://s/'}\nclasses:\n  A: {iri: scheme:A}\n", "p.yaml:4: A.iri: unknown prefix 'scheme'. Did you mean 'schema'? Known prefixes: schema. Add it to prefixes."),
        ("kbdisk: 1\nkbdisk: 1\n", "p.yaml:2: 'kbdisk' stands twice, in line 1 first."),
        ("kbdisk: 1\n---\nkbdisk: 1\n", "p.yaml:2: expected one document, got a second one after `---`."),
        ("kbdisk: &a 1\nclasses: *a\n", "p.yaml:1: expected a value, got the anchor &a. Write the value out."),
        ("kbdisk: 1\nclasses: *a\n", "p.yaml:2: expected a value, got the alias *a. Write the value out."),
        ("kbdisk: !!python/object/apply:os.system [true]\n", "p.yaml:1: expected a value, got the tag tag:yaml.org,2002:python/object/apply:os.system. Leave it out."),
        ("? [a]\n: b\n", "p.yaml:1: expected a name before the colon, got a mapping or a list."),
        ("[" * 100_000, "p.yaml:1: expected at most 50 levels, got more."),
        ("a: " + "{a: " * 100_000, "p.yaml:1: expected at most 50 levels, got more."),
        (b"kbdisk: 1\nlabel: caf\xe9\n", "p.yaml:2: expected UTF-8, got the byte 0xe9. Save the file as UTF-8."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(parser, source, said):
    assert problem(source) == said


@for_each(
    "source",
    ["kbdisk: [1\n", "a: b: c\n", "a\tb: {\n", '"\\q"', "%YAML 9\n---\na", "a: \x01", "\x00", "@x", "{a", "- b\na: 1"],
)
def test_what_is_no_yaml_is_said_to_be_none(parser, source):
    assert "expected YAML, " in problem(source)


def test_a_billion_laughs_end_at_once():
    lines = ["a0: &a0 [lol]", *(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(30))]
    assert problem("\n".join(lines)).startswith("p.yaml:1: expected a value, got the anchor &a0")


@settings(max_examples=examples(50))
@given(st.data())
def test_no_damage_to_a_file_is_a_traceback(data):
    start = data.draw(st.integers(0, len(PHONE)))
    end = data.draw(st.integers(start, min(start + 12, len(PHONE))))
    damage = data.draw(
        st.text(st.sampled_from("[]{}:,#&*!|>'\"%@`-? \n\tax1é\x85\u2028\ud800") | st.characters(), max_size=4)
    )
    with suppress(SchemaError):
        loads(PHONE[:start] + damage + PHONE[end:])


@settings(max_examples=examples(40))
@given(st.binary(max_size=40))
def test_no_bytes_are_a_traceback(data):
    with pytest.raises(SchemaError):
        loads(data)


# ---------------------------------------------------------------- files and names


def test_a_file_is_read_by_its_path_and_written_to_one(tmp_path):
    file = tmp_path / "phone.yaml"
    PHONE_SCHEMA.write(file, {("Phone", ("oem",)): "12 labels"}, head="By hand")
    assert file.read_text(encoding="utf-8").startswith("# By hand\nkbdisk: 1\n")
    assert Schema.read(file) == Schema.read(str(file)) == PHONE_SCHEMA
    assert b"\r" not in file.read_bytes()


def test_yaml_itself_is_read_where_a_path_could_be():
    assert Schema.read(PHONE) == PHONE_SCHEMA


def test_a_schema_of_the_library_is_read_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ("oem",) in next(iter(Schema.read("phone").classes.values())).properties
    with pytest.raises(SchemaError, match=r"^fone: .*phone"):
        Schema.read("fone")
    with pytest.raises(SchemaError, match=r"^phone.yaml: no such file. The library has 'phone': say that name alone.$"):
        Schema.read("phone.yaml")
    with pytest.raises(SchemaError, match=r"^fone.yaml: no such file. Did you mean 'phone'\? The library has country"):
        Schema.read("fone.yaml")
    (tmp_path / "phone").write_text("kbdisk: 1\nclasses: {}\n")
    assert Schema.read("phone") == Schema({})


def test_what_cannot_be_read_or_written_is_said(tmp_path):
    with pytest.raises(SchemaError, match="expected a file, got a folder"):
        Schema.read(tmp_path)
    with pytest.raises(SchemaError, match="cannot be written: no such file or directory"):
        PHONE_SCHEMA.write(tmp_path / "no" / "phone.yaml")
    with pytest.raises(SchemaError, match="no such file"):
        Schema.read("a\x00b.yaml")


def test_pydantic_and_yaml_are_loaded_when_a_schema_is_read_and_not_before():
    script = "import kbdisk, kbdisk.schemas.schema, sys; sys.exit(bool({'pydantic', 'yaml'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


# ---------------------------------------------------------------- kinds of somebody else's


@dataclass(frozen=True)
class Colour:
    """A colour such as #ff8800."""

    alpha: bool = False
    bits: int | None = None
    names: tuple[str, ...] = ()

    def check(self, value):
        assert value


@dataclass(frozen=True)
class Ratio:
    """3:4, as two numbers."""

    most: float = 10.0

    def leaves(self):
        return {("a",): Number(maximum=self.most)}

    apply = split = join = None


@pytest.fixture
def others(monkeypatch):
    monkeypatch.setitem(KINDS, "colour", LeafKind(Colour, Colour(), ("#ff8800",)))
    monkeypatch.setitem(COMPOSITES, "ratio", CompositeKind(Ratio, Ratio(), ("3:4",)))


def test_a_kind_of_somebody_elses_has_its_fields_as_keys(others):
    assert only("x: {kind: colour, alpha: true, bits: 8, names: [no, 12]}").kind == Colour(True, 8, ("no", "12"))
    assert only("x: {kind: list, of: {shape: {kind: ratio, most: 1e1}}}").kind == Listed({"shape": Ratio(10)})
    assert only("x: colour").kind == Colour()
    found = of_one_class({("x",): Property(Colour(bits=3)), ("y",): Property(Ratio())})
    assert "x: {kind: colour, bits: 3}" in found.to_yaml()
    assert loads(found.to_yaml()) == found


def test_its_keys_are_checked_like_ours(others):
    assert problem(properties("x: {kind: colour, alfa: true}")).startswith(
        "p.yaml:5: P.properties.x.alfa: unknown key. Did you mean 'alpha'? Known keys of colour: kind, alpha, bits, names, role"
    )
    assert problem(properties("x: {kind: colour, alpha: yes}")).endswith("x.alpha: expected true or false, got 'yes'.")
    assert ": alpha is for colour. Known keys of text: kind," in problem(properties("x: {kind: text, alpha: true}"))


def test_every_field_of_our_kinds_can_be_told():
    """A field that has no key would be lost when a schema is written."""
    renamed = {"quantity": {"factors", "value", "names"}, "list": {"fields"}, "map": {"fields"}}
    made = {name: row.type for name, row in (*KINDS.items(), *COMPOSITES.items())}
    for name, row in made.items():
        keys = {FIELD_OF_KEY.get(key, key) for key in keys_of(name).names()}
        assert {one.name for one in fields(row)} - renamed.get(name, set()) <= keys


# ---------------------------------------------------------------- properties that classes share

SHARED = """\
kbdisk: 1
properties:
  name: {kind: text, max_length: 40}
  area: {kind: number, min: 0, transform: log}
  bmi: {kind: number, formula: weight / 2}
classes:
  Lake:
    uses: [area]
    properties:
      name: {required: true, max_length: null}
      depth: number
  City:
    uses: [name]
    properties:
      area: {min: 5}
      bmi: {kind: text}
"""


def test_a_class_has_shared_properties_as_they_are_defined_or_with_what_it_changes():
    read = loads(SHARED)
    lake, city = read.classes["Lake"].properties, read.classes["City"].properties
    assert list(lake) == [("area",), ("name",), ("depth",)]
    assert lake["area",] == read.properties["area",] == Property(Number(minimum=0, transform="log"))
    assert lake["name",] == Property(Text(), required=True)
    assert city["name",] == Property(Text(max_length=40))
    assert city["area",] == Property(Number(minimum=5, transform="log"))
    assert city["bmi",] == Property(Text())
    assert (
        loads(SHARED.partition("properties:\n  name")[0] + "classes: {A: {properties: {x: text}}}\n").properties is None
    )


def test_a_schema_with_shared_properties_is_written_as_it_was_read():
    assert loads(SHARED).to_yaml() == SHARED.replace("{kind: text}\n", "text\n")


@for_each(
    ("old", "new", "said"),
    [
        ("[name]", "[nam]", "p.yaml:13: City.uses[0]: no property of the file has the path nam. Did you mean 'name'?"),
        ("[name]", "[name, name]", "p.yaml:13: City.uses[1]: name stands twice."),
        ("[name]", "[area]", "p.yaml:15: City.properties.area: area stands in uses, too. Leave it out there."),
        ("{min: 5}", "{min: x}", "p.yaml:15: City.properties.area.min: expected a number, got 'x'."),
        ("{min: 5}", "{max: -1}", "p.yaml:15: City.properties.area.max: expected at least the min, 0, got -1."),
        ("kind: number, min: 0", "kind: number, min: y", "p.yaml:4: properties.area.min: expected a number, got 'y'."),
        ("[area]", "[area, bmi]", "p.yaml:8: Lake.uses[1].formula: no property has the path weight."),
        ("area: {min: 5}", "are: {min: 5}", "p.yaml:15: City.properties.are: expected a kind, got none, and no property of the file has the path are. Did you mean 'area'?"),
        ("  bmi: {kind: number, formula: weight / 2}", "  x[0]: text", "p.yaml:5: properties.x[0]: expected names alone, got 'x[0]'. Several values at a path are of the kind list."),
        (SHARED, "kbdisk: 1\nclasses:\n  A: {uses: [x]}\n", "p.yaml:3: A.uses[0]: no property of the file has the path x. Define it in `properties` of the file."),
        (SHARED, "kbdisk: 1\nclasses:\n  A: {properties: {x: {}}}\n", "p.yaml:3: A.properties.x.kind: expected a kind, got none. Known kinds: number, category, boolean, text, link, set, quantity, date, coordinate, list, map."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_shared_properties_is_said_once_with_its_line(old, new, said):
    assert problem(SHARED.replace(old, new, 1)) == said
