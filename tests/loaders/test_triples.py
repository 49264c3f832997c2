"""Files of triples keep every byte, and new triples are lines after them. Splitting lines at tabs is the judge."""

from __future__ import annotations

import bz2
import gzip
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
import rdflib
from completed import complete, rows
from hypothesis import given
from hypothesis import strategies as st
from tables import for_each

import kbdisk
from kbdisk import Completion, Coordinate, Date, Entity, Filled, KBDiskError, KBDiskWarning, Link, Quantity, Text
from kbdisk.api.source import LoadedSource
from kbdisk.completion.retract import retract, retractable
from kbdisk.completion.sidecar import given_entities
from kbdisk.entity import NOVALUE, read_path, walk
from kbdisk.loaders import Source
from kbdisk.loaders.triples import is_certain
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.kinds import Set

KIN = """ada\tchild\tbyron
ada\tparent\tannabella
byron\tchild\tcaptain jack
ada\tchild\tralph
ralph\tchild\tjudith
judith\tparent\tralph
byron\tparent\tcaptain jack
"""


def load(text, **options):
    return kbdisk.load(text if isinstance(text, bytes) else text.encode(), format="triples", **options)


def trees(text, **options):
    return {entity.id: entity.tree for entity in load(text, **options)}


def by_splitting(data):
    """The triples of a file, in order."""
    text = data.decode("utf-8-sig")
    return [tuple(line.removesuffix("\r").split("\t")) for line in text.removesuffix("\n").split("\n")]


def filling(kb, values):
    """Completions: {id: {path: value}}."""
    return [
        Completion(entity, {read_path(path): Filled(value) for path, value in values[entity.id].items()})
        for entity in kb
        if entity.id in values
    ]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---------------------------------------------------------------- reading


def test_each_head_is_an_entity_and_several_tails_are_a_list():
    entities = list(load(KIN))
    assert [(entity.id, entity.position, entity.classes, entity.label) for entity in entities] == [
        ("ada", 1, (), ""),
        ("byron", 3, (), ""),
        ("ralph", 5, (), ""),
        ("judith", 6, (), ""),
    ]
    assert entities[0].tree == {"child": [Link("byron"), Link("ralph")], "parent": Link("annabella")}


def test_a_tail_that_is_no_head_is_the_target_of_a_link_and_no_entity():
    kb = load(KIN)
    assert "annabella" not in kb
    assert list(kb.graph().in_edges("annabella", keys=True)) == [("ada", "annabella", ("parent",))]


def test_a_name_is_kept_as_it_is():
    text = '\ufeff"quoted\t/film/film./of\tSão "Paulo"\r\n Q1 \ta.b[0]\tx\\n\r\n'
    assert trees(text) == {'"quoted': {"/film/film./of": Link('São "Paulo"')}, " Q1 ": {"a.b[0]": Link("x\\n")}}


def test_a_triple_that_stands_twice_is_read_once_with_a_warning():
    with pytest.warns(KBDiskWarning, match=r"<memory>:2: a triple that stands there already, read once \(2 in all\)"):
        assert trees("a\tr\tb\na\tr\tb\na\tr\tc\na\tr\tc\n") == {"a": {"r": [Link("b"), Link("c")]}}


@for_each(
    ("text", "expected"),
    [
        ("a\th\t1.5\nb\th\t-3\n", [1.5, -3]),
        ("a\th\t1e3\nb\th\t.5\n", [1000.0, 0.5]),
        ("a\th\t1.10000000000000000001\nb\th\t7\n", [Decimal("1.10000000000000000001"), 7]),
        ("a\th\t1\nb\th\tunknown\n", [Link("1"), Link("unknown")]),
        ("a\th\t007\nb\th\t8\n", [Link("007"), Link("8")]),
        ("a\th\t1,5\nb\th\t2\n", [Link("1,5"), Link("2")]),
        ("a\th\tb\nb\th\t2\n", [Link("b"), Link("2")]),
        ("1\th\t3\n2\th\t4\n", [Link("3"), Link("4")]),  # ids are numbers
        ("1\th\t3\nb\th\t4\n", [Link("3"), Link("4")]),
        ("1\th\t 3\n2\th\t4\n", [Link(" 3"), Link("4")]),
        ("1\th\t3.25\n2\th\t4\n", [3.25, 4]),
        ("1\th\t2.5\n2.5\th\t4\n", [Link("2.5"), Link("4")]),
    ],
)
def test_tails_are_numbers_where_all_of_a_relation_are_numerals_and_cannot_be_ids(text, expected):
    values = [tree["h"] for tree in trees(text).values()]
    assert values == expected
    assert list(map(type, values)) == list(map(type, expected))


