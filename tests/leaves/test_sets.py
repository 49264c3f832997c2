"""Sets: coherent beliefs over subsets, with their number or without; members in the order of the labels."""

from __future__ import annotations

import json
import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each
from torch import Tensor

from kbdisk.entity import Link as LinkValue
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.set import (
    LOG_ZERO,
    ConditionalBernoulli,
    IndependentBernoulli,
    SetCodec,
    SetConfig,
    SetDecoder,
    SetEncoder,
    likeliest,
    log_symmetric_polynomial,
    subset_sums,
    subset_totals,
)
from kbdisk.schemas.kinds import Category, Link, Set

LABELS = 6


def counted(
    rows: int = 1, top: int = 2, most: int = LABELS, more: bool = True, labels: int = LABELS
) -> ConditionalBernoulli:
    """A belief drawn at random: own probabilities of 0 to `top` members, and perhaps of more."""
    logits = 3 * torch.randn(rows, LABELS)
    logits[:, labels:] = -torch.inf
    counts = torch.randn(rows, top + 1 + more).log_softmax(1)
    return ConditionalBernoulli(logits, counts, torch.full((rows,), top), torch.full((rows,), most), torch.zeros(rows))


def free(rows: int = 1) -> IndependentBernoulli:
    return IndependentBernoulli(
        3 * torch.randn(rows, LABELS), torch.zeros(rows), torch.full((rows,), LABELS), torch.zeros(rows)
    )


def every_set(labels: int = LABELS, most: int = LABELS) -> list[tuple[int, ...]]:
    return [members for size in range(most + 1) for members in combinations(range(labels), size)]


def coded(sets: list[tuple[int, ...]]) -> Tensor:
    longest = max(map(len, sets))
    return torch.tensor([[*members, *[-1] * (longest - len(members))] for members in sets])


def all_log_probs(belief, sets) -> Tensor:
    return belief.pick(torch.zeros(len(sets), dtype=torch.long)).log_prob(coded(sets))


@for_each(
    "belief",
    [
        lambda: counted(),  # number open
        lambda: counted(top=3, most=3, more=False),  # at most three
        lambda: counted(top=0),  # only the empty set was met
        lambda: counted(labels=4),  # fewer labels than others in the batch
        lambda: counted(top=LABELS, more=False),  # all were met at once
        free,  # free
    ],
)
def test_probabilities_of_all_sets_add_up_to_one(belief):
    belief = belief()
    labels = int((belief.logits > -torch.inf).sum())
    allowed = every_set(labels, min(labels, int(belief.max_members)))
    assert all_log_probs(belief, allowed).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_sums_over_subsets_are_those_of_enumeration_at_any_scale():
    for scale in (0.1, 10, 300):
        logits = scale * torch.randn(4, LABELS, dtype=torch.float64)
        total = subset_sums(logits, LABELS).total
        torch.testing.assert_close(subset_totals(logits, LABELS), total)
        for size in range(LABELS + 1):
            each = torch.stack([logits[:, list(members)].sum(1) for members in combinations(range(LABELS), size)])
            torch.testing.assert_close(total[:, size], each.logsumexp(0))


def test_totals_over_subsets_say_where_a_row_has_fewer_labels_and_have_the_gradients_of_the_sums():
    logits = torch.tensor([[2.0, -torch.inf, -900.0, 1.0], [0.0, 800.0, -3.0, -800.0]], dtype=torch.float64)
    exists = torch.tensor([[True] * 4 + [False] * 2, [True] * 5 + [False]])
    gradients = []
    for totals_of in (subset_totals, lambda logits, most: subset_sums(logits, most).total):
        odds = logits.clone().requires_grad_()
        totals = totals_of(odds, 5)
        assert ((totals > LOG_ZERO / 2) == exists).all()
        gradients += torch.autograd.grad(totals[exists].sum(), odds)
    torch.testing.assert_close(*gradients)


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.integers(0, 7)), max_size=5))
def test_the_sum_over_subsets_of_one_size_is_the_same_whatever_the_sizes_of_others(rows):
    logits = torch.full((len(rows), 6), -torch.inf, dtype=torch.float64)
    for row, (odds, _) in enumerate(rows):
        logits[row, : len(odds)] = torch.tensor(odds, dtype=torch.float64)
    number = torch.tensor([size for _, size in rows], dtype=torch.long)
    found = log_symmetric_polynomial(logits, number)
    for row, (odds, size) in enumerate(rows):
        if size > len(odds):
            assert found[row] < LOG_ZERO / 2
        else:
            sums = [math.fsum(some) for some in combinations(odds, size)]
            assert math.isclose(
                float(found[row]), float(torch.tensor(sums, dtype=torch.float64).logsumexp(0)), abs_tol=1e-9
            )


