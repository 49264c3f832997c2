"""A knowledge base: entities that can be read again and again, the options of reading, and the report of writing."""

from __future__ import annotations

import copy
import itertools
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from kbdisk.entity import Completion, Entity, Link, Path, Quantity, show, walk
from kbdisk.errors import KBDiskWarning, LoadError, WriteError
from kbdisk.loaders.files import Source
from kbdisk.loaders.replaced import ReplacedTexts, Was
from kbdisk.notebook import html_line, html_table

if TYPE_CHECKING:
    import networkx
    from pykeen.triples import TriplesFactory


# ---------------------------------------------------------------- options


# Cells and strings that stand for no value at all. "NA" is left out: among words it is Namibia, or sodium.
MISSING = frozenset({"", "nan", "NaN", "NAN", "null", "NULL", "None", "N/A", "n/a", "#N/A", "<NA>"})
# Missing, too, where all other cells of a column are numbers or truths.
MISSING_BESIDE_NUMBERS = frozenset({"NA", "na", "none", "-", "--", "?"})


@dataclass(frozen=True)
class Options:
    """How a source is to be read: frozen, so that a reader can be made again from it. Each format uses the options that concern it."""

    id: Path | None = None  # where an entity's id stands; None: a sensible default
    items: Path | None = None  # where the list of entities stands in a JSON document; None: found by its shape
    language: str = "en"  # wanted for labels
    base: str | None = None  # resolves relative IRIs in RDF
    context: Mapping[str, bytes] = field(default_factory=dict)  # JSON-LD contexts by their IRI, never fetched
    units: Mapping[Path, str] = field(default_factory=dict)  # bare numbers at these paths are quantities
    missing: frozenset[str] = MISSING  # of CSV, TSV cells and data frames
    encoding: str = "utf-8"  # of CSV and TSV
    skip_errors: bool = False
    classes: tuple[str, ...] = ()  # only entities of these classes; all where empty
    max_size: float | None = None  # bytes of a file unpacked, or of a response; None: limits of files.py, http.py
    redirects: bool = False  # whether an endpoint may send on to another host
    query: str | None = None  # of a SPARQL endpoint: a SELECT whose first variable names the entities


# ---------------------------------------------------------------- units


_NUMBERS = (int, float, Decimal)


class Units:
    """Units that the user gives to bare numbers: read as quantities, written as the bare numbers they were.

    A path here is its names alone: `cameras.aperture` is that of every camera. `unmet` are the paths without a number so far.
    """

    def __init__(self, units: Mapping[Path, str]) -> None:
        self.units = {_keys_of(path): unit for path, unit in units.items()}
        self.unmet = set(self.units)

    def measured(self, entity: Entity) -> Entity:
        """The entity with its bare numbers as quantities; the source stays as it was."""
        for names, unit in self.units.items():
            entity.tree = self._measured(entity.tree, names, names, unit)
        if entity.made:
            entity.made = {
                path: self._measured(value, (), _keys_of(path), self.units[_keys_of(path)])
                if _keys_of(path) in self.units
                else value
                for path, value in entity.made.items()
            }
        return entity

    def bare(
        self, items: Iterable[Entity | Completion], refused: list[tuple[str, Path, str]]
    ) -> Iterator[Entity | Completion]:
        """Completions whose quantities at these paths are bare numbers again; other units are refused."""
        for item in items:
            if not isinstance(item, Completion):
                yield item
                continue
            filled = dict(item.filled)
            for path, filled_value in item.filled.items():
                unit = self.units.get(_keys_of(path))
                if unit is None or not isinstance(filled_value.value, Quantity):
                    continue
                if filled_value.value.unit in (unit, None):
                    filled[path] = replace(filled_value, value=filled_value.value.value)
                else:
                    del filled[path]
                    reason = f"is in {filled_value.value.unit!r}, and the numbers of this property are in {unit!r}"
                    refused.append((item.entity.id, path, reason))
            yield Completion(item.entity, filled)

    def oddities(self) -> Iterator[str]:
        """A remark on each path without a number."""
        return (f"no number at {show(names)}, which was to have a unit" for names in sorted(self.unmet))

    def _measured(self, value: Any, rest: tuple[str, ...], names: tuple[str, ...], unit: str) -> Any:
        if isinstance(value, list):
            return [self._measured(item, rest, names, unit) for item in value]
        if rest:
            within = isinstance(value, dict) and rest[0] in value
            return {**value, rest[0]: self._measured(value[rest[0]], rest[1:], names, unit)} if within else value
        if type(value) in _NUMBERS:
            value = Quantity(value, unit)
        if isinstance(value, Quantity):  # some formats have units themselves
            self.unmet.discard(names)
        return value


