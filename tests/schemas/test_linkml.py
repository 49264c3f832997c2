"""LinkML becomes a schema through its own runtime; nothing is fetched, and what is left out is listed."""

from __future__ import annotations

import sys

import pytest
from tables import for_each

from kbdisk.entity import Entity
from kbdisk.errors import SchemaError
from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.importers import linkml
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text
from kbdisk.schemas.schema import Schema

try:
    import linkml_runtime
except ImportError:
    linkml_runtime = None
needs_runtime = pytest.mark.skipif(
    linkml_runtime is None, reason="needs LinkML's runtime: pip install 'kbdisk[linkml]'"
)

PHONES = """
id: http://example.org/phones
name: phones
title: Phones
prefixes:
  linkml: https://w3id.org/linkml/
  ex: http://example.org/
  schema: http://schema.org/
  unused: http://unused.example.org/
default_prefix: ex
default_range: string
imports: [linkml:types]
enums:
  Network:
    permissible_values:
      "No":
      3G:
        meaning: ex:3G
  Anything:
    reachable_from: {source_nodes: [ex:x]}
types:
  Percent: {typeof: float, minimum_value: 0, maximum_value: 100}
  Code: {typeof: string, pattern: "^[A-Z]+$"}
slots:
  id: {identifier: true}
  name: {slot_uri: schema:name, required: true, title: Name, description: What it is called.}
classes:
  Thing:
    abstract: true
    slots: [id, name]
  Counted:
    mixin: true
    attributes:
      sold: {range: integer, minimum_value: 0}
  Maker:
    is_a: Thing
  Phone:
    is_a: Thing
    mixins: [Counted]
    class_uri: schema:Product
    description: A telephone.
    slot_usage:
      name: {required: false, rank: 1}
    attributes:
      network: {range: Network}
      share: {range: Percent}
      dual: {range: boolean}
      launch: {range: date}
      homepage: {range: uri}
      about: {range: uriorcurie}
      weight: {range: float, unit: {ucum_code: g}, minimum_value: 1}
      maker: {range: Maker}
      makers: {range: Maker, multivalued: true, maximum_cardinality: 3}
      colours: {multivalued: true}
      sizes: {range: float, multivalued: true}
      cameras: {range: Camera, multivalued: true, inlined: true, inlined_as_list: true}
      main camera: {range: Camera, required: true, inlined: true}
      height: {range: Measure, inlined: true}
      place: {range: Place}
      stores: {range: Store, multivalued: true, inlined: true}
      number: {any_of: [{range: integer}, {range: float}]}
      status: {equals_string_in: [new, old]}
  Camera:
    attributes:
      aperture: {range: float, required: true}
      flash: {range: boolean}
      inner: {range: Camera, inlined: true}
  Measure:
    attributes: {value: {range: decimal}, unit: {}}
  Place:
    attributes: {latitude: {range: float}, longitude: {range: float}}
  Store:
    attributes:
      key: {identifier: true}
      city: {}
  Catalogue:
    tree_root: true
    attributes:
      phones: {range: Phone, multivalued: true, inlined: true}
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "phones.yaml"
        path.write_text(text, encoding="utf-8")
        return linkml.read(path)

    return read


def of_thing(slot, more=""):
    head = (
        "id: http://example.org/x\nname: x\nprefixes: {linkml: 'https://w3id.org/linkml/'}\nimports: [linkml:types]\n"
    )
    return f"{head}classes:\n  Thing:\n    attributes:\n      x: {slot}\n{more}"


@needs_runtime
def test_slots_are_properties_of_the_kind_that_their_range_tells(read):
    imported = read(PHONES)
    phone = imported.schema.classes["Phone"]
    assert {".".join(path): one.kind for path, one in phone.properties.items()} == {
        "name": Text(),
        "network": Category(("No", "3G"), closed=True),
        "share": Number(minimum=0, maximum=100),
        "dual": Boolean(),
        "launch": Date(),
        "homepage": Text(),
        "about": Link(),
        "weight": Quantity("g", value=Number(minimum=1)),
        "maker": Link("Maker"),
        "makers": Set(Link("Maker"), most=3),
        "colours": Set(Category()),
        "sizes": Listed({"": Number()}),
        "cameras": Listed({"aperture": Number(), "flash": Boolean()}),
        "main_camera.aperture": Number(),
        "main_camera.flash": Boolean(),
        "height": Quantity(any_unit=True),
        "place": Coordinate(),
        "stores": Mapped({"city": Text()}),
        "number": Number(),
        "status": Category(("new", "old"), closed=True),
        "sold": Number(integer=True, minimum=0),
    }


@needs_runtime
def test_classes_have_their_ids_iris_and_inherited_slots_and_those_without_entities_are_left_out(read):
    imported = read(PHONES)
    assert list(imported.schema.classes) == ["Maker", "Phone", "Camera", "Measure", "Place", "Store"]
    phone, maker = imported.schema.classes["Phone"], imported.schema.classes["Maker"]
    assert (phone.iri, phone.id, phone.description) == ("http://schema.org/Product", ("id",), "A telephone.")
    assert [phone.properties["name",].required, maker.properties["name",].required] == [False, True]
    assert phone.properties["main_camera", "aperture"].required
    assert (set(phone.superclasses), maker.superclasses) == ({"Thing", "Counted"}, ("Thing",))
    name = maker.properties["name",]
    assert (name.iri, name.label, name.description) == ("http://schema.org/name", "Name", "What it is called.")
    assert imported.schema.label == "Phones"
    assert imported.schema.prefixes == {"ex": "http://example.org/", "schema": "http://schema.org/"}


@needs_runtime
def test_what_a_schema_cannot_say_is_listed(read):
    assert read(PHONES).left_out == [
        "Phone.cameras.inner: Camera within itself: cut here",
        "Phone.cameras: aperture: that they are required in each part is left out",
        "Phone.main_camera.inner: Camera within itself: cut here",
        "Camera.inner: Camera within itself: cut here",
        "Catalogue: but holds lists of the other classes: left out",
    ]


@needs_runtime
@for_each(
    ("slot", "note"),
    [
        ("{range: string, pattern: '^a'}", "Thing.x: pattern is not checked"),
        ("{range: Code}", "Thing.x: the pattern of Code is not checked"),
        ("{range: Query}", "Thing.x: the values of Query come from a query, which is left out"),
        ("{range: string, minimum_value: 5}", "Thing.x: minimum_value of what is no number is not checked"),
        ("{range: integer, equals_expression: '{y} * 2'}", "Thing.x: equals_expression is not checked"),
        ("{range: float, multivalued: true, maximum_cardinality: 2}", "Thing.x: maximum_cardinality 2 is how many"),
        ("{any_of: [{range: integer}, {range: Other}]}", "Thing.x: the kind of its values is not determined: left out"),
        ("{range: Other, inlined: true}", "Thing.x.y: required where the part is there, which is left out"),
    ],
)
def test_each_thing_left_out_has_a_line(read, slot, note):
    more = "  Other: {attributes: {y: {required: true, range: string}}}\ntypes: {Code: {typeof: string, pattern: a}}\n"
    more += "enums: {Query: {reachable_from: {source_nodes: ['linkml:x']}}}\n"
    assert any(line.startswith(note) for line in read(of_thing(slot, more)).left_out)


@needs_runtime
def test_it_survives_as_yaml(read):
    schema = read(PHONES).schema
    assert Schema.read(schema.to_yaml()) == schema


@needs_runtime
def test_entities_are_checked_by_it(read):
    schema = read(PHONES).schema

    def misfits(**tree):
        return list(map(str, schema.check(Entity("p", {"main_camera": {"aperture": 2}, **tree}, ("Phone",)))))

    assert not misfits(
        name="3310", network="3G", weight=133, cameras=[{"aperture": 1.8}], stores={"a": {"city": "Graz"}}
    )
    assert misfits(network="6G") == ["network: expected one of No, 3G, got '6G'"]
    assert misfits(sold=-1) == ["sold: expected a number of at least 0, got -1"]
    assert misfits(main_camera={}) == ["main_camera.aperture: expected a value, got none"]


@needs_runtime
def test_files_beside_it_are_imported_and_remote_ones_never_fetched(read, tmp_path):
    (tmp_path / "core.yaml").write_text(of_thing("{range: integer}"), encoding="utf-8")
    head = "id: http://example.org/y\nname: y\nclasses: {Own: {is_a: Thing}}\n"
    assert read(head + "imports: [core]").schema.classes["Own"].properties["x",].kind == Number(integer=True)
    for name in ("http://example.org/core", "ex:core"):
        with pytest.raises(SchemaError, match=r"imports: .* is no file beside it, and none is ever fetched"):
            read(f"{head}prefixes: {{ex: 'http://example.org/'}}\nimports: ['{name}']")


@needs_runtime
@for_each(
    ("text", "complaint"),
    [
        ("a: [", r"phones.yaml:\d+: expected YAML, but"),
        ("a: \x00", "expected YAML, but"),
        ("- 1", "expected LinkML with classes, got none"),
        ("classes: 5", "expected LinkML with classes, got none"),
        ("id: http://x.org/\nname: x\nclasses: {A: {is_a: Gone}}", "expected LinkML, but"),
        ("id: http://x.org/\nname: x\nclasses: {A: {slots: [gone]}}", "expected LinkML, but"),
        ("id: http://x.org/\nname: x\nclases: {}\nclasses: {A: {}}", "expected LinkML, but"),
        ("id: http://x.org/\nname: x\nimports: [gone]\nclasses: {A: {}}", "expected LinkML, but"),
        ("id: http://x.org/\nname: x\nclasses: {A: {abstract: true}}", "expected LinkML with classes that are not"),
        ("classes: {A: {}}", "expected LinkML, but"),
        ("id: http://x.org/\nname: x\nclasses: {A: {slots: [[]]}}", "expected LinkML, but Empty list elements"),
        (of_thing("{range: integer, minimum_value: low}"), "Thing.x: expected a number as a bound, got 'low'"),
    ],
)
def test_a_broken_file_is_one_line(read, text, complaint):
    with pytest.raises(SchemaError, match=complaint) as caught:
        read(text)
    assert "\n" not in str(caught.value)


@needs_runtime
def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(SchemaError, match=r"gone.yaml: cannot be read: No such file"):
        linkml.read(tmp_path / "gone.yaml")


def test_without_the_extra_it_says_how_to_install_it(read, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("linkml_runtime")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "linkml_runtime", None)
    with pytest.raises(SchemaError, match=r"needs its runtime. Run: pip install 'kbdisk\[linkml\]'"):
        read(PHONES)
