"""Links: few targets as categories, many as pointers trained on samples and ranked completely."""

from __future__ import annotations

import json

import pytest
import torch
from leaves.standins import Characters, Reader
from tables import for_each

from kbdisk.entity import Link as LinkValue
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.category import CategoryBelief
from kbdisk.leaves.link import SAMPLING, LinkCodec, LinkConfig, LinkDecoder, LinkEncoder, PointerBelief
from kbdisk.schemas.kinds import Link

WIDTH = 16


def ids(many: int) -> list[str]:
    """Targets, the first ones more often."""
    return [f"e{i}" for i in range(many) for _ in range(1 + (i < 5))]


def decoder_of(values: list[list[str]], config: LinkConfig, names=None, reader=None):
    codecs = [LinkCodec.fit(Link(), own, config) for own in values]
    codecs = [codec.with_names(names) for codec in codecs] if names else codecs
    setting = Setting(WIDTH, [0] * len(codecs), config, tokenizer=Characters(), reader=reader)
    return codecs, LinkDecoder(codecs, setting), LinkEncoder(codecs, setting)


def rows_of(slots: list[int]) -> Rows:
    return Rows(torch.tensor(slots, dtype=torch.long), [len(slots)], torch.zeros(len(slots), WIDTH))


def test_links_come_back_as_links_whether_they_were_read_as_links_or_ids():
    codec = LinkCodec.fit(Link(), [LinkValue("fr"), "de", LinkValue("fr")])
    assert codec.decode(codec.encode(["de", LinkValue("fr"), "unheard"])) == [LinkValue("de"), LinkValue("fr"), None]
    assert LinkCodec.from_json(json.loads(json.dumps(codec.to_json()))) == codec
    named = codec.with_names({"fr": "France"})
    assert LinkCodec.from_json(json.loads(json.dumps(named.to_json()))) == named
    with pytest.raises(ValueError, match="expected a link to an entity, got 3"):
        codec.encode([3])


def test_a_told_list_of_targets_is_all_there_are():
    codec = LinkCodec.fit(Link(values=("fr", "de")), ["fr"], LinkConfig(few=1))
    assert not codec.many
    with pytest.raises(ValueError, match="expected one of fr, de, got 'it'"):
        codec.encode(["it"])


def test_few_targets_are_categories_and_many_are_pointed_at(monkeypatch):
    (_, _), decoder, _ = decoder_of([ids(10), ids(40)], LinkConfig(few=20))
    monkeypatch.setattr("kbdisk.leaves.link.MAX_DENSE_TARGETS", 39)
    belief = decoder.eval()(torch.randn(4, WIDTH), rows_of([0, 0, 1, 1]))
    assert isinstance(belief.pick(torch.tensor([1])), CategoryBelief)
    assert isinstance(belief.pick(torch.tensor([2])), PointerBelief)
    assert belief.ranks(torch.tensor([0, 9, 0, 39])).shape == (4,)
    assert belief.top(3)[0].shape == (4, 3)


def test_an_unheard_target_reads_as_one_and_is_possible():
    (codec,), decoder, encoder = decoder_of([ids(40)], LinkConfig(few=20))
    codes = codec.encode(["e1", "unheard", "unheard of"])
    x = encoder(codes, rows_of([0] * 3))
    torch.testing.assert_close(x[1], x[2])
    assert (x[0] - x[1]).abs().max() > 1e-3
    for mode in (decoder.train(), decoder.eval()):
        assert mode(torch.randn(3, WIDTH), rows_of([0] * 3)).log_prob(codes).isfinite().all()


@for_each("draw", SAMPLING)
def test_a_sample_of_everything_is_the_full_softmax_and_so_are_its_gradients(draw):
    (_codec,), decoder, _ = decoder_of([ids(40)], LinkConfig(few=20, negatives=10_000, draw=draw))
    assert (decoder.pointers.sampled == 1).all()
    h, codes = torch.randn(30, WIDTH), torch.randint(40, (30,))
    found = []
    for mode in (decoder.train(), decoder.eval()):
        decoder.zero_grad()
        log_prob = mode(h, rows_of([0] * 30)).log_prob(codes)
        log_prob.sum().backward()
        found.append([log_prob.detach(), *(weight.grad.clone() for weight in decoder.pointers.parameters())])
    for sampled, full in zip(*found, strict=True):
        torch.testing.assert_close(sampled, full)


@pytest.mark.slow
@for_each("draw", SAMPLING)
def test_what_a_sample_divides_by_is_right_on_average(draw):
    (_codec,), decoder, _ = decoder_of([ids(40)], LinkConfig(few=20, negatives=10, draw=draw))
    assert (decoder.pointers.sampled < 1).any()
    h, codes = torch.randn(1, WIDTH), torch.tensor([7])
    with torch.no_grad():
        decoder.pointers.bias.normal_(0, 1)
        full = decoder.eval()(h, rows_of([0])).log_prob(codes)
        belief = decoder.train()(h, rows_of([0]))
        ratios = torch.cat([(full - belief.log_prob(codes)).exp() for _ in range(1000)])  # sampled / full sum
    assert ratios.mean().item() == pytest.approx(1, abs=5 * ratios.std().item() / 1000**0.5)
    assert ratios.std() > 0.01


