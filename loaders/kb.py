"""A knowledge base: entities that can be read again and again, and what was odd on the way."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from kbdisk.entity import Completion, Entity, Link, Path, walk
from kbdisk.errors import KBDiskWarning, LoadError, WriteError
from kbdisk.loaders.options import Options
from kbdisk.loaders.source import Source
from kbdisk.loaders.units import Units

if TYPE_CHECKING:
    import networkx

GIVEN = "has a value already, and given values are never changed"
SHOWN = 5  # places kept for each oddity


class Oddities:
    """What was odd in the input and read all the same: how often, and the first places."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.places: dict[str, list[str]] = {}
        self._at_end: dict[str, str] = {}  # of what the warning comes when all is read: the first place

    def note(self, what: str, where: str, *, at_end: bool = False) -> None:
        """Count one; the first of its kind is also a Python warning, or one with the count when all is read."""
        if at_end:
            self._at_end.setdefault(what, where)
        elif what not in self.counts:
            warnings.warn(f"{where}: {what}", KBDiskWarning, stacklevel=3)
        self.counts[what] = self.counts.get(what, 0) + 1
        places = self.places.setdefault(what, [])
        if len(places) < SHOWN:
            places.append(where)

    def all_read(self) -> None:
        """Warn of what was counted until now."""
        for what, where in self._at_end.items():
            count = self.counts[what]
            warnings.warn(f"{where}: {what}{f' ({count:,} in all)' if count > 1 else ''}", KBDiskWarning, stacklevel=3)

    def clear(self) -> None:
        """Forget all: the source is read from its start again."""
        self.counts.clear()
        self.places.clear()
        self._at_end.clear()


Placeless: TypeAlias = tuple[str, Path, str]  # entity id, path, reason
Was: TypeAlias = dict[str, Any]  # a path as text -> the text that stood there before a value was put, None for nothing
Edit: TypeAlias = tuple[int, str, str]  # a place in the new document, in bytes; what stood there; what stands there now


class Retraction(NamedTuple):
    """Values that are to be taken out of an entity again, each with what its row tells of what stood there, if it does."""

    entity: Entity
    values: Mapping[Path, tuple[Any, Was | None]]


@dataclass
class Report:
    """What a writer did: how many values it wrote, and which had no place in the target, each with the reason."""

    written: int = 0
    unwritable: list[Placeless] = field(default_factory=list)
    spelt: dict[tuple[str, Path], Any] = field(default_factory=dict)  # what is read of values that had to be rounded
    was: dict[tuple[str, Path], Was] = field(default_factory=dict)  # what stood where values were put
    edits: list[Edit] = field(default_factory=list)  # of a document that takes all of its values at once
    formulas: int = 0  # cells of a table that are given, or told by a person, and that a spreadsheet would run
    before: str | None = None  # where the source is kept as it was, if it was changed in place


@dataclass
class _Reading:
    """One reading of a source. `list(kb)` begins one and then asks for the length: that must not be a second one."""

    begun: bool = False
    ahead: deque[Entity] | None = None


