"""Packed texts: what is made of one depends on itself alone, and is what a padded transformer would make of it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from kbdisk.leaves.text import Reader, TextConfig, Writer
from kbdisk.leaves.text.transformer import MAX_EXACT, PADDED_LENGTHS, TokenEmbedding, pack
from kbdisk.leaves.tokenizer import BOS

LENGTHS = [3, 0, 17, 1, 40, 3, 18, 33, 16]


def ids_of(lengths: list[int], width: int, vocabulary: int = 50) -> torch.Tensor:
    ids = torch.randint(3, vocabulary, (len(lengths), width), generator=torch.Generator().manual_seed(1))
    return ids.masked_fill(torch.arange(width) >= torch.tensor(lengths)[:, None], 0)


@pytest.fixture
def reader() -> Reader:
    return Reader(50, 16, TextConfig(layers=2, heads=2, blank=0))


@pytest.fixture
def writer() -> Writer:
    return Writer(50, 16, TextConfig(layers=2, heads=2, blank=0))


@given(st.lists(st.integers(0, 200), max_size=12))
def test_every_token_is_packed_once_and_hardly_any_padding_is(lengths):
    ids = ids_of(lengths, 200)
    packing = pack(torch.tensor(lengths, dtype=torch.long))
    flat = packing.take(ids)
    room = [int((packing.row == text).sum()) for text in range(len(lengths))]
    assert all(length <= taken <= max(length, 1.125 * length) for length, taken in zip(lengths, room, strict=True))
    for text, length in enumerate(lengths):
        assert flat[packing.row == text][:length].equal(ids[text, :length])
    assert sum(texts * length for texts, length in packing.buckets) == len(flat)
    real = torch.ones(len(flat), dtype=torch.bool) if packing.is_token is None else packing.is_token
    assert real.sum() == sum(lengths)


def test_short_texts_are_not_padded_at_all():
    assert pack(torch.arange(MAX_EXACT + 1)).is_token is None
    assert PADDED_LENGTHS[: MAX_EXACT + 3].tolist() == [*range(17), 18, 20]


def test_attention_over_packed_texts_is_that_over_each_alone():
    packing = pack(torch.tensor(LENGTHS))
    query, key, value = torch.randn(3, len(packing.row), 8)
    for causal in (False, True):
        together = packing.attend(query, key, value, 2, 0.3, causal)
        for text, length in enumerate(LENGTHS):
            own = (packing.row == text).nonzero()[:length, 0]
            q, k, v = (part[own].view(length, 2, 4).transpose(0, 1) for part in (query, key, value))
            scores = q @ k.transpose(1, 2) * 0.3
            if causal:
                scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
            alone = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
            torch.testing.assert_close(together[own], alone, atol=1e-6, rtol=1e-5)


def test_what_is_read_depends_neither_on_padding_nor_on_the_texts_beside_it(reader):
    ids = ids_of(LENGTHS, 40)
    together = reader(ids)
    wider = reader(F.pad(ids, (0, 100)))
    torch.testing.assert_close(wider, together, atol=1e-5, rtol=0)
    for text, length in enumerate(LENGTHS):
        torch.testing.assert_close(reader(ids[text : text + 1, :length])[0], together[text], atol=1e-5, rtol=0)


def test_what_is_scored_depends_neither_on_padding_nor_on_the_texts_beside_it(writer):
    ids, h = ids_of(LENGTHS, 40), torch.randn(len(LENGTHS), 16)
    together = writer(h, ids)
    torch.testing.assert_close(writer(h, F.pad(ids, (0, 60))), together, atol=1e-4, rtol=1e-6)
    for text, length in enumerate(LENGTHS):
        alone = writer(h[text : text + 1], ids[text : text + 1, :length])[0]
        torch.testing.assert_close(alone, together[text], atol=1e-4, rtol=1e-6)


def test_the_order_of_tokens_matters_and_that_of_texts_does_not(reader):
    ids = ids_of([5, 7, 5, 20], 20)
    read = reader(ids)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(reader(ids[order]), read[order], atol=1e-5, rtol=0)
    swapped = ids.clone()
    swapped[0, :5] = ids[0, :5].flip(0)
    assert (reader(swapped)[0] - read[0]).abs().max() > 1e-3


def test_the_first_token_is_read_as_if_all_of_the_last_layer_were_worked_out(reader):
    whole = F.pad(ids_of(LENGTHS, 40), (1, 0), value=BOS)
    packing = pack((whole != 0).sum(1))
    x = reader.tokens(packing.take(whole), packing)
    all_of_it = reader.transformer(x, packing)[packing.first]
    torch.testing.assert_close(reader.transformer(x, packing, first=True), all_of_it, atol=1e-5, rtol=1e-5)


def test_empty_texts_and_no_texts_are_read_and_scored(reader, writer):
    assert reader(torch.zeros(2, 0, dtype=torch.long)).isfinite().all()
    assert reader(torch.zeros(2, 4, dtype=torch.long)).isfinite().all()
    assert reader(torch.zeros(0, 4, dtype=torch.long)).shape == (0, 16)
    assert writer(torch.randn(2, 16), torch.zeros(2, 4, dtype=torch.long)).tolist() == [0, 0]
    assert writer(torch.randn(0, 16), torch.zeros(0, 4, dtype=torch.long)).shape == (0,)


def test_gradients_are_those_of_each_text_alone(reader):
    ids = ids_of([5, 17, 9], 17)
    read = reader(ids)
    weights = torch.randn(read.shape)
    (read * weights).sum().backward()
    together = [weight.grad.clone() for weight in reader.parameters()]
    reader.zero_grad()
    for text, weight in zip(ids, weights, strict=True):
        (reader(text[None]) * weight).sum().backward()
    for one, weight in zip(together, reader.parameters(), strict=True):
        torch.testing.assert_close(one, weight.grad, atol=1e-4, rtol=1e-4)


def test_tokens_are_blanked_while_training_and_only_then():
    tokens, packing = TokenEmbedding(50, 8, 0.5), pack(torch.full((40,), 10))
    given = torch.full((400,), 7)
    places = tokens.places(10)[packing.place]
    blank = (tokens(given, packing) == places).all(1).float().mean()
    assert abs(blank - 0.5) < 4 * 0.5 / 400**0.5
    assert not (tokens.eval()(given, packing) == places).all(1).any()


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="expected a width that the 3 heads of text divide, got 16"):
        Reader(50, 16, TextConfig(heads=3))
