"""A filled value is written as its siblings are, and what is given stays as it is."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path as FilePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each

from kbdisk.entity import (
    NOVALUE,
    Completion,
    Coordinate,
    Date,
    Entity,
    Filled,
    Known,
    Link,
    Quantity,
    Text,
    at,
    with_values,
)
from kbdisk.loaders import load, write
from kbdisk.schemas import infer
from kbdisk.schemas.composites import COMPOSITES
from kbdisk.schemas.composites.base import split_kind
from kbdisk.schemas.composites.coordinate import Coordinate as Place
from kbdisk.schemas.composites.date import Date as Day
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.mapped import Mapped
from kbdisk.schemas.composites.quantity import Quantity as Amount
from kbdisk.schemas.kinds import KINDS, Boolean, Category, Number, Set
from kbdisk.schemas.kinds import Link as LinkLeaf
from kbdisk.schemas.kinds import Text as TextLeaf
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Schema, of_one_class
from kbdisk.styles.styles import SourceStyles, Styles

EXAMPLES = FilePath(__file__).parents[2] / "examples"
P = ("p",)

WEIGHT = Amount("g", {"kg": 1000.0, "lb": None})
PRICE = Amount("$", {"US$": 1.0, "€": None})
GRAMS = Amount("g", {"kg": 1000.0, "oz": 28.349523125}, normal=True)
SHARE = Amount("%")
EUROS = Amount("€", comma=True)
PRIZES = Listed({"year": Number(integer=True), "share": Category(), "on": Day()})
FIRST = Listed({"year": Number(integer=True), "share": Category()}, most=1)
MONEY = Mapped({"name": TextLeaf(), "since": Day()})


def styles_of(kind, siblings, **told) -> Styles:
    schema = of_one_class({P: Property(kind, **told)}, missing=("", "nan"))
    return Styles.learn(schema, [Entity(str(i), {"p": raw}) for i, raw in enumerate(siblings)])


def placed(kind, siblings, value, given=..., **told):
    tree = {} if given is ... else {"p": given}
    return styles_of(kind, siblings, **told).place(Entity("e", tree), P, value)


# ---------------------------------------------------------------- the form of the siblings


@for_each(
    ("kind", "siblings", "value", "written"),
    [
        # numbers
        (Number(), [5, 7, 12], 9, 9),
        (Number(), [5, 7, 12], 9.0, 9),
        (Number(), [5.0, 7.0, 12.5], 9, 9.0),
        (Number(), [5, 7.5], 9.25, 9.25),
        (Number(), [5.0], 2**60 + 1, 2**60 + 1),
        (Number(), ["5", "7", 3], 9.0, "9"),
        (Number(), ["5.50", "7.25"], 9.5, "9.50"),
        (Number(), ["5.5", "7.25"], 9.5, "9.5"),
        (Number(), ["005", "017"], 9, "009"),
        (Number(), ["-5", "17"], -9, "-9"),
        (Number(), ["5"], 1e21, "1000000000000000000000"),
        (Number(), ["5"], Decimal("0.10000000000000000001"), "0.10000000000000000001"),
        # labels, truths, texts
        (Category(), ["No", "4G"], "No", "No"),
        (Category(), [0.0, 1.0], 1, 1.0),
        (Category(), [True, False], True, True),
        (Boolean(), [True, False], False, False),
        (TextLeaf(), ["a", "b"], "c", "c"),
        (TextLeaf(), [Text("a", "de"), Text("b", "de"), Text("c", "en")], "d", Text("d", "de")),
        (TextLeaf(), [Text("a", "de")], Text("d", "fr"), Text("d", "fr")),
        # links
        (LinkLeaf(), ["AUT", "DEU"], Link("FRA"), "FRA"),
        (LinkLeaf(), [Link("AUT")], Link("FRA"), Link("FRA")),
        (LinkLeaf(), [{"@id": "AUT", "name": "Austria"}], Link("FRA"), Link("FRA")),
        # dates
        (Day(), [Date(1999), Date(2001, 5)], Date(2011, 3, 4), Date(2011, 3, 4)),
        (Day(), [{"year": 1999, "month": 2}, "1999-02-03", {"year": 2000}], Date(2011, 3), {"year": 2011, "month": 3}),
        (Day(), [{"day": 1, "month": 2, "year": 1999}], Date(2011, 3), {"month": 3, "year": 2011}),
        (Day(), [{"year": 1999.0, "month": 2.0}], Date(2011, 3, 4), {"year": 2011.0, "month": 3.0, "day": 4.0}),
        (Day(), ["1999-02-03"], Date(2011, 3, 4), "2011-03-04"),
        (Day(), ["1999-02-03"], Date(2011, 3), "2011-03"),
        (Day(), ["1999-02-03"], Date(-43, 3, 15), "-0043-03-15"),
        (Day(), ["1999-02-03T12:00:00Z"], Date(2011, 3, 4), "2011-03-04T12:00:00Z"),
        (Day(), ["1999-02-03", "1943-00-00"], Date(2011), "2011-00-00"),
        (Day(), ["1999-02-03", "1943-00-00"], Date(2011, 3), "2011-03-00"),
        (Day(), ["1999-02-03", "1998-01-01", "1943", "1944"], Date(2011), "2011"),
        (Day("dmy"), ["28/11/1912", "05/03/1913"], Date(2011, 3, 4), "04/03/2011"),
        (Day("dmy"), ["28.11.1912", "5.3.1913"], Date(2011, 3, 4), "4.3.2011"),
        (Day("dmy"), ["28. 11. 1912"], Date(2011, 3, 4), "04. 03. 2011"),
        (Day("mdy"), ["11/28/1912", "3/5/1913"], Date(2011, 3, 4), "3/4/2011"),
        (Day("ymd"), ["1912/11/28"], Date(2011, 3, 4), "2011/03/04"),
        (Day("dmy"), ["28/11/1912", "27/11/1912", 1999], Date(2011), 2011),
        (Day(), [1999, 2001], Date(2011), 2011),
        (Day(), [1999.0, 2001.0], Date(2011), 2011.0),
        (Day(), ["1999", "2001"], Date(2011), "2011"),
        # quantities
        (WEIGHT, [Quantity(5, "g")], Quantity(3, "kg"), Quantity(3, "kg")),
        (WEIGHT, [{"value": 5, "unit": "g"}], Quantity(3.0, "kg"), {"value": 3, "unit": "kg"}),
        (WEIGHT, [{"value": 5, "unit": "g"}, {"value": 5, "unit": []}], Quantity(3, "kg"), {"value": 3, "unit": "kg"}),
        (Day(), [{"year": 1999, "month": []}], Date(2011), {"year": 2011}),
        (WEIGHT, [{"unit": "g", "value": 5}], Quantity(3, "kg"), {"unit": "kg", "value": 3}),
        (WEIGHT, [{"value": 5}], Quantity(3, "g"), {"value": 3}),
        (WEIGHT, ["6.9 kg"], Quantity(3.5, "lb"), "3.5 lb"),
        (WEIGHT, ["6.9kg", "5 g", "3kg"], Quantity(3.0, "kg"), "3kg"),
        (WEIGHT, ["6.9kg", "5 g", "3kg"], Quantity(3.0, "g"), "3 g"),
        (WEIGHT, ["1,234 g", "999 g"], Quantity(12345, "g"), "12,345 g"),
        (WEIGHT, ["1234 g"], Quantity(12345, "g"), "12345 g"),
        (PRICE, ["$100.50", "$7.25"], Quantity(99.1, "$"), "$99.10"),
        (PRICE, ["US$ 1,200", "$ 5"], Quantity(-12000, "US$"), "-US$ 12,000"),
        (PRICE, ["$5", "7 €", "8 €"], Quantity(6, "€"), "6 €"),
        (PRICE, ["$5", "7 €", "8 €"], Quantity(6, "$"), "$6"),
        (EUROS, ["6,90 €", "12 €", "1.234,5 €"], Quantity(98765.4, "€"), "98.765,4 €"),
        (EUROS, ["€6,90", "€1234,50"], Quantity(-98765.4, "€"), "-€98765,40"),
        (EUROS, ["6,90", "12,50"], Quantity(7, "€"), "7,00"),
        (WEIGHT, [190, 200, "3 kg"], Quantity(180, "g"), 180),
        (WEIGHT, [190, 200, "3 kg"], Quantity(4, "kg"), "4 kg"),
        (WEIGHT, ["190", "200"], Quantity(180, "g"), "180"),
        (SHARE, ["12%", "7%"], Quantity(30, "%"), "30%"),
        (SHARE, ["12.0 %"], Quantity(30, "%"), "30.0 %"),
        (GRAMS, ["3 oz", "100 g", "90 g"], Quantity(80, "g"), "80 g"),
        # coordinates
        (Place(), [Coordinate(1, 2)], Coordinate(48.2, 16.4), Coordinate(48.2, 16.4)),
        (Place(), [[12.5, -70.0]], Coordinate(48.2, 16), [48.2, 16.0]),
        (Place(longitude_first=True), [[12.5, -70.5]], Coordinate(48.2, 16.4), [16.4, 48.2]),
        (Place(), [{"lat": 1, "lng": 2}], Coordinate(48.2, 16.4), {"lat": 48.2, "lng": 16.4}),
        (Place(), [{"lon": 1, "lat": 2}], Coordinate(48.2, 16.4), {"lon": 16.4, "lat": 48.2}),
        (Place(), ["1.50, 2.25"], Coordinate(48.5, 16.4), "48.50, 16.40"),
        (Place(longitude_first=True), ["1;2"], Coordinate(48.5, 16.4), "16.4;48.5"),
        # sets, lists, maps
        (Set(), [["red", "blue"], ["red"]], ["red"], ["red"]),
        (Set(), ["red", ["red", "blue"]], ["blue"], "blue"),
        (Set(), ["red", ["red", "blue"]], {"red", "blue"}, ["blue", "red"]),
        (Set(), [[], ["red"]], [], []),
        (Set(LinkLeaf()), [["AUT"]], [Link("FRA"), Link("DEU")], ["FRA", "DEU"]),
        (Listed({"": Number()}), [["1", "2"]], [3, 4], ["3", "4"]),
        (
            PRIZES,
            [[{"year": 1901, "share": "1", "on": "1901-02-03"}]],
            [{"year": 1911.0, "share": "2", "on": Date(1911, 3, 4)}],
            [{"year": 1911, "share": "2", "on": "1911-03-04"}],
        ),
        (PRIZES, [[{"share": "1", "year": 1901}, {"year": 1}]], [{"year": 2, "share": "3"}], [{"share": "3", "year": 2}]),
        (PRIZES, [{"year": 1901}], [{"year": 1911}], {"year": 1911}),
        (PRIZES, [[{"year": 1901}, []]], [{}, {"share": "1"}], [[], {"share": "1"}]),
        (
            MONEY,
            [{"EUR": {"name": "Euro", "since": "1999-01-01"}}],
            {"AWG": {"name": "Florin", "since": Date(1986, 1, 1)}},
            {"AWG": {"name": "Florin", "since": "1986-01-01"}},
        ),
        (Mapped({"": TextLeaf()}), [{"de": "Deutsch"}], {"nl": "Dutch"}, {"nl": "Dutch"}),
    ],
)  # fmt: skip
def test_a_value_takes_the_form_of_its_siblings(kind, siblings, value, written):
    put = placed(kind, siblings, value)
    assert put == {P: written}
    assert repr(put[P]) == repr(written)  # 5.0 is not 5 here


def test_one_of_several_stands_in_a_list_where_the_others_do():
    assert placed(Number(), [[5], [7], 3], 9, many="first") == {P: [9]}
    assert placed(Number(), [5, 7, [3]], 9, many="first") == {P: 9}
    assert placed(Place(), [[[1.5, 2.5]]], Coordinate(48.2, 16.4)) == {P: [[48.2, 16.4]]}


def test_a_property_without_siblings_looks_like_others_of_its_kind():
    schema = of_one_class({P: Property(Day()), ("q",): Property(Day()), ("r",): Property(Amount("g"))})
    entities = [Entity("a", {"q": "1999-02-03"})]
    for styles in Styles.learn(schema, entities), SourceStyles(schema, entities), SourceStyles(schema, tuple(entities)):
        assert styles.place(Entity("b"), P, Date(2011, 3, 4)) == {P: "2011-03-04"}
        assert styles.place(Entity("b"), ("r",), Quantity(5, "g")) == {("r",): Quantity(5, "g")}


def test_each_class_has_its_own_habits():
    kinds = {name: of_one_class({P: Property(Day())}, name).classes[name] for name in ("A", "B")}
    entities = [Entity("a", {"p": "1999-02-03"}, ("A",)), Entity("b", {"p": {"year": 1999}}, ("B",))]
    styles = Styles.learn(Schema(kinds), entities)
    assert styles.place(Entity("c", {}, ("A",)), P, Date(2011)) == {P: "2011"}
    assert styles.place(Entity("c", {}, ("B",)), P, Date(2011)) == {P: {"year": 2011}}


def test_what_was_written_once_is_written_again_where_the_value_is_the_same_and_nothing_is_given():
    schema = of_one_class({P: Property(Category())})
    styles = SourceStyles(schema, [Entity("a", {"p": True}), Entity("b", {"p": "True"})])
    written = [styles.place(Entity(id), P, value)[P] for id, value in [("c", True), ("d", "True"), ("e", True)]]
    assert [repr(raw) for raw in written] == ["True", "'True'", "True"]
    assert styles.place(Entity("f", {"p": True}), P, True) == {}
    with pytest.raises(ValueError, match="would change"):
        styles.place(Entity("g", {"p": "True"}), P, True)


def test_values_that_do_not_fit_teach_nothing():
    assert placed(Number(), ["n/a", "unknown", 5], 7) == {P: 7}
    assert placed(Day(), ["long ago", "nan", None, NOVALUE, 1999], Date(2011)) == {P: 2011}


# ---------------------------------------------------------------- what is given in part


@for_each(
    ("kind", "siblings", "given", "value", "put"),
    [
        (Number(), [5], None, 7, {(): 7}),
        (Number(), ["5"], "", 7, {(): "7"}),
        (Set(), [["red"]], "", ["red"], {(): ["red"]}),
        (Day(), [], {"year": 2011, "month": None}, Date(2011, 3), {("month",): 3}),
        (Day(), [], {"year": 2011}, Date(2011, 3, 4), {("month",): 3, ("day",): 4}),
        (Day(), [], {"year": 2011}, Date(day=4), {("day",): 4}),
        (Day(), [{"year": 1.0}], {"year": None, "month": None}, Date(2011, 3), {("year",): 2011.0, ("month",): 3.0}),
        (Day(), ["1999"], {}, Date(2011), {("year",): 2011}),
        (WEIGHT, [], {"value": None, "unit": "kg"}, Quantity(3, "kg"), {("value",): 3}),
        (WEIGHT, [{"value": 1}], {}, Quantity(3, "g"), {("value",): 3}),
        (WEIGHT, [], {"unit": "kg"}, Quantity(3, "kg"), {("value",): 3}),
        (WEIGHT, [], Quantity(None, "kg"), Quantity(3, "kg"), {(): Quantity(3, "kg")}),
        (GRAMS, [], {"value": None, "unit": "kg"}, Quantity(1500, "g"), {("value",): 1.5}),
        (GRAMS, [], {"value": None, "unit": "oz"}, Quantity(100, "g"), {("value",): 3.53}),
        (GRAMS, [], Quantity(None, "oz"), Quantity(100, "g"), {(): Quantity(3.53, "oz")}),
        (GRAMS, [], {"value": None, "unit": "g"}, Quantity(100, "g"), {("value",): 100}),
        (Place(), [], Coordinate(5, None), Coordinate(5, 6), {(): Coordinate(5, 6)}),
        (Place(), [{"lat": 1, "lng": 2}], {"lat": 5}, Coordinate(5, 6), {("lng",): 6}),
        (Place(), [], {"lat": 5, "long": None}, Coordinate(5, 6), {("long",): 6}),
        (Place(), [], [5, None], Coordinate(5, 6), {(1,): 6}),
        (Place(longitude_first=True), [], [5, None], Coordinate(6, 5), {(1,): 6}),
        (Place(), [[1, 2]], [None], Coordinate(5, 6), {(0,): 5, (1,): 6}),
        (Place(), [[1, 2]], [None, None], Coordinate(5, 6), {(0,): 5, (1,): 6}),
        (Set(), [], [None], ["red", "blue"], {(0,): "red", (1,): "blue"}),
        (Set(), [], ["red"], ["red", "blue"], {(1,): "blue"}),
        (Set(LinkLeaf()), [["AUT"]], [None], [Link("FRA")], {(0,): "FRA"}),
        (PRIZES, [], [{"year": 1901, "share": None}], [{"year": 1901, "share": "1"}], {(0, "share"): "1"}),
        (PRIZES, [], [{"year": 1901, "share": None}], [{"share": "1"}], {(0, "share"): "1"}),
        (PRIZES, [], [{"on": {"year": 1901}}, None], [{"on": Date(1901, 2)}, {"share": "1"}], {(0, "on", "month"): 2, (1,): {"share": "1"}}),
        (PRIZES, [], {"year": 1901}, [{"year": 1901, "share": "1"}], {("share",): "1"}),
        (FIRST, [], [{"share": None}, {"year": 1911}], [{"share": "1"}], {(0, "share"): "1"}),
        (MONEY, [], {"AWG": {}, "EUR": {"name": None}}, {"EUR": {"name": "Euro"}}, {("EUR", "name"): "Euro"}),
        (PRIZES, [], [Link("a"), {"year": 1901}], [{"@id": "a"}, {"year": 1901, "share": "1"}], {(1, "share"): "1"}),
        (PRIZES, [], [{"year": None, "share": None}], [{"year": 1, "share": "1"}, {"year": 2}], {(0, "year"): 1, (0, "share"): "1", (1,): {"year": 2}}),
        (Listed({"": Number()}), [["1"]], ["5", None], [5, 6], {(1,): "6"}),
        (MONEY, [], {"EUR": {"name": None}}, {"EUR": {"name": "Euro"}}, {("EUR", "name"): "Euro"}),
        (MONEY, [], {"EUR": {"name": "Euro"}}, {"EUR": {"name": "Euro"}, "AWG": {"name": "F"}}, {("AWG",): {"name": "F"}}),
        (Day(), [], [{"year": 2011, "month": None}], Date(2011, 3), {(0, "month"): 3}),
        (Number(), [[5]], [], 7, {(0,): 7}),
        (Number(), [5], [None], 7, {(0,): 7}),
        (Number(), [5], 7, 7, {}),
        (Day(), [], "2011", Date(2011), {}),
        (Set(), [], ["red", "blue"], ["blue", "red"], {}),
        (LinkLeaf(), [], "AUT", Link("AUT"), {}),
    ],
)  # fmt: skip
def test_what_is_given_stays_and_the_rest_is_put_beside_it(kind, siblings, given, value, put):
    assert placed(kind, siblings, value, given) == {(*P, *within): one for within, one in put.items()}


@for_each(
    ("kind", "siblings", "given", "value", "reason"),
    [
        (Day(), ["1999-02-03"], "2011", Date(2011, 3), "the given date has no place for a month"),
        (Day(), [], 2011, Date(2011, 3, 4), "the given date has no place for a month, day"),
        (Day(), [], Date(2011), Date(2011, 3), "the given date has no place for a month"),
        (Day(), [], {"year": 2011}, Date(2012, 3), "the year 2011 is given, which 2012 would change"),
        (Day(), [1999, 2001], ..., Date(2011, 3), "the others are years alone"),
        (Day("dmy"), ["28/11/1912"], ..., Date(2011, 3), "the others are whole dates, such as 28/11/1912"),
        (Number(), [], 5, 7, "5 is given, which 7 would change"),
        (Number(), [], "five", 7, "what stands there does not fit: expected a number, got 'five'"),
        (Number(), [], "nan", 7, "'nan' stands there for a gap, and would have to go"),
        (Number(), [], -1, 7, "-1 is given, which 7 would change"),
        (Category(), ["a"], ..., "nan", "'nan' would be read as a gap"),
        (Number(), [], NOVALUE, 7, "it is known that there is none"),
        (Number(), [5], [], 7, r"\[\] is given, and has no place for more"),
        (WEIGHT, [190], ..., Quantity(3, "kg"), "no form of the others can say"),
        (WEIGHT, [], {"value": None, "unit": "kg"}, Quantity(3, "g"), "the unit 'kg' is given, which 'g' would change"),
        (WEIGHT, [], {"value": [], "unit": "kg"}, Quantity(3, "kg"), r"\[\] is given as its value"),
        (Day(), [], {"year": 2011, "month": []}, Date(2011, 3), r"\[\] is given as its month"),
        (Place(), [], {"lat": [], "lng": 2}, Coordinate(1, 2), r"\[\] is given as its lat"),
        (WEIGHT, [], "190 g", Quantity(190, "kg"), "the unit 'g' is given"),
        (Place(), [[1, 2]], ..., Coordinate(5, 6, "moon"), "no form of the others can say"),
        (Place(), ["1, 2"], ..., Coordinate(5, None), "expected a latitude and a longitude, got one of them"),
        (Set(), [], "red", ["red", "blue"], "'red' is given, and has no place for more"),
        (Set(), [], ["red"], ["blue"], "red is given, and the new members do not include all of it"),
        (Set(), [["red"]], ..., [], "the list is empty, and this knowledge base has no empty list there"),
        (PRIZES, [], [{"year": 1}, {"year": 2}], [{"year": 1}], "2 are given, which 1 would change"),
        (PRIZES, [], [Link("a")], [{"year": 1}], "is given, and has no place for more"),
        (PRIZES, [], [[]], [{"year": 1}], "is given, and has no place for more"),
        (MONEY, [], [], {"EUR": {"name": "Euro"}}, "is given, and has no place for more"),
    ],
)  # fmt: skip
def test_what_cannot_be_put_says_why(kind, siblings, given, value, reason):
    with pytest.raises(ValueError, match=reason):
        placed(kind, siblings, value, given)


def test_a_value_that_has_no_part_to_stand_in_says_so():
    schema = of_one_class({("size", "height"): Property(Number())})
    styles = Styles.learn(schema, [])
    assert styles.place(Entity("e", {"size": None}), ("size", "height"), 5) == {("size", "height"): 5}
    assert styles.place(Entity("e", {"size": {"width": 3}}), ("size", "height"), 5) == {("size", "height"): 5}
    with pytest.raises(ValueError, match=r"size is 'large', and has no place for size.height"):
        styles.place(Entity("e", {"size": "large"}), ("size", "height"), 5)
    with pytest.raises(ValueError, match="no property weight"):
        styles.place(Entity("e"), ("weight",), 5)


@for_each(
    ("siblings", "written"),
    [
        (["2020-01-05 00:00:00", "2021-11-30 00:00:00"], "1990-05-03 00:00:00"),
        (["2020-01-05T00:00:00Z", "2021-11-30T00:00:00Z", "2021-12-01T07:30:00Z"], "1990-05-03T00:00:00Z"),
        (["2020-01-05", "2021-11-30", "2021-12-01 07:30"], "1990-05-03"),
        (["2020-01-05 04:51:00", "2021-11-30 17:20:00", "2021-12-01"], "1990-05-03"),
        ([f"2020-01-05 04:{n // 60:02}:{n % 60:02}" for n in range(300)] + ["2020-01-05"] * 1700, "1990-05-03"),
        (["+2020-01-05T00:00:00Z", "+2021-11-30T00:00:00Z"], "+1990-05-03T00:00:00Z"),
        (
            [Date(2020, 1, 5, time="T00:00:00Z"), Date(2021, 1, 5, time="T00:00:00Z")],
            Date(1990, 5, 3, time="T00:00:00Z"),
        ),
        ([Date(2020, 1, 5, time="T00:00:00Z"), Date(2021, 1, 5), Date(2022, 1, 5)], Date(1990, 5, 3)),
    ],
)
def test_a_date_has_the_time_of_day_that_most_have(siblings, written):
    assert styles_of(Day(), siblings).place(Entity("e"), P, Date(1990, 5, 3)) == {P: written}


def test_no_time_of_day_is_made_up():
    styles = styles_of(Day(), ["2020-01-05 04:51:00", "2021-11-30 17:20:00"])
    with pytest.raises(ValueError, match="the others have a time of day each"):
        styles.place(Entity("e"), P, Date(1990, 5, 3))
    styles = styles_of(Day(), [Date(2020, 1, 5, time="T04:51:00"), Date(2020, 1, 5, time="T17:20:00")])
    with pytest.raises(ValueError, match="the others have a time of day each"):
        styles.place(Entity("e"), P, Date(1990, 5, 3))
    years = ["1901-01-05T00:00:00Z"] * 100 + ["1901-00-00T00:00:00Z"] * 30
    assert styles_of(Day(), years).place(Entity("e"), P, Date(1990)) == {P: "1990-00-00T00:00:00Z"}
    styles = styles_of(Day(), ["2020-01-05 00:00:00", "2021-11-30 00:00:00"])
    with pytest.raises(ValueError, match="the others are whole dates, such as 1912-11-28 00:00:00"):
        styles.place(Entity("e"), P, Date(1990, 5))


# ---------------------------------------------------------------- what is taken away and put again is what it was


def test_what_is_learnt_is_plain_data_and_back():
    phones = load(EXAMPLES / "phones.jsonl")
    elements = load(EXAMPLES / "elements.ttl")
    for kb in (phones, elements):
        styles = Styles.learn(infer.infer(kb).schema, kb)
        again = Styles.from_json(styles.schema, json.loads(json.dumps(styles.to_json())))
        assert again == styles
        assert len({id(habits.by_kind) for habits in again.habits.values()}) == 1


def test_every_kind_of_leaf_has_a_row():
    with_style = {row.type for row in (*KINDS.values(), *COMPOSITES.values()) if row.style is not None}
    assert with_style | {Set, Listed, Mapped} == {row.type for row in (*KINDS.values(), *COMPOSITES.values())}


def whole_days():
    return st.dates().map(lambda day: Date(day.year, day.month, day.day))


def spelt_dates(order, layout):
    written = whole_days().map(lambda day: layout.format(y=day.year, m=day.month, d=day.day))
    return st.just(Day(order)), written


cents = st.integers(0, 10**7).map(lambda number: number / 100)
tags = st.sampled_from(["a", "b", "c", "d"])
FORMS = {
    "whole numbers": (st.just(Number()), st.integers(-(10**6), 10**6)),
    "numbers with points": (st.just(Number()), cents),
    "numbers as text": (st.just(Number()), st.integers(0, 10**20).map(str)),
    "prices as text": (st.just(Number()), cents.map("{:.2f}".format)),
    "labels": (st.just(Category()), tags),
    "truths": (st.just(Boolean()), st.booleans()),
    "texts": (st.just(TextLeaf()), st.text(min_size=1)),
    "texts in a language": (st.just(TextLeaf()), st.text().map(lambda text: Text(text, "de"))),
    "links": (st.just(LinkLeaf()), tags.map(Link)),
    "ids": (st.just(LinkLeaf()), tags),
    "dates": (st.just(Day()), whole_days()),
    "dates in parts": (
        st.just(Day()),
        whole_days().map(lambda day: {"year": day.year, "month": day.month, "day": day.day}),
    ),
    "years in parts": (st.just(Day()), st.integers(-500, 3000).map(lambda year: {"year": year})),
    "years": (st.just(Day()), st.integers(-500, 3000)),
    "ISO dates": spelt_dates("iso", "{y:04}-{m:02}-{d:02}"),
    "ISO dates at midnight": spelt_dates("iso", "{y:04}-{m:02}-{d:02}T00:00:00Z"),
    "ISO dates at noon": spelt_dates("iso", "{y:04}-{m:02}-{d:02} 12:00"),
    "ISO months": spelt_dates("iso", "{y:04}-{m:02}"),
    "ISO years with zeros": spelt_dates("iso", "{y:04}-00-00"),
    "dates day first": spelt_dates("dmy", "{d:02}/{m:02}/{y:04}"),
    "dates without zeros": spelt_dates("dmy", "{d}.{m}.{y:04}"),
    "dates month first": spelt_dates("mdy", "{m}-{d}-{y:04}"),
    "dates year first": spelt_dates("ymd", "{y:04} {m:02} {d:02}"),
    "quantities": (st.just(WEIGHT), st.builds(Quantity, cents, st.sampled_from(["g", "kg", "lb"]))),
    "quantities in parts": (st.just(WEIGHT), cents.map(lambda number: {"value": number, "unit": "kg"})),
    "quantities as text": (st.just(WEIGHT), st.integers(0, 10**6).map("{} kg".format)),
    "prices": (st.just(PRICE), st.integers(0, 10**9).map("${:,}".format) | st.integers(1, 999).map("-${}".format) | st.integers(0, 99).map("€ {}".format)),
    "quantities with commas": (st.just(WEIGHT), st.integers(0, 10**9).map("{:,}kg".format)),
    "bare quantities": (st.just(WEIGHT), cents),
    "percents": (st.just(SHARE), cents.map("{:.1f}%".format)),
    "places": (st.just(Place()), st.builds(Coordinate, st.floats(-90, 90), st.floats(-180, 180))),
    "pairs": (st.just(Place()), st.tuples(st.floats(-90, 90), st.floats(-180, 180)).map(list)),
    "pairs as text": (st.just(Place(True)), st.integers(-90, 90).map(lambda number: f"{number + 1}, {number}").filter(lambda text: text != "91, 90")),
    "named pairs": (st.just(Place()), st.floats(-90, 90).map(lambda number: {"lon": number, "lat": number})),
    "sets": (st.just(Set()), st.lists(tags, min_size=1, unique=True)),
    "sets of one": (st.just(Set()), tags),
    "lists": (st.just(Listed({"": Number()})), st.lists(st.integers(), min_size=1)),
    "lists of parts": (
        st.just(PRIZES),
        st.lists(st.fixed_dictionaries({"year": st.integers(1900, 2000), "on": st.just("1999-02-03")}), min_size=1),
    ),
    "maps": (st.just(MONEY), st.dictionaries(tags, st.fixed_dictionaries({"name": tags}), min_size=1)),
}  # fmt: skip


@pytest.mark.slow
@for_each("form", FORMS)
@settings(max_examples=examples(12))
@given(data=st.data())
def test_a_value_taken_away_and_put_again_stands_as_it_stood(form, data):
    kind, raw = (data.draw(strategy) for strategy in FORMS[form])
    others = data.draw(st.lists(FORMS[form][1], min_size=1, max_size=5))
    styles = styles_of(kind, [raw, *others])
    schema, entity = styles.schema, Entity("e", {"p": raw})
    value = schema.tree(schema.leaves(entity))["p"]
    tree = with_values({}, styles.place(Entity("e"), P, value))
    assert schema.leaves(Entity("e", tree)) == schema.leaves(entity)
    assert tree == {"p": raw}


@given(st.data())
def test_parts_put_beside_those_given_make_the_whole(data):
    kinds = {"date": Day(), "quantity": WEIGHT, "place": Place(), "prizes": PRIZES, "money": MONEY}
    whole = {
        "date": {"year": 2011, "month": 3, "day": 4},
        "quantity": {"value": 5, "unit": "kg"},
        "place": {"lat": 1, "lng": 2},
        "prizes": [{"year": 1901, "on": {"year": 1901, "month": 2}}, {"share": "1"}],
        "money": {"EUR": {"name": "Euro", "since": {"year": 1999}}},
    }
    name = data.draw(st.sampled_from(sorted(kinds)))
    styles = styles_of(kinds[name], [whole[name]])

    def some(value):
        if isinstance(value, list):
            return [some(one) for one in value]
        if not isinstance(value, dict):
            return data.draw(st.sampled_from([value, None]))
        kept = {key: some(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None or data.draw(st.booleans())}

    given = some(whole[name])
    if name == "quantity" and given.get("unit") is None and given.get("value") is not None:
        return  # a bare number is one of the main unit
    value = styles.schema.tree(styles.schema.leaves(Entity("w", {"p": whole[name]})))["p"]
    put = styles.place(Entity("e", {"p": given}), P, value)
    assert with_values({"p": given}, put) == {"p": whole[name]}
    standing = [path for path in put if _is_there(given, path)]
    assert not standing  # nothing given gives way


def _is_there(given, path):
    try:
        return at({"p": given}, path) is not None
    except KeyError:
        return False


# ---------------------------------------------------------------- real knowledge bases


def without(tree, path):
    rest = {key: value for key, value in tree.items() if key != path[0]}
    return rest if len(path) == 1 else {**tree, path[0]: without(tree[path[0]], path[1:])}


def bare(value):
    """A value without its blanks, and its parts in one order: a new member follows the last."""
    if isinstance(value, dict):
        return {key: bare(one) for key, one in sorted(value.items()) if one is not None}
    return [bare(one) for one in value] if isinstance(value, list) else value


def known(schema, entity):
    """The properties of an entity that have a value, and the value."""
    of = schema.class_of(entity)
    for path, one, value in schema.applied(of, entity) if of else ():
        gap = value is None or isinstance(value, Known) or (isinstance(value, Quantity) and value.value is None)
        if not gap:
            yield path, one, value


def put_again(schema, entities, share=1.0, learn=Styles.learn) -> tuple[int, int]:
    """Take properties away, one at a time, and place them; how many there were, and how many stand just as they stood."""
    styles, draw = learn(schema, entities), random.Random(0)
    count = same = 0
    for entity in entities:
        for path, one, value in known(schema, entity):
            if draw.random() > share:
                continue
            left = replace(entity, tree=without(entity.tree, path))
            tree = with_values(left.tree, styles.place(left, path, value))
            again = next(found for at, _, found in known(schema, replace(entity, tree=tree)) if at == path)
            assert split_kind(one.kind, again) == split_kind(one.kind, value), path
            count += 1
            same += repr(bare(at(tree, path))) == repr(bare(at(entity.tree, path)))
    return count, same


def test_the_example_phones_are_what_they_were():
    schema = Schema.read(EXAMPLES / "phones.yaml")
    count, same = put_again(schema, list(load(EXAMPLES / "phones.jsonl")))
    assert count > 700
    assert count - same == 1  # the one that is given in ounces


def test_the_example_elements_are_what_they_were():
    kb = load(EXAMPLES / "elements.ttl")
    count, same = put_again(infer.infer(kb).schema, list(kb))
    assert count == same > 1500


@for_each("path", [("launch",), ("weight",), ("networks",), ("display", "pixels", "width"), ("os",)])
def test_a_file_with_a_value_taken_away_reads_the_same_once_it_is_completed(tmp_path, path):
    schema, kb = Schema.read(EXAMPLES / "phones.yaml"), load(EXAMPLES / "phones.jsonl")
    original = list(kb)
    styles = Styles.learn(schema, original)
    left = [
        replace(entity, tree=without(entity.tree, path) if any(path == at for at, *_ in known(schema, entity)) else entity.tree)
        for entity in original
    ]  # fmt: skip
    write(left, tmp_path / "left.jsonl")
    completions = []
    for entity, whole in zip(load(tmp_path / "left.jsonl"), original, strict=True):
        values = [
            value for at, _, value in known(schema, whole) if at == path and path not in known_paths(schema, entity)
        ]
        filled = {at: Filled(raw) for value in values for at, raw in styles.place(entity, path, value).items()}
        completions.append(Completion(entity, filled))
    report = write(completions, tmp_path / "done.jsonl")
    assert not report.unwritable
    assert report.written >= 40
    for done, whole in zip(load(tmp_path / "done.jsonl"), original, strict=True):
        assert schema.leaves(done) == schema.leaves(whole)
        assert repr(bare(done.tree)) == repr(bare(whole.tree)) or path == ("weight",)


def known_paths(schema, entity):
    return {path for path, *_ in known(schema, entity)}


@pytest.mark.slow
@pytest.mark.shared
@for_each(
    ("file", "schema", "share", "exact"),
    [
        ("json/countries.json", "country", 0.3, 1.0),
        ("json/nobel_laureates.json", "laureate", 0.3, 1.0),
        ("gsm/gsm_processed.csv", "phone", 0.1, 1.0),
    ],
)
def test_real_knowledge_bases_are_what_they_were(data, file, schema, share, exact):
    count, same = put_again(Schema.read(schema), list(load(data / file))[:2000], share, SourceStyles)
    assert count > 1000
    assert same >= exact * count


def test_new_values_in_a_table_look_like_those_of_their_columns(tmp_path):
    rows = [
        "@id,launch.year,launch.month,weight,born,price,net",
        "a,1999.0,2.0,6.9kg,5.3.1913,1.50,3G",
        "b,2001.0,11.0,5kg,28.11.1912,2.25,4G",
    ]
    (tmp_path / "kb.csv").write_text("\n".join([*rows, "c,2011.0,,,,,", ""]))
    kinds = {"launch": Day(), "weight": WEIGHT, "born": Day("dmy"), "price": Number(), "net": Set()}
    schema = of_one_class({(name,): Property(kind) for name, kind in kinds.items()})
    kb = load(tmp_path / "kb.csv")
    styles, entity = Styles.learn(schema, kb), list(kb)[-1]
    values = {
        "launch": Date(2011, 3),
        "weight": Quantity(3.0, "kg"),
        "born": Date(2011, 3, 4),
        "price": 9.5,
        "net": ["3G"],
    }
    filled = {
        at: Filled(raw) for name, value in values.items() for at, raw in styles.place(entity, (name,), value).items()
    }
    report = write([Completion(entity, filled)], tmp_path / "done.csv")
    assert not report.unwritable
    assert (tmp_path / "done.csv").read_text().splitlines() == [*rows, "c,2011.0,3.0,3kg,4.3.2011,9.50,3G"]


def test_new_values_in_rdf_are_left_to_its_writer_as_what_they_are(tmp_path):
    kb = load(EXAMPLES / "elements.ttl")
    schema, entities = infer.infer(kb).schema, list(kb)
    styles = Styles.learn(schema, entities)
    values = {
        ("density",): Quantity(1.25, "g/cm3"),
        ("meltingPoint",): Quantity(300, "K"),
        ("discovered",): Date(1899),
        ("discoveredIn",): Link("https://example.org/elements/Sweden"),
        ("phase",): "solid",
        ("group",): 3,
    }
    wanted = {}
    for entity in entities:
        there = {path[0] for path in schema.leaves(entity)}
        missing = {path: value for path, value in values.items() if path[0] not in there}
        if entity.classes[:1] and entity.classes[0].endswith("#Element") and missing:
            wanted[entity.id] = entity, missing
    completions = [
        Completion(
            entity,
            {
                at: Filled(raw)
                for path, value in missing.items()
                for at, raw in styles.place(entity, path, value).items()
            },
        )
        for entity, missing in wanted.values()
    ]
    source_styles = SourceStyles(schema, entities), SourceStyles(schema, tuple(entities))
    for entity, missing in wanted.values():
        for path, value in missing.items():
            assert all(
                of_source.place(entity, path, value) == styles.place(entity, path, value) for of_source in source_styles
            )
    report = write(completions, tmp_path / "done.ttl")
    assert not report.unwritable
    assert report.written > 50
    for done in load(tmp_path / "done.ttl"):
        if done.id in wanted:
            entity, missing = wanted[done.id]
            whole = replace(done, tree=with_values(done.tree, done.made))  # what was filled in is not given
            assert known_paths(schema, whole) == known_paths(schema, entity) | missing.keys()


@pytest.mark.shared
@for_each(("file", "schema"), [("countries", "country"), ("nobel_laureates", "laureate")])
def test_a_json_file_with_values_taken_away_is_what_it_was_once_it_is_completed(data, tmp_path, file, schema):
    original = json.loads((data / "json" / f"{file}.json").read_text())
    (tmp_path / "whole.json").write_text(json.dumps(original))
    schema, draw = Schema.read(schema), random.Random(1)
    entities = list(load(tmp_path / "whole.json"))
    styles, taken = SourceStyles(schema, entities), []
    left = []
    for entity, record in zip(entities, original, strict=True):
        path, _, value = draw.choice([one for one in known(schema, entity) if one[0] != ("id",)])
        taken.append((path, value))
        left.append(without(record, path))
    (tmp_path / "left.json").write_text(json.dumps(left))
    completions = [
        Completion(entity, {at: Filled(raw) for at, raw in styles.place(entity, path, value).items()})
        for entity, (path, value) in zip(load(tmp_path / "left.json"), taken, strict=True)
    ]
    report = write(completions, tmp_path / "done.json")
    assert not report.unwritable
    assert json.loads((tmp_path / "done.json").read_text()) == original
