"""The loss is the bound, on toys whose every order can be enumerated; drawing follows the joint distribution."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations, product
from math import comb, log
from typing import Any

import pytest
import torch
from scipy import stats
from tables import for_each
from torch.nn import functional as F
from toys import Small, Table, World, Wrong, batch_of

from kbdisk.data.dataset import Batch
from kbdisk.model.beliefs import Beliefs
from kbdisk.model.diffusion import Loss, beliefs, loss, reveal, revealing
from kbdisk.model.likelihood import log_prob
from kbdisk.model.masking import Hidden, Hiding, hide

APART = Hiding(together=0)
SIZES = [[2, 3, 4], [3, 2, 2, 3], [2, 2, 3, 2, 2]]


pytestmark = pytest.mark.usefixtures("one_thread")


def drawn_loss(model, batch: Batch, hiding: Hiding, generator: torch.Generator | None = None, **options: Any) -> Loss:
    """The loss of a batch with a random choice hidden."""
    return loss(model, batch, hide(batch, hiding, generator), **options)


def conditional(model, world: World, which: int, shown: tuple[int, ...]) -> torch.Tensor:
    """(X,) log p of one property of every state, given some others: asked of the model alone."""
    batch = batch_of(world.states)
    visible = torch.isin(batch.slot, torch.tensor(shown, dtype=torch.long))
    return model(batch, visible, batch.slot == which).log_prob(batch)[batch.slot == which].double()


def mean_over_orders(model, world: World) -> float:
    """The average over all orders, and the data, of -log p along the order."""
    steps = {}
    for order in permutations(range(len(world.sizes))):
        for n, which in enumerate(order):
            key = which, tuple(sorted(order[:n]))
            if key not in steps:
                steps[key] = -float(world.probs @ conditional(model, world, *key))
    orders = list(permutations(range(len(world.sizes))))
    return sum(steps[which, tuple(sorted(order[:n]))] for order in orders for n, which in enumerate(order)) / len(
        orders
    )


def weights_of_sets(D: int, hiding: Hiding) -> dict[tuple[bool, ...], float]:
    """What `hide` makes the hidden ones weigh, for each set that is visible."""
    batch = batch_of(torch.zeros(4000, D, dtype=torch.long))
    hidden = hide(batch, hiding)
    rows = zip(hidden.visible.view(D, -1).T.tolist(), hidden.weight.view(D, -1).T.amax(1).tolist(), strict=True)
    return {tuple(visible): weight for visible, weight in rows}


def expected_loss(model, world: World) -> float:
    """The loss of every state with every set visible, as often as each comes up."""
    D = len(world.sizes)
    weights = weights_of_sets(D, APART)
    assert weights.keys() == {one for one in product([False, True], repeat=D) if not all(one)}
    total = 0.0
    for shown, weight in weights.items():
        M = D - sum(shown)
        batch = batch_of(world.states)
        visible = torch.tensor(shown)[batch.slot]
        each = weight * world.probs[batch.entity].float() * batch.size  # the loss is a mean over the batch
        asked = Hidden(visible, ~visible, each.where(~visible, 0))
        total += float(loss(model, batch, asked).total) / D / comb(D, M)
    return total


@for_each("sizes", SIZES)
def test_the_expected_loss_is_the_average_over_all_orders(sizes):
    world = World(sizes)
    for model in (Table(world), Wrong(world)):
        assert expected_loss(model, world) == pytest.approx(mean_over_orders(model, world), abs=1e-5)


@for_each("sizes", SIZES)
def test_with_exact_conditionals_the_expected_loss_is_the_entropy_of_the_data(sizes):
    world = World(sizes)
    assert expected_loss(Table(world), world) == pytest.approx(world.entropy, abs=1e-5)


@for_each("rate", ["count", "paper"])
def test_the_loss_of_draws_agrees_with_the_enumeration(rate):
    world = World(SIZES[1])
    model, batch = Wrong(world), batch_of(world.draw(60_000))
    done = drawn_loss(model, batch, Hiding(rate, together=0))
    each = torch.zeros(batch.size).index_add(0, batch.entity, done.tokens * done.hidden.weight)
    assert float(done.total) == pytest.approx(float(each.mean()), rel=1e-4)
    assert abs(done.total - mean_over_orders(model, world)) < 4 * each.std() / batch.size**0.5


def test_entities_with_few_properties_are_scored_by_those_they_have():
    world = World(SIZES[0])
    has = torch.zeros(60_000, 3, dtype=torch.bool)
    has[:, 0] = True
    has[::2, 2] = True
    done = drawn_loss(Table(world), batch_of(world.draw(60_000), has=has), APART)
    alone, both = (torch.special.entr(_masses(world, kept)).sum() for kept in ([0], [0, 2]))
    assert float(done.total) == pytest.approx(float(alone + both) / 2, rel=0.01)


def _masses(world: World, kept: list[int]) -> torch.Tensor:
    """The probabilities of what the kept properties can be."""
    _, which = world.states[:, kept].unique(dim=0, return_inverse=True)
    return torch.zeros(int(which.max()) + 1, dtype=torch.double).index_add(0, which, world.probs)


def test_hiding_parts_together_keeps_a_bound():
    world = World(SIZES[0])
    batch = batch_of(world.draw(40_000))
    batch = replace(batch, unit=batch.slot.clamp(max=1))  # 1 and 2 are parts of one
    apart, together = (drawn_loss(Table(world), batch, Hiding(together=share)).total for share in (0, 1))
    first, second, rest = (torch.special.entr(_masses(world, kept)).sum() for kept in ([0], [0, 1], [0, 2]))
    part, other = (torch.special.entr(_masses(world, kept)).sum() for kept in ([1], [2]))
    parts_last = first + (second - first) + (rest - first)  # H(a) + H(b | a) + H(c | a)
    parts_first = part + other + (world.entropy - torch.special.entr(_masses(world, [1, 2])).sum())
    assert float(together) == pytest.approx(float(parts_last + parts_first) / 2, rel=0.01)
    assert together > apart + 0.02
    assert float(apart) == pytest.approx(world.entropy, rel=0.01)


def test_training_reaches_the_entropy_of_the_data():
    world = World([3, 2, 3])
    model = Small(world.sizes)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, 300)
    for _ in range(300):
        optimizer.zero_grad()
        drawn_loss(model, batch_of(world.draw(256)), APART).total.backward()
        optimizer.step()
        schedule.step()
    learnt = -float(world.probs @ log_prob(model, batch_of(world.states)).bound)
    assert world.entropy <= learnt < 1.02 * world.entropy


def test_the_loss_is_told_slot_by_slot():
    world = World(SIZES[0])
    batch = batch_of(world.draw(100), has=torch.rand(100, 3) < 0.7)
    done = drawn_loss(Table(world), batch, APART)
    sums, counts = done.by_slot(batch, 5)
    for slot in range(5):
        here = done.hidden.asked & (batch.slot == slot)
        assert counts[slot] == here.sum()
        assert sums[slot] == pytest.approx(float(done.tokens[here].sum()), abs=1e-4)
    assert counts.sum() > 0


def test_balance_divides_each_slots_part_and_leaves_the_bound_as_it_is():
    world = World(SIZES[0])
    batch, balance = batch_of(world.draw(50)), torch.tensor([1.0, 2.0, 4.0])
    hidden = hide(batch, APART)
    plain, balanced = (loss(Table(world), batch, hidden, balance=weights) for weights in (None, balance))
    parts = torch.zeros(3).index_add(0, batch.slot, plain.tokens * hidden.weight) / 50
    assert float(balanced.total) == pytest.approx(float((parts / balance).sum()))
    assert balanced.nats == plain.nats == plain.total


def test_field_mean_is_the_mean_over_slots_of_the_mean_over_hidden_tokens():
    world = World(SIZES[1])
    has = torch.rand(60, 4) < 0.6
    has[:, 2] = False  # a slot that nothing has
    has[:, 3] = False
    has[0, 3] = True
    batch = batch_of(world.draw(60), has=has)
    hidden = hide(batch, Hiding("batch"))
    hidden = replace(hidden, asked=hidden.asked & (batch.slot != 3))  # and one of which nothing is hidden
    done = loss(Table(world), batch, hidden, objective="field-mean")
    means = [done.tokens[hidden.asked & (batch.slot == slot)].mean() for slot in (0, 1)]
    assert float(done.total) == pytest.approx(float(sum(means)) / 2)


class WithPresence(Table):
    """Believes in the presence of everything it is asked for, and of the absent, by a fixed score each."""

    def __call__(self, batch: Batch, visible, asked, memo=None) -> Beliefs:
        tokens = (asked | batch.absent).nonzero()[:, 0]
        told = super().__call__(batch, visible, asked)
        return replace(told, presence={"tokens": tokens, "logits": torch.sin(tokens.float())})


def test_presence_counts_hidden_properties_as_they_weigh_and_absent_ones_as_many_as_they_stand_for():
    world = World(SIZES[1])
    batch = batch_of(world.draw(20))
    absent = (batch.slot == 3) & (batch.entity % 2 == 0)
    batch = replace(batch, known=batch.known & ~absent, absent=absent, rarity=torch.full((len(batch),), 5.0))
    hidden = hide(batch, APART)
    done = loss(WithPresence(world), batch, hidden, presence=0.3)
    logits = torch.sin(torch.arange(len(batch)).float())
    there, not_there = -(hidden.weight * F.logsigmoid(logits)).sum(), -F.logsigmoid(-logits[absent]).sum()
    assert float(done.presence) == pytest.approx(float(there + 5 * not_there) / 20)
    assert float(done.total) == pytest.approx(float(done.nats + 0.3 * done.presence))
    assert loss(Table(world), batch, hidden).presence == 0


def test_nothing_to_hide_costs_nothing():
    world = World(SIZES[0])
    batch = batch_of(world.draw(5))
    for empty in (replace(batch, fixed=batch.known), batch_of(world.draw(0))):
        assert drawn_loss(Table(world), empty, APART).total == 0
        assert drawn_loss(Table(world), empty, APART, objective="field-mean").total == 0


def asking(world: World, count: int, share: float = 0.5) -> Batch:
    """Entities that ask for a share of their properties."""
    return batch_of(world.draw(count), torch.rand(count, len(world.sizes)) >= share)


@for_each("order", ["random", "certain"])
@for_each("leap", [1, 2, 3, 9])
def test_all_that_is_asked_is_filled_in_so_many_passes_and_what_was_given_stays(order, leap):
    world = World(SIZES[2])
    model, batch = Table(world), asking(world, 30)
    filled = reveal(model, batch, order=order, leap=leap)
    most = int(batch.entity[batch.asked].bincount().max())
    assert filled.known.all()
    assert model.passes == -(-most // leap)
    assert torch.equal(filled.values["category"][batch.known], batch.values["category"][batch.known])
    assert torch.equal(batch.values["category"][batch.asked], torch.zeros(int(batch.asked.sum()), dtype=torch.long))
    drawn = filled.values["category"].view(5, 30).T
    assert (world.probs[world.index(drawn)] > 0).all()


def test_each_pass_fills_as_many_as_the_leap_of_every_entity():
    world = World(SIZES[2])
    batch = asking(world, 40)
    missing = [
        torch.zeros(40).index_add(0, one.entity, one.asked.float())
        for one in [batch, *revealing(Table(world), batch, leap=2)]
    ]
    for before, after in pairwise(missing):
        assert torch.equal(after, (before - 2).clamp(min=0))


@pytest.mark.parametrize("order", ["given", "certain", "random"])
def test_beliefs_that_are_there_are_not_asked_for_again(order):
    world = World(SIZES[2])
    batch = asking(world, 30, share=1.0)

    def labels_by_pass(model: Table, first: Beliefs | None) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(3)
        revealed = revealing(model, batch, order=order, leap=2, generator=generator, first=first)
        return [after_pass.values["category"] for after_pass in revealed]

    model_alone, model_with_first = Table(world), Table(world)
    first = beliefs(Table(world), batch)
    assert all(map(torch.equal, labels_by_pass(model_alone, None), labels_by_pass(model_with_first, first)))
    assert model_with_first.passes == model_alone.passes - 1


def test_in_the_order_given_each_is_filled_by_what_is_given_and_parts_of_a_composite_one_after_the_other():
    world = World(SIZES[2])
    batch = asking(world, 30, share=1.0)
    alone = Table(world)
    reveal(alone, batch, order="given")
    assert alone.passes == 1
    # Two of the five are parts of one composite.
    unit = torch.where(batch.slot == 1, batch.unit[(batch.slot == 0).nonzero()[:, 0]][batch.entity], batch.unit)
    composite = Table(world)
    passes = list(revealing(composite, replace(batch, unit=unit), order="given"))
    assert composite.passes == len(passes) == 2
    assert passes[0].asked.equal(batch.slot == 1)
    assert passes[1].known.all()
    parts = torch.tensor([3, 2, 0, 0, 0])  # of the composite the second comes first
    passes = list(revealing(Table(world), replace(batch, unit=unit), order="given", parts=parts))
    assert passes[0].asked.equal(batch.slot == 0)
    assert passes[1].known.all()


def test_nothing_asked_is_nothing_done():
    world = World(SIZES[0])
    model = Table(world)
    for batch in (batch_of(world.draw(4)), batch_of(world.draw(0))):
        assert reveal(model, batch) is batch
    assert model.passes == 0


def fits(values: torch.Tensor, world: World, probs: torch.Tensor) -> bool:
    """Whether drawn rows (n, S) follow the probabilities of states, by a chi-square test that errs once in 10,000."""
    counts = world.index(values).bincount(minlength=len(world.probs)).double()
    likely = probs > 0
    assert counts[~likely].sum() == 0
    return stats.chisquare(counts[likely].numpy(), (probs[likely] * len(values)).numpy()).pvalue > 1e-4


def drawn(model, world: World, count: int, given: torch.Tensor | None = None, **how) -> torch.Tensor:
    """(count, S) entities drawn from nothing, or given the first property."""
    known = torch.zeros(count, len(world.sizes), dtype=torch.bool)
    values = torch.zeros(count, len(world.sizes), dtype=torch.long)
    if given is not None:
        known[:, 0], values[:, 0] = True, given
    filled = reveal(model, batch_of(values, known), **how)
    return filled.values["category"].view(len(world.sizes), count).T


def test_draws_follow_the_joint_distribution():
    world = World(SIZES[0], sharpness=1)
    assert fits(drawn(Table(world), world, 20_000), world, world.probs)


def test_draws_given_a_value_follow_the_conditional_distribution():
    world = World(SIZES[0], sharpness=1)
    values = drawn(Table(world), world, 20_000, given=torch.ones(20_000, dtype=torch.long))
    given = world.probs * (world.states[:, 0] == 1)
    assert fits(values, world, given / given.sum())


def test_all_at_once_draws_from_the_marginals_alone():
    world = World(SIZES[0], sharpness=1)
    product = torch.stack([world.marginal([slot]) for slot in range(3)]).prod(0)
    values = drawn(Table(world), world, 20_000, leap=3)
    assert fits(values, world, product)
    assert not fits(values, world, world.probs)


def test_random_orders_are_all_as_likely():
    """Conditionals that contradict one another give what an order makes of them: the mixture of all orders."""
    world = World(SIZES[0], sharpness=1)
    likely = log_prob(Wrong(world), batch_of(world.states)).exact.exp()
    assert float(likely.sum()) == pytest.approx(1, abs=1e-6)
    assert fits(drawn(Wrong(world), world, 30_000), world, likely / likely.sum())


def test_the_lowest_entropy_comes_first_unless_a_scale_says_otherwise():
    world = World([2, 4, 3])
    marginals = torch.stack([_entropy(world, slot) for slot in range(3)])
    blank = batch_of(torch.zeros(6, 3, dtype=torch.long), torch.zeros(6, 3, dtype=torch.bool))
    for scale in (None, marginals * torch.tensor([3.0, 1.0, 2.0]), marginals * torch.tensor([1.0, 2.0, 3.0])):
        first = next(revealing(Table(world), blank, order="certain", scale=scale))
        surest = int((marginals if scale is None else marginals / scale).argmin())
        assert first.slot[first.known].tolist() == [surest] * 6


def test_in_an_order_of_their_own_some_slots_come_before_others():
    world = World([2, 4, 3])
    given = torch.tensor([False, True, False]).expand(6, 3)
    blank = batch_of(torch.zeros(6, 3, dtype=torch.long), given)
    turns = [
        one.slot[one.known].unique().tolist() for one in revealing(Table(world), blank, order=torch.tensor([2, 0, 1]))
    ]
    assert turns == [[1, 2], [0, 1, 2]]


def test_draws_in_one_order_follow_the_joint_distribution():
    world = World(SIZES[0], sharpness=1)
    assert fits(drawn(Table(world), world, 20_000, order=torch.tensor([1, 2, 0])), world, world.probs)


def _entropy(world: World, slot: int) -> torch.Tensor:
    return torch.special.entr(_masses(world, [slot])).sum().float()


def test_at_temperature_0_the_likeliest_is_taken_and_lower_ones_sharpen():
    world = World([3], sharpness=1)
    values = {heat: drawn(Table(world), world, 20_000, temperature=heat) for heat in (0, 0.5)}
    assert (values[0] == world.probs.argmax()).all()
    assert fits(values[0.5], world, world.probs**2 / (world.probs**2).sum())


class Watched(Table):
    """Keeps what it was shown and asked."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.batches, self.asked, self.visible, self.memos = [], [], [], []

    def __call__(self, batch: Batch, visible, asked, memo=None) -> Beliefs:
        self.batches.append(batch)
        self.asked.append(asked)
        self.visible.append(visible)
        self.memos.append(memo)
        return super().__call__(batch, visible, asked)


