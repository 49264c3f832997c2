"""A model of the phones of `worlds`, trained for a second."""

from __future__ import annotations

import pytest
from models import tiny
from worlds import PHONES, phones


@pytest.fixture(scope="session")
def handsets():
    """The model and its entities; read them, never change them."""
    entities = phones()
    return tiny(PHONES, entities), entities
