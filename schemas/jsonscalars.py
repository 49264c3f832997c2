"""Single values of a JSON Schema: numbers with their bounds and steps, text with its lengths, truths."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from kbdisk.schemas.imported import Notes, Told
from kbdisk.schemas.jsonhints import kind_told
from kbdisk.schemas.jsonnodes import Node

HUGE = 1e300  # bounds beyond are none
DATES = ("date", "date-time")


def scalar(node: Node, types: set[str], place: str, notes: Notes) -> Told:
    """A boolean, a number or text."""
    if types == {"string"}:
        return Told("link") if kind_told(node.told) == "link" else _text(node, place, notes)
    if types == {"boolean"}:
        return Told("boolean")
    if not types:
        return Told()
    told = Told("integer" if types == {"integer"} else "number", **_bounds(node.told))
    return _stepped(told, node, place, notes)


def _text(node: Node, place: str, notes: Notes) -> Told:
    format = node.told.get("format")
    if format in DATES:
        return Told("date")
    if format is not None:
        notes.add(place, f"format {format} is not checked")
    longest = node.told.get("maxLength")
    return Told(
        "text", min_length=int(node.told.get("minLength", 0)), max_length=None if longest is None else int(longest)
    )


def _stepped(told: Told, node: Node, place: str, notes: Notes) -> Told:
    """With the decimals, or the wholeness, that multipleOf tells."""
    step = node.told.get("multipleOf")
    if step is None or (step == 1 and told.word == "integer"):
        return told
    exact = Decimal(repr(step))
    sign, digits, exponent = exact.normalize().as_tuple()
    if step == 1:
        return replace(told, word="integer")
    if sign or digits != (1,) or not isinstance(exponent, int) or exponent > 0:
        notes.add(place, f"multipleOf {step} is not checked")
        return told
    notes.add(place, f"multipleOf {step} is how many decimals are written, and not checked")
    return replace(told, decimals=-exponent)


def _bounds(told: dict[str, Any]) -> dict[str, Any]:
    """Bounds as fields of a Told; in draft 4 an exclusive bound is a truth beside the bound."""
    bounds = {"minimum": told.get("minimum"), "maximum": told.get("maximum")}
    for name, own, field in (("exclusiveMinimum", "minimum", "above"), ("exclusiveMaximum", "maximum", "below")):
        if told.get(name) is True:
            bounds |= {field: bounds[own], own: None}
        elif not isinstance(told.get(name, False), bool):
            bounds[field] = told[name]
    return {key: bound for key, bound in bounds.items() if bound is not None and abs(bound) < HUGE}
