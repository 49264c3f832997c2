"""Which proposals are left out so that constraints hold, and what a single belief may be by the other values."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import examples, for_each

from kbdisk.completion.constraints import Interval, Others, Proposal, excluded, restriction, years_of
from kbdisk.entity import Date, Entity, Link, Quantity, Text, with_values
from kbdisk.schemas.composites.date import Date as DateKind
from kbdisk.schemas.composites.listed import Listed
from kbdisk.schemas.composites.quantity import Quantity as QuantityKind
from kbdisk.schemas.constraints import Constraint, ValueShape, View, read_short, violations
from kbdisk.schemas.kinds import Category, Number, Set
from kbdisk.schemas.kinds import Link as LinkKind
from kbdisk.schemas.kinds import Text as TextKind
from kbdisk.schemas.property import Property
from kbdisk.schemas.schema import Class, Schema


def class_of(*constraints, name="Thing", **kinds):
    told = tuple(read_short(one) if isinstance(one, str) else one for one in constraints)
    return Class(name, {tuple(key.split("__")): Property(kind) for key, kind in kinds.items()}, constraints=told)


def left_out(of, tree, *proposals, **told):
    """The numbers of the proposals that are left out."""
    return [one.index for one in excluded(of, tree, [Proposal(*each) for each in proposals], **told)]


LIFE = class_of("born < died", born=DateKind(), died=DateKind())
LABELS = class_of("nick disjoint name", nick=Set(Category()), name=Category())


# ---------------------------------------------------------------- which proposals are left out


def test_a_value_that_contradicts_a_given_one_is_left_out_with_its_reason():
    proposals = [Proposal(("died",), Date(1870, 1, 1), 0.9)]
    (exclusion,) = excluded(LIFE, {"born": Date(1912, 6, 23)}, proposals)
    assert exclusion.constraint == read_short("born < died")
    assert exclusion.problem == "expected born < died, got 1912-06-23 and 1870-01-01"
    assert not excluded(LIFE, {"born": Date(1870)}, [Proposal(("died",), Date(1870, 1, 1))])  # not certain
    assert not excluded(LIFE, {}, proposals)


def test_of_two_proposals_that_contradict_each_other_the_surest_stays():
    proposals = [(("born",), Date(1950, 1, 1), 0.4), (("died",), Date(1940, 1, 1), 0.7)]
    assert left_out(LIFE, {}, *proposals) == [0]
    proposals[0] = (("born",), Date(1950, 1, 1), 0.8)
    assert left_out(LIFE, {}, *proposals) == [1]


def test_what_the_given_values_violate_already_holds_nothing_back():
    tree = {"name": "x", "nick": ["x"]}
    assert left_out(LABELS, tree, (("nick",), "y", 0.9)) == []
    assert left_out(LIFE, {"born": Date(1950), "died": Date(1940)}) == []


def test_a_group_is_kept_or_left_out_whole():
    of = class_of("a < b", "nick disjoint name", a=Number(), b=Number(), nick=Set(Category()), name=Category())
    pair = [(("a",), 9, 0.9, "pair"), (("nick",), "x", 0.9, "pair"), (("nick",), "y", 0.1)]
    assert left_out(of, {"b": 5}, *pair) == [0, 1]
    assert left_out(of, {"b": 10}, *pair) == []
    assert left_out(of, {"b": 10, "name": "x"}, *pair) == [0, 1]


def test_a_group_is_as_sure_as_all_of_its_proposals_together():
    of = class_of("a < b", a=Number(), b=Number(), c=Number())
    group = [(("a",), 9, 0.6, "g"), (("c",), 1, 0.5, "g"), (("b",), 5, 0.4)]
    assert left_out(of, {}, *group) == [0, 1]


def test_equal_properties_are_filled_alike_or_not_at_all():
    of = class_of("a = b", a=Category(), b=Category())
    assert left_out(of, {}, (("a",), "x", 0.9), (("b",), "y", 0.8), (("b",), "x", 0.1)) == [1]
    assert left_out(of, {}, (("a",), "x", 0.9), (("b",), "y", 0.8)) == [0, 1]
    assert left_out(of, {"b": "y"}, (("a",), "x", 0.9), (("a",), "y", 0.1)) == [0]


def test_the_least_and_the_greatest_number_of_values_hold():
    of = class_of(Constraint("count", ("tag",), least=1, most=2), tag=Set(Category()))
    some = [(("tag",), name, chance) for name, chance in (("a", 0.3), ("b", 0.9), ("c", 0.5))]
    assert left_out(of, {}, *some) == [0]
    assert left_out(of, {"tag": ["z"]}, *some) == [0, 2]
    assert left_out(of, {"tag": ["x", "y", "z"]}, *some) == [0, 1, 2]


def test_a_value_that_must_be_there_keeps_its_room():
    of = class_of(Constraint("has_value", ("topic",), values=("art",)), topic=Category())
    assert left_out(of, {}, (("topic",), "law", 0.9), (("topic",), "art", 0.1)) == [0]
    several = class_of(Constraint("has_value", ("topic",), values=("art",)), topic=Set(Category(), most=2))
    chances = [(("topic",), name, chance) for name, chance in (("law", 0.9), ("war", 0.8), ("art", 0.1))]
    assert left_out(several, {}, *chances) == [1]


def test_a_part_is_filled_with_what_it_must_have_or_not_at_all():
    of = class_of(
        Constraint("count", ("address", "street"), least=1), address__street=TextKind(), address__city=Category()
    )
    city, street = (("address", "city"), "Bonn", 0.9), (("address", "street"), "Weg", 0.2)
    assert left_out(of, {}, city) == [0]
    assert left_out(of, {}, city, street) == []
    assert left_out(of, {"address": {"street": "Weg"}}, city) == []


def test_each_part_of_a_list_is_compared_by_itself():
    of = class_of("terms.start <= terms.end", terms=Listed({"start": Number(), "end": Number()}))
    tree = {"terms": [{"start": 1990}, {"start": 2000}]}
    later = (("terms", 0, "end"), 1995, 0.9), (("terms", 1, "end"), 1995, 0.9)
    assert left_out(of, tree, *later) == [1]


def test_properties_refuse_values_that_do_not_fit_and_a_second_one():
    of = class_of("a < b", a=Number(minimum=0), b=Number())
    assert left_out(of, {}, (("a",), -1, 0.9), (("a",), 5, 0.5), (("a",), 6, 0.4)) == [0, 2]
    assert left_out(of, {"a": 3}, (("a",), 4, 0.9)) == [0]


def test_closed_classes_take_no_other_properties():
    of = class_of("closed", a=Number())
    assert left_out(of, {}, (("a",), 1, 0.5), (("z",), 1, 0.5)) == [1]


def test_languages_and_patterns_of_each_value_hold():
    of = class_of(
        "name unique_language",
        Constraint("values", ("name",), where=ValueShape(pattern="^[A-Z]")),
        name=Listed({"": TextKind()}),
    )
    names = [Text("Rom", "de"), Text("Rome", "en"), Text("Rome", "de"), Text("roma", "it")]
    chances = [(("name",), text, 0.9 - 0.1 * n) for n, text in enumerate(names)]
    assert left_out(of, {}, *chances) == [2, 3]


def test_links_of_a_wrong_class_are_left_out_and_unknown_ones_are_not():
    of = class_of(Constraint("values", ("boss",), where=ValueShape(classes=("Person",))), boss=LinkKind())
    schema = Schema({"Thing": of, "Person": Class("Person"), "Town": Class("Town")})
    others = Others.of(schema, [Entity("p", {}, ("Person",)), Entity("t", {}, ("Town",))])
    assert [left_out(of, {}, (("boss",), Link(id)), others=others) for id in "ptu"] == [[], [0], []]
    assert left_out(of, {}, (("boss",), Link("t"))) == []


def test_unique_values_and_links_back_are_those_of_other_entities():
    person = class_of("code unique", "parent inverse child", name="Person", code=Category(), parent=LinkKind(), child=Set(LinkKind()))  # fmt: skip
    schema = Schema({"Person": person})
    trees = {"a": {"code": "1", "child": [Link("b")]}, "b": {}, "c": {"parent": Link("d")}, "d": {}}
    others = Others.of(schema, [Entity(id, tree, ("Person",)) for id, tree in trees.items()])
    told = {"others": others, "id": "b"}
    assert left_out(person, {}, (("code",), "1"), **told) == [0]
    assert left_out(person, {}, (("code",), "2"), **told) == []
    assert left_out(person, {}, (("parent",), Link("a")), **told) == []
    assert left_out(person, {}, (("parent",), Link("a")), others=others, id="d") == [0]  # a's child is b
    assert left_out(person, {}, (("child",), [Link("b")]), others=others, id="d") == [0]  # c's parent is d
    others.add(schema, person, "b", {"code": "2"})
    assert left_out(person, {}, (("code",), "2"), others=others, id="d") == [0]


def test_a_link_that_a_constraint_of_another_class_asks_for_is_kept_free():
    country = class_of("capital inverse capital_of", name="Country", capital=LinkKind())
    city = class_of(name="City", capital_of=LinkKind())
    schema = Schema({"Country": country, "City": city})
    entities = [Entity("fr", {"capital": Link("paris")}, ("Country",)), Entity("it", {}, ("Country",))]
    others = Others.of(schema, [*entities, Entity("paris", {}, ("City",))])
    assert left_out(city, {}, (("capital_of",), Link("it")), others=others, id="paris") == [0]
    assert left_out(city, {}, (("capital_of",), Link("fr")), others=others, id="paris") == []


# ---------------------------------------------------------------- for whatever there is

CONSTRAINTS = [
    *map(read_short, ("a < b", "b <= c", "a = b", "x disjoint y", "x = y", "a unique_language", "closed")),
    Constraint("count", ("x",), least=1, most=2),
    Constraint("count", ("x",), least=1, where=ValueShape(values=("p", "q"))),
    Constraint("count", ("y",), most=1, where=ValueShape(pattern="^p")),
    Constraint("has_value", ("y",), values=("p",)),
    Constraint("has_value", ("c",), values=(2,)),
    Constraint("values", ("b",), where=ValueShape(minimum=1, below=4)),
]
numbers = st.tuples(st.sampled_from("abc"), st.integers(0, 4))
labels = st.tuples(st.sampled_from("xy"), st.sampled_from("pqrs"))
chances = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9])
groups = st.sampled_from([None, None, "g", "h"])
proposals_of = st.lists(
    st.builds(lambda at, chance, group: Proposal((at[0],), at[1], chance, group), numbers | labels, chances, groups),
    max_size=7,
)


def worse(of, before, after):
    """The constraints that are violated more than before."""
    amounts = []
    for tree in (before, after):
        view = View(of.properties, tree)
        amounts.append({(n, found.key): found.degree for n, one in enumerate(of.constraints) for found in violations(one, view)})  # fmt: skip
    return [key for key, degree in amounts[1].items() if degree > amounts[0].get(key, 0)]


def with_all(tree, proposals):
    for one in proposals:
        several = one.path[0] in "xy"
        tree = with_values(tree, {one.path: [*tree.get(one.path[0], []), one.value] if several else one.value})
    return tree


@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(CONSTRAINTS), max_size=5, unique=True),
    st.lists(numbers | labels, max_size=4),
    proposals_of,
)
def test_what_is_kept_violates_nothing_new_and_nothing_is_left_out_without_need(constraints, told, proposals):
    of = class_of(*constraints, a=Number(), b=Number(), c=Number(), x=Set(Category()), y=Set(Category()))
    tree = with_all({}, [Proposal((path,), value) for path, value in told])
    out = {one.index: one for one in excluded(of, tree, proposals)}
    kept = [one for n, one in enumerate(proposals) if n not in out]
    full = with_all(tree, kept)
    assert not worse(of, tree, full)
    for path in "abc":
        assert len({one.value for one in kept if one.path == (path,)} | {tree.get(path)} - {None}) <= 1
    for group in {one.group for one in proposals} - {None}:
        assert len({n in out for n, one in enumerate(proposals) if one.group == group}) <= 1
    for n in out:  # with a proposal that was left out alone, something would be wrong
        one = proposals[n]
        taken = one.path[0] in "abc" and one.path[0] in full
        assert one.group is not None or taken or worse(of, full, with_all(full, [one])) or _is_blocked(of, one)


def _is_blocked(of, proposal):
    """Whether a value that must be there, or one that must be equal, could not be any more."""
    return any(one.kind in ("has_value", "count", "equals") and proposal.path in one.paths for one in of.constraints)


# ---------------------------------------------------------------- pyshacl as the judge

SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix ex: <http://example.org/> .
ex:S a sh:NodeShape ; sh:targetClass ex:Person ;
    sh:property [ sh:path ex:born ; sh:datatype xsd:date ; sh:maxCount 1 ; sh:lessThan ex:died ] ,
        [ sh:path ex:died ; sh:datatype xsd:date ; sh:maxCount 1 ; sh:lessThanOrEquals ex:buried ; sh:maxExclusive "2020-06-01"^^xsd:date ] ,
        [ sh:path ex:buried ; sh:datatype xsd:date ; sh:maxCount 1 ] ,
        [ sh:path ex:name ; sh:datatype xsd:string ; sh:maxCount 3 ; sh:disjoint ex:nick ; sh:pattern "^[A-Z]" ] ,
        [ sh:path ex:nick ; sh:datatype xsd:string ; sh:maxCount 2 ] ,
        [ sh:path ex:friend ; sh:nodeKind sh:IRI ; sh:qualifiedValueShape [ sh:in ( ex:f1 ex:f2 ) ] ; sh:qualifiedMaxCount 1 ] ,
        [ sh:path ex:ally ; sh:nodeKind sh:IRI ; sh:equals ex:partner ] , [ sh:path ex:partner ; sh:nodeKind sh:IRI ] .
"""  # fmt: skip
POOLS = {
    **{name: [*(Date(1990, 1, n) for n in range(1, 6)), Date(2020, 6, 1)] for name in ("born", "died", "buried")},
    **{name: ["A", "B", "C", "d"] for name in ("name", "nick")},
    **{name: [Link(f"http://example.org/f{n}") for n in range(4)] for name in ("friend", "ally", "partner")},
}


