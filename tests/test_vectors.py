"""Entity vectors as files: what others read in them is what the model gives. Splitting at blanks and numpy are the judges."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import EXAMPLES
from tables import for_each

import kbdisk
from kbdisk import Entity
from kbdisk.api.model import Model
from kbdisk.api.vectors import EntityVectors, escaped
from kbdisk.errors import KBDiskError

PHONES = EXAMPLES / "phones.jsonl"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(tiny_model):
    return Model(tiny_model)


def by_splitting(text):
    """The ids and vectors of word2vec text."""
    head, *lines = text.removesuffix("\n").split("\n")
    count, width = map(int, head.split(" "))
    ids, vectors = [], []
    for line in lines:
        id, *numbers = line.rstrip().split(" ")
        assert len(numbers) == width
        ids.append(id)
        vectors.append(np.array(numbers, dtype=np.float32))
    assert len(ids) == count
    return ids, np.array(vectors)


def some(ids, width=3):
    return EntityVectors(ids, np.random.default_rng(0).normal(size=(len(ids), width)).astype(np.float32))


# ---------------------------------------------------------------- files


@given(
    st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=5),
    st.data(),
)
def test_word2vec_text_has_every_id_as_one_word_and_every_float_exactly(tmp_path_factory, ids, data):
    width = data.draw(st.integers(1, 4))
    floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = data.draw(st.lists(st.lists(floats, min_size=width, max_size=width), min_size=len(ids), max_size=len(ids)))
    vectors = np.array(rows, dtype=np.float32)
    target = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    EntityVectors(ids, vectors).write(target)
    read_ids, read_vectors = by_splitting(target.read_bytes().decode())
    assert read_ids == [escaped(id) for id in ids]
    assert [unescaped(id) for id in read_ids] == ids
    assert (read_vectors == vectors).all()


def unescaped(id):
    """An id by the escapes of JSON strings, which are the same."""
    return json.loads('"' + id.replace('"', '\\"') + '"')


@for_each(
    ("id", "word"),
    [
        ("http://ex.org/São%20Paulo#x", "http://ex.org/São%20Paulo#x"),
        ("New York", "New\\u0020York"),
        ("a\\b", "a\\\\b"),
        ("a\u00a0b\n", "a\\u00a0b\\u000a"),
        ("\ud800", "\\ud800"),
    ],
)
def test_only_what_would_part_an_id_is_escaped(id, word):
    assert escaped(id) == word


def test_an_array_has_its_ids_beside_it():
    vectors = some(["b", "New York", "a"])
    assert vectors.write("v.npy") == ["v.npy", "v.ids.txt"]
    assert (np.load("v.npy", allow_pickle=False) == vectors.vectors).all()
    assert Path("v.ids.txt").read_text() == "b\nNew\\u0020York\na\n"


def test_text_may_be_compressed():
    vectors = some(["a", "b"])
    assert vectors.write("v.vec.gz") == ["v.vec.gz"]
    ids, numbers = by_splitting(gzip.decompress(Path("v.vec.gz").read_bytes()).decode())
    assert ids == ["a", "b"]
    assert (numbers == vectors.vectors).all()


@for_each("name", ["v", "v.csv", "v.npy.gz"])
def test_a_name_that_tells_no_format_of_vectors_is_one_line(name):
    with pytest.raises(KBDiskError, match=r"does not tell the format of vectors. Choose one that ends in \.txt"):
        some(["a"]).write(name)


@for_each("existing", ["v.npy", "v.ids.txt"])
def test_files_that_exist_are_replaced_only_on_request_and_both_or_none(existing):
    for file in Path().iterdir():
        file.unlink()
    Path(existing).write_text("mine")
    with pytest.raises(KBDiskError, match=f"{existing}: exists already. Say force=True to replace it"):
        some(["a"]).write("v.npy")
    assert {file.name: file.read_text() for file in Path().iterdir()} == {existing: "mine"}
    some(["a"]).write("v.npy", force=True)
    assert np.load("v.npy").shape == (1, 3)
    assert Path("v.ids.txt").read_text() == "a\n"


# ---------------------------------------------------------------- of a model


def test_the_vectors_of_a_model_are_those_of_embed_with_their_ids(model):
    phones = kbdisk.load(PHONES)
    vectors = model.vectors(phones)
    assert vectors.ids == [phone.id for phone in phones]
    assert (vectors.vectors == model.embed(phones)).all()
    assert (len(vectors), vectors.left_out) == (63, 0)


def test_entities_of_one_id_are_refused(model):
    entities = [Entity("a", {"brand": "Nokia"}), Entity("a", {"brand": "Palm"})]
    with pytest.raises(KBDiskError, match="has more than one entity 'a'"):
        model.vectors(entities)


# ---------------------------------------------------------------- the command


def test_the_command_writes_what_the_model_embeds(tiny_folder, run, model):
    status, out, err = run("embed", tiny_folder, PHONES, "--out", "v.txt")
    assert (status, out) == (0, "")
    assert err == "wrote v.txt: 63 vectors of 16 numbers\n"
    ids, vectors = by_splitting(Path("v.txt").read_text())
    assert ids == [phone.id for phone in kbdisk.load(PHONES)]
    assert (vectors == model.embed(kbdisk.load(PHONES))).all()


def test_standard_output_takes_text(tiny_folder, run):
    status, out, err = run("embed", "-q", tiny_folder, PHONES, "--out", "-")
    assert (status, err) == (0, "")
    assert len(by_splitting(out)[0]) == 63


def test_a_source_is_never_replaced_by_its_vectors(tiny_folder, run):
    data = PHONES.read_bytes()
    Path("kb.txt").write_bytes(data)
    status, _, err = run("embed", tiny_folder, "kb.txt", "--from", "jsonl", "--out", "kb.txt", "--force")
    assert (status, err) == (2, "error: kb.txt: is the source itself. Choose another target.\n")
    assert Path("kb.txt").read_bytes() == data


@for_each(
    ("more", "complaint"),
    [
        (("--out", "v.csv"), "v.csv: the name does not tell the format of vectors."),
        (("--out", "there.txt"), "there.txt: exists already. Say --force to replace it."),
        (("--out", "none/v.txt"), "none/v.txt: cannot be written: "),
        (("--out", "v.txt", "--class", "Phone"), f"{PHONES}: no entity is of the class 'Phone'"),
    ],
)
def test_a_target_that_cannot_be_is_one_line(more, complaint, tiny_folder, run):
    Path("there.txt").write_text("")
    status, out, err = run("embed", tiny_folder, PHONES, *more)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {complaint}")
    assert not Path("v.txt").exists()
