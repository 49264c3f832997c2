"""Round trips over real knowledge bases: with nothing filled the same bytes; with one value filled, that one value more."""

from __future__ import annotations

import gzip
from bisect import bisect_left

import pytest
from judges import by_rdflib, by_tools, canonical, quads
from tables import for_each

import kbdisk
from kbdisk.entity import NOVALUE, Completion, Date, Filled, Link

pytestmark = [pytest.mark.shared, pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")]

RDF = {  # file -> a property that some entity lacks; None where nothing can be said
    "mondial/mondial-europe.n3": "population",
    "mondial/mondial-europe.nt.gz": "population",
    "mondial/mondial-meta.n3": "subPropertyOf",
    "mondial/mondial-sameas.n3": "http://ex.org/size",
    "wikidata/Q42.ttl": "P9999",
    "wikidata/Q24628793.ttl": "P2048",
    "wikibase_fixtures/truthy-dump-entities.nt": None,
    "wikibase_fixtures/Q4_props.nt": None,
    "wikibase_fixtures/Q4_statements.nt": None,
    "wikibase_fixtures/Q4_values.nt": None,
    "wikibase_fixtures/Q7_values.nt": "P9999",
    "wikibase_fixtures/Q8_baddates.nt": "P9999",
    "wikibase_fixtures/full-dump-entities.nt": None,
    "wikibase_fixtures/refs.nt": "P9999",
}


def read(path):
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def format_of(path):
    return {"n3": "n3", "ttl": "turtle", "nt": "ntriples", "gz": "ntriples"}[path.suffix[1:]]


def lacking(entities, key):
    return next(
        entity for entity in entities if key not in entity.tree and entity.tree and not entity.id.startswith("_:")
    )


def some_value(kb, key):
    """A value that another entity has."""
    found = next(
        (entity.tree[key] for entity in kb if key in entity.tree and not isinstance(entity.tree[key], list | dict)), 7
    )
    return found if not isinstance(found, Date) else Date(1990, 1, 1)


@for_each("name", RDF)
def test_with_nothing_filled_every_byte_of_rdf_is_the_same(name, data, tmp_path):
    source = data / "rdf" / name
    kb = kbdisk.load(source)
    target = tmp_path / source.name
    kbdisk.write(kb, target)
    assert target.read_bytes() == source.read_bytes()
    kbdisk.write((Completion(entity) for entity in kb), target, force=True)
    assert target.read_bytes() == source.read_bytes()


LARGE = ("mondial/mondial-europe.n3", "mondial/mondial-europe.nt.gz")
JUDGED = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name, key in RDF.items() if key]


@pytest.mark.parametrize("name", JUDGED)
def test_one_value_filled_is_one_triple_more_and_nothing_is_lost(name, data, tmp_path):
    source, key = data / "rdf" / name, RDF[name]
    entities = list(kbdisk.load(source))
    entity, value = lacking(entities, key), some_value(entities, key)
    target = tmp_path / source.name
    report = kbdisk.write([Completion(entity, {(key,): Filled(value)})], target)
    assert (report.written, report.unwritable) == (1, [])
    assert target.read_bytes().startswith(source.read_bytes())
    before, after, format = read(source), read(target), format_of(source)
    *rest, new = quads(after, format)
    assert canonical(rest) == canonical(quads(before, format))
    assert new.subject.value == entity.id
    assert new.predicate.value.endswith(key)
    [again] = [one for one in kbdisk.load(target) if one.id == entity.id]
    assert again.made == {(key.rpartition("/")[2],): value}
    twice = tmp_path / f"twice-{source.name}"
    report = kbdisk.write([Completion(again, {(key,): Filled(value)})], twice)
    assert report.written == 0
    assert twice.read_bytes() == target.read_bytes()


@for_each("name", ["mondial/mondial-meta.n3", "wikidata/Q24628793.ttl", "wikibase_fixtures/Q8_baddates.nt"])
def test_others_read_the_same_in_it(name, data, tmp_path):
    source, key = data / "rdf" / name, RDF[name]
    kb = kbdisk.load(source)
    entity, value = lacking(kb, key), some_value(kb, key)
    kbdisk.write([Completion(entity, {(key,): Filled(value)})], tmp_path / "out", format=kb.format)
    before, after, format = read(source), (tmp_path / "out").read_bytes(), format_of(source)
    assert len(by_rdflib(after, format)) == len(by_rdflib(before, format)) + 1
    known = by_tools(before, format, tmp_path)
    for tool, found in by_tools(after, format, tmp_path).items():
        assert len(found) == len(known[tool]) + 1, tool


@for_each("name", [name for name, key in RDF.items() if not key])
def test_a_wikibase_without_truthy_triples_is_never_given_statements(name, data, tmp_path):
    source = data / "rdf" / name
    kb = kbdisk.load(source)
    entity = next(iter(kb))
    target = tmp_path / "out.nt"
    report = kbdisk.write([Completion(entity, {("P99999",): Filled(5)})], target)
    assert (report.written, len(report.unwritable)) == (0, 1)
    assert target.read_bytes() == source.read_bytes()


