"""Points, commas and other marks in the numbers of tables: which is decimal, which part thousands, and how new ones have them."""

import io
import warnings
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

import kbdisk
from kbdisk import Completion, Filled, KBDiskWarning

PARTING = ["'", "\u2019", "\u00a0", "\u202f"]


def column(cells, beside="y", delimiter=";"):
    """What a column of such cells says, beside another that holds the same all the way down."""
    quoted = [f'"{cell}"' if delimiter in cell else cell for cell in cells]
    text = f"x{delimiter}z\n" + "".join(f"{cell}{delimiter}{beside}\n" for cell in quoted)
    return [entity.tree["x"] for entity in kbdisk.load(text.encode(), format="csv")]


@for_each(
    ("cells", "said"),
    [
        (["1.234,5", "592", "12,25"], [1234.5, 592, 12.25]),
        (["1.234.567", "592", "-98.765"], [1234567, 592, -98765]),
        (["1,234", "1.234.567"], [1.234, 1234567]),  # the second tells what the comma of the first is
        (["0,5", "1.234"], [0.5, 1234]),
        (["1.234,5", "12345,5"], [1234.5, 12345.5]),  # one is enough to tell, though not all are written so
        (["1'234.50", "12.25"], [1234.5, 12.25]),
        (["1\u202f234,5", "0,5"], [1234.5, 0.5]),
    ],
)
def test_thousands_are_parted_where_a_number_of_the_column_tells_by_what(cells, said):
    assert column(cells) == said


@for_each("cells", [["1.234", "592"], ["1.234", "98.765", "12"]])
def test_points_part_thousands_where_another_column_has_decimal_commas(cells):
    assert column(cells, "0,5") == [round(1000 * float(cell)) if "." in cell else int(cell) for cell in cells]
    assert column(cells) == [float(cell) for cell in cells]
    assert column(cells, "0.5") == [float(cell) for cell in cells]


def test_points_that_hardly_are_decimal_are_said_to_be_read_so():
    with pytest.warns(KBDiskWarning, match="column 'x' is read with decimal points: if they part thousands"):
        assert column(["1.234", "592", "18.030", "74.479"]) == [1.234, 592, 18.03, 74.479]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        column(["1.234", "592.5", "18.030", "74.479"])  # one that is certain
        column(["1.234", "1.500", "18.030", "74.479"])  # three decimals all the way down
        column(["1.234", "592", "18.030", "74.479"], delimiter=",")


@for_each(
    "cells", [["1.234.567", "1.5"], ["1'234", "1\u2019234"], ["1'234.5", "1.234,5"], ["1.2345.678"], ["01.234.567"]]
)
@pytest.mark.filterwarnings("ignore::kbdisk.KBDiskWarning")
def test_numbers_that_do_not_agree_on_their_marks_are_text(cells):
    assert column(cells) == cells
    assert column(cells, "0,5") == cells


@for_each("cells", [["1.234.567", "12"], ["1.234,5", "12"], ["1'234,5", "12"]])
def test_where_commas_part_the_cells_they_are_not_decimal_and_points_part_no_thousands(cells):
    assert column(cells, delimiter=",") == cells


def test_points_that_may_be_either_beside_thousands_without_any_are_text_and_that_is_said():
    with pytest.warns(KBDiskWarning, match="column 'x' holds numbers whose points may part thousands or not"):
        assert column(["1.234", "12345"], beside="0,5") == ["1.234", "12345"]


def spelt(cells, number, beside="y"):
    """How a number is written into the blank cell below others."""
    source = ("x;y\n" + "".join(f"{cell};{beside}\n" for cell in cells) + f";{beside}\n").encode()
    kb = kbdisk.load(source, format="csv")
    *_, last = kb
    out = io.BytesIO()
    assert kb.splice([Completion(last, {("x",): Filled(number)})], out).written == 1
    lines = out.getvalue().decode().splitlines()
    assert lines[:-1] == source.decode().splitlines()[:-1]
    return lines[-1].partition(";")[0]


@for_each(
    ("cells", "number", "text"),
    [
        (["1.234.567,25", "2,5"], 98765.4321, "98.765,43"),
        (["1.234.567,25", "2,5"], -999.5, "-999,5"),
        (["1.234.567", "25"], -12345678.4, "-12.345.678"),
        (["1'234.50", "2.25"], 1234567, "1'234'567.00"),
        (["1\u00a0234,5", "2,5"], 1234.56, "1\u00a0234,6"),
        (["1.234,5", "12345,5", "23456,5"], 98765.5, "98765,5"),  # as most have it
        (["0,5", "2,25"], 1234.5, "1234,5"),
    ],
)
def test_a_new_number_has_the_marks_of_the_others(cells, number, text):
    assert spelt(cells, number) == text


@for_each(
    ("cells", "number", "text"),
    [
        (["6.023e22", "5.970e24"], 4.2e21, "4.200e21"),
        (["5.08E-27", "3.40E-27", "12"], 3.4567e-27, "3.4567E-27"),
        (["5,08e-07", "3,40e-07"], 0.5, "5,00e-01"),
        (["6.02e22", "1.5", "2.5"], 4.25, "4.25"),
    ],
)
def test_a_new_number_has_an_exponent_where_most_have_one(cells, number, text):
    assert spelt(cells, number) == text


def test_a_whole_number_is_parted_by_points_where_another_column_tells():
    assert spelt(["1.234", "592"], 7654321, beside="0,5") == "7.654.321"
    assert spelt(["1234", "592"], 7654321, beside="0,5") == "7654321"


numbers = st.decimals(-(10**12), 10**12, places=2).map(lambda one: one + 0)


@given(st.lists(numbers, min_size=1), st.sampled_from([".", *PARTING]), numbers)
def test_numbers_written_with_parted_thousands_are_read_and_new_ones_read_back(values, group, new):
    cells = [f"{one:,}".translate({ord(","): group, ord("."): ","}) for one in [*values, Decimal("1234567.89")]]
    assert [Decimal(str(one)) for one in column(cells)] == [*values, Decimal("1234567.89")]
    cell = spelt(cells, float(new))
    assert cell == f"{new:,}".translate({ord(","): group, ord("."): ","})
    assert Decimal(str(column([*cells, cell])[-1])) == new
