"""Categories: labels keep their types, each slot has only its own, and labels never met are possible."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from leaves.standins import Characters, Reader
from tables import for_each
from torch import Tensor

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.belief import JoinedBelief
from kbdisk.leaves.category import (
    CategoryBelief,
    CategoryCodec,
    CategoryConfig,
    CategoryDecoder,
    CategoryEncoder,
    CumulativeScores,
)
from kbdisk.leaves.labels import Labels
from kbdisk.leaves.registry import learnt_leaf
from kbdisk.schemas.kinds import Boolean, Category

WIDTH = 16


def codec_of(labels: int, open: bool = False) -> CategoryCodec:
    return CategoryCodec(Labels(tuple(f"label {i}" for i in range(labels)), tuple(range(1, labels + 1)), open))


def setting_of(slots: int, config: CategoryConfig | None = None, **more) -> Setting:
    return Setting(WIDTH, [0] * slots, config or CategoryConfig(), **more)


def rows_of(slots: list[int] | Tensor) -> Rows:
    slots = torch.as_tensor(slots, dtype=torch.long)
    return Rows(slots, [len(slots)], torch.zeros(len(slots), WIDTH))


# ---------------------------------------------------------------- labels


def test_labels_keep_their_types_and_true_is_not_one():
    values = [True, 1, "1", Decimal("1.5"), 2.5, False, 0]
    codec = CategoryCodec.fit(Category(), values)
    again = codec.decode(codec.encode(values))
    assert [(type(value), value) for value in again] == [(type(value), value) for value in values]
    saved = CategoryCodec.from_json(json.loads(json.dumps(codec.to_json())))
    assert saved == codec
    assert list(map(type, saved.labels.values)) == list(map(type, codec.labels.values))


@given(st.lists(st.text() | st.integers() | st.booleans() | st.decimals(allow_nan=False, allow_infinity=False)))
def test_every_label_met_in_training_comes_back(values):
    codec = CategoryCodec.fit(Category(), values)
    again = CategoryCodec.from_json(json.loads(json.dumps(codec.to_json())))
    assert again.decode(again.encode(values)) == values
    assert again.labels.counts == codec.labels.counts


def test_a_closed_category_has_exactly_its_values():
    codec = CategoryCodec.fit(Category(("g", "oz", "t"), closed=True), ["oz", "g"])
    assert codec.labels.values == ("g", "oz", "t")
    with pytest.raises(ValueError, match="expected one of g, oz, t, got 'kg'"):
        codec.encode(["g", "kg"])


def test_an_open_category_knows_that_a_label_is_none_of_its_own():
    codec = CategoryCodec.fit(Category(("g",)), ["oz", "oz", "t", "g"])
    assert codec.labels.values == ("g", "oz", "t")  # those told first, then the commonest
    assert codec.encode(["t", "kg", True]).tolist() == [2, -1, -1]
    assert codec.decode(torch.tensor([2, -1])) == ["t", None]


def test_labels_do_not_depend_on_the_order_of_the_data():
    one = CategoryCodec.fit(Category(), ["a", 2, "b", "c", 1])
    assert one == CategoryCodec.fit(Category(), [1, "c", "b", 2, "a"])


def test_ordered_labels_that_are_not_told_stand_in_their_order():
    assert CategoryCodec.fit(Category(ordered=True), [10, 2, 33, 33]).labels.values == (2, 10, 33)


def test_truths_decode_to_bool():
    codec = CategoryCodec.fit(learnt_leaf(Boolean()), [])
    assert codec.decode(codec.encode([True, False])) == [True, False]
    for wrong in (1, "true", 0):
        with pytest.raises(ValueError, match="expected true or false, got"):
            codec.encode([True, wrong])


def test_what_is_no_label_is_refused():
    codec = CategoryCodec.fit(Category(), ["a"])
    with pytest.raises(ValueError, match=r"expected a label, got \['a'\]"):
        codec.encode(["a", ["a"]])


def test_an_unknown_choice_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="expected one of learnt, text for labels, got 'semantic'"):
        CategoryConfig(labels="semantic")
    with pytest.raises(ValueError, match="expected one of softmax, cumulative for ordered"):
        CategoryConfig(ordered="logistic")


# ---------------------------------------------------------------- beliefs


def test_plain_logits_make_a_belief_that_agrees_with_torch():
    logits = 3 * torch.randn(5, 4)
    belief, theirs = CategoryBelief(logits), torch.distributions.Categorical(logits=logits)
    codes = torch.tensor([0, 3, 1, 2, 2])
    torch.testing.assert_close(belief.log_prob(codes), theirs.log_prob(codes))
    torch.testing.assert_close(belief.entropy(), theirs.entropy())
    torch.testing.assert_close(belief.probs, theirs.probs)
    assert torch.equal(belief.mode(), theirs.mode)
    assert torch.equal(belief.top(1)[0][:, 0], theirs.mode)


@for_each("temperature", [1.0, 0.5])
def test_draws_come_as_often_as_their_probability_says(temperature):
    logits, draws = torch.tensor([0.3, -1.0, 1.2, -torch.inf]), 20_000
    drawn = CategoryBelief(logits.expand(draws, -1)).sample(temperature, torch.Generator().manual_seed(3))
    expected = (logits / temperature).softmax(0)
    found = drawn.bincount(minlength=4) / draws
    assert ((found - expected).abs() <= 5 * (expected * (1 - expected) / draws).sqrt()).all()
    again = CategoryBelief(logits.expand(draws, -1)).sample(temperature, torch.Generator().manual_seed(3))
    assert torch.equal(drawn, again)


def test_labels_never_met_have_the_mass_that_those_met_once_had():
    codec = CategoryCodec.fit(Category(), ["a"] * 6 + ["b", "c"])
    assert codec.labels.unseen == pytest.approx(2.5 / 9)
    decoder = CategoryDecoder([codec], setting_of(1))
    belief = decoder(torch.randn(1, WIDTH), rows_of([0]))
    known = belief.pick(torch.zeros(3, dtype=torch.long)).log_prob(torch.arange(3)).exp()
    unseen = belief.log_prob(codec.encode(["zebra"])).exp()
    assert unseen.item() == pytest.approx(2.5 / 9)
    assert (known.sum() + unseen).item() == pytest.approx(1)
    outcomes = torch.cat([known, unseen])
    assert belief.entropy().item() == pytest.approx(torch.special.entr(outcomes).sum().item(), rel=1e-5)
    assert belief.probs.sum().item() == pytest.approx(1 - 2.5 / 9)
    assert (belief.pick(torch.zeros(500, dtype=torch.long)).sample() >= 0).all()


def test_a_closed_category_keeps_no_mass_for_others():
    belief = CategoryDecoder([codec_of(3)], setting_of(1))(torch.randn(2, WIDTH), rows_of([0, 0]))
    torch.testing.assert_close(belief.probs.sum(1), torch.ones(2))


def test_beliefs_begin_at_how_common_the_labels_are():
    decoder = CategoryDecoder([codec_of(3)], setting_of(1, blocks=0))
    probs = decoder(torch.zeros(1, WIDTH), rows_of([0])).probs[0]
    torch.testing.assert_close(probs, torch.tensor([1.5, 2.5, 3.5]) / 7.5)


def test_in_halves_beliefs_are_still_floats():
    codecs = [codec_of(3, open=True), codec_of(90)]
    encoder, decoder = CategoryEncoder(codecs, setting_of(2)), CategoryDecoder(codecs, setting_of(2))
    rows, codes = rows_of([0, 0, 1]), torch.tensor([0, -1, 80])
    with torch.autocast("cpu", torch.bfloat16):
        belief = decoder(encoder(codes, rows), rows)
        assert belief.log_prob(codes).dtype == belief.entropy().dtype == torch.float32
        assert CategoryBelief(torch.randn(2, 3).bfloat16()).probs.dtype == torch.float32


# ---------------------------------------------------------------- many slots in one table


SIZES = [3, 1, 40, 8, 700, 2, 33, 8, 8, 150]


def by_hand(decoder: CategoryDecoder, sizes: list[int], h: Tensor, slot: Tensor) -> list[Tensor]:
    """The log probabilities of each row's labels, one row at a time."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    own = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    table, bias = decoder.scores.table, decoder.scores.bias
    return [(table[own[s]] @ x + bias[own[s]]).log_softmax(0) for x, s in zip(h, slot.tolist(), strict=True)]


