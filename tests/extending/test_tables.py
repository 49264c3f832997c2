"""Rows: what they name exists, and what is registered wrongly is refused in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest
from class_medians import CLASS_MEDIAN
from counts import COUNT, Count, CountCodec
from extending.moneys import MONEY, Money
from tables import for_each

from kbdisk.data import Codec
from kbdisk.entity import Entity
from kbdisk.evaluation import BASELINES
from kbdisk.extend import (
    DEFAULT_STYLE,
    STRING,
    CompositeKind,
    Format,
    Habit,
    LeafKind,
    register_baseline,
    register_composite,
    register_expert,
    register_format,
    register_leaf,
)
from kbdisk.leaves.registry import learnt_kind
from kbdisk.loaders import FORMATS
from kbdisk.plugins import load_part
from kbdisk.schemas.composites import COMPOSITES, kind_rows
from kbdisk.schemas.importers import IMPORTERS
from kbdisk.schemas.kinds import KINDS, Category, Number
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import of_one_class
from kbdisk.styles.kinds import style_of, write_value


def named_parts() -> list[str]:
    """What the rows of all tables name as `module:attribute`, or as a module."""
    rows: list[Any] = [*kind_rows().values(), *FORMATS.values(), *IMPORTERS.values()]
    parts = [getattr(row, field.name) for row in rows for field in fields(row)] + list(BASELINES.values())
    return sorted({part for part in parts if isinstance(part, str) and part.startswith("kbdisk.")})


def test_every_part_that_a_row_names_exists():
    assert len(named_parts()) > 60
    for part in named_parts():
        assert load_part(part) is not None


def test_a_kind_is_learnt_by_its_own_modules_or_as_another_kind():
    for row in KINDS.values():
        parts = [row.codec, row.encoder, row.decoder]
        assert parts.count(None) == (0 if row.learnt_as is None else 3)
        assert KINDS[learnt_kind(row.example)].codec is not None


@for_each(
    ("register", "name", "row", "expected"),
    [
        (register_leaf, "number", COUNT, "expected a new name, got 'number', which is taken"),
        (register_leaf, "date", COUNT, "expected a new name, got 'date', which is taken"),
        (register_composite, "text", MONEY, "expected a new name, got 'text', which is taken"),
        (register_leaf, "count", LeafKind(Count, Count(), (1,)), "expected codec, encoder and decoder .* got none"),
        (register_leaf, "count", LeafKind(Count, Count(), (1,), codec=CountCodec), "got codec"),
        (register_leaf, "count", LeafKind(Count, Count(), (1,), codec=CountCodec, learnt_as=Number), "got codec and learnt_as"),
        (register_format, "csv", Format((".kv",), "m"), "expected a new name, got 'csv', which is taken"),
        (register_format, "kv", Format((".kv", ".ttl"), "m"), "expected new suffixes, got .ttl, which is that of turtle"),
        (register_expert, "knn", CLASS_MEDIAN, "expected a new name, got 'knn', which is taken"),
        (register_baseline, "constant", "m:c", "expected a new name, got 'constant', which is taken"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_is_refused(register, name, row, expected):
    with pytest.raises(ValueError, match=expected):
        register(name, row)


@dataclass(frozen=True, slots=True)
class Stars:
    """From one star to five, as text."""

    def check(self, value: Any) -> None:
        if value not in STARS:
            raise ValueError(f"expected stars, got {value!r}")


STARS = ("*", "**", "***")


def test_a_leaf_without_modules_is_learnt_as_another_kind(monkeypatch):
    row = LeafKind(Stars, Stars(), STARS, learnt_as=lambda leaf: Category(STARS, closed=True, ordered=True))
    monkeypatch.setitem(KINDS, "stars", row)
    entities = [Entity(f"{n}", {"x": "*" * (1 + n % 3)}) for n in range(9)]
    codec = Codec.fit(of_one_class({("x",): Property(Stars())}), entities)
    assert [slot.kind for slot in codec.slots] == ["category"]
    assert codec.slots[0].codec.ordered
    assert codec.slots[0].codec.labels.values == STARS


@dataclass(frozen=True)
class Price(Money):
    """Money whose values are also text: 3.50 EUR."""

    def apply(self, value: Any) -> dict[str, Any]:
        if isinstance(value, str):
            amount, currency = value.split()
            value = {"amount": float(amount), "currency": currency}
        return super().apply(value)


def test_a_style_may_differ_from_the_default_one_in_one_function(monkeypatch):
    def write(kind: Price, form: Any, value: dict[str, Any], habit: Habit) -> Any:
        if form != STRING:
            return DEFAULT_STYLE.write(kind, form, value, habit)
        return f"{value['amount']:.2f} {value['currency']}"

    style = DEFAULT_STYLE._replace(write=write)
    monkeypatch.setitem(COMPOSITES, "price", CompositeKind(Price, Price(), (), style=style))
    kind, value = Price(), {"amount": 3.5, "currency": "EUR"}
    for neighbour, written in (("12.00 USD", "3.50 EUR"), ({"amount": 12.0, "currency": "USD"}, value)):
        habit = Habit()
        style_of(kind).observe(kind, neighbour, habit)
        assert write_value(kind, value, habit) == written
