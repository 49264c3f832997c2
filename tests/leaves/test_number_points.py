"""Points: a number with the least squared error is learnt beside the belief, in original units."""

import math

import numpy as np
import pytest
import torch
from tables import for_each

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.number.belief import HUBER_DELTA, PointEstimates
from kbdisk.leaves.number.codec import NumberCodec, NumberConfig
from kbdisk.leaves.number.decoder import NumberDecoder
from kbdisk.schemas.kinds import Number

D = 8


def codec(values, **bounds) -> NumberCodec:
    return NumberCodec.fit(Number(**bounds), values, NumberConfig())


def decoder(own: NumberCodec, point: float = 1.0) -> NumberDecoder:
    torch.manual_seed(0)
    return NumberDecoder([own], Setting(D, [0], NumberConfig(point=point)))


def rows(count: int) -> Rows:
    return Rows(torch.zeros(count, dtype=torch.long), [count], torch.zeros(count, D))


def test_the_moments_are_those_of_the_training_values():
    values = np.random.default_rng(0).normal(100, 15, 4000).round(2).tolist()
    mean, deviation = codec(values).moments
    assert mean == pytest.approx(np.mean(values), abs=1)
    assert deviation == pytest.approx(np.std(values), rel=0.1)


def test_the_moments_take_in_what_is_there_again_and_again():
    mean, deviation = codec([0.0] * 900 + [float(one) for one in range(1, 101)]).moments
    assert mean == pytest.approx(5.05, abs=1)
    assert deviation == pytest.approx(np.std([0.0] * 900 + list(range(1, 101))), rel=0.2)


def test_one_value_alone_deviates_by_a_step():
    assert codec([7] * 50).moments == (7, 1)


def test_huge_numbers_have_moments():
    assert all(map(math.isfinite, codec([1e300, -1e300, 5e299, 2e298] * 5).moments))


@for_each(
    ("off", "cost"),
    [(0.0, 0.0), (1.0, 0.5), (-2.0, 2.0), (HUBER_DELTA + 1, HUBER_DELTA * (HUBER_DELTA + 1 - HUBER_DELTA / 2))],
)
def test_an_error_costs_half_its_square_and_far_out_its_size(off, cost):
    points = PointEstimates(torch.zeros(1), torch.tensor([10.0]).double(), torch.tensor([4.0]).double(), 0.5)
    assert float(points.loss(torch.tensor([10 + 4 * off]).double())) == pytest.approx(0.5 * cost)


def test_what_is_expected_is_half_way_between_the_mean_and_the_point():
    own = codec([float(one) for one in range(100)])
    belief = decoder(own)(torch.randn(5, D), rows(5))
    assert belief.points is not None
    assert torch.allclose(belief.expected(), (belief.mean() + belief.points.numbers()) / 2)
    assert torch.allclose(belief.pick(torch.tensor([3])).expected(), belief.expected()[3:4])


def test_what_is_expected_is_within_the_bounds():
    own = codec([0.0, 1.0, 2.0] * 10, minimum=0.0)
    h = torch.randn(50, D) * 100
    assert bool((decoder(own)(h, rows(50)).expected() >= 0).all())


def test_without_points_nothing_is_learnt_aside_and_the_mean_is_expected():
    own = codec([float(one) for one in range(100)])
    belief = decoder(own, point=0.0)(torch.randn(2, D), rows(2))
    assert torch.equal(belief.expected(), belief.mean())
    assert torch.equal(belief.auxiliary_loss(own.encode([1.0, 2.0])), torch.zeros(2))


def test_points_learn_the_mean_where_the_belief_may_be_anything():
    """Of numbers that are 0 nine times of ten, and 1,000 else, and that nothing tells apart."""
    numbers = [0.0] * 90 + [1000.0] * 10
    own = codec(numbers)
    module, h, codes = decoder(own), torch.ones(100, D), own.encode(numbers)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        module(h, rows(100)).auxiliary_loss(codes).mean().backward()
        optimizer.step()
    belief = module(h, rows(100))
    assert belief.points is not None
    assert belief.points.numbers()[0].item() == pytest.approx(100, abs=10)
