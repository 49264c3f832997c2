"""A model of the world of things, trained for a second."""

from __future__ import annotations

import copy

import pytest
from models import calibrated, tiny
from things import COUNT, entities, schema, thing

SOME = 24


@pytest.fixture
def things():
    """Trees without a gap, for a test to change: some of those that the model knows."""
    return copy.deepcopy([thing(i) for i in range(SOME)])


@pytest.fixture(scope="session")
def model():
    return calibrated(tiny(schema(), entities(*map(thing, range(COUNT)))))