def test_entities_that_are_done_are_neither_shown_nor_asked_again():
    world = World(SIZES[0])
    known = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
    model, batch = Watched(world), batch_of(world.draw(3), known)
    reveal(model, batch)
    busy = [
        set(batch.entity[asked | visible].tolist())
        for batch, asked, visible in zip(model.batches, model.asked, model.visible, strict=True)
    ]
    assert busy == [{0, 1}, {0}, {0}]
    assert [batch.size for batch in model.batches] == [3, 1, 1]
    assert [int(asked.sum()) for asked in model.asked] == [2, 1, 1]


@for_each("order", ["certain", "given"])
def test_an_entity_is_filled_as_it_would_be_alone(order):
    world = World(SIZES[2])
    model, batch = Table(world), asking(world, 12)
    together = reveal(model, batch, order=order, temperature=0)
    for entity in range(batch.size):
        wanted = torch.arange(batch.size) == entity
        alone = reveal(model, batch.of_entities(wanted)[0], order=order, temperature=0)
        assert torch.equal(together.of_entities(wanted)[0].values["category"], alone.values["category"])
        assert alone.known.all()


def test_one_memo_serves_all_passes_of_one_reveal():
    world = World(SIZES[0])
    model = Watched(world)
    for _ in range(2):
        reveal(model, asking(world, 5, share=1))
    assert all(memo is model.memos[0] for memo in model.memos[:3])
    assert all(memo is model.memos[3] for memo in model.memos[3:])
    assert model.memos[0] is not model.memos[3]


