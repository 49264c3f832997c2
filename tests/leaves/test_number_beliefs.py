"""Beliefs about numbers, with scipy as the judge: in codes, in steps of the resolution, in original units."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from tables import for_each

from kbdisk.leaves.number import NumberBelief, NumberCodec, NumberConfig
from kbdisk.leaves.number.belief import KERNEL_WIDTHS
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.leaves.number.densities import TAILS, Binned, Bins, Blend, HeavyTailed, HeavyTails, Mixture, Shifted
from kbdisk.schemas.kinds import Number

RANDOM = np.random.default_rng(0)
SKEWED = RANDOM.lognormal(1, 1, size=2000).round(3)
SPIKED = np.concatenate([SKEWED[:600], [0.0] * 300, [2.5] * 100])
WHOLE = RANDOM.geometric(0.2, size=1000)
LEAVES = {
    "skewed": (Number(), SKEWED.tolist()),
    "spiked": (Number(minimum=0), SPIKED.tolist()),
    "whole": (Number(integer=True, minimum=1, maximum=15), WHOLE[WHOLE < 16].tolist()),
}


@functools.cache
def fitted(data: str = "skewed", code: str = "quantile", **choices) -> NumberCodec:
    leaf, values = LEAVES[data]
    return NumberCodec.fit(leaf, values, NumberConfig(code=code, **choices), None)


def mixture(rows: int = 3, components: int = 4, narrow: float = 0.0) -> Mixture:
    std = (torch.randn(rows, components) - narrow).exp()
    return Mixture(torch.randn(rows, components), torch.randn(rows, components), std)


def binned(codec: NumberCodec, rows: int = 3) -> Binned:
    bins, slot = Bins([codec]), torch.zeros(rows, dtype=torch.long)
    return Binned(
        bins.prior[slot] + torch.randn(rows, TAILS + bins.count),
        bins.edges[slot],
        bins.inverse_width[slot],
        bins.tail[slot],
    )


def tailed(codec: NumberCodec, rows: int = 3) -> HeavyTailed:
    curve: HeavyTailed = HeavyTails([codec])(mixture(rows), torch.zeros(rows, dtype=torch.long))
    return curve


def believed(codec: NumberCodec, curve: Mixture | Binned | HeavyTailed) -> NumberBelief:
    rows = len(curve.mean_code())
    shares = torch.randn(rows, 1 + len(codec.atoms)).log_softmax(1)
    return NumberBelief(curve, shares, torch.zeros(rows, dtype=torch.long), CodecTables([codec]))


def blended(codec: NumberCodec, rows: int = 3) -> Blend:
    return Blend(mixture(rows, narrow=2), mixture(rows), torch.rand(rows, dtype=torch.float64))


def nested(codec: NumberCodec, rows: int = 3) -> Blend:
    """As in a belief that is around its answer, and knows its neighbours: narrow ones, of one mean, within a blend."""
    mean, std = torch.randn(rows, 1).expand(-1, 6), torch.tensor([0.02, 0.03, 0.05, 0.1, 0.2, 0.3]).expand(rows, -1)
    near = Mixture(torch.randn(rows, 6), mean, std)
    return Blend(near, blended(codec, rows), torch.rand(rows, dtype=torch.float64) * 0.6)


def moved(codec: NumberCodec, rows: int = 3) -> Blend:
    """As in a belief that others have moved: the same curve twice."""
    curve = blended(codec, rows)
    return Blend(Shifted(curve, torch.randn(rows, dtype=torch.float64)), curve, torch.rand(rows, dtype=torch.float64))


CURVES = {
    "mixture": lambda codec: mixture(),
    "binned": binned,
    "tailed": tailed,
    "blended": blended,
    "nested": nested,
    "moved": moved,
}


CODES = ["quantile", "log", "standard"]
# Every code with every curve; each leaf with every code and with every curve.
KINDS = [
    (list(LEAVES)[(at + turn) % len(LEAVES)], code, kind)
    for at, code in enumerate(CODES)
    for turn, kind in enumerate(CURVES)
]


def made(data: str, code: str, kind: str) -> tuple[NumberCodec, NumberBelief]:
    codec = fitted(data, code)
    return codec, believed(codec, CURVES[kind](codec))


def grid(codec: NumberCodec, belief: NumberBelief) -> torch.Tensor:
    """Numbers (n, m) strictly within the bounds, close to each other in code, with every knot and every edge."""
    edges = belief.density.edges[0].numpy() if isinstance(belief.density, Binned) else []
    spread = [np.linspace(-20, -8, 301), np.linspace(-8, 8, 3_201), np.linspace(8, 20, 301)]
    x = codec.map.inverse(np.concatenate([*spread, codec.map.z, edges]))
    low, high = codec.bounds
    return torch.from_numpy(np.unique(x[(x > low) & (x < high)])).expand(len(belief.slot), -1)


def test_a_mixture_is_scipys():
    curve = mixture()
    z = torch.linspace(-6, 6, 41, dtype=torch.float64).expand(3, -1)
    weights = curve.logits.double().softmax(1).numpy()[:, :, None]
    law = stats.norm(curve.mean.double().numpy()[:, :, None], curve.std.double().numpy()[:, :, None])
    at = z.numpy()[:, None]
    assert curve.cdf(z).numpy() == pytest.approx((weights * law.cdf(at)).sum(1), abs=1e-12)
    assert curve.pdf(z).numpy() == pytest.approx((weights * law.pdf(at)).sum(1), rel=1e-10)
    assert curve.mean_code().numpy() == pytest.approx((weights * law.mean()).sum((1, 2)))


def test_a_mixture_of_straight_codes_has_scipys_quantiles():
    codec = fitted(code="standard", atoms=0)
    curve = mixture(1, 3)
    belief = believed(codec, curve)
    mean, std = SKEWED.mean(), SKEWED.std()
    law = stats.Mixture(
        [
            stats.Normal(mu=mean + std * m, sigma=std * s)
            for m, s in zip(curve.mean[0].tolist(), curve.std[0].tolist(), strict=True)
        ],
        weights=curve.logits[0].double().softmax(0).numpy(),
    )
    levels = torch.tensor([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6], dtype=torch.float64)
    assert belief.quantile(levels)[0].numpy() == pytest.approx([law.icdf(p) for p in levels.numpy()], rel=1e-6)
    assert belief.mean().item() == pytest.approx(law.mean())
    at = np.array([-3.0, 0.0, 2.0, 11.0])
    assert belief.pdf(torch.from_numpy(at)[None])[0].numpy() == pytest.approx(law.pdf(at))
    assert belief.cdf(torch.from_numpy(at)[None])[0].numpy() == pytest.approx(law.cdf(at))
    codes = codec.encode([2.0])
    assert belief.log_prob(codes).item() == pytest.approx(math.log(law.cdf(2.0005) - law.cdf(1.9995)), abs=1e-4)
    assert belief.log_prob(codes).item() == pytest.approx(law.logpdf(2.0) + math.log(0.001), abs=1e-3)


def test_a_binned_density_is_scipys_histogram_with_tails():
    codec = fitted(code="minmax", atoms=0)
    curve = binned(codec)
    under, bins, over = (mass[0].numpy() for mass in curve.masses)
    edges, tail = curve.edges[0].double().numpy(), curve.tail[0].item()
    law = stats.rv_histogram((bins, edges), density=False)
    z = torch.linspace(edges[0] - 1, edges[-1] + 1, 301, dtype=torch.float64)
    left, right = stats.expon(loc=-edges[0], scale=tail), stats.expon(loc=edges[-1], scale=tail)
    at = z.numpy()
    cdf = under * left.sf(-at) + (1 - under - over) * law.cdf(at) + over * right.cdf(at)
    pdf = under * left.pdf(-at) + (1 - under - over) * law.pdf(at) + over * right.pdf(at)
    assert curve.cdf(z.expand(3, -1))[0].numpy() == pytest.approx(cdf, abs=1e-12)
    assert curve.pdf(z.expand(3, -1))[0].numpy() == pytest.approx(pdf, rel=1e-9)


@for_each(("data", "code", "kind"), KINDS)
def test_density_and_atoms_integrate_to_the_cdf_and_to_one(data, code, kind):
    codec, belief = made(data, code, kind)
    x = grid(codec, belief)
    masses = belief.pdf((x[:, 1:] + x[:, :-1]) / 2) * x.diff(dim=1)
    values, atoms = belief.atoms
    places = torch.searchsorted(x[0].contiguous(), values[0])
    inside = (places > 0) & (places < x.shape[1])  # not at a bound
    masses[:, (places - 1)[inside]] += atoms[:, inside]
    cdf = belief.cdf(x)
    assert (cdf[:, :1] + masses.cumsum(1)).numpy() == pytest.approx(cdf[:, 1:].numpy(), abs=1e-3)
    if codec.leaf.minimum is None:
        assert masses.sum(1).numpy() == pytest.approx(np.ones(3), abs=1e-3)


@for_each(("data", "code", "kind"), KINDS)
def test_the_masses_of_all_steps_are_those_of_the_cdf(data, code, kind):
    codec, belief = made(data, code, kind)
    low, high = max(codec.bounds[0], -2), min(codec.bounds[1], 15)
    steps = np.linspace(low, high, round((high - low) / codec.step) + 1).round(codec.decimals)
    codes = codec.encode(steps.tolist())
    ends = belief.cdf(torch.tensor([low - codec.step / 2, high + codec.step / 2]).double().expand(3, -1))
    for row in range(3):
        mass = belief.pick(torch.full((len(steps),), row)).log_prob(codes).double().exp().sum()
        assert mass.item() == pytest.approx((ends[row, 1] - ends[row, 0]).item(), abs=1e-4)
    if codec.whole:
        assert ends.tolist() == [[0, 1]] * 3


@for_each(("data", "code", "kind"), KINDS)
def test_the_mean_is_the_average_of_the_quantiles(data, code, kind):
    _, belief = made(data, code, kind)
    levels = (torch.arange(500, dtype=torch.float64) + 0.5) / 500
    assert belief.mean().numpy() == pytest.approx(belief.quantile(levels).mean(1).numpy(), rel=0.05, abs=0.02)


def test_the_mean_is_exact():
    codec = fitted("spiked")
    curve = mixture(1, 2)
    belief = believed(codec, curve)

    def density(z: float) -> float:
        return curve.pdf(torch.tensor([[z]], dtype=torch.float64)).item()

    def weighed(z: float) -> float:
        return codec.map.inverse(np.array([z])).clip(*codec.bounds).item() * density(z)

    ends = [-30.0, *codec.map.z, codec.map.forward(np.zeros(1)).item(), 30.0]
    whole = sum(integrate.quad(weighed, a, b)[0] for a, b in zip(sorted(ends)[:-1], sorted(ends)[1:], strict=True))
    values, masses = belief.atoms
    expected = belief.shares[0, 0].double().exp() * whole + (values * masses).sum()
    assert belief.mean().item() == pytest.approx(expected.item(), rel=1e-8)


@pytest.mark.slow
@for_each(("data", "code", "kind"), KINDS)
def test_quantiles_are_the_least_numbers_that_reach_the_level(data, code, kind):
    codec, belief = made(data, code, kind)
    levels = torch.tensor([0.001, 0.1, 0.25, 0.5, 0.77, 0.9, 0.999], dtype=torch.float64)
    found = belief.quantile(levels)
    assert (found.diff(dim=1) >= 0).all()
    slight = 1e-9 * (1 + found.abs())
    assert (belief.cdf(found + slight) >= levels - 1e-9).all()
    least = found <= codec.bounds[0]
    assert ((belief.cdf(found - slight) <= levels + 1e-9) | least).all()
    assert torch.equal(belief.median(), belief.quantile(0.5))


@for_each(("data", "code", "kind"), KINDS)
def test_the_typical_number_is_between_the_median_and_the_answer_in_the_middle_of_the_mass(data, code, kind):
    _, belief = made(data, code, kind)
    median = belief.median()
    assert torch.equal(belief.typical(), median)
    low, high = belief.quantile(0.4), belief.quantile(0.6)
    for answer in (belief.quantile(0.5), belief.quantile(0.55), belief.quantile(1 - 1e-6)):
        typical, close = belief.with_answer(answer).typical(), 1e-6 * (1 + answer.abs())
        ends = torch.minimum(median, answer) - close, torch.maximum(median, answer) + close
        assert bool(((typical >= ends[0]) & (typical <= ends[1])).all())
        assert bool(((typical >= low - close) & (typical <= high + close)).all())


@for_each(("data", "code", "kind"), KINDS)
def test_an_estimate_is_clamped_to_the_middle_four_fifths_of_the_mass(data, code, kind):
    _, belief = made(data, code, kind)
    none = torch.zeros(len(belief.slot), dtype=torch.float64)
    low, median, high = (belief.quantile(level) for level in (0.1, 0.5, 0.9))
    atoms, masses = belief.atoms
    is_heavy = ((atoms == median[:, None]) & (masses >= 0.2)).any(1)
    for level in (1e-6, 0.09, 0.15, 0.5, 0.88, 0.91, 1 - 1e-6):
        estimate = belief.tables.bounded(belief.slot, belief.quantile(level)[:, None])[:, 0]
        clamped = torch.minimum(torch.maximum(estimate, low), high).where(~is_heavy, median)
        assert torch.equal(belief.with_estimate(median, estimate, none).typical(), clamped)


@for_each(("data", "code", "kind"), KINDS)
def test_what_is_computed_once_for_equal_rows_is_that_of_each_row(data, code, kind):
    _, belief = made(data, code, kind)
    equal = belief.pick(torch.tensor([1] * 7))
    other = belief.pick(torch.tensor([1, 1, 2, 1, 0, 1, 1]))
    for ask in (NumberBelief.mean, NumberBelief.median):
        of_each = torch.cat([ask(belief.pick(torch.tensor([row]))) for row in range(3)])
        assert torch.allclose(ask(equal), of_each[1].expand(7), rtol=1e-9, atol=1e-9)
        assert torch.allclose(ask(other), of_each[torch.tensor([1, 1, 2, 1, 0, 1, 1])], rtol=1e-9, atol=1e-9)
    assert len(belief.pick(torch.tensor([], dtype=torch.long)).mean()) == 0
    asked: list[int] = []

    def ask_and_count(of_rows: NumberBelief) -> torch.Tensor:
        asked.append(len(of_rows.slot))
        return of_rows.slot.double()

    equal._once_for_equal_rows(ask_and_count)
    other._once_for_equal_rows(ask_and_count)
    assert asked == [1, 7]


def test_a_repeated_number_that_is_the_median_is_said():
    codec = fitted("spiked", "quantile")
    masses = torch.tensor([0.5, 0.5, *[0.0] * (len(codec.atoms) - 1)]).clamp(min=1e-9).expand(3, -1)
    belief = NumberBelief(mixture(), masses.log(), torch.zeros(3, dtype=torch.long), CodecTables([codec]))
    assert belief.median().tolist() == [0.0] * 3
    answer = torch.full((3,), 1.5, dtype=torch.float64)
    assert belief.with_answer(answer).typical().tolist() == [0.0] * 3
    assert (
        belief.with_estimate(belief.median(), answer, torch.ones(3, dtype=torch.float64)).typical().tolist()
        == [0.0] * 3
    )


@for_each(("data", "code", "kind"), KINDS)
def test_an_estimate_takes_the_curve_along(data, code, kind):
    _, belief = made(data, code, kind)
    whole, none = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    estimate = belief.quantile(0.8)
    moved = belief.with_estimate(belief.typical(), estimate, whole)
    low, high = moved.quantile(0.1), moved.quantile(0.9)
    typical = moved.with_answer(estimate + 1).pick(torch.tensor([1, 2])).typical()
    median, (atoms, masses) = moved.median(), moved.atoms
    is_heavy = ((atoms == median[:, None]) & (masses >= 0.2)).any(1)
    assert torch.allclose(typical, torch.minimum(torch.maximum(estimate, low), high).where(~is_heavy, median)[1:])
    assert belief.with_estimate(belief.typical(), estimate, none).density is belief.density
    distance = belief.tables(belief.slot, estimate[:, None]) - belief.tables(belief.slot, belief.typical()[:, None])
    z = torch.randn(3, 5, dtype=torch.float64)
    assert torch.allclose(moved.density.cdf(z + distance), belief.density.cdf(z), atol=1e-9)
    half = belief.with_estimate(belief.typical(), estimate, whole / 2)
    assert torch.allclose(half.density.cdf(z), (moved.density.cdf(z) + belief.density.cdf(z)) / 2, atol=1e-9)


@for_each(("data", "code", "kind"), KINDS)
def test_an_interval_holds_its_share(data, code, kind):
    _, belief = made(data, code, kind)
    low, high = belief.interval(0.8)
    slight = 1e-9
    assert (belief.cdf(high + slight) - belief.cdf(low - slight) >= 0.8 - 1e-6).all()
    assert (belief.cdf(low - slight) <= 0.1 + 1e-6).all()
    assert (belief.cdf(high - slight) <= 0.9 + 1e-6).all()


@for_each(("data", "code", "kind"), KINDS)
def test_draws_follow_the_cdf_and_can_be_written(data, code, kind):
    codec, belief = made(data, code, kind)
    count = 1500
    codes = belief.pick(torch.zeros(count, dtype=torch.long)).sample(generator=torch.Generator().manual_seed(1))
    written = codec.decode(codes)
    torch.testing.assert_close(codec.encode(written), codes, rtol=1e-3, atol=1e-6)
    values = np.sort(np.array(written, dtype=float))
    upper = belief.cdf(torch.from_numpy(values + codec.step / 2).expand(3, -1))[0].numpy()
    share = np.searchsorted(values, values, side="right") / count
    assert np.abs(upper - share).max() < 1.95 / math.sqrt(count)  # Kolmogorov: 1 in 1000


def test_draws_are_those_of_the_generator():
    belief = believed(fitted("spiked"), mixture(50))
    first, second, other = (belief.sample(generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@for_each("kind", ["mixture", "binned"])
def test_a_low_temperature_sharpens(kind):
    codec = fitted("skewed", "standard", atoms=0)
    belief = believed(codec, mixture(1) if kind == "mixture" else binned(codec, 1)).pick(
        torch.zeros(2000, dtype=torch.long)
    )
    spread = [belief.sample(temperature)[:, 0].std().item() for temperature in (2.0, 1.0, 0.5, 0.1)]
    assert spread == sorted(spread, reverse=True)


@for_each(("data", "code", "kind"), KINDS)
def test_the_mode_is_the_likeliest_step(data, code, kind):
    codec, belief = made(data, code, kind)
    x = grid(codec, belief)[0].numpy()
    candidates = np.unique(
        np.concatenate([x[(x > -100) & (x < 1000)], codec.atoms]).round(codec.decimals).clip(*codec.bounds)
    )
    codes = codec.encode(candidates.tolist())
    for row, mode in enumerate(belief.log_prob(belief.mode()).tolist()):
        best = belief.pick(torch.full((len(codes),), row)).log_prob(codes).max().item()
        assert mode >= best - 0.03


@for_each(("data", "code", "kind"), KINDS)
def test_entropy_is_the_expectation_of_minus_log_prob(data, code, kind):
    _, belief = made(data, code, kind)
    entropy = belief.entropy()
    assert (entropy >= 0).all()
    for row in range(3):
        one = belief.pick(torch.full((1500,), row))
        surprise = -one.log_prob(one.sample())
        assert entropy[row].item() == pytest.approx(surprise.mean().item(), abs=0.3)


def test_entropy_of_a_certain_belief_is_nothing():
    codec = fitted("whole", atoms=0)
    sharp = Mixture(
        torch.zeros(1, 1), torch.from_numpy(codec.map.forward(np.array([[4.0]]))).float(), torch.full((1, 1), 1e-4)
    )
    assert believed(codec, sharp).entropy().item() == pytest.approx(0, abs=1e-4)
    assert codec.decode(believed(codec, sharp).mode()) == [4]


def test_one_belief_in_two_straight_codes_has_one_log_prob():
    standard, minmax = fitted("skewed", "standard", atoms=0), fitted("skewed", "minmax", atoms=0)
    curve = mixture(1)
    values = [0.001, 0.5, 3.0, 17.25, 60.0]
    x = torch.from_numpy(standard.map.inverse(curve.mean.double().numpy()))
    stretch = minmax.map.after / standard.map.after
    same = Mixture(curve.logits, torch.from_numpy(minmax.map.forward(x.numpy())).float(), curve.std * stretch)
    several = torch.zeros(len(values), dtype=torch.long)
    first = believed(standard, curve).pick(several).log_prob(standard.encode(values))
    second = believed(minmax, same).pick(several).log_prob(minmax.encode(values))
    assert first.tolist() == pytest.approx(second.tolist(), abs=1e-3)


def test_one_belief_in_two_codes_that_bend_has_one_log_prob():
    """Level between the knots of the one map; in the other it is another density, of the same masses."""
    rank, straight = fitted("skewed", "quantile", atoms=0), fitted("skewed", "minmax", atoms=0)
    edges = np.array(rank.map.z)
    logits = torch.randn(1, TAILS + len(edges) - 1)
    logits[:, :TAILS] = -30.0
    curves = []
    for map in (rank.map, straight.map):
        places = torch.from_numpy(map.forward(rank.map.inverse(edges))).float()[None]
        curves.append(Binned(logits, places, 1 / places.diff(dim=1), torch.ones(1).double()))
    values = np.unique(SKEWED)[5:-5:20].tolist()
    several = torch.zeros(len(values), dtype=torch.long)
    first, second = (
        believed(codec, curve).pick(several).log_prob(codec.encode(values))
        for codec, curve in zip((rank, straight), curves, strict=True)
    )
    assert first.tolist() == pytest.approx(second.tolist(), abs=2e-3)


@for_each("kind", ["mixture", "binned"])
@for_each("data", LEAVES)
def test_no_value_is_impossible_however_far(kind, data):
    codec = fitted(data)
    far = [1, 15] if codec.whole else [0, 1e-300, 1e4, 1e9, 1e100, 1e300]
    curve = mixture(len(far)) if kind == "mixture" else binned(codec, len(far))
    curve.logits.requires_grad_()
    if kind == "mixture":
        curve.mean.requires_grad_()
        curve.std.requires_grad_()
    masses = believed(codec, curve).log_prob(codec.encode(far))
    assert torch.isfinite(masses).all()
    assert (masses <= 0).all()
    masses.sum().backward()
    for parameter in (curve.logits, *([curve.mean, curve.std] if kind == "mixture" else [])):
        assert torch.isfinite(parameter.grad).all()


@for_each(("data", "code", "kind"), KINDS)
def test_picking_rows_picks_their_beliefs(data, code, kind):
    _, belief = made(data, code, kind)
    some = torch.tensor([2, 0])
    torch.testing.assert_close(belief.pick(some).mean(), belief.mean()[some])
    torch.testing.assert_close(belief.pick(some).entropy(), belief.entropy()[some])
    codes = belief.sample()
    torch.testing.assert_close(belief.pick(some).log_prob(codes[some]), belief.log_prob(codes)[some])


@for_each(("data", "code", "kind"), KINDS)
def test_values_of_codes_are_what_is_decoded(data, code, kind):
    codec, belief = made(data, code, kind)
    codes = belief.sample()
    assert belief.values(codes).tolist() == pytest.approx(codec.decode(codes), rel=1e-9)


# ---------------------------------------------------------------- what others have


def interpolated(codec: NumberCodec, others: list[float], mass: list[list[float]], said: list[float] | None = None):
    """Beliefs of 2 rows, and what they are with so much (P, K) of their mass for what others have."""
    belief = believed(codec, mixture(2))
    codes = codec.encode(others).expand(2, -1, -1)
    own = None if said is None else torch.tensor(said, dtype=torch.float64).expand(2, -1)
    return belief, belief.interpolated(codes, torch.tensor(mass, dtype=torch.float64).expand(2, -1, -1), own)


@for_each("data", LEAVES)
def test_mass_is_given_to_the_values_of_others_and_the_rest_stays(data):
    codec = fitted(data)
    others = [float(one) for one in LEAVES[data][1][:2]]
    whole = [int(one) for one in others] if codec.whole else others
    none = [0.0, 0.0]
    before, after = interpolated(codec, whole, [[0.25, 0.5], *(none for _ in KERNEL_WIDTHS)])
    values = [whole[0], whole[1], *(LEAVES[data][1][5:8])]
    for value in dict.fromkeys(values):
        codes = codec.encode([value]).expand(2, -1)
        exact = sum(share for one, share in zip(whole, (0.25, 0.5), strict=True) if one == value)
        chance = 0.25 * before.log_prob(codes).exp() + exact
        if value in whole or codec.whole:  # what is near to another's value gets next to nothing where steps are wide
            assert after.log_prob(codes).exp().tolist() == pytest.approx(chance.tolist(), rel=0.1)
    far = torch.full((2,), 1e9, dtype=torch.float64)
    assert after.cdf(far).tolist() == pytest.approx([1, 1])


def test_mass_for_what_is_near_spreads_further_each_time():
    codec = fitted("skewed")
    spreads = []
    for kernel in range(1 + len(KERNEL_WIDTHS)):
        mass = [[0.0]] * kernel + [[1.0]] + [[0.0]] * (len(KERNEL_WIDTHS) - kernel)
        _, after = interpolated(codec, [2.0], mass)
        low, high = after.interval(0.9)
        assert (low <= 2).all()
        assert (high >= 2).all()
        spreads.append(float((high - low)[0]))
    assert spreads == sorted(spreads)
    assert spreads[0] < 2 * codec.step < spreads[1]


def test_the_answer_is_the_mean_that_was_learnt():
    codec = fitted("skewed")
    none = [[0.0, 0.0]] * (1 + len(KERNEL_WIDTHS))
    before, after = interpolated(codec, [1.0, 4.0], none, [0.5, 0.0, 0.25, 0.25])
    assert after.expected().tolist() == pytest.approx((before.mean() / 2 + 1.25).tolist())
    assert after.pick(torch.tensor([1])).expected().tolist() == after.expected()[1:].tolist()
    assert after.median().tolist() == pytest.approx(before.median().tolist())


def test_where_nobody_has_anything_a_belief_stays_what_it_is():
    codec = fitted("spiked")
    before, after = interpolated(codec, [0.0, 2.5], [[0.0, 0.0]] * (1 + len(KERNEL_WIDTHS)))
    codes = codec.encode([0.0, 2.5])
    assert after.log_prob(codes).tolist() == pytest.approx(before.log_prob(codes).tolist(), rel=1e-5)
    assert after.mean().tolist() == pytest.approx(before.mean().tolist())


@pytest.mark.slow
@for_each("data", ["spiked", "whole"])
@for_each("kind", ["mixture", "tailed", "blended"])
def test_how_often_an_atom_occurs_is_how_often_it_is_drawn(data, kind):
    """Of the curve, too: within its step, and beyond all that was met where it is the end of that."""
    codec = fitted(data)
    belief = believed(codec, CURVES[kind](codec))
    told, many = belief.atom_probabilities(), 20_000
    assert told.shape == (3, len(codec.atoms))
    assert (told > belief.atoms[1]).any()
    generator = torch.Generator().manual_seed(0)
    for row in range(3):
        drawn = belief.pick(torch.full((many,), row))
        atom = drawn.within_training(drawn.sample(generator=generator))[:, 3].long()
        found = (atom + 1).bincount(minlength=1 + len(codec.atoms))[1:] / many
        assert found.tolist() == pytest.approx(told[row].tolist(), abs=5 / math.sqrt(many) / 2)
