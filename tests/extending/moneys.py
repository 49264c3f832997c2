"""A composite that another package might add: an amount of money, as parts. `from extending.moneys import MONEY`"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbdisk.extend import CompositeKind, fields_of
from kbdisk.schemas.kinds import Category, Number


@dataclass(frozen=True)
class Money:
    """A number and a currency: {"amount": 3.5, "currency": "EUR"}."""

    currencies: tuple[str, ...] = ()

    def leaves(self) -> dict[Any, Any]:
        return {("amount",): Number(decimals=2), ("currency",): Category(self.currencies, closed=bool(self.currencies))}

    def apply(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not fields_of(value).keys() <= {"amount", "currency"}:
            raise ValueError(f"expected an amount of money, got {value!r}")
        return fields_of(value)

    def split(self, value: Mapping[str, Any]) -> dict[Any, Any]:
        return {(name,): part for name, part in value.items() if part is not None}

    def join(self, parts: Mapping[Any, Any]) -> dict[str, Any]:
        return {path[0]: part for path, part in parts.items()}


def money_of_fields(fields: Mapping[str, Any]) -> Money | None:
    return Money() if fields.keys() == {"amount", "currency"} else None


MONEY = CompositeKind(Money, Money(), ({"amount": 3.5, "currency": "EUR"},), of_fields=money_of_fields)