@for_each("alone", [1, 64, 10**9])
def test_each_row_is_scored_against_its_own_slots_labels_alone(alone, monkeypatch):
    monkeypatch.setattr("kbdisk.leaves.embeddings.MIN_PRODUCT", alone)
    decoder = CategoryDecoder([codec_of(size) for size in SIZES], setting_of(len(SIZES), blocks=0))
    slot = torch.randint(len(SIZES), (60,)).sort().values
    h = torch.randn(60, WIDTH, requires_grad=True)
    codes = (torch.rand(60) * torch.tensor(SIZES)[slot]).long()
    gradients = []
    for find in (
        lambda: decoder(h, rows_of(slot)).log_prob(codes),
        lambda: torch.stack([own[code] for own, code in zip(by_hand(decoder, SIZES, h, slot), codes, strict=True)]),
    ):
        log_prob = find()
        gradients.append((log_prob, *torch.autograd.grad(log_prob.sum(), [h, *decoder.scores.parameters()])))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)
    belief, theirs = decoder(h, rows_of(slot)), by_hand(decoder, SIZES, h, slot)
    assert belief.mode().tolist() == [int(own.argmax()) for own in theirs]
    torch.testing.assert_close(belief.entropy(), torch.stack([-(own.exp() * own).sum() for own in theirs]))
    some = torch.tensor([50, 3, 3, 20])
    torch.testing.assert_close(belief.pick(some).log_prob(codes[some]), belief.log_prob(codes)[some])
    assert (belief.sample() < torch.tensor(SIZES)[slot]).all()
    best, probs = belief.top(2)
    assert torch.equal(best[:, 0], belief.mode())
    assert (best[slot == 1, 1] == -1).all()  # a slot of one label has no second
    torch.testing.assert_close(probs[:, 0], torch.stack([own.max().exp() for own in theirs]))
    assert (belief.ranks(belief.mode()) == 1).all()