@for_each(
    ("text", "complaint"),
    [
        ("a\tr\tb\n\n", "<memory>:2: expected head, relation and tail between tabs, got a blank line. "),
        ("a\tr\tb\na r b\n", "<memory>:2: expected head, relation and tail between tabs, got one column. "),
        ("a\tr\tb\tc\n", "<memory>:1: expected head, relation and tail between tabs, got 4 columns. "),
        ("a\tr\tb\na\t \tb", "<memory>:2: expected head, relation and tail, got a blank one. "),
        (b"a\tr\tb\na\tr\t\xe9\n", "<memory>:2: expected UTF-8, got the byte 0xE9. "),
        ("a\tr\tb\0\n", "<memory>:1: expected text, got a NUL byte. "),
        ("a\t@type\tb\n", "<memory>:1: expected a relation without @ at its start, got '@type'. "),
    ],
)
def test_a_line_that_is_no_triple_is_one_line_of_error_with_its_number(text, complaint):
    with pytest.raises(KBDiskError) as error:
        list(load(text))
    assert str(error.value).startswith(complaint)
    assert "\n" not in str(error.value)


def test_skip_errors_leaves_out_bad_lines_alone_and_keeps_their_bytes():
    text = "a\tr\tb\n\nx y\na\tr\tc\n"
    kb = load(text, skip_errors=True)
    assert [entity.tree for entity in kb] == [{"r": [Link("b"), Link("c")]}]
    assert [error.line for error in kb.skipped] == [2, 3]
    Path("kb.txt").write_text(text)
    kb = kbdisk.load("kb.txt", format="triples", skip_errors=True)
    kbdisk.write(filling(kb, {"a": {"s": Link("d")}}), "out.txt")
    assert Path("out.txt").read_text() == text + "a\ts\td\n"


def test_a_first_line_that_looks_like_a_header_is_read_with_a_warning():
    with pytest.warns(KBDiskWarning, match="<memory>:1: the first line looks like a header"):
        assert trees("Head\trelation\ttail\na\tr\tb\n")["Head"] == {"relation": Link("tail")}


def test_classes_are_refused():
    with pytest.raises(KBDiskError, match="triples have none"):
        load(KIN, classes=["Person"])


# ---------------------------------------------------------------- recognising


def certain(text):
    return is_certain(Source(text if isinstance(text, bytes) else text.encode(), "kb.tsv"))


def test_a_file_whose_first_names_recur_each_in_its_role_is_one_of_triples():
    for name in ("kb.txt", "kb.tsv", "kb.tsv.gz"):
        data = KIN.encode()
        Path(name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        assert kbdisk.load(name).format == "triples"
    assert kbdisk.load("kb.tsv", format="tsv").format == "tsv"


@for_each(
    "text",
    [
        "",
        "a\tr\tb\n",
        "head\trelation\ttail\n" + KIN,  # a header
        "id\tname\tparent\n1\ta\t2\n2\tb\t1\n3\tb\t1\n",
        "id\tkind\tparent\n1\tx\t2\n2\tx\t1\nid\tkind\tparent\n3\tx\t1\n",  # and again in the middle
        "A\tB\tC\nB\tB\tA\nC\tB\tA\nA\tB\tB\n",  # a relation that is a head
        KIN + "\n",
        KIN + "a\tb\n",
        KIN.replace("\t", " "),
        KIN.encode("utf-16"),
    ],
)
def test_what_may_be_a_table_is_not_taken_for_triples(text):
    assert not certain(text)


cells = st.sampled_from(["a", "b", "c", "1", "2", "x y", "name", "id"])


@given(
    st.lists(st.sampled_from(["id", "name", "kind", "parent", "of"]), min_size=3, max_size=3, unique=True),
    st.lists(st.tuples(cells, cells.filter(lambda cell: cell not in ("id", "name")), cells), max_size=30),
)
def test_a_header_whose_second_name_is_no_cell_of_its_column_is_never_a_triple(header, table):
    text = "".join("\t".join(row) + "\n" for row in [header, *table])
    assert not certain(text)


def test_a_text_file_that_is_not_certain_needs_its_format():
    Path("kb.txt").write_text("a\tr\tb\n")
    with pytest.raises(KBDiskError, match="the name does not tell the format"):
        kbdisk.load("kb.txt")
    assert [entity.id for entity in kbdisk.load("kb.txt", format="triples")] == ["a"]


# ---------------------------------------------------------------- completing

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6).filter(str.strip)
relations = words.filter(lambda name: not name.startswith("@"))
names = words | st.sampled_from(["a", "b", "c", "1", "2.5", "-3"])


