"""Hypothesis strategies that several tests share: `from strategies import trees`."""

from __future__ import annotations

from decimal import Decimal
from typing import get_args

from hypothesis import strategies as st

from kbdisk.entity import NOVALUE, SOMEVALUE, Coordinate, Date, Link, Precision, Quantity, Text

strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = strings.filter(lambda name: not name.startswith("@"))
integers = st.integers() | st.integers(-(10**40), 10**40) | st.sampled_from([2**63, 2**64, -(2**63) - 1])
floats = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [Decimal("1.50"), Decimal("0.10000000000000000001"), Decimal("1E+400"), Decimal("1E-400"), Decimal("-0")]
)
numbers = integers | floats | decimals
languages = st.sampled_from(["en", "de", "zh-Hans", "de-1901"])
years = st.integers(-12000, 12000) | st.sampled_from([0, -13_800_000_000, 170_000_002])


def dates(times=("", "T12:00:00Z", "Z"), calendars=("", "julian"), notes=("", "?", "~", "%")):
    """Any date, as much of it as is known."""
    return st.builds(
        Date,
        st.none() | years,
        st.none() | st.integers(1, 12) | st.integers(21, 24),
        st.none() | st.integers(1, 31),
        st.sampled_from(["", *get_args(Precision)]),
        st.sampled_from(times),
        st.sampled_from(calendars),
        st.sampled_from(notes),
    )


def leaves():
    """Any value that holds no others."""
    globe = st.sampled_from(["", "http://www.wikidata.org/entity/Q405"])
    return st.one_of(
        numbers,
        strings,
        st.booleans(),
        st.none(),
        st.sampled_from([SOMEVALUE, NOVALUE]),
        st.builds(Text, strings, languages),
        dates(),
        st.builds(Quantity, st.none() | numbers, st.none() | strings),
        st.builds(Coordinate, st.none() | numbers, st.none() | numbers, globe),
        st.builds(Link, strings),
    )


def values(of=None):
    """Any value: leaves, lists, parts."""
    return st.recursive(
        leaves() if of is None else of,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    )


def trees():
    """Any tree that an entity may have."""
    return st.dictionaries(names, values(), max_size=5)