def _keys_of(path: Path) -> tuple[str, ...]:
    return tuple(key for key in path if isinstance(key, str))


# ---------------------------------------------------------------- knowledge bases


GIVEN = "has a value already, and given values are never changed"
NOT_NOTED = "an older kbdisk did not note what stood there"  # why a filled value stays
IN_MEMORY = "<memory>"  # the name of a source without a file
MAX_PLACES_SHOWN = 5  # places kept for each oddity


class Oddities:
    """Oddities in the input, which was read all the same: the count of each oddity, and its first places."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.places: dict[str, list[str]] = {}
        self._at_end: dict[str, str] = {}  # of oddities with one warning after all is read: the first place

    def note(self, oddity: str, where: str, *, at_end: bool = False) -> None:
        """Count an oddity; the first of its kind is also a Python warning, or one with the count when all is read."""
        if at_end:
            self._at_end.setdefault(oddity, where)
        elif oddity not in self.counts:
            warnings.warn(f"{where}: {oddity}", KBDiskWarning, stacklevel=3)
        self.counts[oddity] = self.counts.get(oddity, 0) + 1
        places = self.places.setdefault(oddity, [])
        if len(places) < MAX_PLACES_SHOWN:
            places.append(where)

    def all_read(self) -> None:
        """Warn of the oddities that wait for the end."""
        for oddity, where in self._at_end.items():
            count = self.counts[oddity]
            warnings.warn(
                f"{where}: {oddity}{f' ({count:,} in all)' if count > 1 else ''}", KBDiskWarning, stacklevel=3
            )

    def clear(self) -> None:
        """Forget all oddities, as the source is read from its start again."""
        self.counts.clear()
        self.places.clear()
        self._at_end.clear()


Placeless: TypeAlias = tuple[str, Path, str]  # entity id, path, reason
Edit: TypeAlias = tuple[int, str, str]  # a place in the new document, in bytes; what stood there; what stands there now


class Retraction(NamedTuple):
    """Filled values that are to be taken out of an entity, each with the text that it replaced, where that was noted."""

    entity: Entity
    values: Mapping[Path, tuple[Any, Was | None]]


@dataclass
class Report:
    """The report of a writer: how many values it wrote, and which had no place in the target, each with the reason."""

    written: int = 0
    unwritable: list[Placeless] = field(default_factory=list)
    spelt: dict[tuple[str, Path], Any] = field(default_factory=dict)  # rounded values as they will be read
    was: ReplacedTexts = field(default_factory=ReplacedTexts)
    edits: list[Edit] = field(default_factory=list)  # of a document that takes all its values at once
    formulas: int = 0  # cells given by the source or a person that a spreadsheet would run
    before: str | None = None  # the copy of the source from before it was changed in place


@dataclass
class _Reading:
    """One reading of a source. `list(kb)` begins one and then asks for the length: that must not be a second one."""

    begun: bool = False
    ahead: deque[Entity] | None = None


MAX_BYTES_SHOWN = 1 << 22  # of a source that is read to show it in a notebook
MAX_ENTITIES_SHOWN = 10_000  # that are read for it
MAX_NAMES_SHOWN = 6  # properties of a class
NOT_SHOWN = "too large or remote to be read here: see kbdisk inspect"


class KB(ABC):
    """Entities of one source. Iterating reads it from its start; `len` and `kb["id"]` read it too.

    `odd` and `skipped` are the oddities and errors of the last complete reading; `hierarchy` is its class hierarchy
    (class -> its direct superclasses).
    """

    appends = False  # whether `splice` is the source's bytes and then `append`
    updates = False  # whether a SPARQL update can add to it
    joins = False  # whether it is RDF that can be joined with other RDF sources
    vocabulary_source: KB | None = None  # RDF read beside it, whose predicates it takes where it is written as RDF
    has_sets = False  # whether several values of a property are a set, in which none has a place of its own
    adds_beside = False  # whether another value can be stated beside a single one
    states_classes = False  # whether a further class of an entity can be written
    names_graphs = False  # whether its entities stand in named graphs

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
        """The sources that this one joins: itself, where it joins none."""
        return (self,)

    @property
    def path(self) -> FilePath | None:
        """The file that the source is, where it is one."""
        return self.source.path if self.source else None

    @property
    def is_quickly_read(self) -> bool:
        """Whether a notebook may read it to show it: it is small, and no other host is asked."""
        return self.source is None or self.source.size <= MAX_BYTES_SHOWN

    @property
    def files(self) -> list[FilePath]:
        """The files of all parts."""
        return [part.path for part in self.parts if part.path is not None]

    def refuse_changed(self) -> None:
        """LoadError where a file has changed since it was read."""
        for part in self.parts:
            if part.source is not None:
                part.source.refuse_changed()

    def id_here(self, part: int, id: str) -> str:
        """The id in this source of the entity with an id in a part; parts count from 0."""
        return id

    def path_here(self, part: int, path: Path) -> Path:
        """The path in this source for a path of an entity of a part that is read alone."""
        return path

    def path_named(self, path: Path) -> Path:
        """A path with keys in the place of predicates."""
        return path

    def contested(self) -> Mapping[str, str]:
        """key -> its predicate, of keys that may differ where the same data are read from another file."""
        return {}

    def keeps_bytes(self, format: str) -> bool:
        """Whether writing to this format keeps the source's own bytes: `splice` does it, if there is one."""
        return format == self.format and type(self).splice is not KB.splice

    def keeps(self, format: str) -> bool:
        """Whether writing to this format keeps all statements of the source: by `splice` or by `translate`."""
        return self.keeps_bytes(format)

    @abstractmethod
    def read(self) -> Iterator[Entity]:
        """The entities in the order of the source, each with `position` and `source` set."""

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        """Write the source's own bytes to the stream, with filled values where they belong."""
        raise WriteError(self.name, f"{self.format} cannot be written back. Write to another format.")

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        """Write the source's own bytes to the stream without some filled values; returns those that stay, and why.

        The inverse of `splice`.
        """
        raise WriteError(self.name, f"{self.format} cannot be written back. Take the values out by hand.")

    def append(self, completions: Iterable[Completion], stream: BinaryIO) -> Report:
        """Write the bytes that follow the source's own, where new values are only appended."""
        raise WriteError(self.name, f"{self.format} cannot be appended to. Write to another format.")

    def translate(self, completions: Iterable[Completion], stream: BinaryIO, format: str) -> Report:
        """Write all statements of the source in another format, with filled values."""
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
        """The entities with the units that the user gave."""
        units = Units(self.options.units)
        yield from map(units.measured, entities)
        for oddity in units.oddities():
            self.odd.note(oddity, self.name)

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

    def __repr__(self) -> str:
        """The name and the format; the number of entities if it is known without reading the source again."""
        count = "" if self._length is None else f", {self._length:,} entities"
        return f"<KB {self.name}: {self.format}{count}>"

    def _repr_html_(self) -> str:
        """The classes with their entities and properties. Of a remote or large source, which is not read for it, one line."""
        title = repr(self)[1:-1]
        if not all(part.is_quickly_read for part in self.parts):
            return html_line(f"{title}, {NOT_SHOWN}")
        copied = copy.copy(self)  # reading it leaves the errors and oddities of the latest reading as they are
        copied.odd, copied.skipped, copied._skipped, copied._reading = Oddities(), [], set(), None
        counts: dict[str, tuple[list[int], dict[str, None]]] = {}  # class -> entities, and names of properties
        try:
            with warnings.catch_warnings(action="ignore"):
                for entity in itertools.islice(copied, MAX_ENTITIES_SHOWN):
                    for name in entity.classes or ("",):
                        count, names = counts.setdefault(name, ([0], {}))
                        count[0] += 1
                        names.update(dict.fromkeys(key for key in entity.tree if key[:1] != "@"))
        except LoadError as error:
            return html_line(str(error))
        read = sum(count[0] for count, _ in counts.values())
        rows = [(name, f"{count[0]:,}", f"{len(names):,}", _listed(names)) for name, (count, names) in counts.items()]
        note = f"of the first {MAX_ENTITIES_SHOWN:,} entities" if read >= MAX_ENTITIES_SHOWN else ""
        return html_table(title, ("class", ">entities", ">properties", "such as"), rows, note)

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
        """Note an error and carry on where errors are to be skipped; else raise it."""
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

    def to_pykeen(self, completions: Iterable[Completion] = ()) -> TriplesFactory:
        """The links as a TriplesFactory of PyKEEN, with those that completions fill in. Links within parts are left out."""
        from kbdisk.loaders.triples import factory_of

        return factory_of(self, completions)


