"""A pretrained sentence encoder reads in the reader's place: once per text, itself never changed."""

from __future__ import annotations

import copy
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from kbdisk.leaves.base import Rows, Setting
from kbdisk.leaves.text import SentenceReader, TextCodec, TextConfig, TextEncoder, build_reader
from kbdisk.leaves.text.encoder import load_sentence_encoder
from kbdisk.leaves.tokenizer import Tokenizer
from kbdisk.schemas.kinds import Text

WORDS = Tokenizer.fit(["Nokia Lumia", "Samsung Galaxy"] * 20)


class Standin(nn.Module):
    """As the models of sentence-transformers: a module with `encode`, which makes a numpy array."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(300, 5))
        self.asked: list[str] = []

    def encode(self, sentences: list[str]) -> np.ndarray:
        self.asked += sentences
        return np.stack([self.weight.detach()[[len(text), *map(ord, text)]].sum(0).numpy() for text in sentences])


@pytest.fixture
def standin() -> Standin:
    return Standin()


@pytest.fixture
def setting() -> Setting:
    return Setting(8, [0], TextConfig(heads=2), tokenizer=WORDS)


def test_each_text_is_encoded_once_however_its_row_is_padded(standin, setting):
    reader = build_reader(setting, standin)
    first = reader(WORDS.encode(["Nokia", "Lumia", "Nokia", ""]))
    again = reader(WORDS.encode(["Lumia", "Samsung Galaxy", "Nokia"]))
    assert sorted(standin.asked) == ["", "Lumia", "Nokia", "Samsung Galaxy"]
    assert first.shape == (4, 8)
    torch.testing.assert_close(first[0], first[2])
    torch.testing.assert_close(again[[2, 0]], first[[0, 1]])
    assert not first[0].allclose(first[1])
    assert reader(torch.zeros(0, 4, dtype=torch.long)).shape == (0, 8)


def test_only_the_map_after_it_learns_and_is_kept(standin, setting):
    reader = build_reader(setting, standin)
    assert [*reader.state_dict()] == ["project.weight", "project.bias"]
    reader(WORDS.encode(["Nokia"])).sum().backward()
    assert reader.project.weight.grad.abs().sum() > 0
    assert standin.weight.grad is None


def test_its_vectors_have_one_size_whatever_the_encoders(standin, setting):
    reader = build_reader(setting, standin)
    with torch.no_grad():
        standin.weight.mul_(1000)
    torch.testing.assert_close(build_reader(setting, standin).vectors(["Nokia"]), reader.vectors(["Nokia"]))


def test_copies_of_a_network_share_what_was_encoded(standin, setting):
    reader = build_reader(setting, standin)
    other = copy.deepcopy(reader)
    reader(WORDS.encode(["Nokia"]))
    other(WORDS.encode(["Nokia"]))
    assert standin.asked == ["", "Nokia"]
    assert other.project.weight is not reader.project.weight


def test_text_encoders_read_by_it(standin, setting):
    codec = TextCodec.fit(Text(), [], TextConfig(), WORDS)
    reader = build_reader(setting, standin)
    encoder = TextEncoder([codec], Setting(8, [0], TextConfig(), tokenizer=WORDS, reader=reader))
    assert encoder(codec.encode(["Nokia"]), Rows(torch.tensor([0]), [1], torch.randn(1, 8))).shape == (1, 8)
    assert "Nokia" in standin.asked


def test_what_makes_something_else_than_vectors_is_refused(setting):
    class Wrong:
        def encode(self, sentences: list[str]) -> list[float]:
            return [1.0] * 3

    with pytest.raises(ValueError, match="expected 1 vectors of the sentence encoder, got shape"):
        build_reader(setting, Wrong())


def test_the_name_in_the_config_is_loaded_by_sentence_transformers(standin, monkeypatch):
    asked = []

    def make(name: str, **options: object) -> Standin:
        asked.append((name, options))
        return standin

    package = ModuleType("sentence_transformers")
    package.SentenceTransformer = make
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    load_sentence_encoder.cache_clear()
    setting = Setting(8, [0], TextConfig(sentence_encoder="folder/small"), tokenizer=WORDS)
    readers = [build_reader(setting), build_reader(setting)]
    load_sentence_encoder.cache_clear()
    assert all(isinstance(reader, SentenceReader) for reader in readers)
    assert asked == [("folder/small", {"trust_remote_code": False})]


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    setting = Setting(8, [0], TextConfig(sentence_encoder="small"), tokenizer=WORDS)
    with pytest.raises(
        ValueError, match=r"expected the package sentence-transformers.*pip install 'kbdisk\[sentences\]'"
    ):
        build_reader(setting)
