"""Some of a belief around its answer: its masses are those of normal distributions there, and all add up to 1."""

from __future__ import annotations

import pytest
import torch
from tables import for_each

from kbdisk.leaves.number.belief import AROUND_WIDTHS, are_masses_around
from tests.leaves.test_number_beliefs import LEAVES, believed, fitted, mixture


def with_answer(codec, number: float):
    return believed(codec, mixture(2)).with_answer(torch.full((2,), number, dtype=torch.float64))


def mass(at: int, share: float) -> torch.Tensor:
    found = torch.zeros(2, len(AROUND_WIDTHS), dtype=torch.float64)
    found[:, at] = share
    return found


@for_each("data", LEAVES)
@for_each("at", range(len(AROUND_WIDTHS)))
def test_what_is_given_is_normal_around_the_answer_and_the_rest_stays(data, at):
    codec = fitted(data)
    values = list(dict.fromkeys(LEAVES[data][1][:6]))
    belief = with_answer(codec, float(values[0]))
    after = belief.with_mass_around(belief.expected(), mass(at, 0.7))
    place = float(codec.map.forward(belief.answer[:1].numpy())[0])
    for value in values:
        codes = codec.encode([value]).expand(2, -1)
        code, below, above = codes[0, :3].double()
        near = torch.distributions.Normal(place, AROUND_WIDTHS[at])
        step = float(near.cdf((code + above).clamp(-1e6, 1e6)) - near.cdf((code - below).clamp(-1e6, 1e6)))
        assert belief.log_masses_around(belief.expected(), codes)[:, at].exp().tolist() == pytest.approx(
            [step] * 2, rel=2e-2, abs=1e-6
        )
        chance = 0.3 * belief.log_prob(codes).exp() + 0.7 * step
        assert after.log_prob(codes).exp().tolist() == pytest.approx(chance.tolist(), rel=2e-2, abs=1e-6)
    assert after.cdf(torch.full((2,), 1e9, dtype=torch.float64)).tolist() == pytest.approx([1, 1])
    assert after.expected().tolist() == belief.expected().tolist()


def test_with_all_mass_there_the_median_is_the_answer():
    codec = fitted("skewed")
    for at in range(len(AROUND_WIDTHS)):
        numbers = torch.full((2,), 2.0, dtype=torch.float64)
        after = with_answer(codec, 2.0).with_mass_around(numbers, mass(at, 1.0))
        assert after.median().tolist() == pytest.approx([2.0, 2.0], abs=1e-4)


def test_with_none_a_belief_stays_what_it_is():
    codec = fitted("spiked")
    before = with_answer(codec, 2.5)
    after = before.with_mass_around(before.expected(), mass(0, 0.0))
    codes = codec.encode([0.0, 2.5])
    assert after.log_prob(codes).tolist() == pytest.approx(before.log_prob(codes).tolist(), rel=1e-5)
    assert after.mean().tolist() == pytest.approx(before.mean().tolist())
    assert after.median().tolist() == pytest.approx(before.median().tolist())


def test_several_widths_are_a_mixture_of_them():
    codec = fitted("skewed")
    belief = with_answer(codec, 2.0)
    several = torch.tensor([[0.1, 0.0, 0.2, 0.0, 0.2, 0.1, 0.1, 0.0]], dtype=torch.float64).expand(2, -1)
    for value in (1.5, 2.0, 2.1):
        codes = codec.encode([value]).expand(2, -1)
        near = (several * belief.log_masses_around(belief.expected(), codes).exp()).sum(1)
        chance = 0.3 * belief.log_prob(codes).exp() + near
        assert belief.with_mass_around(belief.expected(), several).log_prob(codes).exp().tolist() == pytest.approx(
            chance.tolist(), rel=1e-3
        )


def test_another_value_may_be_likelier_than_the_answer():
    """Of the mass a little is dense at the answer, and more of it on one step elsewhere: that is the mode."""
    codec = fitted("skewed")
    belief = with_answer(codec, 2.0)
    other = codec.encode([4.0]).expand(2, 1, -1)
    mass = torch.zeros(2, belief.kernels, 1, dtype=torch.float64)
    mass[:, 0] = 0.5
    shares = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64).expand(2, -1)
    interpolated = belief.interpolated(other, mass, shares).with_answer(belief.answer)
    few = torch.full((2, len(AROUND_WIDTHS)), 0.06, dtype=torch.float64)
    assert interpolated.with_mass_around(interpolated.expected(), few).mode_values().tolist() == [4.0, 4.0]


@for_each(
    "wrong", [[0.1] * (len(AROUND_WIDTHS) - 1), [0.2] * len(AROUND_WIDTHS), [-0.1] + [0.1] * (len(AROUND_WIDTHS) - 1)]
)
def test_what_are_no_masses_is_told(wrong):
    assert not are_masses_around(torch.tensor(wrong, dtype=torch.float64))
    assert are_masses_around(torch.full((len(AROUND_WIDTHS),), 0.1, dtype=torch.float64))
