"""Estimates: which value is said for a belief, how sure, and between which bounds."""

from __future__ import annotations

import pytest
import torch
from tables import for_each

from kbdisk.entity import Entity
from kbdisk.model.diffusion import beliefs
from kbdisk.model.estimates import (
    ESTIMATES,
    INTERVAL_LEVEL,
    decode_codes,
    estimate_codes,
    estimate_values,
    round_to_interval,
)


@pytest.fixture(scope="module")
def asked(tiny_model):
    """What a model believes of all that one phone without anything but its name could have."""
    tokens = tiny_model.encode([Entity("new", {"name": "New"})], "all")
    batch = tokens.batch(torch.arange(1))
    with torch.no_grad():
        return batch, beliefs(tiny_model.network, batch)


@for_each("estimate", ESTIMATES)
def test_everything_asked_is_answered_once_and_fits_its_leaf(tiny_model, asked, estimate):
    batch, believed = asked
    found = estimate_values(tiny_model.codec, batch, believed, estimate)
    assert sorted(one.token for one in found) == batch.asked.nonzero()[:, 0].tolist()
    for one in found:
        assert 0 <= one.confidence <= 1
        tiny_model.codec.slots[one.slot].leaf.check(one.value)


@for_each("estimate", ["median", "mean", "mode"])
def test_numbers_are_said_by_the_estimate_that_was_asked_for(tiny_model, asked, estimate):
    batch, believed = asked
    belief = believed.kinds["number"].belief
    exact = belief.mode_values() if estimate == "mode" else getattr(belief, estimate)()
    steps = [tiny_model.codec.slots[slot].codec.step for slot in batch.slot[believed.kinds["number"].tokens].tolist()]
    said = [one for one in estimate_values(tiny_model.codec, batch, believed, estimate) if one.interval is not None]
    for one, number, step in zip(said, exact.tolist(), steps, strict=True):
        assert one.value == pytest.approx(number, abs=step / 2 + 1e-6 * abs(number))


def test_a_number_is_as_sure_as_the_mass_around_it_and_labels_as_their_probability(tiny_model, asked):
    batch, believed = asked
    numbers = believed.kinds["number"].belief
    for place, one in enumerate(
        one for one in estimate_values(tiny_model.codec, batch, believed) if one.interval is not None
    ):
        alone = numbers.pick(torch.full((400,), place))
        draws = alone.values(alone.sample())
        inside = (draws - one.value).abs() <= one.within + 1e-9
        assert inside.double().mean().item() == pytest.approx(one.confidence, abs=4 * 0.5 / 20)
        low, high = one.interval
        half = numbers.tables.step[numbers.slot[place]].item() / 2  # a draw stands for the step around it
        assert ((draws >= low - half) & (draws <= high + half)).double().mean().item() > INTERVAL_LEVEL - 0.08
    labels = believed.kinds["category"]
    said = estimate_codes(believed)["category"]
    shares = labels.belief.log_prob(said).exp().tolist()
    places = set(labels.tokens.tolist())
    sure = [one.confidence for one in estimate_values(tiny_model.codec, batch, believed) if one.token in places]
    assert sure == pytest.approx(shares)


def test_samples_differ_and_follow_the_generator(tiny_model, asked):
    batch, believed = asked

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        return [one.value for one in estimate_values(tiny_model.codec, batch, believed, "sample", generator=generator)]

    assert drawn(1) == drawn(1)
    assert any(drawn(1) != drawn(seed) for seed in (2, 3, 4))


def test_codes_of_several_slots_are_decoded_each_by_its_own_codec(tiny_model):
    codec = tiny_model.codec
    weight, month = codec.slot("", ("weight", "value")), codec.slot("", ("launch", "month"))
    codes = torch.cat([codec.slots[slot].codec.encode([number]) for slot, number in ((weight, 133), (month, 7))])
    assert decode_codes(codec, torch.tensor([weight, month]), codes) == [133, 7]


@for_each(
    ("number", "interval", "written"),
    [
        (6.82838798, (3.0, 9.9), 6.83),
        (6.82838798, (6.828, 6.83), 6.82839),
        (1234.56789, (0.0, 50000.0), 1235.0),  # digits before the point stay
        (2.4490020968955998e25, (1e25, 4e25), 2.45e25),  # but those that a float does not have
        (1e16, (0.0, 1e20), 1e16),  # and three at least
        (0.25, (0.25, 0.25), 0.25),
        (7.5, (-float("inf"), 9.0), 7.5),
    ],
)
def test_a_number_has_the_digits_that_say_something(number, interval, written):
    assert round_to_interval(number, interval) == written


def test_an_estimate_that_there_is_not_is_refused(asked):
    with pytest.raises(ValueError, match="expected one of median, mean, mode, sample to estimate by, got 'max'"):
        estimate_codes(asked[1], "max")
