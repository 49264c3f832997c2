"""What is completed leans to the constant as far as the model was found wrong where the truth was hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest
from things import entities

from kbdisk.completion import complete
from kbdisk.scoring import Constants
from kbdisk.training.trained import Trained


def distrusted(model: Trained, weight: float) -> Trained:
    """The model, each of its properties trusted so far."""
    rows = [{**row, "trust": weight} for row in model.record.quality] or [
        {"class": slot.of, "path": ".".join(map(str, slot.path)), "trust": weight} for slot in model.codec.slots
    ]
    return Trained(model.codec, model.network, model.run, replace(model.record, quality=rows))


def said(model: Trained, things: list, path: str, **choices) -> object:
    return list(complete(model, entities(*things), fill="all", **choices))[3].filled[path,].value


@pytest.mark.parametrize("path", ["size", "colour"])
def test_without_any_trust_the_constant_is_said_and_with_all_of_it_what_the_model_says(model, things, path):
    del things[3][path]
    slot = model.codec.slot(model.codec.slots[0].of, (path,))
    constant = Constants.from_json(model.record.constants).slots[slot].value
    plain = said(model, things, path)
    assert said(distrusted(model, 1.0), things, path) == plain
    assert said(distrusted(model, 0.0), things, path) == pytest.approx(constant)
    if path == "size":
        assert said(distrusted(model, 0.5), things, path) == pytest.approx((plain + constant) / 2, abs=1)


def test_samples_are_as_the_model_has_them(model, things):
    del things[3]["size"]
    drawn = [said(one, things, "size", estimate="sample", seed=1) for one in (model, distrusted(model, 0.0))]
    assert drawn[0] == drawn[1]