@pytest.mark.slow
def test_a_population_of_mondial_takes_the_form_of_the_others(data, tmp_path):
    source = data / "rdf" / "mondial" / "mondial-europe.n3"
    kb = kbdisk.load(source)
    entity = next(
        one for one in kb if "hadPopulation" not in one.tree and "population" not in one.tree and "name" in one.tree
    )
    values = {("hadPopulation", 0, "year"): Filled(Date(1990)), ("hadPopulation", 0, "value"): Filled(4711)}
    report = kbdisk.write([Completion(entity, values)], tmp_path / "out.ttl")
    assert (report.written, report.unwritable) == (2, [])
    *rest, owner, kind, year, value = quads((tmp_path / "out.ttl").read_bytes())
    assert canonical(rest) == canonical(quads(source.read_bytes()))
    known = {quad.subject: quad for quad in rest if quad.predicate.value.endswith("#type")}
    like = next(quad for quad in rest if quad.predicate == owner.predicate)
    assert (owner.subject.value, kind.subject, year.subject, value.subject) == (entity.id, *[owner.object] * 3)
    assert kind.object == known[like.object].object
    kinds = {
        (quad.predicate, quad.object.datatype)
        for quad in rest
        if quad.subject == like.object and hasattr(quad.object, "datatype")
    }
    assert {(one.predicate, one.object.datatype) for one in (year, value)} == kinds


@pytest.mark.slow
def test_mondial_goes_to_other_syntaxes_with_every_triple(data, tmp_path):
    source = data / "rdf" / "mondial" / "mondial-europe.nt.gz"
    kb = kbdisk.load(source)
    expected = canonical(quads(read(source), "ntriples"))
    kbdisk.write(kb, tmp_path / "out.ttl")
    assert canonical(quads((tmp_path / "out.ttl").read_bytes())) == expected


def test_a_wikibase_goes_to_other_syntaxes_with_every_triple(data, tmp_path):
    source = data / "rdf" / "wikidata" / "Q42.ttl"
    kbdisk.write(kbdisk.load(source), tmp_path / "out.rdf")
    assert canonical(quads((tmp_path / "out.rdf").read_bytes(), "rdfxml")) == canonical(quads(read(source)))


def test_some_items_of_a_wikibase_stay_one(data, tmp_path):
    kb = kbdisk.load(data / "rdf" / "wikidata" / "Q42.ttl")
    first = kb["http://www.wikidata.org/entity/Q42"]
    kbdisk.write([first], tmp_path / "out.ttl")
    again = kbdisk.load(tmp_path / "out.ttl")[first.id]
    assert again.classes == first.classes
    assert again.label == first.label
    links = {key: value for key, value in first.tree.items() if isinstance(value, Link)}
    assert len(links) > 10
    assert {key: again.tree[key] for key in links} == links


# ---------------------------------------------------------------- JSON and tables


TEXTS = {  # file -> a path that some entity lacks, and a value
    "json/countries.json": (("gini", "1999"), 33.5),
    "json/nobel_laureates.json": (("diedCity",), "Uppsala"),
    "json/nobel_prizes.json": (("overallMotivation",), "for peace"),
    "gsm/gsm_processed.csv": None,
    "nuclear/ground_states.csv": None,
    "nuclear/nuclear_processed.csv": None,
}
LONG = ("gsm/gsm_processed.csv", "nuclear/ground_states.csv")  # test_table.py fills them in each time
KEPT = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in TEXTS]


@pytest.mark.parametrize("name", KEPT)
def test_with_nothing_filled_every_byte_of_text_is_the_same(name, data, tmp_path):
    source = data / name
    kb = kbdisk.load(source)
    target = tmp_path / source.name
    kbdisk.write(kb, target)
    assert target.read_bytes() == source.read_bytes()
    kbdisk.write([Completion(entity) for entity in kb], target, force=True)
    assert target.read_bytes() == source.read_bytes()


def common(one: bytes, other: bytes) -> int:
    """How many bytes two texts begin with alike."""
    return bisect_left(range(1, len(one) + 1), True, key=lambda size: one[:size] != other[:size])


@pytest.mark.parametrize("name", KEPT)
def test_the_filled_value_taken_out_again_leaves_the_text_as_it_was(name, data, tmp_path):
    source = data / name
    kb = kbdisk.load(source)
    if TEXTS[name] is None:
        entity, path = next((one, path) for one in kb for path in one.asked())
        value = next(other.get(path) for other in kb if other.tree.get(path[0]) not in (None, NOVALUE))
    else:
        path, value = TEXTS[name]
        entity = next(one for one in kb if path[0] not in one.tree)
    target = tmp_path / source.name
    report = kbdisk.write([Completion(entity, {path: Filled(value)})], target)
    assert (report.written, report.unwritable) == (1, [])
    before, after = source.read_bytes(), target.read_bytes()
    same, end = common(before, after), common(before[::-1], after[::-1])
    assert len(before) < len(after) < len(before) + 200
    assert before[same : len(before) - end] in (b"", b"nan"), "more than a place without a value was taken out"
    filled = [one for one in kbdisk.load(target) if one.position == entity.position]
    assert [one.get(path) for one in filled] == [value]
    assert kbdisk.write([Completion(filled[0], {path: Filled(value)})], tmp_path / f"twice{source.suffix}").written == 0
    assert (tmp_path / f"twice{source.suffix}").read_bytes() == after


@for_each("name", ["item.json", "property.json", "mock-dump-for-long-testing.json", "sample-dump-20150815.json.gz"])
def test_of_a_wikibase_in_json_new_values_leave_as_quickstatements(name, data, tmp_path):
    kb = kbdisk.load(data / "wikidata_json" / name)
    entity = next(iter(kb))
    report = kbdisk.write([Completion(entity, {("P2048",): Filled(5)})], tmp_path / "out.qs")
    assert report.written == 1
    assert (tmp_path / "out.qs").read_text() == f"{entity.id.rpartition('/')[2]}\tP2048\t5\n"