def test_gradients_of_a_log_probability_are_right():
    logits = torch.randn(3, LABELS, dtype=torch.float64, requires_grad=True)
    counts = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    codes = coded([(0, 3), (1, 2, 5), ()])

    def log_prob(logits, counts):
        top, most, unmet = torch.full((3,), 2), torch.full((3,), LABELS), torch.zeros(3, dtype=torch.float64)
        return ConditionalBernoulli(logits, counts.log_softmax(1), top, most, unmet).log_prob(codes)

    assert torch.autograd.gradcheck(log_prob, (logits, counts))


def test_gradients_stay_finite_where_labels_are_padded_and_odds_extreme():
    logits = torch.tensor([[80.0, -80.0, 0.0, -torch.inf], [0.0, 1.0, -torch.inf, -torch.inf]], requires_grad=True)
    belief = ConditionalBernoulli(
        logits, torch.zeros(2, 3).log_softmax(1), *torch.tensor([[2, 2], [4, 4]]), torch.zeros(2)
    )
    belief.log_prob(coded([(0, 1), (1,)])).sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad != 0).any()


@for_each("temperature", [1.0, 0.5])
@for_each("build", [counted, free])
def test_draws_come_as_often_as_their_probability_says(build, temperature):
    belief, draws = build(), 8_000
    sets = every_set()
    expected = (all_log_probs(belief, sets) / temperature).softmax(0)
    drawn = belief.pick(torch.zeros(draws, dtype=torch.long)).sample(temperature)
    place = {members: i for i, members in enumerate(sets)}
    found = torch.zeros(len(sets))
    for row in drawn.tolist():
        found[place[tuple(code for code in row if code >= 0)]] += 1 / draws
    error = (expected * (1 - expected) / draws).sqrt() + 1 / draws
    assert ((found - expected).abs() < 5 * error).all()


@for_each("build", [counted, free])
def test_mode_entropy_and_chances_of_labels_are_those_of_enumeration(build):
    for _ in range(10):
        belief, sets = build(), every_set()
        log_prob = all_log_probs(belief, sets)
        likeliest = sets[int(log_prob.argmax())]
        assert tuple(code for code in belief.mode()[0].tolist() if code >= 0) == likeliest
        torch.testing.assert_close(belief.entropy()[0], -(log_prob.exp() * log_prob).sum(), atol=1e-4, rtol=1e-4)
        chances = [log_prob[[label in members for members in sets]].exp().sum() for label in range(LABELS)]
        torch.testing.assert_close(belief.probs[0], torch.stack(chances), atol=1e-5, rtol=1e-4)
        codes = torch.tensor([[2, -1, 0, -2]])
        of_codes = torch.stack([chances[2], torch.tensor(0.0), chances[0], torch.tensor(0.0)])
        torch.testing.assert_close(belief.probs_of(codes)[0], of_codes, atol=1e-5, rtol=1e-4)


def test_no_label_is_in_the_empty_set():
    """A belief about sets of which none may have a member, and one whose rows have none."""
    assert counted(top=0, most=0, more=False).probs.tolist() == [[0.0] * LABELS]
    assert counted(rows=0).probs.shape == (0, LABELS)


# ---------------------------------------------------------------- from values to beliefs and back


VALUES = [["red", "blue"], ["red"], [], "green", {"blue", "red", "green"}]


def modules(leaves_and_values, config=None, width=16):
    codecs = [SetCodec.fit(leaf, values) for leaf, values in leaves_and_values]
    setting = Setting(width, [0] * len(codecs), config or SetConfig())
    return codecs, SetEncoder(codecs, setting), SetDecoder(codecs, setting)


