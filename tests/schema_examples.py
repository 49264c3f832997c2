"""The example of the schema format, as a file and as what it is read as: `from schema_examples import PHONE`."""

from __future__ import annotations

from kbdisk.schemas.composites.coordinate import Coordinate
from kbdisk.schemas.composites.date import Date
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.kinds import Boolean, Category, Link, Number, Set, Text, Tolerance
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema

PHONE = """\
# The example of the format: every kind, and most keys.
kbdisk: 1
label: Phones
missing: ["", nan]
prefixes: {schema: "http://schema.org/"}
classes:
  Phone:
    iri: http://example.org/Phone
    id: id
    label: phone
    properties:
      oem: category
      model: {kind: text, max_length: 60, language: en}
      weight: {kind: quantity, unit: g, units: {kg: 1000, lb: null}, min: 0, max: 5000, normal: true}
      launch: {kind: date, order: dmy, parts: [year, month], min: 1983}
      network_edge: {kind: category, values: ["No", "Class 10"], closed: true, ordered: true, missing: [nan]}
      capital: {kind: link, to: City, required: true, unique: true, role: given}
      colours: {kind: set, of: category, values: [red, blue]}
      makers: {kind: set, of: link, to: Maker, most: 3}
      prizes: {kind: list, most: 4, of: {year: {kind: number, integer: true}, share: category}}
      readings: {kind: list, of: number}
      currencies: {kind: map, most: 5, of: {name: text, symbol: category}}
      languages: {kind: map, key: {kind: category, values: [de, en]}, of: text}
      latlng: {kind: coordinate, longitude_first: false}
      born: {kind: date, novalue: ["0000-00-00"], iri: schema:birthDate, label: born}
      bmi: {kind: number, decimals: 1, transform: log, formula: weight.value / height ** 2}
      height: {kind: number, integer: false, above: 0, tolerance: 2.5 %, many: latest, depends: [model, name.common]}
      name.common: {kind: text, role: ignore}
      '"a.b"."c d"': boolean
"""

PHONE_SCHEMA = Schema(
    label="Phones",
    missing=("", "nan"),
    prefixes={"schema": "http://schema.org/"},
    classes={
        "Phone": Class(
            "Phone",
            iri="http://example.org/Phone",
            id=("id",),
            label="phone",
            properties={
                ("oem",): Property(Category()),
                ("model",): Property(Text("en", 60)),
                ("weight",): Property(Quantity("g", {"kg": 1000, "lb": None}, Number(minimum=0, maximum=5000), normal=True)),
                ("launch",): Property(Date("dmy", ("year", "month"), minimum=1983)),
                ("network_edge",): Property(Category(("No", "Class 10"), closed=True, ordered=True), missing=("nan",)),
                ("capital",): Property(Link("City"), role="given", required=True, unique=True),
                ("colours",): Property(Set(Category(("red", "blue")))),
                ("makers",): Property(Set(Link("Maker"), most=3)),
                ("prizes",): Property(Listed({"year": Number(integer=True), "share": Category()}, most=4)),
                ("readings",): Property(Listed({"": Number()})),
                ("currencies",): Property(Mapped({"name": Text(), "symbol": Category()}, most=5)),
                ("languages",): Property(Mapped({"": Text()}, Category(("de", "en")))),
                ("latlng",): Property(Coordinate()),
                ("born",): Property(Date(), novalue=("0000-00-00",), iri="http://schema.org/birthDate", label="born"),
                ("bmi",): Property(
                    Number(decimals=1, transform="log"), formula=Formula.read("weight.value / height ** 2")
                ),
                ("height",): Property(
                    Number(above=0, tolerance=Tolerance(relative=0.025)), many="latest", depends=(("model",), ("name", "common"))
                ),
                ("name", "common"): Property(Text(), role="ignore"),
                ("a.b", "c d"): Property(Boolean()),
            },
        )
    },
)  # fmt: skip
