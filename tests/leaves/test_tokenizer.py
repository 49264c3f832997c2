"""The tokenizer: every string comes back as it was, whatever the text it was trained on."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

from kbdisk.leaves.tokenizer import BOS, EOS, FIRST_PIECE, PAD, Tokenizer

PHONES = [f"{maker} {name} {n}" for maker in ("Nokia", "Samsung") for name in ("Galaxy", "Lumia") for n in range(40)]
ODD = [
    "",
    " ",
    "  a  b ",
    "\n",
    "a\n\nb\r\n\t",
    "\u2581x\u2581",
    "\u2585",
    "\0",
    "<s></s><unk><0x41>",
    "Größe 😀🏳️‍🌈",
    "\ud800x",
]
ANY = st.text(st.characters(codec="utf-8") | st.sampled_from(" \n\t\u2581\u2585Nokia\0"))


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.fit(PHONES)


@given(st.lists(ANY, max_size=5))
def test_any_string_comes_back_as_it_was(words, texts):
    assert words.decode(words.encode(texts)) == texts
    assert Tokenizer().decode(Tokenizer().encode(texts)) == texts


@for_each("text", ODD)
@for_each("trained", [["a", "b", "c"], ODD, [""], PHONES, ["日本語のテキスト"] * 3])
def test_odd_strings_come_back_whatever_was_trained_on(text, trained):
    words = Tokenizer.fit(trained)
    assert words.decode(words.encode([text, "x", text])) == [text, "x", text]


def test_no_text_makes_no_tokenizer_and_blank_text_one_of_bytes_alone():
    assert Tokenizer.fit([]) is None
    assert len(Tokenizer.fit(["", "\n"])) == FIRST_PIECE


def test_words_that_recur_are_one_token_wherever_they_stand(words):
    first, second = words.encode(["Nokia Lumia", "Lumia Nokia"]).tolist()
    assert len(first) == 3
    assert first[:2] == second[:2][::-1]


def test_rows_end_with_the_end_and_are_padded_with_zeros(words):
    ids = words.encode(["Nokia Lumia", "", "Nokia"])
    assert ids.dtype == torch.int64
    assert ids[1].tolist() == [EOS, PAD, PAD]
    assert ids[2].tolist() == [ids[0, 0].item(), EOS, PAD]
    assert not (ids == BOS).any()
    assert words.encode([]).shape == (0, 0)
    assert words.decode(words.encode([])) == []


def test_a_text_that_was_cut_has_no_end(words):
    ids = words.encode(["Nokia Lumia 7", "Nokia Lumia", "Nokia"], max_tokens=3)
    assert (ids == EOS).sum(1).tolist() == [0, 1, 1]
    assert ids.shape == (3, 3)
    assert "Nokia Lumia 7".startswith(words.decode(ids)[0])
    assert words.decode(ids)[1:] == ["Nokia Lumia", "Nokia"]


def test_cutting_within_a_character_drops_what_is_left_of_it():
    assert Tokenizer().decode(Tokenizer().encode(["aé"], max_tokens=3)) == ["a"]


def test_little_text_is_not_learnt_by_heart():
    words = Tokenizer.fit(["Nokia Lumia 920", "Samsung Galaxy S21", "Apple iPhone 12"])
    assert (words.encode(["Nokia Lumia 920"])[0] >= FIRST_PIECE).sum() > 5


def test_it_is_the_same_each_time_and_another_seed_draws_other_text(monkeypatch):
    monkeypatch.setattr("kbdisk.leaves.tokenizer.MAX_CHARACTERS", 500)
    assert Tokenizer.fit(PHONES) == Tokenizer.fit(PHONES)
    assert Tokenizer.fit(PHONES) != Tokenizer.fit(PHONES, seed=1)


def test_the_vocabulary_is_bounded_also_where_there_are_more_characters():
    han = ["".join(map(chr, range(start, start + 50))) for start in range(0x4E00, 0x5E00, 50)]
    words = Tokenizer.fit(han, size=600)
    assert FIRST_PIECE < len(words) <= 600
    assert words.decode(words.encode(han)) == han
    with pytest.raises(ValueError, match="expected a vocabulary of at least 512, got 300"):
        Tokenizer.fit(han, size=300)


def test_a_hundred_thousand_texts_are_trained_on_in_part():
    texts = [f"{PHONES[n % 160]} {'plus' * (n % 3)} {n}" for n in range(100_000)]
    words = Tokenizer.fit([*texts, "x" * 5_000_000])
    assert words.decode(words.encode(texts[:100])) == texts[:100]


def test_bytes_bring_it_back_and_other_bytes_are_refused(words):
    again = Tokenizer.from_bytes(words.to_bytes())
    assert again == words
    assert len(again) == len(words)
    assert Tokenizer.from_bytes(b"") == Tokenizer()
    assert pickle.loads(pickle.dumps(words)).encode(PHONES).equal(words.encode(PHONES))
    with pytest.raises(ValueError, match="expected a sentencepiece model, got other bytes"):
        Tokenizer.from_bytes(b"nonsense")


def test_training_says_nothing_and_leaves_no_file(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Tokenizer.fit([*PHONES, "a\tb\u2585"])
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_every_token_knows_how_many_characters_it_adds(words):
    for text in PHONES[:20]:
        ids = words.encode([text])[0]
        assert words.lengths[ids].sum() - words.starts_with_space[ids[0]].int() == len(text)