def test_slots_that_share_a_codec_share_its_labels_and_stay_in_their_place():
    one, two = codec_of(4, open=True), codec_of(50)
    alike = codec_of(4, open=True)  # equal, but of another property
    codecs = [one, two, one, alike, two]
    decoder, encoder = CategoryDecoder(codecs, setting_of(5, blocks=0)), CategoryEncoder(codecs, setting_of(5))
    assert len(decoder.scores.table) == 4 + 50 + 4
    assert len(encoder.labels.table) == 4 + 50 + 4 + 3
    slot, codes = [0, 0, 1, 2, 2, 3, 4], torch.tensor([1, -1, 45, 3, 0, 2, 7])
    h = torch.randn(7, WIDTH)
    belief = decoder(h, rows_of(slot))
    single = [
        decoder(x[None], rows_of([own])).log_prob(code[None]) for x, own, code in zip(h, slot, codes, strict=True)
    ]
    torch.testing.assert_close(belief.log_prob(codes), torch.cat(single))
    probs = decoder(h[:1].expand(5, -1), rows_of([0, 1, 2, 3, 4])).probs
    torch.testing.assert_close(probs[0], probs[2])
    assert (probs[0] - probs[3]).abs().max() > 1e-3
    x = encoder(torch.zeros(5, dtype=torch.long), rows_of([0, 1, 2, 3, 4]))
    torch.testing.assert_close(x[0], x[2])
    assert (x[0] - x[3]).abs().max() > 1e-3


def test_one_slot_of_many_labels_does_not_pad_the_others():
    sizes = [20_000, *[8] * 500]
    codecs = [codec_of(size) for size in sizes]
    decoder = CategoryDecoder(codecs, setting_of(len(sizes)))
    slot = torch.cat([torch.zeros(10), torch.arange(1, 501)]).long()
    belief = decoder(torch.randn(510, WIDTH), rows_of(slot))
    assert isinstance(belief, JoinedBelief)
    assert sum(part.logits.numel() for part in belief.parts) == 10 * 20_000 + 500 * 8
    assert belief.log_prob(torch.zeros(510, dtype=torch.long)).shape == (510,)


def test_a_batch_may_have_no_row_and_a_slot_no_label():
    codecs = [codec_of(2), CategoryCodec.fit(Category(), [])]
    encoder, decoder = CategoryEncoder(codecs, setting_of(2)), CategoryDecoder(codecs, setting_of(2))
    nothing = rows_of([])
    assert encoder(torch.zeros(0, dtype=torch.long), nothing).shape == (0, WIDTH)
    belief = decoder(torch.zeros(0, WIDTH), nothing)
    assert belief.log_prob(belief.mode()).shape == belief.sample().shape == (0,)
    belief = decoder(torch.randn(1, WIDTH), rows_of([1]))
    assert codecs[1].decode(belief.mode()) == codecs[1].decode(belief.sample()) == [None]
    assert belief.log_prob(codecs[1].encode(["new"])).item() == 0


