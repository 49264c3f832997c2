"""Experts stacked on a model: exact where the distribution is known."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from kbdisk.experts import stacking
from kbdisk.experts.atom_odds import no_factors, with_factors
from kbdisk.experts.base import ExpertGroup, LabelMasses, WeightedExpert, combined, unclaimed_mass, with_labels
from kbdisk.experts.stacking import (
    MAX_VALUES_AROUND,
    HeldOutPredictions,
    Numbers,
    RowsOfBelief,
    fit_weights,
    likelihoods_around,
    parts,
    stack_by,
)
from kbdisk.experts.weights import relative_likelihoods
from kbdisk.leaves.belief import JoinedBelief
from kbdisk.leaves.category import CategoryBelief
from kbdisk.leaves.link import PointerBelief, SlotTargets
from kbdisk.leaves.number import NumberBelief, NumberCodec, NumberConfig
from kbdisk.leaves.number.codec import CodecTables
from kbdisk.leaves.number.densities import Mixture
from kbdisk.schemas.kinds import Number


def mixed(own: list[float], codes: list[int], masses: list[float], weight: float) -> list[float]:
    """The probabilities of a belief that is mixed with an expert's."""
    belief = CategoryBelief(
        torch.tensor(
            [own],
        ).log()
    )
    said = LabelMasses(torch.tensor([codes]), torch.tensor([masses], dtype=torch.float64))
    row, part = torch.tensor([0]), torch.tensor(weight, dtype=torch.float64)
    told: list[float] = with_labels("category", belief, [(row, part, said)]).probs[0].tolist()
    return told


def test_what_an_expert_leaves_goes_to_the_labels_that_it_does_not_know():
    # Of labels 0 and 1 the expert says .6 and .2; its other .2 is shared by labels 2 and 3 as the belief has them: 3 to 1.
    assert mixed([0.5, 0.1, 0.3, 0.1], [0, 1], [0.6, 0.2], 1.0) == pytest.approx([0.6, 0.2, 0.15, 0.05], abs=1e-6)
    assert mixed([0.5, 0.1, 0.3, 0.1], [0, 1], [0.6, 0.2], 0.5) == pytest.approx([0.55, 0.15, 0.225, 0.075], abs=1e-6)


def test_an_expert_that_leaves_nothing_is_a_plain_part_of_the_mixture():
    assert mixed([0.5, 0.5, 1e-9], [1, 2], [0.25, 0.75], 0.5) == pytest.approx([0.25, 0.375, 0.375], abs=1e-6)
    said = LabelMasses(torch.tensor([[1, 1]]), torch.tensor([[0.5, 0.5]], dtype=torch.float64))  # told twice
    belief = CategoryBelief(torch.zeros(1, 3))
    assert unclaimed_mass(belief, said).tolist() == [[0.0, 0.0]]


def test_an_expert_that_says_nothing_changes_nothing():
    assert mixed([0.5, 0.3, 0.2], [1, 1], [0.0, 0.0], 0.9) == pytest.approx([0.5, 0.3, 0.2], abs=1e-6)


def test_a_belief_that_has_nothing_for_other_labels_stays_a_distribution():
    told = mixed([1.0, 1e-12, 0.0], [0, 1], [0.5, 0.3], 0.7)
    assert sum(told) == pytest.approx(1, abs=1e-5)
    assert min(told) >= 0


@pytest.mark.parametrize("weights", [[0.4, 0.1, 0.5], [1.0, 0.0, 0.0], [0.0, 0.3, 0.7]])
def test_experts_that_are_applied_one_upon_the_other_have_their_weights_in_the_end(weights):
    numbers, answer = [3.0, 10.0, -4.0], 3.0
    for number, part in zip(numbers[1:], parts(torch.tensor(weights, dtype=torch.float64)).tolist(), strict=True):
        answer += part * (number - answer)
    assert answer == pytest.approx(sum(weight * number for weight, number in zip(weights, numbers, strict=True)))


KEY = (0, 0)


def heavy_tailed(codec: NumberCodec, rows: int) -> NumberBelief:
    """About numbers of which a few are far above the others: the median is near to them, the mean far from all."""
    mean, std = torch.tensor([[0.0, 3.0]]).expand(rows, -1), torch.tensor([[0.3, 0.3]]).expand(rows, -1)
    curve = Mixture(torch.tensor([[0.7, 0.3]]).log().expand(rows, -1), mean, std)
    shares = torch.tensor([0.0, *[-70.0] * len(codec.atoms)]).expand(rows, -1)
    return NumberBelief(curve, shares, torch.zeros(rows, dtype=torch.long), CodecTables([codec]))


