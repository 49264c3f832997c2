"""Entities of quads that are in memory already: the answers of an endpoint, a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyoxigraph import Quad, Triple

from kbdisk.loaders.kb import Options
from kbdisk.loaders.rdf.base import RdfKB


class Quads(RdfKB):
    """Entities of quads or triples that stand in memory."""

    def __init__(self, quads: Iterable[Any], name: str, options: Options) -> None:
        super().__init__(name, "quads", options)
        self.quads = [quad if isinstance(quad, Quad) else Quad(*_terms(quad)) for quad in quads]

    def observe(self, take: Callable[[Iterable[Any]], None]) -> None:
        take(self.quads)


def _terms(triple: Triple) -> tuple[Any, Any, Any]:
    return triple.subject, triple.predicate, triple.object