def test_evidence_of_a_link_that_is_asked_for_stays_unseen_even_once_a_link_is_drawn():
    world = World(SIZES[0])
    batch = batch_of(world.draw(4), torch.tensor([False, False, True]).expand(4, 3))
    needs = torch.stack([torch.arange(8, 12), torch.arange(4)], 1)
    model = Watched(world)
    reveal(model, replace(batch, fixed=batch.slot == 2, needs=needs))
    assert len(model.visible) == 2
    assert not any(visible[8:].any() for visible in model.visible)
    told = beliefs(model, replace(batch, needs=needs))
    assert set(batch.slot[told.kinds["category"].tokens].tolist()) == {0, 1}
    assert not model.visible[-1].any()


def test_beliefs_about_many_are_had_in_one_pass_and_never_see_what_they_are_about():
    world = World(SIZES[1])
    model, batch = Watched(world), batch_of(world.states)
    about = beliefs(model, batch, asked=batch.slot >= 2)
    alone = [beliefs(Table(world), batch, asked=batch.slot == slot, visible=batch.slot < 2) for slot in (2, 3)]
    assert model.passes == 1
    assert torch.equal(model.visible[0], batch.slot < 2)
    together = about.log_prob(batch)
    for slot, one in zip((2, 3), alone, strict=True):
        torch.testing.assert_close(together[batch.slot == slot], one.log_prob(batch)[batch.slot == slot])
    expected = world.marginal([0, 1, 2]).log() - world.marginal([0, 1]).log()
    assert together[batch.slot == 2].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_what_a_batch_asks_for_is_believed_given_all_that_is_known():
    world = World([2, 3])
    batch = batch_of(torch.tensor([[1, 0]]), torch.tensor([[True, False]]))
    told = beliefs(Table(world), batch).kinds["category"]
    given = world.probs.view(2, 3)[1]
    assert told.tokens.tolist() == [1]
    assert told.belief.probs[0].tolist() == pytest.approx((given / given.sum()).tolist())


def test_one_seed_gives_one_loss_and_one_draw():
    world = World(SIZES[1])
    batch = asking(world, 50)
    for what in (
        lambda generator: drawn_loss(Table(world), batch, Hiding(), generator=generator).total,
        lambda generator: reveal(Table(world), batch, generator=generator).values["category"],
    ):
        first, again, other = (what(torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_options_that_make_no_sense_are_refused():
    world = World([2])
    batch = batch_of(world.draw(3))
    with pytest.raises(ValueError, match="expected one of bound, field-mean for objective, got 'mean'"):
        drawn_loss(Table(world), batch, APART, objective="mean")
    with pytest.raises(ValueError, match="expected one of given, random, certain for order, got 'last'"):
        reveal(Table(world), batch, order="last")
    with pytest.raises(ValueError, match="expected a leap of at least 1, got 0"):
        reveal(Table(world), batch, leap=0)


def test_the_loss_of_a_fair_coin_is_one_bit():
    world = World([2], sharpness=0)
    assert float(drawn_loss(Table(world), batch_of(world.draw(10)), APART).total) == pytest.approx(log(2))