def rows_of(slots: list[int], width: int = 16) -> Rows:
    return Rows(torch.tensor(slots), [len(slots)], torch.zeros(len(slots), width))


def test_members_come_back_in_the_order_of_the_labels_each_once():
    codec = SetCodec.fit(Set(Category(("blue", "green", "red"))), VALUES)
    assert codec.decode(codec.encode([["red", "blue", "red"], "green", []])) == [["blue", "red"], ["green"], []]
    assert SetCodec.from_json(json.loads(json.dumps(codec.to_json()))) == codec


def test_links_are_members_by_their_ids():
    codec = SetCodec.fit(Set(Link("Country")), [[LinkValue("fr"), LinkValue("de")], ["fr"]])
    assert codec.decode(codec.encode([["de", LinkValue("fr")]])) == [[LinkValue("fr"), LinkValue("de")]]
    with pytest.raises(ValueError, match="expected a link to an entity, got 3"):
        codec.encode([[3]])


def test_more_members_than_allowed_are_refused():
    codec = SetCodec.fit(Set(Category(), most=2), [["a", "b"], ["c"]])
    with pytest.raises(ValueError, match="expected at most 2 values, got 3"):
        codec.encode([["a", "b", "c"]])


def test_never_are_more_members_drawn_than_allowed():
    many = [[str((label * size) % 12) for label in range(1, 2 + size % 3)] for size in range(60)]
    for config in (SetConfig(), SetConfig(counted=5)):
        codecs, _, decoder = modules([(Set(Category(), most=3), many)], config)
        h = 20 * torch.randn(200, 16)
        belief = decoder(h, rows_of([0] * 200))
        assert isinstance(belief, IndependentBernoulli if config.counted == 5 else ConditionalBernoulli)
        for codes in (belief.mode(), belief.sample(), belief.sample(0.3)):
            assert ((codes >= 0).sum(1) <= 3).all()
            assert codecs[0].encode(codecs[0].decode(codes)).shape[1] <= 3


@for_each(("empty", "least"), [([], 1), ([[]], 0)])
def test_of_many_labels_one_is_the_likeliest_where_training_had_no_empty_set(empty, least):
    many = [[str(label)] for label in range(40)]
    codecs, _, decoder = modules([(Set(Category()), [*many, *empty])], SetConfig(counted=5))
    assert codecs[0].min_members == least
    belief = decoder(torch.zeros(7, 16), rows_of([0] * 7))
    assert isinstance(belief, IndependentBernoulli)
    assert (belief.probs < 0.5).all()
    assert ((belief.mode() >= 0).sum(1) == least).all()


def test_members_never_met_are_read_and_believed_to_be_possible():
    codecs, encoder, decoder = modules([(Set(Category()), VALUES)])
    codes = codecs[0].encode([["red", "mauve"], ["red"], ["taupe", "red", "mauve"]])
    assert codes[0].tolist() == codes[2].tolist()
    x = encoder(codes, rows_of([0] * 3))
    assert not torch.equal(x[0], x[1])
    log_prob = decoder(torch.randn(1, 16).expand(3, 16), rows_of([0] * 3)).log_prob(codes)
    assert log_prob.isfinite().all()
    both = log_prob[:2].logsumexp(0).exp()
    assert log_prob[0] < log_prob[1]
    assert both < 1
    assert codecs[0].decode(codes)[0] == ["red"]


def test_an_empty_set_reads_as_something_of_its_own_and_so_does_each_number_of_members():
    codecs, encoder, _ = modules([(Set(Category()), VALUES)])
    encoder.labels.table.data.zero_()
    x = encoder(codecs[0].encode([[], ["red"], ["red", "blue"]]), rows_of([0] * 3))
    assert x.unique(dim=0).shape[0] == 3


