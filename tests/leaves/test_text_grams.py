"""CharacterNgrams against runs and words found letter by letter in Python, and what they have in common."""

import re

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples
from torch.nn.functional import cosine_similarity

from kbdisk.leaves.text.codec import TextConfig
from kbdisk.leaves.text.encoder import MAX_CHARACTERS_READ, MAX_NGRAM, CharacterNgrams, Reader
from kbdisk.leaves.tokenizer import Tokenizer

WORDS = Tokenizer.fit([f"SM-G90{digit}F Galaxy S{digit}" for digit in range(10)] * 3)
assert WORDS is not None
TEXTS = st.text(st.sampled_from("aB1 -é"), max_size=12)


def grams() -> CharacterNgrams:
    torch.manual_seed(0)
    return CharacterNgrams(WORDS.spelling, 32, 2**16).eval()


MANY = CharacterNgrams(WORDS.spelling, 1, 2**24).eval()  # so many that no two runs are ever taken for one


def spelt_out(text: str) -> set[str]:
    """Runs and words, each marked by how it was drawn."""
    raw = (f" {text} " if text else " ").encode().decode("latin-1")[:MAX_CHARACTERS_READ]
    numbered = re.sub("[0-9]", "0", raw)
    cased = re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[\x80-\xff]", "\x80", numbered)))
    found = set()
    for mark, drawn in (("plain", raw), ("numbered", numbered), ("cased", cased)):
        runs = {drawn[i : i + size] for size in range(1, MAX_NGRAM + 1) for i in range(len(drawn) - size + 1)}
        found |= {f"{mark} {run}" for run in runs} | {f"{mark} word {word}" for word in drawn.split(" ")}
    return found


@given(TEXTS, TEXTS)
def test_texts_have_the_grams_in_common_that_are_spelt_alike(one: str, other: str) -> None:
    rows, numbers = MANY.ngrams(WORDS.encode([one, other]))
    mine, theirs = (set(numbers[rows == row].tolist()) for row in (0, 1))
    assert len(mine & theirs) == len(spelt_out(one) & spelt_out(other))


@settings(max_examples=examples(15))
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_a_text_has_the_same_vector_whatever_stands_beside_it(texts: list[str]) -> None:
    module = grams()
    together = module(WORDS.encode(texts))
    alone = torch.cat([module(WORDS.encode([text])) for text in texts])
    assert torch.allclose(together, alone, atol=1e-6)


def test_names_of_one_make_are_alike_though_no_word_of_theirs_is() -> None:
    one, like, unlike = grams()(WORDS.encode(["SM-G901F", "SM-G876F", "Lumia 640"]))
    assert cosine_similarity(one, like, dim=0) > 0.5 > cosine_similarity(one, unlike, dim=0)


def test_what_stands_far_behind_is_not_read() -> None:
    one, other = grams()(WORDS.encode(["a" * MAX_CHARACTERS_READ + "b", "a" * MAX_CHARACTERS_READ + "c"]))
    assert torch.equal(one, other)


def test_the_vectors_are_learnt_and_some_are_dropped_while_training() -> None:
    module = CharacterNgrams(WORDS.spelling, 8, 64, blank=0.5).train()
    ids = WORDS.encode(["SM-G901F"])
    first, second = module(ids), module(ids)
    assert not torch.equal(first, second)
    (first * torch.randn(first.shape)).sum().backward()
    assert module.table.grad is not None
    assert module.table.grad.abs().sum() > 0


def test_the_reader_adds_them_and_reads_without_them_where_there_are_none() -> None:
    module = grams()
    torch.manual_seed(1)
    reader = Reader(len(WORDS), 32, TextConfig(), grams=module).eval()
    ids = WORDS.encode(["SM-G901F", "", "Galaxy"])
    with torch.no_grad():
        whole = reader(ids)
        reader.grams = None
        assert torch.allclose(whole - reader(ids), module(ids), atol=1e-5)
