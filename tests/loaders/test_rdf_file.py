"""RDF files: compressed or not, with faults or our own blocks in them, and the real ones."""

from __future__ import annotations

import bz2
import gzip

import pyoxigraph
import pytest
from tables import for_each

from kbdisk.entity import Completion, Filled, Link, Quantity, walk
from kbdisk.errors import KBDiskWarning, LoadError
from kbdisk.loaders import load, write
from kbdisk.loaders.rdf import file, stream

E = b"@prefix : <http://e/> .\n"
A, B, P = b"<http://e/a>", b"<http://e/b>", b"<http://e/p>"
LINES = b'<http://e/a> <http://e/p> "1" .\n<http://e/b> <http://e/p> "2" .\n'
DOCUMENTS = {
    "a.ttl": E + b":a :p '1' . :b :p '2' .",
    "a.trig": E + b":g { :a :p '1' } :b :p '2' .",
    "a.nt": LINES,
    "a.nq": LINES,
    "a.n3": E + b':a :p "1" . {} => {} . :b :p "2" .',
    "a.jsonld": b'[{"@id": "http://e/a", "http://e/p": "1"}, {"@id": "http://e/b", "http://e/p": "2"}]',
    "a.rdf": b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
    b'<rdf:Description rdf:about="http://e/a" e:p="1"/><rdf:Description rdf:about="http://e/b" e:p="2"/></rdf:RDF>',
}


def zstd(data):
    return pytest.importorskip("zstandard").compress(data)


def trees(kb):
    return {entity.id.removeprefix("http://e/"): entity.tree for entity in kb}


# ---------------------------------------------------------------- where the bytes come from


@for_each("name", DOCUMENTS)
@for_each("compress", [bytes, gzip.compress, bz2.compress, zstd], ids=["plain", "gz", "bz2", "zst"])
@for_each("mark", [b"", b"\xef\xbb\xbf"], ids=["", "marked"])
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_every_syntax_is_read_compressed_or_not_with_a_byte_order_mark_or_without(name, compress, mark, tmp_path):
    path = tmp_path / name
    path.write_bytes(compress(mark + DOCUMENTS[name]))
    expected = {"a": {"p": "1"}, "b": {"p": "2"}}
    kb = load(path)
    assert trees(kb) == trees(kb) == expected
    assert trees(load(path.read_bytes(), format=kb.format)) == expected
    seen = []
    assert trees(load(path, progress=lambda *how_far: seen.append(how_far))) == expected
    assert seen


def test_a_mark_is_one_wherever_lines_are_streamed(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "LARGE_FILE", 0)
    assert trees(load(b"\xef\xbb\xbf" + LINES, format="ntriples")) == {"a": {"p": "1"}, "b": {"p": "2"}}
    bad = load(b"\xef\xbb\xbf" + LINES + b"rubbish", format="ntriples")
    with pytest.raises(LoadError, match=r"^<memory>:3: "):
        list(bad)


@for_each("large", [True, False])
def test_a_compressed_file_that_ends_in_the_middle_is_one_line(large, tmp_path, monkeypatch):
    if large:
        monkeypatch.setattr(stream, "LARGE_FILE", 0)
    path = tmp_path / "a.nt.gz"
    path.write_bytes(gzip.compress(LINES * 50_000)[:-20])
    with pytest.raises(LoadError, match=r"a\.nt\.gz: the compressed file ends in the middle"):
        list(load(path))


def test_a_file_that_is_gone_or_a_directory_is_one_line(tmp_path):
    with pytest.raises(LoadError, match=r"a\.ttl: no such file\."):
        load(tmp_path / "a.ttl")
    (tmp_path / "d.ttl").mkdir()
    with pytest.raises(LoadError, match="expected a file, got a directory"):
        load(tmp_path / "d.ttl")
    path = tmp_path / "b.ttl"
    path.write_bytes(DOCUMENTS["a.ttl"])
    kb = load(path)
    path.unlink()
    with pytest.raises(LoadError, match=r"b\.ttl"):
        list(kb)