def test_samples_teach_the_ranks_that_the_full_softmax_would():
    truth = (2 * torch.randn(16, 40)).softmax(1)  # which target, by which of 16 sources
    h, rows = 4 * torch.eye(16).repeat(32, 1), rows_of([0] * 512)
    codec = LinkCodec.fit(Link(), [f"e{i}" for i in range(40)], LinkConfig(few=20))
    learnt = {}
    for negatives in (10, 10_000):
        torch.manual_seed(1)
        decoder = LinkDecoder([codec], Setting(16, [0], LinkConfig(few=20, negatives=negatives), blocks=0))
        optimizer = torch.optim.Adam(decoder.parameters(), lr=0.03)
        for step in range(150):
            optimizer.param_groups[0]["lr"] = 0.03 * (1 - step / 150)
            optimizer.zero_grad()
            codes = torch.multinomial(truth, 32, replacement=True).T.flatten()  # as h repeats the sources
            decoder(h, rows).log_prob(codes).mean().neg().backward()
            optimizer.step()
        learnt[negatives] = decoder.eval()(h[:16], rows_of([0] * 16))
    likeliest = truth.topk(5, 1).indices
    sampled, full = (
        torch.stack([belief.ranks(codes) for codes in likeliest.unbind(1)]).mean() for belief in learnt.values()
    )
    assert full < 4.5  # 3 is the least
    assert sampled < full + 1
    probs = [belief.probs.log().flatten() for belief in learnt.values()]
    assert torch.stack(probs).corrcoef()[0, 1] > 0.8


def test_ranks_and_the_best_are_those_of_all_targets():
    (codec,), decoder, _ = decoder_of([ids(40)], LinkConfig(few=20))
    belief = decoder.eval()(torch.randn(5, WIDTH), rows_of([0] * 5))
    codes, probs = belief.top(40)
    assert torch.equal(belief.ranks(codes[:, 3]), torch.full((5,), 4.0))
    assert torch.equal(belief.mode(), codes[:, 0])
    torch.testing.assert_close(probs.sum(1), torch.full((5,), 1 - codec.targets.unseen))
    torch.testing.assert_close(probs[:, 5].log(), belief.log_prob(codes[:, 5]))
    assert torch.equal(belief.ranks(torch.full((5,), -1)), torch.full((5,), 41.0))


def test_scores_that_are_kept_are_the_belief_that_pointers_have(monkeypatch):
    _, decoder, _ = decoder_of([ids(40)], LinkConfig(few=20))
    h, codes = torch.randn(5, WIDTH), torch.tensor([0, 3, 39, -1, 7])
    kept = decoder.eval()(h, rows_of([0] * 5))
    monkeypatch.setattr("kbdisk.leaves.link.MAX_DENSE_TARGETS", 39)
    pointers = decoder(h, rows_of([0] * 5))
    assert isinstance(kept, CategoryBelief)
    assert isinstance(pointers, PointerBelief)
    for of_kept, of_pointers in (
        (kept.log_prob(codes), pointers.log_prob(codes)),
        (kept.probs, pointers.probs),
        (kept.entropy(), pointers.entropy()),
        (kept.ranks(codes), pointers.ranks(codes)),
        (kept.top(3)[1], pointers.top(3)[1]),
    ):
        torch.testing.assert_close(of_kept, of_pointers)


def test_ties_are_ranked_in_their_middle():
    (_codec,), decoder, _ = decoder_of([[f"e{i}" for i in range(41)]], LinkConfig(few=20))
    belief = decoder.eval()(torch.zeros(1, WIDTH), rows_of([0]))
    assert belief.ranks(torch.tensor([0])).item() == 21


def test_beliefs_are_the_same_however_few_rows_there_is_room_for(monkeypatch):
    _, decoder, _ = decoder_of([ids(40)], LinkConfig(few=20))
    h, codes = torch.randn(7, WIDTH), torch.randint(40, (7,))
    monkeypatch.setattr("kbdisk.leaves.link.MAX_DENSE_TARGETS", 20)
    belief = decoder.eval()(h, rows_of([0] * 7))
    whole = belief.log_prob(codes), belief.entropy(), belief.ranks(codes), belief.top(3)[0]
    monkeypatch.setattr("kbdisk.leaves.link.MAX_SCORES", 80)
    parts = belief.log_prob(codes), belief.entropy(), belief.ranks(codes), belief.top(3)[0]
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other)


def test_entities_are_told_by_their_names_where_they_have_some():
    reader = Reader(WIDTH)
    names = {f"e{i}": "same name" if i in (30, 31) else f"name {i}" for i in range(38)}
    (codec,), decoder, encoder = decoder_of([ids(40)], LinkConfig(few=20, unread=0), names, reader)
    assert not any("reader" in name for name in [*encoder.state_dict(), *decoder.state_dict()])
    encoder.entities.table.data.zero_()
    x = encoder(codec.encode(["e30", "e31", "e3", "e38"]), rows_of([0] * 4))
    torch.testing.assert_close(x[0], x[1])
    assert (x[0] - x[2]).abs().max() > 1e-3
    decoder.train()(torch.randn(4, WIDTH), rows_of([0] * 4)).log_prob(torch.tensor([1, 2, 3, 4])).sum().backward()
    assert reader.table.weight.grad.abs().sum() > 0


