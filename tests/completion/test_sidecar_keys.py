"""What was filled in is found again where a target gives a word to another predicate than its source did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rdflib

import kbdisk
from kbdisk.api.source import LoadedSource
from kbdisk.cli import main
from kbdisk.completion.sidecar import contested_keys, given_entities, with_renamed_keys
from kbdisk.entity import Completion, Filled, show

PREFIXES = "@prefix a: <http://a/> . @prefix b: <http://b/> . @prefix : <http://ex.org/> . "
ONE, OTHERS = ":x b:w 1 ; a:k 3 .", ":y b:w 4 ; a:k 5 . :z a:w 7 ."
FORMATS = {"jsonld": "jsonld", "rdf": "rdfxml", "nt": "ntriples", "ttl": "turtle", "jsonl": "jsonl"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def completed(*names: str, to: str) -> list[bytes]:
    """Give the y of some sources what their z has, and write them; the lines that tell of it."""
    reading = LoadedSource.of(list(names))
    [key] = next(one for one in reading.entities if one.id.endswith("z")).tree
    items = [Completion(one, {(key,): Filled(9, 0.5)} if one.id.endswith("y") else {}) for one in reading.entities]
    assert kbdisk.write(items, f"out.{to}").unwritable == []
    row = {"id": "http://ex.org/y", "path": show((key,)), "value": 9, "block": False}
    return list(with_renamed_keys([json.dumps(row).encode() + b"\n"], contested_keys(reading.kbs, FORMATS[to])))


@pytest.mark.parametrize("to", ["jsonld", "rdf", "nt", "jsonl"])
@pytest.mark.parametrize(
    "names", [("all.ttl",), ("some.nt", "rest.ttl"), ("rest.ttl", "some.nt"), ("all.ttl", "j.jsonl")]
)
def test_what_was_filled_in_is_found_by_its_predicate(names, to):
    Path("all.ttl").write_text(PREFIXES + ONE + OTHERS)
    Path("rest.ttl").write_text(PREFIXES + OTHERS)
    rdflib.Graph().parse(data=PREFIXES + ONE, format="turtle").serialize("some.nt", format="nt", encoding="utf-8")
    Path("j.jsonl").write_text('{"@id": "http://ex.org/j", "w": 3}\n')
    Path(f"out.{to}.provenance.jsonl").write_bytes(b"".join(completed(*names, to=to)))
    [y] = [one for one in given_entities(kbdisk.load(f"out.{to}")) if one.id.endswith("y")]
    assert list((y.made or {}).values()) == [9]
    assert {one for key, one in y.tree.items() if key[0] != "@"} == {4, 5}


def test_a_word_of_one_predicate_stays():
    Path("all.ttl").write_text(PREFIXES + ":y a:k 4 . :z a:w 4 .")
    [line] = completed("all.ttl", to="jsonld")
    assert json.loads(line)["path"] == "w"


def test_what_keeps_its_bytes_keeps_its_words():
    Path("all.ttl").write_text(PREFIXES + ONE + OTHERS)
    [line] = completed("all.ttl", to="ttl")
    assert json.loads(line)["path"] == "a:w"


def test_what_an_earlier_completion_told_is_told_in_the_words_of_the_new_target():
    rdflib.Graph().parse(data=PREFIXES + ONE + OTHERS, format="turtle").serialize("old.rdf", format="xml")
    [key] = (key for one in kbdisk.load("old.rdf") for key, value in one.tree.items() if value == 4)
    row = {"id": "http://ex.org/y", "path": show((key,)), "value": 4, "confidence": 0.5}
    Path("old.rdf.provenance.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["write", "old.rdf", "--out", "new.nt", "-q"])
    assert ended.value.code == 0
    [line] = Path("new.nt.provenance.jsonl").read_text().splitlines()
    assert json.loads(line) == row | {"path": "http://b/w", "block": False}
    [y] = [one for one in given_entities(kbdisk.load("new.nt")) if one.id.endswith("y")]
    assert list((y.made or {}).values()) == [4]