def test_prefixes_and_base_in_force_at_the_end_are_told():
    text = b"@prefix a: <http://1/> . @base <http://1/> . <s> a:p 1 . @prefix a: <http://2/> . @base <http://2/> ."
    kb = load(text, format="turtle")
    list(kb)
    assert (kb.prefixes, kb.base) == ({"a": "http://2/"}, "http://2/")


# ---------------------------------------------------------------- faults that are skipped


def test_nothing_but_lines_can_be_skipped():
    for name in ("a.ttl", "a.trig", "a.jsonld", "a.rdf"):
        text = DOCUMENTS[name].replace(b":b", b"]:b").replace(b'"2"}', b"2")[:-1]
        with pytest.raises(LoadError, match=r"^<memory>"):
            list(load(text, format=load(DOCUMENTS[name], format=_format(name)).format, skip_errors=True))


def _format(name):
    return {"a.ttl": "turtle", "a.trig": "trig", "a.jsonld": "jsonld", "a.rdf": "rdfxml"}[name]


@for_each("format", ["ntriples", "nquads"])
@for_each("few", [2, 3, 200])
def test_lines_that_are_no_statements_are_skipped_and_named(format, few, monkeypatch):
    monkeypatch.setattr(file, "MAX_LINES_TRIED", few)
    bad = {
        2: b"rubbish",
        5: b"<http://e/a> <http://e/p> <rel> .",
        6: b'<http://e/a> <http://e/p> "x"@e_n .',
        7: b'<http://e/a> <http://e/p> "\\uD800" .',
        8: b'<http://e/a> <http://e/p> "\xff" .',
        9: b'<http://e/a> <http://e/p> "no end',
        12: b"<http://e/a> <http://e/p> .",
    }
    good = {
        1: b'<http://e/a> <http://e/p> "1" .', 3: b"", 4: b"# fine",
        10: b'<http://e/a> <http://e/p> "10" .', 11: b'_:x <http://e/p> "11" .',
    }  # fmt: skip
    rows = [(bad | good)[n] for n in range(1, 13)]
    for end in (b"\n", b"\r\n"):
        kb = load(end.join(rows), format=format, skip_errors=True)
        assert trees(kb) == {"a": {"p": ["1", "10"]}, "_:x": {"p": "11"}}
        assert [error.line for error in kb.skipped] == list(bad)
        assert all(error.source == "<memory>" for error in kb.skipped)
        assert len(list(kb)) == 2
        assert len(kb.skipped) == len(bad)  # and not twice as many after a second reading


def test_without_skipping_the_first_fault_ends_it():
    with pytest.raises(LoadError, match=r"^<memory>:3: "):
        list(load(LINES + b"rubbish\n" + LINES + b"rubbish", format="ntriples"))


def test_many_faults_are_all_named():
    text = b"\n".join(b"rubbish" if n % 7 == 0 else b'<http://e/%d> <http://e/p> "x" .' % n for n in range(5000))
    kb = load(text, format="ntriples", skip_errors=True)
    assert len(list(kb)) == 5000 - 715
    assert [error.line for error in kb.skipped] == [n + 1 for n in range(0, 5000, 7)]


# ---------------------------------------------------------------- classes


@for_each("wanted", ["T", "http://e/T"])
def test_one_class_can_be_asked_for(wanted):
    kb = load(E + b":a a :T ; :p 1 . :b a :U . :c a :U, :T . :d :p 1 .", format="turtle", classes=[wanted])
    assert [entity.id[-1] for entity in kb] == ["a", "c"]
    assert [entity.position for entity in kb] == [1, 3]


def test_a_class_that_nobody_has_gives_no_entities():
    assert list(load(E + b":a a :T .", format="turtle", classes=["V"])) == []


# ---------------------------------------------------------------- what we wrote before