@st.composite
def files(draw):
    """The bytes of a file of triples, and links that it lacks, by head and relation."""
    triples = draw(st.lists(st.tuples(names, relations, names), min_size=1, max_size=8, unique=True))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join("\t".join(triple) for triple in triples) + draw(st.sampled_from([end, ""]))
    heads = sorted({head for head, _, _ in triples})
    taken = {(head, relation) for head, relation, _ in triples}
    new = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(heads), relations).filter(lambda place: place not in taken),
            st.lists(words.map(lambda name: f"x{name}"), min_size=1, max_size=3, unique=True),
            max_size=4,
        )
    )
    numbers = {relation for _, relation, _ in triples} & {relation for _, relation in new}
    new = {place: tails for place, tails in new.items() if place[1] not in numbers}
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode(), new


def values_of(new):
    values = {}
    for (head, relation), tails in new.items():
        links = [Link(tail) for tail in tails]
        values.setdefault(head, {})[kbdisk.entity.show((relation,))] = links if len(links) > 1 else links[0]
    return values


@given(files(), st.sampled_from(["", ".gz", ".bz2"]), st.booleans())
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_new_triples_follow_the_given_bytes_and_taken_out_again_leave_these(file, packing, in_place):
    given_bytes, new = file
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[packing]
    unpack = {"": bytes, ".gz": gzip.decompress, ".bz2": bz2.decompress}[packing]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, f"kb.txt{packing}")
        source.write_bytes(pack(given_bytes))
        stored = source.read_bytes()
        target = source if in_place else Path(folder, f"done.txt{packing}")
        report = complete_triples(str(source), str(target), values_of(new), in_place=in_place)
        assert (report.written, report.unwritable) == (len(new), [])
        assert target.read_bytes().startswith(stored)
        completed_bytes = unpack(target.read_bytes())
        assert completed_bytes.startswith(given_bytes)
        assert completed_bytes.endswith(b"\n") is given_bytes.endswith(b"\n")
        added = {(head, relation, tail) for (head, relation), tails in new.items() for tail in tails}
        before, after = by_splitting(given_bytes), by_splitting(completed_bytes)
        assert after[: len(before)] == before
        assert set(after[len(before) :]) == added
        assert len(after) == len(before) + len(added)
        kb = kbdisk.load(target, format="triples")
        assert trees(given_bytes) == {entity.id: entity.tree for entity in given_entities(kb)}
        if new:
            assert retract(retractable(kb)) == []
        assert target.read_bytes() == stored


def complete_triples(source, target, values, **how):
    return complete(source, target, values, read_as="triples", **how)


