"""What a belief has far out: scipy's Student distribution, for little of the mass; and what that is worth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from tables import for_each

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.number import NumberBelief, NumberCodec, NumberConfig, NumberDecoder
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.leaves.number.densities import TAIL_MASS, HeavyTailed, HeavyTails, Mixture
from kbdisk.schemas.kinds import Number

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.normal(100, 30, size=500).round(1).tolist()
WIDTH = 8
FIRST = torch.zeros(1, dtype=torch.long)


def fitted(code: str = "standard", belief: str = "mixture") -> NumberCodec:
    return NumberCodec.fit(Number(), VALUES, NumberConfig(code=code, belief=belief, atoms=0), None)


def tailed(codec: NumberCodec, share: float = TAIL_MASS) -> HeavyTailed:
    """One Gaussian, and a tail."""
    curve = Mixture(torch.zeros(1, 1), torch.full((1, 1), 0.375), torch.full((1, 1), 0.25))
    return replace(HeavyTails([codec])(curve, FIRST), share=share)


def scipys(codec: NumberCodec, share: float) -> list[tuple[float, stats.rv_continuous]]:
    """Weights and laws of the same."""
    low, high = codec.edges[0], codec.edges[-1]
    return [(1 - share, stats.norm(0.375, 0.25)), (share, stats.t(2, (low + high) / 2, (high - low) / 2))]


def decoder(belief: str, codec: NumberCodec) -> NumberDecoder:
    return NumberDecoder([codec], Setting(WIDTH, [0], NumberConfig(belief=belief, atoms=0)))


def rows(count: int) -> Rows:
    return Rows(torch.zeros(count, dtype=torch.long), [count], torch.randn(count, WIDTH))


@for_each("share", [TAIL_MASS, 0.3])
def test_a_tailed_curve_is_scipys(share):
    codec = fitted()
    curve, laws = tailed(codec, share), scipys(codec, share)
    at = np.concatenate([-(10.0 ** np.arange(6, -3, -1)), np.linspace(-4, 4, 33), 10.0 ** np.arange(-2, 7)])
    z = torch.from_numpy(at)[None]
    assert curve.cdf(z)[0].numpy() == pytest.approx(sum(w * law.cdf(at) for w, law in laws), abs=1e-9)
    assert curve.pdf(z)[0].numpy() == pytest.approx(sum(w * law.pdf(at) for w, law in laws), rel=1e-6)
    assert curve.mean_code().item() == pytest.approx(sum(w * law.mean() for w, law in laws), abs=1e-6)
    for end in (-3.0, 0.2, 5.0):
        area = sum(w * integrate.quad(law.cdf, -np.inf, end, limit=500)[0] for w, law in laws)
        assert curve.integrated_cdf(torch.tensor([[end]]).double()).item() == pytest.approx(area, abs=1e-6)


@for_each("share", [TAIL_MASS, 0.3])
def test_the_mass_of_a_step_is_the_cdfs_however_far(share):
    codec = fitted()
    values = [100.0, 130.5, 0.0, -1e3, 1e4, -1e6, 1e7]
    codes = codec.encode(values)
    mass = tailed(codec, share).pick(torch.zeros(len(values), dtype=torch.long)).log_mass(codes)
    z, below, above = codes[:, :3].double().unbind(1)
    for i in range(len(values)):
        (rest, normal), (weight, student) = scipys(codec, share)
        ends = [(z[i] - below[i]).item(), (z[i] + above[i]).item()]
        expected = rest * np.diff(normal.cdf(ends))[0] + weight * integrate.quad(student.pdf, *ends, epsabs=0)[0]
        assert mass[i].item() == pytest.approx(math.log(expected), abs=1e-3)


@for_each("code", ["standard", "quantile", "minmax", "log"])
@for_each("belief", ["mixture", "binned"])
def test_a_number_far_outside_costs_nats_by_the_logarithm_of_the_distance(belief, code):
    codec = fitted(code, belief)
    far = [10.0**power * sign for power in (3, 5, 7, 9, 300) for sign in (1, -1)]
    with torch.no_grad():
        costs = -decoder(belief, codec)(torch.randn(10, WIDTH), rows(10)).log_prob(codec.encode(far))
    assert costs.max().item() < 100
    assert (costs[2:8] - costs[:6]).max().item() < 3 * math.log(100) + 1


@for_each("belief", ["mixture", "binned"])
def test_what_is_seen_in_training_costs_no_more_for_the_tail(belief):
    codec = fitted("quantile", belief)
    with torch.no_grad():
        believed = decoder(belief, codec)(torch.randn(500, WIDTH), rows(500))
    codes = codec.encode(VALUES)
    without = replace(believed, density=believed.density.density)
    torch.testing.assert_close(believed.log_prob(codes), without.log_prob(codes), rtol=0, atol=1e-3)


def test_the_squared_error_stays_what_it_is_however_far():
    codec = fitted("standard", "mse")
    believed = decoder("mse", codec)(torch.randn(3, WIDTH), rows(3))
    codes = codec.encode([100.0, 1e4, 1e6])
    square = (codes[:, 0] - believed.density.mean[:, 0]).double().square() / 2
    constant = math.log(codec.step * codec.map.after / math.sqrt(2 * math.pi))
    assert (-believed.log_prob(codes) + constant).tolist() == pytest.approx(square.tolist(), rel=1e-4, abs=1e-2)


def test_the_masses_of_all_steps_sum_to_one():
    leaf = Number(integer=True, minimum=0, maximum=400)
    codec = NumberCodec.fit(leaf, [round(value) for value in VALUES if value >= 0], NumberConfig(atoms=0), None)
    belief = NumberBelief(tailed(codec, 0.3), torch.zeros(1, 1), FIRST, CodecTables([codec]))
    codes = codec.encode(list(range(401)))
    masses = belief.pick(torch.zeros(401, dtype=torch.long)).log_prob(codes).double().exp()
    assert masses.sum().item() == pytest.approx(1, abs=1e-4)


def test_draws_follow_the_tail_too_and_a_low_temperature_forgets_it():
    codec = fitted()
    many = torch.zeros(20_000, dtype=torch.long)
    curve = tailed(codec, 0.3).pick(many)
    drawn = curve.draw(torch.Generator().manual_seed(0)).numpy()
    laws = scipys(codec, 0.3)
    assert stats.kstest(drawn, lambda z: sum(w * law.cdf(z) for w, law in laws)).pvalue > 0.01
    cold = curve.sharpened(0.04).draw(torch.Generator().manual_seed(0))
    assert (cold - 0.375).abs().max().item() < 0.25 * 0.2 * 6


def test_gradients_are_those_of_the_curve_where_it_has_the_mass_and_vanish_where_it_has_none():
    codec = fitted()
    mean = torch.full((2, 1), 0.375, requires_grad=True)
    curve = Mixture(torch.zeros(2, 1), mean, torch.full((2, 1), 0.25))
    codes = codec.encode([100.0, 1e9])
    (own,) = torch.autograd.grad(curve.log_mass(codes).sum(), mean)
    (tail,) = torch.autograd.grad(
        HeavyTails([codec])(curve, torch.zeros(2, dtype=torch.long)).log_mass(codes).sum(), mean
    )
    assert tail[0].item() == pytest.approx(own[0].item(), rel=1e-3)
    assert tail[1].item() == 0 < own[1].abs().item()
