"""Numbers, nesting and text beyond what a machine's words, a parser's stack or Unicode hold: read, written, or refused in one line."""

from __future__ import annotations

import json
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.jsonio import LINE, dump_json, load_json
from kbdisk.schemas.formula import Formula
from kbdisk.schemas.text.numerals import as_float, is_finite, is_whole

DIGITS = "9" * 400

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(plain)
def test_json_of_our_own_is_read_back_as_it_was(data):
    assert load_json(dump_json(data, LINE)) == data


def test_the_name_of_a_file_that_is_no_text_is_read_back():
    assert load_json(dump_json({"name": "\udcff.csv"}, LINE)) == {"name": "\udcff.csv"}


def test_json_of_our_own_has_a_word_for_all_that_a_summary_may_hold():
    data = {
        1: int(DIGITS),
        "nan": float("nan"),
        "decimal": Decimal("1E+400"),
        "\udcff": "\udcff",
        2**70: (Decimal("1.50"),),
    }
    text = dump_json(data).decode()
    assert json.loads(text, parse_int=str, parse_float=str) == {
        "1": DIGITS,
        "nan": None,
        "decimal": "1E+400",
        "\\udcff": "\udcff",
        str(2**70): ["1.50"],
    }


@given(st.integers(5, 10**17).map(lambda power: Decimal(f"1E+{power}")))
def test_a_number_with_a_huge_exponent_is_looked_at_without_its_digits(number):
    assert is_whole(number)
    assert is_finite(number)
    assert as_float(number) == (float("inf") if number > Decimal(sys.float_info.max) else float(number))


@pytest.mark.parametrize("value", [DIGITS, "-" + DIGITS, "1E+999999999999", "1E-999999999999", str(2**64), '"\\u0000"'])
@pytest.mark.parametrize(
    ("name", "source", "id"),
    [
        ("a.jsonl", '{"id": "a", "n": null}\n{"id": "b", "n": 3}\n', "a"),
        ("a.csv", "id,n\na,\nb,3\n", "a"),
        ("a.ttl", "@prefix : <http://e/> . :a :x 1 . :b :n 3 .\n", "http://e/a"),
    ],
)
def test_any_number_can_be_a_new_value(name, source, id, value, tmp_path, run):
    (tmp_path / name).write_text(source)
    (tmp_path / "new.jsonl").write_text(f'{{"id": "{id}", "path": "n", "value": {value}}}\n')
    arguments = [tmp_path / name, "--values", tmp_path / "new.jsonl", "--out", tmp_path / f"out-{name}"]
    status, _, errors = run("write", *arguments)
    assert status in (0, 1), errors
    assert (
        status == 1 or value.strip('"')[:30] in (tmp_path / f"out-{name}").read_text() or "E" in value or "u" in value
    )


@pytest.mark.parametrize("command", [("inspect", "--json"), ("schema", "infer"), ("inspect",)])
@pytest.mark.parametrize("number", [DIGITS, str(2**65), "1E+999999999999"])
def test_numbers_of_any_size_are_inspected_and_inferred(command, number, tmp_path, run):
    for name, text in (
        ("a.jsonl", '{"x": %s}\n{"x": 1}\n'),
        ("a.csv", "x\n%s\n1\n"),
        ("a.ttl", "<x:a> <x:p> %s.0, 1 .\n"),
    ):
        (tmp_path / name).write_text(
            text % number.replace("E+", "e+") if "ttl" not in name else text % number.split("E")[0]
        )
        assert run(*command, tmp_path / name)[0] == 0


SCHEMA = 'kbdisk: 1\nclasses:\n  "":\n    properties:\n      x: {kind: number}\n      y: %s\n'


@pytest.mark.parametrize("kind", [f"{{kind: category, values: [{2**70}, 5]}}", f"{{kind: number, max: {2**70}}}"])
def test_a_schema_with_numbers_beyond_64_bits_is_exported(kind, tmp_path, run):
    (tmp_path / "s.yaml").write_text(SCHEMA % kind)
    status, out, errors = run("schema", "export", tmp_path / "s.yaml")
    assert (status, errors) == (0, "")
    assert str(2**70)[:6] in json.dumps(json.loads(out)).replace("1.18059", "118059")


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ('{kind: number, formula: "x + %s"}' % ("9" * 480), "expected numbers below 1.8e308, got a greater one."),
        ('{kind: number, formula: "%sx"}' % ("-" * 490), "expected a formula of at most 200 operations within each other"),
        (f"{{kind: date, min: {DIGITS}, max: -{DIGITS}}}", "expected a whole number of at most 18 digits, got '9999"),
    ],
)  # fmt: skip
def test_a_schema_with_what_cannot_be_computed_is_refused_in_one_line(kind, problem, tmp_path, run):
    (tmp_path / "s.yaml").write_text(SCHEMA % kind)
    (tmp_path / "a.jsonl").write_text('{"x": 1, "y": 2}\n')
    status, out, errors = run("schema", "check", tmp_path / "s.yaml", tmp_path / "a.jsonl")
    assert (status, out, errors.count("\n")) == (2, "", 1)
    assert problem in errors


@given(st.text("-+x19 .()*/<eE", max_size=40))
def test_any_formula_is_refused_or_has_a_result_or_none(text):
    try:
        formula = Formula.read(text)
    except ValueError:
        return
    result = formula.of(dict.fromkeys(formula.paths, 7))
    assert result is None or is_finite(result)
