"""Several RDF sources joined as one: the statements of all of them, with the same key for a predicate wherever it stands.

A blank node belongs to one source alone. In the union it has a label that names its source, n counting from 1:

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

MIXED_FORMAT = "trig"  # the format of a union of several formats: it can hold all of RDF
UNNAMED_GRAPH_PREFIX = "_:[graph "  # begins the id of a graph without a name


class Union(RdfKB):
    """Entities of several sources of RDF."""

    has_sets = True

    def __init__(self, parts: Sequence[KB]) -> None:
        formats = {kb.format for kb in parts}
        name = ", ".join(kb.name for kb in parts)
        super().__init__(name, formats.pop() if len(formats) == 1 else MIXED_FORMAT, _merge_options(parts))
        self._parts = tuple(part for kb in parts for part in kb.parts)
        self._keys_alone: dict[int, Mapping[str, str]] = {}  # by part
        self._sharing_parts = [self._share_with(kb) for kb in self._parts if isinstance(kb, RdfKB)]

    def _share_with(self, part: RdfKB) -> RdfKB:
        """A copy of a part that shares oddities, errors and keys of predicates with the union."""
        copy_of_part = copy.copy(part)
        copy_of_part.names, copy_of_part.odd, copy_of_part.skipped, copy_of_part._skipped = (
            self.names,
            self.odd,
            self.skipped,
            self._skipped,
        )
        return copy_of_part

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
        """The predicate of each key of a part that is read alone, which may differ from the union's."""
        if part not in self._keys_alone:
            alone = cast(RdfKB, self._parts[part])
            with alone.again():
                deque(alone, maxlen=0)
            self._keys_alone[part] = alone.names.iris
        return self._keys_alone[part]

    @cached_property
    def _known(self) -> Mapping[str, str]:
        """The key of each predicate in the union."""
        with self.again():
            deque(self, maxlen=0)
        return {iri: key for key, iri in self.names.iris.items()}

    @property
    def is_completed(self) -> bool:
        return any(part.is_completed for part in self._sharing_parts)

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        for number, part in enumerate(self._sharing_parts, 1):
            part.observe(self._labelled(part, number, take))
            self.prefixes = {**part.prefixes, **self.prefixes}

    def observe_all(self, take: Callable[[Iterable[Any]], None]) -> None:
        for number, part in enumerate(self._sharing_parts, 1):
            part.observe_all(self._labelled(part, number, take))

    def earlier(self) -> Iterator[Quad]:
        for number, part in enumerate(self._sharing_parts, 1):
            yield from _Labelled(part.earlier(), part.blanks(), number)

    def _labelled(
        self, part: RdfKB, number: int, take: Callable[[Iterable[Any]], None]
    ) -> Callable[[Iterable[Any]], None]:
        """The function that takes the quads of a part and hands them to `take` with labels of the union."""
        blanks, before = part.blanks(), self.prefixes
        return lambda quads: take(_Labelled(quads, blanks, number, before))


class _Labelled(Iterable[Quad]):
    """The quads of a part with the labels of their blank nodes in the union."""

    def __init__(
        self, quads: Iterable[Quad], blanks: BlankNodes, number: int, before: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.quads, self.blanks, self.number = quads, blanks, number
        self.before = before  # prefixes of the parts before

    @property
    def prefixes(self) -> Mapping[str, str]:
        """The prefixes of the union, as far as they are known by now."""
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


def _merge_options(parts: Sequence[KB]) -> Options:
    """The options of the union: those of the parts that set any; ConfigError where two parts differ."""
    values: dict[str, tuple[Any, str]] = {}
    for kb in parts:
        for name in ("language", "classes", "units"):
            value = getattr(kb.options, name)
            first, by = values.setdefault(name, (value, kb.name)) if value != getattr(Options(), name) else (value, "")
            if value != first:
                problem = f"expected {name} as for {by}, {first!r}, with which it is read as one; got {value!r}."
                raise ConfigError(kb.name, f"{problem} Load both alike.")
    return replace(parts[0].options, **{name: value for name, (value, _) in values.items()})


def _label(number: int, id: str) -> str:
    """The label in the union of `_:x` or `_:[3]` in a source."""
    if id.startswith(UNNAMED_GRAPH_PREFIX):
        return f"s{number}g{id[len(UNNAMED_GRAPH_PREFIX) : -1]}"
    return f"s{number}n{id[3:-1]}" if id.startswith("_:[") else f"s{number}.{id[2:]}"
