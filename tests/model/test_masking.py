"""What is hidden, how often, and what it weighs."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from tables import for_each
from toys import batch_of

from kbdisk.data.dataset import Batch
from kbdisk.model.masking import RATES, Hidden, Hiding, hide, masks_in_order, paper_weight, shuffled

APART = Hiding(together=0)


pytestmark = pytest.mark.usefixtures("one_thread")


def entities(count: int, properties: int, **changes) -> Batch:
    """So many entities, each with so many properties."""
    return replace(batch_of(torch.zeros(count, properties, dtype=torch.long)), **changes)


def per_entity(batch: Batch, what: torch.Tensor) -> torch.Tensor:
    """(B,) a sum over each entity's tokens."""
    return torch.zeros(batch.size).index_add(0, batch.entity, what.float())


def sets(batch: Batch, hidden: Hidden) -> torch.Tensor:
    """(B,) which properties of each entity are visible, as bits."""
    return per_entity(batch, hidden.visible * 2**batch.slot).long()


def agrees(observed: torch.Tensor, probs: list[float]) -> bool:
    """Whether counts fit probabilities, by a chi-square test that errs once in 10,000."""
    expected = torch.tensor(probs, dtype=torch.double) / sum(probs) * observed.sum()
    return stats.chisquare(observed.double().numpy(), expected.numpy()).pvalue > 1e-4


@for_each("D", range(1, 13))
def test_our_weights_equal_those_of_the_paper(D):
    """P(M) D / M of ours = the mean over pi and N of C(pi) where M = N + 1."""

    def papers(pi: float, N: int) -> float:
        weight = paper_weight(*(torch.tensor(x, dtype=torch.double) for x in (D, N, pi)))
        return float(weight) * stats.binom.pmf(N, D, pi)

    M, weight = RATES["count"](torch.full((60 * D,), D), 0.5, None)
    for m in range(1, D + 1):
        mean, _ = integrate.quad(papers, 0, 1, args=(m - 1,))
        ours = weight[m == M].sum() / len(M)  # exact, since draws are stratified
        assert float(ours) == pytest.approx(mean, rel=1e-5)
        assert mean == pytest.approx(1 / m, rel=1e-6)


@for_each("D", range(1, 13))
def test_few_hides_m_of_them_as_often_as_one_in_m(D):
    draws = 20_000
    M, weight = RATES["few"](torch.full((draws,), D), 0.5, None)
    whole = sum(1 / m for m in range(1, D + 1))
    for m in range(1, D + 1):
        assert (m == M).double().mean().item() == pytest.approx(1 / m / whole, abs=2 / draws)  # draws are stratified
    assert torch.allclose(weight, D / M)


def test_few_hides_as_many_as_there_are_of_entities_of_any_size():
    M, _ = RATES["few"](torch.tensor([0, 1, 2, 40] * 500), 0.5, None)
    assert M.view(-1, 4).amax(0).tolist()[:3] == [0, 1, 2]
    assert bool((M.view(-1, 4)[:, 3] >= 1).all())
    assert int(M.max()) <= 40


def test_the_papers_literal_draw_has_the_same_mean_weights():
    D, draws = 4, 400_000
    M, weight = RATES["paper"](torch.full((draws,), D), 0.5, None)
    for m in range(1, D + 1):
        each = weight.where(m == M, 0)
        assert abs(each.mean() - 1 / m) < 4 * each.std() / draws**0.5


def test_the_papers_literal_draw_weighs_nothing_where_all_were_masked_before_the_one_more():
    M, weight = RATES["paper"](torch.ones(10_000, dtype=torch.long), 0.5, None)
    assert (M == 1).all()
    assert ((weight == 0).float().mean() - 0.5).abs() < 0.02  # D = 1: pi on average


@pytest.mark.slow
def test_how_many_are_hidden_is_uniform_for_each_entity():
    batch = entities(7, 5)
    counts = torch.stack([per_entity(batch, hide(batch, APART).asked) for _ in range(2000)]).long()  # (2000, B)
    for one in counts.T:
        assert agrees(one.bincount(minlength=6)[1:], [1] * 5)


