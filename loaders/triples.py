"""Triples of names: head, relation, tail. Files as CoDEx, FB15k-237 and PyKEEN have them, and PyKEEN's `TriplesFactory`.

    Q7604<TAB>P1412<TAB>Q188
    Q7604<TAB>P569<TAB>1707

A file is UTF-8, a triple a line, without a header and without quotes: a quote is a character of a name.

Reading. Each head is an entity, each relation a property. The tails are links: one link, or a list where a head has several
tails of a relation, in the order of the file. A tail that is no head is the target of links, and no entity, as in RDF. The
tails of a relation are numbers where each is a numeral and none is a head; where a head is a numeral, too, ids may be
numbers, and the relation needs a tail with decimals. The triples of a head may stand anywhere, so all are held in memory.

Writing. New triples are appended, and every given byte stays; taking them out removes their lines. Of a source in another
format links are written, and plain numbers.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from kbdisk.entity import Completion, Coordinate, Date, Entity, Known, Link, Path, Quantity, Text
from kbdisk.errors import KBDiskWarning, LoadError, WriteError
from kbdisk.loaders.files import Source
from kbdisk.loaders.kb import GIVEN, KB, Options, Placeless, Report, Retraction
from kbdisk.loaders.naming import ID_KEYS, NO_PROPERTY, no_properties
from kbdisk.schemas.text import numerals
from kbdisk.schemas.text.numerals import is_number
from kbdisk.styles.numbers import NUMBER

if TYPE_CHECKING:
    from pykeen.triples import TriplesFactory

FORMAT = "triples"
BOM = b"\xef\xbb\xbf"
NOT_IN_A_NAME = re.compile(r"[\t\n\r\0]")
WHOLE = re.compile(r"[ \t]*-?[0-9]+[ \t]*")
HEADERS = (  # in small letters, of each column
    frozenset({"head", "h", "subject", "subj", "s", "source", "from", "entity1", "head_id"}),
    frozenset({"relation", "rel", "r", "predicate", "pred", "p", "property", "type", "edge"}),
    frozenset({"tail", "t", "object", "obj", "o", "target", "to", "entity2", "tail_id"}),
)
REPEATED = "a triple that stands there already, read once"
HEADER_READ = "the first line looks like a header, and is read as a triple: take it out if it is a header"
MEND = "Mend the line, or leave it out with --skip-errors."
NO_LINE = "has no line of its own any more"
NO_CLASSES = "expected classes to choose entities by, but triples have none. Leave --class out."

Triple: TypeAlias = tuple[str, str, str]
Tails: TypeAlias = "str | dict[str, None]"  # one; or several, in order


def load(source: Source, format: str, options: Options) -> TriplesKB:
    """A knowledge base over a file of triples."""
    return TriplesKB(source, format, options)


def load_factory(factory: Any, options: Options) -> FactoryKB:
    """A knowledge base over a TriplesFactory of PyKEEN."""
    return FactoryKB(factory, options)


# ---------------------------------------------------------------- gathering triples


class Triples:
    """Triples by head and relation, and which relations have numbers for tails."""

    def __init__(self) -> None:
        self.heads: dict[str, dict[str, Tails]] = {}
        self.positions: dict[str, int] = {}  # of the first triple of each head
        self.relations: set[str] = set()
        self.worded: set[str] = set()  # relations with a tail that is no numeral
        self._names: dict[str, str] = {}  # each name once in memory

    def add(self, triple: Triple, position: int = 0) -> bool:
        """Add a triple; false where it is there already."""
        head, relation, tail = (self._names.setdefault(name, name) for name in triple)
        if head not in self.heads:
            self.heads[head] = {}
            self.positions[head] = position
        if relation not in self.worded:
            self.relations.add(relation)
            if not is_numeral(tail):
                self.worded.add(relation)
        by_relation = self.heads[head]
        tails = by_relation.get(relation)
        if tails is None:
            by_relation[relation] = tail
        elif tail in ((tails,) if isinstance(tails, str) else tails):
            return False
        elif isinstance(tails, str):
            by_relation[relation] = {tails: None, tail: None}
        else:
            tails[tail] = None
        return True

    def tails(self, head: str, relation: str) -> tuple[str, ...]:
        """The tails of a head by a relation, in order."""
        tails = self.heads.get(head, {}).get(relation, ())
        return (tails,) if isinstance(tails, str) else tuple(tails)

    @property
    def ids_may_be_numbers(self) -> bool:
        """Whether a head is a numeral."""
        return any(map(is_numeral, self.heads))

    def number_relations(self) -> set[str]:
        """The relations whose tails are numbers."""
        candidates = self.relations - self.worded
        if not candidates:
            return set()
        linking, with_decimals = set[str](), set[str]()
        for head, by_relation in self.heads.items():
            for relation in candidates.intersection(by_relation):
                tails = self.tails(head, relation)
                if not self.heads.keys().isdisjoint(tails):
                    linking.add(relation)
                if not all(map(WHOLE.fullmatch, tails)):
                    with_decimals.add(relation)
        numbers = candidates - linking
        return numbers & with_decimals if self.ids_may_be_numbers else numbers

    def entities(self, source: KB) -> Iterator[Entity]:
        """An entity for each head."""
        numbers = self.number_relations()
        for head, position in self.positions.items():
            tree = {relation: self._value(head, relation, relation in numbers) for relation in self.heads[head]}
            yield Entity(head, tree, position=position, source=source)

    def _value(self, head: str, relation: str, is_number_relation: bool) -> Any:
        tails = self.tails(head, relation)
        values = [numerals.number(tail.strip()) if is_number_relation else Link(tail) for tail in tails]
        return values[0] if len(values) == 1 else values


def is_numeral(name: str) -> bool:
    """Whether a name is spelt as a number."""
    return NUMBER.fullmatch(name) is not None


# ---------------------------------------------------------------- files


class TriplesKB(KB):
    """Entities from a file of triples."""

    appends = True
    has_sets = True
    adds_beside = True
    source: Source

    def __init__(self, source: Source, format: str, options: Options) -> None:
        super().__init__(source, format, options)
        if options.classes:
            raise LoadError(self.name, NO_CLASSES)

    def read(self) -> Iterator[Entity]:
        """One entity for each head, by the place of its first triple."""
        return self.gather().entities(self)

    def gather(self) -> Triples:
        """All triples of the file."""
        triples = Triples()
        with self.source.open() as stream:
            for line, raw in enumerate(stream, 1):
                try:
                    triple = triple_of(raw, self.name, line)
                except LoadError as error:
                    self.skip(error)
                    continue
                if line == 1 and all(name.lower() in names for name, names in zip(triple, HEADERS, strict=True)):
                    self.odd.note(HEADER_READ, f"{self.name}:{line}")
                if not triples.add(triple, line):
                    self.odd.note(REPEATED, f"{self.name}:{line}", at_end=True)
        return triples

    def splice(self, completions: Iterable[Completion], stream: BinaryIO, insert: bool = False) -> Report:
        """Write the file as it is, and the new triples after it."""
        with self.source.open() as bytes_in:
            shutil.copyfileobj(bytes_in, stream, 1 << 20)
        return self.append(completions, stream)

    def append(self, completions: Iterable[Completion], stream: BinaryIO) -> Report:
        """Write the new triples. A file without a line end after its last line stays so."""
        report = Report()
        new: NewTriples | None = None
        for completion in completions:
            if completion.filled:
                new = new or NewTriples(self, stream, report)
                new.write(completion)
        return report

    def line_ends(self) -> tuple[bytes, bool]:
        """The line end of the first line, and whether the last line has one."""
        with self.source.open() as stream:
            first = last = stream.readline()
            for raw in stream:
                last = raw
        return b"\r\n" if first.endswith(b"\r\n") else b"\n", last.endswith(b"\n")

    def restore(self, retractions: Iterable[Retraction], stream: BinaryIO) -> list[Placeless]:
        """Write the file without the lines of some filled values."""
        wanted = {
            (retraction.entity.id, str(path[0]), member): (retraction.entity.id, path)
            for retraction in retractions
            for path, (value, _) in retraction.values.items()
            for member in _members(value)
        }
        removed: dict[tuple[str, str, Any], int] = {}  # the last line of each
        count = 0
        with self.source.open() as bytes_in:
            for count, raw in enumerate(bytes_in, 1):
                for key in _keys_of_line(raw, self.name, count):
                    if key in wanted:
                        removed[key] = count
        lines = set(removed.values())
        with self.source.open() as bytes_in:
            waiting, last = b"", b""
            for number, raw in enumerate(bytes_in, 1):
                last = raw
                if number not in lines:
                    stream.write(waiting)
                    waiting = raw
            if count in lines and not last.endswith(b"\n"):  # so the line before it had no line end, either
                waiting = waiting.removesuffix(b"\n").removesuffix(b"\r")
            stream.write(waiting)
        return [(*place, NO_LINE) for key, place in wanted.items() if key not in removed]


def triple_of(raw: bytes, name: str, line: int) -> Triple:
    """The triple of a line; LoadError where it is none."""
    raw = (raw.removeprefix(BOM) if line == 1 else raw).removesuffix(b"\n").removesuffix(b"\r")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got the byte 0x{raw[error.start]:02X}. Convert the file first: iconv -t UTF-8"
        raise LoadError(name, problem, line) from None
    cells = text.split("\t")
    if len(cells) != 3:
        got = "a blank line" if not text.strip() else "one column" if len(cells) == 1 else f"{len(cells)} columns"
        raise LoadError(name, f"expected head, relation and tail between tabs, got {got}. {MEND}", line)
    if not all(map(str.strip, cells)):
        raise LoadError(name, f"expected head, relation and tail, got a blank one. {MEND}", line)
    head, relation, tail = cells
    if relation.startswith("@"):
        raise LoadError(name, f"expected a relation without @ at its start, got {relation!r}. Rename it.", line)
    if "\0" in text:
        raise LoadError(name, "expected text, got a NUL byte. Take it out.", line)
    return head, relation, tail


def _keys_of_line(raw: bytes, name: str, line: int) -> Iterator[tuple[str, str, Any]]:
    """The triples that a line may stand for, with the tail as a value; none of a line that is none."""
    try:
        head, relation, tail = triple_of(raw, name, line)
    except LoadError:
        return
    yield head, relation, Link(tail)
    if is_numeral(tail):
        yield head, relation, numerals.number(tail.strip())


# ---------------------------------------------------------------- recognising files

SUFFIXES = (".txt", ".tsv", ".tab")  # of files that may hold triples
SAMPLE_SIZE = 1 << 20  # bytes that are looked at
MIN_REPEATED_RELATION = 2  # further triples with the relation of the first
MIN_TRIPLES_PER_RELATION = 2


def is_certain(source: Source) -> bool:
    """Whether a file holds triples for certain, so that no table with a header is taken for one.

    All lines have three names. The names of the first line recur, each in its role, as those of a header do not. Some
    tails are heads, no relation is a head or a tail, and relations are few.
    """
    return _are_certain(_sampled_lines(source), source.name)


def has_weights(source: Source) -> bool:
    """Whether a file holds triples for certain, each with a number in a fourth column, as uncertain triples have."""
    rows = [line.rstrip(b"\r\n").split(b"\t") for line in _sampled_lines(source)]
    return all(len(row) == 4 and _is_number(row[3]) for row in rows) and _are_certain(
        [b"\t".join(row[:3]) for row in rows], source.name
    )


def _is_number(cell: bytes) -> bool:
    return is_numeral(cell.decode("ascii", "replace").strip())


def _sampled_lines(source: Source) -> list[bytes]:
    """The first lines of a file."""
    with source.open() as stream:
        sample = stream.read(SAMPLE_SIZE)
    lines = sample.splitlines(keepends=True)
    return lines[:-1] if len(sample) == SAMPLE_SIZE else lines  # the last one may go on


def _are_certain(lines: list[bytes], name: str) -> bool:
    try:
        triples = [triple_of(line, name, number) for number, line in enumerate(lines, 1)]
    except LoadError:
        return False
    others = [triple for triple in triples if triple != triples[0]]
    heads, relations, tails = ({triple[column] for triple in others} for column in range(3))
    head, relation, tail = triples[0] if triples else ("", "", "")
    entities = heads | tails
    return (
        sum(other[1] == relation for other in others) >= MIN_REPEATED_RELATION
        and {head, tail} <= entities
        and not heads.isdisjoint(tails)
        and relations.isdisjoint(entities)
        and len(relations) * MIN_TRIPLES_PER_RELATION <= len(triples)
    )


# ---------------------------------------------------------------- new triples


class NewTriples:
    """Filled values of a file of triples, as lines after it."""

    def __init__(self, kb: TriplesKB, stream: BinaryIO, report: Report) -> None:
        self.kb, self.stream, self.report = kb, stream, report
        self.triples = kb.gather()
        self.numbers = self.triples.number_relations()
        self.ids_may_be_numbers = self.triples.ids_may_be_numbers
        self.line_end, self.is_terminated = kb.line_ends()

    def write(self, completion: Completion) -> None:
        """Write the filled values of an entity; those without a place are reported."""
        head = completion.entity.id
        if head not in self.triples.heads:
            raise WriteError(self.kb.name, f"has no head {head!r} any more. Load it again: it has changed.")
        for path, filled in completion.filled.items():
            try:
                relation = self._relation(head, path)
                names = self._names(head, relation, new_members(filled.value))
            except ValueError as reason:
                self.report.unwritable.append((head, path, str(reason)))
                continue
            for name in names:
                self._write_line((head, relation, name))
            self.report.written += 1
            read = [self._value_read(relation, name) for name in names]
            value = read if isinstance(filled.value, list) and len(self.triples.tails(head, relation)) > 1 else read[0]
            if value != filled.value:
                self.report.spelt[head, path] = value

    def _write_line(self, triple: Triple) -> None:
        line = "\t".join(triple).encode()
        self.stream.write(line + self.line_end if self.is_terminated else self.line_end + line)
        self.triples.add(triple)

    def _relation(self, head: str, path: Path) -> str:
        """The relation at a path where a head may get a tail; ValueError elsewhere."""
        relation = relation_at(path)
        count = len(self.triples.tails(head, relation))
        if count and (len(path) == 1 or int(path[1]) < count):
            raise ValueError(GIVEN)
        return relation

    def _names(self, head: str, relation: str, values: list[Any]) -> list[str]:
        """Values as tails, each once."""
        if len(set(map(is_number, values))) > 1:
            raise ValueError("expected links alone or numbers alone, got both")
        return list(dict.fromkeys(self._name(head, relation, value) for value in values))

    def _name(self, head: str, relation: str, value: Any) -> str:
        """A value as a tail; ValueError where it would not be read back as a link, or as a number."""
        name = name_of(Link(value) if isinstance(value, str) else value)
        is_link = not is_number(value)
        if name in self.triples.tails(head, relation):
            raise ValueError("this triple stands there already")
        if relation in self.triples.relations and is_link is (relation in self.numbers):
            expected = "a number" if is_link else "a link"
            raise ValueError(f"expected {expected} as the other tails of the relation, got {value!r}")
        if self._is_read_as_link(relation, name) is not is_link:
            raise ValueError(f"{name!r} would be read as a {'number' if is_link else 'link'}")
        if not is_link:
            self.numbers.add(relation)
        return name

    def _is_read_as_link(self, relation: str, name: str) -> bool:
        """Whether a new tail of a relation is read as a link."""
        if relation in self.triples.worded or not is_numeral(name) or name in self.triples.heads:
            return True
        if relation in self.numbers:
            return False
        return self.ids_may_be_numbers and WHOLE.fullmatch(name) is not None

    def _value_read(self, relation: str, name: str) -> Any:
        return numerals.number(name) if relation in self.numbers else Link(name)


def relation_at(path: Path) -> str:
    """The relation at a path; ValueError for the path of a part."""
    if not isinstance(path[0], str) or len(path) > 2 or (len(path) == 2 and not isinstance(path[1], int)):
        raise ValueError("a triple has no place for a part of a value")
    if path[0].startswith("@") or not path[0].strip() or NOT_IN_A_NAME.search(path[0]):
        raise ValueError(f"{path[0]!r} cannot be the name of a relation in a file of triples")
    return path[0]


def name_of(value: Any) -> str:
    """A link or a plain number as a name; ValueError for other values."""
    if not isinstance(value, Link) and not is_number(value):
        raise ValueError(f"a triple has no place for {_words(type(value))}, only for links and plain numbers")
    name = value.id if isinstance(value, Link) else numerals.show(value)
    if not name.strip() or NOT_IN_A_NAME.search(name):
        raise ValueError(f"{name!r} cannot be a name in a file of triples")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name!r} cannot be written as UTF-8") from None
    return name


def new_members(value: Any) -> list[Any]:
    """The members of a filled value; ValueError where there are none."""
    if value == []:
        raise ValueError("there is nothing to write")
    return _members(value)


def _members(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# ---------------------------------------------------------------- other sources as triples

LEFT_OUT = "links and plain numbers are written, and the rest is left out"
WORDS = {
    str: "texts",
    Text: "texts",
    bool: "truths",
    Date: "dates",
    Quantity: "quantities",
    Coordinate: "coordinates",
    dict: "parts",
    list: "lists within lists",
    Known: "values known to be unknown or none",
}
NOTHING = "expected some links or plain numbers, got none: nothing is written. Choose another format."


def write(items: Iterable[Entity | Completion], stream: BinaryIO, format: str, only_new: bool) -> Report:
    """Write the links and the plain numbers of entities, then of each what was filled in."""
    report, left_out, count = Report(), Counter[str](), 0
    for item in items:
        entity = item.entity if isinstance(item, Completion) else item
        triples: dict[Triple, None] = {}
        if not only_new:
            left_out["classes"] += len(entity.classes)
            report.unwritable += ((entity.id, path, NO_PROPERTY) for path in no_properties(entity.tree))
            triples |= dict.fromkeys(_given_triples(entity, report, left_out))
        if isinstance(item, Completion):
            triples |= dict.fromkeys(_filled_triples(item, report))
        stream.write("".join("\t".join(triple) + "\n" for triple in triples).encode())
        count += len(triples)
    if left_out := +left_out:
        listed = ", ".join(f"{word} ({number:,})" for word, number in left_out.items())
        warnings.warn(f"{format}: {LEFT_OUT}: {listed}", KBDiskWarning, stacklevel=2)
    if not count and not only_new:
        raise WriteError(format, NOTHING)
    return report


def _given_triples(entity: Entity, report: Report, left_out: Counter[str]) -> Iterator[Triple]:
    """The triples of an entity. Values of kinds that triples do not have are counted."""
    for key, value in entity.tree.items():
        for member in _members(value):
            if member is None or key.startswith("@") or (key in ID_KEYS and str(member) == entity.id):
                continue
            if not isinstance(member, Link) and not is_number(member):
                left_out[_words(type(member))] += 1
                continue
            try:
                yield name_of(Link(entity.id)), relation_at((key,)), name_of(member)
            except ValueError as error:
                report.unwritable.append((entity.id, (key,), str(error)))


def _filled_triples(completion: Completion, report: Report) -> Iterator[Triple]:
    """The triples of the values that were filled in an entity; of a file of triples a text is the name of a tail."""
    entity = completion.entity
    has_names = getattr(entity.source, "format", "") == FORMAT
    for path, filled in completion.filled.items():
        try:
            members = new_members(filled.value)
            members = [Link(member) if has_names and isinstance(member, str) else member for member in members]
            triples = [(name_of(Link(entity.id)), relation_at(path), name_of(member)) for member in members]
        except ValueError as error:
            report.unwritable.append((entity.id, path, str(error)))
            continue
        report.written += 1
        yield from triples


def _words(kind: type) -> str:
    return WORDS.get(kind, f"{kind.__name__} values")


# ---------------------------------------------------------------- PyKEEN

FACTORY_NAME = "<triples>"


class FactoryKB(KB):
    """Entities from a TriplesFactory of PyKEEN. It is recognised by its attributes, and PyKEEN is not imported."""

    has_sets = True
    adds_beside = True

    def __init__(self, factory: Any, options: Options) -> None:
        super().__init__(FACTORY_NAME, "memory", options)
        if options.classes:
            raise LoadError(self.name, NO_CLASSES)
        self.factory = factory

    def read(self) -> Iterator[Entity]:
        """One entity for each head."""
        triples = Triples()
        entities, relations = self.factory.entity_id_to_label, self.factory.relation_id_to_label
        number = 0
        for number, (head, relation, tail) in enumerate(self.factory.mapped_triples.tolist(), 1):
            triple = str(entities[head]), str(relations[relation]), str(entities[tail])
            if triple[1].startswith("@"):
                place, problem = f"{self.name}, triple {number}", "expected a relation without @ at its start"
                self.skip(LoadError(place, f"{problem}, got {triple[1]!r}. Rename it."))
                continue
            triples.add(triple, number)
        if number == 0:
            raise LoadError(self.name, "expected some triples, got none.")
        return triples.entities(self)


def factory_of(kb: KB, completions: Iterable[Completion] = ()) -> TriplesFactory:
    """The links of a knowledge base, and those that completions fill in, as a TriplesFactory of PyKEEN."""
    try:
        import numpy
        from pykeen.triples import TriplesFactory
    except ImportError:
        raise WriteError("pykeen", "is not installed. Run: pip install pykeen") from None
    filled = (
        (completion.entity.id, path, value.value)
        for completion in completions
        for path, value in completion.filled.items()
    )
    given = ((entity.id, (key,), value) for entity in kb for key, value in entity.tree.items())
    links = {
        (id, str(path[0]), member.id): None
        for id, path, value in chain(given, filled)
        for member in _members(value)
        if isinstance(member, Link) and len(path) <= 2
    }
    if not links:
        raise WriteError(kb.name, "expected some links, got none.")
    return TriplesFactory.from_labeled_triples(numpy.array(list(links), dtype=str))