def test_members_of_a_set_are_taken_out_wherever_they_stand():
    Path("kb.txt").write_text(KIN)
    complete(
        "kb.txt", "done.txt", {"ada": {"child[2]": Link("x"), "child[3]": Link("y")}, "ralph": {"child[1]": Link("z")}}
    )
    assert Path("done.txt").read_text() == KIN + "ada\tchild\tx\nada\tchild\ty\nralph\tchild\tz\n"
    ada, _, ralph, _ = given_entities(kbdisk.load("done.txt"))
    assert ada.tree["child"] == [Link("byron"), Link("ralph")]
    assert ada.made == {("child", 2): Link("x"), ("child", 3): Link("y")}
    assert (ralph.tree["child"], ralph.made) == (Link("judith"), {("child", 1): Link("z")})
    shorter = KIN.replace("ada\tchild\tbyron\n", "")
    Path("done.txt").write_text(shorter + "ada\tchild\tx\nada\tchild\ty\nralph\tchild\tz\n")  # by a person
    ada, _, ralph, _ = given_entities(kbdisk.load("done.txt", format="triples"))
    assert (ada.tree["child"], len(ada.made)) == (Link("ralph"), 2)
    assert retract(retractable(kbdisk.load("done.txt", format="triples"))) == []
    assert Path("done.txt").read_text() == shorter


def test_one_filled_link_is_taken_out_and_the_others_stay():
    Path("kb.txt").write_text(KIN.removesuffix("\n"))
    complete("kb.txt", "done.txt", {"judith": {"child": Link("x")}, "byron": {"spouse": [Link("y"), Link("z")]}})
    assert Path("done.txt").read_text() == KIN + "byron\tspouse\ty\nbyron\tspouse\tz\njudith\tchild\tx"
    assert [row["value"] for row in rows("done.txt")] == [[{"@id": "y"}, {"@id": "z"}], {"@id": "x"}]
    assert retract(retractable(kbdisk.load("done.txt"), [("child",)])) == []
    assert Path("done.txt").read_text() == KIN + "byron\tspouse\ty\nbyron\tspouse\tz"
    assert retract(retractable(kbdisk.load("done.txt"))) == []
    assert Path("done.txt").read_text() == KIN.removesuffix("\n")


def test_a_number_and_a_text_are_recorded_as_they_will_be_read():
    text = "a\th\t1.5\nb\tr\tc\nc\tr\td\n"
    Path("kb.txt").write_text(text)
    kb = kbdisk.load("kb.txt", format="triples")
    report = kbdisk.write(
        filling(kb, {"b": {"h": 2, "born": "here"}, "c": {"h": Decimal("0.1"), "s": [Link("x")]}}), "out.txt"
    )
    assert (report.written, report.unwritable) == (4, [])
    assert report.spelt == {
        ("b", ("born",)): Link("here"),
        ("c", ("h",)): 0.1,
        ("c", ("s",)): Link("x"),
    }
    assert Path("out.txt").read_text() == text + "b\th\t2\nb\tborn\there\nc\th\t0.1\nc\ts\tx\n"


@for_each(
    ("path", "value", "reason"),
    [
        ("r", Link("x"), "has a value already"),
        ("r[0]", Link("x"), "has a value already"),
        ("s[1]", Link("c"), "this triple stands there already"),
        ("h", Link("x"), "expected a number as the other tails of the relation"),
        ("s[1]", 5, "expected a link as the other tails of the relation"),
        ("h", [1, Link("x")], "links alone or numbers alone"),
        ("new", Link("5"), "'5' would be read as a number"),
        ("h", Date(1999), "no place for dates"),
        ("new", True, "no place for truths"),
        ("new", Text("a", "en"), "no place for texts"),
        ("new", Quantity(5, "g"), "no place for quantities"),
        ("new", [], "nothing to write"),
        ("new.part", Link("x"), "no place for a part of a value"),
        ("new", Link("a\tb"), "cannot be a name"),
        ("new", Link(" "), "cannot be a name"),
        ("new", Link("\ud800"), "cannot be written as UTF-8"),
    ],
)
def test_a_value_that_would_not_be_read_back_is_reported_and_nothing_is_written(path, value, reason):
    text = "a\tr\tb\na\tr\tc\na\ts\tc\nb\th\t1.5\n"
    Path("kb.txt").write_text(text)
    report = kbdisk.write(filling(kbdisk.load("kb.txt", format="triples"), {"a": {path: value}}), "out.txt", force=True)
    assert report.written == 0
    [(id, _, why_not)] = report.unwritable
    assert id == "a"
    assert reason in why_not
    assert Path("out.txt").read_text() == text


