"""Every kind of leaf keeps the same promises. A new kind needs a row and an example."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tables import for_each

from kbdisk.entity import Link as LinkValue
from kbdisk.entity import Text as TextValue
from kbdisk.schemas import kinds
from kbdisk.schemas.kinds import KINDS, Boolean, Category, LeafKind, Link, Number, Set, Text


@pytest.fixture(params=KINDS, ids=str)
def kind(request):
    return KINDS[request.param]


def test_its_example_is_of_its_own_dataclass_and_its_values_fit(kind):
    assert type(kind.example) is kind.type
    assert kind.values
    for value in kind.values:
        kind.example.check(value)


def test_it_is_plain_data_that_can_be_a_key_and_cannot_be_changed(kind):
    assert kind.type() == kind.type()
    hash(kind.example)
    with pytest.raises((AttributeError, TypeError)):
        kind.example.whatever = 1


def test_it_is_found_by_its_name(kind):
    assert KINDS[kinds.kind_of(kind.example)] is kind


@for_each(
    ("kind", "value", "complaint"),
    [
        (Number(), "heavy", "expected a number, got 'heavy'"),
        (Number(), True, "expected a number, got True"),
        (Number(), float("nan"), "expected a number, got nan"),
        (Number(), 10**400, "expected a number from -1e.300 to 1e.300, got one of 401 digits"),
        (Number(integer=True), 1.5, "expected a whole number, got 1.5"),
        (Number(minimum=0), -1, "expected a number of at least 0, got -1"),
        (Number(maximum=12), 13, "expected a number of at most 12, got 13"),
        (Number(maximum=143666931), 143666932, "expected a number of at most 143666931, got 143666932"),
        (Number(above=0), 0, "expected a number above 0, got 0"),
        (Number(below=1), 1.0, "expected a number below 1, got 1.0"),
        (Category((1, 0), closed=True), True, "expected one of 1, 0, got True"),
        (Category(("a", "b"), closed=True), "c", "expected one of a, b, got 'c'"),
        (Category(), ["a"], r"expected a label, got \['a'\]"),
        (Boolean(), "yes", "expected true or false, got 'yes'"),
        (Text(), 3, "expected text, got 3"),
        (Text(max_length=2), "abc", "expected at most 2 characters, got 3"),
        (Text(min_length=1), "", "expected at least 1 characters, got 0"),
        (Text(language="en"), TextValue("Wien", "de"), "expected text in en, got de"),
        (Text(language="en"), TextValue("Wien", "enm"), "expected text in en, got enm"),
        (Text(language=""), TextValue("Wien", "de"), "expected text in no language, got de"),
        (Link(), 3, "expected a link to an entity, got 3"),
        (Link(values=("a",)), LinkValue("b"), "expected one of a, got 'b'"),
        (Set(Category(("a",), closed=True)), ["a", "b"], "expected one of a, got 'b'"),
        (Set(most=2), ["a", "b", "c"], "expected at most 2 values, got 3"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_a_reason(kind, value, complaint):
    with pytest.raises(ValueError, match=complaint):
        kind.check(value)


def test_text_takes_a_string_in_a_language_and_link_an_id():
    Text(language="en").check(TextValue("Vienna", "EN"))
    Text(language="en").check(TextValue("colour", "en-GB"))
    Text(language="").check("Wien")
    Link("City").check(LinkValue("x"))
    Link("City").check("x")


def test_a_kind_of_somebody_elses_is_one_dataclass_and_one_row(monkeypatch):
    @dataclass(frozen=True, slots=True)
    class Colour:
        """A colour such as #ff8800."""

        def check(self, value):
            if not (isinstance(value, str) and len(value) == 7 and value[0] == "#"):
                raise ValueError(f"expected a colour such as #ff8800, got {value!r}")

    monkeypatch.setitem(KINDS, "colour", LeafKind(Colour, Colour(), ("#ff8800",)))
    assert kinds.kind_of(Colour()) == "colour"
