"""Beliefs that tell a value in one step: what that step would be if others had so much of the mass is what it then is."""

from __future__ import annotations

import torch
from tables import for_each

from kbdisk.leaves.category import CategoryBelief


@for_each("mass", [0.0, 0.3, 1.0])
def test_what_a_step_would_be_is_what_it_then_is(mass):
    belief = CategoryBelief(torch.randn(6, 5).log_softmax(1))
    codes, others = torch.randint(5, (6,)), torch.randint(5, (6, 3))
    others[:, 0] = codes
    weights = mass * torch.rand(6, 1, 3, dtype=torch.float64).softmax(2)
    told = belief.steps_interpolated(codes, belief.steps(codes), others, weights)
    torch.testing.assert_close(told.float(), belief.interpolated(others, weights).steps(codes), atol=1e-5, rtol=1e-5)


@for_each("code", [2, -1])
def test_chances_are_chances_where_others_have_all_the_mass_and_a_rounding_more(code):
    belief = CategoryBelief(torch.randn(200, 5).log_softmax(1), torch.full((200,), 0.1))
    weights = torch.rand(200, 1, 64, dtype=torch.float64).softmax(2)
    assert (weights.float().sum(2) > 1).any()
    others = torch.full((200, 64), code)
    after = belief.interpolated(others, weights)
    for told in (code, -1, 4):
        assert not after.steps(torch.full((200,), told)).isnan().any()
    assert not after.entropy().isnan().any()
    torch.testing.assert_close(after.steps(others[:, 0]), torch.zeros(200), atol=1e-5, rtol=0)
