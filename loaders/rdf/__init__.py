"""RDF: files of every syntax, rdflib graphs, and completions back to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from kbdisk.entity import Completion, Entity
from kbdisk.errors import LoadError
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import KB, Options, Report

if TYPE_CHECKING:
    import rdflib


def load(source: Source, format: str, options: Options) -> KB:
    """A knowledge base over an RDF file."""
    from kbdisk.loaders.rdf.file import RdfFile
    from kbdisk.loaders.rdf.syntax import FORMATS

    if format not in FORMATS:
        raise LoadError(
            source.name,
            f"expected a knowledge base, got {format}, which is only written. Load what it was written from.",
        )
    return RdfFile(source, format, options)


def load_graph(graph: rdflib.Graph, options: Options) -> KB:
    """A knowledge base over an rdflib Graph or Dataset."""
    from kbdisk.loaders.rdf.graph import RdfGraph

    return RdfGraph(graph, options)


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Serialise entities, or only the values filled in them."""
    from kbdisk.loaders.rdf import serialise

    return serialise.serialise(items, stream, format, only_new)


def write_graph(
    items: KB | Iterable[Entity | Completion], graph: rdflib.Graph, only_new: bool, in_place: bool
) -> Report:
    """Add the statements of entities or completions to an rdflib Graph or Dataset."""
    from kbdisk.loaders.rdf.graph import write_graph as write_into

    return write_into(items, graph, only_new, in_place)
