"""Entities and completions into an rdflib Graph or Dataset: its triples are added to, none is taken away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import rdflib
from pyoxigraph import DefaultGraph

from kbdisk.entity import Completion, Entity
from kbdisk.errors import WriteError
from kbdisk.loaders.kb import KB, Report, origins_of
from kbdisk.loaders.rdf import fresh, graphs, writer
from kbdisk.loaders.rdf.base import RdfKB
from kbdisk.loaders.rdf.spelling import Terms

NAME = "<graph>"


def write(items: KB | Iterable[Entity | Completion], graph: rdflib.Graph, only_new: bool, in_place: bool) -> Report:
    """Add all that the items say, and where they are completions of a source in RDF, all of that source."""
    if not isinstance(graph, rdflib.Graph):
        raise WriteError(NAME, f"expected a path or an rdflib Graph, got a {type(graph).__name__}.")
    origins, completions, items = origins_of(items)
    report = Report()
    parts = [part for one in origins for part in one.parts]
    is_source = any(isinstance(part, graphs.RdfGraph) and part.graph_in is graph for part in parts)
    if is_source and len(parts) > 1:
        raise WriteError(NAME, "is one of several sources. Choose another target.")
    kb = origins[0] if len(origins) == 1 else None
    if is_source and not in_place:
        raise WriteError(NAME, "is the source itself. Say in_place=True to change it.")
    if isinstance(kb, RdfKB) and completions and (not only_new or is_source):
        given, new = writer.quads_of(kb, () if items is kb else cast(Iterable[Completion], items), report)
        quads = new if is_source or only_new else [*given, *new]
    else:
        made = fresh.new_of(items, report) if only_new else fresh.whole_of(items, report)
        quads = list(fresh.counted(made, report))
    prefixes = kb.prefixes if isinstance(kb, RdfKB) and not is_source else {}
    _add(graph, quads, prefixes)
    return report


def _add(graph: rdflib.Graph, quads: list[Any], prefixes: dict[str, str]) -> None:
    named = next((quad.graph_name for quad in quads if not isinstance(quad.graph_name, DefaultGraph)), None)
    if named is not None and not isinstance(graph, rdflib.Dataset):
        raise WriteError(
            NAME, f"expected the default graph, got {named}. Pass an rdflib Dataset, which has named graphs."
        )
    if unknown := next((quad.object for quad in quads if not graphs.is_known(quad.object)), None):
        raise WriteError(
            NAME,
            f"expected RDF 1.1, which is all that rdflib holds, got {Terms().term(unknown)}. Write a file instead.",
        )
    for prefix, iri in prefixes.items():
        graph.bind(prefix, iri, override=False)
    graphs.add(graph, quads)
