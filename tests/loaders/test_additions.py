"""Whether what is found is what was given, and what is new, whatever blank nodes are called."""

from hypothesis import given
from hypothesis import strategies as st
from judges import canonical
from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from kbdisk.loaders.rdf.additions import is_isomorphic

NODES = st.sampled_from("abcd").map(BlankNode) | st.sampled_from(["urn:x", "urn:y"]).map(NamedNode)
QUADS = st.builds(
    Quad, NODES, st.sampled_from(["urn:p", "urn:q"]).map(NamedNode), NODES | st.sampled_from("12").map(Literal)
)


def called(quads, names):
    """Quads whose blank nodes have other names."""

    def other(term):
        return BlankNode(names[term.value]) if isinstance(term, BlankNode) else term

    return [Quad(other(quad.subject), quad.predicate, other(quad.object)) for quad in quads]


@given(st.data(), st.lists(QUADS, max_size=6), st.lists(QUADS, max_size=3))
def test_what_is_found_may_have_other_names_and_any_order(data, before, new):
    names = dict(zip("abcd", data.draw(st.permutations(["k", "l", "m", "a"])), strict=True))
    found = data.draw(st.permutations(called([*before, *new], names)))
    assert is_isomorphic(found, before, new)
    assert is_isomorphic(called([*before, *new], names), before, new)


@given(st.lists(QUADS, max_size=6), st.lists(QUADS, max_size=3), st.lists(QUADS, max_size=8))
def test_it_is_told_as_by_comparing_all(before, new, found):
    assert is_isomorphic(found, before, new) == (canonical(found) == canonical([*before, *new]))


@given(st.lists(QUADS, min_size=1, max_size=6), st.lists(QUADS, max_size=3), st.data())
def test_nothing_may_be_lost_or_be_too_much(before, new, data):
    every = list(dict.fromkeys([*before, *new]))
    left_out = data.draw(st.sampled_from(every))
    found = [quad for quad in every if quad != left_out]
    assert not is_isomorphic(found, before, new)
    assert not is_isomorphic(every, found, [])
