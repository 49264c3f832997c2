"""Filled amounts: in which unit they are written, and which unit an amount without one gets."""

from __future__ import annotations

import math
import random

import pytest

import kbdisk
from tests.models import tiny_run

FACTORS = {"kg": 1.0, "g": 0.001, "lb": 0.45359237}


@pytest.fixture(scope="module")
def completed():
    """Weights of about 4 kg in three units, some without their amount, some without their unit."""
    draw, rows = random.Random(3), []
    for n in range(90):
        unit = ("kg", "g", "lb")[n % 3]
        kilograms = 4 * math.exp(draw.gauss(0, 0.1))
        rows.append(
            {"id": str(n), "size": n % 5, "weight": {"value": float(f"{kilograms / FACTORS[unit]:.3g}"), "unit": unit}}
        )
    for n in range(30):
        del rows[n]["weight"]["value" if n < 15 else "unit"]
    model = kbdisk.train(rows, run=tiny_run(), device="cpu")
    return rows, {one.entity.id: one for one in model.complete(rows, fill="all")}


def test_a_filled_amount_is_in_the_unit_that_is_given(completed):
    _, told = completed
    for n in range(15):
        weight = told[str(n)].tree()["weight"]
        assert weight["unit"] == ("kg", "g", "lb")[n % 3]
        assert 1 < weight["value"] * FACTORS[weight["unit"]] < 16  # kilograms
        low, high = told[str(n)].filled["weight", "value"].belief.interval
        assert low <= weight["value"] <= high


def test_an_amount_without_its_unit_gets_one_in_which_it_is_likely(completed):
    rows, told = completed
    for n in range(15, 30):
        weight = told[str(n)].tree()["weight"]
        assert weight["value"] == rows[n]["weight"]["value"]
        assert (weight["unit"] == "g") == (n % 3 == 1)
