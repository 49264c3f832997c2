"""Within this folder `run` runs `python -m benchmarks`."""

from __future__ import annotations

import pytest


@pytest.fixture
def program():
    from benchmarks.cli import main

    return main, "python -m benchmarks"