def _listed(names: Iterable[str]) -> str:
    """The first names of properties."""
    first = list(itertools.islice(names, MAX_NAMES_SHOWN + 1))
    return ", ".join(first[:MAX_NAMES_SHOWN]) + (", …" if len(first) > MAX_NAMES_SHOWN else "")


# ---------------------------------------------------------------- origins of items


LOAD_AS_ONE = "kbdisk.loaders.together([kbdisk.load(a), kbdisk.load(b)])"


def origins_of(
    items: KB | Iterable[Entity | Completion], mixed: bool = False
) -> tuple[tuple[KB, ...], bool, Iterable[Entity | Completion]]:
    """The sources of some items, whether the items are completions of these sources, and the items.

    A list has the sources of all its items. An iterator has the source of its first item, and all others must be of the
    same source unless they are `mixed`. Items with an entity of no source are no completions of a source.
    """
    if isinstance(items, KB):
        return (items,), True, items
    if not isinstance(items, list | tuple):
        remaining = iter(items)
        first = next(remaining, None)
        first_items = [] if first is None else [first]
        return (
            _sources_of(first_items),
            isinstance(first, Completion),
            _of_one_source(itertools.chain(first_items, remaining), mixed),
        )
    sources = _sources_of(items)
    completions = bool(items) and all(isinstance(item, Completion) and _entity_of(item).source for item in items)
    if sum(kb.joins for kb in sources) > 1:
        _refuse_same_labels(items)
    return sources, completions, sorted(items, key=_position_of) if completions and len(sources) == 1 else items


