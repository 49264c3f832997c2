"""What `inspect` tells is what plain counting tells."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples

import kbdisk
from kbdisk import Completion, Date, Filled, KBDiskWarning, Link, Quantity, inspection
from kbdisk.errors import LoadError
from kbdisk.inspection import Edge, Inspection, PathFacts, inspect, shown_path

EXAMPLES = Path(__file__).parents[1] / "examples"

WORLD = [
    {"@id": "al", "@type": "Country", "name": "Albania", "capital": {"@id": "tirana"}, "neighbours": [{"@id": "gr"}, {"@id": "xk"}]},
    {"@id": "gr", "@type": "Country", "name": "Greece", "capital": {"@id": "athens"}, "neighbours": {"@id": "al"}, "area": None},
    {"@id": "tirana", "@type": "City", "name": "Tirana", "population": {"@quantity": 418495, "@unit": "people"}},
    {"@id": "athens", "@type": ["City", "Port"], "founded": {"@date": "-1399"}, "in": {"@id": "gr"}},
    {"@id": "note", "about": {"@id": "al"}, "parts": [{"n": 1, "tags": ["a", "b"]}, {"n": "two", "tags": ["a"]}]},
]  # fmt: skip


def lines(entities) -> bytes:
    return b"\n".join(json.dumps(one).encode() for one in entities)


def inspected(entities, **settings) -> Inspection:
    return inspect(kbdisk.load(lines(entities), format="jsonl"), **settings)


def paths(found: Inspection, name: str = "") -> dict[str, PathFacts]:
    return {shown_path(names, facts): facts for names, facts in found.classes[name].paths.items()}


@pytest.fixture
def world() -> Inspection:
    return inspected(WORLD)


def test_entities_are_counted_once_and_under_each_of_their_classes(world):
    assert world.entities == 5
    assert world.labelled == 3
    assert {name: facts.entities for name, facts in world.classes.items()} == {
        "Country": 2,
        "City": 2,
        "Port": 1,
        "": 1,
    }


def test_a_path_is_the_same_whether_it_holds_one_value_or_a_list(world):
    facts = paths(world, "Country")["neighbours[]"]
    assert (facts.filled, facts.values, facts.many, facts.most) == (2, 3, 1, 2)
    assert facts.kinds == {"link": 3}


def test_a_gap_is_asked_and_not_filled(world):
    facts = paths(world, "Country")["area"]
    assert (facts.filled, facts.asked, facts.values, facts.distinct) == (0, 1, 0, 0)


def test_lists_inside_lists_are_shown_where_they_stand(world):
    found = paths(world)
    assert found.keys() == {"about", "parts[].n", "parts[].tags[]"}
    assert found["parts[].n"].kinds == {"number": 1, "string": 1}
    assert (found["parts[].tags[]"].most, found["parts[].tags[]"].distinct) == (3, 2)


def test_quantities_have_units_and_dates_have_years(world):
    population = paths(world, "City")["population"]
    assert (population.low, population.high, population.units) == (418495, 418495, {"people": 1})
    assert population.examples == [Quantity(418495, "people")]
    assert paths(world, "Port")["founded"].years == (-1399, -1399)


def test_links_are_counted_between_classes_wherever_their_targets_stand(world):
    assert sorted(world.edges, key=str) == sorted(
        [
            Edge("Country", "neighbours[]", "Country", 2),
            Edge("Country", "neighbours[]", None, 1),
            Edge("Country", "capital", "City", 2),
            Edge("Country", "capital", "Port", 1),
            Edge("City", "in", "Country", 1),
            Edge("Port", "in", "Country", 1),
            Edge("", "about", "Country", 1),
        ],
        key=str,
    )


def test_one_class_can_be_asked_for_and_its_links_keep_their_targets():
    found = inspected(WORLD, classes=["Country"])
    assert (found.entities, list(found.classes)) == (2, ["Country"])
    assert Edge("Country", "capital", "City", 2) in found.edges


def test_a_class_is_meant_by_the_last_word_of_its_iri():
    assert inspected([{"@type": "http://ex.org/a#City"}], classes=["City"]).entities == 1
    with pytest.raises(
        LoadError, match=r"no entity is of the class 'ity'; its classes are City\. Did you mean 'City'\?"
    ):
        inspected([{"@type": "http://ex.org/a#City"}], classes=["ity"])
    with pytest.raises(LoadError, match=r"its classes are C0, .*, C7 and 4 more\. Did you mean 'C11'\?"):
        inspected([{"@type": f"C{n}"} for n in range(12)], classes=["C111"])


def test_paths_of_one_part_stand_together():
    found = inspected([{"a": {"x": 1}, "b": 1}, {"a": {"y": 1}, "c": 1}])
    assert list(paths(found)) == ["a.x", "a.y", "b", "c"]


def test_examples_are_the_first_different_values():
    facts = paths(inspected([{"a": value} for value in [1, 1, True, 2, 3, 4]], examples=3))["a"]
    assert facts.examples == [1, 2, 3]
    assert not paths(inspected([{"a": 1}], examples=0))["a"].examples


def test_what_an_earlier_completion_wrote_is_counted_apart(tmp_path):
    kb = kbdisk.load(EXAMPLES / "elements.ttl")
    zinc = Completion(kb["https://example.org/elements/Zn"], {("discovered",): Filled(Date(1746))})
    before = inspect(kb).classes["https://example.org/vocabulary#Element"].paths["discovered",]
    kbdisk.write([zinc], tmp_path / "completed.ttl")
    after = (
        inspect(kbdisk.load(tmp_path / "completed.ttl"))
        .classes["https://example.org/vocabulary#Element"]
        .paths["discovered",]
    )
    assert (after.filled, after.made) == (before.filled, before.made + 1)


def test_true_and_one_are_different_values_of_different_kinds():
    facts = paths(inspected([{"a": True}, {"a": 1}]))["a"]
    assert (facts.distinct, facts.kinds) == (2, {"boolean": 1, "number": 1})
    assert (facts.low, facts.high) == (1, 1)


def test_numbers_that_hash_alike_are_different_values():
    assert paths(inspected([{"a": -1}, {"a": -2}, {"a": -1.0}, {"a": -2.0}]))["a"].distinct == 4


def test_many_different_values_are_not_all_kept(monkeypatch):
    facts = paths(inspected([{"a": n} for n in range(inspection.MAX_DISTINCT)]))["a"]
    assert facts.distinct == inspection.MAX_DISTINCT
    facts = paths(inspected([{"a": n} for n in range(inspection.MAX_DISTINCT + 1)]))["a"]
    assert facts.distinct is None
    assert facts.seen is None
    monkeypatch.setattr(inspection, "MAX_TRACKED", 100)
    found = paths(inspected([{"a": n, "b": n % 3} for n in range(200)]))
    assert (found["a"].distinct, found["b"].distinct) == (None, 3)


def test_oddities_and_what_was_skipped_are_told_with_their_places():
    kb = kbdisk.load(b'{"a": 1, "a": 2}\n{"a":\n{"a": 3}\n', format="jsonl", skip_errors=True)
    with pytest.warns(KBDiskWarning):
        found = inspect(kb)
    assert found.entities == 2
    assert found.skips == len(found.skipped) == 1
    assert found.skipped[0].startswith("<memory>:2: ")
    ((count, places),) = found.odd.values()
    assert (count, places) == (1, ["<memory>:1"])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.builds(lambda id: {"@id": id}, st.sampled_from("abcxyz")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["p", "q", "[]", "a.b"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ENTITIES = st.lists(st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3), min_size=1, max_size=6)


@settings(max_examples=examples(40), deadline=None)
@given(ENTITIES)
def test_counts_are_those_of_plain_counting(trees):
    entities = [{"@id": "abcdef"[n], **tree} for n, tree in enumerate(trees)]
    filled, values, asked = Counter(), Counter(), Counter()
    for tree in trees:
        here = [(tuple(key for key in path if isinstance(key, str)), leaf) for path, leaf in plain_walk(tree)]
        filled.update({names for names, leaf in here if leaf is not None})
        values.update(names for names, leaf in here if leaf is not None)
        asked.update(names for names, leaf in here if leaf is None)
    found = inspected(entities)
    facts = found.classes[""].paths if found.classes else {}
    assert {names: (one.filled, one.values, one.asked) for names, one in facts.items()} == {
        names: (filled[names], values[names], asked[names]) for names in values | asked
    }
    assert sum(edge.links for edge in found.edges) == sum(one.kinds["link"] for one in facts.values())


def plain_walk(value, path=()):
    """The leaves of a JSON value, `{"@id": ...}` being one."""
    if isinstance(value, dict) and not (value.keys() == {"@id"} and path):
        for key, inner in value.items():
            yield from plain_walk(inner, (*path, key))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from plain_walk(inner, (*path, n))
    else:
        yield path, Link(value["@id"]) if isinstance(value, dict) else value


def test_the_phones_are_told_as_they_are():
    phones = [json.loads(line) for line in (EXAMPLES / "phones.jsonl").read_text().splitlines()]
    found = inspect(kbdisk.load(EXAMPLES / "phones.jsonl"))
    facts = paths(found)
    assert found.entities == found.labelled == len(phones)
    assert facts["launch.year"].years is None
    assert (facts["launch.year"].low, facts["launch.year"].high) == (1983, 2023)
    assert facts["networks[]"].most == max(len(phone["networks"]) for phone in phones)
    assert facts["networks[]"].distinct == len({name for phone in phones for name in phone["networks"]})
    assert facts["battery.value"].asked == sum(phone.get("battery", {}).get("value", 0) is None for phone in phones)


@pytest.mark.shared
def test_countries_are_told_as_they_are(data):
    countries = json.loads((data / "json" / "countries.json").read_text())
    found = inspect(kbdisk.load(data / "json" / "countries.json"))
    counts: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for number, country in enumerate(countries):
        for path, leaf in plain_walk(country):
            if leaf is not None:
                counts[tuple(key for key in path if isinstance(key, str))].add(number)
    assert found.entities == len(countries) == 250
    told = {names: facts.filled for facts_of in found.classes.values() for names, facts in facts_of.paths.items()}
    assert {names: count for names, count in told.items() if count} == {
        names: len(ones) for names, ones in counts.items()
    }


@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_the_elements_are_told_as_they_are():
    found = inspect(kbdisk.load(EXAMPLES / "elements.ttl"))
    v = "https://example.org/vocabulary#"
    counts = {name.removeprefix(v): facts.entities for name, facts in found.classes.items()}
    assert counts == {"Element": 118, "Chemist": 85, "Country": 15, "Category": 10, "Institute": 4, "": 3}
    element = paths(found, v + "Element")
    text = (EXAMPLES / "elements.ttl").read_text()
    assert element["electronegativity"].filled == text.count("v:electronegativity ")
    assert (element["meltingPoint"].filled, element["meltingPoint"].asked) == (text.count("v:meltingPoint [") - 2, 2)
    assert (element["meltingPoint"].low, element["meltingPoint"].high) == (13.99, 3695)
    assert element["discovered"].years == (1669, 2009)
    assert Edge(v + "Institute", "country", v + "Country", 4) in found.edges


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_mondial_is_told_as_sparql_tells_it(data):
    import pyoxigraph

    file = data / "rdf" / "mondial" / "mondial-europe.n3"
    store = pyoxigraph.Store()
    store.bulk_load(path=str(file), format=pyoxigraph.RdfFormat.TURTLE, base_iri="http://example.org/")

    def count(query: str) -> dict[str, int]:
        return {row[0].value: int(row[1].value) for row in store.query(query)}

    found = inspect(kbdisk.load(file, format="turtle", base="http://example.org/"))
    classes = count("SELECT ?c (COUNT(DISTINCT ?x) AS ?n) { ?x a ?c FILTER(isIRI(?x)) } GROUP BY ?c")
    assert {name: facts.entities for name, facts in found.classes.items() if name in classes} == classes
    country = next(name for name in classes if name.endswith("#Country"))
    told = {names[0]: facts.filled for names, facts in found.classes[country].paths.items() if len(names) == 1}
    query = f"SELECT ?p (COUNT(DISTINCT ?x) AS ?n) {{ ?x a <{country}> ; ?p ?o FILTER(!isBlank(?o) && ?p != rdf:type) }} GROUP BY ?p"
    for predicate, number in count("PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> " + query).items():
        assert told[inspection.last_word(predicate)] == number, predicate


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::kbdisk.errors.KBDiskWarning")
def test_laureates_are_told_as_they_are(data):
    file = data / "json" / "nobel_laureates.json"
    laureates = json.loads(file.read_text())
    found = inspect(kbdisk.load(file))
    assert found.entities == len(laureates)
    facts = paths(found)["prizes[].share"]
    shares = [[prize["share"] for prize in one["prizes"] if "share" in prize] for one in laureates]
    assert facts.values == sum(map(len, shares))
    assert facts.most == max(map(len, shares))
    assert facts.distinct == len({share for some in shares for share in some})


def test_a_number_of_any_length_is_told_like_any_other():
    found = inspect(kbdisk.load([{"id": "a", "n": 10**5000}, {"id": "b", "n": -(10**5000)}]))
    assert paths(found)["n"].filled == 2
    assert len(paths(found)["n"].seen) == 2
