"""What is in memory already: a list of dicts or of entities, a pandas frame, an Arrow stream, an rdflib graph.

Values may be Python's, numpy's or pandas'; None, NaN, NaT and NA are gaps that are asked for. What is given
is never changed. Nothing heavy is imported to find out what a thing is: whoever made it has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbdisk.entity import Entity, Tree
from kbdisk.errors import LoadError
from kbdisk.loaders.arrow import ArrowKB
from kbdisk.loaders.frame import frame, load_frame
from kbdisk.loaders.kb import KB, Options
from kbdisk.loaders.naming import UNNAMED, Naming, classes_of, label_of
from kbdisk.loaders.python import tree_of

if TYPE_CHECKING:
    import pyarrow

__all__ = ["frame", "load"]

NAME = "<memory>"
KINDS = "a file's name, bytes, a list of dicts or entities, a pandas frame, an Arrow stream or an rdflib graph"


def load(source: Any, options: Options) -> KB:
    """A knowledge base over something in memory."""
    if _is(source, "rdflib", "Graph"):
        from kbdisk.loaders.rdf import load_graph

        return load_graph(source, options)
    if _is(source, "pandas", "DataFrame"):
        return load_frame(source, options)
    if hasattr(source, "__arrow_c_stream__"):
        return _load_arrow(source, options)
    if isinstance(source, Iterator):
        raise LoadError(NAME, "expected what can be read again, got a generator. Pass a list of it.")
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        return ListKB(source, options)
    raise LoadError(NAME, f"expected {KINDS}, got a {type(source).__name__}.")


class ListKB(KB):
    """Entities from dicts, or that are entities already."""

    def __init__(self, items: Iterable[Any], options: Options) -> None:
        super().__init__(NAME, "memory", options)
        self.items = items

    def read(self) -> Iterator[Entity]:
        """One entity for each item."""
        naming = Naming(self.options.id)
        position = 0
        for position, item in enumerate(self.items, 1):
            try:
                entity = self._entity(item, position, naming)
            except ValueError as error:
                self.skip(LoadError(f"{self.name}, item {position}", str(error)))
                continue
            if not self.options.classes or not set(self.options.classes).isdisjoint(entity.classes):
                yield entity
        if position == 0:
            raise LoadError(self.name, "expected some entities, got none.")

    def _entity(self, item: Any, position: int, naming: Naming) -> Entity:
        if isinstance(item, Entity):
            return replace(item, position=position, source=self)
        if not isinstance(item, Mapping):
            raise ValueError(f"expected a dict or an entity, got a {type(item).__name__}.")
        tree: Tree = tree_of(item, lambda what: self.odd.note(what, f"{self.name}, item {position}"))
        naming.settle(tree)
        id = naming.id_of(tree)
        if id is None and naming.key is not None:
            self.odd.note(UNNAMED, f"{self.name}, item {position}")
        own, classes, label = id or str(position), classes_of(tree), label_of(tree)
        return Entity(own, tree, classes, label, position=position, source=self, nameless=not id)


class StreamKB(ArrowKB):
    """Entities from an Arrow table in memory."""

    def __init__(self, table: pyarrow.Table, options: Options) -> None:
        self.table = table
        super().__init__(NAME, "memory", options, table.schema)

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The table's rows in batches."""
        yield from self.table.to_batches(4096)

    def column(self, number: int) -> Iterator[pyarrow.ChunkedArray]:
        """The cells of one column."""
        yield self.table.column(number)


def _load_arrow(source: Any, options: Options) -> KB:
    try:
        import pyarrow as pa
    except ImportError:
        raise LoadError(NAME, "an Arrow stream needs pyarrow. Run: pip install 'kbdisk[parquet]'") from None
    try:
        table = pa.table(source)
    except pa.ArrowException as error:
        raise LoadError(NAME, f"expected an Arrow stream of rows, got something else: {error}") from error
    if not len(table):
        raise LoadError(NAME, "expected some rows, got none.")
    return StreamKB(table, options)


def _is(source: Any, module: str, kind: str) -> bool:
    """Whether it is of a kind whose module would be there if it was."""
    return module in sys.modules and isinstance(source, getattr(sys.modules[module], kind))
