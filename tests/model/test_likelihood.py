"""log p of any properties given any others: exact by subsets, bounded by orders, against enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from tables import for_each
from toys import Table, World, Wrong, batch_of

from kbdisk.model.likelihood import log_prob

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def world() -> World:
    return World([3, 2, 2, 3])


def orders(model, world: World) -> torch.Tensor:
    """(orders, X) log p of every state along every order, one conditional at a time."""
    batch = batch_of(world.states)
    steps = {}
    for order in permutations(range(len(world.sizes))):
        for n, which in enumerate(order):
            shown = torch.isin(batch.slot, torch.tensor(order[:n], dtype=torch.long))
            one = batch.slot == which
            key = which, frozenset(order[:n])
            if key not in steps:
                steps[key] = model(batch, shown, one).log_prob(batch)[one].double()
    every = permutations(range(len(world.sizes)))
    return torch.stack([sum(steps[which, frozenset(order[:n])] for n, which in enumerate(order)) for order in every])


def test_with_exact_conditionals_it_is_the_worlds_own_probability(world):
    done = log_prob(Table(world), batch_of(world.states))
    assert done.exact.tolist() == pytest.approx(world.probs.log().tolist(), abs=1e-5)
    assert done.bound.tolist() == pytest.approx(world.probs.log().tolist(), abs=1e-5)
    assert not done.stderr.any()


def test_conditionals_that_disagree_are_averaged_over_all_orders(world):
    done, all_orders = log_prob(Wrong(world), batch_of(world.states)), orders(Wrong(world), world)
    exact = (all_orders.exp().mean(0)).log()
    assert done.exact.tolist() == pytest.approx(exact.tolist(), abs=1e-5)
    assert done.bound.tolist() == pytest.approx(all_orders.mean(0).tolist(), abs=1e-5)
    assert (done.exact - done.bound).min() > 1e-3


@pytest.mark.slow
@for_each("steps", [None, 1, 3])
def test_the_bound_is_estimated_without_bias_and_its_error_is_told(world, steps):
    batch = batch_of(world.states)
    known = log_prob(Wrong(world), batch).bound
    done = log_prob(Wrong(world), batch, exact=0, orders=100, steps=steps)
    errors = (done.bound - known) / done.stderr
    assert done.exact.isnan().all()
    assert 0.7 < errors.std() < 1.4
    assert abs(errors.mean()) < 0.6  # 36 states, 0.17 each


def test_an_order_and_the_same_backwards_vary_less_than_two_of_their_own(world):
    batch = batch_of(world.states)
    pairs = torch.stack([log_prob(Wrong(world), batch, exact=0, orders=1).bound for _ in range(100)])
    assert pairs.var(0).mean() < 0.85 * orders(Wrong(world), world).var(0).mean() / 2


def test_where_conditionals_agree_every_order_says_the_same(world):
    done = log_prob(Table(world), batch_of(world.states), exact=0, orders=3)
    assert done.bound.tolist() == pytest.approx(world.probs.log().tolist(), abs=1e-5)
    assert done.stderr.max() < 1e-5


def test_full_walks_of_two_properties_are_exact_for_they_see_both_orders():
    world = World([3, 4])
    batch = batch_of(world.states)
    known, walked = log_prob(Wrong(world), batch), log_prob(Wrong(world), batch, exact=0, orders=2)
    assert walked.bound.tolist() == pytest.approx(known.bound.tolist(), abs=1e-6)
    assert walked.stderr.max() < 1e-6
    assert log_prob(Wrong(world), batch, exact=0, orders=1).stderr.isnan().all()


def test_any_properties_are_scored_given_any_others_and_the_rest_is_hidden(world):
    batch = batch_of(world.states)
    of, given = (batch.slot == 0) | (batch.slot == 3), batch.slot == 2
    expected = world.marginal([0, 2, 3]).log() - world.marginal([2]).log()
    done = log_prob(Table(world), batch, of=of, given=given)
    assert done.exact.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    walked = log_prob(Table(world), batch, of=of, given=given, exact=1)
    assert walked.bound.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_given_some_all_others_are_scored(world):
    batch = batch_of(world.states)
    expected = world.probs.log() - world.marginal([1, 2]).log()
    done = log_prob(Table(world), batch, given=(batch.slot == 1) | (batch.slot == 2))
    assert done.exact.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_what_is_always_given_conditions_and_is_not_scored(world):
    batch = batch_of(world.states)
    expected = world.probs.log() - world.marginal([0]).log()
    done = log_prob(Table(world), replace(batch, fixed=batch.slot == 0))
    assert done.exact.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_evidence_is_seen_only_where_its_link_is(world):
    """0 is a link, 3 evidence over it: p(0) p(1 | 0, 3) one way round, p(1) p(0 | 1) the other."""
    batch = batch_of(world.states)
    X = len(world.states)
    needs = torch.stack([torch.arange(3 * X, 4 * X), torch.arange(X)], 1)
    batch = replace(batch, fixed=batch.slot == 3, needs=needs)
    done = log_prob(Table(world), batch, of=batch.slot <= 1)
    p = world.marginal
    ways = [p([0]) * p([0, 1, 3]) / p([0, 3]), p([0, 1])]
    assert done.exact.tolist() == pytest.approx((sum(ways) / 2).log().tolist(), abs=1e-5)


def test_entities_of_few_and_of_many_properties_are_done_in_one_call():
    world = World([2] * 6)
    has = torch.ones(64, 6, dtype=torch.bool)
    has[::2, 2:] = False
    has[0] = False
    batch = batch_of(world.states, has=has)
    done = log_prob(Wrong(world), batch, exact=3, orders=60)
    known = log_prob(Wrong(world), batch)
    assert torch.equal(done.exact.isnan(), has.sum(1) > 3)
    assert torch.allclose(done.exact[::2], known.exact[::2])
    assert torch.allclose(done.bound[::2], known.bound[::2])
    assert not done.stderr[::2].any()
    errors = ((done.bound - known.bound) / done.stderr)[1::2]
    assert 0.6 < errors.std() < 1.6
    assert done.exact[0] == done.bound[0] == 0


def test_a_generator_alone_is_drawn_from(world):
    before = torch.get_rng_state()
    for exact in (0, 8):
        log_prob(Table(world), batch_of(world.states), exact=exact, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_many_cases_go_through_the_model_in_few_passes(world):
    model = Table(world)
    log_prob(model, batch_of(world.states))
    assert model.passes == 1


def test_a_batch_without_entities_has_no_probabilities(world):
    done = log_prob(Table(world), batch_of(world.draw(0)))
    assert done.exact.shape == done.bound.shape == done.stderr.shape == (0,)


def test_a_large_entity_takes_as_many_points_as_allowed():
    world = World([2] * 11)
    model = Table(world)
    batch = batch_of(world.draw(3))
    walked = log_prob(model, batch, orders=2, steps=4)
    assert walked.exact.isnan().all()
    expected = world.probs[world.index(batch.values["category"].view(11, 3).T)].log()
    assert walked.stderr.min() > 0.01
    assert model.passes == 4  # two orders, either way, all points at once
    full = log_prob(model, batch)
    assert full.bound.tolist() == pytest.approx(expected.tolist(), abs=1e-4)


def test_questions_that_make_no_sense_are_refused(world):
    batch = batch_of(world.states)
    one = batch.slot == 0
    for wrong in ({"of": one, "given": one}, {"of": ~batch.known | one, "given": batch.known}):
        with pytest.raises(ValueError, match="expected properties to score that are known, not given"):
            log_prob(Table(world), batch, **wrong)
    with pytest.raises(ValueError, match="known, not given, and not evidence"):
        log_prob(Table(world), replace(batch, known=~one), of=one)
    with pytest.raises(ValueError, match="expected 0 to 16 for exact, got 17"):
        log_prob(Table(world), batch, exact=17)
    with pytest.raises(ValueError, match=r"expected 1 to \d+ for orders, got 0"):
        log_prob(Table(world), batch, orders=0)