def test_labels_are_read_by_slot_and_those_never_met_as_something_learnt():
    codecs = [codec_of(3, open=True), codec_of(3, open=True)]
    encoder = CategoryEncoder(codecs, setting_of(2))
    x = encoder(torch.tensor([0, 1, -1, 0, -1]), rows_of([0, 0, 0, 1, 1]))
    assert len(x.unique(dim=0)) == 5
    encoder = CategoryEncoder(codecs, setting_of(2, CategoryConfig(unread=0.5), dropout=0.1))
    x = encoder(torch.zeros(100, dtype=torch.long), rows_of([0] * 100))
    (x * torch.randn(x.shape)).sum().backward()
    assert encoder.labels.table.grad[0].abs().sum() > 0  # of the first slot: a label never met
    assert encoder.labels.table.grad[1].abs().sum() == 0


# ---------------------------------------------------------------- ordered labels


def ordinal(labels: int = 5, width: int = WIDTH) -> CumulativeScores:
    return CumulativeScores([None, codec_of(labels).labels, codec_of(2).labels], width)


def test_ordered_labels_have_the_mass_between_their_cuts():
    scores = ordinal().double()
    h, slot = torch.randn(4, WIDTH, dtype=torch.float64), torch.tensor([1, 1, 2, 2])
    log_prob = scores(h, slot).double()
    torch.testing.assert_close(log_prob.exp().sum(1), torch.ones(4, dtype=torch.float64), atol=1e-6, rtol=0)
    assert (log_prob[2:, 2:] == -torch.inf).all()
    place, spread = scores.table[0] @ h[0], (scores.table[1] @ h[0]).exp()
    gaps = torch.nn.functional.softplus(scores.cuts[1:4]) + 1e-3
    cuts = torch.cat([scores.cuts[:1], scores.cuts[0] + gaps.cumsum(0)])
    below = torch.cat([torch.zeros(1), ((cuts - place) / spread).sigmoid(), torch.ones(1)]).double()
    torch.testing.assert_close(log_prob[0].exp(), below.diff(), atol=1e-6, rtol=1e-5)


def test_ordered_labels_begin_at_how_common_they_are():
    log_prob = ordinal()(torch.zeros(1, WIDTH), torch.tensor([1]))
    torch.testing.assert_close(log_prob[0].exp(), torch.tensor([1.5, 2.5, 3.5, 4.5, 5.5]) / 17.5)


def test_gradients_of_ordered_labels_are_right_however_far_out():
    scores = ordinal(width=2).double()
    for scale in (1, 300):
        h = (scale * torch.tensor([[1.0, 0.5], [-1.0, 0.2], [0.3, -1.0]])).double().requires_grad_()
        slot = torch.tensor([1, 1, 1])
        log_prob = scores(h, slot)
        assert log_prob.isfinite().all()
        gradients = torch.autograd.grad(log_prob.sum(), [h, *scores.parameters()])
        assert all(gradient.isfinite().all() for gradient in gradients)
    table, cuts = scores.table.detach().clone().requires_grad_(), scores.cuts.detach().clone().requires_grad_()

    def run(h, table, cuts):
        weights = {"table": table, "cuts": cuts}
        return torch.func.functional_call(scores, weights, (h, torch.tensor([1, 1]))).double()

    h = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (h, table, cuts), eps=1e-3, atol=1e-3)  # in single precision inside


def test_only_ordered_slots_are_believed_by_their_order():
    ordered = CategoryCodec.fit(Category(("low", "mid", "high"), closed=True, ordered=True), ["mid"])
    plain = codec_of(4, open=True)
    open_order = CategoryCodec.fit(Category(ordered=True), [1, 2, 3, 3])
    codecs = [plain, ordered, open_order]
    decoder = CategoryDecoder(codecs, setting_of(3, CategoryConfig(ordered="cumulative")))
    assert len(decoder.scores.table) == 4
    belief = decoder(torch.randn(5, WIDTH), rows_of([0, 1, 1, 2, 2]))
    totals = belief.probs.sum(1)
    unseen = torch.tensor([one.labels.unseen for one in codecs])[[0, 1, 1, 2, 2]]
    torch.testing.assert_close(totals, 1 - unseen)
    assert belief.log_prob(torch.tensor([3, 2, 0, 2, -1])).isfinite().all()
    softmax = CategoryDecoder(codecs, setting_of(3))
    assert softmax.cumulative is None
    assert len(softmax.scores.table) == 10