def test_every_set_of_one_size_is_hidden_as_often():
    batch = entities(30_000, 4)
    seen = sets(batch, hide(batch, APART)).bincount(minlength=16)
    assert seen[15] == 0  # something is always hidden
    assert agrees(seen[:15], [1 / 4 / comb(4, bin(which).count("1")) for which in range(15)])


def test_draws_of_a_batch_are_stratified():
    batch = entities(1000, 5)
    counts = per_entity(batch, hide(batch, APART).asked).long().bincount(minlength=6)[1:]
    assert (counts - 200).abs().max() <= 1


def test_stratified_draws_vary_less():
    batch = entities(50, 7)
    means = torch.stack([per_entity(batch, hide(batch, APART).asked).mean() for _ in range(300)])
    assert means.var() < 0.1 * (7**2 - 1) / 12 / 50


@for_each("rate", [one for one in RATES if one != "paper"])
def test_whatever_is_hidden_weighs_as_much_as_all_that_could_have_been(rate):
    batch = entities(500, 6)
    hidden = hide(batch, Hiding(rate))
    assert per_entity(batch, hidden.weight).tolist() == pytest.approx([6.0] * 500)
    assert torch.equal(hidden.weight > 0, hidden.asked)
    assert torch.equal(hidden.visible, ~hidden.asked)


def test_a_fixed_share_is_hidden_and_one_at_least():
    batch = entities(20_000, 5)
    counts = per_entity(batch, hide(batch, Hiding("fixed", share=0.3)).asked).long().bincount(minlength=6)
    law = [stats.binom.pmf(k, 5, 0.3) for k in range(6)]
    assert counts[0] == 0
    assert agrees(counts[1:], [law[0] + law[1], *law[2:]])


def test_one_rate_for_the_batch_is_the_same_for_all_and_differs_between_batches():
    batch = entities(400, 50)
    shares = torch.stack([per_entity(batch, hide(batch, Hiding("batch")).asked) / 50 for _ in range(200)])
    assert shares.std(1).max() < 0.1  # within a batch: binomial, 0.07 at most
    assert stats.kstest(shares.mean(1), "uniform").pvalue > 1e-4


def test_one_property_is_always_hidden_and_thousands_are_no_trouble():
    values = torch.zeros(40, 3000, dtype=torch.long)
    has = torch.ones(40, 3000, dtype=torch.bool)
    has[::2, 1:] = False
    batch = batch_of(values, has=has)
    hidden = hide(batch, APART)
    asked, weight = per_entity(batch, hidden.asked), per_entity(batch, hidden.weight)
    assert asked[::2].eq(1).all()
    assert weight[::2].eq(1).all()
    assert weight[1::2].tolist() == pytest.approx([3000] * 20, rel=1e-3)  # thousands of float32 added up
    assert asked[1::2].std() > 500


@for_each("rate", RATES)
def test_an_entity_without_anything_to_hide_costs_nothing(rate):
    batch = entities(3, 2)
    batch = replace(batch, fixed=batch.entity == 0, known=batch.entity != 1)
    hidden = hide(batch, Hiding(rate))
    assert not hidden.asked[batch.entity < 2].any()
    assert not hidden.weight[batch.entity < 2].any()
    assert hidden.visible[batch.entity == 0].all()
    assert not hidden.visible[batch.entity == 1].any()
    assert not hide(entities(0, 2), Hiding(rate)).asked.any()


def test_what_is_given_is_never_hidden_and_counts_for_nothing():
    batch = entities(5000, 3)
    batch = replace(batch, fixed=batch.slot == 0)
    hidden = hide(batch, APART)
    assert hidden.visible[batch.slot == 0].all()
    assert per_entity(batch, hidden.asked).long().bincount().tolist() == [0, 2500, 2500]
    assert per_entity(batch, hidden.weight).tolist() == pytest.approx([2] * 5000)


def test_evidence_goes_with_the_link_it_came_over_and_is_not_asked_for():
    batch = entities(200, 3)  # 0 a link, 1 another property, 2 evidence over the link
    needs = torch.stack([torch.arange(400, 600), torch.arange(200)], 1)
    batch = replace(batch, fixed=batch.slot == 2, needs=needs)
    hidden = hide(batch, APART)
    link, evidence = hidden.visible[:200], hidden.visible[400:]
    assert link.any()
    assert not link.all()
    assert torch.equal(link, evidence)
    assert not hidden.asked[400:].any()


