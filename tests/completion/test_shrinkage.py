"""What is completed leans to the constant as far as the model was found wrong where the truth was hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from models import calibrated
from things import entities

from kbdisk.completion import complete
from kbdisk.evaluation.calibration import Line
from kbdisk.metrics import Constants, Marginals
from kbdisk.training.trained import Trained


def distrusted(model: Trained, weight: float) -> Trained:
    """The model, each of its properties trusted so far."""
    rows = [{**row, "trust": weight} for row in model.record.quality] or [
        {"class": slot.class_name, "path": ".".join(map(str, slot.path)), "trust": weight} for slot in model.codec.slots
    ]
    return replace(model, record=replace(model.record, quality=rows))


def said(model: Trained, things: list, path: str, **choices) -> object:
    return list(complete(model, entities(*things), fill="all", only=[(path,)], **choices))[3].filled[path,].value


@pytest.mark.parametrize("path", ["size", "colour"])
def test_without_any_trust_the_constant_is_said_and_with_all_of_it_what_the_model_says(model, things, path):
    del things[3][path]
    slot = model.codec.slot(model.codec.slots[0].class_name, (path,))
    constant = Constants.from_json(model.record.constants).slots[slot].value
    plain = said(model, things, path)
    assert said(distrusted(model, 1.0), things, path) == plain
    assert said(distrusted(model, 0.0), things, path) == pytest.approx(constant)
    if path == "size":
        assert said(distrusted(model, 0.5), things, path) == pytest.approx((plain + constant) / 2, abs=1)


@pytest.mark.parametrize("estimate", ["median", "sample"])
def test_how_sure_a_label_is_leans_to_its_share_as_far(model, things, estimate):
    del things[3]["colour"]

    def told(trust: float) -> tuple[object, float]:
        as_it_says = calibrated(distrusted(model, trust), correctness=Line())
        some = complete(as_it_says, entities(*things), fill="all", only=[("colour",)], estimate=estimate)
        filled = list(some)[3].filled
        return filled["colour",].value, filled["colour",].belief.correctness

    (plain, sure), (value, half), (last, none) = map(told, (1.0, 0.5, 0.05))
    assert value == plain == last
    slot = model.codec.slot(model.codec.slots[0].class_name, ("colour",))
    code = torch.from_numpy(model.codec.slots[slot].codec.labels.encode([plain]))
    share = (-Marginals(model.codec).nats(slot, code)).exp().item()
    assert abs(sure - share) > 0.01 or estimate == "sample"
    assert half == pytest.approx((sure + share) / 2, abs=1e-6)
    assert none == pytest.approx(0.05 * sure + 0.95 * share, abs=1e-6)


def test_samples_are_as_the_model_has_them(model, things):
    del things[3]["size"]
    drawn = [said(one, things, "size", estimate="sample", seed=1) for one in (model, distrusted(model, 0.0))]
    assert drawn[0] == drawn[1]
