"""Large N-Triples and N-Quads files, entity by entity in little memory.

    plan       one quick pass over the subjects: where the file may be cut, and which subjects come back later
    parse      stretch by stretch, each complete in itself; lines of subjects that come back later are set aside
    scattered  the lines that were set aside, grouped by entity: in memory while they are few, else in a temporary database

A unit is the lines of one IRI subject with the blank nodes around them. A subject or blank node that occurs in two units
is scattered, and every unit that mentions it is set aside; so the remaining units are complete.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from kbdisk.loaders.rdf import syntax
from kbdisk.loaders.rdf.blank_nodes import blank_nodes
from kbdisk.loaders.rdf.fold import without_collection
from kbdisk.loaders.rdf.terms import TYPE, WIKIBASE
from kbdisk.loaders.rdf.value_nodes import BY_CLASS

if TYPE_CHECKING:
    from kbdisk.entity import Entity
    from kbdisk.loaders.files import Source
    from kbdisk.loaders.rdf.file import RdfFile


LARGE_FILE = 24 << 20  # bytes of text; a smaller file is grouped in memory
BLOCK_SIZE = 2 << 20
SAMPLE_SIZE = 2 << 20  # bytes that show what kind of file it is

IRI, BLANK_NODE = b"<_"
MAX_NAMES_AT_ONCE = 200_000  # names; more are looked at in so many portions
PORTIONS = 16
ESCAPE = re.compile(rb"\\u([0-9A-Fa-f]{4})|\\U(00[01][0-9A-Fa-f]{5})")
SUBJECT = re.compile(rb"\s*(<[^>]*>|_:[^\s<]+)")
BLANK = re.compile(rb'[ \t]*(?:<[^>]*>|_:[^\s<]+)[ \t]*(<[^>]*>)[ \t]*(_:[^\s<>"#]+?)\.?(?=[\s<#]|\Z)')
RUN = re.compile(rb"((<[^>\\\n]*+>).*+(?:\n\2.*+)*+\n*+|.++\n*+|\n++)")  # lines of one subject, if it is a plain IRI
NAME = re.compile(rb'_:[^\s<>"#()]++')  # of a blank node; in a literal, too: that does no harm here
QUOTING = b"<<("  # begins a triple term; in a literal, too: that does no harm here
CLASS = re.compile(rb"<%s>[ \t]*<([^>\n]*)>" % TYPE.encode())
_IRI_ALONE = re.compile(rb"[ \t]*<[^>\n]*>[ \t]*")
_STATEMENT_NODE = re.compile(rb"^[ \t]*<[^>\n]*>[ \t]*<[^>\n]*/prop/statement/", re.MULTILINE)
WIKIBASE_MARKS = (WIKIBASE.encode(), b"/prop/direct/P")  # by these, a Wikibase
_LONE_RETURN = re.compile(rb"\r(?!\n)")  # ends a line, too; a file with such lines is taken whole


@dataclass
class Plan:
    """The stretches of a file (their sizes in bytes), its scattered subjects, and the stretches that have some of these."""

    stretches: list[int] = field(default_factory=list)
    scattered: set[int] = field(default_factory=set)  # hashes
    mixed: set[int] = field(default_factory=set)  # the stretches that have some of them
    wikibase: bool = False


def is_streamed(kb: RdfFile) -> bool:
    """Whether a file is better streamed than grouped in memory."""
    large = kb.format in syntax.LINES and is_large(kb.source) and not kb.has_blocks
    return large and not _has_value_nodes(kb.source)


def is_large(source: Source) -> bool:
    """Whether the text is larger than memory should hold."""
    return source.size * (8 if source.compression else 1) > LARGE_FILE


def _has_value_nodes(source: Source) -> bool:
    """Whether statements or value nodes have IRIs, as in a full Wikibase, so that they may stand anywhere."""
    with source.open() as stream:
        text = stream.read(SAMPLE_SIZE)
    class_places = (match.start() for match in CLASS.finditer(text) if match[1].decode(errors="replace") in BY_CLASS)
    return (b"/prop/statement/" in text and _STATEMENT_NODE.search(text) is not None) or any(
        _has_iri(text, place) for place in class_places
    )


def _has_iri(text: bytes, place: int) -> bool:
    """Whether the text before a place in its line is the IRI of a subject."""
    return _IRI_ALONE.fullmatch(text, text.rfind(b"\n", 0, place) + 1, place) is not None


def entities_of(kb: RdfFile) -> Iterator[Entity]:
    """The entities of the file: first those of one unit, in order, then the scattered ones."""
    plan = kb.plan = kb.plan or plan_stretches(kb)
    kb.wikibase = plan.wikibase
    kb.streamed = True
    line = 0
    with kb.open() as bytes_in, ScatteredLines(kb) as scattered:
        for number, size in enumerate(plan.stretches):
            text = bytes_in.read(size)
            lines = text.count(b"\n")
            if kb.options.skip_errors:
                text = kb.without_faults(text, line)
            if number in plan.mixed:
                text = _set_scattered_aside(text, plan.scattered, scattered)
            with without_collection():
                trees = kb.new_trees()
                kb.parse_text(text, trees.add, line)
                folded = list(kb.fold(trees))
            line += lines
            yield from folded
        yield from scattered.entities()


def plan_stretches(kb: RdfFile) -> Plan:
    """The plan of a file, by a first pass."""
    plan = Plan()
    digests, units = array("q"), array("I")
    text = b""
    ends: list[int] = []  # the last unit of each stretch
    returns = False
    with kb.open() as bytes_in:
        while more := bytes_in.read(BLOCK_SIZE):
            text += more + bytes_in.readline()
            plan.wikibase = plan.wikibase or any(word in text for word in WIKIBASE_MARKS)
            returns = returns or (b"\r" in text and _LONE_RETURN.search(text) is not None)
            cut = _note_units(text, digests, units, is_last=False)
            if cut:
                plan.stretches.append(cut)
                ends.append(units[-1])
                text = text[cut:]
    _note_units(text, digests, units, is_last=True)
    plan.stretches.append(len(text))
    if returns:
        return Plan([sum(plan.stretches)], wikibase=plan.wikibase)
    plan.scattered, plan.mixed = _scattered_names(digests, units, ends)
    return plan


def _note_units(text: bytes, digests: array[int], unit_numbers: array[int], is_last: bool) -> int:
    """Note the units of some lines; returns where they end. Unless the text is the last, its last unit may go on."""
    unit = unit_numbers[-1] if unit_numbers else 0
    runs = RUN.findall(text)
    names = [subject for _, subject in runs]
    if all(names) and (b"_" not in text or b"_:" not in text):  # each unit is the lines of one plain IRI
        cut = len(text)
        if not is_last:
            names.pop()
            cut -= len(runs[-1][0])
        digests.extend(map(hash, names))
        unit_numbers.extend(range(unit + 1, unit + 1 + len(names)))
        return cut
    found_units = list(units(text, runs))
    if not is_last:
        found_units.pop()
    for _, _, within in found_units:
        unit += 1
        digests.extend(map(hash, within))
        unit_numbers.extend([unit] * len(within))
    return found_units[-1][1] if found_units else 0


def units(text: bytes, runs: list[tuple[bytes, bytes]] | None = None) -> Iterator[tuple[int, int, list[bytes]]]:
    """Where each unit of some whole lines begins and ends, and the subjects and blank nodes in it.

    Blank nodes that were not mentioned yet when they come belong to the IRI after them.
    """
    start = place = 0
    owner = b""
    names: list[bytes] = []
    early: list[bytes] = []  # names of the blank nodes that may belong to what follows
    begin = -1  # and where they do
    for run, subject in runs or RUN.findall(text):
        subject = subject or subject_of(run) or b"#"
        if subject[0] == IRI:
            if subject != owner:
                if owner:
                    cut = begin if begin >= 0 else place
                    yield start, cut, names
                    start, names = cut, early
                else:
                    names += early
                names.append(subject)
                owner, early, begin = subject, [], -1
            elif early:
                names += early
                early, begin = [], -1
        elif subject[0] == BLANK_NODE:
            if begin < 0 and subject not in names:
                begin = place
            (names if begin < 0 else early).append(subject)
        at = run.find(b"_:", 1)
        while at >= 0:
            name = NAME.match(run, at)
            if name is not None:
                (names if begin < 0 else early).append(name[0].rstrip(b"."))
            at = run.find(b"_:", at + 2)
        place += len(run)
    yield start, place, names + early


def _scattered_names(digests: array[int], units: array[int], ends: list[int]) -> tuple[set[int], set[int]]:
    """The digests that occur in two units, and the stretches with such units. `ends` has the last unit of each stretch but the last."""
    if len(digests) > MAX_NAMES_AT_ONCE:
        return _scattered_names_in_portions(digests, units, ends)
    first: dict[int, int] = {}
    scattered = {name for name, unit in zip(digests, units, strict=True) if first.setdefault(name, unit) != unit}
    touched = {unit for name, unit in zip(digests, units, strict=True) if name in scattered} if scattered else set()
    return scattered, {bisect_left(ends, unit) for unit in touched}


def _scattered_names_in_portions(digests: array[int], units: array[int], ends: list[int]) -> tuple[set[int], set[int]]:
    """The same in portions, in little memory."""
    import numpy as np

    every, unit = np.frombuffer(digests, np.int64), np.frombuffer(units, np.uint32)
    scattered: set[int] = set()
    mixed: set[int] = set()
    portion = every & (PORTIONS - 1)
    for number in range(PORTIONS):
        chosen = np.flatnonzero(portion == number)
        order = chosen[np.argsort(every[chosen], kind="stable")]
        names, where = every[order], unit[order]
        same = (names[1:] == names[:-1]) & (where[1:] != where[:-1])
        scattered.update(names[1:][same].tolist())
        mixed.update(np.searchsorted(ends, where[np.isin(names, names[1:][same])]).tolist())
    return scattered, mixed


def subject_of(line: bytes) -> bytes | None:
    """The subject that a line begins with; None for a blank line or a comment."""
    if line.startswith(b"<"):
        subject = line[: line.find(b">") + 1]
    else:
        match = SUBJECT.match(line)
        if match is None:
            return None
        subject = match[1]
    return unescaped(subject)


def unescaped(name: bytes) -> bytes:
    """An IRI without escapes, which are another spelling of the same."""
    return ESCAPE.sub(_character, name) if b"\\" in name else name


def _character(match: re.Match[bytes]) -> bytes:
    return chr(int(match[1] or match[2], 16)).encode("utf-8", "surrogatepass")


def _set_scattered_aside(text: bytes, scattered: set[int], lines_aside: ScatteredLines) -> bytes:
    """The text with its scattered units set aside; their lines stay, empty, so that line numbers hold."""
    kept_texts: list[bytes] = []
    for start, end, names in units(text):
        if scattered.isdisjoint(map(hash, names)):
            kept_texts.append(text[start:end])
        else:
            lines = text[start:end].split(b"\n")
            rows = [_line_of(line) for line in lines]
            lines_aside.add([row for row in rows if row is not None])
            kept_texts.append(b"\n".join(line if row is None else b"" for line, row in zip(lines, rows, strict=True)))
    return b"".join(kept_texts)


def _line_of(line: bytes) -> Line | None:
    subject = subject_of(line)
    if subject is None:
        return None
    if b"_:" not in line:
        return Line(subject, None, None, line)
    match = BLANK.match(line)
    if match:
        return Line(subject, unescaped(match[1]), match[2], line)
    return Line(subject, None, None, line, _quoted(line) if QUOTING in line else ())


def _quoted(line: bytes) -> tuple[bytes, ...]:
    """The blank nodes in the triple term of a line; none where it is no statement, which is reported on reading."""
    try:
        nodes = [node for quad in syntax.parser(line, "nquads", None) for node in blank_nodes(quad.object)]
    except SyntaxError:
        return ()
    return tuple(f"_:{node.value}".encode() for node in nodes)


# ---------------------------------------------------------------- scattered lines


MAX_BYTES_IN_MEMORY = 8 << 20  # bytes
ENTITIES_PER_BATCH = 2000  # entities grouped at a time


class Line(NamedTuple):
    """A line, its subject, its predicate and object where that is a blank node, and the blank nodes in its triple term."""

    subject: bytes
    predicate: bytes | None
    object: bytes | None
    text: bytes
    quoted: tuple[bytes, ...] = ()


class ScatteredLines:
    """Lines out of order, and the entities they make."""

    def __init__(self, kb: RdfFile) -> None:
        self.kb = kb
        self.rows: list[Line] = []
        self.size = 0
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.database: sqlite3.Connection | None = None

    def __enter__(self) -> ScatteredLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.database is not None:
            self.database.close()
        if self.folder is not None:
            self.folder.cleanup()

    def add(self, rows: list[Line]) -> None:
        """Set lines aside."""
        self.rows.extend(rows)
        self.size += sum(len(row.text) for row in rows)
        if self.size > MAX_BYTES_IN_MEMORY:
            self._store()

    def entities(self) -> Iterator[Entity]:
        """The entities that the lines make, once all lines have been added."""
        if self.database is None:
            if self.rows:
                yield from self._folded((row.text for row in self.rows), set())
            return
        self._store()
        yield from self._grouped(self.database)

    def _store(self) -> None:
        if self.database is None:
            self.folder = tempfile.TemporaryDirectory(prefix="kbdisk-")
            self.database = sqlite3.connect(Path(self.folder.name) / "aside.db", isolation_level=None)
            self.database.executescript("""
                PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16000; PRAGMA temp_store = FILE;
                CREATE TABLE line (subject BLOB, predicate BLOB, object BLOB, text BLOB);
                CREATE TABLE quoted (blank BLOB PRIMARY KEY) WITHOUT ROWID;
                CREATE TABLE done (blank BLOB PRIMARY KEY) WITHOUT ROWID;
            """)
        self.database.execute("BEGIN")
        self.database.executemany("INSERT INTO line VALUES (?, ?, ?, ?)", (row[:4] for row in self.rows))
        quoted = ([blank] for row in self.rows for blank in row.quoted)
        self.database.executemany("INSERT OR IGNORE INTO quoted VALUES (?)", quoted)
        self.database.execute("COMMIT")
        self.rows.clear()
        self.size = 0

    def _grouped(self, database: sqlite3.Connection) -> Iterator[Entity]:
        database.executescript("""
            CREATE INDEX by_subject ON line (subject);
            CREATE INDEX by_object ON line (object) WHERE object IS NOT NULL;
            CREATE TABLE mentions AS SELECT object AS blank, count(DISTINCT subject || predicate) AS n FROM line
                WHERE object IS NOT NULL GROUP BY object;
            CREATE UNIQUE INDEX by_blank ON mentions (blank);
            UPDATE mentions SET n = n + 1 WHERE blank IN (SELECT blank FROM quoted);
        """)
        things = "SELECT subject FROM line WHERE substr(subject, 1, 1) = x'3C' GROUP BY subject ORDER BY min(rowid)"
        blanks = (
            "SELECT subject FROM line WHERE substr(subject, 1, 1) <> x'3C' AND {} GROUP BY subject ORDER BY min(rowid)"
        )
        roots = blanks.format("coalesce((SELECT n FROM mentions WHERE blank = subject), 0) <> 1")
        for query in (things, roots):
            with closing(database.cursor()) as cursor:
                subjects = (row[0] for row in cursor.execute(query))
                while batch := list(itertools.islice(subjects, ENTITIES_PER_BATCH)):
                    yield from self._batch(database, batch)
        with closing(database.cursor()) as cursor:
            for (blank,) in cursor.execute(blanks.format("subject NOT IN (SELECT blank FROM done)")):
                if not database.execute("SELECT 1 FROM done WHERE blank = ?", [blank]).fetchone():
                    yield from self._batch(database, [_on_circle(database, blank)])

    def _batch(self, database: sqlite3.Connection, subjects: list[bytes]) -> Iterator[Entity]:
        """These subjects with the blank nodes that belong to them alone."""
        lines: list[bytes] = []
        shared: set[str] = set()
        seen = set(subjects)
        while subjects:
            following: list[bytes] = []
            for subject in subjects:
                for text, object in database.execute(
                    "SELECT text, object FROM line WHERE subject = ? ORDER BY rowid", [subject]
                ):
                    lines.append(text)
                    if object is None or object.decode() in shared:
                        continue
                    if database.execute("SELECT n FROM mentions WHERE blank = ?", [object]).fetchone()[0] > 1:
                        shared.add(object.decode())
                    elif object not in seen:
                        seen.add(object)
                        following.append(object)
            subjects = following
        blanks = [[name] for name in seen if name[:1] == b"_"]
        database.executemany("INSERT OR IGNORE INTO done VALUES (?)", blanks)
        yield from self._folded(lines, shared)

    def _folded(self, lines: Iterable[bytes], shared: set[str]) -> Iterator[Entity]:
        trees = self.kb.new_trees()
        self.kb.parse_text(b"\n".join(lines), trees.add, None)
        yield from self.kb.fold(trees, shared.__contains__)


def _on_circle(database: sqlite3.Connection, blank: bytes) -> bytes:
    """A node of the circle that a blank node hangs from, going from each to the one that mentions it."""
    seen: set[bytes] = set()
    while blank not in seen:
        seen.add(blank)
        blank = database.execute("SELECT subject FROM line WHERE object = ?", [blank]).fetchone()[0]
    return blank