def test_a_whole_number_among_numbers_for_ids_is_refused_as_it_would_be_a_link():
    Path("kb.txt").write_text("1\tr\t2\n2\tr\t3\n2\th\t0.5\n")
    kb = kbdisk.load("kb.txt", format="triples")
    report = kbdisk.write(filling(kb, {"1": {"new": 7, "h": 7}, "2": {"s": 0.25}}), "out.txt")
    assert [why_not for _, _, why_not in report.unwritable] == ["'7' would be read as a link"]
    assert Path("out.txt").read_text().endswith("1\th\t7\n2\ts\t0.25\n")
    assert [entity.tree for entity in kbdisk.load("out.txt", format="triples")] == [
        {"r": Link("2"), "h": 7},
        {"r": Link("3"), "h": 0.5, "s": 0.25},
    ]


# ---------------------------------------------------------------- writing other sources


def test_links_and_plain_numbers_of_a_knowledge_base_are_triples_and_the_rest_is_counted():
    entity = Entity(
        "a",
        {
            "to": [Link("b"), Link("b"), Link("c")],
            "size": 5,
            "gap": None,
            "name": "A",
            "label": Text("A", "en"),
            "born": Date(1999),
            "mass": Quantity(5, "g"),
            "at": Coordinate(1, 2),
            "part": {"to": Link("d")},
            "is": True,
            "none": NOVALUE,
        },
        ("Thing",),
    )
    with pytest.warns(KBDiskWarning) as warned:
        report = kbdisk.write([entity, Entity("b", {"to": Link("a")})], "out.tsv", format="triples")
    assert report.unwritable == []
    assert Path("out.tsv").read_text() == "a\tto\tb\na\tto\tc\na\tsize\t5\nb\tto\ta\n"
    assert str(warned[0].message) == (
        "triples: links and plain numbers are written, and the rest is left out: classes (1), texts (2), dates (1), "
        "quantities (1), coordinates (1), parts (1), truths (1), values known to be unknown or none (1)"
    )


def test_filled_values_of_another_source_are_written_or_reported():
    Path("kb.jsonl").write_text('{"id": "a", "to": {"@id": "b"}}\n')
    completions = filling(kbdisk.load("kb.jsonl"), {"a": {"near": Link("c"), "name": "A", "to": Link("x")}})
    report = kbdisk.write(completions, "out.txt", format="triples")
    assert Path("out.txt").read_text() == "a\tto\tb\na\tnear\tc\n"
    assert report.written == 1
    assert {path for _, path, _ in report.unwritable} == {("name",), ("to",)}
    kbdisk.write(completions, "new.txt", format="triples", only_new=True)
    assert Path("new.txt").read_text() == "a\tnear\tc\n"


def test_a_source_without_links_and_numbers_is_refused_and_nothing_is_written():
    with (
        pytest.warns(KBDiskWarning),
        pytest.raises(KBDiskError, match="triples: expected some links or plain numbers, got none"),
    ):
        kbdisk.write([Entity("a", {"name": "A"})], "out.txt", format="triples")
    assert not Path("out.txt").exists()


@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_the_triples_of_rdf_are_its_links_by_rdflib():
    turtle = Path(__file__).parents[2] / "examples" / "elements.ttl"
    kb = kbdisk.load(turtle)
    kbdisk.write(kb, "out.tsv", format="triples")
    written = by_splitting(Path("out.tsv").read_bytes())
    links = {(head, tail) for head, _, tail in written if not is_numeral(tail)}
    graph = rdflib.Graph().parse(turtle)
    assert links == {
        (str(subject), str(object))
        for subject, predicate, object in graph
        if predicate != rdflib.RDF.type and isinstance(subject, rdflib.URIRef) and isinstance(object, rdflib.URIRef)
    }
    again = {entity.id: entity.tree for entity in kbdisk.load("out.tsv", format="triples")}
    for entity in kb:
        for key, value in entity.tree.items():
            if isinstance(value, Link):
                assert again[entity.id][key] == value