@for_each("name", ["a.ttl", "a.trig", "a.nt", "a.nq"])
def test_values_of_an_earlier_completion_are_made_and_not_given(name, tmp_path):
    source, target = tmp_path / name, tmp_path / f"out-{name}"
    source.write_bytes(
        DOCUMENTS[name].replace(b":b :p '2'", b":b :p '2' ; :q 7").replace(LINES, LINES + B + b' <http://e/q> "7" .\n')
    )
    first = next(iter(load(source)))
    report = write([Completion(first, {("q",): Filled(8)})], target)
    assert report.written == 1
    found = {entity.id[-1]: entity for entity in load(target)}
    assert found["a"].tree == {"p": "1"}
    assert list(found["a"].made) == [("q",)]
    assert not found["b"].made


@for_each("name", ["kb.ttl", "kb.n3", "kb.nt"])
def test_entities_of_a_block_alone_are_not_read_and_told_as_is_a_block_without_its_end(name, tmp_path):
    line = "<http://e/{}> <http://e/p> 1 .\n".replace("1", '"1"')
    text = line.format("a") + "# kbdisk: begin\n" + line.format("b") + "# kbdisk: end\n" + line.format("c")
    (tmp_path / name).write_text(text)
    kb = load(tmp_path / name)
    with pytest.warns(KBDiskWarning, match="http://e/b: an entity that stands in a block of kbdisk alone, not read"):
        assert [entity.id for entity in kb] == ["http://e/a", "http://e/c"]
    (tmp_path / name).write_text(text.replace("# kbdisk: end\n", ""))
    kb = load(tmp_path / name)
    with pytest.warns(KBDiskWarning) as told:
        assert [entity.id for entity in kb] == ["http://e/a"]
    assert f'{name}:2: a block of kbdisk without its line "# kbdisk: end"' in str(told[0].message)
    assert list(kb.odd.counts.values()) == [1, 2]


@for_each("suffix", ["jsonl", "csv", "parquet", "trig"])
@for_each("large", [stream.LARGE_FILE, 1])
def test_names_of_graphs_that_a_format_cannot_say_are_told(suffix, large, tmp_path, monkeypatch, recwarn):
    monkeypatch.setattr(stream, "LARGE_FILE", large)
    line = "<http://e/a> <http://e/p> {}.\n"
    for name, text in (("one", line.format("1 ")), ("two", line.format("1 ") + line.format("2 <http://e/g>"))):
        (tmp_path / f"{name}.nq").write_text(text.replace("1", '"1"').replace("2", '"2"'))
        write(load(tmp_path / f"{name}.nq"), tmp_path / f"{name}.{suffix}")
    told = [str(one.message) for one in recwarn]
    assert [("two" in one, "the names of graphs are left out" in one) for one in told] == [(True, True)] * (
        suffix != "trig"
    )


def test_a_block_in_a_bracket_is_made_too(tmp_path):
    source, target = tmp_path / "a.ttl", tmp_path / "b.ttl"
    source.write_bytes(E + b":a :part [ :p 1 ] . :b :part [ :p 2 ; :q 3 ] .")
    first = next(iter(load(source)))
    report = write([Completion(first, {("part", "q"): Filled(4)})], target, insert=True)
    assert (report.written, report.unwritable) == (1, [])
    found = {entity.id[-1]: entity for entity in load(target)}
    assert found["a"].tree == {"part": {"@id": "_:[0]", "p": 1}}
    assert found["a"].made == {("part", "q"): 4}


# ---------------------------------------------------------------- real data


@pytest.fixture(scope="module")
def mondial(data):
    return data / "rdf" / "mondial"


def counted(path, query):
    """An answer of plain SPARQL over a file."""
    store = pyoxigraph.Store()
    store.bulk_load(path=str(path), format=pyoxigraph.RdfFormat.TURTLE)
    return int(next(iter(store.query(query)))[0].value)


