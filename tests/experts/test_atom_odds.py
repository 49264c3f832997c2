"""The odds of atoms by the distance of estimates: exact factors, what is proven, and what is then written."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.experts import atom_odds, stacking
from kbdisk.experts.atom_odds import (
    AtomFactors,
    HeldOutAtoms,
    each_factors,
    has_factors,
    most_frequent_atom,
    no_factors,
    with_factors,
)
from kbdisk.experts.base import WeightedExpert, combined
from kbdisk.experts.stacking import HeldOutPredictions, Numbers, RowsOfBelief, fit_weights
from kbdisk.leaves.number import NumberBelief, NumberCodec, NumberConfig
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.leaves.number.densities import Mixture
from kbdisk.schemas.kinds import Number

KEY = (0, 0)
SHARE_OF_ZERO = 0.7


def zero_inflated() -> NumberCodec:
    """Most values are 0; the others are from 10 to 109."""
    return NumberCodec.fit(Number(), [0.0] * 300 + [10.0 + number for number in range(100)], NumberConfig(), None)


def about_all_alike(codec: NumberCodec, rows: int, share: float = SHARE_OF_ZERO) -> NumberBelief:
    """What a network that has learnt nothing believes."""
    curve = Mixture(torch.zeros(rows, 1), torch.full((rows, 1), 0.5), torch.ones(rows, 1))
    others = len(codec.atoms) - 1
    masses = torch.tensor([1 - share - 1e-6 * others, share, *[1e-6] * others]).expand(rows, -1)
    return NumberBelief(curve, masses.log(), torch.zeros(rows, dtype=torch.long), CodecTables([codec]))


@given(st.floats(0.01, 0.99), st.floats(-8, 8))
def test_odds_are_multiplied_and_the_rest_stays_in_proportion(share, log_factor):
    codec = zero_inflated()
    assert codec.atoms[0] == 0
    belief = about_all_alike(codec, 1, share)
    changed = belief.with_odds_of_atoms(torch.tensor([0]), torch.tensor([log_factor], dtype=torch.float64))
    before, after = belief.shares.double().exp()[0], changed.shares.double().exp()[0]
    odds = float(before[1] / (1 - before[1])) * math.exp(log_factor)
    assert float(after[1]) == pytest.approx(odds / (1 + odds), rel=1e-4)
    assert float(after.sum()) == pytest.approx(float(before.sum()), abs=1e-5)
    assert (after[2:] / after[0]).tolist() == pytest.approx((before[2:] / before[0]).tolist(), rel=1e-4)


def test_the_masses_beside_a_certain_atom_still_sum_to_one():
    codec = zero_inflated()
    belief = about_all_alike(codec, 1)
    certain = replace(belief, shares=torch.tensor([[-70.0, 0.0, *[-70.0] * (len(codec.atoms) - 1)]]))
    for log_factor in (-10.0, 10.0):
        changed = certain.with_odds_of_atoms(torch.tensor([0]), torch.tensor([log_factor], dtype=torch.float64))
        assert float(changed.shares.double().exp().sum()) == pytest.approx(1, abs=1e-6)


def observed(near: tuple[int, int], far: tuple[int, int], share: float = 0.5) -> torch.Tensor:
    """So many values that are the atom, and that are not, at the distances 1 and 5."""
    logit = math.log(share / (1 - share))
    rows = [
        [logit, is_atom, distance]
        for counts, distance in ((near, 1.0), (far, 5.0))
        for is_atom, count in zip((1.0, 0.0), counts, strict=True)
        for _ in range(count)
    ]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_factors_are_those_of_the_counts(share, monkeypatch):
    monkeypatch.setattr(atom_odds, "PENALTY", 1e-9)
    values = observed((900, 100), (50, 950), share)
    factors = each_factors({KEY: HeldOutAtoms(3, values)}, {KEY: torch.arange(len(values))})[KEY]
    atom, distance, near, far = factors.tolist()
    logit = math.log(share / (1 - share))
    assert (atom, distance) == (3.0, 3.0)  # half-way between 1 and 5
    assert near == pytest.approx(math.log(9) - logit, abs=1e-6)
    assert far == pytest.approx(math.log(1 / 19) - logit, abs=1e-6)


def of_noise(seed: int, count: int = 40) -> HeldOutAtoms:
    """Half of the values are the atom, wherever their estimates are."""
    values = observed((count // 2, count // 2), (0, 0))
    values[:, 2] = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return HeldOutAtoms(0, values)


@pytest.mark.parametrize("required_errors", [0.5, 0.0])
def test_distances_that_tell_nothing_seldom_change_something_beside_properties_where_they_tell_much(required_errors):
    telling = {key: HeldOutAtoms(0, observed((45, 5), (5, 45))) for key in range(1, 4)}
    proven = 0
    for seed in range(40):
        held_out = {0: of_noise(seed)} | telling
        entities = {key: torch.arange(len(of_key.observed)) for key, of_key in held_out.items()}
        factors = each_factors(held_out, entities, required_errors)
        assert all(has_factors(factors[key]) for key in telling)
        proven += has_factors(factors[0])
    assert proven <= 12


def test_entities_that_are_all_on_one_side_prove_nothing():
    factors = each_factors({KEY: of_noise(0, 10)}, {KEY: 2 * torch.arange(10)})[KEY]
    assert not has_factors(factors)


@pytest.mark.parametrize(
    ("atoms", "expected"),
    [
        ([0] * 9 + [-1] * 9, 0),
        ([1] * 9 + [0] * 6 + [-1], 1),
        ([0] * 9 + [-1], None),
        ([-1] * 9, None),
        ([-1] * 20 + [2], None),
    ],
)
def test_an_atom_that_some_values_are_and_others_are_not(atoms, expected):
    codes = torch.zeros(len(atoms), 4)
    codes[:, 3] = torch.tensor(atoms)
    assert most_frequent_atom(codes) == expected


def test_a_property_without_atoms_is_left_as_it_is():
    codec = NumberCodec.fit(Number(), [float(number) for number in range(100)], NumberConfig(atoms=0), None)
    curve = Mixture(torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1))
    belief = NumberBelief(curve, torch.zeros(1, 1), torch.zeros(1, dtype=torch.long), CodecTables([codec]))
    estimate = torch.tensor([5.0], dtype=torch.float64)
    assert with_factors(belief, estimate, torch.tensor([[0.0, 1.0, 3.0, -3.0]], dtype=torch.float64)) is belief


def held_out_beside_an_expert(codec: NumberCodec, count: int = 200) -> HeldOutPredictions:
    """Of each ten values seven are 0. An expert estimates these as 1 to 3, and the others nearly as they are."""
    every = torch.arange(count)
    is_zero = every % 10 < 7
    truth = torch.where(is_zero, 0.0, 10.0 + every % 97).double()
    estimate = torch.where(is_zero, 1.0 + every % 3, truth + every % 5 - 2).double()
    belief, codes = about_all_alike(codec, count), codec.encode(truth.tolist())
    held_out = HeldOutPredictions()
    held_out.append("number", codes, every, RowsOfBelief(belief, every, Numbers.of(belief, codes)), [(estimate, every)])
    return held_out


def test_numbers_that_are_estimated_far_from_an_atom_are_written_and_close_ones_are_the_atom():
    codec = zero_inflated()
    weights = fit_weights({KEY: held_out_beside_an_expert(codec)})[KEY]
    factors = AtomFactors(*weights.factors)
    assert float(factors.log_near) > 2
    assert float(factors.log_far) < -2
    assert float(weights.estimate[1]) > 0.9  # of the values that are not 0
    belief, estimate = about_all_alike(codec, 2), torch.tensor([2.0, 50.0], dtype=torch.float64)
    expert = replace(WeightedExpert.unweighted(None), factors=weights.factors)
    written = combined("number", belief, [[(torch.arange(2), expert, estimate)]])
    assert written.typical().tolist() == [0.0, 50.0]
    sure = written.atoms[1][:, 0]
    assert float(sure[0]) > 0.95
    assert float(sure[1]) < 0.1
    before = combined("number", belief, [[(torch.arange(2), WeightedExpert.unweighted(None), estimate)]])
    assert before.typical().tolist() == [0.0, 0.0]


def test_factors_that_would_make_more_errors_are_left_out():
    """Of ten values three are 0, and the expert that tells 0 from others is the less exact one of two."""
    codec = NumberCodec.fit(
        Number(), [0.0] * 120 + [10.0 + number % 100 for number in range(280)], NumberConfig(), None
    )

    def expected(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        truth = torch.where(torch.arange(count) % 10 < 3, 0.0, 10.0 + torch.arange(count) % 97).double()
        noise = torch.randn(2, count, generator=generator, dtype=torch.float64)
        telling = torch.where(truth == 0, 1 + noise[0].abs(), truth + 5 * noise[0])
        exact = torch.where(truth == 0, 60.0, truth + 2 * noise[1])
        return truth, telling, exact

    count = 400
    every, (truth, *experts) = torch.arange(count), expected(count, 0)
    belief, codes = about_all_alike(codec, count, 0.3), codec.encode(truth.tolist())
    held_out = HeldOutPredictions()
    modelled = RowsOfBelief(belief, every, Numbers.of(belief, codes))
    held_out.append("number", codes, every, modelled, [(predicted, every) for predicted in experts])
    weights = fit_weights({KEY: held_out})[KEY]
    before = {KEY: held_out}
    plain = stacking.each_absolute({KEY: before[KEY].errors}, 60.0, {KEY: every}, 5.0)[KEY]

    def mean_error(estimate_weights: torch.Tensor, factors: torch.Tensor) -> float:
        truth, *fresh = expected(1000, 1)
        belief = about_all_alike(codec, 1000, 0.3)
        predicted = torch.stack([belief.typical(), *fresh], 1) @ estimate_weights
        changed = with_factors(belief, predicted, factors.expand(1000, -1))
        written = changed.with_estimate(predicted, predicted, torch.zeros(1000, dtype=torch.float64)).typical()
        return float((written - truth).abs().mean())

    assert mean_error(weights.estimate, weights.factors) <= 1.02 * mean_error(plain, no_factors(plain))