def test_the_distribution_of_a_slot_does_not_depend_on_the_others_in_the_batch():
    small = (Set(Category()), VALUES)
    large = (Set(Category()), [[f"{label}"] for label in range(300)])
    codecs, _, decoder = modules([small, large], SetConfig(counted=100))
    h = torch.randn(4, 16)
    together = decoder(h, rows_of([0, 0, 1, 1]))
    values = codecs[0].encode([["red"], ["blue", "red"]])
    alone = decoder(h[:2], rows_of([0, 0])).log_prob(values)
    codes = torch.cat([values, torch.tensor([[5, -1], [7, 9]])])
    torch.testing.assert_close(together.log_prob(codes)[:2], alone)
    assert together.sample().shape[0] == 4
    assert together.pick(torch.tensor([3, 0])).entropy().shape == (2,)


@pytest.mark.slow
def test_a_slot_learns_its_sets():
    values = [["a", "b"]] * 6 + [["a"]] * 3 + [[]]
    codecs, _, decoder = modules([(Set(Category(("a", "b", "c"), closed=True)), values)])
    codes, rows = codecs[0].encode(values), rows_of([0] * 10)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss = -decoder(torch.ones(10, 16), rows).log_prob(codes).mean()
        loss.backward()
        optimizer.step()
    entropy = torch.special.entr(torch.tensor([0.6, 0.3, 0.1])).sum()
    assert loss.item() == pytest.approx(entropy.item(), rel=0.02)


def test_a_slot_that_training_had_no_set_of_believes_in_the_empty_one():
    codecs, encoder, decoder = modules([(Set(Category()), [])])
    belief = decoder(torch.randn(2, 16), rows_of([0, 0]))
    assert codecs[0].decode(belief.mode()) == codecs[0].decode(belief.sample()) == [[], []]
    assert belief.log_prob(codecs[0].encode([[], ["new"]])).isfinite().all()
    assert encoder(codecs[0].encode([[], ["new"]]), rows_of([0, 0])).isfinite().all()


def test_labels_of_sets_keep_their_types():
    codec = SetCodec(Labels((True, 1.5, "1"), (1, 1, 1), open=True), links=False, most=None, sizes=(0, 1))
    assert codec.decode(codec.encode([["1", True, 1.5, 1]])) == [[True, 1.5, "1"]]


@pytest.mark.parametrize("build", [counted, free])
def test_sets_of_one_member_are_as_likely_as_what_is_mixed_into_them(build):
    belief = build(2)
    codes, mass = torch.tensor([[0, 2], [4, 1]]), torch.tensor([[0.5, 0.25], [0.9, 0.05]])
    member = torch.tensor([[0, 2, -1], [4, 1, -2]])
    own = belief.member_logs(member)
    assert own[:, 2].isnan().all()
    weight = torch.tensor([1.0, 0.25])
    both = belief.blended(codes, mass, weight)
    if build is counted:
        told = both.member_logs(member)[:, :2].exp()
        assert torch.allclose(told, torch.lerp(own[:, :2].exp(), mass, weight[:, None]), atol=1e-4)
        assert torch.equal(both.counts, belief.counts)
    else:  # a label is never certain, and there are as many members on average
        other = (mass * belief.probs.sum(1, keepdim=True)).clamp(max=0.999)
        expected = torch.lerp(belief.probs.gather(1, codes), other, weight[:, None])
        assert torch.allclose(both.probs.gather(1, codes), expected, atol=1e-4)
    unchanged = belief.blended(codes, mass, torch.zeros(2))
    assert torch.allclose(unchanged.probs, belief.probs, atol=1e-5)


def test_what_an_expert_does_not_know_shares_the_rest_in_proportion():
    belief = counted(1)
    told = belief.blended(torch.tensor([[0]]), torch.tensor([[0.6]]), torch.ones(1))
    others = torch.arange(1, LABELS)[None]
    own = belief.member_logs(others).exp()
    assert torch.allclose(told.member_logs(others).exp(), 0.4 * own / own.sum(), atol=1e-5)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(0, 9))
def test_the_likeliest_labels_are_as_many_as_are_asked_for_and_the_first_of_equal_ones(scores, count):
    logits = torch.tensor([scores, scores], dtype=torch.float32)
    for counts in ([count, 1], [min(count, 1), 1]):
        in_order = sorted(range(len(scores)), key=lambda label: -scores[label])
        expected = [[label in in_order[:of_row] for label in range(len(scores))] for of_row in counts]
        assert likeliest(logits, torch.tensor(counts)).tolist() == expected