def judged(chunks: int, rows: int, noise: float) -> tuple[NumberCodec, HeldOutPredictions]:
    """Held-out numbers of one property, with an expert that is so far off."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(400, generator=generator, dtype=torch.float64).exp()
    codec = NumberCodec.fit(Number(), values.tolist(), NumberConfig(code="log"), None)
    held_out = HeldOutPredictions()
    for chunk in range(chunks):
        truth = torch.randn(rows, generator=generator, dtype=torch.float64).mul(0.5).exp()
        predicted = truth * torch.randn(rows, generator=generator, dtype=torch.float64).mul(noise).exp()
        belief, codes, every = heavy_tailed(codec, rows), codec.encode(truth.tolist()), torch.arange(rows)
        modelled = RowsOfBelief(belief, every, Numbers.of(belief, codes))
        held_out.append("number", codes, every + rows * chunk, modelled, [(predicted, every)])
    return codec, held_out


def test_links_to_too_many_entities_are_not_weighed_beside_links_to_few():
    targets = SlotTargets(lambda which, scale: torch.eye(3)[which], 0, torch.zeros(3), torch.ones(3), 1.0)
    few, many = CategoryBelief(torch.zeros(1, 2)), PointerBelief(torch.zeros(1, 3), targets, 0.1)
    belief = JoinedBelief([torch.tensor([0]), torch.tensor([1])], [few, many])
    expert = LabelMasses(torch.tensor([[1]]), torch.tensor([[1.0]], dtype=torch.float64))
    judged = {}
    for row in (0, 1):
        judged[row] = HeldOutPredictions()
        modelled, first = RowsOfBelief(belief, torch.tensor([row])), torch.tensor([0])
        judged[row].append("link", torch.tensor([1]), torch.tensor([0]), modelled, [(expert, first)])
    assert judged[0].log_likelihoods.exp().tolist() == [pytest.approx([0.5, 1.0])]
    assert len(judged[1]) == 0


def test_what_is_said_and_the_answer_have_weights_of_their_own():
    _, held_out = judged(chunks=4, rows=30, noise=0.8)
    weights = fit_weights({KEY: held_out}, required_errors=0.0)[KEY]
    for fitted in (weights.estimate, weights.answer):
        assert float(fitted.sum()) == pytest.approx(1)
        assert bool((fitted >= 0).all())
    # The mean is further off than the median, so beside it the expert has the greater weight.
    assert float(weights.answer[1]) > float(weights.estimate[1]) + 0.05
    assert float(weights.masses.sum()) == pytest.approx(1)


def test_an_exact_expert_takes_the_curve_along_or_has_mass_around_it():
    codec, held_out = judged(chunks=4, rows=30, noise=0.01)
    weights = fit_weights({KEY: held_out}, required_errors=0.0)[KEY]
    assert float(weights.estimate[1]) > 0.95
    stays, moves, *around = weights.masses.tolist()
    assert sum(around[:4]) > 0.8 > 0.2 > stays + moves
    belief, number = heavy_tailed(codec, 2), torch.tensor([0.5, 4.0], dtype=torch.float64)
    one = torch.ones((), dtype=torch.float64)
    for moved in (0.0, 1.0):
        expert = replace(WeightedExpert.unweighted(None), answer_weight=one * 0.5, moved_share=one * moved)
        after = combined("number", belief, [[(torch.arange(2), expert, number)]])
        assert after.estimate.tolist() == pytest.approx(number.tolist())
        assert after.expected().tolist() != pytest.approx(number.tolist(), rel=0.1)
        median = number if moved else belief.median()
        assert after.median().tolist() == pytest.approx(median.tolist(), rel=1e-4)


def test_of_many_values_the_first_tell_how_much_of_a_curve_moves():
    _, held_out = judged(chunks=20, rows=60, noise=0.3)
    half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    likelihoods = likelihoods_around({KEY: held_out}, {KEY: half}, {KEY: no_factors(half)})[KEY]
    assert MAX_VALUES_AROUND <= len(likelihoods) < MAX_VALUES_AROUND + 60 < len(held_out) == len(held_out.errors)


def test_values_of_questions_that_lack_another_property_keep_their_order():
    _, whole = judged(chunks=3, rows=20, noise=0.3)
    other = HeldOutPredictions(*([parts[0], parts[2]] if parts else [] for parts in vars(whole).values()))
    half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    factors = {KEY: no_factors(half)}
    alone = likelihoods_around({KEY: whole}, {KEY: half}, factors)[KEY]
    first = (KEY[0] + 1, KEY[1])  # asked in the first and the third question
    factors |= {first: no_factors(half)}
    together = likelihoods_around({first: other, KEY: whole}, {first: half, KEY: half}, factors)[KEY]
    torch.testing.assert_close(together, alone)


def test_masses_beside_changed_odds_are_fitted_to_the_changed_belief():
    codec = NumberCodec.fit(Number(), [0.0] * 50 + [10.0 + number for number in range(50)], NumberConfig(), None)
    rows, every = 20, torch.arange(20)
    truth = torch.where(every % 2 == 0, 0.0, 10.0 + every).double()
    estimate = torch.where(every % 2 == 0, 1.0, 11.0 + every).double()
    belief, codes = heavy_tailed(codec, rows), codec.encode(truth.tolist())
    belief = replace(belief, shares=torch.full((rows, 1 + len(codec.atoms)), -70.0).index_fill(1, every[:2], -0.693147))
    held_out = HeldOutPredictions()
    modelled = RowsOfBelief(belief, every, Numbers.of(belief, codes))
    held_out.append("number", codes, every, modelled, [(estimate, every)])
    factors = torch.tensor([0.0, 5.0, 2.0, -3.0], dtype=torch.float64)
    by_expert = {KEY: torch.tensor([0.0, 1.0], dtype=torch.float64)}
    relative = likelihoods_around({KEY: held_out}, by_expert, {KEY: factors})[KEY]
    changed = with_factors(belief, estimate, factors.expand(rows, -1))
    moved = changed.with_estimate(belief.typical(), estimate, torch.ones_like(estimate))
    near = changed.log_masses_around(estimate, codes).double()
    logs = torch.cat([changed.log_prob(codes)[:, None].double(), moved.log_prob(codes)[:, None].double(), near], 1)
    torch.testing.assert_close(relative, relative_likelihoods(logs))
    unchanged = likelihoods_around({KEY: held_out}, by_expert, {KEY: no_factors(factors)})[KEY]
    assert not torch.allclose(relative, unchanged)


@pytest.mark.parametrize(("count", "chance", "is_used"), [(24, 0.8, True), (24, 0.2, False), (19, 0.8, None)])
def test_few_labels_of_a_small_table_give_a_weight_to_an_expert_that_knows_them(count, chance, is_used):
    held_out, belief = HeldOutPredictions(), CategoryBelief(torch.zeros(count, 4))
    codes, every = torch.arange(count) % 4, torch.arange(count)
    masses = torch.full((count, 4), (1 - chance) / 3, dtype=torch.float64)
    masses[every, codes] = chance
    expert = LabelMasses(torch.arange(4).expand(count, 4), masses)
    held_out.append("category", codes, every, RowsOfBelief(belief, every), [(expert, every)])
    weights = fit_weights({KEY: held_out})
    assert (KEY in weights) == (is_used is not None)
    if KEY in weights:
        assert (float(weights[KEY].estimate[1]) > 0.5) == is_used


@pytest.mark.parametrize(("answers", "expected"), [(50, 4), (9, 6), (2, 8), (0, 8)])
def test_questions_end_with_the_seconds_or_later_where_there_are_too_few_answers(monkeypatch, answers, expected):
    monkeypatch.setattr(stacking.time, "monotonic", itertools.count().__next__)  # a question takes a second
    monkeypatch.setattr(stacking, "fit_weights", lambda held_out, required_errors: {})
    asked = []

    def answered(groups, model, question, in_rounds, held_out):
        asked.append(question)
        held_out[KEY].codes.append(torch.zeros(answers))

    monkeypatch.setattr(stacking, "_ask", answered)
    group = ExpertGroup(None, torch.zeros(1), {KEY: WeightedExpert.unweighted(None)})
    assert stack_by([group], None, ((number, False) for number in range(100)), seconds=3.5) == [None]
    assert len(asked) == expected
