"""Encoder and decoder of numbers, from end to end with every option; and what they learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tables import for_each
from torch import Tensor

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.number import NumberCodec, NumberConfig, NumberDecoder, NumberEncoder
from kbdisk.leaves.number.codec import BELIEF_NAMES, EMBEDDING_NAMES
from kbdisk.leaves.number.encoder import squeezed
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.schemas.kinds import Number

RANDOM = np.random.default_rng(0)
WIDTH = 16
DATA = [
    (Number(minimum=0), [*RANDOM.lognormal(1, 1, size=200).round(2).tolist(), *[0.0] * 30]),
    (Number(integer=True, minimum=1, maximum=12), RANDOM.integers(1, 13, size=200).tolist()),
    (Number(), [7.5] * 12),
    (Number(), []),
]
SLOTS = [0, 0, 0, 1, 1, 2, 2, 3]
SMALL = NumberConfig(components=4, bins=8, frequencies=4, knots=16)


def setting(config: NumberConfig = SMALL, groups: tuple[int, ...] = (0, 1, 1, 2)) -> Setting:
    return Setting(WIDTH, groups, config)


def parts(setting: Setting) -> tuple[list[NumberCodec], NumberEncoder, NumberDecoder]:
    codecs = [NumberCodec.fit(leaf, values, setting.config, None) for leaf, values in DATA]
    return codecs, NumberEncoder(codecs, setting), NumberDecoder(codecs, setting)


def rows(slots: list[int], groups: tuple[int, ...] = (0, 1, 1, 2)) -> Rows:
    counts = [sum(groups[slot] == group for slot in slots) for group in range(max(groups) + 1)]
    return Rows(torch.tensor(slots, dtype=torch.long), counts, torch.randn(len(slots), WIDTH))


def encoded(codecs: list[NumberCodec], slots: list[int]) -> Tensor:
    """Values of each slot: its first, its second, ..."""
    taken = [0] * len(DATA)
    codes = [torch.zeros(0, 4)]
    for slot in slots:
        values = DATA[slot][1] or [3.0]
        codes.append(codecs[slot].encode([values[taken[slot]]]))
        taken[slot] += 1
    return torch.cat(codes)


def test_numbers_have_a_row_in_the_table_of_kinds():
    assert LEARNT_KINDS["number"] == ("number", NumberCodec, NumberEncoder, NumberDecoder, NumberConfig, None)


CHOICES = [{}, {"shared": True}, {"atoms": 0}, {"code": "log"}, {"code": "minmax"}, {"code": "standard"}]


@pytest.mark.slow
@for_each("belief", BELIEF_NAMES)
@for_each(("choices", "slots"), [*((one, SLOTS) for one in CHOICES), ({}, [1]), ({}, []), ({"shared": True}, [])])
def test_every_option_works_from_end_to_end(belief, choices, slots):
    embedding = EMBEDDING_NAMES[
        (BELIEF_NAMES.index(belief) + len(slots)) % len(EMBEDDING_NAMES)
    ]  # each with each in turn
    codecs, encoder, decoder = parts(setting(replace(SMALL, belief=belief, embedding=embedding, **choices)))
    codes, own = encoded(codecs, slots), rows(slots)
    believed = decoder(encoder(codes, own), own)
    log_prob = believed.log_prob(codes)
    log_prob.sum().backward()
    assert log_prob.shape == (len(slots),)
    assert torch.isfinite(log_prob).all()
    assert (log_prob <= 0).all()
    assert all(
        torch.isfinite(each.grad).all()
        for each in [*encoder.parameters(), *decoder.parameters()]
        if each.grad is not None
    )
    assert believed.sample().shape == believed.mode().shape == codes.shape
    for figures in (believed.entropy(), believed.mean(), believed.median(), *believed.interval(0.9)):
        assert figures.shape == (len(slots),)
        assert torch.isfinite(figures).all()
    for slot, code in zip(slots, believed.sample(0.5), strict=True):
        DATA[slot][0].check(codecs[slot].decode(code[None])[0])


def test_all_parameters_learn():
    for belief, embedding in zip(BELIEF_NAMES, EMBEDDING_NAMES, strict=True):
        _, encoder, decoder = parts(setting(replace(SMALL, belief=belief, embedding=embedding)))
        own, codes = rows(SLOTS), encoded(parts(setting())[0], SLOTS)
        belief = decoder(encoder(codes, own), own)
        (belief.log_prob(codes) + belief.auxiliary_loss(codes)).sum().backward()
        assert all(each.grad is not None for each in [*encoder.parameters(), *decoder.parameters()])


@for_each("belief", BELIEF_NAMES)
def test_bf16_autocast_leaves_beliefs_in_float32(belief):
    codecs, encoder, decoder = parts(setting(replace(SMALL, belief=belief)))
    codes, own = encoded(codecs, SLOTS), rows(SLOTS)
    exact = decoder(encoder(codes, own), own).log_prob(codes)
    with torch.autocast("cpu", torch.bfloat16):
        believed = decoder(encoder(codes, own), own)
        log_prob = believed.log_prob(codes)
        log_prob.sum().backward()
        drawn = [believed.sample(), believed.mode(), believed.entropy()]
        figures = [believed.mean(), believed.median()]
    assert log_prob.dtype == torch.float32
    assert all(each.dtype == torch.float32 for each in drawn)
    assert all(each.dtype == torch.float64 for each in figures)
    assert torch.isfinite(log_prob).all()
    assert (log_prob - exact).abs().max() < 1


def test_rows_do_not_mind_each_other():
    codecs, encoder, decoder = parts(setting())
    codes, own = encoded(codecs, SLOTS), rows(SLOTS)
    whole = decoder(encoder(codes, own), own)
    some = [0, 4, 6]
    fewer = Rows(own.slot[some], [1, 2, 0], own.path[some])
    torch.testing.assert_close(encoder(codes[some], fewer), encoder(codes, own)[some])
    part = decoder(encoder(codes[some], fewer), fewer)
    torch.testing.assert_close(part.log_prob(codes[some]), whole.log_prob(codes)[some])
    torch.testing.assert_close(part.mean(), whole.mean()[some], rtol=1e-5, atol=1e-5)


def test_the_path_tells_tied_properties_apart():
    config, groups = SMALL, (0, 0, 0, 0)
    codecs, encoder, decoder = parts(setting(config, groups))
    codes = codecs[0].encode([1.0]).repeat(2, 1)
    own = rows([0, 0], groups)
    first, second = encoder(codes, own)
    assert not torch.allclose(first, second)
    first, second = decoder(torch.zeros(2, WIDTH), own).mean()
    assert first != second


def test_one_embedding_for_all_or_one_for_each_group():
    def frequencies(shared: bool) -> int:
        return parts(setting(replace(SMALL, shared=shared)))[1].embedding.frequency.shape[0]

    assert (frequencies(True), frequencies(False)) == (1, 3)


def test_dice_tells_how_far_numbers_are_from_the_least():
    _, encoder, _ = parts(setting(replace(SMALL, embedding="dice")))
    own = rows([0] * 7)
    z = torch.tensor([-30.0, -5.0, -1.0, 0.0, 1.0, 5.0, 30.0])
    vectors = encoder.embedding(z, own)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(7))
    assert ((vectors @ vectors[0]).diff() < 0).all()


def test_dice_has_no_value_beyond_which_all_are_one():
    shares = torch.tensor([-1e3, -10.0, -1e-3, 0.0, 0.5, 1.0, 1.001, 10.0, 1e3])
    places = squeezed(shares)
    assert (places.diff() > 0).all()
    assert ((places > 0) & (places < 1)).all()


@for_each("embedding", EMBEDDING_NAMES)
def test_the_farthest_numbers_that_there_are_can_be_read(embedding):
    codecs, encoder, _ = parts(setting(replace(SMALL, embedding=embedding)))
    codes = codecs[2].encode([-1e300, -1e9, 1e9, 1e300])
    vectors = encoder(codes, rows([2] * 4))
    vectors.sum().backward()
    assert vectors.isfinite().all()
    assert all(one.grad.isfinite().all() for one in encoder.parameters() if one.grad is not None)


def test_an_atom_has_an_embedding_of_its_own():
    codecs, encoder, _ = parts(setting())
    code = codecs[0].encode([0.0])
    own = rows([0])
    assert code[0, 3] == 0
    assert not torch.allclose(encoder(code, own), encoder(torch.cat([code[:, :3], -torch.ones(1, 1)], dim=1), own))


def trained(decoder: NumberDecoder, codes: Tensor, own: Rows, steps: int) -> list[float]:
    """The log probability at each step of training on the same rows."""
    optimizer = torch.optim.Adam(decoder.parameters(), lr=0.03)
    h, seen = torch.zeros(len(codes), WIDTH), []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.03 * (1 - step / steps)
        optimizer.zero_grad()
        log_prob = decoder(h, own).log_prob(codes)
        (-log_prob.mean()).backward()
        assert all(torch.isfinite(each.grad).all() for each in decoder.parameters() if each.grad is not None)
        optimizer.step()
        seen.append(log_prob.mean().item())
    return seen


@pytest.mark.slow
@for_each(
    ("belief", "atoms", "value"), [("mixture", 0, 5), ("mixture", 8, 0.125), ("binned", 0, 0.125), ("binned", 8, 5)]
)
def test_one_value_repeated_is_never_worth_more_than_certainty(belief, atoms, value):
    config = replace(SMALL, belief=belief, atoms=atoms)
    codec = NumberCodec.fit(Number(), [value] * 50, config, None)
    decoder = NumberDecoder([codec], setting(config, (0,)))
    seen = trained(
        decoder, codec.encode([value] * 5), Rows(torch.zeros(5, dtype=torch.long), [5], torch.zeros(5, WIDTH)), 100
    )
    assert max(seen) <= 0
    assert seen[-1] > -0.1


@for_each("belief", ["mixture", "binned"])
def test_what_is_learnt_is_the_data(belief):
    values = np.concatenate([RANDOM.normal(-4, 1, size=300), RANDOM.normal(4, 0.5, size=500), [0.0] * 200]).round(2)
    config = NumberConfig(belief=belief, components=8, bins=32)
    codec = NumberCodec.fit(Number(), values.tolist(), config, None)
    decoder = NumberDecoder([codec], setting(config, (0,)))
    own = Rows(torch.zeros(1000, dtype=torch.long), [1000], torch.zeros(1000, WIDTH))
    trained(decoder, codec.encode(values.tolist()), own, 60)
    with torch.no_grad():
        learnt = decoder(torch.zeros(1000, WIDTH), own)
        few = learnt.pick(torch.arange(1))
        assert few.mean().item() == pytest.approx(values.mean(), abs=0.25)
        shares = few.cdf(torch.tensor([[-4.0, -1.0, 0.0, 2.0, 4.0]]))[0].tolist()
        assert shares == pytest.approx([0.15, 0.3, 0.5, 0.5, 0.75], abs=0.06)
        drawn = np.array(codec.decode(learnt.sample()))
        assert (drawn == 0).mean() == pytest.approx(0.2, abs=0.06)


def test_a_single_gaussian_of_unit_variance_is_the_squared_error():
    config = replace(SMALL, belief="mse", atoms=0, code="standard")
    values = RANDOM.normal(size=400).tolist()
    codec = NumberCodec.fit(Number(), values, config, None)
    decoder = NumberDecoder([codec], setting(config, (0,)))
    own = Rows(torch.zeros(20, dtype=torch.long), [20], torch.randn(20, WIDTH))
    codes = codec.encode(values[:20])
    believed = decoder(torch.randn(20, WIDTH), own)
    surplus = believed.log_prob(codes) + (codes[:, 0] - believed.density.mean[:, 0]).square() / 2
    assert surplus.tolist() == pytest.approx([surplus[0].item()] * 20, abs=1e-3)