def turtle(trees):
    """Entities as Turtle."""
    lines = ["@prefix ex: <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> ."]
    for id, tree in trees.items():
        for name, values in tree.items():
            for value in values if isinstance(values, list) else [values]:
                said = f"<{value.id}>" if isinstance(value, Link) else f'"{value}"'
                said = f'"{value.year}-{value.month:02}-{value.day:02}"^^xsd:date' if isinstance(value, Date) else said
                lines.append(f"ex:{id} a ex:Person ; ex:{name} {said} .")
    return "\n".join(lines)


def test_pyshacl_finds_nothing_wrong_with_what_is_kept(tmp_path):
    import pyshacl
    import rdflib

    from kbdisk.schemas.importers import shacl

    (tmp_path / "shapes.ttl").write_text(SHAPES)
    of = shacl.read(tmp_path / "shapes.ttl").schema.classes["Person"]
    draw, trees, count = random.Random(3), {}, 0
    for number in range(60):
        proposals = []
        for _ in range(10):
            name = draw.choice(sorted(POOLS))
            proposals.append(
                Proposal((name,), draw.choice(POOLS[name]), draw.random(), draw.choice([None, None, 1, 2]))
            )
        out = {one.index for one in excluded(of, {}, proposals)}
        tree = {}
        for one in (one for n, one in enumerate(proposals) if n not in out):
            tree[one.path[0]] = [*tree.get(one.path[0], []), one.value]
        trees[f"e{number}"], count = tree, count + len(out)
    graphs = [rdflib.Graph().parse(data=text, format="turtle") for text in (turtle(trees), SHAPES)]
    conforms, _, report = pyshacl.validate(graphs[0], shacl_graph=graphs[1])
    assert conforms, report
    assert 60 < count < 500


