"""Experts stacked on a model: exact where the distribution is known."""

from __future__ import annotations

import pytest
import torch

from kbdisk.experts.base import LabelMasses, unclaimed_mass, with_labels
from kbdisk.experts.stacking import parts
from kbdisk.leaves.category import CategoryBelief


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
