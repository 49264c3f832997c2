"""Worlds of any size: given and hidden values make the truth, stated errors are the real ones, and bytes depend on the seed alone."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import rich_click as click
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

import kbdisk
from benchmarks import world_files
from benchmarks.cli import main
from benchmarks.world import CLASSES, UNIT, LinkTo, Members, Quantity, SetOf, Single, World
from benchmarks.world_files import JsonLines, NTriples, WorldFiles, describe, hidden_files, lines

ERRORS_ALLOWED = 4.5  # standard errors, of some three hundred comparisons
PROPERTIES = [(name, property) for name, kind in CLASSES.items() for property in kind.properties]
SINGLES = [(name, property) for name, property in PROPERTIES if isinstance(property, Single)]
BIG = World(2_000_000, seed=5)


def rows(text: str) -> list[tuple[str, str, str]]:
    return [tuple(line.split("\t")) for line in text.splitlines()]


# ---------------------------------------------------------------- entities and links


@given(entities=st.integers(100, 5000), data=st.data())
def test_each_number_is_of_one_class_and_has_its_place_in_it(entities, data):
    world = World(entities)
    start = data.draw(st.integers(0, entities))
    stop = data.draw(st.integers(start, entities))
    numbers = []
    for name in CLASSES:
        members = world.members(name, start, stop)
        numbers += members.numbers.tolist()
        everybody = world.number_of(name, np.arange(world.count(name)))
        assert [n for n in everybody.tolist() if start <= n < stop] == members.numbers.tolist()
    assert sorted(numbers) == list(range(start, stop))
    assert sum(map(world.count, CLASSES)) == entities


def test_a_link_leads_to_an_entity_of_its_class_with_the_values_that_it_has_itself():
    people = BIG.sample("Person", 50)
    homes = people.target("home")
    for number, population in zip(homes.numbers.tolist(), homes.value("population").tolist(), strict=True):
        itself = BIG.members("City", number, number + 1)
        assert itself.value("population").tolist() == [population]


def test_few_entities_have_many_of_the_links():
    makers = np.bincount(BIG.sample("Product", 5000).value("maker"))
    assert np.sort(makers)[::-1][:50].sum() > 0.05 * 5000


def test_a_persons_language_is_mostly_that_of_the_country_of_the_employer():
    people = BIG.sample("Person", 5000)
    country = people.target("employer").target("headquarters").target("country")
    agree = (people.value("nativeLanguage") == country.value("language")).mean()
    assert 0.8 < agree < 0.9


# ---------------------------------------------------------------- known errors and gaps


@for_each(("name", "property"), SINGLES)
def test_the_stated_error_is_that_of_the_centre(name, property):
    sample = BIG.sample(name, 5000)
    values = sample.value(property.name)
    errors, constant_errors = (
        property.costs(values, c) for c in (sample.centre(property.name), property.constant(values))
    )
    allowed = ERRORS_ALLOWED * errors.std() / math.sqrt(len(sample))
    assert abs(errors.mean() - property.error(sample)) <= allowed
    if isinstance(property, LinkTo) and property.noise == UNIT:  # a link that depends on nothing
        assert errors.mean() <= constant_errors.mean() + allowed
    else:
        assert errors.mean() < 0.75 * constant_errors.mean()


@for_each(("name", "property"), PROPERTIES)
def test_gaps_depend_on_the_class_and_on_the_value_that_drives_them(name, property):
    sample, gap = BIG.sample(name, 5000), property.gap
    missing = sample.is_missing(property)
    within = np.zeros(len(sample), dtype=bool)
    if gap.driver:
        driver = sample.value(gap.driver)
        within = (driver >= (-math.inf if gap.low is None else gap.low)) & (
            driver < (math.inf if gap.high is None else gap.high)
        )
        assert 0.1 < within.mean() < 0.9 or len(sample) < 5000
    rate = CLASSES[name].gap_rate if gap.rate is None else gap.rate
    for chosen, expected in ((within, gap.rate_within / UNIT), (~within, rate / UNIT)):
        if chosen.any():
            allowed = ERRORS_ALLOWED * math.sqrt(expected * (1 - expected) / chosen.sum())
            assert abs(missing[chosen].mean() - expected) < allowed


def test_about_a_sixth_of_all_values_is_missing():
    facts = describe(World(100_000))["classes"].values()
    shares = [
        (kind["entities"] * property["missing"]["share"], kind["entities"])
        for kind in facts
        for property in kind["properties"].values()
    ]
    assert 0.15 < sum(missing for missing, _ in shares) / sum(count for _, count in shares) < 0.2


# ---------------------------------------------------------------- given and hidden values


def truth(members: Members) -> dict[int, dict[str, list[str]]]:
    """By number and property: the texts of all values."""
    values: dict[int, dict[str, list[str]]] = {number: {} for number in members.numbers.tolist()}
    for property in CLASSES[members.class_name].properties:
        array = members.value(property.name)
        for number, value in zip(members.numbers.tolist(), array if array.ndim == 2 else array[:, None], strict=True):
            values[number][property.name] = property.texts(
                members.world, value[value >= 0] if array.ndim == 2 else value
            )
    return values


def plain(value) -> str:
    """A value in JSON as the text that stands in it: of a link the number, of a quantity the amount."""
    if isinstance(value, dict):
        value = value.get("@id", value.get("amount", value.get("value")))
    text = json.dumps(value).strip('"') if isinstance(value, bool) else str(value)
    return re.sub(r"^http://example.org/e", "", text)


def test_given_and_hidden_values_are_all_values_and_no_value_is_both():
    world = World(400, seed=2)
    texts = lines(world, JsonLines(), 0, 400)
    hidden: dict[tuple[int, str], list[str]] = {}
    for part in (texts.hidden, texts.members):
        for entity, path, value in rows("".join(part)):
            text = plain(json.loads(value, parse_float=str, parse_int=str))
            hidden.setdefault((int(entity[1:]), path.split(".")[0]), []).append(text)
    entities = [json.loads(text, parse_float=str, parse_int=str) for text in texts.given]
    checked = 0
    for name in CLASSES:
        for number, properties in truth(world.members(name, 0, 400)).items():
            entity = entities[number]
            assert (entity["@id"], entity["@type"]) == (f"http://example.org/e{number}", name)
            for property, expected in properties.items():
                value = entity.get(property, [])
                known = [plain(item) for item in (value if isinstance(value, list) else [value])]
                assert sorted(known + hidden.pop((number, property), [])) == sorted(expected)
                checked += len(expected)
    assert not hidden
    assert checked > 8000


def test_both_formats_hide_the_same_values():
    world = World(400, seed=2)
    rdf, json_lines = (lines(world, format, 0, 400) for format in (NTriples(), JsonLines()))
    for of_rdf, of_json in ((rdf.hidden, json_lines.hidden), (rdf.members, json_lines.members)):
        names = [(entity, name.strip("<>").split("/")[-1]) for entity, name, _ in rows("".join(of_rdf))]
        assert names == [(entity, path.split(".")[0]) for entity, path, _ in rows("".join(of_json))]


# ---------------------------------------------------------------- bytes


def test_lines_do_not_depend_on_where_a_block_begins():
    world = World(1000, seed=1)
    whole, parts = (
        lines(world, NTriples(), 0, 1000),
        [lines(world, NTriples(), *ends) for ends in ((0, 333), (333, 1000))],
    )
    for all_of_it, first, second in zip(whole, *parts, strict=True):
        assert all_of_it == first + second


def test_a_seed_has_the_same_bytes_on_every_machine():
    digest = hashlib.sha256()
    for format in (JsonLines(), NTriples()):
        for texts in lines(World(10**8, seed=3), format, 5_000_000, 5_001_000):
            digest.update("".join(texts).encode())
    assert digest.hexdigest()[:16] == "5502144e78c3c0bb"


@pytest.mark.parametrize("suffix", [".jsonl", ".nt"])
def test_shards_one_after_the_other_are_the_one_file(suffix, tmp_path, run):
    one, folder = tmp_path / f"one{suffix}", tmp_path / f"shards{suffix}"
    for out, options in ((one, ()), (folder, ("--shards", 3))):
        assert run("world", out, "--entities", 500, "--seed", 7, "-q", *options) == (0, "", "")
    parts = [folder / f"part-{n:05}{suffix}" for n in range(3)]
    for file, files in [
        (one, parts),
        *zip(hidden_files(one), zip(*map(hidden_files, parts), strict=True), strict=True),
    ]:
        assert file.read_bytes() == b"".join(part.read_bytes() for part in files)
    assert Path(f"{one}.world.json").read_bytes() == Path(f"{folder}.world.json").read_bytes()
    assert len(list(folder.iterdir())) == 9


def test_another_seed_is_another_world(tmp_path, run):
    for seed in (0, 1):
        run("world", tmp_path / f"{seed}.jsonl", "--entities", 100, "--seed", seed, "-q")
    assert (tmp_path / "0.jsonl").read_bytes() != (tmp_path / "1.jsonl").read_bytes()


def test_a_compressed_world_has_the_same_content(tmp_path, run):
    for name in ("kb.nt", "kb.nt.gz"):
        run("world", tmp_path / name, "--entities", 100, "-q")
    for ending in ("", ".hidden.tsv", ".members.tsv"):
        compressed = tmp_path / f"kb.nt.gz{ending}{'.gz' if ending else ''}"
        assert gzip.decompress(compressed.read_bytes()) == (tmp_path / f"kb.nt{ending}").read_bytes()


def test_memory_does_not_grow_with_the_number_of_entities(tmp_path, monkeypatch):
    monkeypatch.setattr(world_files, "BLOCK", 400)
    monkeypatch.setattr(world_files, "SAMPLE", 100)
    peaks = []
    WorldFiles(World(500), tmp_path / "warm.jsonl").write()
    for entities in (800, 4000):
        tracemalloc.start()
        WorldFiles(World(entities), tmp_path / f"{entities}.jsonl").write()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


# ---------------------------------------------------------------- read by kbdisk


@pytest.mark.parametrize("format", [JsonLines(), NTriples()], ids=["jsonl", "nt"])
def test_the_inferred_schema_has_the_kinds_that_are_meant(format, tmp_path):
    source = tmp_path / f"kb{format.suffix}"
    source.write_text("".join(lines(World(4000), format, 0, 4000).given))
    schema = kbdisk.infer(kbdisk.load(source)).schema
    for name, property in PROPERTIES:
        inferred = schema.classes[name].properties[property.name,].kind
        assert type(inferred).__name__.lower() == property.kind, (name, property.name)
        if isinstance(property, Quantity):
            assert inferred.unit in (property.unit, "euro")
        if isinstance(property, SetOf):
            assert type(inferred.of).__name__.lower() == property.member.kind


# ---------------------------------------------------------------- the command


SEEN = {  # option, arguments, what is then seen in the folder
    "--entities": (("--entities", 150), lambda folder: len((folder / "kb.jsonl").read_text().splitlines()) == 150),
    "--shards": (("--shards", 2), lambda folder: (folder / "kb.jsonl" / "part-00001.jsonl").is_file()),
    "--seed": (("--seed", 9), lambda folder: json.loads((folder / "kb.jsonl.world.json").read_text())["seed"] == 9),
    "--force": (("--force",), lambda folder: True),
    "--quiet": ((), lambda folder: True),
}


@pytest.mark.parametrize("option", SEEN)
def test_an_option_does_what_it_says(option, tmp_path, run):
    arguments, is_seen = SEEN[option]
    assert run("world", tmp_path / "kb.jsonl", "--entities", 120, "-q", *arguments) == (0, "", "")
    assert is_seen(tmp_path)


def test_every_option_of_the_command_has_a_row():
    own = {max(option.opts, key=len) for option in main.commands["world"].params if isinstance(option, click.Option)}
    assert own == SEEN.keys()


def test_force_replaces_shards_and_removes_those_that_are_no_longer_there(tmp_path, run):
    folder = tmp_path / "kb"
    folder.mkdir()
    call = ("world", folder, "--entities", 120, "-q", "--shards")
    assert run(*call, 3)[0] == 0
    (folder / "notes.txt").write_text("mine")
    assert run(*call, 2)[0] == 2
    assert run(*call, 2, "--force")[0] == 0
    shards = {f"part-0000{n}.jsonl{ending}" for n in (0, 1) for ending in ("", ".hidden.tsv", ".members.tsv")}
    assert {file.name for file in folder.iterdir()} == {"notes.txt", *shards}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("kb.ttl",), "kb.ttl: expected a name that ends in .jsonl or .nt, with .gz, .bz2, .zst or without, got 'kb.ttl'."),
        (("there.nt",), "there.nt: exists already. Say --force to replace it."),
        (("there.nt", "--shards", "2", "--force"), "there.nt: cannot be made: file exists."),
        (("kb.jsonl", "--entities", "200", "--shards", "201"), "--shards: expected at most 200 of as many entities, got 201."),
        (("no/kb.jsonl", "--entities", "100"), "no/kb.jsonl: cannot be written: no such file or directory."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_writes_nothing(arguments, complaint, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("there.nt").write_text("")
    status, _, err = run("world", *arguments)
    assert (status, len(err.splitlines())) == (2, 1)
    assert complaint in err
    assert [file.name for file in tmp_path.iterdir()] == ["there.nt"]