# ---------------------------------------------------------------- what a single belief may be


@for_each(
    ("constraint", "path", "tree", "interval"),
    [
        ("a < b", "a", {"b": 5}, Interval(high=5, high_open=True)),
        ("a < b", "b", {"a": 5}, Interval(low=5, low_open=True)),
        ("a <= b", "b", {"a": Decimal("0.1")}, Interval(low=Decimal("0.1"))),
        ("a = b", "b", {"a": 7}, Interval(7, 7)),
        ("a < b", "a", {}, None),
        ("a < born", "a", {"born": Date(1990)}, None),
        ("born < died", "died", {"born": Date(1912, 6, 23)}, Interval(low=Date(1912, 6, 23), low_open=True)),
    ],
)
def test_a_number_or_date_lies_in_an_interval_that_the_other_values_leave(constraint, path, tree, interval):
    if "a < born" in constraint:  # a number has no order with a date
        of = class_of(constraint, a=Number(), born=DateKind())
        assert not restriction(of, tree, ("a",)).admits(3)
        return
    of = class_of(constraint, a=Number(), b=Number(), born=DateKind(), died=DateKind())
    assert restriction(of, tree, (path,)).interval == interval


def test_the_narrowest_bounds_of_several_count_and_ends_are_open_or_closed():
    of = class_of(
        "a < b", "a <= c", Constraint("values", ("a",), where=ValueShape(minimum=1, below=9)),
        a=Number(), b=Listed({"": Number()}), c=Number(),
    )  # fmt: skip
    found = restriction(of, {"b": [7, 5, 6], "c": 5}, ("a",))
    assert found.interval == Interval(1, 5, False, True)
    assert [found.interval.contains(value) for value in (0, 1, 4.5, 5)] == [False, True, True, False]
    assert not found.interval.is_empty
    assert restriction(of, {"c": 0}, ("a",)).interval.is_empty


