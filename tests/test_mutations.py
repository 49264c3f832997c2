"""The list of mutations can be applied: each text stands where it is to be replaced, once."""

from __future__ import annotations

from mutations import MUTATIONS, ROOT, problems


def test_each_mutation_applies():
    assert problems(ROOT) == []
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) > 50
    missing = {test for each in MUTATIONS for test in each.tests if not (ROOT / test).exists()}
    assert not missing
