"""The texts that values replaced are found again, in memory or in a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.entity import show
from kbdisk.loaders import replaced
from kbdisk.loaders.replaced import ReplacedTexts

TEXTS = st.text(st.characters(), max_size=3)  # lone surrogates, too


@given(st.lists(st.tuples(TEXTS, st.sampled_from(["a", "b"]), st.dictionaries(TEXTS, st.none() | TEXTS, max_size=2))), st.integers(0, 4))  # fmt: skip
def test_of_each_value_the_latest_texts_stand_however_many_are_in_memory(added, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replaced, "MAX_IN_MEMORY", most)
        texts, expected = ReplacedTexts(), {}
        for id, key, was in added:
            texts.add(id, (key,), was)
            expected[id, show((key,))] = was
    assert {value: texts.get(*value) for value in expected} == expected
    assert texts.get("other", "a") is None