def test_absent_and_asked_properties_are_neither_seen_nor_hidden():
    batch = entities(50, 4)
    batch = replace(batch, known=batch.slot < 2, absent=batch.slot == 2)
    hidden = hide(batch, APART)
    assert not hidden.visible[batch.slot >= 2].any()
    assert not hidden.asked[batch.slot >= 2].any()
    assert per_entity(batch, hidden.weight).tolist() == pytest.approx([2] * 50)


def with_a_composite(count: int) -> Batch:
    """Entities of one property and a composite of three; units are numbered anew in each."""
    batch = entities(count, 4)
    return replace(batch, unit=batch.slot.clamp(max=1))


def test_parts_hidden_together_count_as_one():
    batch = with_a_composite(3000)
    hidden = hide(batch, Hiding(together=1))
    seen = sets(batch, hidden)
    assert set(seen.tolist()) == {0b0000, 0b0001, 0b1110}
    assert agrees(seen.bincount(minlength=15)[[0, 1, 14]], [2, 1, 1])
    assert hidden.weight[seen[batch.entity] == 0].eq(1).all()  # both units hidden: 2 / 2
    assert hidden.weight[hidden.asked & (seen[batch.entity] != 0)].eq(2).all()


def test_parts_are_hidden_together_in_as_many_entities_as_said():
    batch = with_a_composite(4000)
    split = {share: _split(batch, share) for share in (0, 0.5, 1)}
    assert split[1] == 0
    assert split[0.5] == pytest.approx(split[0] / 2, rel=0.1)


def _split(batch: Batch, share: float) -> float:
    parts = sets(batch, hide(batch, Hiding(together=share))) >> 1
    return float(((parts > 0) & (parts < 7)).float().mean())


def test_units_numbered_alike_are_shuffled_apart_from_entity_to_entity():
    batch = with_a_composite(2000)
    place, count = shuffled(batch, batch.known, unit=batch.unit)
    first = place[:2000].view(2, -1)  # of the unit 0 of each entity
    assert count.tolist() == [2] * 2000
    assert agrees((first[0] * 2 + first[1]).bincount(minlength=4), [1] * 4)


