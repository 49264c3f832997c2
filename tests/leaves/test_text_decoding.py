"""Said, drawn, searched: what comes out is what a list of all texts and their probabilities would say."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from tables import for_each
from torch.nn import functional as F

from kbdisk.leaves.text import TextBelief, TextConfig, Writer
from kbdisk.leaves.text.decoder import TargetLogProb
from kbdisk.leaves.tokenizer import EOS, FIRST_BYTE, Tokenizer

V, L, D = 6, 4, 8  # tokens: the end, and 4 and 5; texts of 4 tokens at most
ALL = [
    [*text, *([EOS] if len(text) < L else [])]
    for length in range(L + 1)
    for text in product((FIRST_BYTE, FIRST_BYTE + 1), repeat=length)
]
TEXTS = torch.tensor([[*text, *[0] * (L - len(text))] for text in ALL])  # (31, L)


def belief(n: int = 1, **config) -> TextBelief:
    writer = Writer(V, D, TextConfig(heads=2)).eval()
    with torch.no_grad():
        writer.scores.weight.mul_(2)
    return TextBelief(writer, torch.randn(n, D), TextConfig(most=L, **config), Tokenizer())


def following(n: int = 1, **config) -> TextBelief:
    """A belief where three texts may be followed, one of them by none of its tokens, one of them cut."""
    codes = TEXTS[torch.randint(len(TEXTS), (n, 3))]
    codes[:, 0], codes[:, 1] = TEXTS[0], TEXTS[-1]
    return belief(n, **config).interpolated(codes, torch.rand(n, 1, 3, dtype=torch.float64) * 0.3)


either = for_each("belief", [belief, following])


def probabilities(one: TextBelief) -> torch.Tensor:
    """(n, 31) of all texts."""
    n = len(one.h)
    spread = one.pick(torch.arange(n).repeat_interleave(len(TEXTS)))
    return spread.log_prob(TEXTS.repeat(n, 1)).view(n, -1).detach()


@either
def test_probabilities_of_all_texts_add_up_to_one(belief):
    torch.testing.assert_close(probabilities(belief(3)).exp().sum(1), torch.ones(3))


@either
def test_beams_find_the_likeliest_texts_of_all(belief):
    one = belief(5)
    best, order = probabilities(one).sort(descending=True)
    codes, log_prob = one.beam_search(len(TEXTS))
    torch.testing.assert_close(log_prob, best, atol=1e-5, rtol=1e-5)
    assert codes.equal(TEXTS[order])


def test_more_beams_than_there_are_texts_have_no_probability():
    _, log_prob = belief(2).beam_search(40)
    assert (log_prob > -torch.inf).sum(1).tolist() == [31, 31]
    torch.testing.assert_close(log_prob.exp().sum(1), torch.ones(2))


@either
def test_few_beams_find_texts_with_their_own_probabilities_best_first(belief):
    one = belief(6)
    for k in (1, 2, 3, 5):
        codes, log_prob = one.beam_search(k)
        assert (log_prob.diff(dim=1) <= 0).all()
        for place in range(k):
            torch.testing.assert_close(one.log_prob(codes[:, place]), log_prob[:, place], atol=1e-5, rtol=1e-5)
    assert all(len({tuple(text) for text in row}) == 5 for row in codes.tolist())


@either
def test_greedy_is_a_beam_of_one(belief):
    one = belief(8)
    codes, log_prob = one.beam_search(1)
    said = one.greedy()
    assert codes[:, 0].equal(said.codes)
    torch.testing.assert_close(log_prob[:, 0], said.log_prob)


@either
def test_each_token_of_greedy_is_the_likeliest_after_those_before(belief):
    one = belief(8)
    total = probabilities(one).exp()
    for row, text in enumerate(one.greedy().codes.tolist()):
        for length, token in enumerate(text):
            if token == 0:
                break
            same = (TEXTS[:, :length] == torch.tensor(text[:length])).all(1)
            mass = [total[row, same & (TEXTS[:, length] == other)].sum().item() for other in range(V)]
            assert mass.index(max(mass)) == token


def test_draws_of_a_text_depend_on_no_other_rows(monkeypatch):
    some = belief(7)
    whole = some.samples(5)
    assert len(whole) == 7
    assert {len(drawn) for drawn in whole} == {5}
    assert len({text for drawn in whole for text in drawn}) > 5
    assert [some.pick(torch.tensor([row])).samples(5)[0] for row in range(7)] == whole
    monkeypatch.setattr("kbdisk.leaves.text.decoder.MAX_TEXTS", 10)  # two rows at a time
    assert some.samples(5) == whole


def test_the_mode_is_what_was_chosen_greedy_or_the_best_of_the_beams():
    torch.manual_seed(3)
    one = belief(30, decoding="beam", beams=31)
    assert one.mode().equal(TEXTS[probabilities(one).argmax(1)])
    greedy = TextBelief(one.writer, one.h, TextConfig(most=L, decoding="greedy"), one.tokenizer)
    assert greedy.mode().equal(one.greedy().codes)
    assert not greedy.mode().equal(one.mode())


@either
def test_the_search_for_the_best_stops_early_with_the_same_result(belief):
    one = belief(20)
    assert one.beam_search(4, best=1)[0][:, 0].equal(one.beam_search(4)[0][:, 0])


@pytest.mark.slow
@either
@for_each("temperature", [1.0, 0.5])
def test_draws_are_as_frequent_as_they_are_likely(temperature, belief):
    one, n = belief(1), 20_000
    many = one.pick(torch.zeros(n, dtype=torch.long))
    said = many.draw(temperature, torch.Generator().manual_seed(0))
    torch.testing.assert_close(said.log_prob, many.log_prob(said.codes), atol=1e-5, rtol=1e-5)
    found = {tuple(text): count for text, count in zip(*counted(said.codes), strict=True)}
    for text, expected in zip(TEXTS.tolist(), tempered(one, temperature), strict=True):
        spread = (expected * (1 - expected) / n) ** 0.5
        assert abs(found.get(tuple(text), 0) / n - expected) < 4.5 * spread + 1 / n


def counted(codes: torch.Tensor) -> tuple[list[list[int]], list[int]]:
    texts, counts = codes.unique(dim=0, return_counts=True)
    return texts.tolist(), counts.tolist()


def tempered(one: TextBelief, temperature: float) -> list[float]:
    """How likely each text is where each token is drawn at a temperature."""
    total = probabilities(one)[0].double().exp()
    likely = []
    for text in TEXTS:
        p = 1.0
        for length in range(int((text != 0).sum())):
            same = (TEXTS[:, :length] == text[:length]).all(1)
            mass = torch.stack([total[same & (TEXTS[:, length] == token)].sum() for token in (EOS, 4, 5)])
            mass = mass ** (1 / temperature)
            p *= float(mass[text[length] - EOS] / mass.sum())
        likely.append(p)
    return likely


def test_the_same_generator_draws_the_same_texts_and_the_config_warms_them():
    one = belief(10)
    draws = [one.sample(generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert draws[0].equal(draws[1])
    assert not draws[0].equal(draws[2])
    cold = TextBelief(one.writer, one.h, TextConfig(most=L, temperature=1e-3), one.tokenizer)
    assert cold.sample().equal(one.greedy().codes)


def test_the_entropy_that_draws_tell_is_that_of_all_texts():
    one = belief(3, draws=2000)
    log_p = probabilities(one)
    torch.testing.assert_close(one.entropy(), -(log_p.exp() * log_p).sum(1), rtol=0.02, atol=0)
    assert one.entropy().equal(one.entropy())


def test_asking_for_the_entropy_leaves_the_common_generator_as_it_was():
    one = belief(2)
    before = torch.get_rng_state()
    one.entropy()
    assert torch.get_rng_state().equal(before)


def test_spellings_of_one_text_are_added_up():
    one = belief(3)
    words = Tokenizer()
    words._bytes = [b"", b"", b"", b"", b"a", b"aa"]
    one = TextBelief(one.writer, one.h, one.config, words)
    for found, row in zip(one.beam(31), probabilities(one).exp().tolist(), strict=True):
        expected: dict[str, float] = {}
        for text, p in zip(words.decode(TEXTS), row, strict=True):
            expected[text] = expected.get(text, 0) + p
        assert found == sorted(found, key=lambda pair: -pair[1])
        assert {text: pytest.approx(math.exp(p), rel=1e-4) for text, p in found} == expected


def test_a_text_ends_no_sooner_than_it_may():
    one = belief(200)
    least = TextBelief(one.writer, one.h, one.config, one.tokenizer, torch.tensor([0, 1, 2, 3]).repeat(50))
    assert (one.sample()[3::4] == EOS)[:, :3].any()
    for codes in (least.sample(), least.greedy().codes, least.mode(), least.beam_search(2)[0][:, 1]):
        lengths = (codes > EOS).sum(1).view(-1, 4)
        assert (lengths >= torch.tensor([0, 1, 2, 3])).all()
    said = least.draw()
    torch.testing.assert_close(said.log_prob, one.log_prob(said.codes), atol=1e-5, rtol=1e-5)


def test_the_first_space_is_none_of_the_characters_a_text_needs():
    words = Tokenizer()
    writer = Writer(len(words), D, TextConfig(heads=2)).eval()
    with torch.no_grad():
        writer.scores.bias[[EOS - 3, FIRST_BYTE + ord(" ") - 3, FIRST_BYTE + ord("a") - 3]] = torch.tensor(
            [60.0, 50.0, 50.0]
        )
    one = TextBelief(writer, torch.randn(100, D), TextConfig(most=9), words, torch.full((100,), 3))
    assert {len(text) for text in words.decode(one.sample())} == {3}


def test_writing_in_pieces_is_writing_at_once(monkeypatch):
    one = belief(10)
    whole = one.greedy(), one.beam_search(3)
    monkeypatch.setattr("kbdisk.leaves.text.decoder.MAX_TEXTS", 4)
    parts = one.greedy(), one.beam_search(3)
    assert parts[0].codes.equal(whole[0].codes)
    assert parts[1][0].equal(whole[1][0])


@for_each("dtype", [torch.float32, torch.bfloat16])
def test_log_probabilities_and_their_gradients_are_those_of_torch(dtype, monkeypatch):
    monkeypatch.setattr("kbdisk.leaves.text.decoder.MAX_SCORES", {"cpu": 300})  # several pieces, the last one smaller
    x, weight, bias = torch.randn(32, 8), torch.randn(50, 8), torch.randn(50)
    given = [each.requires_grad_() for each in (x, weight, bias)]
    said, grad = torch.randint(50, (32,)), torch.randn(32)
    ours = TargetLogProb.apply(x.to(dtype), weight.to(dtype), bias, said)
    theirs = -F.cross_entropy(x @ weight.T + bias, said, reduction="none")
    tolerance = {"atol": 1e-5, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.15, "rtol": 0.05}
    torch.testing.assert_close(ours, theirs, **tolerance)
    for one, other in zip(
        torch.autograd.grad(ours, given, grad), torch.autograd.grad(theirs, given, grad), strict=True
    ):
        torch.testing.assert_close(one, other, **tolerance)


def test_a_text_is_followed_token_by_token_as_far_as_it_agrees():
    one = belief(1)
    own = one.writer.token_log_probs(one.h, TEXTS[20:21])[0].exp()
    same, other = TEXTS[20].clone(), TEXTS[20].clone()
    other[2] = 9 - other[2]  # the other token of the two there are
    both = one.interpolated(torch.stack([same, other])[None], torch.tensor([[[0.5, 0.25]]]))
    expected = [0.75 + 0.25 * own[0], 0.75 + 0.25 * own[1], 0.5 + 0.25 * own[2], 0.5 + 0.5 * own[3]]
    torch.testing.assert_close(both.steps(TEXTS[20:21]).exp(), torch.stack(expected))


def test_what_steps_would_be_if_others_were_followed_is_what_they_then_are():
    one, texts = belief(5), TEXTS[[3, 9, 20, 21, 30]]
    codes, weights = TEXTS[torch.randint(len(TEXTS), (5, 4))], torch.rand(5, 1, 4) / 4
    codes[:, 0] = texts
    told = one.steps_interpolated(texts, one.steps(texts), codes, weights)
    torch.testing.assert_close(told, one.interpolated(codes, weights).steps(texts))
    assert (told > one.steps(texts)).float().mean() > 0.5


def test_a_text_that_is_followed_alone_is_said():
    one, codes = belief(4), TEXTS[[0, 7, 19, 30]]
    assert one.interpolated(codes[:, None], torch.ones(4, 1, 1)).mode().equal(codes)
    assert one.interpolated(codes[:, None], torch.zeros(4, 1, 1)).mode().equal(one.mode())


def test_what_is_longer_than_all_that_is_followed_goes_on_by_itself():
    short = TEXTS[[1, 5]][None].expand(20, 2, L)
    one, weights = belief(20), torch.full((20, 1, 2), 0.2)
    wide, narrow = (
        one.interpolated(codes, weights).draw(1.0, torch.manual_seed(0)) for codes in (short, short[:, :, :3])
    )
    assert (wide.codes[:, -1] != 0).any()
    assert wide.codes.equal(narrow.codes)
    torch.testing.assert_close(wide.log_prob, narrow.log_prob)
    torch.testing.assert_close(one.interpolated(short[:, :, :3], weights).log_prob(narrow.codes), narrow.log_prob)
