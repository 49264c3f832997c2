"""Text: values and codes, and the modules between them."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from tables import for_each

from kbdisk.entity import Text as TextValue
from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.registry import LEARNT_KINDS
from kbdisk.leaves.text import Reader, TextCodec, TextConfig, TextDecoder, TextEncoder, Writer, build_reader
from kbdisk.leaves.tokenizer import EOS, FIRST_BYTE, FIRST_PIECE, FIRST_WRITABLE, Tokenizer
from kbdisk.model.mup import growths
from kbdisk.schemas.kinds import Text

PHONES = [f"{maker} {name} {n}" for maker in ("Nokia", "Samsung") for name in ("Galaxy", "Lumia") for n in range(20)]
CONFIG = TextConfig(blank=0.0, layers=2, heads=2, most=12)
D = 16


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.fit(PHONES)


@pytest.fixture
def codec(words) -> TextCodec:
    return TextCodec.fit(Text(), PHONES, CONFIG, words)


def setting(words: Tokenizer | None, groups=(0, 1), **other) -> Setting:
    return Setting(D, groups, CONFIG, tokenizer=words, **other)


def rows(counts: list[int], path: torch.Tensor | None = None) -> Rows:
    slot = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return Rows(slot, counts, torch.zeros(len(slot), D) if path is None else path)


# ------------------------------------------------------------------ codec


def test_text_is_a_row_of_the_table_of_kinds():
    assert LEARNT_KINDS["text"] == ("text", TextCodec, TextEncoder, TextDecoder, TextConfig, 0)


def test_texts_come_back_and_every_row_is_as_long_as_a_text_may_be(codec):
    codes = codec.encode([*PHONES, ""])
    assert codes.shape == (len(PHONES) + 1, 12)
    assert codes.dtype == torch.int64
    assert codec.decode(codes) == [*PHONES, ""]
    assert codec.encode([]).shape == (0, 12)
    assert codec.decode(codec.encode([])) == []


def test_a_text_that_is_too_long_is_cut_and_marked_by_having_no_end(words):
    codec = TextCodec.fit(Text(), PHONES, TextConfig(most=3), words)
    codes = codec.encode(["Nokia Lumia 7", "Nokia Lumia"])
    assert (codes == EOS).any(1).tolist() == [False, True]
    assert codec.decode(codes)[0].startswith("Nokia Lumia")


def test_the_language_of_the_property_is_that_of_its_values(words):
    given = [TextValue("Nokia", "de"), "Lumia"]
    plain, german = (TextCodec.fit(Text(language=tag), given, CONFIG, words) for tag in ("", "de"))
    assert plain.encode(given).equal(german.encode(given))
    assert plain.decode(plain.encode(given)) == ["Nokia", "Lumia"]
    assert german.decode(german.encode(given)) == [TextValue("Nokia", "de"), TextValue("Lumia", "de")]


def test_what_is_decoded_is_no_longer_than_allowed(words):
    codec = TextCodec.fit(Text(max_length=7), [], CONFIG, words)
    assert codec.decode(codec.encode(["Nokia Lumia", "Nokia"])) == ["Nokia L", "Nokia"]


@for_each("wrong", [3, None, ["Nokia"], b"Nokia"])
def test_what_is_no_text_is_refused(codec, wrong):
    with pytest.raises(ValueError, match="expected text, got"):
        codec.encode(["Nokia", wrong])


@for_each("leaf", [Text(), Text(language="en", min_length=2, max_length=9)])
def test_json_brings_a_codec_back(leaf, words):
    codec = TextCodec.fit(leaf, PHONES, CONFIG, words)
    assert TextCodec.from_json(json.loads(json.dumps(codec.to_json())), words) == codec


def test_without_any_text_to_learn_from_texts_are_spelt_in_bytes():
    codec = TextCodec.fit(Text(), [], CONFIG, None)
    assert codec.decode(codec.encode(["Größe"])) == ["Größe"]
    assert TextCodec.from_json(codec.to_json(), None) == codec


@for_each(
    ("wrong", "complaint"),
    [
        ({"decoding": "best"}, "expected one of beam, greedy for decoding, got 'best'"),
        ({"layers": 0}, "expected at least 1 for layers, got 0"),
        ({"temperature": 0.0}, "expected a temperature above 0, got 0.0"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(wrong, complaint):
    with pytest.raises(ValueError, match=complaint):
        TextConfig(**wrong)


# ------------------------------------------------------------------ encoder and decoder


def test_each_text_has_a_vector_and_a_belief_of_its_own(codec, words):
    encoder, decoder = (make([codec] * 2, setting(words)).eval() for make in (TextEncoder, TextDecoder))
    codes = codec.encode([PHONES[0], PHONES[1], PHONES[0], "x", ""])
    x = encoder(codes, rows([3, 2]))
    assert x.shape == (5, D)
    torch.testing.assert_close(x[0], x[2])  # to the last bit only where both are summed by one thread
    assert not x[0].allclose(x[1])
    belief = decoder(x, rows([3, 2]))
    assert belief.log_prob(codes).shape == belief.entropy().shape == (5,)
    assert belief.sample().shape == belief.mode().shape == (5, 12)
    assert (belief.log_prob(codes) < 0).all()
    picked = belief.pick(torch.tensor([4, 0]))
    torch.testing.assert_close(picked.log_prob(codes[[4, 0]]), belief.log_prob(codes)[[4, 0]], atol=1e-4, rtol=1e-5)


def test_groups_have_weights_of_their_own_and_paths_tell_slots_of_one_group_apart(codec, words):
    codes = codec.encode([PHONES[0]] * 2)
    apart, together = (
        (TextEncoder([codec] * 2, setting(words, groups)), TextDecoder([codec] * 2, setting(words, groups)))
        for groups in ((0, 1), (0, 0))
    )
    h = torch.randn(1, D).expand(2, D)
    for (encoder, decoder), counts in ((apart, [1, 1]), (together, [2])):
        for path, differ in ((torch.zeros(2, D), counts == [1, 1]), (torch.randn(2, D), True)):
            own = Rows(torch.tensor([0, 1]), counts, path)
            x, log_prob = encoder(codes, own), decoder(h, own).log_prob(codes)
            assert (not x[0].allclose(x[1])) == differ
            assert (not log_prob[0].allclose(log_prob[1])) == differ


def test_blank_rows_and_no_rows_do_no_harm(codec, words):
    encoder, decoder = (make([codec] * 2, setting(words)) for make in (TextEncoder, TextDecoder))
    blank = torch.zeros(2, 12, dtype=torch.long)
    belief = decoder(encoder(blank, rows([0, 2])), rows([0, 2]))
    assert belief.log_prob(blank).tolist() == [0, 0]
    none = decoder(encoder(blank[:0], rows([0, 0])), rows([0, 0]))
    assert none.log_prob(blank[:0]).shape == none.entropy().shape == (0,)
    assert none.sample().shape == none.mode().shape == (0, 12)
    assert none.beam(2) == []


def test_the_end_of_a_text_that_was_cut_is_not_scored(words):
    config = TextConfig(layers=1, heads=2, most=3)
    codec = TextCodec.fit(Text(), [], config, words)
    belief = TextDecoder([codec], Setting(D, [0], config, tokenizer=words)).eval()(torch.randn(1, D), rows([1]))
    cut = codec.encode(["Nokia Lumia 7"])
    (longer,) = words.encode(["Nokia Lumia 7"])
    alike = [longer[None, :3], longer[None, :4]]
    assert cut.equal(alike[0])
    assert belief.log_prob(cut) > belief.log_prob(alike[1])


def test_a_reader_that_is_given_is_used_and_stays_the_networks(codec, words):
    reader = build_reader(setting(words))
    encoder = TextEncoder([codec] * 2, setting(words, reader=reader))
    assert not any(name.startswith(("own", "_shared")) for name in encoder.state_dict())
    codes = codec.encode(PHONES[:4])
    before = encoder(codes, rows([2, 2]))
    with torch.no_grad():
        reader.tokens.table.weight.mul_(2)
    assert not encoder(codes, rows([2, 2])).allclose(before)
    both = torch.nn.ModuleDict({"reader": reader, "encoder": encoder})
    again = copy.deepcopy(both)
    assert again["encoder"]._shared[0] is again["reader"]


def test_labels_of_any_length_are_read_by_the_same_reader(words):
    reader = build_reader(setting(words)).eval()
    long = " ".join(PHONES)
    read = reader(words.encode(["Nokia", long, ""]))
    torch.testing.assert_close(read[0], reader(words.encode(["Nokia"]))[0], atol=1e-5, rtol=0)
    assert not read[1].allclose(reader(words.encode([long[:-1]]))[0])


def test_under_bfloat16_beliefs_are_float32_and_near(codec, words):
    encoder, decoder = (make([codec] * 2, setting(words)).eval() for make in (TextEncoder, TextDecoder))
    codes = codec.encode(PHONES[:6])
    exact = decoder(encoder(codes, rows([3, 3])), rows([3, 3])).log_prob(codes)
    with torch.autocast("cpu", torch.bfloat16):
        belief = decoder(encoder(codes, rows([3, 3])), rows([3, 3]))
        log_prob = belief.log_prob(codes)
        codes_of = [belief.sample(), belief.mode(), belief.beam_search(2)[0]]
        entropy = belief.entropy()
    assert log_prob.dtype == entropy.dtype == torch.float32
    assert [each.shape[-1] for each in codes_of] == [12, 12, 12]
    torch.testing.assert_close(log_prob, exact, rtol=0.02, atol=0.1)
    log_prob.sum().backward()
    weights = [*encoder.parameters(), *decoder.parameters()]
    assert all(weight.grad is not None and weight.grad.dtype == torch.float32 for weight in weights)


def test_texts_that_are_written_have_the_length_that_is_asked_of_them(words):
    codecs = [TextCodec.fit(Text(min_length=least), [], CONFIG, words) for least in (0, 5)]
    decoder = TextDecoder(codecs, setting(words)).eval()
    with torch.no_grad():
        decoder.writer.scores.bias[
            FIRST_BYTE + 128 - FIRST_WRITABLE : FIRST_PIECE - FIRST_WRITABLE
        ] = -50  # bytes that make no character
    belief = decoder(torch.randn(40, D), rows([20, 20]))
    assert all(len(text) >= 5 for text in words.decode(belief.sample()[20:]))
    assert belief.pick(torch.tensor([1, 30])).least.tolist() == [0, 5]


def test_every_weight_learns_as_mup_has_it(words):
    config = TextConfig(heads=2)
    for make in (Reader, Writer):
        wide, narrow = make(300, 64, config), make(300, 16, config)
        grown = growths(wide, narrow)
        assert {name for name, one in grown.items() if one.readout} == ({"scores.weight"} if make is Writer else set())
        assert grown["tokens.table.weight"].fan_in == 1
        assert grown["transformer.layers.0.widen.weight"].fan_in == 4


def test_reader_and_writer_learn_a_few_texts_by_heart(words):
    texts = PHONES[::5]
    codec = TextCodec.fit(Text(), texts, CONFIG, words)
    encoder, decoder = (make([codec], setting(words, groups=(0,))) for make in (TextEncoder, TextDecoder))
    codes, whose = codec.encode(texts), rows([len(texts)])
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 5e-3)
    for _ in range(150):
        loss = -decoder(encoder(codes, whose), whose).log_prob(codes).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    belief = decoder.eval()(encoder.eval()(codes, whose), whose)
    assert sum(one == other for one, other in zip(codec.decode(belief.mode()), texts, strict=True)) >= 14
    assert belief.entropy().mean() < 2  # as it began: 30
    text, log_prob = belief.beam(3)[0][0]
    assert text == PHONES[0]
    assert log_prob == pytest.approx(belief.log_prob(codes)[0].item(), abs=1e-3)
