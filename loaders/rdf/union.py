"""Several sources of RDF as one: all that any of them says, each predicate called alike wherever it stands.

A blank node is that of one source alone. In the whole it has a label that tells which one's, n counting from 1:

    `_:x`      `_:sn.x`
    `_:[3]`    `_:snn3`     has no label there; `_:sng3` names a graph
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

from pyoxigraph import BlankNode, Quad, Triple

from kbdisk.entity import Path
from kbdisk.errors import ConfigError
from kbdisk.loaders.kb import KB, Options
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.blank_nodes import BlankNodes, renamed

MIXED = "trig"  # what sources of several formats are as a whole: it can say all that RDF can
GRAPH = "_:[graph "  # begins the id of a graph without a name


class Union(RdfKB):
    """Entities of several sources of RDF."""

    def __init__(self, parts: Sequence[KB]) -> None:
        formats = {one.format for one in parts}
        name = ", ".join(one.name for one in parts)
        super().__init__(name, formats.pop() if len(formats) == 1 else MIXED, _agreed(parts))
        self._parts = tuple(part for one in parts for part in one.parts)
        self._alone: dict[int, Mapping[str, str]] = {}  # by part
        self._own = [self._sharing(one) for one in self._parts if isinstance(one, RdfKB)]

    def _sharing(self, part: RdfKB) -> RdfKB:
        """The same source, which says here what is odd in it and what its predicates are called."""
        own = copy.copy(part)
        own.names, own.odd, own.skipped, own._skipped = self.names, self.odd, self.skipped, self._skipped
        return own

    @property
    def parts(self) -> Sequence[KB]:
        return self._parts

    def keeps_bytes(self, format: str) -> bool:
        return False

    def id_here(self, part: int, id: str) -> str:
        return f"_:{_label(part + 1, id)}" if id.startswith("_:") else id

    def path_here(self, part: int, path: Path) -> Path:
        iris, known = self._iris(part), self._known
        return tuple(known.get(iris.get(key, key), key) if isinstance(key, str) else key for key in path)

    def _iris(self, part: int) -> Mapping[str, str]:
        """The predicate of each key of a part that is read alone: elsewhere others may have taken its word."""
        if part not in self._alone:
            alone = cast(RdfKB, self._parts[part])
            with alone.again():
                deque(alone, maxlen=0)
            self._alone[part] = alone.names.iris
        return self._alone[part]

    @cached_property
    def _known(self) -> Mapping[str, str]:
        """What each predicate is called here."""
        with self.again():
            deque(self, maxlen=0)
        return {iri: key for key, iri in self.names.iris.items()}

    @property
    def is_completed(self) -> bool:
        return any(one.is_completed for one in self._own)

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        for number, one in enumerate(self._own, 1):
            one.observe(self._labelled(one, number, take))
            self.prefixes = {**one.prefixes, **self.prefixes}

    def observe_all(self, take: Callable[[Iterable[Any]], None]) -> None:
        for number, one in enumerate(self._own, 1):
            one.observe_all(self._labelled(one, number, take))

    def earlier(self) -> Iterator[Quad]:
        for number, one in enumerate(self._own, 1):
            yield from _Labelled(one.earlier(), one.blanks(), number)

    def _labelled(
        self, part: RdfKB, number: int, take: Callable[[Iterable[Any]], None]
    ) -> Callable[[Iterable[Any]], None]:
        """Takes the quads of a part, and hands them on."""
        blanks, before = part.blanks(), self.prefixes
        return lambda quads: take(_Labelled(quads, blanks, number, before))


class _Labelled(Iterable[Quad]):
    """The quads of a part with the labels that their blank nodes have in the whole."""

    def __init__(
        self, quads: Iterable[Quad], blanks: BlankNodes, number: int, before: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.quads, self.blanks, self.number = quads, blanks, number
        self.before = before  # prefixes of the parts before

    @property
    def prefixes(self) -> Mapping[str, str]:
        """What the whole's mean, as far as they are known by now: who reads what is written has no others."""
        return {**getattr(self.quads, "prefixes", {}), **self.before}

    def __iter__(self) -> Iterator[Quad]:
        for quad in self.quads:
            terms = quad.subject, quad.object, quad.graph_name
            if any(type(term) is BlankNode or type(term) is Triple for term in terms):
                subject, object, graph = renamed(terms[0], self._node), renamed(terms[1], self._node), terms[2]
                if type(graph) is BlankNode:
                    graph = BlankNode(_label(self.number, self.blanks.graph(graph.value)))
                quad = Quad(subject, quad.predicate, object, graph)
            yield quad

    def _node(self, node: BlankNode) -> BlankNode:
        return BlankNode(_label(self.number, self.blanks.id(node.value)))


def _agreed(parts: Sequence[KB]) -> Options:
    """How to read them, as those say that say something; ConfigError where two say otherwise."""
    said: dict[str, tuple[Any, str]] = {}
    for one in parts:
        for name in ("language", "classes", "units"):
            value = getattr(one.options, name)
            first, by = said.setdefault(name, (value, one.name)) if value != getattr(Options(), name) else (value, "")
            if value != first:
                what = f"expected {name} as for {by}, {first!r}, with which it is read as one; got {value!r}."
                raise ConfigError(one.name, f"{what} Load both alike.")
    return replace(parts[0].options, **{name: value for name, (value, _) in said.items()})


def _label(number: int, id: str) -> str:
    """What is `_:x` or `_:[3]` in a source."""
    if id.startswith(GRAPH):
        return f"s{number}g{id[len(GRAPH) : -1]}"
    return f"s{number}n{id[3:-1]}" if id.startswith("_:[") else f"s{number}.{id[2:]}"
