"""Whether two sets of quads are isomorphic: the same but for the names of their blank nodes, within triple terms too.

Independent of what is tested, and of RDFC-1.0, which knows no triple terms: blank nodes get colours from all that is said
with them until no colour parts any further, then those of one colour are tried in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from pyoxigraph import BlankNode, Quad, Triple

Colours = dict[BlankNode, Hashable]
MAX_TRIALS = 20_000


def isomorphic(quads: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether a bijection between blank nodes makes one set of quads the other."""
    left, right = (list(dict.fromkeys(map(_terms, found))) for found in (quads, others))
    if len(left) != len(right):
        return False
    trials = iter(range(MAX_TRIALS))
    return _match(left, right, _initial(left), _initial(right), trials)


def blank_nodes(term: Any) -> Iterator[BlankNode]:
    """The blank nodes of a term, those within triple terms too."""
    if type(term) is BlankNode:
        yield term
    elif type(term) is tuple or type(term) is Triple:
        for part in term:
            yield from blank_nodes(part)


def _terms(quad: Any) -> tuple[Any, ...]:
    graph = quad.graph_name if isinstance(quad, Quad) else None
    return (quad.subject, quad.predicate, quad.object, str(graph) if type(graph) is not BlankNode else graph)


def _initial(rows: list[tuple[Any, ...]]) -> Colours:
    return {node: 0 for row in rows for node in blank_nodes(row)}


def _coloured(term: Any, colours: Mapping[BlankNode, Hashable], here: BlankNode | None = None) -> Hashable:
    if type(term) is BlankNode:
        return ("here",) if term == here else ("blank", colours[term])
    if type(term) is tuple or type(term) is Triple:
        return tuple(_coloured(part, colours, here) for part in term)
    return str(term)


def _refined(rows: list[tuple[Any, ...]], colours: Colours) -> Colours:
    """Colours that part no further; equal ones in two graphs mean that the nodes look alike."""
    while True:
        seen: dict[BlankNode, list[Hashable]] = defaultdict(list)
        for row in rows:
            for node in set(blank_nodes(row)):
                seen[node].append(hash(_coloured(row, colours, node)))
        finer = {node: hash((colours[node], tuple(sorted(found)))) for node, found in seen.items()}  # type: ignore[type-var]
        if len(set(finer.values())) == len(set(colours.values())):
            return finer
        colours = finer


def _match(
    left: list[tuple[Any, ...]],
    right: list[tuple[Any, ...]],
    of_left: Colours,
    of_right: Colours,
    trials: Iterator[int],
) -> bool:
    of_left, of_right = _refined(left, of_left), _refined(right, of_right)
    classes: dict[Hashable, tuple[list[BlankNode], list[BlankNode]]] = defaultdict(lambda: ([], []))
    for side, colours in enumerate((of_left, of_right)):
        for node, colour in colours.items():
            classes[colour][side].append(node)
    if any(len(ones) != len(others) for ones, others in classes.values()):
        return False
    doubtful = min((pair for pair in classes.values() if len(pair[0]) > 1), key=lambda pair: len(pair[0]), default=None)
    if doubtful is None:
        names = {ones[0]: others[0] for ones, others in classes.values()}
        return {_coloured(row, {a: str(b) for a, b in names.items()}) for row in left} == {
            _coloured(row, {node: str(node) for node in of_right}) for row in right
        }
    for other in doubtful[1]:
        assert next(trials, None) is not None, "too many nodes are alike"
        if _match(left, right, of_left | {doubtful[0][0]: "chosen"}, of_right | {other: "chosen"}, trials):
            return True
    return False