def is_numeral(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


@given(
    st.dictionaries(
        words.map(lambda id: f"x{id}"),
        st.dictionaries(
            relations, st.lists(words.map(lambda id: Link(f"y{id}")), min_size=1, max_size=3, unique=True), max_size=3
        ),
        min_size=1,
        max_size=5,
    )
)
def test_links_come_back_as_they_were_written(by_id):
    entities = [
        Entity(id, {key: links if len(links) > 1 else links[0] for key, links in tree.items()})
        for id, tree in by_id.items()
        if tree
    ]
    if entities:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "out.txt")
            kbdisk.write(entities, target, format="triples")
            assert trees(target.read_bytes()) == {entity.id: entity.tree for entity in entities}


def test_members_of_a_set_are_triples_of_rdf_too_and_no_collection():
    Path("kb.txt").write_text(KIN)
    kb = kbdisk.load("kb.txt")
    kbdisk.write(kb, "out.ttl")
    assert {entity.id: entity.tree for entity in kbdisk.load("out.ttl")} == trees(KIN)
    assert len(rdflib.Graph().parse("out.ttl")) == len(by_splitting(KIN.encode()))
    filled = filling(kb, {"ada": {"child[2]": Link("x")}})
    kbdisk.write(filled, "new.nt", only_new=True)
    assert [entity.tree for entity in kbdisk.load("new.nt")] == [{"child": Link("x")}]


# ---------------------------------------------------------------- real files

CODEX = [f"codex-s-{part}.txt.gz" for part in ("train", "valid", "test", "valid_negatives", "test_negatives")]


@pytest.mark.shared
@for_each("name", CODEX)
def test_codex_is_read_inferred_and_kept_to_the_byte(name, data, tmp_path):
    source, target = data / "kb" / "codex" / name, tmp_path / name
    kb = kbdisk.load(source)
    given_triples = by_splitting(gzip.decompress(source.read_bytes()))
    links = {
        (entity.id, key, link.id)
        for entity in kb
        for key, value in entity.tree.items()
        for link in (value if isinstance(value, list) else [value])
    }
    assert links == set(given_triples)
    properties = kbdisk.infer(kb).schema.classes[""].properties
    kinds = {str(path[0]): property.kind for path, property in properties.items()}
    several = {key for entity in kb for key, value in entity.tree.items() if isinstance(value, list)}
    assert {relation for relation, kind in kinds.items() if isinstance(kind, Set)} >= several
    assert {type(getattr(kind, "of", kind)) for kind in kinds.values()} == {LinkKind}
    kbdisk.write(kb, target)
    assert target.read_bytes() == source.read_bytes()
    first = next(iter(kb))
    kbdisk.write([Completion(first, {("new",): Filled(Link("Q1"))})], target, force=True)
    assert target.read_bytes().startswith(source.read_bytes())
    assert by_splitting(gzip.decompress(target.read_bytes())) == [*given_triples, (first.id, "new", "Q1")]


def test_several_files_of_triples_are_one(tmp_path):
    parts = ("a\tr\tb\na\ts\tb\nb\tr\tc\n", "a\tr\tc\na\tr\tb\nd\tr\ta\n")
    files = [tmp_path / name for name in ("train.txt", "valid.txt")]
    for file, text in zip(files, parts, strict=True):
        file.write_text(text)
    loaded = LoadedSource.of([kbdisk.load(file, format="triples") for file in files])
    found = {(entity.id, path[0], value.id) for entity in loaded.entities for path, value in walk(entity.tree)}
    assert found == {tuple(line.split("\t")) for text in parts for line in text.splitlines()}


def test_triples_with_a_number_in_a_fourth_column_are_a_table_and_say_so(tmp_path):
    lines = [f"n{k}\tnext\tn{(k + 1) % 9}\t0.{k}\n" for k in range(9)]
    source = tmp_path / "uncertain.tsv"
    source.write_text("".join(lines))
    with pytest.warns(KBDiskWarning, match="cut -f 1-3"):
        assert kbdisk.load(source).format == "tsv"
    source.write_text("a\tb\tc\td\n" + "".join(lines))  # a table with a header
    kbdisk.load(source)