@pytest.mark.shared
def test_mondial_has_the_entities_that_sparql_counts(mondial):
    path = mondial / "mondial-europe.n3"
    kb = load(path)
    found = list(kb)
    ids = {entity.id for entity in found}
    assert len(ids) == len(found)
    things = counted(path, "SELECT (count(DISTINCT ?s) AS ?n) { ?s ?p ?o FILTER(isIRI(?s)) }")
    assert sum(not id.startswith("_:") for id in ids) == things
    shared = """SELECT (count(*) AS ?n) { SELECT ?b { ?s ?p ?b . ?b ?q ?o FILTER(isBlank(?b)) }
                GROUP BY ?b HAVING (count(DISTINCT ?s) > 1) }"""
    alone = "SELECT (count(DISTINCT ?b) AS ?n) { ?b ?q ?o FILTER(isBlank(?b)) FILTER NOT EXISTS { ?s ?p ?b } }"
    assert sum(id.startswith("_:") for id in ids) == counted(path, shared) + counted(path, alone)


@pytest.mark.shared
def test_mondial_keeps_every_literal(mondial):
    path = mondial / "mondial-europe.n3"
    values = sum(not isinstance(value, Link) for entity in load(path) for _, value in walk(entity.tree))
    literals = counted(path, "SELECT (count(*) AS ?n) { ?s ?p ?o FILTER(isLiteral(?o)) }")
    pairs = counted(
        path,
        "PREFIX geo: <http://www.w3.org/2003/01/geo/wgs84_pos#> SELECT (count(*) AS ?n) { ?s geo:lat ?a ; geo:long ?b }",
    )
    assert values == literals - pairs


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_mondial_streamed_is_mondial_in_memory(mondial, monkeypatch):
    path = mondial / "mondial-europe.nt.gz"
    monkeypatch.setattr(stream, "LARGE_FILE", 1 << 40)
    whole = {entity.id: entity for entity in load(path)}
    monkeypatch.setattr(stream, "LARGE_FILE", 0)
    monkeypatch.setattr(stream, "BLOCK_SIZE", 1 << 16)
    kb = load(path)
    assert stream.is_streamed(kb)
    streamed = {entity.id: entity for entity in kb}
    assert streamed == whole
    assert len(whole) > 1000


@pytest.mark.shared
def test_composites_of_mondial_are_parts_of_their_cities(mondial):
    city = next(entity for entity in load(mondial / "mondial-europe.n3") if "Tiran" in entity.id)
    parts = city.tree["hadPopulation"]
    assert {"@id", "@type", "year", "value"} <= parts[0].keys()
    assert all(part["@type"][0].endswith("PopulationCount") for part in parts)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_all_real_files_are_read_twice_the_same(data):
    paths = [path for path in sorted((data / "rdf").glob("*/*")) if path.stat().st_size < 300_000]
    assert len(paths) > 8
    for path in paths:
        kb = load(path)
        first = list(kb)
        assert first, path
        assert first == list(load(path))


def test_a_quantity_in_a_stream_is_what_it_is_in_memory(monkeypatch):
    rdf, qudt = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#", b"http://qudt.org/schema/qudt/"
    rows = [
        A + b" " + P + b" _:v .",
        b"_:v <" + rdf + b"type> <" + qudt + b"QuantityValue> .",
        b"_:v <" + qudt + b'numericValue> "1.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .',
        b"_:v <" + qudt + b"unit> <http://e/g> .",
    ]
    monkeypatch.setattr(stream, "LARGE_FILE", 0)
    monkeypatch.setattr(stream, "BLOCK_SIZE", 1)
    assert trees(load(b"\n".join(rows), format="ntriples")) == {"a": {"p": Quantity(1.5, "http://e/g")}}
    assert trees(load(b"\n".join(rows[1:3] + rows[:1] + rows[3:]), format="ntriples")) == {
        "a": {"p": Quantity(1.5, "http://e/g")}
    }