class KB(ABC):
    """Entities of one source. Iterating reads it from its start; `len` and `kb["id"]` read it too.

    `odd` and `skipped` tell what the last whole reading met; `hierarchy` is the class hierarchy it
    found (class -> its direct superclasses).
    """

    appends = False  # whether `splice` is the source's bytes and then `append`
    updates = False  # whether a SPARQL update can add to it
    joins = False  # whether it is RDF of which all can be had, to be put together with others
    words: KB | None = None  # RDF that it is read together with, in whose words it is said in RDF
    names_graphs = False  # whether what was read of it stands in named graphs

    def __init__(self, origin: Source | str, format: str, options: Options) -> None:
        self.source = origin if isinstance(origin, Source) else None
        self.name = self.source.name if self.source else str(origin)
        self.format = format
        self.options = options
        self.odd = Oddities()
        self.skipped: list[LoadError] = []
        self._skipped: set[str] = set()
        self.hierarchy: dict[str, set[str]] = {}
        self._length: int | None = None
        self._reading: _Reading | None = None  # the latest

    @property
    def parts(self) -> Sequence[KB]:
        """The sources that it is made of: itself, where it is no whole of several."""
        return (self,)

    @property
    def path(self) -> FilePath | None:
        """The file it is read from, where it is one."""
        return self.source.path if self.source else None

    @property
    def files(self) -> list[FilePath]:
        """The files it is read from."""
        return [one.path for one in self.parts if one.path is not None]

    def refuse_changed(self) -> None:
        """LoadError where a file is no longer what was read: what was made of it may not fit."""
        for one in self.parts:
            if one.source is not None:
                one.source.refuse_changed()

    def id_here(self, part: int, id: str) -> str:
        """The id here of what has this id in a part, the first being 0."""
        return id

    def path_here(self, part: int, path: Path) -> Path:
        """Where that stands here which stands at a path in an entity of a part that is read alone."""
        return path

    def path_named(self, path: Path) -> Path:
        """A path in which whole predicates may stand for their keys, by these."""
        return path

    def contested(self) -> Mapping[str, str]:
        """key -> its predicate, of keys that need not be called alike where the same is read from another file."""
        return {}

    def keeps_bytes(self, format: str) -> bool:
        """Whether writing to this format keeps the source's own bytes: `splice` does it."""
        return format == self.format

    def keeps(self, format: str) -> bool:
        """Whether writing to this format keeps all that the source says: `splice` does it, or `translate`."""
        return self.keeps_bytes(format)

    @abstractmethod
    def read(self) -> Iterator[Entity]:
        """The entities in the order of the source, each with `position` and `source` set."""

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        """Write the source's own bytes to the stream, with what was filled in where it belongs."""
        raise WriteError(self.name, f"{self.format} cannot be written back. Write to another format.")

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        """Write the source's own bytes to the stream without values that were filled in; returns those that stay, and why.

        The inverse of `splice`.
        """
        raise WriteError(self.name, f"{self.format} cannot be written back. Take the values out by hand.")

    def append(self, completions: Iterable[Completion], stream: BinaryIO) -> Report:
        """Write what stands after the source's own bytes, where that is all there is to add."""
        raise WriteError(self.name, f"{self.format} cannot be appended to. Write to another format.")

    def translate(self, completions: Iterable[Completion], stream: BinaryIO, format: str) -> Report:
        """Write all that the source says in another format, with what was filled in."""
        raise WriteError(self.name, f"{self.format} cannot be written as {format} as a whole. Write its entities.")

    def __iter__(self) -> Iterator[Entity]:
        self._reading = _Reading()
        return self._one_reading(self._reading)

    def _one_reading(self, reading: _Reading) -> Iterator[Entity]:
        reading.begun = True
        if reading.ahead is None:
            self._forget()
        entities = self.read() if reading.ahead is None else reading.ahead
        yield from self._measured(entities) if self.options.units else entities
        self.odd.all_read()

    def _measured(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """The entities with the units that the user told."""
        units = Units(self.options.units)
        yield from map(units.measured, entities)
        for what in units.oddities():
            self.odd.note(what, self.name)

    def __len__(self) -> int:
        if self._length is None:
            reading = self._reading
            if reading is None or reading.begun:
                self._length = sum(1 for _ in self)
            else:
                self._forget()
                reading.ahead = deque(self.read())
                self._length = len(reading.ahead)
        return self._length

    def _forget(self) -> None:
        """The source is read from its start again."""
        self.odd.clear()
        self.skipped.clear()
        self._skipped.clear()

    def __bool__(self) -> bool:
        return True  # a knowledge base is not its length, and asking for it would read the file

    def __contains__(self, id: object) -> bool:
        return any(entity.id == id for entity in self)

    def __getitem__(self, id: str) -> Entity:
        for entity in self:
            if entity.id == id:
                return entity
        raise KeyError(f"{self.name} has no entity {id!r}")

    def skip(self, error: LoadError) -> None:
        """Carry on after an error where that was asked for; else raise it."""
        if not self.options.skip_errors:
            raise error
        if str(error) not in self._skipped:  # a source may be gone through twice
            self._skipped.add(str(error))
            self.skipped.append(error)

    def graph(self) -> networkx.MultiDiGraph[str]:
        """The links between entities: an edge for each, its key the path as a tuple of names."""
        import networkx

        graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
        for entity in self:
            graph.add_node(entity.id, classes=entity.classes, label=entity.label, entity=True)
            for path, value in walk(entity.tree):
                if type(value) is Link:
                    names = tuple(key for key in path if isinstance(key, str))
                    graph.add_edge(entity.id, value.id, key=names)
        return graph