def test_ordered_labels_learn_where_a_row_stands():
    codec = CategoryCodec.fit(Category((1, 2, 3, 4), closed=True, ordered=True), [1, 2, 3, 4])
    decoder = CategoryDecoder([codec], setting_of(1, CategoryConfig(ordered="cumulative"), blocks=0))
    h, codes = torch.zeros(4, WIDTH), torch.arange(4)
    h[:, 0] = torch.tensor([-3.0, -1.0, 1.0, 3.0])
    optimizer = torch.optim.Adam(decoder.parameters(), lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        decoder(h, rows_of([0] * 4)).log_prob(codes).mean().neg().backward()
        optimizer.step()
    assert torch.equal(decoder(h, rows_of([0] * 4)).mode(), codes)


# ---------------------------------------------------------------- labels that are read by their text


def reading(codecs: list[CategoryCodec]) -> tuple[CategoryEncoder, CategoryDecoder, Reader]:
    reader = Reader(WIDTH)
    setting = setting_of(len(codecs), CategoryConfig(labels="text"), tokenizer=Characters(), reader=reader)
    return CategoryEncoder(codecs, setting), CategoryDecoder(codecs, setting), reader


def test_a_label_never_met_is_read_and_written_once_its_text_is_told():
    codec = CategoryCodec.fit(Category(), ["dark red", "blue", "blue"])
    encoder, decoder, _ = reading([codec, CategoryCodec.fit(learnt_leaf(Boolean()), [])])
    more = codec.extended(["light red", "blue"])
    assert more.labels.values == ("blue", "dark red", "light red")
    h = torch.randn(1, WIDTH)
    before = decoder(h, rows_of([0])).log_prob(codec.encode(["blue"]))
    as_other = encoder(codec.encode(["light red"]), rows_of([0]))
    for module in (encoder, decoder):
        module.replace_labels([more, CategoryCodec.fit(learnt_leaf(Boolean()), [])])
    x = encoder(more.encode(["light red", "dark red"]), rows_of([0, 0]))
    assert not torch.equal(x[:1], as_other)
    belief = decoder(h, rows_of([0]))
    assert belief.probs.shape == (1, 3)
    assert belief.log_prob(more.encode(["light red"])).isfinite()
    assert belief.log_prob(more.encode(["blue"])) < before  # it has one rival more
    scores = belief.logits[0]
    torch.testing.assert_close(scores[0] - scores[1], decoder(h, rows_of([0])).logits[0, :2].diff().neg()[0])


def test_labels_with_one_text_are_one_to_a_reader():
    codecs = [CategoryCodec.fit(Category(), ["x", "same"]), CategoryCodec.fit(Category(), ["same", "y", "z"])]
    encoder, _, reader = reading(codecs)
    same = torch.cat([codec.encode(["same"]) for codec in codecs])
    x = encoder(same, rows_of([0, 1]))
    torch.testing.assert_close(x[0], x[1])
    assert reader.asked == 1
    (x * torch.randn(x.shape[1])).sum().backward()  # a plain sum is constant where the output is normalised
    assert reader.table.weight.grad.abs().sum() > 0


def test_the_reader_stays_the_networks_own():
    encoder, decoder, _ = reading([codec_of(3)])
    names = {name for module in (encoder, decoder) for name, _ in module.named_parameters()}
    assert not [name for name in names if "reader" in name or "embedding" in name.lower()]


def test_a_new_label_is_likelier_where_its_text_is_like_the_one_that_is_meant():
    codec = CategoryCodec.fit(Category(), ["aaa", "zzz"] * 4)
    _encoder, decoder, reader = reading([codec])
    h = torch.randn(2, WIDTH)
    optimizer = torch.optim.Adam([*decoder.parameters(), *reader.parameters()], lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        decoder(h, rows_of([0, 0])).log_prob(codec.encode(["aaa", "zzz"])).sum().neg().backward()
        optimizer.step()
    more = codec.extended(["aa", "zz"])
    decoder.eval().replace_labels([more])
    with torch.no_grad():
        probs = decoder(h, rows_of([0, 0])).probs
    like_a, like_z = more.encode(["aa", "zz"])
    assert probs[0, like_a] > probs[0, like_z]
    assert probs[1, like_z] > probs[1, like_a]


def test_labels_learnt_by_heart_take_no_new_ones():
    codecs = [codec_of(3, open=True)]
    for module in (CategoryEncoder(codecs, setting_of(1)), CategoryDecoder(codecs, setting_of(1))):
        with pytest.raises(ValueError, match="expected labels that are read by their text"):
            module.replace_labels([codecs[0].extended(["new"])])


def test_text_labels_need_a_reader():
    with pytest.raises(ValueError, match="expected a text encoder"):
        CategoryEncoder([codec_of(3)], setting_of(1, CategoryConfig(labels="text")))