def test_amounts_are_compared_by_their_units():
    weight = QuantityKind("kg", {"g": 0.001, "lb": None})
    of = class_of("net <= gross", net=weight, gross=weight)
    assert restriction(of, {"gross": Quantity(2, "lb")}, ("net",)).interval == Interval(high=Decimal("0.90718474"))
    found = restriction(of, {"gross": "3 kg"}, ("net",), unit="g")
    assert (found.interval, found.unit) == (Interval(high=3000), "g")
    assert left_out(of, {"gross": Quantity(1, "kg")}, (("net",), Quantity(1001, "g"))) == [0]
    assert left_out(of, {"gross": Quantity(1, "kg")}, (("net",), Quantity(1000, "g"))) == []


def test_years_of_dates_bound_a_belief_of_years():
    assert years_of(restriction(LIFE, {"born": Date(1912, 6, 23)}, ("died",)).interval) == (1912, None)
    of = class_of(Constraint("values", ("died",), where=ValueShape(maximum=Date(2020, 6, 1))), died=DateKind())
    assert years_of(restriction(of, {}, ("died",)).interval) == (None, 2020)


def test_labels_and_links_are_allowed_or_forbidden():
    assert restriction(LABELS, {"name": "x"}, ("nick",)).forbidden == {"x"}
    of = class_of("a = b", a=LinkKind(), b=LinkKind())
    found = restriction(of, {"a": "p"}, ("b",))
    assert found.allowed == {Link("p")}
    assert [found.admits(Link(id)) for id in "pq"] == [True, False]
    topic = class_of(Constraint("has_value", ("topic",), values=("art",)), topic=Category())
    assert restriction(topic, {}, ("topic",)).allowed == {"art"}
    assert restriction(class_of(topic=Category()), {}, ("topic",)).allowed is None


@pytest.mark.parametrize("value", [3, 5, 7])
def test_what_a_restriction_admits_is_not_left_out(value):
    of = class_of("a < b", a=Number(), b=Number())
    assert restriction(of, {"b": 5}, ("a",)).admits(value) == (not left_out(of, {"b": 5}, (("a",), value)))
