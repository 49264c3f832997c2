"""Scores of links by hand, and a correctness that is right as often as it says."""

from __future__ import annotations

import pytest
import torch

from kbdisk.data.triples import Triples
from kbdisk.evaluation.links import classification, correctness_of, link_scores
from kbdisk.experts.link_factorization import HeldOut, LinkClassifier

NONE = LinkClassifier(torch.zeros(5).double(), torch.zeros(1).double())


def test_calibration_is_the_difference_of_probability_and_truth_by_ranges():
    probability = torch.tensor([0.95, 0.95, 0.15, 0.12], dtype=torch.float64)
    scored = classification(probability, torch.tensor([True, False, False, False]))
    assert (scored.n, scored.accuracy) == (4, 0.75)
    assert scored.calibration_error == pytest.approx((0.9 + 0.27) / 4)


def test_scores_are_means_over_both_directions_and_by_property():
    triples = Triples.of_links([("a", ("r",), "b"), ("a", ("s",), "b")])
    links = torch.tensor([[0, 0, 1], [0, 0, 1], [0, 1, 1]])
    ranks = torch.tensor([1.0, 2.0, 4.0, 1.0, 20.0, 2.5])  # tails, then heads
    both, tail, head, *rest = link_scores(links, ranks, triples)
    assert (both.asked, both.n, tail.n, head.n) == ("both", 6, 3, 3)
    assert tail.mrr == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)
    assert both.mrr == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 + 1 / 20 + 1 / 2.5) / 6)
    assert (tail.hits_1, tail.hits_3, tail.hits_10) == pytest.approx((1 / 3, 2 / 3, 1))
    assert [(score.property, score.asked, score.n) for score in rest[::3]] == [("r", "both", 4), ("s", "both", 2)]


def test_correctness_says_how_often_a_candidate_is_right():
    """Of two properties the probabilities are too high, by as much as correctness lowers them."""
    generator = torch.Generator().manual_seed(0)
    n = 4000
    probability = torch.rand(n, 1, generator=generator) * 0.9 + 0.05
    relations = torch.arange(n) % 2
    odds = probability.logit() - 1.0 - 1.5 * relations[:, None]
    is_right = torch.rand(n, 1, generator=generator) < odds.sigmoid()
    held_out = HeldOut(torch.zeros(n // 2, 3, dtype=torch.long), torch.ones(n), relations, probability, is_right, NONE)
    triples = Triples.of_links([("a", ("r",), "b")])
    correctness = correctness_of(held_out, triples)(relations, probability)
    for relation in (0, 1):
        own = relations == relation
        assert float(correctness[own].mean()) == pytest.approx(float(is_right[own].double().mean()), abs=0.04)
    assert bool(
        (correctness[probability.argsort(0)[:, 0]][relations[probability.argsort(0)[:, 0]] == 0].diff(dim=0) >= 0).all()
    )
