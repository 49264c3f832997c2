"""The search for rules finds what was planted, nothing in noise, and counts its exceptions."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import Planter, add_noise, planted_table

from kbdisk.experts.rules import Column, Links, civil, fit_line, holds, log_tail, search, years_between
from kbdisk.schemas.text.calendars import date_of_day_number, day_number, whole_years

LONG = 1000.0  # seconds: no test ends by the clock


def named(rule):
    return ".".join(map(str, rule.target)), rule.kind, tuple(sorted(".".join(map(str, path)) for path in rule.of))


def found_share(made):
    found = {named(one.rule) for one in search(made.table(), LONG)}
    planted = {(name, kind, tuple(sorted(of))) for name, kind, of in made.planted}
    return len(planted & found) / len(planted)


@pytest.mark.parametrize(
    ("exceptions", "size"),
    [
        (0.05, 1000),
        *(pytest.param(share, 1500, marks=pytest.mark.slow) for share in (0.0, 0.01, 0.05)),
    ],
)
def test_forty_planted_relations_are_found_with_exceptions_and_a_third_of_the_values_missing(exceptions, size):
    assert found_share(planted_table(size, seed=1, missing=0.3, exceptions=exceptions, noise=4)) >= 0.95


@pytest.mark.parametrize(
    ("columns", "size", "seed"),
    [(30, 500, 0), *(pytest.param(200, 1500, seed, marks=pytest.mark.slow) for seed in (0, 1))],
)
def test_noise_has_no_rule(columns, size, seed):
    made = add_noise(Planter(size, seed, missing=0.3), columns)
    assert search(made.table(), LONG) == []


def test_repeated_rows_are_no_evidence_of_a_dependency():
    made = add_noise(Planter(60, 0), 30)
    table = made.table().at(np.repeat(np.arange(60), 8))
    assert [one.rule.text for one in search(table, LONG) if one.rule.kind == "determined"] == []


def test_a_real_number_that_several_entities_have_determines_others():
    made = Planter(400, 0)
    nucleons = made.number("nucleons", made.rng.integers(20, 120, 400))
    made.number("surface", nucleons ** (2 / 3), decimals=6)
    made.number("mass", made.rng.normal(0, 1, 400), decimals=6)
    assert {named(found.rule) for found in search(made.table(), LONG)} == {
        ("nucleons", "determined", ("surface",)),
        ("surface", "determined", ("nucleons",)),
    }


def test_links_to_hubs_that_link_to_themselves_are_not_transitive():
    made = Planter(400, 0)
    to = made.rng.integers(0, 4, 400)
    to[:4] = range(4)
    made.link("hub", to)
    assert search(made.table(), LONG) == []


def ancestors(parents, row):
    while (row := parents[row]) >= 0:
        yield row


def test_a_part_of_a_part_is_a_part():
    made = Planter(400, 0)
    parents = (np.arange(400) - 1) // 3
    pairs = [(row, above) for row in range(400) for above in ancestors(parents, row)]
    sources, targets = np.array(pairs).T
    codes = made.ids[targets]
    made.columns.append(Column(("part of",), np.where(parents >= 0, made.ids[parents], -1)))
    made.links[("part of",)] = Links(sources, codes, targets)
    assert ("part of", "transitive", ("part of",)) in {named(one.rule) for one in search(made.table(), LONG)}


def test_a_rule_counts_its_support_and_names_its_exceptions():
    made = Planter(400, 0)
    above, below = (made.number(name, made.rng.integers(0, 900, 400)) for name in ("above", "below"))
    living = above + below
    living[[3, 77]] += 5
    made.number("living", living)
    (rule,) = (one for one in search(made.table(), LONG) if one.rule.target == ("living",))
    assert (rule.rule.text, rule.rule.support, rule.rule.exceptions) == ("living = above + below", 398, 2)
    assert rule.examples.tolist() == [3, 77]


def test_a_product_of_rounded_numbers_is_a_rule_though_its_last_digits_differ():
    made = Planter(300, 0)
    first, second = (made.rng.uniform(10, 99, 300) for _ in range(2))
    for name, values, decimals in (("first", first, 5), ("second", second, 5), ("product", first * second, 5)):
        made.number(name, values, decimals)
    matches = [match for match in search(made.table(), LONG) if match.rule.target == ("product",)]
    assert [(match.rule.text, match.rule.exceptions) for match in matches] == [("product = first * second", 0)]
    assert np.mean(np.abs(np.round(first, 5) * np.round(second, 5) - np.round(first * second, 5)) < 5e-6) < 0.1


def test_of_rules_with_rounded_inputs_an_exact_one_comes_first_though_fewer_values_agree_with_it():
    made = Planter(400, 0, missing=0.1)
    first, second, third = (made.rng.uniform(10, 99, 400) for _ in range(3))
    for name, values, decimals in (("rough", first * second, 4), ("second", second, 6)):
        made.number(name, values, decimals)
    made.missing = 0.3
    for name, values, decimals in (("fine", first * third, 9), ("third", third, 9), ("first", first, 6)):
        made.number(name, values, decimals)
    matches = [match for match in search(made.table(), LONG) if match.rule.target == ("first",)]
    assert [match.rule.text for match in matches] == ["first = fine / third", "first = rough / second"]
    assert matches[0].rule.support < matches[1].rule.support


def test_a_sum_of_three_rounded_numbers_may_differ_in_its_last_digit():
    made = Planter(300, 0)
    parts = made.rng.uniform(1000, 9000, (3, 300))
    for name, values in (("first", parts[0]), ("second", parts[1]), ("third", parts[2]), ("total", parts.sum(0))):
        made.number(name, values, decimals=4)
    matches = [match for match in search(made.table(), LONG) if match.rule.target == ("total",)]
    assert [(match.rule.text, match.rule.exceptions) for match in matches] == [("total = first + second + third", 0)]
    assert np.mean(np.abs(np.round(parts, 4).sum(0) - np.round(parts.sum(0), 4)) < 0.00005) < 0.9


def test_many_small_numbers_do_not_hide_what_is_added_to_a_large_one():
    made = Planter(300, 0)
    for number in range(50):
        made.number(f"noise {number}", made.rng.integers(0, 7, 300))
    days = made.number("days", made.rng.integers(0, 7, 300))
    before = made.number("before", made.rng.integers(1_000_000, 9_000_000, 300))
    made.number("after", before + days)
    ordered = made.number("ordered", made.rng.integers(730_000, 740_000, 300), unit="day")
    made.number("shipped", ordered + days, unit="day")
    found = {match.rule.text for match in search(made.table(), LONG)}
    assert {"after = days + before", "shipped = ordered + days days"} <= found


def test_whole_numbers_have_no_error_that_a_sum_could_be_excused_by():
    made = Planter(300, 0)
    first, second = (made.number(name, made.rng.integers(1_000_000, 9_000_000, 300)) for name in ("first", "second"))
    made.number("total", first + second + made.rng.integers(-1, 2, 300))
    assert search(made.table(), LONG) == []


def test_a_sum_whose_second_part_is_nearly_always_nothing_is_a_sum_only_where_that_part_counts():
    made = Planter(800, 0)
    whole = made.number("whole", made.rng.integers(0, 5000, 800))
    made.number("rest", np.where(made.rng.random(800) < 0.02, made.rng.integers(1, 9, 800), 0))
    made.number("copy", whole)
    assert [one.rule.text for one in search(made.table(), LONG)] == ["whole = copy", "copy = whole"]


@given(
    factor=st.sampled_from([0.001, 0.3048, 0.45359237, 1 / 60, 1.609344, 2.54, 60.0, 1000.0]),
    offset=st.sampled_from([0.0, 32.0, -273.15]),
    seed=st.integers(0, 99),
)
def test_the_factor_of_a_unit_is_found_to_the_digit(factor, offset, seed):
    x = np.round(np.random.default_rng(seed).uniform(1, 900, 300), 2)
    decimals = max(0, 4 - math.floor(math.log10(factor * 900)))
    y = np.round(factor * x + offset, decimals)
    line = fit_line(x, y, np.full(300, 0.5 * 10.0**-decimals), with_offset=offset != 0)
    assert line == (pytest.approx(factor, rel=1e-12), pytest.approx(offset, abs=0.5 * 10.0**-decimals))


@given(st.integers(-1_000_000, 4_000_000))
def test_a_day_has_one_number(days):
    date = date_of_day_number(days)
    assert day_number(date) == days
    assert [int(part[0]) for part in civil(np.array([days]))] == [date.year, date.month, date.day]


@given(st.integers(600_000, 740_000), st.integers(0, 40_000))
def test_whole_years_are_the_same_for_one_entity_and_for_a_column(born, lived):
    column = years_between(np.array([born + lived, np.nan]), np.array([born, born]))
    assert column[0] == whole_years(date_of_day_number(born + lived), date_of_day_number(born))
    assert np.isnan(column[1])


@given(st.integers(1, 60), st.floats(0.01, 0.99), st.data())
def test_the_bound_on_chance_is_above_the_binomial_tail(count, chance, data):
    hits = data.draw(st.integers(0, count))
    tail = sum(math.comb(count, k) * chance**k * (1 - chance) ** (count - k) for k in range(hits, count + 1))
    assert log_tail(hits, count, chance) >= math.log(tail) - 1e-9


def test_the_more_candidates_were_tried_the_more_evidence_a_rule_needs():
    hits = np.ones(30, dtype=bool)
    assert holds(hits, 0.5, tried=1)
    assert not holds(hits, 0.5, tried=10**6)


def test_the_rules_need_no_torch():
    code = "import kbdisk.experts.rules, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