def test_names_are_read_once_as_long_as_nothing_learns():
    reader = Reader(WIDTH)
    _, decoder, _ = decoder_of([ids(40)], LinkConfig(few=20), {f"e{i}": f"name {i}" for i in range(40)}, reader)
    decoder.eval()
    with torch.no_grad():
        first = decoder(torch.ones(1, WIDTH), rows_of([0])).log_prob(torch.tensor([3]))
        decoder(torch.ones(2, WIDTH), rows_of([0, 0])).mode()
        assert reader.asked == 40
        reader.table.weight.mul_(3)
        assert not torch.equal(decoder(torch.ones(1, WIDTH), rows_of([0])).log_prob(torch.tensor([3])), first)


@for_each("slots", [1, 8])
def test_a_training_step_reads_each_name_once_however_many_properties_lead_to_it(slots):
    reader = Reader(WIDTH)
    names = {f"e{i}": f"name {i}" for i in range(400)}
    config = LinkConfig(few=20, negatives=40, draw="uniform")
    _, decoder, _ = decoder_of([[f"e{i}" for i in range(400)]] * slots, config, names, reader)
    rows = rows_of([slot for slot in range(slots) for _ in range(2)])
    decoder.train()(torch.randn(2 * slots, WIDTH), rows).log_prob(torch.arange(2 * slots))
    assert 0 < reader.asked <= 80 + 2 * slots  # 40 are drawn on average, with a standard deviation of 6


def test_several_properties_have_the_likelihood_that_each_has_alone():
    _, decoder, _ = decoder_of([ids(40), ids(30)], LinkConfig(few=20, negatives=10_000))
    h, codes = torch.randn(5, WIDTH), torch.tensor([3, 39, -1, 29, 0])
    rows = rows_of([0, 0, 0, 1, 1])
    sampled = decoder.train()(h, rows).log_prob(codes)
    torch.testing.assert_close(sampled, decoder.eval()(h, rows).log_prob(codes))


def test_one_entity_is_one_vector_whatever_property_leads_to_it():
    codecs, _, encoder = decoder_of([ids(40), ids(30)], LinkConfig(few=20, unread=0))
    codes = torch.cat([codecs[0].encode(["e7"]), codecs[1].encode(["e7"])])
    x = encoder(codes, rows_of([0, 1]))
    torch.testing.assert_close(x[0], x[1])
    assert encoder.entities.table.shape == (40, WIDTH)


def test_of_many_entities_those_with_the_fewest_links_share_vectors(monkeypatch):
    monkeypatch.setattr("kbdisk.leaves.link.MAX_OWN_VECTORS", 6)
    monkeypatch.setattr("kbdisk.leaves.link.SHARED_VECTORS", 3)
    codecs, decoder, encoder = decoder_of([ids(40), ["e39"] * 9], LinkConfig(few=20, unread=0))
    assert encoder.entities.table.shape == decoder.pointers.entities.table.shape == (9, WIDTH)
    rows = encoder.entities.row[encoder.entities.entity[codecs[0].encode([f"e{i}" for i in range(40)])]]
    frequent = [*range(5), 39]  # linked to more than once
    own = rows[frequent]
    assert sorted(own.tolist()) == list(range(6))
    shared = rows[[i for i in range(40) if i not in frequent]]
    assert torch.bincount(shared, minlength=9).tolist() == [0] * 6 + [12, 11, 11]
    h, codes = torch.randn(40, WIDTH), torch.arange(40)
    log_prob = decoder.train()(h, rows_of([0] * 40)).log_prob(codes)
    log_prob.sum().backward()
    assert (decoder.pointers.entities.table.grad != 0).any(1).all()
    belief = decoder.eval()(h, rows_of([0] * 40))
    torch.testing.assert_close(belief.log_prob(codes).exp().sum(), belief.probs.diagonal().sum())
    of_same_vector = belief.probs[:, decoder.pointers.entities.row == 8]
    assert of_same_vector.shape == (40, 11)
    torch.testing.assert_close(of_same_vector, of_same_vector[:, :1].expand_as(of_same_vector))
    stored = [LinkCodec.from_json(json.loads(json.dumps(codec.to_json()))) for codec in codecs]
    again = LinkEncoder(stored, Setting(WIDTH, [0] * 2, LinkConfig(few=20)))
    assert torch.equal(again.entities.row, encoder.entities.row)


def test_few_entities_have_vectors_of_their_own_in_the_order_in_which_they_came():
    _, _, encoder = decoder_of([ids(40), ids(30)], LinkConfig(few=20))
    assert torch.equal(encoder.entities.row, torch.arange(40))