def _sources_of(items: Iterable[Entity | Completion]) -> tuple[KB, ...]:
    """The sources of items, each once."""
    every = (source for entity in map(_entity_of, items) for source in (entity.source, *entity.besides))
    return tuple({id(source): source for source in every if source is not None}.values())


def _refuse_same_labels(items: Iterable[Entity | Completion]) -> None:
    """WriteError where blank nodes of two sources have the same label, as they are not the same node."""
    source_of_label: dict[str, KB | None] = {}
    for entity in map(_entity_of, items):
        for label in (entity.id, *_node_ids(entity)):
            if label.startswith("_:") and source_of_label.setdefault(label, entity.source) is not entity.source:
                raise WriteError(
                    "items", f"blank nodes of several sources are called {label}. Read these as one: {LOAD_AS_ONE}."
                )


def _node_ids(entity: Entity) -> Iterator[str]:
    """The ids of nodes in an entity's tree."""
    pending: list[Any] = [entity.tree]
    while pending:
        part = pending.pop()
        if isinstance(part, Link):
            yield part.id
        elif isinstance(part, dict):
            yield str(part.get("@id", ""))
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)


def _of_one_source(items: Iterator[Entity | Completion], mixed: bool) -> Iterator[Entity | Completion]:
    """The items; WriteError for an item of another source than the first."""
    first: list[KB | None] = []
    for item in items:
        source = _entity_of(item).source
        if not mixed and ((first and source is not first[0]) or _entity_of(item).besides):
            raise WriteError("items", "expected entities of one source, got some of another. Pass them as a list.")
        first = first or [source]
        yield item


def _entity_of(item: Entity | Completion) -> Entity:
    return item.entity if isinstance(item, Completion) else item


def _position_of(item: Entity | Completion) -> int:
    return _entity_of(item).position