def test_a_missing_pattern_is_borrowed_from_another_of_the_class():
    classes = torch.arange(40) // 2  # one of each class has all, the other lacks two properties of its own
    has = torch.ones(40, 6, dtype=torch.bool)
    lacking = torch.stack([torch.arange(20) % 6, (torch.arange(20) // 6 + torch.arange(20) + 1) % 6], 1)
    has[1::2] = has[1::2].scatter(1, lacking, False)
    batch = replace(batch_of(torch.zeros(40, 6, dtype=torch.long), has=has), classes=classes)
    hidden = hide(batch, Hiding(patterns=1))
    asked = sets(batch, replace(hidden, visible=hidden.asked))
    assert torch.equal(asked[::2], (~has[1::2] * 2 ** torch.arange(6)).sum(1))
    assert (asked[1::2] > 0).all()  # what the one with all lacks is nothing: these fall back
    assert per_entity(batch, hidden.weight).tolist() == pytest.approx(has.sum(1).tolist())


def test_patterns_are_borrowed_in_as_many_entities_as_said_and_one_of_a_kind_falls_back():
    has = torch.ones(2000, 6, dtype=torch.bool)
    has[1::2, :3] = False
    batch = batch_of(torch.zeros(2000, 6, dtype=torch.long), has=has)
    hiding = {patterns: hide(batch, Hiding("fixed", 0, 0, patterns)) for patterns in (0, 0.5, 1)}
    lent = {patterns: (sets(batch, one)[::2] == 0b111000).float().mean() for patterns, one in hiding.items()}
    assert lent[0] == 0
    assert lent[0.5] == pytest.approx(0.25, abs=0.06)  # one in two lenders has all
    assert lent[1] == pytest.approx(0.5, abs=0.06)
    alone = replace(batch, classes=torch.arange(2000))
    assert per_entity(alone, hide(alone, Hiding(patterns=1)).asked).min() >= 1


def test_one_seed_hides_one_way():
    batch = with_a_composite(100)
    first, again, other = (hide(batch, Hiding(patterns=0.5), torch.Generator().manual_seed(n)) for n in (1, 1, 2))
    assert torch.equal(first.visible, again.visible)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.visible, other.visible)


def test_places_are_a_random_order_of_each_entitys_own():
    batch = entities(3000, 3)
    place, count = shuffled(batch, batch.slot != 1)
    assert count.tolist() == [2] * 3000
    assert torch.equal(place.view(3, -1)[[0, 2]].sort(0).values, torch.tensor([[0], [1]]).expand(2, 3000))
    assert agrees(place[:3000].bincount(), [1, 1])


@for_each(
    ("wrong", "complaint"),
    [
        ({"rate": "some"}, "expected one of count, paper, few, fixed, batch for rate, got 'some'"),
        ({"share": 1.5}, "expected 0 to 1 for share, got 1.5"),
        ({"patterns": -1}, "expected 0 to 1 for patterns, got -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, complaint):
    with pytest.raises(ValueError, match=complaint):
        Hiding(**wrong)


def test_in_so_many_entities_everything_is_hidden_and_weighs_once():
    batch = batch_of(torch.zeros(4000, 5, dtype=torch.long))
    hidden = hide(batch, Hiding(rate="few", everything=0.25), torch.Generator().manual_seed(0))
    counts = torch.zeros(4000).index_add_(0, batch.entity, hidden.asked.float())
    random_sample = 1 / 5 / sum(1 / m for m in range(1, 6))
    assert float((counts == 5).float().mean()) == pytest.approx(0.25 + 0.75 * random_sample, abs=0.02)
    assert (hidden.weight[(counts == 5)[batch.entity]] == 1).all()


def test_entities_of_which_nothing_is_hidden_leave_the_weights_what_they_were_on_average():
    batch = entities(4000, 5)
    hidden = hide(batch, Hiding(nothing=0.25), torch.Generator().manual_seed(0))
    spared = torch.ones(4000).index_fill(0, batch.entity[hidden.asked], 0).mean()
    assert spared == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 4000) ** 0.5)
    assert hidden.weight.sum() / 4000 == pytest.approx(5, abs=0.5)


ORDER = torch.tensor([2, 0, 4, 1, 3])  # the place of each of five slots


def in_order(batch: Batch, **how) -> Hidden:
    return hide(batch, Hiding(together=0, **how), torch.Generator().manual_seed(0), ORDER)


def test_in_order_the_last_are_hidden_and_as_many_as_ever():
    batch = entities(4000, 5)
    hidden = in_order(batch, ordered=1.0)
    counts = per_entity(batch, hidden.asked).long()
    assert torch.equal(hidden.asked, ORDER[batch.slot] >= 5 - counts[batch.entity])
    assert torch.allclose(hidden.weight[hidden.asked], 5 / counts[batch.entity[hidden.asked]].float())
    assert (counts.bincount(minlength=6)[1:] == 800).all()  # draws are stratified


def test_in_so_many_entities_the_last_are_hidden():
    batch = entities(20_000, 5)
    bits = sets(batch, in_order(batch, rate="fixed", share=0.0, ordered=0.5))  # one each
    shares = bits.bincount(minlength=32)[31 - 2 ** torch.arange(5)] / batch.size
    assert torch.allclose(shares, torch.tensor([0.1, 0.1, 0.6, 0.1, 0.1]), atol=0.02)


def test_in_order_what_is_known_counts_and_a_composite_is_one():
    known = torch.tensor([True, True, False, True, True]).repeat_interleave(200)
    batch = entities(200, 5, known=known)
    hidden = in_order(batch, rate="fixed", share=0.0, ordered=1.0)
    assert set(batch.slot[hidden.asked].tolist()) == {4}
    whole = replace(batch, unit=torch.where(batch.slot == 0, torch.arange(len(batch)) + 4 * 200, batch.unit))  # with 4
    hidden = hide(whole, Hiding("fixed", 0.0, together=1, ordered=1.0), None, ORDER)
    assert per_entity(batch, hidden.asked).tolist() == [2] * 200
    assert set(batch.slot[hidden.asked].tolist()) == {0, 4}


def test_in_order_a_length_is_apart_from_what_stands_in_its_list_and_all_are_hidden_now_and_then():
    batch = entities(4000, 5)
    unit = torch.where(
        (batch.slot == 0) | (batch.slot == 2), batch.entity, batch.unit + 10**6
    )  # third and last in ORDER
    hidden = hide(replace(batch, unit=unit), Hiding(together=1, ordered=1.0), None, ORDER)
    counts = per_entity(batch, hidden.asked).long()
    assert torch.equal(hidden.asked, ORDER[batch.slot] >= 5 - counts[batch.entity])
    assert (counts.bincount(minlength=6)[1:] == 800).all()


def test_hiding_that_is_not_fitted_to_the_data_yet_hides_nothing():
    assert Hiding(ordered=None).is_in_order
    with pytest.raises(ValueError, match="before it was fitted"):
        hide(entities(2, 3), Hiding(ordered=None))


def test_in_turn_each_is_asked_for_where_those_before_it_are_visible():
    known = torch.tensor([True, True, False, True, True]).repeat_interleave(3)
    batch = entities(3, 5, known=known)
    turns = list(masks_in_order(batch, known, ORDER, passes=9))
    assert [set(batch.slot[hidden.asked].tolist()) for hidden in turns] == [{1}, {3}, {0}, {4}]
    assert [set(batch.slot[hidden.visible].tolist()) for hidden in turns] == [set(), {1}, {1, 3}, {0, 1, 3}]
    assert all(torch.equal(hidden.weight, hidden.asked.float()) for hidden in turns)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))
def test_in_fewer_passes_than_an_entity_has_properties_all_come_up_as_often_on_average(D, passes, seed):
    batch = entities(360, D)
    generator = torch.Generator().manual_seed(seed)
    turns = list(masks_in_order(batch, batch.known, torch.arange(D), passes, generator))
    assert len(turns) == min(D, passes)
    asked = torch.stack([hidden.asked for hidden in turns])  # (K, T)
    assert asked.sum(0).max() == 1
    assert all((per_entity(batch, one) == 1).all() for one in asked)
    counts = torch.zeros(D).index_add_(0, batch.slot, asked.sum(0).float())
    assert torch.allclose(counts, torch.full((D,), 360 * len(turns) / D), atol=2)  # starts are dealt out evenly
    assert float(sum(hidden.weight.sum() for hidden in turns)) == pytest.approx(360 * D)
    for hidden in turns:
        own = torch.zeros(360, dtype=torch.long).index_put((batch.entity[hidden.asked],), batch.slot[hidden.asked])
        assert torch.equal(hidden.visible, batch.slot < own[batch.entity])


def test_in_turn_entities_that_have_less_are_asked_in_fewer_passes():
    known = ~((torch.arange(4).repeat(3) > 0) & (torch.arange(3).repeat_interleave(4) > 0))  # 3, 1, 1, 1
    batch = entities(4, 3, known=known)
    turns = list(masks_in_order(batch, batch.known, torch.arange(3), 2))
    assert [per_entity(batch, hidden.asked).tolist() for hidden in turns] == [[1, 1, 1, 1], [1, 0, 0, 0]]
    assert per_entity(batch, sum(hidden.weight for hidden in turns)).tolist() == [3, 1, 1, 1]


def test_in_turn_nothing_is_visible_of_what_is_not_among_it_but_what_is_never_hidden():
    batch = entities(3, 4)
    fixed, among = batch.slot == 3, batch.slot < 2
    turns = list(masks_in_order(replace(batch, fixed=fixed), among, torch.arange(4), 9))
    assert [set(batch.slot[hidden.asked].tolist()) for hidden in turns] == [{0}, {1}]
    assert [set(batch.slot[hidden.visible].tolist()) for hidden in turns] == [{3}, {0, 3}]


def test_hiding_in_order_wants_an_order():
    with pytest.raises(ValueError, match="expected the order of slots"):
        hide(entities(2, 3), Hiding(ordered=0.5))
