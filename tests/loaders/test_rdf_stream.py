"""Large files read entity by entity: the same entities as in memory, however the lines stand, in little memory."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import examples, for_each

from kbdisk.entity import Link
from kbdisk.errors import KBDiskWarning, LoadError
from kbdisk.loaders import load
from kbdisk.loaders.rdf import stream

PLACES = [  # sizes: of a block, of what is set aside in memory
    (1, 1 << 20),
    (1, 0),
    (60, 1 << 20),
    (60, 0),
    (400, 100),
    (1 << 20, 0),
]


def streamed(data, monkeypatch, block=1, few=1 << 20, format="ntriples", **options):
    """The entities of a text that is large, as it were."""
    monkeypatch.setattr(stream, "LARGE_FILE", 0)
    monkeypatch.setattr(stream, "BLOCK_SIZE", block)
    monkeypatch.setattr(stream, "MAX_BYTES_IN_MEMORY", few)
    monkeypatch.setattr(stream, "MAX_NAMES_AT_ONCE", few)
    monkeypatch.setattr(stream, "ENTITIES_PER_BATCH", 2)
    kb = load(data, format=format, **options)
    assert stream.is_streamed(kb)
    return kb


def in_memory(data, monkeypatch, format="ntriples", **options):
    """The same, grouped in memory."""
    monkeypatch.setattr(stream, "LARGE_FILE", 1 << 40)
    kb = load(data, format=format, **options)
    assert not stream.is_streamed(kb)
    return kb


def shown(kb):
    """The entities with all that is in them, whatever their order and that of their values.

    Keys are told by their predicates: which of two with the same last word is called by it alone hangs on the order.
    """
    found = [[one.id, sorted(one.classes), one.label, one.graph, _plain(one.tree, kb.names.iris)] for one in kb]
    return sorted(map(json.dumps, found))


def _plain(value, iris):
    if isinstance(value, dict):
        return dict(sorted((iris.get(key, key), _plain(one, iris)) for key, one in value.items()))
    if isinstance(value, list):
        return sorted((_plain(one, iris) for one in value), key=str)
    return repr(value)


def line(subject, predicate, object, graph=""):
    return f"{subject} {predicate} {object} {graph}."


# ---------------------------------------------------------------- any graph

SUBJECTS = [*(f"<http://e/{name}>" for name in "abcd"), *(f"_:{name}" for name in ("x", "y", "z", "w.1"))]
PREDICATES = [
    "<http://e/p>",
    r"<http://e/\u0070>",
    "<http://e/q>",
    "<http://o/p>",
    "<http://www.w3.org/2000/01/rdf-schema#label>",
]
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
LITERALS = ['"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a _:x b"', '"<http://e/a>"@en', r'"\" > _:y ."', '""']
TRIPLE_TERMS = [
    "<<( <http://e/a> <http://e/p> _:x)>>",
    "<<(_:y <http://e/p> <<( _:z <http://e/q> _:x )>> )>>",
    '<<( _:w.1 <http://e/q> "a _:y b" )>>',
]
NOTHING = ["", "  ", "# a comment", "# _:x <http://e/a>", "\t"]
SPACES = ["{} {} {} .", "{}{}{}.", "  {}\t{} {}. # _:y", "{} {} {}.#_:y", "{} {}  {}.", "{} {} {} ."]


@st.composite
def lines(draw):
    """A statement in any spelling."""
    subject = draw(st.sampled_from(SUBJECTS))
    special = st.sampled_from([f"<{RDF}type>", f"<{RDF}first>", f"<{RDF}rest>"])
    predicate = draw(st.sampled_from(PREDICATES) | special)
    objects = st.sampled_from([*SUBJECTS, f"<{RDF}nil>", "<http://e/T>"])
    if predicate != f"<{RDF}type>":
        objects |= st.sampled_from(LITERALS) | st.sampled_from(TRIPLE_TERMS)
    else:
        objects = st.just("<http://e/T>")
    object = draw(objects)
    if subject == "<http://e/a>" and draw(st.booleans()):
        subject = draw(st.sampled_from([r"<http://e/\u0061>", r"<http://\U00000065/a>"]))
    template = draw(st.sampled_from(SPACES))
    if "}{" in template and (subject.startswith("_:w") or object.startswith("_:w")):
        template = SPACES[0]
    return template.format(subject, predicate, object)


@st.composite
def documents(draw):
    """Statements in any order, often some of one subject together."""
    rows = draw(st.lists(lines() | st.sampled_from(NOTHING), min_size=1, max_size=25))
    if draw(st.booleans()):
        rows.sort(key=lambda row: row.split(">")[0])
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(rows) + draw(st.sampled_from(["", end]))
    return text.encode() or b"\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* a triple within a triple, kept as text")
@for_each(("block", "few"), PLACES)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=documents())
def test_streaming_gives_the_entities_that_memory_gives(block, few, data, monkeypatch):
    assert shown(streamed(data, monkeypatch, block, few)) == shown(in_memory(data, monkeypatch))


GRAPHS = ["", "<http://g/1> ", "<http://g/2> ", "_:g "]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.builds(
            line,
            st.sampled_from(SUBJECTS),
            st.sampled_from(PREDICATES),
            st.sampled_from([*SUBJECTS[:6], *LITERALS]),
            st.sampled_from(GRAPHS),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_named_graphs_are_kept_in_a_stream(rows, monkeypatch):
    data = "\n".join(rows).encode()
    for block, few in PLACES[:4]:
        assert shown(streamed(data, monkeypatch, block, few, "nquads")) == shown(in_memory(data, monkeypatch, "nquads"))


# ---------------------------------------------------------------- by hand


@pytest.fixture(params=PLACES, ids=str)
def place(request):
    return request.param


A, B, C = "<http://e/a>", "<http://e/b>", "<http://e/c>"
P, Q = "<http://e/p>", "<http://e/q>"


def test_a_subject_that_comes_back_later_is_one_entity(place, monkeypatch):
    data = "\n".join([line(A, P, '"1"'), line(B, P, '"2"'), line(C, P, '"3"'), line(A, Q, '"4"')]).encode()
    kb = streamed(data, monkeypatch, *place)
    assert {entity.id[-1]: entity.tree for entity in kb} == {
        "a": {"p": "1", "q": "4"},
        "b": {"p": "2"},
        "c": {"p": "3"},
    }


@pytest.mark.filterwarnings("ignore:.* a triple within a triple, kept as text")
def test_a_blank_node_of_which_a_triple_term_speaks_elsewhere_stays_an_entity(place, monkeypatch):
    told = [line(A, P, "_:x"), line("_:x", Q, '"1"'), line(B, P, '"2"'), line(C, P, f"<<( {A} {P} _:x)>>")]
    entities = {entity.id: entity.tree for entity in streamed("\n".join(told).encode(), monkeypatch, *place)}
    assert entities["http://e/a"] == {"p": Link("_:x")}
    assert entities["_:x"] == {"@id": "_:x", "q": "1"} or entities["_:x"] == {"q": "1"}


def test_entities_that_stand_together_keep_their_order(place, monkeypatch):
    data = "\n".join(line(f"<http://e/{n}>", P, f'"{n}"') for n in (5, 3, 9, 1)).encode()
    assert [entity.tree["p"] for entity in streamed(data, monkeypatch, *place)] == ["5", "3", "9", "1"]


def test_positions_count_up_and_the_source_is_told(place, monkeypatch):
    data = "\n".join(line(f"<http://e/{n % 3}>", P, f'"{n}"') for n in range(9)).encode()
    kb = streamed(data, monkeypatch, *place)
    assert [(entity.position, entity.source) for entity in kb] == [(1, kb), (2, kb), (3, kb)]


def test_a_blank_node_far_from_its_owner_is_still_its_part(place, monkeypatch):
    data = "\n".join([line("_:x", Q, '"in"'), line(B, P, '"2"'), line(A, P, "_:x"), line(C, P, '"3"')]).encode()
    found = {entity.id: entity.tree for entity in streamed(data, monkeypatch, *place)}
    assert found["http://e/a"] == {"p": {"@id": "_:x", "q": "in"}}
    assert "_:x" not in found


def test_a_blank_node_that_two_entities_share_is_an_entity(place, monkeypatch):
    data = "\n".join([line(A, P, "_:x"), line("_:x", Q, '"in"'), line(B, P, "_:x")]).encode()
    assert {entity.id for entity in streamed(data, monkeypatch, *place)} == {"http://e/a", "http://e/b", "_:x"}


def test_a_long_circle_of_blank_nodes_is_read(place, monkeypatch):
    data = "\n".join(line(f"_:n{n}", P, f"_:n{(n + 1) % 50}") for n in range(50)).encode()
    assert shown(streamed(data, monkeypatch, *place)) == shown(in_memory(data, monkeypatch))


def test_a_fault_is_named_by_its_line_wherever_it_stands(place, monkeypatch):
    rows = [line(A, P, '"1"'), line(B, P, '"2"'), "", "# here", line(A, P, '"3"'), line(C, P, '"4"')]
    for number in range(len(rows) + 1):
        for bad in ("rubbish", "<http://e/a> <http://e/p> <rel> .", '<http://e/a> <http://e/p> "x', "_:x ."):
            data = "\n".join([*rows[:number], bad, *rows[number:]]).encode()
            with pytest.raises(LoadError) as caught:
                list(streamed(data, monkeypatch, *place))
            assert caught.value.line == number + 1, (number, bad)


def test_faults_are_skipped_and_named_by_their_lines(place, monkeypatch):
    rows = [
        line(A, P, '"1"'),
        "rubbish",
        line(B, P, '"2"'),
        line(A, Q, "<rel>"),
        "",
        '<http://e/a> <http://e/q> "x"@e_n .',
        line(A, Q, '"4"'),
        '<http://e/a> <http://e/q> "no end',
    ]
    kb = streamed(
        "\n".join(rows).encode() + b'\n<http://e/c> <http://e/p> "\xff" .\n', monkeypatch, *place, skip_errors=True
    )
    assert {entity.id[-1]: entity.tree for entity in kb} == {"a": {"p": "1", "q": "4"}, "b": {"p": "2"}}
    assert [error.line for error in kb.skipped] == [2, 4, 6, 8, 9]


def test_a_second_reading_gives_the_same(place, monkeypatch):
    data = "\n".join(line(f"<http://e/{n % 4}>", P, f'"{n}"') for n in range(12)).encode()
    kb = streamed(data, monkeypatch, *place)
    assert list(kb) == list(kb)
    assert len(kb) == 4


def test_oddities_of_a_stream_are_noted(place, monkeypatch):
    data = line(A, P, '"many"^^<http://www.w3.org/2001/XMLSchema#integer>').encode()
    kb = streamed(data, monkeypatch, *place)
    with pytest.warns(KBDiskWarning, match="no integer"):
        assert [entity.tree for entity in kb] == [{"p": "many"}]


@for_each("ends", ["\r\r\r", "\r\n\r", "\n\r\n", "\r\n\n"])
def test_lines_that_end_as_on_old_macs_are_read(ends, place, monkeypatch):
    rows = [line(A, P, '"1"'), line(B, P, '"2"'), line(A, Q, '"3"'), line(B, Q, '"4"')]
    data = "".join(row + end for row, end in zip(rows, [*ends, ""], strict=True)).encode()
    found = {entity.id[-1]: entity.tree for entity in streamed(data, monkeypatch, *place)}
    assert found == {"a": {"p": "1", "q": "3"}, "b": {"p": "2", "q": "4"}}


def test_one_class_can_be_asked_for_in_a_stream(place, monkeypatch):
    kind = f"<{RDF}type>"
    data = "\n".join([line(A, kind, "<http://e/T>"), line(B, P, '"1"'), line(C, kind, "<http://e/U>")]).encode()
    assert [one.id for one in streamed(data, monkeypatch, *place, classes=["T"])] == ["http://e/a"]


def test_nothing_is_left_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = "\n".join(line(f"<http://e/{n % 4}>", P, f'"{n}"') for n in range(12)).encode()
    kb = streamed(data, monkeypatch, 1, 0)
    assert len(list(kb)) == 4
    next(iter(kb))  # and given up halfway
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- what cannot be told line by line

TYPE, QUDT = f"<{RDF}type>", "http://qudt.org/schema/qudt/"


@for_each(
    "row",
    [
        line("<http://w/entity/statement/1>", "<http://w/prop/statement/P1>", '"x"'),
        line("<http://e/v>", TYPE, f"<{QUDT}QuantityValue>"),
        line("<http://e/v>", TYPE, "<http://wikiba.se/ontology#TimeValue>"),
    ],
)
def test_a_file_whose_value_nodes_have_iris_is_taken_whole(row, monkeypatch):
    monkeypatch.setattr(stream, "LARGE_FILE", 0)
    assert not stream.is_streamed(load(f"{line(A, P, C)}\n{row}\n".encode(), format="ntriples"))


@for_each(
    "row",
    [
        line("_:v", TYPE, f"<{QUDT}QuantityValue>"),
        line("<http://w/P1>", "<http://wikiba.se/ontology#statementProperty>", "<http://w/prop/statement/P1>"),
        line(A, P, f'"> {TYPE} <{QUDT}QuantityValue>"'),
    ],
)
def test_a_file_that_only_mentions_them_is_streamed(row, monkeypatch):
    monkeypatch.setattr(stream, "LARGE_FILE", 0)
    assert stream.is_streamed(load(row.encode(), format="ntriples"))


@pytest.mark.shared
@for_each("name", ["truthy-dump-entities.nt", "full-dump-entities.nt"])
@for_each("block", [1, 300, 500, 800, 1500, 3000])
def test_a_wikibase_in_a_stream_is_a_wikibase(name, block, data, monkeypatch):
    text = (data / "rdf" / "wikibase_fixtures" / name).read_bytes()
    kb = streamed(text, monkeypatch, block)
    assert shown(kb) == shown(in_memory(text, monkeypatch))
    assert len(kb) == 3


# ---------------------------------------------------------------- size

MEASURE = """
    import re, sys
    from pathlib import Path
    from kbdisk.loaders import load
    count = values = 0
    for entity in load(sys.argv[1]):
        count += 1
        values += sum(len(value) if isinstance(value, list) else 1 for value in entity.tree.values())
    # Not ru_maxrss: that begins with what the process had that started this one.
    most = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
    print(count, values, int(most[1]) // 1024)
"""


def measured(path):
    """Entities, values, and the most memory in MB that reading a file took."""
    code = textwrap.dedent(MEASURE)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_five_million_triples_take_little_memory(tmp_path):
    """Subjects grouped, each fiftieth coming back at the end of the file."""
    path = tmp_path / "large.nt"
    entities = 500_000
    with path.open("w") as file:
        for n in range(entities):
            subject = f"<http://example.org/thing/{n}>"
            file.writelines(
                f'{subject} <http://example.org/p{k}> "value {n} {k}" .\n' for k in range(10 - (n % 50 == 0))
            )
        for n in range(0, entities, 50):
            file.write(f'<http://example.org/thing/{n}> <http://example.org/p9> "value {n} 9" .\n')
    count, values, memory = measured(path)
    path.unlink()
    assert (count, values) == (entities, 10 * entities)
    assert memory < 150


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_shuffled_triples_take_little_memory(tmp_path):
    path = tmp_path / "shuffled.nt"
    size, step = 1_000_000, 611_953  # prime to the size: every number once, none near its neighbour
    with path.open("w") as file:
        for n in range(size):
            at = n * step % size
            file.write(f'<http://example.org/thing/{at // 10}> <http://example.org/p{at % 10}> "value {at}" .\n')
    count, values, memory = measured(path)
    path.unlink()
    assert (count, values) == (size // 10, size)
    assert memory < 150
