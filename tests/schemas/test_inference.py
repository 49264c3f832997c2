"""The inferred schema: what each path becomes and why; real knowledge bases fit theirs; any trees have one."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import leaves, trees
from tables import examples, for_each

import kbdisk
from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Entity, Link, Quantity, Text, at, read_path
from kbdisk.errors import LoadError
from kbdisk.schemas import kinds
from kbdisk.schemas.composites import coordinate, date, listed, mapped, quantity
from kbdisk.schemas.infer import infer
from kbdisk.schemas.infer.decision import percent
from kbdisk.schemas.infer.read import ClassRanking
from kbdisk.schemas.infer.statistics import ALL_SAMPLED as LOOKED_AT
from kbdisk.schemas.infer.statistics import MAX_COUNTED, MAX_HASHES, MAX_KEYS, Budget, DistinctCounter, ValueSketch

NAMES = ["Ada", "Ben", "Cleo", "Dora", "Emil", "Fay"]


def entities(*values, key="x"):
    """Entities with one property each."""
    return [Entity(f"e{i}", {key: value}) for i, value in enumerate(values)]


def decided(values, key="x"):
    """The property at one path, and the reason for it."""
    found = infer(entities(*values, key=key))
    return found.schema.classes[""].properties.get((key,)), found.reasons.get(("", (key,))) or found.left_out[
        "", (key,)
    ]


def kind(values, key="x"):
    return decided(values, key)[0].kind


def fitting(values, key="x"):
    """The kind, and all the values in the form of the kind: every one of them has to fit."""
    schema = infer(entities(*values, key=key)).schema
    assert [schema.check(entity) for entity in entities(*values, key=key)] == [[]] * len(values)
    return schema.classes[""].properties[key,].kind


# ---------------------------------------------------------------- numbers


def test_numbers_that_are_never_negative_have_0_as_their_least():
    assert kind([3, 4.25, 7]) == kinds.Number(minimum=0, decimals=2)
    assert kind([-3, 4.5]) == kinds.Number(decimals=1)


def test_floats_that_are_all_whole_are_whole_numbers():
    assert kind([2010.0, 2011.0, 5.0]) == kinds.Number(integer=True, minimum=0)
    assert kind([Decimal("2"), Decimal("1E+2"), 7]) == kinds.Number(integer=True, minimum=0)
    assert not kind([2010.0, 2011.5]).integer


def test_years_stay_numbers():
    one, why = decided([1999, 2004, 2010])
    assert one.kind == kinds.Number(integer=True, minimum=0)
    assert "such as years" in why


def test_numbers_over_many_orders_of_magnitude_are_learnt_by_their_logarithm():
    dice = random.Random(1)
    assert kind([10 ** dice.uniform(0, 6) for _ in range(200)]).transform == "log"
    assert kind([dice.gauss(100, 5) for _ in range(200)]).transform == "auto"


def test_0_and_1_are_labels_and_more_numbers_are_numbers():
    assert kind([0, 1] * 20) == kinds.Category((0, 1), closed=True)
    assert kind([0, 1, 2] * 20) == kinds.Number(integer=True, minimum=0)


def test_whole_numbers_that_all_differ_are_an_id_only_by_their_name():
    assert decided(range(50), key="phone_id")[0].role == "ignore"
    assert decided(range(50), key="weight")[0].role == "value"
    assert kind([3, 4, 4, 5] * 20, key="oem_id") == kinds.Category()


def test_minus_one_among_large_numbers_stands_for_no_value():
    one, why = decided([-1, -1, *range(1000, 1100)])
    assert one.missing == ("-1",)
    assert one.kind.minimum == 0
    assert "-1 stands for no value 2 times" in why
    assert decided([-1, 0, 1] * 20)[0].missing == ()
    assert decided([-2, -1, *range(1000, 1100)])[0].missing == ()


def test_degrees_may_be_negative_where_none_is():
    assert kind([48.2, 50.1], key="latitude") == kinds.Number(minimum=-90, maximum=90, decimals=1)
    assert kind([48.2, 450.1], key="latitude").maximum is None


def test_a_value_that_is_always_the_same_is_ignored():
    for value in (5, "same", True, Link("one")):
        one, why = decided([value] * 30)
        assert one.role == "ignore"
        assert "nothing to learn" in why
    assert decided([5] * 5)[0].role == "value"


def test_a_value_that_is_always_the_same_is_learnt_where_many_entities_have_none():
    for value in (5, "same", True, Link("one")):
        trees = [{"x": value, "n": n} for n in range(30)] + [{"n": n} for n in range(30)]
        found = infer([Entity(f"e{n}", tree) for n, tree in enumerate(trees)])
        [of] = found.schema.classes.values()
        assert of.properties["x",].role == "value"
        assert "50 % filled" in found.reasons["", ("x",)]
        assert found.reasons["", ("x",)].endswith("in all 30 values; which entities have it is learnt")


# ---------------------------------------------------------------- strings


def test_numbers_written_as_strings_are_numbers():
    values = [str(number) for number in range(100, 180)]
    assert fitting(values) == kinds.Number(integer=True, minimum=0)
    assert fitting(["1.5", "-2", "3e4"]) == kinds.Number(decimals=1)


def test_numbers_with_commas_are_quantities_without_a_unit():
    assert fitting(["1,234", "12,345,678", "99"]) == quantity.Quantity(value=kinds.Number(integer=True, minimum=0))


def test_no_comma_parts_thousands_behind_a_zero():
    assert fitting([f"{n // 8},{n % 8 * 125:03}" for n in range(30)]).comma
    assert fitting(["0,125 g", "0,250 g", "1,200 g"]).comma
    assert isinstance(kind(["010,100", "020,200", "010,300"] * 10), kinds.Category)


def test_digits_with_zeros_in_front_are_codes():
    one, why = decided(["004", "010", "123"] * 10)
    assert isinstance(one.kind, kinds.Category)
    assert "codes" in why


def test_few_different_digits_are_labels():
    assert kind(["1", "2", "4"] * 20) == kinds.Category(("1", "2", "4"), closed=True)


@for_each(
    ("values", "unit", "others"),
    [
        (["0.7 m", "1.25 m", "3 m"], "m", ()),
        (["6.9 kg", "70 kg", "190 g"], "kg", ("g",)),
        (["12%", "9 %", "15.5%"], "%", ()),
        (["1,200 km²", "3 km²"], "km²", ()),
        (["$1,200.50", "$3", "-$4.25"], "$", ()),
        (["US$ 5", "US$ 6.50", "7 €"], "US$", ("€",)),
    ],
)
def test_numbers_with_a_unit_are_quantities(values, unit, others):
    found = fitting(values)
    assert isinstance(found, quantity.Quantity)
    assert (found.unit, tuple(found.factors)) == (unit, others)


def test_digits_of_other_scripts_are_no_amounts():
    assert kind([f"${i}" for i in range(150)] + ["$\u0663"]) == fitting([f"${i}" for i in range(150)])


def test_a_few_labels_that_begin_with_a_digit_are_no_quantities():
    assert kind(["3G", "4G", "5G"] * 20) == kinds.Category(("3G", "4G", "5G"), closed=True)


@for_each("spell", [int, str])
def test_days_written_as_whole_numbers_are_evidence_alone(spell):
    days = [2012_00_00 + 100 * month + day for month in range(1, 13) for day in (1, 28)]
    one, why = decided([spell(day) for day in days])
    assert one.role == "given"
    assert "days as whole numbers, such as 20120101: an input alone" in why
    assert decided([spell(day) for day in [*days, 2012_02_30]])[0].role == "value"  # no day
    assert decided([spell(day + 20) for day in days])[0].role == "value"


def test_floats_beyond_what_is_exact_are_no_whole_numbers():
    assert fitting([6.02e23, 1.5e24, 1.0, 7.0]) == kinds.Number(minimum=0)
    assert fitting([6.0, 15.0, 1.0, 7.0]) == kinds.Number(integer=True, minimum=0)
    assert fitting([1e15, 1.0, 7.0]).integer is False


def test_infinite_numbers_stand_on_no_scale():
    one, why = decided([*(n / 7 for n in range(95)), "INF", "-INF", "INF"])
    assert isinstance(one.kind, kinds.Number)
    assert one.novalue == ("-INF", "INF")
    assert "-INF, INF stands on no scale" in why


@for_each(
    ("values", "unit"),
    [
        (["0,7 m", "1,25 m", "3,1 m"], "m"),
        (["1.200,50 €", "3 €", "-4,25 €"], "€"),
        (["€5,50", "€1.200"], "€"),
        (["1.234.567 km²", "3 km²"], "km²"),
    ],
)
def test_amounts_with_commas_before_decimals_are_quantities(values, unit):
    found, why = decided(values)
    assert (found.kind.unit, found.kind.comma) == (unit, True)
    assert "numbers with commas before decimals and a unit such as" in why
    assert fitting(values) == found.kind


def test_numbers_with_commas_before_decimals_are_quantities_without_a_unit_unless_they_are_few():
    values = [f"{i},5" for i in range(15)] + ["1.234.567", "99"]
    assert fitting(values) == quantity.Quantity(value=kinds.Number(minimum=0, decimals=1), comma=True)
    assert isinstance(kind(["1", "1,3", "2,3"] * 20), kinds.Category)  # as likely one label and two
    assert isinstance(kind(["1,5", "2.5", "3.25"] * 20 + [f"{i},5" for i in range(20)]), kinds.Text | kinds.Category)


def test_strings_that_come_again_are_labels_and_others_text():
    assert kind(["red", "blue"] * 30) == kinds.Category(("blue", "red"), closed=True)
    assert kind([f"a name of {i}" for i in range(60)]) == kinds.Text()
    assert kind([f"maker {i % 40}" for i in range(300)]) == kinds.Category()
    _one, why = decided(["red", "blue"] * 30)
    assert why == "100 % filled; 2 labels in 60 values, and hardly a new one is to come"


def test_long_strings_are_text_even_where_some_come_again():
    story = " ".join(NAMES) + " went to the market and bought things of number "
    assert kind([story + str(i % 30) for i in range(90)]) == kinds.Text()


def test_yes_and_no_are_labels_true_and_false_are_truths():
    assert kind(["yes", "no"] * 20) == kinds.Category(("no", "yes"), closed=True)
    assert kind([True, False] * 20) == kinds.Boolean()


def test_codes_that_all_differ_are_ids_and_names_are_not():
    one, why = decided([f"X{i}" for i in range(40)])
    assert (one.kind, one.role, one.unique) == (kinds.Text(), "ignore", True)
    assert "an id" in why
    assert decided([f"Phone {i}" for i in range(40)])[0].role == "value"


def test_addresses_on_the_web_are_text():
    one, why = decided([f"https://example.org/{i}" for i in range(40)])
    assert (one.kind, one.role) == (kinds.Text(), "value")
    assert "addresses" in why


def test_spellings_of_a_gap_are_told_and_do_not_count():
    one, why = decided(["", "n/a", "12 g", "13 g", "14 g"])
    assert isinstance(one.kind, quantity.Quantity)
    assert one.missing == ("", "n/a")
    assert "stands for no value 2 times" in why
    assert decided([1, 2, 3, "", "?"])[0].missing == ("", "?")
    assert decided(["", "nan"]) == (None, "100 % filled; nothing but '', 'nan'")


def test_what_stands_for_no_value_does_not_fill():
    assert decided(["red", "blue", "red", ""] * 10)[1].startswith("75 % filled; '' stands for no value 10 times")
    assert decided([*range(1000, 1039), -1])[1].startswith("98 % filled; -1 stands for no value once")
    assert decided([1, 2, 3, "?"])[1].startswith("75 % filled; '?' stands for no value")
    assert decided([Quantity(1, "g"), Quantity(None, "g")])[1].startswith("50 % filled")
    assert decided([{"value": 1, "unit": "g"}, {"value": None, "unit": "g"}])[1].startswith("50 % filled")
    assert decided([Quantity(None, "g")] * 2) == (None, "never filled")


def test_gaps_are_counted_of_all_values_where_not_all_are_looked_at():
    why = decided(["red", "blue", "green", ""] * (LOOKED_AT // 2))[1]
    assert why.startswith("75 % filled")


def test_what_is_told_of_numbers_and_lengths_is_so():
    assert "the number 25 alone" in decided([25, 25])[1]
    assert "from 1007825 to 294213979" in decided([1007825.03, 294213978.6])[1]
    assert "at least 200 characters" in decided(["y" * 3000])[1]


def test_it_is_told_where_not_all_of_a_list_is_learnt():
    names = iter(range(10**6))
    one, why = decided([[f"Name {next(names)}" for _ in range(2 + 28 * (n == 0))] for n in range(60)])
    assert one.kind.most == 2
    assert "30 at most, of which 2 are learnt" in why


def test_numbers_and_strings_at_one_path_are_labels():
    one, why = decided([1, 2, "three"] * 10)
    assert one.kind == kinds.Category()
    assert "67 % numbers, 33 % strings" in why


def test_the_language_of_text_is_told_where_there_is_one():
    assert kind([Text(name, "de") for name in NAMES]) == kinds.Text(language="de")
    assert kind([Text("a", "de"), Text("b", "fr"), "c"]) == kinds.Text()


# ---------------------------------------------------------------- dates


def test_iso_dates_are_dates_and_zeros_say_that_there_is_none():
    one, why = decided(["1912-11-28", "0000-00-00", "1943-00-00"])
    assert one.kind == date.Date(parts=("year", "month", "day"))
    assert one.novalue == ("0000-00-00",)
    assert "0000-00-00 says that there is none" in why
    fitting(["1912-11-28", "0000-00-00", "1943-00-00"])


@for_each(
    ("values", "order"),
    [
        (["28/11/1912", "01/02/1999"], "dmy"),
        (["11/28/1912", "01/02/1999"], "mdy"),
        (["1912/11/28", "1999/02/01"], "ymd"),
        (["28.11.1912", "1.2.1999"], "dmy"),
    ],
)
def test_dates_in_one_order_are_dates(values, order):
    assert fitting(values) == date.Date(order=order)


def test_dates_in_both_orders_are_no_dates():
    one, why = decided(["28/11/1912", "11/28/1912", "01/02/1999"])
    assert one.kind == kinds.Text()
    assert "dates in both orders (28/11/1912, 11/28/1912): the order is ambiguous" in why


def test_dates_whose_order_nothing_tells_are_no_dates():
    one, why = decided(["01/02/1999", "03/04/2001"])
    assert one.kind == kinds.Text()
    assert "none tells which is the day" in why


def test_parts_that_are_year_month_and_day_are_one_date():
    assert (
        fitting([{"year": 1999.0, "month": 3.0, "day": None}, {"year": 2001, "month": None, "day": None}])
        == date.Date()
    )
    assert fitting([{"year": 1999, "month": 3}]) == date.Date(parts=("year", "month"))


def test_parts_with_a_month_13_are_no_date():
    schema = infer(entities({"year": 1999, "month": 13})).schema
    assert list(schema.classes[""].properties) == [("x", "year"), ("x", "month")]


def test_dates_of_rdf_tell_their_parts_and_how_rough_they_are():
    assert kind([Date(1999), Date(2001)]) == date.Date(parts=("year",))
    assert kind([Date(1999, 3), Date(1900, precision="century")]) == date.Date(parts=("year", "month"), coarse=True)


# ---------------------------------------------------------------- quantities, places, links


def test_units_of_rdf_are_told():
    found = fitting([Quantity(1, "g"), Quantity(2, "g"), Quantity(3, "kg"), Quantity(None, "g")])
    assert found == quantity.Quantity("g", {"kg": 1000.0}, kinds.Number(integer=True, minimum=0))
    assert fitting([Quantity(1.5, "g"), 3]).unit is None
    assert fitting([{"value": 1, "unit": "cm"}, {"value": 2, "unit": "in"}, {"value": 2, "unit": "cm"}]).units() == (
        "cm",
        "in",
    )


def test_units_beyond_number_are_all_taken():
    assert fitting([Quantity(i, f"unit{i}") for i in range(40)]).any_unit


@for_each(
    ("key", "values", "longitude_first"),
    [
        ("place", [{"lat": 48.2, "lng": 16.4}], False),
        ("latlng", [[12.5, -69.9], [-80, 170]], False),
        ("coordinates", [[170, 48.2], [16.4, -80]], True),
        ("location", ["48.2, 16.37", "-33, 151.2"], False),
        ("x", [Coordinate(48.2, 16.37)], False),
    ],
)
def test_pairs_of_degrees_are_places(key, values, longitude_first):
    assert fitting(values, key) == coordinate.Coordinate(longitude_first)


def test_pairs_of_numbers_beyond_all_degrees_are_lists():
    assert isinstance(kind([[500, 3], [2, 4]], key="position"), listed.Listed)


def linked(*targets):
    cities = [Entity(f"c{i}", {}, ("http://x/City",)) for i in range(5)]
    rivers = [Entity(f"r{i}", {}, ("http://x/River",)) for i in range(5)]
    return [
        *cities,
        *[Entity(f"l{i}", {"at": Link(one)}, ("http://x/Land",)) for i, one in enumerate(targets)],
        *rivers,
    ]


def test_links_tell_the_class_that_they_go_to_before_and_after():
    found = infer(linked("c0", "c1", "c2"))
    assert found.schema.classes["Land"].properties["at",].kind == kinds.Link("City")
    assert "100 % of them to City" in found.reasons["Land", ("at",)]
    assert infer(linked("r0", "r1", "r2")).schema.classes["Land"].properties["at",].kind == kinds.Link("River")


def test_links_to_several_classes_or_to_nothing_here_tell_none():
    found = infer(linked("c0", "r1", "r2"))
    assert found.schema.classes["Land"].properties["at",].kind == kinds.Link()
    assert "River 67 %, City 33 %" in found.reasons["Land", ("at",)]
    assert "not in this source" in infer(linked("z1", "z2")).reasons["Land", ("at",)]


# ---------------------------------------------------------------- several values


def test_several_labels_or_links_are_a_set():
    assert fitting([["red", "blue"], ["blue"], "red"] * 10).of == kinds.Category(("blue", "red"), closed=True)
    assert fitting([[Link("a"), Link("b")], Link("c")]) == kinds.Set(kinds.Link())


def test_labels_twice_in_a_list_are_no_set():
    assert kind([["a", "a"], ["a", "b", "b"]] * 10) == listed.Listed({"": kinds.Category(("a", "b"), closed=True)}, 3)


def test_several_texts_or_numbers_are_a_list():
    assert fitting([[1.5, 2.5], [3.5]]) == listed.Listed({"": kinds.Number(minimum=0, decimals=1)}, 2)
    assert isinstance(fitting([["Kabul"], ["Luanda", "Pretoria"], []]), listed.Listed)


def test_few_different_numbers_at_a_time_are_labels():
    assert fitting([[-1, 2], [3], [2, 3, 4]] * 10) == kinds.Set(kinds.Category())


def test_a_rare_second_number_does_not_make_a_list():
    one, why = decided([*range(100), [5, 7]])
    assert isinstance(one.kind, kinds.Number)
    assert one.many == "median"
    assert "the middle one counts" in why
    assert decided([*[Date(1900 + i) for i in range(50)], [Date(1999), Date(2000)]])[0].many == "latest"


def test_gaps_and_known_unknowns_in_a_list_do_not_spoil_it():
    assert fitting([[None, "red"], [SOMEVALUE, "blue"], ["red", NOVALUE]] * 5)
    assert isinstance(fitting([[None, 1.5], [SOMEVALUE, 2.5]]), listed.Listed)


def test_a_list_of_parts_is_a_list_and_a_part_alone_is_one_of_it():
    prizes = [{"year": 1901 + i, "share": "1/2"} for i in range(4)]
    found = fitting([prizes[:2], prizes[2], prizes[1:]])
    assert isinstance(found, listed.Listed)
    assert list(found.fields) == ["year", "share"]
    assert found.most == 3


def test_lists_within_lists_keep_their_fields():
    found = fitting([[{"n": 1, "of": [{"name": "a"}, {"name": "b"}]}, {"n": 2, "of": [[]]}]])
    assert found.fields["of"].fields == {"name": kinds.Text()}


# ---------------------------------------------------------------- parts and maps


def test_parts_that_do_not_vary_stay_paths():
    schema = infer(entities({"common": "a b", "official": "b"}, {"common": "c d", "official": "d"})).schema
    assert list(schema.classes[""].properties) == [("x", "common"), ("x", "official")]


def currencies(*codes):
    return {code: {"name": f"the {code}", "symbol": code[0]} for code in codes}


def test_keys_that_vary_and_look_like_codes_are_labels():
    found = fitting([currencies("EUR"), currencies("USD", "PAB"), currencies("XAF"), currencies("CHF")])
    assert isinstance(found, mapped.Mapped)
    assert list(found.fields) == ["name", "symbol"]
    assert found.most == 2


def test_a_map_to_plain_values_has_one_field_without_a_name():
    found = fitting([{"deu": "German"}, {"fra": "French", "nld": "Dutch"}, {"ita": "Italian"}])
    assert found.fields == {"": kinds.Text()}


def test_many_codes_are_labels_even_where_each_part_has_all_of_them():
    codes = ["ara", "bre", "ces", "deu", "est", "fin", "fra", "hrv", "hun"]
    assert isinstance(kind([dict.fromkeys(codes, f"name {i}") for i in range(9)]), mapped.Mapped)


def test_words_that_vary_are_names():
    parts = [{"height": 1, "width": 2}, {"depth": 3}, {"weight": 4, "length": 5}, {"radius": 1}]
    assert len(infer(entities(*parts)).schema.classes[""].properties) == 6


def test_keys_that_are_labels_elsewhere_are_labels_here():
    trees = [
        {"languages": {code: "so called"}, "demonyms": {"eng": "Xian", "fra": "Xien"}}
        for code in ("eng", "fra", "deu", "nld", "ita", "spa")
    ]
    schema = infer([Entity(str(i), tree) for i, tree in enumerate(trees)]).schema
    assert isinstance(schema.classes[""].properties["demonyms",].kind, mapped.Mapped)


def test_keys_without_end_are_labels_and_take_no_room():
    parts = [{f"user {i} {j}": j for j in range(10)} for i in range(MAX_KEYS // 4)]
    one, why = decided(parts)
    assert isinstance(one.kind, mapped.Mapped)
    assert "more than 2,000 different keys" in why


def test_what_lies_too_deep_is_left_out_with_a_reason():
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    assert decided([deep])[0] is None
    for _ in range(400):
        deep = {"a": deep}
    found = infer(entities(deep))
    assert found.schema.classes[""].properties == {}


def test_what_is_never_filled_is_left_out_with_a_reason():
    assert decided([None, None]) == (None, "never filled")
    assert decided([SOMEVALUE, None]) == (None, "never filled")


# ---------------------------------------------------------------- classes, ids, IRIs


def test_each_class_has_its_own_properties_and_a_short_name():
    schema = infer(
        [Entity("a", {"n": 1}, ("http://x/City",)), Entity("b", {"m": 1}, ("http://y#River",)), Entity("c", {"o": 1})]
    ).schema
    assert {name: (one.iri, list(one.properties)) for name, one in schema.classes.items()} == {
        "City": ("http://x/City", [("n",)]),
        "River": ("http://y#River", [("m",)]),
        "": (None, [("o",)]),
    }


def test_classes_with_the_same_last_word_keep_apart():
    schema = infer([Entity("a", {"n": 1}, ("http://x/City",)), Entity("b", {"m": 1}, ("http://y/City",))]).schema
    assert set(schema.classes) == {"City", "http://y/City"}


def test_of_several_classes_the_larger_counts_unless_it_is_a_mere_roof():
    choice = ClassRanking()
    choice.settle({("Mountain",): 100, ("Mountain", "Volcano"): 30, ("Agent", "Person"): 50, ("Agent", "Company"): 20})
    assert choice.of(("Volcano", "Mountain")) == "Mountain"
    assert choice.of(("Agent", "Person")) == "Person"
    assert choice.of(("Company", "Agent")) == "Company"
    assert choice.of(("Agent",)) == "Agent"
    assert choice.of(("http://www.w3.org/2002/07/owl#Thing", "new")) == "new"


def test_of_several_classes_one_of_hardly_any_entities_counts_last():
    capitals = {("City", f"Capital of {i}"): 1 for i in range(120)}
    choice = ClassRanking()
    choice.settle({**capitals, ("City", "Port"): 40, ("Village",): 900})
    assert choice.of(("Capital of 3", "City")) == "City"
    assert choice.of(("City", "Port")) == "City"
    assert choice.of(("Capital of 3",)) == "Capital of 3"


def test_the_schema_finds_the_class_that_was_counted():
    met = [Entity(f"a{i}", {"n": i}, ("Agent", "Person") if i % 2 else ("Agent", "Company")) for i in range(20)]
    schema = infer([*met, Entity("z", {"n": 1}, ("Agent",))]).schema
    assert [schema.class_of(entity).name for entity in met[:2]] == ["Company", "Person"]
    assert schema.class_of(Entity("z", {}, ("Agent",))).name == "Agent"


def test_only_the_classes_that_were_asked_for():
    met = [Entity("a", {"n": 1}, ("http://x/City",)), Entity("b", {"m": 1}, ("http://y#River",))]
    assert list(infer(met, classes=["City"]).schema.classes) == ["City"]
    assert list(infer(met, classes=["http://y#River"]).schema.classes) == ["River"]
    with pytest.raises(LoadError, match=r"no entity is of the class 'Lake'; its classes are City, River\.$"):
        infer(met, classes=["Lake"])
    with pytest.raises(LoadError, match="its entities have no class"):
        infer([Entity("a", {"n": 1})], classes=["Lake"])


def test_a_class_that_was_asked_for_counts_before_the_others_of_an_entity():
    met = [Entity(f"a{n}", {"n": n}, ("Mountain", "Volcano")[: 1 + (n < 2)]) for n in range(30)]
    assert list(infer(met, classes=["Volcano"]).schema.classes) == ["Volcano"]


def test_the_id_is_told_and_ignored():
    found = infer([Entity(f"p{i}", {"code": f"p{i}", "n": i % 7}) for i in range(20)])
    assert found.schema.classes[""].id == ("code",)
    assert found.schema.classes[""].properties["code",].role == "ignore"
    assert found.reasons["", ("code",)] == "the id of each entity"


@for_each("spelt", [str, int])
def test_an_id_that_several_share_is_not_unique(spelt):
    found = infer([Entity(str(n // 2), {"code": spelt(n // 2), "n": n}) for n in range(40)])
    assert not found.schema.classes[""].properties["code",].unique
    assert found.reasons["", ("code",)] == "the id of each entity, though some share one"


def test_iris_and_prefixes_are_those_of_the_source():
    kb = kbdisk.load(b"@prefix v: <http://v#> . <urn:a> a v:City ; v:size 3 .", format="turtle")
    schema = kbdisk.infer(kb).schema
    assert schema.classes["City"].properties["size",].iri == "http://v#size"
    assert schema.prefixes["v"] == "http://v#"


def test_properties_of_a_wikibase_are_labelled():
    found = infer(
        [Entity("http://w/P31", {}, ("Property",), "instance of"), Entity("Q1", {"P31": Link("Q2")}, ("Item",))]
    )
    assert found.schema.classes["Item"].properties["P31",].label == "instance of"


def test_nothing_has_a_schema_too():
    assert infer([]).schema.classes[""].properties == {}


def test_a_schema_is_the_same_whatever_the_order_of_hashes():
    met = [Entity(str(i), {"a": f"name {i}", "b": i % 3, "c": [1, None, "x"][i % 3]}) for i in range(2000)]
    assert infer(met) == infer(met)


# ---------------------------------------------------------------- many


def test_many_different_strings_are_counted_by_a_sketch():
    labels = ValueSketch(Budget())
    for start in range(0, 60_000, 500):
        labels.take([f"string {i}" for i in range(start, start + 500)])
    assert not labels.exact
    assert len(labels.counts) <= MAX_COUNTED
    assert labels.distinct() == pytest.approx(60_000, rel=0.15)
    assert len(list(labels.weighted())) == 1000


def test_the_most_frequent_outlive_a_flood():
    labels = ValueSketch(Budget())
    for start in range(0, 40_000, 400):
        labels.take([f"string {i}" for i in range(start, start + 400)] + ["often"] * 100)
    assert labels.counts.most_common(1) == [("often", 10_000)]


def test_a_sketch_of_few_is_exact():
    few = DistinctCounter()
    few.add(range(MAX_HASHES // 2))
    few.add(range(MAX_HASHES // 2))
    assert few.count() == MAX_HASHES // 2


def test_paths_share_their_room():
    budget = Budget(values=1000)
    labels = [ValueSketch(budget) for _ in range(20)]
    for one in labels:
        one.take([f"value {i}" for i in range(400)])
    assert sum(len(one.counts) for one in labels) <= 1000 + 20 * 256
    assert not labels[-1].exact


def test_a_rare_path_of_a_long_source_is_looked_at_closely():
    met = (
        Entity(str(i), {"n": i, **({"rare": "red" if i % 2 else "blue"} if i % 97 < 2 else {})}) for i in range(30_000)
    )
    found = infer(met)
    assert found.schema.classes[""].properties["rare",].kind == kinds.Category(("blue", "red"), closed=True)


def test_a_late_negative_number_is_not_overlooked():
    met = [Entity(str(i), {"n": i + 0.5}) for i in range(20_000)] + [Entity("last", {"n": -7.5})]
    assert infer(met).schema.classes[""].properties["n",].kind.minimum is None


@for_each(
    ("share", "text"), [(1, "100 %"), (0.9999, "more than 99.9 %"), (0.996, "99.6 %"), (0.5, "50 %"), (0.004, "0.4 %"), (0.0001, "less than 0.1 %"), (0, "0 %")]
)  # fmt: skip
def test_a_share_in_words_is_never_rounded_to_all_or_nothing(share, text):
    assert percent(share) == text


# ---------------------------------------------------------------- any trees


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(trees(), max_size=5))
def test_any_trees_have_a_schema_and_go_through_it(some):
    goes_through(some)


KEYED = st.sampled_from(
    ["year", "month", "day", "lat", "lng", "value", "unit", "id", "en", "de", "fr", "es", "it", "key", "location", ""]
)
ODD = st.sampled_from([
    "", "-", 1, 12, 0, -1, 2019, "1912-11-28", "0000-00-00", "12/11/1912", "6 kg", "7 g", "1,234", "004", "x", "y", True,
    Link("1"), Text("a", "en"), Date(2019, 1), Quantity(1, "g"), Quantity(None, "kg"), Coordinate(1, 2), "48.2, 16.3", [1, 2],
    [[]], [], None, NOVALUE,
])  # fmt: skip
NESTED = st.recursive(
    ODD | leaves(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYED, inner, max_size=5), max_leaves=10
)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.dictionaries(KEYED, NESTED, max_size=6), max_size=25))
def test_trees_whose_keys_mean_something_go_through_their_schema(some):
    goes_through(some)


def goes_through(some):
    """The inferred schema applies, checks, and its leaves make the same leaves again."""
    met = [Entity(str(i), tree) for i, tree in enumerate(some)]
    found = infer(met)
    of = found.schema.classes[""]
    assert set(found.reasons) == {("", path) for path in of.properties}
    for entity in met:
        found.schema.check(entity)
        applied = found.schema.apply(entity)
        assert found.schema.apply(applied).tree == applied.tree
        known = found.schema.leaves(applied)
        again = Entity(entity.id, found.schema.tree(known, ""))
        assert found.schema.leaves(again) == known


# ---------------------------------------------------------------- real knowledge bases


def share_that_fits(kb, schema):
    """The share of the values at the properties of a schema that fit, and of all values that a property is for."""
    values = misfits = 0
    for entity in kb:
        of = schema.class_of(entity)
        misfits += len(schema.check(entity))
        values += sum(is_there(entity.tree, path) for path in of.properties)
    return 1 - misfits / values


def is_there(tree, path):
    try:
        at(tree, path)
    except KeyError:
        return False
    return True


@pytest.fixture(scope="module")
def inferred(data):
    """A knowledge base and what is inferred from it, once for all tests."""
    found = {}

    def of(name):
        if name not in found:
            kb = kbdisk.load(data / name)
            found[name] = kb, kbdisk.infer(kb)
        return found[name]

    return of


ALL_SAMPLED = [
    "json/countries.json",
    "json/nobel_laureates.json",
    "rdf/mondial/mondial-europe.n3",
    "rdf/wikibase_fixtures/Q4_statements.nt",
    "wikidata_json/wbgetentities-Douglas-Adams.json",
]
MORE = [
    "gsm/gsm_processed.csv",
    "nuclear/ground_states.csv",
    "nuclear/nuclear_processed.csv",
    "json/nobel_prizes.json",
    "rdf/wikidata/Q42.ttl",
    "rdf/wikibase_fixtures/full-dump-entities.nt",
    "wikidata_json/sample-dump-20150815.json.gz",
]


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::kbdisk.KBDiskWarning")
@pytest.mark.parametrize("name", [*ALL_SAMPLED, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_a_real_knowledge_base_fits_its_inferred_schema(inferred, name):
    kb, found = inferred(name)
    assert share_that_fits(kb, found.schema) > 0.99
    assert found.schema.classes
    assert all(found.reasons.values())


@pytest.mark.shared
@for_each("name", ["abalone", "adult", "buddy", "california", "churn2", "diabetes", "house"])
def test_tabular_sets_fit_their_inferred_schema(data, name):
    import numpy

    with numpy.load(data / f"tabular/{name}.npz", allow_pickle=False) as arrays:
        blocks = {key: arrays[key][:500] for key in arrays if key.endswith("_train")}
        rows = [
            {f"{key[:-6]}{i}": value for key, block in blocks.items() for i, value in enumerate(numpy.atleast_1d(block[row]).tolist())}
            for row in range(min(len(block) for block in blocks.values()))
        ]  # fmt: skip
    kb = kbdisk.load(rows)
    schema = kbdisk.infer(kb).schema
    assert share_that_fits(kb, schema) == 1
    assert len(schema.classes[""].properties) == len(rows[0])


@pytest.mark.shared
@for_each(
    ("name", "of", "path", "kind", "more"),
    [
        ("gsm/gsm_processed.csv", "", "weight", kinds.Number, {"minimum": 0}),
        ("gsm/gsm_processed.csv", "", "oem", kinds.Category, {"closed": False}),
        ("gsm/gsm_processed.csv", "", "model", kinds.Text, {}),
        ("gsm/gsm_processed.csv", "", "launch", date.Date, {"parts": ("year", "month", "day")}),
        ("json/nobel_laureates.json", "", "born", date.Date, {"order": "iso"}),
        ("json/nobel_laureates.json", "", "died", date.Date, {}),
        ("json/nobel_laureates.json", "", "gender", kinds.Category, {"values": ("male", "female", "org"), "closed": True}),
        ("json/nobel_laureates.json", "", "prizes", listed.Listed, {"most": 3}),
        ("json/countries.json", "", "latlng", coordinate.Coordinate, {"longitude_first": False}),
        ("json/countries.json", "", "translations", mapped.Mapped, {"most": 24}),
        ("json/countries.json", "", "name.native", mapped.Mapped, {}),
        ("json/countries.json", "", "demonyms", mapped.Mapped, {}),
        ("json/countries.json", "", "independent", kinds.Boolean, {}),
        ("rdf/mondial/mondial-europe.n3", "Country", "population", kinds.Number, {"integer": True, "minimum": 0}),
        ("rdf/mondial/mondial-europe.n3", "Country", "capital", kinds.Link, {"to": "City"}),
        ("rdf/mondial/mondial-europe.n3", "Country", "isMember", kinds.Set, {"of": kinds.Link("Organization")}),
        ("rdf/mondial/mondial-europe.n3", "Country", "hadPopulation", listed.Listed, {}),
        ("rdf/mondial/mondial-europe.n3", "Mountain", "lastEruption", date.Date, {}),
    ],
)  # fmt: skip
def test_what_real_properties_come_out_as(inferred, name, of, path, kind, more):
    found = inferred(name)[1].schema.classes[of].properties[read_path(path)].kind
    assert type(found) is kind
    assert {key: getattr(found, key) for key in more} == more


@pytest.mark.shared
def test_people_who_live_have_died_on_no_date(inferred):
    kb, found = inferred("json/nobel_laureates.json")
    schema = found.schema
    assert schema.classes[""].properties["died",].novalue == ("0000-00-00",)
    alive = sum(schema.apply(entity).tree["died"] is NOVALUE for entity in kb)
    assert alive > 100


@pytest.mark.shared
def test_857_paths_of_countries_are_fewer_than_60_properties_that_cover_them(inferred):
    kb, found = inferred("json/countries.json")
    schema = found.schema
    assert len(schema.classes[""].properties) < 60
    values = sum(1 for entity in kb for _ in entity.properties())
    unknown = sum(1 for entity in kb for _ in schema.unknown(entity))
    assert unknown < 0.05 * values


@pytest.mark.shared
def test_the_schema_survives_yaml_with_its_reasons(inferred):
    from kbdisk.schemas.schema import Schema

    for name in ("json/countries.json", "json/nobel_laureates.json", "rdf/mondial/mondial-europe.n3"):
        _, found = inferred(name)
        text = found.to_yaml()
        assert "# 100 % filled" in text
        again = Schema.read(text)
        for of, one in found.schema.classes.items():
            assert again.classes[of].properties == one.properties


def test_maps_within_lists_and_parts_with_an_empty_key_survive_their_leaves():
    goes_through([{"x": [currencies("EUR"), currencies("USD", "CHF"), currencies("XAF"), currencies("GBP")]}] * 3)
    goes_through([{"x": [{"": 1, "a": 2}, SOMEVALUE, None]}] * 3)


# ---------------------------------------------------------------- what does not fit is said


def test_a_node_that_was_read_with_what_it_is_linked_from_is_a_link_like_any_other():
    values = [Link("http://e.org/a"), {"@id": "_:b0", "unionOf": [Link("http://e.org/b")]}, Link("http://e.org/c")]
    assert fitting(values) == kinds.Link()
    assert "33 % are nodes with properties of their own" in decided(values)[1]
    assert fitting([values, values]) == kinds.Set(kinds.Link())


def test_a_link_among_parts_in_a_list_is_a_part_that_stands_elsewhere():
    assert fitting([[{"@id": "_:b0", "of": "x"}, {"@id": "_:b1", "of": "y"}, Link("http://e.org/a")]]) == listed.Listed(
        {"of": kinds.Text()}, 3
    )


def test_days_that_there_are_not_are_told_with_an_example():
    days = [[Date(2012, 2, day) for day in range(1, 9)] + ["+2012-02-31T00:00:00Z"]]
    assert "11 % are strings such as '+2012-02-31T00:00:00Z', which do not fit" in decided(days)[1]
    assert "11 %" not in decided([[*days[0][:8], "2012-02-09"]])[1]  # a string that is a date


def test_lists_of_no_values_are_gaps_wherever_they_stand():
    assert fitting([[1, []], [[], 2]]) == listed.Listed({"": kinds.Number(integer=True, minimum=0)}, 2)
    assert fitting([[{"n": 1}, {"n": []}]]) == listed.Listed({"n": kinds.Number(integer=True, minimum=0)}, 2)


@for_each(
    "values",
    [
        [{"unit": "a"}, {"value": []}],
        [{"unit": "a", "value": 1}, {"unit": [], "value": []}],
        [{"year": 2000, "month": 1}, {"year": 1999, "month": []}],
        [{"lat": 1.5, "lng": 2.5}, {"lat": [], "lng": []}],
    ],
)
def test_a_list_of_no_values_within_a_quantity_a_date_or_a_place_is_a_gap(values):
    found = infer(entities(*values))
    assert list(found.reasons) == [("", ("x",))]  # of the part as one value
    assert [misfit for entity in entities(*values) for misfit in found.schema.check(entity)] == []


@for_each(("units", "unit"), [(["", ""], None), (["", "", "g"], "g")])
def test_a_blank_unit_is_none(units, unit):
    values = [{"value": i, "unit": one} for i, one in enumerate(units)]
    assert fitting(values) == quantity.Quantity(unit, {}, kinds.Number(integer=True, minimum=0))


mixed = st.recursive(
    st.integers(-3, 30)
    | st.sampled_from([1.5, "a", "5 kg", "1912-11-28", "2012-02-31", "12/11/1912", "", True, Link("x"), Date(1912, 5, 3), None]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "@id", "year", "lat", "lng", "value", "unit"]), inner, max_size=3).map(
        lambda part: part | ({"@id": "_:b"} if "@id" in part else {})
    ),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(mixed, min_size=1, max_size=4), st.data())
def test_whatever_does_not_fit_its_own_schema_is_said_in_the_reason(pool, data):
    values = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=30))
    found = infer(entities(*values))
    for entity in entities(*values):
        for misfit in found.schema.check(entity):
            reason = found.reasons["", misfit.path]
            assert "do not fit" in reason or " % are no " in reason


@pytest.mark.shared
@for_each("name", ["mondial/mondial-meta.n3", "wikidata/Q42.ttl", "wikibase_fixtures/refs.nt"])
def test_a_knowledge_base_fits_its_own_schema(name, data):
    from kbdisk.inspection import check

    kb = kbdisk.load(data / "rdf" / name)
    assert check(infer(kb).schema, kb).misfits == []


def test_long_texts_that_come_again_are_labels_in_full():
    same = "Licensed under the terms that follow. " * 8
    for texts in ([same + "A", same + "B"], ["short", same], ["a" * 201, "a" * 202, "a" * 203]):
        one, why = decided(texts * 20)
        assert isinstance(fitting(texts * 20), kinds.Category)
        assert f"{len(texts)} labels" in why
        assert one.role == "value"
    assert decided([same] * 30)[0].role == "ignore"
    assert isinstance(fitting([f"{same}{n}" for n in range(40)]), kinds.Text)


# ---------------------------------------------------------------- properties that classes share


def several_classes(many=30):
    """Cities and a few lakes: both have names and areas; a size is a number in one and a label in the other."""
    cities = [Entity(f"c{n}", {"name": f"City of {n}", "area": n + 0.25, "size": n}, ("City",)) for n in range(many)]
    lakes = [
        Entity(f"l{n}", {"name": f"Lake No. {n}", "area": 5 - n, "size": ["big", "small"][n % 2]}, ("Lake",))
        for n in range(8)
    ]
    return [*cities, *lakes]


def test_what_two_classes_share_is_defined_once_and_a_class_with_few_values_has_no_bounds_of_its_own():
    found = infer(several_classes())
    shared, city, lake = found.schema.properties, *(of.properties for of in found.schema.classes.values())
    assert set(shared) == {("name",), ("area",)}
    assert shared["area",].kind == lake["area",].kind == kinds.Number(decimals=2)
    assert city["area",].kind == kinds.Number(minimum=0, decimals=2)
    assert city["size",].kind == kinds.Number(integer=True, minimum=0)
    assert lake["size",].kind == kinds.Text()
    written = found.to_yaml()
    assert "  area: {kind: number, decimals: 2}  # 2 classes; of City: 100 % filled" in written
    assert "    uses: [name, area]\n    properties:\n      size: " in written
    assert kbdisk.Schema.read(written) == found.schema


def test_a_source_of_one_class_and_classes_with_nothing_in_common_have_no_shared_properties():
    assert infer(several_classes()[:30]).schema.properties is None
    apart = infer([Entity("a", {"x": 1}, ("A",)), Entity("b", {"y": 1}, ("B",))])
    assert apart.schema.properties is None


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(trees(), st.sampled_from(["A", "B", ""])), max_size=8))
def test_any_entities_of_several_classes_have_a_schema_that_is_read_as_it_was_written(several):
    found = infer([Entity(f"e{n}", tree, (name,) if name else ()) for n, (tree, name) in enumerate(several)])
    assert kbdisk.Schema.read(found.to_yaml()) == found.schema


LABELS = tuple(f"s{n}" for n in range(6))


def with_labels(many, few):
    """Entities of A with one of six labels each, and of two more classes with labels that hardly come again."""
    return [Entity(f"a{n}", {"size": f"s{n % 6}", "n": n}, ("A",)) for n in range(many)] + [
        Entity(f"{of}{n}", {"size": f"s{n}", "n": n}, (of,)) for of in "BC" for n in range(few)
    ]


def test_labels_of_a_class_with_few_values_are_labels_as_in_other_classes():
    schema = infer(with_labels(40, 7)).schema
    assert [of.properties["size",].kind for of in schema.classes.values()][1:] == [kinds.Category(LABELS)] * 2
    assert schema.properties["size",].kind == kinds.Category(LABELS)
    assert schema.classes["A"].properties["size",].kind == kinds.Category(LABELS, closed=True)


def test_texts_of_a_class_with_many_values_stay_texts():
    schema = infer(with_labels(40, 30)).schema
    assert [of.properties["size",].kind for of in schema.classes.values()][1:] == [kinds.Text()] * 2


def with_links(several, alone, wrap):
    """Entities of A with two links every other time, and of B with one link each; `wrap` makes the value of one link."""
    links = [[Link("x"), Link("y")] if n % 2 else wrap(Link("x")) for n in range(several)]
    return [Entity(f"a{n}", {"in": value, "n": n}, ("A",)) for n, value in enumerate(links)] + [
        Entity(f"b{n}", {"in": Link(f"x{n % 3}"), "n": n}, ("B",)) for n in range(alone)
    ]


@for_each(
    ("alone", "wrap", "kind"),
    [
        (5, lambda link: link, kinds.Set(kinds.Link())),
        (40, lambda link: link, kinds.Link()),
        (5, lambda link: [link], kinds.Link()),
    ],
)
def test_few_links_are_sets_where_another_class_has_several_unless_lists_are_written_otherwise(alone, wrap, kind):
    schema = infer(with_links(30, alone, wrap)).schema
    assert schema.classes["A"].properties["in",].kind == kinds.Set(kinds.Link())
    assert schema.classes["B"].properties["in",].kind == kind
    assert kbdisk.Schema.read(schema.to_yaml()) == schema
