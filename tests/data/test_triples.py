"""Triples: entities, links and values by number; their answers; and what says the same as a held-out link."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from kbdisk.data.triples import Answers, Relation, Triples, held_out_links, leaks, with_inverses
from kbdisk.entity import CLASSES, Entity, Link
from kbdisk.schemas.infer import infer

MARRIED, CHILD, PARENT = ("spouse",), ("child",), ("parent",)


def family(n: int = 30) -> list[Entity]:
    """Couples with a child each; parents have a child, children have parents."""
    entities = []
    for number in range(n):
        a, b, c = f"a{number}", f"b{number}", f"c{number}"
        entities += [
            Entity(a, {"spouse": Link(b), "child": Link(c), "age": 40 + number}, ("Adult",)),
            Entity(b, {"spouse": Link(a), "child": Link(c), "age": 38 + number}, ("Adult",)),
            Entity(c, {"parent": [Link(a), Link(b)], "age": number}, ("Child",)),
        ]
    return entities


def links(*pairs: tuple[str, str, str]) -> list[tuple[str, tuple[str], str]]:
    return [(head, (relation,), tail) for head, relation, tail in pairs]


def test_links_values_and_classes_are_triples():
    entities = family(4)
    triples = Triples.of(infer(entities).schema, entities)
    assert set(triples.entities) == {entity.id for entity in entities}
    assert {relation.path for relation in triples.relations if relation.is_link} == {MARRIED, CHILD, PARENT}
    assert triples.relation_of[Relation(CLASSES, False)] is not None
    assert len(triples.links) == 4 * 6
    assert bool((triples.links[:, 2] < len(triples.entities)).all())
    assert len(triples.links) + len(triples.value_triples) == len(triples)
    assert bool((triples.value_triples[:, 2] >= len(triples.entities)).all())


def test_each_value_node_belongs_to_its_relation():
    entities = family(6)
    triples = Triples.of(infer(entities).schema, entities)
    for _, relation, tail in triples.numbered.tolist():
        if tail >= len(triples.entities):
            assert triples.values[tail - len(triples.entities)][0] == relation


def test_a_new_entity_is_in_the_ranges_of_the_known_ones():
    entities = family(30)
    schema = infer(entities).schema
    known = Triples.of(schema, entities)
    young, old = Entity("x", {"age": 1}, ("Child",)), Entity("y", {"age": 1000}, ("Adult",))
    new = Triples.of(schema, [young, old], like=known)
    assert new.edges == {("age",): known.edges["age",]}
    labels = {triples_label for _, triples_label in new.values if isinstance(triples_label, tuple)}
    assert labels == {(0, 0), (1, 0), (0, 15), (1, 3)}


def test_links_of_unknown_entities_have_no_number():
    triples = Triples.of_links(links(("a", "r", "b")))
    assert triples.number(links(("a", "r", "b"), ("a", "r", "c"), ("a", "s", "b"))).tolist() == [[0, 0, 1]]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 5)), min_size=1, unique=True))
def test_answers_are_the_tails_of_a_query(numbered):
    both = {tuple(row) for row in with_inverses(torch.tensor(numbered), 3).tolist()}
    answers = Answers(torch.tensor(numbered), 3)
    nodes, relations = torch.arange(6).repeat_interleave(6), torch.arange(6).repeat(6)
    rows, tails = answers.of(nodes, relations)
    found = {(row // 6, row % 6, tail) for row, tail in zip(rows.tolist(), tails.tolist(), strict=True)}
    assert found == both


def test_an_inverse_and_a_copy_of_a_held_out_link_are_leaks():
    known = [("p", n, n + 100) for n in range(10)]
    pairs = [(head, 0, tail) for _, head, tail in known]  # a relation,
    pairs += [(tail, 1, head) for _, head, tail in known]  # its inverse,
    pairs += [(head, 2, tail) for _, head, tail in known]  # its copy,
    pairs += [(head, 3, 300 + head % 2) for _, head, tail in known]  # and another one
    numbered = torch.tensor(pairs)
    held_out = numbered[:1]
    rest = numbered[1:]
    is_leak = leaks(rest, held_out, 4)
    assert rest[is_leak].tolist() == [[100, 1, 0], [0, 2, 100]]


def test_a_symmetric_link_leaks_the_other_way_round():
    pairs = torch.tensor([(n, 0, n + 10) for n in range(5)] + [(n + 10, 0, n) for n in range(5)])
    is_leak = leaks(pairs[1:], pairs[:1], 1)
    assert pairs[1:][is_leak].tolist() == [[10, 0, 0]]


def test_triples_of_32_bits_have_the_leaks_and_answers_of_millions_of_nodes():
    heads = torch.arange(10) * 200_000
    pairs = torch.stack([heads, torch.zeros_like(heads), heads + 100_000], 1)
    inverse = torch.stack([pairs[:, 2], torch.ones_like(heads), pairs[:, 0]], 1)
    numbered = torch.cat([pairs, inverse]).int()
    is_leak = leaks(numbered[1:], numbered[:1].long(), 2)
    assert numbered[1:][is_leak].tolist() == [[100_000, 1, 0]]
    answers = Answers(numbered, 2000)
    rows, tails = answers.of(numbered[:, 0], numbered[:, 1])
    assert tails[rows == 9].tolist() == [1_900_000]
    assert bool(answers.contains(numbered).all())


def test_held_out_links_leave_something_known_of_both_ends_and_no_leak():
    entities = family(40)
    triples = Triples.of(infer(entities).schema, entities)
    learnt, held_out = held_out_links(triples, 0.2, 1000, seed=0)
    assert 0 < len(held_out) <= int(0.2 * len(triples.links))
    assert not bool(leaks(learnt.links, held_out, len(triples.relations)).any())
    left = torch.cat([learnt.numbered[:, 0], learnt.numbered[:, 2]]).tolist()
    assert {*held_out[:, 0].tolist(), *held_out[:, 2].tolist()} <= set(left)
    assert learnt.nodes == triples.nodes


def test_nothing_is_held_out_of_entities_that_have_nothing_else():
    pairs = [(f"a{n}", "spouse", f"b{n}") for n in range(50)] + [(f"b{n}", "spouse", f"a{n}") for n in range(50)]
    learnt, held_out = held_out_links(Triples.of_links(links(*pairs)), 0.2, 1000, seed=0)
    assert len(held_out) == 0
    assert len(learnt) < 100
