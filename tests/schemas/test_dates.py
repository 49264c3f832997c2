"""Dates as text: what is read is written again, and what is no date is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.entity import Date
from kbdisk.schemas.text import calendars, dates

XSD = [
    ("1912-11-28", "date", Date(1912, 11, 28)),
    ("1912-11-28Z", "date", Date(1912, 11, 28, time="Z")),
    ("-0044-03-15", "date", Date(-44, 3, 15)),
    ("0000-02-29", "date", Date(0, 2, 29)),
    ("12345-01-01", "date", Date(12345, 1, 1)),
    ("2012-03-13T00:00:00Z", "dateTime", Date(2012, 3, 13, time="T00:00:00Z")),
    ("2012-03-13T24:00:00.000", "dateTime", Date(2012, 3, 13, time="T24:00:00.000")),
    ("-200000199-04-30T00:00:00-14:00", "dateTime", Date(-200000199, 4, 30, time="T00:00:00-14:00")),
    ("2012-03-13T12:30:00.25+05:30", "dateTimeStamp", Date(2012, 3, 13, time="T12:30:00.25+05:30")),
    ("1961", "gYear", Date(1961)),
    ("-0199", "gYear", Date(-199)),
    ("1961+02:00", "gYear", Date(1961, time="+02:00")),
    ("1961-07", "gYearMonth", Date(1961, 7)),
    ("--02-29", "gMonthDay", Date(None, 2, 29)),
    ("--11", "gMonth", Date(None, 11)),
    ("---31", "gDay", Date(None, None, 31)),
]
EDTF = [
    ("1985-04-12", Date(1985, 4, 12)),
    ("1985-04", Date(1985, 4)),
    ("1985", Date(1985)),
    ("-1985", Date(-1985)),
    ("1985-04-12T23:20:30", Date(1985, 4, 12, time="T23:20:30")),
    ("1985-04-12T23:20:30+04", Date(1985, 4, 12, time="T23:20:30+04")),
    ("1985-04-12T23:20:30Z", Date(1985, 4, 12, time="T23:20:30Z")),
    ("Y170000002", Date(170000002)),
    ("Y-170000002", Date(-170000002)),
    ("2001-21", Date(2001, 21)),
    ("2001-24", Date(2001, 24)),
    ("1984?", Date(1984, note="?")),
    ("2004-06~", Date(2004, 6, note="~")),
    ("2004-06-11%", Date(2004, 6, 11, note="%")),
    ("201X", Date(2010, precision="decade")),
    ("20XX", Date(2000, precision="century")),
    ("-20XX", Date(-2000, precision="century")),
    ("1XXX", Date(1000, precision="millennium")),
    ("201X?", Date(2010, precision="decade", note="?")),
    ("2004-XX", Date(2004, precision="month")),
    ("1985-04-XX", Date(1985, 4, precision="day")),
    ("1985-XX-XX", Date(1985, precision="day")),
    ("1964/2008", {"start": Date(1964), "end": Date(2008)}),
    ("2004-02-01/2005-02", {"start": Date(2004, 2, 1), "end": Date(2005, 2)}),
    ("1984~/2004-06?", {"start": Date(1984, note="~"), "end": Date(2004, 6, note="?")}),
    ("1985-04-12/..", {"start": Date(1985, 4, 12)}),
    ("../1985", {"end": Date(1985)}),
]


@for_each(("lexical", "datatype", "date"), XSD)
def test_every_xsd_date_is_read_and_written_as_it_was(lexical, datatype, date):
    assert dates.read(lexical, datatype) == date
    assert dates.write(date, datatype) == lexical


@for_each(("lexical", "datatype", "date"), XSD)
def test_a_date_tells_the_datatype_that_holds_it(lexical, datatype, date):
    assert dates.natural_datatype(date) == datatype.replace("Stamp", "")


@for_each(("lexical", "date"), EDTF)
def test_edtf_is_read_and_written_as_it_was(lexical, date):
    assert dates.read(lexical, "EDTF") == date
    assert dates.write(date, "EDTF-level1") == lexical


@for_each("lexical", ["1985-04-12/", "/1985-04-12"])
def test_an_unknown_end_of_an_interval_is_left_out(lexical):
    assert list(dates.read(lexical, "EDTF").values()) == [Date(1985, 4, 12)]


@for_each(
    ("lexical", "datatype"),
    [
        ("1912-02-30", "date"),
        ("1900-02-29", "date"),
        ("2012-13-01", "date"),
        ("2012-00-01", "date"),
        ("912-01-01", "date"),
        ("01912-01-01", "date"),
        ("+2012-02-11", "date"),
        ("1912-11-28\n", "date"),
        (" 1912-11-28", "date"),
        ("١٩١٢-11-28", "date"),
        ("1912-11-28+15:00", "date"),
        ("2012-03-13T25:00:00", "dateTime"),
        ("2012-03-13T24:00:01", "dateTime"),
        ("2012-03-13", "dateTime"),
        ("2012-03-13T12:00:00", "dateTimeStamp"),
        ("--02-30", "gMonthDay"),
        ("--13", "gMonth"),
        ("---32", "gDay"),
        ("19", "gYear"),
        ("25:00:00", "time"),
        ("1985-02-30", "EDTF"),
        ("2001-25", "EDTF"),
        ("2001-21-05", "EDTF"),
        ("2001-XX-04", "EDTF"),
        ("20X1", "EDTF"),
        ("201X-05", "EDTF"),
        ("XXXX", "EDTF"),
        ("-000X", "EDTF"),
        ("Y1999", "EDTF"),
        ("12345", "EDTF"),
        ("Y12345-01", "EDTF"),
        ("1984?~", "EDTF"),
        ("../..", "EDTF"),
        ("1964/2008/2010", "EDTF"),
        ("1985-04-12T23:20:30/2000", "EDTF"),
        ("1985-04-XXT23:20:30", "EDTF"),
        ("", "EDTF"),
    ],
)
def test_what_is_no_date_is_refused(lexical, datatype):
    with pytest.raises(ValueError, match=r"^expected a .* such as .*, got "):
        dates.read(lexical, datatype)


def test_a_refusal_shows_what_was_expected_and_what_came():
    with pytest.raises(ValueError, match=r"^expected a date such as 1912-11-28, got '1912-02-30'$"):
        dates.read("1912-02-30", "date")


def test_a_time_of_day_alone_stays_a_string():
    assert dates.read("12:30:00Z", "time") == "12:30:00Z"


@for_each(
    ("date", "datatype"),
    [
        (Date(2012, 5), "gYear"),
        (Date(2012), "date"),
        (Date(2012, 5, 3), "dateTime"),
        (Date(2012, note="?"), "gYear"),
        (Date(2012, calendar="Julian"), "gYear"),
        (Date(2012, precision="decade"), "gYear"),
        (Date(2012, 2, 30), "date"),
        (Date(2013, precision="decade"), "EDTF"),
        (Date(None, 5, 3), "EDTF"),
        ({"start": Date(2012)}, "gYear"),
    ],
)
def test_a_datatype_that_would_lose_something_refuses(date, datatype):
    with pytest.raises(ValueError, match=r"^expected an? "):
        dates.write(date, datatype)


parts = st.builds(
    Date,
    st.none() | st.integers(-(10**12), 10**12) | st.integers(-3000, 3000),
    st.none() | st.integers(1, 12) | st.integers(21, 24),
    st.none() | st.integers(1, 31),
    st.sampled_from(["", "", "day", "month", "year", "decade", "century", "1Ga"]),
    st.sampled_from(["", "", "Z", "T12:00:00Z", "T12:00:00", "+01:00", " 12:00"]),
    st.sampled_from(["", "", "Julian"]),
    st.sampled_from(["", "", "?", "~", "%"]),
)


@given(parts)
def test_a_date_is_never_written_as_another(date):
    datatype = dates.natural_datatype(date)
    if datatype:
        assert dates.read(dates.write(date, datatype), datatype) == date


@given(parts)
def test_an_iso_string_of_a_date_reads_as_that_date(date):
    try:
        text = dates.write_iso(date)
    except ValueError:
        return
    assert dates.read_iso(text) == date


@for_each(
    ("text", "date"),
    [
        ("1912-11-28", Date(1912, 11, 28)),
        ("1912", Date(1912)),
        ("1912-11", Date(1912, 11)),
        ("2012-03-13 12:00", Date(2012, 3, 13, time=" 12:00")),
        ("2012-03-13T12:00:00.123+0200", Date(2012, 3, 13, time="T12:00:00.123+0200")),
        ("1898-00-00", Date(1898, precision="day")),
        ("1898-05-00", Date(1898, 5, precision="day")),
        ("1898-00", Date(1898, precision="month")),
        ("-0044-03-15", Date(-44, 3, 15)),
        ("+12000-05-03", Date(12000, 5, 3)),
        ("--11-28", Date(None, 11, 28)),
        ("2001-21", Date(2001, 21)),
        ("201X", Date(2010, precision="decade")),
    ],
)
def test_iso_strings_are_read_as_people_write_them(text, date):
    assert dates.read_iso(text) == date


@for_each(
    "text",
    ["0000-00-00", "1912-02-30", "2012-03-13T29:00", "20120313", "1898-00-05", "28.11.1912", "soon", "", "12:00"],
)
def test_a_string_that_is_no_iso_date_is_refused(text):
    with pytest.raises(ValueError, match=r"^expected a"):
        dates.read_iso(text)


def test_a_precision_that_the_parts_say_already_is_no_more_to_it():
    assert dates.plain(Date(2012, precision="year")) == Date(2012)
    assert dates.plain(Date(2012, 3, 4, precision="day")) == Date(2012, 3, 4)
    assert dates.plain(Date(2012, precision="decade")) == Date(2012, precision="decade")
    assert dates.plain(Date(2012, precision="day")) == Date(2012, precision="day")


def test_a_wikibase_tells_julian_days_by_their_gregorian_ones():
    told = Date(2012, 3, 13, time=calendars.MIDNIGHT)
    date = calendars.of_wikibase(told, calendars.DAY, calendars.JULIAN)
    assert date == Date(2012, 2, 29, calendar=calendars.JULIAN)
    assert calendars.to_wikibase(date) == (told, calendars.DAY, calendars.JULIAN, 0)


@given(
    st.dates(),
    st.integers(0, 14),
    st.sampled_from([calendars.GREGORIAN, calendars.JULIAN, "urn:x"]),
    st.integers(-5000, 5000),
)
def test_a_wikibase_time_survives_the_way_back(day, precision, calendar, century):
    told = Date(day.year + 400 * century, day.month, day.day, time=calendars.MIDNIGHT)
    date = calendars.of_wikibase(told, precision, calendar)
    assert calendars.of_wikibase(*calendars.to_wikibase(date)) == date


@for_each("date", [Date(None, 3, 4), Date(2012, 21), Date(2012, note="?"), Date(2012, precision="season")])
def test_a_date_that_no_wikibase_can_hold_is_refused(date):
    with pytest.raises(ValueError, match=r"^expected a"):
        calendars.to_wikibase(date)
